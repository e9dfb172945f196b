//! The language of capacities: each parsed capacity resolves to one that can hold an object, or to
//! an error.

use frazil_simulator::trace::Trace;
use frazil_simulator::{CapacitySpec, Unit};

/// Parses an input; panics if the parser breaks a promise.
///
/// # Panics
///
/// If a promise is broken.
pub fn feed(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(capacity) = text.parse::<CapacitySpec>() else { return };
    let trace = Trace {
        ids: vec![0, 1, 0],
        sizes: vec![u32::MAX, 1, 7].into(),
        objects: vec![7, u64::MAX],
        ..Trace::default()
    };
    for unit in [Unit::Objects, Unit::Bytes] {
        if let Ok(resolved) = capacity.resolve(&trace, unit) {
            assert!(resolved >= 1, "{text}");
        }
        if let Ok(of_all) = capacity.among(1_000) {
            assert!(of_all >= 1, "{text}");
        }
        if let Ok(Some(known)) = capacity.known(unit) {
            assert!(known >= 1, "{text}");
        }
    }
}
