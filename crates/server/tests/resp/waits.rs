//! Look-ups of missing keys, fetched from an origin, and leases.

use std::time::{Duration, Instant};

use frazil_server::{Address, Server, Settings};

use super::client::{Client, requests, settings, shown};
use super::origin::{Answer, TestOrigin, until};

/// Answers the key as the value, with a lifetime of a minute; absent for keys beginning with `no`.
fn echo(path: &str) -> Answer {
    match path.starts_with("/no") {
        true => Answer::With(404, "", Vec::new()),
        false => Answer::With(200, "Cache-Control: max-age=60\r\n", path.as_bytes().to_vec()),
    }
}

/// Waits until this many requests wait.
#[track_caller]
fn until_waiting(server: &Server, count: usize) {
    let line = format!("blocked_clients:{count}");
    until("requests wait", || {
        let shown = shown(&Client::new(server).ask(&requests("INFO clients")));
        shown.split(' ').any(|word| word == line)
    });
}

/// Reads as many bytes as these replies have.
#[track_caller]
fn receive(client: &mut Client, replies: &str) {
    let expected = replies.split_whitespace().collect::<Vec<_>>().join("\r\n") + "\r\n";
    let bytes = client.receive(expected.len());
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
}

#[test]
fn misses_of_a_pipeline_are_fetched_together_and_answered_in_order() {
    let origin = TestOrigin::new(echo);
    let server = origin.server(|_| {});
    let mut client = Client::new(&server);
    client.expect("SET there x", "+OK");
    client.send(&requests(
        "GET there\nGET a\nMGET b there none c\nPING\nHELLO 2\nget none\nMGET there d",
    ));
    origin.wait_for(5);
    until_waiting(&server, 6);
    origin.gate.open();
    let hello = "*14 $6 server $5 redis $7 version $5 7.4.0 $5 proto :2 $2 id";
    receive(&mut client, "$1 x $2 /a *4 $2 /b $1 x $-1 $2 /c +PONG");
    receive(&mut client, hello);
    let rest = client.ask(b"");
    let rest = shown(&rest);
    assert!(rest.ends_with("$7 modules *0 $-1 *2 $1 x $2 /d"), "{rest}");
    assert_eq!(origin.count(), 5);
    client.expect("GET a\nMGET b none", "$2 /a *2 $2 /b $-1");
    assert_eq!(origin.count(), 5);
    until_waiting(&server, 0);
}

