//! A policy that chooses victims only while requests wait less under it than under LRU.
//!
//! Policies that weigh delays ([`Mad`](crate::Mad) and those after it) gain on most workloads and
//! lose much on some: up to four fifths if objects are requested again soon after a fetch. So two
//! [shadows](crate::shadow) run beside the cache, one under LRU and one under the policy, and sum
//! the waits of requests in each. Both orders of the residents are kept. The policy chooses the
//! victim while its sum is the smaller one, otherwise LRU does (`docs/design/guarded-mad.md`).
//!
//! - Sums are compared every [`TURN`] requests. The policy takes over when its waits are lower
//!   by more than [`MARGIN`], and LRU as soon as they are not lower.
//! - Both sums fade, by half in [`FEW_FETCHES`] fetches, [`FEW_LIVES`] requests for each resident,
//!   or [`LEAST_MEMORY`] requests, whichever is longest: a shorter memory sees only part of a
//!   fetch's requests and mistakes that for a difference.
//! - A share of the objects takes part, by hash: at first all of them, and half as many each
//!   time a shadow reaches [`MOST_OBJECTS`]. The next requests forget the others; each checks
//!   [`LOOKS`] objects of each shadow.
//!
//! A request costs two more look-ups if its object takes part: at 100,000 residents one request in
//! four or fewer. 8 bytes a slot beside the policy; with MAD over LHD both shadows take some 300
//! bytes an object, 8 MB at most, in each shard of a cache.

use crate::shadow::{Request, Shadow, takes_part};
use crate::{Eviction, Host, Incoming, Lru, Policy, Slot, Work};

/// Requests between two comparisons.
const TURN: u64 = 256;
/// By what share the policy's waits must be lower before it takes over.
const MARGIN: f64 = 0.002;
/// Fetches in which half of a sum fades, at least.
const FEW_FETCHES: f64 = 4.0;
/// Requests for each resident in which half of a sum fades, at least.
const FEW_LIVES: f64 = 64.0;
/// Requests in which half of a sum fades, at least.
const LEAST_MEMORY: f64 = 16_384.0;
/// The most objects in a shadow, resident or in flight.
const MOST_OBJECTS: usize = 28_000;
/// Objects that a request checks while half of them are forgotten: 3 us at most.
const LOOKS: usize = 32;

/// Waits of requests in both shadows.
#[derive(Clone)]
struct Contest<P: Policy<Meta = (), Pending: Copy>> {
    lru: Shadow<Lru>,
    policy: Shadow<P>,
    /// Fading sums, in ticks: under LRU, and under the policy.
    waited: [f64; 2],
    /// One object in `1 << halvings` takes part.
    halvings: u32,
    capacity: u64,
    requests: u64,
    first: u64,
}

impl<P: Policy<Meta = (), Pending: Copy>> Contest<P> {
    fn new(policy: P, capacity: u64) -> Self {
        Contest {
            lru: Shadow::new(Lru::default(), capacity),
            policy: Shadow::new(policy, capacity),
            waited: [0.0; 2],
            halvings: 0,
            capacity,
            requests: 0,
            first: 0,
        }
    }

    fn has(&self, hash: u64) -> bool {
        takes_part(hash, self.halvings)
    }

    /// A request for an object that takes part. True if it is time to compare.
    fn request(&mut self, request: Request) -> bool {
        if self.requests == 0 {
            self.first = request.now;
        }
        self.requests += 1;
        let waited = [self.lru.request(request), self.policy.request(request)];
        for (sum, waited) in self.waited.iter_mut().zip(waited) {
            *sum += waited as f64;
        }
        if self.lru.is_halving() || self.policy.is_halving() {
            self.lru.forget_some(LOOKS);
            self.policy.forget_some(LOOKS);
        } else if self.lru.len().max(self.policy.len()) > MOST_OBJECTS && self.halvings < u64::BITS
        {
            self.halvings += 1;
            let share = self.share();
            self.lru.halve(share);
            self.policy.halve(share);
        }
        self.requests.is_multiple_of(TURN)
    }

    /// The capacity of the shadows.
    fn share(&self) -> u64 {
        self.capacity.checked_shr(self.halvings).unwrap_or(0).max(1)
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        let share = self.share();
        self.lru.set_capacity(share);
        self.policy.set_capacity(share);
    }

    /// Whether the policy chooses victims from now on, for a cache of `residents` objects.
    fn judge(&mut self, follows: bool, residents: u64, now: u64, fetch: Option<u64>) -> bool {
        let [lru, policy] = self.waited;
        let margin = if follows { 0.0 } else { MARGIN };
        let ticks = now.saturating_sub(self.first).saturating_add(1) as f64;
        let in_a_fetch = fetch.unwrap_or(0) as f64 * self.requests as f64 / ticks;
        let share = 0.5f64.powi(self.halvings as i32);
        let memory =
            (FEW_LIVES * share * residents as f64).max(FEW_FETCHES * in_a_fetch).max(LEAST_MEMORY);
        let kept = 0.5f64.powf(TURN as f64 / memory);
        self.waited = [kept * lru, kept * policy];
        policy < lru * (1.0 - margin)
    }
}

