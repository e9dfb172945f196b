//! What a cache can do beside keeping entries: each feature has its own state, and stands on the
//! core (`docs/design/layers.md`).

pub(crate) mod expiry;
pub(crate) mod fetch;
pub(crate) mod frozen;
pub(crate) mod gate;
pub(crate) mod listen;
pub(crate) mod record;
