//! Waits for leases: `mg` with `N` and `w`.

use std::time::{Duration, Instant};

use frazil_server::{Server, Settings};

use super::client::{Client, settings};
use super::origin::until;

fn server(change: impl FnOnce(&mut Settings)) -> Server {
    let mut settings = settings();
    settings.threads = 2;
    change(&mut settings);
    Server::start(settings).unwrap()
}

/// A connection that has won the key, and `waiters` that wait for it.
fn won(server: &Server, waiters: u64) -> (Client, Vec<Client>) {
    let mut winner = Client::new(server);
    winner.expect("mg key v N30 w60000\r\n", "VA 0 W\r\n\r\n");
    let mut clients: Vec<_> = (0..waiters).map(|_| Client::new(server)).collect();
    // One after the other, so that their order is known.
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(b"mg key v N30 w60000\r\n");
        until_waiters(server, number as u64 + 1);
    }
    (winner, clients)
}

#[track_caller]
fn until_waiters(server: &Server, count: u64) {
    let mut client = Client::new(server);
    let client = std::cell::RefCell::new(&mut client);
    until("so many wait", || client.borrow_mut().stat("curr_waiters") == count);
}

#[track_caller]
fn assert_idle(server: &Server) {
    until_waiters(server, 0);
    let client = std::cell::RefCell::new(Client::new(server));
    until("no flight is left", || client.borrow_mut().stat("curr_flights") == 0);
}

#[track_caller]
fn assert_receives(client: &mut Client, expected: &str) {
    let received = client.receive(expected.len());
    assert_eq!(received.escape_ascii().to_string(), expected.as_bytes().escape_ascii().to_string());
}

#[test]
fn one_wins_and_the_others_get_its_value() {
    for write in ["set key 0 0 1\r\nx\r\n", "ms key 1\r\nx\r\n", "replace key 0 0 1\r\nx\r\n"] {
        let server = server(|_| {});
        let (mut winner, mut others) = won(&server, 5);
        winner.ask(write.as_bytes());
        for client in &mut others {
            assert_receives(client, "VA 1\r\nx\r\n");
        }
        winner.expect("mg key v N30 w500\r\n", "VA 1\r\nx\r\n");
        assert_idle(&server);
    }
}

#[test]
fn a_wait_at_its_timeout_reports_the_winner() {
    let server = server(|_| {});
    let (mut winner, _others) = won(&server, 0);
    let mut client = Client::new(&server);
    let begun = Instant::now();
    // Followed by a request whose reply waits as well.
    client.expect("mg key v N30 w150 Oq\r\nmg none\r\n", "VA 0 Oq Z\r\n\r\nEN\r\n");
    assert!(begun.elapsed() >= Duration::from_millis(140), "{:?}", begun.elapsed());
    // As without waits.
    client.expect("mg key v N30\r\nmg key v N30 w0\r\n", "VA 0 Z\r\n\r\nVA 0 Z\r\n\r\n");
    assert_eq!(client.stat("waits_late"), 1);
    winner.expect("set key 0 0 1\r\nx\r\n", "STORED\r\n");
    assert_idle(&server);
}

#[test]
fn a_winner_that_goes_is_followed_by_the_next() {
    let server = server(|_| {});
    let (winner, mut others) = won(&server, 4);
    // A client that leaves during its wait still gets its turn, and passes it on.
    drop(others.remove(0));
    drop(winner);
    assert_receives(&mut others[0], "VA 0 W\r\n\r\n");
    drop(others.remove(0));
    assert_receives(&mut others[0], "VA 0 W\r\n\r\n");
    until_waiters(&server, 1);
    others[0].expect("set key 0 0 1\r\nx\r\n", "STORED\r\n");
    assert_receives(&mut others[1], "VA 1\r\nx\r\n");
    assert_idle(&server);
}

/// On any threads.
#[test]
fn a_lease_passes_on_in_the_order_of_waiting() {
    let server = server(|_| {});
    let (mut winner, others) = won(&server, 16);
    for mut next in others {
        drop(winner);
        assert_receives(&mut next, "VA 0 W\r\n\r\n");
        winner = next;
    }
    winner.expect("set key 0 0 1\r\nx\r\nmg key v N30 w60000\r\n", "STORED\r\nVA 1\r\nx\r\n");
    assert_idle(&server);
}

