//! `HOTKEYS`: the keys with most bytes read and written, by a sample of requests.
//!
//! Each thread has its own sketch (Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k
//! elements in data streams", ICDT 2005): a new key takes the slot with the least sum, and adds to it. So no sum is
//! too large by more than the least one, and each key with more bytes than that has a slot.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};

use super::strings::SYNTAX;
use super::table::Command;
use super::{Args, Call, Done, Problem, number, reply, scan, table};
use crate::worker::Turn;

/// Keys kept by a thread.
const SLOTS: usize = 256;
/// Keys shown, by default and at most.
const SHOWN: usize = 10;
const SHOWN_MAX: i64 = 64;

#[derive(Debug)]
pub(super) struct HotKeys {
    /// The end of counting; 0: no requests are counted.
    until_ms: AtomicU64,
    period: Mutex<Option<Period>>,
    /// By thread.
    sketches: Box<[Mutex<Sketch>]>,
}

/// A key and its bytes.
type Sum = (Box<[u8]>, u64);

/// A period of counting.
#[derive(Clone, Copy, Debug)]
struct Period {
    ratio: u64,
    shown: usize,
    began_ms: u64,
    began_unix_ms: u64,
    /// `u64::MAX`: until it is stopped.
    until_ms: u64,
}

#[derive(Debug, Default)]
pub(super) struct Sketch {
    /// One request in this many is counted.
    ratio: u64,
    /// Keys counted, and their bytes.
    seen: u64,
    bytes: u64,
    kept: HashMap<Box<[u8]>, u64>,
}

impl Sketch {
    /// Counts a key of a request.
    pub(super) fn note(&mut self, key: &[u8], bytes: usize) {
        let bytes = bytes as u64;
        self.seen += 1;
        self.bytes += bytes;
        if !scan::mix(self.seen).is_multiple_of(self.ratio.max(1)) {
            return;
        }
        if let Some(sum) = self.kept.get_mut(key) {
            *sum += bytes;
            return;
        }
        let mut before = 0;
        if self.kept.len() == SLOTS
            && let Some((least, sum)) = self.kept.iter().min_by_key(|(_, sum)| **sum)
        {
            let least = least.clone();
            before = *sum;
            self.kept.remove(&least);
        }
        self.kept.insert(key.into(), before + bytes);
    }
}

impl HotKeys {
    pub(super) fn new(threads: usize) -> HotKeys {
        HotKeys {
            until_ms: AtomicU64::new(0),
            period: Mutex::default(),
            sketches: (0..threads).map(|_| Mutex::default()).collect(),
        }
    }

    /// The sketch of a thread, while requests are counted.
    #[inline]
    pub(super) fn of(&self, thread: usize, now_ms: u64) -> Option<MutexGuard<'_, Sketch>> {
        (self.until_ms.load(Relaxed) > now_ms).then(|| self.sketches[thread].lock())
    }

    /// The keys with most bytes, and the bytes of all keys.
    fn hottest(&self, count: usize) -> (Vec<Sum>, u64) {
        let mut sums = HashMap::<Box<[u8]>, u64>::new();
        let mut all = 0;
        for sketch in &self.sketches {
            let sketch = sketch.lock();
            all += sketch.bytes;
            for (key, sum) in &sketch.kept {
                *sums.entry(key.clone()).or_default() += sum;
            }
        }
        let mut hottest: Vec<_> = sums.into_iter().collect();
        hottest.sort_unstable_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
        hottest.truncate(count);
        (hottest, all)
    }

    fn clear(&self, ratio: u64) {
        for sketch in &self.sketches {
            *sketch.lock() = Sketch { ratio, ..Sketch::default() };
        }
    }
}

/// Counts the keys of a request after it was served; its reply begins at `begin`.
#[inline]
pub(super) fn note(command: &Command, args: &Args<'_>, begin: usize, turn: &Turn<'_>) {
    if let Some(mut sketch) = turn.shared.resp.hot.of(turn.thread, turn.now_ms) {
        let count = table::keys_of(command, args).count();
        let bytes = args.as_bytes().len() + turn.out.len().saturating_sub(begin);
        table::keys_of(command, args).for_each(|key| sketch.note(key, bytes / count));
    }
}

pub(super) fn hotkeys(call: &mut Call<'_, '_>) -> Done {
    let (hot, now_ms) = (&call.turn.shared.resp.hot, call.turn.now_ms);
    let mut period = hot.period.lock();
    let is_active = period.is_some_and(|period| period.until_ms > now_ms);
    match (call.args.get(1).to_ascii_lowercase().as_slice(), call.args.len()) {
        (b"start", _) => {
            let asked = asked(call)?;
            if is_active {
                return Err("ERR hotkey tracking session already in progress".into());
            }
            hot.clear(asked.ratio);
            *period = Some(asked);
            hot.until_ms.store(asked.until_ms, Relaxed);
        }
        (b"stop", 2) => {
            let Some(period) = period.as_mut().filter(|_| is_active) else {
                return Err("ERR no hotkey tracking session is in progress".into());
            };
            period.until_ms = now_ms;
            hot.until_ms.store(0, Relaxed);
        }
        (b"reset", 2) if is_active => {
            return Err("ERR hotkey tracking session in progress, stop tracking first".into());
        }
        (b"reset", 2) => {
            *period = None;
            hot.clear(1);
        }
        (b"get", 2) => {
            let period = *period;
            show(period, call);
            return Ok(());
        }
        _ => return Err(table::unknown_subcommand("hotkeys", call.args)),
    }
    reply::ok(call.turn.out);
    Ok(())
}

