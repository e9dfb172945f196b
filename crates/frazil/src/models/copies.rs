//! Frozen copies are not written while anyone reads them.
//!
//! One cell stands for all copies. A reader finds the published copies under a hazard or a pin, and
//! reads the cell. The freezer withdraws them; if nobody can be reading, it writes the cell anew
//! and publishes it. loom reports if reading and writing are not ordered.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::{large_model, together};
use crate::features::frozen::{Publication, Shown};
use crate::smr::protect::{Hazard, Pinned, Protect};
use crate::smr::reclaim::Reclaim;
use crate::smr::stripe::Stripes;

struct Copies {
    shown: Shown,
    reclaim: Reclaim,
    stripes: Stripes,
    /// The generation that it was written for.
    copied: UnsafeCell<u64>,
}

// SAFETY: loom checks that accesses of `copied` are ordered.
unsafe impl Sync for Copies {}

impl Copies {
    /// With the first generation published.
    fn new() -> Self {
        let copies = Copies {
            shown: Shown::default(),
            reclaim: Reclaim::new(1, None),
            stripes: Stripes::default(),
            copied: UnsafeCell::new(0),
        };
        // Made before the threads begin: its creation is not part of the model.
        let _ = copies.stripes.of(0);
        copies.fill(1);
        copies
    }

    fn fill(&self, generation: u64) {
        self.shown.activate();
        // SAFETY: loom checks this access.
        self.copied.with_mut(|copied| unsafe { *copied = generation });
        self.shown.publish(Publication(generation));
    }

    /// Whether the second generation replaced the first.
    fn refreeze(&self) -> bool {
        self.shown.withdraw(|| ());
        let until = self.reclaim.end_epoch();
        let past = self.reclaim.is_past(until, &self.stripes);
        if past {
            self.fill(2);
        }
        past
    }

    fn read(&self, protection: &impl Protect) -> bool {
        let Some(publication) = self.shown.publication() else { return false };
        let covered = protection.protects_copies(self.shown.published(), publication.0);
        if covered {
            // SAFETY: as above.
            let copied = self.copied.with(|copied| unsafe { *copied });
            assert_eq!(copied, publication.0, "written over");
        }
        covered
    }

    fn get(&self) -> bool {
        let hazard = Hazard::of(&self.stripes.of(0).reader).expect("nobody else's");
        self.read(&hazard)
    }

    fn get_pinned(&self) -> bool {
        self.read(&Pinned::new(&self.stripes.of(0).reader, &self.reclaim))
    }
}

/// The freezer against one reader.
fn explore(read: fn(&Copies) -> bool) {
    large_model(move || {
        let copies = Arc::new(Copies::new());
        together(&copies, &[Copies::refreeze, read]);
        // When all have ended, nothing holds the copies up.
        assert!(copies.refreeze() && read(&copies));
    });
}

#[test]
fn nobody_writes_what_a_get_reads() {
    explore(Copies::get);
}

#[test]
fn nobody_writes_what_a_pin_reads() {
    explore(Copies::get_pinned);
}
