//! The meta dialect: `mg`, `ms`, `md`, `ma`, `me` and `mn`.
//!
//! A request is a command, a key and flags of one letter, some with a value behind it. A reply is a code
//! of two letters and what the flags ask for, in the order of the flags.
//!
//! Three marks of an entry hold what this dialect adds to the classic one: [`STALE`], [`WON`] and
//! [`BINARY`](operate::BINARY). A request that finds none of them and changes nothing only reads.

use std::time::Duration;

use frazil_segment::{Attributes, Entry, Expect, StoreError, Stored, Update};

use super::operate::{self, BINARY, Count, Counted, Mode, STALE, Store, WON};
use super::text::{NOT_A_NUMBER, refusal};
use super::waiting::{self, Ask};
use super::{
    BAD_FORMAT, Flow, KEY_BYTES_MAX, Request, TOO_LARGE, base64, is_too_long, number, push_number,
    reply,
};
use crate::items::{Items, rewrite};
use crate::mail::Fetched;
use crate::waits::Missing;
use crate::worker::Turn;

/// Tokens of a request, with command and key.
const REQUEST_TOKENS_MAX: usize = 19;
/// Length of the flag `O`.
const OPAQUE_BYTES_MAX: usize = 32;
/// Attempts of a look-up that makes an entry, when others make it first and it disappears again.
const VIVIFY_TRIES: usize = 8;
/// The longest wait that the flag `w` may ask for, in milliseconds.
const WAIT_MS_MAX: u32 = 60_000;
const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format";
const BAD_FLAGS: &[u8] = b"CLIENT_ERROR invalid or duplicate flag";
const BAD_KEY: &[u8] = b"CLIENT_ERROR error decoding key";
const INVALID_FLAG: &[u8] = b"CLIENT_ERROR invalid flag";
const LONG_OPAQUE: &[u8] = b"CLIENT_ERROR opaque token too long";

/// The flags of a request.
#[derive(Clone, Copy, Default)]
struct Flags {
    no_update: bool,
    value: bool,
    quiet: bool,
    invalidates: bool,
    is_binary: bool,
    mode: u8,
    cas: u64,
    has_cas: bool,
    client_flags: u32,
    delta: Option<u64>,
    initial: u64,
    /// An expiry time, for [`crate::items::Items::lifetime`].
    time: Option<i64>,
    vivify_time: Option<i64>,
    recache_time: Option<i64>,
    /// Timeout of the wait for the client that has won the key.
    wait: Option<Duration>,
}

type Error = &'static [u8];

impl Flags {
    /// `has_key`: the key is base 64, if there is a flag `b`. Of several malformed values the last is told; after a
    /// repeated or unknown flag the rest is not looked at.
    fn of(tokens: &[&[u8]], has_key: bool) -> Result<Flags, Error> {
        let mut flags = Flags::default();
        let mut seen = 0u128;
        let mut malformed = None;
        for token in tokens {
            let flag = token[0];
            if flag >= 127 || seen & 1 << flag != 0 {
                return Err(b"CLIENT_ERROR duplicate flag");
            }
            seen |= 1 << flag;
            match flags.note(flag, &token[1..]) {
                Ok(()) if flag == b'b' && !has_key => malformed = Some(BAD_KEY),
                Ok(()) => {}
                Err(INVALID_FLAG) => return Err(INVALID_FLAG),
                Err(BAD_FORMAT) => malformed = malformed.or(Some(BAD_FORMAT)),
                Err(error) => malformed = Some(error),
            }
        }
        malformed.map_or(Ok(flags), Err)
    }

