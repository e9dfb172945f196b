//! LRB's records of objects: the times of their requests, their sizes, and their samples
//! without a label.
//!
//! Records are in a list by their last request. Residents not requested within the memory window
//! are in a list of their own, which is evicted first.

use crate::{Rng, Samples, Slot};

/// No record, no sample, no slot.
const NONE: u32 = u32::MAX;
/// Times between requests that are kept.
const GAPS: usize = 31;
/// Counts of requests, each of which decays half as fast as the one before it.
const COUNTS: usize = 10;
/// A count is halved in 2^10 to 2^19 requests.
const SLOWEST_HALVING: f32 = (1 << 19) as f32;
/// Age, times between requests, size, requests within the window, counts.
pub(super) const FEATURES: usize = 1 + GAPS + 1 + 1 + COUNTS;

#[derive(Clone, Debug)]
struct Record {
    hash: u64,
    size: u64,
    /// Its last request. Wraps.
    last: u32,
    /// Times between its requests so far, and the last ones in a ring.
    gaps_seen: u32,
    gaps: [u32; GAPS],
    /// Requests, decayed up to the last one.
    counts: [f32; COUNTS],
    /// The last of its unlabelled samples.
    sample: u32,
    /// Where it is, if it is resident.
    slot: u32,
    /// Its neighbours in its list, and the list.
    older: u32,
    newer: u32,
    is_set_aside: bool,
    /// Its place in the array for random draws; [`NONE`] if the record is vacant.
    place: u32,
}

/// A list threaded through records.
#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
}

const EMPTY: List = List { oldest: NONE, newest: NONE };

/// A moment at which a record was chosen, and the sample of the same record before it.
#[derive(Clone, Copy, Debug)]
struct Pending {
    time: u32,
    before: u32,
}

/// All records.
#[derive(Clone, Debug)]
pub(super) struct Records {
    records: Vec<Record>,
    vacant: Vec<u32>,
    /// The records in use, in any order.
    known: Vec<u32>,
    by_request: List,
    set_aside: List,
    pending: Vec<Pending>,
    vacant_pending: Vec<u32>,
}

impl Default for Records {
    fn default() -> Self {
        Records {
            records: Vec::new(),
            vacant: Vec::new(),
            known: Vec::new(),
            by_request: EMPTY,
            set_aside: EMPTY,
            pending: Vec::new(),
            vacant_pending: Vec::new(),
        }
    }
}

/// Decay of each count over `requests` requests. The slowest is a power, and each faster one
/// is the square of the next: one logarithm instead of ten.
fn decays(requests: u32) -> [f32; COUNTS] {
    let mut decays = [0.0; COUNTS];
    let mut decay = (-(requests as f32) / SLOWEST_HALVING).exp2();
    for place in decays.iter_mut().rev() {
        *place = decay;
        decay *= decay;
    }
    decays
}

impl Records {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    fn of(&self, record: u32) -> &Record {
        &self.records[record as usize]
    }

    fn of_mut(&mut self, record: u32) -> &mut Record {
        &mut self.records[record as usize]
    }

    pub(super) fn hash(&self, record: u32) -> u64 {
        self.of(record).hash
    }

    pub(super) fn last(&self, record: u32) -> u32 {
        self.of(record).last
    }

    pub(super) fn is_resident(&self, record: u32) -> bool {
        self.of(record).slot != NONE
    }

    pub(super) fn is_set_aside(&self, record: u32) -> bool {
        self.of(record).is_set_aside
    }

    /// Where a resident is.
    pub(super) fn slot(&self, record: u32) -> Slot {
        Slot(self.of(record).slot)
    }

    pub(super) fn size(&self, record: u32) -> u64 {
        self.of(record).size
    }

    pub(super) fn set_size(&mut self, record: u32, size: u64) {
        self.of_mut(record).size = size;
    }

    /// The record that was requested longest ago, except for those set aside.
    pub(super) fn oldest(&self) -> Option<u32> {
        Some(self.by_request.oldest).filter(|&oldest| oldest != NONE)
    }

    /// The resident that was set aside first.
    pub(super) fn set_aside_first(&self) -> Option<Slot> {
        let first = self.set_aside.oldest;
        (first != NONE).then(|| self.slot(first))
    }

    /// A record of an object that is requested for the first time.
    pub(super) fn begin(&mut self, hash: u64, size: u64, now: u32) -> u32 {
        let new = Record {
            hash,
            size,
            last: now,
            gaps_seen: 0,
            gaps: [0; GAPS],
            counts: [1.0; COUNTS],
            sample: NONE,
            slot: NONE,
            older: NONE,
            newer: NONE,
            is_set_aside: false,
            place: self.known.len() as u32,
        };
        let number = match self.vacant.pop() {
            Some(number) => {
                self.records[number as usize] = new;
                number
            }
            None => {
                self.records.push(new);
                self.records.len() as u32 - 1
            }
        };
        self.known.push(number);
        self.link(number);
        number
    }

