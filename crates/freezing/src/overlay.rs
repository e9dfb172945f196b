//! The overlay on another cache: the table in front of it, and the counts for the
//! controller.
//!
//! If anything is frozen, a look-up searches the table first, and then the cache. A write changes
//! the cache, and then takes the key out of the table. `docs/design/freezing-other-caches.md`
//! explains why no look-up finds a value that a completed write has replaced or removed.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::control::{Controlled, FreezingControl, LOOK};
use crate::host::{Host, Insertion};
use crate::learn::{Gate, Learner, Samples, byte_of_rank, overhead_ns};
use crate::published::{Claims, Published, Withdrawn};
use crate::state::FreezingState;
use crate::steering::{Counts, Steering, Subject, Teacher};
use crate::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::table::Table;
use crate::threads::{PLACES, Place};

/// Number of times that a freeze checks whether readers of the last table have finished, before it
/// gives up. With the system's overhead for short sleeps that takes 10 to 25 ms.
const LOOKS: usize = if cfg!(loom) { 1 } else { 200 };
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);

/// Nothing is frozen.
const DYNAMIC: u8 = 0;
/// The table is being filled.
const FILLING: u8 = 1;
/// Look-ups search the table.
const SHOWN: u8 = 2;
/// Look-ups do not search it, and the frozen entries are still set aside.
const ABANDONED: u8 = 3;

/// The counts of a thread.
#[derive(Debug, Default)]
struct Counted {
    frozen_hits: AtomicU64,
    dynamic_hits: AtomicU64,
    misses: AtomicU64,
    gone: AtomicU64,
    /// The hash of the key whose miss is timed until its insertion, or 0.
    timed_miss: AtomicU64,
    samples: OnceLock<Box<Samples>>,
}

/// The gate that selects requests to observe.
#[derive(Debug, Default)]
struct Door {
    /// Requests with hashes below it are observed for learning.
    learning: AtomicU64,
    /// All requests are observed for timing.
    timing: AtomicBool,
}

impl Gate for Door {
    fn learn_from(&self, share: f64) -> u64 {
        // Half of 2^64 is exact; 1 becomes all hashes but one.
        let threshold = (share * 2f64.powi(64)) as u64;
        self.learning.store(threshold, Relaxed);
        threshold
    }

    fn time(&self, all: bool) {
        self.timing.store(all, Relaxed);
    }

    fn try_end_timing(&self) -> bool {
        self.timing.store(false, Relaxed);
        true
    }
}

impl Door {
    #[inline(always)]
    fn is_open(&self) -> bool {
        self.learning.load(Relaxed) != 0 || self.timing.load(Relaxed)
    }

    #[inline(always)]
    fn wants(&self, hash: u64) -> bool {
        hash < self.learning.load(Relaxed) || self.timing.load(Relaxed)
    }
}

type TableOf<H> = Table<<H as Host>::Key, <H as Host>::Value>;

/// State of the freezer.
struct Work<H: Host> {
    /// The last table, until no thread reads it.
    withdrawn: Option<Withdrawn<TableOf<H>>>,
    /// Whether the host has anything set aside.
    is_aside: bool,
}

