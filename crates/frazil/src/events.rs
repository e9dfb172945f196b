//! Events for `tracing`. Feature `tracing`; without it nothing of this is compiled.
//!
//! Only rare occurrences that somebody would act on, never a hit: an event costs some nanoseconds
//! if no subscriber wants it, and microseconds to write down. An occurrence that lasts is reported
//! at the first, second, fourth, eighth, … time.
//!
//! A subscriber is user code: events are reported outside all locks and stripes, after the work is
//! done. It may call the cache.

/// Reports an event of a cache: `event!(cache, LEVEL, "what", field = value, …)`.
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
