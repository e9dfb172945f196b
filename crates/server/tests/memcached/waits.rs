//! Events to keys and connections while requests wait.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use frazil_server::{Address, Server, Settings};

use super::client::{Client, settings};
use super::origin::{Answer, TestOrigin, until};

fn server(change: impl FnOnce(&mut Settings)) -> Server {
    let mut settings = settings();
    settings.threads = 2;
    settings.resp = vec!["127.0.0.1:0".parse().unwrap()];
    change(&mut settings);
    Server::start(settings).unwrap()
}

/// Answers the key as the value, with a lifetime of a minute.
fn echo(path: &str) -> Answer {
    Answer::With(200, "Cache-Control: max-age=60\r\n", path.as_bytes().to_vec())
}

/// Sends one command to the port of RESP, and expects a reply.
fn resp(server: &Server, command: &str, reply: &str) {
    let Some(Address::Tcp(address)) = server.addresses().get(1) else { panic!("no port") };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut told = vec![0; reply.len()];
    stream.read_exact(&mut told).unwrap();
    assert_eq!(String::from_utf8_lossy(&told), reply, "{command}");
}

#[track_caller]
fn until_stat(server: &Server, name: &str, value: u64) {
    let client = std::cell::RefCell::new(Client::new(server));
    until(name, || client.borrow_mut().stat(name) == value);
}

#[track_caller]
fn assert_idle(server: &Server) {
    until_stat(server, "curr_waiters", 0);
    until_stat(server, "curr_flights", 0);
}

#[track_caller]
fn assert_receives(client: &mut Client, expected: &str) {
    let received = client.receive(expected.len());
    assert_eq!(received.escape_ascii().to_string(), expected.as_bytes().escape_ascii().to_string());
}

/// A connection that has won the key for 30 seconds, and one that waits for it.
fn won(server: &Server) -> (Client, Client) {
    let (mut winner, mut waits) = (Client::new(server), Client::new(server));
    winner.expect("mg key v N30 w60000\r\n", "VA 0 W\r\n\r\n");
    waits.send(b"mg key v N30 w60000\r\n");
    until_stat(server, "curr_waiters", 1);
    (winner, waits)
}

#[test]
fn requests_that_keep_the_value_keep_the_lease() {
    for request in ["touch key 20\r\n", "gat 20 key\r\n", "md key C1\r\n", "add key 0 0 1\r\nx\r\n"]
    {
        let server = server(|_| {});
        let (winner, mut waits) = won(&server);
        Client::new(&server).ask(request.as_bytes());
        // So the next waiter gets the lease when it leaves.
        drop(winner);
        assert_receives(&mut waits, "VA 0 W\r\n\r\n");
    }
    // Clients of RESP do not see the placeholder of a lease.
    for (request, reply) in [
        ("expire key 20", ":0\r\n"),
        ("persist key", ":0\r\n"),
        ("expire key 0", ":0\r\n"),
        ("rename key other", "-ERR no such key\r\n"),
    ] {
        let server = server(|_| {});
        let (winner, mut waits) = won(&server);
        resp(&server, request, reply);
        drop(winner);
        assert_receives(&mut waits, "VA 0 W\r\n\r\n");
    }
}

#[test]
fn every_end_of_a_won_key_ends_the_wait() {
    let commands = [
        ("set key x", "+OK\r\n", "VA 1\r\nx\r\n"),
        ("del key", ":0\r\n", "VA 0 W\r\n\r\n"),
        ("rename there key", "+OK\r\n", "VA 5\r\nthere\r\n"),
        ("multi\r\nset key x\r\nexec", "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n", "VA 1\r\nx\r\n"),
    ];
    for (command, reply, told) in commands {
        let server = server(|_| {});
        resp(&server, "set there there", "+OK\r\n");
        let (_winner, mut waits) = won(&server);
        resp(&server, command, reply);
        assert_receives(&mut waits, told);
    }
    let server = server(|_| {});
    let (mut winner, mut waits) = won(&server);
    winner.expect("touch key -1\r\n", "TOUCHED\r\n");
    assert_receives(&mut waits, "VA 0 W\r\n\r\n");
}

#[test]
fn a_lease_for_a_request_without_interest_is_dropped() {
    let server = server(|_| {});
    let (mut winner, mut waits) = (Client::new(&server), Client::new(&server));
    winner.expect("mg key v N30 w60000\r\n", "VA 0 W\r\n\r\n");
    waits.send(b"mg key v w60000\r\n");
    until_stat(&server, "curr_waiters", 1);
    // The lease is gone, and no client is told.
    Client::new(&server).expect("flush_all\r\n", "OK\r\n");
    drop(winner);
    assert_receives(&mut waits, "EN\r\n");
    assert_idle(&server);
}

