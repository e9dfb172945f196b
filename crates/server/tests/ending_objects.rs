//! The tests of how a server ends on the store of objects.

#[path = "ending.rs"]
mod tests;
