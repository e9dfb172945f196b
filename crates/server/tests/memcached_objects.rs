//! The tests of memcached's protocol on the store of objects.

#[path = "memcached/main.rs"]
mod tests;

use tests::{client, origin};
