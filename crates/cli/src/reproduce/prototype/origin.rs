//! A backing store of the prototype: a process that answers over TCP, each request after the
//! same time.
//!
//! A connection is long-lived and its requests are pipelined: a request is its key and number, 16
//! bytes; an answer is the number and an object. One thread of a connection reads and notes the
//! arrival of each request, another sleeps until the first of them is due. The process ends with
//! its standard input, and so with its parent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use crate::Done;

/// Size of each object, as in the paper.
pub(super) const OBJECT_BYTES: usize = 1024;
/// Key and number.
pub(super) const REQUEST_BYTES: usize = 16;
/// Number and object, which begins with its key.
pub(super) const ANSWER_BYTES: usize = 8 + OBJECT_BYTES;

const KEY_BYTES: usize = 8;
/// Most chunks of requests that wait in a connection; at the limit nothing is read.
const CHUNKS: usize = 1 << 16;
/// Bytes in one read.
const READ_BYTES: usize = 1 << 16;

/// Requests read at once, and the due time of their replies.
type Chunk = (Instant, Vec<[u8; REQUEST_BYTES]>);

/// Whether an object belongs to this key.
pub(super) fn names(object: &[u8], key: u64) -> bool {
    object.starts_with(&key.to_le_bytes())
}

/// Serves as an origin until standard input ends. Prints its port.
pub(in super::super) fn serve(delay: Duration) -> Done {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen")?;
    crate::output::print(&format!("{}\n", listener.local_addr().context("no address")?.port()))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The client notices a failed connection.
            let _ = answer(stream, delay);
        }
    });
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    Ok(())
}

/// Starts the two threads of a connection.
fn answer(stream: TcpStream, delay: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (sender, receiver) = sync_channel(CHUNKS);
    let reader = stream.try_clone()?;
    thread::spawn(move || read(reader, delay, &sender));
    thread::spawn(move || write(stream, &receiver));
    Ok(())
}

fn read(mut stream: TcpStream, delay: Duration, sender: &SyncSender<Chunk>) {
    let mut buffer = vec![0; READ_BYTES];
    let mut kept = 0;
    while let Ok(count @ 1..) = stream.read(&mut buffer[kept..]) {
        let due = Instant::now() + delay;
        let (requests, rest) = buffer[..kept + count].as_chunks::<REQUEST_BYTES>();
        let chunk = requests.to_vec();
        kept = rest.len();
        let whole = requests.len() * REQUEST_BYTES;
        buffer.copy_within(whole..whole + kept, 0);
        if sender.send((due, chunk)).is_err() {
            return;
        }
    }
}

fn write(mut stream: TcpStream, receiver: &Receiver<Chunk>) {
    let rest = [0; OBJECT_BYTES - KEY_BYTES];
    let mut answers = Vec::new();
    for (due, requests) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        answers.clear();
        for request in requests {
            let (key, number) = request.split_at(KEY_BYTES);
            answers.extend_from_slice(number);
            answers.extend_from_slice(key);
            answers.extend_from_slice(&rest);
        }
        if stream.write_all(&answers).is_err() {
            return;
        }
    }
}

/// An origin that this process has started; it ends on drop.
pub(super) struct Origin {
    child: Child,
    address: SocketAddr,
}

impl Origin {
    /// Starts a process that answers after `delay`.
    pub(super) fn start(delay: Duration) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .args(["reproduce", "prototype", "--origin", &format!("{}us", delay.as_micros())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start an origin")?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or_else(|| anyhow!("an origin without output"))?;
        BufReader::new(stdout).read_line(&mut line).context("an origin does not speak")?;
        let port: u16 = line.trim().parse().context("an origin says no port")?;
        Ok(Origin { child, address: (Ipv4Addr::LOCALHOST, port).into() })
    }

    /// Id of its process.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Opens another connection.
    pub(super) fn connect(&self) -> anyhow::Result<TcpStream> {
        let stream = TcpStream::connect(self.address).context("cannot reach an origin")?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
