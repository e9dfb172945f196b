//! `stats` and `lru_crawler`: the server's counts under memcached's names.
//!
//! There are no slabs and no crawler. Items in segments are shown in class 1, and large items beside them in the classes
//! of their sizes. Counts of the work on slabs are 0.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use frazil_segment::{Entry, Stats};
use parking_lot::Mutex;

use super::{BAD_FORMAT, State, Tokens, number, operate, reply};
use crate::counters::Counts;
use crate::listen::Address;
use crate::objects::{self, ClassStats};
use crate::percent::encoded;
use crate::process::processor_time;
use crate::server::Shared;
use crate::worker::Turn;

/// The counts at the last `stats reset`.
#[derive(Debug)]
pub(super) struct Since(Mutex<(Counts, Stats, [u64; 4])>, Mutex<objects::Since>);

impl Default for Since {
    fn default() -> Since {
        Since(Mutex::default(), Mutex::new([[0; 2]; objects::CLASSES]))
    }
}

/// The counts of the fetching thread; zeros without an origin.
fn fetch_counts(shared: &Shared) -> [u64; 4] {
    shared.fetches.as_ref().map_or([0; 4], |fetches| fetches.counts.all())
}

/// Serves `stats`, and returns the session's next state.
pub(super) fn serve(tokens: &Tokens<'_>, turn: &mut Turn<'_>) -> State {
    match tokens.get(1) {
        b"" => general(turn),
        b"reset" => {
            *turn.shared.memcached.stats.0.lock() =
                (turn.shared.counts(), turn.shared.items.store.stats(), fetch_counts(turn.shared));
            let mut since = turn.shared.memcached.stats.1.lock();
            for (since, class) in since.iter_mut().zip(turn.shared.items.store.classes()) {
                *since = [class.evicted, class.reclaimed];
            }
            drop(since);
            turn.shared.memcached.prefixes.lock().clear();
            reply(turn, b"RESET");
            return State::Command;
        }
        b"waits" => waits(turn),
        b"settings" => settings(turn),
        b"items" => items(turn),
        b"slabs" => slabs(turn),
        b"sizes" => stat(turn, "sizes_status", "disabled"),
        b"conns" => connections(turn),
        b"detail" => {
            detail(tokens.get(2), turn);
            return State::Command;
        }
        b"cachedump" => return cache_dump(tokens, turn),
        _ => {
            reply(turn, b"ERROR");
            return State::Command;
        }
    }
    reply(turn, b"END");
    State::Command
}

fn stat(turn: &mut Turn<'_>, name: &str, value: impl Display) {
    // Writing to a vector cannot fail.
    let _ = write!(turn.out, "STAT {name} {value}\r\n");
}

fn zeros(turn: &mut Turn<'_>, names: &[&str]) {
    for name in names {
        stat(turn, name, 0);
    }
}

