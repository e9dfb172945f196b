//! The networks of paper 1 (Qiu, Yang, Harchol-Balter 2024): §3.1 and figures 2, 4, 6, 9, 11,
//! 13. A server each for delink, head and tail of a list; look-up and disk are think times.
//!
//! Service times are the paper's measurements on its machine (72 hyperthreads of a Xeon 8360Y at
//! 3.1 GHz); a head update costs 0.59 to 0.73 µs depending on the policy, because it includes a
//! hand-over between cores. They do not apply to another machine, which needs a
//! [`Profile`](crate::Profile). The routing functions are in `fit.rs`, with their errors near a hit
//! ratio of 1.
//!
//! Differences: the paper measured probabilistic LRU at two values of q; for others the times are
//! interpolated, between LRU at q = 0 and FIFO at q = 1. In the text (§4.4) SLRU moves a hit in the
//! protected list to the head of the other list; in its figure 11, and here, to the head of its
//! own, which alone makes sense.

use std::fmt;
use std::str::FromStr;

use crate::error::{share, time_us};
use crate::fit;
use crate::{Kind, ModelError, Network, Route, Service, Station, Step};

/// Index look-up, µs (paper 1, §3.1), in all networks of the paper.
///
/// ```
/// use frazil_queueing::{LOOK_UP_US, PaperNetwork, Use};
/// let hits = PaperNetwork::Fifo.network(1.0, 100.0, Use::Exact)?;
/// assert_eq!(hits.think_us(), LOOK_UP_US);
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
pub const LOOK_UP_US: f64 = 0.51;
/// S3-FIFO's ghost (§4.5).
const GHOST_US: f64 = 0.51;
/// An item skipped at the tail of CLOCK and of S3-FIFO's main queue, µs (its program).
const SKIP_US: f64 = 0.3;
/// Probabilistic LRU's second measured q.
const Q_HIGH: f64 = 1.0 - 1.0 / 72.0;

/// One of the paper's policies, and its network.
///
/// ```
/// use frazil_queueing::PaperNetwork;
/// assert_eq!("lru-prob:q=0.9".parse(), Ok(PaperNetwork::LruProb { q: 0.9 }));
/// assert_eq!(PaperNetwork::S3Fifo.to_string(), "s3-fifo");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PaperNetwork {
    /// Figure 4.
    Fifo,
    /// Figure 2.
    Lru,
    /// Figure 6: LRU in which a share q of the hits changes nothing.
    LruProb {
        /// The share, 0 to 1.
        q: f64,
    },
    /// Figure 9: FIFO whose tail skips objects requested since.
    Clock,
    /// Figure 11: two LRU lists, probationary B and protected T.
    Slru,
    /// Figure 13: a small queue S, a main queue M, a ghost.
    S3Fifo,
}

/// The conditions of a network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    /// Upper bounds: a time for which the paper gives only an upper limit is 0.
    Bound,
    /// Solutions and simulation: such a time is at its limit.
    Exact,
}

impl PaperNetwork {
    /// All of them, probabilistic LRU at both of the paper's q.
    pub const ALL: [PaperNetwork; 7] = [
        PaperNetwork::Lru,
        PaperNetwork::Fifo,
        PaperNetwork::LruProb { q: 0.5 },
        PaperNetwork::LruProb { q: Q_HIGH },
        PaperNetwork::Clock,
        PaperNetwork::Slru,
        PaperNetwork::S3Fifo,
    ];

    /// Names without parameters.
    pub const NAMES: [&str; 6] = ["fifo", "lru", "lru-prob", "clock", "slru", "s3-fifo"];

    /// The network at a hit ratio, with a backend that takes `backend_us` on a miss and serves any
    /// number of requests at once.
    ///
    /// # Errors
    ///
    /// A hit ratio or q outside 0 to 1; a backend time that is negative or out of range.
    pub fn network(
        self,
        hit_ratio: f64,
        backend_us: f64,
        made_for: Use,
    ) -> Result<Network, ModelError> {
        let p = share(|| "the hit ratio".to_owned(), hit_ratio)?;
        time_us(|| "the backend's time".to_owned(), backend_us)?;
        let mut plan = Plan { p, backend_us, made_for, stations: Vec::new(), routes: Vec::new() };
        match self {
            PaperNetwork::Fifo => plan.prob_lru(1.0),
            PaperNetwork::Lru => plan.prob_lru(0.0),
            PaperNetwork::LruProb { q } => plan.prob_lru(share(|| "q".to_owned(), q)?),
            PaperNetwork::Clock => plan.clock(),
            PaperNetwork::Slru => plan.slru(),
            PaperNetwork::S3Fifo => plan.s3_fifo(),
        }
        Network::new(plan.stations, plan.routes)
    }