    fn note(&mut self, flag: u8, value: &[u8]) -> Result<(), Error> {
        let time = || number::time(value).map(Some).ok_or(BAD_TOKEN);
        match flag {
            b'b' => self.is_binary = true,
            b'N' => self.vivify_time = time()?,
            b'T' => self.time = time()?,
            b'R' => self.recache_time = time()?,
            b'w' => {
                let wait_ms = number::unsigned_32(value).filter(|&wait_ms| wait_ms <= WAIT_MS_MAX);
                self.wait = Some(Duration::from_millis(wait_ms.ok_or(BAD_TOKEN)?.into()));
            }
            b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' | b'l' | b'h' => {}
            b'v' => self.value = true,
            b'u' => self.no_update = true,
            b'q' => self.quiet = true,
            b'I' => self.invalidates = true,
            b'F' => self.client_flags = number::unsigned_32(value).ok_or(BAD_FORMAT)?,
            b'C' => {
                self.cas = number::unsigned(value).ok_or(BAD_TOKEN)?;
                self.has_cas = true;
            }
            b'M' => match value {
                &[mode] => self.mode = mode,
                _ => return Err(b"CLIENT_ERROR incorrect length for M token"),
            },
            b'J' => {
                let initial = number::unsigned(value);
                self.initial = initial.ok_or(&b"CLIENT_ERROR invalid numeric initial value"[..])?;
            }
            b'D' => {
                let delta = number::unsigned(value);
                self.delta = Some(delta.ok_or(&b"CLIENT_ERROR invalid numeric delta value"[..])?);
            }
            _ => return Err(INVALID_FLAG),
        }
        Ok(())
    }
}

/// A parsed request: key and flags.
struct Meta<'r> {
    key: &'r [u8],
    flags: Flags,
    /// As received, for the reply.
    tokens: &'r [&'r [u8]],
}

impl<'r> Meta<'r> {
    /// Of the request `m` and `kind`.
    fn of(
        tokens: &'r [&'r [u8]],
        kind: u8,
        key: &'r mut [u8; KEY_BYTES_MAX],
    ) -> Result<Meta<'r>, Error> {
        let first_flag = if kind == b's' { 3 } else { 2 };
        let is_binary = tokens[first_flag..].iter().any(|token| token[0] == b'b');
        let key = if is_binary { base64::decode(tokens[1], key) } else { Some(tokens[1]) };
        let flags = Flags::of(&tokens[first_flag..], key.is_some())?;
        if flags.wait.is_some() && kind != b'g' {
            return Err(INVALID_FLAG);
        }
        let key = key.ok_or(BAD_KEY)?;
        let tokens = &tokens[first_flag..];
        let mut opaque = tokens.iter().filter(|token| token[0] == b'O');
        if opaque.any(|token| token.len() > OPAQUE_BYTES_MAX) {
            return Err(LONG_OPAQUE);
        }
        Ok(Meta { key, flags, tokens })
    }

    /// The request as received, with single blanks.
    fn line(&self) -> Box<[u8]> {
        let mut line = b"mg ".to_vec();
        if self.flags.is_binary {
            base64::encode(self.key, &mut line);
        } else {
            line.extend_from_slice(self.key);
        }
        for token in self.tokens {
            line.push(b' ');
            line.extend_from_slice(token);
        }
        line.into()
    }

    /// Appends the flags that do not depend on the entry: opaque and key.
    fn echo(&self, out: &mut Vec<u8>) {
        for token in self.tokens {
            match token[0] {
                b'O' => push_opaque(out, token),
                b'k' => push_key(out, self.key, self.flags.is_binary),
                _ => {}
            }
        }
    }
}

fn push_opaque(out: &mut Vec<u8>, token: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(token);
}

fn push_key(out: &mut Vec<u8>, key: &[u8], is_binary: bool) {
    out.extend_from_slice(b" k");
    if is_binary {
        base64::encode(key, out);
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(key);
    }
}

fn push_flag(out: &mut Vec<u8>, flag: u8, number: u64) {
    out.extend_from_slice(&[b' ', flag]);
    push_number(out, number);
}

/// Appends the seconds left; -1 without an end.
fn push_left(out: &mut Vec<u8>, left: Option<Duration>) {
    match left {
        // Rounded up, so that a live entry shows at least one second.
        Some(left) => push_flag(out, b't', left.as_millis().div_ceil(1000) as u64),
        None => out.extend_from_slice(b" t-1"),
    }
}

