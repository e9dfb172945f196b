//! Tracking clients, and their messages.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Barrier;

use frazil_server::{Address, Server, Settings};

use super::client::{Client, request, requests, settings, shown};
use super::origin::{Answer, TestOrigin, until};

fn start() -> Server {
    let memcached = vec!["127.0.0.1:0".parse().unwrap()];
    Server::start(Settings { memcached, threads: 2, ..settings() }).unwrap()
}

/// A client with RESP3 that tracks with these options.
fn tracking(server: &Server, options: &str) -> Client {
    let mut client = Client::new(server);
    client.ask(&requests("HELLO 3"));
    client.expect(&format!("CLIENT TRACKING ON {options}"), "+OK");
    client
}

fn stale(key: &str) -> String {
    format!(">2 $10 invalidate *1 ${} {key}", key.len())
}

const ALL: &str = ">2 $10 invalidate _";

/// Expects this next.
#[track_caller]
fn next(client: &mut Client, what: &str) {
    let mut bytes = vec![0; what.len() + what.split(' ').count() + 1];
    client.stream.read_exact(&mut bytes).unwrap();
    assert_eq!(shown(&bytes), what);
}

/// Expects this message, and no other before the next reply.
#[track_caller]
fn is_told(client: &mut Client, what: &str) {
    next(client, what);
    // An extra message would have arrived by now: it takes the same way as that of another request.
    client.expect("PING", "+PONG");
}

#[test]
fn readers_of_a_key_are_notified_once_of_its_change() {
    let server = start();
    let mut writer = Client::new(&server);
    let mut reader = tracking(&server, "");
    let mut other = tracking(&server, "");
    for (before, change) in [
        ("DEL k", "SET k x"),
        ("SET k x", "SET k y XX"),
        ("SET k x", "GETSET k x"),
        ("SET k x", "APPEND k x"),
        ("DEL k", "INCRBY k 1"),
        ("SET k x", "DEL k"),
        ("DEL k", "SETNX k x"),
        ("SET k x", "EXPIRE k 100"),
        ("SET k x EX 100", "PERSIST k"),
        ("SET k x", "MSET a x k x"),
        ("DEL k", "MSETNX k x"),
        ("SET k x", "GETDEL k"),
        ("SET k x", "SETRANGE k 1 x"),
        ("SET k x", "SETBIT k 1 1"),
        ("SET l x", "COPY l k REPLACE"),
        ("SET k x", "RENAME k l"),
        ("SET l x", "RENAME l k"),
        ("SET k x", "GETEX k EX 100"),
        ("SET k x", "MULTI\nSET k y\nEXEC"),
    ] {
        writer.ask(&requests(before));
        reader.ask(&requests("GET k\nMGET k z\nSTRLEN k"));
        other.ask(&requests("STRLEN k"));
        writer.ask(&requests(change));
        is_told(&mut reader, &stale("k"));
        is_told(&mut other, &stale("k"));
        // No client has read it since.
        writer.ask(&requests("SET k 0"));
        reader.expect("PING", "+PONG");
    }
    // A request without effect causes no message.
    reader.expect("GET k\nEXISTS none\nTTL none", "$1 0 :0 :-2");
    writer.ask(&requests("SET k x NX\nDEL none\nEXPIRE none 1\nPERSIST k\nGETEX k\nTOUCH k"));
    reader.expect("PING", "+PONG");
    // It is notified of its own writes too.
    reader.send(&requests("SET k x"));
    next(&mut reader, "+OK");
    is_told(&mut reader, &stale("k"));
    reader.expect("CLIENT TRACKING OFF\nGET k", "+OK $1 x");
    writer.expect("SET k y", "+OK");
    reader.expect("PING", "+PONG");
}

#[test]
fn writes_by_memcached_and_flushes_are_notified() {
    let server = start();
    let Address::Tcp(address) = server.addresses()[0] else { unreachable!() };
    let mut memcached = TcpStream::connect(address).unwrap();
    let mut reader = tracking(&server, "");
    for (request, reply) in [
        ("set k 0 0 1\r\n1\r\n", "STORED\r\n"),
        ("incr k 1\r\n", "2\r\n"),
        ("md k I\r\n", "HD\r\n"),
        ("delete k\r\n", "DELETED\r\n"),
        ("ms k 1\r\nx\r\n", "HD\r\n"),
    ] {
        reader.ask(&requests("GET k"));
        memcached.write_all(request.as_bytes()).unwrap();
        let mut bytes = vec![0; reply.len()];
        memcached.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), reply);
        is_told(&mut reader, &stale("k"));
    }
    reader.expect("GET k", "$1 x");
    let mut all = tracking(&server, "BCAST PREFIX other");
    Client::new(&server).expect("FLUSHALL", "+OK");
    is_told(&mut reader, ALL);
    is_told(&mut all, ALL);
    Client::new(&server).expect("SET k x", "+OK");
    reader.expect("PING", "+PONG");
}

