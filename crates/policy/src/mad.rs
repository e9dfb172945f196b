//! MAD: evicts the object whose absence would cost the least delay for its expected time of
//! absence (paper 5, §4).
//!
//! MAD is not a policy but modifies one. The *base* predicts in which order objects are requested
//! again, and MAD weights that with their mean aggregate delay ([`Counters`](crate::Counters)). So
//! bursty objects stay, for which many requests would wait for one fetch.
//!
//! | base | the lowest goes of |
//! |---|---|
//! | [`Lru`] | delay / (time since the last request + 1), over all |
//! | [`LruSampled`](crate::LruSampled) | the same, over a sample |
//! | [`LruSets`](crate::LruSets) | the same, over the newcomer's set |
//! | [`AdaptiveReplacement`] | the same, over the list that ARC evicts from |
//! | [`Lhd`] | hit density × delay, over LHD's sample |
//!
//! If no fetch takes longer than a tick every delay is 1, and MAD behaves as its base, over
//! LRU exactly.
//!
//! Over LRU all residents are candidates, and over ARC all of a list, but few are examined.
//! The most recently requested cannot rank below the lowest so far, because no delay is below
//! the shortest fetch. So the walk from the oldest ends soon after the first object that is
//! not bursty; in the worst case it visits all. An object whose fetch took long is moved to
//! its place by the time of its last request, in O(residents requested since).
//!
//! With `prior` windows without a burst added to the observed ones, a burst counts only when it
//! has recurred, and with `windows=ended` only when it is over. Otherwise an object after or
//! within its first burst stays several times as long as others, whether or not bursts recur.
//! Where fetches take 10 or 100 requests, and in larger caches, MAD then loses to its base.
//!
//! By the time since the last request, an object is old as soon as its long fetch ends. With
//! `idle-since=commit` its idle time begins at the end of the fetch, so newcomers are the newest,
//! as in LRU. That gains less overall, but loses nothing where objects are requested soon after
//! their fetch (`docs/design/delayed-hits.md`). No object need be moved to its place then.
//!
//! The paper's authors estimate in two ways, as does MAD here: over LRU by all windows, and over
//! ARC and LHD by ended ones. In the second an object's second request always begins a window,
//! so its first counts as without a burst: a `prior` of 1. Each base has the better estimate by
//! default ([`MadBase::usual_estimate`](crate::MadBase::usual_estimate);
//! `docs/design/delayed-hits.md` has the figures). 41 bytes a slot beside the base
//! ([`OfResidents`]).

use crate::aggregate_delay::{Delays, Keep, OfResidents, Windows};
use crate::ranked::lowest_rank_first;
use crate::{Eviction, Host, Incoming, Lists, Policy, Slot};

/// A policy whose choice of a victim can be weighted with delays.
pub trait DelayAware: Policy<Pending: Copy> + Clone + Send + 'static {
    /// As [`Policy::evict`], but the choice is weighted with `delays`.
    fn evict_by(
        &mut self,
        host: &mut impl Host<Self::Meta>,
        incoming: Option<&Incoming<Self::Pending>>,
        delays: &Delays<'_, impl Keep>,
    ) -> Eviction;

    /// A slot was inserted whose last request may be older than that of other slots.
    fn settle(&mut self, slot: Slot, delays: &Delays<'_, impl Keep>) {
        let _ = (slot, delays);
    }

    /// As [`Policy::coldest_first`], but weighted with `delays`.
    fn coldest_by(&self, host: &impl Host<Self::Meta>, delays: &Delays<'_, impl Keep>)
    -> Vec<Slot>;
}

/// How MAD estimates what an object's absence would cost.
///
/// ```
/// use frazil_policy::{Estimate, IdleSince, Windows};
/// let windows = Windows::All;
/// let as_in_the_paper = Estimate { windows, prior: 0, idle_since: IdleSince::Request };
/// assert_eq!(Estimate::default(), as_in_the_paper);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// The windows over which the delay is the mean.
    pub windows: Windows,
    /// Windows without a burst that are added to the observed ones: how slowly MAD trusts
    /// in bursts.
    pub prior: u8,
    /// The beginning of an object's idle time.
    pub idle_since: IdleSince,
}

/// When an object's idle time begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleSince {
    /// Its last request, as in the paper: an object requested only at the start of its fetch has
    /// been idle for the duration of the fetch when it arrives.
    #[default]
    Request,
    /// Its commit, if no request came later: new objects are the newest, as in LRU.
    Commit,
}

impl IdleSince {
    pub(crate) const ALL: [IdleSince; 2] = [IdleSince::Request, IdleSince::Commit];
    pub(crate) const NAMES: [&str; 2] = ["request", "commit"];
}

/// State of an object in flight.
#[derive(Clone, Copy, Debug)]
pub struct InFlight<F, P> {
    delays: F,
    base: P,
}

