//! Limits of the server, and its replies beyond them.

use std::io::Write as _;
use std::time::Duration;

use frazil_server::{Address, Limits, Server, Settings, StoreKind};

use crate::client::{Client, limits, settings, store};

fn limited(limits: Limits) -> Server {
    Server::start(Settings { limits, ..settings() }).unwrap()
}

#[test]
fn keys_lines_and_values_that_are_too_long_are_refused() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    let (longest, longer) = ("k".repeat(250), "k".repeat(251));
    client.expect(&format!("set {longest} 0 0 1\r\nv\r\n"), "STORED\r\n");
    let bad = "CLIENT_ERROR bad command line format\r\n";
    client.expect(&format!("get {longer}\r\n"), bad);
    client.expect(&format!("get {longest} {longer}\r\ndelete {longer}\r\n"), &bad.repeat(2));
    client.expect(&format!("mg {longer} v\r\ntouch {longer} 0\r\n"), &bad.repeat(2));
    client.send("x".repeat(2049).as_bytes());
    assert_eq!(client.rest(), b"", "a line of no end");
}

/// The old value is deleted too: it is older than what the client believes to be stored.
#[test]
fn a_value_that_is_too_large_is_skipped() {
    let server = limited(Limits { item_bytes: Some(10_000), ..limits() });
    let mut client = Client::new(&server);
    client.expect("set key 0 0 1\r\nv\r\n", "STORED\r\n");
    let value = "v".repeat(9_998);
    client.expect(
        &format!("set key 0 0 9998\r\n{value}\r\nget key\r\nms key 9998 q\r\n{value}\r\n"),
        "SERVER_ERROR object too large for cache\r\nEND\r\n\
         SERVER_ERROR object too large for cache\r\n",
    );
    client.expect(&format!("set key 0 0 9990\r\n{}\r\n", &value[8..]), "STORED\r\n");
    assert_eq!(client.stat("store_too_large"), 2);
}

#[test]
fn an_item_does_not_grow_beyond_the_limit() {
    let server = limited(Limits { item_bytes: Some(10_000), ..limits() });
    let mut client = Client::new(&server);
    let half = "v".repeat(5_000);
    client.expect(&format!("set key 0 0 5000\r\n{half}\r\n"), "STORED\r\n");
    for request in ["append key 0 0", "prepend key 0 0"] {
        client.expect(
            &format!("{request} 5000\r\n{half}\r\n"),
            "SERVER_ERROR object too large for cache\r\n",
        );
    }
    client.expect(&format!("append key 0 0 4997\r\n{}\r\n", &half[3..]), "STORED\r\n");
    client.expect("mg key s\r\n", "HD s9997\r\n");
}

/// At most as large as a segment, whatever the limit.
#[test]
fn an_item_fits_into_a_segment() {
    let server = limited(Limits { item_bytes: Some(64 << 20), ..limits() });
    let mut client = Client::new(&server);
    let large = 1 << 20;
    client.send(format!("set key 0 0 {large}\r\n{}\r\n", "v".repeat(large)).as_bytes());
    assert_eq!(client.ask(b""), b"SERVER_ERROR object too large for cache\r\n");
    let fits = large - 100;
    client.send(format!("set key 0 0 {fits}\r\n{}\r\n", "v".repeat(fits)).as_bytes());
    assert_eq!(client.ask(b""), b"STORED\r\n");
}

#[test]
fn a_connection_beyond_the_limit_is_told_and_closed() {
    let server = limited(Limits { connections: 2, ..limits() });
    let mut first = Client::new(&server);
    first.expect("version\r\nget a\r\n", &format!("{}END\r\n", version()));
    let mut second = Client::new(&server);
    second.ask(b"get a\r\n");
    assert_eq!(Client::new(&server).rest(), b"ERROR Too many open connections\r\n");
    assert_eq!(first.stat("rejected_connections"), 1);
    second.send(b"quit\r\n");
    assert_eq!(second.rest(), b"");
    while first.stat("curr_connections") > 1 {
        std::thread::yield_now();
    }
    Client::new(&server).ask(b"get a\r\n");
}

fn version() -> String {
    format!("VERSION 1.6.18-frazil-{}\r\n", env!("CARGO_PKG_VERSION"))
}

