//! What exceeds a limit is refused, and counted under the limit's name.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Shutdown, SocketAddr};

use frazil_server::{Address, Limits, Server, Settings};

#[path = "shared/socket.rs"]
mod socket;
#[path = "shared/store.rs"]
mod store;

use socket::connect;

/// A server of memcached's protocol, RESP and the operators' pages, and its addresses in this order.
fn start(limits: Limits) -> (Server, [SocketAddr; 3]) {
    let any = || vec!["127.0.0.1:0".parse().unwrap()];
    let server = Server::start(Settings {
        memcached: any(),
        resp: any(),
        admin: any(),
        store: store::store(),
        limits,
        memory_bytes: 16 << 20,
        ..Settings::default()
    });
    let server = server.unwrap();
    let tcp = |address: &Address| match address {
        Address::Tcp(address) => *address,
        Address::Unix(path) => panic!("{path:?}"),
    };
    let addresses: Vec<SocketAddr> = server.addresses().iter().map(tcp).collect();
    (server, addresses.try_into().unwrap())
}

/// Sends requests, and returns all replies.
fn exchange(address: SocketAddr, requests: &[u8]) -> String {
    let mut stream = connect(address);
    // It may be closed before it has read all of them.
    let _ = stream.write_all(requests).and_then(|()| stream.shutdown(Shutdown::Write));
    String::from_utf8_lossy(&socket::rest(&mut stream)).into_owned()
}

/// The counts by limit.
fn counts(admin: SocketAddr) -> BTreeMap<String, u64> {
    let page = exchange(admin, b"GET /metrics HTTP/1.1\r\n\r\n");
    let lines = page.lines().filter_map(|line| {
        let (limit, count) =
            line.strip_prefix("frazil_server_limited_total{limit=\"")?.split_once("\"} ")?;
        Some((limit.to_owned(), count.parse().unwrap()))
    });
    lines.collect()
}

fn resp(words: &[&str]) -> Vec<u8> {
    let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    format!("*{}\r\n{}", words.len(), words.iter().map(bulk).collect::<String>()).into_bytes()
}

#[track_caller]
fn expect(addresses: [SocketAddr; 3], at: usize, requests: &[u8], (limit, reply): (&str, &str)) {
    let before = counts(addresses[2]);
    let got = exchange(addresses[at], requests);
    let shown = String::from_utf8_lossy(&requests[..requests.len().min(40)]);
    assert!(got.contains(reply) && got.is_empty() == reply.is_empty(), "{shown}: {got}");
    let now = counts(addresses[2]);
    let more = |name: &str| now[name] - before[name];
    let grown: Vec<(&str, u64)> =
        now.keys().map(|name| (&name[..], more(name))).filter(|(_, more)| *more > 0).collect();
    assert_eq!(grown, [(limit, 1)], "{shown}: {got}");
}

#[test]
fn each_refusal_of_memcached_counts_under_its_limit() {
    let (_server, addresses) = start(Limits { item_bytes: Some(100_000), ..store::limits() });
    let (long, bad) = ("k".repeat(300), "CLIENT_ERROR bad command line format");
    let value = |head: &str| format!("{head} 200000\r\n{}\r\n", "v".repeat(200_000));
    let too_large = ("item", "SERVER_ERROR object too large for cache");
    let flags = (0..40).map(|flag| format!(" {}", char::from(b'A' + flag))).collect::<String>();
    for (requests, told) in [
        ("x".repeat(5000), ("line", "")),
        (format!("get {long}\r\n"), ("key", bad)),
        (format!("get a b {long}\r\n"), ("key", bad)),
        (format!("get {}\r\n", "k".repeat(5000)), ("key", bad)),
        (format!("set {long} 0 0 1\r\n"), ("key", bad)),
        (format!("delete {long}\r\n"), ("key", bad)),
        (format!("incr {long} 1\r\n"), ("key", bad)),
        (format!("touch {long} 1\r\n"), ("key", bad)),
        (format!("mg {long} v\r\n"), ("key", bad)),
        (format!("mg a{flags}\r\n"), ("arguments", "CLIENT_ERROR options flags are too long")),
        (value("set a 0 0"), too_large),
        (value("ms a"), too_large),
    ] {
        expect(addresses, 0, requests.as_bytes(), told);
    }
}

