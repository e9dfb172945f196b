//! Arriving bodies, and clients that share a fetch.

use std::io::Write as _;
use std::time::{Duration, Instant};

use super::client::Client;
use super::origin::{Gate, TestOrigin, client, reply, until};

/// Sends a request, without waiting for the reply.
fn begin(client: &mut Client, path: &str) {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
}

#[test]
fn many_clients_of_a_cold_url_share_one_fetch() {
    let gate = Gate::default();
    let waits = gate.clone();
    let origin = TestOrigin::new(move |_, stream| {
        waits.pass();
        reply(stream, 200, "Cache-Control: max-age=60\r\n", b"body", false)
    });
    let server = origin.server(|_| {});
    let mut clients: Vec<_> = (0..60).map(|_| client(&server)).collect();
    clients.iter_mut().for_each(|client| begin(client, "/"));
    origin.wait_for(1);
    // Enough time for all of them to arrive, so that a second fetch would show.
    std::thread::sleep(Duration::from_millis(50));
    gate.open();
    for client in &mut clients {
        assert_eq!(client.reply(false).text(), "body");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_body_goes_to_all_waiters_as_it_arrives() {
    for framing in ["Transfer-Encoding: chunked\r\n\r\n", "Content-Length: 6\r\n\r\n"] {
        let is_chunked = framing.starts_with('T');
        let (first, last) = (Gate::default(), Gate::default());
        let gates = (first.clone(), last.clone());
        let origin = TestOrigin::new(move |_, stream| {
            let (begin, middle, end) = match is_chunked {
                true => ("3\r\nabc\r\n", "3\r\ndef\r\n", "0\r\n\r\n"),
                false => ("abc", "def", ""),
            };
            let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{framing}{begin}");
            stream.write_all(head.as_bytes()).unwrap();
            gates.0.pass();
            stream.write_all(middle.as_bytes()).unwrap();
            gates.1.pass();
            stream.write_all(end.as_bytes()).is_ok()
        });
        let server = origin.server(|_| {});
        let next = |client: &mut Client| match is_chunked {
            true => client.chunk().unwrap(),
            false => client.bytes(3),
        };
        let mut leader = client(&server);
        begin(&mut leader, "/");
        assert_eq!(leader.head().status, 200);
        assert_eq!(next(&mut leader), b"abc");
        // A reader that joins in the middle of the body gets it from the beginning.
        let mut follower = client(&server);
        begin(&mut follower, "/");
        let head = follower.head();
        assert!(head.field("cache-status").unwrap().ends_with("; stored; collapsed"), "{head:?}");
        assert_eq!(next(&mut follower), b"abc");
        first.open();
        assert_eq!(next(&mut leader), b"def");
        assert_eq!(next(&mut follower), b"def");
        last.open();
        if is_chunked {
            assert_eq!((leader.chunk(), follower.chunk()), (None, None));
        }
        until("it is stored", || client(&server).get("/").is_hit());
        assert_eq!(leader.get("/").text(), "abcdef");
        assert_eq!(origin.count(), 1);
    }
}

#[test]
fn no_client_queues_for_unshared_responses() {
    let gate = Gate::default();
    let waits = gate.clone();
    let origin = TestOrigin::new(move |got, stream| {
        waits.pass();
        let body = got.number.to_string();
        reply(stream, 200, "Cache-Control: private\r\n", body.as_bytes(), false)
    });
    let server = origin.server(|_| {});
    let mut clients: Vec<_> = (0..8).map(|_| client(&server)).collect();
    clients.iter_mut().for_each(|client| begin(client, "/"));
    origin.wait_for(1);
    gate.open();
    let mut bodies: Vec<_> =
        clients.iter_mut().map(|client| client.reply(false).text().to_owned()).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 8, "each its own");
    // The URL is remembered as not shared: all are fetched at once now.
    let shut = Gate::default();
    let waits = shut.clone();
    let origin = TestOrigin::new(move |got, stream| {
        if got.number > 0 {
            waits.pass();
        }
        reply(stream, 200, "Cache-Control: private\r\n", b"", false)
    });
    let server = origin.server(|_| {});
    let mut clients: Vec<_> = (0..8).map(|_| client(&server)).collect();
    clients[0].get("/");
    clients.iter_mut().for_each(|client| begin(client, "/"));
    origin.wait_for(9);
    shut.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.reply(false).status, 200));
}

