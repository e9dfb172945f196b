//! The classic dialect: all requests other than look-ups.

use frazil_segment::{Attributes, StoreError, Stored};

use super::operate::{self, Count, Counted, Mode, Store};
use super::{
    BAD_FORMAT, Flow, NO_MEMORY, Request, TOO_LARGE, is_too_long, number, push_number, reply, stats,
};
use crate::worker::Turn;

const VERSION: &str = concat!("VERSION 1.6.18-frazil-", env!("CARGO_PKG_VERSION"), "\r\n");
/// The highest `verbosity`.
const VERBOSITY_MAX: u32 = 4;

/// Serves a request of the classic dialect.
pub(super) fn serve(request: &mut Request<'_, '_>, turn: &mut Turn<'_>) -> Flow {
    let tokens = request.tokens;
    let (command, count) = (tokens.command(), tokens.count);
    let mode = match command {
        b"set" => Mode::Set,
        b"add" => Mode::Add,
        b"replace" => Mode::Replace,
        b"append" => Mode::Append,
        b"prepend" => Mode::Prepend,
        b"cas" => Mode::Cas,
        _ => return other(request, turn),
    };
    let wanted = if mode == Mode::Cas { 6 } else { 5 };
    if count != wanted && count != wanted + 1 {
        reply(turn, b"ERROR");
        return Flow::Go;
    }
    update(request, mode, wanted, turn)
}

fn other(request: &mut Request<'_, '_>, turn: &mut Turn<'_>) -> Flow {
    let tokens = request.tokens;
    let count = tokens.count;
    match tokens.command() {
        b"delete" if (2..=4).contains(&count) => delete(request, turn),
        b"incr" if count == 3 || count == 4 => arithmetic(request, true, turn),
        b"decr" if count == 3 || count == 4 => arithmetic(request, false, turn),
        b"touch" if count == 3 || count == 4 => touch(request, turn),
        b"flush_all" if count <= 3 => flush_all(request, turn),
        b"version" => turn.out.extend_from_slice(VERSION.as_bytes()),
        b"verbosity" if count == 2 || count == 3 => verbosity(request, turn),
        b"stats" => request.session.state = stats::serve(&tokens, turn),
        b"quit" => return Flow::Close,
        b"shutdown" => return shutdown(request, turn),
        b"cache_memlimit" if count == 2 || count == 3 => memlimit(request, turn),
        b"lru_crawler" => request.session.state = stats::crawler(&tokens, turn),
        b"slabs" if count >= 3 && tokens.get(1) == b"automove" => automove(request, turn),
        b"debugtime" if count >= 2 && turn.shared.settings.options.debug => {
            debug_time(request, turn);
        }
        b"watch" => reply(turn, b"CLIENT_ERROR watch commands not allowed"),
        // A browser, possibly misled by an attacker, must not go on.
        _ if tokens.last().starts_with(b"HTTP/") => return Flow::Close,
        _ => reply(turn, b"ERROR"),
    }
    Flow::Go
}

/// Whether the last token is `noreply`.
fn is_quiet(request: &Request<'_, '_>) -> bool {
    request.tokens.last() == b"noreply"
}

/// Replies unless the request is quiet.
fn reply_unless(quiet: bool, turn: &mut Turn<'_>, line: &[u8]) {
    if !quiet {
        reply(turn, line);
    }
}