#[test]
fn idle_and_slow_connections_are_closed() {
    let limits = Limits { idle_seconds: 100, request_seconds: 10, ..limits() };
    let server = limited(limits);
    let (mut idle, mut slow) = (Client::new(&server), Client::new(&server));
    idle.ask(b"get a\r\n");
    slow.ask(b"get a\r\n");
    slow.send(b"set key 0 0 100\r\nhalf");
    let mut busy = Client::new(&server);
    // Until the partial request has been read.
    let read = busy.stat("bytes_read");
    while busy.stat("bytes_read") < read {}
    busy.expect("debugtime 20\r\n", "OK\r\n");
    assert_eq!(slow.rest(), b"");
    idle.expect("get a\r\n", "END\r\n");
    for _ in 0..2 {
        busy.expect("debugtime 60\r\n", "OK\r\n");
        busy.expect("get a\r\n", "END\r\n");
    }
    assert_eq!(idle.rest(), b"");
    assert!(busy.stat("idle_kicks") >= 1);
}

/// Also if it keeps sending: a value that is skipped, and a line that is not kept, have the time of a request.
#[test]
fn a_request_that_does_not_end_is_closed() {
    for turn_requests in [0, 1] {
        not_ended(&limited(Limits { request_seconds: 10, turn_requests, ..limits() }));
    }
}

fn not_ended(server: &Server) {
    let mut busy = Client::new(server);
    let keys = format!("get {}", "k ".repeat(2000));
    for begin in ["set a 0 0 2000000000\r\n", "ms a 2000000000\r\n", &keys] {
        let mut slow = Client::new(server);
        slow.send(begin.as_bytes());
        for _ in 0..4 {
            busy.expect("debugtime 4\r\n", "OK\r\n");
            // It may be closed already.
            let _ = slow.stream.write_all(b"k ");
            busy.expect("get a\r\n", "END\r\n");
        }
        // Before the time of a request has passed since the last byte.
        slow.stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
        let told = slow.rest();
        let refused = b"SERVER_ERROR object too large for cache\r\n";
        let is_told = told.is_empty() || told == refused;
        assert!(is_told, "{begin}: {}", told.escape_ascii());
    }
}

/// Each MiB has the time of a request.
#[test]
fn a_value_that_is_skipped_may_take_long() {
    let server = limited(Limits { request_seconds: 10, idle_seconds: 15, ..limits() });
    let (mut busy, mut slow) = (Client::new(&server), Client::new(&server));
    let piece = vec![b'v'; (1 << 20) + 100];
    slow.send(format!("set a 0 0 {}\r\n", 5 * piece.len() - 2).as_bytes());
    assert_eq!(slow.until(b"\r\n"), b"SERVER_ERROR object too large for cache");
    for _ in 0..5 {
        busy.expect("debugtime 8\r\n", "OK\r\n");
        let before = busy.stat("bytes_read");
        slow.send(&piece);
        while busy.stat("bytes_read") < before + (1 << 20) {}
    }
    slow.expect("get a\r\n", "END\r\n");
}

/// They are closed when together they exceed the limit, and nothing is evicted for them.
#[test]
fn clients_that_do_not_read_take_a_bounded_share_of_memory() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    let value = "v".repeat(900_000);
    client.expect(&format!("set big 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    for number in 0..2000 {
        client.expect(&format!("set key{number} 0 0 5\r\nvalue\r\n"), "STORED\r\n");
    }
    let deaf: Vec<Client> = (0..40)
        .map(|_| {
            let mut client = Client::new(&server);
            client.send("get big\r\n".repeat(20).as_bytes());
            client
        })
        .collect();
    let closed = |client: &Client| client.stream.peek(&mut [0]).is_ok();
    assert!(deaf.iter().all(closed));
    for number in 0..2000 {
        client.expect(
            &format!("get key{number}\r\n"),
            &format!("VALUE key{number} 0 5\r\nvalue\r\nEND\r\n"),
        );
    }
    assert_eq!(client.stat("evictions"), 0);
    let mut kicked = 0;
    for mut client in deaf {
        let whole = (900_000 + "VALUE big 0 900000\r\n\r\nEND\r\n".len()) * 20;
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        kicked += usize::from(client.rest().len() < whole);
    }
    // A share of 1 MiB holds the replies of one.
    assert!(kicked >= 30, "{kicked}");
}

