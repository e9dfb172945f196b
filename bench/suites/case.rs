//! What becomes of a test of another cache.

/// A test of another cache, by its name there.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) port: Port,
}

/// How it is asked of ours.
#[derive(Clone, Copy)]
pub(crate) enum Port {
    /// By the same scenario, with the same expectations.
    Same(fn()),
    /// As `Same`, and it fails for a reason that docs/moving.md argues.
    Argued(fn(), &'static str),
    /// It can't be expressed: what it asks of a cache is no behaviour that ours could have.
    Apart(&'static str),
    /// It looks at what users of that cache can't see.
    Private(&'static str),
}

/// The tests of one part of another cache.
pub(crate) struct Suite {
    pub(crate) rival: &'static str,
    /// The file of its tests, in the published crate.
    pub(crate) file: &'static str,
    pub(crate) cases: Vec<Case>,
}

/// A count of ours, whatever its type.
pub(crate) fn number(count: impl TryInto<u64>) -> u64 {
    count.try_into().unwrap_or_else(|_| panic!("a count beyond 64 bits"))
}

/// A case by its port and its name; then the function that runs it, unless it has that name, and
/// why it fails.
macro_rules! case {
    ($port:ident $name:ident) => {
        $crate::case::Case { name: stringify!($name), port: $crate::case::Port::$port($name) }
    };
    ($port:ident $name:ident, $work:expr) => {
        $crate::case::Case { name: stringify!($name), port: $crate::case::Port::$port($work) }
    };
    ($port:ident $name:ident, $work:expr, $why:expr) => {
        $crate::case::Case { name: stringify!($name), port: $crate::case::Port::$port($work, $why) }
    };
}
pub(crate) use case;