#[test]
fn a_winner_that_leaves_without_waiters_leaves_the_key_to_the_next_request() {
    let server = server(|_| {});
    let (winner, _others) = won(&server, 0);
    drop(winner);
    assert_idle(&server);
    let mut client = Client::new(&server);
    client.expect("mg key v N30 w60000\r\n", "VA 0 W\r\n\r\n");
    // The same with a stale entry.
    client.expect("set key 0 0 1\r\nx\r\nmd key I T60\r\n", "STORED\r\nHD\r\n");
    client.expect("mg key v N30 w60000\r\n", "VA 1 X W\r\nx\r\n");
    drop(client);
    assert_idle(&server);
    Client::new(&server).expect("mg key v N30 w60000\r\n", "VA 1 X W\r\nx\r\n");
}

#[test]
fn a_deleted_lease_passes_to_a_waiter() {
    let server = server(|_| {});
    let (mut winner, mut others) = won(&server, 2);
    winner.expect("delete key\r\n", "DELETED\r\n");
    until_waiters(&server, 1);
    // Both look again, on whichever thread is first.
    others[0].stream.set_nonblocking(true).unwrap();
    let first_waits = others[0].stream.peek(&mut [0]).is_err();
    others[0].stream.set_nonblocking(false).unwrap();
    if first_waits {
        others.swap(0, 1);
    }
    assert_receives(&mut others[0], "VA 0 W\r\n\r\n");
    others[0].expect("set key 0 0 1\r\nx\r\n", "STORED\r\n");
    assert_receives(&mut others[1], "VA 1\r\nx\r\n");
    assert_idle(&server);
}

#[test]
fn a_connection_may_wait_for_itself_and_write_behind() {
    let server = server(|_| {});
    let mut client = Client::new(&server);
    client.send(b"mg key v N30 w60000\r\nmg key v N30 w60000\r\n");
    assert_receives(&mut client, "VA 0 W\r\n\r\n");
    client.send(b"set key 0 0 1\r\nx\r\n");
    assert_receives(&mut client, "VA 1\r\nx\r\nSTORED\r\n");
    assert_idle(&server);
}

#[test]
fn waits_are_bounded() {
    let server = server(|settings| settings.limits.waiters = 1);
    let (_winner, mut others) = won(&server, 1);
    let mut client = Client::new(&server);
    client.expect("mg key v N30 w60000\r\n", "VA 0 Z\r\n\r\n");
    assert_eq!(client.stat("waits_refused"), 1);
    client.expect("set key 0 0 1\r\nx\r\n", "STORED\r\n");
    assert_receives(&mut others[0], "VA 1\r\nx\r\n");
}

#[test]
fn a_connection_waits_for_no_more_than_it_may_and_goes_on_afterwards() {
    let server = server(|_| {});
    let (mut winner, _others) = won(&server, 0);
    let mut client = Client::new(&server);
    let count = 700;
    client.send("mg key v N30 w60000\r\n".repeat(count).as_bytes());
    until_waiters(&server, 256);
    winner.expect("set key 0 0 1\r\nx\r\n", "STORED\r\n");
    assert_receives(&mut client, &"VA 1\r\nx\r\n".repeat(count));
    assert_idle(&server);
}

#[test]
fn replies_behind_a_hole_are_bounded() {
    let server = server(|_| {});
    let (mut winner, _others) = won(&server, 0);
    let value = "v".repeat(10_000);
    winner.expect(&format!("set large 0 0 10000\r\n{value}\r\n"), "STORED\r\n");
    let mut client = Client::new(&server);
    client.send(b"mg key v N30 w60000\r\n");
    let gets = winner.stat("cmd_get");
    client.send("get large\r\n".repeat(2000).as_bytes());
    until_waiters(&server, 1);
    std::thread::sleep(Duration::from_millis(100));
    let served = winner.stat("cmd_get") - gets;
    assert!(served < 100, "{served} requests served behind a hole");
    winner.expect("set key 0 0 1\r\nx\r\n", "STORED\r\n");
    assert_receives(&mut client, "VA 1\r\nx\r\n");
    let reply = format!("VALUE large 0 10000\r\n{value}\r\nEND\r\n");
    assert_receives(&mut client, &reply.repeat(2000));
}

#[test]
fn the_flag_is_a_number_of_milliseconds() {
    let server = server(|_| {});
    let mut client = Client::new(&server);
    for flag in ["w", "wx", "w60001", "w-1"] {
        client.expect(
            &format!("mg key v N30 {flag}\r\n"),
            "CLIENT_ERROR bad token in command line format\r\n",
        );
    }
    // Without a winner there is no wait.
    client.expect("mg key v w60000\r\n", "EN\r\n");
    client.expect("set key 0 0 1\r\nx\r\nmg key v w60000\r\n", "STORED\r\nVA 1\r\nx\r\n");
    assert_idle(&server);
}
