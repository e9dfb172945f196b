//! A policy that freezes a share of its residents once the cache is warm: FrozenHot
//! (EuroSys 2023) for a single-threaded host, `frozen:share=S+POLICY` by name.
//!
//! The concurrent cache freezes by itself (`crates/frazil/src/frozen`). This overlay has no
//! table: it keeps hits and evictions away from the entries that would be in it. So a replay
//! counts the hits of the frozen part and the policy's misses in the remaining capacity. Frozen
//! entries stay frozen to the end; the cache's controller would freeze anew.
//!
//! As for the controller, the cache is warm at the end of a stretch (one request for each
//! resident, at least 10,000) in which the number of residents hardly grew.
//!
//! 4 bytes a slot beside the policy's own. A request costs one more access to them;
//! freezing costs O(n log n), once.

use crate::ranked::lowest_first_stable;
use crate::{Eviction, Fifo, Host, HotFirst, Incoming, Online, Policy, PolicyVisitor, Slot, Work};

/// Least number of requests in a stretch.
const LEAST_STRETCH: u64 = 10_000;
/// A cache that has grown by more than one part in this many in a stretch is not warm.
const STEADY: u64 = 50;
/// Instead of the hits of a slot: it is frozen.
const FROZEN: u32 = u32::MAX;

/// A policy with a frozen share.
///
/// Counts [`Work::FrozenHit`] for each frozen hit and [`Work::FrozenMiss`] for each other hit and
/// each miss from then on. It counts no other work if the base counts none.
///
/// ```
/// use frazil_policy::{Online, Policy, PolicyVisitor, SpecError};
///
/// struct Fits;
/// impl PolicyVisitor for Fits {
///     type Output = bool;
///     fn visit<P: Policy + Clone + Send + 'static>(self, _: P) -> bool { P::REMEMBERS }
/// }
/// let spec: frazil_policy::PolicySpec = "frozen:share=0.5+arc".parse()?;
/// assert!(spec.visit(100, &(), Fits), "as ARC does");
/// # Ok::<(), SpecError>(())
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Overlay<P, O> {
    base: P,
    order: O,
    /// Share of the residents, from 0 to 1.
    share: f64,
    capacity: u64,
    residents: u64,
    /// Size at the start of the stretch, and its requests so far.
    began_with: u64,
    requests: u64,
    stage: Stage,
    /// By slot: hits in this stretch, or [`FROZEN`].
    hits: Vec<u32>,
    /// Hottest first. Includes entries that have left, which are no longer marked in `hits`.
    frozen: Vec<Slot>,
    frozen_weight: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Warming,
    /// There was nothing to freeze.
    Plain,
    Frozen,
}

/// How to find the hottest residents, and to take them out of a policy.
pub(crate) trait SetAside<P: Policy> {
    /// The residents, hottest first.
    fn hottest(&self, base: &P, host: &impl Host<P::Meta>, hits: &[u32]) -> Vec<Slot>;
    fn freeze(&self, base: &mut P, host: &mut impl Host<P::Meta>, slot: Slot);
    fn remove(&self, base: &mut P, host: &mut impl Host<P::Meta>, slot: Slot);
    fn reweigh(&self, base: &mut P, host: &mut impl Host<P::Meta>, slot: Slot, old_weight: u64);
}

/// The policy itself orders and freezes the hottest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InOrder;

impl<P: HotFirst> SetAside<P> for InOrder {
    fn hottest(&self, base: &P, host: &impl Host<P::Meta>, _hits: &[u32]) -> Vec<Slot> {
        if P::WALKS {
            return std::iter::successors(base.hottest(), |&slot| base.colder(slot)).collect();
        }
        let mut order = base.coldest_first(host);
        order.reverse();
        order
    }

    fn freeze(&self, base: &mut P, host: &mut impl Host<P::Meta>, slot: Slot) {
        base.freeze(host, slot);
    }

    fn remove(&self, base: &mut P, host: &mut impl Host<P::Meta>, slot: Slot) {
        base.remove_frozen(host, slot);
    }

    fn reweigh(&self, base: &mut P, host: &mut impl Host<P::Meta>, slot: Slot, old_weight: u64) {
        base.reweigh_frozen(host, slot, old_weight);
    }
}

/// For queues in which a hit moves nothing: the hottest are those with the most hits. The queues
/// forget frozen entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByHits;

