//! Waits of misses: an origin that takes 200 ms, a server in a separate process, and callers of one cold key.
//!
//! ```sh
//! cargo run --release --package frazil-server --example waits
//! ```
//!
//! A line for each case: time from the first request to the last reply, median and maximum of five rounds, and
//! requests to the origin in each round.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use frazil_server::{Address, Limits, Origin, Server, Settings};
use mio::{Events, Interest, Poll, Token};

const DELAY: Duration = Duration::from_millis(200);
const ROUNDS: usize = 5;
/// Callers, if the limit of open files permits.
const CALLERS: usize = 10_000;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    if let (Some(url), Some(threads)) = (std::env::args().nth(1), std::env::args().nth(2)) {
        return serve(&url, threads.parse()?);
    }
    let (origin, asked) = start_origin()?;
    let (child, address) = start_server(origin, 1)?;
    let stops = Stops(child);
    let callers = allow_files(CALLERS);
    if callers < CALLERS {
        println!("the system allows {callers} callers only");
    }
    let bench = Bench { address, asked: Arc::clone(&asked) };
    for count in [100, callers] {
        bench.show(&format!("get, {count} callers"), count, |round| {
            (format!("get shared-{count}-{round}\r\n"), "VALUE")
        })?;
    }
    for count in [100, callers] {
        bench.lease(&format!("mg N30 w5000, {count} callers"), count)?;
    }
    bench.show("uncacheable, 100 callers, first", 100, |round| {
        (format!("get private-{round}\r\n"), "VALUE")
    })?;
    bench.show("uncacheable, 100 callers, again", 100, |round| {
        (format!("get private-{round}\r\n"), "VALUE")
    })?;
    bench.show("16 keys in a pipeline", 1, |round| {
        let keys = 0..16;
        (keys.map(|key| format!("get pipeline-{round}-{key}\r\n")).collect(), "VALUE")
    })?;
    drop(stops);
    let (child, address) = start_server(origin, 2)?;
    let _stops = Stops(child);
    let bench = Bench { address, asked };
    bench.show(&format!("get, {callers} callers, 2 threads"), callers, |round| {
        (format!("get threads-{round}\r\n"), "VALUE")
    })?;
    bench.lease(&format!("mg N30 w5000, {callers}, 2 threads"), callers)
}

/// The server's process: prints its address, and serves until its input ends.
fn serve(url: &str, threads: usize) -> Result<()> {
    let settings = Settings {
        memcached: vec!["127.0.0.1:0".parse()?],
        memory_bytes: 256 << 20,
        threads,
        limits: Limits { connections: CALLERS + 100, ..Limits::default() },
        origin: Some(Origin { timeout_ms: 10_000, ..Origin::new(url.parse()?) }),
        ..Settings::default()
    };
    let server = Server::start(settings)?;
    println!("{}", server.addresses()[0]);
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

struct Stops(Child);

impl Drop for Stops {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn start_server(origin: SocketAddr, threads: usize) -> Result<(Child, SocketAddr)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(format!("http://{origin}/{{key}}")).arg(threads.to_string());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    let stdout = child.stdout.take().ok_or("no output")?;
    BufReader::new(stdout).read_line(&mut line)?;
    match line.trim().parse()? {
        Address::Tcp(address) => Ok((child, address)),
        Address::Unix(_) => Err("a port was asked for".into()),
    }
}

/// Answers each request after the delay, with a thread for each connection, and counts requests.
fn start_origin() -> Result<(SocketAddr, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let asked = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let asked = Arc::clone(&counter);
            std::thread::spawn(move || answer(stream, &asked));
        }
    });
    Ok((address, asked))
}

fn answer(mut stream: TcpStream, asked: &AtomicUsize) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    let mut is_private = false;
    while lines.read_line(&mut line)? > 0 {
        is_private |= line.starts_with("GET /private");
        if line.len() == 2 {
            asked.fetch_add(1, Relaxed);
            std::thread::sleep(DELAY);
            let control = if is_private { "private" } else { "max-age=60" };
            let body = "x".repeat(100);
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nContent-Length: 100\r\n\r\n{body}"
            )?;
            is_private = false;
        }
        line.clear();
    }
    Ok(())
}

/// The number of callers that can have a connection.
fn allow_files(callers: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(callers as u64 + 2000);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    let files = if raised.is_ok() { most } else { limit.current.unwrap_or(most) };
    // The origin's connections need files too.
    callers.min((files as usize).saturating_sub(1500))
}

