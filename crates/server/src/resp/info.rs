//! `INFO`.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use super::{Call, Done, reply, table};
use crate::process::{processor_time, resident_bytes};
use crate::worker::Turn;

type Section = (&'static str, fn(&Turn<'_>, &mut String));

/// In the order in which they are shown.
const SECTIONS: &[Section] = &[
    ("server", server),
    ("clients", clients),
    ("memory", memory),
    ("persistence", persistence),
    ("stats", stats),
    ("replication", replication),
    ("cpu", processor),
    ("commandstats", commands),
    ("cluster", cluster),
    ("keyspace", keyspace),
];

/// The sections shown by default.
const DEFAULT: &str = "server clients memory persistence stats replication cpu cluster keyspace";

pub(super) fn info(call: &mut Call<'_, '_>) -> Done {
    let words: Vec<_> = call.args.from(1).take(64).map(<[u8]>::to_ascii_lowercase).collect();
    let is_asked = |name: &str| {
        let is_default = DEFAULT.split(' ').any(|default| default == name);
        words.is_empty() && is_default
            || words.iter().any(|word| match word.as_slice() {
                b"all" | b"everything" => true,
                b"default" => is_default,
                word => word == name.as_bytes(),
            })
    };
    let mut text = String::new();
    for (name, show) in SECTIONS.iter().filter(|(name, _)| is_asked(name)) {
        if !text.is_empty() {
            text += "\r\n";
        }
        let _ = write!(text, "# {}{}\r\n", name[..1].to_uppercase(), &name[1..]);
        show(call.turn, &mut text);
    }
    reply::verbatim(call.turn.out, text.as_bytes(), call.session.version);
    Ok(())
}

macro_rules! lines {
    ($text:expr, $($name:literal: $value:expr),* $(,)?) => {
        // Writing to a string cannot fail.
        $(let _ = write!($text, concat!($name, ":{}\r\n"), $value);)*
    };
}

fn server(turn: &Turn<'_>, text: &mut String) {
    let clock = &turn.shared.items.clock;
    lines!(text,
        "redis_version": super::REDIS_VERSION,
        "frazil_version": env!("CARGO_PKG_VERSION"),
        "redis_mode": turn.shared.resp.mode(),
        "os": std::env::consts::OS,
        "arch_bits": usize::BITS,
        "multiplexing_api": "epoll",
        "process_id": std::process::id(),
        "server_time_usec": clock.unix_ms() * 1000,
        "uptime_in_seconds": turn.now_ms / 1000,
        "uptime_in_days": turn.now_ms / 86_400_000,
    );
}

fn clients(turn: &Turn<'_>, text: &mut String) {
    let shared = turn.shared;
    lines!(text,
        "connected_clients": shared.resp.clients.count(),
        "maxclients": shared.settings.limits.connections,
        "tracking_clients": shared.items.tracking.sizes().clients,
        "blocked_clients": shared.items.flights.counts().1,
    );
}

fn memory(turn: &Turn<'_>, text: &mut String) {
    let shared = turn.shared;
    lines!(text,
        "used_memory": shared.resp.used_bytes(turn),
        "used_memory_rss": resident_bytes(),
        "maxmemory": shared.resp.memory_max.load(Relaxed),
        "maxmemory_policy": if shared.settings.evicts { "allkeys-lfu" } else { "noeviction" },
        "mem_clients_normal": shared.held_bytes.load(Relaxed),
        "mem_allocator": "libc",
    );
}

fn persistence(_: &Turn<'_>, text: &mut String) {
    lines!(text,
        "loading": 0,
        "rdb_bgsave_in_progress": 0,
        "aof_enabled": 0,
        "aof_rewrite_in_progress": 0,
    );
}

fn stats(turn: &Turn<'_>, text: &mut String) {
    let shared = turn.shared;
    let (all, store) = (shared.counts(), shared.items.store.stats());
    let (since, since_store) = *shared.resp.since.lock();
    let tracking = shared.items.tracking.sizes();
    let calls: u64 = shared.resp.calls().map(|(_, calls)| calls.all).sum();
    lines!(text,
        "total_connections_received": all.connections - since.connections,
        "total_commands_processed": calls,
        "total_net_input_bytes": all.bytes_read - since.bytes_read,
        "total_net_output_bytes": all.bytes_written - since.bytes_written,
        "rejected_connections": all.rejected - since.rejected,
        "expired_keys": store.expired_items - since_store.expired_items,
        "evicted_keys": store.evicted_items - since_store.evicted_items,
        "keyspace_hits": all.get_hits - since.get_hits,
        "keyspace_misses": all.get_misses - since.get_misses,
        "total_forks": 0,
        "tracking_total_keys": tracking.keys,
        "tracking_total_items": tracking.items,
        "tracking_total_prefixes": tracking.prefixes,
    );
}

fn replication(_: &Turn<'_>, text: &mut String) {
    lines!(text, "role": "master", "connected_slaves": 0, "master_repl_offset": 0);
}

fn processor(_: &Turn<'_>, text: &mut String) {
    let (user, system) = processor_time();
    lines!(text,
        "used_cpu_sys": format_args!("{system:.6}"),
        "used_cpu_user": format_args!("{user:.6}"),
        "used_cpu_sys_children": "0.000000",
        "used_cpu_user_children": "0.000000",
    );
}

/// Times are not measured: they would cost two clock reads a request.
fn commands(turn: &Turn<'_>, text: &mut String) {
    for (at, calls) in turn.shared.resp.calls().filter(|(_, calls)| calls.all + calls.refused > 0) {
        let name = table::COMMANDS[at].name;
        let (all, refused, failed) = (calls.all, calls.refused, calls.failed);
        let _ = write!(
            text,
            "cmdstat_{name}:calls={all},rejected_calls={refused},failed_calls={failed}\r\n"
        );
    }
}

fn cluster(turn: &Turn<'_>, text: &mut String) {
    lines!(text, "cluster_enabled": u8::from(turn.shared.resp.cluster.is_some()));
}

fn keyspace(turn: &Turn<'_>, text: &mut String) {
    let keys = turn.shared.items.store.live_items();
    if keys > 0 {
        // The store does not count entries with a lifetime.
        lines!(text, "db0": format_args!("keys={keys}"));
    }
}
