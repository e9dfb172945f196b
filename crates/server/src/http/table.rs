//! The state of HTTP shared by all threads: the cache, flights, and URLs whose responses are not shared.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use frazil::{BuildError, Cache};
use mio::Waker;
use parking_lot::Mutex;

use super::flight::{Bounds, Flight, Forwarded, Reading};
use super::object::{Object, Variants};
use super::wakes::Wakes;
use crate::mail::Place;
use crate::recording::RequestLog;
use crate::settings::{Settings, Shares};

const PARTS: usize = 64;
/// Counters of invalidations, by hash of the URL. A collision at most keeps a response from being stored.
const GENERATIONS: usize = 1 << 12;
/// Milliseconds for which a URL is remembered as not shared.
const ALONE_MS: u64 = 60_000;
/// URLs remembered as not shared, in each part.
const ALONE_MAX: usize = 64;
/// Memory of an entry, without its key and objects.
const ENTRY_BYTES: usize = 128;

#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) cache: Cache<Box<[u8]>, Arc<Variants>>,
    parts: Box<[Mutex<Part>]>,
    generations: Box<[AtomicU64]>,
    hasher: RandomState,
    pub(crate) wakes: Wakes,
    pub(crate) bounds: Arc<Bounds>,
    /// Fetches in flight.
    under_way: AtomicUsize,
    pub(crate) counts: HttpCounts,
    pub(crate) requests: RequestLog,
}

/// Memory of the responses stored for a URL.
pub(crate) fn weight(key: &[u8], variants: &Variants) -> u64 {
    (ENTRY_BYTES + key.len() + variants.weight()) as u64
}

/// The counts of the fetching thread.
#[derive(Debug, Default)]
pub(crate) struct HttpCounts {
    pub(crate) fetches: AtomicU64,
    /// Fetches without a response; with a validation; with a stored response.
    pub(crate) failed: AtomicU64,
    pub(crate) validated: AtomicU64,
    pub(crate) stored: AtomicU64,
}

#[derive(Debug, Default)]
struct Part {
    flights: HashMap<Box<[u8]>, Arc<Flight>>,
    /// The time until which each client has a fetch of its own, by URL.
    alone: HashMap<Box<[u8]>, u64>,
}

/// The course of a request that the cache does not answer.
#[derive(Debug)]
pub(crate) enum Begins {
    /// It waits with others.
    Joined(Reading),
    /// It must fetch for this flight.
    First(Arc<Flight>),
    /// The response has been stored meanwhile.
    Look,
}

impl Http {
    pub(crate) fn new(
        settings: &Settings,
        shares: Shares,
        wakers: Arc<[Waker]>,
    ) -> Result<Http, BuildError> {
        let cache = Cache::<Box<[u8]>, _>::builder(shares.http_bytes as u64)
            .policy(settings.policy)
            .weigher(|key, variants: &Arc<Variants>| weight(key, variants))
            .try_build()?;
        let bounds = Bounds {
            arriving: AtomicUsize::new(0),
            arriving_max: shares.arriving_bytes,
            object_max: shares.arriving_bytes / 2,
        };
        Ok(Http {
            cache,
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            generations: (0..GENERATIONS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            wakes: Wakes::new(wakers),
            bounds: Arc::new(bounds),
            under_way: AtomicUsize::new(0),
            counts: HttpCounts::default(),
            requests: RequestLog::new(),
        })
    }

    fn part(&self, key: &[u8]) -> &Mutex<Part> {
        &self.parts[self.hasher.hash_one(key) as usize % PARTS]
    }

    fn generation(&self, key: &[u8]) -> &AtomicU64 {
        &self.generations[(self.hasher.hash_one(key) >> 32) as usize % GENERATIONS]
    }

    /// Fetches in flight.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Relaxed)
    }

