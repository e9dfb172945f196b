//! Lifetimes, dates and flushes, by a clock that the tests move.

use frazil_server::{Server, StoreKind};

use crate::client::{Client, settings, store};

const OK: &str = "OK\r\n";

#[test]
fn entries_end_when_they_should() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    let date = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let date = date.as_secs();
    let keys = [("ever", 0), ("short", 10), ("date", date + 100), ("past", date - 100)];
    for (key, time) in keys {
        client.expect(&format!("set {key} 0 {time} 1\r\nv\r\n"), "STORED\r\n");
    }
    client.expect("set below 0 -1 1\r\nv\r\n", "STORED\r\n");
    let found = |keys: &[&str]| {
        keys.iter().map(|key| format!("VALUE {key} 0 1\r\nv\r\n")).collect::<String>() + "END\r\n"
    };
    let all = "get ever short date past below\r\n";
    client.expect(all, &found(&["ever", "short", "date"]));
    assert_eq!(client.stat("get_expired"), if store() == StoreKind::Segment { 2 } else { 0 });
    client.expect("touch short 50\r\ndebugtime 11\r\n", "TOUCHED\r\nOK\r\n");
    client.expect(all, &found(&["ever", "short", "date"]));
    client.expect("debugtime 45\r\n", OK);
    client.expect(all, &found(&["ever", "date"]));
    client.expect("debugtime 60\r\n", OK);
    client.expect(all, &found(&["ever"]));
    client.expect("touch short 5\r\nincr short 1\r\n", "NOT_FOUND\r\nNOT_FOUND\r\n");
    client.expect("gat -1 ever\r\nget ever\r\n", &format!("{}END\r\n", found(&["ever"])));
}

#[test]
fn a_flush_takes_what_was_there_and_nothing_else() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    client.expect("set a 0 0 1\r\nv\r\nflush_all\r\nget a\r\n", "STORED\r\nOK\r\nEND\r\n");
    client.expect("set a 0 0 1\r\nw\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\nw\r\nEND\r\n");
    client.expect("flush_all 10\r\nget a\r\n", "OK\r\nVALUE a 0 1\r\nw\r\nEND\r\n");
    client.expect("debugtime 9\r\n", OK);
    client.expect(
        "set b 0 0 1\r\nv\r\nget a b\r\n",
        "STORED\r\nVALUE a 0 1\r\nw\r\nVALUE b 0 1\r\nv\r\nEND\r\n",
    );
    client.expect("debugtime 2\r\n", OK);
    client.expect("get a b\r\nadd b 0 0 1\r\nx\r\n", "END\r\nSTORED\r\n");
    assert_eq!(client.stat("get_flushed"), if store() == StoreKind::Segment { 3 } else { 0 });
    client.expect(
        "flush_all noreply\r\nget b\r\nflush_all x\r\n",
        "END\r\nCLIENT_ERROR invalid exptime argument\r\n",
    );
}
