//! `frazil trace`: describes a trace, or converts it to another format.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use clap::{Args as ClapArgs, Subcommand};
use frazil_simulator::trace::{self, Format, Lifetimes, Loaded, TraceError, TraceInfo};

use crate::completions::offering;
use crate::failure::{Failure, note};
use crate::lifetime_args::span;
use crate::output::{self, Output, Row, bytes, grouped, percent, row};
use crate::outputs;
use crate::trace_args::{TraceArgs, Wanted};
use crate::trace_files::{TraceFiles, names};
use crate::{Done, InMemory};

/// Describe a trace, or convert it.
#[derive(ClapArgs, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Info(InfoArgs),
    Convert(ConvertArgs),
}

/// Print a trace's requests, objects, footprint, time span and popularity.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil trace info requests.csv.zst
  frazil trace info requests.frazil
  frazil trace info zipf:0.9:objects=100K:requests=1M --output json")]
struct InfoArgs {
    #[command(flatten)]
    traces: TraceFiles,

    /// How to print the results.
    #[arg(long, value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    reading: TraceArgs,
}

/// Convert a trace to another format.
///
/// OUT is compressed if its name ends in .zst, .gz or .xz. It appears only when it is complete, and
/// is never the file that is read.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil trace convert requests.csv.gz requests.bin.zst --to oracle-general
  frazil trace convert requests.frazil requests.csv.zst
  frazil trace convert mix:requests=1M:seed=3 workload.csv
  frazil trace convert access.log.gz - --skip-bad-rows | head")]
struct ConvertArgs {
    /// The trace: a file, or a generated workload as in `frazil simulate`.
    #[arg(value_name = "FILE", value_parser = names())]
    input: String,

    /// The file to write; - for standard output, uncompressed.
    #[arg(value_name = "OUT")]
    out: PathBuf,

    /// Format to write: csv, json, frazil, oracle-general, twitter, msr, plain, arc, lirs, cache2k,
    /// adaptsize or delayed-hits [default: that of OUT's ending: .csv, .json, .jsonl, .frazil,
    /// .oracleGeneral or .txt (plain); csv on standard output].
    #[arg(long, value_name = "NAME",
          value_parser = offering(Format::ALL.map(Format::name), parse_format), hide_possible_values = true)]
    to: Option<Format>,

    #[command(flatten)]
    reading: TraceArgs,
}

fn parse_format(text: &str) -> Result<Format, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// All columns except the durations of fetches.
const WANTED: Wanted =
    Wanted { times: true, sizes: true, latencies: None, lifetimes: Lifetimes::OfTrace };

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Done {
    match &args.verb {
        Verb::Info(args) => info(args),
        Verb::Convert(args) => convert(args),
    }
}

/// The rows of `trace info`, with some traces in memory.
pub(crate) fn rows(args: &mut Args, memory: &[(String, InMemory)]) -> Result<Vec<Row>, Failure> {
    let Verb::Info(args) = &mut args.verb else {
        return Err(Failure::usage(anyhow!("`frazil trace convert` has no rows")));
    };
    args.reading.keep(memory);
    Ok(infos(args)?.iter().map(|(name, info, loaded)| info_row(name, info, loaded)).collect())
}

/// The name of a trace, its description, and the trace.
type Described<'a> = (&'a str, TraceInfo, Arc<Loaded>);

fn infos(args: &InfoArgs) -> Result<Vec<Described<'_>>, Failure> {
    let mut infos = Vec::new();
    for name in args.traces.some()? {
        let loaded = args.reading.load(name, WANTED)?;
        infos.push((name, trace::info(&loaded.trace), loaded));
    }
    Ok(infos)
}

fn info(args: &InfoArgs) -> Done {
    let infos = infos(args)?;
    let rows = infos.iter().map(|(name, info, loaded)| info_row(name, info, loaded));
    output::print(&match args.output {
        Output::Json => output::json(&rows.collect::<Vec<_>>()),
        Output::Csv => output::csv(&rows.collect::<Vec<_>>()),
        Output::Table => {
            infos.iter().map(|(name, info, loaded)| info_text(name, info, loaded)).collect()
        }
    })
}

fn decode_rate(info: &TraceInfo, loaded: &Loaded) -> f64 {
    info.records as f64 / loaded.origin.decode_seconds.max(1e-9)
}

fn span_seconds(info: &TraceInfo) -> Option<f64> {
    Some(info.last_time_ns?.saturating_sub(info.first_time_ns?) as f64 / 1e9)
}

fn info_row(name: &str, info: &TraceInfo, loaded: &Loaded) -> Row {
    let lifetimes = loaded.origin.lifetimes;
    let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
    row! {
        "trace" => name,
        "format" => loaded.origin.format.map(|format| format.to_string()),
        "compression" => loaded.origin.compression.to_string(),
        "rate" => loaded.origin.rate(),
        "lost" => loaded.origin.recording.and_then(|recording| recording.lost),
        "records" => info.records,
        "requests" => info.requests,
        "sets" => info.sets,
        "deletes" => info.deletes,
        "objects" => info.objects,
        "footprint_bytes" => info.footprint_bytes,
        "requested_bytes" => info.requested_bytes,
        "span_seconds" => span_seconds(info),
        "lifetimes" => lifetimes.map(|it| it.records),
        "lifetime_median_seconds" => seconds(lifetimes.and_then(|it| it.median_ns)),
        "lifetime_longest_seconds" => seconds(lifetimes.and_then(|it| it.longest_ns)),
        "zipf_alpha" => info.zipf_alpha,
        "one_hit_wonder_share" => info.one_hit_wonder_share,
        "mean_requests" => info.mean_requests,
        "max_requests" => info.max_requests,
        "top_1_percent_share" => info.top_1_percent_share,
        "top_10_percent_share" => info.top_10_percent_share,
        "decode_records_per_second" => decode_rate(info, loaded).round(),
    }
}

