//! `CLIENT TRACKING`: a client keeps copies of values it has read, and is notified when one is out of date.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::clients::Client;
use super::reply::{self, Version};
use super::seen;
use super::strings::SYNTAX;
use super::table::{Command, READONLY};
use super::{Args, Call, Done, Problem, Session, State, acl, client, table};
use crate::mail::{News, Stale};
use crate::server::Shared;
use crate::tracking::{Tracker, Tracking, Unheard};
use crate::worker::Turn;

/// Prefixes of a connection.
const PREFIXES_MAX: usize = 64;

/// Memory of a prefix, without its bytes.
const PREFIX_BYTES: usize = 256;

/// The keys that are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Keys that are read.
    Read,
    /// Keys that are read after `CLIENT CACHING YES`.
    OptIn,
    /// Keys that are read, except after `CLIENT CACHING NO`.
    OptOut,
    /// All keys with the prefixes.
    Prefixes,
}

/// The tracking of a client, by `CLIENT TRACKING ON`.
#[derive(Debug)]
pub(super) struct Copies {
    /// The table that it leaves at the end of the connection.
    table: Arc<Tracking>,
    mode: Mode,
    prefixes: Vec<Box<[u8]>>,
    /// The client that gets its messages.
    redirect: Option<Arc<Client>>,
    /// `NOLOOP`: it is not notified of its own writes.
    is_unheard: bool,
    /// `CLIENT CACHING` applies to the next request.
    is_said: bool,
    /// It knows that the client which got its messages has left.
    is_broken: bool,
}

impl Copies {
    pub(super) fn held_bytes(&self) -> usize {
        // Each is in the list of all prefixes as well.
        let of_prefixes = self.prefixes.iter().map(|prefix| 2 * prefix.len() + PREFIX_BYTES);
        size_of::<Copies>() + of_prefixes.sum::<usize>()
    }
}

impl Session {
    pub(crate) fn id(&self) -> u64 {
        self.client.id
    }

    fn own(&self) -> Tracker {
        Tracker { id: self.client.id, place: self.client.place }
    }

    /// Its own tracker, while it tracks.
    #[inline]
    pub(super) fn own_tracker(&self) -> Option<Tracker> {
        self.copies.as_ref().map(|_| self.own())
    }

    /// The connection to notify of changes of the keys that the current request reads.
    #[inline]
    pub(super) fn tracker(&self) -> Option<Tracker> {
        let copies = self.copies.as_ref()?;
        let is_tracked = match copies.mode {
            Mode::Read => true,
            Mode::OptIn => copies.is_said,
            Mode::OptOut => !copies.is_said,
            Mode::Prefixes => false,
        };
        is_tracked.then(|| self.own())
    }

    /// Ends the effect of `CLIENT CACHING`, after the next request or transaction.
    #[inline]
    pub(super) fn forget_said(&mut self) {
        if let Some(copies) = &mut self.copies {
            copies.is_said = false;
        }
    }

    /// With `NOLOOP`, suppresses messages about its own writes until this is dropped.
    pub(super) fn unheard(&self) -> Option<Unheard> {
        let is_unheard = self.copies.as_ref().is_some_and(|copies| copies.is_unheard);
        is_unheard.then(|| Unheard::by(self.client.id))
    }

    pub(super) fn stop_tracking(&mut self) {
        if let Some(copies) = self.copies.take() {
            copies.table.leave(self.client.id, &copies.prefixes);
            self.client.redirect.store(-1, Relaxed);
        }
    }

    /// Notifies the client, or the one it redirects to, that copies are out of date.
    pub(crate) fn tell(
        &mut self,
        stale: &Stale,
        is_redirected: bool,
        shared: &Shared,
        out: &mut Vec<u8>,
    ) {
        if is_redirected {
            return self.push(out, |out| push_stale(out, stale));
        }
        let Some(copies) = &mut self.copies else { return };
        let Some(target) = &copies.redirect else {
            return self.push(out, |out| push_stale(out, stale));
        };
        if !target.has_gone.load(Relaxed) {
            let to = (target.id, target.place);
            let news = News::Redirected(stale.clone());
            shared.items.flights.mail().send([(to, news)].into_iter());
        } else if !copies.is_broken {
            copies.is_broken = true;
            let id = target.id;
            self.push(out, |out| {
                reply::push(out, 2);
                reply::bulk(out, b"tracking-redir-broken");
                reply::integer(out, id as i64);
            });
        }
    }

