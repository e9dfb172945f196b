//! Numbers beyond the range of their kind: refused or kept, never cut to fit.

use frazil_server::{Options, Server, Settings};

use crate::client::{Client, settings};

const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache\r\n";

#[test]
fn a_value_longer_than_any_may_be_ends_the_connection() {
    let server = Server::start(settings()).unwrap();
    for length in ["2147483646", "4294967301", "18446744073709551621"] {
        for request in [
            format!("set k 0 0 {length}\r\nhello\r\nset rest 0 0 1\r\nv\r\n"),
            format!("cas k 0 0 {length} 1\r\nhello\r\nset rest 0 0 1\r\nv\r\n"),
            format!("ms k {length}\r\nhello\r\nset rest 0 0 1\r\nv\r\n"),
        ] {
            let mut client = Client::new(&server);
            client.send(request.as_bytes());
            assert_eq!(client.rest(), TOO_LARGE.as_bytes(), "{request}");
        }
    }
    Client::new(&server).expect("get k rest\r\n", "END\r\n");
}

#[test]
fn the_value_of_a_refused_number_is_not_served_as_requests() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    for line in [
        "set k 4294967296 0 12",
        "set k -1 0 12",
        "set k 0 9223372036854775808 12",
        "cas k 0 0 12 -18446744073709551615",
        "cas k 0 0 12 18446744073709551616",
    ] {
        client.expect(&format!("{line}\r\nflush_all  \r\r\n"), BAD_FORMAT);
    }
    client.expect("ms k 12 F4294967296\r\nflush_all  \r\r\n", BAD_FORMAT);
    for flag in ["T9223372036854775808", "C-18446744073709551615"] {
        let error = "CLIENT_ERROR bad token in command line format\r\n";
        client.expect(&format!("ms k 12 {flag}\r\nflush_all  \r\r\n"), error);
    }
    client.expect("set k 4294967295 0 1\r\nv\r\n", "STORED\r\n");
    client.expect("get k\r\n", "VALUE k 4294967295 1\r\nv\r\nEND\r\n");
}

#[test]
fn times_of_more_than_32_bits_are_kept() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    for time in ["4102444800", "4294967296", "4294967297", "9223372036854775"] {
        client.expect(&format!("set k 0 {time} 1\r\nv\r\n"), "STORED\r\n");
        client.expect(&format!("touch k {time}\r\n"), "TOUCHED\r\n");
        client.expect(&format!("ms k 1 T{time}\r\nv\r\n"), "HD\r\n");
        client.expect("debugtime 100\r\n", "OK\r\n");
        client.expect("mg k v\r\n", "VA 1\r\nv\r\n");
        client.expect(&format!("gat {time} k\r\n"), "VALUE k 0 1\r\nv\r\nEND\r\n");
        client.expect(&format!("flush_all {time}\r\nmg k v\r\n"), "OK\r\nVA 1\r\nv\r\n");
    }
    for time in ["-1", "-2147483649", "-4294967296", "-9223372036854775"] {
        client.expect(&format!("set k 0 {time} 1\r\nv\r\n"), "STORED\r\n");
        client.expect("get k\r\n", "END\r\n");
        client.expect("set k 0 0 1\r\nv\r\n", "STORED\r\n");
        client.expect(&format!("touch k {time}\r\nget k\r\n"), "TOUCHED\r\nEND\r\n");
        client.expect(&format!("ms k 1 T{time}\r\nv\r\nget k\r\n"), "HD\r\nEND\r\n");
    }
}

#[test]
fn a_count_takes_no_negative_number() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    client.expect("set n 0 0 1\r\n5\r\n", "STORED\r\n");
    for by in ["-1", "-18446744073709551615", "-9223372036854775809", "18446744073709551616"] {
        let error = "CLIENT_ERROR invalid numeric delta argument\r\n";
        client.expect(&format!("incr n {by}\r\ndecr n {by}\r\n"), &error.repeat(2));
        for flag in ["D", "J"] {
            let told = client.ask(format!("ma n {flag}{by}\r\n").as_bytes());
            assert!(told.starts_with(b"CLIENT_ERROR"), "{}", told.escape_ascii());
        }
    }
    client.expect("set n 0 0 21\r\n-18446744073709551615\r\n", "STORED\r\n");
    let error = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    client.expect("incr n 1\r\nma n\r\n", &error.repeat(2));
}

#[test]
fn a_long_value_of_an_unknown_client_is_not_read() {
    let path = std::env::temp_dir().join(format!("frazil-mc-numbers-{}", std::process::id()));
    std::fs::write(&path, "app:secret\n").unwrap();
    let options = Options { users: Some(path.clone()), ..settings().options };
    let server = Server::start(Settings { options, ..settings() }).unwrap();
    std::fs::remove_file(path).unwrap();
    for length in ["1025", "2147483646", "4294967306", "18446744073709551626"] {
        let mut client = Client::new(&server);
        client.send(format!("set foo 0 0 {length}\r\napp secret\r\n").as_bytes());
        assert_eq!(client.rest(), b"CLIENT_ERROR unauthenticated\r\n", "{length}");
    }
}
