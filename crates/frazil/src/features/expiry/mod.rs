//! Entries that go when their time has come.
//!
//! A cache without lifetimes asks one thing on a hit: whether there are deadlines, on a
//! line that it reads anyway. They are made with the cache if its builder speaks of
//! lifetimes, and otherwise with the first entry that has one.
//!
//! An entry whose deadline has passed is absent for every look-up, from the first moment
//! that the look-up's clock shows. It is taken out by whoever finds it, or by the wheels
//! (`deadlines.rs`), which writers turn: one batch of 64 slots for an insertion, at most.
//! No thread of its own.
//!
//! A hit reads the second of the calendar, and in the entry's header whether the deadline is
//! far (`hints.rs`); if that does not say so, the deadline, and near it a clock (`clock.rs`).
//! 24 bytes an entry, 32 with time to idle.

mod answers;
mod builder;
pub(crate) mod deadlines;
pub(crate) mod generations;
pub(crate) mod hints;
pub(crate) mod wheel;

use std::hash::{BuildHasher, Hash};
use std::sync::OnceLock;
use std::time::Duration;

use equivalent::Equivalent;

use crate::cache::{Cache, Found};
use crate::clock::{Clock, END, UserClock, nanoseconds};
use crate::core::index::Place;
use crate::core::order::Ensure;
use crate::core::slab::At;
use crate::core::write::Ending;
use crate::smr::fence;
use crate::smr::stripe::{Held, Reader, add};
use crate::sync::atomic::AtomicU16;
use crate::sync::atomic::Ordering::Relaxed;

use answers::Jitter;
use deadlines::{Batch, Deadlines, Spans, Term};

/// How long an entry lives; `None` where it does not end by itself.
pub(crate) type Lifetime<K, V> = Box<dyn Fn(&K, &V) -> Option<Duration> + Send + Sync>;

/// What is left from an event on of an entry of which so much is left.
pub(crate) type Answer<K, V> =
    Box<dyn Fn(&K, &V, Option<Duration>) -> Option<Duration> + Send + Sync>;

/// What a builder says of lifetimes.
pub(crate) struct Terms<K, V> {
    pub(crate) to_live: Option<Duration>,
    pub(crate) to_idle: Option<Duration>,
    pub(crate) of_entry: Option<Lifetime<K, V>>,
    pub(crate) of_update: Option<Answer<K, V>>,
    pub(crate) of_read: Option<Answer<K, V>>,
    /// By what share lifetimes are shortened at most.
    pub(crate) jitter: f64,
    pub(crate) clock: Option<UserClock>,
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
            clock: None,
        }
    }
}

impl<K, V> Terms<K, V> {
    /// Whether entries expire whose insertion does not say so.
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
    deadlines: OnceLock<Box<Deadlines>>,
    pub(crate) clock: Clock,
    /// Nanoseconds; [`END`] for ever.
    to_live: u64,
    /// Nanoseconds, if entries go that nobody uses.
    to_idle: Option<u64>,
    of_entry: Option<Lifetime<K, V>>,
    of_update: Option<Answer<K, V>>,
    of_read: Option<Answer<K, V>>,
    jitter: Jitter,
    /// How many slots are expected.
    slots: u32,
}

impl<K, V> Expiry<K, V> {
    /// Where so many slots are expected.
    pub(crate) fn new(terms: Terms<K, V>, slots: u32) -> Self {
        Expiry {
            deadlines: OnceLock::new(),
            clock: Clock::new(terms.clock),
            to_live: terms.to_live.map_or(END, nanoseconds),
            to_idle: terms.to_idle.map(nanoseconds).filter(|&span| span < END),
            of_entry: terms.of_entry,
            of_update: terms.of_update,
            of_read: terms.of_read,
            jitter: Jitter::new(terms.jitter),
            slots,
        }
    }

    /// Whether entries have deadlines of which nobody speaks who inserts them.
    fn is_set(&self) -> bool {
        self.to_live < END
            || self.to_idle.is_some()
            || self.of_entry.is_some()
            || self.of_update.is_some()
            || self.of_read.is_some()
    }

    /// The deadlines, if any entry has ever had one.
    #[inline(always)]
    pub(crate) fn deadlines(&self) -> Option<&Deadlines> {
        self.deadlines.get().map(|deadlines| &**deadlines)
    }