/// A cache with an overlay: its hottest entries are frozen by hand, or by [a
/// thread](Self::control) while it pays.
///
/// Frozen entries are in the table *and* in the host. A frozen hit takes no lock of the host and
/// leaves no mark: it costs one locked instruction on a line of the thread's own, and a read of one
/// or two lines of the table. Other hits have the host's cost, and in a frozen phase a look-up in
/// the table.
///
/// Keys and values are cloned into the table, 53 bytes an entry of two numbers. It also
/// takes 16 kB, and 1.3 kB for each thread that was observed.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
/// use frazil_freezing::{Host, Insertion, Mark, Overlay};
///
/// /// Keeps the first thousand keys, and evicts nothing.
/// #[derive(Default)]
/// struct First(Mutex<HashMap<u64, (u64, Mark)>>);
///
/// impl Host for First {
///     type Key = u64;
///     type Value = u64;
///     fn len(&self) -> usize { self.0.lock().unwrap().len() }
///     fn get(&self, key: &u64, hit: impl FnOnce(&Mark)) -> Option<u64> {
///         self.0.lock().unwrap().get(key).map(|(value, mark)| { hit(mark); *value })
///     }
///     fn insert(&self, key: &u64, value: u64) -> Insertion {
///         let mut map = self.0.lock().unwrap();
///         if let Some((old, _)) = map.get_mut(key) {
///             *old = value;
///             return Insertion::Replaced;
///         }
///         if map.len() == 1_000 {
///             return Insertion::Refused;
///         }
///         map.insert(*key, (value, Mark::default()));
///         Insertion::Admitted { evicted: 0 }
///     }
///     fn remove(&self, key: &u64) -> Option<u64> {
///         self.0.lock().unwrap().remove(key).map(|(value, _)| value)
///     }
///     fn walk(&self, show: &mut dyn FnMut(&Mark)) {
///         self.0.lock().unwrap().values().for_each(|(_, mark)| show(mark));
///     }
///     fn set_aside(&self, count: usize, copy: &mut dyn FnMut(&u64, &u64)) -> usize {
///         let map = self.0.lock().unwrap();
///         map.iter().take(count).map(|(key, (value, _))| copy(key, value)).count()
///     }
///     fn give_back(&self) {}
/// }
///
/// let cache = Overlay::new(First::default());
/// cache.insert(&1, 10);
/// assert_eq!(cache.freeze(1.0), Some(1));
/// assert_eq!(cache.get(&1), Some(10));
/// assert_eq!(cache.counts().frozen_hits, 1);
/// cache.insert(&1, 11);
/// assert_eq!((cache.get(&1), cache.counts().frozen_hits), (Some(11), 1));
/// assert!(!cache.needs_thaw());
/// // Or as much as pays: by a thread, `control`, or by your own `steps`.
/// let mut steps = cache.steps()?;
/// let idle = steps.step(std::time::Duration::ZERO);
/// # drop(steps);
/// # std::io::Result::Ok(())
/// ```
pub struct Overlay<H: Host, S = RandomState> {
    host: H,
    hasher: S,
    /// Written to freeze and to thaw, and read by all threads.
    shown: Line<Shown<H>>,
    door: Line<Door>,
    learner: Learner,
    claims: Claims<Counted>,
    work: Mutex<Work<H>>,
    /// Whether a withdrawn table is not yet dropped, so that a step need not take the lock to
    /// check. An atomic of the standard library, because no model depends on it.
    has_withdrawn: std::sync::atomic::AtomicBool,
    /// Held for a step.
    steering: Mutex<Steering>,
    /// The result of the last step. The lock is held only for a moment.
    state: Mutex<FreezingState>,
    controlled: Controlled,
    origin: Instant,
    /// The cost of reading the clock.
    overhead_ns: u64,
}

/// On cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Line<T>(T);

struct Shown<H: Host> {
    /// [`DYNAMIC`], [`FILLING`], [`SHOWN`] or [`ABANDONED`].
    stage: AtomicU8,
    table: Published<TableOf<H>>,
}

impl<H: Host> Overlay<H> {
    /// Puts an overlay on a cache. Nothing is frozen.
    pub fn new(host: H) -> Self {
        Overlay::with_hasher(host, RandomState::new())
    }
}

impl<H: Host, S: BuildHasher> Overlay<H, S> {
    /// The same with a hasher for the table.
    pub fn with_hasher(host: H, hasher: S) -> Self {
        let shown = Shown { stage: AtomicU8::new(DYNAMIC), table: Published::default() };
        let origin = Instant::now();
        let steering = Steering::default();
        Overlay {
            host,
            hasher,
            shown: Line(shown),
            door: Line::default(),
            learner: Learner::default(),
            claims: Claims::new(PLACES),
            work: Mutex::new(Work { withdrawn: None, is_aside: false }),
            has_withdrawn: false.into(),
            state: Mutex::new(steering.state()),
            steering: Mutex::new(steering),
            controlled: Controlled::default(),
            origin,
            overhead_ns: overhead_ns(|| nanoseconds_since(origin)),
        }
    }

    /// The cache below. After a direct write to it call [`forget`](Self::forget).
    pub fn host(&self) -> &H {
        &self.host
    }