fn general(turn: &mut Turn<'_>) {
    let shared = turn.shared;
    let (since, since_store, _) = *shared.memcached.stats.0.lock();
    let (all, now) = (shared.counts(), shared.items.store.stats());
    let clock = &shared.items.clock;
    stat(turn, "pid", std::process::id());
    stat(turn, "uptime", turn.now_ms / 1000);
    stat(turn, "time", clock.unix());
    stat(turn, "version", concat!("1.6.18-frazil-", env!("CARGO_PKG_VERSION")));
    stat(turn, "libevent", "none");
    stat(turn, "pointer_size", usize::BITS);
    let (user, system) = processor_time();
    stat(turn, "rusage_user", format_args!("{user:.6}"));
    stat(turn, "rusage_system", format_args!("{system:.6}"));
    stat(turn, "max_connections", shared.settings.limits.connections);
    let connected = shared.connections.open();
    stat(turn, "curr_connections", connected);
    stat(turn, "total_connections", all.connections - since.connections);
    stat(turn, "rejected_connections", all.rejected - since.rejected);
    stat(turn, "connection_structures", connected);
    zeros(turn, &["response_obj_oom", "response_obj_count", "response_obj_bytes"]);
    stat(turn, "read_buf_count", shared.settings.threads);
    stat(turn, "read_buf_bytes", shared.settings.threads * crate::worker::READ_BYTES);
    zeros(turn, &["read_buf_bytes_free", "read_buf_oom", "reserved_fds"]);
    commands(turn, &since, &since_store);
    stat(turn, "bytes_read", all.bytes_read - since.bytes_read);
    stat(turn, "bytes_written", all.bytes_written - since.bytes_written);
    stat(turn, "limit_maxbytes", shared.settings.memory_bytes);
    stat(turn, "accepting_conns", 1);
    zeros(turn, &["listen_disabled_num", "time_in_listen_disabled_us"]);
    stat(turn, "threads", shared.settings.threads);
    stat(turn, "conn_yields", all.yields - since.yields);
    stat(turn, "hash_power_level", now.index_lines.max(1).ilog2() + 3);
    stat(turn, "hash_bytes", u64::from(now.index_segments) * now.segment_bytes as u64);
    zeros(turn, &["hash_is_expanding", "slab_reassign_rescues", "slab_reassign_chunk_rescues"]);
    zeros(turn, &["slab_reassign_evictions_nomem", "slab_reassign_inline_reclaim"]);
    zeros(turn, &["slab_reassign_busy_items", "slab_reassign_busy_deletes"]);
    zeros(turn, &["slab_reassign_running", "slabs_moved", "malloc_fails", "log_worker_dropped"]);
    zeros(turn, &["log_worker_written", "log_watcher_skipped", "log_watcher_sent"]);
    zeros(turn, &["log_watchers", "unexpected_napi_ids", "round_robin_fallback"]);
    stat(turn, "bytes", now.live_bytes);
    stat(turn, "curr_items", now.items);
    stat(turn, "total_items", now.writes - since_store.writes);
    zeros(turn, &["slab_global_page_pool", "expired_unfetched", "evicted_unfetched"]);
    stat(turn, "evictions", now.evicted_items - since_store.evicted_items);
    stat(turn, "reclaimed", now.expired_items - since_store.expired_items);
    zeros(turn, &["crawler_reclaimed", "crawler_items_checked", "lrutail_reflocked"]);
}

/// Requests that wait, and fetches: apart from memcached's own counts, whose number its own tests check.
fn waits(turn: &mut Turn<'_>) {
    let shared = turn.shared;
    let (since, _, since_fetches) = *shared.memcached.stats.0.lock();
    let all = shared.counts();
    let (flights, waiters) = shared.items.flights.counts();
    stat(turn, "waits", all.waits - since.waits);
    stat(turn, "waits_late", all.late_waits - since.late_waits);
    stat(turn, "waits_refused", all.refused_waits - since.refused_waits);
    stat(turn, "curr_waiters", waiters);
    stat(turn, "curr_flights", flights);
    if shared.fetches.is_some() {
        let names = ["fetches", "fetches_failed", "fetches_absent", "fetches_uncacheable"];
        let counts = fetch_counts(shared).into_iter().zip(since_fetches);
        for (name, (now, since)) in names.into_iter().zip(counts) {
            stat(turn, name, now - since);
        }
        stat(turn, "fetches_refused", all.refused_fetches - since.refused_fetches);
    }
}

