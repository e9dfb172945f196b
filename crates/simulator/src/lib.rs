//! x
pub mod trace;