    /// The value of a key: from the table if it is frozen, else from the host. O(1).
    #[inline]
    pub fn get(&self, key: &H::Key) -> Option<H::Value> {
        let place = Place::of_this_thread();
        // The hash is computed only if it is needed.
        if self.door.0.is_open() || self.shown.0.stage.load(Relaxed) == SHOWN {
            let hash = self.hash(key);
            if self.door.0.wants(hash) {
                return self.get_observed(place, hash, key);
            }
            if let Some(value) = self.find_frozen(place, hash, key) {
                return Some(value);
            }
        }
        let value = self.host.get(key, |_| ());
        let counted = self.claims.beside(place.at);
        place.count(if value.is_some() { &counted.dynamic_hits } else { &counted.misses });
        value
    }

    /// Inserts or replaces. While everything in a full cache is frozen its host refuses new
    /// entries. O(1).
    pub fn insert(&self, key: &H::Key, value: H::Value) -> Insertion {
        let place = Place::of_this_thread();
        let counted = self.claims.beside(place.at);
        let missed = counted.timed_miss.load(Relaxed);
        if missed != 0 && missed == self.hash(key) | 1 {
            self.end_timed_miss(counted);
        }
        let written = self.is_written();
        let insertion = self.host.insert(key, value);
        if let Insertion::Admitted { evicted } = insertion {
            place.add(&counted.gone, evicted);
        }
        // Also for a refused entry: the host may have dropped the previous one.
        self.take_out(place, key);
        written.needs_nothing();
        insertion
    }

    /// Removes a key, and returns its value. O(1).
    pub fn remove(&self, key: &H::Key) -> Option<H::Value> {
        let written = self.is_written();
        let removed = self.host.remove(key);
        if removed.is_some() {
            let place = Place::of_this_thread();
            place.count(&self.claims.beside(place.at).gone);
        }
        self.take_out(Place::of_this_thread(), key);
        written.needs_nothing();
        removed
    }

    /// Hides a key from look-ups in the table. Call it after the key was changed in the host or
    /// removed from it, other than through this overlay. O(1).
    pub fn forget(&self, key: &H::Key) {
        let written = self.is_written();
        self.take_out(Place::of_this_thread(), key);
        written.needs_nothing();
    }

    /// Freezes the hottest entries, a share of all from 0 to 1, and returns their number. Entries
    /// frozen before are thawed first. O(entries), concurrently with other threads.
    ///
    /// `None` if it cannot be done now; then nothing is frozen: a reader of the last table has
    /// not released it in some 20 ms, a writer had to withdraw the new one, or another thread
    /// freezes or thaws.
    pub fn freeze(&self, share: f64) -> Option<u64> {
        let mut work = try_lock(&self.work)?;
        self.thaw_all(&mut work);
        let share = if share > 0.0 { share.min(1.0) } else { 0.0 };
        let count = (self.host.len() as f64 * share).round() as usize;
        if count == 0 {
            return Some(0);
        }
        if !self.reclaim(&mut work) {
            return None;
        }
        // If user code panics, the state is restored; and not in a destructor, where a second
        // panic would end the process.
        match catch_unwind(AssertUnwindSafe(|| self.fill(&mut work, count))) {
            Ok(Some(entries)) if entries > 0 => Some(entries),
            Ok(outcome) => {
                self.thaw_all(&mut work);
                outcome
            }
            Err(panic) => {
                let _ = catch_unwind(AssertUnwindSafe(|| self.thaw_all(&mut work)));
                resume_unwind(panic)
            }
        }
    }

    /// Fills a table with the `count` hottest entries, and publishes it.
    fn fill(&self, work: &mut Work<H>, count: usize) -> Option<u64> {
        let Shown { stage, table } = &self.shown.0;
        // An exchange, as in `thaw_all`: loom lets a store come before what `abandon` has
        // exchanged.
        stage.swap(FILLING, Relaxed);
        table.publish(Box::new(Table::new(count)));
        work.is_aside = true;
        let held = self.claims.take_any(Place::of_this_thread().at)?;
        let filling = table.get(&held)?;
        let aside = self.host.set_aside(count, &mut |key, value| {
            // Look-ups find an entry without room in the host.
            filling.add(self.hash(key), key.clone(), value.clone());
        });
        drop(held);
        if aside == 0 {
            return Some(0);
        }
        // Release: the table. Partner: the Acquire of `find_frozen`. Not if a writer has withdrawn
        // it.
        stage.compare_exchange(FILLING, SHOWN, Release, Relaxed).ok()?;
        Some(aside as u64)
    }

