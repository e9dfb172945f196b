//! Commands about the connection.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use super::clients::{About, Client};
use super::reply::Version;
use super::strings::SYNTAX;
use super::{Call, Done, Problem, Replies, acl, keys, number, reply, table, tracking};

/// Length of the name of a client or of its library.
const NAME_BYTES_MAX: usize = 128;

pub(super) fn ping(call: &mut Call<'_, '_>) -> Done {
    match call.args.len() {
        1 => reply::simple(call.turn.out, "PONG"),
        2 => reply::bulk(call.turn.out, call.args.get(1)),
        _ => return Err(table::wrong_count("ping")),
    }
    Ok(())
}

pub(super) fn echo(call: &mut Call<'_, '_>) -> Done {
    reply::bulk(call.turn.out, call.args.get(1));
    Ok(())
}

pub(super) fn quit(call: &mut Call<'_, '_>) -> Done {
    call.session.closes = true;
    reply::ok(call.turn.out);
    Ok(())
}

pub(super) fn reset(call: &mut Call<'_, '_>) -> Done {
    let session = &mut *call.session;
    session.stop_tracking();
    session.transaction = None;
    session.watched = None;
    session.replies = Replies::On;
    session.speak(Version::Two);
    session.client.set_name("".into());
    acl::forget(session, call.turn);
    reply::simple(call.turn.out, "RESET");
    Ok(())
}

pub(super) fn select(call: &mut Call<'_, '_>) -> Done {
    let text = call.args.get(1);
    keys::database(text)?;
    reply::ok(call.turn.out);
    Ok(())
}

pub(super) fn time(call: &mut Call<'_, '_>) -> Done {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    reply::array(call.turn.out, 2);
    for part in [now.as_secs(), now.subsec_micros().into()] {
        reply::bulk(call.turn.out, itoa::Buffer::new().format(part).as_bytes());
    }
    Ok(())
}

pub(super) fn hello(call: &mut Call<'_, '_>) -> Done {
    let Call { session, args, turn } = call;
    let mut words = args.from(1);
    let version = match words.next() {
        None => session.version,
        Some(b"2") => Version::Two,
        Some(b"3") => Version::Three,
        Some(text) if number::integer(text).is_none() => {
            return Err("ERR Protocol version is not an integer or out of range".into());
        }
        Some(_) => return Err("NOPROTO unsupported protocol version".into()),
    };
    let mut name = None;
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"auth") {
            let (user, password) = words.next().zip(words.next()).ok_or_else(|| of_hello(word))?;
            acl::authenticate(session, user, password, turn)?;
        } else if word.eq_ignore_ascii_case(b"setname") {
            name = Some(checked(words.next().ok_or_else(|| of_hello(word))?, "Client names")?);
        } else {
            return Err(of_hello(word));
        }
    }
    acl::check_hello(session)?;
    if let Some(name) = name {
        session.client.set_name(name);
    }
    session.speak(version);
    let out = &mut *turn.out;
    reply::map(out, 7, version);
    let number = if version == Version::Two { 2 } else { 3 };
    reply::bulk(out, b"server");
    reply::bulk(out, b"redis");
    reply::bulk(out, b"version");
    reply::bulk(out, super::REDIS_VERSION.as_bytes());
    reply::bulk(out, b"proto");
    reply::integer(out, number);
    reply::bulk(out, b"id");
    reply::integer(out, session.client.id as i64);
    reply::bulk(out, b"mode");
    reply::bulk(out, turn.shared.resp.mode().as_bytes());
    reply::bulk(out, b"role");
    reply::bulk(out, b"master");
    reply::bulk(out, b"modules");
    reply::array(out, 0);
    Ok(())
}

fn of_hello(word: &[u8]) -> Problem {
    let word = String::from_utf8_lossy(&word[..word.len().min(64)]);
    format!("ERR Syntax error in HELLO option '{word}'").into()
}

/// A name that is fit for a list of clients.
fn checked(name: &[u8], what: &str) -> Result<Box<str>, Problem> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("ERR {what} cannot be longer than {NAME_BYTES_MAX} bytes").into());
    }
    match std::str::from_utf8(name) {
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(text.into()),
        _ => {
            Err(format!("ERR {what} cannot contain spaces, newlines or special characters.").into())
        }
    }
}

