//! Users of memcached: a file of them, the request that logs in, and the rights of requests.
//!
//! As in memcached, the request is `set KEY 0 0 BYTES`, with `USER PASSWORD` as the value.

use std::io;
use std::path::Path;

use memchr::memchr;

use super::{Flow, KEY_BYTES_MAX, Session, Tokens, base64, line, number, reply, split};
use crate::access::{ADMIN, Attempt, DANGEROUS, Pass, READ, WRITE};
use crate::worker::Turn;

/// Length of a user and password together.
const VALUE_BYTES_MAX: usize = 1024;
/// Users in a file.
const USERS_MAX: usize = 4096;

/// The reply to a request that its user may not make.
pub(super) const DENIED: &[u8] = b"CLIENT_ERROR unauthorized";

/// Users and their passwords.
#[derive(Debug)]
pub(super) struct Users(Vec<(Vec<u8>, Vec<u8>)>);

impl Users {
    /// Reads a file of lines `user:password`.
    pub(super) fn read(path: &Path) -> io::Result<Users> {
        let text = std::fs::read(path)?;
        let mut users = Vec::new();
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let end = memchr(b':', line).ok_or_else(|| {
                io::Error::other("expected USER:PASSWORD on each line, found one without `:`")
            })?;
            let password = line[end + 1..].trim_ascii_end();
            users.push((line[..end].to_vec(), password.to_vec()));
        }
        if users.len() > USERS_MAX {
            return Err(io::Error::other("more than 4096 users"));
        }
        Ok(Users(users))
    }

    /// Constant time for wrong passwords of one length.
    fn has(&self, user: &[u8], password: &[u8]) -> bool {
        let mut found = false;
        for (name, secret) in &self.0 {
            let same = name.len() == user.len() && secret.len() == password.len();
            let bytes = name.iter().chain(secret).zip(user.iter().chain(password));
            let differs = bytes.fold(0, |differs, (one, other)| differs | (one ^ other));
            found |= same && differs == 0;
        }
        found
    }
}

/// Serves a request of a connection that has not logged in.
pub(super) fn request(session: &mut Session, rest: &[u8], turn: &mut Turn<'_>) -> (usize, Flow) {
    let Some((line, bytes)) = line(rest) else {
        let flow = if rest.len() > turn.shared.memcached.line_bytes_max {
            turn.counters.long_lines.add(1);
            Flow::Close
        } else {
            Flow::Read(rest.len() + 1)
        };
        return (0, flow);
    };
    let tokens = Tokens::of(line);
    let length = number::length(tokens.get(4));
    let Some(length) = length.filter(|_| tokens.count >= 5 && tokens.command() == b"set") else {
        reply(turn, b"CLIENT_ERROR unauthenticated");
        return (bytes, Flow::Go);
    };
    let Some(length) = usize::try_from(length).ok().filter(|&length| length <= VALUE_BYTES_MAX)
    else {
        // No credentials are that long, and nobody may keep the server reading without them.
        reply(turn, b"CLIENT_ERROR unauthenticated");
        return (bytes, Flow::Close);
    };
    let whole = bytes + length + 2;
    let Some(value) = rest.get(bytes..whole) else { return (0, Flow::Read(whole)) };
    let answer = match value.strip_suffix(b"\r\n").map(Tokens::of) {
        None => &b"CLIENT_ERROR bad command line termination"[..],
        Some(named) if named.count < 2 => b"CLIENT_ERROR bad authentication token format",
        Some(named) => match attempt(session, named.get(0), named.get(1), turn) {
            Attempt::Waits => return (0, Flow::Verdict),
            Attempt::Refused => &b"SERVER_ERROR too many passwords are being verified"[..],
            Attempt::Right => {
                turn.counters.auths.add(1);
                &b"STORED"[..]
            }
            Attempt::Wrong => {
                turn.counters.auths.add(1);
                turn.counters.auth_errors.add(1);
                b"CLIENT_ERROR authentication failure"
            }
        },
    };
    reply(turn, answer);
    (whole, Flow::Go)
}