    /// Returns the frozen entries to the host's policy. O(entries), concurrently with other
    /// threads. Does nothing while another thread freezes or thaws.
    pub fn thaw(&self) {
        if let Some(mut work) = try_lock(&self.work) {
            self.thaw_all(&mut work);
            self.reclaim_now(&mut work);
        }
    }

    /// The counts. O(threads).
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for counted in self.claims.all() {
            let read = |count: &AtomicU64| count.load(Relaxed);
            let (frozen, dynamic) = (read(&counted.frozen_hits), read(&counted.dynamic_hits));
            counts.frozen_hits = counts.frozen_hits.wrapping_add(frozen);
            counts.hits = counts.hits.wrapping_add(frozen).wrapping_add(dynamic);
            counts.misses = counts.misses.wrapping_add(read(&counted.misses));
            counts.gone = counts.gone.wrapping_add(read(&counted.gone));
        }
        counts
    }

    /// The state of its controller after its last step.
    pub fn state(&self) -> FreezingState {
        lock(&self.state).clone()
    }

    /// Whether entries are set aside, hidden from the host's policy, but no look-up finds them in
    /// the table. That happens if a write panicked, or found the maximum number of look-ups under
    /// way and had to withdraw the table. [`thaw`](Self::thaw), [`freeze`](Self::freeze) and the
    /// next step of a controller return them to the policy. O(1).
    pub fn needs_thaw(&self) -> bool {
        self.shown.0.stage.load(Relaxed) == ABANDONED
    }

    /// For programs that use their own thread for the work of [`control`](Self::control). When
    /// dropped, it thaws frozen entries.
    ///
    /// # Errors
    ///
    /// `ResourceBusy` while another [`Steps`] or a handle of `control` lives.
    pub fn steps(&self) -> io::Result<Steps<'_, H, S>> {
        self.controlled.begin()?;
        Ok(Steps(self))
    }

    /// Learns, freezes or thaws. Returns the time until the next step. Only the thread that
    /// controls the cache calls it.
    fn step(&self, now: Duration) -> Duration {
        // The lock is free, unless a process was forked from within a step.
        let Some(mut steering) = try_lock(&self.steering) else { return LOOK };
        let step = steering.step(now, &Learning(self));
        *lock(&self.state) = step.state;
        drop(steering);
        if !self.has_withdrawn.load(Relaxed) {
            return step.idle;
        }
        // A reader was still using the table when it was withdrawn, and there may be no freeze for
        // hours.
        let is_dropped = try_lock(&self.work).is_some_and(|mut work| self.reclaim_now(&mut work));
        if is_dropped { step.idle } else { step.idle.min(LOOK) }
    }

    /// Learns the best share and freezes it, in its own thread, until the handle is dropped.
    ///
    /// # Errors
    ///
    /// `ResourceBusy` while another handle or a [`Steps`] lives, and the system's errors for the
    /// thread.
    pub fn control(self: &Arc<Self>) -> io::Result<FreezingControl>
    where
        H: 'static,
        S: Send + Sync + 'static,
    {
        let step = |it: &Self| it.step(it.origin.elapsed());
        FreezingControl::spawn(self, |it| &it.controlled, step, Self::end)
    }

    /// Leaves the cache as if nothing had ever been frozen.
    fn end(&self) {
        self.learner.stop(&self.door.0);
        self.learner.stop_timing(&self.door.0);
        // As in `step`.
        if let Some(mut steering) = try_lock(&self.steering) {
            steering.restart();
            *lock(&self.state) = steering.state();
        }
        self.thaw();
    }

    /// Spreads a hash over all bits, for any hasher: the table and the gate use the upper ones.
    #[inline(always)]
    fn hash(&self, key: &H::Key) -> u64 {
        self.hasher.hash_one(key).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[inline(always)]
    fn find_frozen(&self, place: Place, hash: u64, key: &H::Key) -> Option<H::Value> {
        let Shown { stage, table } = &self.shown.0;
        if stage.load(Relaxed) != SHOWN {
            return None;
        }
        let held = self.claims.take_one(place.at)?;
        let table = table.get(&held)?;
        // Acquire: partner is the Release of `freeze`. As long as the claim is held no other table
        // takes the place of this one.
        if stage.load(Acquire) != SHOWN {
            return None;
        }
        let value = table.find(hash, key)?.clone();
        place.count(&self.claims.beside(place.at).frozen_hits);
        Some(value)
    }

    /// An observed get.
    #[cold]
    #[inline(never)]
    fn get_observed(&self, place: Place, hash: u64, key: &H::Key) -> Option<H::Value> {
        let counted = self.claims.beside(place.at);
        let samples = &**counted.samples.get_or_init(Box::default);
        let is_timed = self.learner.is_to_be_timed(samples, &self.door.0);
        let is_learnt = self.learner.wants(hash);
        let began = nanoseconds_since(self.origin);
        // Computed again, because an unobserved look-up computes one, and the cost belongs to the
        // measured time.
        let is_shown = self.shown.0.stage.load(Relaxed) == SHOWN;
        let frozen = if is_shown { self.find_frozen(place, self.hash(key), key) } else { None };
        let (is_frozen, value) = match frozen {
            Some(value) => (true, Some(value)),
            None => (
                false,
                self.host.get(key, |mark| {
                    if is_learnt {
                        self.learner.hit(samples, &mark.0);
                    }
                }),
            ),
        };
        let elapsed = nanoseconds_since(self.origin).saturating_sub(began + self.overhead_ns);
        match &value {
            Some(_) if is_frozen => {}
            Some(_) => place.count(&counted.dynamic_hits),
            None => place.count(&counted.misses),
        }
        if value.is_none() && is_learnt {
            self.learner.miss(samples);
        }
        if is_timed && value.is_some() {
            samples.hit_took(is_frozen, elapsed);
        } else if is_timed {
            samples.look_up_failed(began, elapsed);
            counted.timed_miss.store(hash | 1, Relaxed);
        }
        value
    }

    /// The insertion that a miss of this thread awaited has happened.
    #[cold]
    fn end_timed_miss(&self, counted: &Counted) {
        counted.timed_miss.store(0, Relaxed);
        if let Some(samples) = counted.samples.get() {
            samples.arrived(nanoseconds_since(self.origin));
        }
    }

    /// Prevents look-ups from finding a key in the table that the caller has written in the host.
    #[inline(always)]
    fn take_out(&self, place: Place, key: &H::Key) {
        // Relaxed: a thread that copied the key has published the table before, and released the
        // host's lock that the caller has taken since; or it copies the value that the caller has
        // written.
        if self.shown.0.table.is_any() {
            self.take_out_of_table(place, self.hash(key), key);
        }
    }

    #[inline(never)]
    fn take_out_of_table(&self, place: Place, hash: u64, key: &H::Key) {
        let Shown { stage, table } = &self.shown.0;
        let Some(held) = self.claims.take_any(place.at) else {
            // There are as many readers as claims, and none releases its claim, so look-ups must no
            // longer use the table.
            return abandon(stage);
        };
        if let Some(table) = table.get(&held) {
            table.take_out(hash, key);
        }
    }

    /// Made before a write of the host. If it is dropped before the write has finished (after a
    /// panic of the host, of a hash or of a comparison), look-ups no longer use the table.
    fn is_written(&self) -> Written<'_> {
        Written { stage: &self.shown.0.stage }
    }

    fn thaw_all(&self, work: &mut Work<H>) {
        let Shown { stage, table } = &self.shown.0;
        stage.swap(DYNAMIC, Relaxed);
        // Nothing is published while another table is still being read.
        if let Some(withdrawn) = table.withdraw() {
            work.withdrawn = Some(withdrawn);
            self.has_withdrawn.store(true, Relaxed);
        }
        if work.is_aside {
            // If it panics, the next thaw must do it.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.host.give_back())) {
                stage.store(ABANDONED, Relaxed);
                resume_unwind(panic);
            }
            work.is_aside = false;
        }
    }

    /// Drops the last table if no thread reads it. Returns whether there is none left.
    fn reclaim_now(&self, work: &mut Work<H>) -> bool {
        let withdrawn = work.withdrawn.take();
        work.withdrawn = withdrawn.and_then(|it| it.reclaim(&self.claims).err());
        self.has_withdrawn.store(work.withdrawn.is_some(), Relaxed);
        work.withdrawn.is_none()
    }

    /// As `reclaim_now`, but waits for readers a while.
    fn reclaim(&self, work: &mut Work<H>) -> bool {
        for _ in 0..LOOKS {
            if self.reclaim_now(work) {
                return true;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        false
    }
}

impl<H: Host, S> Drop for Overlay<H, S> {
    fn drop(&mut self) {
        let work = self.work.get_mut().unwrap_or_else(PoisonError::into_inner);
        // No thread reads it any more.
        if let Some(withdrawn) = work.withdrawn.take() {
            let _ = withdrawn.reclaim(&self.claims);
        }
    }
}

/// A write that may not have finished.
struct Written<'o> {
    stage: &'o AtomicU8,
}

