//! A fetch that outlives its caller: the flight owns it, and the holder of the turn polls it.
//!
//! A caller that is dropped while it drives such a fetch leaves the fetch in the flight, which
//! becomes vacant as usual: one waiter is called and continues this fetch. Without a waiter the
//! flight *lingers* until somebody requests the key, a write overtakes it, its time is over, or
//! there are too many (`table.rs`).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::features::fetch::flight::SharedError;
use crate::features::fetch::loaded::Loaded;

type Work<V> = Pin<Box<dyn Future<Output = Result<Loaded<V>, SharedError>> + Send>>;

/// A fetch that is not its caller's alone.
pub(crate) struct Detached<V> {
    pub(crate) work: Work<V>,
    /// For how long it may wait for a caller, in nanoseconds.
    pub(crate) linger: u64,
    /// Once it was left: until when it waits.
    pub(crate) until: u64,
    /// When it began, by the cache's clock; 0 before.
    pub(crate) began: u64,
}

impl<V: 'static> Detached<V> {
    pub(crate) fn new<L, E>(
        fetch: impl Future<Output = Result<L, E>> + Send + 'static,
        linger: u64,
    ) -> Self
    where
        L: Into<Loaded<V>> + 'static,
        E: Send + Sync + 'static,
    {
        let work = async {
            match fetch.await {
                Ok(loaded) => Ok(loaded.into()),
                Err(error) => Err(Arc::new(error) as SharedError),
            }
        };
        Detached { work: Box::pin(work), linger, until: 0, began: 0 }
    }
}

impl<V> fmt::Debug for Detached<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached").field("began", &self.began).finish_non_exhaustive()
    }
}
