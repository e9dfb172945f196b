//! For tests: compares the counts of all parts with each other.

use std::collections::{HashMap, HashSet};

use crate::index::{AllLocked, LineUse};
use crate::item::Item;
use crate::lifetimes::{self, CLASSES};
use crate::segments::{NONE, Phase};
use crate::store::Store;
use crate::sync::atomic::Ordering::Relaxed;

const LINE_BYTES: usize = 64;

impl Store {
    /// Checks all invariants between operations, and returns the violations. Writers wait
    /// meanwhile, as long as it takes to read all keys.
    ///
    /// # Errors
    ///
    /// The violations, in words.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// assert_eq!(store.validate(), Ok(()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn validate(&self) -> Result<(), String> {
        self.validate_all(false)
    }

    /// As [`Store::validate`], and checks what must hold without guards and calls of other
    /// threads: no item is held, no segment is named, and none is between two chains.
    ///
    /// # Errors
    ///
    /// The violations, in words.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// let held = store.hold(b"key");
    /// assert!(store.validate().is_ok() && store.validate_at_rest().is_err());
    /// drop(held);
    /// assert!(store.validate_at_rest().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn validate_at_rest(&self) -> Result<(), String> {
        self.validate_all(true)
    }

    fn validate_all(&self, at_rest: bool) -> Result<(), String> {
        let evictor = self.evictor.lock();
        let (apart, filling) = evictor.apart();
        // Once all stripes are locked, each writer has stored all that it counted, or has not
        // begun.
        let locked = self.index.lock_all();
        self.validate_items(&locked, filling)?;
        let pages = self.validate_lines(&locked)?;
        self.validate_chains(&apart, &pages, at_rest)?;
        if !at_rest {
            return Ok(());
        }
        if self.hazards.names().any() {
            return Err("a segment is named, and nobody reads".to_owned());
        }
        let held = |&segment: &u32| {
            let segment = self.segments.get(segment);
            segment.holds.load(Relaxed) > 0 || segment.state().writers() > 0
        };
        match (0..self.segments.count()).find(held) {
            Some(segment) => Err(format!("{:?} is held", self.segments.get(segment))),
            None => Ok(()),
        }
    }

    /// The index against items, counts against both.
    fn validate_items(
        &self,
        locked: &AllLocked<'_>,
        filling: Option<(u32, usize)>,
    ) -> Result<(), String> {
        let mut items = vec![(0, 0); self.segments.count() as usize];
        let mut wrong = None;
        let mut all = Vec::new();
        self.index.each_home(locked, &self.segments, |home, words| {
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
                if let Some(why) = self.wrong_deadline(number, item.head.deadline) {
                    wrong = Some(why);
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

    /// The error of an item's deadline, if any: its segment must have the latest deadline of its
    /// items.
    fn wrong_deadline(&self, number: u32, packed: Option<u32>) -> Option<String> {
        let segment = self.segments.get(number);
        let class = segment.state().class();
        let base = segment.base_ms.load(Relaxed);
        let latest = segment.deadline_ms.load(Relaxed);
        let end = packed.map(|packed| lifetimes::unpack(segment, class, packed));
        let holds = match end {
            Some(end) => {
                class > 0 && end <= latest && base.is_multiple_of(lifetimes::unit_ms(class))
            }
            None => class == 0,
        };
        (!holds).then(|| {
            format!("an item ends at {end:?}, and its segment of class {class} at {latest}")
        })
    }

    /// Compares the lines of the index with its pages, which it returns: each line is a home, in
    /// one chain, or unused and empty.
    fn validate_lines(&self, locked: &AllLocked<'_>) -> Result<HashSet<u32>, String> {
        let lines = self.segments.segment_bytes / LINE_BYTES;
        let mut met: HashMap<u32, Vec<bool>> = HashMap::new();
        let mut overflow = 0;
        self.index.each_line(locked, &self.segments, |location, what| {
            let page = self.segments.of(location);
            let phase = self.segments.get(page).state().phase();
            let line = (location - self.segments.start(page)) as usize / LINE_BYTES;
            let of_page = met.entry(page).or_insert_with(|| vec![false; lines]);
            let again = std::mem::replace(&mut of_page[line], true);
            if phase != Phase::Index || again || what == LineUse::Waste {
                let again = if again { "again " } else { "" };
                return Err(format!("line {line} of {phase:?} segment {page} is {again}{what:?}"));
            }
            overflow += u64::from(what == LineUse::Overflow);
            Ok(())
        })?;
        if let Some((page, _)) = met.iter().find(|(_, lines)| lines.contains(&false)) {
            return Err(format!("a line of page {page} is in no chain, and not free"));
        }
        let counted = self.index.lines().1;
        if overflow != counted {
            return Err(format!("{overflow} lines are in chains, and {counted}"));
        }
        Ok(met.into_keys().collect())
    }

    /// Each segment is in exactly one place, and has the use for that place.
    fn validate_chains(
        &self,
        apart: &[u32],
        pages: &HashSet<u32>,
        at_rest: bool,
    ) -> Result<(), String> {
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
        let mut withdrawn = 0;
        for segment in chains.withdrawn() {
            meet(segment, &[Phase::Taken])?;
            withdrawn += 1;
        }
        if withdrawn != self.segments.withdrawn_count() {
            let counted = self.segments.withdrawn_count();
            return Err(format!("{withdrawn} segments are withdrawn, and {counted}"));
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
        for class in 0..CLASSES {
            let open = self.segments.open(class);
            if open != NONE && self.segments.get(open).state().class() != class {
                return Err(format!("segment {open} is open for class {class}, and has another"));
            }
        }
        for &page in pages {
            meet(page, &[Phase::Index])?;
        }
        let counted = self.segments.index_count.load(Relaxed) as usize;
        if counted < pages.len() || at_rest && counted > pages.len() {
            return Err(format!("{} pages, and {counted}", pages.len()));
        }
        for segment in (0..self.segments.count()).filter(|&segment| !seen[segment as usize]) {
            let phase = self.segments.get(segment).state().phase();
            // It belongs to a writer about to open it or to make it a page.
            if phase != Phase::Taken || at_rest {
                return Err(format!("segment {segment} is {phase:?}, and nobody has it"));
            }
        }
        Ok(())
    }
}

/// A store broken in several ways in turn.
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Attributes;
    use crate::segments::Segment;

    /// Small items, many overflow lines, a class of lifetimes.
    fn store() -> Store {
        let (items, segment_bytes) = if cfg!(miri) { (300, 1 << 10) } else { (2000, 4 << 10) };
        let builder = Store::builder(256 * segment_bytes).segment_bytes(segment_bytes);
        let store = builder.seed(5).build().unwrap();
        for number in 0..items {
            let lifetime = (number % 4 == 0).then_some(Duration::from_secs(600));
            let attributes = Attributes { flags: 0, marks: 0, lifetime };
            store.set(&u32::to_le_bytes(number), &[7; 40], attributes).unwrap();
        }
        assert!(store.stats().overflow_lines > 0);
        assert_eq!(store.validate_at_rest(), Ok(()));
        store
    }

    #[track_caller]
    fn assert_wrong(checked: Result<(), String>, why: &str) {
        let said = checked.expect_err(why);
        assert!(said.contains(why), "{said}");
    }

    #[test]
    fn segments_that_nobody_has_are_seen() {
        let store = store();
        let lost = store.segments.take().unwrap();
        assert_eq!(store.validate(), Ok(()), "a writer may have it");
        assert_wrong(store.validate_at_rest(), "nobody has it");
        store.segments.clear(lost);
        store.segments.become_page(lost);
        assert_wrong(store.validate(), "nobody has it");
    }

    #[test]
    fn pages_that_are_counted_and_not_there_are_seen() {
        let store = store();
        assert!(store.segments.count_page());
        assert_eq!(store.validate(), Ok(()), "a writer may be clearing it");
        assert_wrong(store.validate_at_rest(), "pages, and");
        store.segments.count_no_page();
        store.segments.count_no_page();
        assert_wrong(store.validate(), "pages, and");
    }

    #[test]
    fn overflow_lines_that_are_leaked_or_lost_are_seen() {
        let leaks = store();
        leaks.index.take_line(&leaks.segments.mapping).unwrap();
        assert_wrong(leaks.validate(), "in no chain");
        let loses = store();
        let mut chained = None;
        let locked = loses.index.lock_all();
        _ = loses.index.each_line(&locked, &loses.segments, |location, what| {
            chained = (what == LineUse::Overflow).then_some(location);
            if chained.is_some() { Err(()) } else { Ok(()) }
        });
        drop(locked);
        loses.index.free_line(&loses.segments.mapping, chained.unwrap());
        // Its first word, an item, is also unlinked.
        assert!(loses.validate().is_err());
        let locked = loses.index.lock_all();
        assert_wrong(loses.validate_lines(&locked).map(|_| ()), "again");
    }

    fn class_with_ends(store: &Store) -> &Segment {
        let open = (1..CLASSES).map(|class| store.segments.open(class)).find(|&open| open != NONE);
        store.segments.get(open.unwrap())
    }

    #[test]
    fn deadlines_past_that_of_the_segment_are_seen() {
        let store = store();
        let segment = class_with_ends(&store);
        let latest = segment.deadline_ms.load(Relaxed);
        segment.deadline_ms.store(latest / 2, Relaxed);
        assert_wrong(store.validate(), "an item ends at");
        segment.deadline_ms.store(latest, Relaxed);
        segment.base_ms.fetch_add(1, Relaxed);
        assert_wrong(store.validate(), "an item ends at");
    }

    #[test]
    fn guards_names_and_writers_that_are_left_are_seen() {
        let store = store();
        let hazard = store.hazards.name(3).unwrap();
        assert_wrong(store.validate_at_rest(), "named");
        drop(hazard);
        std::mem::forget(store.hold(&0u32.to_le_bytes()).unwrap());
        assert_eq!(store.validate(), Ok(()));
        assert_wrong(store.validate_at_rest(), "is held");
        let store = self::store();
        let segment = class_with_ends(&store);
        segment.reserve(segment.state().class(), 8, 1 << 20);
        assert_wrong(store.validate_at_rest(), "is held");
    }

    #[test]
    fn counts_that_are_wrong_are_seen() {
        let store = store();
        store.index.items.fetch_add(1, Relaxed);
        assert_wrong(store.validate(), "items of");
        store.index.items.fetch_sub(1, Relaxed);
        class_with_ends(&store).live_items.fetch_sub(1, Relaxed);
        assert_wrong(store.validate(), "and says");
    }
}
