//! `HotFirst`: residents are frozen, removed, and thawed, in every policy that can.
//!
//! Policies of lists are compared with a model whose lists are plain vectors of ids:
//! `hot_first_models`. All policies must keep each resident exactly once and never touch frozen
//! ones. If nothing happens in between, freezing must leave no trace.

use std::collections::BTreeSet;

use crate::cache::Cache;
use crate::hot_first_models::{
    ArcRules, LfuRules, ListRules, Model, Promote, Rules, SlruRules, TwoQueueRules,
};
use frazil_policy::{
    AdaptiveReplacement, Eviction, Fifo, HotFirst, Lfu, Lru, LruDelayed, Online, Policy,
    PolicyVisitor, Slot, Slru, TwoQueue,
};
use proptest::prelude::*;

fn policies() -> impl Iterator<Item = Online> {
    let variants = [1, 4].map(|segments| Online::Slru { segments });
    Online::ALL.into_iter().filter(Online::can_freeze).chain(variants)
}

/// The test of a policy that can freeze.
trait Trial {
    type Output;
    fn run<P: HotFirst + Clone + Send + 'static>(self, policy: P) -> Self::Output;
}

/// Runs a trial on policies that can freeze.
struct Try<T>(T);

impl<T: Trial> PolicyVisitor for Try<T> {
    type Output = Option<T::Output>;

    fn visit<P: Policy + Clone + Send + 'static>(self, _: P) -> Self::Output {
        None
    }

    fn visit_hot_first<P: HotFirst + Clone + Send + 'static>(self, policy: P) -> Self::Output {
        Some(self.0.run(policy))
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request, with the weight that the object then has.
    Request(u64, u64),
    Remove(u64),
    /// A percentage of the dynamic residents, and whether the policy's capacity is set to
    /// the rest.
    Freeze(usize, bool),
    Thaw,
    Capacity(u64),
}

fn steps(rare: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        60 => (0u64..40, 1u64..6).prop_map(|(id, weight)| Step::Request(id, weight)),
        40 => (0u64..8, 1u64..6).prop_map(|(id, weight)| Step::Request(id, weight)),
        6 => (0u64..40).prop_map(Step::Remove),
        6 => (0usize..=100, any::<bool>()).prop_map(|(share, told)| Step::Freeze(share, told)),
        4 => Just(Step::Thaw),
        rare => (0u64..60).prop_map(Step::Capacity),
    ];
    prop::collection::vec(step, 0..300)
}

/// A cache whose hottest residents can be frozen.
struct Freezer<P: HotFirst> {
    cache: Cache<P>,
    frozen: BTreeSet<u64>,
}

impl<P: HotFirst + Clone> Freezer<P> {
    fn new(policy: P, capacity: u64) -> Self {
        Freezer { cache: Cache::new(policy, capacity), frozen: BTreeSet::new() }
    }

    fn ids(&self, slots: Vec<Slot>) -> Vec<u64> {
        slots.into_iter().map(|slot| self.cache.slots.id[slot.index()]).collect()
    }

    fn coldest_first(&self) -> Vec<u64> {
        self.ids(self.cache.policy.coldest_first(&self.cache.slots))
    }

    /// The dynamic residents, hottest first.
    fn walk(&self) -> Vec<u64> {
        if !P::WALKS {
            let dynamic = self.coldest_first().into_iter().rev();
            return dynamic.filter(|id| !self.frozen.contains(id)).collect();
        }
        let policy = &self.cache.policy;
        let walk = std::iter::successors(policy.hottest(), |&slot| policy.colder(slot));
        // More slots than residents would be a cycle.
        self.ids(walk.take(self.cache.index.len() + 1).collect())
    }

    /// True on a hit. The policy gets no reports of frozen entries, except their weight.
    fn request(&mut self, id: u64, weight: u64) -> bool {
        if !self.frozen.contains(&id) {
            return self.cache.request(id, weight);
        }
        let slot = self.cache.index[&id];
        let old = std::mem::replace(&mut self.cache.slots.weight[slot.index()], weight);
        self.cache.policy.reweigh_frozen(&mut self.cache.slots, slot, old);
        self.cache.make_room(0, None);
        true
    }

    fn remove(&mut self, id: u64) {
        if !self.frozen.remove(&id) {
            return self.cache.remove(id);
        }
        if let Some(slot) = self.cache.index.remove(&id) {
            self.cache.policy.remove_frozen(&mut self.cache.slots, slot);
            self.cache.free.push(slot);
        }
    }

    fn freeze(&mut self, count: usize) {
        for id in self.walk().into_iter().take(count) {
            self.cache.policy.freeze(&mut self.cache.slots, self.cache.index[&id]);
            self.frozen.insert(id);
        }
    }

    /// Sets the policy's capacity to the part that is not frozen.
    fn tell(&mut self) {
        let slot = |id| self.cache.index[id].index();
        let frozen: u64 = self.frozen.iter().map(|id| self.cache.slots.weight[slot(id)]).sum();
        self.cache.policy.set_capacity(self.cache.capacity.saturating_sub(frozen));
    }