    #[cold]
    fn make(&self, used: u32) -> &Deadlines {
        let spans = Spans { live: self.to_live, idle: self.to_idle, reads: self.of_read.is_some() };
        let make = || Box::new(Deadlines::new(self.slots, used, spans, &self.clock));
        self.deadlines.get_or_init(make)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.deadlines().map_or(0, Deadlines::heap_bytes)
    }
}

/// How often a purge finds no segments in a row before it gives up.
const SHORTAGES: u32 = 2;

/// What became of slots that were looked at.
#[derive(Default)]
struct Outcome {
    expired: u64,
    /// Whether there were no segments to go on with.
    short: bool,
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Puts an entry in that goes after `lifetime`, whatever
    /// [`Builder::time_to_live`](crate::Builder::time_to_live) and
    /// [`Builder::expire_after`](crate::Builder::expire_after) say. Otherwise as
    /// [`Cache::insert`].
    ///
    /// Any cache can do this. One whose builder did not speak of lifetimes lays out what it
    /// needs for them when it is first asked to: [24 bytes an entry](crate#memory).
    /// `Duration::ZERO` is over at once; what is too long to be counted (73 years) never ends.
    ///
    /// ```
    /// use std::time::Duration;
    /// let cache: frazil::Cache<&str, u64> = frazil::Cache::builder(100).build();
    /// cache.insert_for("token", 42, Duration::from_secs(3600));
    /// cache.insert_for("gone", 43, Duration::ZERO);
    /// assert_eq!((cache.get("token"), cache.get("gone")), (Some(42), None));
    /// assert_eq!(cache.stats().expirations, 1);
    /// ```
    pub fn insert_for(&self, key: K, value: V, lifetime: Duration) {
        // As in `insert`.
        let _steps = self.listener.is_some().then(|| self.steps());
        let term = self.term_for(&key, lifetime);
        _ = self.put(key, value, term, drop);
    }

    /// As [`Cache::insert_for`], with a lifetime that nothing is to be taken from.
    pub(crate) fn insert_for_exactly(&self, key: K, value: V, lifetime: Duration) {
        let _steps = self.listener.is_some().then(|| self.steps());
        let term = self.term_of(self.deadlines_made(), nanoseconds(lifetime));
        _ = self.put(key, value, term, drop);
    }

    /// When a newcomer expires that lives so long, in any cache.
    pub(crate) fn term_for(&self, key: &K, lifetime: Duration) -> Term {
        let lifetime = self.jittered(key, nanoseconds(lifetime));
        self.term_of(self.deadlines_made(), lifetime)
    }

    fn deadlines_made(&self) -> &Deadlines {
        let make = || self.expiry.make(self.reclaim.used().end);
        self.expiry.deadlines().unwrap_or_else(make)
    }

    /// When a newcomer expires of which the caller says nothing. Does a writer's share of
    /// the work on what has expired before.
    #[inline(always)]
    pub(crate) fn term(&self, key: &K, value: &V) -> Term {
        match self.expiry.deadlines() {
            None if !self.expiry.is_set() => Term::NEVER,
            None => self.term_now(self.expiry.make(self.reclaim.used().end), key, value),
            Some(deadlines) => self.term_now(deadlines, key, value),
        }
    }

    #[inline(never)]
    fn term_now(&self, deadlines: &Deadlines, key: &K, value: &V) -> Term {
        if let Some(of_update) = &self.expiry.of_update
            && let Some(term) = self.term_of_update(deadlines, of_update, key, value)
        {
            return term;
        }
        let lifetime = match &self.expiry.of_entry {
            Some(of_entry) => of_entry(key, value).map_or(END, nanoseconds),
            None => self.expiry.to_live,
        };
        self.term_of(deadlines, self.jittered(key, lifetime))
    }

    #[inline(always)]
    fn term_of(&self, deadlines: &Deadlines, lifetime: u64) -> Term {
        let Expiry { clock, to_idle, .. } = &self.expiry;
        let coarse = clock.coarse();
        self.expire_some_if_due(deadlines, coarse);
        let shortest = to_idle.map_or(lifetime, |idle| idle.min(lifetime));
        deadlines.term(clock.stamp(coarse, shortest), lifetime)
    }