struct Bench {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Bench {
    /// Measures rounds of a request by all callers. Each reply contains one of a word.
    fn show(
        &self,
        name: &str,
        count: usize,
        request: impl Fn(usize) -> (String, &'static str),
    ) -> Result<()> {
        let mut callers = Callers::new(self.address, count)?;
        let mut rounds = Rounds::default();
        for round in 0..ROUNDS {
            let asked = self.asked.load(Relaxed);
            let (request, word) = request(round);
            let replies = request.lines().count();
            let begun = Instant::now();
            callers.send(request.as_bytes())?;
            callers.receive(word, replies)?;
            rounds.note(begun.elapsed(), self.asked.load(Relaxed) - asked);
        }
        rounds.print(name);
        Ok(())
    }

    /// As [`Bench::show`], with leases: the winner writes after the delay.
    fn lease(&self, name: &str, count: usize) -> Result<()> {
        let mut winner = TcpStream::connect(self.address)?;
        winner.set_nodelay(true)?;
        let mut callers = Callers::new(self.address, count)?;
        let mut rounds = Rounds::default();
        for round in 0..ROUNDS {
            let request = format!("mg lease-{count}-{round} v N30 w5000\r\n");
            let begun = Instant::now();
            winner.write_all(request.as_bytes())?;
            let mut won = [0; 10];
            winner.read_exact(&mut won)?;
            assert_eq!(&won, b"VA 0 W\r\n\r\n");
            callers.send(request.as_bytes())?;
            std::thread::sleep((begun + DELAY).saturating_duration_since(Instant::now()));
            write!(winner, "set lease-{count}-{round} 0 0 100\r\n{}\r\n", "x".repeat(100))?;
            callers.receive("VA 100", 1)?;
            rounds.note(begun.elapsed(), 1);
            let mut stored = [0; 8];
            winner.read_exact(&mut stored)?;
        }
        rounds.print(name);
        Ok(())
    }
}

#[derive(Default)]
struct Rounds(Vec<(Duration, usize)>);

impl Rounds {
    fn note(&mut self, time: Duration, asked: usize) {
        self.0.push((time, asked));
    }

    fn print(mut self, name: &str) {
        self.0.sort();
        let (median, most) = (self.0[ROUNDS / 2].0, self.0[ROUNDS - 1].0);
        let asked = self.0.iter().map(|round| round.1).max().unwrap_or(0);
        let (median, most) = (median.as_secs_f64() * 1e3, most.as_secs_f64() * 1e3);
        println!("{name:<36} {median:7.1} ms   most {most:7.1} ms   asked {asked}");
    }
}

/// Connections that send the same request and read concurrently.
struct Callers {
    poll: Poll,
    streams: Vec<mio::net::TcpStream>,
}

impl Callers {
    fn new(address: SocketAddr, count: usize) -> Result<Callers> {
        let poll = Poll::new()?;
        let mut streams = Vec::with_capacity(count);
        for token in 0..count {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = mio::net::TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(token), Interest::READABLE)?;
            streams.push(stream);
        }
        Ok(Callers { poll, streams })
    }

    fn send(&mut self, request: &[u8]) -> Result<()> {
        for stream in &mut self.streams {
            stream.write_all(request)?;
        }
        Ok(())
    }

    /// Waits until each connection has read a word this many times, and two ends of line after the last.
    fn receive(&mut self, word: &str, times: usize) -> Result<()> {
        let mut texts = vec![String::new(); self.streams.len()];
        let mut left = self.streams.len();
        let mut events = Events::with_capacity(1024);
        let mut buffer = [0; 16 << 10];
        let is_whole = |text: &str| {
            text.matches(word).count() == times && text.matches("xx\r\n").count() == times
        };
        while left > 0 {
            self.poll.poll(&mut events, Some(Duration::from_secs(20)))?;
            if events.is_empty() {
                return Err(format!("{left} callers have no reply").into());
            }
            for event in &events {
                let Token(token) = event.token();
                loop {
                    match self.streams[token].read(&mut buffer) {
                        Ok(0) => return Err("closed".into()),
                        Ok(read) => {
                            texts[token].push_str(std::str::from_utf8(&buffer[..read])?);
                            // A short read has emptied the socket; an event tells when there is more.
                            if read < buffer.len() {
                                break;
                            }
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error.into()),
                    }
                }
                left -= usize::from(is_whole(&texts[token]));
            }
        }
        Ok(())
    }
}
