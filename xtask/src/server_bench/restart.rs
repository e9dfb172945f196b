//! Measures a start with a snapshot: the time until the first reply, and until all items are read.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::crowd;
use super::{Bench, Server};
use crate::asking::Asking;
use crate::spent::median;
use crate::step;

const ITEMS: u64 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// Times from the start of the process, by store: to the first reply, and to the last restored
/// item.
pub(super) fn restart(bench: &Bench) -> anyhow::Result<()> {
    let place = std::env::temp_dir().join(format!("frazil-restart-{}", std::process::id()));
    let shown = place.display().to_string();
    println!("{:<28}{:>14}{:>14}", "ms from the start, a million", "first reply", "all items");
    for (name, store) in [("frazil serve", "segment"), ("frazil serve, objects", "objects")] {
        let flags = ["--memory", "512MiB", "--store", store, "--snapshot", &shown];
        let measured = rounds(bench, name, &flags);
        // There is no file if the server did not get that far.
        let _ = std::fs::remove_file(&place);
        let taken = measured?;
        let first = median(taken.iter().map(|it| it.0));
        let all = median(taken.iter().map(|it| it.1));
        println!("{name:<28}{first:>14.0}{all:>14.0}");
    }
    Ok(())
}

fn rounds(bench: &Bench, name: &'static str, flags: &[&str]) -> anyhow::Result<Vec<(f64, f64)>> {
    let server = bench.frazil(name, "memcached", flags)?;
    let args = ["--keys", "1M", "--value-bytes", "100", "--sets", "0", "--operations", "1K"];
    bench.load(&server, None, &args)?;
    end(server)?;
    (0..bench.rounds)
        .map(|_| {
            let begun = Instant::now();
            let server = bench.spawn_frazil(name, "memcached", flags)?;
            let taken = wait(&server, begun)?;
            end(server)?;
            Ok(taken)
        })
        .collect()
}

/// Milliseconds to the first reply, and to the last restored item.
fn wait(server: &Server, begun: Instant) -> anyhow::Result<(f64, f64)> {
    let address = server.address()?;
    let mut asking = loop {
        match Asking::connect(address) {
            Ok(asking) => break asking,
            Err(error) if begun.elapsed() > PATIENCE => return Err(error).context(server.name),
            Err(_) => std::thread::sleep(Duration::from_micros(500)),
        }
    };
    asking.ask("mn\r\n")?;
    let first = begun.elapsed();
    loop {
        // The store of objects first subtracts expired ones, which takes time, so the polls are
        // rare.
        let items = crowd::stat(&mut asking, "curr_items")?.context("the number of items")?;
        let all = begun.elapsed();
        if items == ITEMS {
            return Ok((first.as_secs_f64() * 1e3, all.as_secs_f64() * 1e3));
        }
        if all > PATIENCE {
            bail!("{}: {items} items after {PATIENCE:?}", server.name);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Stops the server, which writes its snapshot.
fn end(mut server: Server) -> anyhow::Result<()> {
    let mut command = std::process::Command::new("kill");
    step::succeeded("kill", command.arg(server.child.id().to_string()).status()?)?;
    step::succeeded(server.name, server.child.wait()?)
}
