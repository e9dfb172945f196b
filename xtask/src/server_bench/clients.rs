//! Measures a server's memory under demanding clients: values whose sizes change, idle connections, clients that never read.
//! Also whether the latter two evict anything.

use std::time::Duration;

use anyhow::Context as _;

use super::crowd;
use super::{Bench, Server};
use crate::asking::Asking;

const MEMORY_MIB: u64 = 128;
/// Successive value sizes, and numbers of keys set: each time more than fit.
const SIZES: [(&str, &str); 8] = [
    ("32", "2500K"),
    ("100", "1500K"),
    ("500", "400K"),
    ("3000", "80K"),
    ("20000", "12K"),
    ("300000", "1K"),
    ("700", "300K"),
    ("100", "1500K"),
];
const IDLE: usize = 10_000;
const UNREAD: usize = 1000;
const UNREAD_FOR: Duration = Duration::from_secs(5);

/// The most resident memory beyond the server's limit, with each of the three in turn.
pub(super) fn clients(bench: &Bench) -> anyhow::Result<()> {
    crowd::allow(IDLE + UNREAD)?;
    let memory = format!("{MEMORY_MIB}MiB");
    let connections = (IDLE + UNREAD + 100).to_string();
    let flags = ["--memory", &memory, "--connections", &connections];
    let objects = [&flags[..], &["--store", "objects"]].concat();
    let (mib, bytes) = (MEMORY_MIB.to_string(), (MEMORY_MIB << 20).to_string());
    let start: [&dyn Fn() -> anyhow::Result<Server>; 6] = [
        &|| bench.frazil("frazil serve", "memcached", &flags),
        &|| bench.frazil("frazil serve, RESP", "RESP", &flags),
        &|| bench.frazil("frazil serve, objects", "memcached", &objects),
        &|| bench.frazil("frazil serve, objects, RESP", "RESP", &objects),
        &|| bench.memcached("memcached", &mib, &["-c", &connections]),
        &|| bench.valkey("Valkey", &bytes, "allkeys-lru", &["--maxclients", &connections]),
    ];
    println!(
        "{:<28}{:>10}{:>10}{:>10}   items before and after the idle, the unread",
        "MiB beyond its memory", "sizes", "idle", "unread"
    );
    for start in start {
        println!("{}", row(bench, &start()?)?);
    }
    println!(
        "memory: {memory}; sizes: values of {} bytes; idle: {IDLE} connections; unread: {UNREAD} clients",
        SIZES.map(|(bytes, _)| bytes).join(", ")
    );
    Ok(())
}

fn row(bench: &Bench, server: &Server) -> anyhow::Result<String> {
    let is_resp = server.url.starts_with("redis");
    for (bytes, keys) in SIZES {
        let args = ["--keys", keys, "--value-bytes", bytes, "--sets", "0", "--operations", "1K"];
        bench.load(server, None, &args)?;
    }
    let mut row = format!("{:<28}{:>10.1}", server.name, beyond(server)?);
    let before_idle = items(server, is_resp)?;
    {
        begin_again(server)?;
        let idle = crowd::connect(server.address()?, IDLE)?;
        // The server accepts this connection after all idle ones, so its reply shows that they are
        // accepted.
        items(server, is_resp)?;
        anyhow::ensure!(crowd::open(&idle) == IDLE, "{}: idle connections closed", server.name);
        row += &format!("{:>10.1}", beyond(server)?);
    }
    let after_idle = items(server, is_resp)?;
    begin_again(server)?;
    // Keys of the load have 16 bytes; this key need not exist before, but must have the largest
    // reply.
    let mut asking = Asking::connect(server.address()?)?;
    let value = "x".repeat(10_000);
    let (set, get) = match is_resp {
        true => (
            format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$10000\r\n{value}\r\n"),
            "*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n",
        ),
        false => (format!("set big 0 0 10000\r\n{value}\r\n"), "get big\r\n"),
    };
    asking.ask(&set)?;
    let before_unread = items(server, is_resp)?;
    let closed = crowd::never_read(server.address()?, UNREAD, get, UNREAD_FOR)?;
    let after_unread = items(server, is_resp)?;
    row += &format!("{:>10.1}", beyond(server)?);
    row += &format!("   {before_idle} {after_idle}, {before_unread} {after_unread}");
    if closed > 0 {
        row += &format!("; {closed} times one that does not read was closed");
    }
    Ok(row)
}

fn items(server: &Server, is_resp: bool) -> anyhow::Result<u64> {
    let mut asking = Asking::connect(server.address()?)?;
    let items = match is_resp {
        true => asking.ask("*1\r\n$6\r\nDBSIZE\r\n")?.trim_start_matches(':').parse().ok(),
        false => crowd::stat(&mut asking, "curr_items")?,
    };
    items.with_context(|| format!("{}: the number of items", server.name))
}

/// Resets the maximum of resident memory.
fn begin_again(server: &Server) -> anyhow::Result<()> {
    let path = format!("/proc/{}/clear_refs", server.child.id());
    std::fs::write(&path, "5").context(path)
}

/// MiB of the maximum since, minus the server's limit.
fn beyond(server: &Server) -> anyhow::Result<f64> {
    let most = server.status_bytes("VmHWM:")?;
    Ok((most as f64 - (MEMORY_MIB << 20) as f64) / (1u64 << 20) as f64)
}
