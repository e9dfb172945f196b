//! The replies to requests, as memcached 1.6.18 sends them.

use frazil_server::Server;

use crate::client::{Client, settings};

/// Sends each request, and expects its reply.
#[track_caller]
fn talk(exchanges: &[(&str, &str)]) {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    for (request, reply) in exchanges {
        client.expect(&format!("{request}\r\n"), &format!("{reply}\r\n"));
    }
}

#[test]
fn values_are_stored_under_conditions() {
    talk(&[
        ("set a 1 0 1\r\nx", "STORED"),
        ("add a 0 0 1\r\ny", "NOT_STORED"),
        ("add b 0 0 1\r\ny", "STORED"),
        ("replace c 0 0 1\r\nz", "NOT_STORED"),
        ("replace b 2 0 1\r\nz", "STORED"),
        ("append a 9 0 2\r\n12", "STORED"),
        ("prepend a 9 0 2\r\n34", "STORED"),
        ("append c 0 0 1\r\nx", "NOT_STORED"),
        ("get a b c", "VALUE a 1 5\r\n34x12\r\nVALUE b 2 1\r\nz\r\nEND"),
        ("cas c 0 0 1 5\r\nx", "NOT_FOUND"),
        ("cas a 0 0 1 5\r\nx", "EXISTS"),
        ("set d 0 0 3\r\nabcd", "CLIENT_ERROR bad data chunk\r\nERROR"),
        ("set d 0 0 -1", "CLIENT_ERROR bad command line format"),
        ("set d 0 0", "ERROR"),
        ("set d x 0 1", "CLIENT_ERROR bad command line format"),
    ]);
}

