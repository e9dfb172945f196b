//! Invalidation: by unsafe methods, and by `PURGE`.

use super::origin::{Gate, TestOrigin, client, reply};

fn numbered() -> TestOrigin {
    TestOrigin::with(|got| {
        let body = got.number.to_string().into_bytes();
        match got.line.as_str() {
            "GET /bad" | "POST /bad" => (500, String::new(), body),
            "POST /moves" => (201, "Location: http://h/a\r\nContent-Location: b\r\n".into(), body),
            "POST /elsewhere" => (201, "Location: http://other/a\r\n".into(), body),
            line if line.starts_with("POST") => (200, String::new(), body),
            _ => (200, "Cache-Control: max-age=60\r\n".into(), body),
        }
    })
}

#[test]
fn unsafe_methods_drop_what_they_may_have_changed() {
    let origin = numbered();
    let server = origin.server(|_| {});
    let mut client = client(&server);
    let post = |client: &mut super::client::Client, path: &str| {
        client.ask(&format!("POST {path}"), "Content-Length: 0\r\n").status
    };
    assert_eq!(client.get("/a").text(), "0");
    assert_eq!(client.get("/b").text(), "1");
    assert_eq!(post(&mut client, "/elsewhere"), 201);
    assert_eq!((client.get("/a").text(), client.get("/b").text()), ("0", "1"));
    assert_eq!(post(&mut client, "/moves"), 201);
    assert_eq!((client.get("/a").text(), client.get("/b").text()), ("4", "5"));
    assert_eq!(post(&mut client, "/a"), 200);
    assert_eq!(client.get("/a").text(), "7");
}

#[test]
fn overtaken_responses_are_not_stored() {
    let gate = Gate::default();
    let waits = gate.clone();
    let origin = TestOrigin::new(move |got, stream| {
        if got.number == 0 {
            waits.pass();
        }
        let body = got.number.to_string();
        reply(stream, 200, "Cache-Control: max-age=60\r\n", body.as_bytes(), false)
    });
    let server = origin.server(|_| {});
    let (mut one, mut other) = (client(&server), client(&server));
    one.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    origin.wait_for(1);
    assert_eq!(other.ask("DELETE /", "").text(), "1");
    gate.open();
    assert_eq!(one.reply(false).text(), "0");
    assert_eq!(other.get("/").text(), "2");
}

#[test]
fn purge_wants_the_token() {
    let origin = numbered();
    let server = origin.server(|settings| settings.purge_token = Some(b"secret".to_vec()));
    let mut client = client(&server);
    assert_eq!(client.get("/a").text(), "0");
    assert_eq!(client.ask("PURGE /a", "").status, 401);
    assert_eq!(client.ask("PURGE /a", "Authorization: Bearer secreT\r\n").status, 401);
    assert_eq!(client.ask("PURGE /a", "Authorization: Bearer secret1\r\n").status, 401);
    assert_eq!(client.get("/a").text(), "0");
    assert_eq!(client.ask("PURGE /a", "Authorization: Bearer secret\r\n").status, 200);
    assert_eq!(client.ask("PURGE /a", "Authorization: Bearer secret\r\n").status, 404);
    assert_eq!(client.get("/a").text(), "1");
    let closed = origin.server(|_| {});
    let mut client = super::origin::client(&closed);
    assert_eq!(client.ask("PURGE /a", "Authorization: Bearer secret\r\n").status, 405);
}

#[test]
fn bodies_of_requests_are_passed_on_whole() {
    let origin = TestOrigin::with(|got| (200, String::new(), got.body.clone()));
    let server = origin.server(|_| {});
    let mut client = client(&server);
    client.send(
        b"POST /x?y=z HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: a\r\nA: b\r\nC: d\r\n\r\n\
          3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: u\r\n\r\nGET /next HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    assert_eq!(client.reply(false).text(), "abcde");
    assert_eq!(client.reply(false).status, 200);
    client.send(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(client.reply(false).status, 100);
    client.send(b"ab");
    assert_eq!(client.reply(false).text(), "ab");
    let got = origin.got();
    assert_eq!(got[0].line, "POST /x?y=z");
    assert_eq!((got[0].field("a"), got[0].field("c")), (None, Some("d")));
    assert_eq!((got[0].field("host"), got[0].field("via")), (Some("h"), Some("1.1 frazil")));
}

#[test]
fn a_kept_connection_that_has_gone_loses_no_request_and_doubles_none_that_may_not_be() {
    let seen = std::sync::Mutex::new(Vec::new());
    let origin = TestOrigin::new(move |_, stream| {
        let mut seen = seen.lock().unwrap();
        let is_second = seen.contains(&stream.peer_addr().unwrap());
        seen.push(stream.peer_addr().unwrap());
        !is_second && reply(stream, 200, "", b"", false)
    });
    let server = origin.server(|_| {});
    let mut client = client(&server);
    assert_eq!(client.get("/a").status, 200);
    assert_eq!(client.ask("DELETE /b", "").status, 200);
    assert_eq!(client.ask("POST /c", "").status, 200);
    let lines: Vec<_> = origin.got().iter().map(|got| got.line.clone()).collect();
    let doubled = lines.iter().filter(|line| *line == "POST /c").count();
    assert_eq!((lines.len() >= 3, doubled), (true, 1), "{lines:?}");
}
