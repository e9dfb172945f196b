//! All parts together: started, joined by queues, and timed.

use std::net::TcpStream;
use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::anyhow;
use frazil::Policy;
use frazil_driver::{Processors, process_time, thread_time};
use frazil_simulator::Backends;

use super::client::{Due, Log, balance, replay};
use super::flows::{self, Fetches, Flows};
use super::network;
use super::origin::Origin;
use super::pipe::{Bell, Over, pipe};
use super::shard;

/// The parts, in the order in which a request passes them.
pub(super) const PARTS: [&str; 6] =
    ["client", "load balancer", "shards", "flow manager", "network manager", "origins"];

/// The parts of the system.
pub(super) struct System<'s> {
    pub(super) policy: Policy,
    /// Capacity of each shard, in objects.
    pub(super) capacity: u64,
    pub(super) shards: usize,
    /// Latency of each origin.
    pub(super) delays: &'s [Duration],
    pub(super) backends: Backends,
}

/// The result.
pub(super) struct Measured {
    pub(super) log: Log,
    pub(super) fetches: Fetches,
    /// The share of the machine's processors that other work used; `None` if unknown.
    pub(super) others: Option<f64>,
    /// Processor time of each part, origins included; `None` if unknown.
    pub(super) times: [Option<Duration>; PARTS.len()],
}

/// A connection to an origin, for the thread that sends and for the one that reads.
struct Line(TcpStream, TcpStream);

impl Line {
    fn to(origin: &Origin) -> anyhow::Result<Self> {
        let stream = origin.connect()?;
        Ok(Line(stream.try_clone()?, stream))
    }
}

/// The result of a part, and its processor time.
type Ended<T> = (anyhow::Result<T>, Option<Duration>);

impl System<'_> {
    /// Replays the requests through new caches, when they are due, or if it `hurries` at full
    /// speed.
    pub(super) fn run(&self, requests: &[Due], hurries: bool) -> anyhow::Result<Measured> {
        let origins: Vec<Origin> =
            self.delays.iter().map(|&delay| Origin::start(delay)).collect::<anyhow::Result<_>>()?;
        // Before any part starts, because a part would wait for the others.
        let lines: Vec<Line> = origins.iter().map(Line::to).collect::<anyhow::Result<_>>()?;
        let processes: Vec<u32> = origins.iter().map(Origin::process).collect();
        let before = Processors::now(&processes);
        let over = Over::default();
        let mut measured =
            thread::scope(|scope| self.start(scope, requests, hurries, lines, &over))?;
        let now = Processors::now(&processes);
        measured.others = now.zip(before).map(|(now, before)| now.others_since(&before));
        measured.times[5] = processes.into_iter().map(process_time).sum();
        Ok(measured)
    }

    fn start<'e>(
        &'e self,
        scope: &'e Scope<'e, '_>,
        requests: &'e [Due],
        hurries: bool,
        lines: Vec<Line>,
        over: &'e Over,
    ) -> anyhow::Result<Measured> {
        let bell = Arc::<Bell>::default;
        // The client sleeps by the clock; no part wakes it.
        let (for_balancer, for_flows, for_client) = (bell(), bell(), bell());
        let (first, to_balance) = pipe(&for_balancer);
        let (from_flows, answers) = pipe(&for_client);
        let (mut to_shards, mut answers) = (Vec::new(), vec![answers]);
        let mut ways = flows::Ways { shards: Vec::new(), network: Vec::new(), client: from_flows };
        let mut shards = Vec::new();
        for _ in 0..self.shards {
            let for_shard = bell();
            let (request, requests) = pipe(&for_shard);
            let (write, writes) = pipe(&for_shard);
            let (flows, told) = pipe(&for_flows);
            let (client, hits) = pipe(&for_client);
            to_shards.push(request);
            ways.shards.push((told, write));
            answers.push(hits);
            let ends = shard::Ways { requests, writes, flows, client };
            let cell = (self.policy, self.capacity);
            shards.push(timed(scope, move || shard::serve(cell, ends, &for_shard, over)));
        }
        let mut network = Vec::new();
        for Line(to, from) in lines {
            let for_asker = bell();
            let (fetch, wanted) = pipe(&for_asker);
            let (fetched, come) = pipe(&for_flows);
            ways.network.push((fetch, come));
            network.push(timed(scope, move || network::ask(wanted, to, &for_asker, over)));
            network.push(timed(scope, move || network::listen(from, fetched, over)));
        }
        let flows = Flows::new(ways, self.backends, self.delays);
        let flows = timed(scope, move || flows.run(&for_flows, over));
        let balancer = timed(scope, move || balance(to_balance, to_shards, &for_balancer, over));
        let client = timed(scope, move || replay(requests, hurries, first, answers, over));
        // A part that fails ends all others; its error is more useful than theirs.
        let (client, balancer, flows) = (join(client), join(balancer), join(flows));
        let [shards, network] = [shards, network].map(together);
        network.0?;
        shards.0?;
        balancer.0?;
        let fetches = flows.0?;
        let log = client.0?;
        let times = [client.1, balancer.1, shards.1, flows.1, network.1, None];
        Ok(Measured { log, fetches, others: None, times })
    }
}

/// Starts a part.
fn timed<'e, T: Send + 'e>(
    scope: &'e Scope<'e, '_>,
    part: impl FnOnce() -> anyhow::Result<T> + Send + 'e,
) -> ScopedJoinHandle<'e, Ended<T>> {
    scope.spawn(|| (part(), thread_time()))
}

fn join<T>(part: ScopedJoinHandle<'_, Ended<T>>) -> Ended<T> {
    part.join().unwrap_or_else(|_| (Err(anyhow!("a part panicked")), None))
}

fn together(parts: Vec<ScopedJoinHandle<'_, Ended<()>>>) -> Ended<()> {
    let (ends, times): (Vec<_>, Vec<_>) = parts.into_iter().map(join).unzip();
    (ends.into_iter().collect(), times.into_iter().sum())
}