/// Serves a request of two letters beginning with `m`.
pub(super) fn serve(request: &mut Request<'_, '_>, kind: u8, turn: &mut Turn<'_>) -> Flow {
    if kind == b'n' {
        reply(turn, b"MN");
        return Flow::Go;
    }
    if !b"gsdae".contains(&kind) {
        reply(turn, b"ERROR");
        return Flow::Go;
    }
    let tokens = request.tokens;
    let tokens = tokens.all();
    if tokens.len() < 2 {
        reply(turn, if kind == b'e' { BAD_FORMAT } else { b"ERROR" });
        return Flow::Go;
    }
    if is_too_long(tokens[1], turn) {
        reply(turn, BAD_FORMAT);
        return Flow::Go;
    }
    // `me` knows no flag but a bare `b` behind the key, and looks at no other.
    let tokens = match (kind, tokens.get(2)) {
        (b'e', Some(&b"b")) => &tokens[..3],
        (b'e', _) => &tokens[..2],
        _ => tokens,
    };
    if tokens.len() > REQUEST_TOKENS_MAX {
        let error = match kind {
            b'g' => &b"CLIENT_ERROR options flags are too long"[..],
            _ => b"CLIENT_ERROR options flags too long",
        };
        turn.counters.many_arguments.add(1);
        reply(turn, error);
        return Flow::Go;
    }
    if kind == b's' {
        return set(request, tokens, turn);
    }
    let mut decoded = [0; KEY_BYTES_MAX];
    let done = Meta::of(tokens, kind, &mut decoded).and_then(|meta| match kind {
        b'g' => get(&meta, turn),
        b'd' => {
            delete(&meta, turn);
            Ok(())
        }
        b'a' => arithmetic(&meta, turn),
        _ => {
            show(&meta, turn);
            Ok(())
        }
    });
    if let Err(error) = done {
        // These report no more about malformed flags.
        let is_bare = error.starts_with(b"CLIENT_ERROR") && !is_of_operation(error);
        let error = match kind {
            b'd' | b'a' if is_bare => BAD_FLAGS,
            b'e' => BAD_FORMAT,
            _ => error,
        };
        reply(turn, error);
    }
    Flow::Go
}

/// Whether an error concerns more than the flags.
fn is_of_operation(error: Error) -> bool {
    error == NOT_A_NUMBER || error == LONG_OPAQUE || error == BAD_MODE_OF_ARITHMETIC
}

const BAD_MODE_OF_ARITHMETIC: &[u8] = b"CLIENT_ERROR invalid mode for ma M token";

/// The result of `mg`.
#[derive(Clone, Copy)]
struct Found<'e> {
    value: &'e [u8],
    seen: Seen,
    cas: u64,
    /// The lifetime left after the request.
    left: Option<Duration>,
}

fn get(meta: &Meta<'_>, turn: &mut Turn<'_>) -> Result<(), Error> {
    let Flags { no_update, time, vivify_time, recache_time, .. } = meta.flags;
    let (key, store) = (meta.key, &turn.shared.items.store);
    if time.is_some() || vivify_time.is_some() || recache_time.is_some() {
        return get_and_change(meta, turn);
    }
    let begin = turn.out.len();
    let out = &mut *turn.out;
    let now_ms = turn.now_ms;
    let shows_cas = turn.shared.settings.options.cas;
    let waits = meta.flags.wait.is_some();
    let (mut is_stale, mut bytes) = (false, None);
    let mut read = |entry: Entry<'_>| {
        bytes = store.recorded_bytes(&entry);
        // The first client to see a stale entry wins it, which changes it. One that sees a won entry may wait.
        is_stale = entry.marks & (STALE | WON) == STALE || waits && entry.marks & WON != 0;
        let cas = if shows_cas { entry.cas } else { 0 };
        let (seen, left) = (Seen::of(&entry), entry.lifetime);
        if !is_stale {
            push_found(meta, &Found { value: entry.value, seen, cas, left }, now_ms, out);
        }
    };
    let found = if no_update { store.peek(key, &mut read) } else { store.get_with(key, &mut read) };
    if is_stale {
        turn.out.truncate(begin);
        return get_and_change(meta, turn);
    }
    count_get(meta, found.is_some(), bytes, turn);
    if found.is_none() {
        return miss(meta, turn);
    }
    Ok(())
}

