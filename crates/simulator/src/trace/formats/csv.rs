//! Separated columns: the user, a header line, or their order gives their roles.
//!
//! The layout is settled on the first line that is no comment, and is then a list with the role of
//! each column up to the last used one; later columns are never read. A line of digits, blanks and
//! separators is parsed in one pass over the block; any other line goes through [`Fields`].

use memchr::memchr;

use super::roles::{self, Role, Values, left_for_ids, named_roles};
use crate::trace::date_time::{parse_iso, parse_log_date};
use crate::trace::decode::{Columns, LineFormat};
use crate::trace::error::{TraceError, excerpt, expected};
use crate::trace::fields::{Field, Fields, leading_number, parse_operation, size_of};
use crate::trace::{CsvColumn, CsvLayout, LatencyUnit, Oddities, Record};

/// The last column that a user may name.
const MAX_COLUMNS: usize = 1024;

/// The used columns, counted from 1 as in a [`CsvLayout`].
type Told = [(Role, Option<usize>); 7];

/// Decoder of separated columns.
pub(super) struct Csv {
    separator: u8,
    header: Option<bool>,
    told: Told,
    /// Columns that the user named; the header gives their places.
    names: Vec<(Role, String)>,
    values: Values,
    /// Role of each column up to the last used one; empty until the layout is settled.
    roles: Vec<Role>,
    /// Whether the roles come from the columns' order, and no record has confirmed it yet.
    by_order: ByOrder,
    /// Whether no usual name gives the column of ids, and no record has confirmed it yet.
    guesses_ids: bool,
    /// How the ids were found, if neither the user nor a usual name gave their column.
    layout: Option<String>,
}

/// Knowledge about columns without known names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByOrder {
    /// The roles do not come from the order, or a record has confirmed it.
    Settled,
    /// The columns have no names.
    Bare,
    /// The columns have unknown names: if the order does not fit, the first has the ids.
    Named,
}

impl Csv {
    pub(super) fn new(
        layout: &CsvLayout,
        times: bool,
        latencies: Option<LatencyUnit>,
        lifetimes: bool,
    ) -> Result<Self, TraceError> {
        let wrong = |problem: String| Err(TraceError::Layout { problem });
        let told = roles::told(layout).map(|(role, column)| match column {
            Some(&CsvColumn::Number(number)) => (role, Some(number)),
            Some(CsvColumn::Named(_)) | None => (role, None),
        });
        let names = roles::told_names(layout);
        if layout.header == Some(false) && !names.is_empty() {
            return wrong("a column has no name without a header".to_owned());
        }
        let columns: Vec<usize> = told.iter().filter_map(|&(_, column)| column).collect();
        for (index, &column) in columns.iter().enumerate() {
            if column == 0 || column > MAX_COLUMNS {
                return wrong(format!("expected a column from 1 to {MAX_COLUMNS}, found {column}"));
            }
            if columns[..index].contains(&column) {
                return wrong(format!("column {column} has two roles"));
            }
        }
        let separator = layout.separator.unwrap_or(b',');
        if matches!(separator, b'\n' | b'\r' | b'"' | b'0'..=b'9') {
            return wrong("a separator can't be a digit, a quote or a line end".to_owned());
        }
        Ok(Self {
            separator,
            header: layout.header,
            told,
            names,
            values: Values::new(layout.time_unit, times, latencies, lifetimes),
            roles: Vec::new(),
            by_order: ByOrder::Settled,
            guesses_ids: false,
            layout: None,
        })
    }

