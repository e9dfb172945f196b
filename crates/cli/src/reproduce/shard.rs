//! A shard of the prototype: a thread with a cache of its own, a connection to each origin, and
//! a task for each request.
//!
//! The thread never sleeps: it begins the requests that are due, a batch at a time, sends what
//! they ask the origins for, reads what has come, and polls the tasks that this has woken. Who
//! waits for whom is the cache's business (`get_or_fetch`).
//!
//! Memory: a task is some hundred bytes, kept and used again; as many as requests wait at once.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use anyhow::{anyhow, bail};
use frazil::{Cache, FetchError, Policy};

use super::origin::{ANSWER_BYTES, Origin, REQUEST_BYTES};

/// Requests that are begun between two looks at the connections.
const BATCH: usize = 64;
/// Requests that wait at once, at most; then no more is begun.
const WAITING_MAX: usize = 1 << 19;
/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 18;

type Object = Arc<[u8]>;

/// A request that is to come.
#[derive(Clone, Copy)]
pub(super) struct Request {
    /// Nanoseconds from the beginning.
    pub(super) due: u64,
    pub(super) key: u64,
    pub(super) origin: usize,
}

/// What came of them.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) hits: u64,
    pub(super) delayed_hits: u64,
    pub(super) misses: u64,
    /// From when each was due until it was answered, in µs; in no order.
    pub(super) latencies_us: Vec<u32>,
    pub(super) seconds: f64,
}

impl Measured {
    pub(super) fn requests(&self) -> u64 {
        self.hits + self.delayed_hits + self.misses
    }

    pub(super) fn add(&mut self, other: Measured) {
        self.hits += other.hits;
        self.delayed_hits += other.delayed_hits;
        self.misses += other.misses;
        self.latencies_us.extend(other.latencies_us);
        self.seconds = self.seconds.max(other.seconds);
    }
}

/// What an origin has been asked for, by the number of the request.
enum Asked {
    Nothing,
    Waits(Waker),
    Has(Object),
}

/// A connection to an origin.
struct Wire {
    stream: TcpStream,
    out: Vec<u8>,
    /// What has come and is not whole.
    kept: usize,
    buffer: Vec<u8>,
}

