//! For tests: every part counted against the others.

use crate::item::Item;
use crate::lifetimes::CLASSES;
use crate::segments::{NONE, Phase};
use crate::store::Store;
use crate::sync::atomic::Ordering::Relaxed;

impl Store {
    /// Checks all that must hold between operations, and says what does not. Writers wait
    /// meanwhile, as long as it takes to read all keys.
    ///
    /// # Errors
    ///
    /// What does not hold, in words.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// assert_eq!(store.validate(), Ok(()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn validate(&self) -> Result<(), String> {
        let evictor = self.evictor.lock();
        let (apart, filling) = evictor.apart();
        // Writers have stored what they count, or not begun, once all stripes are locked.
        let _locked = self.index.lock_all();
        self.validate_items(filling)?;
        self.validate_chains(&apart)
    }

    /// The index against items, counts against both.
    fn validate_items(&self, filling: Option<(u32, usize)>) -> Result<(), String> {
        let mut items = vec![(0, 0); self.segments.count() as usize];
        let mut wrong = None;
        let mut all = Vec::new();
        self.index.each_home(&self.segments, |home, words| {
            for &word in words {
                let location = word.location();
                let number = self.segments.of(location);
                let state = self.segments.get(number).state();
                let offset = (location - self.segments.start(number)) as usize;
                let filled = match filling {
                    Some((merged, filled)) if merged == number => filled,
                    _ => state.filled(),
                };
                if matches!(state.phase(), Phase::Free | Phase::Index) || offset >= filled {
                    wrong = Some(format!("{word:?} leads to {state:?} of segment {number}"));
                    continue;
                }
                // SAFETY: the index leads to it, and all stripes are locked.
                let item = unsafe { Item::at(self.segments.mapping.at(location as usize)) };
                let bytes = item.head.item_bytes();
                let hash = self.hash(item.key);
                let as_it_is = crate::index::Word::new(hash, word.requests(), location);
                if offset + bytes > filled || !self.index.is_home_of(home, hash) || as_it_is != word
                {
                    wrong = Some(format!("home {home} has {word:?} of an item of {bytes} bytes"));
                    continue;
                }
                items[number as usize].0 += 1;
                items[number as usize].1 += bytes as u32;
                all.push(item.key);
            }
        });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        all.sort_unstable();
        if all.windows(2).any(|keys| keys[0] == keys[1]) {
            return Err("a key is there twice".to_owned());
        }
        for (number, counted) in items.iter().enumerate() {
            let segment = self.segments.get(number as u32);
            let live = (segment.live_items.load(Relaxed), segment.live_bytes.load(Relaxed));
            if live != *counted {
                return Err(format!("segment {number} has {counted:?}, and says {live:?}"));
            }
        }
        let stats = self.stats();
        let bytes: u64 = items.iter().map(|&(_, bytes)| u64::from(bytes)).sum();
        if (stats.items, stats.live_bytes) != (all.len() as u64, bytes) {
            return Err(format!("{} items of {bytes} bytes, and {stats:?}", all.len()));
        }
        Ok(())
    }

    /// Each segment is in one place, and is what it should be there.
    fn validate_chains(&self, apart: &[u32]) -> Result<(), String> {
        let mut seen = vec![false; self.segments.count() as usize];
        let mut meet = |segment: u32, phases: &[Phase]| {
            let phase = self.segments.get(segment).state().phase();
            let again = std::mem::replace(&mut seen[segment as usize], true);
            if again || !phases.contains(&phase) {
                return Err(format!(
                    "segment {segment} is {phase:?}, not {phases:?}, or met twice"
                ));
            }
            Ok(())
        };
        let chains = self.segments.chains();
        let mut free = 0;
        for segment in chains.free() {
            meet(segment, &[Phase::Free])?;
            free += 1;
        }
        if free != self.segments.free_count() {
            return Err(format!("{free} segments are free, and {}", self.segments.free_count()));
        }
        for class in 0..CLASSES {
            let (mut previous, mut segment) = (NONE, chains.first(class));
            while segment != NONE {
                meet(segment, &[Phase::Open, Phase::Sealed])?;
                if chains.previous(segment) != previous
                    || self.segments.get(segment).state().class() != class
                {
                    return Err(format!("segment {segment} is in a wrong place"));
                }
                (previous, segment) = (segment, chains.next(segment));
            }
        }
        for &segment in apart {
            meet(segment, &[Phase::Taken])?;
        }
        // Of a writer that is about to open it.
        for segment in (0..self.segments.count()).filter(|&segment| !seen[segment as usize]) {
            let phase = self.segments.get(segment).state().phase();
            if !matches!(phase, Phase::Taken | Phase::Index) {
                return Err(format!("segment {segment} is {phase:?}, and nobody has it"));
            }
        }
        Ok(())
    }
}
