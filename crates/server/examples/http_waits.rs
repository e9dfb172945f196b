//! Waits of clients of a cold URL, and the delay of a slow body's bytes behind the origin.
//!
//! ```sh
//! cargo run --release --package frazil-server --example http_waits
//! ```
//!
//! A line for each case, over five rounds: median and maximum.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use frazil_server::{Address, HttpOrigin, Server, Settings};

const DELAY: Duration = Duration::from_millis(200);
const ROUNDS: usize = 5;
/// Parts of a slow body, each with the time it was sent.
const PARTS: usize = 10;
const PART_BYTES: usize = 16;

static ASKED: AtomicUsize = AtomicUsize::new(0);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    if let Some(url) = std::env::args().nth(1) {
        return serve(&url);
    }
    let origin = start_origin()?;
    let (mut child, address) = start_server(origin)?;
    let cold = rounds(|round| callers(address, &format!("/cold-{round}"), 100))?;
    println!(
        "100 callers of a cold URL: {cold}, {} fetches in {ROUNDS} rounds",
        ASKED.load(Relaxed)
    );
    for count in [1, 20] {
        let late = rounds(|round| slow(address, &format!("/slow-{count}-{round}"), count))?;
        println!("{count} readers of a slow body, its latest part behind the origin: {late}");
    }
    drop(child.stdin.take());
    child.wait()?;
    Ok(())
}

fn rounds(mut round: impl FnMut(usize) -> Result<Duration>) -> Result<String> {
    let mut times = (0..ROUNDS).map(&mut round).collect::<Result<Vec<_>>>()?;
    times.sort();
    let shown = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1000.0);
    Ok(format!("{} ms, at most {} ms", shown(times[ROUNDS / 2]), shown(times[ROUNDS - 1])))
}

/// The server's process: prints its address, and serves until its input ends.
fn serve(url: &str) -> Result<()> {
    let settings = Settings {
        http: vec!["127.0.0.1:0".parse()?],
        http_origin: Some(HttpOrigin::new(url.parse()?)),
        ..Settings::default()
    };
    let server = Server::start(settings)?;
    println!("{}", server.addresses()[0]);
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn start_server(origin: SocketAddr) -> Result<(Child, SocketAddr)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(format!("http://{origin}"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    match line.trim().parse()? {
        Address::Tcp(address) => Ok((child, address)),
        Address::Unix(_) => Err("a port was asked for".into()),
    }
}

fn start_origin() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    Ok(address)
}

fn unix_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros())
}

/// Answers a cold URL after the delay. A slow one is answered at once, with a part every 30 ms.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let (mut line, mut is_slow) = (String::new(), false);
    while lines.read_line(&mut line)? > 0 {
        is_slow |= line.starts_with("GET /slow");
        if line.len() == 2 {
            let length = if is_slow { PARTS * PART_BYTES } else { 1 };
            let head = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {length}\r\n\r\n"
            );
            if is_slow {
                stream.write_all(head.as_bytes())?;
                for _ in 0..PARTS {
                    std::thread::sleep(Duration::from_millis(30));
                    stream.write_all(format!("{:016}", unix_us()).as_bytes())?;
                }
            } else {
                ASKED.fetch_add(1, Relaxed);
                std::thread::sleep(DELAY);
                stream.write_all(format!("{head}x").as_bytes())?;
            }
            is_slow = false;
        }
        line.clear();
    }
    Ok(())
}

fn asked(address: SocketAddr, path: &str, count: usize) -> Result<Vec<BufReader<TcpStream>>> {
    let connect = |_| -> io::Result<_> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let mut streams = (0..count).map(connect).collect::<io::Result<Vec<_>>>()?;
    for stream in &mut streams {
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes())?;
    }
    Ok(streams.into_iter().map(BufReader::new).collect())
}

fn head(reader: &mut BufReader<TcpStream>) -> Result<()> {
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    Ok(())
}

/// Time from the first request to the last reply, with connecting.
fn callers(address: SocketAddr, path: &str, count: usize) -> Result<Duration> {
    let begun = Instant::now();
    for reader in &mut asked(address, path, count)? {
        head(reader)?;
        reader.read_exact(&mut [0])?;
    }
    Ok(begun.elapsed())
}

/// Largest delay of a part of a slow body since it was sent.
fn slow(address: SocketAddr, path: &str, count: usize) -> Result<Duration> {
    let readers = asked(address, path, count)?;
    let read = |mut reader: BufReader<TcpStream>| -> std::result::Result<u128, String> {
        head(&mut reader).map_err(|error| error.to_string())?;
        let mut latest = 0;
        for _ in 0..PARTS {
            let mut part = [0; PART_BYTES];
            reader.read_exact(&mut part).map_err(|error| error.to_string())?;
            let sent = String::from_utf8_lossy(&part).parse::<u128>();
            latest = latest.max(unix_us().saturating_sub(sent.map_err(|error| error.to_string())?));
        }
        Ok(latest)
    };
    let threads: Vec<_> =
        readers.into_iter().map(|reader| std::thread::spawn(move || read(reader))).collect();
    let mut latest = 0;
    for thread in threads {
        latest = latest.max(thread.join().map_err(|_| "a reader panicked")??);
    }
    Ok(Duration::from_micros(latest as u64))
}
