//! Malformed and ambiguous requests, and misbehaving clients.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::origin::{TestOrigin, client, pass_seconds, reply, until};

fn echo() -> TestOrigin {
    TestOrigin::with(|got| {
        (200, "Cache-Control: max-age=60\r\n".into(), got.line.clone().into_bytes())
    })
}

#[test]
fn ambiguous_requests_are_refused_and_end_the_connection() {
    let origin = echo();
    let server = origin.server(|_| {});
    let long = "x".repeat(20_000);
    for (request, status) in [
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(), 400),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n".to_owned(), 400),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n".to_owned(), 400),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned(), 501),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\nHost: h\n\n".to_owned(), 400),
        (format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n"), 414),
        (format!("GET / HTTP/1.1\r\nHost: h\r\nA: {long}\r\n\r\n"), 431),
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999999\r\n\r\n".to_owned(), 413),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n".to_owned(), 413),
        ("GET / HTTP/3.0\r\nHost: h\r\n\r\n".to_owned(), 505),
        ("\r\n\r\n\r\n\0".to_owned(), 400),
    ] {
        let mut client = client(&server);
        let shown = request.chars().take(90).collect::<String>();
        client.send(request.as_bytes());
        // A reset of the connection may destroy them.
        let _ = std::io::Write::write_all(&mut client.stream, b"GET /behind HTTP/1.1\r\nHost: h\r\n\r\n");
        let refused = client.reply(false);
        assert_eq!((refused.status, refused.field("connection")), (status, Some("close")), "{shown}");
        assert_eq!(client.rest(), b"", "{shown}");
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn old_clients_are_served_one_request_or_as_many_as_they_want() {
    let origin = echo();
    let server = origin.server(|_| {});
    let mut client = client(&server);
    for _ in 0..2 {
        client.send(b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let kept = client.reply(false);
        assert_eq!((kept.text(), kept.field("connection")), ("GET /a", Some("keep-alive")));
    }
    client.send(b"GET /a HTTP/1.0\r\n\r\n");
    assert_eq!(client.reply(false).field("connection"), Some("close"));
    assert_eq!(client.rest(), b"");
    assert_eq!(origin.count(), 1);
}

#[test]
fn an_origin_that_is_cut_off_is_not_taken_for_one_that_has_ended() {
    let origin = TestOrigin::new(|got, stream| {
        let framing = match got.line.as_str() {
            "GET /length" => "Content-Length: 10\r\n\r\nabc",
            _ => "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        };
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{framing}");
        let _ = stream.write_all(head.as_bytes());
        false
    });
    let server = origin.server(|_| {});
    for (path, body) in [("/length", "abc"), ("/chunked", "3\r\nabc\r\n")] {
        for _ in 0..2 {
            let mut client = client(&server);
            client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
            assert_eq!(client.head().status, 200);
            assert_eq!(client.rest(), body.as_bytes());
        }
    }
    // None was stored.
    assert_eq!(origin.count(), 4);
}

#[test]
fn a_client_that_leaves_takes_nothing_with_it() {
    let gate = super::origin::Gate::default();
    let waits = gate.clone();
    let origin = TestOrigin::new(move |got, stream| {
        waits.pass();
        reply(stream, 200, "Cache-Control: max-age=60\r\n", got.line.as_bytes(), false)
    });
    let server = origin.server(|_| {});
    let mut leaves = client(&server);
    leaves.send(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    origin.wait_for(1);
    drop(leaves);
    gate.open();
    // Its response is stored nevertheless.
    until("it is stored", || {
        client(&server).ask("GET /a", "Cache-Control: only-if-cached\r\n").status == 200
    });
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_client_that_has_sent_its_last_request_is_answered() {
    let origin = echo();
    let server = origin.server(|_| {});
    let mut client = client(&server);
    client.send(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.reply(false).text(), "GET /a");
    assert_eq!(client.reply(false).text(), "GET /b");
    assert_eq!(client.rest(), b"");
}

#[test]
fn an_origin_that_is_not_there_is_a_bad_gateway() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = echo().server(|settings| {
        let base = format!("http://{free}").parse().unwrap();
        settings.http_origin = Some(frazil_server::HttpOrigin::new(base));
    });
    let mut client = client(&server);
    for _ in 0..2 {
        assert_eq!(client.get("/").status, 502);
    }
}

#[test]
fn a_response_framed_twice_is_framed_once_for_clients() {
    let origin = TestOrigin::new(|_, stream| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\n";
        let body = "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n";
        stream.write_all([head, body].concat().as_bytes()).is_ok()
    });
    let server = origin.server(|_| {});
    let mut client = client(&server);
    let first = client.get("/");
    assert!(first.field("content-length").is_none() || first.field("transfer-encoding").is_none());
    assert!(first.status == 502 || first.text() == "abcde", "{first:?}");
    let second = client.get("/");
    assert!(second.status == 502 || second.text() == "abcde", "{second:?}");
}

#[test]
fn a_fetch_beyond_the_limit_is_refused() {
    let gate = super::origin::Gate::default();
    let waits = gate.clone();
    let origin = TestOrigin::new(move |_, stream| {
        waits.pass();
        reply(stream, 200, "Cache-Control: max-age=60\r\n", b"", false)
    });
    let server = origin.server(|settings| {
        if let Some(origin) = &mut settings.http_origin {
            origin.fetches = 2;
        }
    });
    let mut clients: Vec<_> = (0..2).map(|_| client(&server)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
    }
    origin.wait_for(2);
    let mut refused = client(&server);
    assert_eq!(refused.get("/2").status, 503);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.reply(false).status, 200);
    }
    until("there is room again", || client(&server).get("/2").status == 200);
}

#[test]
fn a_draining_server_answers_waiters() {
    let gate = super::origin::Gate::default();
    let waits = gate.clone();
    let origin = TestOrigin::new(move |_, stream| {
        let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbo";
        std::io::Write::write_all(stream, begun).unwrap();
        waits.pass();
        std::io::Write::write_all(stream, b"dy").is_ok()
    });
    let server = origin.server(|_| {});
    let (mut waiting, mut idle) = (client(&server), client(&server));
    assert_eq!(idle.ask("GET /", "Cache-Control: only-if-cached\r\n").status, 504);
    waiting.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(waiting.head().status, 200);
    assert_eq!(waiting.bytes(2), b"bo");
    server.handle().drain(std::time::Duration::from_secs(20));
    assert_eq!(idle.rest(), b"");
    gate.open();
    assert_eq!(waiting.rest(), b"dy");
    server.join().unwrap();
}

const TOO_LARGE: &[u8] = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99000000\r\n\r\n";

/// The connection would be reset, and the reply lost, if it was closed with bytes that are not read.
#[test]
fn a_body_that_is_too_large_is_answered_although_all_of_it_is_sent_first() {
    let server = echo().server(|_| {});
    for _ in 0..10 {
        let mut client = client(&server);
        client.send(TOO_LARGE);
        for _ in 0..80 {
            client.send(&[b'x'; 100_000]);
        }
        assert_eq!(client.reply(false).status, 413);
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn a_body_without_end_is_not_read_for_ever() {
    let server = echo().server(|_| {});
    let mut endless = client(&server);
    endless.send(TOO_LARGE);
    let sent = (0..2000).take_while(|_| endless.stream.write_all(&[b'x'; 100_000]).is_ok()).count();
    // 16 MiB, and what the system holds of two sockets.
    assert!((160..1000).contains(&sent), "{sent}");
    // Nor is who sends no more and does not go waited for.
    let mut silent = client(&server);
    silent.send(TOO_LARGE);
    assert_eq!(silent.reply(false).status, 413);
    silent.stream.write_all(b"x").unwrap();
    pass_seconds(&server, 6);
    let begun = Instant::now();
    while silent.stream.write_all(b"x").is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it lingers");
        std::thread::sleep(Duration::from_millis(10));
    }
}
