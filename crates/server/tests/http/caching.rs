//! Stored responses: which, for how long, for whom, and their parts.

use super::origin::{TestOrigin, client, pass_seconds, until};

/// Answers the number of the request, with these fields.
fn numbered(fields: &'static str) -> TestOrigin {
    TestOrigin::with(move |got| (200, fields.to_owned(), got.number.to_string().into_bytes()))
}

#[test]
fn a_response_is_used_as_long_as_it_is_fresh() {
    let origin = numbered("Cache-Control: max-age=60\r\nAge: 10\r\nX: y\r\n");
    let server = origin.server(|_| {});
    let mut client = client(&server);
    let first = client.get("/a");
    assert_eq!((first.text(), first.is_hit()), ("0", false));
    assert_eq!(first.field("cache-status"), Some("frazil; fwd=uri-miss; fwd-status=200; stored"));
    pass_seconds(&server, 40);
    let second = client.get("/a");
    assert_eq!((second.text(), second.is_hit(), second.field("x")), ("0", true, Some("y")));
    let age: u64 = second.field("age").unwrap().parse().unwrap();
    assert!((50..60).contains(&age), "{age}");
    assert_eq!(second.field("via"), Some("1.1 frazil"));
    pass_seconds(&server, 20);
    assert_eq!(client.get("/a").text(), "1");
    assert_eq!(client.get("/b").text(), "2");
    assert_eq!(client.ask("GET /a", "Host: other\r\n").status, 400);
}

#[test]
fn requests_say_how_fresh_a_response_must_be() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let server = origin.server(|_| {});
    let mut client = client(&server);
    let mut ask = |control: &str| client.ask("GET /", &format!("Cache-Control: {control}\r\n"));
    assert_eq!(ask("only-if-cached").status, 504);
    assert_eq!(ask("max-age=5").text(), "0");
    pass_seconds(&server, 10);
    assert_eq!(ask("max-age=20").text(), "0");
    assert_eq!(ask("only-if-cached").text(), "0");
    assert_eq!(ask("no-store").text(), "1");
    assert_eq!(ask("max-age=30").text(), "0", "what is not to be stored is not stored");
    assert_eq!(ask("max-age=5").text(), "2");
    pass_seconds(&server, 10);
    assert_eq!(ask("min-fresh=55").text(), "3");
    assert_eq!(ask("no-cache").text(), "4");
    pass_seconds(&server, 70);
    assert_eq!(ask("max-stale=20").text(), "4");
    assert_eq!(ask("max-stale").text(), "4");
    assert_eq!(ask("max-stale=2").text(), "5");
}

#[test]
fn validated_responses_are_not_sent_again() {
    let origin = TestOrigin::with(|got| match got.field("if-none-match") {
        Some("\"e\"") => (304, "Cache-Control: max-age=60\r\nX: new\r\n".into(), Vec::new()),
        _ => {
            let fields = "Cache-Control: max-age=60\r\nETag: \"e\"\r\nX: old\r\nY: kept\r\n";
            (200, fields.into(), b"body".to_vec())
        }
    });
    let server = origin.server(|_| {});
    let mut client = client(&server);
    assert_eq!(client.get("/").field("x"), Some("old"));
    pass_seconds(&server, 100);
    let validated = client.get("/");
    assert_eq!((validated.text(), validated.field("x")), ("body", Some("new")));
    assert_eq!(validated.field("y"), Some("kept"));
    assert_eq!(validated.field("cache-status"), Some("frazil; fwd=stale; fwd-status=304"));
    let hit = client.get("/");
    assert_eq!((hit.text(), hit.field("x"), hit.is_hit()), ("body", Some("new"), true));
    assert_eq!(origin.count(), 2);
}

#[test]
fn each_variant_is_stored_for_its_requests() {
    let origin = TestOrigin::with(|got| {
        let body = format!("{} {:?}", got.number, got.field("lang"));
        (200, "Cache-Control: max-age=60\r\nVary: Lang\r\n".into(), body.into_bytes())
    });
    let server = origin.server(|_| {});
    let mut client = client(&server);
    for _ in 0..2 {
        assert_eq!(client.ask("GET /", "Lang: a, b\r\n").text(), "0 Some(\"a, b\")");
        assert_eq!(client.ask("GET /", "Lang: c\r\n").text(), "1 Some(\"c\")");
        assert_eq!(client.get("/").text(), "2 None");
    }
    assert!(client.ask("GET /", "Lang: a\r\nLang: b\r\n").is_hit(), "lines are joined");
    assert_eq!(origin.count(), 3);
}

