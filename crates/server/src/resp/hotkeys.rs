//! `HOTKEYS`: the keys with most bytes, of all protocols but HTTP.

use super::strings::SYNTAX;
use super::table::Command;
use super::{Args, Call, Done, Problem, number, reply, table};
use crate::worker::Turn;

/// Keys shown, by default and at most.
const SHOWN: usize = 10;
const SHOWN_MAX: i64 = 64;

/// A period of counting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    ratio: u64,
    shown: usize,
    began_ms: u64,
    began_unix_ms: u64,
    /// `u64::MAX`: until it is stopped.
    until_ms: u64,
}

/// Counts the keys of a request after it was served; its reply begins at `begin`.
#[inline]
pub(super) fn note(command: &Command, args: &Args<'_>, begin: usize, turn: &Turn<'_>) {
    if let Some(mut sketch) = turn.shared.hot.of(turn.thread, turn.now_ms) {
        let count = table::keys_of(command, args).count();
        let bytes = args.as_bytes().len() + turn.out.len().saturating_sub(begin);
        table::keys_of(command, args).for_each(|key| sketch.note(key, bytes / count));
    }
}

pub(super) fn hotkeys(call: &mut Call<'_, '_>) -> Done {
    let (shared, now_ms) = (call.turn.shared, call.turn.now_ms);
    let (hot, mut period) = (&shared.hot, shared.resp.hot_period.lock());
    let is_active = period.is_some_and(|period| period.until_ms > now_ms);
    match (call.args.get(1).to_ascii_lowercase().as_slice(), call.args.len()) {
        (b"start", _) => {
            let asked = asked(call)?;
            if is_active {
                return Err("ERR hotkey tracking session already in progress".into());
            }
            *period = Some(asked);
            hot.start(asked.ratio, asked.until_ms);
        }
        (b"stop", 2) => {
            let Some(period) = period.as_mut().filter(|_| is_active) else {
                return Err("ERR no hotkey tracking session is in progress".into());
            };
            period.until_ms = now_ms;
            hot.stop();
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
    let (hottest, all) = turn.shared.hot.hottest(shown);
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
