//! Schedules that shuttle plays: by chance, and (PCT) with few switches where they matter.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

/// How many, if a run is to be longer or shorter than its file says.
const SCHEDULES_VARIABLE: &str = "FRAZIL_SCHEDULES";
/// Switches that PCT places in a schedule.
const DEPTH: usize = 4;

/// Plays so many schedules of each kind, unless the variable says how many.
pub(crate) fn explore(schedules: usize, play: impl Fn() + Clone + Send + Sync + 'static) {
    fn run(scheduler: impl Scheduler + 'static, play: impl Fn() + Send + Sync + 'static) {
        let mut config = shuttle::Config::new();
        config.stack_size = 1 << 18;
        config.silence_warnings = true;
        shuttle::Runner::new(scheduler, config).run(play);
    }
    let wanted = std::env::var(SCHEDULES_VARIABLE).ok();
    let schedules = wanted.map_or(schedules, |count| count.parse().expect("a number"));
    run(RandomScheduler::new_from_seed(1, schedules), play.clone());
    run(PctScheduler::new_from_seed(2, DEPTH, schedules), play);
}
