//! Recordings of requests.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use frazil_recording::{Decoder, End, FOR_EVER, Operation, Record};
use frazil_server::{Address, Recordable, Server, Settings};

use crate::client::{Client, settings};

/// A file that does not exist yet.
fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("frazil-server-{name}-{}", std::process::id()))
}

/// The records of a file, which is removed.
fn records(path: &Path) -> (Vec<Record>, End) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::remove_file(path).unwrap();
    let (mut decoder, mut records, mut at) = (Decoder::default(), Vec::new(), 0);
    while at < bytes.len() {
        at += decoder.decode(&bytes[at..], &mut records).unwrap();
    }
    (records, decoder.end().unwrap())
}

#[test]
fn requests_are_recorded_with_what_they_found() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    client.expect("set before 0 0 1\r\nx\r\n", "STORED\r\n");
    let path = file("recording");
    let recording = server.handle().record(Recordable::Keys, &path, 1.0).unwrap();
    client.expect("get a\r\nset a 0 100 3\r\nabc\r\n", "END\r\nSTORED\r\n");
    client.expect("get a b\r\nmg a v\r\n", "VALUE a 0 3\r\nabc\r\nEND\r\nVA 3\r\nabc\r\n");
    client.expect(
        "append a 0 0 1\r\nd\r\ndelete a\r\ndelete a\r\n",
        "STORED\r\nDELETED\r\nNOT_FOUND\r\n",
    );
    // A client that wins a key stores no value: these are misses.
    client.expect("mg won v N30\r\nget won\r\n", "VA 0 W\r\n\r\nVALUE won 0 0\r\n\r\nEND\r\n");
    let large = "v".repeat(70_000);
    client.expect(&format!("set large 0 0 70000\r\n{large}\r\n"), "STORED\r\n");
    client.ask(b"get large\r\n");
    let recorded = recording.finish().unwrap();
    client.expect("get a\r\n", "END\r\n");

    let (records, end) = records(&path);
    assert_eq!((recorded.records, recorded.lost), (records.len() as u64, 0));
    let shown: Vec<(Operation, bool)> =
        records.iter().map(|record| (record.operation, record.size.is_some())).collect();
    let (get, set) = ((Operation::Get, true), (Operation::Set, true));
    let (absent, delete) = ((Operation::Get, false), (Operation::Delete, false));
    // Misses without a write come last, because one might have followed.
    let expected = [get, get, get, get, set, delete, delete, set, get, absent, absent, absent];
    assert_eq!(shown, expected, "{records:#?}");
    assert_eq!(end.gets, Some(8));
    // A miss has the size and the lifetime of the write that follows it.
    assert_eq!(records[0].lifetime_ns, Some(100_000_000_000));
    assert_eq!(records[0].size, records[1].size);
    assert!(records[0].size.is_some_and(|bytes| (4..300).contains(&bytes)), "{records:#?}");
    assert_eq!(records[7].lifetime_ns, Some(FOR_EVER));
    assert_eq!(records[7].size, records[8].size);
    assert!(records[8].size.is_some_and(|bytes| (70_005..80_000).contains(&bytes)));
    let ids = |places: &[usize]| places.iter().all(|&at| records[at].id == records[places[0]].id);
    assert!(ids(&[0, 1, 2, 3, 4, 5, 6]) && ids(&[10, 11]) && !ids(&[0, 9]), "{records:#?}");
}

/// Also if its replies take several turns, if it waits, or if the server looks again.
#[test]
fn a_request_is_recorded_once() {
    let resp = vec!["127.0.0.1:0".parse().unwrap()];
    let server = Server::start(Settings { resp, ..settings() }).unwrap();
    let mut client = Client::new(&server);
    let large = "v".repeat(60_000);
    let keys: Vec<String> = (0..16).map(|key| format!("k{key}")).collect();
    for key in &keys {
        client.expect(&format!("set {key} 0 0 60000\r\n{large}\r\n"), "STORED\r\n");
    }
    let path = file("once");
    let recording = server.handle().record(Recordable::Keys, &path, 1.0).unwrap();
    let count = |replies: Vec<u8>| replies.windows(6).filter(|it| it == b"VALUE ").count();
    assert_eq!(count(client.ask(format!("get {}\r\n", keys.join(" ")).as_bytes())), 16);
    // The first wins a stale key, the second finds it won, the third waits in vain.
    client.ask(b"md k0 I\r\nmg k0 v\r\nmg k0 v\r\nmg k0 v w1\r\n");
    let Address::Tcp(resp) = &server.addresses()[1] else { panic!("no port") };
    let mut waiting = Client::at(*resp);
    for (request, reply) in
        [("GETLEASE new 30000 0", "*2\r\n$-1\r\n"), ("GETLEASE new 30000 1", "*2\r\n$-1\r\n")]
    {
        waiting.send(format!("{request}\r\nPING\r\n").as_bytes());
        let told = waiting.until(b"+PONG\r\n");
        assert!(told.starts_with(reply.as_bytes()), "{}", told.escape_ascii());
    }
    drop(recording);
    let (records, end) = records(&path);
    let gets = records.iter().filter(|it| it.operation == Operation::Get).count();
    // `md` with `I` changes an item: a get and a set.
    assert_eq!((gets, end.gets), (16 + 1 + 3 + 2, Some(22)), "{records:#?}");
    assert_eq!(records.len(), 22 + 1, "{records:#?}");
}

#[test]
fn a_share_of_the_keys_is_recorded_with_all_requests() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    let path = file("share");
    let recording = server.handle().record(Recordable::Keys, &path, 0.25).unwrap();
    let busy = server.handle().record(Recordable::Keys, &file("second"), 1.0).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::ResourceBusy);
    for key in 0..4000 {
        client.send(format!("set k{key} 0 0 1\r\nx\r\nget k{key} k{key}\r\n").as_bytes());
        client.ask(b"");
    }
    drop(recording);
    let (records, end) = records(&path);
    let mut counts = std::collections::HashMap::new();
    records.iter().for_each(|record| *counts.entry(record.id).or_insert(0) += 1);
    assert!(counts.values().all(|&count| count == 3), "{counts:?}");
    // A thousand of 4,000 keys, give or take eleven standard deviations.
    assert!((700..1300).contains(&counts.len()), "{}", counts.len());
    assert_eq!(end.gets, Some(8000));
    // After it another can begin.
    drop(server.handle().record(Recordable::Keys, &path, 1.0).unwrap());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_recording_that_cannot_begin_says_why() {
    let server = Server::start(settings()).unwrap();
    let handle = server.handle();
    let begin = |clients, path: &Path, rate| handle.record(clients, path, rate).unwrap_err();
    assert_eq!(begin(Recordable::Http, &file("none"), 1.0).kind(), ErrorKind::InvalidInput);
    assert_eq!(begin(Recordable::Keys, &file("none"), 0.0).kind(), ErrorKind::InvalidInput);
    let error = begin(Recordable::Keys, Path::new("/no/such/folder"), 1.0);
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
}