/// A base with its choice weighted by aggregate delay.
///
/// ```
/// use frazil_policy::{Eviction, Host, Incoming, Lru, Mad, Policy, Slot};
///
/// /// Fetches take 10 ticks.
/// struct Fetches(u64);
/// impl Host<()> for Fetches {
///     fn now(&self) -> u64 { self.0 }
///     fn meta(&self, _: Slot) -> &() { &() }
///     fn hash(&self, slot: Slot) -> u64 { slot.0.into() }
///     fn weight(&self, _: Slot) -> u64 { 1 }
///     fn fetch_ticks(&self) -> Option<u64> { Some(10) }
/// }
///
/// let mut mad: Mad<Lru> = Mad::new(Lru::default(), Default::default());
/// for (slot, burst) in [(Slot(0), 3), (Slot(1), 0)] {
///     let mut host = Fetches(100 * u64::from(slot.0));
///     let pending = mad.miss(&mut host, slot.0.into(), 1);
///     let mut incoming = Incoming { hash: slot.0.into(), weight: 1, pending };
///     for _ in 0..burst {
///         host.0 += 1;
///         mad.delayed_hit(&mut host, &mut incoming);
///     }
///     host.0 += 10;
///     mad.insert(&mut host, slot, incoming);
/// }
/// // LRU would evict the first. But for it four requests waited, 10 + 9 + 8 + 7 ticks.
/// assert_eq!(mad.evict(&mut Fetches(1_000), None), Eviction::Victim(Slot(1)));
/// ```
#[derive(Clone, Debug)]
pub struct Mad<B, K = OfResidents> {
    base: B,
    keep: K,
    estimate: Estimate,
}

impl<B: DelayAware, K: Keep + Default> Mad<B, K> {
    /// Weights the choice of `base`. The usual estimate is the paper's.
    pub fn new(base: B, estimate: Estimate) -> Self {
        Mad { base, keep: K::default(), estimate }
    }
}

/// The new object in the form of the base.
fn of_base<F, P: Copy>(incoming: &Incoming<InFlight<F, P>>) -> Incoming<P> {
    Incoming { hash: incoming.hash, weight: incoming.weight, pending: incoming.pending.base }
}

impl<B: DelayAware, K: Keep> Policy for Mad<B, K> {
    type Meta = B::Meta;
    type Pending = InFlight<K::Flight, B::Pending>;

    const REMEMBERS: bool = B::REMEMBERS;

    #[inline]
    fn hit(&mut self, host: &mut impl Host<B::Meta>, slot: Slot) {
        self.keep.of_mut(slot).hit(host.now());
        self.base.hit(host, slot);
    }

    #[inline]
    fn miss(&mut self, host: &mut impl Host<B::Meta>, hash: u64, weight: u64) -> Self::Pending {
        let fetch = host.fetch_ticks().unwrap_or(1);
        let delays = self.keep.miss(hash, host.now(), fetch);
        InFlight { delays, base: self.base.miss(host, hash, weight) }
    }

    fn delayed_hit(
        &mut self,
        host: &mut impl Host<B::Meta>,
        incoming: &mut Incoming<Self::Pending>,
    ) {
        self.keep.delayed_hit(&mut incoming.pending.delays, host.now());
        let mut inner = of_base(incoming);
        self.base.delayed_hit(host, &mut inner);
        incoming.pending.base = inner.pending;
    }

    fn evict(
        &mut self,
        host: &mut impl Host<B::Meta>,
        incoming: Option<&Incoming<Self::Pending>>,
    ) -> Eviction {
        let inner = incoming.map(of_base);
        let delays = Delays::new(&self.keep, self.estimate, host.now());
        self.base.evict_by(host, inner.as_ref(), &delays)
    }

    fn insert(
        &mut self,
        host: &mut impl Host<B::Meta>,
        slot: Slot,
        incoming: Incoming<Self::Pending>,
    ) {
        let took = host.fetch_ticks().unwrap_or(1);
        self.keep.insert(slot, incoming.pending.delays, took);
        if self.estimate.idle_since == IdleSince::Commit {
            self.keep.of_mut(slot).renew(host.now());
        }
        self.base.insert(host, slot, of_base(&incoming));
        self.base.settle(slot, &Delays::new(&self.keep, self.estimate, host.now()));
    }

    fn remove(&mut self, host: &mut impl Host<B::Meta>, slot: Slot) {
        self.base.remove(host, slot);
    }

    fn reweigh(&mut self, host: &mut impl Host<B::Meta>, slot: Slot, old_weight: u64) {
        self.base.reweigh(host, slot, old_weight);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.base.set_capacity(capacity);
    }

    fn coldest_first(&self, host: &impl Host<B::Meta>) -> Vec<Slot> {
        self.base.coldest_by(host, &Delays::new(&self.keep, self.estimate, host.now()))
    }
}

/// The lowest ranked of slots in the order of their last requests, the first among equals, and
/// how many were examined. Stops once the rest cannot rank lower.
pub(crate) fn lowest_in_order<K: Keep>(
    slots: impl Iterator<Item = Slot>,
    delays: &Delays<'_, K>,
) -> (Option<(f64, Slot)>, u32) {
    let (mut least, mut looked) = (None::<(f64, Slot)>, 0);
    for slot in slots {
        if least.is_some_and(|(lowest, _)| lowest <= delays.bound(slot)) {
            break;
        }
        looked += 1;
        let rank = delays.rank(slot);
        if least.is_none_or(|(lowest, _)| rank < lowest) {
            least = Some((rank, slot));
        }
    }
    (least, looked)
}

/// Moves the head of a list that is in the order of last requests to its place in it.
pub(crate) fn settle<const L: usize, K: Keep>(
    lists: &mut Lists<L>,
    slot: Slot,
    delays: &Delays<'_, K>,
) {
    let last = delays.last(slot);
    let mut above = slot;
    while let Some(older) = lists.older(above).filter(|&older| delays.last(older) > last) {
        above = older;
    }
    if above != slot {
        lists.unlink(slot);
        lists.insert_behind(above, slot);
    }
}

/// Sorts `slots` by rank, the lowest first, equal ones in their given order.
pub(crate) fn by_rank<K: Keep>(slots: Vec<Slot>, delays: &Delays<'_, K>) -> Vec<Slot> {
    lowest_rank_first(slots.into_iter().map(|slot| (delays.rank(slot), slot)).collect())
}
