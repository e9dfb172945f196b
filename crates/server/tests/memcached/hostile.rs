//! Random bytes and malformed requests.

use std::cell::RefCell;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use frazil_server::{Address, Server, Settings};
use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::client::{Client, settings};
use crate::origin::{Answer, TestOrigin, until};

const WORDS: [&[u8]; 42] = [
    b"get",
    b"gets",
    b"gat",
    b"set",
    b"add",
    b"append",
    b"cas",
    b"incr",
    b"decr",
    b"delete",
    b"touch",
    b"mg",
    b"ms",
    b"md",
    b"ma",
    b"me",
    b"mn",
    b"stats",
    b"flush_all",
    b"verbosity",
    b"a",
    b"b",
    b"0",
    b"1",
    b"-1",
    b"4294967296",
    b"18446744073709551615",
    b"99999999999999999999",
    b"noreply",
    b"v",
    b"k",
    b"b",
    b"T30",
    b"N10",
    b"w5",
    b"w40",
    b"C0",
    b"I",
    b"q",
    b"MA",
    b"\0\xff\x80",
    b"lru_crawler metadump all",
];

fn random_requests(random: &mut impl Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..40 {
        for _ in 0..random.random_range(0..8) {
            bytes.extend_from_slice(WORDS[random.random_range(0..WORDS.len())]);
            bytes.push(b' ');
        }
        let ends: [&[u8]; 5] = [b"\r\n", b"\n", b"\r\nvalue\r\n", b"\0\r\n", b" 5\r\nvalue\r\n"];
        bytes.extend_from_slice(ends[random.random_range(0..ends.len())]);
    }
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..bytes.len());
        bytes[at] = random.random();
    }
    bytes
}

/// After a panic its thread would answer no more.
#[test]
fn the_server_survives_random_requests() {
    let server = Server::start(settings()).unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..600 {
        let mut client = Client::new(&server);
        // The server may have closed it already.
        let _ = client.stream.write_all(&random_requests(&mut random));
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        client.rest();
    }
    Client::new(&server).expect("flush_all\r\nget a\r\n", "OK\r\nEND\r\n");
}

/// Many connections, whose requests wait for each other and for an erratic origin. Some never read.
#[test]
fn random_requests_leave_no_waits() {
    let mood = AtomicU64::new(0);
    let origin = TestOrigin::open(move |path| match mood.fetch_add(1, Relaxed) % 7 {
        0 => Answer::With(404, "", Vec::new()),
        1 => Answer::With(200, "Cache-Control: private\r\n", path.as_bytes().to_vec()),
        2 => Answer::Closing("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
        3 => Answer::With(500, "", Vec::new()),
        _ => Answer::With(200, "Cache-Control: max-age=1\r\n", path.as_bytes().to_vec()),
    });
    let server = origin.server(|settings| settings.origin.as_mut().unwrap().absent_seconds = 0);
    std::thread::scope(|scope| {
        for seed in 1..5 {
            let server = &server;
            scope.spawn(move || {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                for _ in 0..60 {
                    let mut client = Client::new(server);
                    // A key of its own: only the end of its winner passes the lease on.
                    client.send(b"mg leased v N10 w40\r\n");
                    let _ = client.stream.write_all(&random_requests(&mut random));
                    if random.random_range(0..3) > 0 {
                        let _ = client.stream.shutdown(std::net::Shutdown::Write);
                        client.rest();
                    }
                }
            });
        }
    });
    let client = RefCell::new(Client::new(&server));
    for name in ["curr_waiters", "curr_flights"] {
        until(name, || client.borrow_mut().stat(name) == 0);
    }
    let mut client = client.into_inner();
    assert!(client.stat("waits") > 100 && client.stat("fetches") > 100);
    client.expect("set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn a_browser_is_hung_up_on() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    client.send(b"GET / HTTP/1.1\r\nset a 0 0 1\r\nx\r\n");
    assert_eq!(client.rest(), b"");
    Client::new(&server).expect("get a\r\n", "END\r\n");
}

/// Its clients would wait for ever for a reply that they understand. Operators are told of the first.
#[test]
fn the_binary_protocol_is_counted_and_noted_once() {
    static NOTES: AtomicU64 = AtomicU64::new(0);
    fn note(text: &str) {
        assert!(text.contains("binary protocol"), "{text}");
        NOTES.fetch_add(1, Relaxed);
    }
    let admin = vec!["127.0.0.1:0".parse().unwrap()];
    let server = Server::start(Settings { note, admin, ..settings() }).unwrap();
    for _ in 0..3 {
        let mut client = Client::new(&server);
        client.send(&[&[0x80][..], &[0; 23]].concat());
        assert_eq!(client.rest(), b"");
    }
    let Some(Address::Tcp(admin)) = server.addresses().last() else { panic!("no port") };
    let mut page = Client::at(*admin);
    page.send(b"GET /metrics HTTP/1.1\r\n\r\n");
    let page = String::from_utf8(page.rest()).unwrap();
    assert!(page.contains("\nfrazil_server_binary_closed_total 3\n"), "{page}");
    assert_eq!(NOTES.load(Relaxed), 1);
}