/// Fetches a missing key, or answers the miss.
fn miss(meta: &Meta<'_>, turn: &mut Turn<'_>) -> Result<(), Error> {
    let marks = if meta.flags.is_binary { BINARY } else { 0 };
    match turn.fetch(meta.key, turn.out.len(), marks, || Ask::Meta(meta.line()).into()) {
        Missing::Waits => Ok(()),
        Missing::Answer => {
            push_miss(meta, turn);
            Ok(())
        }
        Missing::Look => {
            // The value has just been stored, or has disappeared again.
            if !answers_found(meta, turn) {
                push_miss(meta, turn);
            }
            Ok(())
        }
    }
}

/// Answers with an entry unchanged, if there is one.
fn answers_found(meta: &Meta<'_>, turn: &mut Turn<'_>) -> bool {
    let shows_cas = turn.shared.settings.options.cas;
    let (out, now_ms) = (&mut *turn.out, turn.now_ms);
    let found = turn.shared.items.store.get_with(meta.key, |entry| {
        let cas = if shows_cas { entry.cas } else { 0 };
        let (seen, left) = (Seen::of(&entry), entry.lifetime);
        push_found(meta, &Found { value: entry.value, seen, cas, left }, now_ms, out);
    });
    found.is_some()
}

/// Answers `mg` at the end of its wait, or waits again.
pub(super) fn get_again(tokens: &[&[u8]], fetched: Option<&Fetched>, turn: &mut Turn<'_>) {
    let mut decoded = [0; KEY_BYTES_MAX];
    let answered = Meta::of(tokens, b'g', &mut decoded).and_then(|meta| {
        let Some(fetched) = fetched else { return get(&meta, turn) };
        let seen = Seen { opened_ms: turn.now_ms, ..Seen::default() };
        let lifetime_seconds = fetched.lifetime_seconds.max(1);
        let left = Some(Duration::from_secs(lifetime_seconds));
        let seen = Seen { left, marks: if meta.flags.is_binary { BINARY } else { 0 }, ..seen };
        let found = Found { value: &fetched.value, seen, cas: fetched.cas, left };
        push_found(&meta, &found, turn.now_ms, turn.out);
        Ok(())
    });
    if let Err(error) = answered {
        reply(turn, error);
    }
}

/// Counts a look-up. `bytes` are those of the entry it found, for a recording.
fn count_get(meta: &Meta<'_>, is_hit: bool, bytes: Option<u64>, turn: &Turn<'_>) {
    // The request was counted before its wait.
    if turn.waits.again.is_some() {
        return;
    }
    turn.shared.items.store.looked_up(meta.key, bytes);
    let counters = turn.counters;
    let (all, hits, misses) = if meta.flags.time.is_some() {
        (&counters.touches, &counters.touch_hits, &counters.touch_misses)
    } else {
        (&counters.gets, &counters.get_hits, &counters.get_misses)
    };
    all.add(1);
    hits.add(is_hit.into());
    misses.add((!is_hit).into());
    if turn.shared.memcached.counts_prefixes() {
        turn.shared.memcached.prefixes.lock().got(meta.key, is_hit);
    }
}

fn push_miss(meta: &Meta<'_>, turn: &mut Turn<'_>) {
    if meta.flags.quiet {
        return;
    }
    turn.out.extend_from_slice(b"EN");
    meta.echo(turn.out);
    turn.out.extend_from_slice(b"\r\n");
}

/// The state of an entry before the request changed it.
#[derive(Clone, Copy, Default)]
struct Seen {
    flags: u32,
    marks: u8,
    requested: bool,
    opened_ms: u64,
    left: Option<Duration>,
    /// Whether this client is to bring the new value.
    won: bool,
}

impl Seen {
    fn of(entry: &Entry<'_>) -> Seen {
        Seen {
            flags: entry.flags,
            marks: entry.marks,
            requested: entry.requested,
            opened_ms: entry.opened_ms,
            left: entry.lifetime,
            won: false,
        }
    }
}