#[test]
fn a_number_for_cas_is_of_one_write() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    let cas_of = |client: &mut Client, key: &str| {
        let reply = String::from_utf8(client.ask(format!("gets {key}\r\n").as_bytes())).unwrap();
        reply.lines().next().unwrap().rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    client.expect("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    let first = cas_of(&mut client, "a");
    client.expect(&format!("cas a 0 0 1 {first}\r\ny\r\n"), "STORED\r\n");
    client.expect(&format!("cas a 0 0 1 {first}\r\nz\r\n"), "EXISTS\r\n");
    let second = cas_of(&mut client, "a");
    client.expect(&format!("ms a 1 C{first}\r\nz\r\nmd a C{first}\r\n"), "EX\r\nEX\r\n");
    let reply = client.ask(format!("ms a 1 c C{second}\r\nz\r\n").as_bytes());
    let third = cas_of(&mut client, "a");
    assert_eq!(reply, format!("HD c{third}\r\n").as_bytes());
    client.expect(&format!("md a C{third}\r\nget a\r\n"), "HD\r\nEND\r\n");
}

#[test]
fn numbers_are_counted() {
    talk(&[
        ("incr n 1", "NOT_FOUND"),
        ("set n 3 0 2\r\n10", "STORED"),
        ("incr n 5", "15"),
        ("decr n 6", "9"),
        ("get n", "VALUE n 3 2\r\n9 \r\nEND"),
        ("decr n 100", "0"),
        ("incr n 18446744073709551615", "18446744073709551615"),
        ("incr n 2", "1"),
        ("incr n -1", "CLIENT_ERROR invalid numeric delta argument"),
        ("set n 0 0 1\r\nx", "STORED"),
        ("incr n 1", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
        ("delete n 5", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"),
        ("delete n 0", "DELETED"),
        ("delete n", "NOT_FOUND"),
    ]);
}

#[test]
fn meta_requests_show_the_requested_flags() {
    talk(&[
        ("mg a v", "EN"),
        ("mg a v k Oxy", "EN ka Oxy"),
        ("ms a 2 F5 T100 k Oz\r\nhi", "HD ka Oz"),
        ("mg a h", "HD h0"),
        ("mg a u h s f t k O1 v", "VA 2 h1 s2 f5 t100 ka O1\r\nhi"),
        ("mg a t T20", "HD t100"),
        ("mg a T30 t", "HD t30"),
        ("ms a 1 MA\r\n!", "HD"),
        ("ms a 1 MP\r\n>", "HD"),
        ("ms a 1 ME\r\nx", "NS"),
        ("ms b 1 MR\r\nx", "NS"),
        ("mg a v", "VA 4\r\n>hi!"),
        ("ms a 2 MX\r\nhi", "CLIENT_ERROR invalid mode for ms M token"),
        ("ms a x\r\n", "CLIENT_ERROR bad command line format\r\nERROR"),
        ("mg a v v", "CLIENT_ERROR duplicate flag"),
        ("mg a !", "CLIENT_ERROR invalid flag"),
        ("ms a 2 w0\r\nhi", "CLIENT_ERROR invalid flag"),
        ("mg a Tx v v", "CLIENT_ERROR duplicate flag"),
        ("mg a Tx !", "CLIENT_ERROR invalid flag"),
        ("ms a 2 Tx Fx\r\nhi", "CLIENT_ERROR bad token in command line format"),
        ("ms a 2 Fx Tx Mset\r\nhi", "CLIENT_ERROR incorrect length for M token"),
        ("md a q\r\nmd a q", "NF"),
        ("mg", "ERROR"),
        ("mz a", "ERROR"),
        ("gat", "ERROR"),
        ("gat 0", "END"),
        ("me a", "EN"),
        ("me a z Tx", "EN"),
        ("me a b", "CLIENT_ERROR bad command line format"),
    ]);
}

#[test]
fn meta_numbers_are_counted_and_made() {
    talk(&[
        ("ma n", "NF"),
        ("ma n N0 J13 v t", "VA 2 t-1\r\n13"),
        ("ma new t N30 T60", "HD t-1"),
        ("ma newer N30 t T60", "HD t30"),
        ("ma newest N30 T60 t", "HD t60"),
        ("ma n v D30", "VA 2\r\n43"),
        ("ma n MD D50 v", "VA 1\r\n0"),
        ("ma n q\r\nma n v", "VA 1\r\n2"),
        ("ma n T60 t", "HD t60"),
        ("ma n t T90 t", "CLIENT_ERROR invalid or duplicate flag"),
        ("ma n t T90", "HD t60"),
        ("ma n T0 t", "HD t-1"),
        ("ma made N30 T60 q", "HD"),
        ("mg made t", "HD t60"),
        ("ma n C5", "EX"),
        ("ma n MX", "CLIENT_ERROR invalid mode for ma M token"),
        ("ma n Dx", "CLIENT_ERROR invalid or duplicate flag"),
        ("ms n 1\r\nx", "HD"),
        ("ma n", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
        ("ma n C5", "EX"),
        ("ms n 0\r\n", "HD"),
        ("ma n C5", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
    ]);
}

#[test]
fn keys_in_base_64_are_decoded() {
    talk(&[
        ("ms Zm9v 2 b\r\npo", "HD"),
        ("mg Zm9v v", "EN"),
        ("mg Zm9v b v k", "VA 2 kZm9v b\r\npo"),
        ("get foo", "VALUE foo 0 2\r\npo\r\nEND"),
        ("mg fo b", "CLIENT_ERROR error decoding key"),
        ("mg fo Tx b", "CLIENT_ERROR error decoding key"),
        ("mg fo b Tx", "CLIENT_ERROR bad token in command line format"),
        ("me Zm9w b x", "EN"),
    ]);
}

/// One client makes an entry or finds it stale, and is told to fetch it. The others are told that a client does.
#[test]
fn one_client_wins() {
    talk(&[
        ("mg a t N30", "HD t30 W"),
        ("mg a t N30", "HD t30 Z"),
        ("ms a 1 T100\r\nx", "HD"),
        ("mg a v N30 R50", "VA 1\r\nx"),
        ("mg a v R200", "VA 1 W\r\nx"),
        ("mg a v R200", "VA 1 Z\r\nx"),
        ("ms r 1 T100\r\nx", "HD"),
        ("mg r R60 T30", "HD"),
        ("ms r 1 T100\r\nx", "HD"),
        ("mg r T30 R60", "HD W"),
        ("mg made N30 T60", "HD W"),
        ("mg made t", "HD t60 Z"),
        ("ms a 1 T100\r\ny", "HD"),
        ("md a I T30", "HD"),
        ("mg a v t", "VA 1 t30 X W\r\ny"),
        ("mg a v", "VA 1 Z X\r\ny"),
        ("md a I T30", "HD"),
        ("mg a v", "VA 1 X W\r\ny"),
        ("ms a 1 I C1 T90\r\nz", "HD"),
        ("mg a v t", "VA 1 t30 Z X\r\nz"),
        ("ms a 1 I C0\r\nz", "EX"),
        ("ms a 1 T90\r\nz", "HD"),
        ("mg a v t", "VA 1 t90\r\nz"),
    ]);
}

#[test]
fn a_value_that_grows_is_not_stale_and_nobody_is_to_bring_it() {
    talk(&[
        ("set a 0 0 1\r\nx", "STORED"),
        ("md a I T30", "HD"),
        ("append a 0 0 1\r\ny", "STORED"),
        ("mg a v", "VA 2\r\nxy"),
        ("mg b N30", "HD W"),
        ("prepend b 0 0 1\r\nz", "STORED"),
        ("mg b v", "VA 1\r\nz"),
    ]);
}

#[test]
fn entries_are_dumped() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    for number in 0..1000 {
        client.expect(&format!("set k%{number} 0 100 1\r\nv\r\n"), "STORED\r\n");
    }
    let dump = String::from_utf8(client.ask(b"lru_crawler metadump all\r\n")).unwrap();
    assert_eq!(dump.lines().count(), 1001);
    assert!(dump.ends_with("END\r\n"));
    let found = dump.lines().filter(|line| line.starts_with("key=k%25")).count();
    assert_eq!(found, 1000);
    let some = String::from_utf8(client.ask(b"stats cachedump 1 10\r\n")).unwrap();
    assert_eq!(some.lines().filter(|line| line.starts_with("ITEM k%")).count(), 10);
}

#[test]
fn requests_are_counted() {
    let server = Server::start(settings()).unwrap();
    let mut client = Client::new(&server);
    client.ask(b"set a 0 0 1\r\nx\r\nget a b\r\ngat 0 a b\r\ndelete a\r\ndelete a\r\nincr a 1\r\n");
    let counts = [
        ("cmd_get", 2),
        ("get_hits", 1),
        ("get_misses", 1),
        ("cmd_set", 1),
        ("touch_hits", 1),
        ("touch_misses", 1),
        ("delete_hits", 1),
        ("delete_misses", 1),
        ("incr_misses", 1),
        ("curr_items", 0),
    ];
    for (name, count) in counts {
        assert_eq!(client.stat(name), count, "{name}");
    }
    client.expect("stats reset\r\n", "RESET\r\n");
    assert_eq!(client.stat("get_hits") + client.stat("cmd_set"), 0);
}

/// A key in base 64 may hold ends of lines, which must not break the lines of replies.
#[test]
fn keys_of_any_bytes_do_not_make_lines() {
    // `a\r\nEND:b`
    talk(&[
        ("stats detail on", "OK"),
        ("ms YQ0KRU5EOmI= 1 b\r\nx", "HD"),
        ("mg YQ0KRU5EOmI= b v", "VA 1\r\nx"),
        ("stats detail dump", "PREFIX a??END get 1 hit 1 set 0 del 0\r\nEND"),
        ("stats cachedump 1 0", "ITEM YQ0KRU5EOmI= [1 b; 0 s]\r\nEND"),
    ]);
}
