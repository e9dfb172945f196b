//! A hierarchical timer wheel: slots in the order in which they must be looked at.
//!
//! Time is counted in ticks. Level 0 has a list for each of the 64 ticks around now,
//! level 1 one for each of the 64 times 64 ticks, and so on: a slot lies at the level of
//! the highest digit (to base 64) in which its tick differs from the current one, in the
//! list of its own digit there. So a list holds slots of many ticks, from its *start* on,
//! and all lists of a lower level start before all of a higher. A bitmap a level tells which lists
//! are not empty, so idle time is skipped: the next start is two instructions a level.
//!
//! When a list's start has come it becomes *due* as a whole, in O(1), and the slots in it
//! are handed out one by one. The thread that gets one looks at its deadline, and lists it again if
//! that is still to come, now at a lower level. A slot is looked at once a level, 8 times at most,
//! and a deadline that was moved since costs nothing but that look.
//!
//! O(1) an operation. 8 bytes a slot, 4 kB a wheel. (G. Varghese and T. Lauck, "Hashed and
//! hierarchical timing wheels", 1987, scheme 7.)

use frazil_policy::{Lists, Slot};

const DIGIT_BITS: u32 = 6;
const LEVELS: usize = 8;
/// The list of due slots.
const DUE: usize = LEVELS << DIGIT_BITS;
/// The list of slots checked in the current tick, a moment too early.
const LATER: usize = DUE + 1;
const LISTS: usize = LATER + 1;

/// The end of time: no slot is listed for it.
pub(crate) const NEVER: u64 = u64::MAX;

/// Numbered slots, each listed at most once. The caller knows the tick of a slot.
#[derive(Debug)]
pub(crate) struct Wheel {
    lists: Lists<LISTS>,
    /// By level: which lists are not empty.
    occupied: [u64; LEVELS],
    /// The last tick that was looked at: no list starts at it or before.
    current: u64,
}

impl Wheel {
    /// An empty wheel at tick 0, in which slots below `used` take no longer to list for the first
    /// time than later.
    pub(crate) fn new(used: usize) -> Self {
        let mut lists = Lists::with_capacity(used);
        if let Some(last) = used.checked_sub(1) {
            lists.push_head(DUE, Slot(last as u32));
            lists.unlink(Slot(last as u32));
        }
        Wheel { lists, occupied: [0; LEVELS], current: 0 }
    }

    /// The last tick that was looked at.
    pub(crate) fn current(&self) -> u64 {
        self.current
    }

    /// Where a slot that is listed for `tick` belongs.
    fn list_of(&self, tick: u64) -> usize {
        if tick <= self.current {
            return DUE;
        }
        let level = (tick ^ self.current).ilog2() / DIGIT_BITS;
        debug_assert!((level as usize) < LEVELS, "a tick beyond the end of time: {tick}");
        let digit = (tick >> (level * DIGIT_BITS)) & 63;
        (level as usize) << DIGIT_BITS | digit as usize
    }

    /// Lists a slot that is not listed, to be looked at no later than `tick`.
    pub(crate) fn list(&mut self, slot: u32, tick: u64) {
        let list = self.list_of(tick);
        if list < DUE {
            self.occupied[list >> DIGIT_BITS] |= 1 << (list & 63);
        }
        self.lists.push_head(list, Slot(slot));
    }

    /// Lists a slot that is not listed, to be checked after the current tick.
    pub(crate) fn list_later(&mut self, slot: u32) {
        self.lists.push_head(LATER, Slot(slot));
    }

    /// Takes out a slot that is listed for `tick`.
    pub(crate) fn unlist(&mut self, slot: u32, tick: u64) {
        self.lists.unlink(Slot(slot));
        // It may have been due already; then this list is another, and right all the same.
        let list = self.list_of(tick);
        if list < DUE && self.lists.is_empty(list) {
            self.occupied[list >> DIGIT_BITS] &= !(1 << (list & 63));
        }
    }

