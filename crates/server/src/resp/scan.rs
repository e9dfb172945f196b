//! Commands that visit all keys.

use super::strings::SYNTAX;
use super::times::NOT_AN_INTEGER;
use super::{Call, Done, Problem, Replies, Session, State, glob, number, reply};
use crate::hot::mix;
use crate::marks::is_placeholder;
use crate::worker::Turn;

/// Entries that one `SCAN` visits, whatever its `COUNT`.
const COUNT_MAX: i64 = 10_000;
/// Parts of the index that one `SCAN` visits. Each has about ten entries, or none after a flush.
const PARTS_MAX: usize = 1 << 14;
/// Parts that `KEYS` visits before other connections have their turn.
const STEP_PARTS: usize = 1024;
/// Parts that `RANDOMKEY` visits.
const RANDOM_PARTS_MAX: usize = 1 << 16;
/// Work that the visit of a part counts for.
const PART_BYTES: usize = 256;
/// Work that counting the items of all segments counts for.
const RANGES_BYTES: usize = 1 << 16;
/// Length of a pattern. Keys have at most 255 bytes.
const PATTERN_BYTES_MAX: usize = 4096;
const PATTERN_TOO_LONG: &str = "ERR the pattern is longer than 4096 bytes";

/// The cursor as clients get it. The store's cursors vary in their high bits; reversed, they are small numbers.
fn shown(cursor: Option<u64>) -> u64 {
    cursor.map_or(0, u64::reverse_bits)
}

struct Options<'c> {
    pattern: Option<&'c [u8]>,
    count: i64,
    /// Whether the filter is a type that no entry has.
    is_empty: bool,
}

impl<'c> Options<'c> {
    fn of(call: &Call<'c, '_>) -> Result<Options<'c>, Problem> {
        let mut options = Options { pattern: None, count: 10, is_empty: false };
        let mut words = call.args.from(2);
        while let Some(word) = words.next() {
            let value = words.next().ok_or(SYNTAX)?;
            match word.to_ascii_lowercase().as_slice() {
                b"count" => {
                    options.count = number::integer(value).ok_or(NOT_AN_INTEGER)?;
                    if options.count < 1 {
                        return Err(SYNTAX.into());
                    }
                }
                b"match" if value.len() > PATTERN_BYTES_MAX => return Err(PATTERN_TOO_LONG.into()),
                b"match" => options.pattern = Some(value).filter(|&pattern| pattern != b"*"),
                b"type" => options.is_empty = !value.eq_ignore_ascii_case(b"string"),
                _ => return Err(SYNTAX.into()),
            }
        }
        Ok(options)
    }
}

pub(super) fn scan(call: &mut Call<'_, '_>) -> Done {
    let cursor = std::str::from_utf8(call.args.get(1)).ok().and_then(|text| text.parse().ok());
    let cursor: u64 = cursor.ok_or("ERR invalid cursor")?;
    let Options { pattern, count, is_empty } = Options::of(call)?;
    let turn = &mut *call.turn;
    let store = &turn.shared.items.store;
    let found = &mut *turn.scratch;
    found.clear();
    let (mut next, mut looked_at, mut keys) = (Some(cursor.reverse_bits()), 0, 0);
    let mut parts = 0;
    while let Some(at) = next
        && looked_at < count.min(COUNT_MAX)
        && parts < PARTS_MAX
    {
        parts += 1;
        next = store.scan_with(at, |entry| {
            looked_at += 1;
            if !is_empty
                && !is_placeholder(entry)
                && pattern.is_none_or(|pattern| glob::matches(pattern, entry.key))
            {
                keys += 1;
                reply::bulk(found, entry.key);
            }
        });
    }
    reply::array(turn.out, 2);
    reply::bulk(turn.out, itoa::Buffer::new().format(shown(next)).as_bytes());
    reply::array(turn.out, keys);
    turn.out.extend_from_slice(turn.scratch);
    turn.spend(parts * PART_BYTES);
    Ok(())
}

