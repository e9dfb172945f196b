//! Limits, and the replies beyond them.

use std::io::Write as _;
use std::time::Duration;

use frazil_server::{Address, Limits, Options, Server, Settings};

use crate::client::{Client, limits, request, requests, settings, shown, start};

#[test]
fn long_keys_and_values_are_refused_and_nothing_is_changed() {
    let server = start();
    let mut client = Client::new(&server);
    let key = "k".repeat(256);
    client.expect(&format!("SET {key} v\nGET {key}\nDEL {key}\nSETEX {key} 9 v\nINCR {key}\nMSET a 1 {key} v\nGET a"),
        "-ERR the key is longer than 255 bytes $-1 :0 -ERR the key is longer than 255 bytes \
        -ERR the key is longer than 255 bytes -ERR the key is longer than 255 bytes $-1");
    let longest = "k".repeat(255);
    client.expect(&format!("SET {longest} v\nGET {longest}"), "+OK $1 v");
    let value = "v".repeat(1 << 20);
    client.expect(
        &format!("SET a old\nSET a {value}\nGET a"),
        "+OK -ERR string exceeds maximum allowed size \
        (an item has no more than 1 MiB) $3 old",
    );
    client.expect(
        &format!("APPEND a {}\nAPPEND a {}\nSTRLEN a", &value[..600_000], &value[..600_000]),
        ":600003 -ERR string exceeds maximum allowed size (an item has no more than 1 MiB) :600003",
    );
}

/// A request of more than half the share for buffers is skipped as it arrives.
#[test]
fn a_request_that_is_too_large_is_skipped() {
    let server = start();
    let mut client = Client::new(&server);
    let value = "v".repeat(3 << 20);
    client.expect(
        &format!("SET a 1\nSET a {value}\nGET a"),
        "+OK -ERR the request has more than 1180672 bytes $1 1",
    );
    let pairs = format!("k {} ", "v".repeat(1000)).repeat(2000);
    client.expect(
        &format!("MSET {pairs}\nGET k\nPING"),
        "-ERR the request has more than 1180672 bytes $-1 +PONG",
    );
    client.expect(
        &format!("MULTI\nSET a {value}\nEXEC"),
        "+OK -ERR the request has more than 1180672 bytes \
        -EXECABORT Transaction discarded because of previous errors.",
    );
}

/// Also if it keeps sending.
#[test]
fn a_skipped_request_that_does_not_end_is_closed() {
    for turn_requests in [0, 1] {
        not_ended(Limits { request_seconds: 10, turn_requests, ..limits() });
    }
}

fn not_ended(limits: Limits) {
    let options = Options { debug: true, ..Options::default() };
    let memcached = vec!["127.0.0.1:0".parse().unwrap()];
    let server = Server::start(Settings { memcached, options, limits, ..settings() }).unwrap();
    let Address::Tcp(clock) = &server.addresses()[0] else { panic!("no port") };
    let mut clock = Client::at(*clock);
    for begin in ["*3\r\n$3\r\nSET\r\n$1\r\na\r\n$500000000\r\n", "*1000000\r\n$500000000\r\n"] {
        let mut slow = Client::new(&server);
        slow.send(begin.as_bytes());
        for _ in 0..4 {
            clock.send(b"debugtime 4\r\n");
            assert_eq!(clock.until(b"\r\n"), b"OK");
            // It may be closed already.
            let _ = slow.stream.write_all(b"v");
            clock.send(b"mn\r\n");
            assert_eq!(clock.until(b"\r\n"), b"MN");
        }
        // Before the time of a request has passed since the last byte.
        slow.stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
        assert_eq!(slow.rest(), b"", "{begin}");
    }
}

#[test]
fn malformed_requests_end_the_connection() {
    let server = start();
    let ends = |bytes: &[u8], reply: &str| {
        let mut client = Client::new(&server);
        client.send(bytes);
        assert_eq!(shown(&client.rest()), reply, "{}", bytes[..bytes.len().min(50)].escape_ascii());
    };
    ends(b"*3000000000\r\n", "-ERR Protocol error: invalid multibulk length");
    ends(b"*1048577\r\n", "-ERR Protocol error: invalid multibulk length");
    ends(b"*x\r\n", "-ERR Protocol error: invalid multibulk length");
    ends(b"*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'");
    ends(b"*1\r\n\xff", "-ERR Protocol error: expected '$', got '\\u{ff}'");
    ends(b"*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length");
    ends(b"*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length");
    ends(b"*1\r\n$4\r\nPING\r\n*1\r\n$x\r\n", "+PONG -ERR Protocol error: invalid bulk length");
    ends(b"GET \"a\r\n", "-ERR Protocol error: unbalanced quotes in request");
    ends(&[b'a'; 70_000], "-ERR Protocol error: too big inline request");
    ends(&[&b"*"[..], &[b'1'; 70_000]].concat(), "-ERR Protocol error: too big mbulk count string");
    ends(
        &[&b"*1\r\n$"[..], &[b'1'; 70_000]].concat(),
        "-ERR Protocol error: too big bulk count string",
    );
    ends(b"POST / HTTP/1.1\r\nHost: x\r\n", "");
}

