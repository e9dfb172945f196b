//! The tests of RESP on the store of objects.

#[path = "resp/main.rs"]
mod tests;

use tests::{client, origin};
