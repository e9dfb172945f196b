//! Who may speak: a file of users, and the request by which a connection says who it is.
//!
//! As in memcached, that is `set KEY 0 0 BYTES`, with `USER PASSWORD` as the value.

use std::io;
use std::path::Path;

use memchr::memchr;

use super::{Flow, Session, State, Tokens, line, number, reply};
use crate::worker::Turn;

/// The longest user and password together.
const VALUE_BYTES_MAX: usize = 1024;
/// Users of a file.
const USERS_MAX: usize = 4096;

/// Users and their passwords.
#[derive(Debug)]
pub(super) struct Users(Vec<(Vec<u8>, Vec<u8>)>);

impl Users {
    /// Reads a file of lines `user:password`.
    pub(super) fn read(path: &Path) -> io::Result<Users> {
        let text = std::fs::read(path)?;
        let mut users = Vec::new();
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let end = memchr(b':', line)
                .ok_or_else(|| io::Error::other("a line without `:`: USER:PASSWORD"))?;
            let password = line[end + 1..].trim_ascii_end();
            users.push((line[..end].to_vec(), password.to_vec()));
        }
        if users.len() > USERS_MAX {
            return Err(io::Error::other("more than 4096 users"));
        }
        Ok(Users(users))
    }

    /// Takes as long for any wrong password of the same length.
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

/// Serves a request of a connection that has not said who it is.
pub(super) fn request(session: &mut Session, rest: &[u8], turn: &mut Turn<'_>) -> (usize, Flow) {
    let Some((line, bytes)) = line(rest) else {
        let flow = if rest.len() > super::LINE_BYTES_MAX {
            Flow::Close
        } else {
            Flow::Read(rest.len() + 1)
        };
        return (0, flow);
    };
    let tokens = Tokens::of(line);
    let length = number::unsigned_32(tokens.get(4)).map(|length| length as usize);
    let Some(length) = length.filter(|_| tokens.count >= 5 && tokens.command() == b"set") else {
        reply(turn, b"CLIENT_ERROR unauthenticated");
        return (bytes, Flow::Go);
    };
    if length > VALUE_BYTES_MAX {
        reply(turn, b"CLIENT_ERROR unauthenticated");
        session.state = State::Swallow(length as u64 + 2);
        return (bytes, Flow::Go);
    }
    let whole = bytes + length + 2;
    let Some(value) = rest.get(bytes..whole) else { return (0, Flow::Read(whole)) };
    let answer = match value.strip_suffix(b"\r\n").map(Tokens::of) {
        None => &b"CLIENT_ERROR bad command line termination"[..],
        Some(named) if named.count < 2 => b"CLIENT_ERROR bad authentication token format",
        Some(named) => {
            turn.counters.auths.add(1);
            let users = turn.shared.memcached.users.as_ref();
            session.authenticated = users.is_none_or(|users| users.has(named.get(0), named.get(1)));
            if session.authenticated {
                &b"STORED"[..]
            } else {
                turn.counters.auth_errors.add(1);
                b"CLIENT_ERROR authentication failure"
            }
        }
    };
    reply(turn, answer);
    (whole, Flow::Go)
}