#[test]
fn values_that_do_not_come_take_a_bounded_share_of_memory() {
    let server = Server::start(settings()).unwrap();
    let half = format!("set big 0 0 900000\r\n{}", "v".repeat(400_000));
    let mut clients: Vec<Client> = (0..20).map(|_| Client::new(&server)).collect();
    let mut failed = 0;
    for client in &mut clients {
        use std::io::Write as _;
        failed += usize::from(client.stream.write_all(half.as_bytes()).is_err());
    }
    Client::new(&server).expect("get big\r\n", "END\r\n");
    for mut client in clients {
        use std::io::Write as _;
        let _ = client.stream.write_all("v".repeat(500_000).as_bytes());
        let _ = client.stream.write_all(b"\r\nquit\r\n");
        failed += usize::from(client.rest() != b"STORED\r\n");
    }
    assert!(failed >= 10, "{failed}");
}

/// The threads of connections are random, so there are many attempts: clients that hold little must be served on
/// whichever threads those are that hold much.
#[test]
fn small_clients_are_served_whatever_others_hold() {
    for _ in 0..12 {
        let server = Server::start(Settings { threads: 2, ..settings() }).unwrap();
        let mut watcher = Client::new(&server);
        let mut half = |value: usize, sent: usize| {
            let mut client = Client::new(&server);
            let before = watcher.stat("bytes_read");
            client.send(format!("set k 0 0 {value}\r\n{}", "v".repeat(sent)).as_bytes());
            while watcher.stat("bytes_read") < before + sent as u64 {}
            client
        };
        let _large: Vec<Client> = (0..2).map(|_| half(1_000_000, 999_000)).collect();
        let small: Vec<Client> = (0..8).map(|_| half(20_000, 18_000)).collect();
        for mut client in small {
            client.send("v".repeat(2_000).as_bytes());
            client.expect("\r\n", "STORED\r\n");
        }
    }
}

#[test]
fn commands_turned_off_are_refused() {
    let options =
        frazil_server::Options { flush: false, dump: false, cas: false, ..settings().options };
    let server = Server::start(Settings { options, ..settings() }).unwrap();
    let mut client = Client::new(&server);
    client.expect("flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n");
    client.expect("lru_crawler metadump all\r\n", "ERROR metadump not allowed\r\n");
    client.expect("stats cachedump 1 1\r\n", "CLIENT_ERROR stats cachedump not allowed\r\n");
    client.expect("shutdown\r\n", "ERROR: shutdown not enabled\r\n");
    client.expect("set a 0 0 1\r\nx\r\ngets a\r\n", "STORED\r\nVALUE a 0 1 0\r\nx\r\nEND\r\n");
}

#[test]
fn connections_log_in_where_there_are_users() {
    let path = std::env::temp_dir().join(format!("frazil-users-{}", std::process::id()));
    std::fs::write(&path, "foo:bar\nother:secret\n").unwrap();
    let options = frazil_server::Options { users: Some(path.clone()), ..settings().options };
    let server = Server::start(Settings { options, ..settings() }).unwrap();
    std::fs::remove_file(path).unwrap();
    let mut client = Client::new(&server);
    let refused = "CLIENT_ERROR unauthenticated\r\n";
    client.send(b"get a\r\nset a 0 0 7\r\nfoo bab\r\nset a 0 0 7\r\nfoo\tbar\r\n");
    let mut replies = refused.to_owned() + "CLIENT_ERROR authentication failure\r\n";
    replies += "CLIENT_ERROR bad authentication token format\r\n";
    assert_eq!(client.receive(replies.len()), replies.as_bytes());
    client.expect("set a 0 0 7\r\nfoo bar\r\nget a\r\n", "STORED\r\nEND\r\n");
    let mut other = Client::new(&server);
    other.send("x".repeat(3000).as_bytes());
    assert_eq!(other.rest(), b"");
}

