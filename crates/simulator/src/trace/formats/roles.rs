//! Roles of columns by their names, and the values in columns: for formats with named columns.

use crate::trace::error::expected;
use crate::trace::fields::{
    Clock, Field, parse_id, parse_known_size, parse_number, parse_operation,
};
use crate::trace::{CsvColumn, CsvLayout, LatencyUnit, Record, TimeUnit};

/// The role of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Ignored,
    Time,
    Id,
    Size,
    Operation,
    Latency,
    Lifetime,
    /// How many requests the record stands for.
    Repeat,
}

/// The most requests that one record may stand for.
const REPEAT_MAX: u64 = 1_000_000;

/// The columns that the user set, by their roles.
pub(super) fn told(layout: &CsvLayout) -> [(Role, Option<&CsvColumn>); 7] {
    [
        (Role::Id, layout.id.as_ref()),
        (Role::Time, layout.time.as_ref()),
        (Role::Size, layout.size.as_ref()),
        (Role::Operation, layout.operation.as_ref()),
        (Role::Latency, layout.latency.as_ref()),
        (Role::Lifetime, layout.lifetime.as_ref()),
        (Role::Repeat, None),
    ]
}

/// The columns that the user set by name.
pub(super) fn told_names(layout: &CsvLayout) -> Vec<(Role, String)> {
    let names = told(layout).into_iter().filter_map(|(role, column)| match column {
        Some(CsvColumn::Named(name)) => Some((role, name.clone())),
        Some(CsvColumn::Number(_)) | None => None,
    });
    names.collect()
}

/// The place of a name among `names`: an exact match, or else one that ignores case, or else one
/// that is equal when normalised.
pub(super) fn place_of(name: &str, names: &[&[u8]]) -> Option<usize> {
    let name = name.as_bytes();
    let place = |fits: &dyn Fn(&[u8]) -> bool| names.iter().position(|it| fits(it));
    place(&|it| it == name)
        .or_else(|| place(&|it| it.eq_ignore_ascii_case(name)))
        .or_else(|| place(&|it| normalised(it) == normalised(name)))
}

/// A name without case, blanks and punctuation: `Event Time`, `event_time` and `EventTime` are one.
fn normalised(name: &[u8]) -> Vec<u8> {
    let kept = name.iter().filter(|byte| !b" _-.@".contains(byte));
    kept.map(u8::to_ascii_lowercase).collect()
}

/// The role that a name usually has, normalised.
fn usual_role(name: &[u8]) -> Role {
    match name {
        b"time" | b"timestamp" | b"ts" | b"times" | b"clocktime" => Role::Time,
        b"id" | b"object" | b"obj" | b"objectid" | b"objid" | b"key" | b"block" | b"blockid"
        | b"lba" | b"lbn" => Role::Id,
        b"size" | b"objectsize" | b"objsize" | b"sizebytes" | b"bytes" | b"length" => Role::Size,
        b"op" | b"operation" => Role::Operation,
        b"opcount" => Role::Repeat,
        b"latency" | b"fetchlatency" => Role::Latency,
        b"ttl" | b"lifetime" | b"timetolive" => Role::Lifetime,
        _ => Role::Ignored,
    }
}

/// The role of a name, if no other column has that role by its usual name.
fn likely_role(name: &[u8]) -> Role {
    match name {
        b"date" | b"datetime" | b"when" | b"relativeunix" | b"timelocal" | b"timeiso8601"
        | b"timestamps" | b"eventtime" | b"optime" | b"requesttime" => Role::Time,
        b"url" | b"uri" | b"path" | b"requesturi" | b"requesturl" | b"file" | b"filename"
        | b"item" | b"itemid" | b"hashedpathquery" | b"offset" | b"cachekey" | b"resource"
        | b"page" | b"name" | b"hash" => Role::Id,
        b"bodybytessent" | b"bytessent" | b"contentlength" | b"responsesize" | b"iosize" => {
            Role::Size
        }
        b"optype" | b"iotype" => Role::Operation,
        _ => Role::Ignored,
    }
}

/// The roles that names give; of two names for one role, the first has it.
pub(super) fn named_roles(names: &[&[u8]]) -> Vec<Role> {
    let mut roles = vec![Role::Ignored; names.len()];
    for role_of in [usual_role, likely_role] {
        for (place, name) in names.iter().enumerate() {
            let role = role_of(&normalised(name));
            if roles[place] == Role::Ignored && !roles.contains(&role) {
                roles[place] = role;
            }
        }
    }
    roles
}

