//! The counts of the server and its store, as a page for Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

pub(crate) use frazil_segment::prometheus::CONTENT_TYPE;

use crate::counters::Counts;
use crate::http::HttpCounts;
use crate::origin::FetchCounts;
use crate::server::Shared;

/// The current page. It reads all segments of the store.
pub(crate) fn page(shared: &Shared) -> String {
    let mut page = shared.items.store.metrics();
    let mut counters = counters(&shared.counts());
    counters.extend(shared.fetches.iter().flat_map(|fetches| fetch_counters(&fetches.counts)));
    counters.extend(shared.http.iter().flat_map(|http| http_counters(&http.counts)));
    let counters = counters.into_iter().map(|(name, help, value)| (name, help, "counter", value));
    let seconds = shared.items.clock.now_ms() / 1000;
    let (flights, waiters) = shared.items.flights.counts();
    let gauges = [
        (
            "frazil_server_connections",
            "Connections that are open.",
            shared.connections.load(Relaxed) as u64,
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
    ($counts:ident, $($field:ident $name:literal $help:literal),* $(,)?) => {{
        // Without `..`, so that a new count without a name here does not compile.
        let Counts { $($field),* } = *$counts;
        vec![$((concat!("frazil_server_", $name), $help, $field)),*]
    }};
}

/// Names, help texts and values.
#[rustfmt::skip]
fn counters(counts: &Counts) -> Vec<(&'static str, &'static str, u64)> {
    named!(counts,
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
        too_large "too_large_total" "Values refused for their size.",
        no_memory "no_memory_total" "Values refused for want of memory.",
        auths "authentications_total" "Clients that gave a name and a password.",
        auth_errors "authentication_errors_total" "Those that were refused.",
        denied "denied_total" "Requests that their user may not make.",
        connections "accepted_total" "Connections accepted.",
        rejected "rejected_total" "Connections refused for their number.",
        binary "binary_closed_total" "Connections closed because they speak memcached's binary protocol.",
        handshakes "tls_handshakes_total" "Handshakes of TLS that were made.",
        tls_errors "tls_errors_total" "Connections closed for a handshake that failed, or what was not TLS.",
        idle_kicks "idle_closed_total" "Connections closed that sent no request for too long.",
        slow_kicks "slow_closed_total" "Connections closed whose request or replies took too long.",
        full_kicks "full_closed_total" "Connections closed for the memory they held.",
        waits "waits_total" "Requests that waited for a value.",
        late_waits "late_waits_total" "Those whose time was over.",
        refused_waits "refused_waits_total" "Requests that did not wait, because too many do.",
        refused_fetches "refused_fetches_total" "Fetches not begun, because too many are under way.",
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
