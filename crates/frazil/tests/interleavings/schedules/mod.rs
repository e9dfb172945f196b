//! Schedules that shuttle plays: random ones, and (PCT) with few switches where they matter.

use crate::extent::turns;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

/// Switches that PCT places in a schedule.
const DEPTH: usize = 4;

/// Plays `schedules` of each kind in a long run, and [`turns`] of them in any other.
pub(crate) fn explore(schedules: u64, play: impl Fn() + Clone + Send + Sync + 'static) {
    fn run(scheduler: impl Scheduler + 'static, play: impl Fn() + Send + Sync + 'static) {
        let mut config = shuttle::Config::new();
        config.stack_size = 1 << 18;
        config.silence_warnings = true;
        shuttle::Runner::new(scheduler, config).run(play);
    }
    let schedules = turns(schedules) as usize;
    run(RandomScheduler::new_from_seed(1, schedules), play.clone());
    run(PctScheduler::new_from_seed(2, DEPTH, schedules), play);
}
