//! The counts of the server and its store, as a page for Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

pub(crate) use frazil_segment::prometheus::CONTENT_TYPE;

use crate::counters::Counts;
use crate::http::HttpCounts;
use crate::origin::FetchCounts;
use crate::server::Shared;

/// The family of counts by limit.
const LIMITED: &str = "frazil_server_limited_total";

/// The current page. It reads all segments of the store.
pub(crate) fn page(shared: &Shared) -> String {
    let mut page = shared.items.store.metrics();
    let counts = shared.counts();
    let mut counters = counters(&counts);
    counters.extend(shared.fetches.iter().flat_map(|fetches| fetch_counters(&fetches.counts)));
    counters.extend(shared.http.iter().flat_map(|http| http_counters(&http.counts)));
    let counters = counters.into_iter().map(|(name, help, value)| (name, help, "counter", value));
    let seconds = shared.items.clock.now_ms() / 1000;
    let (flights, waiters) = shared.items.flights.counts();
    let gauges = [
        (
            "frazil_server_connections",
            "Connections that are open.",
            shared.connections.open() as u64,
        ),
        (
            "frazil_server_connection_bytes",
            "Bytes of half requests and replies that are not sent.",
            shared.held_bytes.load(Relaxed) as u64,
        ),
        ("frazil_server_flights", "Keys whose value is being brought.", flights as u64),
        ("frazil_server_waiters", "Requests that wait for a value.", waiters as u64),
        ("frazil_server_uptime_seconds", "Seconds since the server started.", seconds),
    ];
    let of_http = shared.http.iter().flat_map(|http| {
        let under_way = http.under_way() as u64;
        [
            ("frazil_server_http_entries", "URLs stored.", http.cache.len() as u64),
            ("frazil_server_http_bytes", "Bytes of what is stored.", http.cache.weight()),
            ("frazil_server_http_flights", "Fetches of HTTP under way.", under_way),
        ]
    });
    let gauges = gauges.into_iter().chain(of_http);
    let gauges = gauges.map(|(name, help, value)| (name, help, "gauge", value));
    for (name, help, kind, value) in counters.chain(gauges) {
        // Writing to a string cannot fail.
        let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    }
    let (name, help) =
        (LIMITED, "Requests refused, connections closed and turns cut short, by limit.");
    let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} counter\n");
    for (limit, value) in limited(&counts) {
        let _ = writeln!(page, "{name}{{limit=\"{limit}\"}} {value}");
    }
    page
}

/// The counts of the fetching thread, if there is one.
fn fetch_counters(counts: &FetchCounts) -> [(&'static str, &'static str, u64); 4] {
    let [fetches, failed, absent, uncacheable] = counts.all();
    [
        ("frazil_server_fetches_total", "Fetches that ended, in any way.", fetches),
        ("frazil_server_fetches_failed_total", "Those without a value, for an error.", failed),
        ("frazil_server_fetches_absent_total", "Those of keys the origin has no value of.", absent),
        (
            "frazil_server_fetches_uncacheable_total",
            "Those whose value was not stored.",
            uncacheable,
        ),
    ]
}

/// The counts of fetches for HTTP, if it is served.
fn http_counters(counts: &HttpCounts) -> [(&'static str, &'static str, u64); 4] {
    [
        ("frazil_server_http_fetches_total", "Fetches of HTTP that ended.", &counts.fetches),
        ("frazil_server_http_fetches_failed_total", "Those without a response.", &counts.failed),
        (
            "frazil_server_http_validated_total",
            "Those that found what is stored to hold.",
            &counts.validated,
        ),
        ("frazil_server_http_stored_total", "Responses stored.", &counts.stored),
    ]
    .map(|(name, help, count)| (name, help, count.load(Relaxed)))
}