fn commands(turn: &mut Turn<'_>, since: &Counts, since_store: &Stats) {
    let (all, now) = (turn.shared.counts(), turn.shared.items.store.stats());
    stat(turn, "cmd_get", all.gets - since.gets);
    stat(turn, "cmd_set", all.sets - since.sets);
    stat(turn, "cmd_flush", all.flushes - since.flushes);
    stat(turn, "cmd_touch", all.touches - since.touches);
    stat(turn, "cmd_meta", all.metas - since.metas);
    stat(turn, "get_hits", all.get_hits - since.get_hits);
    stat(turn, "get_misses", all.get_misses - since.get_misses);
    stat(turn, "get_expired", now.expired_reads - since_store.expired_reads);
    stat(turn, "get_flushed", now.flushed_reads - since_store.flushed_reads);
    stat(turn, "delete_misses", all.delete_misses - since.delete_misses);
    stat(turn, "delete_hits", all.delete_hits - since.delete_hits);
    stat(turn, "incr_misses", all.incr_misses - since.incr_misses);
    stat(turn, "incr_hits", all.incr_hits - since.incr_hits);
    stat(turn, "decr_misses", all.decr_misses - since.decr_misses);
    stat(turn, "decr_hits", all.decr_hits - since.decr_hits);
    stat(turn, "cas_misses", all.cas_misses - since.cas_misses);
    stat(turn, "cas_hits", all.cas_hits - since.cas_hits);
    stat(turn, "cas_badval", all.cas_badval - since.cas_badval);
    stat(turn, "touch_hits", all.touch_hits - since.touch_hits);
    stat(turn, "touch_misses", all.touch_misses - since.touch_misses);
    stat(turn, "store_too_large", all.too_large - since.too_large);
    stat(turn, "store_no_memory", all.no_memory - since.no_memory);
    stat(turn, "auth_cmds", all.auths - since.auths);
    stat(turn, "auth_errors", all.auth_errors - since.auth_errors);
    if turn.shared.settings.limits.idle_seconds > 0 {
        stat(turn, "idle_kicks", all.idle_kicks - since.idle_kicks);
    }
}

fn settings(turn: &mut Turn<'_>) {
    let shared = turn.shared;
    let (settings, options) = (&shared.settings, &shared.settings.options);
    let yes = |is: bool| if is { "yes" } else { "no" };
    let shown = &options.shown;
    stat(turn, "maxbytes", settings.memory_bytes);
    stat(turn, "maxconns", settings.limits.connections);
    stat(turn, "tcpport", shown.port);
    stat(turn, "udpport", 0);
    stat(turn, "inter", shown.interface.as_deref().unwrap_or("NULL"));
    stat(turn, "verbosity", shared.memcached.verbosity.load(Relaxed));
    stat(turn, "oldest", 0);
    stat(turn, "evictions", if settings.evicts { "on" } else { "off" });
    stat(turn, "domain_socket", shown.socket.as_deref().unwrap_or("NULL"));
    stat(turn, "umask", format_args!("{:o}", shown.access));
    stat(turn, "shutdown_command", yes(options.shutdown));
    stat(turn, "num_threads", settings.threads);
    stat(turn, "stat_key_prefix", char::from(options.prefix_delimiter));
    stat(turn, "detail_enabled", yes(shared.memcached.counts_prefixes()));
    stat(turn, "cas_enabled", yes(options.cas));
    stat(turn, "tcp_backlog", settings.limits.backlog);
    stat(turn, "binding_protocol", shown.protocol);
    stat(turn, "auth_enabled_sasl", "no");
    let users = options.users.as_ref().map(|path| path.display().to_string());
    stat(turn, "auth_enabled_ascii", users.as_deref().unwrap_or("no"));
    stat(
        turn,
        "item_size_max",
        settings.limits.item_bytes.unwrap_or(turn.shared.shares.item_bytes),
    );
    stat(turn, "maxconns_fast", "yes");
    stat(turn, "slab_reassign", "no");
    stat(turn, "slab_automove", 0);
    stat(turn, "lru_crawler", "no");
    stat(turn, "flush_enabled", yes(options.flush));
    stat(turn, "dump_enabled", yes(options.dump));
    stat(turn, "hash_algorithm", "xxh3");
    stat(turn, "lru_maintainer_thread", "no");
    stat(turn, "lru_segmented", "no");
    stat(turn, "idle_timeout", settings.limits.idle_seconds);
    stat(turn, "track_sizes", "no");
}

fn items(turn: &mut Turn<'_>) {
    let counts = turn.shared.counts();
    let since = *turn.shared.memcached.stats.1.lock();
    first_class(&counts, turn);
    for (number, class) in classes(turn) {
        let [evicted, reclaimed] = since[number];
        let shown = [
            ("number", class.items),
            ("mem_requested", class.bytes),
            ("evicted", class.evicted - evicted),
            ("outofmemory", 0),
            ("reclaimed", class.reclaimed - reclaimed),
        ];
        for (name, value) in shown {
            stat(turn, &format!("items:{number}:{name}"), value);
        }
    }
}