#[test]
fn prefixes_need_no_reads() {
    let server = start();
    let mut writer = Client::new(&server);
    let mut some = tracking(&server, "BCAST PREFIX user: PREFIX item:1");
    let mut all = tracking(&server, "NOLOOP BCAST");
    writer.expect("MSET user:1 x item:2 x item:1 x item x\nDEL user:1 none", "+OK :1");
    for key in ["user:1", "item:1", "user:1"] {
        next(&mut some, &stale(key));
    }
    some.expect("GET item:2\nPING", "$1 x +PONG");
    writer.expect("SET item:2 y", "+OK");
    some.expect("PING", "+PONG");
    for key in ["user:1", "item:2", "item:1", "item", "user:1", "item:2"] {
        next(&mut all, &stale(key));
    }
    all.expect("SET item x\nPING", "+OK +PONG");
    let info = "%3 $5 flags ~3 $2 on $5 bcast $6 noloop $8 redirect :0 $8 prefixes *1 $0";
    all.expect("CLIENT TRACKINGINFO", info);
    some.expect(
        "CLIENT TRACKINGINFO",
        "%3 $5 flags ~2 $2 on $5 bcast $8 redirect :0 $8 prefixes *2 $5 user: $6 item:1",
    );
    all.expect("CLIENT TRACKING ON BCAST PREFIX ab PREFIX abc", 
        "-ERR Prefix 'abc' overlaps with an existing prefix 'ab'. Prefixes for a single client must not overlap.");
}

#[test]
fn clients_choose_tracked_keys_by_request() {
    let server = start();
    let mut writer = Client::new(&server);
    writer.expect("MSET a x b x c x d x e x", "+OK");
    let mut chosen = tracking(&server, "OPTIN");
    chosen.ask(&requests("GET a\nCLIENT CACHING YES\nGET b\nGET c\nCLIENT CACHING YES\nMGET d e"));
    writer.expect("MSET a y b y c y", "+OK");
    is_told(&mut chosen, &stale("b"));
    writer.expect("SET e y", "+OK");
    is_told(&mut chosen, &stale("e"));
    // A transaction counts as one request.
    chosen.ask(&requests("CLIENT CACHING YES\nMULTI\nGET a\nGET b\nEXEC\nGET c"));
    writer.expect("SET c z\nSET b z", "+OK +OK");
    is_told(&mut chosen, &stale("b"));
    let mut but = tracking(&server, "OPTOUT");
    but.ask(&requests("CLIENT CACHING NO\nGET a\nGET b\nCLIENT CACHING NO\nSTRLEN c\nSTRLEN d"));
    writer.expect("MSET a u b u c u", "+OK");
    is_told(&mut but, &stale("b"));
    // It has read this key in its transaction.
    is_told(&mut chosen, &stale("a"));
    writer.expect("SET d u", "+OK");
    is_told(&mut but, &stale("d"));
    is_told(&mut chosen, &stale("d"));
    // With `NOLOOP` it hears nothing of its own writes, while others' copies are still reported.
    let mut quiet = tracking(&server, "NOLOOP");
    quiet.expect("GET a\nSET a v\nGET a", "$1 u +OK $1 v");
    chosen.ask(&requests("CLIENT CACHING YES\nGET a"));
    quiet.expect("MULTI\nSET a w\nEXEC\nGET b", "+OK +QUEUED *1 +OK $1 u");
    is_told(&mut chosen, &stale("a"));
    writer.expect("SET b v", "+OK");
    is_told(&mut quiet, &stale("b"));
}

