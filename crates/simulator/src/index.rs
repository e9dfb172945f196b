//! From objects to slots: an array over a decoded trace, a hash table over a stream.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use frazil_policy::{Slot, object_hash};
use hashbrown::HashTable;

use crate::trace::{Sizes, Trace};

/// Seed of the hash that identifies objects to policies in every replay.
pub const HASH_SEED: u64 = 0x4652_415a_494c; // "FRAZIL"

/// Finds the slots of resident objects.
pub(crate) trait Index {
    /// How the index names an object.
    type Object: Copy;
    /// The object's identity for policies.
    fn hash(&self, object: Self::Object) -> u64;
    fn find(&self, object: Self::Object) -> Option<Slot>;
    /// Adds an object that is not resident.
    fn insert(&mut self, object: Self::Object, slot: Slot);
    /// Removes a resident object.
    fn remove(&mut self, object: Self::Object);
}

const VACANT: u32 = u32::MAX;

/// An array by object number: 4 bytes an object of the trace.
pub(crate) struct DenseIndex<'t> {
    /// Original ids by object number.
    ids: &'t [u64],
    slots: Vec<u32>,
}

impl<'t> DenseIndex<'t> {
    pub(crate) fn of(trace: &'t Trace) -> Self {
        DenseIndex { ids: &trace.objects, slots: vec![VACANT; trace.objects.len()] }
    }
}

impl Index for DenseIndex<'_> {
    type Object = u32;

    #[inline]
    fn hash(&self, object: u32) -> u64 {
        // Every object number has an id. Without a panic the compiler removes the look-up for
        // policies that use no hash; a bounds check would stay, with 8 instructions.
        object_hash(self.ids.get(object as usize).copied().unwrap_or(0), HASH_SEED)
    }
    #[inline]
    fn find(&self, object: u32) -> Option<Slot> {
        let slot = self.slots[object as usize];
        (slot != VACANT).then_some(Slot(slot))
    }
    #[inline]
    fn insert(&mut self, object: u32, slot: Slot) {
        self.slots[object as usize] = slot.0;
    }
    #[inline]
    fn remove(&mut self, object: u32) {
        self.slots[object as usize] = VACANT;
    }
}

/// A hash table by original id: 14 to 27 bytes a resident, independent of the length of the stream.
#[derive(Default)]
pub(crate) struct HashedIndex {
    table: HashTable<(u64, Slot)>,
    state: RandomState,
}

// Not inlined, so compiled once, not for each policy: a call costs little beside them.
impl HashedIndex {
    #[inline(never)]
    fn find(&self, object: u64) -> Option<Slot> {
        let hash = self.state.hash_one(object);
        self.table.find(hash, |entry| entry.0 == object).map(|entry| entry.1)
    }
    #[inline(never)]
    fn insert(&mut self, object: u64, slot: Slot) {
        let Self { table, state } = self;
        let hash = state.hash_one(object);
        table.insert_unique(hash, (object, slot), |entry| state.hash_one(entry.0));
    }
    #[inline(never)]
    fn remove(&mut self, object: u64) {
        let hash = self.state.hash_one(object);
        if let Ok(entry) = self.table.find_entry(hash, |entry| entry.0 == object) {
            entry.remove();
        }
    }
}

/// Either index, chosen at run time; an object of a decoded trace is its number.
pub(crate) enum AnyIndex<'t> {
    Dense(DenseIndex<'t>),
    Hashed(HashedIndex),
}

impl AnyIndex<'_> {
    /// Number of resident objects, and the sum of `bytes` of each. O(objects of the trace).
    pub(crate) fn held(&self, bytes: &Sizes) -> (u64, u64) {
        let of = |object: u64| bytes.get(object as usize).unwrap_or(0);
        let add = |(objects, sum), object| (objects + 1, sum + of(object));
        match self {
            AnyIndex::Dense(index) => {
                let resident = (0..).zip(&index.slots).filter(|&(_, &slot)| slot != VACANT);
                resident.map(|(object, _)| object).fold((0, 0), add)
            }
            AnyIndex::Hashed(index) => index.table.iter().map(|entry| entry.0).fold((0, 0), add),
        }
    }
}

impl Index for AnyIndex<'_> {
    type Object = u64;

    #[inline]
    fn hash(&self, object: u64) -> u64 {
        match self {
            AnyIndex::Dense(index) => index.hash(object as u32),
            AnyIndex::Hashed(_) => object_hash(object, HASH_SEED),
        }
    }
    #[inline]
    fn find(&self, object: u64) -> Option<Slot> {
        match self {
            AnyIndex::Dense(index) => index.find(object as u32),
            AnyIndex::Hashed(index) => index.find(object),
        }
    }
    #[inline]
    fn insert(&mut self, object: u64, slot: Slot) {
        match self {
            AnyIndex::Dense(index) => index.insert(object as u32, slot),
            AnyIndex::Hashed(index) => index.insert(object, slot),
        }
    }
    #[inline]
    fn remove(&mut self, object: u64) {
        match self {
            AnyIndex::Dense(index) => index.remove(object as u32),
            AnyIndex::Hashed(index) => index.remove(object),
        }
    }
}
