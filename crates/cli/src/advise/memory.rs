//! The memory of a capacity: keys, values, and an entry's overhead with each policy.
//!
//! The mean size of resident objects is not the mean size of objects in the trace: if small objects
//! are popular, the cache holds more of them in the same bytes. So the estimate uses the resident
//! objects of a cell's replay.

use frazil_simulator::Unit;

/// Bytes of an entry beside key and value, if the profile does not have them.
const OVERHEAD_BYTES: f64 = 64.0;

/// The resident objects of a cell's replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Resident {
    /// Mean bytes of an object's value; `None` if the trace has no sizes.
    pub(crate) value_bytes: Option<f64>,
    /// The share of the capacity that is used: less than 1 if large objects do not fit into the
    /// rest, while objects still come and go.
    pub(crate) filled: f64,
    /// Objects for each byte of the capacity, if the unit is bytes: any number of empty values
    /// fits.
    pub(crate) objects: f64,
}

/// From capacities to bytes, by policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Memory {
    unit: Unit,
    /// Bytes of every value, given by the user.
    said: Option<f64>,
    /// Mean bytes of the trace's objects, for cells without a better figure.
    mean: Option<f64>,
    /// By policy: bytes of an entry beside its value.
    beside: Vec<f64>,
}

impl Memory {
    /// `said` is the user's size of every value in bytes, `mean` the trace's mean size; `entries`
    /// has the profile's bytes of an entry by policy.
    pub(crate) fn new(
        unit: Unit,
        (said, mean): (Option<f64>, Option<f64>),
        key_bytes: f64,
        entries: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        let beside = |entry: Option<f64>| key_bytes + entry.unwrap_or(OVERHEAD_BYTES);
        Memory { unit, said, mean, beside: entries.into_iter().map(beside).collect() }
    }

    /// Whether the size of values is known; without it no memory is.
    pub(crate) fn is_known(&self) -> bool {
        self.said.or(self.mean).is_some()
    }

    /// Bytes of a unit of capacity, from the resident objects. If capacities are in bytes it is
    /// more than 1, because they count only the sizes in the trace.
    pub(crate) fn bytes_each(&self, policy: usize, resident: Option<Resident>) -> Option<f64> {
        let value = self.said.or(resident.and_then(|it| it.value_bytes)).or(self.mean)?;
        let beside = self.beside.get(policy)?;
        let filled = resident.map_or(1.0, |it| it.filled);
        Some(match self.unit {
            Unit::Objects => (value + beside) * filled,
            Unit::Bytes => filled + beside * resident.map_or(1.0 / value, |it| it.objects),
        })
    }

    /// Bytes of the smallest entry of any policy, if no value has fewer bytes.
    pub(crate) fn least_entry(&self, smallest: Option<f64>) -> Option<f64> {
        let beside = self.beside.iter().copied().fold(f64::INFINITY, f64::min);
        self.said.or(smallest).or(self.mean).map(|value| value + beside)
    }

    /// The largest capacity in `bytes` bytes, by the means of the trace.
    pub(crate) fn about(&self, bytes: u64) -> Option<u64> {
        let each = (0..self.beside.len()).filter_map(|policy| self.bytes_each(policy, None));
        each.reduce(f64::min).map(|each| (bytes as f64 / each) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident(bytes: f64) -> Option<Resident> {
        Some(Resident { value_bytes: Some(bytes), filled: 1.0, objects: 1.0 / bytes })
    }

    #[test]
    fn objects_have_keys_values_and_what_the_policy_adds() {
        let means = (None, Some(64.0));
        let objects = Memory::new(Unit::Objects, means, 8.0, [Some(28.0), None]);
        let each = |policy, resident| objects.bytes_each(policy, resident);
        assert_eq!((each(0, None), each(1, None), each(2, None)), (Some(100.0), Some(136.0), None));
        assert_eq!((each(0, resident(14.0)), objects.about(1_360)), (Some(50.0), Some(13)));
        assert_eq!(objects.least_entry(Some(4.0)), Some(40.0));
        let said = Memory::new(Unit::Objects, (Some(64.0), Some(9.0)), 8.0, [Some(28.0)]);
        assert_eq!(said.bytes_each(0, resident(1.0)), Some(100.0));
        let unknown = Memory::new(Unit::Objects, (None, None), 8.0, [Some(28.0)]);
        assert_eq!((unknown.bytes_each(0, None), unknown.about(10)), (None, None));
    }

    #[test]
    fn bytes_of_a_trace_are_values_alone() {
        let bytes = Memory::new(Unit::Bytes, (None, Some(100.0)), 8.0, [Some(42.0)]);
        assert_eq!((bytes.bytes_each(0, None), bytes.about(1_500)), (Some(1.5), Some(1_000)));
        assert_eq!(bytes.bytes_each(0, resident(50.0)), Some(2.0));
        let half = Resident { value_bytes: Some(50.0), filled: 0.5, objects: 0.01 };
        assert_eq!(bytes.bytes_each(0, Some(half)), Some(1.0));
        let empty = Resident { value_bytes: Some(0.0), filled: 0.0, objects: 25.0 };
        assert_eq!(bytes.bytes_each(0, Some(empty)), Some(1_250.0), "no value has bytes");
    }
}