    /// Forgets a record, with its samples.
    pub(super) fn free(&mut self, record: u32) {
        self.unlink(record);
        let mut sample = self.of(record).sample;
        while sample != NONE {
            self.vacant_pending.push(sample);
            sample = self.pending[sample as usize].before;
        }
        let place = std::mem::replace(&mut self.of_mut(record).place, NONE);
        self.known.swap_remove(place as usize);
        if let Some(&moved) = self.known.get(place as usize) {
            self.of_mut(moved).place = place;
        }
        self.vacant.push(record);
    }

    /// The object of a record becomes resident.
    pub(super) fn arrive(&mut self, record: u32, slot: Slot) {
        self.of_mut(record).slot = slot.0;
    }

    /// The object of a record leaves the cache.
    pub(super) fn leave(&mut self, record: u32) {
        self.of_mut(record).slot = NONE;
    }

    /// Sets aside a resident that was not requested within the window.
    pub(super) fn set_aside(&mut self, record: u32) {
        self.unlink(record);
        self.of_mut(record).is_set_aside = true;
        self.link(record);
    }

    /// Updates a record at a request for its object.
    pub(super) fn request(&mut self, record: u32, now: u32) {
        self.unlink(record);
        let known = self.of_mut(record);
        let gap = now.wrapping_sub(known.last);
        for (count, decay) in known.counts.iter_mut().zip(decays(gap)) {
            *count = 1.0 + *count * decay;
        }
        known.gaps[known.gaps_seen as usize % GAPS] = gap;
        known.gaps_seen =
            if known.gaps_seen == u32::MAX { GAPS as u32 } else { known.gaps_seen + 1 };
        known.last = now;
        known.is_set_aside = false;
        self.link(record);
    }

    /// A random record, each equally likely; `None` without records.
    pub(super) fn choose(&self, rng: &mut Rng) -> Option<u32> {
        let len = self.known.len() as u64;
        (len > 0).then(|| self.known[rng.below(len) as usize])
    }

    /// Makes the record a sample of this moment.
    pub(super) fn sample(&mut self, record: u32, now: u32) {
        let new = Pending { time: now, before: self.of(record).sample };
        let number = match self.vacant_pending.pop() {
            Some(number) => {
                self.pending[number as usize] = new;
                number
            }
            None => {
                self.pending.push(new);
                self.pending.len() as u32 - 1
            }
        };
        self.of_mut(record).sample = number;
    }

    /// Labels the samples of a record: `distance` gives the time from each sample to the request.
    /// They join the training data, the last first.
    pub(super) fn settle(
        &mut self,
        record: u32,
        distance: impl Fn(u32) -> u32,
        window: u32,
        training: &mut Samples<FEATURES>,
    ) {
        let mut sample = std::mem::replace(&mut self.of_mut(record).sample, NONE);
        while sample != NONE {
            let Pending { time, before } = self.pending[sample as usize];
            training.rows.push(self.features(record, time, window));
            training.labels.push((distance(time) as f32).ln_1p());
            self.vacant_pending.push(sample);
            sample = before;
        }
    }

    /// The features of a record at a moment after its last request. Missing times between requests
    /// count as twice the window.
    pub(super) fn features(&self, record: u32, now: u32, window: u32) -> [f32; FEATURES] {
        let known = self.of(record);
        let age = now.wrapping_sub(known.last);
        let mut features = [window as f32 * 2.0; FEATURES];
        features[0] = age as f32;
        let (mut since, mut within) = (0_u64, 0);
        let gaps = (known.gaps_seen as usize).min(GAPS);
        for number in 0..gaps {
            let gap = known.gaps[(known.gaps_seen as usize - 1 - number) % GAPS];
            features[1 + number] = gap as f32;
            since += u64::from(gap);
            within += u32::from(since < u64::from(window));
        }
        features[1 + GAPS] = known.size as f32;
        features[2 + GAPS] = within as f32;
        for ((feature, count), decay) in
            features[3 + GAPS..].iter_mut().zip(known.counts).zip(decays(age))
        {
            *feature = count * decay;
        }
        features
    }

    fn list(&mut self, is_set_aside: bool) -> &mut List {
        if is_set_aside { &mut self.set_aside } else { &mut self.by_request }
    }

    /// Puts a record at the newest end of its list.
    fn link(&mut self, record: u32) {
        let is_set_aside = self.of(record).is_set_aside;
        let newest = std::mem::replace(&mut self.list(is_set_aside).newest, record);
        let known = self.of_mut(record);
        (known.older, known.newer) = (newest, NONE);
        match newest {
            NONE => self.list(is_set_aside).oldest = record,
            _ => self.of_mut(newest).newer = record,
        }
    }

    fn unlink(&mut self, record: u32) {
        let &Record { older, newer, is_set_aside, .. } = self.of(record);
        match older {
            NONE => self.list(is_set_aside).oldest = newer,
            _ => self.of_mut(older).newer = newer,
        }
        match newer {
            NONE => self.list(is_set_aside).newest = older,
            _ => self.of_mut(newer).older = older,
        }
    }
}