/// Classes of large items that there are, with their numbers.
fn classes(turn: &Turn<'_>) -> impl Iterator<Item = (usize, ClassStats)> + use<> {
    let classes = turn.shared.items.store.classes();
    classes.into_iter().enumerate().filter(|(_, class)| class.items > 0)
}

fn first_class(counts: &Counts, turn: &mut Turn<'_>) {
    let store = turn.shared.items.store.stats_of_first_class();
    if store.items == 0 {
        return;
    }
    stat(turn, "items:1:number", store.items);
    stat(turn, "items:1:mem_requested", requested_bytes(&store));
    stat(turn, "items:1:evicted", store.evicted_items);
    stat(turn, "items:1:outofmemory", counts.no_memory);
    stat(turn, "items:1:reclaimed", store.expired_items);
}

/// Bytes of items, and of their lines in the index: memcached counts the links of items, which are in their headers.
fn requested_bytes(store: &Stats) -> u64 {
    store.live_bytes + LINE_BYTES * (store.index_lines + store.overflow_lines)
}

/// Size of a line of the index.
const LINE_BYTES: u64 = 64;

fn slabs(turn: &mut Turn<'_>) {
    let store = turn.shared.items.store.stats_of_first_class();
    let counts = turn.shared.counts();
    let used = store.segments - store.free_segments;
    if store.items > 0 {
        stat(turn, "1:chunk_size", store.segment_bytes);
        stat(turn, "1:total_pages", used);
        stat(turn, "1:used_chunks", store.items);
        stat(turn, "1:mem_requested", requested_bytes(&store));
        stat(turn, "1:get_hits", counts.get_hits);
        stat(turn, "1:cmd_set", counts.sets);
        stat(turn, "1:delete_hits", counts.delete_hits);
        stat(turn, "1:incr_hits", counts.incr_hits);
        stat(turn, "1:decr_hits", counts.decr_hits);
        stat(turn, "1:cas_hits", counts.cas_hits);
        stat(turn, "1:cas_badval", counts.cas_badval);
        stat(turn, "1:touch_hits", counts.touch_hits);
    }
    let mut active = usize::from(store.items > 0);
    for (number, class) in classes(turn) {
        active += 1;
        let shown = [
            ("chunk_size", class.chunk_bytes as u64),
            ("used_chunks", class.items),
            ("mem_requested", class.bytes),
        ];
        for (name, value) in shown {
            stat(turn, &format!("{number}:{name}"), value);
        }
    }
    stat(turn, "active_slabs", active);
    stat(turn, "total_malloced", u64::from(used) * store.segment_bytes as u64);
}

/// The listening sockets. Connections belong to their threads, which only count them.
fn connections(turn: &mut Turn<'_>) {
    for (number, address) in turn.shared.addresses.iter().enumerate() {
        let shown = match address {
            Address::Tcp(address) => format!("tcp:{address}"),
            Address::Unix(path) => format!("unix:{}", path.display()),
        };
        stat(turn, &format!("{number}:addr"), shown);
        stat(turn, &format!("{number}:state"), "conn_listening");
    }
}

fn detail(what: &[u8], turn: &mut Turn<'_>) {
    let memcached = &turn.shared.memcached;
    match what {
        b"on" | b"off" => {
            memcached.detail.store(what == b"on", Relaxed);
            reply(turn, b"OK");
        }
        b"dump" => {
            memcached.prefixes.lock().dump(turn.out);
            reply(turn, b"END");
        }
        _ => reply(turn, b"CLIENT_ERROR usage: stats detail on|off|dump"),
    }
}

/// The work that a step of a dump counts for. It looks at about ten entries, which takes microseconds whether they
/// are shown or not.
const STEP_BYTES: usize = 4 << 10;

