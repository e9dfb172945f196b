//! The simulator for Python: the rows of the command's verbs, over files and over memory.
//!
//! `column` reads foreign memory in place, `arrow` takes it from Arrow's C stream and `stream`
//! gives results back that way, `records` puts columns together to a trace, `call` replays on a
//! thread of its own.

mod arrow;
mod call;
mod column;
mod policy;
mod records;
mod stream;

pub(crate) use call::{Decoded, TraceError, give_places, rows};
pub(crate) use policy::policy_name;
pub(crate) use records::{Records, id_of_name};
pub(crate) use stream::arrow_stream;
