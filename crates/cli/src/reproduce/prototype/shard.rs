//! A shard of the prototype: a thread with its own cache.
//!
//! It answers hits at once, and passes misses to the flow manager. MAD ranks by the duration of
//! fetches and by the waiting requests, so the cache must know both: each look-up is a
//! `get_or_fetch` whose fetch ends with the flow manager's write. That is a task for each waiting
//! request. Still the flow manager decides which requests are answered, and when.
//!
//! Memory: a task is some hundred bytes, and is reused; there is one for each request that waits at
//! once.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use anyhow::{anyhow, bail};
use frazil::{Cache, FetchError, Policy};
use rtrb::Consumer;

use super::Request;
use super::client::{Answer, Object, Outcome};
use super::flows::{Told, Write};
use super::pipe::{BATCH, Bell, Ends, Inlet, Over};

/// Writes that the flow manager will send, by the number of the fetch.
enum Awaited {
    Nothing,
    By(Waker),
    Here(Object),
}

/// The fetches of a shard that are under way.
#[derive(Default)]
struct Fetches {
    awaited: RefCell<Vec<Awaited>>,
    idle: RefCell<Vec<u32>>,
    /// The fetch that the polled task has begun.
    begun: Cell<Option<u32>>,
}

impl Fetches {
    /// Waits for the write of an object.
    async fn fetch(&self) -> Result<Object, Infallible> {
        let number = self.idle.borrow_mut().pop().unwrap_or_else(|| {
            self.awaited.borrow_mut().push(Awaited::Nothing);
            (self.awaited.borrow().len() - 1) as u32
        });
        self.begun.set(Some(number));
        poll_fn(|context| {
            let awaited = &mut self.awaited.borrow_mut()[number as usize];
            if let Awaited::Here(_) = awaited
                && let Awaited::Here(object) = std::mem::replace(awaited, Awaited::Nothing)
            {
                self.idle.borrow_mut().push(number);
                return Poll::Ready(Ok(object));
            }
            *awaited = Awaited::By(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Ends the fetch of a written object.
    fn land(&self, number: u32, object: Object) -> anyhow::Result<()> {
        let mut all = self.awaited.borrow_mut();
        let Some(awaited) = all.get_mut(number as usize) else { bail!("a write of nothing") };
        let before = std::mem::replace(awaited, Awaited::Here(object));
        drop(all);
        let Awaited::By(waker) = before else { bail!("a write that nobody waits for") };
        waker.wake();
        Ok(())
    }
}

/// Tasks that were woken.
type Woken = Arc<Mutex<Vec<usize>>>;

/// Wakes a task.
struct Rouser {
    number: usize,
    woken: Woken,
}

impl Wake for Rouser {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

/// A task, or a free place for one.
struct Task<F> {
    future: Pin<Box<Option<F>>>,
    waker: Waker,
}

/// The tasks of a shard.
struct Tasks<F> {
    tasks: Vec<Task<F>>,
    idle: Vec<usize>,
    woken: Woken,
    /// Messages of the last round; the buffer is kept for reuse.
    ringing: Vec<usize>,
}

impl<F: Future<Output = Result<Object, FetchError<Infallible>>>> Tasks<F> {
    fn new() -> Self {
        Tasks { tasks: Vec::new(), idle: Vec::new(), woken: Woken::default(), ringing: Vec::new() }
    }

    /// Begins a request. Returns the object, if the request is finished.
    fn begin(&mut self, future: F) -> anyhow::Result<Option<Object>> {
        let number = self.idle.pop().unwrap_or_else(|| {
            let rouser = Rouser { number: self.tasks.len(), woken: self.woken.clone() };
            self.tasks.push(Task { future: Box::pin(None), waker: Arc::new(rouser).into() });
            self.tasks.len() - 1
        });
        self.tasks[number].future.set(Some(future));
        self.poll(number)
    }

    /// Polls a task. Returns the object, if the task is finished.
    fn poll(&mut self, number: usize) -> anyhow::Result<Option<Object>> {
        let task = &mut self.tasks[number];
        let Some(future) = task.future.as_mut().as_pin_mut() else { return Ok(None) };
        match future.poll(&mut Context::from_waker(&task.waker)) {
            Poll::Pending => Ok(None),
            Poll::Ready(answer) => {
                let object = answer.map_err(|error| anyhow!("a request failed: {error:?}"))?;
                task.future.set(None);
                self.idle.push(number);
                Ok(Some(object))
            }
        }
    }

    /// Polls all woken tasks, and those that these wake.
    fn run(&mut self) -> anyhow::Result<()> {
        loop {
            let mut ringing = std::mem::take(&mut self.ringing);
            // The lock is released at once, because polled tasks wake others.
            std::mem::swap(
                &mut ringing,
                &mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner),
            );
            if ringing.is_empty() {
                self.ringing = ringing;
                return Ok(());
            }
            for number in ringing.drain(..) {
                self.poll(number)?;
            }
            self.ringing = ringing;
        }
    }
}

/// The ends of its queues.
pub(super) struct Ways {
    pub(super) requests: Consumer<Request>,
    pub(super) writes: Consumer<Write>,
    pub(super) flows: Inlet<Told>,
    pub(super) client: Inlet<Answer>,
}

/// Serves requests until the end of the run.
pub(super) fn serve(
    (policy, capacity): (Policy, u64),
    mut ways: Ways,
    bell: &Bell,
    over: &Over,
) -> anyhow::Result<()> {
    let _ends = Ends(over);
    let cache: Cache<u64, Object> = Cache::builder(capacity).policy(policy).build();
    let fetches = Fetches::default();
    let start = |key: u64| {
        let (cache, fetches) = (&cache, &fetches);
        async move { cache.get_or_fetch(&key, fetches.fetch()).await }
    };
    let mut tasks = Tasks::new();
    let mut written = Vec::with_capacity(BATCH);
    while !over.is_over() {
        let mut moved = false;
        for _ in 0..BATCH {
            let Ok(Write { fetch, flow, object }) = ways.writes.pop() else { break };
            fetches.land(fetch, object)?;
            written.push(flow);
        }
        tasks.run()?;
        for flow in written.drain(..) {
            ways.flows.send(Told::Written { flow })?;
            moved = true;
        }
        for _ in 0..BATCH {
            let Ok(request) = ways.requests.pop() else { break };
            match tasks.begin(start(request.key))? {
                Some(object) => {
                    let Request { number, .. } = request;
                    ways.client.send(Answer { number, outcome: Outcome::Hit, object })?;
                }
                None => {
                    let fetch = fetches.begun.take().unwrap_or(u32::MAX);
                    ways.flows.send(Told::Absent { request, fetch })?;
                }
            }
            moved = true;
        }
        ways.flows.flush();
        ways.client.flush();
        if !moved {
            bell.wait(|| !ways.requests.is_empty() || !ways.writes.is_empty());
        }
    }
    Ok(())
}
