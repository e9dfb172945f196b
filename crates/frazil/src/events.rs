//! What a cache tells `tracing`. Feature `tracing`; without it nothing of this is compiled.
//!
//! Only what is rare and what somebody would act on, never anything of a hit: an event takes
//! some nanoseconds to be unwanted, and microseconds to be written down. What goes on and on
//! while it lasts is told at the first, second, fourth, eighth, … time.
//!
//! A subscriber is code of the user's: events are told outside all locks and stripes, after
//! the work is done. It may call the cache.

/// Tells an event of a cache: `event!(cache, LEVEL, "what", field = value, …)`.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($cache:expr, $level:ident, $message:literal $(, $($fields:tt)+)?) => {
        tracing::event!(
            target: "frazil",
            tracing::Level::$level,
            cache = $cache.identity,
            $($($fields)+,)?
            $message
        )
    };
}
#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($($event:tt)*) => {};
}
pub(crate) use event;

#[cfg(feature = "tracing")]
pub(crate) use told::Shortages;

#[cfg(feature = "tracing")]
mod told {
    use crate::Cache;
    use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// What has been told of shortages.
    #[derive(Debug, Default)]
    pub(crate) struct Shortages {
        /// How often a newcomer was refused because nothing could be evicted or reclaimed.
        refusals: AtomicU64,
        /// How many slots pins held up when that was told last.
        held_up: AtomicU64,
    }

    impl<K, V, S> Cache<K, V, S> {
        /// Tells that a newcomer was refused because nothing could be evicted or reclaimed.
        #[cold]
        pub(crate) fn tell_of_shortage(&self) {
            let refusals = self.shortages.refusals.fetch_add(1, Relaxed) + 1;
            if refusals.is_power_of_two() {
                let (pins, waiting) = (self.pins(), self.reclaim.waiting());
                event!(self, WARN, "newcomers refused: no slot", refusals, waiting, pins);
            }
        }

        /// Tells, after a reclamation, if what pins have shown takes more than half of the spare
        /// slots. Once for each doubling.
        pub(crate) fn tell_of_pins(&self) {
            let spare = crate::cache::spare_slots(self.places.capacity());
            let held_up = self.reclaim.held_up();
            if held_up <= spare / 2 {
                self.shortages.held_up.store(0, Relaxed);
            } else if held_up >= 2 * self.shortages.held_up.load(Relaxed) {
                self.shortages.held_up.store(held_up, Relaxed);
                let pins = self.pins();
                event!(self, WARN, "slots held up by pins", held_up, spare, pins);
            }
        }

        /// How many threads hold a pin.
        #[cold]
        fn pins(&self) -> usize {
            self.stripes.iter().filter(|stripe| stripe.reader.depth.load(Relaxed) != 0).count()
        }
    }
}
