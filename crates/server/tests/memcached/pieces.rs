//! Requests in pieces, and pipelined ones.

use std::time::Duration;

use frazil_server::Server;

use crate::client::{Client, settings};

/// All kinds of requests, and some malformed ones.
const REQUESTS: &str = "set a 5 0 3\r\none\r\nget a b\r\nadd a 0 0 1\r\nx\r\nappend a 0 0 2\r\n!!\r\n\
    gets nothing\r\ngat 100 a\r\ntouch a 0\r\nset n 0 0 2\r\n10\r\nincr n 5\r\ndecr n 7\r\n\
    set bad 0 0 3\r\nlonger\r\nset q 0 0 1 noreply\r\n1\r\ndelete q\r\ndelete q 0 noreply\r\n\
    ms m 4 T0 F7\r\nmeta\r\nmg m s v f t k Oid\r\nmg none v q\r\nmd m q\r\nma n v D2\r\n\
    get a\nversion\r\nnonsense\r\nget\r\nget a n a\r\n";

#[test]
fn replies_are_the_same_wherever_requests_are_cut() {
    let server = Server::start(settings()).unwrap();
    let fresh = || {
        let mut client = Client::new(&server);
        client.expect("flush_all\r\n", "OK\r\n");
        client
    };
    let whole = fresh().ask(REQUESTS.as_bytes());
    assert!(whole.starts_with(b"STORED\r\nVALUE a 5 3\r\none\r\nEND\r\nNOT_STORED\r\n"));
    for cut in 1..REQUESTS.len() {
        let mut client = fresh();
        let (before, after) = REQUESTS.split_at(cut);
        client.send(before.as_bytes());
        // So that the server sees the first piece alone. If it does not, the test is weaker but passes.
        std::thread::sleep(Duration::from_micros(300));
        let replies = client.ask(after.as_bytes());
        assert_eq!(replies.escape_ascii().to_string(), whole.escape_ascii().to_string(), "{cut}");
    }
}

#[test]
fn a_request_arrives_byte_by_byte() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    for byte in b"set key 0 0 2\r\nok\r\nget key\r\n" {
        client.send(&[*byte]);
        std::thread::sleep(Duration::from_micros(300));
    }
    client.expect("", "STORED\r\nVALUE key 0 2\r\nok\r\nEND\r\n");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    let (mut requests, mut replies) = (String::new(), String::new());
    for number in 0..2000 {
        requests += &format!("set key{number} 0 0 {}\r\n{number}\r\n", number.to_string().len());
        replies += "STORED\r\n";
        let asked = number / 2;
        requests += &format!("get key{asked}\r\nget none{number}\r\n");
        replies += &format!("VALUE key{asked} 0 {}\r\n{asked}\r\n", asked.to_string().len());
        replies += "END\r\nEND\r\n";
    }
    client.expect(&requests, &replies);
}

/// Replies of hundreds of times the limit of one turn, to one line of keys.
#[test]
fn large_values_of_many_keys_come_whole_and_in_order() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    let value = |number: usize| format!("{number}").repeat(60_000);
    let (mut line, mut replies) = (String::from("get"), String::new());
    for number in 0..10 {
        let value = value(number);
        client.expect(&format!("set k{number} 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    }
    for number in (0..10).cycle().take(200) {
        line += &format!(" k{number} none");
        let value = value(number);
        replies += &format!("VALUE k{number} 0 {}\r\n{value}\r\n", value.len());
    }
    client.expect(&format!("{line}\r\n"), &format!("{replies}END\r\n"));
}

#[test]
fn a_line_of_keys_may_be_of_any_length() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    client.expect("set key 0 0 1\r\nv\r\n", "STORED\r\n");
    let keys = format!("{} key ", "absent".repeat(40)).repeat(2000);
    let reply = "VALUE key 0 1\r\nv\r\n".repeat(2000);
    client.expect(
        &format!("get {keys}\r\nget key\r\n"),
        &format!("{reply}END\r\nVALUE key 0 1\r\nv\r\nEND\r\n"),
    );
    let long = "x".repeat(251);
    client.send(format!("get {} {long}", "key ".repeat(1000)).as_bytes());
    let replies = client.ask(b" key\r\nset key 0 0 9\r\nget other\r\nget key\r\n");
    let expected = "CLIENT_ERROR bad command line format\r\nSTORED\r\nVALUE key 0 9\r\n\
        get other\r\nEND\r\n";
    let tail = String::from_utf8_lossy(&replies[replies.len().saturating_sub(200)..]).into_owned();
    assert!(tail.ends_with(expected), "{tail}");
}

#[test]
fn a_large_value_arrives_in_pieces() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    let value = "0123456789".repeat(90_000);
    client.expect(
        &format!("set big 0 0 {}\r\n{value}\r\nget small\r\n", value.len()),
        "STORED\r\nEND\r\n",
    );
    client.expect("get big\r\n", &format!("VALUE big 0 {}\r\n{value}\r\nEND\r\n", value.len()));
}

#[test]
fn two_threads_count_together() {
    let server = Server::start(frazil_server::Settings { threads: 2, ..settings() }).unwrap();
    Client::new(&server).expect("set n 0 0 1\r\n0\r\n", "STORED\r\n");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| Client::new(&server).ask("incr n 1\r\n".repeat(500).as_bytes()));
        }
    });
    Client::new(&server).expect("get n\r\n", "VALUE n 0 4\r\n4000\r\nEND\r\n");
}
