//! The caches that ours is compared with, as their users get them.
//!
//! One file each, which says what settings it has and why. All are generic over the
//! hasher: by default each has the one of its library, and `--hasher foldhash` gives
//! all of them the one that ours has.

mod lru_mutex;
mod quick;

pub(crate) use lru_mutex::LruMutex;
pub(crate) use quick::Quick;