/// A policy, or LRU while requests would wait less under LRU.
///
/// ```
/// use frazil_policy::{Guarded, Lhd, Mad, MadBase};
/// let estimate = MadBase::Lhd.usual_estimate();
/// let mad = |capacity| <Mad<Lhd>>::new(Lhd::new(capacity, 1), estimate);
/// let guarded = Guarded::new(mad, 100);
/// assert!(!guarded.is_followed(), "it has shown nothing yet");
/// ```
#[derive(Clone)]
pub struct Guarded<P: Policy<Meta = (), Pending: Copy>> {
    lru: Lru,
    policy: P,
    /// Whether the policy chooses.
    follows: bool,
    residents: u64,
    /// None in a copy that is made for its order.
    contest: Option<Box<Contest<P>>>,
}

impl<P: Policy<Meta = (), Pending: Copy>> Guarded<P> {
    /// Guards the policy that `make` builds for a capacity, in the host's unit of weight: once
    /// for the cache, once for its shadow. LRU chooses at first.
    pub fn new(make: impl Fn(u64) -> P, capacity: u64) -> Self {
        let (policy, shadow) = (make(capacity), make(capacity));
        let contest = Some(Box::new(Contest::new(shadow, capacity)));
        Guarded { lru: Lru::default(), policy, follows: false, residents: 0, contest }
    }

    /// Whether the policy chooses victims at present, and not LRU.
    pub fn is_followed(&self) -> bool {
        self.follows
    }

    /// Passes a request to the shadows.
    fn request(&mut self, host: &mut impl Host<()>, hash: u64, weight: u64) {
        let Some(contest) = self.contest.as_mut().filter(|contest| contest.has(hash)) else {
            return;
        };
        host.count(Work::Ghost, 2);
        let (now, fetch) = (host.now(), host.fetch_ticks());
        if contest.request(Request { hash, weight, now, fetch }) {
            self.follows = contest.judge(self.follows, self.residents, now, fetch);
        }
    }
}

/// The new object in the form of LRU.
fn of_lru<P>(incoming: &Incoming<P>) -> Incoming<()> {
    Incoming { hash: incoming.hash, weight: incoming.weight, pending: () }
}

impl<P: Policy<Meta = (), Pending: Copy> + Clone> Policy for Guarded<P> {
    type Meta = ();
    type Pending = P::Pending;

    const REMEMBERS: bool = true;

    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.lru.hit(host, slot);
        self.policy.hit(host, slot);
        let (hash, weight) = (host.hash(slot), host.weight(slot));
        self.request(host, hash, weight);
    }

    fn miss(&mut self, host: &mut impl Host<()>, hash: u64, weight: u64) -> P::Pending {
        self.request(host, hash, weight);
        self.policy.miss(host, hash, weight)
    }

    fn delayed_hit(&mut self, host: &mut impl Host<()>, incoming: &mut Incoming<P::Pending>) {
        self.request(host, incoming.hash, incoming.weight);
        self.policy.delayed_hit(host, incoming);
    }

    fn evict(
        &mut self,
        host: &mut impl Host<()>,
        incoming: Option<&Incoming<P::Pending>>,
    ) -> Eviction {
        let eviction = match self.follows {
            true => self.policy.evict(host, incoming),
            false => self.lru.evict(host, incoming.map(of_lru).as_ref()),
        };
        if let Eviction::Victim(victim) = eviction {
            self.residents -= 1;
            match self.follows {
                true => self.lru.remove(host, victim),
                false => self.policy.remove(host, victim),
            }
        }
        eviction
    }

    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<P::Pending>) {
        self.residents += 1;
        self.lru.insert(host, slot, of_lru(&incoming));
        self.policy.insert(host, slot, incoming);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.residents -= 1;
        self.lru.remove(host, slot);
        self.policy.remove(host, slot);
        let (hash, now) = (host.hash(slot), host.now());
        if let Some(contest) = &mut self.contest {
            contest.lru.remove(hash, now);
            contest.policy.remove(hash, now);
        }
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        self.policy.reweigh(host, slot, old_weight);
        let (hash, weight) = (host.hash(slot), host.weight(slot));
        if let Some(contest) = &mut self.contest {
            contest.lru.reweigh(hash, weight);
            contest.policy.reweigh(hash, weight);
        }
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.policy.set_capacity(capacity);
        if let Some(contest) = &mut self.contest {
            contest.set_capacity(capacity);
        }
    }

    /// Omits the shadows, which are the largest part.
    fn copy_of_order(&self) -> Self
    where
        Self: Clone,
    {
        let Guarded { ref lru, ref policy, follows, residents, .. } = *self;
        let (lru, policy) = (lru.clone(), policy.clone());
        Guarded { lru, policy, follows, residents, contest: None }
    }

    fn coldest_first(&self, host: &impl Host<()>) -> Vec<Slot> {
        match self.follows {
            true => self.policy.coldest_first(host),
            false => self.lru.coldest_first(host),
        }
    }
}
