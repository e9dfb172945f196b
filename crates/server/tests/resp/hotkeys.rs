//! `HOTKEYS`: the keys with most bytes.

use frazil_server::{Server, Settings};

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
