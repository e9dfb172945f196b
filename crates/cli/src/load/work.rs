//! The requests of a load, in order.

use frazil_driver::Ask;
use frazil_simulator::trace::{Operation, Trace};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::wire::Request;

/// Largest value that is sent: memcached's default limit, less the key and its own data of an item.
pub(super) const VALUE_MAX: u32 = (1 << 20) - 1024;

/// Requests of one kind of load.
pub(super) enum Work<'t> {
    /// Each key set once.
    Fill { keys: std::ops::Range<u64>, bytes: u32 },
    /// Gets and sets of keys that were drawn, over and over.
    Drawn(Drawn<'t>),
    /// A trace, once.
    Replay(Replay<'t>),
}

pub(super) struct Drawn<'t> {
    trace: &'t Trace,
    at: usize,
    /// Share of sets.
    sets: f64,
    random: Xoshiro256PlusPlus,
    bytes: u32,
}

pub(super) struct Replay<'t> {
    trace: &'t Trace,
    at: usize,
    /// Size of a value if the trace has no sizes.
    bytes: u32,
    /// Whether the server accepts writes.
    writes: bool,
}

impl<'t> Work<'t> {
    /// Requests from a trace that is not empty, with a share of sets from 0 to 1.
    pub(super) fn drawn(trace: &'t Trace, sets: f64, bytes: u32) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(1);
        Work::Drawn(Drawn { trace, at: 0, sets, random, bytes })
    }

    pub(super) fn replay(trace: &'t Trace, bytes: u32, writes: bool) -> Self {
        Work::Replay(Replay { trace, at: 0, bytes, writes })
    }

    /// The next request; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Request> {
        match self {
            Work::Fill { keys, bytes } => {
                keys.next().map(|key| Request { ask: Ask::Insert, key, bytes: *bytes })
            }
            Work::Drawn(drawn) => {
                let id = *drawn.trace.ids.get(drawn.at)?;
                drawn.at = if drawn.at + 1 < drawn.trace.len() { drawn.at + 1 } else { 0 };
                let ask = match drawn.random.random_bool(drawn.sets) {
                    true => Ask::Insert,
                    false => Ask::Get,
                };
                Some(Request { ask, key: drawn.trace.objects[id as usize], bytes: drawn.bytes })
            }
            Work::Replay(replay) => replay.next(),
        }
    }

    /// Whether a key is written after a miss.
    pub(super) fn stores_misses(&self) -> bool {
        matches!(self, Work::Replay(Replay { writes: true, .. }))
    }
}

impl Replay<'_> {
    fn next(&mut self) -> Option<Request> {
        loop {
            let at = self.at;
            let id = *self.trace.ids.get(at)?;
            self.at += 1;
            let ask = match self.trace.operations.get(at) {
                None | Some(Operation::Get) => Ask::Get,
                Some(_) if !self.writes => continue,
                Some(Operation::Set) => Ask::Insert,
                Some(Operation::Delete) => Ask::Remove,
            };
            let bytes = self.trace.sizes.get(at).unwrap_or(self.bytes.into());
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(VALUE_MAX);
            return Some(Request { ask, key: self.trace.objects[id as usize], bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> Trace {
        Trace {
            ids: vec![0, 1, 0, 1],
            sizes: vec![5, VALUE_MAX + 1, 6, 7].into(),
            operations: vec![Operation::Get, Operation::Get, Operation::Set, Operation::Delete],
            objects: vec![100, 200],
            ..Trace::default()
        }
    }

    #[test]
    fn a_trace_is_asked_for_once_and_in_order() {
        let all = |writes: bool| {
            let trace = trace();
            let mut work = Work::replay(&trace, 9, writes);
            assert_eq!(work.stores_misses(), writes);
            std::iter::from_fn(|| work.next().map(|it| (it.ask, it.key, it.bytes)))
                .collect::<Vec<_>>()
        };
        let gets = [(Ask::Get, 100, 5), (Ask::Get, 200, VALUE_MAX)];
        let writes = [(Ask::Insert, 100, 6), (Ask::Remove, 200, 7)];
        assert_eq!(all(true), [gets, writes].concat());
        assert_eq!(all(false), gets);
    }

    #[test]
    fn the_share_of_sets_is_that_which_was_asked_for() {
        for share in [0.0, 0.1, 0.5, 1.0] {
            let trace = trace();
            let mut work = Work::drawn(&trace, share, 9);
            let drawn: Vec<Request> = (0..20_000).filter_map(|_| work.next()).collect();
            assert_eq!((drawn.len(), drawn[5].key, drawn[5].bytes), (20_000, 200, 9));
            let sets = drawn.iter().filter(|it| it.ask == Ask::Insert).count() as f64 / 20_000.0;
            // Six standard deviations of the mean.
            assert!((sets - share).abs() <= 6.0 * (share * (1.0 - share) / 20_000.0).sqrt());
        }
    }
}