    #[inline(always)]
    fn hint(&self, slot: u32) -> &AtomicU16 {
        &self.slab.header(slot).hint
    }

    /// Whether the entry in a slot has expired, of which the caller leaves no trace. The
    /// slot is protected.
    #[inline(always)]
    pub(crate) fn has_expired(&self, slot: u32) -> bool {
        self.expiry.deadlines().is_some_and(|deadlines| {
            !deadlines.hints.is_far(self.hint(slot)) && self.is_outlived(deadlines, slot)
        })
    }

    #[inline(never)]
    fn is_outlived(&self, deadlines: &Deadlines, slot: u32) -> bool {
        deadlines.passed_by(slot, &self.expiry.clock, |slot| self.hint(slot))
    }

    /// The same of an entry that is being used.
    #[inline(always)]
    pub(crate) fn has_expired_in_use(&self, slot: u32, at: At<'_>) -> bool {
        self.expiry.deadlines().is_some_and(|deadlines| {
            !deadlines.hints.is_far(&self.slab.header_at(at).hint)
                && self.is_outlived_in_use(deadlines, slot)
        })
    }

    #[inline(never)]
    fn is_outlived_in_use(&self, deadlines: &Deadlines, slot: u32) -> bool {
        if let Some(of_read) = &self.expiry.of_read {
            return self.is_outlived_when_read(deadlines, of_read, slot);
        }
        deadlines.passed_in_use(slot, &self.expiry.clock, |slot| self.hint(slot))
    }

    /// A get has found an entry that has expired in this slot, which is protected. Hashes once
    /// more and looks for the word again, so that a hit need not keep either while it asks for
    /// the time.
    #[cold]
    #[inline(never)]
    pub(crate) fn miss_expired<Q: Hash + ?Sized>(&self, reader: &Reader, key: &Q, slot: u32) {
        let (hash, place) = self.place(key);
        add(&reader.misses, 1);
        reader.missed.store(hash, Relaxed);
        let telling = self.telling();
        self.leave(slot);
        let mut held = self.hold();
        if self.index.unlink(place, slot) {
            self.bury(&mut held, slot, Ending::Expired);
        }
        drop(held);
        drop(telling);
        self.reclaim_if_due();
    }

