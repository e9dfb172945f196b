//! Draining, saving and restoring, and the operators' pages.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use frazil_server::{Address, Origin, Server, Settings, StoreKind};

#[path = "shared/socket.rs"]
mod socket;
#[path = "shared/store.rs"]
mod store;

use socket::{PATIENCE, connect};
use store::{limits, store};

fn settings(threads: usize) -> Settings {
    let any = || vec!["127.0.0.1:0".parse().unwrap()];
    Settings {
        memcached: any(),
        admin: any(),
        store: store(),
        limits: limits(),
        memory_bytes: 16 << 20,
        threads,
        ..Settings::default()
    }
}

/// Its addresses for clients and for operators.
fn ports(server: &Server) -> [SocketAddr; 2] {
    let tcp = |address: &Address| match address {
        Address::Tcp(address) => *address,
        Address::Unix(path) => panic!("{path:?}"),
    };
    let ports: Vec<SocketAddr> = server.addresses().iter().map(tcp).collect();
    ports.try_into().unwrap()
}

/// Sends a request, and reads as many bytes as the expected reply has.
fn exchange(stream: &mut TcpStream, request: &str, reply: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut told = vec![0; reply.len()];
    stream.read_exact(&mut told).unwrap();
    assert_eq!(String::from_utf8_lossy(&told), reply);
}

/// The bytes up to the end of the connection.
fn rest(stream: &mut TcpStream) -> String {
    String::from_utf8_lossy(&socket::rest(stream)).into_owned()
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
        // The idle one is closed long before the deadline.
        assert_eq!(rest(&mut idle), "");
        let health = http(admin, "GET /health HTTP/1.1\r\n\r\n");
        assert!(health.starts_with("HTTP/1.1 503 "), "{health}");
        let begun = Instant::now();
        while TcpStream::connect(port).is_ok() {
            assert!(begun.elapsed() < PATIENCE, "it still listens");
        }
        // The one with a partial request may send the rest.
        half.write_all(b"ond\r\nget key\r\n").unwrap();
        assert_eq!(rest(&mut half), "STORED\r\nVALUE key 0 6\r\nsecond\r\nEND\r\n");
        server.join().unwrap();
    }
}