/// Stores a value, whose line has `wanted` tokens without `noreply`.
fn update(request: &mut Request<'_, '_>, mode: Mode, wanted: usize, turn: &mut Turn<'_>) -> Flow {
    let tokens = request.tokens;
    let quiet = is_quiet(request);
    let key = tokens.get(1);
    let flags = number::unsigned_32(tokens.get(2));
    let time = number::time(tokens.get(3));
    let Some(announced) = number::length(tokens.get(4)) else {
        reply_unless(quiet, turn, BAD_FORMAT);
        return Flow::Go;
    };
    let cas = if mode == Mode::Cas { number::unsigned(tokens.get(5)) } else { Some(0) };
    let (Some(flags), Some(time), Some(cas)) = (flags, time, cas) else {
        reply_unless(quiet, turn, BAD_FORMAT);
        // As in memcached, no value is expected after what is no number at all.
        let are_numbers = tokens.all()[2..wanted].iter().all(|token| number::is_number(token));
        return if are_numbers { request.session.skip(announced) } else { Flow::Go };
    };
    if is_too_long(key, turn) {
        reply_unless(quiet, turn, BAD_FORMAT);
        return Flow::Go;
    }
    let Some(length) = turn.shared.items.length(key.len(), announced) else {
        turn.counters.too_large.add(1);
        reply_unless(quiet, turn, TOO_LARGE);
        if mode == Mode::Set {
            turn.shared.items.delete(key);
        }
        return request.session.skip(announced);
    };
    let value = match request.value(length) {
        Ok(Some(value)) => value,
        Ok(None) => {
            reply_unless(quiet, turn, b"CLIENT_ERROR bad data chunk");
            return Flow::Go;
        }
        Err(flow) => return flow,
    };
    if turn.shared.memcached.counts_prefixes() {
        turn.shared.memcached.prefixes.lock().set(key);
    }
    let lifetime = turn.shared.items.lifetime(time);
    let attributes = Attributes { flags, marks: 0, lifetime };
    let stored =
        operate::store(Store { mode, key, value, attributes, cas, invalidates: false }, turn);
    let line = match stored {
        Ok((Stored::Stored, _)) => &b"STORED"[..],
        Ok((Stored::NotStored, _)) => b"NOT_STORED",
        Ok((Stored::Exists, _)) => b"EXISTS",
        Ok((Stored::NotFound, _)) => b"NOT_FOUND",
        Err(error) => refusal(error),
    };
    reply_unless(quiet, turn, line);
    Flow::Go
}

/// The reply to a refused value.
pub(super) fn refusal(error: StoreError) -> &'static [u8] {
    match error {
        StoreError::TooLarge | StoreError::KeyTooLong => TOO_LARGE,
        _ => NO_MEMORY,
    }
}

fn delete(request: &mut Request<'_, '_>, turn: &mut Turn<'_>) {
    let tokens = request.tokens;
    let quiet = tokens.count > 2 && is_quiet(request);
    let holds_zero = tokens.get(2) == b"0";
    let is_valid = match tokens.count {
        2 => true,
        3 => holds_zero || quiet,
        _ => holds_zero && quiet,
    };
    if !is_valid {
        let usage = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
        return reply_unless(quiet, turn, usage);
    }
    let key = tokens.get(1);
    if is_too_long(key, turn) {
        return reply_unless(quiet, turn, BAD_FORMAT);
    }
    if turn.shared.memcached.counts_prefixes() {
        turn.shared.memcached.prefixes.lock().delete(key);
    }
    let line = match operate::delete(key, turn) {
        Stored::Stored => &b"DELETED"[..],
        _ => b"NOT_FOUND",
    };
    reply_unless(quiet, turn, line);
}

fn arithmetic(request: &mut Request<'_, '_>, up: bool, turn: &mut Turn<'_>) {
    let tokens = request.tokens;
    let quiet = is_quiet(request);
    let key = tokens.get(1);
    if is_too_long(key, turn) {
        return reply_unless(quiet, turn, BAD_FORMAT);
    }
    let Some(by) = number::unsigned(tokens.get(2)) else {
        return reply_unless(quiet, turn, b"CLIENT_ERROR invalid numeric delta argument");
    };
    let line = match operate::count(key, Count { up, by, cas: 0, lifetime: None }, turn) {
        Ok((Counted::Is(number), ..)) => {
            if !quiet {
                push_number(turn.out, number);
                turn.out.extend_from_slice(b"\r\n");
            }
            return;
        }
        Ok((Counted::NotANumber, ..)) => NOT_A_NUMBER,
        Ok(_) => b"NOT_FOUND",
        Err(_) => b"SERVER_ERROR out of memory",
    };
    reply_unless(quiet, turn, line);
}

pub(super) const NOT_A_NUMBER: &[u8] =
    b"CLIENT_ERROR cannot increment or decrement non-numeric value";