pub(super) fn client(call: &mut Call<'_, '_>) -> Done {
    let (args, word) = (call.args, call.args.get(1).to_ascii_lowercase());
    match (word.as_slice(), args.len()) {
        (b"id", 2) => reply::integer(call.turn.out, call.session.client.id as i64),
        (b"getname", 2) => {
            let about = call.session.client.about.lock();
            let name = about.as_ref().map(|about| about.name.as_bytes());
            let name = name.filter(|name| !name.is_empty());
            reply::value(call.turn.out, name, call.session.version);
        }
        (b"setname", 3) => {
            let name = checked(args.get(2), "Client names")?;
            call.session.client.set_name(name);
            reply::ok(call.turn.out);
        }
        (b"setinfo", 4) => return set_info(call),
        (b"info", 2) => {
            let mut text = String::new();
            call.session.client.show(call.turn.now_ms, &mut text);
            reply::verbatim(call.turn.out, text.as_bytes(), call.session.version);
        }
        (b"list", 2..) => return list(call),
        (b"kill", 3..) => return kill(call),
        (b"reply", 3) => return set_replies(call),
        (b"no-evict" | b"no-touch", 3) => {
            // The memory of connections is limited anyway, and look-ups always count as requests.
            on_or_off(args.get(2))?;
            reply::ok(call.turn.out);
        }
        (b"getredir", 2) => {
            reply::integer(call.turn.out, call.session.client.redirect.load(Relaxed));
        }
        (b"tracking", 3..) => return tracking::track(call),
        (b"caching", 3) => return tracking::caching(call),
        (b"trackinginfo", 2) => return tracking::show(call),
        _ => return Err(table::unknown_subcommand("client", args)),
    }
    Ok(())
}

pub(super) fn on_or_off(word: &[u8]) -> Result<bool, Problem> {
    match word.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(SYNTAX.into()),
    }
}

fn set_info(call: &mut Call<'_, '_>) -> Done {
    let field: fn(&mut About) -> &mut Box<str> =
        match call.args.get(2).to_ascii_lowercase().as_slice() {
            b"lib-name" => |about| &mut about.library,
            b"lib-ver" => |about| &mut about.library_version,
            _ => return Err("ERR Unrecognized option".into()),
        };
    let value = checked(call.args.get(3), "Library names and versions")?;
    *field(call.session.client.about.lock().get_or_insert_default()) = value;
    reply::ok(call.turn.out);
    Ok(())
}

fn set_replies(call: &mut Call<'_, '_>) -> Done {
    call.session.replies = match call.args.get(2).to_ascii_lowercase().as_slice() {
        b"on" => Replies::On,
        b"off" => Replies::Off,
        b"skip" if call.session.replies == Replies::Off => Replies::Off,
        b"skip" => Replies::SkipNext,
        _ => return Err(SYNTAX.into()),
    };
    if call.session.replies == Replies::On {
        reply::ok(call.turn.out);
    }
    Ok(())
}

pub(super) fn id(text: &[u8]) -> Result<u64, Problem> {
    let id = number::integer(text).and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
    id.ok_or("ERR client-id should be greater than 0".into())
}

fn maxage(text: &[u8]) -> Result<u64, Problem> {
    let seconds = number::integer(text).ok_or("ERR maxage is not an integer or out of range")?;
    let seconds = u64::try_from(seconds).ok().filter(|&seconds| seconds > 0);
    seconds.ok_or("ERR maxage should be greater than 0".into())
}

/// Whether a type includes the clients of this server.
fn is_normal(kind: &[u8]) -> Result<bool, Problem> {
    match kind.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(true),
        b"master" | b"replica" | b"slave" | b"pubsub" => Ok(false),
        _ => {
            let kind = String::from_utf8_lossy(&kind[..kind.len().min(64)]);
            Err(format!("ERR Unknown client type '{kind}'").into())
        }
    }
}

