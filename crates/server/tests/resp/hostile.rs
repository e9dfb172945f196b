//! Random bytes and malformed requests.

use std::io::Write as _;

use frazil_server::Settings;

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

/// A small generator with a fixed seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }

    fn requests(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..60 {
            let words: Vec<&str> =
                (0..=self.below(6)).map(|_| WORDS[self.below(WORDS.len())]).collect();
            match self.below(10) {
                0 => bytes.extend(format!("{}\r\n", words.join(" ")).into_bytes()),
                _ => bytes.extend(crate::client::request(&words)),
            }
        }
        // Some contain random bytes, so that lengths and heads are wrong.
        for _ in 0..self.below(6).saturating_sub(2) {
            let at = self.below(bytes.len());
            bytes[at] = self.below(256) as u8;
        }
        bytes
    }
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
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
        for _ in 0..400 {
            let mut client = Client::new(&server);
            // The server may have closed it already.
            let _ = client.stream.write_all(&chance.requests());
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
