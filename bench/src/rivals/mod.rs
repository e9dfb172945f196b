//! Other caches for comparison, in their users' configuration.
//!
//! One file each, with its settings and the reasons for them. All are generic over the hasher: by
//! default each uses its library's, and `--hasher foldhash` gives all of them ours.

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
