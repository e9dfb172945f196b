//! Engines by name: the one place where a name becomes a type.

use anyhow::Context as _;
use frazil::BareCache;
use frazil_driver::{Engine, Shared};

#[cfg(feature = "rivals")]
use crate::rivals;

/// Our cache without its features.
struct Bare(BareCache<u64, u64>);

impl Engine for Bare {
    type Session<'a> = &'a Self;

    fn session(&self) -> &Self {
        self
    }
}

impl Shared for Bare {
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key)
    }

    #[inline]
    fn insert(&self, key: u64) {
        self.0.insert(key, key);
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.0.remove(&key);
    }
}

/// Names of engines and policies that this build knows.
#[cfg(feature = "rivals")]
const RIVALS: &[&str] = &["quick_cache", "moka", "foyer", "lru-mutex", "papaya", "dashmap"];
#[cfg(not(feature = "rivals"))]
const RIVALS: &[&str] = &[];

/// Work on an engine once its type is known.
pub(super) trait EngineVisitor {
    type Output;

    /// Called once, with a function that builds the engine.
    fn visit<E: Engine>(self, build: impl FnOnce() -> E) -> Self::Output;
}

/// Suffix of one of our policies for look-ups through a pin.
const PINNED: &str = "+pin";

/// Suffix of one of our policies with a lifetime that no entry reaches.
const EXPIRING: &str = "+ttl";
const LIFETIME: std::time::Duration = std::time::Duration::from_secs(3600);

/// Suffix of one of our policies in a cache without features.
const BARE: &str = "+bare";

/// Suffix of one of our policies with this number of locks, quick_cache's on four cores.
const SHARDED: &str = "+16-shards";
const SHARDS: u32 = 16;

/// Whether this build has the engine; rivals need the feature `rivals`.
pub(super) fn is_built_in(name: &str) -> bool {
    RIVALS.contains(&name) || ours(name).is_ok()
}

fn ours(name: &str) -> Result<frazil_driver::Setup, frazil_driver::SetupError> {
    let suffix =
        [PINNED, EXPIRING, BARE, SHARDED].iter().find_map(|suffix| name.strip_suffix(suffix));
    let setup: frazil_driver::Setup = suffix.unwrap_or(name).parse()?;
    let shards = if name.ends_with(SHARDED) { SHARDS } else { setup.shards };
    Ok(frazil_driver::Setup { shards, ..setup })
}

/// Passes the engine of this name to `visitor`.
pub(super) fn visit<V: EngineVisitor>(
    name: &str,
    capacity: u64,
    foldhash: bool,
    visitor: V,
) -> anyhow::Result<V::Output> {
    #[cfg(feature = "rivals")]
    {
        use foldhash::fast::RandomState as Foldhash;
        macro_rules! rival {
            ($engine:ident, $default:ty) => {
                if foldhash {
                    visitor.visit(|| rivals::$engine::<Foldhash>::new(capacity))
                } else {
                    visitor.visit(|| rivals::$engine::<$default>::new(capacity))
                }
            };
        }
        match name {
            "quick_cache" => return Ok(rival!(Quick, quick_cache::DefaultHashBuilder)),
            "moka" => return Ok(rival!(Moka, std::hash::RandomState)),
            "foyer" => return Ok(rival!(Foyer, foyer_common::code::DefaultHasher)),
            "papaya" => return Ok(rival!(Papaya, std::hash::RandomState)),
            "dashmap" => return Ok(rival!(Dash, std::hash::RandomState)),
            "lru-mutex" => return Ok(rival!(LruMutex, lru::DefaultHasher)),
            _ => {}
        }
    }
    #[cfg(not(feature = "rivals"))]
    let _ = foldhash;
    let setup = ours(name).with_context(|| format!("engine `{name}`"))?;
    if name.ends_with(BARE) {
        return Ok(visitor.visit(|| Bare(BareCache::new(setup.policy, capacity))));
    }
    let build = || {
        let builder = setup.builder(capacity);
        let expiring = name.ends_with(EXPIRING);
        let builder = if expiring { builder.time_to_live(LIFETIME) } else { builder };
        frazil_driver::Ours::<u64>::built(setup, builder)
    };
    Ok(if name.ends_with(PINNED) {
        visitor.visit(|| frazil_driver::Pinned(build()))
    } else {
        visitor.visit(build)
    })
}
