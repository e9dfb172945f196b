//! Entries that a policy under a lock has set aside: its hottest, which it must not evict.
//!
//! The thread that sets entries aside walks the order, hottest first, a batch of places at a time
//! under the lock. From then on no thread reports hits of those places to the policy: the headers
//! of their slots show it without the lock. Removals of them are reported as such. During the walk
//! no hit is reported, so nothing moves to where the walk has been.

use frazil_policy::Slot;

use super::any_policy::AnyPolicy;

/// Replacements that are noted. With more a thaw checks each place under the lock: 2 ms for a
/// million.
#[cfg(feature = "freezing")]
const REPLACEMENTS_MAX: usize = 1 << 16;

/// The entries that a shard has set aside.
#[derive(Default)]
pub(super) struct SetAside {
    /// Whether the walk is under way.
    pub(super) walking: bool,
    /// Whether a walk has begun since everything was returned.
    #[cfg(feature = "freezing")]
    pub(super) used: bool,
    /// The next place of the walk.
    pub(super) cursor: Option<Slot>,
    /// The walk of a policy that keeps no order, the hottest last.
    listed: Vec<Slot>,
    /// A bit for each place.
    places: Vec<u64>,
    /// Slots that have replaced some, as long as they are few.
    #[cfg(feature = "freezing")]
    replacements: Vec<u32>,
    /// Their weight, as reported to the policy.
    pub(super) weight: u64,
}

/// The hottest, or the successor of a place in the walk.
fn colder(policy: &mut dyn AnyPolicy, place: Option<Slot>) -> Option<Slot> {
    policy.hot_first().and_then(|hot_first| hot_first.next(place))
}

impl SetAside {
    /// Whether a place is set aside.
    #[inline]
    pub(super) fn has(&self, place: Slot) -> bool {
        self.places.get(place.index() / 64).is_some_and(|word| word >> (place.0 % 64) & 1 != 0)
    }

    /// How many places are set aside.
    #[cfg(feature = "freezing")]
    pub(super) fn count(&self) -> u64 {
        self.places.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The members of `slots`, by place, that are set aside.
    #[cfg(feature = "freezing")]
    pub(super) fn slots(&self, slots: &[u32]) -> Vec<u32> {
        let aside = (0..).zip(slots).filter(|&(place, _)| self.has(Slot(place)));
        aside.map(|(_, &slot)| slot).collect()
    }

    /// A slot takes the place of one that is set aside.
    #[cfg(feature = "freezing")]
    pub(super) fn replace(&mut self, slot: u32) {
        if self.replacements.len() < REPLACEMENTS_MAX {
            self.replacements.push(slot);
        }
    }

    /// The slots that have replaced some: all that are set aside, of `slots` by place, if they were
    /// too many to note.
    #[cfg(feature = "freezing")]
    pub(super) fn replacements(&mut self, slots: &[u32]) -> Vec<u32> {
        match std::mem::take(&mut self.replacements) {
            noted if noted.len() < REPLACEMENTS_MAX => noted,
            _ => self.slots(slots),
        }
    }

    /// Whether hits of a place are hidden from the policy.
    #[inline]
    pub(super) fn hides(&self, place: Slot) -> bool {
        self.walking || self.has(place)
    }

    /// Begins the walk; through `listed`, the hottest last, where the policy keeps no order.
    #[cfg(feature = "freezing")]
    pub(super) fn begin(&mut self, policy: &mut dyn AnyPolicy, listed: Vec<Slot>) {
        self.walking = true;
        self.used = true;
        self.listed = listed;
        self.cursor = colder(policy, None);
    }

    /// The next place, to be set aside now. `is_seated` tells whether a listed one is still there.
    #[cfg(feature = "freezing")]
    pub(super) fn next(
        &mut self,
        policy: &mut dyn AnyPolicy,
        is_seated: impl Fn(Slot) -> bool,
    ) -> Option<Slot> {
        if let Some(place) = self.cursor {
            self.pass(policy, place);
            return Some(place);
        }
        while let Some(place) = self.listed.pop() {
            if is_seated(place) && !self.has(place) {
                return Some(place);
            }
        }
        None
    }

    /// Advances the walk if it is at a place that is about to leave.
    #[inline]
    pub(super) fn pass(&mut self, policy: &mut dyn AnyPolicy, place: Slot) {
        if self.cursor == Some(place) {
            self.cursor = colder(policy, Some(place));
        }
    }

    /// The walk's next place if its current one is evicted.
    pub(super) fn after_cursor(&self, policy: &mut dyn AnyPolicy) -> Option<Slot> {
        self.cursor.and_then(|place| colder(policy, Some(place)))
    }

    /// Notes a place that was set aside.
    #[cfg(feature = "freezing")]
    pub(super) fn add(&mut self, place: Slot, weight: u64) {
        let word = place.index() / 64;
        if self.places.len() <= word {
            self.places.resize(word + 1, 0);
        }
        self.places[word] |= 1 << (place.0 % 64);
        self.weight += weight;
    }

    /// Forgets a place that is set aside.
    pub(super) fn take(&mut self, place: Slot, weight: u64) {
        if let Some(word) = self.places.get_mut(place.index() / 64) {
            *word &= !(1 << (place.0 % 64));
        }
        self.weight -= weight;
    }

    /// Ends the walk.
    #[cfg(feature = "freezing")]
    pub(super) fn end(&mut self) {
        self.walking = false;
        self.cursor = None;
        self.listed = Vec::new();
    }

    /// Forgets all.
    #[cfg(feature = "freezing")]
    pub(super) fn clear(&mut self) {
        self.end();
        self.used = false;
        self.places.fill(0);
        self.weight = 0;
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let listed = self.listed.capacity() * size_of::<Slot>();
        #[cfg(feature = "freezing")]
        let listed = listed + self.replacements.capacity() * size_of::<u32>();
        self.places.capacity() * size_of::<u64>() + listed
    }
}