    /// Appends a push, or keeps it during an array of replies. RESP2 has no pushes.
    fn push(&mut self, out: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) {
        if self.version == Version::Three {
            let is_within = matches!(self.state, State::Keys(_));
            append(if is_within { &mut self.pushes } else { out });
        }
    }

    /// Appends the kept pushes, if permitted now.
    #[inline]
    pub(super) fn take_pushes(&mut self, out: &mut Vec<u8>) {
        if !self.pushes.is_empty() && !matches!(self.state, State::Keys(_)) {
            out.append(&mut self.pushes);
            self.pushes = Vec::new();
        }
    }
}

fn push_stale(out: &mut Vec<u8>, stale: &Stale) {
    reply::push(out, 2);
    reply::bulk(out, b"invalidate");
    match stale {
        Stale::Key(key) => {
            reply::array(out, 1);
            reply::bulk(out, key);
        }
        Stale::All => reply::null(out, Version::Three),
    }
}

/// Tracks a key before it is read. Returns whether tracking it is new.
#[cold]
pub(super) fn remember(key: &[u8], tracker: Tracker, turn: &Turn<'_>) -> bool {
    let items = &turn.shared.items;
    // A longer key can never have an entry.
    key.len() <= frazil_segment::KEY_BYTES_MAX && {
        let is_present = seen::contains(&items.store, key);
        items.tracking.remember(key, tracker, is_present, items.flights.mail())
    }
}

/// Tracks the keys of a request that only reads.
pub(super) fn remember_all(session: &Session, command: &Command, args: &Args<'_>, turn: &Turn<'_>) {
    if let Some(tracker) = session.tracker().filter(|_| command.is(READONLY)) {
        table::keys_of(command, args).for_each(|key| {
            remember(key, tracker, turn);
        });
    }
}

/// Notifies a client that the copy it is given now is out of date.
pub(super) fn tell_at_once(key: &[u8], tracker: Tracker, turn: &Turn<'_>) {
    let to = ((tracker.id, tracker.place), Stale::Key(key.into()));
    turn.shared.items.flights.mail().tell([to].into_iter());
}

pub(super) fn track(call: &mut Call<'_, '_>) -> Done {
    let is_on = client::on_or_off(call.args.get(2))?;
    // As in Redis, options are read with `OFF` too, and have no effect.
    let asked = asked(call, is_on)?;
    if is_on {
        let session = &mut *call.session;
        check(session, &asked)?;
        session.stop_tracking();
        let redirect = asked.redirect.as_ref().map_or(0, |target| target.id as i64);
        session.client.redirect.store(redirect, Relaxed);
        asked.table.join(session.own(), &asked.prefixes);
        session.copies = Some(Box::new(asked));
    } else {
        call.session.stop_tracking();
    }
    reply::ok(call.turn.out);
    Ok(())
}

