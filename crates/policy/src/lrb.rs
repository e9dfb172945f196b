//! LRB: evicts the object whose next request is furthest away, as predicted by a model learned
//! from the requests.
//!
//! Gradient-boosted trees learn the logarithm of the time until an object's next request from 44
//! features: its age (requests since its last one), the 31 times between its last 32 requests, ten
//! counts of its requests that decay, its size, and the number of its known requests. Samples are
//! objects drawn from all that were requested within the *memory window*, resident or not. An
//! object that is not requested within the window of its last request is forgotten, and its samples
//! are labelled with twice the window: an approximation of Belady's MIN need not distinguish
//! distances beyond a boundary. To evict, 64 residents are drawn, and the one with the furthest
//! predicted request for its size is evicted. A resident not requested within the window is evicted
//! before them. Without a model the policy evicts the one of the 64 requested longest ago (Song,
//! Berger, Li, Lloyd, NSDI 2020).
//!
//! It is here for comparison with GL-Cache. `docs/design/gl-cache.md` says what differs.
//!
//! A hit writes the object's record of 216 bytes. An eviction takes `rounds` × `depth` comparisons
//! for each of `candidates` residents. All objects requested within the window have records, at
//! most `window` of them.

mod records;
mod settings;

use std::collections::HashMap;

use crate::{
    BoostedTrees, Eviction, Host, Incoming, Policy, Rng, SampleTable, Samples, Slot, Work,
};
use records::{FEATURES, Records};
pub use settings::ObjectLearning;

/// Default window, as a multiple of the requests that it took to fill the cache.
const TURNOVERS: u32 = 8;
/// Shortest window.
const LEAST_WINDOW: u32 = 64;
/// Longest window, so that twice its length fits.
const MOST_WINDOW: u32 = u32::MAX / 4;

/// LRB.
#[derive(Clone, Debug)]
pub struct Lrb {
    settings: ObjectLearning,
    rng: Rng,
    /// Requests so far. Wraps.
    now: u32,
    /// The memory window, in requests; 0 until the cache is full for the first time.
    window: u32,
    records: Records,
    /// Records of objects that are not resident, by hash.
    departed: HashMap<u64, u32>,
    /// Residents, each with its record.
    residents: SampleTable<u32>,
    training: Samples<FEATURES>,
    model: Option<BoostedTrees<FEATURES>>,
    drawn: Vec<u32>,
    rows: Vec<[f32; FEATURES]>,
    logarithms: Vec<f32>,
    predicted: Vec<f64>,
}

impl Lrb {
    /// LRB with these parameters.
    pub fn new(settings: ObjectLearning) -> Self {
        Lrb {
            settings,
            rng: Rng::new(settings.seed),
            now: 0,
            window: 0,
            records: Records::default(),
            departed: HashMap::new(),
            residents: SampleTable::new(),
            training: Samples::default(),
            model: None,
            drawn: Vec::new(),
            rows: Vec::new(),
            logarithms: Vec::new(),
            predicted: Vec::new(),
        }
    }

    /// Number of objects with a record: resident, or requested within the memory window.
    pub fn known(&self) -> usize {
        self.records.len()
    }

    /// A request for an object with a record: labels its samples.
    fn request(&mut self, record: u32) {
        let (now, window) = (self.now, self.window);
        self.records.settle(
            record,
            |sampled| now.wrapping_sub(sampled),
            window,
            &mut self.training,
        );
        self.records.request(record, now);
        self.train_if_full();
    }

    /// Labels the samples of an object not requested within the window.
    fn give_up(&mut self, record: u32) {
        let far = self.far();
        self.records.settle(record, |_| far, self.window, &mut self.training);
        self.train_if_full();
    }

    /// The label of an object whose next request is beyond the window.
    fn far(&self) -> u32 {
        self.window.saturating_mul(2)
    }

    fn train_if_full(&mut self) {
        if self.training.rows.len() >= self.settings.batch as usize {
            let none = Samples::default();
            self.model = Some(BoostedTrees::fit(&self.training, &none, &self.settings.boosting));
            self.training.rows.clear();
            self.training.labels.clear();
        }
    }

    /// Begins a request: advances the clock and forgets objects not requested within the window.
    fn tick(&mut self) {
        self.now = self.now.wrapping_add(1);
        while self.window > 0
            && let Some(oldest) = self.records.oldest()
            && self.now.wrapping_sub(self.records.last(oldest)) >= self.window
        {
            self.give_up(oldest);
            if self.records.is_resident(oldest) {
                self.records.set_aside(oldest);
            } else {
                self.departed.remove(&self.records.hash(oldest));
                self.records.free(oldest);
            }
        }
    }

    /// Ends a request: a random record becomes a sample of this moment, after the request so
    /// that the request does not label it.
    fn sample(&mut self) {
        if self.window > 0
            && self.now.is_multiple_of(self.settings.every)
            && let Some(chosen) = self.records.choose(&mut self.rng)
        {
            self.records.sample(chosen, self.now);
        }
    }

    /// Draws candidates: all residents if there are no more.
    fn draw(&mut self) {
        let (wanted, len) = (self.settings.candidates as usize, self.residents.len());
        self.drawn.clear();
        for number in 0..wanted.min(len) {
            let place = if len <= wanted { number } else { self.rng.below(len as u64) as usize };
            self.drawn.push(*self.residents.at(place).1);
        }
    }