    /// Settles the layout on the first line; returns whether that line is a header.
    fn settle(&mut self, line: &[u8]) -> Result<bool, String> {
        let fields: Vec<Field<'_>> =
            Fields::of(line, self.separator).take(MAX_COLUMNS).collect::<Result<_, _>>()?;
        self.place_names(&fields, line)?;
        let mut named = named_by(&fields);
        self.values.leave_aside(&mut named);
        let names_id = named.contains(&Role::Id);
        let told = self.told.iter().any(|(_, column)| column.is_some());
        let mut columns = if told { self.told } else { by_order(fields.len()) };
        let header = self.header.unwrap_or_else(|| {
            !self.names.is_empty() || names_id || is_all_words(&fields, &columns)
        });
        if header && names_id && !told {
            columns = self.told;
            let place = named.iter().position(|role| *role == Role::Id).unwrap_or_default();
            self.layout = (!usually_named(&fields)).then(|| {
                let name = excerpt(fields.get(place).map_or(&b""[..], |field| field.raw));
                format!("ids are column {}, {name}", place + 1)
            });
        } else if !told {
            self.by_order = if header { ByOrder::Named } else { ByOrder::Bare };
            if header && fields.len() > 1 {
                let order = if fields.len() == 2 { "time, id" } else { "time, id, size" };
                let first = excerpt(fields[0].raw);
                self.layout = Some(format!(
                    "no column has a usual name, so the columns from {first} on are read as {order}"
                ));
            }
        }
        if header && (names_id || told) {
            for (role, column) in &mut columns {
                let by_name = named.iter().position(|name| name == role);
                let by_name = by_name.map(|index| index + 1);
                let taken = self.told.iter().any(|(_, column)| *column == by_name);
                if !taken {
                    *column = column.or(by_name);
                }
            }
        }
        if columns[0].1.is_none() {
            return Err(expected("a column of ids", line));
        }
        let last = columns.iter().filter_map(|&(_, column)| column).max();
        self.roles = vec![Role::Ignored; last.unwrap_or_default()];
        for (role, column) in columns {
            if let Some(column) = column {
                self.roles[column - 1] = role;
            }
        }
        self.values.settle(|role| self.roles.contains(&role));
        self.guesses_ids = !told && (self.by_order != ByOrder::Settled || self.layout.is_some());
        Ok(header)
    }

    /// Finds the columns that the user named in the header.
    fn place_names(&mut self, fields: &[Field<'_>], line: &[u8]) -> Result<(), String> {
        let header: Vec<&[u8]> = fields.iter().map(|field| field.raw).collect();
        for (role, name) in &self.names {
            let place = roles::place_of(name, &header);
            let number = place.map(|place| place + 1).ok_or_else(|| {
                let column = format!("a header with the column {}", excerpt(name.as_bytes()));
                expected(&column, line)
            })?;
            let other =
                |&(it, column): &(Role, Option<usize>)| it != *role && column == Some(number);
            if self.told.iter().any(other) {
                return Err(format!("column {number} has two roles"));
            }
            let told = self.told.iter_mut().filter(|(it, _)| it == role);
            told.for_each(|(_, column)| *column = Some(number));
        }
        Ok(())
    }

    /// Whether a comment is the header: it has a name of the ids, or a name from the user.
    fn is_header(&self, comment: &[u8]) -> bool {
        if self.names.is_empty() {
            return names_id(comment, self.separator);
        }
        let fields: Result<Vec<_>, _> = Fields::of(comment, self.separator).collect();
        fields.is_ok_and(|fields| {
            let header: Vec<&[u8]> = fields.iter().map(|field| field.raw).collect();
            self.names.iter().all(|(_, name)| roles::place_of(name, &header).is_some())
        })
    }

    fn record(&mut self, line: &[u8]) -> Result<Record, String> {
        let mut record = Record { size: 1, ..Record::default() };
        let mut fields = Fields::of(line, self.separator);
        for (index, &role) in self.roles.iter().enumerate() {
            let Some(field) = fields.next() else {
                // Some files omit the separator before an empty lifetime.
                if role == Role::Lifetime {
                    continue;
                }
                let what = format!("{} fields ({index} found)", self.roles.len());
                return Err(expected(&what, line));
            };
            self.values.read(role, &field?, &mut record)?;
        }
        Ok(record)
    }

    /// The first record, which shows whether unnamed columns are in the usual order.
    #[cold]
    fn first_record(&mut self, line: &[u8]) -> Result<Record, String> {
        let column = self.roles.iter().position(|&role| role == Role::Time);
        let field = column.and_then(|at| Fields::of(line, self.separator).nth(at)?.ok());
        self.values.guess_unit(field.map(|field| field.raw));
        if self.guesses_ids {
            self.check_id(line)?;
        }
        let read = self.record(line);
        let by_order = std::mem::replace(&mut self.by_order, ByOrder::Settled);
        if read.is_ok() || self.roles.len() < 2 {
            return read;
        }
        match by_order {
            ByOrder::Settled => read,
            ByOrder::Bare => {
                // The next line may be the record expected here.
                self.by_order = by_order;
                read.map_err(|problem| {
                    format!(
                        "{problem}; without a header the columns are read as time, id, size; set \
                         others with --columns"
                    )
                })
            }
            ByOrder::Named => {
                self.roles = vec![Role::Id];
                self.layout =
                    Some("ids are column 1, because no column has a usual name for ids".to_owned());
                self.record(line)
            }
        }
    }
}

impl Csv {
    /// Fails if the column of ids, which no usual name gives, has a date or an operation.
    fn check_id(&mut self, line: &[u8]) -> Result<(), String> {
        let place = self.roles.iter().position(|&role| role == Role::Id).unwrap_or_default();
        let id = Fields::of(line, self.separator).nth(place).and_then(Result::ok);
        if let Some(id) = id.filter(is_no_id) {
            let column = format!("ids in column {}, which no name gives", place + 1);
            return Err(format!("{}; name it with --columns id=", expected(&column, id.raw)));
        }
        self.guesses_ids = false;
        Ok(())
    }
}

impl LineFormat for Csv {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let comment = line.trim_ascii_start().strip_prefix(b"#");
        if let Some(comment) = comment {
            let first = self.roles.is_empty() && self.header != Some(false);
            // A comment that names no id is no header, unless the user set one.
            if first && (self.header == Some(true) || self.is_header(comment)) {
                let header = self.header.replace(true);
                let settled = self.settle(comment);
                self.header = header;
                settled?;
            }
            return Ok(());
        }
        if self.roles.is_empty() && self.settle(line)? {
            return Ok(());
        }
        let first = self.values.guesses || self.by_order != ByOrder::Settled || self.guesses_ids;
        let record = if first { self.first_record(line)? } else { self.record(line)? };
        out.extend((0..self.values.repeats).map(|_| record));
        Ok(())
    }

