//! Common to the models of all policies: their steps, and the comparison with the
//! policy itself.
#![allow(dead_code, unreachable_pub)] // Each test binary uses a part of it.

use frazil_policy::Policy;
use proptest::prelude::*;

use crate::cache::Cache;

#[derive(Clone, Copy, Debug)]
pub enum Step {
    Request(u64),
    Remove(u64),
}

/// A cache of whole objects, as simple as can be.
pub trait Model {
    /// True on a hit.
    fn request(&mut self, id: u64) -> bool;
    fn remove(&mut self, id: u64);
}

impl<M: Model> Model for &mut M {
    fn request(&mut self, id: u64) -> bool {
        (**self).request(id)
    }
    fn remove(&mut self, id: u64) {
        (**self).remove(id);
    }
}

/// Puts policy and model through the same steps, and expects the same hits.
pub fn agree<P: Policy>(
    steps: &[Step],
    policy: P,
    capacity: usize,
    mut model: impl Model,
) -> Result<(), TestCaseError> {
    let mut cache = Cache::new(policy, capacity as u64);
    for (number, &step) in steps.iter().enumerate() {
        match step {
            Step::Request(id) => {
                prop_assert_eq!(cache.request(id, 1), model.request(id), "step {}", number);
                prop_assert!(cache.used() <= capacity as u64);
            }
            Step::Remove(id) => {
                cache.remove(id);
                model.remove(id);
            }
        }
    }
    Ok(())
}
