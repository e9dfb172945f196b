//! Servers that share the slots of a cluster, and a client that goes where it is sent.

use std::collections::HashMap;
use std::net::TcpListener;

use frazil_server::{Address, ClusterMap, Server, Settings, StartError};

use crate::client::{Client, request, settings, shown};

const SLOTS: [(&str, &str); 3] =
    [("one", r#""0-5460""#), ("two", r#""5461-10922""#), ("three", r#""10923-16382", "16383""#)];

fn map(ports: &[u16], own: &str) -> ClusterMap {
    let mut text = own.to_owned();
    for ((name, slots), port) in SLOTS.iter().zip(ports) {
        text += &format!(
            "[[nodes]]\nname = \"{name}\"\naddress = \"127.0.0.1:{port}\"\nslots = [{slots}]\n"
        );
    }
    text.parse().unwrap()
}

/// Three servers in the order of [`SLOTS`], each of which knows itself by its address.
fn start() -> (Vec<Server>, Vec<u16>) {
    // A port that is free may be taken by another process before it is listened at.
    for _ in 0..20 {
        let free: Vec<TcpListener> =
            (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = free.iter().map(|free| free.local_addr().unwrap().port()).collect();
        drop(free);
        let at = |port: &u16| Settings {
            resp: vec![Address::Tcp(([127, 0, 0, 1], *port).into())],
            cluster: Some(map(&ports, "")),
            ..settings()
        };
        match ports.iter().map(|port| Server::start(at(port))).collect() {
            Ok(servers) => return (servers, ports),
            Err(StartError::Listen(..)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no free port");
}

/// Sends a request to any server, and again where `MOVED` says.
struct Followed {
    clients: HashMap<String, Client>,
    any: String,
    moves: usize,
}

impl Followed {
    fn new(port: u16) -> Followed {
        Followed { clients: HashMap::new(), any: format!("127.0.0.1:{port}"), moves: 0 }
    }

    fn ask(&mut self, words: &[&str]) -> String {
        let mut address = self.any.clone();
        loop {
            let at = address.parse().unwrap();
            let client = self.clients.entry(address).or_insert_with(|| Client::at(at));
            let reply = shown(&client.ask(&request(words)));
            let Some(to) = reply.strip_prefix("-MOVED ") else { return reply };
            self.moves += 1;
            address = to.split_once(' ').unwrap().1.to_owned();
        }
    }
}

#[test]
fn a_client_that_follows_finds_each_key_at_one_server() {
    let (servers, ports) = start();
    let mut client = Followed::new(ports[0]);
    let keys: Vec<String> = (0..60).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        assert_eq!(client.ask(&["SET", key, key]), "+OK");
    }
    for key in &keys {
        assert_eq!(client.ask(&["GET", key]), format!("${} {key}", key.len()));
        assert_eq!(client.ask(&["MGET", key]), format!("*1 ${} {key}", key.len()));
    }
    assert!((60..180).contains(&client.moves), "{}", client.moves);
    let sizes: Vec<usize> = servers
        .iter()
        .map(|server| shown(&Client::new(server).ask(&request(&["DBSIZE"])))[1..].parse().unwrap())
        .collect();
    assert_eq!(sizes.iter().sum::<usize>(), 60);
    assert!(sizes.iter().all(|&size| size > 0), "{sizes:?}");
}

/// `foo` is in slot 12182, of the third, `bar` in 5061 and `baz` in 4813, of the first.
#[test]
fn keys_of_others_are_refused_and_not_touched() {
    let (servers, ports) = start();
    let mut client = Client::new(&servers[0]);
    let moved = format!("-MOVED 12182 127.0.0.1:{}", ports[2]);
    for command in [
        "GET foo",
        "get foo",
        "SET foo 1",
        "MGET foo",
        "MSET foo 1 x{foo} 2",
        "GETLEASE foo 1000 0",
        "WATCH foo",
        "OBJECT ENCODING foo",
        "COPY foo {foo}2",
        "ASKING\nGET foo",
    ] {
        let ok = if command.starts_with("ASKING") { "+OK " } else { "" };
        client.expect(command, &format!("{ok}{moved}"));
    }
    client.send(b"GET foo\r\n");
    client.expect("PING", &format!("{moved} +PONG"));
    let crosses = "-CROSSSLOT Keys in request don't hash to the same slot";
    for command in
        ["MGET bar baz", "MSET bar 1 baz 2", "DEL bar foo", "RENAME bar baz", "LCS bar x"]
    {
        client.expect(command, crosses);
    }
    // A value may be anything, and what lies between braces decides.
    client.expect(
        "MSET bar foo {bar}2 2\nMGET {bar}2 x{bar} bar\nGET bar",
        "+OK *3 $1 2 $-1 $3 foo $3 foo",
    );
    client.expect("READONLY\nREADWRITE\nDBSIZE", "+OK +OK :2");
    Client::new(&servers[2]).expect("DBSIZE\nGETLEASE foo 1000 0", ":0 *2 $-1 $3 won");
}

#[test]
fn a_transaction_has_one_slot() {
    let (servers, ports) = start();
    let mut client = Client::new(&servers[0]);
    client.expect(
        "MULTI\nSET bar 1\nPING\nINCR bar\nSET {bar}2 3\nEXEC",
        "+OK +QUEUED +QUEUED +QUEUED +QUEUED *4 +OK +PONG :2 +OK",
    );
    client.expect(
        "MULTI\nINCR bar\nSET baz 1\nEXEC\nMGET bar\nGET baz\nEXEC",
        "+OK +QUEUED +QUEUED -CROSSSLOT Keys in request don't hash to the same slot *1 $1 2 $-1 \
        -ERR EXEC without MULTI",
    );
    client.expect(
        "MULTI\nINCR bar\nGET foo\nEXEC\nGET bar",
        &format!(
            "+OK +QUEUED -MOVED 12182 127.0.0.1:{} \
            -EXECABORT Transaction discarded because of previous errors. $1 2",
            ports[2]
        ),
    );
}

/// Only keys that were read are told of.
#[test]
fn keys_of_others_are_not_tracked() {
    let (servers, ports) = start();
    let mut client = Client::new(&servers[0]);
    client.ask(&request(&["HELLO", "3"]));
    let moved = format!("-MOVED 12182 127.0.0.1:{}", ports[2]);
    client.expect(
        "CLIENT TRACKING ON\nGET foo\nMGET foo\nSTRLEN foo\nGET bar",
        &format!("+OK {moved} {moved} {moved} _"),
    );
    let info = shown(&client.ask(&request(&["INFO", "stats"])));
    assert!(info.contains(" tracking_total_keys:1 "), "{info}");
}

#[test]
fn the_map_is_shown_as_clients_read_it() {
    let (servers, ports) = start();
    let mut client = Client::new(&servers[1]);
    let ids: Vec<String> = servers
        .iter()
        .map(|server| shown(&Client::new(server).ask(&request(&["CLUSTER", "MYID"]))))
        .map(|reply| reply.strip_prefix("$40 ").unwrap().to_owned())
        .collect();
    let node = |at: usize| format!("*4 $9 127.0.0.1 :{} $40 {} *0", ports[at], ids[at]);
    client.expect(
        "CLUSTER SLOTS",
        &format!(
            "*3 *3 :0 :5460 {} *3 :5461 :10922 {} *3 :10923 :16383 {}",
            node(0),
            node(1),
            node(2)
        ),
    );
    let nodes = shown(&client.ask(&request(&["CLUSTER", "NODES"])));
    let line = format!(
        "{} 127.0.0.1:{}@0 myself,master - 0 0 2 connected 5461-10922 {} 127.0.0.1:{}@0 master - 0 0 3 \
         connected 10923-16383",
        ids[1], ports[1], ids[2], ports[2]
    );
    assert!(nodes.ends_with(&line), "{nodes}\n{line}");
    let shards = shown(&client.ask(&request(&["cluster", "shards"])));
    let second = format!(
        "*4 $5 slots *2 :5461 :10922 $5 nodes *1 *14 $2 id $40 {} $4 port :{} $2 ip $9 127.0.0.1 \
         $8 endpoint $9 127.0.0.1 $4 role $6 master $18 replication-offset :0 $6 health $6 online",
        ids[1], ports[1]
    );
    assert!(shards.starts_with("*3 ") && shards.contains(&second), "{shards}\n{second}");
    let info = shown(&client.ask(&request(&["CLUSTER", "INFO"])));
    assert!(info.contains("cluster_state:ok") && info.contains("cluster_size:3"), "{info}");
    client.expect(
        "CLUSTER KEYSLOT foo\nCLUSTER KEYSLOT {foo}.x\nCLUSTER COUNTKEYSINSLOT 1",
        ":12182 :12182 -ERR keys are not counted by slot",
    );
    let info = shown(&client.ask(&request(&["INFO"])));
    assert!(info.contains("cluster_enabled:1") && info.contains("redis_mode:cluster"), "{info}");
    let hello = shown(&client.ask(&request(&["HELLO", "3"])));
    assert!(hello.contains("$4 mode $7 cluster"), "{hello}");
}

#[test]
fn a_server_alone_has_all_keys_and_no_cluster() {
    let server = crate::client::start();
    let mut client = Client::new(&server);
    let disabled = "-ERR This instance has cluster support disabled";
    client.expect(
        "MSET foo 1 bar 2\nCLUSTER SLOTS\nREADONLY\nASKING",
        &format!("+OK {disabled} {disabled} {disabled}"),
    );
    let info = shown(&client.ask(&request(&["INFO"])));
    assert!(info.contains("cluster_enabled:0"), "{info}");
    assert!(info.contains("redis_mode:standalone"), "{info}");
}

#[test]
fn a_server_that_is_no_node_does_not_start() {
    let start = |cluster, settings| Server::start(Settings { cluster: Some(cluster), ..settings });
    let error = start(map(&[1, 2, 3], ""), settings()).unwrap_err().to_string();
    assert!(error.contains("no node is at 127.0.0.1:"), "{error}");
    let error = start(map(&[1, 2, 3], "self = \"two\"\n"), Settings::default()).unwrap_err();
    assert!(error.to_string().contains("RESP is not served"), "{error}");
    let server = start(map(&[1, 2, 3], "self = \"two\"\n"), settings()).unwrap();
    Client::new(&server).expect("GET bar", "-MOVED 5061 127.0.0.1:1");
}

/// As many nodes as a map may have, of which each has every thousandth slot.
#[test]
fn a_large_map_is_shown_without_delay() {
    let mut text = "self = \"n0\"\n".to_owned();
    for node in 0..1000 {
        let slots: Vec<String> =
            (node..16384).step_by(1000).map(|slot| format!("\"{slot}\"")).collect();
        text += &format!(
            "[[nodes]]\nname = \"n{node}\"\naddress = \"h{node}:1\"\nslots = [{}]\n",
            slots.join(", ")
        );
    }
    let cluster = Some(text.parse().unwrap());
    let server = Server::start(Settings { cluster, ..settings() }).unwrap();
    let mut client = Client::new(&server);
    let info = client.ask(&request(&["CLUSTER", "INFO"]).repeat(5000));
    let sizes = String::from_utf8_lossy(&info).matches("cluster_size:1000\r\n").count();
    assert_eq!(sizes, 5000);
    let shards = shown(&client.ask(&request(&["CLUSTER", "SHARDS"])));
    assert!(shards.starts_with("*1000 *4 $5 slots *34 :0 :0 :1000 :1000 "), "{shards:.100}");
}