    fn columns(&self) -> Columns {
        let has = |role| self.roles.contains(&role);
        Columns { times: has(Role::Time), sizes: has(Role::Size), latencies: has(Role::Latency) }
    }

    fn oddities(&self) -> Oddities {
        let separated = match self.separator {
            b',' => None,
            b'\t' => Some("columns are separated by tabs".to_owned()),
            byte => Some(format!("columns are separated by {}", excerpt(&[byte]))),
        };
        let told: Vec<String> = separated.into_iter().chain(self.layout.clone()).collect();
        Oddities {
            hashed_ids: self.values.hashed_ids,
            layout: (!told.is_empty()).then(|| told.join(", ")),
            ..Oddities::default()
        }
    }

    #[inline]
    fn plain_line(&self, rest: &[u8]) -> Option<(Record, usize)> {
        let mut record = Record { size: 1, ..Record::default() };
        let mut at = 0;
        if self.values.guesses || self.by_order != ByOrder::Settled || self.guesses_ids {
            return None;
        }
        let (&last, before) = self.roles.split_last()?;
        for &role in before {
            at = self.plain_field(role, rest, at, &mut record)?;
            if *rest.get(at)? != self.separator {
                return None;
            }
            at += 1;
        }
        at = self.plain_field(last, rest, at, &mut record)?;
        let end = match *rest.get(at)? {
            b'\n' => at,
            byte if byte == self.separator => at + memchr(b'\n', &rest[at..])?,
            _ => return None,
        };
        Some((record, end + 1))
    }
}

