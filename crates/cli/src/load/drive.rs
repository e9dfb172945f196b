//! The loop: one thread, many connections, and the latencies of their requests.
//!
//! A round: every connection sends its requests in one piece, and then the replies of all are read.
//! So the server finds many connections ready when it wakes up, as under real load. If it holds
//! replies back until it has read all of them, the latencies do not suffer.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use frazil_driver::{Ask, Latencies, thread_time};
use mio::{Events, Interest, Poll, Token};

use super::target::{Stream, Target};
use super::wire::{Decoder, Reply, Request, shown};
use super::work::Work;

/// Silence of the server after which the load gives up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two checks for an interrupt.
const TICK: Duration = Duration::from_millis(100);
/// The most bytes of one read.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes of requests after which a connection adds no more to a piece.
const PIECE_MAX: usize = 1 << 20;
/// Most kinds of errors that are counted apart.
const KINDS_MAX: usize = 16;
const OTHER_KINDS: &str = "others";

/// Counts of requests by outcome.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) sets: u64,
    pub(super) deletes: u64,
    /// Requests that the server refused, by its message.
    pub(super) errors: BTreeMap<String, u64>,
    /// Connections that the server closed, or that broke.
    pub(super) closed: u64,
}

impl Counts {
    pub(super) fn refused(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Requests with a reply, errors included.
    pub(super) fn answered(&self) -> u64 {
        self.hits + self.misses + self.sets + self.deletes + self.refused()
    }

    fn add(&mut self, ask: Ask, reply: Reply) {
        match (reply, ask) {
            (Reply::Hit, _) => self.hits += 1,
            (Reply::Miss, _) => self.misses += 1,
            (Reply::Done, Ask::Remove) => self.deletes += 1,
            (Reply::Done, _) => self.sets += 1,
            (Reply::Refused(kind), _) => self.refuse(kind),
        }
    }

    fn refuse(&mut self, kind: String) {
        let is_new = self.errors.len() >= KINDS_MAX && !self.errors.contains_key(&kind);
        *self.errors.entry(if is_new { OTHER_KINDS.to_owned() } else { kind }).or_default() += 1;
    }
}

/// The result of a load.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) counts: Counts,
    pub(super) elapsed: Duration,
    /// Latencies of pieces of requests, from before the sending to the last reply.
    pub(super) latencies: Latencies,
    latency_sum: Duration,
    /// Pieces of requests, all replies of which were read.
    pub(super) pieces: u64,
    /// The integral of the number of pieces in flight, by the loop's own steps, in piece-seconds.
    under_way: f64,
    /// Processor time of this thread.
    pub(super) own: Option<Duration>,
}

impl Measured {
    fn new() -> Self {
        Measured {
            counts: Counts::default(),
            elapsed: Duration::ZERO,
            latencies: Latencies::new(),
            latency_sum: Duration::ZERO,
            pieces: 0,
            under_way: 0.0,
            own: None,
        }
    }

    /// Connections that waited for replies, on average over the time.
    pub(super) fn in_flight(&self) -> f64 {
        self.under_way / self.elapsed.as_secs_f64()
    }

    /// Mean latency × throughput / pieces in flight, 1 by Little's law.
    pub(super) fn little(&self) -> f64 {
        self.latency_sum.as_secs_f64() / self.under_way
    }

    /// Mean latency of a piece in ns; 0 if there was none.
    pub(super) fn mean_ns(&self) -> f64 {
        self.latency_sum.as_nanos() as f64 / self.pieces.max(1) as f64
    }
}

/// The integral of the number of connections that wait.
struct UnderWay {
    then: Instant,
    sum: f64,
}

impl UnderWay {
    /// Adds the time since the last step, in which the number went from `before` to `now` one by
    /// one: each change counts for its own part of that time.
    fn step(&mut self, before: usize, now: usize) {
        let at = Instant::now();
        let mean = (before + now + usize::from(before != now)) as f64 / 2.0;
        self.sum += at.duration_since(self.then).as_secs_f64() * mean;
        self.then = at;
    }
}

