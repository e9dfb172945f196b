//! The flow manager: for each object that is being fetched, the requests that wait for it.
//!
//! The first request (a miss) starts the fetch of an object, the others wait in its queue (delayed
//! hits). A fetched object is written into its shard. Once the shard confirms the write, all
//! waiting requests are answered. Requests that the shard sent in the meantime arrive before the
//! confirmation, and are among them: no object is fetched twice because its write was under way.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use frazil_policy::object_hash;
use frazil_simulator::{Backends, HASH_SEED};
use rtrb::Consumer;

use super::Request;
use super::client::{Answer, Object, Outcome};
use super::pipe::{BATCH, Bell, Ends, Inlet, Over};

/// A shard's message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// The shard lacks the object. If it has not requested it before, it will recognise the write
    /// by `fetch`.
    Absent { request: Request, fetch: u32 },
    /// The shard has written the object to its cache, if the cache admitted it.
    Written { flow: u32 },
}

/// An object to be fetched from its origin, and the flow that it is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetch {
    pub(super) key: u64,
    pub(super) flow: u32,
}

/// The result of a fetch.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) flow: u32,
    pub(super) object: Object,
}

/// An object for a shard's cache.
#[derive(Debug)]
pub(super) struct Write {
    /// The shard's number of the fetch.
    pub(super) fetch: u32,
    pub(super) flow: u32,
    pub(super) object: Object,
}

/// The waiters for an object.
#[derive(Default)]
struct Flow {
    key: u64,
    shard: usize,
    fetch: u32,
    origin: usize,
    began: Option<Instant>,
    /// Numbers of requests; the first is the miss.
    waiting: Vec<u32>,
    object: Option<Object>,
}

/// The ends of its queues.
pub(super) struct Ways {
    pub(super) shards: Vec<(Consumer<Told>, Inlet<Write>)>,
    pub(super) network: Vec<(Inlet<Fetch>, Consumer<Fetched>)>,
    pub(super) client: Inlet<Answer>,
}

/// Counts of its work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fetches {
    pub(super) count: u64,
    /// Total time of the fetches beyond the delays of their origins.
    pub(super) late: Duration,
}

/// The flow manager.
pub(super) struct Flows<'s> {
    ways: Ways,
    backends: Backends,
    delays: &'s [Duration],
    /// Flows by key. The client's window bounds the requests in flight.
    by_key: HashMap<u64, u32>,
    flows: Vec<Flow>,
    idle: Vec<u32>,
    fetches: Fetches,
}

impl<'s> Flows<'s> {
    pub(super) fn new(ways: Ways, backends: Backends, delays: &'s [Duration]) -> Self {
        let (by_key, flows, idle) = Default::default();
        Flows { ways, backends, delays, by_key, flows, idle, fetches: Fetches::default() }
    }

    /// Works until the end of the run.
    pub(super) fn run(mut self, bell: &Bell, over: &Over) -> anyhow::Result<Fetches> {
        let _ends = Ends(over);
        while !over.is_over() {
            if !self.step()? {
                let ways = &self.ways;
                bell.wait(|| {
                    ways.shards.iter().any(|way| !way.0.is_empty())
                        || ways.network.iter().any(|way| !way.1.is_empty())
                });
            }
        }
        Ok(self.fetches)
    }

    /// Handles some of the messages. Returns whether there were any.
    fn step(&mut self) -> anyhow::Result<bool> {
        let mut moved = false;
        let now = Instant::now();
        for shard in 0..self.ways.shards.len() {
            for _ in 0..BATCH {
                let Ok(told) = self.ways.shards[shard].0.pop() else { break };
                match told {
                    Told::Absent { request, fetch } => self.queue(request, shard, fetch, now)?,
                    Told::Written { flow } => self.answer(flow)?,
                }
                moved = true;
            }
        }
        for origin in 0..self.ways.network.len() {
            for _ in 0..BATCH {
                let Ok(fetched) = self.ways.network[origin].1.pop() else { break };
                self.write(fetched, now)?;
                moved = true;
            }
        }
        self.ways.shards.iter_mut().for_each(|way| way.1.flush());
        self.ways.network.iter_mut().for_each(|way| way.0.flush());
        self.ways.client.flush();
        Ok(moved)
    }

