//! `MULTI`, `EXEC` and `WATCH`, with concurrent clients.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use frazil_server::{Server, Settings};

use crate::client::{Client, request, requests, settings, shown, start};

#[test]
fn requests_are_kept_and_done_together() {
    let server = start();
    let mut client = Client::new(&server);
    client.expect(
        "MULTI\nSET a 1\nGET a\nINCR a\nMGET a none\nEXEC\nGET a",
        "+OK +QUEUED +QUEUED +QUEUED +QUEUED \
        *4 +OK $1 1 :2 *2 $1 2 $-1 $1 2",
    );
    client.expect(
        "MULTI\nSET a 9\nDISCARD\nGET a\nEXEC\nDISCARD",
        "+OK +QUEUED +OK $1 2 -ERR EXEC without MULTI \
        -ERR DISCARD without MULTI",
    );
    client.expect(
        "MULTI\nMULTI\nWATCH a\nKEYS *\nEXEC",
        "+OK -ERR MULTI calls can not be nested \
        -ERR WATCH inside MULTI is not allowed +QUEUED *1 *1 $1 a",
    );
    client.expect(
        "MULTI\nSET a 9\nNONSENSE\nEXEC\nGET a",
        "+OK +QUEUED -ERR unknown command 'NONSENSE', with \
        args beginning with: -EXECABORT Transaction discarded because of previous errors. $1 2",
    );
    client.expect(
        "MULTI\nSHUTDOWN\nEXEC",
        "+OK -ERR Command not allowed inside a transaction \
        -EXECABORT Transaction discarded because of previous errors.",
    );
    client.expect(
        "MULTI\nINCR a\nSET a\nEXEC",
        "+OK +QUEUED -ERR wrong number of arguments for 'set' command \
        -EXECABORT Transaction discarded because of previous errors.",
    );
    client.expect(
        "MULTI\nINCR a\nEXEC a\nEXEC",
        "+OK +QUEUED -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command \
        -ERR EXEC without MULTI",
    );
    client.expect(
        "SET s x\nMULTI\nINCR s\nINCR a\nEXEC",
        "+OK +OK +QUEUED +QUEUED *2 \
        -ERR value is not an integer or out of range :3",
    );
}

#[test]
fn changed_watched_keys_stop_a_transaction() {
    let server = start();
    let (mut client, mut other) = (Client::new(&server), Client::new(&server));
    client.expect("SET a 1\nWATCH a b", "+OK +OK");
    other.expect("GET a", "$1 1");
    client.expect("MULTI\nPING\nEXEC", "+OK +QUEUED *1 +PONG");
    for change in ["SET a 1", "DEL a", "SET b 1", "EXPIRE a 10", "FLUSHALL", "APPEND a x"] {
        client.expect("FLUSHALL\nSET a 1\nWATCH a b", "+OK +OK +OK");
        other.ask(&crate::client::requests(change));
        client
            .expect("MULTI\nPING\nEXEC\nMULTI\nPING\nEXEC", "+OK +QUEUED *-1 +OK +QUEUED *1 +PONG");
        client.expect("SET a 1\nWATCH a", "+OK +OK");
        other.ask(&crate::client::requests(change));
        client.expect("UNWATCH\nMULTI\nEXEC", "+OK +OK *0");
    }
}

/// Two threads transfer money; a third reads the sum.
#[test]
fn others_see_none_or_all_of_a_transaction() {
    let server = Server::start(Settings { threads: 3, ..settings() }).unwrap();
    Client::new(&server).expect("MSET one 500 two 500", "+OK");
    let moved = "MULTI\nDECRBY one 7\nINCRBY two 7\nEXEC\nMULTI\nDECRBY two 7\nINCRBY one 7\nEXEC";
    let requests = crate::client::requests(moved).repeat(50);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (server, requests) = (&server, &requests);
            scope.spawn(move || {
                for _ in 0..10 {
                    Client::new(server).ask(requests);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..300 {
                    let mut client = Client::new(&server);
                    let both = crate::client::requests("MULTI\nGET one\nGET two\nEXEC");
                    let reply = shown(&client.ask(&both));
                    let words: Vec<i64> =
                        reply.split(' ').filter_map(|word| word.parse().ok()).collect();
                    assert_eq!(words.iter().sum::<i64>(), 1000, "{reply}");
                }
            });
        }
    });
    Client::new(&server).expect("MGET one two", "*2 $3 500 $3 500");
}