impl Written<'_> {
    #[inline(always)]
    fn needs_nothing(self) {
        std::mem::forget(self);
    }
}

impl Drop for Written<'_> {
    /// Runs no user code, because a second panic would end the process.
    #[cold]
    fn drop(&mut self) {
        abandon(self.stage);
    }
}

/// Stops look-ups from using the table. Entries stay set aside, because returning them would run
/// user code.
fn abandon(stage: &AtomicU8) {
    let next = |stage| Some(if stage == DYNAMIC { DYNAMIC } else { ABANDONED });
    // Release: as that of `Table::take_out`. Written unconditionally, so that a table being filled
    // is not published after it.
    let _ = stage.fetch_update(Release, Relaxed, next);
}

/// Learns, freezes and thaws a cache, in steps that its owner calls: made by [`Overlay::steps`].
pub struct Steps<'o, H: Host, S: BuildHasher>(&'o Overlay<H, S>);

impl<H: Host, S: BuildHasher> Steps<'_, H, S> {
    /// Reads the cache's counts, and learns, freezes or thaws. Returns the time until the next
    /// step. `now` is the time since any fixed moment. Takes some microseconds, or O(entries).
    pub fn step(&mut self, now: Duration) -> Duration {
        self.0.step(now)
    }
}

impl<H: Host, S: BuildHasher> Drop for Steps<'_, H, S> {
    fn drop(&mut self) {
        // User code may panic in it, and a second panic would end the process. `needs_thaw` reports
        // whether it failed.
        let _ = catch_unwind(AssertUnwindSafe(|| self.0.end()));
        self.0.controlled.end();
    }
}