#[test]
fn messages_are_redirected() {
    let server = start();
    let mut told = Client::new(&server);
    told.ask(&requests("HELLO 3"));
    let id = shown(&told.ask(&requests("CLIENT ID")))[1..].to_owned();
    let mut writer = Client::new(&server);
    // The reader may then speak RESP2.
    let mut reader = Client::new(&server);
    reader.expect("CLIENT GETREDIR", ":-1");
    reader.expect(
        &format!("CLIENT TRACKING ON REDIRECT {id}\nCLIENT GETREDIR"),
        &format!("+OK :{id}"),
    );
    reader.expect("GET k", "$-1");
    writer.expect("SET k x", "+OK");
    is_told(&mut told, &stale("k"));
    let info = format!("*6 $5 flags *1 $2 on $8 redirect :{id} $8 prefixes *0");
    reader.expect("CLIENT TRACKINGINFO\nGET k", &format!("{info} $1 x"));
    let list = shown(&writer.ask(&requests("CLIENT LIST")));
    assert!(list.contains(&format!("flags=t db=0 sub=0 psub=0 user=default redir={id}")), "{list}");
    reader.ask(&requests("HELLO 3"));
    drop(told);
    // Only then is it certain that it has left.
    let is_gone = || {
        !shown(&Client::new(&server).ask(&requests("CLIENT LIST"))).contains(&format!("id={id} "))
    };
    until("the connection has gone", is_gone);
    writer.expect("SET k y", "+OK");
    next(&mut reader, &format!(">2 $21 tracking-redir-broken :{id}"));
    reader.expect("GET k", "$1 y");
    writer.expect("SET k z", "+OK");
    let info = format!("%3 $5 flags ~2 $2 on $15 broken_redirect $8 redirect :{id} $8 prefixes *0");
    reader.expect("CLIENT TRACKINGINFO", &info);
}

