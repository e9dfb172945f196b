//! The traces that a verb reads: as arguments, or with `--trace`.

use std::ffi::OsString;

use anyhow::anyhow;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use frazil_simulator::trace::spec_of;

use crate::failure::Failure;

/// The traces, in the order that they are read in.
#[derive(Args, Debug)]
pub(crate) struct TraceFiles {
    /// Trace files, - for standard input, or generated workloads: zipf:ALPHA, uniform,
    /// loop, mix, diurnal, bursts, drift, each with :objects=N:requests=N:seed=N.
    #[arg(value_name = "FILE", value_parser = names())]
    files: Vec<String>,

    /// Trace files, as an option.
    #[arg(long, value_name = "FILE", num_args = 1.., value_parser = names())]
    trace: Vec<String>,
}

/// Reads names that need not be text.
pub(crate) fn names() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|name: OsString| spec_of(&name))
}

impl TraceFiles {
    /// All traces, possibly none.
    pub(crate) fn all(&self) -> Vec<&str> {
        self.files.iter().chain(&self.trace).map(String::as_str).collect()
    }

    /// All traces, at least one.
    pub(crate) fn some(&self) -> Result<Vec<&str>, Failure> {
        let all = self.all();
        if all.is_empty() {
            let problem = "no trace is named: give a FILE, or --trace FILE (see --help)";
            return Err(Failure::usage(anyhow!(problem)));
        }
        Ok(all)
    }
}