#[test]
fn a_late_winner_is_followed_by_a_waiter() {
    let server = server(|_| {});
    let (mut winner, mut waits) = (Client::new(&server), Client::new(&server));
    winner.expect("mg key v N5 w60000\r\n", "VA 0 W\r\n\r\n");
    waits.send(b"mg key v N5 w60000\r\n");
    until_stat(&server, "curr_waiters", 1);
    winner.expect("debugtime 4\r\n", "OK\r\n");
    assert_eq!(winner.stat("curr_waiters"), 1);
    winner.expect("debugtime 2\r\n", "OK\r\n");
    assert_receives(&mut waits, "VA 0 W\r\n\r\n");
    assert_eq!(winner.stat("waits_late"), 0);
    // Its own lease now.
    winner.send(b"mg key v N5 w60000\r\n");
    until_stat(&server, "curr_waiters", 1);
    drop(waits);
    assert_receives(&mut winner, "VA 0 W\r\n\r\n");
}

/// Although its former holder is still connected, and a waiter too.
#[test]
fn a_key_with_an_ended_lease_is_fetched_once() {
    let origin = TestOrigin::new(echo);
    let server = origin.server(|_| {});
    let mut clients: Vec<_> = (0..5).map(|_| Client::new(&server)).collect();
    clients[0].expect("mg key v N5 w60000\r\n", "VA 0 W\r\n\r\n");
    clients[1].send(b"mg key v w60000\r\n");
    until_stat(&server, "curr_waiters", 1);
    clients[0].expect("flush_all\r\n", "OK\r\n");
    for client in &mut clients[2..] {
        client.send(b"get key\r\n");
    }
    until_stat(&server, "curr_waiters", 4);
    origin.gate.open();
    assert_receives(&mut clients[1], "VA 4\r\n/key\r\n");
    for client in &mut clients[2..] {
        assert_receives(client, "VALUE key 0 4\r\n/key\r\nEND\r\n");
    }
    clients[0].expect("get key\r\n", "VALUE key 0 4\r\n/key\r\nEND\r\n");
    assert_eq!(origin.count(), 1);
    assert_idle(&server);
}

#[test]
fn a_closing_client_passes_leases_on_even_to_itself() {
    let server = server(|_| {});
    let mut client = Client::new(&server);
    let begun = Instant::now();
    client.send("mg key v N30 w60000\r\n".repeat(4).as_bytes());
    client.send(b"quit\r\n");
    assert_eq!(client.rest(), b"VA 0 W\r\n\r\n".repeat(4));
    let mut client = Client::new(&server);
    client.send("mg key v N30 w60000\r\n".repeat(4).as_bytes());
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.rest(), b"VA 0 W\r\n\r\n".repeat(4));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_idle(&server);
}

#[test]
fn fetches_from_before_any_deletion_are_not_stored() {
    for deletion in ["md key I\r\n", "getdel key", "del key", "flushall"] {
        let origin = TestOrigin::new(echo);
        let server = origin.server(|settings| settings.resp = settings.memcached.clone());
        let mut asks = Client::new(&server);
        asks.send(b"get key\r\n");
        origin.wait_for(1);
        match deletion {
            "md key I\r\n" => Client::new(&server).expect(deletion, "NF\r\n"),
            "getdel key" => resp(&server, deletion, "$-1\r\n"),
            "del key" => resp(&server, deletion, ":0\r\n"),
            _ => resp(&server, deletion, "+OK\r\n"),
        }
        origin.gate.open();
        assert_receives(&mut asks, "VALUE key 0 4\r\n/key\r\nEND\r\n");
        assert_eq!(asks.stat("curr_items"), 0, "{deletion}");
        assert_idle(&server);
    }
}

