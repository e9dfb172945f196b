//! An HTTP server in this process that answers as a test tells it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use frazil_server::{Origin, Server, Settings};

use super::client::settings;

/// The origin's answer to a request.
pub(crate) enum Answer {
    /// A complete response: its status, fields with ends of line, body.
    With(u16, &'static str, Vec<u8>),
    /// These bytes, after which the connection is closed.
    Closing(&'static str),
    /// None, ever.
    Never,
}

/// A gate at which requests wait until the test opens it.
#[derive(Default)]
pub(crate) struct Gate(Mutex<bool>, Condvar);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        let opened = self.0.lock().unwrap();
        drop(self.1.wait_while(opened, |is_open| !*is_open).unwrap());
    }
}

pub(crate) struct TestOrigin {
    pub(crate) address: SocketAddr,
    /// Requests received.
    pub(crate) requests: Arc<AtomicUsize>,
    /// The gate that all pass before their answer.
    pub(crate) gate: Arc<Gate>,
}

impl TestOrigin {
    /// Answers each request with `answer` for its path. The gate is closed.
    pub(crate) fn new(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> TestOrigin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, gate) = (Arc::<AtomicUsize>::default(), Arc::<Gate>::default());
        let answer = Arc::new(answer);
        let (counted, waits) = (Arc::clone(&requests), Arc::clone(&gate));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let (answer, counted, waits) =
                    (Arc::clone(&answer), Arc::clone(&counted), Arc::clone(&waits));
                std::thread::spawn(move || serve(stream, &*answer, &counted, &waits));
            }
        });
        TestOrigin { address, requests, gate }
    }

    /// An origin with an open gate.
    pub(crate) fn open(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> TestOrigin {
        let origin = TestOrigin::new(answer);
        origin.gate.open();
        origin
    }

    pub(crate) fn count(&self) -> usize {
        self.requests.load(Relaxed)
    }

    /// Waits until this many requests were received.
    #[track_caller]
    pub(crate) fn wait_for(&self, requests: usize) {
        until("the origin is asked", || self.count() >= requests);
    }

    /// A server with this origin and a timeout of a minute: longer than any client of a test waits.
    pub(crate) fn server(&self, change: impl FnOnce(&mut Settings)) -> Server {
        let url = format!("http://{}/{{key}}", self.address).parse().unwrap();
        let mut settings = settings();
        settings.threads = 2;
        settings.origin = Some(Origin { timeout_ms: 60_000, ..Origin::new(url) });
        change(&mut settings);
        Server::start(settings).unwrap()
    }
}

fn serve(stream: TcpStream, answer: &dyn Fn(&str) -> Answer, counted: &AtomicUsize, gate: &Gate) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let (mut path, mut line) = (String::new(), String::new());
        while lines.read_line(&mut line).is_ok_and(|read| read > 2) {
            if path.is_empty() {
                path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            }
            line.clear();
        }
        if path.is_empty() {
            return;
        }
        counted.fetch_add(1, Relaxed);
        gate.pass();
        let sent = match answer(&path) {
            Answer::With(status, headers, body) => {
                let length = body.len();
                let head =
                    format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n");
                stream.write_all(&[head.as_bytes(), &body].concat())
            }
            Answer::Closing(bytes) => {
                // Closed whether or not they were taken.
                let _ = stream.write_all(bytes.as_bytes());
                return;
            }
            Answer::Never => loop {
                std::thread::sleep(Duration::from_secs(60));
            },
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Waits for a condition, twenty seconds at most.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("{what}: not in 20 seconds");
}
