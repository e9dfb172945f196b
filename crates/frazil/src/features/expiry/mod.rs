//! Expiry: entries with lifetimes.
//!
//! In a cache without lifetimes a hit checks one thing: whether there are deadlines, on a line that
//! it reads anyway. The deadlines are allocated with the cache if its builder sets lifetimes,
//! otherwise with the first entry that has one.
//!
//! An entry whose deadline has passed is absent for every look-up from the first moment that the
//! look-up's clock shows. The operation that finds it removes it, or the wheels (`deadlines.rs`),
//! which writers turn: at most one batch of 64 slots an insertion. There is no extra thread.
//!
//! A hit reads the second of the calendar, and the hint in the entry's header whether the deadline
//! is far (`hints.rs`). If the hint does not say so, it reads the deadline and, near it, a clock
//! (`clock.rs`). 24 bytes an entry, 32 with time to idle.

mod answers;
pub(crate) mod deadlines;
pub(crate) mod generations;
pub(crate) mod hints;
pub(crate) mod wheel;

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use crate::clock::{Clock, END, nanoseconds};
use crate::core::Ending;
use crate::core::local::Held;
use crate::core::slab::At;
use crate::core::steps::Steps;
use crate::ensure::Ensure;
use crate::features::Featured;
use crate::features::Local;
use crate::once_box::OnceBox;
use crate::smr::fence;
use crate::sync::atomic::AtomicU16;

use answers::Jitter;
pub(crate) use deadlines::Term;
use deadlines::{Batch, Deadlines, Spans};

/// The lifetime of an entry; `None` if it does not expire.
pub(crate) type Lifetime<K, V> = Box<dyn Fn(&K, &V) -> Option<Duration> + Send + Sync>;

/// The rest of an entry's lifetime after an event, given the rest before it.
pub(crate) type Answer<K, V> =
    Box<dyn Fn(&K, &V, Option<Duration>) -> Option<Duration> + Send + Sync>;

/// The builder's settings of lifetimes.
pub(crate) struct Terms<K, V> {
    pub(crate) to_live: Option<Duration>,
    pub(crate) to_idle: Option<Duration>,
    pub(crate) of_entry: Option<Lifetime<K, V>>,
    pub(crate) of_update: Option<Answer<K, V>>,
    pub(crate) of_read: Option<Answer<K, V>>,
    /// The largest share by which lifetimes are shortened.
    pub(crate) jitter: f64,
}

impl<K, V> Default for Terms<K, V> {
    fn default() -> Self {
        Terms {
            to_live: None,
            to_idle: None,
            of_entry: None,
            of_update: None,
            of_read: None,
            jitter: 0.0,
        }
    }
}

impl<K, V> Terms<K, V> {
    /// Whether entries expire whose insertion sets no lifetime.
    #[cfg(feature = "freezing")]
    pub(crate) fn are_set(&self) -> bool {
        self.to_live.is_some()
            || self.to_idle.is_some()
            || self.of_entry.is_some()
            || self.of_update.is_some()
            || self.of_read.is_some()
    }
}

/// Expiry of a cache.
pub(crate) struct Expiry<K, V> {
    deadlines: OnceBox<Deadlines>,
    /// Nanoseconds; [`END`] for ever.
    to_live: u64,
    /// Nanoseconds, if idle entries expire.
    to_idle: Option<u64>,
    of_entry: Option<Lifetime<K, V>>,
    of_update: Option<Answer<K, V>>,
    of_read: Option<Answer<K, V>>,
    /// Whether entries get deadlines without a lifetime from their insertion.
    is_set: bool,
    jitter: Jitter,
    /// The expected number of entries.
    expected: u64,
}

