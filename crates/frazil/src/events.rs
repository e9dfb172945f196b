//! Events for `tracing`. Feature `tracing`; without it nothing of this is compiled.
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
