//! Events for `tracing`. Feature `tracing`; without it nothing of this is compiled.
//!
//! Only rare events that somebody would act on, never one of a hit: an event costs some nanoseconds
//! if no subscriber wants it, and microseconds if one writes it. A repeated one is emitted at the
//! first, second, fourth, eighth, … time.
//!
//! A subscriber is user code and may call the cache: events are emitted outside all locks and
//! stripes, after the work is done.

/// Emits an event of a cache: `event!(cache, LEVEL, "what", field = value, …)`.
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
