//! Look-ups of missing keys, fetched from an origin.

use std::time::{Duration, Instant};

use frazil_server::Server;

use super::client::Client;
use super::origin::{Answer, TestOrigin};

/// Answers the key as the value, with a lifetime of a minute.
fn echo(path: &str) -> Answer {
    Answer::With(200, "Cache-Control: max-age=60\r\n", path.as_bytes().to_vec())
}

/// Waits until a count of `stats` has this value, over a separate connection.
#[track_caller]
fn until_stat(server: &Server, name: &str, value: u64) {
    let mut client = Client::new(server);
    for _ in 0..10_000 {
        if client.stat(name) == value {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("{name} is {} and not {value}", client.stat(name));
}

/// Checks that no wait is left.
#[track_caller]
fn assert_idle(server: &Server) {
    until_stat(server, "curr_flights", 0);
    until_stat(server, "curr_waiters", 0);
}

#[test]
fn many_callers_of_a_key_are_answered_by_one_fetch() {
    let origin = TestOrigin::new(echo);
    let server = origin.server(|_| {});
    let mut clients: Vec<_> = (0..40).map(|_| Client::new(&server)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(if number % 2 == 0 { b"get key\r\n" } else { b"mg key v k\r\n" });
    }
    until_stat(&server, "curr_waiters", 40);
    origin.gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        let expected: &[u8] = match number % 2 {
            0 => b"VALUE key 0 4\r\n/key\r\nEND\r\n",
            _ => b"VA 4 kkey\r\n/key\r\n",
        };
        assert_eq!(client.receive(expected.len()), expected);
    }
    assert_eq!(origin.count(), 1);
    clients[0].expect("get key\r\n", "VALUE key 0 4\r\n/key\r\nEND\r\n");
    clients[0].expect("mg key t\r\n", "HD t60\r\n");
    assert_eq!(origin.count(), 1);
    assert_idle(&server);
}

#[test]
fn misses_of_a_pipeline_are_fetched_together_and_answered_in_order() {
    let origin = TestOrigin::new(echo);
    let server = origin.server(|_| {});
    let mut client = Client::new(&server);
    client.expect("set there 0 0 1\r\nx\r\n", "STORED\r\n");
    let mut requests = String::from("get there\r\n");
    let mut replies = String::from("VALUE there 0 1\r\nx\r\nEND\r\n");
    for key in 10..26 {
        requests += &format!("get {key} there\r\nmn\r\n");
        replies += &format!("VALUE {key} 0 3\r\n/{key}\r\nVALUE there 0 1\r\nx\r\nEND\r\nMN\r\n");
    }
    client.send(requests.as_bytes());
    // All are requested before any is answered.
    origin.wait_for(16);
    origin.gate.open();
    assert_eq!(String::from_utf8(client.receive(replies.len())).unwrap(), replies);
    client.expect("get there\r\n", "VALUE there 0 1\r\nx\r\nEND\r\n");
    assert_eq!(origin.count(), 16);
    assert_idle(&server);
}

#[test]
fn keys_of_one_request_are_fetched_with_what_is_there_between() {
    let origin = TestOrigin::open(|path| match path {
        "/none" => Answer::With(404, "", Vec::new()),
        path => echo(path),
    });
    let server = origin.server(|_| {});
    let mut client = Client::new(&server);
    client.expect("set b 0 0 1\r\nx\r\n", "STORED\r\n");
    let all = "VALUE a 0 2\r\n/a\r\nVALUE b 0 1\r\nx\r\nVALUE c 0 2\r\n/c\r\nEND\r\n";
    client.expect("get none a b none c none\r\n", all);
    // All outcomes are known now, and nothing is fetched.
    client.expect("get none a b none c none\r\n", all);
    client.expect("mg none v\r\nmg none v q\r\n", "EN\r\n");
    assert_eq!(origin.count(), 3);
    // A line with more keys than may wait at once.
    let keys: Vec<_> = (1000..1700).map(|key| key.to_string()).collect();
    let values: Vec<_> = keys.iter().map(|key| format!("VALUE {key} 0 5\r\n/{key}\r\n")).collect();
    client.expect(&format!("get {}\r\n", keys.join(" ")), &(values.concat() + "END\r\n"));
    assert_idle(&server);
}

#[test]
fn an_absent_key_is_remembered_for_its_time_only() {
    let origin = TestOrigin::open(|_| Answer::With(404, "", Vec::new()));
    let server = origin.server(|settings| settings.origin.as_mut().unwrap().absent_seconds = 10);
    let mut client = Client::new(&server);
    for _ in 0..3 {
        client.expect("get key\r\n", "END\r\n");
    }
    assert_eq!(origin.count(), 1);
    client.expect("debugtime 11\r\n", "OK\r\n");
    client.expect("get key\r\n", "END\r\n");
    assert_eq!(origin.count(), 2);
    client.expect("set key 0 0 1\r\nx\r\nget key\r\n", "STORED\r\nVALUE key 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn the_lifetime_is_that_of_the_response() {
    let origin = TestOrigin::open(|path| match path {
        "/short" => Answer::With(200, "Cache-Control: max-age=600, s-maxage=5\r\n", b"x".to_vec()),
        _ => Answer::With(200, "", b"x".to_vec()),
    });
    let server = origin.server(|settings| settings.origin.as_mut().unwrap().lifetime_seconds = 30);
    let mut client = Client::new(&server);
    client.expect("mg short v t\r\nmg unsaid v t\r\n", "VA 1 t5\r\nx\r\nVA 1 t30\r\nx\r\n");
    client.expect("debugtime 6\r\nmg unsaid t\r\n", "OK\r\nHD t24\r\n");
    client.expect("get short\r\n", "VALUE short 0 1\r\nx\r\nEND\r\n");
    assert_eq!(origin.count(), 3);
}

#[test]
fn uncacheable_values_are_fetched_for_each_caller_at_once() {
    let origin =
        TestOrigin::new(|_| Answer::With(200, "Cache-Control: private\r\n", b"x".to_vec()));
    let server = origin.server(|_| {});
    let mut clients: Vec<_> = (0..8).map(|_| Client::new(&server)).collect();
    clients.iter_mut().for_each(|client| client.send(b"get key\r\n"));
    until_stat(&server, "curr_waiters", 8);
    origin.wait_for(1);
    assert_eq!(origin.count(), 1);
    origin.gate.open();
    let expected = b"VALUE key 0 1\r\nx\r\nEND\r\n";
    for client in &mut clients {
        assert_eq!(client.receive(expected.len()), expected);
    }
    assert_eq!(origin.count(), 8);
    clients[0].expect("get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n");
    assert_eq!(origin.count(), 9);
    // Nothing is stored.
    assert_eq!(clients[0].stat("curr_items"), 0);
    assert_idle(&server);
}

#[test]
fn an_origin_that_fails_is_a_miss_and_is_asked_again() {
    let origin = TestOrigin::open(|path| match path {
        "/error" => Answer::With(503, "", b"sorry".to_vec()),
        "/moved" => Answer::With(301, "Location: /x\r\n", Vec::new()),
        "/cut" => Answer::Closing("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
        "/garbage" => Answer::Closing("no HTTP at all\r\n\r\n"),
        "/large" => Answer::With(200, "", vec![b'x'; 2 << 20]),
        _ => Answer::Closing(""),
    });
    let server = origin.server(|_| {});
    let mut client = Client::new(&server);
    for key in ["error", "moved", "cut", "garbage", "large", "closed"] {
        client.expect(&format!("get {key}\r\nmg {key} v\r\n"), "END\r\nEN\r\n");
    }
    let failed = client.stat("fetches_failed");
    assert!((6..=12).contains(&failed), "{failed}");
    assert_eq!(client.stat("curr_items"), 0);
    assert_idle(&server);
    drop(server);
    // A port without a listener.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = origin.server(|settings| {
        let url = format!("http://{gone}/{{key}}").parse().unwrap();
        settings.origin = Some(frazil_server::Origin::new(url));
    });
    Client::new(&server).expect("get key\r\n", "END\r\n");
}

#[test]
fn a_silent_origin_is_a_miss_at_the_timeout() {
    let origin = TestOrigin::open(|_| Answer::Never);
    let server = origin.server(|settings| settings.origin.as_mut().unwrap().timeout_ms = 200);
    let mut client = Client::new(&server);
    let begun = Instant::now();
    client.expect("get a\r\nmg b v\r\n", "END\r\nEN\r\n");
    assert!(begun.elapsed() >= Duration::from_millis(190), "{:?}", begun.elapsed());
    assert_idle(&server);
    // The server ends with fetches in flight.
    client.send(b"get c\r\n");
    origin.wait_for(3);
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_caller_that_goes_leaves_nothing_and_the_others_are_answered() {
    let origin = TestOrigin::new(echo);
    let server = origin.server(|_| {});
    let (mut stays, mut goes, mut half) =
        (Client::new(&server), Client::new(&server), Client::new(&server));
    goes.send(b"get key other\r\n");
    until_stat(&server, "curr_waiters", 2);
    stays.send(b"get key\r\n");
    half.send(b"get key\r\n");
    until_stat(&server, "curr_waiters", 4);
    // There are no unread bytes in either direction, so only the close arrives: the reply is made and sent to nobody.
    drop(goes);
    half.stream.shutdown(std::net::Shutdown::Write).unwrap();
    origin.gate.open();
    let expected = b"VALUE key 0 4\r\n/key\r\nEND\r\n";
    assert_eq!(stays.receive(expected.len()), expected);
    assert_eq!(half.rest(), expected);
    assert_idle(&server);
    until_stat(&server, "curr_connections", 2);
}

#[test]
fn values_written_during_a_fetch_answer_and_stay() {
    let origin = TestOrigin::new(echo);
    let server = origin.server(|_| {});
    let (mut asks, mut writes) = (Client::new(&server), Client::new(&server));
    asks.send(b"get key\r\nmg key v\r\n");
    until_stat(&server, "curr_waiters", 2);
    writes.expect("set key 0 0 3\r\nnew\r\n", "STORED\r\n");
    let expected = b"VALUE key 0 3\r\nnew\r\nEND\r\nVA 3\r\nnew\r\n";
    assert_eq!(asks.receive(expected.len()), expected);
    origin.wait_for(1);
    origin.gate.open();
    until_stat(&server, "fetches", 1);
    writes.expect("get key\r\n", "VALUE key 0 3\r\nnew\r\nEND\r\n");
    assert_idle(&server);
}

#[test]
fn fetches_from_before_a_deletion_are_not_stored() {
    for deletion in ["delete key\r\n", "md key\r\n", "flush_all\r\n"] {
        let origin = TestOrigin::new(echo);
        let server = origin.server(|_| {});
        let (mut asks, mut deletes) = (Client::new(&server), Client::new(&server));
        asks.send(b"get key\r\n");
        origin.wait_for(1);
        deletes.ask(deletion.as_bytes());
        origin.gate.open();
        let expected = b"VALUE key 0 4\r\n/key\r\nEND\r\n";
        assert_eq!(asks.receive(expected.len()), expected);
        assert_eq!(deletes.stat("curr_items"), 0, "{deletion}");
        deletes.expect("get key\r\n", "VALUE key 0 4\r\n/key\r\nEND\r\n");
        assert_eq!(origin.count(), 2);
        assert_idle(&server);
    }
}

#[test]
fn waits_and_fetches_beyond_the_limits_are_misses_at_once() {
    let origin = TestOrigin::new(echo);
    let server = origin.server(|settings| {
        settings.limits.waiters = 3;
        settings.origin.as_mut().unwrap().fetches = 2;
    });
    let (mut first, mut second) = (Client::new(&server), Client::new(&server));
    first.send(b"get a b\r\n");
    until_stat(&server, "curr_waiters", 2);
    // A third fetch exceeds the limit.
    second.expect("get c\r\n", "END\r\n");
    second.send(b"get a\r\n");
    until_stat(&server, "curr_waiters", 3);
    let mut third = Client::new(&server);
    third.expect("get b\r\nmg b v\r\n", "END\r\nEN\r\n");
    assert_eq!((third.stat("fetches_refused"), third.stat("waits_refused")), (1, 2));
    origin.gate.open();
    let expected = b"VALUE a 0 2\r\n/a\r\nVALUE b 0 2\r\n/b\r\nEND\r\n";
    assert_eq!(first.receive(expected.len()), expected);
    let expected = b"VALUE a 0 2\r\n/a\r\nEND\r\n";
    assert_eq!(second.receive(expected.len()), expected);
    assert_eq!(origin.count(), 2);
    assert_idle(&server);
}

#[test]
fn keys_are_one_segment_of_the_path() {
    let origin = TestOrigin::open(echo);
    let server = origin.server(|_| {});
    let mut client = Client::new(&server);
    client.expect("get a/../b?c%\r\n", "VALUE a/../b?c% 0 18\r\n/a%2F..%2Fb%3Fc%25\r\nEND\r\n");
    client.expect("mg AP9h v k b\r\n", "VA 8 kAP9h b\r\n/%00%FFa\r\n");
    // As paths these would lead to a parent.
    client.expect("get . ..\r\n", "END\r\n");
    assert_eq!(origin.count(), 2);
}
