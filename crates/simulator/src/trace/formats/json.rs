//! JSON lines: an object a line, whose members have the roles of a CSV file's columns.
//!
//! The names of the members give their roles: those of the id and the time on the first line, others
//! on the first line that has them. A line without a size has an unknown one. Two to four allocations and about a
//! microsecond a line.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::roles::{Role, Values, left_for_ids, named_roles, place_of, told, told_names};
use crate::trace::decode::{Columns, LineFormat};
use crate::trace::error::{TraceError, excerpt, expected};
use crate::trace::fields::Field;
use crate::trace::{CsvColumn, CsvLayout, LatencyUnit, Oddities, Record, SIZE_UNKNOWN};

/// Decoder of JSON lines.
pub(super) struct Json {
    values: Values,
    /// Members whose roles the user set.
    told: Vec<(Role, String)>,
    /// The used members; empty until the first line.
    members: Vec<(String, Role)>,
    /// The names of all members so far, in order.
    seen: Vec<String>,
    /// How the ids were found, if no name gave their member.
    layout: Option<String>,
}

type Members<'a> = BTreeMap<String, &'a RawValue>;

impl Json {
    pub(super) fn new(
        layout: &CsvLayout,
        times: bool,
        latencies: Option<LatencyUnit>,
        lifetimes: bool,
    ) -> Result<Self, TraceError> {
        if told(layout).iter().any(|(_, column)| matches!(column, Some(CsvColumn::Number(_)))) {
            let problem = "members of JSON have names, not numbers, as in id=key".to_owned();
            return Err(TraceError::Layout { problem });
        }
        let values = Values::new(layout.time_unit, times, latencies, lifetimes);
        Ok(Self {
            values,
            told: told_names(layout),
            members: Vec::new(),
            seen: Vec::new(),
            layout: None,
        })
    }

    fn settle(&mut self, members: &Members<'_>) -> Result<(), String> {
        let names: Vec<&[u8]> = members.keys().map(String::as_bytes).collect();
        let mut roles = named_roles(&names);
        for (role, name) in &self.told {
            let absent = || {
                expected(&format!("a member {}", excerpt(name.as_bytes())), &names.join(&b", "[..]))
            };
            let place = place_of(name, &names).ok_or_else(absent)?;
            roles.iter_mut().filter(|it| *it == role).for_each(|it| *it = Role::Ignored);
            roles[place] = *role;
        }
        if !roles.contains(&Role::Id) {
            let left = roles.iter().filter(|role| **role == Role::Ignored).count();
            let one = if left == 1 { left_for_ids(&roles, &names) } else { None };
            let shown = || members.keys().take(9).cloned().collect::<Vec<_>>().join(", ");
            let place = one.ok_or_else(|| {
                expected("a member `id`, `key`, `object` or `url` for the ids", shown().as_bytes())
            })?;
            roles[place] = Role::Id;
            let name = excerpt(names.get(place).copied().unwrap_or_default());
            self.layout = Some(format!("ids are the member {name}"));
        }
        self.values.leave_aside(&mut roles);
        let named = members.keys().cloned().zip(roles);
        self.members = named.filter(|(_, role)| *role != Role::Ignored).collect();
        // The unit of other members may depend on the first time.
        self.members.sort_by_key(|(_, role)| *role != Role::Time);
        self.values.settle(|role| self.members.iter().any(|it| it.1 == role));
        self.seen = members.keys().cloned().collect();
        Ok(())
    }

    /// Takes roles from members that no line had before. The id and the time must be in the first
    /// line.
    #[cold]
    fn take_new(&mut self, members: &Members<'_>) {
        let new = members.keys().filter(|name| self.seen.binary_search(name).is_err());
        let new: Vec<String> = new.cloned().collect();
        let names: Vec<&[u8]> = new.iter().map(String::as_bytes).collect();
        let mut roles = named_roles(&names);
        self.values.leave_aside(&mut roles);
        for (name, &role) in new.iter().zip(&roles) {
            let late = matches!(role, Role::Operation | Role::Size | Role::Lifetime);
            if late && self.members.iter().all(|it| it.1 != role) {
                self.members.push((name.clone(), role));
            }
        }
        self.values.settle(|role| self.members.iter().any(|it| it.1 == role));
        self.seen.extend(new);
        self.seen.sort_unstable();
    }

    /// Whether all members were in a line before. Both lists are sorted.
    fn knows(&self, members: &Members<'_>) -> bool {
        let mut seen = self.seen.iter();
        members.keys().all(|name| seen.any(|it| it == name))
    }
}

/// A value as the field of a CSV file; `None` for null.
fn text_of(value: &RawValue) -> Result<Option<Vec<u8>>, String> {
    let raw = value.get();
    match raw.as_bytes().first() {
        Some(b'"') => {
            let text: String = serde_json::from_str(raw)
                .map_err(|_| expected("text without half characters", raw.as_bytes()))?;
            Ok(Some(text.into_bytes()))
        }
        Some(b'{' | b'[') => Err(expected("text or a number", raw.as_bytes())),
        _ if raw == "null" => Ok(None),
        _ => Ok(Some(raw.as_bytes().to_vec())),
    }
}