#[test]
fn a_server_that_does_not_evict_refuses_values_and_keeps_those_it_has() {
    let small = Settings { memory_bytes: 2 << 20, evicts: false, ..settings() };
    let server = match store() {
        StoreKind::Segment => Server::start(small).unwrap(),
        StoreKind::Objects => {
            let refused = Server::start(small).unwrap_err();
            assert!(refused.to_string().contains("only the store of segments"), "{refused}");
            return;
        }
    };
    let mut client = Client::new(&server);
    let value = "v".repeat(8192);
    let set = |key: usize| format!("set key{key} 0 0 8192\r\n{value}\r\n");
    let stored = (0..).take_while(|&key| client.ask(set(key).as_bytes()) == b"STORED\r\n").count();
    assert!((100..256).contains(&stored), "{stored}");
    client.expect(&set(stored), "SERVER_ERROR out of memory storing object\r\n");
    for key in 0..stored {
        client.expect(
            &format!("get key{key}\r\n"),
            &format!("VALUE key{key} 0 8192\r\n{value}\r\nEND\r\n"),
        );
    }
    assert_eq!((client.stat("evictions"), client.stat("store_no_memory")), (0, 2));
    // Flushed segments can be used again.
    client.expect(&format!("flush_all\r\n{}", set(0)), "OK\r\nSTORED\r\n");
}

#[test]
fn a_turn_ends_after_as_many_requests() {
    let server = limited(Limits { turn_requests: 1, ..limits() });
    let mut client = Client::new(&server);
    client.expect(
        "set a 0 0 1\r\nx\r\nget a\r\nget b\r\n",
        "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nEND\r\n",
    );
    assert!(client.stat("conn_yields") >= 3);
}

/// A dump skips flushed entries, but still visits their places.
#[test]
fn a_dump_that_shows_nothing_takes_many_turns() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    let sets: String = (0..40_000).map(|key| format!("set {key} 0 0 1 noreply\r\nv\r\n")).collect();
    client.expect(&sets, "");
    client.expect("flush_all\r\n", "OK\r\n");
    let before = client.stat("conn_yields");
    client.expect("lru_crawler metadump all\r\n", "END\r\n");
    let yields = client.stat("conn_yields") - before;
    assert!(yields >= 4, "{yields}");
}

/// Short requests that each copy a large value.
#[test]
fn a_turn_ends_after_as_many_bytes_are_written_anew() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    let value = "v".repeat(900_000);
    client.expect(&format!("set big 0 0 900000\r\n{value}\r\n"), "STORED\r\n");
    for request in
        ["touch big 0 noreply\r\n", "append big 0 0 0 noreply\r\n\r\n", "mg big T0 q k\r\n"]
    {
        let before = client.stat("conn_yields");
        client.ask(request.repeat(40).as_bytes());
        let yields = client.stat("conn_yields") - before;
        assert!(yields >= 10, "{request}: {yields}");
    }
}

#[test]
fn the_binary_protocol_is_not_spoken() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    client.send(b"\x80\x00\x00\x03");
    assert_eq!(client.rest(), b"");
}

#[test]
fn silent_clients_of_one_port_leave_the_others_a_part() {
    let any = || vec!["127.0.0.1:0".parse().unwrap()];
    let limits = Limits { connections: 32, ..limits() };
    let server = Server::start(Settings { http: any(), limits, ..settings() }).unwrap();
    let Address::Tcp(http) = server.addresses()[1] else { unreachable!() };
    let silent: Vec<_> = (0..32).map(|_| std::net::TcpStream::connect(http).unwrap()).collect();
    let mut client = Client::new(&server);
    // The last of them are refused once they are all accepted.
    while client.stat("rejected_connections") == 0 {}
    assert_eq!(client.stat("curr_connections"), 29);
    drop(silent);
}

#[test]
fn a_silent_client_of_http_is_closed_in_time() {
    let any = || vec!["127.0.0.1:0".parse().unwrap()];
    let limits = Limits { http_idle_seconds: 60, ..limits() };
    let server = Server::start(Settings { http: any(), limits, ..settings() }).unwrap();
    let Address::Tcp(http) = server.addresses()[1] else { unreachable!() };
    let mut silent = Client::at(http);
    let mut client = Client::new(&server);
    while client.stat("curr_connections") < 2 {}
    client.expect("debugtime 59\r\n", "OK\r\n");
    client.expect("debugtime 2\r\n", "OK\r\n");
    assert_eq!(silent.rest(), b"");
    client.expect("get a\r\n", "END\r\n");
}