/// A counter that clients read, watch and set.
#[test]
fn watched_counters_lose_nothing() {
    let server = Server::start(Settings { threads: 2, ..settings() }).unwrap();
    Client::new(&server).expect("SET n 0", "+OK");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::new(&server);
                let mut done = 0;
                while done < 50 {
                    let read = shown(&client.ask(&crate::client::requests("WATCH n\nGET n")));
                    let number: u64 = read.rsplit(' ').next().unwrap().parse().unwrap();
                    let next = (number + 1).to_string();
                    let set =
                        [request(&["MULTI"]), request(&["SET", "n", &next]), request(&["EXEC"])];
                    done += u64::from(shown(&client.ask(&set.concat())).ends_with("*1 +OK"));
                }
            });
        }
    });
    Client::new(&server).expect("GET n", "$3 200");
}

/// Each change is made once and answered once, however many threads interfere.
#[test]
fn threads_count_together() {
    const EACH: usize = 20_000;
    let server = Server::start(Settings { threads: 2, ..settings() }).unwrap();
    let mut numbers: Vec<usize> = std::thread::scope(|scope| {
        let count = || Client::new(&server).ask(&request(&["INCR", "n"]).repeat(EACH));
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
        let replies = threads.into_iter().map(|thread| shown(&thread.join().unwrap()));
        replies
            .flat_map(|text| {
                text.split(' ').map(|word| word[1..].parse().unwrap()).collect::<Vec<_>>()
            })
            .collect()
    });
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=8 * EACH).collect::<Vec<_>>());
}

/// The lease of a client that ends is passed on before a transaction or after it, although its thread serves nobody then.
#[test]
fn no_lease_is_given_up_within_a_transaction() {
    let server = Server::start(Settings { threads: 2, ..settings() }).unwrap();
    let ask = "GETLEASE k 60000 0";
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                let mut winner = Client::new(&server);
                winner.ask(&crate::client::requests(ask));
                // Most of the time a transaction goes on by then.
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let mut client = Client::new(&server);
        let value = "x".repeat(500);
        client.expect(&format!("MSET one {value} two {value}"), "+OK");
        let long = ["LCS one two LEN"; 3].join("\n");
        let transaction = format!("MULTI\n{ask}\n{long}\n{ask}\nDEL k\nEXEC");
        let replies: Vec<String> =
            (0..60).map(|_| shown(&client.ask(&crate::client::requests(&transaction)))).collect();
        // Before anything panics, which would leave the other thread at work.
        over.store(true, Relaxed);
        let mut late = 0;
        for reply in replies {
            // Who is late for the first is late for the second.
            let order: Vec<_> =
                reply.split(' ').filter(|word| matches!(*word, "won" | "late")).collect();
            assert_ne!(order, ["late", "won"], "{reply}");
            late += usize::from(order == ["late", "late"]);
        }
        assert!(late > 0);
    });
}

#[test]
fn a_subcommand_with_a_wrong_number_of_arguments_is_not_queued() {
    let server = start();
    let mut client = Client::new(&server);
    for line in
        ["CLIENT SETNAME", "CLIENT ID x", "CONFIG GET", "OBJECT ENCODING", "COMMAND COUNT x"]
    {
        let told = shown(&client.ask(&requests(&format!("MULTI\n{line}\nEXEC"))));
        assert!(told.starts_with("+OK -ERR") && told.contains(" -EXECABORT"), "{line}: {told}");
    }
    client.expect("CLIENT TRACKING off on", "-ERR syntax error");
    client.expect("CLIENT TRACKING off noloop", "+OK");
}
