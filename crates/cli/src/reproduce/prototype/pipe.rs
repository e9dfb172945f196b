//! Connections of the prototype's parts: bounded queues of one producer and one consumer, and a
//! bell for each thread that waits at several of them.
//!
//! Every message belongs to a request that is not answered yet, and no request has two. So a queue
//! for all requests in flight ([`WINDOW`]) is never full, and no part waits to send: the parts form
//! cycles, in which each could wait for the next. The client limits the requests in flight.

use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use anyhow::anyhow;
use rtrb::{Consumer, Producer, RingBuffer};

/// Most requests that are not answered yet.
pub(super) const WINDOW: usize = 1 << 17;
/// Messages taken from one queue before the next is checked.
pub(super) const BATCH: usize = 256;
/// The longest sleep of a part. Afterwards it checks whether the run has ended.
const NAP: Duration = Duration::from_millis(10);

/// Wakes a thread that sleeps because its queues are empty.
pub(super) struct Bell {
    sleeping: AtomicBool,
    thread: OnceLock<Thread>,
    nap: Duration,
}

impl Default for Bell {
    fn default() -> Self {
        Bell { sleeping: AtomicBool::new(false), thread: OnceLock::new(), nap: NAP }
    }
}

impl Bell {
    /// Sleeps until another part rings, at most 10 ms; not at all if there is work. Only the thread
    /// that first called it may call it.
    pub(super) fn wait(&self, has_work: impl FnOnce() -> bool) {
        self.thread.get_or_init(thread::current);
        // Partner: the swap of `ring`, which finds the thread.
        self.sleeping.store(true, Release);
        // Partner: the fence of `ring`. Either this thread sees the message, or the other that this
        // one sleeps.
        fence(SeqCst);
        if !has_work() {
            thread::park_timeout(self.nap);
        }
        self.sleeping.store(false, Relaxed);
    }

    fn ring(&self) {
        // Partner: the fence of `wait`.
        fence(SeqCst);
        if self.sleeping.load(Relaxed)
            // Partner: the store of `wait`.
            && self.sleeping.swap(false, Acquire)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

/// The producer's end of a queue.
pub(super) struct Inlet<T> {
    queue: Producer<T>,
    /// The bell of the consumer.
    bell: Arc<Bell>,
    sent: bool,
}

impl<T> Inlet<T> {
    /// Queues a message. The consumer may see it only after the next [`flush`](Self::flush).
    pub(super) fn send(&mut self, message: T) -> anyhow::Result<()> {
        self.sent = true;
        self.queue.push(message).map_err(|_| anyhow!("more messages than requests"))
    }

    /// Wakes the consumer, if anything was sent since.
    pub(super) fn flush(&mut self) {
        if std::mem::take(&mut self.sent) {
            self.bell.ring();
        }
    }
}

/// A queue to a thread with this bell.
pub(super) fn pipe<T>(bell: &Arc<Bell>) -> (Inlet<T>, Consumer<T>) {
    let (queue, outlet) = RingBuffer::new(WINDOW);
    (Inlet { queue, bell: Arc::clone(bell), sent: false }, outlet)
}

/// Whether the run has ended: all requests are answered, or a part has failed.
#[derive(Default)]
pub(super) struct Over(AtomicBool);

impl Over {
    pub(super) fn is_over(&self) -> bool {
        // Parts exchange data only through queues, so this orders nothing.
        self.0.load(Relaxed)
    }

    pub(super) fn end(&self) {
        self.0.store(true, Relaxed);
    }
}

/// Ends the run when a part ends in any way.
pub(super) struct Ends<'a>(pub(super) &'a Over);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn who_sleeps_is_woken_by_what_comes() {
        // Long enough that a thread sleeps through only if nothing wakes it, even on a busy
        // machine.
        let long = Duration::from_secs(60);
        let bell = || Arc::new(Bell { nap: long, ..Bell::default() });
        let (bell, back_bell) = (bell(), bell());
        let (mut there, mut come) = pipe(&bell);
        let (mut back, mut answers) = pipe(&back_bell);
        const ROUNDS: u32 = 2_000;
        let wait = |bell: &Bell, come: &Consumer<u32>| {
            let began = Instant::now();
            bell.wait(|| !come.is_empty());
            assert!(began.elapsed() < long, "nobody woke it");
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut served = 0;
                while served < ROUNDS {
                    while let Ok(number) = come.pop() {
                        back.send(number).unwrap();
                        served += 1;
                    }
                    back.flush();
                    if served < ROUNDS {
                        wait(&bell, &come);
                    }
                }
            });
            for number in 0..ROUNDS {
                there.send(number).unwrap();
                there.flush();
                let answer = loop {
                    if let Ok(answer) = answers.pop() {
                        break answer;
                    }
                    wait(&back_bell, &answers);
                };
                assert_eq!(answer, number);
            }
        });
    }

    #[test]
    fn a_full_queue_refuses() {
        let (mut inlet, mut outlet) = pipe(&Arc::default());
        (0..WINDOW).for_each(|number| inlet.send(number).unwrap());
        assert!(inlet.send(WINDOW).is_err());
        assert_eq!(outlet.pop(), Ok(0));
        inlet.send(WINDOW).unwrap();
    }
}