struct Connection {
    stream: Stream,
    is_open: bool,
    /// Requests of the current piece, and the number of those answered.
    asked: Vec<Request>,
    answered: usize,
    sent_at: Instant,
    unsent: Vec<u8>,
    /// Missed keys, which the next piece writes first.
    missed: Vec<Request>,
    decoder: Decoder,
    /// The beginning of a line whose end has not arrived.
    carry: Vec<u8>,
}

impl Connection {
    fn waits(&self) -> bool {
        self.is_open && self.answered < self.asked.len()
    }
}

/// Connections to a server.
pub(super) struct Load<'t> {
    target: &'t Target,
    poll: Poll,
    events: Events,
    /// Connections with events, and whether the server has closed them.
    ready: Vec<(usize, bool)>,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
    piece: Vec<u8>,
    stop: &'t AtomicBool,
}

impl<'t> Load<'t> {
    /// Opens `count` connections. `stop` is set when the user interrupts.
    pub(super) fn connect(
        target: &'t Target,
        count: usize,
        stop: &'t AtomicBool,
    ) -> anyhow::Result<Self> {
        let address = target.address().with_context(|| format!("{target}: cannot connect"))?;
        let poll = Poll::new().context("no poll")?;
        let mut connections = Vec::new();
        for number in 0..count {
            let stream = Stream::connect(&address).and_then(|mut stream| {
                poll.registry().register(&mut stream, Token(number), Interest::READABLE)?;
                Ok(stream)
            });
            let stream = stream
                .with_context(|| format!("{target}: connection {} of {count}", number + 1))?;
            connections.push(Connection {
                stream,
                is_open: true,
                asked: Vec::new(),
                answered: 0,
                sent_at: Instant::now(),
                unsent: Vec::new(),
                missed: Vec::new(),
                decoder: Decoder::default(),
                carry: Vec::new(),
            });
        }
        let events = Events::with_capacity(count.max(16));
        let buffer = vec![0; BUFFER_BYTES];
        let (ready, piece) = (Vec::new(), Vec::new());
        Ok(Load { target, poll, events, ready, connections, buffer, piece, stop })
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.connections.iter().map(|connection| &connection.stream)
    }

    /// Makes the requests of `work`, `depth` on each connection at once, until they end, `goes_on`
    /// returns false after a round, or the user interrupts.
    ///
    /// # Errors
    ///
    /// The server sends an invalid reply, closes all connections, or falls silent.
    pub(super) fn run(
        &mut self,
        work: &mut Work<'_>,
        depth: usize,
        mut goes_on: impl FnMut(&Measured) -> bool,
    ) -> anyhow::Result<Measured> {
        let mut measured = Measured::new();
        let (begun, own) = (Instant::now(), thread_time());
        while !self.stop.load(Relaxed) && self.round(work, depth, &mut measured)? {
            measured.elapsed = begun.elapsed();
            if !goes_on(&measured) {
                break;
            }
        }
        measured.elapsed = begun.elapsed();
        measured.own = thread_time().zip(own).map(|(now, before)| now - before);
        Ok(measured)
    }