impl Wire {
    /// Sends what is to be sent, as far as there is room.
    fn send(&mut self) -> anyhow::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        match self.stream.write(&self.out) {
            Ok(count) => _ = self.out.drain(..count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// All connections of a shard.
struct Wires {
    wires: RefCell<Vec<Wire>>,
    asked: RefCell<Vec<Asked>>,
    idle: RefCell<Vec<usize>>,
    /// Whether the task that is being polled has begun a fetch.
    begun: Cell<bool>,
}

impl Wires {
    fn new(origins: &[Origin]) -> anyhow::Result<Self> {
        let wire = |origin: &Origin| {
            let (stream, buffer) = (origin.connect()?, vec![0; READ_BYTES]);
            anyhow::Ok(Wire { stream, out: Vec::new(), kept: 0, buffer })
        };
        let wires = origins.iter().map(wire).collect::<anyhow::Result<_>>()?;
        let (asked, idle) = (RefCell::default(), RefCell::default());
        Ok(Wires { wires: RefCell::new(wires), asked, idle, begun: Cell::new(false) })
    }

    fn ask(&self, request: Request, number: usize) {
        let out = &mut self.wires.borrow_mut()[request.origin].out;
        out.extend_from_slice(&request.key.to_le_bytes());
        out.extend_from_slice(&(number as u64).to_le_bytes());
    }

    /// Fetches an object from its origin.
    async fn fetch(&self, request: Request) -> Result<Object, Infallible> {
        self.begun.set(true);
        let number = self.idle.borrow_mut().pop().unwrap_or_else(|| {
            self.asked.borrow_mut().push(Asked::Nothing);
            self.asked.borrow().len() - 1
        });
        self.ask(request, number);
        poll_fn(|context| {
            let asked = &mut self.asked.borrow_mut()[number];
            if let Asked::Has(_) = asked
                && let Asked::Has(object) = std::mem::replace(asked, Asked::Nothing)
            {
                self.idle.borrow_mut().push(number);
                return Poll::Ready(Ok(object));
            }
            *asked = Asked::Waits(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn send(&self) -> anyhow::Result<()> {
        self.wires.borrow_mut().iter_mut().try_for_each(Wire::send)
    }

    /// Reads what has come, and wakes who has asked for it.
    fn receive(&self) -> anyhow::Result<()> {
        for wire in self.wires.borrow_mut().iter_mut() {
            let Wire { stream, kept, buffer, .. } = wire;
            let count = match stream.read(&mut buffer[*kept..]) {
                Ok(0) => bail!("an origin has gone"),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            };
            let (answers, rest) = buffer[..*kept + count].as_chunks::<ANSWER_BYTES>();
            for answer in answers {
                let Some((number, object)) = answer.split_first_chunk() else { continue };
                let number = u64::from_le_bytes(*number) as usize;
                let mut all = self.asked.borrow_mut();
                let Some(asked) = all.get_mut(number) else { bail!("an answer to nothing") };
                let before = std::mem::replace(asked, Asked::Has(object.into()));
                drop(all);
                if let Asked::Waits(waker) = before {
                    waker.wake();
                }
            }
            let whole = answers.len() * ANSWER_BYTES;
            *kept = rest.len();
            buffer.copy_within(whole..whole + *kept, 0);
        }
        Ok(())
    }
}

/// Tasks that were woken.
type Woken = Arc<Mutex<Vec<usize>>>;

/// Wakes a task.
struct Bell {
    number: usize,
    woken: Woken,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

/// A task, or room for one.
struct Task<F> {
    future: Pin<Box<Option<F>>>,
    waker: Waker,
    due: u64,
}

/// The tasks of a shard.
struct Tasks<F> {
    tasks: Vec<Task<F>>,
    idle: Vec<usize>,
    woken: Woken,
    /// Those of the last round, kept for their room.
    ringing: Vec<usize>,
}

impl<F: Future<Output = Result<Object, FetchError<Infallible>>>> Tasks<F> {
    fn new() -> Self {
        Tasks { tasks: Vec::new(), idle: Vec::new(), woken: Woken::default(), ringing: Vec::new() }
    }

    fn waiting(&self) -> usize {
        self.tasks.len() - self.idle.len()
    }

    /// Begins a request. Whether it is over.
    fn begin(&mut self, due: u64, future: F) -> anyhow::Result<bool> {
        let number = self.idle.pop().unwrap_or_else(|| {
            let bell = Bell { number: self.tasks.len(), woken: self.woken.clone() };
            self.tasks.push(Task { future: Box::pin(None), waker: Arc::new(bell).into(), due });
            self.tasks.len() - 1
        });
        let task = &mut self.tasks[number];
        task.due = due;
        task.future.set(Some(future));
        self.poll(number).map(|over| over.is_some())
    }

    /// Polls a task. When it was due, if it is over now.
    fn poll(&mut self, number: usize) -> anyhow::Result<Option<u64>> {
        let task = &mut self.tasks[number];
        let Some(future) = task.future.as_mut().as_pin_mut() else { return Ok(None) };
        match future.poll(&mut Context::from_waker(&task.waker)) {
            Poll::Pending => Ok(None),
            Poll::Ready(answer) => {
                answer.map_err(|error| anyhow!("a request failed: {error:?}"))?;
                task.future.set(None);
                self.idle.push(number);
                Ok(Some(task.due))
            }
        }
    }

    /// Polls all that were woken, and those that these wake, and says of each that is over when
    /// it was due.
    fn run(&mut self, mut over: impl FnMut(u64)) -> anyhow::Result<()> {
        loop {
            let mut ringing = std::mem::take(&mut self.ringing);
            // Given back at once: polled tasks wake others.
            std::mem::swap(
                &mut ringing,
                &mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner),
            );
            if ringing.is_empty() {
                self.ringing = ringing;
                return Ok(());
            }
            for number in ringing.drain(..) {
                if let Some(due) = self.poll(number)? {
                    over(due);
                }
            }
            self.ringing = ringing;
        }
    }
}

/// Serves requests when they are due, or if `hurries` as fast as it can, and waits until all are
/// answered.
pub(super) fn serve(
    (policy, capacity): (Policy, u64),
    requests: &[Request],
    origins: &[Origin],
    hurries: bool,
) -> anyhow::Result<Measured> {
    let cache: Cache<u64, Object> = Cache::builder(capacity).policy(policy).build();
    let wires = Wires::new(origins)?;
    let start = |request: Request| {
        let (cache, wires) = (&cache, &wires);
        async move { cache.get_or_fetch(&request.key, wires.fetch(request)).await }
    };
    let mut tasks = Tasks::new();
    let mut measured = Measured::default();
    measured.latencies_us.reserve(requests.len());
    let began = Instant::now();
    let clock = || began.elapsed().as_nanos() as u64;
    let mut coming = requests.iter();
    let mut hit = Vec::with_capacity(BATCH);
    loop {
        let now = clock();
        hit.clear();
        for _ in 0..BATCH {
            let Some(&request) = coming.as_slice().first() else { break };
            if tasks.waiting() == WAITING_MAX || !(hurries || request.due <= now) {
                break;
            }
            coming.next();
            let due = if hurries { now } else { request.due };
            if tasks.begin(due, start(request))? {
                measured.hits += 1;
                hit.push(due);
            } else if wires.begun.take() {
                measured.misses += 1;
            } else {
                measured.delayed_hits += 1;
            }
        }
        wires.send()?;
        wires.receive()?;
        let now = clock();
        let mut over =
            |due: u64| measured.latencies_us.push((now.saturating_sub(due) / 1_000) as u32);
        hit.iter().for_each(|&due| over(due));
        tasks.run(over)?;
        if coming.as_slice().is_empty() && tasks.waiting() == 0 {
            break;
        }
    }
    measured.seconds = began.elapsed().as_secs_f64();
    Ok(measured)
}

const _: () = assert!(REQUEST_BYTES == 2 * size_of::<u64>());
