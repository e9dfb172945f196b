//! How much memory a capacity is: keys, values, and what an entry of the policy takes beside them.

use frazil_simulator::Unit;

/// What an entry takes beside key and value where the profile does not say it.
const OVERHEAD_BYTES: f64 = 64.0;

/// From capacities to bytes, and back, by policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Memory {
    unit: Unit,
    /// Of an object in the mean; `None` where neither the trace nor the user says it.
    value_bytes: Option<f64>,
    /// By policy: what an entry takes beside its value.
    beside: Vec<f64>,
}

impl Memory {
    /// `entries` is by policy what profiles say of an entry.
    pub(crate) fn new(
        unit: Unit,
        value_bytes: Option<f64>,
        key_bytes: f64,
        entries: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        let beside = |entry: Option<f64>| key_bytes + entry.unwrap_or(OVERHEAD_BYTES);
        Memory { unit, value_bytes, beside: entries.into_iter().map(beside).collect() }
    }

    /// Whether values are known, without which nothing else is.
    pub(crate) fn is_known(&self) -> bool {
        self.value_bytes.is_some()
    }

    /// Bytes of a unit of capacity. Where bytes are counted that is more than 1: capacities are
    /// the sizes in the trace alone.
    pub(crate) fn bytes_each(&self, policy: usize) -> Option<f64> {
        let value = self.value_bytes?;
        let entry = value + self.beside.get(policy)?;
        Some(match self.unit {
            Unit::Objects => entry,
            Unit::Bytes => entry / value,
        })
    }

    /// The same of every policy. Empty where nothing is known.
    pub(crate) fn bytes_of_each(&self) -> Vec<f64> {
        (0..self.beside.len()).filter_map(|policy| self.bytes_each(policy)).collect()
    }

    pub(crate) fn bytes(&self, policy: usize, capacity: u64) -> Option<u64> {
        // Saturates.
        self.bytes_each(policy).map(|each| (each * capacity as f64).round() as u64)
    }

    /// By policy the capacity that so many bytes are room for. Empty where nothing is known.
    pub(crate) fn capacities(&self, bytes: u64) -> Vec<u64> {
        self.bytes_of_each().into_iter().map(|each| (bytes as f64 / each) as u64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_keys_values_and_what_the_policy_adds() {
        let objects = Memory::new(Unit::Objects, Some(64.0), 8.0, [Some(28.0), None]);
        assert_eq!((objects.bytes(0, 10), objects.bytes(1, 10)), (Some(1_000), Some(1_360)));
        assert_eq!(objects.capacities(1_360), [13, 10]);
        assert_eq!(objects.bytes(0, u64::MAX), Some(u64::MAX));
        assert_eq!(objects.bytes(2, 10), None, "no such policy");
        let unknown = Memory::new(Unit::Objects, None, 8.0, [Some(28.0)]);
        assert_eq!((unknown.bytes(0, 10), unknown.capacities(10)), (None, vec![]));
    }

    #[test]
    fn bytes_of_a_trace_are_values_alone() {
        let bytes = Memory::new(Unit::Bytes, Some(100.0), 8.0, [Some(42.0)]);
        assert_eq!((bytes.bytes(0, 1_000), bytes.capacities(1_500)), (Some(1_500), vec![1_000]));
    }
}
