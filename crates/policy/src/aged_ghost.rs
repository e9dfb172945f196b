//! A ghost that threads share: hashes of objects evicted not long ago, forgotten by age.
//!
//! A FIFO of hashes needs a lock, because both its ends change at every eviction. Here a
//! hash carries the time of its eviction instead and is forgotten once it is too old.
//! Nothing ever moves, and each operation changes one word. Time is the weight that the
//! caller has evicted so far, so a hash is remembered if it was evicted within the last
//! `window` of evicted weight and not requested since. (A FIFO as heavy as the window
//! reaches further back, by the weight of the hashes taken out of it.)
//!
//! A word is 32 bits of the hash and 32 bits of time, in units of which the window has
//! fewer than 2^24; 0 is empty. The other bits of the hash choose a bucket of eight
//! words, one line of memory. A full bucket loses its oldest: at a load of 9 in 20, about
//! one ghost in 200 is forgotten too early. Two hashes of one bucket are confused once in
//! 4 billion pairs.
//!
//! No other data depends on a word, so all accesses are relaxed. A thread that loses
//! to others in its bucket several times in a row gives up: a ghost is a hint.
//!
//! 17.8 bytes a ghost, but at least 1 KiB; O(1), reads eight words.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const WORDS: usize = 8;
/// 18 ghosts to 5 buckets are a load of 9 in 20.
const GHOSTS: u64 = 18;
const BUCKETS: u64 = 5;
/// Fewer would save nothing, and lose more where a few hashes crowd one bucket.
const FEWEST_BUCKETS: u64 = 16;
/// Windows are shorter than this power of two, in units of time.
const WINDOW_BITS: u32 = 24;
/// How far a word may lie ahead of a clock that was read earlier. A word further ahead is long
/// past.
const AHEAD: u64 = 1 << WINDOW_BITS;
/// The part of a word that distinguishes hashes; above it is the time.
const TAG: u64 = u32::MAX as u64;
/// Changes tried before a thread leaves the bucket to the others.
const TRIES: usize = 3;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket([AtomicU64; WORDS]);

/// A set of hashes, each remembered until a weight of `window` has been evicted.
///
/// The caller keeps the clock, which may start anywhere. An eviction inserts its hash
/// at the clock and then advances it by [`AgedGhost::advance`]. Where threads share
/// the clock that is one `fetch_add`, whose result is the time to insert at.
///
/// ```
/// use frazil_policy::AgedGhost;
/// let ghost = AgedGhost::new(2, 2);
/// let mut clock = 0;
/// for hash in [10, 11, 12] {
///     ghost.insert(hash, clock);
///     clock += ghost.advance(1);
/// }
/// assert!(!ghost.take(10, clock)); // three evictions ago
/// assert!(ghost.take(11, clock));
/// assert!(!ghost.take(11, clock));
/// ```
#[derive(Debug)]
pub struct AgedGhost {
    buckets: Box<[Bucket]>,
    /// How many ghosts the table has room for.
    room: u64,
    /// How often the table has doubled since it was allocated.
    doublings: u32,
    span: SharedSpan,
}

/// A span that changes while others read it: they may see parts of two spans and
/// misjudge the age of a word.
#[derive(Debug)]
struct SharedSpan {
    units: AtomicU64,
    shift: AtomicU32,
    past: AtomicU64,
}

impl SharedSpan {
    fn new(span: Span) -> Self {
        SharedSpan {
            units: AtomicU64::new(span.units),
            shift: AtomicU32::new(span.shift),
            past: AtomicU64::new(span.past),
        }
    }

    #[inline]
    fn get(&self) -> Span {
        let SharedSpan { units, shift, past } = self;
        Span { units: units.load(Relaxed), shift: shift.load(Relaxed), past: past.load(Relaxed) }
    }

    fn set(&self, span: Span) {
        self.units.store(span.units, Relaxed);
        self.shift.store(span.shift, Relaxed);
        self.past.store(span.past, Relaxed);
    }
}

/// A window in units of time.
#[derive(Clone, Copy, Debug)]
struct Span {
    units: u64,
    /// A unit is a weight of `1 << shift`.
    shift: u32,
    /// The weight that leaves the whole window behind.
    past: u64,
}

impl Span {
    fn of(window: u64) -> Self {
        let shift = (u64::BITS - window.leading_zeros()).saturating_sub(WINDOW_BITS);
        let units = window >> shift;
        Span { units, shift, past: (units << shift).saturating_add(1 << shift) }
    }

    /// A clock as the upper half of a word.
    #[inline]
    fn time(self, clock: u64) -> u64 {
        (clock >> self.shift) << 32
    }

    #[inline]
    fn is_fresh(self, word: u64, now: u64) -> bool {
        age(word, now) <= ((self.units + AHEAD) << 32) | TAG
    }
}

