//! Observed operations: for recordings, and for learning which share to freeze.

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;

use crate::features::Featured;
use crate::features::record::Event;

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    /// An observed get, done by `get`, which is given the key's hash. One of many gets at once is
    /// not `timed`.
    // Hashes once more, so that the others need not keep the hash.
    #[cold]
    #[inline(never)]
    pub(crate) fn observed<Q, R>(
        &self,
        key: &Q,
        timed: bool,
        get: impl FnOnce(u64) -> Option<R>,
    ) -> Option<R>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let (hash, mixed) = self.hashes(key);
        let recorder = &self.hooks.recorder;
        let weight = recorder.records(hash).then(|| self.weight_of(mixed, key));
        let look = if timed { self.begin_look() } else { self.begin_look_untimed() };
        let value = get(hash);
        if let Some(look) = look {
            look.end(hash, value.is_some(), || self.look_up(mixed, key, |slot| slot));
        }
        if let Some(weight) = weight {
            let event = if value.is_some() { Event::Hit } else { Event::Miss };
            recorder.note(hash, event, weight);
        }
        value
    }
}