    /// One round. Returns whether it made any request.
    fn round(
        &mut self,
        work: &mut Work<'_>,
        depth: usize,
        measured: &mut Measured,
    ) -> anyhow::Result<bool> {
        let mut under_way = UnderWay { then: Instant::now(), sum: 0.0 };
        let mut waiting = 0;
        for number in 0..self.connections.len() {
            self.send(number, work, depth, measured)?;
            waiting += usize::from(self.connections[number].waits());
        }
        under_way.step(0, waiting);
        if waiting == 0 {
            if self.connections.iter().all(|connection| !connection.is_open) {
                bail!("{}: the server has closed all connections{}", self.target, told(measured));
            }
            return Ok(false);
        }
        let mut heard = Instant::now();
        let mut ready = std::mem::take(&mut self.ready);
        while waiting > 0 && !self.stop.load(Relaxed) {
            self.wait()?;
            under_way.step(waiting, waiting);
            if !self.events.is_empty() {
                heard = Instant::now();
            } else if heard.elapsed() > PATIENCE {
                bail!(
                    "{}: no reply for {} s, with {waiting} connections waiting{}",
                    self.target,
                    PATIENCE.as_secs(),
                    told(measured)
                );
            }
            let before = waiting;
            ready.clear();
            ready.extend(self.events.iter().map(|it| (it.token().0, it.is_read_closed())));
            for &(number, is_closed) in &ready {
                let waited = self.connections[number].waits();
                self.push(number, measured)?;
                self.read(number, is_closed, work, measured)?;
                waiting -= usize::from(waited && !self.connections[number].waits());
            }
            under_way.step(before, waiting);
        }
        self.ready = ready;
        measured.under_way += under_way.sum;
        Ok(true)
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        match self.poll.poll(&mut self.events, Some(TICK)) {
            // A signal, which may have set `stop`.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.events.clear();
                Ok(())
            }
            other => other.context("poll"),
        }
    }

    /// Sends the next piece of a connection.
    fn send(
        &mut self,
        number: usize,
        work: &mut Work<'_>,
        depth: usize,
        measured: &mut Measured,
    ) -> anyhow::Result<()> {
        let connection = &mut self.connections[number];
        // A connection that still waits is one whose round was broken off.
        if !connection.is_open || connection.waits() {
            return Ok(());
        }
        connection.asked.clear();
        connection.answered = 0;
        self.piece.clear();
        let stores = connection.missed.len().min(depth);
        let mut missed = connection.missed.drain(..stores);
        while connection.asked.len() < depth && self.piece.len() < PIECE_MAX {
            let Some(request) = missed.next().or_else(|| work.next()) else { break };
            self.target.protocol.write(&request, &mut self.piece);
            connection.asked.push(request);
        }
        let left: Vec<Request> = missed.collect();
        connection.missed.splice(..0, left);
        if connection.asked.is_empty() {
            return Ok(());
        }
        connection.sent_at = Instant::now();
        let mut sent = 0;
        match write(&mut connection.stream, &self.piece, &mut sent) {
            Ok(()) => {}
            Err(_) => return self.close(number, measured),
        }
        if sent < self.piece.len() {
            connection.unsent.extend(&self.piece[sent..]);
            self.watch(number, Interest::READABLE | Interest::WRITABLE)?;
        }
        Ok(())
    }

    /// Sends the bytes that the system did not accept at once.
    fn push(&mut self, number: usize, measured: &mut Measured) -> anyhow::Result<()> {
        let connection = &mut self.connections[number];
        if !connection.is_open || connection.unsent.is_empty() {
            return Ok(());
        }
        let mut sent = 0;
        let unsent = std::mem::take(&mut connection.unsent);
        if write(&mut connection.stream, &unsent, &mut sent).is_err() {
            return self.close(number, measured);
        }
        match sent == unsent.len() {
            true => self.watch(number, Interest::READABLE),
            false => {
                connection.unsent.extend(&unsent[sent..]);
                Ok(())
            }
        }
    }

    fn watch(&mut self, number: usize, wanted: Interest) -> anyhow::Result<()> {
        let stream = &mut self.connections[number].stream;
        self.poll.registry().reregister(stream, Token(number), wanted).context("poll")
    }

    /// Reads all that has arrived on a connection.
    fn read(
        &mut self,
        number: usize,
        is_closed: bool,
        work: &Work<'_>,
        measured: &mut Measured,
    ) -> anyhow::Result<()> {
        loop {
            let connection = &mut self.connections[number];
            if !connection.is_open {
                return Ok(());
            }
            let bytes = match connection.stream.read(&mut self.buffer) {
                Ok(0) => return self.close(number, measured),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return self.close(number, measured),
            };
            self.take(number, bytes, work, measured)?;
            // A short read has emptied the socket: later bytes make a new event, but a reported end
            // does not.
            if bytes < BUFFER_BYTES && !is_closed {
                return Ok(());
            }
        }
    }

    /// Takes the replies out of the first `bytes` bytes of the buffer.
    fn take(
        &mut self,
        number: usize,
        bytes: usize,
        work: &Work<'_>,
        measured: &mut Measured,
    ) -> anyhow::Result<()> {
        let connection = &mut self.connections[number];
        let mut carry = std::mem::take(&mut connection.carry);
        let is_carried = !carry.is_empty();
        if is_carried {
            carry.extend(&self.buffer[..bytes]);
        }
        let mut input = if is_carried { &carry[..] } else { &self.buffer[..bytes] };
        while connection.waits() {
            let request = connection.asked[connection.answered];
            let protocol = &self.target.protocol;
            let Some(reply) =
                connection.decoder.next(protocol, &request, &mut input).map_err(|unexpected| {
                    unexpected_reply(self.target, &request, &unexpected.0, measured)
                })?
            else {
                break;
            };
            if reply == Reply::Miss && work.stores_misses() {
                connection.missed.push(Request { ask: Ask::Insert, ..request });
            }
            measured.counts.add(request.ask, reply);
            connection.answered += 1;
            if !connection.waits() {
                let latency = connection.sent_at.elapsed();
                measured.latencies.record(latency);
                measured.latency_sum += latency;
                measured.pieces += 1;
            }
        }
        if !connection.waits() && !input.is_empty() {
            bail!("{} has sent `{}` that was not asked for", self.target, shown(input));
        }
        connection.carry = input.to_vec();
        Ok(())
    }

    fn close(&mut self, number: usize, measured: &mut Measured) -> anyhow::Result<()> {
        let connection = &mut self.connections[number];
        connection.is_open = false;
        let _ = self.poll.registry().deregister(&mut connection.stream);
        measured.counts.closed += 1;
        Ok(())
    }
}