impl AgedGhost {
    /// An empty set that remembers evictions over a weight of `window`, with memory
    /// for `entries` of them at once. Allocates that memory.
    pub fn new(window: u64, entries: u64) -> Self {
        let buckets = vacant(buckets_for(entries));
        AgedGhost {
            room: room_of(&buckets),
            buckets,
            doublings: 0,
            span: SharedSpan::new(Span::of(window)),
        }
    }

    /// How many ghosts the table has room for. With more, some are forgotten too early.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// How far an eviction of `weight` moves the clock: by the weight, but by at least 1, and at
    /// most far enough to forget everything. So no weight makes the clock wrap.
    #[inline]
    pub fn advance(&self, weight: u64) -> u64 {
        weight.clamp(1, self.span.past.load(Relaxed))
    }

    /// Remembers `hash`, which is not in the set, as evicted at `clock`.
    ///
    /// A cache takes a hash out at the miss, so the set does not search for it here: that would
    /// double the cost. A hash that is still present, because of concurrent threads, is present
    /// twice until it is taken or forgotten.
    #[inline]
    pub fn insert(&self, hash: u64, clock: u64) {
        let (bucket, tag) = self.place(hash);
        let span = self.span.get();
        let now = span.time(clock);
        for _ in 0..TRIES {
            let (place, seen) = least(bucket, span, now);
            if place.compare_exchange(seen, now | tag, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Forgets `hash`. True if it was remembered at `clock`.
    #[inline]
    pub fn take(&self, hash: u64, clock: u64) -> bool {
        let (bucket, tag) = self.place(hash);
        let span = self.span.get();
        let now = span.time(clock);
        let mut remembered = false;
        for place in &bucket.0 {
            let word = place.load(Relaxed);
            // If an exchange fails here, another thread has taken or replaced the ghost.
            if word & TAG == tag && place.compare_exchange(word, 0, Relaxed, Relaxed).is_ok() {
                remembered |= span.is_fresh(word, now);
            }
        }
        remembered
    }

    /// Grows the set to `entries` ghosts. Present ghosts stay. Never shrinks.
    ///
    /// The table of an empty set becomes what [`AgedGhost::new`] would have allocated;
    /// any other doubles until it is large enough. Each doubling distinguishes buckets
    /// by one of the 32 bits that distinguish hashes.
    pub fn reserve(&mut self, entries: u64) {
        if entries <= self.room() {
            return;
        }
        let words = self.buckets.iter_mut().flat_map(|bucket| &mut bucket.0);
        if words.map(|word| *word.get_mut()).all(|word| word == 0) {
            (self.buckets, self.doublings) = (vacant(buckets_for(entries)), 0);
            self.room = room_of(&self.buckets);
        }
        while self.room() < entries {
            self.double();
        }
    }

    /// Changes the window at `clock`, and forgets the ghosts that are too old for both windows.
    /// O(size of the set).
    ///
    /// Threads that use the set meanwhile may misjudge the age of a ghost, now or after the clock
    /// has wrapped. Only one thread may change the window at a time.
    pub fn set_window(&self, window: u64, clock: u64) {
        let (from, to) = (self.span.get(), Span::of(window));
        let (then, now) = (from.time(clock), to.time(clock));
        self.span.set(to);
        for place in self.buckets.iter().flat_map(|bucket| &bucket.0) {
            let word = place.load(Relaxed);
            let units = (age(word, then) >> 32).saturating_sub(AHEAD);
            let age = (units << from.shift) >> to.shift;
            let kept = word != 0 && units <= from.units && age <= to.units;
            let converted = if kept { now.wrapping_sub(age << 32) | word & TAG } else { 0 };
            // If an exchange fails here, another thread has taken or replaced the ghost.
            _ = place.compare_exchange(word, converted, Relaxed, Relaxed);
        }
    }

    /// Splits every bucket in two.
    #[cold]
    fn double(&mut self) {
        let mut halves = vacant(2 * self.buckets.len() as u64);
        for (number, bucket) in self.buckets.iter_mut().enumerate() {
            for (place, word) in bucket.0.iter_mut().enumerate() {
                let word = *word.get_mut();
                let upper = (word & TAG) >> (31 - self.doublings) & 1;
                *halves[2 * number + upper as usize].0[place].get_mut() = word;
            }
        }
        self.buckets = halves;
        self.room = room_of(&self.buckets);
        self.doublings += 1;
    }

    /// The bucket of a hash, and its tag, which distinguishes it there: 32 bits, never 0.
    #[inline]
    fn place(&self, hash: u64) -> (&Bucket, u64) {
        // A user's hash may vary in a few bits only. After one multiplication a quarter
        // of the hashes of some such sets are in full buckets, after two no more than at
        // random. A bijection: bucket and tag lose no more than they must.
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tag = (mixed & TAG).max(1);
        let undoubled = self.buckets.len() as u64 >> self.doublings;
        let bucket = ((mixed >> 32) * undoubled) >> 32;
        let bucket = (bucket << self.doublings) | ((tag << self.doublings) >> 32);
        (&self.buckets[bucket as usize], tag)
    }
}

impl Clone for AgedGhost {
    fn clone(&self) -> Self {
        let copy = |word: &AtomicU64| AtomicU64::new(word.load(Relaxed));
        let bucket = |from: &Bucket| Bucket(from.0.each_ref().map(copy));
        AgedGhost {
            buckets: self.buckets.iter().map(bucket).collect(),
            span: SharedSpan::new(self.span.get()),
            ..*self
        }
    }
}

/// The least valuable word of a bucket: an empty one, or the oldest.
#[inline]
fn least(bucket: &Bucket, span: Span, now: u64) -> (&AtomicU64, u64) {
    for place in &bucket.0 {
        let word = place.load(Relaxed);
        if word == 0 || !span.is_fresh(word, now) {
            return (place, word);
        }
    }
    let mut oldest = (&bucket.0[0], bucket.0[0].load(Relaxed));
    for place in &bucket.0[1..] {
        let word = place.load(Relaxed);
        if age(word, now) > age(oldest.1, now) {
            oldest = (place, word);
        }
    }
    oldest
}

fn buckets_for(entries: u64) -> u64 {
    // Multiplying 32 bits of the hash reaches no more than 2^32.
    entries.saturating_mul(BUCKETS).div_ceil(GHOSTS).clamp(FEWEST_BUCKETS, 1 << 32)
}

fn vacant(buckets: u64) -> Box<[Bucket]> {
    (0..buckets).map(|_| Bucket::default()).collect()
}

/// Ghosts in a bucket at the intended load.
fn room_of(buckets: &[Bucket]) -> u64 {
    buckets.len() as u64 * GHOSTS / BUCKETS
}

/// In the upper half, units since the word's time and [`AHEAD`]: a lower half of ones
/// causes no borrow.
#[inline]
fn age(word: u64, now: u64) -> u64 {
    now.wrapping_add((AHEAD << 32) | TAG).wrapping_sub(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_hash;
    use proptest::prelude::*;
    use std::hint::spin_loop;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::{Acquire, Release};

    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// An eviction: the hash taken before it, and the weight evicted.
        Evict(u64, u64),
        Ask(u64),
        Window(u64),
        Reserve(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (0u64..40, 1u64..5).prop_map(|(id, weight)| Step::Evict(id, weight)),
            8 => (0u64..40).prop_map(Step::Ask),
            1 => (0u64..60).prop_map(Step::Window),
            1 => (0u64..1_000).prop_map(Step::Reserve),
        ];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        /// Against a list of hashes and times, over few enough hashes that no bucket is ever full,
        /// in small weights and large, and past the end of the 32 bits of time.
        #[test]
        fn equals_a_list(
            steps in steps(),
            window in 0u64..60,
            unit in prop_oneof![Just(1u64), Just(1 << 20), Just(1 << 40)],
            before_wrap in 0u64..100,
        ) {
            let mut clock = (1 << 32).max(unit << 10) - before_wrap * unit;
            let mut ghost = AgedGhost::new(window * unit, 100);
            let mut window = window * unit;
            let mut model: Vec<(u64, u64)> = Vec::new();
            for step in steps {
                match step {
                    Step::Evict(id, weight) => {
                        let hash = object_hash(id, 1);
                        ghost.take(hash, clock);
                        ghost.insert(hash, clock);
                        model.retain(|&(other, _)| other != hash);
                        model.push((hash, clock));
                        clock += ghost.advance(weight * unit);
                    }
                    Step::Ask(id) => {
                        let hash = object_hash(id, 1);
                        let known = model.iter().any(|&(other, _)| other == hash);
                        prop_assert_eq!(ghost.take(hash, clock), known);
                        model.retain(|&(other, _)| other != hash);
                    }
                    Step::Window(other) => {
                        window = other * unit;
                        ghost.set_window(window, clock);
                    }
                    Step::Reserve(entries) => ghost.reserve(entries),
                }
                model.retain(|&(_, time)| clock - time <= window);
            }
        }
    }

    /// The share of a full table's hashes that are forgotten too early.
    fn lost(ghost: &AgedGhost, hash: impl Fn(u64) -> u64) -> f64 {
        let room = ghost.room();
        (0..room).for_each(|number| ghost.insert(hash(number), number));
        let kept = (0..room).filter(|&number| ghost.take(hash(number), room)).count();
        1.0 - kept as f64 / room as f64
    }

    #[test]
    fn few_ghosts_go_before_their_time() {
        let ghost = || AgedGhost::new(100_000, 100_000);
        let of_random = lost(&ghost(), |number| object_hash(number, 1));
        assert!((0.003..0.007).contains(&of_random), "{of_random}");
        for shift in (0..48).step_by(4) {
            let poor = lost(&ghost(), |number| number << shift);
            assert!(poor < 0.007, "all variety above bit {shift}: {poor}");
        }
    }

    #[test]
    fn a_full_bucket_loses_its_oldest() {
        let ghost = AgedGhost::new(1_000, 1);
        let of_one_bucket = |number: u64| {
            let (bucket, _) = ghost.place(object_hash(number, 1));
            std::ptr::eq(bucket, &ghost.buckets[0])
        };
        let numbers: Vec<u64> =
            (0..1_000).filter(|&number| of_one_bucket(number)).take(9).collect();
        let [first, rest @ ..] = numbers.as_slice() else { panic!("no hash fell there") };
        assert_eq!(rest.len(), WORDS);
        for (clock, &number) in numbers.iter().enumerate() {
            ghost.insert(object_hash(number, 1), clock as u64);
        }
        assert!(!ghost.take(object_hash(*first, 1), 9));
        assert!(rest.iter().all(|&number| ghost.take(object_hash(number, 1), 9)));
    }

    #[test]
    fn doubling_keeps_and_confuses_nothing() {
        let mut ghost = AgedGhost::new(u64::MAX, 30);
        let hash = |number| object_hash(number, 1);
        for number in 0..10_000 {
            ghost.reserve(8 * number);
            ghost.insert(hash(number), number);
        }
        assert!((10_000..20_000).all(|number| !ghost.take(hash(number), 10_000)));
        assert!((0..10_000).all(|number| ghost.take(hash(number), 10_000)));
        assert!((80_000..200_000).contains(&ghost.room()), "{}", ghost.room());
    }

    #[test]
    fn a_clock_read_too_early_forgets_nothing() {
        let ghost = AgedGhost::new(10, 10);
        ghost.insert(1, 1_000);
        assert!(ghost.take(1, 990));
        // Nor does it make the newest words the first to be replaced.
        (0..57).for_each(|number| ghost.insert(object_hash(number, 1), 1_000));
        (0..8).for_each(|number| ghost.insert(object_hash(number, 2), 985));
        let kept = (0..8).filter(|&number| ghost.take(object_hash(number, 1), 1_000)).count();
        assert_eq!(kept, 8);
    }

    /// Two threads side by side in one round after another.
    fn in_step(rounds: usize, act: impl Fn(usize, usize) + Sync) {
        let begun = [0, 1].map(|_| AtomicUsize::new(0));
        let thread = |number: usize| {
            for round in 0..rounds {
                begun[number].store(round + 1, Release);
                let mut waited = 0;
                while begun[1 - number].load(Acquire) <= round {
                    // Close together, but without waiting forever on one core.
                    waited += 1;
                    if waited % 1_000 == 0 { std::thread::yield_now() } else { spin_loop() }
                }
                act(number, round);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| thread(0));
            thread(1);
        });
    }

    #[test]
    fn threads_lose_nothing_to_each_other() {
        let ghost = AgedGhost::new(1 << 20, 100_000);
        let mut hashes: Vec<u64> = (0..100_000).map(|id| object_hash(id, 1)).collect();
        let bucket = |hash: u64| std::ptr::from_ref(ghost.place(hash).0) as usize;
        hashes.sort_unstable_by_key(|&hash| bucket(hash));
        // Both insert into one bucket in each round, and no bucket gets full.
        let buckets = hashes.chunk_by(|&one, &other| bucket(one) == bucket(other));
        let pairs: Vec<&[u64]> = buckets.flat_map(|all| all.chunks_exact(2).take(4)).collect();
        in_step(pairs.len(), |thread, round| ghost.insert(pairs[round][thread], 0));
        assert!(pairs.len() > 30_000);
        assert!(pairs.iter().all(|pair| pair.iter().all(|&hash| ghost.take(hash, 1))));
    }

    #[test]
    fn threads_take_a_hash_no_more_often_than_it_was_there() {
        const ROUNDS: usize = 20_000;
        let ghost = AgedGhost::new(1 << 20, ROUNDS as u64);
        let hash = |round: usize| object_hash(round as u64, 1);
        (0..ROUNDS).for_each(|round| ghost.insert(hash(round), 0));
        let there = ghost.clone();
        let there = (0..ROUNDS).filter(|&round| there.take(hash(round), 1)).count();
        let taken = AtomicUsize::new(0);
        in_step(ROUNDS, |_, round| {
            taken.fetch_add(usize::from(ghost.take(hash(round), 1)), Relaxed);
        });
        assert_eq!(taken.into_inner(), there);
    }
}
