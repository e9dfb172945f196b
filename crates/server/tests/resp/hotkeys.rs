//! `HOTKEYS`: the keys with most bytes.

use frazil_server::{Address, Server, Settings};

use super::client::{Client, requests, settings, shown};

#[test]
fn keys_of_most_bytes_are_shown_first() {
    let server = Server::start(Settings { threads: 2, ..settings() }).unwrap();
    let mut client = Client::new(&server);
    client.expect("MSET a 1 b 22 c 333\nHOTKEYS GET", "+OK $-1");
    client.expect("HOTKEYS START METRICS 1 NET COUNT 3", "+OK");
    // 9 bytes of the word, 7 of the key, 7 of the value: look-ups of both kinds have the same number of bytes.
    for _ in 0..10 {
        client.ask(&requests("GET a"));
    }
    client.ask(&requests(&"GET b\n".repeat(20)));
    client.ask(b"GET c\r\n");
    Client::new(&server).ask(&requests("MGET c c\nSTRLEN d\nPING\nMULTI\nGET c\nEXEC"));
    let got = shown(&client.ask(&requests("HOTKEYS STOP\nGET a\nHOTKEYS GET")));
    let (a, b, c) = (10 * 23, 20 * 24, 2 * 25 + 2 * 16);
    // `STRLEN` with its key, and its reply.
    let all = a + b + c + 12 + 7 + 4;
    let begin = format!(
        "+OK $1 1 *1 *16 $15 tracking-active :0 $12 sample-ratio :1 \
         $32 net-bytes-all-commands-all-slots :{all} $29 collection-start-time-unix-ms :"
    );
    assert!(got.starts_with(&begin), "{got}");
    let end = format!(
        "$15 total-net-bytes :{all} $14 selected-slots *0 $12 by-net-bytes *6 $1 b :{b} $1 a :{a} $1 c :{c}"
    );
    assert!(got.ends_with(&end), "{got} {end}");
    client.expect("HOTKEYS RESET\nHOTKEYS GET", "+OK $-1");
    client
        .ask(&requests("HELLO 3\nHOTKEYS START METRICS 1 NET SAMPLE 1000 DURATION 100000\nGET a"));
    let got = shown(&client.ask(&requests("HOTKEYS GET")));
    assert!(got.starts_with("*1 %8 $15 tracking-active :1 $12 sample-ratio :1000"), "{got}");
}

#[test]
fn invalid_periods_are_refused() {
    let server = super::client::start();
    let mut client = Client::new(&server);
    let bytes = "-ERR only bytes are counted, and no times: METRICS count and metrics must be `METRICS 1 NET`";
    for (request, reply) in [
        ("HOTKEYS START", "-ERR METRICS parameter is required"),
        ("HOTKEYS START METRICS 1 CPU", bytes),
        ("HOTKEYS START METRICS 2 CPU NET", bytes),
        ("HOTKEYS START METRICS", bytes),
        ("HOTKEYS START METRICS 1 NET COUNT 65", "-ERR COUNT must be between 1 and 64"),
        ("HOTKEYS START METRICS 1 NET SAMPLE 0", "-ERR SAMPLE ratio must be positive"),
        ("HOTKEYS START METRICS 1 NET DURATION x", "-ERR DURATION must be positive"),
        (
            "HOTKEYS START METRICS 1 NET SLOTS 1 0",
            "-ERR SLOTS parameter cannot be used in non-cluster mode",
        ),
        ("HOTKEYS START METRICS 1 NET COUNT", "-ERR syntax error"),
        ("HOTKEYS STOP", "-ERR no hotkey tracking session is in progress"),
        ("HOTKEYS START METRICS 1 NET", "+OK"),
        ("HOTKEYS START METRICS 1 NET", "-ERR hotkey tracking session already in progress"),
        ("HOTKEYS RESET", "-ERR hotkey tracking session in progress, stop tracking first"),
        ("HOTKEYS STOP\nHOTKEYS RESET", "+OK +OK"),
    ] {
        client.expect(request, reply);
    }
}

#[test]
fn requests_of_memcached_count_too() {
    let memcached = vec!["127.0.0.1:0".parse().unwrap()];
    let server = Server::start(Settings { memcached, ..settings() }).unwrap();
    let Address::Tcp(address) = &server.addresses()[0] else { unreachable!() };
    let mut memcached = Client::at(*address);
    let mut exchange = |requests: &str, replies: &str| {
        memcached.send(requests.as_bytes());
        let got = memcached.receive(replies.len());
        assert_eq!(String::from_utf8_lossy(&got), replies);
        requests.len() + replies.len()
    };
    exchange("set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    let mut client = Client::new(&server);
    client.expect("HOTKEYS START METRICS 1 NET", "+OK");
    let hit = "VALUE a 0 1\r\nx\r\nEND\r\n";
    let mut a = exchange("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    a += exchange(&"get a\r\n".repeat(50), &hit.repeat(50));
    a += exchange("mg a v\r\nms a 1\r\nx\r\n", "VA 1\r\nx\r\nHD\r\n");
    // `YQ==` is `a`.
    a += exchange("md YQ== b\r\nmg a\r\n", "HD\r\nEN\r\n");
    a += exchange("gat 0 a\r\ntouch a 0\r\n", "END\r\nNOT_FOUND\r\n") - "0 ".len();
    let b = exchange("incr b 1\r\nget b b\r\n", "NOT_FOUND\r\nEND\r\n");
    exchange("mn\r\nflush_all\r\n", "MN\r\nOK\r\n");
    let got = shown(&client.ask(&requests("HOTKEYS STOP\nHOTKEYS GET")));
    let end = format!("by-net-bytes *4 $1 a :{a} $1 b :{b}");
    assert!(got.ends_with(&end), "{got}: {end}");
    exchange("get c\r\nset c 0 0 1\r\nx\r\n", "END\r\nSTORED\r\n");
    let got = shown(&client.ask(&requests("HOTKEYS GET")));
    assert!(got.ends_with(&end), "{got}: {end}");
}
