//! The sides compared: a cache without and with an overlay, driven by the same loop in alternating
//! rounds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use frazil_driver::{
    Backend, Distance, Engine, Measured, Schedule, Shared, Stream, preload, run, run_with_backend,
};
use frazil_freezing::{FreezingControl, Host, Overlay, Phase};

/// The longest wait for the controller.
const SETTLED_IN: Duration = Duration::from_secs(15);
/// Attempts at a disturbed run of a round.
const ATTEMPTS: usize = 4;
/// Below this share a thread did not have its core.
const CPU_SHARE: f64 = 0.9;

/// A value that the loop makes and reads.
pub(crate) trait Payload: Clone + Send + Sync + 'static {
    fn of(key: u64) -> Self;
    fn read(&self) -> u64;
}

impl Payload for u64 {
    fn of(key: u64) -> Self {
        key
    }

    fn read(&self) -> u64 {
        *self
    }
}

/// A kilobyte that is read completely.
#[derive(Clone)]
pub(crate) struct Kilobyte(Arc<[u64; 128]>);

impl Payload for Kilobyte {
    fn of(key: u64) -> Self {
        Kilobyte(Arc::new([key; 128]))
    }

    fn read(&self) -> u64 {
        self.0.iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}

struct Plain<H>(H);

impl<H: Host<Key = u64, Value: Payload>> Shared for Plain<H> {
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key, |_| ()).map(|value| value.read())
    }

    fn insert(&self, key: u64) {
        self.0.insert(&key, H::Value::of(key));
    }

    fn remove(&self, key: u64) {
        self.0.remove(&key);
    }
}

impl<H: Host<Key = u64, Value: Payload>> Engine for Plain<H> {
    type Session<'a>
        = &'a Self
    where
        H: 'a;

    fn session(&self) -> &Self {
        self
    }
}

struct Frozen<H: Host>(Arc<Overlay<H, RandomState>>);

impl<H: Host<Key = u64, Value: Payload>> Shared for Frozen<H> {
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).map(|value| value.read())
    }

    fn insert(&self, key: u64) {
        self.0.insert(&key, H::Value::of(key));
    }

    fn remove(&self, key: u64) {
        self.0.remove(&key);
    }
}

impl<H: Host<Key = u64, Value: Payload>> Engine for Frozen<H> {
    type Session<'a>
        = &'a Self
    where
        H: 'a;

    fn session(&self) -> &Self {
        self
    }
}

/// The requests of threads, and the latency of a miss.
pub(crate) struct Load {
    /// By thread and turn: turns have different requests, but all sides have the same.
    streams: Vec<Stream>,
    threads: usize,
    miss: Option<Duration>,
}

impl Load {
    /// The requests of `threads` threads. They repeat once the streams are used up.
    pub(crate) fn new(streams: Vec<Stream>, threads: usize, miss: Option<Duration>) -> Self {
        Load { streams, threads, miss }
    }

    fn run<E: Engine>(&self, engine: &E, turn: usize, seconds: f64) -> Measured {
        let schedule = Schedule::seconds(seconds);
        let turn = turn % (self.streams.len() / self.threads);
        let streams = &self.streams[turn * self.threads..][..self.threads];
        match self.miss {
            None => run(engine, streams, 0, &schedule),
            Some(latency) => {
                let backend = Backend::new(latency, self.threads);
                run_with_backend(engine, streams, 0, &schedule, backend)
            }
        }
    }
}

/// How much of a cache is frozen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Freezing {
    Nothing,
    /// Everything, by hand, as soon as the cache is warm.
    All,
    /// The controller's choice.
    Learned,
}

/// One turn of a load, for a number of seconds.
type Driven = Box<dyn Fn(&Load, usize, f64) -> Measured>;

/// A cache on its side of a comparison.
pub(crate) struct Side {
    pub(crate) name: String,
    drive: Driven,
    preload: Box<dyn Fn(u64)>,
    /// Called when the cache is warm. Returns whether everything to freeze by hand is frozen.
    freeze: Box<dyn Fn() -> bool>,
    /// Phase and share.
    state: Box<dyn Fn() -> Option<(Phase, f64)>>,
    _control: Option<FreezingControl>,
}

impl Side {
    /// Without an overlay.
    pub(crate) fn plain<H>(name: &str, host: H) -> Self
    where
        H: Host<Key = u64, Value: Payload> + 'static,
    {
        let engine = Arc::new(Plain(host));
        let filled = Arc::clone(&engine);
        Side {
            name: name.to_owned(),
            drive: Box::new(move |load, turn, seconds| load.run(&*engine, turn, seconds)),
            preload: Box::new(move |keys| preload(&*filled, keys)),
            freeze: Box::new(|| true),
            state: Box::new(|| None),
            _control: None,
        }
    }

    /// With an overlay.
    pub(crate) fn overlaid<H>(name: &str, host: H, freezing: Freezing) -> std::io::Result<Self>
    where
        H: Host<Key = u64, Value: Payload> + 'static,
    {
        let overlay = Arc::new(Overlay::with_hasher(host, RandomState::default()));
        let control = (freezing == Freezing::Learned).then(|| overlay.control()).transpose()?;
        let [driven, filled, frozen, seen] = std::array::from_fn(|_| Arc::clone(&overlay));
        let is_learned = freezing == Freezing::Learned;
        Ok(Side {
            name: name.to_owned(),
            drive: Box::new(move |load, turn, seconds| {
                load.run(&Frozen(Arc::clone(&driven)), turn, seconds)
            }),
            preload: Box::new(move |keys| preload(&Frozen(Arc::clone(&filled)), keys)),
            freeze: Box::new(move || {
                let all = |it: u64| it == frozen.host().len() as u64;
                freezing != Freezing::All || frozen.freeze(1.0).is_some_and(all)
            }),
            state: Box::new(move || {
                let state = seen.state();
                is_learned.then_some((state.phase, state.share))
            }),
            _control: control,
        })
    }

