//! How much memory a capacity is.

use frazil_simulator::Unit;

/// What a cache keeps of an entry beside its value: key, index, order and counts. The same for
/// every policy: what profiles say of each (`entry_bytes`) is not read yet.
const OVERHEAD_BYTES: f64 = 64.0;

/// Bytes that an entry takes with a value of so many.
pub(crate) fn bytes_per_entry(value_bytes: f64) -> f64 {
    value_bytes + OVERHEAD_BYTES
}

/// From capacities to bytes, and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Memory {
    pub(crate) unit: Unit,
    /// Of a value in the mean; `None` where neither the trace nor the user says it.
    pub(crate) value_bytes: Option<f64>,
}

impl Memory {
    /// Bytes of a unit of capacity: 1 where bytes are counted, as they are in the trace.
    pub(crate) fn bytes_each(&self) -> Option<f64> {
        match self.unit {
            Unit::Bytes => Some(1.0),
            Unit::Objects => self.value_bytes.map(bytes_per_entry),
        }
    }

    pub(crate) fn bytes(&self, capacity: u64) -> Option<u64> {
        // Saturates.
        self.bytes_each().map(|each| (each * capacity as f64).round() as u64)
    }

    /// The capacity that so many bytes are room for.
    pub(crate) fn capacity(&self, bytes: u64) -> Option<u64> {
        self.bytes_each().map(|each| (bytes as f64 / each) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_values_and_overhead() {
        let objects = Memory { unit: Unit::Objects, value_bytes: Some(36.0) };
        assert_eq!((objects.bytes(10), objects.capacity(1_099)), (Some(1_000), Some(10)));
        let unknown = Memory { value_bytes: None, ..objects };
        assert_eq!((unknown.bytes(10), unknown.capacity(10)), (None, None));
        let bytes = Memory { unit: Unit::Bytes, ..unknown };
        assert_eq!((bytes.bytes(10), bytes.capacity(10)), (Some(10), Some(10)));
        assert_eq!(objects.bytes(u64::MAX), Some(u64::MAX));
    }
}