macro_rules! named {
    ($counts:ident, [$($limited:ident),* $(,)?], $($field:ident $name:literal $help:literal),* $(,)?) => {{
        // Without `..`, so that a new count without a name here does not compile.
        let Counts { $($field,)* $($limited: _),* } = *$counts;
        vec![$((concat!("frazil_server_", $name), $help, $field)),*]
    }};
}

/// Names, help texts and values.
#[rustfmt::skip]
fn counters(counts: &Counts) -> Vec<(&'static str, &'static str, u64)> {
    named!(counts,
        // Those of `limited`.
        [rejected, idle_kicks, slow_kicks, full_kicks, long_lines, long_keys, too_large, many_arguments, large_requests,
         large_transactions, many_watched, full_pipelines, full_replies, refused_waits, refused_fetches],
        gets "gets_total" "Keys looked up.",
        get_hits "get_hits_total" "Keys that were found.",
        get_misses "get_misses_total" "Keys that were not found.",
        sets "sets_total" "Requests that store a value.",
        flushes "flushes_total" "Requests to drop everything.",
        touches "touches_total" "Requests that change a lifetime.",
        touch_hits "touch_hits_total" "Those that found their key.",
        touch_misses "touch_misses_total" "Those that did not.",
        metas "meta_requests_total" "Requests of memcached's meta protocol.",
        delete_hits "delete_hits_total" "Deletions of a key that was there.",
        delete_misses "delete_misses_total" "Deletions of a key that was not.",
        incr_hits "incr_hits_total" "Numbers increased.",
        incr_misses "incr_misses_total" "Numbers to increase that were not there.",
        decr_hits "decr_hits_total" "Numbers decreased.",
        decr_misses "decr_misses_total" "Numbers to decrease that were not there.",
        cas_hits "cas_hits_total" "Values stored because the number for cas was right.",
        cas_misses "cas_misses_total" "Values not stored because the key was not there.",
        cas_badval "cas_mismatches_total" "Values not stored because the number for cas was another.",
        no_memory "no_memory_total" "Values refused for want of memory.",
        auths "authentications_total" "Clients that gave a name and a password.",
        auth_errors "authentication_errors_total" "Those that were refused.",
        denied "denied_total" "Requests that their user may not make.",
        connections "accepted_total" "Connections accepted.",
        binary "binary_closed_total" "Connections closed because they speak memcached's binary protocol.",
        handshakes "tls_handshakes_total" "Handshakes of TLS that were made.",
        tls_errors "tls_errors_total" "Connections closed for a handshake that failed, or what was not TLS.",
        waits "waits_total" "Requests that waited for a value.",
        late_waits "late_waits_total" "Those whose time was over.",
        http_requests "http_requests_total" "Requests of HTTP.",
        http_hits "http_hits_total" "Those answered with what is stored.",
        http_stale "http_stale_total" "Those answered with what is stale, while it is fetched anew.",
        http_collapsed "http_collapsed_total" "Those that waited for another's fetch.",
        http_refused "http_refused_total" "Requests of HTTP that were not understood.",
        bytes_read "read_bytes_total" "Bytes that clients have sent.",
        bytes_written "written_bytes_total" "Bytes sent to clients.",
        yields "yields_total" "Turns in which a connection had more to do than fits into one.",
    )
}

/// The limit of each count, and the count.
#[rustfmt::skip]
fn limited(counts: &Counts) -> [(&'static str, u64); 15] {
    [
        ("connections", counts.rejected),
        ("idle", counts.idle_kicks),
        ("request_time", counts.slow_kicks),
        ("memory", counts.full_kicks),
        ("line", counts.long_lines),
        ("key", counts.long_keys),
        ("item", counts.too_large),
        ("arguments", counts.many_arguments),
        ("request", counts.large_requests),
        ("transaction", counts.large_transactions),
        ("watched", counts.many_watched),
        ("pipeline", counts.full_pipelines),
        ("replies", counts.full_replies),
        ("waiters", counts.refused_waits),
        ("fetches", counts.refused_fetches),
    ]
}
