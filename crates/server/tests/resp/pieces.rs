//! Requests in pieces, and pipelined ones.

use std::time::Duration;

use crate::client::{Client, request, requests, start};

/// Requests of every form, each of which depends on those before.
fn all() -> Vec<u8> {
    let mut bytes = requests(
        "SET a 1\nGET a\nMGET a none a\nINCR a\nNONSENSE x\nMULTI\nGET a\nSET b 2 EX 100\nEXEC\nDEL a b\nGET a\n\
         KEYS *\nSCAN 0",
    );
    bytes.extend(b"*0\r\n*-1\r\n\r\nSET q \"a b\"\r\nGET q\r\n");
    bytes.extend(request(&["SET", "empty", ""]));
    bytes.extend(request(&["GET", "empty"]));
    bytes
}

#[test]
fn replies_are_the_same_wherever_requests_are_cut() {
    let server = start();
    let fresh = || {
        let mut client = Client::new(&server);
        client.expect("FLUSHALL", "+OK");
        client
    };
    let bytes = all();
    let whole = fresh().ask(&bytes);
    assert!(whole.starts_with(b"+OK\r\n$1\r\n1\r\n*3\r\n"), "{}", whole.escape_ascii());
    for cut in 1..bytes.len() {
        let mut client = fresh();
        let (before, after) = bytes.split_at(cut);
        client.send(before);
        // So that the server sees the first piece alone. If it does not, the test is weaker but passes.
        std::thread::sleep(Duration::from_micros(300));
        let replies = client.ask(after);
        assert_eq!(replies.escape_ascii().to_string(), whole.escape_ascii().to_string(), "{cut}");
    }
}

#[test]
fn requests_arrive_byte_by_byte() {
    let server = start();
    let mut client = Client::new(&server);
    for byte in requests("SET key ok\nGET key") {
        client.send(&[byte]);
        std::thread::sleep(Duration::from_micros(300));
    }
    client.expect("", "+OK $2 ok");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = start();
    let mut client = Client::new(&server);
    let (mut bytes, mut replies) = (Vec::new(), String::new());
    for number in 0..2000 {
        bytes.extend(requests(&format!(
            "SET key{number} {number}\nGET key{0}\nMGET none key{0}",
            number / 2
        )));
        let half = (number / 2).to_string();
        let half = format!("${}\r\n{half}\r\n", half.len());
        replies += &format!("+OK\r\n{half}*2\r\n$-1\r\n{half}");
    }
    assert_eq!(String::from_utf8(client.ask(&bytes)).unwrap(), replies);
}

/// Replies of hundreds of times the limit of one turn, to one request.
#[test]
fn large_values_of_many_keys_come_whole_and_in_order() {
    let server = start();
    let mut client = Client::new(&server);
    let value = |number: usize| format!("{number}").repeat(60_000);
    let mut words = vec!["MGET".to_owned()];
    let mut replies = "*400\r\n".to_owned();
    for number in 0..10 {
        client.ask(&request(&["SET", &format!("k{number}"), &value(number)]));
    }
    for number in (0..10).cycle().take(200) {
        words.extend([format!("k{number}"), "none".to_owned()]);
        replies += &format!("$60000\r\n{}\r\n$-1\r\n", value(number));
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let got = client.ask(&[request(&words), request(&["PING"])].concat());
    assert!(got == (replies + "+PONG\r\n").into_bytes());
}

#[test]
fn a_large_value_arrives_in_pieces() {
    let server = start();
    let mut client = Client::new(&server);
    let value = "0123456789".repeat(90_000);
    let bytes = [request(&["SET", "big", &value]), requests("GET none\nGET big")].concat();
    let replies = client.ask(&bytes);
    assert!(replies == format!("+OK\r\n$-1\r\n$900000\r\n{value}\r\n").into_bytes());
}