    /// The first list that is not empty, and the tick at which it starts.
    fn first(&self) -> Option<(usize, u64)> {
        let level = self.occupied.iter().position(|&lists| lists != 0)?;
        let digit = self.occupied[level].trailing_zeros();
        let shift = level as u32 * DIGIT_BITS;
        let above = self.current >> (shift + DIGIT_BITS) << (shift + DIGIT_BITS);
        Some((level << DIGIT_BITS | digit as usize, above | u64::from(digit) << shift))
    }

    /// The tick at which there is something to look at, or [`NEVER`].
    pub(crate) fn next(&self) -> u64 {
        if self.lists.is_empty(DUE) && self.lists.is_empty(LATER) {
            self.first().map_or(NEVER, |(_, start)| start)
        } else {
            self.current
        }
    }

    /// Takes out a slot to be looked at, in the order in which they are due, as long as
    /// there is one for a tick up to `upto`. All slots that are listed for one are seen;
    /// some that are listed for a later tick as well.
    pub(crate) fn pop(&mut self, upto: u64) -> Option<u32> {
        loop {
            if let Some(slot) = self.lists.tail(DUE) {
                self.lists.unlink(slot);
                return Some(slot.0);
            }
            match self.first() {
                Some((list, start)) if start <= upto => {
                    self.turn_to(start);
                    self.lists.splice_all(list, DUE);
                    self.occupied[list >> DIGIT_BITS] &= !(1 << (list & 63));
                }
                _ if upto > self.current => self.turn_to(upto),
                _ => return None,
            }
        }
    }

    /// Moves on to a later tick. No list starts before it.
    fn turn_to(&mut self, tick: u64) {
        self.current = tick;
        self.recall();
    }

    /// Makes the slots due that were already checked in this tick.
    pub(crate) fn recall(&mut self) {
        self.lists.splice_all(LATER, DUE);
    }

    /// Advances to `tick` unless a slot must be checked before, so that the next slots are not
    /// listed in a higher wheel than necessary.
    pub(crate) fn forward(&mut self, tick: u64) {
        if tick > self.current && self.next() > tick {
            self.turn_to(tick);
        }
    }