#[test]
fn each_refusal_of_resp_counts_under_its_limit() {
    let (_server, addresses) = start(store::limits());
    let (long, value) = ("k".repeat(300), "v".repeat(1_100_000));
    let keys: Vec<String> = (0..4100).map(|key| format!("k{key}")).collect();
    let watch: Vec<&str> = ["WATCH"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let transaction = [resp(&["MULTI"]), resp(&["SET", "a", &value]).repeat(2)].concat();
    let (line, key) = ("Protocol error: too big", "-ERR the key is longer than 255 bytes");
    let item = "-ERR string exceeds maximum allowed size";
    for (requests, told) in [
        (b"*1048577\r\n".to_vec(), ("arguments", "-ERR Protocol error: invalid multibulk length")),
        (b"*1\r\n$536870913\r\n".to_vec(), ("request", "-ERR Protocol error: invalid bulk length")),
        (vec![b'a'; 70_000], ("line", line)),
        ([&b"*"[..], &[b'1'; 70_000]].concat(), ("line", line)),
        ([&b"*1\r\n$"[..], &[b'1'; 70_000]].concat(), ("line", line)),
        (resp(&["SET", "a", &value.repeat(2)]), ("request", "-ERR the request has more than")),
        (resp(&["SET", &long, "v"]), ("key", key)),
        (resp(&["MSET", "a", "v", &long, "v"]), ("key", key)),
        (resp(&["APPEND", &long, "v"]), ("key", key)),
        (resp(&["SET", "a", &value]), ("item", item)),
        (resp(&["MSET", "a", &value]), ("item", item)),
        (resp(&["SETRANGE", "a", "1100000", "v"]), ("item", item)),
        (
            [resp(&["SET", "b", &value[..600_000]]), resp(&["APPEND", "b", &value[..600_000]])]
                .concat(),
            ("item", item),
        ),
        (transaction, ("transaction", "-ERR a transaction has no more than")),
        (resp(&watch), ("watched", "-ERR a connection watches no more than 4096 keys")),
    ] {
        expect(addresses, 1, &requests, told);
    }
}

#[test]
fn turns_cut_short_count_under_their_limit() {
    let (_server, addresses) = start(Limits { turn_requests: 4, ..store::limits() });
    let [memcached, resp_at, admin] = addresses;
    let ends = |replies: &str, end: &str| replies.matches(end).count();
    assert_eq!(ends(&exchange(memcached, &b"get a\r\n".repeat(8)), "END\r\n"), 8);
    assert_eq!(counts(admin)["pipeline"], 1, "the last turn leaves none");
    assert_eq!(ends(&exchange(resp_at, &resp(&["PING"]).repeat(12)), "+PONG"), 12);
    assert_eq!(counts(admin)["pipeline"], 3);
    let set = format!("set a 0 0 100000\r\n{}\r\n", "v".repeat(100_000));
    assert_eq!(exchange(memcached, set.as_bytes()), "STORED\r\n");
    assert_eq!(counts(admin)["replies"], 0);
    // Three values fill the replies of a turn.
    assert_eq!(ends(&exchange(memcached, b"get a a a a\r\n"), "VALUE"), 4);
    assert_eq!(counts(admin)["replies"], 1);
}

#[test]
fn every_limit_has_a_count() {
    let (_server, [.., admin]) = start(store::limits());
    let names: Vec<String> = counts(admin).into_keys().collect();
    let expected = "arguments connections fetches idle item key line memory pipeline replies request request_time transaction \
                    waiters watched";
    assert_eq!(names.join(" "), expected);
}

#[test]
fn limits_are_settable() {
    let limits = Limits {
        line_bytes: Some(1024),
        key_bytes: 20,
        arguments: 16,
        reply_bytes: 4096,
        ..store::limits()
    };
    let (_server, addresses) = start(limits);
    let [memcached, resp_at, admin] = addresses;
    let (fits, long) = ("k".repeat(20), "k".repeat(21));
    let stored = exchange(memcached, format!("set {fits} 0 0 1\r\nv\r\nget {fits}\r\n").as_bytes());
    assert_eq!(stored, format!("STORED\r\nVALUE {fits} 0 1\r\nv\r\nEND\r\n"));
    assert_eq!(exchange(resp_at, &resp(&["SET", &fits, "v"])), "+OK\r\n");
    let bad = ("key", "CLIENT_ERROR bad command line format");
    for request in
        ["get LONG", "get a LONG", "mg LONG v", "incr LONG 1", "set LONG 0 0 1", "mg LONG N30 v"]
    {
        expect(addresses, 0, format!("{request}\r\n").replace("LONG", &long).as_bytes(), bad);
    }
    let key = ("key", "-ERR the key is longer than 20 bytes");
    for words in [
        &["SET", &long, "v"][..],
        &["MSET", "a", "v", &long, "v"],
        &["APPEND", &long, "v"],
        &["COPY", &fits, &long],
        &["GETLEASE", &long, "1000", "0"],
    ] {
        expect(addresses, 1, &resp(words), key);
    }
    assert_eq!(exchange(memcached, &[b'x'; 1024]), "");
    assert_eq!(counts(admin)["line"], 0);
    expect(addresses, 0, &[b'x'; 1025], ("line", ""));
    let line = ("line", "-ERR Protocol error: too big inline request");
    expect(addresses, 1, &[b'x'; 1025], line);
    // It has an end, but one as far away.
    expect(addresses, 1, &[&[b'x'; 1025][..], b"\r\n"].concat(), line);
    assert_eq!(exchange(resp_at, &resp(&["DEL"; 16])), ":0\r\n");
    let many = ("arguments", "-ERR Protocol error: invalid multibulk length");
    expect(addresses, 1, &resp(&["DEL"; 17]), many);
    let value = "v".repeat(3000);
    assert_eq!(exchange(resp_at, &resp(&["SET", "a", &value])), "+OK\r\n");
    assert_eq!(exchange(resp_at, &resp(&["GET", "a"]).repeat(3)).matches("$3000").count(), 3);
    assert_eq!(counts(admin)["replies"], 1);
}

#[test]
fn impossible_limits_are_refused() {
    let refused = |limits: Limits| {
        let settings = Settings { memory_bytes: 16 << 20, limits, ..Settings::default() };
        Server::start(settings).map(|_| ()).unwrap_err().to_string()
    };
    let limits = store::limits;
    for key_bytes in [15, 256] {
        let limits = Limits { key_bytes, ..limits() };
        assert_eq!(refused(limits), "bytes of a key: expected 16 to 255");
    }
    let line_bytes = Some(1023);
    let line = refused(Limits { line_bytes, ..limits() });
    assert_eq!(line, "bytes of a line: expected 1024 to 65536");
    let arguments = refused(Limits { arguments: (1 << 20) + 1, ..limits() });
    assert_eq!(arguments, "arguments: expected 16 to 1048576");
    let replies = refused(Limits { reply_bytes: 0, ..limits() });
    assert_eq!(replies, "bytes of unread replies: expected 4096 to 1048576");
}