    /// Counts one more fetch, if there may be one more.
    pub(crate) fn admits(&self, most: usize) -> bool {
        let is_full = self.under_way.fetch_add(1, Relaxed) >= most;
        if is_full {
            self.under_way.fetch_sub(1, Relaxed);
        }
        !is_full
    }

    pub(crate) fn ended(&self) {
        self.under_way.fetch_sub(1, Relaxed);
    }

    /// A flight that no other request can join.
    pub(crate) fn alone(&self, key: &[u8], forwarded: Forwarded) -> Arc<Flight> {
        let generation = self.generation(key).load(Relaxed);
        Arc::new(Flight::new(key, generation, forwarded, &self.bounds))
    }

    /// Joins the flight of a URL, or begins one. `place` is `None` for a refresh in the background. `is_present`
    /// looks at the cache once more, with the part locked: a response is stored before its flight leaves the table.
    pub(crate) fn begin(
        &self,
        key: &[u8],
        forwarded: Forwarded,
        place: Option<Place>,
        now_ms: u64,
        is_present: impl FnOnce() -> bool,
    ) -> Begins {
        let mut part = self.part(key).lock();
        if let Some(&until_ms) = part.alone.get(key) {
            if until_ms > now_ms {
                return Begins::First(self.alone(key, forwarded));
            }
            part.alone.remove(key);
        }
        if let Some(flight) = part.flights.get(key) {
            let Some(place) = place else { return Begins::Look };
            if let Some(reading) = flight.join(place) {
                return Begins::Joined(reading);
            }
        }
        if is_present() {
            return Begins::Look;
        }
        let flight = self.alone(key, forwarded);
        part.flights.insert(key.into(), Arc::clone(&flight));
        Begins::First(flight)
    }

    /// Closes a flight to further requests. If its response is not shared, that is remembered.
    pub(crate) fn leave(&self, flight: &Arc<Flight>, alone_from_ms: Option<u64>) {
        let mut part = self.part(&flight.key).lock();
        part.remove(flight);
        if let Some(now_ms) = alone_from_ms {
            if part.alone.len() >= ALONE_MAX && !part.alone.contains_key(&flight.key) {
                part.alone.retain(|_, until_ms| *until_ms > now_ms);
                if part.alone.len() >= ALONE_MAX
                    && let Some(any) = part.alone.keys().next().cloned()
                {
                    part.alone.remove(&any);
                }
            }
            part.alone.insert(flight.key.clone(), now_ms + ALONE_MS);
        }
    }

    /// Stores the response of a flight and ends the flight. An invalidation of the URL since its beginning prevents
    /// the storing.
    pub(crate) fn store(&self, flight: &Arc<Flight>, object: &Arc<Object>) {
        let key = &flight.key;
        let mut part = self.part(key).lock();
        part.alone.remove(key);
        if self.generation(key).load(Relaxed) == flight.generation {
            let stored = self.cache.peek(&key[..]);
            let variants = stored
                .as_deref()
                .unwrap_or(&Variants::default())
                .with(Arc::clone(object), self.bounds.object_max);
            if self.requests.is_on() {
                self.requests.written(key, weight(key, &variants), None);
            }
            self.cache.insert(key.clone(), Arc::new(variants));
            self.counts.stored.fetch_add(1, Relaxed);
        }
        part.remove(flight);
    }

    /// Drops the stored responses of a URL, and keeps those in flight from being stored. True: there was one.
    pub(crate) fn invalidate(&self, key: &[u8]) -> bool {
        let mut part = self.part(key).lock();
        self.generation(key).fetch_add(1, Relaxed);
        part.flights.remove(key);
        if self.requests.is_on() {
            self.requests.deleted(key);
        }
        self.cache.invalidate(key)
    }
}

impl Part {
    fn remove(&mut self, flight: &Arc<Flight>) {
        if self.flights.get(&flight.key).is_some_and(|there| Arc::ptr_eq(there, flight)) {
            self.flights.remove(&flight.key);
        }
    }
}