#[test]
fn a_client_that_stays_is_closed_at_the_deadline() {
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

/// Their connections are gone, and nobody would bring what they were to bring.
#[test]
fn what_clients_had_won_does_not_come_back() {
    let file = std::env::temp_dir().join(format!("frazil-won-{}", std::process::id()));
    let server = Server::start(settings(1)).unwrap();
    let mut client = connect(ports(&server)[0]);
    exchange(&mut client, "mg none v N300\r\n", "VA 0 W\r\n\r\n");
    exchange(&mut client, "set stale 0 0 1\r\nx\r\nmd stale I\r\n", "STORED\r\nHD\r\n");
    exchange(&mut client, "mg stale v\r\nmg stale v\r\n", "VA 1 X W\r\nx\r\nVA 1 Z X\r\nx\r\n");
    server.handle().save(&file).unwrap();

    let server = Server::start(settings(1)).unwrap();
    assert_eq!(server.handle().restore(&file, None).unwrap(), Some(1));
    let mut client = connect(ports(&server)[0]);
    exchange(&mut client, "mg none v\r\nmg stale v\r\n", "EN\r\nVA 1 X W\r\nx\r\n");
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
    // Neither an endless head nor a client that goes away delays others.
    drop(connect(admin));
    let mut endless = connect(admin);
    let _ = endless.write_all(&[b'a'; 20 << 10]);
    assert!(http(admin, "GET /health HTTP/1.1\r\n\r\n").ends_with("serving\n"));
}

/// Connections not yet accepted are in the system's queue, with their requests.
#[test]
fn connections_before_the_end_are_answered() {
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
fn a_slow_operator_delays_others_briefly() {
    let server = Server::start(settings(1)).unwrap();
    let [_, admin] = ports(&server);
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut slow = connect(admin);
        slow.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
        let ended = &ended;
        scope.spawn(move || {
            // Until the server closes it.
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

/// A server with an origin that the test answers for.
fn start_with_origin(threads: usize) -> (Server, TcpListener) {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/{{key}}", origin.local_addr().unwrap()).parse().unwrap();
    let mut settings = settings(threads);
    settings.origin = Some(Origin { timeout_ms: 60_000, ..Origin::new(url) });
    (Server::start(settings).unwrap(), origin)
}

/// The origin's next request, unanswered.
fn accept(origin: &TcpListener) -> TcpStream {
    let (mut asked, _) = origin.accept().unwrap();
    asked.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        asked.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    asked
}

/// Waits until the operators' page has these lines.
#[track_caller]
fn until_page(admin: SocketAddr, lines: &[&str]) {
    let begun = Instant::now();
    loop {
        let page = http(admin, "GET /metrics HTTP/1.1\r\n\r\n");
        let lacking = lines.iter().find(|line| page.lines().all(|of| of != **line));
        let Some(lacking) = lacking else { return };
        assert!(begun.elapsed() < PATIENCE, "{lacking} in {page}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_drained_server_answers_waiters_before_it_closes() {
    for threads in [1, 2] {
        let (server, origin) = start_with_origin(threads);
        let [port, admin] = ports(&server);
        let mut clients: Vec<TcpStream> = (0..5).map(|_| connect(port)).collect();
        for client in &mut clients {
            client.write_all(b"get key\r\n").unwrap();
        }
        clients[0].shutdown(std::net::Shutdown::Write).unwrap();
        let mut asked = accept(&origin);
        let (mut winner, mut next) = (connect(port), connect(port));
        exchange(&mut winner, "mg lease v N30 w60000\r\n", "VA 0 W\r\n\r\n");
        next.write_all(b"mg lease v N30 w60000\r\nget key\r\n").unwrap();
        until_page(admin, &["frazil_server_waiters 7"]);
        server.handle().drain(PATIENCE);
        // The idle holder of the lease is closed, and its waiter gets the lease.
        assert_eq!(rest(&mut winner), "");
        exchange(&mut next, "", "VA 0 W\r\n\r\n");
        asked.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx").unwrap();
        for client in clients.iter_mut().chain([&mut next]) {
            assert_eq!(rest(client), "VALUE key 0 1\r\nx\r\nEND\r\n");
        }
        server.join().unwrap();
    }
}

/// Clients get no replies, and nothing delays the end.
#[test]
fn a_stopped_server_leaves_its_waiters() {
    let (server, origin) = start_with_origin(2);
    let [port, admin] = ports(&server);
    let mut waits = connect(port);
    waits.write_all(b"get key\r\n").unwrap();
    let _asked = accept(&origin);
    until_page(admin, &["frazil_server_waiters 1"]);
    let begun = Instant::now();
    server.handle().stop();
    server.join().unwrap();
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert_eq!(rest(&mut waits), "");
}

#[test]
fn operators_see_waits_and_fetches_as_clients_do() {
    let (server, origin) = start_with_origin(2);
    let [port, admin] = ports(&server);
    let mut clients: Vec<TcpStream> = (0..3).map(|_| connect(port)).collect();
    for client in &mut clients {
        client.write_all(b"get key\r\n").unwrap();
    }
    let mut asked = accept(&origin);
    let waiting = ["waits_total 3", "waiters 3", "flights 1", "fetches_total 0"];
    let lines = |lines: &[&str]| lines.iter().map(|of| format!("frazil_server_{of}")).collect();
    let waiting: Vec<String> = lines(&waiting);
    until_page(admin, &waiting.iter().map(String::as_str).collect::<Vec<_>>());
    asked.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").unwrap();
    for client in &mut clients {
        exchange(client, "", "END\r\n");
    }
    let mut client = connect(port);
    exchange(&mut client, "mg key N30 w60000\r\n", "HD W\r\n");
    exchange(&mut clients[0], "mg key w20\r\n", "HD Z\r\n");
    let ended = [
        "waits_total 4",
        "late_waits_total 1",
        "limited_total{limit=\"waiters\"} 0",
        "waiters 0",
        "flights 1",
        "fetches_total 1",
        "fetches_failed_total 0",
        "fetches_absent_total 1",
        "fetches_uncacheable_total 0",
        "limited_total{limit=\"fetches\"} 0",
    ];
    let ended: Vec<String> = lines(&ended);
    until_page(admin, &ended.iter().map(String::as_str).collect::<Vec<_>>());
    client.write_all(b"stats waits\r\nquit\r\n").unwrap();
    let stats = rest(&mut client);
    for stat in [
        "waits 4",
        "waits_late 1",
        "waits_refused 0",
        "curr_waiters 0",
        "curr_flights 1",
        "fetches 1",
        "fetches_failed 0",
        "fetches_absent 1",
        "fetches_uncacheable 0",
        "fetches_refused 0",
    ] {
        assert!(stats.lines().any(|line| line == format!("STAT {stat}")), "{stat} in {stats}");
    }
}
