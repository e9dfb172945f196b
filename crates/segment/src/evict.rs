//! Room for new items: segments that are over, merged or evicted.
//!
//! Writers do it, a little with each write: 16 items at a time, eight bytes for each that they write
//! while there are few free segments. So nobody waits for a whole merge, there is no thread to
//! schedule, and what a program does is the same in each run. One writer at a time has the evictor; the
//! others go on, as long as there is a free segment.
//!
//! A *job* is a run of segments of one class, neighbours in the order of writing. Its items are gone
//! through in order. What is to stay is copied into one new segment, which takes the place of the run; the
//! rest is unlinked. Nothing stays where segments are dropped; all of it where only space is to be won that
//! removals and replacements have left; and in between, of the items that were asked for since they were
//! written or last merged, those with the most requests a byte, as much as fits into a segment. To find that
//! cut a share of the items is looked at first, and requests are halved as items move.

use crate::Eviction;
use crate::hazards::Hazards;
use crate::index::Word;
use crate::item::Item;
use crate::lifetimes::{self, CLASSES};
use crate::limbo::Limbo;
use crate::mapping::prefetch;
use crate::segments::{Chains, NONE, Segments};
use crate::store::Store;
use crate::sync::atomic::Ordering::Relaxed;

/// Items that are looked up together, so that the lines of the index arrive together.
const BATCH_ITEMS: usize = 16;
/// Segments that become one, where items are chosen: the paper's implementation merges 4 or 5.
const MERGE: usize = 4;
/// Segments that become one where all their items fit into one.
const RUN_MAX: usize = 8;
/// Segments that are looked at for space to be won, before others are evicted.
const SEARCH: usize = 64;
/// Segments that are looked at for one that is over, before others are evicted: 64 KiB of what is
/// known of segments, one after the other.
const SWEEP: u32 = 1024;
/// Space is looked for when a share of this is not of live items.
const GARBAGE_SHARE: u64 = 8;
/// Items that are looked at to find the cut, of a run.
const SAMPLE_ITEMS: u32 = 2048;
/// How much faster a sample is taken than items are settled.
const SAMPLE_SPEED: usize = 4;
/// Classes of requests a byte: four to a doubling.
const SCORES: usize = 128;

/// What stays of a job's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Nothing,
    All,
    /// What is above the score, and what has it as long as there is room.
    From(usize),
}

#[derive(Debug)]
struct Job {
    class: usize,
    run: [u32; RUN_MAX],
    length: usize,
    /// Which of the run is gone through, and from where on.
    current: usize,
    offset: usize,
    keep: Keep,
    /// Every so many items are looked at first, to find the cut. 0: it is found.
    stride: u32,
    passed: u32,
    /// Where the items go that stay, and how far it is filled.
    merged: Option<u32>,
    filled: usize,
    /// What precedes the run in its chain.
    previous: u32,
}

#[derive(Clone, Copy)]
struct Candidate<'a> {
    hash: u64,
    location: u64,
    item: Item<'a>,
}

#[derive(Debug)]
pub(crate) struct Evictor {
    job: Option<Job>,
    limbo: Limbo,
    /// A segment for the next merge.
    spare: Option<u32>,
    /// Where the next merge begins.
    hand: u32,
    /// Its class, and the sequence of the last segment that was open when it came there. What is
    /// newer waits until it comes again: a hand that met each segment as soon as it is full would
    /// never leave the class that is written to.
    visit: (usize, u64),
    /// The segment that was looked at last, of those that may be over.
    sweep: u32,
    chance: u64,
    /// Bytes sampled, by score.
    scores: [u64; SCORES],
}

/// Bytes that the evictor takes for each segment.
pub(crate) const BYTES_BESIDE: usize = size_of::<u32>();

impl Evictor {
    pub(crate) fn new(segments: &Segments, chance: u64) -> Evictor {
        Evictor {
            job: None,
            limbo: Limbo::new(segments),
            // Not the first, which is touched first.
            spare: segments.take_last(),
            hand: NONE,
            visit: (CLASSES, 0),
            sweep: 0,
            chance: chance | 1,
            scores: [0; SCORES],
        }
    }

