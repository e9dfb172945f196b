//! Caches that are used on both sides of a fork.
//!
//! In the child only the thread that forked is left. It finds the earlier entries, each value under
//! its own key, and all its insertions are admitted, although other threads were reading and
//! writing when they were lost. Loads and policies under a lock are left out: a mutex that a lost
//! thread holds stays locked, as in every program.

use frazil::{Cache, Policy};

use super::STILL;
use super::tracked::{Census, Chance, Tracked};

const ROOM: u64 = 2_000;
/// Operations on one of them at a time.
const SPELL: u64 = 10;
/// In one round of this many a thread sleeps with a pin.
const RARELY: u64 = 2_000;

/// One of each policy without a lock.
pub(crate) struct Doubled {
    caches: Vec<Cache<u64, Tracked<'static>>>,
    census: &'static Census,
}

impl Doubled {
    pub(crate) fn new() -> Self {
        let policies = [Policy::Fifo, Policy::Mobius, Policy::S3Fifo];
        let build = |policy| Cache::builder(ROOM).policy(policy).build();
        Doubled {
            caches: policies.into_iter().map(build).collect(),
            // The child has it for as long as it lives.
            census: Box::leak(Box::default()),
        }
    }

    /// A spell of operations.
    pub(crate) fn operate(&self, chance: &mut Chance) {
        let cache = &self.caches[chance.below(self.caches.len() as u64) as usize];
        for _ in 0..SPELL {
            let key = chance.below(ROOM * 2);
            match chance.below(10) {
                0 => _ = cache.invalidate(&key),
                1 => cache.iter().take(20).for_each(|(key, value)| value.check(key)),
                _ => match cache.get(&key) {
                    Some(value) => value.check(key),
                    None => cache.insert(key, Tracked::new(self.census, key)),
                },
            }
        }
        if chance.below(RARELY) == 0 {
            let pin = cache.pin();
            let keys = (0..chance.below(40)).map(|_| chance.below(ROOM));
            let shown: Vec<_> = keys.filter_map(|key| pin.peek(&key)).collect();
            std::thread::sleep(STILL);
            shown.into_iter().for_each(|(key, value)| value.check(*key));
        }
    }

    /// Forks the process, and waits for the child's result.
    #[cfg(target_os = "linux")]
    pub(crate) fn fork(&self) -> Result<(), String> {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        use std::time::{Duration, Instant};

        /// After this it hangs.
        const PATIENCE: Duration = Duration::from_secs(60);

        // SAFETY: the child uses caches and memory, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let outcome = catch_unwind(AssertUnwindSafe(|| self.be_the_child()));
            // SAFETY: ends the process, and runs nothing that the parent will.
            unsafe { libc::_exit(outcome.is_err().into()) };
        }
        let (begun, mut status) = (Instant::now(), 0);
        // SAFETY: both calls concern a child of this process.
        unsafe {
            while libc::waitpid(child, &raw mut status, libc::WNOHANG) == 0 {
                if begun.elapsed() > PATIENCE {
                    libc::kill(child, libc::SIGKILL);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        match status {
            0 => Ok(()),
            status => Err(format!("a forked child ended with {status:#x}")),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn fork(&self) -> Result<(), String> {
        Ok(())
    }

    /// All entries are intact, and all insertions are admitted.
    #[cfg(target_os = "linux")]
    fn be_the_child(&self) {
        for cache in &self.caches {
            cache.iter().for_each(|(key, value)| value.check(key));
            let refusals = cache.stats().refusals;
            for key in (0..3).flat_map(|_| 0..ROOM * 2) {
                cache.insert(key, Tracked::new(self.census, key));
                cache.get(&key).expect("it gets in").check(key);
            }
            assert_eq!(cache.stats().refusals, refusals, "{}", cache.policy());
        }
    }

    /// Call it while no operation runs.
    pub(crate) fn validate(&mut self) -> Result<(), String> {
        for cache in &mut self.caches {
            let policy = cache.policy();
            cache.validate().map_err(|findings| format!("{policy}, forked:\n{findings}"))?;
        }
        Ok(())
    }

    /// Number of values that live after all caches are dropped.
    pub(crate) fn end(self) -> i64 {
        drop(self.caches);
        self.census.living()
    }
}
