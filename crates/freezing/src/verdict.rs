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
        let [without, hit, miss, demanded] = [without_ns, hit_ns, miss_ns, demanded_ns].map(time);
        write!(
            f,
            "With nothing frozen a request takes {without}: {:.1} % of requests miss and take \
             {miss}, hits take {hit}. Freezing pays if a request takes less than {demanded}.",
            100.0 * misses
        )?;
        for Tried { share, latency_ns, misses } in &self.tried {
            let [share, missed] = [share, misses].map(|it| 100.0 * it);
            let took = time(*latency_ns);
            write!(f, " With {share:.0} % frozen it took {took}, and {missed:.1} % missed.")?;
        }
        if self.given_up == Some(Reason::Impossible) {
            return f.write_str(
                " Nothing could be frozen: the cache reserved no memory for a frozen part, or \
                 readers still use the previous one.",
            );
        }
        let Some(best) = self.best() else { return f.write_str(" No share was tried yet.") };
        let share = 100.0 * best.share;
        let is_fast = best.latency_ns < demanded_ns;
        if is_fast && self.given_up.is_none() {
            return write!(f, " Freezing {share:.0} % pays.");
        }
        f.write_str(" Freezing does not pay: ")?;
        if is_fast {
            return write!(f, "{share:.0} % was fast enough in the trial, but not for longer.");
        }
        if self.of_misses_ns() >= demanded_ns {
            return write!(
                f,
                "misses alone take {} of each request, which freezing cannot save. It would pay if \
                 a miss took less than {}, or if the cache were larger.",
                time(self.of_misses_ns()),
                time(self.miss_at_most_ns())
            );
        }
        if best.misses > misses {
            return f.write_str(
                "the additional misses cost more than the faster hits save. It would pay if the \
                 popular keys changed less, or if hits waited longer for a lock, as with more \
                 threads.",
            );
        }
        f.write_str(
            "frozen hits are hardly faster than others. It would pay if more threads waited for \
             one lock.",
        )
    }
}

/// A time with its unit, to a whole nanosecond or a tenth of a longer unit.
fn time(ns: f64) -> String {
    match ns {
        ..999.5 => format!("{ns:.0} ns"),
        ..999_950.0 => format!("{:.1} µs", ns / 1e3),
        _ => format!("{:.1} ms", ns / 1e6),
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
        assert!(told.starts_with("With nothing frozen a request takes 2.5 µs: 50.0 %"), "{told}");
        assert!(told.contains(" With 100 % frozen it took 2.6 µs, and 52.0 % missed."), "{told}");
        let ends = "misses alone take 2.5 µs of each request, which freezing cannot save. It would \
                    pay if a miss took less than 1.0 µs, or if the cache were larger.";
        assert!(told.ends_with(ends), "{told}");
        let told = verdict(0.01, 500.0, &[(1.0, 700.0, 0.1), (0.5, 560.0, 0.03)]);
        assert!(told.contains("the additional misses cost more"), "{told}");
        let told = verdict(0.01, 500.0, &[(1.0, 540.0, 0.01)]);
        assert!(told.contains("hardly faster"), "{told}");
        let told = verdict(0.01, 500.0, &[(1.0, 700.0, 0.1), (0.5, 200.0, 0.03)]);
        assert!(told.ends_with("Freezing 50 % pays."), "{told}");
        assert!(verdict(0.01, 500.0, &[]).ends_with("No share was tried yet."));
    }

    #[test]
    fn a_time_keeps_three_digits_at_most_before_the_point() {
        let told = [0.4, 999.4, 999.6, 57_043.0, 999_949.0, 1_466_767.0].map(time);
        assert_eq!(told, ["0 ns", "999 ns", "1.0 µs", "57.0 µs", "999.9 µs", "1.5 ms"]);
    }
}