    /// Goes through about so many bytes. False: there is nothing that could be done.
    pub(crate) fn advance(&mut self, store: &Store, bytes: usize) -> bool {
        let mut left = bytes;
        loop {
            if self.job.is_none() {
                self.drain(&store.segments, &store.hazards);
                self.job = self.begin(store);
            }
            let Some(job) = &mut self.job else { return left < bytes };
            let (passed, done) = job.step(store, &mut self.scores);
            if done {
                let job = self.job.take().expect("a job that is done");
                self.end(store, &job);
                self.drain(&store.segments, &store.hazards);
            }
            if left <= passed {
                return true;
            }
            left -= passed;
        }
    }

    /// Frees what no reader looks at any more.
    fn drain(&mut self, segments: &Segments, hazards: &Hazards) {
        self.limbo.drain(segments, hazards);
        if self.spare.is_none() {
            self.spare = segments.take();
        }
    }

    fn begin(&mut self, store: &Store) -> Option<Job> {
        let segments = &store.segments;
        let now_ms = store.clock.now_ms();
        for class in 1..CLASSES {
            let open = segments.open(class);
            if open != NONE
                && segments.get(open).state().filled() > 0
                && segments.get(open).deadline_ms.load(Relaxed) <= now_ms
            {
                segments.close(class, open);
            }
        }
        let chains = segments.chains();
        if let Some(over) = self.over(segments, &chains, now_ms) {
            return Some(self.take(store, chains, &[over], Keep::Nothing));
        }
        if !store.wants_room() {
            return None;
        }
        if let Some(run) = self.garbage(store, &chains) {
            let keep = if store.live_bytes(&run) == 0 { Keep::Nothing } else { Keep::All };
            if keep == Keep::Nothing || self.spare.is_some() {
                return Some(self.take(store, chains, &run, keep));
            }
        }
        let run = self.choose(store, &chains);
        if run.is_empty() {
            drop(chains);
            self.close_one(segments);
            return None;
        }
        let keep = match store.live_bytes(&run) {
            _ if run.len() == 1 || self.spare.is_none() => Keep::Nothing,
            bytes if bytes <= segments.segment_bytes as u64 => Keep::All,
            _ => Keep::From(0),
        };
        Some(self.take(store, chains, &run, keep))
    }

    /// A segment past its latest deadline: the first of a class, or one of those that are looked at in
    /// turn, as the order of writing is not that of deadlines.
    fn over(&mut self, segments: &Segments, chains: &Chains, now_ms: u64) -> Option<u32> {
        let is_over = |&segment: &u32| {
            let state = segments.get(segment).state();
            // Quiet first: a writer that has not finished may not have raised the deadline yet.
            state.is_quiet()
                && state.class() > 0
                && segments.get(segment).deadline_ms.load(Relaxed) <= now_ms
        };
        let firsts = (1..CLASSES).map(|class| chains.first(class)).filter(|&first| first != NONE);
        if let Some(over) = firsts.into_iter().find(is_over) {
            return Some(over);
        }
        for _ in 0..SWEEP.min(segments.count()) {
            self.sweep = (self.sweep + 1) % segments.count();
            if is_over(&self.sweep) {
                return Some(self.sweep);
            }
        }
        None
    }

    /// Takes a run out of its chain, to go through it.
    fn take(
        &mut self,
        store: &Store,
        mut chains: crate::sync::MutexGuard<'_, Chains>,
        segments: &[u32],
        keep: Keep,
    ) -> Job {
        let table = &store.segments;
        let class = table.get(segments[0]).state().class();
        let previous = chains.previous(segments[0]);
        let after = chains.next(segments[segments.len() - 1]);
        if segments.contains(&self.hand) || keep != Keep::Nothing {
            self.hand = after_class(&chains, class, after);
        }
        let mut run = [NONE; RUN_MAX];
        run[..segments.len()].copy_from_slice(segments);
        for &segment in segments {
            table.detach(&mut chains, segment);
        }
        drop(chains);
        let items: u32 = segments.iter().map(|&s| table.get(s).live_items.load(Relaxed)).sum();
        let merged = if keep == Keep::Nothing { None } else { self.spare.take() };
        if let Some(merged) = merged {
            let now_ms = store.clock.now_ms();
            table.begin_merged(merged, class, now_ms, segments[0]);
            let written = |&s: &u32| table.get(s).written_ms.load(Relaxed);
            let mean = segments.iter().map(written).sum::<u64>() / segments.len() as u64;
            table.get(merged).written_ms.store(mean, Relaxed);
        }
        self.scores.fill(0);
        let stride = if matches!(keep, Keep::From(_)) { items / SAMPLE_ITEMS + 1 } else { 0 };
        Job {
            class,
            run,
            length: segments.len(),
            current: 0,
            offset: 0,
            keep,
            stride,
            passed: 0,
            merged,
            filled: 0,
            previous,
        }
    }