#[test]
fn a_deletion_forgets_that_a_key_is_absent() {
    let origin = TestOrigin::open(|_| Answer::With(404, "", Vec::new()));
    let server = origin.server(|settings| {
        settings.resp = settings.memcached.clone();
        settings.origin.as_mut().unwrap().absent_seconds = u64::MAX;
    });
    let mut client = Client::new(&server);
    let deletions = ["", "delete key\r\n", "md key q\r\n", "md key I\r\n", "flush_all\r\n"];
    for (asked, deletion) in deletions.iter().enumerate() {
        client.ask(deletion.as_bytes());
        client.expect("get key\r\nget key\r\nmg key\r\n", "END\r\nEND\r\nEN\r\n");
        assert_eq!(origin.count(), asked + 1, "{deletion}");
    }
    for (command, reply) in [("del key", ":0\r\n"), ("getdel key", "$-1\r\n")] {
        let asked = origin.count();
        resp(&server, command, reply);
        client.expect("get key\r\nget key\r\n", "END\r\nEND\r\n");
        assert_eq!(origin.count(), asked + 1, "{command}");
    }
}

#[test]
fn a_transaction_sees_no_fetch_come_between() {
    let origin = TestOrigin::open(|path| {
        std::thread::sleep(Duration::from_millis(20));
        echo(path)
    });
    for threads in [1, 2] {
        let server = origin.server(|settings| {
            settings.resp = settings.memcached.clone();
            settings.threads = threads;
            settings.memory_bytes = 256 << 20;
        });
        let mut client = Client::new(&server);
        let count = 40_000;
        let replies =
            [0, 1].map(|there| format!("*{count}\r\n") + &format!(":{there}\r\n").repeat(count));
        for round in 0..3 {
            let asked = origin.count();
            let Some(Address::Tcp(address)) = server.addresses().get(1) else { panic!("no port") };
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let requests = "multi\r\n".to_owned() + &format!("exists {round}\r\n").repeat(count);
            stream.write_all(requests.as_bytes()).unwrap();
            let mut told = vec![0; 5 + 9 * count];
            stream.read_exact(&mut told).unwrap();
            client.send(format!("get {round}\r\n").as_bytes());
            origin.wait_for(asked + 1);
            stream.write_all(b"exec\r\n").unwrap();
            let mut told = vec![0; replies[0].len()];
            stream.read_exact(&mut told).unwrap();
            assert!(replies.iter().any(|all| all.as_bytes() == told), "{threads} threads");
            assert_receives(&mut client, &format!("VALUE {round} 0 2\r\n/{round}\r\nEND\r\n"));
        }
    }
}

/// Waiting counts neither as idle nor as slow.
#[test]
fn waiting_closes_no_connection() {
    let origin = TestOrigin::new(|_| {
        Answer::With(200, "Cache-Control: max-age=600\r\n", vec![b'x'; 1_000_000])
    });
    let server = origin.server(|settings| {
        settings.memory_bytes = 512 << 20;
        settings.threads = 1;
        (settings.limits.idle_seconds, settings.limits.request_seconds) = (30, 5);
    });
    let (mut small, mut large) = (Client::new(&server), Client::new(&server));
    small.send(b"get 1\r\n");
    large.send(b"get 1 2 3 4 5 6 7 8\r\n");
    until_stat(&server, "curr_waiters", 9);
    let mut clock = Client::new(&server);
    for _ in 0..2 {
        clock.expect("debugtime 20\r\n", "OK\r\n");
        clock.expect("verbosity 0\r\n", "OK\r\n");
    }
    origin.gate.open();
    let reply = 1_000_000 + "VALUE 1 0 1000000\r\n\r\n".len();
    assert_eq!(small.receive(reply + 5).len(), reply + 5);
    until_stat(&server, "fetches", 8);
    // Long enough for the check of connections.
    clock.expect("debugtime 2\r\nverbosity 0\r\n", "OK\r\nOK\r\n");
    clock.expect("verbosity 0\r\n", "OK\r\n");
    small.expect("verbosity 0\r\n", "OK\r\n");
    assert_eq!(large.receive(8 * reply + 5).len(), 8 * reply + 5);
}

#[test]
fn requests_that_the_server_does_not_read_are_not_slow() {
    let server = server(|settings| {
        settings.limits.request_seconds = 5;
        settings.threads = 1;
    });
    let (mut winner, mut waits) = (Client::new(&server), Client::new(&server));
    winner.expect("mg key v N30 w60000\r\n", "VA 0 W\r\n\r\n");
    waits.send("mg key v N30 w60000\r\n".repeat(700).as_bytes());
    until_stat(&server, "curr_waiters", 256);
    winner.expect("debugtime 10\r\nverbosity 0\r\n", "OK\r\nOK\r\n");
    winner.expect("verbosity 0\r\n", "OK\r\n");
    winner.expect("set key 0 0 1\r\nx\r\n", "STORED\r\n");
    assert_receives(&mut waits, &"VA 1\r\nx\r\n".repeat(700));
}

