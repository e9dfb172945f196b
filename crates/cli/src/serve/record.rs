//! The recordings of a server, by `--record` and `--record-http`.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use frazil_server::{Handle, Recordable, Recording};

use crate::failure::note;

/// Requests that are recorded while the server serves.
#[derive(clap::Args)]
// The group of the verb has the same name.
#[group(skip)]
pub(super) struct Args {
    /// Record the requests of memcached's and RESP's clients to this file, for `frazil advise` and `frazil simulate`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Record the requests of HTTP's clients to this file
    #[arg(long, value_name = "FILE")]
    record_http: Option<PathBuf>,
    /// Share of the keys or URLs to record, with all their requests: above 0 and at most 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = share)]
    record_rate: f64,
    /// Time after which the recording ends; 0: at the end of the server
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    record_seconds: u64,
}

/// The recordings under way. They end at their time, or with [`Running::end`].
pub(super) struct Running {
    threads: Vec<JoinHandle<()>>,
    ends: Vec<Sender<()>>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|&share: &f64| share > 0.0 && share <= 1.0);
    share.ok_or_else(|| "expected a number above 0 and at most 1".into())
}

impl Args {
    /// Begins the recordings.
    pub(super) fn begin(&self, handle: &Handle) -> anyhow::Result<Running> {
        let within = (self.record_seconds > 0).then(|| Duration::from_secs(self.record_seconds));
        let mut running = Running { threads: Vec::new(), ends: Vec::new() };
        let wanted = [
            ("--record", &self.record, Recordable::Keys),
            ("--record-http", &self.record_http, Recordable::Http),
        ];
        for (flag, path, clients) in wanted {
            let Some(path) = path else { continue };
            let recording = handle.record(clients, path, self.record_rate).context(flag)?;
            let (end, ended) = mpsc::channel();
            let path = path.clone();
            running.threads.push(thread::spawn(move || keep(recording, &path, &ended, within)));
            running.ends.push(end);
        }
        Ok(running)
    }
}

impl Running {
    /// Ends the recordings, and waits until their files are written.
    pub(super) fn end(self) {
        drop(self.ends);
        for thread in self.threads {
            if thread.join().is_err() {
                note("a recording's thread panicked");
            }
        }
    }
}

/// Keeps a recording until its time is over or the server has ended, and reports its counts.
fn keep(recording: Recording, path: &Path, ended: &Receiver<()>, within: Option<Duration>) {
    // Nothing is ever sent: both end at their time, or because the other side is dropped.
    _ = match within {
        Some(within) => ended.recv_timeout(within).is_ok(),
        None => ended.recv().is_ok(),
    };
    match recording.finish() {
        Ok(recorded) => note(&format!(
            "{}: {} requests recorded, {} lost; `frazil advise {}` reads them",
            path.display(),
            recorded.records,
            recorded.lost,
            path.display()
        )),
        Err(error) => note(&format!("{}: not recorded to the end: {error}", path.display())),
    }
}