/// The column of the ids if no name gives it, but names give other columns: the first that is left
/// and has no name of a time.
pub(super) fn left_for_ids(roles: &[Role], names: &[&[u8]]) -> Option<usize> {
    let names_others = roles.iter().any(|role| *role != Role::Ignored);
    let is_time = |name: &[u8]| {
        let name = normalised(name);
        name.windows(4).any(|part| part == b"time" || part == b"date")
    };
    let mut places = roles.iter().zip(names);
    let left = places.position(|(role, name)| *role == Role::Ignored && !is_time(name));
    left.filter(|_| names_others && !roles.contains(&Role::Id))
}

/// Reads the values of columns into records.
pub(super) struct Values {
    pub(super) clock: Clock,
    pub(super) latencies: Clock,
    latencies_are_times: bool,
    pub(super) lifetimes: Clock,
    /// Whether the first time, not read yet, will set the unit of the times.
    pub(super) guesses: bool,
    /// Numbers beyond 64 bits that were hashed.
    pub(super) hashed_ids: u64,
    /// The requests that the record stands for that was read last.
    pub(super) repeats: u64,
}

impl Values {
    pub(super) fn new(
        unit: Option<TimeUnit>,
        times: bool,
        latencies: Option<LatencyUnit>,
        lifetimes: bool,
    ) -> Self {
        let unit_ns = unit.unwrap_or_default().nanoseconds();
        let latency_unit = match latencies {
            Some(LatencyUnit::Time) => unit_ns,
            Some(LatencyUnit::Requests) | None => 1,
        };
        Self {
            clock: Clock { unit_ns, keep: times },
            latencies: Clock { unit_ns: latency_unit, keep: latencies.is_some() },
            latencies_are_times: latencies == Some(LatencyUnit::Time),
            lifetimes: Clock { unit_ns, keep: lifetimes },
            guesses: unit.is_none(),
            hashed_ids: 0,
            repeats: 1,
        }
    }

    /// Ignores the columns that are not needed, so that they need not be numbers.
    pub(super) fn leave_aside(&self, roles: &mut [Role]) {
        for role in roles {
            if (*role == Role::Latency && !self.latencies.keep)
                || (*role == Role::Lifetime && !self.lifetimes.keep)
            {
                *role = Role::Ignored;
            }
        }
    }

    /// Receives the set of columns.
    pub(super) fn settle(&mut self, mut has: impl FnMut(Role) -> bool) {
        // Lifetimes mean nothing without times.
        self.clock.keep |= self.lifetimes.keep && has(Role::Lifetime);
    }

    pub(super) fn read(
        &mut self,
        role: Role,
        field: &Field<'_>,
        record: &mut Record,
    ) -> Result<(), String> {
        match role {
            Role::Ignored => {}
            Role::Time => record.time_ns = self.clock.parse(field)?,
            Role::Id => record.id = parse_id(field, &mut self.hashed_ids)?,
            Role::Size => record.size = parse_known_size(field)?,
            Role::Operation => record.operation = parse_operation(field)?,
            Role::Repeat => {
                self.repeats = parse_number(field, "a number of requests")?;
                if self.repeats > REPEAT_MAX {
                    return Err(expected(&format!("at most {REPEAT_MAX} requests"), field.raw));
                }
            }
            Role::Latency => {
                let wrong = |error| format!("in the column of latencies: {error}");
                record.latency = self.latencies.parse(field).map_err(wrong)?;
            }
            Role::Lifetime if self.lifetimes.keep => {
                record.lifetime_ns = self.lifetimes.parse_lifetime(field)?;
            }
            Role::Lifetime => {}
        }
        Ok(())
    }

    /// Takes the unit of the times from the first time, unless the user set it.
    pub(super) fn guess_unit(&mut self, first: Option<&[u8]>) {
        if !std::mem::take(&mut self.guesses) {
            return;
        }
        let whole = first.and_then(|text| {
            let digits = text.iter().take_while(|it| it.is_ascii_digit()).count();
            std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
        });
        // A field that is no number is a date, or becomes an error soon.
        let unit_ns = TimeUnit::since_1970(whole.unwrap_or(0)).nanoseconds();
        (self.clock.unit_ns, self.lifetimes.unit_ns) = (unit_ns, unit_ns);
        if self.latencies_are_times {
            self.latencies.unit_ns = unit_ns;
        }
    }
}
