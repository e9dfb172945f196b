//! The time of the server: milliseconds since it started, read from the system once a wake-up.
//!
//! A thread that wakes sets the clock (27 ns). Everything that it serves until it sleeps again happens at that
//! moment, so a hit reads no clock. A lifetime may therefore end late, by the time that a thread works without a
//! pause: milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Shared by the threads and the store.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// Unix time of the start, in milliseconds.
    started_unix_ms: u64,
    now_ms: Arc<AtomicU64>,
    /// The offset set by tests.
    moved_ms: AtomicU64,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Milliseconds of this clock begin with those of the system's.
        let begun = Duration::from_nanos(u64::from(unix.subsec_nanos() % 1_000_000));
        let now = Instant::now();
        Clock {
            started: now.checked_sub(begun).unwrap_or(now),
            started_unix_ms: unix.as_millis() as u64,
            now_ms: Arc::new(AtomicU64::new(0)),
            moved_ms: AtomicU64::new(0),
        }
    }

    /// The time that the store reads, in milliseconds.
    pub(crate) fn shared(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.now_ms)
    }

    /// Sets the clock from the system's, and returns it.
    pub(crate) fn update(&self) -> u64 {
        let now = self.started.elapsed().as_millis() as u64 + self.moved_ms.load(Relaxed);
        // The clock never goes back. Most often another thread has just set it to the same time.
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
