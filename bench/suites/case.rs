//! Tests of other caches, and their ports to ours.

/// A test of another cache, with its name there.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) port: Port,
}

/// The port of a test to our cache.
#[derive(Clone, Copy)]
pub(crate) enum Port {
    /// The same scenario, with the same expectations.
    Same(fn()),
    /// As `Same`, but it fails for a reason explained in docs/moving.md.
    Argued(fn(), &'static str),
    /// It can't be expressed: our cache cannot have the tested behaviour.
    Apart(&'static str),
    /// It tests internals that users of that cache can't see.
    Private(&'static str),
}

/// The tests of one part of another cache.
pub(crate) struct Suite {
    pub(crate) rival: &'static str,
    /// The file of its tests, in the published crate.
    pub(crate) file: &'static str,
    pub(crate) cases: Vec<Case>,
}

/// A count of our cache, of any type.
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