impl<K, V> Expiry<K, V> {
    /// For this expected number of entries.
    pub(crate) fn new(terms: Terms<K, V>, expected: u64) -> Self {
        let to_live = terms.to_live.map_or(END, nanoseconds);
        let to_idle = terms.to_idle.map(nanoseconds).filter(|&span| span < END);
        let by_entry = terms.of_entry.is_some() || terms.of_update.is_some();
        Expiry {
            deadlines: OnceBox::new(),
            is_set: to_live < END || to_idle.is_some() || by_entry || terms.of_read.is_some(),
            to_live,
            to_idle,
            of_entry: terms.of_entry,
            of_update: terms.of_update,
            of_read: terms.of_read,
            jitter: Jitter::new(terms.jitter),
            expected,
        }
    }

    /// The deadlines, if any entry has ever had one.
    #[inline(always)]
    pub(crate) fn deadlines(&self) -> Option<&Deadlines> {
        self.deadlines.get()
    }

    #[cold]
    fn make(&self, used: u32, clock: &Clock) -> &Deadlines {
        let spans = Spans { live: self.to_live, idle: self.to_idle, reads: self.of_read.is_some() };
        let slots = crate::core::usual_slots(self.expected);
        self.deadlines.get_or_make(|| Deadlines::new(slots, used, spans, clock))
    }

    /// A residency has ended: returns the ending as it is counted.
    #[inline(always)]
    pub(crate) fn ended(&self, slot: u32, ending: Ending) -> Ending {
        let Some(deadlines) = self.deadlines() else { return ending };
        deadlines.end(slot);
        // Any thread may remove it, but it ended when everything was invalidated.
        let is_found_over = matches!(ending, Ending::Evicted | Ending::Lapsed);
        let stale = is_found_over && deadlines.generations.is_stale(slot);
        if stale { Ending::Removed } else { ending }
    }

    /// The lifetimes that a recording begun now writes.
    #[cfg(feature = "recording")]
    pub(crate) fn recorded(&self) -> frazil_recording::Lifetimes {
        use frazil_recording::Lifetimes;
        if self.to_idle.is_some() || self.of_read.is_some() {
            return Lifetimes::Moved;
        }
        let some = self.is_set || self.deadlines().is_some();
        if some { Lifetimes::Told } else { Lifetimes::None }
    }

    /// Lifetime of entries whose insertion sets none.
    pub(crate) fn time_to_live(&self) -> Option<Duration> {
        (self.to_live < END).then(|| Duration::from_nanos(self.to_live))
    }

    /// How long they live from their last use on.
    pub(crate) fn time_to_idle(&self) -> Option<Duration> {
        self.to_idle.map(Duration::from_nanos)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.deadlines().map_or(0, Deadlines::heap_bytes)
    }
}

/// Consecutive times that a purge finds no segments before it gives up.
const SHORTAGES: u32 = 2;