    /// Queues a request for its object, and starts a fetch unless one is under way.
    fn queue(
        &mut self,
        request: Request,
        shard: usize,
        fetch: u32,
        now: Instant,
    ) -> anyhow::Result<()> {
        let Request { key, number } = request;
        let flow = match self.by_key.entry(key) {
            Entry::Occupied(flow) => *flow.get(),
            Entry::Vacant(vacant) => {
                let flow = self.idle.pop().unwrap_or_else(|| {
                    self.flows.push(Flow::default());
                    (self.flows.len() - 1) as u32
                });
                vacant.insert(flow);
                let origin = self.backends.number(object_hash(key, HASH_SEED));
                let begun = &mut self.flows[flow as usize];
                (begun.key, begun.shard, begun.fetch) = (key, shard, fetch);
                (begun.origin, begun.began) = (origin, Some(now));
                let way = self.ways.network.get_mut(origin).context("no such origin")?;
                way.0.send(Fetch { key, flow })?;
                flow
            }
        };
        self.flows[flow as usize].waiting.push(number);
        Ok(())
    }

    /// Writes a fetched object.
    fn write(&mut self, fetched: Fetched, now: Instant) -> anyhow::Result<()> {
        let Fetched { flow: number, object } = fetched;
        let flow = self.flows.get_mut(number as usize).context("fetched for nobody")?;
        let took = flow.began.take().context("fetched twice")?;
        let delay = self.delays.get(flow.origin).copied().unwrap_or_default();
        self.fetches.count += 1;
        self.fetches.late += now.saturating_duration_since(took).saturating_sub(delay);
        flow.object = Some(object.clone());
        let way = self.ways.shards.get_mut(flow.shard).context("no such shard")?;
        way.1.send(Write { fetch: flow.fetch, flow: number, object })
    }

    /// Answers all requests that wait for a written object.
    fn answer(&mut self, number: u32) -> anyhow::Result<()> {
        let flow = self.flows.get_mut(number as usize).context("written for nobody")?;
        let object = flow.object.take().context("written before it came")?;
        self.by_key.remove(&flow.key);
        let mut outcome = Outcome::Miss;
        for number in flow.waiting.drain(..) {
            self.ways.client.send(Answer { number, outcome, object: object.clone() })?;
            outcome = Outcome::DelayedHit;
        }
        self.idle.push(number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::pipe::pipe;
    use super::*;

    #[test]
    fn an_object_is_fetched_once_and_all_who_wait_get_it() {
        let bell = Arc::default();
        let (mut told, from_shard) = pipe(&bell);
        let (to_shard, mut writes) = pipe(&bell);
        let (to_network, mut fetches) = pipe(&bell);
        let (mut fetched, from_network) = pipe(&bell);
        let (client, mut answers) = pipe(&bell);
        let ways = Ways {
            shards: vec![(from_shard, to_shard)],
            network: vec![(to_network, from_network)],
            client,
        };
        let backends = Backends::new(&[1]).unwrap();
        let mut flows = Flows::new(ways, backends, &[Duration::ZERO]);
        let absent = |number| Told::Absent { request: Request { key: 7, number }, fetch: 3 };
        for number in [10, 11] {
            told.send(absent(number)).unwrap();
        }
        assert!(flows.step().unwrap());
        let Fetch { key, flow } = fetches.pop().unwrap();
        assert_eq!((key, fetches.is_empty()), (7, true));
        fetched.send(Fetched { flow, object: [1].into() }).unwrap();
        flows.step().unwrap();
        let write = writes.pop().unwrap();
        assert_eq!((write.fetch, write.flow, answers.is_empty()), (3, flow, true));
        // In transit while the shard wrote.
        told.send(absent(12)).unwrap();
        told.send(Told::Written { flow }).unwrap();
        flows.step().unwrap();
        let got = std::iter::from_fn(|| answers.pop().ok()).map(|it| (it.number, it.outcome));
        let expected = [(10, Outcome::Miss), (11, Outcome::DelayedHit), (12, Outcome::DelayedHit)];
        assert_eq!(got.collect::<Vec<_>>(), expected);
        assert!(fetches.is_empty() && !flows.step().unwrap());
        // The next one is a miss again.
        told.send(absent(13)).unwrap();
        flows.step().unwrap();
        assert_eq!(fetches.pop().unwrap().key, 7);
        assert_eq!(flows.fetches.count, 1);
    }

    #[test]
    fn what_nobody_has_asked_for_is_an_error() {
        let bell = Arc::default();
        let (mut told, from_shard) = pipe(&bell);
        let ways = Ways {
            shards: vec![(from_shard, pipe(&bell).0)],
            network: Vec::new(),
            client: pipe(&bell).0,
        };
        let mut flows = Flows::new(ways, Backends::new(&[1]).unwrap(), &[]);
        told.send(Told::Written { flow: 0 }).unwrap();
        assert!(flows.step().is_err());
    }
}