/// A look-up that may change the lifetime of the entry, make it, or win it.
fn get_and_change(meta: &Meta<'_>, turn: &mut Turn<'_>) -> Result<(), Error> {
    let Flags { time, vivify_time, .. } = meta.flags;
    let items = &turn.shared.items;
    // The lease of a client that has left passes to this one.
    let wins = turn.waits.again.and_then(|again| again.wins);
    let wins = wins.is_some_and(|ticket| items.flights.holds(meta.key, ticket));
    for attempt in 0..VIVIFY_TRIES {
        let may_wait = turn.may_wait() && attempt + 1 < VIVIFY_TRIES;
        let wait = meta.flags.wait.filter(|wait| may_wait && !wait.is_zero());
        let mut is_loser = false;
        let updated = rewrite(meta.key, turn, |entry, value| {
            value.extend_from_slice(entry.value);
            let has_token = entry.marks & WON != 0;
            let (left, is_soon) = lifetime_after(meta, items, entry.lifetime, false);
            let won = has_token && wins || !has_token && (is_soon || entry.marks & STALE != 0);
            let marks = if won { entry.marks | WON } else { entry.marks };
            let mut seen = Seen { won, ..Seen::of(entry) };
            is_loser = has_token && !won;
            if won {
                seen.marks &= !WON;
            }
            if !won && time.is_none() || is_loser && wait.is_some() {
                return Update::Leave(seen);
            }
            let (flags, mut lifetime) = (entry.flags, time.map(|_| left));
            if has_token && won && time.is_none() && entry.value.is_empty() {
                // The next holder of the lease has the full time too.
                lifetime = vivify_time.map(|time| items.lifetime(time));
            }
            Update::Write { flags, marks, lifetime, result: seen }
        });
        match updated.map_err(refusal)? {
            Some((seen, cas)) => {
                if let Some(wait) = wait.filter(|_| is_loser) {
                    match waiting::wait_for_lease(meta.key, wait, || meta.line(), turn) {
                        Missing::Waits => {
                            count_get(meta, false, None, turn);
                            return Ok(());
                        }
                        Missing::Look => continue,
                        Missing::Answer => {}
                    }
                }
                answer_changed(meta, seen, cas, turn);
                if seen.won {
                    hold_lease(meta, turn);
                }
                return Ok(());
            }
            None => {
                let Some(vivify) = vivify_time else { break };
                let binary = if meta.flags.is_binary { BINARY } else { 0 };
                let vivified = items.lifetime(vivify);
                let (lifetime, _) = lifetime_after(meta, items, vivified, true);
                let attributes = Attributes { flags: 0, marks: WON | binary, lifetime };
                let made = items.reserve(meta.key, attributes);
                if let (Stored::Stored, cas) = made.map_err(refusal)? {
                    answer_made(meta, attributes, cas, turn);
                    hold_lease(meta, turn);
                    return Ok(());
                }
            }
        }
    }
    count_get(meta, false, None, turn);
    if vivify_time.is_some() {
        push_miss(meta, turn);
        return Ok(());
    }
    miss(meta, turn)
}

/// Notes the lease of a client that may wait, so that its disconnection is noticed.
fn hold_lease(meta: &Meta<'_>, turn: &mut Turn<'_>) {
    if meta.flags.wait.is_some() {
        let shared = turn.shared;
        turn.hold_lease(meta.key, || waiting::is_won(meta.key, shared));
    }
}

/// The lifetime of an entry after the flags, applied in order as memcached does, and whether `R` finds that it ends
/// soon.
fn lifetime_after(
    meta: &Meta<'_>,
    items: &Items,
    before: Option<Duration>,
    is_made: bool,
) -> (Option<Duration>, bool) {
    let Flags { time, vivify_time, recache_time, .. } = meta.flags;
    let lifetime = |time: Option<i64>| time.and_then(|time| items.lifetime(time));
    let (mut left, mut is_soon) = (before, false);
    for token in meta.tokens {
        match token[0] {
            b'T' => left = lifetime(time),
            b'N' if is_made => left = lifetime(vivify_time),
            b'R' if !is_made => {
                let both = left.zip(lifetime(recache_time));
                is_soon |= both.is_some_and(|(left, below)| left < below);
            }
            _ => {}
        }
    }
    (left, is_soon)
}