/// Writes until the system accepts no more.
fn write(stream: &mut Stream, bytes: &[u8], sent: &mut usize) -> io::Result<()> {
    while *sent < bytes.len() {
        match stream.write(&bytes[*sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(now) => *sent += now,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn unexpected_reply(
    target: &Target,
    request: &Request,
    sent: &str,
    measured: &Measured,
) -> anyhow::Error {
    let asked = match request.ask {
        Ask::Get => "get",
        Ask::Insert => "set",
        Ask::Remove => "delete",
    };
    anyhow!(
        "{target}: the server answered `{sent}` to a {asked}, which is no such reply of {}{}",
        target.protocol,
        told(measured)
    )
}

/// The replies so far, for an error.
fn told(measured: &Measured) -> String {
    let counts = &measured.counts;
    let last = counts.errors.keys().next().map(|kind| format!(", with errors such as `{kind}`"));
    format!(", after {} replies{}", counts.answered(), last.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten thousand seconds ago, so that the test's own time is negligible.
    #[test]
    fn connections_wait_for_their_own_part_of_a_step() {
        let begun = Instant::now().checked_sub(Duration::from_secs(10_000)).unwrap();
        for (before, now, mean) in [(0, 1, 1.0), (1, 1, 1.0), (1, 0, 1.0), (0, 3, 2.0), (3, 1, 2.5)]
        {
            let mut under_way = UnderWay { then: begun, sum: 0.0 };
            under_way.step(before, now);
            let ratio = under_way.sum / (10_000.0 * mean);
            assert!((0.99..1.01).contains(&ratio), "{before} {now}: {ratio}");
        }
    }

    #[test]
    fn few_kinds_of_errors_are_told_apart() {
        let mut counts = Counts::default();
        (0..100).for_each(|kind| counts.refuse(kind.to_string()));
        counts.refuse("0".to_owned());
        assert_eq!((counts.errors.len(), counts.errors["0"]), (KINDS_MAX + 1, 2));
        assert_eq!((counts.errors[OTHER_KINDS], counts.refused()), (84, 101));
    }
}