#[test]
fn private_responses_are_not_stored() {
    for fields in [
        "Cache-Control: no-store\r\n",
        "Cache-Control: private, max-age=60\r\n",
        "Cache-Control: max-age=60\r\nVary: *\r\n",
        "",
        "Cache-Control: no-cache\r\n",
        "Expires: 0\r\n",
    ] {
        let origin = numbered(fields);
        let server = origin.server(|_| {});
        let mut client = client(&server);
        assert_eq!(client.get("/").text(), "0");
        assert_eq!(client.get("/").text(), "1", "{fields}");
    }
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let server = origin.server(|_| {});
    let mut client = client(&server);
    assert_eq!(client.ask("GET /", "Authorization: a\r\n").text(), "0");
    assert_eq!(client.get("/").text(), "1");
    let origin = numbered("Cache-Control: s-maxage=60\r\n");
    let server = origin.server(|_| {});
    let mut client = super::origin::client(&server);
    assert_eq!(client.ask("GET /", "Authorization: a\r\n").text(), "0");
    assert_eq!(client.get("/").text(), "0");
}

#[test]
fn named_fields_go_to_the_first_client_only() {
    let origin = numbered(
        "Cache-Control: max-age=60, no-cache=\"A\", private=b\r\nA: 1\r\nB: 2\r\nC: 3\r\n",
    );
    let server = origin.server(|_| {});
    let mut client = client(&server);
    let first = client.get("/");
    assert_eq!(
        (first.field("a"), first.field("b"), first.field("c")),
        (Some("1"), Some("2"), Some("3"))
    );
    let second = client.get("/");
    assert!(second.is_hit());
    assert_eq!((second.field("a"), second.field("b"), second.field("c")), (None, None, Some("3")));
}

#[test]
fn conditions_and_ranges_are_answered_from_what_is_stored() {
    let fields = "Cache-Control: max-age=60\r\nETag: \"e\"\r\nContent-Type: t\r\n\
                  Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let origin = TestOrigin::with(move |_| (200, fields.into(), b"0123456789".to_vec()));
    let server = origin.server(|_| {});
    let mut client = client(&server);
    // A response that is not yet stored is fetched whole.
    assert_eq!(client.ask("GET /", "If-None-Match: \"e\"\r\n").status, 304);
    let not_modified = client.ask("GET /", "If-None-Match: \"x\", W/\"e\"\r\n");
    assert_eq!((not_modified.status, not_modified.field("content-type")), (304, None));
    assert_eq!(not_modified.field("etag"), Some("\"e\""));
    assert_eq!(
        client.ask("GET /", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n").status,
        304
    );
    assert_eq!(
        client.ask("GET /", "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n").status,
        200
    );
    let both = "If-None-Match: \"x\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    assert_eq!(client.ask("GET /", both).status, 200);
    let part = client.ask("GET /", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.text()), (206, "234"));
    assert_eq!(part.field("content-range"), Some("bytes 2-4/10"));
    assert_eq!(client.ask("GET /", "Range: bytes=2-4\r\nIf-Range: \"x\"\r\n").text(), "0123456789");
    assert_eq!(client.ask("GET /", "Range: bytes=2-4\r\nIf-Range: \"e\"\r\n").text(), "234");
    let none = client.ask("GET /", "Range: bytes=10-\r\n");
    assert_eq!((none.status, none.field("content-range")), (416, Some("bytes */10")));
    let head = client.ask("HEAD /", "");
    assert_eq!((head.status, head.field("content-length"), head.is_hit()), (200, Some("10"), true));
    assert_eq!(origin.count(), 1);
}

#[test]
fn stale_responses_serve_while_they_are_fetched_anew_and_when_that_fails() {
    let origin = TestOrigin::new(|got, stream| {
        let fields = "Cache-Control: max-age=10, stale-while-revalidate=20, stale-if-error=500\r\n";
        let body = got.number.to_string();
        got.number < 2 && super::origin::reply(stream, 200, fields, body.as_bytes(), false)
    });
    let server = origin.server(|_| {});
    let mut client = client(&server);
    assert_eq!(client.get("/").text(), "0");
    pass_seconds(&server, 15);
    assert_eq!(client.get("/").text(), "0");
    origin.wait_for(2);
    until("the new one is stored", || super::origin::client(&server).get("/").text() == "1");
    pass_seconds(&server, 100);
    // The origin closes its connection, and then also the new one of the second attempt.
    let stale = client.get("/");
    assert_eq!((stale.status, stale.text()), (200, "1"));
    pass_seconds(&server, 1000);
    assert_eq!(client.get("/").status, 502);
}
