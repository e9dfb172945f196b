//! The interface of a cache to the loop: look up, insert, remove.
//!
//! Keys are 64-bit numbers. The engine chooses the type of values; a session makes them from their
//! keys, and a look-up returns a number read *out of* the value, so that neither the compiler nor a
//! lazy engine can skip reading it. The loop is compiled anew for each engine, without calls
//! through a pointer.

/// A cache for many threads.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
/// use frazil_driver::{Engine, Session, Shared};
///
/// /// Keeps everything.
/// #[derive(Default)]
/// struct Map(Mutex<HashMap<u64, u64>>);
///
/// impl Shared for Map {
///     fn get(&self, key: u64) -> Option<u64> { self.0.lock().unwrap().get(&key).copied() }
///     fn insert(&self, key: u64) { self.0.lock().unwrap().insert(key, key); }
///     fn remove(&self, key: u64) { self.0.lock().unwrap().remove(&key); }
/// }
///
/// impl Engine for Map {
///     type Session<'a> = &'a Map;
///     fn session(&self) -> &Map { self }
/// }
///
/// let map = Map::default();
/// let mut session = map.session();
/// session.insert(7);
/// assert_eq!((session.get(7), session.get(8)), (Some(7), None));
/// ```
pub trait Engine: Sync {
    /// One thread's access to the cache: a reference, or more if the cache has an object that
    /// serves many look-ups of one thread.
    type Session<'a>: Session
    where
        Self: 'a;

    /// A session for the calling thread, which keeps it for the whole run.
    fn session(&self) -> Self::Session<'_>;

    /// Called once the cache is warm, while the threads continue. Its work is not measured.
    fn warmed(&self) {}
}

/// One thread's view of a cache.
pub trait Session {
    /// Looks a key up, and returns a number read out of its value.
    fn get(&mut self, key: u64) -> Option<u64>;

    /// Inserts or replaces.
    fn insert(&mut self, key: u64);

    /// Removes the key if it is there.
    fn remove(&mut self, key: u64);

    /// Whether the engine sends the next get to the backend instead.
    #[inline]
    fn bypasses(&mut self) -> bool {
        false
    }

    /// Called between batches of operations, so that nothing is held for the whole run.
    #[inline]
    fn rest(&mut self) {}
}

/// A cache whose threads need no state: a reference to it is a session.
pub trait Shared: Sync {
    /// As [`Session::get`].
    fn get(&self, key: u64) -> Option<u64>;

    /// As [`Session::insert`].
    fn insert(&self, key: u64);

    /// As [`Session::remove`].
    fn remove(&self, key: u64);

    /// As [`Session::bypasses`].
    #[inline]
    fn bypasses(&self) -> bool {
        false
    }
}

impl<E: Shared> Session for &E {
    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        E::get(self, key)
    }

    #[inline]
    fn insert(&mut self, key: u64) {
        E::insert(self, key);
    }

    #[inline]
    fn remove(&mut self, key: u64) {
        E::remove(self, key);
    }

    #[inline]
    fn bypasses(&mut self) -> bool {
        E::bypasses(self)
    }
}