#[test]
fn invalid_tracking_is_refused() {
    let server = start();
    let mut client = Client::new(&server);
    let two = "-ERR only a connection with RESP3 is told of changes (HELLO 3): this one, or that of REDIRECT";
    client.expect("CLIENT TRACKING ON\nCLIENT TRACKING OFF", &format!("{two} +OK"));
    client.ask(&requests("HELLO 3"));
    let switched = |what| {
        format!(
            "-ERR You can't switch {what} before disabling tracking for this client, and then re-enabling it with a different mode."
        )
    };
    let caching = "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled";
    let longest = "p".repeat(256);
    for (request, reply) in [
        ("CLIENT TRACKING maybe", "-ERR syntax error"),
        ("CLIENT TRACKING ON soon", "-ERR syntax error"),
        ("CLIENT TRACKING ON PREFIX", "-ERR syntax error"),
        (
            "CLIENT TRACKING ON REDIRECT 99999",
            "-ERR The client ID you want redirect to does not exist",
        ),
        ("CLIENT TRACKING ON REDIRECT x", "-ERR client-id should be greater than 0"),
        ("CLIENT TRACKING ON PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled"),
        (
            "CLIENT TRACKING ON OPTIN OPTOUT",
            "-ERR You can't specify both OPTIN mode and OPTOUT mode",
        ),
        ("CLIENT TRACKING ON OPTIN BCAST", "-ERR OPTIN and OPTOUT are not compatible with BCAST"),
        ("CLIENT CACHING YES", caching),
        ("CLIENT TRACKING ON", "+OK"),
        ("CLIENT CACHING YES", caching),
        ("CLIENT TRACKING ON OPTIN", &switched("OPTIN/OPTOUT mode")),
        ("CLIENT TRACKING ON BCAST", &switched("BCAST mode on/off")),
        ("CLIENT TRACKING OFF\nCLIENT TRACKING ON OPTIN", "+OK +OK"),
        (
            "CLIENT CACHING NO",
            "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        ),
        ("RESET\nHELLO 3 SETNAME", "+RESET -ERR Syntax error in HELLO option 'SETNAME'"),
        ("CLIENT GETREDIR", ":-1"),
    ] {
        client.expect(request, reply);
    }
    client.ask(&requests("HELLO 3"));
    let many = "-ERR a connection has no more than 64 prefixes of 255 bytes";
    client.expect(&format!("CLIENT TRACKING ON BCAST PREFIX {longest}"), many);
    let prefixes: String = (100..165).map(|prefix| format!(" PREFIX {prefix}")).collect();
    client.expect(&format!("CLIENT TRACKING ON BCAST{prefixes}"), many);
    client.expect(&format!("CLIENT TRACKING ON BCAST{}", &prefixes[11..]), "+OK");
    let id = shown(&client.ask(&requests("CLIENT ID")))[1..].to_owned();
    client.expect(
        &format!("CLIENT TRACKING ON REDIRECT {id} REDIRECT {id}"),
        "-ERR A client can only redirect to a single other client",
    );
}

/// Expired entries are looked for once a second.
#[test]
fn readers_are_notified_of_expiry() {
    let server = start();
    let mut reader = tracking(&server, "");
    reader.expect("SET k x PX 300\nGET k\nGET none", "+OK $1 x _");
    next(&mut reader, &stale("k"));
    reader.expect("GET k", "_");
    // Absent to tracking clients, and it stays so.
    Client::new(&server).expect("GETLEASE none 50000 0", "*2 $-1 $3 won");
    std::thread::sleep(std::time::Duration::from_millis(1200));
    reader.expect("PING", "+PONG");
}

#[test]
fn a_full_table_notifies_of_evicted_keys() {
    let server = Server::start(Settings { memory_bytes: 2 << 20, ..settings() }).unwrap();
    let mut reader = tracking(&server, "");
    let keys: Vec<_> = (1000..2000).map(|key| key.to_string()).collect();
    let line: String = keys.iter().map(|key| format!("STRLEN {key}\n")).collect();
    reader.send(&requests(&line));
    let mut writer = Client::new(&server);
    let mut info = String::new();
    while !info.contains("cmdstat_strlen:calls=1000,") {
        info = shown(&writer.ask(&requests("INFO stats commandstats")));
    }
    let count = |name: &str| {
        let at = info.find(name).unwrap() + name.len();
        info[at..].split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    let kept = count("tracking_total_keys:");
    assert!((100..600).contains(&kept), "{kept}");
    assert_eq!(count("tracking_total_items:"), kept);
    for key in &keys {
        writer.expect(&format!("SET {key} x"), "+OK");
    }
    let mut replies = vec![0; 1000 * (4 + 35)];
    reader.stream.read_exact(&mut replies).unwrap();
    let replies = shown(&replies);
    assert!(keys.iter().all(|key| replies.contains(&stale(key))));
    reader.expect("PING", "+PONG");
}

/// An array of replies is sent in several turns, without messages in between.
#[test]
fn no_message_comes_within_an_array_of_replies() {
    let server = start();
    let value = "x".repeat(1 << 18);
    let mut writer = Client::new(&server);
    for key in 0..16 {
        writer.ask(&request(&["SET", &key.to_string(), &value]));
    }
    let mut reader = tracking(&server, "");
    let keys: Vec<_> = (0..16).map(|key| key.to_string()).collect();
    reader.expect("GET k", "_");
    reader.send(&requests(&format!("MGET {}", keys.join(" "))));
    // It waits for its client, which does not read.
    std::thread::sleep(std::time::Duration::from_millis(100));
    writer.expect("SET k x\nSET 0 y", "+OK +OK");
    let expected = format!("*16\r\n{}", format!("${}\r\n{value}\r\n", value.len()).repeat(16));
    let mut replies = vec![0; expected.len()];
    reader.stream.read_exact(&mut replies).unwrap();
    assert!(replies == expected.as_bytes(), "{}", shown(&replies[..100]));
    next(&mut reader, &stale("k"));
    is_told(&mut reader, &stale("0"));
}

#[test]
fn a_value_that_was_waited_for_is_kept_until_it_changes() {
    let origin = TestOrigin::new(|path| match path {
        "/once" => Answer::With(200, "Cache-Control: no-store\r\n", b"x".to_vec()),
        path => Answer::With(200, "", path.as_bytes().to_vec()),
    });
    let server = origin.server(|_| {});
    let mut reader = tracking(&server, "");
    // It tracks the absence of the key.
    let mut before = tracking(&server, "");
    before.expect("STRLEN a", ":0");
    reader.send(&requests("GET a\nMGET a b\nGET once"));
    origin.wait_for(3);
    origin.gate.open();
    next(&mut reader, "$2 /a *2 $2 /a $2 /b $1 x");
    is_told(&mut reader, &stale("once"));
    next(&mut before, &stale("a"));
    // When the value arrives, not by the sweep of each second: before its next reply, unless a thread lost its core.
    let is_told_at_once = (0..8).any(|nth| {
        let key = format!("key{nth}");
        before.expect(&format!("STRLEN {key}"), ":0");
        reader.expect(&format!("GET {key}"), &format!("$5 /{key}"));
        before.send(&requests("PING"));
        let first = format!("{} +PONG", stale(&key));
        let mut bytes = vec![0; first.len() + first.split(' ').count() + 1];
        before.stream.read_exact(&mut bytes).unwrap();
        let replies = shown(&bytes);
        assert!(replies == first || replies == format!("+PONG {}", stale(&key)), "{replies}");
        replies == first
    });
    assert!(is_told_at_once);
    let mut writer = Client::new(&server);
    writer.expect("SET a x", "+OK");
    is_told(&mut reader, &stale("a"));
    writer.expect("SET b x", "+OK");
    is_told(&mut reader, &stale("b"));
}

/// A client that keeps copies by the messages it gets.
struct Keeper {
    client: Client,
    lines: BufReader<TcpStream>,
    copies: HashMap<String, String>,
}

impl Keeper {
    fn new(server: &Server) -> Keeper {
        let mut client = Client::new(server);
        client.ask(&requests("HELLO 3"));
        let lines = BufReader::new(client.stream.try_clone().unwrap());
        let mut keeper = Keeper { client, lines, copies: HashMap::new() };
        // Messages about other clients may follow at once.
        assert_eq!(keeper.ask("CLIENT TRACKING ON"), "+OK");
        keeper
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Sends a request, and returns its reply.
    fn ask(&mut self, line: &str) -> String {
        self.ask_all(line, 1).remove(0)
    }

    fn ask_all(&mut self, lines: &str, count: usize) -> Vec<String> {
        self.client.send(&requests(lines));
        (0..count).map(|_| self.reply()).collect()
    }

    /// Reads keys in one piece, and keeps their values.
    fn keep(&mut self, keys: &[String]) {
        let gets: String = keys.iter().map(|key| format!("GET {key}\n")).collect();
        self.client.send(&requests(&gets));
        for key in keys {
            let value = self.reply();
            self.copies.insert(key.clone(), value);
        }
    }

    /// The next reply; what is told before it is done.
    fn reply(&mut self) -> String {
        loop {
            let head = self.line();
            if head != ">2" {
                return if head.starts_with('$') { self.line() } else { head };
            }
            assert_eq!((self.line().as_str(), self.line().as_str()), ("$10", "invalidate"));
            if self.line() == "*1" {
                self.line();
                let key = self.line();
                self.copies.remove(&key);
            } else {
                self.copies.clear();
            }
        }
    }
}

/// What each of several threads keeps is looked at whenever all of them pause, since a later write would hide that an
/// earlier one was not told.
#[test]
fn no_copy_stays_out_of_date_whatever_threads_do() {
    const KEEPERS: usize = 5;
    let server = Server::start(Settings { threads: 3, ..settings() }).unwrap();
    let pause = Barrier::new(KEEPERS);
    let keys: Vec<String> = (0..12).map(|key| format!("k{key}")).collect();
    let keep = |number: usize| {
        let (mut keeper, mut plain) = (Keeper::new(&server), Keeper::new(&server));
        plain.ask("CLIENT TRACKING OFF");
        let mut out_of_date = HashMap::new();
        for round in 0..120 {
            for at in 0..6 {
                match (at + number + round) % 4 {
                    0 => {
                        let set = |key: &String| format!("SET {key} {number}-{round}-{at}\n");
                        keeper.ask_all(&keys.iter().map(set).collect::<String>(), keys.len());
                    }
                    1 if at == 0 => drop(keeper.ask("FLUSHALL")),
                    1 => drop(keeper.ask(&format!("DEL {}", keys[at]))),
                    _ => keeper.keep(&keys),
                }
            }
            pause.wait();
            // What is told may be under way. Who has found one goes on, as others wait for it.
            let mut tries: u32 = if out_of_date.is_empty() { 10_000 } else { 0 };
            while tries > 0 {
                keeper.ask("PING");
                out_of_date = keeper.copies.clone();
                out_of_date.retain(|key, value| *value != plain.ask(&format!("GET {key}")));
                tries = if out_of_date.is_empty() { 0 } else { tries - 1 };
                std::thread::sleep(std::time::Duration::from_micros(200 * u64::from(tries > 0)));
            }
            pause.wait();
        }
        out_of_date
    };
    std::thread::scope(|scope| {
        let keep = &keep;
        let threads: Vec<_> =
            (0..KEEPERS).map(|number| scope.spawn(move || keep(number))).collect();
        for thread in threads {
            let out_of_date = thread.join().unwrap();
            assert!(out_of_date.is_empty(), "{out_of_date:?}");
        }
    });
}
