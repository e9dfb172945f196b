//! TLS, with certificates made by each test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frazil_server::{Address, HttpOrigin, Limits, Server, Settings, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

#[path = "shared/socket.rs"]
mod socket;
#[path = "shared/store.rs"]
mod store;

use socket::{PATIENCE, connect as plain};
use store::{limits, store};

/// A root, and files of certificates signed by it, deleted at the end of the test.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Authority {
    fn new(name: &str) -> Authority {
        let folder = std::env::temp_dir().join(format!("frazil-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        Authority { issuer, folder }
    }

    /// A certificate for this machine and its key, in PEM.
    fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Files for a server.
    fn files(&self, demands_clients: bool) -> TlsFiles {
        let (certificate, key) = self.sign();
        std::fs::write(self.folder.join("cert.pem"), certificate).unwrap();
        std::fs::write(self.folder.join("key.pem"), key).unwrap();
        TlsFiles {
            certificate: self.folder.join("cert.pem"),
            key: self.folder.join("key.pem"),
            client_ca: demands_clients.then(|| self.folder.join("ca.pem")),
        }
    }

    /// The configuration of a client that trusts this root, with a certificate or without.
    fn client(&self, signed: Option<(String, String)>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let builder = ClientConfig::builder().with_root_certificates(roots);
        Arc::new(match signed {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }
}

fn settings(tls: TlsFiles) -> Settings {
    Settings {
        memcached: vec!["127.0.0.1:0".parse().unwrap()],
        store: store(),
        memory_bytes: 16 << 20,
        limits: limits(),
        tls: Some(tls),
        ..Settings::default()
    }
}

fn address(server: &Server, at: usize) -> SocketAddr {
    let Address::Tcp(address) = server.addresses()[at] else { panic!("{server:?}") };
    address
}

type Client = StreamOwned<ClientConnection, TcpStream>;

fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Client {
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::clone(config), name).unwrap();
    StreamOwned::new(session, plain(address))
}

#[track_caller]
fn expect(client: &mut (impl Read + Write), request: &[u8], reply: &[u8]) {
    client.write_all(request).unwrap();
    let mut bytes = vec![0; reply.len()];
    client.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes.escape_ascii().to_string(), reply.escape_ascii().to_string());
}

/// A count on the operators' page, fetched by TLS.
fn metric(server: &Server, at: usize, config: &Arc<ClientConfig>, name: &str) -> u64 {
    let mut client = connect(address(server, at), config);
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    client.read_to_string(&mut page).unwrap();
    let found = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    found.unwrap_or_else(|| panic!("{page}")).parse().unwrap()
}

#[test]
fn requests_of_any_size_and_replies_that_are_not_read_go_through() {
    let authority = Authority::new("sizes");
    let files = authority.files(false);
    let server = Server::start(Settings {
        resp: vec!["127.0.0.1:0".parse().unwrap()],
        threads: 2,
        ..settings(files)
    });
    let server = server.unwrap();
    let config = authority.client(None);
    let mut client = connect(address(&server, 0), &config);
    expect(
        &mut client,
        b"set key 0 0 5\r\nvalue\r\nget key\r\n",
        b"STORED\r\nVALUE key 0 5\r\nvalue\r\nEND\r\n",
    );
    let value = vec![b'x'; 900_000];
    let set = [b"set big 0 0 900000\r\n", &value[..], b"\r\n"].concat();
    expect(&mut client, &set, b"STORED\r\n");
    // Twenty requests, more than sockets hold, before any reply is read.
    client.write_all(&b"get big\r\n".repeat(20)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let reply = [b"VALUE big 0 900000\r\n", &value[..], b"\r\nEND\r\n"].concat();
    for _ in 0..20 {
        expect(&mut client, b"", &reply);
    }
    // In pieces, byte by byte.
    for byte in b"get ke" {
        expect(&mut client, &[*byte], b"");
    }
    expect(&mut client, b"y\r\n", b"VALUE key 0 5\r\nvalue\r\nEND\r\n");
    // All replies arrive, and then `close_notify`.
    client.write_all(b"get big\r\nquit\r\n").unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), reply.len());
    let mut client = connect(address(&server, 1), &config);
    expect(&mut client, b"GET key\r\n", b"$5\r\nvalue\r\n");
}

/// HTTP uses the same streams: a miss, whose body comes from the fetching thread, and a hit.
#[test]
fn http_is_served_over_tls() {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", origin.local_addr().unwrap()).parse().unwrap();
    let body = "x".repeat(100_000);
    let sent = body.clone();
    // It answers once.
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = origin.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 100000\r\n\r\n";
        stream.write_all(format!("{head}{sent}").as_bytes()).unwrap();
    });
    let authority = Authority::new("http");
    let server = Server::start(Settings {
        memcached: Vec::new(),
        http: vec!["127.0.0.1:0".parse().unwrap()],
        http_origin: Some(HttpOrigin::new(base)),
        ..settings(authority.files(false))
    });
    let server = server.unwrap();
    let config = authority.client(None);
    for (end, status) in [("", "frazil; fwd=uri-miss"), ("Connection: close\r\n", "frazil; hit")] {
        let mut client = connect(address(&server, 0), &config);
        let request = format!("GET /page HTTP/1.1\r\nHost: h\r\n{end}\r\n");
        client.write_all(request.as_bytes()).unwrap();
        let (mut reply, mut buffer) = (Vec::new(), [0; 4096]);
        while !reply.ends_with(body.as_bytes()) {
            let read = client.read(&mut buffer).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&reply));
            reply.extend_from_slice(&buffer[..read]);
        }
        let head = String::from_utf8_lossy(&reply[..reply.len() - body.len()]).to_lowercase();
        assert!(head.starts_with("http/1.1 200") && head.contains(status), "{head}");
    }
    answering.join().unwrap();
}