    /// Fills the cache, and sends requests until it is warm and its controller has decided.
    /// Returns how long that took.
    fn warm(&self, load: &Load, keys: u64, seconds: f64) -> Result<Duration, String> {
        let began = Instant::now();
        (self.preload)(keys);
        (self.drive)(load, 0, seconds);
        if !(self.freeze)() {
            return Err(format!("{}: what was to be frozen by hand is not", self.name));
        }
        let undecided = || {
            let phase = (self.state)().map(|(phase, _)| phase);
            phase.is_some_and(|phase| !matches!(phase, Phase::Frozen | Phase::Sleeping))
        };
        for turn in 1.. {
            if !undecided() || began.elapsed() >= SETTLED_IN {
                break;
            }
            (self.drive)(load, turn, seconds);
        }
        Ok(began.elapsed())
    }

    /// Sends requests for `time`.
    fn warm_for(&self, load: &Load, time: Duration, seconds: f64) {
        let began = Instant::now();
        for turn in 1.. {
            if began.elapsed() >= time {
                break;
            }
            (self.drive)(load, turn, seconds);
        }
    }
}

/// The results of a side's rounds.
pub(crate) struct Outcome {
    pub(crate) name: String,
    /// Million requests a second, the median of the rounds, and their relative spread.
    pub(crate) mops: f64,
    pub(crate) spread: f64,
    pub(crate) hit_ratio: f64,
    pub(crate) p99_ns: u64,
    /// Mean latency × throughput over threads, the median.
    pub(crate) little: f64,
    /// Whether that was 1 in all rounds, as far as is known.
    pub(crate) little_holds: bool,
    /// Rounds without an undisturbed run.
    pub(crate) disturbed: usize,
    /// The controller's phase in most rounds, and the frozen share then.
    pub(crate) state: Option<(Phase, f64)>,
}

/// How to measure.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) distance: Distance,
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// The phase of most measurements, and the mean frozen share in it.
fn usual(states: &[(Phase, f64)]) -> Option<(Phase, f64)> {
    let count = |phase: Phase| states.iter().filter(|state| state.0 == phase).count();
    let usual = states.iter().map(|state| state.0).max_by_key(|&phase| count(phase))?;
    let shares = states.iter().filter(|state| state.0 == usual).map(|state| state.1);
    Some((usual, shares.sum::<f64>() / count(usual) as f64))
}

/// Warms all sides, equally long, then measures them alternately.
pub(crate) fn compare(
    sides: &[Side],
    load: &Load,
    keys: u64,
    plan: &mut Plan,
) -> Result<Vec<Outcome>, String> {
    let warm = |side: &Side| side.warm(load, keys, plan.seconds);
    let took: Vec<Duration> = sides.iter().map(warm).collect::<Result<_, _>>()?;
    let longest = took.iter().copied().max().unwrap_or_default();
    for (side, took) in sides.iter().zip(took) {
        side.warm_for(load, longest - took, plan.seconds);
    }
    let mut states: Vec<Vec<(Phase, f64)>> = sides.iter().map(|_| Vec::new()).collect();
    let mut runs: Vec<Vec<Measured>> = sides.iter().map(|_| Vec::new()).collect();
    let mut disturbed = vec![0; sides.len()];
    for round in 0..plan.rounds {
        for (at, side) in sides.iter().enumerate() {
            let (measured, is_disturbed) = measure(side, load, round, plan);
            disturbed[at] += usize::from(is_disturbed);
            runs[at].push(measured);
            states[at].extend((side.state)());
        }
    }
    let outcome = |(((side, runs), disturbed), states): (((&Side, Vec<Measured>), usize), _)| {
        let states: Vec<(Phase, f64)> = states;
        let all = |figure: fn(&Measured) -> f64| runs.iter().map(figure).collect::<Vec<f64>>();
        let mops = all(|run| run.mops);
        let most = mops.iter().copied().fold(0.0, f64::max);
        let least = mops.iter().copied().fold(f64::INFINITY, f64::min);
        let mops = median(mops);
        Outcome {
            name: side.name.clone(),
            spread: (most - least) / mops,
            mops,
            hit_ratio: median(all(|run| run.hit_ratio)),
            p99_ns: median(all(|run| run.p99_ns as f64)) as u64,
            little: median(all(|run| run.little().ratio())),
            little_holds: runs.iter().all(|run| run.little().holds()),
            disturbed,
            state: usual(&states),
        }
    };
    Ok(sides.iter().zip(runs).zip(disturbed).zip(states).map(outcome).collect())
}

/// One run of a side, each thread on its core, with the same latency between cores as in all other
/// runs. A round's requests are the same for all sides, unless a run must be repeated.
fn measure(side: &Side, load: &Load, round: usize, plan: &mut Plan) -> (Measured, bool) {
    let mut attempt = 1;
    loop {
        plan.distance.wait();
        let began = Instant::now();
        let turn = 1 + round + (attempt - 1) * plan.rounds;
        let measured = (side.drive)(load, turn, plan.seconds);
        let has_cores = measured.cpu_share.is_none_or(|share| share >= CPU_SHARE);
        // A thread that waits for a backend may yield its core.
        let is_undisturbed = plan.distance.is_kept() && (has_cores || load.miss.is_some());
        if is_undisturbed || attempt == ATTEMPTS || !plan.distance.has_patience() {
            return (measured, !is_undisturbed);
        }
        plan.distance.spend(began.elapsed());
        attempt += 1;
    }
}
