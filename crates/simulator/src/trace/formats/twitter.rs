//! Twitter's cache traces: `timestamp_s,key,key_size,value_size,client,operation,ttl`.
//!
//! The size is that of key and value together, as the cache holds both. The client is ignored. A
//! time to live of 0, as in all gets, means unknown.

use crate::trace::decode::{Columns, LineFormat};
use crate::trace::fields::{Clock, parse_id, parse_operation, parse_size, size_of, split};
use crate::trace::{Oddities, Record};

/// Decoder of Twitter's traces.
pub(super) struct Twitter {
    clock: Clock,
    lifetimes: Clock,
    hashed_ids: u64,
}

impl Twitter {
    /// Lifetimes mean nothing without times: a reader that keeps lifetimes keeps both.
    pub(super) fn new(times: bool, lifetimes: bool) -> Self {
        let keep = |keep| Clock { unit_ns: 1_000_000_000, keep };
        Self { clock: keep(times || lifetimes), lifetimes: keep(lifetimes), hashed_ids: 0 }
    }
}

impl LineFormat for Twitter {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let [time, key, key_size, value_size, _client, operation, lifetime] = split(line, b',')?;
        let key_size = parse_size(&key_size)?;
        out.push(Record {
            time_ns: self.clock.parse(&time)?,
            id: parse_id(&key, &mut self.hashed_ids)?,
            size: size_of(key_size + parse_size(&value_size)?)?,
            operation: parse_operation(&operation)?,
            latency: 0,
            lifetime_ns: match self.lifetimes.keep {
                true => self.lifetimes.parse_lifetime(&lifetime)?,
                false => 0,
            },
        });
        Ok(())
    }

    fn columns(&self) -> Columns {
        Columns { times: true, sizes: true, ..Columns::default() }
    }

    fn oddities(&self) -> Oddities {
        Oddities { hashed_ids: self.hashed_ids, ..Oddities::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{decoded, problem};
    use crate::trace::{Format, Operation, Record};
    use xxhash_rust::xxh3::xxh3_64;

    #[test]
    fn the_size_is_key_plus_value() {
        let file = b"0,yDqF-3RM,10,90,1,get,0\n3,yDqF-3RM,10,100,1,cas,30\n3,7,1,0,2,delete,0\n";
        let record = |time_s: u64, id, size, operation| Record {
            time_ns: time_s * 1_000_000_000,
            id,
            size,
            operation,
            ..Record::default()
        };
        let key = xxh3_64(b"yDqF-3RM");
        let expected = [
            record(0, key, 100, Operation::Get),
            record(3, key, 110, Operation::Set),
            record(3, 7, 1, Operation::Delete),
        ];
        assert_eq!(decoded(Format::Twitter, file), expected);
    }

    #[test]
    fn faults_are_named() {
        for (file, expected) in [
            (
                "0,k,1,1,1,get,0\n0,k,abc,1,1,get,0\n",
                "line 2: expected a size (unsigned integer), found \"abc\"",
            ),
            ("0,k,1,1,1,flush,0\n", "line 1: expected an operation"),
            ("0,k,1,1,1,get\n", "line 1: expected 7 fields (6 found)"),
            ("x,k,1,1,1,get,0\n", "line 1: expected a time"),
            ("0,,1,1,1,get,0\n", "line 1: expected an id, found nothing"),
            ("0,k,1099511627776,1,1,get,0\n", "line 1: size 1099511627777 beyond 1 TiB"),
        ] {
            let problem = problem(Format::Twitter, file.as_bytes());
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
}