/// The options of `CLIENT TRACKING`. Only with `ON` they must suit each other.
fn asked(call: &Call<'_, '_>, is_on: bool) -> Result<Copies, Problem> {
    let mut asked = Copies {
        table: Arc::clone(&call.turn.shared.items.tracking),
        mode: Mode::Read,
        prefixes: Vec::new(),
        redirect: None,
        is_unheard: false,
        is_said: false,
        is_broken: false,
    };
    let (mut opt_in, mut opt_out, mut all) = (false, false, false);
    let mut words = call.args.from(3);
    while let Some(word) = words.next() {
        match word.to_ascii_lowercase().as_slice() {
            b"redirect" => {
                if asked.redirect.is_some() {
                    return Err("ERR A client can only redirect to a single other client".into());
                }
                let id = client::id(words.next().ok_or(SYNTAX)?)?;
                let target = call.turn.shared.resp.clients.select(|client| client.id == id);
                let gone = "ERR The client ID you want redirect to does not exist";
                asked.redirect = Some(target.into_iter().next().ok_or(gone)?);
            }
            b"prefix" => {
                add_prefix(&mut asked.prefixes, words.next().ok_or(SYNTAX)?)?;
            }
            b"bcast" => all = true,
            b"optin" => opt_in = true,
            b"optout" => opt_out = true,
            b"noloop" => asked.is_unheard = true,
            _ => return Err(SYNTAX.into()),
        }
    }
    if !is_on {
        return Ok(asked);
    }
    if !all && !asked.prefixes.is_empty() {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    if opt_in && opt_out {
        return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
    }
    if all && (opt_in || opt_out) {
        return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
    }
    asked.mode = match (all, opt_in, opt_out) {
        (true, ..) => Mode::Prefixes,
        (_, true, _) => Mode::OptIn,
        (_, _, true) => Mode::OptOut,
        _ => Mode::Read,
    };
    if all && asked.prefixes.is_empty() {
        asked.prefixes.push(Box::default());
    }
    // Messages name keys, so the user must have the right to read all keys with these prefixes.
    if !asked.prefixes.iter().all(|prefix| call.session.may_read(prefix)) {
        call.turn.counters.denied.add(1);
        return Err(acl::NO_KEY.into());
    }
    Ok(asked)
}

/// Whether one begins with the other: a client would be notified twice.
fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn overlapping(one: &[u8], other: &[u8]) -> Problem {
    let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
    format!(
        "ERR Prefix '{one}' overlaps with an existing prefix '{other}'. Prefixes for a single \
         client must not overlap."
    )
    .into()
}

fn add_prefix(prefixes: &mut Vec<Box<[u8]>>, prefix: &[u8]) -> Done {
    if prefixes.len() == PREFIXES_MAX || prefix.len() > frazil_segment::KEY_BYTES_MAX {
        return Err("ERR a connection has no more than 64 prefixes of 255 bytes".into());
    }
    if let Some(other) = prefixes.iter().find(|other| overlap(other, prefix)) {
        return Err(overlapping(prefix, other));
    }
    prefixes.push(prefix.into());
    Ok(())
}

/// Checks a request against the client's version and its present tracking.
fn check(session: &Session, asked: &Copies) -> Done {
    let told = asked.redirect.as_deref().unwrap_or(&session.client);
    if told.version.load(Relaxed) != 3 {
        return Err("ERR only a connection with RESP3 is told of changes (HELLO 3): \
                    this one, or that of REDIRECT"
            .into());
    }
    let Some(now) = &session.copies else { return Ok(()) };
    let is_all = |mode| mode == Mode::Prefixes;
    let what = if is_all(now.mode) != is_all(asked.mode) {
        "BCAST mode on/off"
    } else if now.mode != asked.mode {
        "OPTIN/OPTOUT mode"
    } else {
        return Ok(());
    };
    Err(format!(
        "ERR You can't switch {what} before disabling tracking for this client, and then \
         re-enabling it with a different mode."
    )
    .into())
}

pub(super) fn caching(call: &mut Call<'_, '_>) -> Done {
    let word = call.args.get(2).to_ascii_lowercase();
    let copies = call.session.copies.as_mut();
    let copies = copies.filter(|copies| matches!(copies.mode, Mode::OptIn | Mode::OptOut));
    let copies = copies.ok_or(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
         OPTOUT mode enabled",
    )?;
    match (word.as_slice(), copies.mode) {
        (b"yes", Mode::OptIn) | (b"no", Mode::OptOut) => copies.is_said = true,
        (b"yes", _) => {
            return Err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN \
                        mode."
                .into());
        }
        (b"no", _) => {
            return Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT \
                        mode."
                .into());
        }
        _ => return Err(SYNTAX.into()),
    }
    reply::ok(call.turn.out);
    Ok(())
}

pub(super) fn show(call: &mut Call<'_, '_>) -> Done {
    let (session, out) = (&*call.session, &mut *call.turn.out);
    let copies = session.copies.as_deref();
    let mut flags = vec![if copies.is_some() { "on" } else { "off" }];
    if let Some(Copies { mode, is_said, is_unheard, redirect, .. }) = copies {
        let (of_mode, of_said) = match mode {
            Mode::Read => ("", ""),
            Mode::Prefixes => ("bcast", ""),
            Mode::OptIn => ("optin", if *is_said { "caching-yes" } else { "" }),
            Mode::OptOut => ("optout", if *is_said { "caching-no" } else { "" }),
        };
        flags.extend([of_mode, of_said].into_iter().filter(|flag| !flag.is_empty()));
        flags.extend(is_unheard.then_some("noloop"));
        let is_broken = redirect.as_ref().is_some_and(|target| target.has_gone.load(Relaxed));
        flags.extend(is_broken.then_some("broken_redirect"));
    }
    reply::map(out, 3, session.version);
    reply::bulk(out, b"flags");
    reply::set(out, flags.len(), session.version);
    flags.iter().for_each(|flag| reply::bulk(out, flag.as_bytes()));
    reply::bulk(out, b"redirect");
    reply::integer(out, session.client.redirect.load(Relaxed));
    reply::bulk(out, b"prefixes");
    let prefixes = copies.map_or(&[][..], |copies| &copies.prefixes);
    reply::array(out, prefixes.len());
    prefixes.iter().for_each(|prefix| reply::bulk(out, prefix));
    Ok(())
}
