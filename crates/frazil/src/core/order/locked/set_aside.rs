//! What a policy under a lock has set aside: its hottest, which it is not to evict.
//!
//! Who sets aside walks the order, hottest first, a batch of places at a time under the lock. From
//! there on hits of those places are nobody's business, and removals are told to the policy
//! as those of what it has set aside. While the walk lasts the policy hears of no hit, so that
//! nothing moves to where it has been already.

use frazil_policy::{HotFirst, Policy, Slot};

use super::policy_shard::View;

/// A policy's ways with what is set aside: of any that can, by its type.
pub(super) struct Ways<P: Policy> {
    /// Whether it walks its order itself.
    pub(super) walks: bool,
    /// The hottest, or the next colder one.
    next: fn(&P, Option<Slot>) -> Option<Slot>,
    pub(super) set_aside: fn(&mut P, &mut View<'_, P::Meta>, Slot),
    pub(super) remove: fn(&mut P, &mut View<'_, P::Meta>, Slot),
    pub(super) reweigh: fn(&mut P, &mut View<'_, P::Meta>, Slot, u64),
    pub(super) take_back: fn(&mut P, &mut View<'_, P::Meta>),
}

impl<P: HotFirst> Ways<P>
where
    P::Meta: 'static,
{
    pub(super) fn new() -> Self {
        Ways {
            walks: P::WALKS,
            next: |policy, slot| slot.map_or(policy.hottest(), |slot| policy.colder(slot)),
            set_aside: |policy, view, slot| policy.freeze(view, slot),
            remove: |policy, view, slot| policy.remove_frozen(view, slot),
            reweigh: |policy, view, slot, old| policy.reweigh_frozen(view, slot, old),
            take_back: |policy, view| policy.thaw(view),
        }
    }
}

/// How a shard sets aside, and what it has.
pub(super) struct SetAside<P: Policy> {
    /// `None` of a policy that cannot.
    pub(super) ways: Option<Ways<P>>,
    /// Whether the walk is under way.
    pub(super) walking: bool,
    /// Whether it has begun since all was given back.
    pub(super) used: bool,
    /// The next place of the walk.
    cursor: Option<Slot>,
    /// The walk of a policy that keeps no order, the hottest last.
    listed: Vec<Slot>,
    /// A bit for each place.
    places: Vec<u64>,
    /// What they weigh, as the policy is told it.
    pub(super) weight: u64,
}

impl<P: Policy> SetAside<P> {
    pub(super) fn new(ways: Option<Ways<P>>) -> Self {
        SetAside {
            ways,
            walking: false,
            used: false,
            cursor: None,
            listed: Vec::new(),
            places: Vec::new(),
            weight: 0,
        }
    }

    /// Whether a place is set aside.
    #[inline]
    pub(super) fn has(&self, place: Slot) -> bool {
        self.places.get(place.index() / 64).is_some_and(|word| word >> (place.0 % 64) & 1 != 0)
    }

    /// How many places are set aside.
    pub(super) fn count(&self) -> u64 {
        self.places.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether the policy is not to hear of a hit of a place.
    #[inline]
    pub(super) fn hides(&self, place: Slot) -> bool {
        self.walking || self.has(place)
    }

    /// Begins the walk; through `listed`, the hottest last, where the policy keeps no order.
    pub(super) fn begin(&mut self, policy: &P, listed: Vec<Slot>) {
        self.walking = true;
        self.used = true;
        self.listed = listed;
        let first = self.ways.as_ref().filter(|ways| ways.walks);
        self.cursor = first.and_then(|ways| (ways.next)(policy, None));
    }

    /// The next place, to be set aside now. `is_seated` says whether one of those listed is there
    /// still.
    pub(super) fn next(&mut self, policy: &P, is_seated: impl Fn(Slot) -> bool) -> Option<Slot> {
        if self.ways.as_ref()?.walks {
            let place = self.cursor?;
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

    /// Moves the walk on if it has come to a place that is about to go.
    #[inline]
    pub(super) fn pass(&mut self, policy: &P, place: Slot) {
        if self.cursor == Some(place)
            && let Some(ways) = &self.ways
        {
            self.cursor = (ways.next)(policy, Some(place));
        }
    }

    /// What the walk comes to after the place that it is at, should that be evicted.
    pub(super) fn after_cursor(&self, policy: &P) -> (Option<Slot>, Option<Slot>) {
        let next = |ways: &Ways<P>| self.cursor.and_then(|at| (ways.next)(policy, Some(at)));
        (self.cursor, self.ways.as_ref().and_then(next))
    }

    /// Goes on from there.
    pub(super) fn go_on_from(&mut self, cursor: Option<Slot>) {
        self.cursor = cursor;
    }

    /// Notes a place that was set aside.
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
    pub(super) fn end(&mut self) {
        self.walking = false;
        self.cursor = None;
        self.listed = Vec::new();
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.end();
        self.used = false;
        self.places.fill(0);
        self.weight = 0;
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        (self.places.capacity() + self.listed.capacity() / 2) * size_of::<u64>()
    }
}