fn answer_changed(meta: &Meta<'_>, seen: Seen, cas: u64, turn: &mut Turn<'_>) {
    let left = match meta.flags.time {
        Some(time) => turn.shared.items.lifetime(time),
        None => seen.left,
    };
    let cas = if turn.shared.settings.options.cas { cas } else { 0 };
    let found = Found { value: turn.scratch, seen, cas, left };
    push_found(meta, &found, turn.now_ms, turn.out);
    let mut entry = Entry::new(meta.key, turn.scratch);
    entry.marks = seen.marks | if seen.won { WON } else { 0 };
    let bytes = turn.shared.items.store.recorded_bytes(&entry);
    count_get(meta, true, bytes, turn);
}

/// Answers with the entry that the request has made and won.
fn answer_made(meta: &Meta<'_>, attributes: Attributes, cas: u64, turn: &mut Turn<'_>) {
    let left = attributes.lifetime;
    let marks = attributes.marks & BINARY;
    let seen = Seen { marks, opened_ms: turn.now_ms, left, won: true, ..Seen::default() };
    let cas = if turn.shared.settings.options.cas { cas } else { 0 };
    push_found(meta, &Found { value: b"", seen, cas, left }, turn.now_ms, turn.out);
    count_get(meta, true, None, turn);
}

