//! Random bytes and malformed requests.

use std::io::Write as _;

use frazil_server::Settings;
use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::client::{Client, requests, shown};
use crate::origin::{Answer, TestOrigin, until};

const WORDS: [&str; 102] = [
    "get",
    "SET",
    "mget",
    "mset",
    "msetnx",
    "append",
    "incr",
    "incrby",
    "incrbyfloat",
    "decrby",
    "setrange",
    "getrange",
    "substr",
    "setbit",
    "getbit",
    "bitcount",
    "lcs",
    "expire",
    "pexpire",
    "expireat",
    "ttl",
    "pttl",
    "persist",
    "getex",
    "getdel",
    "getset",
    "keys",
    "scan",
    "randomkey",
    "rename",
    "renamenx",
    "copy",
    "del",
    "exists",
    "type",
    "object",
    "multi",
    "exec",
    "discard",
    "watch",
    "unwatch",
    "hello",
    "auth",
    "client",
    "info",
    "config",
    "command",
    "reset",
    "echo",
    "ping",
    "flushall",
    "dbsize",
    "time",
    "select",
    "strlen",
    "setex",
    "psetex",
    "nx",
    "xx",
    "gt",
    "lt",
    "get",
    "ex",
    "px",
    "exat",
    "keepttl",
    "list",
    "id",
    "kill",
    "reply",
    "getlease",
    "tracking",
    "caching",
    "trackinginfo",
    "on",
    "off",
    "optin",
    "optout",
    "bcast",
    "prefix",
    "redirect",
    "noloop",
    "yes",
    "no",
    "2",
    "3",
    "hotkeys",
    "start",
    "stop",
    "metrics",
    "net",
    "sample",
    "a",
    "b",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "1e400",
    "*",
    "",
];

fn random_requests(random: &mut impl Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..60 {
        let words: Vec<&str> = (0..=random.random_range(0..6))
            .map(|_| WORDS[random.random_range(0..WORDS.len())])
            .collect();
        match random.random_range(0..10) {
            0 => bytes.extend(format!("{}\r\n", words.join(" ")).into_bytes()),
            _ => bytes.extend(crate::client::request(&words)),
        }
    }
    // Some contain random bytes, so that lengths and heads are wrong.
    for _ in 0..random.random_range(0..6u32).saturating_sub(2) {
        let at = random.random_range(0..bytes.len());
        bytes[at] = random.random();
    }
    bytes
}

/// After a panic its thread would answer no more; a miscount would leave clients waiting for ever.
#[test]
fn the_server_survives_random_requests() {
    let origin = TestOrigin::open(|path| match path {
        "/a" => Answer::With(200, "", b"value".to_vec()),
        "/b" => Answer::With(200, "Cache-Control: no-store\r\n", b"once".to_vec()),
        "/*" => Answer::Closing("HTTP/1.1"),
        _ => Answer::With(404, "", Vec::new()),
    });
    for threads in [1, 2, 3] {
        let change = |settings: &mut Settings| {
            settings.threads = threads;
            settings.origin = settings.origin.take().filter(|_| threads > 1);
        };
        let server = origin.server(change);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for _ in 0..400 {
            let mut client = Client::new(&server);
            // The server may have closed it already.
            let _ = client.stream.write_all(&random_requests(&mut random));
            let _ = client.stream.shutdown(std::net::Shutdown::Write);
            client.rest();
        }
        let mut client = Client::new(&server);
        client.expect("CONFIG SET maxmemory 0\nFLUSHALL\nSTRLEN a", "+OK +OK :0");
        until("nobody waits or keeps copies", || {
            let clients = shown(&Client::new(&server).ask(&requests("INFO clients")));
            clients.contains("tracking_clients:0 blocked_clients:0")
        });
    }
}