/// The results for checked slots.
#[derive(Default)]
struct Outcome {
    expired: u64,
    /// Whether there were no segments to continue with.
    short: bool,
}

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    /// Deadline of a new entry with this lifetime, in any cache.
    pub(crate) fn term_for(&self, key: &K, lifetime: Duration) -> Term {
        let lifetime = self.jittered(key, nanoseconds(lifetime));
        self.term_of(self.deadlines_made(), lifetime)
    }

    pub(crate) fn deadlines_made(&self) -> &Deadlines {
        let make = || self.hooks.expiry.make(self.reclaim.used().end, &self.clock);
        self.hooks.expiry.deadlines().unwrap_or_else(make)
    }

    /// A writer's share of the work on expired entries. The caller has no turn and holds nothing:
    /// destructors and the listener run here.
    #[inline(always)]
    pub(crate) fn expire_share(&self) {
        if let Some(deadlines) = self.hooks.expiry.deadlines() {
            self.expire_share_of(deadlines);
        }
    }

    #[inline(never)]
    fn expire_share_of(&self, deadlines: &Deadlines) {
        if deadlines.is_time(self.clock.coarse()) {
            self.expire_some(deadlines);
        }
        if deadlines.generations.has_share() {
            self.purge_share(deadlines);
        }
    }

    /// Deadline of a new entry without a lifetime from the caller.
    #[inline(always)]
    pub(crate) fn term(&self, key: &K, value: &V) -> Term {
        match self.hooks.expiry.deadlines() {
            None if !self.hooks.expiry.is_set => Term::NEVER,
            None => self.term_now(
                self.hooks.expiry.make(self.reclaim.used().end, &self.clock),
                key,
                value,
            ),
            Some(deadlines) => self.term_now(deadlines, key, value),
        }
    }

    #[inline(never)]
    fn term_now(&self, deadlines: &Deadlines, key: &K, value: &V) -> Term {
        if let Some(of_update) = &self.hooks.expiry.of_update
            && let Some(term) = self.term_of_update(deadlines, of_update, key, value)
        {
            return term;
        }
        let lifetime = match &self.hooks.expiry.of_entry {
            Some(of_entry) => of_entry(key, value).map_or(END, nanoseconds),
            None => self.hooks.expiry.to_live,
        };
        self.term_of(deadlines, self.jittered(key, lifetime))
    }

    #[inline(always)]
    pub(crate) fn term_of(&self, deadlines: &Deadlines, lifetime: u64) -> Term {
        let to_idle = self.hooks.expiry.to_idle;
        let shortest = to_idle.map_or(lifetime, |idle| idle.min(lifetime));
        deadlines.term(self.clock.stamp(shortest), lifetime)
    }

    #[inline(always)]
    fn hint(&self, slot: u32) -> &AtomicU16 {
        &self.slab.header(slot).hint
    }

    /// Whether the entry in a protected slot has expired, for a caller that leaves no trace.
    #[inline(always)]
    pub(crate) fn has_expired(&self, slot: u32) -> bool {
        self.hooks.expiry.deadlines().is_some_and(|deadlines| {
            !deadlines.hints.is_far(self.hint(slot)) && self.is_outlived(deadlines, slot)
        })
    }

    #[inline(never)]
    fn is_outlived(&self, deadlines: &Deadlines, slot: u32) -> bool {
        deadlines.passed_by(slot, &self.clock, |slot| self.hint(slot))
    }

    /// The same for an entry that is being used.
    #[inline(always)]
    pub(crate) fn has_expired_in_use(&self, slot: u32, at: At<'_>) -> bool {
        self.hooks.expiry.deadlines().is_some_and(|deadlines| {
            !deadlines.hints.is_far(&self.slab.header_at(at).hint)
                && self.is_outlived_in_use(deadlines, slot)
        })
    }

    #[inline(never)]
    fn is_outlived_in_use(&self, deadlines: &Deadlines, slot: u32) -> bool {
        if let Some(of_read) = &self.hooks.expiry.of_read {
            return self.is_outlived_when_read(deadlines, of_read, slot);
        }
        deadlines.passed_in_use(slot, &self.clock, |slot| self.hint(slot))
    }

    /// The rest of a protected slot's lifetime, or `None` if it has expired: by the clock of
    /// look-ups, which may lag the exact one.
    pub(crate) fn left(&self, slot: u32) -> Option<Duration> {
        let clock = &self.clock;
        let Some(deadlines) = self.hooks.expiry.deadlines() else { return Some(Duration::MAX) };
        match deadlines.living(slot, || clock.coarse())? {
            0 => Some(Duration::MAX),
            deadline => Some(Duration::from_nanos(deadline.saturating_sub(clock.exact()).max(1))),
        }
    }

    /// The rest of a protected slot's lifetime after a use, or `None` if it has expired.
    pub(crate) fn left_in_use(&self, slot: u32) -> Option<Duration> {
        match self.hooks.expiry.deadlines() {
            None => Some(Duration::MAX),
            Some(deadlines) if deadlines.generations.is_stale(slot) => None,
            Some(deadlines) => self.until(deadlines.limit(slot)),
        }
    }

    /// Time until a deadline, if that has not passed.
    fn until(&self, deadline: u64) -> Option<Duration> {
        if deadline == 0 {
            return Some(Duration::MAX);
        }
        let left = deadline.checked_sub(self.clock.exact())?;
        (left > 0).then(|| Duration::from_nanos(left))
    }

    /// Removes all expired and all stale entries. Returns their number.
    pub(crate) fn purge_lapsed(&self, steps: &Steps<'_>) -> u64 {
        let Some(deadlines) = self.hooks.expiry.deadlines() else { return 0 };
        let now = self.clock.exact();
        let mut expired = self.purge_stale(deadlines, steps);
        for wheel in 0..deadlines.wheels() {
            deadlines.recall(wheel);
            let mut vain = 0;
            // Others may add to it meanwhile: no more batches than it can hand out.
            for _ in 0..deadlines.batches() {
                let Some(batch) = deadlines.take(wheel, now) else { break };
                // An entry whose removal panics has been listed again, for later.
                let outcome =
                    steps.take(|| self.expire(deadlines, &batch, now)).unwrap_or_default();
                expired += outcome.expired;
                vain = if outcome.expired == 0 { vain + u32::from(outcome.short) } else { 0 };
                if vain > SHORTAGES {
                    break;
                }
                if outcome.short {
                    // There are segments again, and slots that had to wait for them are listed.
                    deadlines.recall(wheel);
                }
            }
        }
        if expired > 0 {
            steps.take(|| self.scavenge(false));
        }
        expired
    }

    /// A writer's share of expired entries.
    #[cold]
    #[inline(never)]
    fn expire_some(&self, deadlines: &Deadlines) {
        let now = self.clock.exact();
        if let Some(batch) = deadlines.take_due(now) {
            self.expire(deadlines, &batch, now);
        }
    }

    /// Looks at slots that a wheel has handed out, and takes out those that have expired.
    fn expire(&self, deadlines: &Deadlines, batch: &Batch, now: u64) -> Outcome {
        let telling = self.telling();
        let mut outcome = Outcome::default();
        // Also if user code panics, which may run for the hash of a key.
        let unlisted = Ensure::new(&mut outcome, |_| deadlines.list_again(batch, now));
        // Partner: the light fence of `Deadlines::begin`.
        fence::heavy();
        let mut held = self.hold();
        for &slot in batch.slots() {
            if !deadlines.is_due(slot, now) {
                continue;
            }
            // For the segments in which slots are retired or put back.
            let buffers = &mut *held;
            if !buffers.spares.stock(&self.segments, &mut buffers.traffic) {
                unlisted.on.short = true;
                break;
            }
            let expired = self.take_out_if(&mut held, slot, || deadlines.is_due(slot, now));
            unlisted.on.expired += u64::from(expired);
        }
        self.settle(&mut held);
        // Before `list_again`, which may run a destructor.
        drop(held);
        drop(unlisted);
        drop(telling);
        if outcome.short {
            // Expired entries leave holes in the queues, which only evictions fill.
            self.scavenge(true);
        }
        self.reclaim_if_due();
        outcome
    }

    /// Removes the entry in a slot if `is_over`, unless another thread owns the slot.
    /// Returns whether it did.
    fn take_out_if(
        &self,
        held: &mut Held<'_, Local>,
        slot: u32,
        is_over: impl Fn() -> bool,
    ) -> bool {
        let loose = self.hooks.frozen.is_some() && self.slab.header(slot).take_loose();
        if !loose && !self.with_queue_ctx(held, |ctx| self.order.detach(ctx, slot)) {
            return false;
        }
        // The slot may have been reused, so this may be another entry. From here on it is not
        // reused.
        if is_over() {
            return self.finish_eviction(held, slot, Ending::Lapsed);
        }
        self.put_back(held, slot);
        false
    }
}