impl<P: Policy> SetAside<P> for ByHits {
    fn hottest(&self, base: &P, host: &impl Host<P::Meta>, hits: &[u32]) -> Vec<Slot> {
        let mut order = base.coldest_first(host);
        order.reverse();
        // Among equals the one that the policy would evict later.
        let coldness = |slot: Slot| u64::from(!hits[slot.index()]);
        lowest_first_stable(order.into_iter().map(|slot| (coldness(slot), slot)).collect())
    }

    fn freeze(&self, base: &mut P, host: &mut impl Host<P::Meta>, slot: Slot) {
        base.remove(host, slot);
    }

    fn remove(&self, _base: &mut P, _host: &mut impl Host<P::Meta>, _slot: Slot) {}

    fn reweigh(&self, _: &mut P, _: &mut impl Host<P::Meta>, _slot: Slot, _old_weight: u64) {}
}

/// Whether a share of a policy can be frozen, as the concurrent cache does it.
pub(crate) fn can_freeze(base: Online) -> bool {
    base.can_freeze() || is_queue(base)
}

/// Policies that the cache runs without a lock, and freezes by hits.
fn is_queue(base: Online) -> bool {
    matches!(base, Online::Fifo | Online::Clock { .. } | Online::Mobius | Online::S3Fifo)
}

/// Builds a policy with a frozen share and passes it to `visitor`; without that share if it
/// [cannot freeze](can_freeze).
pub(crate) fn visit<V: PolicyVisitor>(
    base: Online,
    share: f64,
    capacity: u64,
    visitor: V,
) -> V::Output {
    let freezing = Freezing { visitor, share, capacity };
    match base {
        Online::Fifo => freezing.visit_queue(Fifo::default()),
        _ => base.visit(capacity, freezing),
    }
}

/// Puts the overlay on a policy on its way to a visitor.
struct Freezing<V> {
    visitor: V,
    share: f64,
    capacity: u64,
}

impl<V: PolicyVisitor> PolicyVisitor for Freezing<V> {
    type Output = V::Output;

    fn visit<P: Policy + Clone + Send + 'static>(self, policy: P) -> V::Output {
        self.visitor.visit_rare(policy)
    }

    fn visit_queue<P: Policy + Clone + Send + 'static>(self, base: P) -> V::Output {
        self.visitor.visit_rare(Overlay::new(base, ByHits, self.share, self.capacity))
    }

    fn visit_hot_first<P: HotFirst + Clone + Send + 'static>(self, base: P) -> V::Output {
        self.visitor.visit_rare(Overlay::new(base, InOrder, self.share, self.capacity))
    }
}

impl<P: Policy, O: SetAside<P>> Overlay<P, O> {
    fn new(base: P, order: O, share: f64, capacity: u64) -> Self {
        Overlay {
            base,
            order,
            share,
            capacity,
            residents: 0,
            began_with: 0,
            requests: 0,
            stage: Stage::Warming,
            hits: Vec::new(),
            frozen: Vec::new(),
            frozen_weight: 0,
        }
    }

    fn is_frozen(&self, slot: Slot) -> bool {
        self.hits.get(slot.index()) == Some(&FROZEN)
    }

    /// Counts a request. Freezes at the end of the stretch in which the cache was warm.
    #[inline]
    fn step(&mut self, host: &mut impl Host<P::Meta>) {
        if self.stage != Stage::Warming {
            return;
        }
        self.requests += 1;
        if self.requests <= self.residents.max(LEAST_STRETCH) {
            return;
        }
        let most = self.began_with + self.began_with / STEADY;
        if self.residents <= most {
            self.freeze(host);
        } else {
            (self.requests, self.began_with) = (0, self.residents);
            self.hits.fill(0);
        }
    }

    fn freeze(&mut self, host: &mut impl Host<P::Meta>) {
        let count = (self.residents as f64 * self.share).round() as usize;
        self.frozen = self.order.hottest(&self.base, host, &self.hits);
        self.frozen.truncate(count);
        for &slot in &self.frozen {
            self.order.freeze(&mut self.base, host, slot);
            self.frozen_weight += host.weight(slot);
            self.hits[slot.index()] = FROZEN;
        }
        self.stage = if self.frozen.is_empty() { Stage::Plain } else { Stage::Frozen };
        self.share_out();
    }

    /// Sets the policy's remaining capacity.
    fn share_out(&mut self) {
        self.base.set_capacity(self.capacity.saturating_sub(self.frozen_weight).max(1));
    }