/// The position of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dump {
    cursor: u64,
    /// `Some`: the items that `stats cachedump` may still show; `None`: `lru_crawler metadump`.
    left: Option<u32>,
}

fn cache_dump(tokens: &Tokens<'_>, turn: &mut Turn<'_>) -> State {
    let error = if !turn.shared.settings.options.dump {
        b"CLIENT_ERROR stats cachedump not allowed"
    } else if tokens.count < 4 {
        &b"CLIENT_ERROR bad command line"[..]
    } else {
        match (number::unsigned_32(tokens.get(2)), number::unsigned_32(tokens.get(3))) {
            (Some(0..64), Some(limit)) => {
                let left = Some(if limit == 0 { u32::MAX } else { limit });
                return State::Dump(Dump { cursor: 0, left });
            }
            (Some(_), Some(_)) => b"CLIENT_ERROR Illegal slab id",
            _ => BAD_FORMAT,
        }
    };
    reply(turn, error);
    State::Command
}

/// Serves `lru_crawler`, and returns the session's next state.
pub(super) fn crawler(tokens: &Tokens<'_>, turn: &mut Turn<'_>) -> State {
    let line = match (tokens.get(1), tokens.count) {
        (b"metadump", 3) if !turn.shared.settings.options.dump => {
            &b"ERROR metadump not allowed"[..]
        }
        (b"metadump", 3) => match tokens.get(2) {
            b"all" | b"hash" | b"1" => return State::Dump(Dump { cursor: 0, left: None }),
            _ => b"BADCLASS invalid class id",
        },
        (b"crawl" | b"tocrawl" | b"sleep", 3) | (b"enable" | b"disable", 2) => {
            b"CLIENT_ERROR lru crawler disabled"
        }
        _ => b"ERROR",
    };
    reply(turn, line);
    State::Command
}

/// Dumps some more entries.
pub(super) fn go_on(dump: Dump, turn: &mut Turn<'_>) -> State {
    let Dump { cursor, mut left } = dump;
    let shared = turn.shared;
    let next = shared.items.store.scan_with(cursor, |entry| match &mut left {
        None => metadump(entry, turn),
        Some(0) => {}
        Some(left) => {
            *left -= 1;
            cachedump(entry, turn);
        }
    });
    turn.spend(STEP_BYTES);
    match next {
        Some(cursor) if left != Some(0) => State::Dump(Dump { cursor, left }),
        _ => {
            reply(turn, b"END");
            State::Command
        }
    }
}

/// The Unix time when an entry expires, in seconds.
fn end(entry: &Entry<'_>, turn: &Turn<'_>) -> Option<u64> {
    entry.lifetime.map(|left| turn.shared.items.clock.unix() + left.as_secs())
}

fn cachedump(entry: &Entry<'_>, turn: &mut Turn<'_>) {
    let end = end(entry, turn).unwrap_or(0);
    turn.out.extend_from_slice(b"ITEM ");
    if entry.marks & operate::BINARY != 0 {
        // It may hold any bytes, including an end of line.
        super::base64::encode(entry.key, turn.out);
    } else {
        turn.out.extend_from_slice(entry.key);
    }
    let _ = write!(turn.out, " [{} b; {end} s]\r\n", entry.value.len());
}

fn metadump(entry: &Entry<'_>, turn: &mut Turn<'_>) {
    let end = end(entry, turn).map_or(-1, |end| end as i64);
    let written = turn.shared.items.clock.started_unix() + entry.opened_ms / 1000;
    turn.out.extend_from_slice(b"key=");
    if entry.marks & operate::BINARY != 0 {
        super::base64::encode(entry.key, turn.out);
    } else {
        turn.out.extend(encoded(entry.key));
    }
    let fetched = if entry.requested { "yes" } else { "no" };
    let binary = if entry.marks & operate::BINARY != 0 { " b" } else { "" };
    let size = entry.key.len() + entry.value.len();
    let cas = entry.cas;
    let _ = writeln!(
        turn.out,
        " exp={end} la={written} cas={cas} fetch={fetched} cls=1 size={size}{binary}"
    );
}
