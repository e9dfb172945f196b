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

    /// Reclamations that a pin has seen before anybody is told of it: every pin sees some.
    const AGE_MIN: u64 = 4;

    /// How often a newcomer was refused because nothing could be evicted or reclaimed.
    #[derive(Debug, Default)]
    pub(crate) struct Shortages(AtomicU64);

    impl<K, V, S> Cache<K, V, S> {
        /// Tells that a newcomer was refused because nothing could be evicted or reclaimed.
        #[cold]
        pub(crate) fn tell_of_shortage(&self) {
            let refusals = self.shortages.0.fetch_add(1, Relaxed) + 1;
            if refusals.is_power_of_two() {
                let (pins, age) = self.pins();
                let waiting = self.reclaim.waiting();
                event!(self, WARN, "newcomers refused: no slot", refusals, waiting, pins, age);
            }
        }

        /// Tells, after a reclamation, if a pin is so old that more than half of the spare
        /// slots wait for its end. Once for each doubling of its age.
        pub(crate) fn tell_of_pins(&self) {
            let spare = self.reclaim.slots().saturating_sub(self.places.capacity());
            let waiting = self.reclaim.waiting();
            if waiting > spare / 2 {
                let (pins, age) = self.pins();
                if pins > 0 && age >= AGE_MIN && age.is_power_of_two() {
                    event!(self, WARN, "slots held up by a pin", waiting, spare, pins, age);
                }
            }
        }

        /// How many threads hold a pin, and how many reclamations the oldest has seen.
        #[cold]
        fn pins(&self) -> (usize, u64) {
            let pinned = || {
                let readers = self.stripes.iter().map(|stripe| &stripe.reader);
                readers.map(|reader| reader.pinned.load(Relaxed)).filter(|&epoch| epoch != 0)
            };
            let age =
                pinned().min().map_or(0, |oldest| self.reclaim.epoch().saturating_sub(oldest));
            (pinned().count(), age)
        }
    }
}