    /// Evicts the coldest frozen entry: the capacity has shrunk, and nothing else is left.
    fn evict_frozen(&mut self, host: &mut impl Host<P::Meta>) -> Eviction {
        while let Some(slot) = self.frozen.pop() {
            if self.is_frozen(slot) {
                self.leave(host, slot);
                self.residents -= 1;
                return Eviction::Victim(slot);
            }
        }
        Eviction::Empty
    }

    /// A frozen entry leaves.
    fn leave(&mut self, host: &mut impl Host<P::Meta>, slot: Slot) {
        self.order.remove(&mut self.base, host, slot);
        self.frozen_weight -= host.weight(slot);
        self.hits[slot.index()] = 0;
        self.share_out();
    }
}

impl<P: Policy, O: SetAside<P>> Policy for Overlay<P, O> {
    type Meta = P::Meta;
    type Pending = P::Pending;
    const REMEMBERS: bool = P::REMEMBERS;

    #[inline]
    fn hit(&mut self, host: &mut impl Host<P::Meta>, slot: Slot) {
        self.step(host);
        if self.is_frozen(slot) {
            host.count(Work::FrozenHit, 1);
            return;
        }
        if self.stage == Stage::Frozen {
            host.count(Work::FrozenMiss, 1);
        }
        let hits = &mut self.hits[slot.index()];
        *hits = (*hits + 1).min(FROZEN - 1);
        self.base.hit(host, slot);
    }

    #[inline]
    fn miss(&mut self, host: &mut impl Host<P::Meta>, hash: u64, weight: u64) -> P::Pending {
        self.step(host);
        if self.stage == Stage::Frozen {
            host.count(Work::FrozenMiss, 1);
        }
        self.base.miss(host, hash, weight)
    }

    fn delayed_hit(&mut self, host: &mut impl Host<P::Meta>, incoming: &mut Incoming<P::Pending>) {
        self.base.delayed_hit(host, incoming);
    }

    /// As in the cache, new objects that would fit only in place of frozen ones are refused.
    fn evict(
        &mut self,
        host: &mut impl Host<P::Meta>,
        incoming: Option<&Incoming<P::Pending>>,
    ) -> Eviction {
        // An object that fits beside the frozen ones is admitted once nothing else is left.
        let room = self.capacity.saturating_sub(self.frozen_weight);
        if incoming.is_some_and(|it| it.weight > room) {
            return Eviction::Refuse;
        }
        match self.base.evict(host, incoming) {
            Eviction::Victim(slot) => {
                self.residents -= 1;
                Eviction::Victim(slot)
            }
            Eviction::Empty => self.evict_frozen(host),
            Eviction::Refuse => Eviction::Refuse,
        }
    }

    #[inline]
    fn insert(
        &mut self,
        host: &mut impl Host<P::Meta>,
        slot: Slot,
        incoming: Incoming<P::Pending>,
    ) {
        self.residents += 1;
        if self.hits.len() <= slot.index() {
            self.hits.resize(slot.index() + 1, 0);
        }
        self.hits[slot.index()] = 0;
        self.base.insert(host, slot, incoming);
    }

    fn remove(&mut self, host: &mut impl Host<P::Meta>, slot: Slot) {
        self.residents -= 1;
        if self.is_frozen(slot) {
            self.leave(host, slot);
        } else {
            self.base.remove(host, slot);
        }
    }

    fn reweigh(&mut self, host: &mut impl Host<P::Meta>, slot: Slot, old_weight: u64) {
        if self.is_frozen(slot) {
            self.order.reweigh(&mut self.base, host, slot, old_weight);
            self.frozen_weight = self.frozen_weight - old_weight + host.weight(slot);
            self.share_out();
        } else {
            self.base.reweigh(host, slot, old_weight);
        }
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.share_out();
    }

    fn coldest_first(&self, host: &impl Host<P::Meta>) -> Vec<Slot> {
        let mut order = self.base.coldest_first(host);
        order.retain(|&slot| !self.is_frozen(slot));
        order.extend(self.frozen.iter().rev().copied().filter(|&slot| self.is_frozen(slot)));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cache_can_freeze_is_known_here() {
        let mut not: Vec<&str> =
            Online::ALL.iter().filter(|it| !can_freeze(**it)).map(Online::name).collect();
        not.dedup();
        let expected = ["lru-sampled", "sieve", "lirs", "lhd", "hyperbolic", "lecar", "cacheus"];
        assert_eq!(
            not,
            [&expected[..], &["mad", "guarded-mad", "la-cache", "delay-rank", "random"]].concat()
        );
    }
}