fn lifetimes_text(loaded: &Loaded) -> String {
    let Some(told) = loaded.origin.lifetimes else { return "none in the trace".to_owned() };
    let lasting = match (told.median_ns, told.longest_ns) {
        (Some(median), Some(longest)) => {
            format!(", median {}, longest {}", span(median), span(longest))
        }
        _ => ", without end".to_owned(),
    };
    format!("of {} records{lasting}", grouped(told.records))
}

fn info_text(name: &str, info: &TraceInfo, loaded: &Loaded) -> String {
    let none = || "none in the trace".to_owned();
    let format = match loaded.origin.format {
        Some(format) => format!("{format}, compression {}", loaded.origin.compression),
        None => "generated".to_owned(),
    };
    let lines = [
        ("format", format),
        ("sample", format!("requests for {} of the keys", percent(loaded.origin.rate()))),
        ("requests", grouped(info.requests)),
        ("sets, deletes", format!("{}, {}", grouped(info.sets), grouped(info.deletes))),
        ("objects", grouped(info.objects)),
        ("footprint", info.footprint_bytes.map_or_else(none, bytes)),
        ("bytes requested", info.requested_bytes.map_or_else(none, bytes)),
        ("time span", span_seconds(info).map_or_else(none, |s| format!("{s:.3} s"))),
        ("lifetimes", lifetimes_text(loaded)),
        (
            "popularity",
            info.zipf_alpha.map_or_else(
                || "too few objects for a fit".to_owned(),
                |alpha| format!("Zipf with alpha {alpha:.3} fits best"),
            ),
        ),
        ("one-hit wonders", format!("{} of the objects", percent(info.one_hit_wonder_share))),
        (
            "requests an object",
            format!("{:.2} on average, {} at most", info.mean_requests, grouped(info.max_requests)),
        ),
        (
            "top 1 %, 10 %",
            format!(
                "{}, {} of the requests",
                percent(info.top_1_percent_share),
                percent(info.top_10_percent_share)
            ),
        ),
        ("decoded at", format!("{:.1} M records/s", decode_rate(info, loaded) / 1e6)),
    ];
    let lines = lines.map(|(what, value)| format!("  {what:<19} {value}\n"));
    format!("{}\n{}", trace::printable(name), lines.concat())
}

/// The format that the name of a file means.
fn format_of(out: &Path) -> Result<Format, Failure> {
    if out.as_os_str() == "-" {
        return Ok(Format::Csv);
    }
    let ending = |path: &Path| {
        path.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase()
    };
    let mut name = out.to_path_buf();
    if ["zst", "gz", "xz"].contains(&ending(&name).as_str()) {
        name.set_extension("");
    }
    Ok(match ending(&name).as_str() {
        "csv" => Format::Csv,
        "json" | "jsonl" | "ndjson" => Format::Json,
        "frazil" => Format::Frazil,
        "oraclegeneral" => Format::OracleGeneral,
        "txt" => Format::Plain,
        _ => {
            return Err(Failure::usage(anyhow!(
                "{}: its ending names no format; give one with --to, such as --to csv",
                out.display()
            )));
        }
    })
}

fn convert(args: &ConvertArgs) -> Done {
    if args.out.is_dir() {
        return Err(Failure::usage(anyhow!("{}: is a directory", args.out.display())));
    }
    outputs::refuse_inputs(&args.out, [args.input.as_str()])?;
    let to = args.to.map_or_else(|| format_of(&args.out), Ok)?;
    let loaded = args.reading.load(&args.input, WANTED)?;
    if loaded.origin.rate() < 1.0 && to != Format::Frazil {
        note(&format!(
            "{} is a sample of {} of the keys, which format {} can't record",
            args.input,
            percent(loaded.origin.rate()),
            to
        ));
    }
    let carries = matches!(to, Format::Csv | Format::Twitter | Format::Frazil);
    if loaded.origin.lifetimes.is_some() && !carries {
        note(&format!("{} has lifetimes, which format {} can't hold", args.input, to));
    }
    let recording = loaded.origin.recording;
    if args.out.as_os_str() == "-" {
        return match trace::write(&loaded.trace, recording, to, &mut std::io::stdout()) {
            // This conversion recognises a reader that has left.
            Err(TraceError::Output { error }) => Err(error.into()),
            written => Ok(written?),
        };
    }
    trace::save(&loaded.trace, recording, to, &args.out)?;
    note(&format!(
        "wrote {} records as {} to {}",
        grouped(loaded.trace.len() as u64),
        to,
        trace::printable(&trace::spec_of(args.out.as_os_str()))
    ));
    Ok(())
}