    fn thaw(&mut self) {
        self.cache.policy.thaw(&mut self.cache.slots);
        self.frozen.clear();
    }

    fn take(&mut self, step: Step, heaviest: u64) -> bool {
        match step {
            Step::Request(id, weight) => return self.request(id, weight.min(heaviest)),
            Step::Remove(id) => self.remove(id),
            Step::Freeze(share, told) => {
                self.freeze(self.walk().len() * share / 100);
                if told {
                    self.tell();
                }
            }
            Step::Thaw => {
                self.thaw();
                self.tell();
            }
            Step::Capacity(capacity) => {
                self.cache.capacity = capacity;
                self.tell();
                self.cache.make_room(0, None);
            }
        }
        false
    }

    /// The error, if there is one.
    fn check(&self) -> Result<(), String> {
        let sorted = |mut ids: Vec<u64>| {
            ids.sort_unstable();
            ids
        };
        let listed = self.coldest_first();
        let residents: Vec<u64> = self.cache.index.keys().copied().collect();
        if sorted(listed.clone()) != residents {
            return Err(format!("{listed:?} are listed of {residents:?}"));
        }
        let frozen: Vec<u64> = self.frozen.iter().copied().collect();
        let last = listed[listed.len().saturating_sub(frozen.len())..].to_vec();
        if sorted(last) != frozen {
            return Err(format!("{frozen:?} are not the last of {listed:?}"));
        }
        let dynamic: Vec<u64> =
            residents.into_iter().filter(|id| !self.frozen.contains(id)).collect();
        let walk = self.walk();
        if sorted(walk.clone()) != dynamic {
            return Err(format!("{walk:?} are walked of {dynamic:?}"));
        }
        Ok(())
    }
}

/// Arbitrary calls.
struct Anything<'a> {
    steps: &'a [Step],
    capacity: u64,
    heaviest: u64,
}

impl Trial for &Anything<'_> {
    type Output = Result<(), String>;

    fn run<P: HotFirst + Clone + Send + 'static>(self, policy: P) -> Self::Output {
        let mut freezer = Freezer::new(policy, self.capacity);
        for &step in self.steps {
            freezer.take(step, self.heaviest);
            freezer.check().map_err(|error| format!("{error} after {step:?}"))?;
        }
        freezer.cache.set_capacity(0);
        freezer.check()?;
        if freezer.cache.index.len() != freezer.frozen.len() {
            return Err("one that is not frozen is lost".to_owned());
        }
        freezer.thaw();
        freezer.cache.set_capacity(0);
        if freezer.cache.used() > 0 { Err("one is lost".to_owned()) } else { Ok(()) }
    }
}

/// A freeze that is undone at once, in the middle of a course, or none.
struct Undone<'a> {
    steps: &'a [Step],
    later: &'a [Step],
    capacity: u64,
    heaviest: u64,
    share: Option<usize>,
}

/// The observable results of a course: hits, the order at its end, and that of evictions.
#[derive(Debug, PartialEq)]
struct Seen {
    /// Before and after the freeze.
    walks: [Vec<u64>; 2],
    hits: Vec<bool>,
    walk: Vec<u64>,
    victims: Vec<u64>,
}

impl Trial for &Undone<'_> {
    type Output = Seen;

    fn run<P: HotFirst + Clone + Send + 'static>(self, policy: P) -> Seen {
        let mut freezer = Freezer::new(policy, self.capacity);
        for &step in self.steps {
            match step {
                // All is dynamic until then.
                Step::Freeze(..) => {}
                _ => _ = freezer.take(step, self.heaviest),
            }
        }
        let before = freezer.walk();
        if let Some(share) = self.share {
            freezer.freeze(before.len() * share / 100);
            freezer.thaw();
        }
        let walks = [before, freezer.walk()];
        let request = |step: &Step| matches!(step, Step::Request(..) | Step::Remove(_));
        let later = self.later.iter().copied().filter(request);
        let hits = later.map(|step| freezer.take(step, self.heaviest)).collect();
        let walk = freezer.walk();
        let mut victims = Vec::new();
        let cache = &mut freezer.cache;
        while let Eviction::Victim(slot) = cache.policy.evict(&mut cache.slots, None) {
            victims.push(cache.slots.id[slot.index()]);
        }
        Seen { walks, hits, walk, victims }
    }
}

/// The walk and the reverse of `coldest_first`, while a part is frozen.
struct Reversed<'a>(&'a [Step], u64);

impl Trial for &Reversed<'_> {
    type Output = [Vec<u64>; 2];

    fn run<P: HotFirst + Clone + Send + 'static>(self, policy: P) -> [Vec<u64>; 2] {
        let mut freezer = Freezer::new(policy, self.1);
        for &step in self.0 {
            freezer.take(step, 1);
        }
        let mut listed = freezer.coldest_first();
        listed.truncate(listed.len() - freezer.frozen.len());
        listed.reverse();
        [freezer.walk(), listed]
    }
}