    /// What a job has gone through waits for its readers, and what it has kept is there again.
    fn end(&mut self, store: &Store, job: &Job) {
        self.limbo.add(&job.run[..job.length]);
        if let Some(merged) = job.merged {
            store.counters.merges.fetch_add(1, Relaxed);
            if job.filled == 0 {
                self.spare = Some(merged);
            } else {
                store.segments.attach(merged, job.class, job.filled, job.previous);
            }
        }
    }

    /// A run that fits into less, if enough of all segments is not live.
    fn garbage(&mut self, store: &Store, chains: &Chains) -> Option<Vec<u32>> {
        let segments = &store.segments;
        let used = segments.count() - segments.free_count() - segments.index_count.load(Relaxed);
        let used_bytes = u64::from(used) * segments.segment_bytes as u64;
        let live = store.counters.live_bytes.load(Relaxed);
        if used_bytes.saturating_sub(live) < used_bytes / GARBAGE_SHARE {
            return None;
        }
        for _ in 0..SEARCH.min(segments.count() as usize) {
            if self.hand == NONE {
                self.hand = after_class(chains, CLASSES - 1, NONE);
            }
            let run = store.run(chains, self.hand, RUN_MAX, segments.segment_bytes as u64);
            if run.len() > 1 || run.len() == 1 && store.live_bytes(&run) == 0 {
                return Some(run);
            }
            if self.hand != NONE {
                let class = segments.get(self.hand).state().class();
                self.hand = after_class(chains, class, chains.next(self.hand));
            }
        }
        None
    }

    /// What the policy would have go.
    fn choose(&mut self, store: &Store, chains: &Chains) -> Vec<u32> {
        let segments = &store.segments;
        let is_quiet = |&segment: &u32| segments.get(segment).state().is_quiet();
        let firsts = (0..CLASSES).filter_map(|class| {
            let mut segment = chains.first(class);
            while segment != NONE && !is_quiet(&segment) {
                segment = chains.next(segment);
            }
            (segment != NONE).then_some(segment)
        });
        let sequence = |&segment: &u32| segments.get(segment).sequence.load(Relaxed);
        match store.eviction {
            Eviction::Fifo => firsts.min_by_key(sequence).into_iter().collect(),
            Eviction::ClosestToExpiry => {
                let ends = |segment: &u32| match segments.get(*segment).state().class() {
                    0 => u64::MAX,
                    _ => segments.get(*segment).deadline_ms.load(Relaxed),
                };
                firsts
                    .min_by_key(|segment| (ends(segment), sequence(segment)))
                    .into_iter()
                    .collect()
            }
            Eviction::Random => {
                let first = self.random() % u64::from(segments.count());
                let all = (0..segments.count())
                    .map(|step| ((first + u64::from(step)) % u64::from(segments.count())) as u32);
                all.filter(is_quiet).take(1).collect()
            }
            Eviction::FifoMerge => {
                // Once around all classes, and past runs that are not quiet. A segment that is alone would
                // go as a whole, so one does only where no two are neighbours.
                let mut alone: Option<u32> = None;
                for _ in 0..=segments.count() + CLASSES as u32 {
                    if self.hand == NONE {
                        self.hand = after_class(chains, CLASSES - 1, NONE);
                        if self.hand == NONE {
                            return Vec::new();
                        }
                    }
                    self.leave_class(segments, chains);
                    // Segments with few live items merge without a loss, as far as they fit into one.
                    let whole = segments.segment_bytes as u64;
                    let fitting = store.run(chains, self.hand, RUN_MAX, whole);
                    if fitting.len() > 1 {
                        return fitting;
                    }
                    let run = store.run(chains, self.hand, MERGE, u64::MAX);
                    if run.len() > 1 {
                        return run;
                    }
                    alone = alone.into_iter().chain(run).min_by_key(sequence);
                    let class = segments.get(self.hand).state().class();
                    self.hand = after_class(chains, class, chains.next(self.hand));
                }
                alone.into_iter().collect()
            }
        }
    }

