//! How a server ends and begins again, and what its operators see of it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use frazil_server::{Address, Server, Settings, StoreKind};

const PATIENCE: Duration = Duration::from_secs(20);

/// These tests are built twice, once for each store.
fn store() -> StoreKind {
    match env!("CARGO_CRATE_NAME").ends_with("_objects") {
        true => StoreKind::Objects,
        false => StoreKind::Segment,
    }
}

fn settings(threads: usize) -> Settings {
    let any = || vec!["127.0.0.1:0".parse().unwrap()];
    Settings {
        memcached: any(),
        admin: any(),
        store: store(),
        memory_bytes: 16 << 20,
        threads,
        ..Settings::default()
    }
}

/// Where it serves clients, and where operators.
fn ports(server: &Server) -> [SocketAddr; 2] {
    let tcp = |address: &Address| match address {
        Address::Tcp(address) => *address,
        Address::Unix(path) => panic!("{path:?}"),
    };
    let ports: Vec<SocketAddr> = server.addresses().iter().map(tcp).collect();
    ports.try_into().unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a request, and waits for as many bytes as its reply has.
fn exchange(stream: &mut TcpStream, request: &str, reply: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut told = vec![0; reply.len()];
    stream.read_exact(&mut told).unwrap();
    assert_eq!(String::from_utf8_lossy(&told), reply);
}

/// What comes until the server closes the connection.
fn rest(stream: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    String::from_utf8_lossy(&rest).into_owned()
}

fn http(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    rest(&mut stream)
}

#[test]
fn a_drained_server_answers_what_has_arrived_and_accepts_nobody() {
    for threads in [1, 3] {
        let server = Server::start(settings(threads)).unwrap();
        let [port, admin] = ports(&server);
        let mut idle = connect(port);
        exchange(&mut idle, "set idle 0 0 1\r\n1\r\n", "STORED\r\n");
        let mut half = connect(port);
        exchange(&mut half, "set key 0 0 5\r\nfirst\r\nset key 0 0 6\r\nsec", "STORED\r\n");
        server.handle().drain(Duration::from_secs(60));
        // The one that owes nothing and is owed nothing is closed, long before the time is over.
        assert_eq!(rest(&mut idle), "");
        let health = http(admin, "GET /health HTTP/1.1\r\n\r\n");
        assert!(health.starts_with("HTTP/1.1 503 "), "{health}");
        let begun = Instant::now();
        while TcpStream::connect(port).is_ok() {
            assert!(begun.elapsed() < PATIENCE, "it still listens");
        }
        // The one with half a request may send the rest.
        half.write_all(b"ond\r\nget key\r\n").unwrap();
        assert_eq!(rest(&mut half), "STORED\r\nVALUE key 0 6\r\nsecond\r\nEND\r\n");
        server.join().unwrap();
    }
}

#[test]
fn a_client_that_does_not_go_is_left_when_the_time_is_over() {
    let server = Server::start(settings(2)).unwrap();
    let mut half = connect(ports(&server)[0]);
    exchange(&mut half, "set key 0 0 1\r\n1\r\nset key 0 0 5\r\nha", "STORED\r\n");
    let begun = Instant::now();
    server.handle().drain(Duration::from_millis(300));
    server.join().unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn entries_come_back_unless_they_are_too_old() {
    let file = std::env::temp_dir().join(format!("frazil-ending-{}", std::process::id()));
    let server = Server::start(settings(1)).unwrap();
    let mut client = connect(ports(&server)[0]);
    exchange(&mut client, "set key 7 0 5\r\nvalue\r\n", "STORED\r\n");
    let handle = server.handle();
    handle.drain(PATIENCE);
    server.join().unwrap();
    assert_eq!(handle.save(&file).unwrap(), 1);

    let server = Server::start(settings(1)).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(server.handle().restore(&file, Some(Duration::from_millis(10))).unwrap(), None);
    let mut client = connect(ports(&server)[0]);
    exchange(&mut client, "get key\r\n", "END\r\n");
    assert_eq!(server.handle().restore(&file, Some(PATIENCE * 100)).unwrap(), Some(1));
    exchange(&mut client, "get key\r\n", "VALUE key 7 5\r\nvalue\r\nEND\r\n");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn operators_see_health_and_counts() {
    let server = Server::start(settings(2)).unwrap();
    let [port, admin] = ports(&server);
    let mut client = connect(port);
    exchange(
        &mut client,
        "set key 0 0 1\r\n1\r\nget key none\r\n",
        "STORED\r\nVALUE key 0 1\r\n1\r\nEND\r\n",
    );
    let reply = http(admin, "GET /health HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(
        reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\nserving\n"),
        "{reply}"
    );
    let page = http(admin, "GET /metrics?all HTTP/1.1\r\n\r\n");
    for line in [
        "Content-Type: text/plain; version=0.0.4; charset=utf-8",
        match store() {
            StoreKind::Segment => "frazil_segment_entries{store=\"segment\"} 1",
            StoreKind::Objects => "frazil_entries{cache=\"objects\"} 1",
        },
        "frazil_server_gets_total 2",
        "frazil_server_get_hits_total 1",
        "frazil_server_connections 1",
    ] {
        assert!(page.lines().any(|of| of == line), "{line} in {page}");
    }
    let head = http(admin, "HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.contains("Content-Length: ") && head.ends_with("\r\n\r\n"), "{head}");
    for (request, status) in [
        ("GET /none HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\n\r\nbody", "405 Method Not Allowed"),
        ("GET /metrics\r\n\r\n", "400 Bad Request"),
        ("\r\n\r\n", "400 Bad Request"),
    ] {
        let reply = http(admin, request);
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {reply}");
    }
    // Neither a head without end nor a client that goes away keeps others waiting.
    drop(connect(admin));
    let mut endless = connect(admin);
    let _ = endless.write_all(&[b'a'; 20 << 10]);
    assert!(http(admin, "GET /health HTTP/1.1\r\n\r\n").ends_with("serving\n"));
}

/// Those that the server has not accepted yet are in the system's queue, with their requests.
#[test]
fn who_has_connected_before_the_end_is_answered() {
    for threads in [1, 2] {
        let server = Server::start(settings(threads)).unwrap();
        let [port, _] = ports(&server);
        let mut clients: Vec<TcpStream> = (0..200).map(|_| connect(port)).collect();
        for client in &mut clients {
            client.write_all(b"get none\r\n").unwrap();
        }
        server.handle().drain(PATIENCE);
        for client in &mut clients {
            assert_eq!(rest(client), "END\r\n");
        }
        server.join().unwrap();
    }
}

#[test]
fn an_operator_who_is_slow_keeps_nobody_waiting_for_long() {
    let server = Server::start(settings(1)).unwrap();
    let [_, admin] = ports(&server);
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut slow = connect(admin);
        slow.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
        let ended = &ended;
        scope.spawn(move || {
            // Until the server has enough of it.
            while !ended.load(std::sync::atomic::Ordering::Relaxed) && slow.write_all(b".").is_ok()
            {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let health = http(admin, "GET /health HTTP/1.1\r\n\r\n");
        assert!(health.ends_with("serving\n"), "{health}");
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
