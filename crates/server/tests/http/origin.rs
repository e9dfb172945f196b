//! An HTTP server in this process that answers as a test tells it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use frazil_server::{Address, HttpOrigin, Options, Server, Settings};

use super::client::Client;

/// A gate at which the origin waits until the test opens it.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    pub(crate) fn pass(&self) {
        let opened = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(opened, |is_open| !*is_open).unwrap());
    }
}

/// A request as received by the origin.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    /// The first line, without the version.
    pub(crate) line: String,
    /// Fields, a line each, names in lower case.
    pub(crate) fields: String,
    pub(crate) body: Vec<u8>,
    /// The number of requests before it.
    pub(crate) number: usize,
}

impl Got {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

pub(crate) struct TestOrigin {
    pub(crate) address: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
}

impl TestOrigin {
    /// Answers each request with what `answer` writes. False: the connection is closed.
    pub(crate) fn new(
        answer: impl Fn(&Got, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> TestOrigin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let (answer, all) = (Arc::new(answer), Arc::clone(&got));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                stream.set_nodelay(true).unwrap();
                let (answer, all) = (Arc::clone(&answer), Arc::clone(&all));
                std::thread::spawn(move || serve(stream, &*answer, &all));
            }
        });
        TestOrigin { address, got }
    }

    /// Answers by the path: status, fields (lines with their ends) and body.
    pub(crate) fn with(
        answer: impl Fn(&Got) -> (u16, String, Vec<u8>) + Send + Sync + 'static,
    ) -> TestOrigin {
        TestOrigin::new(move |got, stream| {
            let (status, fields, body) = answer(got);
            reply(stream, status, &fields, &body, got.line.starts_with("HEAD"))
        })
    }

    /// All requests received.
    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.got.lock().unwrap().len()
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, requests: usize) {
        until("the origin is asked", || self.count() >= requests);
    }

    /// A server in front of this origin, with a timeout of a minute. Its first address speaks memcached's protocol,
    /// which moves its clock.
    pub(crate) fn server(&self, change: impl FnOnce(&mut Settings)) -> Server {
        let base = format!("http://{}", self.address).parse().unwrap();
        let mut settings = Settings {
            memcached: vec!["127.0.0.1:0".parse().unwrap()],
            http: vec!["127.0.0.1:0".parse().unwrap()],
            memory_bytes: 64 << 20,
            threads: 2,
            options: Options { debug: true, ..Options::default() },
            http_origin: Some(HttpOrigin { timeout_ms: 60_000, ..HttpOrigin::new(base) }),
            ..Settings::default()
        };
        change(&mut settings);
        Server::start(settings).unwrap()
    }
}

/// Writes a whole response.
pub(crate) fn reply(
    stream: &mut TcpStream,
    status: u16,
    fields: &str,
    body: &[u8],
    is_head: bool,
) -> bool {
    let length = match status {
        204 | 304 => String::new(),
        _ => format!("Content-Length: {}\r\n", body.len()),
    };
    let head = format!("HTTP/1.1 {status} Said\r\n{fields}{length}\r\n");
    let body = if is_head { &[] } else { body };
    stream.write_all(&[head.as_bytes(), body].concat()).is_ok()
}

fn serve(stream: TcpStream, answer: &dyn Fn(&Got, &mut TcpStream) -> bool, all: &Mutex<Vec<Got>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let (mut first, mut fields, mut line) = (String::new(), String::new(), String::new());
        while lines.read_line(&mut line).is_ok_and(|read| read > 2) {
            let text = line.trim_end();
            if first.is_empty() {
                first = text.rsplit_once(' ').unwrap().0.to_owned();
            } else {
                let (name, value) = text.split_once(':').unwrap();
                fields += &format!("{}: {}\n", name.to_ascii_lowercase(), value.trim());
            }
            line.clear();
        }
        if first.is_empty() {
            return;
        }
        let mut got = Got { line: first, fields, body: Vec::new(), number: 0 };
        let length = got.field("content-length").map_or(0, |length| length.parse().unwrap());
        got.body = vec![0; length];
        lines.read_exact(&mut got.body).unwrap();
        let mut requests = all.lock().unwrap();
        got.number = requests.len();
        requests.push(got.clone());
        drop(requests);
        if !answer(&got, &mut stream) {
            // Otherwise the socket stays open while the reader has it.
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

/// Moves the clock of a server.
pub(crate) fn pass_seconds(server: &Server, seconds: u64) {
    let Address::Tcp(address) = &server.addresses()[0] else { unreachable!() };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("debugtime {seconds}\r\n").as_bytes()).unwrap();
    let mut reply = [0; 4];
    stream.read_exact(&mut reply).unwrap();
}

pub(crate) fn client(server: &Server) -> Client {
    let Address::Tcp(address) = &server.addresses()[1] else { unreachable!() };
    Client::new(*address)
}

/// Waits for a condition, twenty seconds at most.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    panic!("{what}: not in 20 seconds");
}