    /// Has the hand go on to another class, if there is one and it has met all that was there when
    /// it came.
    fn leave_class(&mut self, segments: &Segments, chains: &Chains) {
        let class_of = |segment| segments.get(segment).state().class();
        if segments.get(self.hand).sequence.load(Relaxed) > self.visit.1
            && class_of(self.hand) == self.visit.0
        {
            let other = after_class(chains, self.visit.0, NONE);
            if class_of(other) != self.visit.0 {
                self.hand = other;
            }
        }
        if class_of(self.hand) != self.visit.0 {
            self.visit = (class_of(self.hand), chains.sequence());
        }
    }

    /// Nothing is sealed, but segments may be open that have items.
    fn close_one(&mut self, segments: &Segments) {
        let open = (0..CLASSES).map(|class| (class, segments.open(class)));
        let filled = |segment: u32| segments.get(segment).state().filled();
        let fullest = open
            .filter(|&(_, segment)| segment != NONE && filled(segment) > 0)
            .max_by_key(|&(_, segment)| filled(segment));
        if let Some((class, segment)) = fullest {
            segments.close(class, segment);
        }
    }

    fn random(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance >> 11
    }

    /// For `validate`: segments that are in no chain and not free, and the one that is filled.
    pub(crate) fn apart(&self) -> (Vec<u32>, Option<(u32, usize)>) {
        let mut apart = self.limbo.segments().to_vec();
        apart.extend(self.spare);
        let job = self.job.as_ref();
        if let Some(job) = job {
            apart.extend(&job.run[..job.length]);
            apart.extend(job.merged);
        }
        (apart, job.and_then(|job| Some((job.merged?, job.filled))))
    }
}

/// `segment`, or the first of the next class that has any, around once.
fn after_class(chains: &Chains, class: usize, segment: u32) -> u32 {
    if segment != NONE {
        return segment;
    }
    let classes = (1..=CLASSES).map(|step| (class + step) % CLASSES);
    classes.map(|class| chains.first(class)).find(|&first| first != NONE).unwrap_or(NONE)
}