/// The arguments of `HOTKEYS START`.
fn asked(call: &Call<'_, '_>) -> Result<Period, Problem> {
    let clock = &call.turn.shared.items.clock;
    let (began_ms, began_unix_ms) = (call.turn.now_ms, clock.unix_ms());
    let mut asked = Period { ratio: 1, shown: SHOWN, began_ms, began_unix_ms, until_ms: u64::MAX };
    let mut words = call.args.from(2);
    if !words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"metrics")) {
        return Err("ERR METRICS parameter is required".into());
    }
    let is_one = words.next().is_some_and(|count| number::integer(count) == Some(1));
    let is_bytes = words.next().is_some_and(|metric| metric.eq_ignore_ascii_case(b"net"));
    if !is_one || !is_bytes {
        return Err("ERR only bytes are counted, and no times: METRICS count and metrics must be \
                    `METRICS 1 NET`"
            .into());
    }
    while let Some(word) = words.next() {
        let word = word.to_ascii_lowercase();
        if word == b"slots" {
            return Err("ERR SLOTS parameter cannot be used in non-cluster mode".into());
        }
        let value = number::integer(words.next().ok_or(SYNTAX)?);
        match word.as_slice() {
            b"count" => {
                let count = value.filter(|count| (1..=SHOWN_MAX).contains(count));
                asked.shown = count.ok_or("ERR COUNT must be between 1 and 64")? as usize;
            }
            b"duration" => {
                let seconds = value.and_then(|seconds| u64::try_from(seconds).ok());
                let seconds = seconds.filter(|&seconds| seconds > 0);
                let seconds = seconds.ok_or("ERR DURATION must be positive")?;
                asked.until_ms = began_ms.saturating_add(seconds.saturating_mul(1000));
            }
            b"sample" => {
                let ratio = value.and_then(|ratio| u64::try_from(ratio).ok());
                let ratio = ratio.filter(|&ratio| ratio > 0);
                asked.ratio = ratio.ok_or("ERR SAMPLE ratio must be positive")?;
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    Ok(asked)
}

fn show(period: Option<Period>, call: &mut Call<'_, '_>) {
    let (turn, version) = (&mut *call.turn, call.session.version);
    let Some(Period { ratio, shown, began_ms, began_unix_ms, until_ms }) = period else {
        return reply::null(turn.out, version);
    };
    let (hottest, all) = turn.shared.resp.hot.hottest(shown);
    let is_active = until_ms > turn.now_ms;
    let duration_ms = until_ms.min(turn.now_ms) - began_ms;
    let out = &mut *turn.out;
    // One server; a cluster would have several.
    reply::array(out, 1);
    reply::map(out, 8, version);
    let mut number = |name: &str, number: u64| {
        reply::bulk(out, name.as_bytes());
        reply::integer(out, number as i64);
    };
    number("tracking-active", is_active.into());
    number("sample-ratio", ratio);
    number("net-bytes-all-commands-all-slots", all);
    number("collection-start-time-unix-ms", began_unix_ms);
    number("collection-duration-ms", duration_ms);
    number("total-net-bytes", all);
    reply::bulk(out, b"selected-slots");
    reply::array(out, 0);
    reply::bulk(out, b"by-net-bytes");
    reply::array(out, 2 * hottest.len());
    for (key, bytes) in hottest {
        reply::bulk(out, &key);
        reply::integer(out, bytes as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_many_bytes_keep_their_slots() {
        let mut sketch = Sketch { ratio: 1, ..Sketch::default() };
        for round in 0..2000_u64 {
            sketch.note(format!("hot{}", round % 4).as_bytes(), 500);
            sketch.note(format!("cold{round}").as_bytes(), 10);
            if round % 300 == 299 || round == 1999 {
                sketch.note(b"rare", 10);
            }
        }
        let (seen, bytes) = (4000 + 7, 2000 * 510 + 7 * 10);
        assert_eq!((sketch.seen, sketch.bytes, sketch.kept.len()), (seen, bytes, SLOTS));
        // It had no slot in between.
        assert!(sketch.kept[&b"rare"[..]] >= 7 * 10);
        for hot in 0..4 {
            assert_eq!(sketch.kept[format!("hot{hot}").as_bytes()], 500 * 500);
        }
        // The least sum is at most the mean, and bounds the error of every sum.
        assert!(sketch.kept.values().min().unwrap() <= &(sketch.bytes / SLOTS as u64));
    }

    #[test]
    fn one_in_ratio_is_counted() {
        let mut sketch = Sketch { ratio: 100, ..Sketch::default() };
        (0..100_000).for_each(|_| sketch.note(b"key", 1));
        assert_eq!(sketch.bytes, 100_000);
        assert!((900..1100).contains(&sketch.kept[&b"key"[..]]), "{:?}", sketch.kept);
    }
}