#[test]
fn many_callers_of_a_key_are_answered_by_one_fetch_in_both_versions() {
    let origin = TestOrigin::new(echo);
    let server = origin.server(|_| {});
    let mut clients: Vec<_> = (0..20).map(|_| Client::new(&server)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        if number % 2 == 1 {
            client.ask(&requests("HELLO 3"));
        }
        client.send(&requests("GET none\nGET key"));
    }
    until_waiting(&server, 40);
    origin.gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        receive(client, if number % 2 == 1 { "_ $4 /key" } else { "$-1 $4 /key" });
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn more_keys_than_may_wait_at_once_are_answered_one_after_the_other() {
    let origin = TestOrigin::open(echo);
    let server = origin.server(|_| {});
    let keys: Vec<_> = (1000..1700).map(|key| key.to_string()).collect();
    let values: Vec<_> = keys.iter().map(|key| format!("$5 /{key}")).collect();
    let line = format!("MGET {}\nPING", keys.join(" "));
    Client::new(&server).expect(&line, &format!("*700 {} +PONG", values.join(" ")));
}

#[test]
fn transactions_and_other_commands_fetch_nothing() {
    let origin = TestOrigin::open(echo);
    let server = origin.server(|_| {});
    let mut client = Client::new(&server);
    client.expect("MULTI\nGET a\nMGET b c\nEXEC", "+OK +QUEUED +QUEUED *2 $-1 *2 $-1 $-1");
    client.expect("STRLEN a\nEXISTS a\nGETEX a\nGETDEL a\nSET a x GET", ":0 :0 $-1 $-1 $-1");
    client.expect("CLIENT REPLY OFF\nGET d\nCLIENT REPLY ON", "+OK");
    assert_eq!(origin.count(), 0);
    // An inline request is fetched too, as typed at a terminal.
    let replies = client.ask(b"GET e\r\n");
    assert_eq!(shown(&replies), "$2 /e");
    assert_eq!(origin.count(), 1);
}

#[test]
fn uncacheable_values_are_fetched_for_each_caller() {
    let origin =
        TestOrigin::open(|_| Answer::With(200, "Cache-Control: no-store\r\n", b"mine".to_vec()));
    let server = origin.server(|_| {});
    let mut client = Client::new(&server);
    client.expect("GET key\nGET key\nEXISTS key", "$4 mine $4 mine :0");
    assert_eq!(origin.count(), 2);
    // A value written meanwhile answers the waiters.
    let origin = TestOrigin::new(echo);
    let server = origin.server(|_| {});
    let mut client = Client::new(&server);
    client.send(&requests("GET key"));
    until_waiting(&server, 1);
    Client::new(&server).expect("SET key x", "+OK");
    receive(&mut client, "$1 x");
    origin.gate.open();
}

#[test]
fn an_origin_that_does_not_answer_is_a_miss() {
    let origin = TestOrigin::open(|path| match path {
        "/closing" => Answer::Closing("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
        "/broken" => Answer::With(500, "", Vec::new()),
        _ => Answer::Never,
    });
    let server = origin.server(|settings| settings.origin.as_mut().unwrap().timeout_ms = 100);
    let mut client = Client::new(&server);
    client.expect("MGET closing never broken\nGET never", "*3 $-1 $-1 $-1 $-1");
    client.expect("SET never x\nGET never", "+OK $1 x");
}

fn with_leases() -> Server {
    Server::start(Settings {
        memcached: vec!["127.0.0.1:0".parse().unwrap()],
        threads: 2,
        ..settings()
    })
    .unwrap()
}

#[test]
fn one_wins_a_lease_and_the_others_get_its_value() {
    let server = with_leases();
    let mut winner = Client::new(&server);
    winner.expect("GETLEASE key 60000 0", "*2 $-1 $3 won");
    winner.expect("GETLEASE key 60000 0", "*2 $-1 $4 late");
    let mut others: Vec<_> = (0..10).map(|_| Client::new(&server)).collect();
    others[0].ask(&requests("HELLO 3"));
    for other in &mut others {
        other.send(&requests("GETLEASE key 60000 60000\nPING"));
    }
    until_waiting(&server, 10);
    winner.expect("SET key value", "+OK");
    for other in &mut others {
        receive(other, "*2 $5 value $3 hit +PONG");
    }
    winner.expect("GETLEASE key 1000 0\nTTL key", "*2 $5 value $3 hit :-1");
    // There are no waits in a transaction.
    winner.expect("MULTI\nGETLEASE k 9000 50000\nEXEC", "+OK +QUEUED *1 *2 $-1 $3 won");
    others[0].expect("MULTI\nGETLEASE k 9000 50000\nEXEC", "+OK +QUEUED *1 *2 _ $4 late");
    winner.expect("GETLEASE k 0 1\nGETLEASE k 1 60001\nGETLEASE k x 1", &[BAD; 3].join(" "));
}

const BAD: &str = "-ERR a lease has at least 1 millisecond, and a wait 60000 at most";

#[test]
fn the_longest_waiter_follows_a_winner_that_left() {
    let server = with_leases();
    let mut winner = Client::new(&server);
    winner.expect("GETLEASE key 60000 0", "*2 $-1 $3 won");
    let mut next = Client::new(&server);
    next.send(&requests("GETLEASE key 60000 60000"));
    until_waiting(&server, 1);
    let mut last = Client::new(&server);
    last.send(&requests("GETLEASE key 60000 60000"));
    until_waiting(&server, 2);
    drop(winner);
    receive(&mut next, "*2 $-1 $3 won");
    until_waiting(&server, 1);
    // After a deletion by the holder the next waiter gets the lease.
    next.expect("DEL key", ":0");
    receive(&mut last, "*2 $-1 $3 won");
    last.expect("SET key x", "+OK");
    next.expect("GETLEASE key 1 0", "*2 $1 x $3 hit");
}

#[test]
fn a_lease_that_ends_passes_on_and_a_wait_that_ends_is_late() {
    let server = with_leases();
    let mut winner = Client::new(&server);
    winner.expect("GETLEASE key 60000 0", "*2 $-1 $3 won");
    let begun = Instant::now();
    let mut other = Client::new(&server);
    other.expect("GETLEASE key 60000 50", "*2 $-1 $4 late");
    assert!(begun.elapsed() >= Duration::from_millis(50));
    winner.expect("GETLEASE short 40 0", "*2 $-1 $3 won");
    let begun = Instant::now();
    other.expect("GETLEASE short 60000 60000", "*2 $-1 $3 won");
    assert!(begun.elapsed() < Duration::from_secs(20));
    winner.expect("GETLEASE short 60000 0", "*2 $-1 $4 late");
}

#[test]
fn clients_of_memcached_share_leases() {
    let server = with_leases();
    let Address::Tcp(address) = server.addresses()[0] else { unreachable!() };
    let mut memcached = Client::at(address);
    let mut client = Client::new(&server);
    memcached.send(b"mg key v N30 w50000\r\n");
    receive_text(&mut memcached, "VA 0 W\r\n\r\n");
    client.send(&requests("GETLEASE key 1000 50000"));
    until_waiting(&server, 1);
    memcached.send(b"set key 0 0 1\r\nx\r\n");
    receive_text(&mut memcached, "STORED\r\n");
    receive(&mut client, "*2 $1 x $3 hit");
    client.expect("GETLEASE other 60000 0", "*2 $-1 $3 won");
    memcached.send(b"mg other v N30 w50000\r\n");
    until_waiting(&server, 1);
    client.expect("SET other y", "+OK");
    receive_text(&mut memcached, "VA 1\r\ny\r\n");
    // The winner and late clients get the stale value.
    memcached.send(b"md other I\r\n");
    receive_text(&mut memcached, "HD\r\n");
    client.expect("GETLEASE other 1000 0\nGETLEASE other 1000 0", "*2 $1 y $3 won *2 $1 y $4 late");
    client.expect("GET other", "$1 y");
    // Nobody has won the key that the entry is copied or moved to.
    for (request, reply) in [("COPY other copied", ":1"), ("RENAME other copied", "+OK")] {
        client.expect(request, reply);
        client.expect("GETLEASE copied 1000 0\nDEL copied", "*2 $1 y $3 won :1");
    }
}

/// Keys of one request and of many, each of which waits.
#[test]
fn a_connection_has_no_more_holes_than_it_may() {
    let origin = TestOrigin::new(echo);
    let server = origin.server(|_| {});
    let mut client = Client::new(&server);
    let keys = |from: u32| (from..from + 300).map(|key| key.to_string()).collect::<Vec<_>>();
    let gets: String = keys(2000).iter().map(|key| format!("GET {key}\n")).collect();
    client.send(&requests(&format!("MGET {}\n{gets}", keys(1000).join(" "))));
    until_waiting(&server, 256);
    origin.gate.open();
    let values = |from: u32| keys(from).iter().map(|key| format!("$5 /{key} ")).collect::<String>();
    receive(&mut client, &format!("*300 {}{}", values(1000), values(2000)));
    until_waiting(&server, 0);
}

/// Requests of other commands than look-ups.
#[test]
fn a_connection_waits_for_no_more_leases_than_it_may() {
    let server = with_leases();
    let mut winner = Client::new(&server);
    winner.expect("GETLEASE key 60000 0", "*2 $-1 $3 won");
    let mut client = Client::new(&server);
    client.send(&requests(&"GETLEASE key 60000 60000\n".repeat(700)));
    until_waiting(&server, 256);
    winner.expect("SET key x", "+OK");
    receive(&mut client, &"*2 $1 x $3 hit ".repeat(700));
    until_waiting(&server, 0);
}

fn receive_text(client: &mut Client, expected: &str) {
    let bytes = client.receive(expected.len());
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
}

/// The placeholder of a lease is absent to all commands.
#[test]
fn placeholders_are_absent() {
    let server = with_leases();
    let mut client = Client::new(&server);
    let mut winner = Client::new(&server);
    let absent = [
        ("GET k", "$-1"),
        ("MGET k k", "*2 $-1 $-1"),
        ("EXISTS k k", ":0"),
        ("TOUCH k", ":0"),
        ("TYPE k", "+none"),
        ("TTL k", ":-2"),
        ("STRLEN k", ":0"),
        ("GETEX k PERSIST", "$-1"),
        ("GETDEL k", "$-1"),
        ("EXPIRE k 10", ":0"),
        ("PERSIST k", ":0"),
        ("RENAME k l", "-ERR no such key"),
        ("COPY k l", ":0"),
        ("OBJECT ENCODING k", "$-1"),
        ("KEYS *", "*0"),
        ("SCAN 0", "*2 $1 0 *0"),
        ("RANDOMKEY", "$-1"),
        ("SET k x XX", "$-1"),
        ("WATCH k\nMULTI\nGET k\nEXEC", "+OK +OK +QUEUED *1 $-1"),
    ];
    winner.expect("GETLEASE k 60000 0", "*2 $-1 $3 won");
    for (request, reply) in absent {
        client.expect(request, reply);
    }
    client.expect("GETLEASE k 60000 0", "*2 $-1 $4 late");
    let written = [
        ("SET k x NX", "+OK"),
        ("SETNX k x", ":1"),
        ("MSETNX k x", ":1"),
        ("SET k x GET", "$-1"),
        ("SET k x KEEPTTL", "+OK"),
        ("GETSET k x", "$-1"),
        ("APPEND k x", ":1"),
        ("SET l x\nCOPY l k", "+OK :1"),
        ("SET l x\nRENAMENX l k", "+OK :1"),
    ];
    for (request, reply) in written {
        client.ask(&requests("DEL k"));
        winner.expect("GETLEASE k 60000 0", "*2 $-1 $3 won");
        client.expect(request, reply);
        client.expect(
            "GET k\nTTL k\nDEL l",
            &format!("$1 x :-1 :{}", u8::from(request.contains("COPY"))),
        );
    }
    client.expect("DEL k", ":1");
    winner.expect("GETLEASE k 60000 0", "*2 $-1 $3 won");
    client.expect("INCRBY k 5\nTTL k\nEXISTS k", ":5 :-1 :1");
}
