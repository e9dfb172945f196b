//! Writes a trace in any format that can hold it.
//!
//! Data without a column in the format are omitted, except operations: without them a set would
//! become a request, so the trace is refused. A hashed string id is written as its hash.

use std::io::{BufWriter, Write};

use super::formats::MSR_TICK_NS;
use super::{FOR_EVER, Format, Operation, RecordedLifetimes, Recording, Trace, TraceError};

/// Writes a trace.
///
/// - `csv` has the columns `time,id,size,operation,ttl` that the trace has, times in seconds.
/// - `json` has the same as members of an object a line; `log` is only read.
/// - `oracle-general` has times in whole seconds, rounded down, counted from the first record
///   where they would pass 32 bits; sizes are 1 where the trace has none.
/// - `frazil` has the rate and the date of `recording`, the data about the recording of `trace`;
///   without it the rate is 1.
/// - `twitter` has lifetimes in whole seconds, rounded up, and cannot express a get that inserts
///   for ever. Other formats have none.
/// - `twitter` and `msr` set fields that a trace lacks (client, host, …) to 0; so do all formats
///   with a time for a trace without times.
///
/// ```
/// use frazil_simulator::trace::{Format, ReadOptions, load, write};
///
/// let loaded = load("loop:objects=2:requests=3", &ReadOptions::default())?;
/// let mut file = Vec::new();
/// write(&loaded.trace, None, Format::Plain, &mut file)?;
/// assert_eq!(file, b"0\n1\n0\n");
/// # Ok::<(), frazil_simulator::trace::TraceError>(())
/// ```
///
/// # Errors
/// If the output can't be written or the format can't hold the trace's data.
pub fn write(
    trace: &Trace,
    recording: Option<Recording>,
    format: Format,
    out: &mut dyn Write,
) -> Result<(), TraceError> {
    check(trace, format).map_err(|problem| TraceError::Unwritable { format, problem })?;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let written = match format {
        Format::OracleGeneral => write_oracle_general(trace, &mut out),
        Format::Cache2k => {
            rows(trace).try_for_each(|row| out.write_all(&(row.id as u32).to_be_bytes()))
        }
        Format::Csv => write_csv(trace, &mut out),
        Format::Json => write_json(trace, &mut out),
        Format::Frazil => write_recording(trace, recording, &mut out),
        _ => rows(trace).try_for_each(|row| write_line(format, &row, &mut out)),
    };
    written.and_then(|()| out.flush()).map_err(|error| TraceError::Output { error })
}

/// One record with its original id.
struct Row {
    index: usize,
    time_ns: u64,
    id: u64,
    size: u64,
    operation: Operation,
    lifetime_ns: u64,
}

fn rows(trace: &Trace) -> impl Iterator<Item = Row> {
    trace.ids.iter().enumerate().map(|(index, &id)| Row {
        index,
        time_ns: trace.times_ns.get(index).copied().unwrap_or_default(),
        id: trace.objects[id as usize],
        size: trace.sizes.get(index).unwrap_or(1),
        operation: trace.operations.get(index).copied().unwrap_or_default(),
        lifetime_ns: trace.lifetimes_ns.get(index).copied().unwrap_or_default(),
    })
}

/// Fails with the data of a trace that a format can't hold.
pub(super) fn check(trace: &Trace, format: Format) -> Result<(), String> {
    if format == Format::Log {
        return Err("web-server logs are only read".to_owned());
    }
    let carries_operations = matches!(
        format,
        Format::Csv | Format::Json | Format::Twitter | Format::Msr | Format::Frazil
    );
    if !carries_operations && !trace.operations.is_empty() {
        return Err("it has operations other than get".to_owned());
    }
    if format == Format::Msr && trace.operations.contains(&Operation::Delete) {
        return Err("it has deletes".to_owned());
    }
    let largest = trace.objects.iter().max().copied().unwrap_or_default();
    if format == Format::Cache2k && largest > u64::from(u32::MAX) {
        return Err(format!("id {largest} is beyond 32 bits"));
    }
    if format == Format::Arc && largest == u64::MAX {
        return Err(format!("no block can follow id {largest}"));
    }
    if format == Format::OracleGeneral {
        if let Some(size) = trace.sizes.iter().find(|&size| size > u64::from(u32::MAX)) {
            return Err(format!("size {size} is beyond 32 bits"));
        }
        if trace.len() > u32::MAX as usize {
            return Err(format!("it has more than {} records", u32::MAX));
        }
        let base_s = base_s(trace);
        let fits = |time_ns: &u64| {
            let since = (time_ns / NANOSECONDS).checked_sub(base_s);
            since.is_some_and(|since| since <= u64::from(u32::MAX))
        };
        if !trace.times_ns.iter().all(fits) {
            return Err("its times span more than 32 bits of seconds".to_owned());
        }
    }
    Ok(())
}