impl Job {
    /// Goes through a batch: how many bytes that was, and whether all is done.
    fn step(&mut self, store: &Store, scores: &mut [u64; SCORES]) -> (usize, bool) {
        let segments = &store.segments;
        let segment = self.run[self.current];
        let start = segments.start(segment);
        let end = segments.get(segment).state().filled();
        let begun = self.offset;
        let mut batch: [Option<Candidate<'_>>; BATCH_ITEMS] = [None; BATCH_ITEMS];
        let mut taken = 0;
        while taken < BATCH_ITEMS && self.offset < end {
            let location = start + self.offset as u64;
            // SAFETY: the segment is taken and has no writer left, so up to `filled` there is an
            // item after the other, and it is not used anew before this job has ended.
            let item = unsafe { Item::at(segments.mapping.at(location as usize)) };
            self.offset += item.head.item_bytes();
            self.passed += 1;
            taken += 1;
            if self.stride > 0 && !self.passed.is_multiple_of(self.stride) {
                continue;
            }
            let hash = store.hash(item.key);
            store.index.prefetch(hash, segments);
            batch[taken - 1] = Some(Candidate { hash, location, item });
        }
        if self.offset < end {
            prefetch(segments.mapping.at((start as usize) + self.offset));
        }
        for candidate in batch.into_iter().flatten() {
            if self.stride > 0 {
                sample(store, candidate, scores);
            } else {
                self.settle(store, candidate);
            }
        }
        // Where all but a few items are passed over, it goes four times as fast.
        let passed = (self.offset - begun) / if self.stride > 0 { SAMPLE_SPEED } else { 1 };
        (passed.max(1), self.offset >= end && self.next_segment(store, scores))
    }

    /// Goes on with the next of the run. True: there is none.
    fn next_segment(&mut self, store: &Store, scores: &[u64; SCORES]) -> bool {
        self.offset = 0;
        self.current += 1;
        if self.current < self.length {
            return false;
        }
        if self.stride == 0 {
            return true;
        }
        // The cut: as much as fits is above it.
        let room = store.segments.segment_bytes as u64 / u64::from(self.stride);
        let mut above = 0;
        let cut = (1..SCORES).rev().find(|&score| {
            above += scores[score];
            above > room
        });
        self.keep = Keep::From(cut.unwrap_or(1));
        (self.stride, self.current) = (0, 0);
        false
    }

    /// Unlinks an item or moves it, if the index leads to it.
    fn settle(&mut self, store: &Store, candidate: Candidate<'_>) {
        let Candidate { hash, location, item } = candidate;
        let segments = &store.segments;
        let bytes = item.head.item_bytes();
        let locked = store.index.lock(hash);
        let mut words = store.index.look(hash, segments);
        let Some((place, word)) = words.find(|(_, word)| word.location() == location) else {
            return;
        };
        let from = segments.get(self.run[self.current]);
        let deadline = item.head.deadline.map(|packed| lifetimes::unpack(from, self.class, packed));
        let is_over = deadline.is_some_and(|deadline| deadline <= store.clock.now_ms());
        let fits = self.filled + bytes <= segments.segment_bytes;
        let stays = match self.keep {
            Keep::Nothing => false,
            Keep::All => true,
            Keep::From(cut) => score(word, bytes) >= cut,
        };
        let merged = self.merged.filter(|_| !is_over && stays && fits);
        store.unlinked(segments.of(location), bytes);
        if let Some(merged) = merged {
            let moved = self.copy(store, merged, item, deadline);
            store.linked(merged, bytes);
            store.index.replace(&locked, place, Word::new(hash, word.requests() / 2, moved));
            store.counters.kept_items.fetch_add(1, Relaxed);
        } else {
            store.index.remove(&locked, hash, place, segments);
            let gone =
                if is_over { &store.counters.expired_items } else { &store.counters.evicted_items };
            gone.fetch_add(1, Relaxed);
        }
    }

    /// Copies an item to the end of the merged segment, and says where that is.
    fn copy(&mut self, store: &Store, merged: u32, item: Item<'_>, deadline: Option<u64>) -> u64 {
        let segments = &store.segments;
        let to = segments.get(merged);
        let mut head = item.head;
        head.deadline = deadline.map(|deadline| lifetimes::pack(to, self.class, deadline));
        to.deadline_ms.fetch_max(deadline.unwrap_or(0), Relaxed);
        let location = segments.start(merged) + self.filled as u64;
        self.filled += head.item_bytes();
        // SAFETY: the merged segment is the job's, nothing leads to what is behind `filled`, and the
        // item fits, as the caller has made sure.
        unsafe { store.write(location, head, item.key, [item.value, &[]]) };
        location
    }
}

/// Requests a byte, as one of [`SCORES`] classes; 0 of what nobody asked for.
fn score(word: Word, bytes: usize) -> usize {
    let density = (u64::from(word.requests()) << 24) / bytes as u64;
    if density == 0 {
        return 0;
    }
    let exponent = density.ilog2();
    let quarter = ((density << 2) >> exponent) & 3;
    (4 * exponent as usize + quarter as usize + 1).min(SCORES - 1)
}

/// Looks at an item to find the cut.
fn sample(store: &Store, candidate: Candidate<'_>, scores: &mut [u64; SCORES]) {
    // Without the lock: if the word moves meanwhile, this item is not counted.
    let mut words = store.index.look(candidate.hash, &store.segments);
    if let Some((_, word)) = words.find(|(_, word)| word.location() == candidate.location) {
        let bytes = candidate.item.head.item_bytes();
        scores[score(word, bytes)] += bytes as u64;
    }
}
