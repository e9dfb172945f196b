//! Requests cut anywhere, and pipelined ones.

use super::origin::{Gate, TestOrigin, client, until};

fn echo() -> TestOrigin {
    TestOrigin::with(|got| {
        let body = format!("{} {}", got.line, String::from_utf8_lossy(&got.body));
        (200, "Cache-Control: max-age=60\r\n".into(), body.into_bytes())
    })
}

const REQUESTS: &[u8] = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n\
    POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n\
    POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nxyz\
    GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn requests_are_understood_however_they_are_cut() {
    let origin = echo();
    let server = origin.server(|_| {});
    for size in [1, 2, 7, 50] {
        let mut client = client(&server);
        for piece in REQUESTS.chunks(size) {
            client.send(piece);
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        for body in ["GET /a ", "POST /b abcd", "POST /c xyz", "GET /a "] {
            assert_eq!(client.reply(false).text(), body, "{size}");
        }
    }
}

#[test]
fn a_pipeline_is_answered_in_its_order() {
    let origin = echo();
    let server = origin.server(|_| {});
    let mut client = client(&server);
    let paths: Vec<String> = (0..200).map(|number| format!("/{}", number % 7)).collect();
    let requests = paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
    client.send(requests.collect::<String>().as_bytes());
    for path in &paths {
        assert_eq!(client.reply(false).text(), format!("GET {path} "));
    }
    assert_eq!(origin.count(), 7);
}

/// The last request of a connection that its client closes waits for the origin like any other.
#[test]
fn the_last_request_of_a_connection_is_answered_however_long_that_takes() {
    let gate = Gate::default();
    let waits = gate.clone();
    let origin = TestOrigin::with(move |got| {
        waits.pass();
        (200, "Cache-Control: max-age=60\r\n".into(), got.line.clone().into_bytes())
    });
    let server = origin.server(|_| {});
    let mut client = client(&server);
    client.send(b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    until("the origin is asked", || origin.count() == 1);
    gate.open();
    let reply = client.reply(false);
    assert_eq!((reply.text(), reply.field("connection")), ("GET /a", Some("close")));
    assert_eq!(client.rest(), b"");
}
