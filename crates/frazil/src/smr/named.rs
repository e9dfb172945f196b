//! The slots that readers name at one moment, which a reclamation must not free.

use crate::smr::names::Names;
use crate::smr::segments::Segments;
use crate::smr::stripe::{Reader, Stripe, Stripes};
use crate::sync::atomic::Ordering::Acquire;

/// The protections of readers for slots that they have passed, or after a heavy fence.
pub(super) struct Named<'s> {
    /// In order, each with the names of its thread if its pins have shown it.
    slots: Vec<(u32, Option<&'s Names>)>,
    /// Number of names read, some of them more than once.
    pub(super) count: u64,
    /// A bit for each, by the lowest bits of its number.
    bits: Vec<u64>,
    /// Whether some may be missing.
    pub(super) unsure: bool,
    /// The state on which this depends: see [`readers_of`].
    pub(super) readers: u64,
}

impl<'s> Named<'s> {
    pub(super) fn by<L: Default, W: Default>(stripes: &'s Stripes<L, W>) -> Self {
        let mut slots = Vec::new();
        let (mut unsure, mut readers) = (false, 0);
        for Stripe { reader, .. } in stripes.iter() {
            let held @ [first, second, _] = held_by(reader);
            readers = mix(readers, held);
            let hazards = [first, second].map(|slot| slot as u32);
            slots.extend(hazards.into_iter().filter(|&slot| slot != 0).map(|slot| (slot, None)));
            unsure |= !reader.names.read(|slot| slots.push((slot, Some(&reader.names))));
        }
        let count = slots.len() as u64;
        slots.sort_unstable_by_key(|&(slot, names)| (slot, names.map(std::ptr::from_ref)));
        slots.dedup_by_key(|&mut (slot, names)| (slot, names.map(std::ptr::from_ref)));
        let bits = if slots.is_empty() { 0 } else { (slots.len() / 16).next_power_of_two() };
        let mut bits = vec![0; bits];
        for (slot, _) in &slots {
            let bit = *slot as usize & (bits.len() * 64 - 1);
            bits[bit / 64] |= 1 << (bit % 64);
        }
        Named { slots, count, bits, unsure, readers }
    }

    /// A bit for each word of a segment whose slot is named.
    pub(super) fn among(&self, segments: &Segments, segment: u32) -> u32 {
        if self.slots.is_empty() {
            return 0;
        }
        let named = segments.slots(segment).filter(|&(_, slot)| self.contains(slot));
        named.fold(0, |named, (at, _)| named | 1 << at)
    }

    #[inline(always)]
    fn contains(&self, slot: u32) -> bool {
        let bit = slot as usize & (self.bits.len() * 64 - 1);
        self.bits[bit / 64] >> (bit % 64) & 1 != 0 && self.finds(slot)
    }

    fn finds(&self, slot: u32) -> bool {
        let from = self.slots.partition_point(|&(named, _)| named < slot);
        let named = self.slots[from..].iter().take_while(|&&(named, _)| named == slot);
        // Each of their threads must report when it releases them.
        named.inspect(|(_, names)| names.iter().for_each(|names| names.blame())).count() > 0
    }
}

/// The slots that a reader holds up change only if this does: hazards, and turns.
#[inline]
fn held_by(reader: &Reader) -> [u64; 3] {
    // Acquire: partner is the Release with which a reader clears its hazard; its reads come before
    // the slot is written again.
    let hazards = [reader.hazard.load(Acquire), reader.second.load(Acquire)];
    // Before its names are read.
    let [first, second] = hazards.map(u64::from);
    [first, second, reader.names.turns().into()]
}

/// The same for all readers, in one number.
pub(super) fn readers_of<L: Default, W: Default>(stripes: &Stripes<L, W>) -> u64 {
    stripes.iter().fold(0, |mixed, stripe| mix(mixed, held_by(&stripe.reader)))
}

fn mix(mixed: u64, parts: [u64; 3]) -> u64 {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    parts
        .into_iter()
        .fold(mixed, |mixed: u64, part| (mixed ^ part).wrapping_mul(MULTIPLIER).rotate_left(29))
}

/// The state that decides whether a reclamation may free anything: it is in vain if this has not
/// changed.
pub(super) fn outlook(epoch: u64, waiting: u64, readers: u64) -> u64 {
    mix(0, [epoch, waiting, readers])
}