    /// Takes out an entry that has expired, unless another thread has changed the word.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_out_expired(&self, place: Place, found: &Found<'_>) {
        let _telling = self.telling();
        self.leave(found.slot);
        let mut held = self.hold();
        let (cell, word) = self.as_it_is(place, found);
        if self.index.unlink_cell(place, cell, word) {
            self.bury(&mut held, found.slot, Ending::Expired);
        }
    }

    /// How long entries live from their insertion on, if all do alike:
    /// [`Builder::time_to_live`](crate::Builder::time_to_live).
    ///
    /// ```
    /// use std::time::Duration;
    /// let day = Duration::from_secs(86_400);
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).time_to_live(day).build();
    /// assert_eq!((cache.time_to_live(), cache.time_to_idle()), (Some(day), None));
    /// ```
    pub fn time_to_live(&self) -> Option<Duration> {
        (self.expiry.to_live < END).then(|| Duration::from_nanos(self.expiry.to_live))
    }

    /// How long entries live from their last use on:
    /// [`Builder::time_to_idle`](crate::Builder::time_to_idle).
    ///
    /// ```
    /// use std::time::Duration;
    /// let hour = Duration::from_secs(3600);
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).time_to_idle(hour).build();
    /// assert_eq!(cache.time_to_idle(), Some(hour));
    /// ```
    pub fn time_to_idle(&self) -> Option<Duration> {
        self.expiry.to_idle.map(Duration::from_nanos)
    }

    /// How long `key` will be there, as far as it depends on time: until its lifetime is
    /// over, or nobody has used it for the time to idle. That may be an eighth of a second
    /// more than was asked for, and a 64th of the time to idle. `Duration::MAX` if it never
    /// goes by itself, `None` if it is not there. Leaves no trace.
    ///
    /// ```
    /// use std::time::Duration;
    /// let day = Duration::from_secs(86_400);
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).time_to_live(day).build();
    /// cache.insert(1, 10);
    /// let left = cache.lifetime_left(&1).unwrap();
    /// assert!(left > day / 2 && left < 2 * day);
    /// assert_eq!(cache.lifetime_left(&2), None);
    /// ```
    pub fn lifetime_left<Q>(&self, key: &Q) -> Option<Duration>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.look_up(key, |slot| self.left(slot))?
    }

    /// What a protected slot has left, or `None` if it is over: by the clock of look-ups, which
    /// the exact one may be ahead of.
    fn left(&self, slot: u32) -> Option<Duration> {
        let Expiry { clock, .. } = &self.expiry;
        let Some(deadlines) = self.expiry.deadlines() else { return Some(Duration::MAX) };
        match deadlines.living(slot, || clock.coarse())? {
            0 => Some(Duration::MAX),
            deadline => Some(Duration::from_nanos(deadline.saturating_sub(clock.exact()).max(1))),
        }
    }

    /// What a protected slot has left if it is used, or `None` if that is over.
    pub(crate) fn left_in_use(&self, slot: u32) -> Option<Duration> {
        match self.expiry.deadlines() {
            None => Some(Duration::MAX),
            Some(deadlines) if deadlines.generations.is_stale(slot) => None,
            Some(deadlines) => self.until(deadlines.limit(slot)),
        }
    }

    /// How long it is until a deadline, if that is not over.
    fn until(&self, deadline: u64) -> Option<Duration> {
        if deadline == 0 {
            return Some(Duration::MAX);
        }
        let left = deadline.checked_sub(self.expiry.clock.exact())?;
        (left > 0).then(|| Duration::from_nanos(left))
    }

    /// Takes out everything that has expired or was
    /// [invalidated](Cache::invalidate_all), and returns how many entries that were.
    /// Remembered [errors](crate::Fetching::negative_ttl) go too, and are not counted.
    ///
    /// There is no need to call this: nobody sees an entry that has expired, insertions
    /// take them out as time goes by, and what room they take is not missed before there are
    /// insertions. It gives back memory early, or where nobody inserts. O(expired), in
    /// steps of 64 entries, so that others get on in between; O(capacity) the first time after
    /// all were invalidated.
    ///
    /// ```
    /// use std::time::Duration;
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// (0..10).for_each(|key| cache.insert_for(key, key, Duration::from_micros(key % 2)));
    /// std::thread::sleep(Duration::from_millis(1));
    /// assert_eq!((cache.purge(), cache.len()), (10, 0));
    /// ```
    pub fn purge(&self) -> u64 {
        let steps = self.steps();
        steps.take(|| self.forget_expired_errors());
        let Some(deadlines) = self.expiry.deadlines() else { return 0 };
        let now = self.expiry.clock.exact();
        let mut expired = self.purge_stale(deadlines, &steps);
        for wheel in 0..deadlines.wheels() {
            deadlines.recall(wheel);
            let mut vain = 0;
            // Others may add to it meanwhile: no more than all there is.
            for _ in 0..deadlines.batches() {
                let Some(batch) = deadlines.take(wheel, now) else { break };
                // What panics has been listed again, for later.
                let outcome =
                    steps.take(|| self.expire(deadlines, &batch, now)).unwrap_or_default();
                expired += outcome.expired;
                vain = if outcome.expired == 0 { vain + u32::from(outcome.short) } else { 0 };
                if vain > SHORTAGES {
                    break;
                }
                if outcome.short {
                    // There are segments again, and what had to wait for them is listed.
                    deadlines.recall(wheel);
                }
            }
        }
        if expired > 0 {
            steps.take(|| self.scavenge(false));
        }
        expired
    }

    #[inline(always)]
    fn expire_some_if_due(&self, deadlines: &Deadlines, coarse: u64) {
        if deadlines.is_time(coarse) {
            self.expire_some(deadlines);
        }
    }

    /// A writer's share of the work.
    #[cold]
    #[inline(never)]
    fn expire_some(&self, deadlines: &Deadlines) {
        let now = self.expiry.clock.exact();
        if let Some(batch) = deadlines.take_due(now) {
            self.expire(deadlines, &batch, now);
        }
    }

    /// Looks at slots that a wheel has handed out, and takes out those that have expired.
    fn expire(&self, deadlines: &Deadlines, batch: &Batch, now: u64) -> Outcome {
        let telling = self.telling();
        let mut outcome = Outcome::default();
        // Also if the user's code panics, which may be asked for the hash of a key.
        let unlisted = Ensure::new(&mut outcome, |_| deadlines.list_again(batch, now));
        // Partner: the light fence of `Deadlines::begin`.
        fence::heavy();
        let mut held = self.hold();
        for &slot in batch.slots() {
            if !deadlines.is_due(slot, now) {
                continue;
            }
            // For what it is retired in, or put back in.
            let buffers = &mut *held;
            if !buffers.spares.stock(&self.segments, &mut buffers.traffic) {
                unlisted.on.short = true;
                break;
            }
            let expired = self.expire_slot(&mut held, deadlines, slot, now);
            unlisted.on.expired += u64::from(expired);
        }
        self.settle(&mut held);
        // Before `list_again`, which a destructor may be run by.
        drop(held);
        drop(unlisted);
        drop(telling);
        if outcome.short {
            // What expires leaves holes in the queues, which only evictions fill.
            self.scavenge(true);
        }
        self.reclaim_if_due();
        outcome
    }

    /// Takes out the entry in a slot whose deadline has passed, unless another thread has
    /// the slot in hand. Whether it did.
    fn expire_slot(&self, held: &mut Held<'_>, deadlines: &Deadlines, slot: u32, now: u64) -> bool {
        let loose = self.frozen.is_some() && self.slab.header(slot).take_loose();
        if !loose && !self.hand(held, |hand| self.order.detach(hand, slot)) {
            return false;
        }
        // What was taken may be another entry than had the deadline: the slot may have been
        // used again. From here on it is not.
        if deadlines.is_due(slot, now) {
            return self.let_go(held, slot, Ending::Expired);
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
            .field("clock", &self.clock.is_some())
            .finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Instant;

    use super::*;

    const ENTRIES: u64 = 1_000_000;

    /// A million entries expire at once. All that happens under a wheel's lock is what
    /// `take_due` and `list_again` do: so many slots at most. How long they take with all around
    /// them is printed, and some µs on an idle machine.
    #[test]
    fn no_lock_is_held_for_long_when_a_million_entries_expire() {
        let time = Arc::new(AtomicU64::new(0));
        let clock = time.clone();
        let mut cache: Cache<u64, u64> = Cache::builder(ENTRIES)
            .time_to_live(Duration::from_secs(60))
            .clock(move || Duration::from_nanos(clock.load(Relaxed)))
            .build();
        // Inserted by chance, so that neighbours in a list lie far apart.
        (0..ENTRIES).for_each(|key| cache.insert(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key));
        time.store(61_000_000_000, Relaxed);
        let deadlines = cache.expiry.deadlines().expect("made by the builder");
        let (mut taking, mut listing, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        let mut expired = 0;
        loop {
            let now = cache.expiry.clock.exact();
            let began = Instant::now();
            let Some(batch) = deadlines.take_due(now) else { break };
            taking.push(began.elapsed());
            assert!(batch.slots().len() <= deadlines::STEP);
            expired += cache.expire(deadlines, &batch, now).expired;
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

    /// As where segments are short: a purge looks again at what it could not take out.
    #[test]
    fn what_was_left_aside_is_handed_out_again() {
        let time = Arc::new(AtomicU64::new(0));
        let clock = time.clone();
        let mut cache: Cache<u64, u64> =
            Cache::builder(100).clock(move || Duration::from_nanos(clock.load(Relaxed))).build();
        (0..9).for_each(|key| cache.insert_for(key, key, Duration::from_millis(1)));
        time.store(2_000_000_000, Relaxed);
        let deadlines = cache.expiry.deadlines().expect("an entry has one");
        let now = cache.expiry.clock.exact();
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
        let cache: Cache<u64, u64> = Cache::builder(100_000)
            .clock(move || Duration::from_nanos(clock.load(Relaxed)))
            .build();
        (0..50_000).for_each(|key| cache.insert_for(key, key, Duration::from_secs(1)));
        time.store(2_000_000_000, Relaxed);
        let mut insertions = 0;
        while cache.stats().expirations < 50_000 {
            let before = cache.stats().expirations;
            cache.insert(60_000, 0);
            insertions += 1;
            assert!(cache.stats().expirations - before <= deadlines::STEP as u64);
        }
        assert!(insertions < 2 * 50_000 / deadlines::STEP);
        assert_eq!(cache.len(), 1);
    }
}