fn touch(request: &mut Request<'_, '_>, turn: &mut Turn<'_>) {
    let tokens = request.tokens;
    let quiet = is_quiet(request);
    let key = tokens.get(1);
    if is_too_long(key, turn) {
        return reply_unless(quiet, turn, BAD_FORMAT);
    }
    let Some(time) = number::time(tokens.get(2)) else {
        return reply_unless(quiet, turn, b"CLIENT_ERROR invalid exptime argument");
    };
    let lifetime = turn.shared.items.lifetime(time);
    turn.counters.touches.add(1);
    let line = match operate::touch(key, lifetime, turn) {
        Ok(Some(_)) => {
            turn.counters.touch_hits.add(1);
            &b"TOUCHED"[..]
        }
        Ok(None) => {
            turn.counters.touch_misses.add(1);
            b"NOT_FOUND"
        }
        Err(error) => refusal(error),
    };
    reply_unless(quiet, turn, line);
}

fn flush_all(request: &mut Request<'_, '_>, turn: &mut Turn<'_>) {
    let tokens = request.tokens;
    let quiet = is_quiet(request);
    turn.counters.flushes.add(1);
    if !turn.shared.settings.options.flush {
        return reply_unless(quiet, turn, b"CLIENT_ERROR flush_all not allowed");
    }
    let mut delay_ms = 0;
    if tokens.count > 1 + usize::from(quiet) {
        let Some(time) = number::time(tokens.get(1)) else {
            return reply_unless(quiet, turn, b"CLIENT_ERROR invalid exptime argument");
        };
        let delay = turn.shared.items.lifetime(time).unwrap_or_default();
        delay_ms = delay.as_millis().try_into().unwrap_or(u64::MAX);
    }
    turn.shared.items.flush_in(delay_ms);
    reply_unless(quiet, turn, b"OK");
}

fn verbosity(request: &mut Request<'_, '_>, turn: &mut Turn<'_>) {
    let quiet = is_quiet(request);
    let Some(level) = number::unsigned_32(request.tokens.get(1)) else {
        return reply_unless(quiet, turn, BAD_FORMAT);
    };
    let verbosity = &turn.shared.memcached.verbosity;
    verbosity.store(level.min(VERBOSITY_MAX), std::sync::atomic::Ordering::Relaxed);
    reply_unless(quiet, turn, b"OK");
}

fn shutdown(request: &mut Request<'_, '_>, turn: &mut Turn<'_>) -> Flow {
    let tokens = request.tokens;
    if !turn.shared.settings.options.shutdown {
        reply(turn, b"ERROR: shutdown not enabled");
        return Flow::Go;
    }
    match (tokens.count, tokens.get(1)) {
        (1, _) | (2, b"graceful") => {
            turn.shared.stop();
            Flow::Close
        }
        _ => {
            reply(turn, b"CLIENT_ERROR invalid shutdown mode");
            Flow::Go
        }
    }
}

/// The capacity cannot be changed while the server runs.
fn memlimit(request: &mut Request<'_, '_>, turn: &mut Turn<'_>) {
    let quiet = is_quiet(request);
    let line = match number::unsigned_32(request.tokens.get(1)) {
        None => &b"ERROR"[..],
        Some(0..8) => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
        Some(1_000_000_001..) => b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
        Some(_) => b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust",
    };
    reply_unless(quiet, turn, line);
}

/// There are no slabs, so nothing moves between them.
fn automove(request: &mut Request<'_, '_>, turn: &mut Turn<'_>) {
    let quiet = is_quiet(request);
    let line = match number::unsigned_32(request.tokens.get(2)) {
        None => BAD_FORMAT,
        Some(0..=2) => b"OK",
        Some(_) => b"ERROR",
    };
    reply_unless(quiet, turn, line);
}

fn debug_time(request: &mut Request<'_, '_>, turn: &mut Turn<'_>) {
    match number::unsigned_32(request.tokens.get(1)) {
        Some(seconds) => {
            turn.shared.items.clock.advance(u64::from(seconds) * 1000);
            reply(turn, b"OK");
        }
        None => reply(turn, b"ERROR"),
    }
}