    /// Costs of single list operations in the paper, µs, for a cache that imitates them.
    ///
    /// ```
    /// use frazil_queueing::PaperNetwork;
    /// let lru = PaperNetwork::Lru.list_costs()?;
    /// assert_eq!((lru.delink_us, lru.head_us, lru.tail_us, lru.skip_us), (0.70, 0.59, 0.59, 0.0));
    /// # Ok::<(), frazil_queueing::ModelError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`network`](Self::network).
    pub fn list_costs(self) -> Result<ListCosts, ModelError> {
        let network = self.network(0.5, 0.0, Use::Exact)?;
        let of = |kind: &str| {
            let station = network.stations().iter().find(|it| it.name.starts_with(kind));
            station.map_or(0.0, |it| it.service.saturated_us())
        };
        let (delink_us, head_us, tail_us) = (of("delink"), of("head"), of("tail"));
        let skips = matches!(self, PaperNetwork::Clock | PaperNetwork::S3Fifo);
        Ok(ListCosts {
            delink_us,
            head_us,
            // The excess of CLOCK's tail time over a head operation is due to skipped items.
            tail_us: tail_us.min(head_us),
            skip_us: if skips { SKIP_US } else { 0.0 },
        })
    }
}

/// Times of single list operations, µs: [`PaperNetwork::list_costs`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ListCosts {
    /// An object is removed from the middle of a list.
    pub delink_us: f64,
    /// The newest end of a list changes.
    pub head_us: f64,
    /// The oldest end of a list changes.
    pub tail_us: f64,
    /// An object is skipped at that end.
    pub skip_us: f64,
}

impl FromStr for PaperNetwork {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let network = match name {
            "fifo" => PaperNetwork::Fifo,
            "lru" => PaperNetwork::Lru,
            "lru-prob" => PaperNetwork::LruProb { q: 0.5 },
            "clock" => PaperNetwork::Clock,
            "slru" => PaperNetwork::Slru,
            "s3-fifo" => PaperNetwork::S3Fifo,
            _ => {
                let known = PaperNetwork::NAMES.join(", ");
                let text = format!("unknown network `{name}`: the profile `paper` has {known}");
                return Err(ModelError::Unknown(text));
            }
        };
        match (network, parameter) {
            (_, None) => Ok(network),
            (PaperNetwork::LruProb { .. }, Some(parameter)) => {
                let q = parameter.strip_prefix("q=").and_then(|q| q.parse().ok());
                match q {
                    Some(q) if (0.0..=1.0).contains(&q) => Ok(PaperNetwork::LruProb { q }),
                    _ => Err(ModelError::Unknown(format!(
                        "`{name}` has no parameter `{parameter}`: it takes q from 0 to 1"
                    ))),
                }
            }
            (_, Some(parameter)) => Err(ModelError::Unknown(format!(
                "`{name}` has no parameter `{parameter}`: it takes none"
            ))),
        }
    }
}

impl fmt::Display for PaperNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PaperNetwork::Fifo => f.write_str("fifo"),
            PaperNetwork::Lru => f.write_str("lru"),
            PaperNetwork::LruProb { q } => write!(f, "lru-prob:q={q}"),
            PaperNetwork::Clock => f.write_str("clock"),
            PaperNetwork::Slru => f.write_str("slru"),
            PaperNetwork::S3Fifo => f.write_str("s3-fifo"),
        }
    }
}

/// A network being drawn.
struct Plan {
    /// Hit ratio.
    p: f64,
    backend_us: f64,
    made_for: Use,
    stations: Vec<Station>,
    routes: Vec<Route>,
}

impl Plan {
    /// A single server with a measured time.
    fn station(&mut self, name: &str, service_us: f64) -> Step {
        let service = Service::Single(service_us);
        self.stations.push(Station { name: name.to_owned(), service });
        Step::Visit { station: self.stations.len() - 1, visits: 1.0 }
    }

