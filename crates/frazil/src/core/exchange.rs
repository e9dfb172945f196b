//! Insertions and removals that happen only if the key's entry is still the one found.
//!
//! The entry found stays protected from its look-up to the exchange of its word, so the word cannot
//! have changed and changed back: a successful exchange follows directly on what was read. An
//! absent key has no word to exchange. A thread that admits one has the key's turn, and an
//! insertion since then overtakes it.

use std::hash::{BuildHasher, Hash};

use crate::core::hooks::{Hooks, Operation};
use crate::core::index::Mixed;
use crate::core::insert::{FailureKind, InsertFailure};
use crate::core::order::Newcomer;
use crate::core::{ATTEMPTS, Core, Ending, Found};
use crate::smr::protect::{Hazard, Protect};
use crate::smr::stripe::add;

impl<K: Hash + Eq, V, S: BuildHasher, H: Hooks<K, V>> Core<K, V, S, H> {
    /// Whether a key that was found absent is present by now.
    fn has_come(&self, mixed: Mixed, key: &K) -> bool {
        let reader = &self.stripe().reader;
        match Hazard::of(reader) {
            Some(hazard) => self.find_living(&hazard, mixed, key).is_some(),
            None => self.find_living(&self.pinned(), mixed, key).is_some(),
        }
    }

    /// Replaces the entry `found`, which the caller protects, by an entry of this hash and weight
    /// that the policy does not know yet, or adds it if there was none. False if the key has
    /// changed. An entry that is not admitted counts as admitted and evicted.
    ///
    /// Reclaims only if it must, and calls the listener only if it must reclaim. Otherwise the
    /// caller does both, once no thread waits for it.
    pub(crate) fn exchange(
        &self,
        mixed: Mixed,
        (newcomer, incoming): (Newcomer, &H::Incoming),
        found: Option<Found<'_>>,
        (mut key, mut value): (K, V),
        operation: &mut H::Operation<'_, S>,
    ) -> bool {
        let (hash, weight) = (newcomer.hash, newcomer.weight);
        // The thread that inserted it may have checked for flights before this one began.
        if found.is_none() && self.has_come(mixed, &key) {
            return false;
        }
        self.order.read_clock(self);
        H::arrived(self, hash, weight, incoming);
        if self.is_too_heavy(weight) {
            self.order.pass_over(self, hash, weight);
            return self.refuse_exchange(mixed, found, (key, value), operation);
        }
        let mut held = self.hold();
        if found.is_none() {
            newcomer.recalled.set(self.order.recall(&held, hash, H::priority(incoming)));
        }
        let mut scavenged = 0;
        for _ in 0..ATTEMPTS {
            // The table may have been replaced since it was found.
            let found = found.map(|found| self.found_as_it_is(mixed, found));
            let outcome = self.attempt(&mut held, mixed, (&newcomer, incoming), found, key, value);
            self.settle(&mut held);
            let Err(failure) = outcome else { return true };
            // The key and value may be dropped from here on.
            drop(held);
            InsertFailure { key, value, .. } = failure;
            match failure.cause {
                FailureKind::Changed => {
                    self.order.forget(&newcomer);
                    return false;
                }
                FailureKind::Shortage => {
                    operation.pause();
                    let relieved = self.relieve(&mut scavenged);
                    operation.resume();
                    if !relieved {
                        break;
                    }
                    held = self.hold();
                }
                FailureKind::Refused(_) | FailureKind::Held => break,
            }
        }
        self.order.forget(&newcomer);
        self.refuse_exchange(mixed, found, (key, value), operation)
    }

    /// Counts a refusal, which the caller reports, and removes the entry to replace. False if that
    /// has changed.
    #[cold]
    fn refuse_exchange(
        &self,
        mixed: Mixed,
        found: Option<Found<'_>>,
        (key, value): (K, V),
        operation: &mut H::Operation<'_, S>,
    ) -> bool {
        let replaced = Ending::Outdated;
        if found.is_some_and(|found| !self.take_out_found(mixed, found, &key, replaced)) {
            return false;
        }
        operation.refuse(key, value);
        let held = self.hold();
        add(&held.local().counts.refusals, 1);
        true
    }

    /// Removes the entry that a look-up found, if it is still present. The caller protects it.
    pub(crate) fn remove_found(&self, mixed: Mixed, found: Found<'_>, key: &K) -> bool {
        let _operation = H::operation(self);
        self.take_out_found(mixed, found, key, Ending::Removed)
    }

    /// Finds a key and calls `work` with the entry, which is protected meanwhile.
    pub(crate) fn with_found<R>(
        &self,
        mixed: Mixed,
        key: &K,
        work: impl FnOnce(Option<Found<'_>>) -> R,
    ) -> R {
        let reader = &self.stripe().reader;
        match Hazard::of(reader) {
            Some(hazard) => self.with_found_under(&hazard, mixed, key, work),
            None => self.with_found_under(&self.pinned(), mixed, key, work),
        }
    }

    fn with_found_under<R>(
        &self,
        protection: &impl Protect,
        mixed: Mixed,
        key: &K,
        work: impl FnOnce(Option<Found<'_>>) -> R,
    ) -> R {
        work(self.find_living(protection, mixed, key))
    }
}