/// Nanoseconds in a second.
const NANOSECONDS: u64 = 1_000_000_000;

/// The second from which oracle-general counts: 0 if the times fit.
fn base_s(trace: &Trace) -> u64 {
    let last = trace.times_ns.iter().max().copied().unwrap_or_default();
    if last / NANOSECONDS <= u64::from(u32::MAX) {
        return 0;
    }
    let first = trace.times_ns.iter().min().copied().unwrap_or_default();
    first / NANOSECONDS
}

fn write_oracle_general(trace: &Trace, out: &mut dyn Write) -> std::io::Result<()> {
    let next = next_accesses(trace);
    let base_s = base_s(trace);
    for row in rows(trace) {
        let next = match next[row.index] {
            0 => -1,
            next => i64::from(next),
        };
        let time_s = (row.time_ns / NANOSECONDS - base_s) as u32;
        out.write_all(&time_s.to_le_bytes())?;
        out.write_all(&row.id.to_le_bytes())?;
        out.write_all(&(row.size as u32).to_le_bytes())?; // `check` has seen that it fits
        out.write_all(&next.to_le_bytes())?;
    }
    Ok(())
}

fn write_recording(
    trace: &Trace,
    recording: Option<Recording>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let has_sizes = !trace.sizes.is_empty();
    let (rate, start_unix_ns) =
        recording.map_or((1.0, 0), |recording| (recording.rate, recording.start_unix_ns));
    let lifetimes = match recording.map(|recording| recording.lifetimes) {
        Some(known) if known != RecordedLifetimes::None => known,
        _ if !trace.lifetimes_ns.is_empty() => RecordedLifetimes::Told,
        _ => RecordedLifetimes::None,
    };
    let header = frazil_recording::Header { rate, start_unix_ns, has_sizes, lifetimes };
    let mut encoder = frazil_recording::Encoder::new(out, &header)?;
    for Row { time_ns, id, size, operation, lifetime_ns, .. } in rows(trace) {
        let operation = match operation {
            Operation::Get => frazil_recording::Operation::Get,
            Operation::Set => frazil_recording::Operation::Set,
            Operation::Delete => frazil_recording::Operation::Delete,
        };
        let size = has_sizes.then_some(size);
        let lifetime_ns = (lifetime_ns > 0).then_some(lifetime_ns);
        let record = frazil_recording::Record { time_ns, id, size, operation, lifetime_ns };
        encoder.push(&record)?;
    }
    let lost = recording.and_then(|recording| recording.lost).unwrap_or_default();
    encoder.finish(lost, recording.and_then(|recording| recording.gets))?;
    Ok(())
}

/// The 1-based index of each record's next request for the same object; 0 for none.
fn next_accesses(trace: &Trace) -> Vec<u32> {
    let mut later = vec![0u32; trace.objects.len()];
    let mut next = vec![0u32; trace.len()];
    for (index, &id) in trace.ids.iter().enumerate().rev() {
        next[index] = later[id as usize];
        later[id as usize] = index as u32 + 1;
    }
    next
}

