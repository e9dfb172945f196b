//! The measurements of freezing, in words, for users who switch it on and see no effect.

use std::fmt;

use crate::controller::Reason;

/// A share that was frozen for a trial or longer: one of [`Verdict::tried`].
///
/// ```
/// use frazil_freezing::{Steering, Tried};
/// let state = Steering::new(20).state();
/// for Tried { share, latency_ns, .. } in state.verdict().iter().flat_map(|it| &it.tried) {
///     println!("{share} frozen: {latency_ns} ns a request");
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tried {
    /// The share of the entries, from 0 to 1.
    pub share: f64,
    /// Latency of a request, in nanoseconds: in the trial; or in the whole last cycle, including
    /// the measurement before it without freezing; or in the first check of an attempt that failed.
    pub latency_ns: f64,
    /// Misses in the trial, of all requests.
    pub misses: f64,
}

/// Measurements without and with frozen shares, and the requirement:
/// [`FreezingState::verdict`](crate::FreezingState::verdict).
///
/// Its `Display` gives in a sentence or two why a share is frozen or none is, and the conditions
/// for a change.
///
/// ```
/// if let Some(verdict) = frazil_freezing::Steering::new(20).state().verdict() {
///     println!("{verdict}");
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// Mean latency of a request while nothing was frozen, in nanoseconds.
    pub without_ns: f64,
    /// The latency of a hit then; 0 if none was timed.
    pub hit_ns: f64,
    /// The latency of a miss until its value was present; 0 if none was timed.
    pub miss_ns: f64,
    /// Misses, of all requests.
    pub misses: f64,
    /// The upper limit of a request's latency with a frozen share.
    pub demanded_ns: f64,
    /// Shares that were tried; none before the first trial.
    pub tried: Vec<Tried>,
    /// Why a sleep followed the last learning, if one did.
    pub given_up: Option<Reason>,
}

impl Verdict {
    /// The latency of a request if hits took no time: no share can be faster at the same miss
    /// ratio.
    fn of_misses_ns(&self) -> f64 {
        self.misses * self.miss_ns
    }

    /// The longest latency of a miss at which freezing pays, if frozen hits took no time and the
    /// miss ratio stayed the same.
    fn miss_at_most_ns(&self) -> f64 {
        let gain = self.without_ns / self.demanded_ns.max(1e-9);
        let hits = (1.0 - self.misses) * self.hit_ns;
        hits / (self.misses * (gain - 1.0)).max(1e-9)
    }

    fn best(&self) -> Option<&Tried> {
        self.tried.iter().min_by(|one, other| one.latency_ns.total_cmp(&other.latency_ns))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { without_ns, hit_ns, miss_ns, misses, demanded_ns, .. } = *self;
        write!(
            f,
            "a request takes {without_ns:.0} ns with nothing frozen: {:.1} % of them miss and take \
             {miss_ns:.0} ns, hits take {hit_ns:.0} ns; with something frozen it must take under \
             {demanded_ns:.0} ns",
            100.0 * misses
        )?;
        for Tried { share, latency_ns, misses } in &self.tried {
            let [share, missed] = [share, misses].map(|it| 100.0 * it);
            write!(f, "; with {share:.0} % it took {latency_ns:.0} ns, {missed:.1} % missed")?;
        }
        if self.given_up == Some(Reason::Impossible) {
            return f.write_str(
                ". Nothing could be frozen: the cache has set nothing aside, or what was frozen \
                 last is still being read",
            );
        }
        let Some(best) = self.best() else { return f.write_str("; nothing was tried yet") };
        let share = 100.0 * best.share;
        let is_fast = best.latency_ns < demanded_ns;
        if is_fast && self.given_up.is_none() {
            return write!(f, ". It pays to freeze {share:.0} %");
        }
        f.write_str(". It does not pay: ")?;
        if is_fast {
            return write!(
                f,
                "{share:.0} % was fast enough for a moment, but what was frozen for longer was not"
            );
        }
        if self.of_misses_ns() >= demanded_ns {
            return write!(
                f,
                "misses alone take {:.0} ns of it, which freezing cannot save; a miss would have to \
                 take under {:.0} ns, or the cache be larger",
                self.of_misses_ns(),
                self.miss_at_most_ns()
            );
        }
        if best.misses > misses {
            return f.write_str(
                "more is missed while something is frozen than its hits gain; what is asked for \
                 would have to change less, or hits wait longer, as with more threads",
            );
        }
        f.write_str(
            "a hit of what is frozen is hardly faster than another; more threads at one lock \
                     would have to wait for it",
        )
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn verdict(misses: f64, hit_ns: f64, tried: &[(f64, f64, f64)]) -> String {
        let without_ns = misses * 5_000.0 + (1.0 - misses) * hit_ns;
        let tried =
            tried.iter().map(|&(share, latency_ns, misses)| Tried { share, latency_ns, misses });
        let (miss_ns, demanded_ns, tried) = (5_000.0, without_ns / 1.1, tried.collect());
        let given_up = None;
        Verdict { without_ns, hit_ns, miss_ns, misses, demanded_ns, tried, given_up }.to_string()
    }

    #[test]
    fn it_says_what_would_have_to_change() {
        // 0.5 × 5,000 + 0.5 × 100; free hits save one part in 51 of it. A miss may take at most 100
        // / 0.1.
        let told = verdict(0.5, 100.0, &[(1.0, 2_600.0, 0.52)]);
        assert!(told.starts_with("a request takes 2550 ns with nothing frozen: 50.0 %"), "{told}");
        assert!(told.contains("with 100 % it took 2600 ns, 52.0 % missed"), "{told}");
        let ends = "misses alone take 2500 ns of it, which freezing cannot save; a miss would have \
                    to take under 1000 ns, or the cache be larger";
        assert!(told.ends_with(ends), "{told}");
        let told = verdict(0.01, 500.0, &[(1.0, 700.0, 0.1), (0.5, 560.0, 0.03)]);
        assert!(told.contains("more is missed while something is frozen"), "{told}");
        let told = verdict(0.01, 500.0, &[(1.0, 540.0, 0.01)]);
        assert!(told.contains("hardly faster"), "{told}");
        let told = verdict(0.01, 500.0, &[(1.0, 700.0, 0.1), (0.5, 200.0, 0.03)]);
        assert!(told.ends_with("It pays to freeze 50 %"), "{told}");
        assert!(verdict(0.01, 500.0, &[]).ends_with("nothing was tried yet"));
    }
}
