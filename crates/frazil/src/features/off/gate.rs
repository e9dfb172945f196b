//! In the place of `gate.rs`: nothing observes operations.

pub(crate) struct Gate;

impl Gate {
    pub(crate) fn new() -> Self {
        Gate
    }

    #[inline(always)]
    pub(crate) fn wants(&self, _: u64) -> bool {
        false
    }
}