fn list(call: &mut Call<'_, '_>) -> Done {
    let (args, clients) = (call.args, &call.turn.shared.resp.clients);
    let meant = match (args.len(), args.get(2).to_ascii_lowercase().as_slice()) {
        (2, _) => clients.select(|_| true),
        (4, b"type") => {
            let are_meant = is_normal(args.get(3))?;
            clients.select(|_| are_meant)
        }
        (4.., b"id") => {
            let ids = args.from(3).map(id).collect::<Result<std::collections::BTreeSet<_>, _>>()?;
            clients.select(|client| ids.contains(&client.id))
        }
        _ => return Err(SYNTAX.into()),
    };
    let mut text = String::new();
    for client in meant {
        client.show(call.turn.now_ms, &mut text);
    }
    reply::verbatim(call.turn.out, text.as_bytes(), call.session.version);
    Ok(())
}

/// Words of `CLIENT KILL` with each of its conditions once.
const KILL_WORDS_MAX: usize = 16;

/// A filter of clients.
type Condition<'c> = Box<dyn Fn(&Client) -> bool + 'c>;

fn kill(call: &mut Call<'_, '_>) -> Done {
    let (args, own) = (call.args, call.session.client.id);
    let is_old = args.len() == 3;
    let mut conditions: Vec<Condition<'_>> = Vec::new();
    let mut skips_own = !is_old;
    if is_old {
        conditions.push(Box::new(|client| client.shown_ends().0.as_bytes() == args.get(2)));
    } else if !args.len().is_multiple_of(2) || args.len() > KILL_WORDS_MAX {
        return Err(SYNTAX.into());
    }
    for at in (2..args.len()).step_by(2).filter(|_| !is_old) {
        let value = args.get(at + 1);
        match args.get(at).to_ascii_lowercase().as_slice() {
            b"id" => {
                let id = id(value)?;
                conditions.push(Box::new(move |client| client.id == id));
            }
            b"addr" => {
                conditions.push(Box::new(move |client| client.shown_ends().0.as_bytes() == value))
            }
            b"laddr" => {
                conditions.push(Box::new(move |client| client.shown_ends().1.as_bytes() == value))
            }
            b"user" => conditions.push(Box::new(move |client| client.user().as_bytes() == value)),
            b"type" => {
                let are_meant = is_normal(value)?;
                conditions.push(Box::new(move |_| are_meant));
            }
            b"maxage" => {
                let (seconds, now_ms) = (maxage(value)?, call.turn.now_ms);
                conditions.push(Box::new(move |client| client.age_seconds(now_ms) >= seconds));
            }
            b"skipme" => match value.to_ascii_lowercase().as_slice() {
                b"yes" => skips_own = true,
                b"no" => skips_own = false,
                _ => return Err(SYNTAX.into()),
            },
            _ => return Err(SYNTAX.into()),
        }
    }
    let meant = call.turn.shared.resp.clients.select(|client| {
        !(skips_own && client.id == own) && conditions.iter().all(|is_met| is_met(client))
    });
    for client in &meant {
        // Its thread reads this when it serves the connection, after each request other than a look-up, and once a
        // second.
        client.is_killed.store(true, Relaxed);
    }
    match is_old {
        true if meant.is_empty() => return Err("ERR No such client".into()),
        true => reply::ok(call.turn.out),
        false => reply::integer(call.turn.out, meant.len() as i64),
    }
    Ok(())
}

pub(super) fn refused(call: &mut Call<'_, '_>) -> Done {
    let why = match call.args.get(0).to_ascii_lowercase().as_slice() {
        b"debug" => "ERR DEBUG command not allowed",
        b"shutdown" => "ERR the server is stopped by a signal",
        _ => "ERR nothing is saved",
    };
    Err(why.into())
}

pub(super) fn function(call: &mut Call<'_, '_>) -> Done {
    let out = &mut *call.turn.out;
    match call.args.get(1).to_ascii_lowercase().as_slice() {
        // Functions cannot be loaded, so there are none to remove.
        b"flush" => reply::ok(out),
        b"list" => reply::array(out, 0),
        _ => return Err(table::unknown_subcommand("function", call.args)),
    }
    Ok(())
}
