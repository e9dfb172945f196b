//! Space for new items: drops expired segments, merges others, evicts.
//!
//! Writers evict a little with each write: 16 items at a time, or while few segments are free,
//! eight bytes for each byte written. So no write waits for a whole merge, there is no thread to
//! schedule, and a program evicts the same in each run. One writer at a time has the evictor; the
//! others continue while there is a free segment.
//!
//! A *job* is a run of segments of one class, neighbours in the order of writing. It visits their
//! items in order. It copies items that stay into one new segment, which replaces the run, and
//! unlinks the others. If the segments are dropped, no item stays. If the job only reclaims the
//! space of removed and replaced items, all others stay. Otherwise items stay up to one segment's
//! size. `choose` chooses the segments, `job` visits them.

mod choose;
mod job;

use crate::Eviction;
use crate::hazards::Hazards;
use crate::learner::Ranking;
use crate::lifetimes::CLASSES;
use crate::limbo::Limbo;
use crate::segments::{Chains, NONE, Segments};
use crate::store::Store;
use crate::sync::atomic::Ordering::Relaxed;
use choose::{Endings, Hand};
use job::{Job, Keep, RUN_MAX, SCORES};

#[derive(Debug)]
pub(crate) struct Evictor {
    job: Option<Job>,
    limbo: Limbo,
    /// A segment for the next merge.
    spare: Option<u32>,
    /// Start of the next merge, if merges go through the segments in order.
    hand: Hand,
    /// Where the search for space left by removals continues.
    search: u32,
    /// The segment last checked for whether it is over.
    sweep: u32,
    /// Segments that end next, of those checked.
    endings: Endings,
    ranking: Ranking,
    /// Whether the last chosen run was ranked.
    has_ranked: bool,
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
            hand: Hand::default(),
            search: NONE,
            sweep: 0,
            endings: Endings::default(),
            ranking: Ranking::default(),
            has_ranked: false,
            chance: chance | 1,
            scores: [0; SCORES],
        }
    }

    /// Processes about `bytes` bytes. False: there was no work.
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

    /// Frees segments that readers no longer use.
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
        if let Some(learner) = &store.learner {
            learner.tend();
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
            if store.eviction != Eviction::Never {
                self.close_one(segments);
            }
            return None;
        }
        let keep = match store.live_bytes(&run) {
            _ if run.len() == 1 || self.spare.is_none() => Keep::Nothing,
            bytes if bytes <= segments.segment_bytes as u64 => Keep::All,
            _ => Keep::From(0),
        };
        let mut job = self.take(store, chains, &run, keep);
        job.is_ranked = self.has_ranked;
        Some(job)
    }

    /// Takes a run out of its chain for a job.
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
        for hand in [&mut self.hand.at, &mut self.search] {
            if segments.contains(hand) {
                *hand = after;
            }
        }
        for &segment in segments {
            table.detach(&mut chains, segment);
        }
        drop(chains);
        let merged = if keep == Keep::Nothing { None } else { self.spare.take() };
        if let Some(merged) = merged {
            let now_ms = store.clock.now_ms();
            table.begin_merged(merged, class, now_ms, segments);
            // A sum of eight times may exceed 64 bits.
            let written = |&s: &u32| u128::from(table.get(s).written_ms.load(Relaxed));
            let mean = segments.iter().map(written).sum::<u128>() / segments.len() as u128;
            table.get(merged).written_ms.store(mean as u64, Relaxed);
            if let Some(learner) = &store.learner {
                learner.merges(segments, merged, keep == Keep::All);
            }
        }
        self.scores.fill(0);
        Job::new(store, class, segments, keep, merged, previous)
    }

    /// Retires the segments that a job has emptied, which then wait for their readers, and links
    /// the merged segment into the chain.
    fn end(&mut self, store: &Store, job: &Job) {
        self.limbo.add(job.run());
        if let Some(merged) = job.merged {
            store.counters.merges.fetch_add(1, Relaxed);
            if job.filled == 0 {
                self.spare = Some(merged);
            } else {
                store.segments.attach(merged, job.class, job.filled, job.previous);
            }
        }
    }

    /// Nothing is sealed, but open segments may have items.
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

    /// For `validate`: segments in no chain that are not free, and the one being filled.
    pub(crate) fn apart(&self) -> (Vec<u32>, Option<(u32, usize)>) {
        let mut apart = self.limbo.segments().to_vec();
        apart.extend(self.spare);
        let job = self.job.as_ref();
        if let Some(job) = job {
            apart.extend(job.run());
            apart.extend(job.merged);
        }
        (apart, job.and_then(|job| Some((job.merged?, job.filled))))
    }
}