/// A `KEYS` in progress.
#[derive(Debug)]
pub(super) struct Walk {
    pattern: Box<[u8]>,
    cursor: u64,
    /// Replies so far.
    found: Vec<u8>,
    count: usize,
}

impl Walk {
    pub(super) fn held_bytes(&self) -> usize {
        self.pattern.len() + self.found.capacity()
    }

    /// Visits some more entries, and returns whether all were visited.
    fn step(&mut self, bytes_max: usize, turn: &mut Turn<'_>) -> Result<bool, Problem> {
        let store = &turn.shared.items.store;
        for _ in 0..STEP_PARTS {
            let next = store.scan_with(self.cursor, |entry| {
                if !is_placeholder(entry) && glob::matches(&self.pattern, entry.key) {
                    self.count += 1;
                    reply::bulk(&mut self.found, entry.key);
                }
            });
            if self.found.len() > bytes_max {
                return Err("ERR the keys are too many for one reply: use SCAN".into());
            }
            match next {
                Some(cursor) => self.cursor = cursor,
                None => return Ok(true),
            }
        }
        turn.spend(STEP_PARTS * PART_BYTES);
        Ok(false)
    }

    fn answer(&self, turn: &mut Turn<'_>) {
        reply::array(turn.out, self.count);
        turn.out.extend_from_slice(&self.found);
    }
}

pub(super) fn keys(call: &mut Call<'_, '_>) -> Done {
    let pattern = call.args.get(1);
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(PATTERN_TOO_LONG.into());
    }
    let mut walk = Walk { pattern: pattern.into(), cursor: 0, found: Vec::new(), count: 0 };
    // A transaction runs without a pause, and a dropped reply must be dropped at the end of its request.
    if !call.session.is_in_exec && call.session.replies == Replies::On {
        call.session.state = State::Walk(Box::new(walk));
        return Ok(());
    }
    let bytes_max = super::request_bytes_max(call.turn);
    while !walk.step(bytes_max, call.turn)? {}
    walk.answer(call.turn);
    Ok(())
}

/// Continues a `KEYS`, and answers it at its end.
pub(super) fn go_on(mut walk: Box<Walk>, session: &mut Session, turn: &mut Turn<'_>) {
    match walk.step(super::request_bytes_max(turn), turn) {
        Ok(false) => session.state = State::Walk(walk),
        Ok(true) => walk.answer(turn),
        Err(Problem(text)) => reply::error(turn.out, &text),
    }
}

pub(super) fn randomkey(call: &mut Call<'_, '_>) -> Done {
    let turn = &mut *call.turn;
    let random = turn.shared.resp.random();
    let store = &turn.shared.items.store;
    let found = &mut *turn.scratch;
    let mut part = |cursor: u64, seen: &mut u64| {
        store.scan_with(cursor, |entry| {
            if is_placeholder(entry) {
                return;
            }
            *seen += 1;
            // So each key seen so far is chosen with the same probability.
            if mix(random ^ *seen).is_multiple_of(*seen) {
                found.clear();
                found.extend_from_slice(entry.key);
            }
        })
    };
    // Parts at random, because in order a key behind many empty parts would be chosen more often than others. Parts in order
    // too: so few keys are found, and an end is. All are in the range drawn first, or its empty parts would favour the other.
    let (mut in_order, mut at_random, mut parts) = (0, 0, 0);
    let (first, second) = store.ranges_at_random(random);
    for range in std::iter::once(first).chain(second) {
        let mut cursor = Some(range.first());
        while let Some(at) = cursor.filter(|&at| range.has(at))
            && parts < RANDOM_PARTS_MAX
            && at_random == 0
        {
            parts += 2;
            part(range.at_random(mix(random.wrapping_add(parts as u64))), &mut at_random);
            if at_random == 0 {
                cursor = part(at, &mut in_order);
            }
        }
        if in_order + at_random > 0 {
            break;
        }
    }
    turn.spend(parts * PART_BYTES + second.map_or(0, |_| RANGES_BYTES));
    if in_order + at_random > 0 {
        reply::bulk(turn.out, turn.scratch);
    } else {
        reply::null(turn.out, call.session.version);
    }
    Ok(())
}