impl Csv {
    /// Parses a field of digits at `at`, with blanks around it; returns where it ends.
    #[inline]
    fn plain_field(
        &self,
        role: Role,
        rest: &[u8],
        mut at: usize,
        record: &mut Record,
    ) -> Option<usize> {
        if self.separator != b' ' {
            while *rest.get(at)? == b' ' {
                at += 1;
            }
        }
        let (value, digits) = leading_number(&rest[at..])?;
        match role {
            Role::Ignored => {}
            Role::Time => record.time_ns = self.values.clock.whole(value)?,
            Role::Id if digits > 1 && rest[at] == b'0' => return None,
            Role::Id => record.id = value,
            Role::Size => record.size = size_of(value).ok()?,
            Role::Latency => record.latency = self.values.latencies.whole(value)?,
            Role::Lifetime => record.lifetime_ns = self.values.lifetimes.whole(value)?,
            Role::Operation | Role::Repeat => return None,
        }
        at += digits;
        if self.separator != b' ' {
            while *rest.get(at)? == b' ' {
                at += 1;
            }
        }
        Some(at)
    }
}

/// The roles that the names in a header give. If none names the ids, but some name other columns,
/// the first of the rest has the ids.
fn named_by(fields: &[Field<'_>]) -> Vec<Role> {
    let names: Vec<&[u8]> = fields.iter().map(|field| field.raw).collect();
    let mut roles = named_roles(&names);
    let words = fields.iter().all(|field| !field.raw.first().is_some_and(u8::is_ascii_digit));
    if let Some(place) = left_for_ids(&roles, &names).filter(|_| words) {
        roles[place] = Role::Id;
    }
    roles
}

/// Whether a field is a date or an operation, which no id is.
fn is_no_id(field: &Field<'_>) -> bool {
    parse_iso(field.raw).is_some()
        || parse_log_date(field.raw).is_some()
        || parse_operation(field).is_ok()
}

/// Whether a line may be a header of which no name is known: each name is a short word or two.
pub(in crate::trace) fn has_plain_names(line: &[u8], separator: u8) -> bool {
    let is_name = |field: Field<'_>| {
        let blanks = field.raw.iter().filter(|&&byte| byte == b' ').count();
        let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-()%/".contains(byte);
        field.raw.len() <= 40 && blanks <= 3 && field.raw.iter().all(of_name)
    };
    Fields::of(line, separator).all(|field| field.is_ok_and(is_name))
}