#[test]
fn another_variant_has_its_own_fetch() {
    let gate = Gate::default();
    let waits = gate.clone();
    let origin = TestOrigin::new(move |got, stream| {
        waits.pass();
        let body = got.field("lang").unwrap_or("none").to_owned();
        let fields = "Cache-Control: max-age=60\r\nVary: lang\r\n";
        reply(stream, 200, fields, body.as_bytes(), false)
    });
    let server = origin.server(|_| {});
    let mut clients: Vec<_> = (0..6).map(|_| client(&server)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let lang = number % 2;
        client.send(format!("GET / HTTP/1.1\r\nHost: h\r\nLang: {lang}\r\n\r\n").as_bytes());
    }
    origin.wait_for(1);
    gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.reply(false).text(), (number % 2).to_string());
    }
}

#[test]
fn a_body_that_is_too_large_is_passed_on_and_the_origin_waits_for_its_reader() {
    const PART: usize = 1 << 16;
    const PARTS: usize = 1 << 9;
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counts = std::sync::Arc::clone(&sent);
    let origin = TestOrigin::new(move |_, stream| {
        use std::sync::atomic::Ordering::Relaxed;
        let head = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n",
            PART * PARTS
        );
        stream.write_all(head.as_bytes()).unwrap();
        (0..PARTS).all(|number| {
            counts.fetch_add(PART, Relaxed);
            stream.write_all(&[number as u8; PART]).is_ok()
        })
    });
    let server = origin.server(|_| {});
    let mut client = client(&server);
    begin(&mut client, "/");
    assert_eq!(client.head().status, 200);
    // The client does not read, so the origin can send no more than sockets and the window hold.
    let sent = || sent.load(std::sync::atomic::Ordering::Relaxed);
    let (begun, mut before) = (Instant::now(), 0);
    while sent() != before || sent() == 0 {
        before = sent();
        std::thread::sleep(Duration::from_millis(100));
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    assert!(sent() < PART * PARTS / 2, "{} bytes", sent());
    for number in 0..PARTS {
        assert_eq!(client.bytes(PART), [number as u8; PART], "{number}");
    }
    assert!(!client.get("/").is_hit());
    assert_eq!(origin.count(), 2);
}

#[test]
fn large_bodies_that_are_stored_are_sent_in_turns() {
    let body: Vec<u8> = (0..1_500_000_u32).map(|number| (number % 251) as u8).collect();
    let sent = body.clone();
    let origin =
        TestOrigin::with(move |_| (200, "Cache-Control: max-age=60\r\n".into(), sent.clone()));
    let server = origin.server(|_| {});
    let mut client = client(&server);
    assert!(client.get("/").body == body);
    let hit = client.get("/");
    assert!(hit.is_hit() && hit.body == body);
    let part = client.ask("GET /", "Range: bytes=1000000-\r\n");
    assert!(part.status == 206 && part.body == body[1_000_000..]);
}

#[test]
fn a_reader_that_does_not_read_is_cut_off_and_holds_up_nobody() {
    const PART: usize = 1 << 16;
    const PARTS: usize = 1 << 9;
    let gate = Gate::default();
    let waits = gate.clone();
    let origin = TestOrigin::new(move |_, stream| {
        let head =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        // It is slow, but not silent.
        while !waits.is_open() {
            stream.write_all(b"1\r\nx\r\n").unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
        for number in 0..PARTS {
            let chunk = [b"10000\r\n", &[number as u8; PART][..], b"\r\n"].concat();
            if stream.write_all(&chunk).is_err() {
                return false;
            }
        }
        stream.write_all(b"0\r\n\r\n").is_ok()
    });
    let server = origin.server(|settings| {
        if let Some(origin) = &mut settings.http_origin {
            origin.reader_timeout_ms = 1500;
        }
    });
    let (mut slow, mut fast) = (client(&server), client(&server));
    begin(&mut slow, "/");
    assert_eq!(slow.head().status, 200);
    begin(&mut fast, "/");
    assert!(fast.head().field("cache-status").unwrap().ends_with("collapsed"));
    gate.open();
    let mut bytes = 0;
    while let Some(chunk) = fast.chunk() {
        bytes += chunk.len();
    }
    assert!(bytes > PART * PARTS);
    assert!(!slow.rest().ends_with(b"0\r\n\r\n"));
    assert_eq!(origin.count(), 1);
}

#[test]
fn clients_without_chunks_read_to_the_end_of_the_connection() {
    let origin = TestOrigin::new(|_, stream| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        stream.write_all(head.as_bytes()).is_ok()
    });
    let server = origin.server(|_| {});
    let mut client = client(&server);
    client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let reply = client.reply(false);
    assert_eq!((reply.text(), reply.field("connection")), ("abc", Some("close")));
}
