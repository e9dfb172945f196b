//! Values that know their key, are counted, and notice being dropped twice.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

const ALIVE: u64 = 0x5eed_cafe_f00d_d00d;

/// Live values: those made, including clones, minus those dropped.
#[derive(Debug, Default)]
pub(crate) struct Census {
    living: AtomicI64,
    serials: AtomicU64,
}

impl Census {
    /// Made and not yet dropped.
    pub(crate) fn living(&self) -> i64 {
        self.living.load(Relaxed)
    }
}

/// A value for a key. Its memory is its own box, so that a checker of addresses sees a late read.
#[derive(Debug)]
pub(crate) struct Tracked<'c> {
    pub(crate) key: u64,
    pub(crate) serial: u64,
    alive: Box<u64>,
    census: &'c Census,
}

impl<'c> Tracked<'c> {
    pub(crate) fn new(census: &'c Census, key: u64) -> Self {
        census.living.fetch_add(1, Relaxed);
        let serial = census.serials.fetch_add(1, Relaxed);
        Tracked { key, serial, alive: Box::new(ALIVE ^ key ^ serial), census }
    }

    /// Panics unless it is a living value of `key`.
    pub(crate) fn check(&self, key: u64) {
        assert_eq!((self.key, *self.alive), (key, ALIVE ^ key ^ self.serial), "a stray value");
    }
}

impl Clone for Tracked<'_> {
    fn clone(&self) -> Self {
        self.check(self.key);
        self.census.living.fetch_add(1, Relaxed);
        let Tracked { key, serial, census, .. } = *self;
        Tracked { key, serial, alive: self.alive.clone(), census }
    }
}

impl Drop for Tracked<'_> {
    fn drop(&mut self) {
        self.check(self.key);
        *self.alive = 0;
        self.census.living.fetch_sub(1, Relaxed);
    }
}

/// Random numbers: SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