impl LineFormat for Json {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let members: Members<'_> = serde_json::from_slice(line).map_err(|error| {
            let at = error.column();
            let column = if at > 0 { format!(" (column {at})") } else { String::new() };
            expected(&format!("a JSON object on one line{column}"), line)
        })?;
        if self.members.is_empty() {
            self.settle(&members)?;
        } else if !self.knows(&members) {
            self.take_new(&members);
        }
        let mut record = Record { size: SIZE_UNKNOWN, ..Record::default() };
        self.values.repeats = 1;
        let named = std::mem::take(&mut self.members);
        let read = named.iter().try_for_each(|(name, role)| {
            let text = members.get(name.as_str()).map(|value| text_of(value)).transpose()?;
            let Some(text) = text.flatten() else {
                return match role {
                    Role::Operation | Role::Lifetime | Role::Size | Role::Repeat => Ok(()),
                    _ => Err(expected(&format!("a member {}", excerpt(name.as_bytes())), line)),
                };
            };
            if *role == Role::Time {
                self.values.guess_unit(Some(&text));
            }
            let read = self.values.read(*role, &Field::whole(&text), &mut record);
            read.map_err(|problem| format!("member {}: {problem}", excerpt(name.as_bytes())))
        });
        self.members = named;
        read?;
        out.extend((0..self.values.repeats).map(|_| record));
        Ok(())
    }

    fn columns(&self) -> Columns {
        let has = |role| self.members.iter().any(|it| it.1 == role);
        Columns { times: has(Role::Time), sizes: has(Role::Size), latencies: has(Role::Latency) }
    }

    fn oddities(&self) -> Oddities {
        let hashed_ids = self.values.hashed_ids;
        Oddities { hashed_ids, layout: self.layout.clone(), ..Oddities::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{decoded, in_blocks, keeping_times, problem};
    use super::Json;
    use crate::trace::{CsvLayout, Format, Operation, ReadOptions, Record, SIZE_UNKNOWN};
    use xxhash_rust::xxh3::xxh3_64;

    const S: u64 = 1_000_000_000;

    #[test]
    fn members_are_found_by_name_in_any_order() {
        let file = br#"{"ts": 1.5, "key": "a\u00e9/\"", "bytes": 3, "more": {"id": [1]}}
{"bytes":4,"key":7,"ts":2,"op":null}

{"key":"x","ts":"1970-01-01T00:00:03Z","bytes":"5"}
"#;
        let row = |time_ns, id, size| Record { time_ns, id, size, ..Record::default() };
        let expected = [
            row(3 * S / 2, xxh3_64("aé/\"".as_bytes()), 3),
            row(2 * S, 7, 4),
            row(3 * S, xxh3_64(b"x"), 5),
        ];
        assert_eq!(decoded(Format::Json, file), expected);
    }

    #[test]
    fn units_and_operations_are_read() {
        let file = b"{\"time\":1764000000000,\"id\":1,\"op\":\"set\"}\n{\"id\":2,\"time\":7}\n";
        let records = decoded(Format::Json, file);
        assert_eq!(records[0].time_ns, 1_764_000_000 * S);
        assert_eq!((records[1].time_ns, records[0].operation), (7_000_000, Operation::Set));
        let one = b"{\"time\":1,\"what\":\"x\",\"size\":9}\n";
        assert_eq!(decoded(Format::Json, one)[0].id, xxh3_64(b"x"));
    }

    #[test]
    fn members_are_told_by_name() {
        let csv = CsvLayout { id: Some("user".into()), ..CsvLayout::default() };
        let options = ReadOptions { csv, ..keeping_times() };
        let read = |file: &[u8]| in_blocks(Format::Json, &options, file, usize::MAX);
        let (records, end) = read(b"{\"id\": 9, \"user\": 4, \"size\": 5}\n");
        assert!(end.is_ok());
        assert_eq!((records[0].id, records[0].size), (4, 5));
        let absent = read(b"{\"id\": 9}\n").1.unwrap_err().problem;
        assert!(absent.contains("a member \"user\", found \"id\""), "{absent}");
        let numbered = CsvLayout { id: Some(1.into()), ..CsvLayout::default() };
        assert!(Json::new(&numbered, true, None, true).is_err());
    }

    #[test]
    fn members_may_be_in_some_lines_only() {
        let file = br#"{"ts":1,"key":"a"}
{"ts":2,"key":"a","op":"delete"}
{"ts":4,"key":"b","op":"set","size":500}
{"ts":5,"key":"b","other":1}
"#;
        let records = decoded(Format::Json, file);
        let operations: Vec<Operation> = records.iter().map(|it| it.operation).collect();
        use Operation::{Delete, Get, Set};
        assert_eq!(operations, [Get, Delete, Set, Get]);
        assert_eq!(records[2].size, 500);
        assert_eq!(records[3].size, SIZE_UNKNOWN);
    }

    #[test]
    fn faults_are_named() {
        for (file, expected) in [
            ("{\"id\":1}\n[1]\n", "line 2: expected a JSON object on one line"),
            ("{\"id\":1}\n{\"id\":1\n", "line 2: expected a JSON object on one line (column 7)"),
            ("{\"a\":1,\"b\":2}\n", "line 1: expected a member `id`"),
            ("{\"id\":{}}\n", "line 1: expected text or a number, found \"{}\""),
            ("{\"id\":1}\n{\"ID\":1}\n", "line 2: expected a member \"id\""),
            ("{\"id\":1,\"size\":-1}\n", "line 1: member \"size\": expected a size"),
            ("{\"id\":\"\\ud800\"}\n", "line 1: expected text without half"),
        ] {
            let problem = problem(Format::Json, file.as_bytes());
            assert!(problem.starts_with(expected), "{problem}");
        }
        let deep = [&b"{\"id\":1}\n{\"id\":"[..], &[b'['; 60_000]].concat();
        assert!(problem(Format::Json, &deep).starts_with("line 2: "));
    }
}
