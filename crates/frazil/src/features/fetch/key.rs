//! The argument of a load: a key, or a value that a key can be made of.

use std::borrow::Cow;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use equivalent::Equivalent;

/// A value from which a load can make the key to insert: anything that is [`Equivalent`] to the
/// key.
///
/// Implemented for keys that can be cloned, and for the borrowed forms of strings, slices and
/// paths, such as `str` for `String`, `Arc<str>` and `Box<str>`. Implement it for your own types.
/// On a miss a load makes two keys: one for the callers that wait, and one for the entry.
///
/// ```
/// use frazil::{Cache, Equivalent, ToKey};
/// use std::sync::Arc;
///
/// let names: Cache<Arc<str>, usize> = Cache::builder(100).build();
/// assert_eq!(names.get_or_insert_with("four", || 4), 4);
///
/// #[derive(Hash)]
/// struct Row<'q>(&'q str, u64);
/// impl Equivalent<(String, u64)> for Row<'_> {
///     fn equivalent(&self, key: &(String, u64)) -> bool {
///         self.0 == key.0 && self.1 == key.1
///     }
/// }
/// impl ToKey<(String, u64)> for Row<'_> {
///     fn to_key(&self) -> (String, u64) {
///         (self.0.to_owned(), self.1)
///     }
/// }
/// let rows: Cache<(String, u64), u64> = Cache::builder(100).build();
/// assert_eq!(rows.get_or_insert_with(&Row("users", 7), || 70), 70);
/// ```
pub trait ToKey<K>: Equivalent<K> {
    /// The key, equivalent to this and of the same hash.
    fn to_key(&self) -> K;
}

impl<K: Clone + Eq> ToKey<K> for K {
    fn to_key(&self) -> K {
        self.clone()
    }
}

// One by one: an implementation for all that can be owned would leave no room for `Arc<str>`.
macro_rules! to_key {
    ($($borrowed:ty, $owned:ty;)*) => {$(
        impl ToKey<$owned> for $borrowed {
            fn to_key(&self) -> $owned {
                self.to_owned()
            }
        }

        to_key!(@from $borrowed, Arc<$borrowed>, Rc<$borrowed>, Box<$borrowed>);
    )*};
    (@from $borrowed:ty, $($key:ty),*) => {$(
        impl ToKey<$key> for $borrowed {
            fn to_key(&self) -> $key {
                self.into()
            }
        }
    )*};
}

to_key! {
    str, String;
    Path, PathBuf;
    OsStr, OsString;
    CStr, CString;
}

impl<'k> ToKey<Cow<'k, str>> for str {
    fn to_key(&self) -> Cow<'k, str> {
        Cow::Owned(self.to_owned())
    }
}

impl<T: Clone + Eq> ToKey<Vec<T>> for [T] {
    fn to_key(&self) -> Vec<T> {
        self.to_vec()
    }
}

impl<T: Clone + Eq> ToKey<Arc<[T]>> for [T] {
    fn to_key(&self) -> Arc<[T]> {
        self.into()
    }
}

impl<T: Clone + Eq> ToKey<Rc<[T]>> for [T] {
    fn to_key(&self) -> Rc<[T]> {
        self.into()
    }
}

impl<T: Clone + Eq> ToKey<Box<[T]>> for [T] {
    fn to_key(&self) -> Box<[T]> {
        self.into()
    }
}

/// How an [`Entry`](crate::Entry) has its key: [`ByValue`] or [`ByRef`].
///
/// ```
/// use frazil::{Cache, Entry, EntryKey};
/// use std::hash::BuildHasher;
/// fn load<S: BuildHasher, A: EntryKey<String>>(entry: Entry<'_, String, u64, S, A>) -> u64 {
///     entry.or_insert_with(|| 1)
/// }
/// let cache: Cache<String, u64> = Cache::builder(100).build();
/// assert_eq!(load(cache.entry("one".to_owned())) + load(cache.entry_by_ref("one")), 2);
/// ```
pub trait EntryKey<K>: sealed::Sealed {
    /// The form for look-ups.
    type Query: Hash + Equivalent<K> + ?Sized;

    /// The form for look-ups.
    fn query(&self) -> &Self::Query;

    /// A key, made or cloned.
    fn copy(&self) -> K;

    /// The key, which is made only if there is none.
    fn into_key(self) -> K;
}

mod sealed {
    pub trait Sealed {}
    impl<K> Sealed for super::ByValue<K> {}
    impl<Q: ?Sized> Sealed for super::ByRef<'_, Q> {}
}

/// A key that the caller gives away: [`Cache::entry`](crate::Cache::entry).
///
/// ```
/// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
/// let entry: frazil::Entry<'_, u64, u64, _, frazil::ByValue<u64>> = cache.entry(1);
/// # entry.or_insert(1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ByValue<K>(pub(crate) K);

/// The source of a key, made only if necessary:
/// [`Cache::entry_by_ref`](crate::Cache::entry_by_ref).
///
/// ```
/// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
/// let entry: frazil::Entry<'_, _, u64, _, frazil::ByRef<'_, str>> = cache.entry_by_ref("one");
/// # entry.or_insert(1);
/// ```
#[derive(Debug)]
pub struct ByRef<'q, Q: ?Sized>(pub(crate) &'q Q);

impl<K: Hash + Eq + Clone> EntryKey<K> for ByValue<K> {
    type Query = K;

    fn query(&self) -> &K {
        &self.0
    }

    fn copy(&self) -> K {
        self.0.clone()
    }

    fn into_key(self) -> K {
        self.0
    }
}

impl<K, Q: Hash + ToKey<K> + ?Sized> EntryKey<K> for ByRef<'_, Q> {
    type Query = Q;

    fn query(&self) -> &Q {
        self.0
    }

    fn copy(&self) -> K {
        self.0.to_key()
    }

    fn into_key(self) -> K {
        self.0.to_key()
    }
}
