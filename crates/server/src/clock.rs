//! The time of the server: milliseconds since it started, read from the system once a wake-up.
//!
//! A thread that wakes sets the clock (27 ns), and everything it serves until it sleeps again happens
//! at that moment. So a hit reads no clock, and a lifetime may end later than it should by as long as
//! a thread works without a pause, which is milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Shared by the threads and the store.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// Milliseconds since 1970 when it started.
    started_unix_ms: u64,
    now_ms: Arc<AtomicU64>,
    /// The offset set by tests.
    moved_ms: AtomicU64,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // A millisecond begins when one of the system's does.
        let begun = Duration::from_nanos(u64::from(unix.subsec_nanos() % 1_000_000));
        let now = Instant::now();
        Clock {
            started: now.checked_sub(begun).unwrap_or(now),
            started_unix_ms: unix.as_millis() as u64,
            now_ms: Arc::new(AtomicU64::new(0)),
            moved_ms: AtomicU64::new(0),
        }
    }

    /// The time that the store reads.
    pub(crate) fn shared(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.now_ms)
    }

    /// Sets the clock by the system's, and answers it.
    pub(crate) fn update(&self) -> u64 {
        let now = self.started.elapsed().as_millis() as u64 + self.moved_ms.load(Relaxed);
        // It never goes back. Mostly it is what another thread has set a moment ago.
        if self.now_ms.load(Relaxed) < now {
            self.now_ms.fetch_max(now, Relaxed);
        }
        self.now_ms()
    }

    /// Milliseconds since the server started, as of the last wake-up.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.load(Relaxed)
    }

    /// Seconds since 1970.
    pub(crate) fn unix(&self) -> u64 {
        self.unix_ms() / 1000
    }

    /// Milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> u64 {
        self.started_unix_ms + self.now_ms()
    }

    /// Seconds since 1970 when the server started.
    pub(crate) fn started_unix(&self) -> u64 {
        self.started_unix_ms / 1000
    }

    /// The time at which hostile inputs are served, so that replies do not depend on when.
    #[cfg(feature = "hostile")]
    pub(crate) fn set_unix(&mut self, seconds: u64) {
        self.started_unix_ms = seconds * 1000;
    }

    /// Moves it forward, for tests.
    pub(crate) fn advance(&self, by_ms: u64) {
        self.moved_ms.fetch_add(by_ms, Relaxed);
        self.update();
    }
}