#[test]
fn a_client_without_the_right_certificate_is_not_served() {
    let (authority, other) = (Authority::new("clients"), Authority::new("others"));
    let files = authority.files(true);
    let server =
        Server::start(Settings { admin: vec!["127.0.0.1:0".parse().unwrap()], ..settings(files) });
    let server = server.unwrap();
    let right = authority.client(Some(authority.sign()));
    let mut client = connect(address(&server, 0), &right);
    expect(&mut client, b"mn\r\n", b"MN\r\n");
    for wrong in [authority.client(None), authority.client(Some(other.sign()))] {
        let mut client = connect(address(&server, 0), &wrong);
        // With TLS 1.3 a client learns of it when it reads.
        let answered = client.write_all(b"mn\r\n").and_then(|()| client.read_exact(&mut [0]));
        assert!(answered.is_err());
    }
    // Clients learn of it before it is counted.
    let until = Instant::now() + PATIENCE;
    while metric(&server, 1, &right, "frazil_server_tls_errors_total") < 2 {
        assert!(Instant::now() < until);
    }
    assert_eq!(metric(&server, 1, &right, "frazil_server_tls_handshakes_total"), 1);
}

/// A client that does not speak TLS is closed and counted, and delays no other.
#[test]
fn failed_handshakes_are_closed_and_counted() {
    let authority = Authority::new("garbage");
    let files = authority.files(false);
    let server = Server::start(Settings {
        admin: vec!["127.0.0.1:0".parse().unwrap()],
        limits: Limits { request_seconds: 1, ..limits() },
        ..settings(files)
    });
    let server = server.unwrap();
    let config = authority.client(None);
    // The first record of a handshake, cut short.
    let cut = [0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3];
    let begins: [&[u8]; 4] = [b"get key\r\n", b"GET / HTTP/1.1\r\n\r\n", &[0; 5000], &[0xff; 20]];
    for bytes in begins {
        let mut stream = plain(address(&server, 0));
        stream.write_all(bytes).unwrap();
        socket::rest(&mut stream);
    }
    let mut stream = plain(address(&server, 0));
    stream.write_all(&cut).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    socket::rest(&mut stream);
    assert_eq!(metric(&server, 1, &config, "frazil_server_tls_errors_total"), 5);
    // A silent client is closed at the timeout of a request.
    let began = Instant::now();
    let (mut silent, mut slow) = (plain(address(&server, 0)), plain(address(&server, 0)));
    slow.write_all(&cut).unwrap();
    socket::rest(&mut silent);
    socket::rest(&mut slow);
    assert!(began.elapsed() > Duration::from_secs(1));
    assert_eq!(
        metric(&server, 1, &config, "frazil_server_limited_total{limit=\"request_time\"}"),
        2
    );
    // A malformed record after the handshake.
    let mut client = connect(address(&server, 0), &config);
    expect(&mut client, b"mn\r\n", b"MN\r\n");
    client.sock.write_all(b"mn\r\n and more of it").unwrap();
    socket::rest(&mut client.sock);
    assert_eq!(metric(&server, 1, &config, "frazil_server_connection_bytes"), 0);
}

#[test]
fn certificates_are_read_again_and_broken_ones_are_not_taken() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let files = old.files(false);
    let server = Server::start(settings(files.clone())).unwrap();
    let mut before = connect(address(&server, 0), &old.client(None));
    expect(&mut before, b"mn\r\n", b"MN\r\n");
    std::fs::write(&files.certificate, "nothing").unwrap();
    assert!(server.handle().reload()[0].1.is_err());
    let (certificate, key) = new.sign();
    std::fs::write(&files.certificate, certificate).unwrap();
    // The key still belongs to another certificate.
    assert!(server.handle().reload()[0].1.is_err());
    expect(&mut connect(address(&server, 0), &old.client(None)), b"mn\r\n", b"MN\r\n");
    std::fs::write(&files.key, key).unwrap();
    server.handle().reload().remove(0).1.unwrap();
    expect(&mut connect(address(&server, 0), &new.client(None)), b"mn\r\n", b"MN\r\n");
    let refused = connect(address(&server, 0), &old.client(None)).write_all(b"mn\r\n");
    assert!(refused.is_err());
    expect(&mut before, b"mn\r\n", b"MN\r\n");
}

/// Sessions are counted with the memory of connections, and released with it.
#[test]
fn sessions_are_counted() {
    let authority = Authority::new("counted");
    let files = authority.files(false);
    let server =
        Server::start(Settings { admin: vec!["127.0.0.1:0".parse().unwrap()], ..settings(files) });
    let server = server.unwrap();
    let config = authority.client(None);
    let held = || metric(&server, 1, &config, "frazil_server_connection_bytes");
    let mut clients: Vec<Client> = (0..10).map(|_| connect(address(&server, 0), &config)).collect();
    for client in &mut clients {
        expect(client, b"mn\r\n", b"MN\r\n");
    }
    assert_eq!(held(), 10 * 8192);
    drop(clients);
    let until = Instant::now() + PATIENCE;
    while held() > 0 {
        assert!(Instant::now() < until);
    }
}