/// Policy and model through the same steps: the same hits, the same order of dynamic and
/// frozen residents after each.
fn agree<P: HotFirst + Clone, R: Rules>(
    steps: &[Step],
    policy: P,
    rules: R,
    capacity: u64,
    heaviest: u64,
) -> Result<(), TestCaseError> {
    let mut freezer = Freezer::new(policy, capacity);
    let mut model = Model::new(rules, capacity);
    for &step in steps {
        match step {
            Step::Request(id, weight) => {
                // Only weights of frozen entries change.
                let weight = match freezer.cache.index.get(&id) {
                    Some(slot) if !freezer.frozen.contains(&id) => {
                        freezer.cache.slots.weight[slot.index()]
                    }
                    _ => weight.min(heaviest),
                };
                let hit = model.request(id, weight);
                prop_assert_eq!(freezer.request(id, weight), hit, "{:?}", step);
            }
            Step::Remove(id) => {
                model.remove(id);
                freezer.remove(id);
            }
            Step::Freeze(share, told) => {
                let count = model.walk().len() * share / 100;
                model.freeze(count);
                freezer.freeze(count);
                if told {
                    model.tell();
                    freezer.tell();
                }
            }
            Step::Thaw => {
                model.thaw();
                freezer.thaw();
                model.tell();
                freezer.tell();
            }
            Step::Capacity(_) => {}
        }
        prop_assert_eq!(freezer.walk(), model.walk(), "{:?}", step);
        let mut hottest_first = freezer.coldest_first();
        hottest_first.reverse();
        hottest_first.truncate(freezer.frozen.len());
        prop_assert_eq!(hottest_first, model.frozen(), "{:?}", step);
    }
    Ok(())
}

proptest! {
    #[test]
    fn lists_equal_their_models(
        steps in steps(0),
        capacity in 1u64..60,
        window in 0u64..20,
        heaviest in prop_oneof![Just(1u64), Just(5)],
    ) {
        let list = ListRules::new;
        agree(&steps, Fifo::default(), list(Promote::Never), capacity, heaviest)?;
        agree(&steps, Lru::default(), list(Promote::After(0)), capacity, heaviest)?;
        agree(&steps, LruDelayed::new(window), list(Promote::After(window)), capacity, heaviest)?;
        agree(&steps, Lfu::default(), LfuRules::default(), capacity, heaviest)?;
        for segments in [1, 2, 4] {
            let rules = SlruRules::new(segments, capacity);
            agree(&steps, Slru::new(segments, capacity), rules, capacity, heaviest)?;
        }
        let rules = TwoQueueRules::new(capacity);
        agree(&steps, TwoQueue::new(capacity), rules, capacity, heaviest)?;
        let rules = ArcRules::new(capacity);
        agree(&steps, AdaptiveReplacement::new(capacity), rules, capacity, heaviest)?;
    }

    #[test]
    fn each_is_there_once_and_none_goes_that_is_frozen(
        steps in steps(3),
        capacity in 1u64..60,
        heaviest in prop_oneof![Just(1u64), Just(5)],
    ) {
        for policy in policies() {
            let anything = Anything { steps: &steps, capacity, heaviest };
            let outcome = policy.visit(capacity, Try(&anything));
            prop_assert_eq!(outcome, Some(Ok(())), "{}", policy);
        }
    }

    #[test]
    fn a_freeze_undone_at_once_leaves_no_trace(
        steps in steps(1),
        later in steps(0),
        capacity in 1u64..60,
        share in 0usize..=100,
        heaviest in prop_oneof![Just(1u64), Just(5)],
    ) {
        for policy in policies() {
            // LFU must change the frequencies of objects that it puts in front of others.
            let later = if policy == Online::Lfu { &[][..] } else { &later };
            // GDSF rounds the priorities of frozen objects, unless all are integers.
            let heaviest = if policy == Online::Gdsf { 1 } else { heaviest };
            let course = |share| Undone { steps: &steps, later, capacity, heaviest, share };
            let twin = policy.visit(capacity, Try(&course(None)));
            let seen = policy.visit(capacity, Try(&course(Some(share))));
            prop_assert_eq!(seen, twin, "{}", policy);
        }
    }

    #[test]
    fn where_one_order_is_kept_the_walk_is_its_reverse(steps in steps(0), capacity in 1u64..60) {
        let exceptions = [Online::TwoQueue, Online::Arc, Online::WTinyLfu];
        for policy in policies().filter(|policy| !exceptions.contains(policy)) {
            let [walk, listed] =
                policy.visit(capacity, Try(&Reversed(&steps, capacity))).expect("it can");
            prop_assert_eq!(walk, listed, "{}", policy);
        }
    }
}

/// Whether a policy is passed to the visitor at all.
struct Handed;

impl Trial for Handed {
    type Output = ();
    fn run<P: HotFirst + Clone + Send + 'static>(self, _: P) {}
}

#[test]
fn those_that_can_freeze_are_handed_over() {
    for policy in Online::ALL {
        let handed = policy.visit(10, Try(Handed)).is_some();
        assert_eq!(handed, policy.can_freeze(), "{policy}");
    }
}