#[test]
fn a_connection_has_no_more_holes_than_it_may_where_keys_are_looked_up_singly() {
    let origin = TestOrigin::new(echo);
    let server = origin.server(|_| {});
    let mut client = Client::new(&server);
    let keys: Vec<String> = (1000..1700).map(|key| key.to_string()).collect();
    client.expect("stats detail on\r\n", "OK\r\n");
    client.send(format!("get 1 2 3\r\nmn\r\nget {}\r\n", keys.join(" ")).as_bytes());
    until_stat(&server, "curr_waiters", 256);
    origin.gate.open();
    let first: Vec<String> = (1..4).map(|key| format!("VALUE {key} 0 2\r\n/{key}\r\n")).collect();
    let values: Vec<String> =
        keys.iter().map(|key| format!("VALUE {key} 0 5\r\n/{key}\r\n")).collect();
    assert_receives(
        &mut client,
        &format!("{}END\r\nMN\r\n{}END\r\n", first.concat(), values.concat()),
    );
    assert_idle(&server);
}

#[test]
fn a_fetched_entry_has_no_number_where_none_has() {
    let origin = TestOrigin::open(echo);
    let server = origin.server(|settings| settings.options.cas = false);
    let mut client = Client::new(&server);
    client.expect("gets a\r\nmg b c\r\n", "VALUE a 0 2 0\r\n/a\r\nEND\r\nHD c0\r\n");
}

/// memcached's own tests count its lines.
#[test]
fn counts_of_waits_are_apart_from_those_of_memcached() {
    let origin = TestOrigin::open(echo);
    let server = origin.server(|_| {});
    let stats = String::from_utf8(Client::new(&server).ask(b"stats\r\n")).unwrap();
    assert_eq!(stats.lines().filter(|line| line.starts_with("STAT ")).count(), 83, "{stats}");
}

#[test]
fn counts_begin_anew_when_they_are_reset() {
    let origin = TestOrigin::open(echo);
    let server = origin.server(|_| {});
    let mut client = Client::new(&server);
    client.expect("get a\r\n", "VALUE a 0 2\r\n/a\r\nEND\r\n");
    assert_eq!((client.stat("fetches"), client.stat("waits")), (1, 1));
    client.expect("stats reset\r\n", "RESET\r\n");
    assert_eq!((client.stat("fetches"), client.stat("waits")), (0, 0));
    client.expect("get b\r\n", "VALUE b 0 2\r\n/b\r\nEND\r\n");
    assert_eq!((client.stat("fetches"), client.stat("waits")), (1, 1));
}

#[test]
fn the_page_of_an_absent_key_may_be_of_any_length() {
    let origin = TestOrigin::open(|_| Answer::With(404, "", vec![b'x'; 100_000]));
    let server = origin.server(|settings| settings.limits.item_bytes = Some(1000));
    let mut client = Client::new(&server);
    client.expect("get key\r\nget key\r\nget key\r\n", "END\r\nEND\r\nEND\r\n");
    assert_eq!((origin.count(), client.stat("fetches_absent")), (1, 1));
}

#[test]
fn a_head_that_is_very_long_is_a_failure() {
    let head =
        format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 1\r\n\r\nx", "x".repeat(200_000));
    let head: &'static str = head.leak();
    let origin = TestOrigin::open(move |path| match path {
        "/hint" => Answer::Closing(
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        ),
        "/unmodified" => Answer::Closing("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
        "/longer" => Answer::Closing("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxyz"),
        "/chunks" => Answer::Closing(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n2\r\nyz\r\n0\r\n\r\n",
        ),
        "/chunk" => {
            Answer::Closing("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n2\r\ny")
        }
        "/none" => Answer::With(204, "", Vec::new()),
        _ => Answer::Closing(head),
    });
    let server = origin.server(|_| {});
    let mut client = Client::new(&server);
    client.expect("get head\r\nget unmodified\r\nget none\r\nget chunk\r\n", &"END\r\n".repeat(4));
    client.expect("get hint\r\n", "VALUE hint 0 1\r\nx\r\nEND\r\n");
    client.expect("get longer\r\n", "VALUE longer 0 1\r\nx\r\nEND\r\n");
    client.expect("get chunks\r\n", "VALUE chunks 0 3\r\nxyz\r\nEND\r\n");
    assert_idle(&server);
}
