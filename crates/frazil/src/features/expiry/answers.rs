//! Lifetimes that a read or an update decides, and lifetimes shortened by jitter.
//!
//! Caches without such settings do not run this code. If reads decide lifetimes, each hit calls the
//! user's function, so each hit reads the deadline and the clock, whatever the hint.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use super::Answer;
use super::deadlines::{Deadlines, Term};
use crate::clock::{END, nanoseconds};
use crate::core::index::mix;
use crate::features::Featured;

/// The largest share by which lifetimes are shortened, in units of 2^-32.
pub(super) struct Jitter(u64);

impl Jitter {
    /// For a share from 0 to 1.
    pub(super) fn new(share: f64) -> Self {
        Jitter((share * 2f64.powi(32)) as u64)
    }

    /// A lifetime in nanoseconds, shortened by the random number `chance`.
    fn shorten(&self, lifetime: u64, chance: u64) -> u64 {
        let share = (self.0 * (chance >> 32)) >> 32;
        let cut = (u128::from(lifetime) * u128::from(share)) >> 32;
        // A lifetime above 0 stays above 0.
        (lifetime - cut as u64).max(lifetime.min(1))
    }
}

/// An entry that is about to be replaced.
struct Old {
    /// The end of its lifetime, 0 if it has none.
    end: u64,
    /// Its remaining lifetime, if it is used now.
    left: Option<Duration>,
}

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    /// Deadline of an entry restored from a file, with its remaining lifetime there. If it had
    /// none, the builder's settings decide.
    pub(crate) fn term_restored(&self, key: &K, value: &V, lifetime: Option<Duration>) -> Term {
        match lifetime {
            None => self.term(key, value),
            Some(lifetime) => self.term_of(self.deadlines_made(), nanoseconds(lifetime)),
        }
    }

    /// Deadline of a new entry that replaces another; `None` if there is none.
    pub(super) fn term_of_update(
        &self,
        deadlines: &Deadlines,
        of_update: &Answer<K, V>,
        key: &K,
        value: &V,
    ) -> Option<Term> {
        let now = self.clock.exact();
        let old = self.look_up(self.hashes(key).1, key, |slot| self.old(deadlines, slot, now))?;
        let answer = of_update(key, value, old.left);
        if answer != old.left {
            let lifetime = self.jittered(key, answer.map_or(END, nanoseconds));
            return Some(self.term_of(deadlines, lifetime));
        }
        Some(deadlines.term_until(now, old.end))
    }

    fn old(&self, deadlines: &Deadlines, slot: u32, now: u64) -> Old {
        let end = deadlines.limit(slot);
        let left = (end != 0).then(|| end.saturating_sub(now).max(1));
        let left = left.into_iter().chain(self.hooks.expiry.to_idle).min();
        Old { end, left: left.map(Duration::from_nanos) }
    }

    /// Whether the entry in a protected slot, which is being read, has expired. If not, calls the
    /// user's function for its new lifetime.
    #[inline(never)]
    pub(super) fn is_outlived_when_read(
        &self,
        deadlines: &Deadlines,
        of_read: &Answer<K, V>,
        slot: u32,
    ) -> bool {
        let Some(seen) = deadlines.see(slot, &self.clock) else { return true };
        let left = seen.left();
        // SAFETY: published, and the caller protects it.
        let (key, value) = unsafe { (self.slab.key(slot), self.slab.value(slot)) };
        let answer = of_read(key, value, left);
        let lifetime = (answer != left).then(|| answer.map_or(END, nanoseconds));
        deadlines.answer(slot, seen, lifetime);
        false
    }

    /// A lifetime, shortened at random if the builder has a jitter. The random number depends on
    /// key and time: entries inserted together do not expire together, nor in caches with the same
    /// keys.
    #[inline(always)]
    pub(super) fn jittered(&self, key: &K, lifetime: u64) -> u64 {
        match self.hooks.expiry.jitter {
            Jitter(0) => lifetime,
            _ => self.shortened(key, lifetime),
        }
    }

    #[cold]
    #[inline(never)]
    fn shortened(&self, key: &K, lifetime: u64) -> u64 {
        if lifetime == END {
            return lifetime;
        }
        let chance = mix(self.hasher.hash_one(key)) ^ mix(self.clock.exact());
        // Poor hashes differ in few bits, and a user's clock may return the same time every time.
        self.hooks.expiry.jitter.shorten(lifetime, mix(chance ^ chance >> 29))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_shortened_by_the_share_at_most_and_evenly() {
        const LIFETIME: u64 = 1_000_000_000_000;
        let jitter = Jitter::new(0.1);
        assert_eq!(jitter.shorten(LIFETIME, 0), LIFETIME);
        let shortest = jitter.shorten(LIFETIME, u64::MAX);
        assert!(shortest.abs_diff(LIFETIME / 10 * 9) < 1_000, "{shortest}");
        assert_eq!(jitter.shorten(LIFETIME, u64::MAX / 2).abs_diff(LIFETIME / 100 * 95) / 1_000, 0);
        let all = Jitter::new(1.0);
        assert_eq!(
            (all.shorten(5, u64::MAX), all.shorten(1, u64::MAX), all.shorten(0, 7)),
            (1, 1, 0)
        );
        assert!(all.shorten(END - 1, u64::MAX) < END / 1_000_000);
    }
}
