//! Chooses the segments to drop or to merge.

use super::{Evictor, RUN_MAX};
use crate::Eviction;
use crate::lifetimes::CLASSES;
use crate::segments::{Chains, NONE, Segments};
use crate::store::Store;
use crate::sync::atomic::Ordering::Relaxed;

/// Segments merged into one if items are selected: Segcache's implementation merges 4 or 5.
const MERGE: usize = 4;
/// The same with a learner, between GL-Cache's modes for efficiency, 2, and for throughput, 5.
const MERGE_LEARNED: usize = 3;
/// Segments checked for reclaimable space before others are evicted.
const SEARCH: usize = 64;
/// Number of segments searched, before an eviction, for one that has expired or will soon: 64 KiB
/// of segments' records, read in sequence.
const SWEEP: u32 = 1024;
/// Space is reclaimed when one part in this many does not hold live items.
const GARBAGE_SHARE: u64 = 8;
/// Number of remembered segments that end next.
const ENDINGS: usize = 32;

/// Start of the next merge. In a class it stays among the segments written last, where merges
/// separate requested items from others. It returns to merged segments when no new segment is full.
/// A start that passed through all segments in order would merge segments of popular items equally
/// often, and hit less, also after popularity changes.
#[derive(Debug)]
pub(super) struct Hand {
    pub(super) at: u32,
    /// The class that it passes through, and the sequence number of the last segment open when it
    /// entered the class. Newer segments wait for the next round; otherwise it would never leave a
    /// class that is being written.
    class: usize,
    last: u64,
}

impl Default for Hand {
    fn default() -> Self {
        Hand { at: NONE, class: CLASSES, last: 0 }
    }
}

impl Hand {
    /// Moves to another class, if there is one and it has visited all due segments of this one.
    fn turn(&mut self, segments: &Segments, chains: &Chains) {
        self.at = after_class(chains, self.class, self.at);
        if self.at == NONE {
            return;
        }
        let class_of = |segment| segments.get(segment).state().class();
        if class_of(self.at) == self.class
            && segments.get(self.at).sequence.load(Relaxed) > self.last
        {
            let other = after_class(chains, self.class, NONE);
            if class_of(other) != self.class {
                self.at = other;
            }
        }
        if class_of(self.at) != self.class {
            (self.class, self.last) = (class_of(self.at), chains.sequence());
        }
    }
}

/// Of the segments checked, those with the nearest latest deadlines: deadline, sequence
/// number, segment.
#[derive(Debug, Default)]
pub(super) struct Endings {
    nearest: Vec<(u64, u64, u32)>,
    looked_at: u32,
}

impl Endings {
    /// When a quiet segment ends; those without a deadline end last.
    fn of(segments: &Segments, segment: u32) -> Option<(u64, u64, u32)> {
        let of = segments.get(segment);
        let state = of.state();
        let end = if state.class() == 0 { u64::MAX } else { of.deadline_ms.load(Relaxed) };
        state.is_quiet().then(|| (end, of.sequence.load(Relaxed), segment))
    }

    /// The segment that expires first: of all if there are few, else among the next ones in order.
    fn first(&mut self, segments: &Segments) -> Option<u32> {
        self.nearest.retain(|&ending| Self::of(segments, ending.2) == Some(ending));
        for _ in 0..SWEEP.min(segments.count()) {
            self.looked_at = (self.looked_at + 1) % segments.count();
            let Some(ending) = Self::of(segments, self.looked_at) else { continue };
            let place = self.nearest.partition_point(|&other| other < ending);
            if place < ENDINGS && self.nearest.get(place) != Some(&ending) {
                self.nearest.truncate(ENDINGS - 1);
                self.nearest.insert(place, ending);
            }
        }
        self.nearest.first().map(|&(.., segment)| segment)
    }
}