    /// The victim among the candidates drawn.
    fn choose(&mut self) -> Option<Slot> {
        let drawn = std::mem::take(&mut self.drawn);
        let mut distances = std::mem::take(&mut self.predicted);
        self.foretell(&drawn, &mut distances);
        let mut chosen: Option<(f64, u32)> = None;
        for (&record, &distance) in drawn.iter().zip(&distances) {
            if chosen.is_none_or(|(furthest, _)| distance > furthest) {
                chosen = Some((distance, record));
            }
        }
        (self.drawn, self.predicted) = (drawn, distances);
        chosen.map(|(_, record)| self.records.slot(record))
    }

    /// The predicted distances to the next requests of residents, for their size: logarithms, or
    /// without a model their ages.
    fn foretell(&mut self, residents: &[u32], distances: &mut Vec<f64>) {
        distances.clear();
        let Some(model) = &self.model else {
            let age = |&record: &u32| self.now.wrapping_sub(self.records.last(record));
            distances.extend(residents.iter().map(|record| f64::from(age(record))));
            return;
        };
        let row = |&record: &u32| self.records.features(record, self.now, self.window);
        self.rows.clear();
        self.rows.extend(residents.iter().map(row));
        model.predict(&self.rows, &mut self.logarithms);
        let for_size = |(&record, &distance): (&u32, &f32)| {
            f64::from(distance) + (self.records.size(record).max(1) as f64).ln()
        };
        distances.extend(residents.iter().zip(&self.logarithms).map(for_size));
    }

    /// A resident is evicted, and its record stays.
    fn depart(&mut self, slot: Slot) {
        let record = self.residents.remove(slot);
        if self.records.is_set_aside(record) {
            self.give_up(record);
            self.records.free(record);
        } else {
            self.records.leave(record);
            self.departed.insert(self.records.hash(record), record);
        }
    }
}

impl Policy for Lrb {
    type Meta = ();
    type Pending = ();
    const REMEMBERS: bool = true;

    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        host.count(Work::Mark, 1);
        self.tick();
        let record = *self.residents.get_mut(slot);
        self.request(record);
        self.sample();
    }

    fn miss(&mut self, host: &mut impl Host<()>, hash: u64, weight: u64) {
        host.count(Work::Ghost, 1);
        self.tick();
        match self.departed.get(&hash) {
            Some(&record) => {
                self.request(record);
                self.records.set_size(record, weight);
            }
            None => {
                let record = self.records.begin(hash, weight, self.now);
                self.departed.insert(hash, record);
            }
        }
        self.sample();
    }

    fn delayed_hit(&mut self, _host: &mut impl Host<()>, incoming: &mut Incoming<()>) {
        self.tick();
        if let Some(&record) = self.departed.get(&incoming.hash) {
            self.request(record);
        }
        self.sample();
    }

    fn evict(&mut self, host: &mut impl Host<()>, _incoming: Option<&Incoming<()>>) -> Eviction {
        if self.window == 0 {
            let filled = self.now.saturating_mul(TURNOVERS).clamp(LEAST_WINDOW, MOST_WINDOW);
            self.window = if self.settings.window > 0 { self.settings.window } else { filled };
        }
        let chosen = match self.records.set_aside_first() {
            Some(slot) => Some(slot),
            None => {
                self.draw();
                host.count(Work::Sample, self.drawn.len() as u32);
                self.choose()
            }
        };
        match chosen {
            Some(slot) => {
                self.depart(slot);
                Eviction::Victim(slot)
            }
            None => Eviction::Empty,
        }
    }

    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<()>) {
        let record = match self.departed.remove(&incoming.hash) {
            Some(record) => record,
            // Its fetch took longer than the window, or it was evicted and is requested again.
            None => self.records.begin(incoming.hash, incoming.weight, self.now),
        };
        self.records.arrive(record, slot);
        self.records.set_size(record, host.weight(slot));
        self.residents.insert(slot, record);
    }

    /// Forgets a deleted object: its next request can no longer be known.
    fn remove(&mut self, _host: &mut impl Host<()>, slot: Slot) {
        let record = self.residents.remove(slot);
        self.records.free(record);
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, _old_weight: u64) {
        let record = *self.residents.get_mut(slot);
        self.records.set_size(record, host.weight(slot));
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        let records: Vec<u32> =
            (0..self.residents.len()).map(|it| *self.residents.at(it).1).collect();
        let mut distances = Vec::new();
        self.clone().foretell(&records, &mut distances);
        // Residents set aside are evicted first, in the order of their last requests.
        let rank = |(&record, distance): (&u32, f64)| {
            let age = self.now.wrapping_sub(self.records.last(record));
            let is_set_aside = self.records.is_set_aside(record);
            let distance = if is_set_aside { f64::from(age) } else { distance };
            (is_set_aside, distance, self.records.slot(record))
        };
        let mut order: Vec<(bool, f64, Slot)> = records.iter().zip(distances).map(rank).collect();
        order.sort_by(|one, other| other.0.cmp(&one.0).then(other.1.total_cmp(&one.1)));
        order.into_iter().map(|(.., slot)| slot).collect()
    }
}