    /// A station for which the paper gives an upper limit, because it is never the bottleneck.
    fn limited(&mut self, name: &str, limit_us: f64) -> Step {
        self.station(name, if self.made_for == Use::Bound { 0.0 } else { limit_us })
    }

    /// A route that begins with the look-up.
    fn hit(&mut self, share: f64, steps: &[Step]) {
        let steps = [&[Step::Compute(LOOK_UP_US)], steps].concat();
        self.routes.push(Route { kind: Kind::Hit, share, steps });
    }

    /// A request that goes to the backend after the look-up.
    fn miss(&mut self, share: f64, steps: &[Step]) {
        let begin = [Step::Compute(LOOK_UP_US), Step::Wait(self.backend_us)];
        let steps = [&begin, steps].concat();
        self.routes.push(Route { kind: Kind::Miss, share, steps });
    }

    /// LRU (q = 0), FIFO (q = 1) and the range between.
    fn prob_lru(&mut self, q: f64) {
        let p = self.p;
        // FIFO has no delink; its time just below q = 1 is that at the last measured q.
        let delink_us = interpolated(q, &[(0.0, 0.70), (0.5, 0.78), (Q_HIGH, 0.81)]);
        let head_us = interpolated(q, &[(0.0, 0.59), (0.5, 0.65), (Q_HIGH, 0.67), (1.0, 0.73)]);
        // As in the paper's simulation.
        let tail_us = interpolated(q, &[(0.0, 0.59), (0.5, 0.64)]);
        let head = self.station("head", head_us);
        let tail = self.limited("tail", tail_us);
        if q < 1.0 {
            let delink = self.station("delink", delink_us);
            self.hit((1.0 - q) * p, &[delink, head]);
        }
        if q > 0.0 {
            self.hit(q * p, &[]);
        }
        self.miss(1.0 - p, &[tail, head]);
    }

    fn clock(&mut self) {
        let p = self.p;
        let head = self.limited("head", 0.65);
        let tail = self.station("tail", 0.65 + SKIP_US * fit::clock_skips(p));
        self.hit(p, &[]);
        self.miss(1.0 - p, &[tail, head]);
    }

    fn slru(&mut self) {
        let p = self.p;
        let delink_t = self.station("delink-t", 0.70);
        let delink_b = self.station("delink-b", 0.70);
        let head_t = self.station("head-t", 0.59);
        let head_b = self.station("head-b", 0.59);
        let tail_b = self.limited("tail-b", 0.59);
        let protected = fit::slru_protected(p);
        self.hit(protected, &[delink_t, head_t]);
        // The last of T moves to the head of B.
        self.hit(p - protected, &[delink_b, head_b, head_t]);
        self.miss(1.0 - p, &[tail_b, head_b]);
    }

    fn s3_fifo(&mut self) {
        let p = self.p;
        let head_s = self.station("head-s", 0.65);
        let tail_s = self.limited("tail-s", 0.65);
        let head_m = self.limited("head-m", 0.65);
        let tail_m = self.station("tail-m", 0.65 + SKIP_US * fit::clock_skips(p));
        let (ghost, moves) = (fit::s3_fifo_ghost(p), fit::s3_fifo_moves(p));
        let look = Step::Compute(GHOST_US);
        let miss = 1.0 - p;
        self.hit(p, &[]);
        self.miss(miss * ghost, &[look, head_m, tail_m]);
        self.miss(miss * (1.0 - ghost) * moves, &[look, head_s, tail_s, head_m, tail_m]);
        self.miss(miss * (1.0 - ghost) * (1.0 - moves), &[look, head_s, tail_s]);
    }
}

/// Straight lines between points of rising x; level beyond the ends.
pub(crate) fn interpolated(x: f64, points: &[(f64, f64)]) -> f64 {
    let Some(after) = points.iter().position(|point| point.0 >= x) else {
        return points.last().map_or(0.0, |last| last.1);
    };
    let (x1, y1) = points[after];
    if after == 0 || x1 <= x {
        return y1;
    }
    let (x0, y0) = points[after - 1];
    y0 + (y1 - y0) * (x - x0) / (x1 - x0)
}