    /// All listed slots. Fails if one is not in a list that is right for its tick, by `tick_of`, or
    /// if a bitmap is wrong. For tests.
    pub(crate) fn check(&self, tick_of: impl Fn(u32) -> u64) -> Result<Vec<u32>, String> {
        let mut slots = Vec::new();
        for list in 0..LISTS {
            if list < DUE {
                let marked = self.occupied[list >> DIGIT_BITS] >> (list & 63) & 1 == 1;
                if marked == self.lists.is_empty(list) {
                    return Err(format!("list {list} is marked {marked}"));
                }
            }
            for slot in self.lists.iter(list).take(self.lists.room() + 1) {
                let tick = tick_of(slot.0);
                if list < DUE && self.list_of(tick) != list {
                    return Err(format!("slot {} of tick {tick} is in list {list}", slot.0));
                }
                slots.push(slot.0);
            }
        }
        Ok(slots)
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.lists.heap_bytes()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const SLOTS: u32 = 12;

    #[derive(Clone, Debug)]
    enum Step {
        /// Lists the slot for this number of ticks from now, or moves it there.
        List(u32, u64),
        Unlist(u32),
        /// Lets this time pass, and checks all slots due then.
        Pass(u64),
        Forward(u64),
        /// Checks the slots due in the current tick, all a moment too early.
        Early,
    }

    /// Spans from a tick to beyond the fourth level, near and on the borders of levels.
    fn span() -> impl Strategy<Value = u64> {
        let border = (0..5u32, 0..3u64).prop_map(|(level, off)| (64u64.pow(level) + off) - 1);
        prop_oneof![0..4u64, 0..200u64, border, 0..30_000_000u64]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..SLOTS, span()).prop_map(|(slot, span)| Step::List(slot, span)),
            1 => (0..SLOTS).prop_map(Step::Unlist),
            3 => span().prop_map(Step::Pass),
            1 => span().prop_map(Step::Forward),
            1 => Just(Step::Early),
        ]
    }

    /// A wheel beside the simplest model of it.
    struct Pair {
        wheel: Wheel,
        model: BTreeMap<u32, u64>,
        now: u64,
    }

    impl Pair {
        fn take(&mut self, slot: u32) {
            if let Some(tick) = self.model.remove(&slot) {
                self.wheel.unlist(slot, tick);
            }
        }

        fn list(&mut self, slot: u32, tick: u64) {
            self.wheel.list(slot, tick);
            self.model.insert(slot, tick);
        }

        /// Checks all slots due by `now`: removes expired ones, and lists the rest again.
        fn look(&mut self) -> Vec<u32> {
            let (mut over, mut looks) = (Vec::new(), 0);
            while let Some(slot) = self.wheel.pop(self.now) {
                looks += 1;
                assert!(looks <= SLOTS as usize * LEVELS, "looked at without an end");
                match self.model[&slot] {
                    tick if tick <= self.now => over.push(slot),
                    tick => self.wheel.list(slot, tick),
                }
            }
            over.iter().for_each(|slot| _ = self.model.remove(slot));
            over.sort_unstable();
            over
        }

        fn play(&mut self, step: &Step) {
            match *step {
                Step::List(slot, span) => {
                    self.take(slot);
                    self.list(slot, self.now + span);
                }
                Step::Unlist(slot) => self.take(slot),
                Step::Pass(span) => {
                    self.now += span;
                    if span == 0 {
                        self.wheel.recall();
                    }
                    let due = self.model.iter().filter(|&(_, &tick)| tick <= self.now);
                    let due: Vec<u32> = due.map(|(&slot, _)| slot).collect();
                    assert!(due.is_empty() || self.wheel.next() <= self.now, "missed a start");
                    assert_eq!(self.look(), due);
                    assert_eq!(self.wheel.current(), self.now);
                }
                Step::Forward(span) => {
                    // Never past anything that is listed.
                    let first = self.model.values().copied().min().unwrap_or(NEVER);
                    let to = self.now + span;
                    self.wheel.forward(to);
                    if self.wheel.current() == to {
                        assert!(first > to || span == 0);
                        self.now = to;
                    }
                }
                Step::Early => {
                    self.wheel.recall();
                    let mut early = Vec::new();
                    while let Some(slot) = self.wheel.pop(self.now) {
                        if self.model[&slot] <= self.now {
                            self.wheel.list_later(slot);
                            early.push(slot);
                        } else {
                            self.wheel.list(slot, self.model[&slot]);
                        }
                    }
                    let due = self.model.iter().filter(|&(_, &tick)| tick <= self.now);
                    assert_eq!(early.len(), due.count());
                    // Seen again only when they are recalled.
                    assert_eq!(self.wheel.pop(self.now), None);
                    assert!(early.is_empty() || self.wheel.next() == self.now);
                    early.iter().for_each(|slot| _ = self.model.insert(*slot, self.now));
                }
            }
            let listed = self.wheel.check(|slot| self.model[&slot]).expect("in order");
            assert_eq!(listed.len(), self.model.len());
        }
    }

    proptest! {
        #[test]
        fn every_slot_is_seen_in_its_tick(
            start in span(),
            steps in prop::collection::vec(step(), 1..60),
        ) {
            let wheel = Wheel::new(0);
            let mut pair = Pair { wheel, model: BTreeMap::new(), now: start };
            pair.look();
            steps.iter().for_each(|step| pair.play(step));
            pair.now += 1 << 40;
            let left: Vec<u32> = pair.model.keys().copied().collect();
            prop_assert_eq!(pair.look(), left);
            prop_assert_eq!(pair.wheel.next(), NEVER);
        }
    }

    #[test]
    fn idle_time_is_jumped_over() {
        let mut wheel = Wheel::new(10);
        let end = crate::clock::END >> 20;
        wheel.list(7, end);
        // A start a level at the most, each of them the first that is not empty.
        let mut looks = 0;
        while wheel.next() < end {
            let next = wheel.next();
            assert_eq!(wheel.pop(next - 1), None);
            assert_eq!(wheel.pop(next), Some(7));
            wheel.list(7, end);
            looks += 1;
        }
        assert!(looks <= LEVELS, "{looks}");
        assert_eq!((wheel.pop(end - 1), wheel.pop(end)), (None, Some(7)));
    }
}