/// Whether a header has a usual name of the ids.
fn usually_named(fields: &[Field<'_>]) -> bool {
    let names: Vec<&[u8]> = fields.iter().map(|field| field.raw).collect();
    named_roles(&names).contains(&Role::Id)
}

/// Whether a line has words in place of numbers, and no number at all.
fn is_all_words(fields: &[Field<'_>], columns: &Told) -> bool {
    let is_word = |field: &Field<'_>| !field.raw.first().is_some_and(u8::is_ascii_digit);
    let should_be_number = |&(role, column): &(Role, Option<usize>)| {
        let there = column.is_some_and(|column| column <= fields.len());
        there && matches!(role, Role::Time | Role::Size)
    };
    columns.iter().any(should_be_number) && fields.iter().all(is_word)
}

/// Whether a line is a header with a column of ids.
pub(in crate::trace) fn names_id(line: &[u8], separator: u8) -> bool {
    let fields: Result<Vec<_>, _> = Fields::of(line, separator).collect();
    fields.is_ok_and(|fields| named_by(&fields).contains(&Role::Id))
}

/// The roles by the columns' order.
fn by_order(fields: usize) -> Told {
    let (id, time, size) = match fields {
        0 | 1 => (1, None, None),
        2 => (2, Some(1), None),
        _ => (2, Some(1), Some(3)),
    };
    let [operation, latency, lifetime, repeat] =
        [Role::Operation, Role::Latency, Role::Lifetime, Role::Repeat].map(|role| (role, None));
    let by_place = [(Role::Id, Some(id)), (Role::Time, time), (Role::Size, size)];
    let [id, time, size] = by_place;
    [id, time, size, operation, latency, lifetime, repeat]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{decoded, in_blocks, keeping_times, problem};
    use super::*;
    use crate::trace::{FOR_EVER, Format, Operation, ReadOptions, SIZE_UNKNOWN, TimeUnit};
    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_64;

    fn rows(file: &str) -> Vec<(u64, u64, u64)> {
        let row = |r: &Record| (r.time_ns, r.id, r.size);
        decoded(Format::Csv, file.as_bytes()).iter().map(row).collect()
    }

    fn told(layout: CsvLayout, file: &str) -> Result<Vec<Record>, String> {
        let options = ReadOptions { csv: layout, ..keeping_times() };
        let (records, end) = in_blocks(Format::Csv, &options, file.as_bytes(), usize::MAX);
        end.map(|()| records).map_err(|error| error.problem)
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn columns_are_found_by_name_or_order() {
        let expected = [(S, 2, 3), (4 * S, 5, 6)];
        for file in [
            "1,2,3\n4,5,6\n",
            "1, 2 ,3,9,9\r\n 4,5, 6\r\n",
            "# time, object, size, next\n1,2,3,4\n# a comment, id\n4,5,6,7",
            "\u{feff}timestamp,obj_id,size\n1,2,3\n4,5,6\n",
            "Size,ID,Time\n3,2,1\n6,5,4\n",
            "ttl,\"key\",size,ts\n0,2,3,1\n0,\"5\",6,4\n",
            "a,b,c\n1,2,3\n4,5,6\n",
            "#comment\n\n1,2,3\n4,5,6\n",
        ] {
            assert_eq!(rows(file), expected, "{file:?}");
        }
        assert_eq!(rows("1,2\n"), [(S, 2, 1)]);
        assert_eq!(rows("7\n"), [(0, 7, 1)]);
        assert_eq!(rows("id,size\n7,8\n"), [(0, 7, 8)]);
        assert_eq!(rows("0.25,a b,3\n"), [(S / 4, xxh3_64(b"a b"), 3)]);
        let quoted = xxh3_64(b"say \"x,y\"");
        assert_eq!(rows("1,\"say \"\"x,y\"\"\",3\n"), [(S, quoted, 3)]);
    }

    #[test]
    fn names_are_alike_whatever_their_case_and_punctuation() {
        for header in ["Event Time,Request URL,Bytes Sent", "event_time,request_url,bytes_sent"] {
            let url = xxh3_64(b"/a");
            assert_eq!(rows(&format!("{header}\n1,/a,3\n")), [(S, url, 3)], "{header}");
        }
        let file = "Visit Date,Page No\n2026-11-26,/a\n";
        assert_eq!(rows(file)[0].1, xxh3_64(b"/a"));
    }

    #[test]
    fn ids_keep_leading_zeros_and_sizes_may_be_unknown() {
        let [plain, one, two] = [123, xxh3_64(b"0123"), xxh3_64(b"00123")];
        let file = "time,key,size\n1,0123,7.0\n2,123,NaN\n3,00123,\n4,0123,7\n5,0,1\n";
        let none = SIZE_UNKNOWN;
        let expected =
            [(S, one, 7), (2 * S, plain, none), (3 * S, two, none), (4 * S, one, 7), (5 * S, 0, 1)];
        assert_eq!(rows(file), expected);
    }

    #[test]
    fn a_record_may_stand_for_several_requests() {
        let file = "key,op,size,op_count\n7,GET_LEASE,5,3\n7,SET_LEASE,5,1\n7,GET,5,0\n";
        let records = decoded(Format::Csv, file.as_bytes());
        let operations: Vec<Operation> = records.iter().map(|it| it.operation).collect();
        assert_eq!(operations, [[Operation::Get; 3].as_slice(), &[Operation::Set]].concat());
        let many = problem(Format::Csv, b"key,op_count\n7,1000001\n");
        assert!(many.starts_with("line 2: expected at most 1000000 requests"), "{many}");
    }

    #[test]
    fn columns_are_as_told() {
        let layout = CsvLayout {
            separator: Some(b'\t'),
            id: Some(1.into()),
            operation: Some(3.into()),
            time: Some(4.into()),
            time_unit: Some(TimeUnit::Milliseconds),
            ..CsvLayout::default()
        };
        let expected = Record {
            time_ns: 5_000_000,
            id: 2,
            size: 1,
            operation: Operation::Set,
            ..Record::default()
        };
        let read = told(layout.clone(), "2\tx\tSET\t5\n").unwrap();
        assert_eq!(read, [expected]);
        // The user's columns win over names, and names give the rest.
        let named = CsvLayout { id: Some(1.into()), ..CsvLayout::default() };
        let read = told(named, "size,id,bytes\n2,9,6\n").unwrap();
        assert_eq!((read[0].id, read[0].size), (2, 1));
        // Words in a column of ids do not make a header.
        let words = CsvLayout { id: Some(1.into()), ..CsvLayout::default() };
        assert_eq!(told(words, "a,b\nc,d\n").unwrap().len(), 2);
        let header = |header| CsvLayout { header: Some(header), ..CsvLayout::default() };
        assert_eq!(told(header(true), "1,2,3\n4,5,6\n").unwrap().len(), 1);
        assert!(told(header(false), "time,id,size\n").is_err());
    }

    #[test]
    fn columns_are_told_by_name() {
        let layout = |time: &str, id: &str| CsvLayout {
            time: Some(time.into()),
            id: Some(id.into()),
            ..CsvLayout::default()
        };
        // Headers with the usual names, in any order, among comments; columns that the user does
        // not set follow their names.
        for file in ["id,Key,time,at,size\n8,2,9,1,3\n", "# by hand, id\n# at,key,size\n1,2,3\n"] {
            let read = told(layout("at", "key"), file).unwrap();
            assert_eq!((read[0].time_ns, read[0].id, read[0].size), (S, 2, 3), "{file:?}");
        }
        // Spelt exactly so, if there are two.
        let exact = told(layout("t", "k"), "K,k,T,t\n1,2,3,4\n").unwrap();
        assert_eq!((exact[0].id, exact[0].time_ns), (2, 4 * S));
        let absent = told(layout("t", "key"), "t,k\n1,2\n").unwrap_err();
        assert!(absent.contains("a header with the column \"key\", found \"t,k\""), "{absent}");
        let twice = told(layout("k", "k"), "t,k\n1,2\n").unwrap_err();
        assert!(twice.contains("column 2 has two roles"), "{twice}");
        let bare = CsvLayout { header: Some(false), ..layout("t", "k") };
        assert!(Csv::new(&bare, true, None, true).is_err());
    }

    #[test]
    fn latencies_are_kept_if_asked_for() {
        let read = |latencies, layout: CsvLayout, file: &str| {
            let options = ReadOptions { csv: layout, latencies, ..keeping_times() };
            let (records, end) = in_blocks(Format::Csv, &options, file.as_bytes(), usize::MAX);
            let latencies: Vec<u64> = records.iter().map(|record| record.latency).collect();
            end.map(|()| latencies).map_err(|error| error.problem)
        };
        let named = "time,id,latency\n1,2,30\n2,2,4.5\n";
        let usual = CsvLayout::default;
        assert_eq!(read(Some(LatencyUnit::Requests), usual(), named), Ok(vec![30, 4]));
        assert_eq!(read(Some(LatencyUnit::Time), usual(), named), Ok(vec![30 * S, 9 * S / 2]));
        assert_eq!(read(None, usual(), "time,id,latency\n1,2,slow\n"), Ok(vec![0]));
        let told =
            CsvLayout { id: Some(1.into()), latency: Some(2.into()), ..CsvLayout::default() };
        assert_eq!(read(Some(LatencyUnit::Requests), told.clone(), "7,9\n"), Ok(vec![9]));
        assert!(read(Some(LatencyUnit::Requests), told, "7,x\n").is_err());
    }

    #[test]
    fn layouts_must_make_sense() {
        for (id, size, separator, expected) in [
            (Some(0), None, b',', "expected a column from 1 to 1024, found 0"),
            (Some(1025), None, b',', "found 1025"),
            (Some(2), Some(2), b',', "column 2 has two roles"),
            (None, None, b'5', "a separator can't be a digit"),
        ] {
            let (id, size) = (id.map(CsvColumn::Number), size.map(CsvColumn::Number));
            let layout = CsvLayout { id, size, separator: Some(separator), ..CsvLayout::default() };
            let error = Csv::new(&layout, true, None, true).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let no_id = CsvLayout { time: Some(1.into()), ..CsvLayout::default() };
        assert!(told(no_id, "1,2,3\n").unwrap_err().contains("a column of ids"));
    }

    #[test]
    fn faults_are_named() {
        for (file, expected) in [
            ("1,2,3\n1,2,x\n", "line 2: expected a size (unsigned integer), found \"x\""),
            ("1,2,3\n\n#\n1,2\n", "line 4: expected 3 fields (2 found), found \"1,2\""),
            ("1,2,1099511627777\n", "line 1: size 1099511627777 beyond 1 TiB"),
            ("1,2,-3\n", "line 1: expected a size (unsigned integer), found \"-3\""),
            ("1,,3\n", "line 1: expected an id, found nothing"),
            (
                "-1,2,3\n",
                "line 1: expected a time (unsigned number, or as 2026-11-26T16:28:18Z), found \
                 \"-1\"",
            ),
            ("99999999999,2,3\n", "line 1: time \"99999999999\" beyond 64 bits in nanoseconds"),
            ("1,\"2,3\n", "line 1: expected a closing quote"),
            ("id,op\n1,get\n2,flush\n", "line 3: expected an operation"),
        ] {
            let problem = problem(Format::Csv, file.as_bytes());
            assert!(problem.starts_with(expected), "{problem}");
        }
    }

    #[test]
    fn times_of_any_size_pass_if_not_kept() {
        let file = b"1582870000000000000,2,3\n";
        let (records, end) = in_blocks(Format::Csv, &ReadOptions::default(), file, usize::MAX);
        assert_eq!((records.len(), end), (1, Ok(())));
    }

    proptest! {
        /// The one-pass parser accepts a line only if the other parser gives the same record.
        #[test]
        fn both_parsers_agree(
            line in "[0-9]{1,21}( |,|;|\"|\t|\r|x|\\.|[0-9]{1,9}|,[0-9]{1,12}){0,6}",
            after in "[\n0-9,]{0,10}",
            blank: bool,
        ) {
            let layout = CsvLayout {
                separator: Some(if blank { b' ' } else { b',' }),
                ..CsvLayout::default()
            };
            let mut csv = Csv::new(&layout, true, None, true).unwrap();
            let _ = csv.settle(b"1,2,3".as_slice()).unwrap();
            let rest = format!("{line}\n{after}");
            if let Some((record, length)) = csv.plain_line(rest.as_bytes()) {
                prop_assert_eq!(length, line.len() + 1);
                prop_assert_eq!(csv.record(line.trim_end_matches('\r').as_bytes()), Ok(record));
            }
        }
    }

    #[test]
    fn the_first_time_says_its_unit() {
        let second = 1_764_000_000_u64;
        for (times, ns) in [(1, 1_000_000_000), (1_000, 1_000_000), (1_000_000_000, 1)] {
            let text = format!("time,id,ttl\n{},1,5\n7,2,\n8,3\n", second * times);
            let mut csv = Csv::new(&CsvLayout::default(), true, None, true).unwrap();
            let mut records = Vec::new();
            text.lines().for_each(|line| csv.line(line.as_bytes(), &mut records).unwrap());
            let times: Vec<u64> = records.iter().map(|it| it.time_ns).collect();
            assert_eq!(times, [second * 1_000_000_000, 7 * ns, 8 * ns]);
            let lifetimes: Vec<u64> = records.iter().map(|it| it.lifetime_ns).collect();
            assert_eq!(lifetimes, [5 * ns, 0, 0]);
        }
    }

    #[test]
    fn lifetimes_may_be_words_or_beyond_all_bounds() {
        let mut csv = Csv::new(&CsvLayout::default(), true, None, true).unwrap();
        let mut records = Vec::new();
        let mut read = |line: &str| csv.line(line.as_bytes(), &mut records);
        read("time,id,ttl").unwrap();
        for lifetime in ["never", "-1", "Inf", "99999999999999999999999", "null", "NONE"] {
            read(&format!("1,1,{lifetime}")).unwrap();
        }
        let problem = read("1,1,soon").unwrap_err();
        assert!(problem.contains("--ttl none"), "{problem}");
        let lifetimes: Vec<u64> = records.iter().map(|it| it.lifetime_ns).collect();
        assert_eq!(lifetimes, [FOR_EVER, FOR_EVER, FOR_EVER, FOR_EVER, 0, 0]);
    }
}