fn write_csv(trace: &Trace, out: &mut dyn Write) -> std::io::Result<()> {
    let times = !trace.times_ns.is_empty();
    let sizes = !trace.sizes.is_empty();
    let operations = !trace.operations.is_empty();
    let lifetimes = !trace.lifetimes_ns.is_empty();
    let name = |has: bool, name: &'static str| if has { name } else { "" };
    let (time, size) = (name(times, "time,"), name(sizes, ",size"));
    let (operation, lifetime) = (name(operations, ",operation"), name(lifetimes, ",ttl"));
    writeln!(out, "{time}id{size}{operation}{lifetime}")?;
    for row in rows(trace) {
        if times {
            write!(out, "{},", Seconds(row.time_ns))?;
        }
        write!(out, "{}", row.id)?;
        if sizes {
            write!(out, ",{}", row.size)?;
        }
        if operations {
            write!(out, ",{}", name_of(row.operation))?;
        }
        match row.lifetime_ns {
            _ if !lifetimes => {}
            0 => write!(out, ",")?,
            FOR_EVER => write!(out, ",never")?,
            lifetime_ns => write!(out, ",{}", Seconds(lifetime_ns))?,
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn write_json(trace: &Trace, out: &mut dyn Write) -> std::io::Result<()> {
    for row in rows(trace) {
        write!(out, "{{")?;
        if !trace.times_ns.is_empty() {
            write!(out, "\"time\":{},", Seconds(row.time_ns))?;
        }
        write!(out, "\"id\":{}", row.id)?;
        if !trace.sizes.is_empty() {
            write!(out, ",\"size\":{}", row.size)?;
        }
        if !trace.operations.is_empty() {
            write!(out, ",\"operation\":\"{}\"", name_of(row.operation))?;
        }
        match row.lifetime_ns {
            0 => {}
            FOR_EVER => write!(out, ",\"ttl\":\"never\"")?,
            lifetime_ns => write!(out, ",\"ttl\":{}", Seconds(lifetime_ns))?,
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

fn write_line(format: Format, row: &Row, out: &mut dyn Write) -> std::io::Result<()> {
    let Row { index, id, size, .. } = *row;
    let time = Seconds(row.time_ns);
    match format {
        Format::Arc => writeln!(out, "{id} 1 0 {index}"),
        Format::AdaptSize => writeln!(out, "{time} {id} {size}"),
        Format::DelayedHits => writeln!(out, "{time};{id}"),
        Format::Twitter => {
            let operation = name_of(row.operation);
            let lifetime_s = match row.lifetime_ns {
                FOR_EVER => 0,
                lifetime_ns => lifetime_ns.div_ceil(NANOSECONDS),
            };
            writeln!(out, "{time},{id},0,{size},0,{operation},{lifetime_s}")
        }
        Format::Msr => {
            let ticks = row.time_ns / MSR_TICK_NS;
            let kind = match row.operation {
                Operation::Get => "Read",
                Operation::Set | Operation::Delete => "Write",
            };
            writeln!(out, "{ticks},0,0,{kind},{id},{size},0")
        }
        // The formats of bare ids; the others have their own writers.
        _ => writeln!(out, "{id}"),
    }
}

fn name_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Get => "get",
        Operation::Set => "set",
        Operation::Delete => "delete",
    }
}

/// Nanoseconds as seconds, with as many decimals as necessary.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, mut part) = (self.0 / NANOSECONDS, self.0 % NANOSECONDS);
        write!(f, "{whole}")?;
        if part == 0 {
            return Ok(());
        }
        let mut digits = 9;
        while part.is_multiple_of(10) {
            part /= 10;
            digits -= 1;
        }
        write!(f, ".{part:0digits$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Sizes;
    use crate::trace::formats::testing::{decoded, traced};
    use proptest::prelude::*;

    fn written(trace: &Trace, format: Format) -> Vec<u8> {
        let mut file = Vec::new();
        write(trace, None, format, &mut file).unwrap();
        file
    }

    fn problem(trace: &Trace, format: Format) -> String {
        write(trace, None, format, &mut Vec::new()).unwrap_err().to_string()
    }

    fn sample() -> Trace {
        Trace {
            ids: vec![0, 1, 0, 0],
            sizes: vec![10, 20, 10, 30].into(),
            times_ns: vec![0, 1_500_000_000, 2_000_000_000, 2_000_000_100],
            operations: Vec::new(),
            objects: vec![7, u64::from(u32::MAX)],
            ..Trace::default()
        }
    }

    #[test]
    fn oracle_general_knows_the_next_access() {
        let file = written(&sample(), Format::OracleGeneral);
        let next = |index: usize| {
            let bytes = file[index * 24 + 16..index * 24 + 24].try_into().unwrap();
            i64::from_le_bytes(bytes)
        };
        assert_eq!([next(0), next(1), next(2), next(3)], [3, -1, 4, -1]);
        let times: Vec<u64> = decoded(Format::OracleGeneral, &file)
            .iter()
            .map(|record| record.time_ns / NANOSECONDS)
            .collect();
        assert_eq!(times, [0, 1, 2, 2]);
    }

    #[test]
    fn csv_has_the_columns_of_the_trace() {
        let mut trace = sample();
        let expected = "time,id,size\n0,7,10\n1.5,4294967295,20\n2,7,10\n2.0000001,7,30\n";
        assert_eq!(String::from_utf8(written(&trace, Format::Csv)).unwrap(), expected);
        trace.operations = vec![Operation::Get, Operation::Set, Operation::Delete, Operation::Get];
        trace.times_ns.clear();
        trace.sizes = Sizes::default();
        let expected = "id,operation\n7,get\n4294967295,set\n7,delete\n7,get\n";
        assert_eq!(String::from_utf8(written(&trace, Format::Csv)).unwrap(), expected);
    }

    #[test]
    fn what_a_format_cannot_carry_is_refused() {
        let mut trace = sample();
        trace.objects[1] += 1;
        assert_eq!(
            problem(&trace, Format::Cache2k),
            "cache2k cannot hold this trace: id 4294967296 is beyond 32 bits"
        );
        trace.objects[1] = u64::MAX;
        assert!(problem(&trace, Format::Arc).contains("no block"));
        trace.times_ns[0] = u64::MAX;
        assert!(problem(&trace, Format::OracleGeneral).contains("times span"));
        trace.operations = vec![Operation::Delete; 4];
        for format in Format::ALL {
            if !matches!(
                format,
                Format::Csv | Format::Json | Format::Twitter | Format::Frazil | Format::Log
            ) {
                assert!(problem(&trace, format).contains("it has"), "{format}");
            }
        }
    }

    #[test]
    fn late_times_are_counted_from_the_first() {
        let mut trace = sample();
        for time_ns in &mut trace.times_ns {
            *time_ns += 12_816_637_200_000_000_000;
        }
        let file = written(&trace, Format::OracleGeneral);
        assert_eq!(decoded(Format::OracleGeneral, &file)[3].time_ns, 2_000_000_000);
    }

    fn any_trace() -> impl Strategy<Value = Vec<(u64, u64, u32, u8)>> {
        let id = prop_oneof![0..50u64, any::<u32>().prop_map(u64::from)];
        proptest::collection::vec((any::<u64>(), id, any::<u32>(), 0..3u8), 1..200)
    }

    proptest! {
        /// The data that a format holds are read back unchanged.
        #[test]
        fn traces_round_trip(rows in any_trace(), has in 0..8u8) {
            for format in Format::ALL.into_iter().filter(|it| *it != Format::Log) {
                let trace = traced(&rows, format, has);
                let file = written(&trace, format);
                let records = decoded(format, &file);
                prop_assert_eq!(records.len(), trace.len());
                for (row, record) in super::rows(&trace).zip(records) {
                    prop_assert_eq!(row.id, record.id);
                    prop_assert_eq!(row.operation, record.operation);
                    let sized = !matches!(
                        format,
                        Format::Plain | Format::Arc | Format::Lirs | Format::Cache2k | Format::DelayedHits
                    );
                    // A delete has no size there.
                    let sizeless =
                        format == Format::Frazil && row.operation == Operation::Delete;
                    if sized && !sizeless {
                        prop_assert_eq!(row.size, record.size);
                    }
                    let unit = match format {
                        Format::OracleGeneral => NANOSECONDS,
                        Format::Msr => MSR_TICK_NS,
                        Format::Csv
                        | Format::Json
                        | Format::Twitter
                        | Format::AdaptSize
                        | Format::DelayedHits
                        | Format::Frazil => 1,
                        _ => continue,
                    };
                    prop_assert_eq!(row.time_ns / unit, record.time_ns / unit);
                }
            }
        }
    }
}
