//! A minimal executor: all tasks on the calling thread, polled in the order in which they are
//! woken.

use std::cell::Cell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

type Boxed<'f, T> = Pin<Box<dyn Future<Output = T> + 'f>>;

/// Tasks that were woken, and the thread that polls them.
struct Ready {
    tasks: Mutex<VecDeque<usize>>,
    thread: Thread,
}

struct Task {
    number: usize,
    ready: Arc<Ready>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.ready.tasks.lock().unwrap().push_back(self.number);
        self.ready.thread.unpark();
    }
}

/// Counts of an executor.
#[derive(Default)]
pub(crate) struct Counts {
    /// How often it had nothing to poll, and waited until a task was woken.
    pub(crate) idle: Cell<u64>,
    pub(crate) polls: Cell<u64>,
}

/// Tasks that run together.
pub(crate) struct Tasks<'f, T> {
    futures: Vec<Option<Boxed<'f, T>>>,
    wakers: Vec<Waker>,
    ready: Arc<Ready>,
    living: usize,
    counts: Rc<Counts>,
}

impl<'f, T> Tasks<'f, T> {
    pub(crate) fn new() -> Self {
        Tasks::counting(Rc::default())
    }

    pub(crate) fn counting(counts: Rc<Counts>) -> Self {
        let ready = Ready { tasks: Mutex::default(), thread: std::thread::current() };
        let (futures, wakers) = (Vec::new(), Vec::new());
        Tasks { futures, wakers, ready: Arc::new(ready), living: 0, counts }
    }

    pub(crate) fn spawn(&mut self, future: impl Future<Output = T> + 'f) {
        let number = self.futures.len();
        self.futures.push(Some(Box::pin(future)));
        self.living += 1;
        let waker = Waker::from(Arc::new(Task { number, ready: Arc::clone(&self.ready) }));
        waker.wake_by_ref();
        self.wakers.push(waker);
    }

    /// Drops a task.
    pub(crate) fn cancel(&mut self, number: usize) {
        self.living -= usize::from(self.futures[number].take().is_some());
    }

    /// Polls once each task that has been woken by now. None may end.
    pub(crate) fn poll_woken(&mut self) {
        let woken = self.ready.tasks.lock().unwrap().len();
        for _ in 0..woken {
            let number = self.ready.tasks.lock().unwrap().pop_front().expect("as many as before");
            assert!(self.poll(number).is_none(), "task {number} ended at once");
        }
    }

    fn poll(&mut self, number: usize) -> Option<T> {
        let future = self.futures[number].as_mut()?;
        let mut context = Context::from_waker(&self.wakers[number]);
        self.counts.polls.set(self.counts.polls.get() + 1);
        let Poll::Ready(output) = future.as_mut().poll(&mut context) else { return None };
        self.cancel(number);
        Some(output)
    }

    /// Runs until all tasks have ended, or until `end`. Returns the results of the ended ones, in
    /// the order of their end.
    pub(crate) fn run_until(&mut self, end: Instant) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.living);
        while self.living > 0 {
            let Some(left) = end.checked_duration_since(Instant::now()) else { break };
            let Some(number) = self.ready.tasks.lock().unwrap().pop_front() else {
                self.counts.idle.set(self.counts.idle.get() + 1);
                std::thread::park_timeout(left);
                continue;
            };
            outputs.extend(self.poll(number));
        }
        outputs
    }

    /// Runs until all have ended, for a minute at most.
    pub(crate) fn run(&mut self) -> Vec<T> {
        let outputs = self.run_until(Instant::now() + Duration::from_secs(60));
        assert_eq!(self.living, 0, "tasks that wait for ever");
        outputs
    }
}

/// Runs one future on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut tasks = Tasks::new();
    tasks.spawn(future);
    tasks.run().pop().expect("it has ended")
}

/// Ends after `duration`. It takes a thread for each call, so use it for few.
pub(crate) async fn sleep(duration: Duration) {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut has_begun = false;
    std::future::poll_fn(move |context| {
        if is_over.load(SeqCst) {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut has_begun, true) {
            let (waker, is_over) = (context.waker().clone(), Arc::clone(&is_over));
            std::thread::spawn(move || {
                std::thread::sleep(duration);
                is_over.store(true, SeqCst);
                waker.wake();
            });
        }
        Poll::Pending
    })
    .await;
}

/// Gives a turn to all other tasks that have been woken by now.
pub(crate) async fn turn() {
    let mut is_over = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut is_over, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The work of the workers.
#[derive(Default)]
struct Jobs {
    woken: Mutex<VecDeque<Arc<Shared>>>,
    more: Condvar,
}

/// A task of any of the workers.
struct Shared {
    job: Mutex<Option<Job>>,
    jobs: Arc<Jobs>,
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        let jobs = Arc::clone(&self.jobs);
        jobs.woken.lock().unwrap().push_back(self);
        jobs.more.notify_one();
    }
}

/// Threads that poll woken tasks, as an executor's workers do. Nothing waits for them.
#[derive(Default)]
pub(crate) struct Workers {
    jobs: Arc<Jobs>,
}

impl Workers {
    pub(crate) fn new(threads: usize) -> Self {
        let workers = Workers::default();
        for _ in 0..threads {
            let jobs = Arc::clone(&workers.jobs);
            std::thread::spawn(move || {
                loop {
                    let mut woken = jobs.woken.lock().unwrap();
                    let task = loop {
                        match woken.pop_front() {
                            Some(task) => break task,
                            None => woken = jobs.more.wait(woken).unwrap(),
                        }
                    };
                    drop(woken);
                    let waker = Waker::from(Arc::clone(&task));
                    let mut job = task.job.lock().unwrap();
                    let Some(polled) = job.as_mut() else { continue };
                    if polled.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                        *job = None;
                    }
                }
            });
        }
        workers
    }

    pub(crate) fn spawn(&self, job: impl Future<Output = ()> + Send + 'static) {
        let job = Mutex::new(Some(Box::pin(job) as Job));
        Waker::from(Arc::new(Shared { job, jobs: Arc::clone(&self.jobs) })).wake();
    }
}

/// A signal that tasks wait for.
#[derive(Clone, Default)]
pub(crate) struct Signal(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Signal {
    pub(crate) fn give(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        let wakers = std::mem::take(&mut state.1);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) async fn given(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
