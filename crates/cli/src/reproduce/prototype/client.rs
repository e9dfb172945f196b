//! The client, which replays a trace and notes latencies, and the load balancer.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rtrb::Consumer;

use super::origin::names;
use super::pipe::{BATCH, Bell, Ends, Inlet, Over, WINDOW};
use super::{Request, shard_of};

/// Sleep of the client after it has sent due requests and read replies; if it hurries, only if
/// there were none.
const PACE: Duration = Duration::from_micros(200);

/// An object from its origin.
pub(super) type Object = std::sync::Arc<[u8]>;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Hit,
    DelayedHit,
    Miss,
}

/// The reply to a request.
#[derive(Debug)]
pub(super) struct Answer {
    /// The number of the request.
    pub(super) number: u32,
    pub(super) outcome: Outcome,
    pub(super) object: Object,
}

/// A request of the trace.
#[derive(Clone, Copy)]
pub(super) struct Due {
    /// Nanoseconds from the beginning.
    pub(super) at: u64,
    pub(super) key: u64,
}

/// The client's notes.
#[derive(Default)]
pub(super) struct Log {
    pub(super) hits: u64,
    pub(super) delayed_hits: u64,
    pub(super) misses: u64,
    /// Time of each request from its due time to the read answer, in µs, unordered.
    pub(super) latencies_us: Vec<u32>,
    /// Total latency of the hits.
    pub(super) hits_us: u64,
    /// Total delay of the requests from their due times to the sending.
    pub(super) late_us: u64,
    pub(super) seconds: f64,
}

impl Log {
    pub(super) fn requests(&self) -> u64 {
        self.hits + self.delayed_hits + self.misses
    }

    fn note(&mut self, outcome: Outcome, latency_ns: u64) {
        let us = latency_ns / 1_000;
        self.latencies_us.push(u32::try_from(us).unwrap_or(u32::MAX));
        match outcome {
            Outcome::Hit => {
                self.hits += 1;
                self.hits_us += us;
            }
            Outcome::DelayedHit => self.delayed_hits += 1,
            Outcome::Miss => self.misses += 1,
        }
    }
}

/// Sends each request when it is due, or if it `hurries` as soon as possible, and reads all
/// answers.
pub(super) fn replay(
    requests: &[Due],
    hurries: bool,
    mut out: Inlet<Request>,
    mut answers: Vec<Consumer<Answer>>,
    over: &Over,
) -> anyhow::Result<Log> {
    let _ends = Ends(over);
    let mut log = Log::default();
    log.latencies_us.reserve(requests.len());
    let mut since: Vec<u64> = requests.iter().map(|request| request.at).collect();
    let began = Instant::now();
    let clock = || began.elapsed().as_nanos() as u64;
    let mut sent = 0;
    loop {
        let now = clock();
        let (before, answered) = (sent, log.latencies_us.len());
        while let Some(&Due { at, key }) = requests.get(sent)
            && sent - log.latencies_us.len() < WINDOW
            && (hurries || at <= now)
        {
            if hurries {
                since[sent] = now;
            }
            log.late_us += now.saturating_sub(since[sent]) / 1_000;
            out.send(Request { key, number: sent as u32 })?;
            sent += 1;
            if sent - before == BATCH {
                break;
            }
        }
        out.flush();
        let now = clock();
        for queue in &mut answers {
            while let Ok(Answer { number, outcome, object }) = queue.pop() {
                let number = number as usize;
                let request = requests.get(number).context("an answer to no request")?;
                if !names(&object, request.key) {
                    bail!("the object of another key");
                }
                log.note(outcome, now.saturating_sub(since[number]));
            }
        }
        if log.latencies_us.len() == requests.len() {
            break;
        }
        if over.is_over() {
            bail!("a part has ended before its time");
        }
        // Due requests are sent together, because each message wakes a sleeping part.
        let has_read = log.latencies_us.len() > answered;
        if sent - before < BATCH && !(hurries && has_read) {
            std::thread::sleep(PACE);
        }
    }
    log.seconds = began.elapsed().as_secs_f64();
    Ok(log)
}

/// Sends each request on to the shard of its key.
pub(super) fn balance(
    mut from: Consumer<Request>,
    mut shards: Vec<Inlet<Request>>,
    bell: &Bell,
    over: &Over,
) -> anyhow::Result<()> {
    let _ends = Ends(over);
    while !over.is_over() {
        let mut moved = false;
        for _ in 0..BATCH {
            let Ok(request) = from.pop() else { break };
            let number = shard_of(request.key, shards.len());
            shards.get_mut(number).context("no shard")?.send(request)?;
            moved = true;
        }
        shards.iter_mut().for_each(Inlet::flush);
        if !moved {
            bell.wait(|| !from.is_empty());
        }
    }
    Ok(())
}