fn push_found(meta: &Meta<'_>, found: &Found<'_>, now_ms: u64, out: &mut Vec<u8>) {
    let Found { value, seen, cas, left } = *found;
    if meta.flags.value {
        out.reserve(value.len() + 128);
        out.extend_from_slice(b"VA ");
        push_number(out, value.len() as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    // `t` before `T` shows the lifetime before the change.
    let mut shown = seen.left;
    for token in meta.tokens {
        match token[0] {
            b'T' => shown = left,
            b's' => push_flag(out, b's', value.len() as u64),
            b't' => push_left(out, shown),
            b'c' => push_flag(out, b'c', cas),
            b'f' => push_flag(out, b'f', seen.flags.into()),
            b'l' => push_flag(out, b'l', now_ms.saturating_sub(seen.opened_ms) / 1000),
            b'h' => push_flag(out, b'h', seen.requested.into()),
            b'O' => push_opaque(out, token),
            b'k' => push_key(out, meta.key, seen.marks & BINARY != 0),
            _ => {}
        }
    }
    if seen.marks & WON != 0 {
        out.extend_from_slice(b" Z");
    }
    if seen.marks & STALE != 0 {
        out.extend_from_slice(b" X");
    }
    if seen.won {
        out.extend_from_slice(b" W");
    }
    out.extend_from_slice(b"\r\n");
    if meta.flags.value {
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

fn set(request: &mut Request<'_, '_>, tokens: &[&[u8]], turn: &mut Turn<'_>) -> Flow {
    let Some(announced) = tokens.get(2).and_then(|length| number::length(length)) else {
        reply(turn, BAD_FORMAT);
        return Flow::Go;
    };
    let mut decoded = [0; KEY_BYTES_MAX];
    let stored = Meta::of(tokens, b's', &mut decoded).and_then(|meta| {
        let mode = mode_of(meta.flags)?;
        match turn.shared.items.length(meta.key.len(), announced) {
            Some(length) => Ok((meta, mode, length)),
            None => {
                turn.counters.too_large.add(1);
                turn.shared.items.delete(meta.key);
                Err(TOO_LARGE)
            }
        }
    });
    let (meta, mode, length) = match stored {
        Ok(stored) => stored,
        Err(error) => {
            reply(turn, error);
            return request.session.skip(announced);
        }
    };
    let value = match request.value(length) {
        Ok(Some(value)) => value,
        Ok(None) => {
            reply(turn, b"CLIENT_ERROR bad data chunk");
            return Flow::Go;
        }
        Err(flow) => return flow,
    };
    let flags = meta.flags;
    let marks = if flags.is_binary { BINARY } else { 0 };
    let lifetime = flags.time.and_then(|time| turn.shared.items.lifetime(time));
    let attributes = Attributes { flags: flags.client_flags, marks, lifetime };
    let store = Store {
        mode,
        key: meta.key,
        value,
        attributes,
        cas: flags.cas,
        invalidates: flags.invalidates && mode == Mode::Cas,
    };
    answer_set(&meta, operate::store(store, turn), turn);
    Flow::Go
}

fn mode_of(flags: Flags) -> Result<Mode, Error> {
    let mode = match flags.mode {
        0 | b'S' => Mode::Set,
        b'E' => Mode::Add,
        b'A' => Mode::Append,
        b'P' => Mode::Prepend,
        b'R' => Mode::Replace,
        _ => return Err(b"CLIENT_ERROR invalid mode for ms M token"),
    };
    let compares = flags.has_cas && matches!(mode, Mode::Set | Mode::Replace);
    Ok(if compares { Mode::Cas } else { mode })
}

fn answer_set(meta: &Meta<'_>, stored: Result<(Stored, u64), StoreError>, turn: &mut Turn<'_>) {
    let (stored, cas) = match stored {
        Ok(stored) => stored,
        Err(error) => return reply(turn, refusal(error)),
    };
    let is_stored = stored == Stored::Stored;
    if is_stored && meta.flags.quiet {
        return;
    }
    turn.out.extend_from_slice(match stored {
        Stored::Stored => b"HD",
        Stored::Exists => b"EX",
        Stored::NotFound => b"NF",
        Stored::NotStored => b"NS",
    });
    let cas = if is_stored && turn.shared.settings.options.cas { cas } else { 0 };
    for token in meta.tokens {
        match token[0] {
            b'O' => push_opaque(turn.out, token),
            b'k' => push_key(turn.out, meta.key, meta.flags.is_binary),
            b'c' => push_flag(turn.out, b'c', cas),
            _ => {}
        }
    }
    turn.out.extend_from_slice(b"\r\n");
}

fn delete(meta: &Meta<'_>, turn: &mut Turn<'_>) {
    let Flags { cas, has_cas, invalidates, time, quiet, .. } = meta.flags;
    let deleted = if invalidates {
        invalidate(meta, has_cas.then_some(cas), time, turn)
    } else if has_cas {
        operate::delete_exactly(meta.key, cas, turn)
    } else {
        operate::delete(meta.key, turn)
    };
    if turn.shared.memcached.counts_prefixes() {
        turn.shared.memcached.prefixes.lock().delete(meta.key);
    }
    if deleted == Stored::Stored && quiet {
        return;
    }
    turn.out.extend_from_slice(match deleted {
        Stored::Stored => b"HD",
        Stored::Exists => b"EX",
        _ => b"NF",
    });
    meta.echo(turn.out);
    turn.out.extend_from_slice(b"\r\n");
}

/// Marks an entry as stale, so that the next client wins it.
fn invalidate(meta: &Meta<'_>, cas: Option<u64>, time: Option<i64>, turn: &mut Turn<'_>) -> Stored {
    let items = &turn.shared.items;
    let lifetime = time.map(|time| items.lifetime(time));
    let updated = operate::update(meta.key, turn, |entry, value| {
        if cas.is_some_and(|cas| cas != entry.cas) {
            return Update::Leave(Stored::Exists);
        }
        value.extend_from_slice(entry.value);
        let marks = (entry.marks | STALE) & !WON;
        Update::Write { flags: entry.flags, marks, lifetime, result: Stored::Stored }
    });
    match updated {
        Ok(Some((Stored::Stored, _))) => Stored::Stored,
        Ok(Some((exists, _))) => {
            turn.counters.delete_misses.add(1);
            exists
        }
        // A value in flight or being restored is older, and is dropped too.
        Ok(None) => match cas {
            Some(cas) => operate::delete_exactly(meta.key, cas, turn),
            None => operate::delete(meta.key, turn),
        },
        // Without memory for the mark, the entry is deleted: no client may take it for fresh.
        Err(_) => operate::delete(meta.key, turn),
    }
}

fn arithmetic(meta: &Meta<'_>, turn: &mut Turn<'_>) -> Result<(), Error> {
    let flags = meta.flags;
    let up = match flags.mode {
        0 | b'I' | b'+' => true,
        b'D' | b'-' => false,
        _ => return Err(BAD_MODE_OF_ARITHMETIC),
    };
    let time = flags.time.map(|time| turn.shared.items.lifetime(time));
    let by = flags.delta.unwrap_or(1);
    let count = Count { up, by, cas: flags.cas, lifetime: time };
    let no_memory = |_| &b"SERVER_ERROR out of memory"[..];
    for _ in 0..VIVIFY_TRIES {
        let (counted, cas, left) = operate::count(meta.key, count, turn).map_err(no_memory)?;
        match counted {
            Counted::NotANumber => return Err(NOT_A_NUMBER),
            Counted::Is(number) => {
                if !flags.quiet {
                    answer_counted(meta, number, cas, (left, false), turn);
                }
                return Ok(());
            }
            Counted::Exists => {
                push_uncounted(meta, b"EX", turn);
                return Ok(());
            }
            Counted::NotFound => {}
        }
        let Some(vivify) = flags.vivify_time else { break };
        let items = &turn.shared.items;
        let (lifetime, _) = lifetime_after(meta, items, items.lifetime(vivify), true);
        let marks = if flags.is_binary { BINARY } else { 0 };
        let attributes = Attributes { flags: 0, marks, lifetime };
        let mut buffer = itoa::Buffer::new();
        let initial = buffer.format(flags.initial).as_bytes();
        let made = items.write(meta.key, initial, attributes, Expect::Nothing);
        if let (Stored::Stored, cas) = made.map_err(no_memory)? {
            // memcached sends this reply even to a quiet request.
            answer_counted(meta, flags.initial, cas, (None, true), turn);
            return Ok(());
        }
    }
    push_uncounted(meta, b"NF", turn);
    Ok(())
}

fn push_uncounted(meta: &Meta<'_>, code: &[u8], turn: &mut Turn<'_>) {
    turn.out.extend_from_slice(code);
    meta.echo(turn.out);
    turn.out.extend_from_slice(b"\r\n");
}

fn answer_counted(
    meta: &Meta<'_>,
    number: u64,
    cas: u64,
    (before, is_made): (Option<Duration>, bool),
    turn: &mut Turn<'_>,
) {
    // As in memcached, `t` before `T` or `N` shows the lifetime before these apply: that of a new entry is unlimited.
    let mut left = before;
    let items = &turn.shared.items;
    let lifetime = |time: Option<i64>| time.and_then(|time| items.lifetime(time));
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    let out = &mut *turn.out;
    if meta.flags.value {
        out.extend_from_slice(b"VA ");
        push_number(out, digits.len() as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    for token in meta.tokens {
        match token[0] {
            b'T' => left = lifetime(meta.flags.time),
            b'N' if is_made => left = lifetime(meta.flags.vivify_time),
            b'c' if turn.shared.settings.options.cas => push_flag(out, b'c', cas),
            b'c' => push_flag(out, b'c', 0),
            b't' => push_left(out, left),
            b'O' => push_opaque(out, token),
            b'k' => push_key(out, meta.key, meta.flags.is_binary),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if meta.flags.value {
        out.extend_from_slice(digits);
        out.extend_from_slice(b"\r\n");
    }
}

/// `me`: describes an entry.
fn show(meta: &Meta<'_>, turn: &mut Turn<'_>) {
    turn.counters.metas.add(1);
    let now_ms = turn.now_ms;
    let out = &mut *turn.out;
    let shown = turn.shared.items.store.peek(meta.key, |entry| {
        out.extend_from_slice(b"ME ");
        if entry.marks & BINARY != 0 {
            base64::encode(entry.key, out);
        } else {
            out.extend_from_slice(entry.key);
        }
        let left = entry.lifetime.map_or(-1, |left| left.as_secs() as i64);
        let age = now_ms.saturating_sub(entry.opened_ms) / 1000;
        let fetched = if entry.requested { "yes" } else { "no" };
        let (cas, size) = (entry.cas, entry.key.len() + entry.value.len());
        let facts = format!(" exp={left} la={age} cas={cas} fetch={fetched} cls=1 size={size}\r\n");
        out.extend_from_slice(facts.as_bytes());
    });
    if shown.is_none() {
        reply(turn, b"EN");
    }
}