impl<H: Host, S: BuildHasher> fmt::Debug for Steps<'_, H, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").finish_non_exhaustive()
    }
}

/// An overlay as a subject of its controller.
struct Learning<'o, H: Host, S>(&'o Overlay<H, S>);

impl<H: Host, S: BuildHasher> Subject for Learning<'_, H, S> {
    type Gate = Door;

    fn gate(&self) -> &Door {
        &self.0.door.0
    }

    fn learner(&self) -> &Learner {
        &self.0.learner
    }

    fn teacher(&self) -> Teacher {
        self.0.host.teacher()
    }

    fn entries(&self) -> u64 {
        self.0.host.len() as u64
    }

    fn counts(&self) -> Counts {
        self.0.counts()
    }

    fn samples(&self) -> impl Iterator<Item = &Samples> {
        self.0.claims.all().filter_map(|counted| Some(&**counted.samples.get()?))
    }

    fn is_frozen(&self) -> bool {
        self.0.shown.0.stage.load(Relaxed) == SHOWN
    }

    fn set_all(&self, byte: u8) {
        self.0.host.walk(&mut |mark| mark.set(byte));
    }

    fn give_ranks(&self, _by_count: bool) {
        let (mut place, entries) = (0, self.0.host.len());
        self.0.host.walk(&mut |mark| {
            mark.set(byte_of_rank(place, entries));
            place += 1;
        });
    }

    fn freeze(&self, share: f64) -> Option<u64> {
        self.0.freeze(share)
    }

    fn thaw(&self) {
        self.0.thaw();
    }
}

fn nanoseconds_since(origin: Instant) -> u64 {
    origin.elapsed().as_nanos() as u64
}

/// The state after a panic is sound: `freeze` ensures it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(held) => Some(held),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl<H: Host, S> fmt::Debug for Overlay<H, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay").finish_non_exhaustive()
    }
}