impl<K, V> std::fmt::Debug for Terms<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terms")
            .field("to_live", &self.to_live)
            .field("to_idle", &self.to_idle)
            .field("of_entry", &self.of_entry.is_some())
            .field("of_update", &self.of_update.is_some())
            .field("of_read", &self.of_read.is_some())
            .field("jitter", &self.jitter)
            .finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Instant;

    use super::*;
    use crate::{Cache, Tested};

    const ENTRIES: u64 = 1_000_000;

    /// A million entries expire at once. Only `take_due` and `list_again` run under a wheel's lock,
    /// for a bounded number of slots. Their total time is printed: some µs on an idle machine.
    #[test]
    fn no_lock_is_held_for_long_when_a_million_entries_expire() {
        let time = Arc::new(AtomicU64::new(0));
        let clock = time.clone();
        let mut cache: Tested = Cache::builder(ENTRIES)
            .time_to_live(Duration::from_secs(60))
            .clock(move || Duration::from_nanos(clock.load(Relaxed)))
            .build();
        // Inserted in random order, so that neighbours in a list lie far apart.
        let scattered = (0..ENTRIES).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        scattered.for_each(|key| cache.insert(key, String::new()));
        time.store(61_000_000_000, Relaxed);
        let deadlines = cache.core.hooks.expiry.deadlines().expect("made by the builder");
        let (mut taking, mut listing, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        let mut expired = 0;
        loop {
            let now = cache.core.clock.exact();
            let began = Instant::now();
            let Some(batch) = deadlines.take_due(now) else { break };
            taking.push(began.elapsed());
            assert!(batch.slots().len() <= deadlines::STEP);
            expired += cache.core.expire(deadlines, &batch, now).expired;
            steps.push(began.elapsed());
            let began = Instant::now();
            deadlines.list_again(&batch, now);
            listing.push(began.elapsed());
        }
        assert_eq!((expired, cache.len(), cache.stats().expirations), (ENTRIES, 0, ENTRIES));
        for (what, times) in [("take", &mut taking), ("list", &mut listing), ("step", &mut steps)] {
            times.sort_unstable();
            let at = |share: usize| times[(times.len() - 1) * share / 1_000];
            println!(
                "{what}: median {:?}, 99 % {:?}, 99.9 % {:?}, longest {:?} of {}",
                at(500),
                at(990),
                at(999),
                at(1_000),
                times.len(),
            );
        }
        cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
    }

    /// As if segments were short: a purge checks again the entries that it could not remove.
    #[test]
    fn what_was_left_aside_is_handed_out_again() {
        let time = Arc::new(AtomicU64::new(0));
        let clock = time.clone();
        let mut cache: Tested =
            Cache::builder(100).clock(move || Duration::from_nanos(clock.load(Relaxed))).build();
        (0..9).for_each(|key| cache.insert_for(key, String::new(), Duration::from_millis(1)));
        time.store(2_000_000_000, Relaxed);
        let deadlines = cache.core.hooks.expiry.deadlines().expect("an entry has one");
        let now = cache.core.clock.exact();
        let batch = deadlines.take(0, now).expect("all are due");
        deadlines.list_again(&batch, now);
        assert!(deadlines.take(0, now).is_none(), "not before the next tick");
        deadlines.recall(0);
        assert_eq!(deadlines.take(0, now).expect("all are due").slots().len(), 9);
        deadlines.list_again(&batch, now);
        assert_eq!((cache.purge(), cache.len()), (9, 0));
        cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
    }

    #[test]
    fn insertions_take_out_what_has_expired_in_small_steps() {
        let time = Arc::new(AtomicU64::new(0));
        let clock = time.clone();
        let cache: Tested = Cache::builder(100_000)
            .clock(move || Duration::from_nanos(clock.load(Relaxed)))
            .build();
        (0..50_000).for_each(|key| cache.insert_for(key, String::new(), Duration::from_secs(1)));
        time.store(2_000_000_000, Relaxed);
        let mut insertions = 0;
        while cache.stats().expirations < 50_000 {
            let before = cache.stats().expirations;
            cache.insert(60_000, String::new());
            insertions += 1;
            assert!(cache.stats().expirations - before <= deadlines::STEP as u64);
        }
        assert!(insertions < 2 * 50_000 / deadlines::STEP);
        assert_eq!(cache.len(), 1);
    }
}