impl Evictor {
    /// A segment that was flushed or is past its latest deadline: the first of a class, or one of
    /// the next ones in order, because the order of writing is not that of deadlines.
    pub(super) fn over(
        &mut self,
        segments: &Segments,
        chains: &Chains,
        now_ms: u64,
    ) -> Option<u32> {
        let is_over = |&segment: &u32| {
            let state = segments.get(segment).state();
            // Quiet first: a writer that has not finished may not have raised the deadline yet.
            state.is_quiet()
                && (segments.is_flushed(segment)
                    || state.class() > 0
                        && segments.get(segment).deadline_ms.load(Relaxed) <= now_ms)
        };
        let firsts = (0..CLASSES).map(|class| chains.first(class)).filter(|&first| first != NONE);
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

    /// A run that fits into fewer segments, if enough of all segments is not live.
    pub(super) fn garbage(&mut self, store: &Store, chains: &Chains) -> Option<Vec<u32>> {
        let segments = &store.segments;
        let unused = segments.free_count() + segments.withdrawn_count();
        let used = segments.count() - unused - segments.index_count.load(Relaxed);
        let used_bytes = u64::from(used) * segments.segment_bytes as u64;
        let live = store.counters.live_bytes.load(Relaxed);
        if used_bytes.saturating_sub(live) < used_bytes / GARBAGE_SHARE {
            return None;
        }
        for _ in 0..SEARCH.min(segments.count() as usize) {
            if self.search == NONE {
                self.search = after_class(chains, CLASSES - 1, NONE);
            }
            let run = store.run(chains, self.search, RUN_MAX, segments.segment_bytes as u64);
            if run.len() > 1 || run.len() == 1 && store.live_bytes(&run) == 0 {
                return Some(run);
            }
            if self.search != NONE {
                let class = segments.get(self.search).state().class();
                self.search = after_class(chains, class, chains.next(self.search));
            }
        }
        None
    }

    /// The segments that the policy evicts next.
    pub(super) fn choose(&mut self, store: &Store, chains: &Chains) -> Vec<u32> {
        let segments = &store.segments;
        let is_quiet = |&segment: &u32| segments.get(segment).state().is_quiet();
        let one = match store.eviction {
            Eviction::Fifo => {
                let firsts = (0..CLASSES).filter_map(|class| {
                    let next = |&segment: &u32| Some(chains.next(segment)).filter(|&it| it != NONE);
                    let first = Some(chains.first(class)).filter(|&first| first != NONE);
                    std::iter::successors(first, next).find(is_quiet)
                });
                firsts.min_by_key(|&segment| segments.get(segment).sequence.load(Relaxed))
            }
            Eviction::Never => None,
            Eviction::ClosestToExpiry => self.endings.first(segments),
            Eviction::Random => {
                let first = self.random() % u64::from(segments.count());
                let all = (0..segments.count())
                    .map(|step| ((first + u64::from(step)) % u64::from(segments.count())) as u32);
                all.into_iter().find(is_quiet)
            }
            Eviction::FifoMerge => return self.in_turn(store, chains, MERGE),
            Eviction::GlCache => {
                let ranked = self.ranked(store, chains);
                self.has_ranked = ranked.is_some();
                return ranked.unwrap_or_else(|| self.in_turn(store, chains, MERGE_LEARNED));
            }
        };
        one.into_iter().collect()
    }

    /// Neighbours at the hand: `merge` of them, or more if they fit into one.
    fn in_turn(&mut self, store: &Store, chains: &Chains, merge: usize) -> Vec<u32> {
        let segments = &store.segments;
        let sequence = |&segment: &u32| segments.get(segment).sequence.load(Relaxed);
        // Once around all classes, and past runs that are not quiet. A single segment would be
        // evicted as a whole, so that happens only if no two are neighbours.
        let mut alone: Option<u32> = None;
        for _ in 0..=segments.count() + CLASSES as u32 {
            self.hand.turn(segments, chains);
            if self.hand.at == NONE {
                return Vec::new();
            }
            // Segments with few live items merge without loss while they fit into one.
            let whole = segments.segment_bytes as u64;
            let fitting = store.run(chains, self.hand.at, RUN_MAX, whole);
            if fitting.len() > 1 {
                return fitting;
            }
            let run = store.run(chains, self.hand.at, merge, u64::MAX);
            if run.len() > 1 {
                return run;
            }
            alone = alone.into_iter().chain(run).min_by_key(sequence);
            self.hand.at = chains.next(self.hand.at);
        }
        alone.into_iter().collect()
    }

    /// The segment with the lowest predicted utility, and its neighbours. `None`: there is no
    /// ranking, or all of it was used.
    fn ranked(&mut self, store: &Store, chains: &Chains) -> Option<Vec<u32>> {
        let learner = store.learner.as_ref()?;
        loop {
            if self.ranking.is_used_up() {
                learner.wants_ranking();
            }
            if let Some(ranking) = learner.new_ranking() {
                self.ranking = ranking;
            }
            let ranked = self.ranking.next()?;
            let segment = store.segments.get(ranked.segment);
            if segment.state().is_quiet() && segment.generation() == ranked.generation {
                learner.chose(ranked.utility);
                return Some(neighbours(store, chains, ranked.segment));
            }
        }
    }

    fn random(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance >> 11
    }
}

/// A segment and those written next after it, [`MERGE_LEARNED`] in all, or before it if no
/// quiet ones follow. A half-empty segment counts as the share of it that is live.
fn neighbours(store: &Store, chains: &Chains, segment: u32) -> Vec<u32> {
    let segments = &store.segments;
    let is_quiet = |segment: u32| segment != NONE && segments.get(segment).state().is_quiet();
    let enough = (segments.segment_bytes * (2 * MERGE_LEARNED - 1) / 2) as u64;
    let wants = |run: &[u32]| {
        run.len() < MERGE_LEARNED || run.len() < RUN_MAX && store.live_bytes(run) < enough
    };
    let mut run = vec![segment];
    let mut newer = chains.next(segment);
    while is_quiet(newer) && wants(&run) {
        run.push(newer);
        newer = chains.next(newer);
    }
    let mut older = chains.previous(segment);
    while is_quiet(older) && wants(&run) {
        run.insert(0, older);
        older = chains.previous(older);
    }
    run
}

/// `segment`, or the first segment of the next class that has any, once around.
fn after_class(chains: &Chains, class: usize, segment: u32) -> u32 {
    if segment != NONE {
        return segment;
    }
    let classes = (1..=CLASSES).map(|step| (class + step) % CLASSES);
    classes.map(|class| chains.first(class)).find(|&first| first != NONE).unwrap_or(NONE)
}