#[test]
fn a_transaction_is_bounded() {
    let server = start();
    let mut client = Client::new(&server);
    let value = "v".repeat(500_000);
    client.expect(
        &format!("MULTI\nSET a {value}\nSET b {value}\nSET c {value}\nEXEC\nEXISTS a"),
        "+OK +QUEUED +QUEUED \
        -ERR a transaction has no more than 1180672 bytes \
        -EXECABORT Transaction discarded because of previous errors. :0",
    );
    // Too many replies end the connection, and the changes stay.
    client.expect(&format!("SET a {value}"), "+OK");
    client.send(&requests("MULTI\nGET a\nMGET a a a\nSET done 1\nEXEC"));
    assert_eq!(shown(&client.rest()), "+OK +QUEUED +QUEUED +QUEUED");
    Client::new(&server).expect("GET done", "$1 1");
}

#[test]
fn watched_keys_and_patterns_are_bounded() {
    let server = start();
    let mut client = Client::new(&server);
    let keys: Vec<String> = (0..4097).map(|number| format!("k{number}")).collect();
    client.expect(
        &format!("WATCH {}\nUNWATCH", keys.join(" ")),
        "-ERR a connection watches no more than 4096 \
        keys +OK",
    );
    let pattern = "a*".repeat(2049);
    client.expect(
        &format!("KEYS {pattern}\nSCAN 0 MATCH {pattern}"),
        "-ERR the pattern is longer than 4096 bytes \
        -ERR the pattern is longer than 4096 bytes",
    );
    let long = "v".repeat(3000);
    client.expect(
        &format!("SET a {long}\nSET b {long}\nLCS a b"),
        "+OK +OK -ERR Insufficient memory, transient \
        memory for LCS exceeds its bound",
    );
    for number in 0..6000 {
        client.send(&request(&["SET", &format!("{number:0200}"), "v"]));
    }
    client.ask(b"");
    client.expect("KEYS *\nPING", "-ERR the keys are too many for one reply: use SCAN +PONG");
}

#[test]
fn connections_are_bounded() {
    let limits = Limits { connections: 1, ..limits() };
    let server = Server::start(Settings { limits, ..settings() }).unwrap();
    let mut client = Client::new(&server);
    client.expect("PING", "+PONG");
    assert_eq!(shown(&Client::new(&server).rest()), "-ERR max number of clients reached");
}

/// A client that sends without reading is not answered without end.
#[test]
fn unread_replies_pause_their_connection() {
    let server = start();
    let mut client = Client::new(&server);
    let value = "v".repeat(100_000);
    client.expect(&format!("SET a {value}"), "+OK");
    let many = requests("GET a").repeat(1000);
    let mut reader = client.stream.try_clone().unwrap();
    let sent = std::thread::spawn(move || {
        use std::io::Write as _;
        client.stream.write_all(&many).map(|()| client)
    });
    std::thread::sleep(std::time::Duration::from_millis(100));
    Client::new(&server).expect("PING", "+PONG");
    let mut left = 1000 * (value.len() + "$100000\r\n\r\n".len());
    let mut buffer = vec![0; 1 << 20];
    while left > 0 {
        left -= std::io::Read::read(&mut reader, &mut buffer).unwrap();
    }
    sent.join().unwrap().unwrap().expect("PING", "+PONG");
}

/// An inline request may name a value thousands of times. It is refused before its replies take memory.
#[test]
fn a_line_of_words_with_too_many_replies_is_refused() {
    let server = start();
    let mut client = Client::new(&server);
    client.expect(&format!("SET a {}", "v".repeat(900_000)), "+OK");
    let line = format!("mget {}\r\n", "a ".repeat(300));
    let replies = client.ask(line.as_bytes());
    assert_eq!(shown(&replies), "-ERR too many replies to a line of words: send MGET as an array");
    let one = client.ask(b"mget a none\r\n");
    assert!(one.starts_with(b"*2\r\n$900000\r\n") && one.ends_with(b"\r\n$-1\r\n"));
}

#[test]
fn a_client_that_ends_itself_is_served_no_more() {
    let server = start();
    let mut client = Client::new(&server);
    client.expect("CLIENT ID", ":1");
    client.send(&requests("CLIENT KILL ID 1 SKIPME no\nSET after 1\nGET after"));
    assert_eq!(client.rest(), b":1\r\n");
    Client::new(&server).expect("GET after\nRANDOMKEY\nRANDOMKEY", "$-1 $-1 $-1");
}

#[test]
fn lengths_with_leading_zeros_are_malformed() {
    let server = start();
    let mut client = Client::new(&server);
    client.send(b"*1\r\n$04\r\nPING\r\n");
    assert_eq!(client.rest(), b"-ERR Protocol error: invalid bulk length\r\n");
}
