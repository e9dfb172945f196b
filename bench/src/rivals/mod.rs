//! The caches that ours is compared with, as their users get them.
//!
//! One file each, which says what settings it has and why. All are generic over the
//! hasher: by default each has the one of its library, and `--hasher foldhash` gives
//! all of them the one that ours has.

mod dash;
mod foyer;
mod lru_mutex;
mod moka_cache;
mod papaya_map;
mod quick;

pub(crate) use dash::Dash;
pub(crate) use foyer::Foyer;
pub(crate) use lru_mutex::LruMutex;
pub(crate) use moka_cache::Moka;
pub(crate) use papaya_map::Papaya;
pub(crate) use quick::Quick;
