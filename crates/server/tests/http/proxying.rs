//! What a proxy between clients and an origin owes both.

use std::io::Write as _;

use frazil_server::Origin;

use super::origin::{TestOrigin, client, pass_seconds};

#[test]
fn a_response_that_sets_a_cookie_is_for_one_client() {
    let origin = TestOrigin::with(|got| {
        let fields = match got.line.as_str() {
            "GET /fresh" => "Cache-Control: max-age=60\r\n",
            "GET /public" => "Cache-Control: public, s-maxage=60\r\n",
            "GET /named" => "Cache-Control: max-age=60, no-cache=\"Set-Cookie\"\r\n",
            _ => "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
        };
        let number = got.number;
        (200, format!("{fields}Set-Cookie: id={number}\r\n"), number.to_string().into_bytes())
    });
    let server = origin.server(|_| {});
    let mut one = client(&server);
    for path in ["/fresh", "/public", "/guessed"] {
        let (first, second) = (one.get(path), client(&server).get(path));
        assert_ne!(first.text(), second.text(), "{path}");
        for reply in [first, second] {
            assert_eq!(reply.field("set-cookie"), Some(&*format!("id={}", reply.text())), "{path}");
        }
    }
    // The origin says that the rest is for all.
    assert!(one.get("/named").field("set-cookie").is_some());
    let second = one.get("/named");
    assert!(second.is_hit() && second.field("set-cookie").is_none());

    let server = origin.server(|settings| {
        settings.http_origin.as_mut().unwrap().stores_cookies = true;
    });
    let mut one = client(&server);
    let (first, second) = (one.get("/fresh"), one.get("/fresh"));
    assert!(second.is_hit() && first.field("set-cookie") == second.field("set-cookie"));
}

#[test]
fn a_cookie_of_a_validation_is_not_stored() {
    let origin = TestOrigin::with(|got| match got.field("if-none-match") {
        Some(_) => (304, "Cache-Control: max-age=60\r\nSet-Cookie: id=1\r\n".into(), Vec::new()),
        None => (200, "Cache-Control: max-age=60\r\nETag: \"e\"\r\n".into(), b"body".to_vec()),
    });
    let server = origin.server(|_| {});
    let mut client = client(&server);
    client.get("/");
    pass_seconds(&server, 70);
    for _ in 0..2 {
        let reply = client.get("/");
        assert_eq!((reply.text(), reply.field("set-cookie")), ("body", None));
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_host_and_its_default_port_are_one() {
    let origin = TestOrigin::with(|got| {
        (200, "Cache-Control: max-age=60\r\n".into(), got.number.to_string().into_bytes())
    });
    let server = origin.server(|_| {});
    let mut client = client(&server);
    let mut ask = |line: &str, host: &str| {
        client.send(format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        client.reply(false).body
    };
    for host in ["a.example", "a.example:80", "A.Example:80", "a.example:"] {
        assert_eq!(ask("GET /", host), b"0", "{host}");
    }
    assert_eq!(ask("GET http://a.example:80/", "other"), b"0");
    for (number, host) in
        ["a.example:81", "a.example:8080", "a.example:443", "[::1]:80"].into_iter().enumerate()
    {
        assert_eq!(ask("GET /", host), (number + 1).to_string().into_bytes(), "{host}");
    }
    assert_eq!(ask("GET /", "[::1]"), b"4");
}

#[test]
fn the_origin_learns_who_asks_and_no_framing() {
    let origin = TestOrigin::with(|_| (200, String::new(), Vec::new()));
    let server = origin.server(|_| {});
    let mut client = client(&server);
    client.get("/plain");
    client.ask(
        "GET /behind",
        "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\nTransfer_Encoding: chunked\r\n\
         Content_Length: 5\r\nX_Forwarded_For: 192.0.2.3\r\nkeep_alive: 1\r\nx_other: kept\r\n",
    );
    let got = origin.got();
    assert_eq!(got[0].field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(got[1].field("x-forwarded-for"), Some("192.0.2.1, 192.0.2.2, 127.0.0.1"));
    for name in ["transfer_encoding", "content_length", "x_forwarded_for", "keep_alive"] {
        assert_eq!(got[1].field(name), None, "{name}");
    }
    assert_eq!(got[1].field("x_other"), Some("kept"));
}

#[test]
fn a_switch_of_protocols_reaches_no_client() {
    let origin = TestOrigin::new(|_, stream| {
        let _ = stream.write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        );
        false
    });
    let server = origin.server(|_| {});
    for fields in ["", "Connection: upgrade\r\nUpgrade: websocket\r\n"] {
        assert_eq!(client(&server).ask("GET /", fields).status, 502);
    }
}

#[test]
fn a_bare_line_feed_in_a_head_of_the_origin_is_refused() {
    let origin = TestOrigin::new(|got, stream| {
        let head = match got.line.as_str() {
            "GET /first" => "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
            "GET /field" => "HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
            "GET /end" => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\n",
            "GET /interim" => {
                "HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n"
            }
            _ => "HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na\nb\n\nc",
        };
        // In pieces, as a head may arrive.
        let pieces = head.as_bytes().chunks(17);
        pieces.into_iter().all(|piece| stream.write_all(piece).is_ok())
    });
    let server = origin.server(|_| {});
    let mut client = client(&server);
    for _ in 0..2 {
        for path in ["/first", "/field", "/end", "/interim"] {
            let reply = client.get(path);
            assert_eq!((reply.status, reply.field("set-cookie")), (502, None), "{path}");
        }
        for _ in 0..2 {
            assert_eq!(client.get("/good").text(), "a\nb\n\nc");
        }
    }
}

#[test]
fn a_body_of_a_mebibyte_is_passed_on() {
    let origin = TestOrigin::with(|got| (200, String::new(), got.body.len().to_string().into()));
    let server = origin.server(|settings| {
        settings.origin = Some(Origin::new("http://127.0.0.1:1/{key}".parse().unwrap()))
    });
    let mut client = client(&server);
    let body = "x".repeat(1 << 20);
    client.send(
        format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(),
    );
    client.send(body.as_bytes());
    let reply = client.reply(false);
    assert_eq!((reply.status, reply.text()), (200, "1048576"));
}
