//! MAD: the object goes whose absence would cost the least delay for the time that it can be
//! expected to be absent (paper 5, §4).
//!
//! It is not a policy but a change to one. The *base* says in which order objects come back,
//! and MAD weighs that with their mean aggregate delay ([`Counters`](crate::Counters)): bursty
//! objects stay, of which many requests would wait for one fetch.
//!
//! | base | the lowest goes of |
//! |---|---|
//! | [`Lru`] | delay / (time since the last request + 1), over all |
//! | [`LruSampled`](crate::LruSampled) | the same, over a sample |
//! | [`LruSets`](crate::LruSets) | the same, over the newcomer's set |
//! | [`AdaptiveReplacement`] | the same, over the list that ARC evicts from |
//! | [`Lhd`] | hit density × delay, over LHD's sample |
//!
//! Where no fetch takes longer than a tick it is the base, and over LRU exactly that: every
//! delay is 1.
//!
//! Over LRU all residents are candidates, and over ARC all of a list, but few are looked at.
//! Those that were requested last cannot rank below the lowest so far unless their delay were
//! below that of the shortest fetch. So the walk from the oldest on ends soon after the first
//! object that is not bursty, and in the worst case looks at all. An object whose fetch took
//! long is put in its place by the time of its last request, which is O(residents requested
//! since).
//!
//! With `prior` windows without a burst counted beside those that were seen, a burst is
//! believed in only when it has come again, and with `windows=ended` only when it is over.
//! Without, an object with one burst behind it, or in the midst of one, stays for several times as
//! long as others, whether or not bursts come again: where fetches take 10 or 100 requests, and in
//! larger caches, MAD then loses to its base.
//!
//! By the time since the last request, what comes back from a long fetch is old at once. With
//! `idle-since=commit` its time begins when it comes back, so that newcomers are the newest, as
//! in LRU: less gained on the whole, but nothing lost where objects come again soon after their
//! fetch (`docs/design/delayed-hits.md`). Nothing need be put in its place then.
//!
//! The paper's authors estimate in two ways, and so does this: over LRU by all windows, and over
//! ARC and LHD by those that have ended, where an object's second request always begins one, so
//! that its first counts as without a burst: a `prior` of 1. Each base has the better one unless
//! another is asked for ([`MadBase::usual_estimate`](crate::MadBase::usual_estimate);
//! `docs/design/delayed-hits.md` has the figures). 41 bytes a slot beside the base
//! ([`OfResidents`]).

use crate::aggregate_delay::{Delays, Keep, OfResidents, Windows};
use crate::ranked::lowest_rank_first;
use crate::{Eviction, Host, Incoming, Lists, Policy, Slot};

/// A policy whose choice of a victim can be weighed with delays.
pub trait DelayAware: Policy<Pending: Copy> + Clone + Send + 'static {
    /// As [`Policy::evict`], but the choice is weighed with `delays`.
    fn evict_by(
        &mut self,
        host: &mut impl Host<Self::Meta>,
        incoming: Option<&Incoming<Self::Pending>>,
        delays: &Delays<'_, impl Keep>,
    ) -> Eviction;

    /// A slot has been inserted whose last request may be older than that of others.
    fn settle(&mut self, slot: Slot, delays: &Delays<'_, impl Keep>) {
        let _ = (slot, delays);
    }

    /// As [`Policy::coldest_first`], but weighed with `delays`.
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
    /// Windows without a burst that are counted beside those that were seen: how slowly it
    /// believes in bursts.
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

/// A base with its choice weighed by aggregate delay.
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
    /// Weighs the choice of `base`. The usual estimate is the paper's.
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

/// The lowest ranked of slots that are in the order of their last requests, of equals the first,
/// and how many were looked at: not the rest, once it cannot rank lower.
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

/// `slots` by rank, the lowest first, and equals as they are.
pub(crate) fn by_rank<K: Keep>(slots: Vec<Slot>, delays: &Delays<'_, K>) -> Vec<Slot> {
    lowest_rank_first(slots.into_iter().map(|slot| (delays.rank(slot), slot)).collect())
}