fn attempt(session: &mut Session, name: &[u8], password: &[u8], turn: &Turn<'_>) -> Attempt {
    if let Some(users) = &turn.shared.memcached.users {
        if !users.has(name, password) {
            return Attempt::Wrong;
        }
        session.pass = Pass::free();
        return Attempt::Right;
    }
    match &turn.shared.access {
        Some(access) => session.pass.attempt(access, name, password, turn),
        None => Attempt::Right,
    }
}

/// The rights that a request needs: classes, and keys.
enum Needs<'i> {
    Classes(u8),
    /// On every key.
    All(u8),
    /// On the tokens from this one on.
    Keys(u8, usize),
    /// On the key of a meta request, which may be in base 64.
    Meta(u8, &'i [u8]),
}

fn needs(line: &[u8]) -> Needs<'_> {
    let tokens = Tokens::of(line);
    let has = |flags: &[u8]| tokens.all().iter().skip(2).any(|token| flags.contains(&token[0]));
    match tokens.command() {
        b"get" | b"gets" | b"bget" => Needs::Keys(READ, 1),
        b"gat" | b"gats" => Needs::Keys(READ | WRITE, 2),
        b"mg" if has(b"NTR") => Needs::Meta(READ | WRITE, tokens.get(1)),
        b"mg" | b"me" => Needs::Meta(READ, tokens.get(1)),
        b"ms" | b"md" | b"ma" => Needs::Meta(WRITE, tokens.get(1)),
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" | b"delete" | b"incr"
        | b"decr" | b"touch" => Needs::Meta(WRITE, tokens.get(1)),
        b"flush_all" => Needs::All(WRITE | DANGEROUS),
        b"stats" if matches!(tokens.get(1), b"cachedump" | b"detail") => {
            Needs::All(READ | DANGEROUS)
        }
        b"stats" => Needs::Classes(DANGEROUS),
        b"lru_crawler" => Needs::All(READ | ADMIN | DANGEROUS),
        b"verbosity" | b"shutdown" | b"cache_memlimit" | b"slabs" | b"debugtime" | b"watch" => {
            Needs::Classes(ADMIN | DANGEROUS)
        }
        _ => Needs::Classes(0),
    }
}

/// Whether the user may not make the request in this line.
pub(super) fn denies(pass: &Pass, line: &[u8]) -> bool {
    !match needs(line) {
        Needs::Classes(classes) => pass.may(classes),
        Needs::All(classes) => pass.may(classes) && pass.may_use_all(),
        Needs::Keys(classes, first) => {
            let mut keys = split(line).skip(first);
            pass.may(classes) && keys.all(|(_, key)| pass.may_use(key))
        }
        Needs::Meta(classes, key) => pass.may(classes) && may_use_meta(pass, line, key),
    }
}

/// Whether the user may use the key of a line, both decoded and as written.
fn may_use_meta(pass: &Pass, line: &[u8], key: &[u8]) -> bool {
    let is_meta = split(line).next().is_some_and(|(_, command)| command.len() == 2);
    let is_binary = is_meta && split(line).skip(2).any(|(_, flag)| flag[0] == b'b');
    if !is_binary {
        return pass.may_use(key);
    }
    let mut decoded = [0; KEY_BYTES_MAX];
    base64::decode(key, &mut decoded).is_some_and(|key| pass.may_use(key))
}

/// Refuses a request, and skips its value.
pub(super) fn deny(session: &mut Session, line: &[u8], turn: &mut Turn<'_>) -> Flow {
    let tokens = Tokens::of(line);
    turn.counters.denied.add(1);
    if tokens.last() != b"noreply" {
        reply(turn, DENIED);
    }
    let length = match tokens.command() {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => tokens.get(4),
        b"ms" => tokens.get(2),
        _ => return Flow::Go,
    };
    number::length(length).map_or(Flow::Go, |length| session.skip(length))
}
