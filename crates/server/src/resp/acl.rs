//! The user of a connection and its rights: `AUTH`, `ACL`, and the check of each request.

use super::request::Args;
use super::table::{self, ADMIN as ADMIN_FLAG, COMMANDS, Command, READONLY, WRITE as WRITE_FLAG};
use super::{Call, Done, Problem, Session, reply};
use crate::access::{ADMIN, Attempt, CLASSES, DANGEROUS, Pass, READ, User, WRITE};
use crate::worker::Turn;

/// Length of a request before the log-in.
pub(super) const STRANGER_BYTES_MAX: usize = 16 << 10;
const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const UNAUTHENTICATED: &str = "NOAUTH Authentication required.";
pub(super) const NO_KEY: &str = "NOPERM No permissions to access a key";

/// The classes that a request needs.
pub(super) fn classes(command: &Command, subcommand: &[u8]) -> u8 {
    let mut classes = 0;
    for (flag, class) in [(READONLY, READ), (WRITE_FLAG, WRITE), (ADMIN_FLAG, ADMIN | DANGEROUS)] {
        if command.is(flag) {
            classes |= class;
        }
    }
    let is =
        |names: &[&str]| names.iter().any(|name| subcommand.eq_ignore_ascii_case(name.as_bytes()));
    classes
        | match command.name {
            "flushall" | "flushdb" | "info" | "keys" => DANGEROUS,
            "client" if is(&["kill", "list"]) => ADMIN | DANGEROUS,
            "acl" if !is(&["whoami", "cat"]) => ADMIN | DANGEROUS,
            _ => 0,
        }
}

/// Whether a request visits all keys, so that it needs the right to all.
fn is_for_all_keys(command: &Command) -> bool {
    matches!(command.name, "flushall" | "flushdb" | "hotkeys" | "keys" | "randomkey" | "scan")
}

/// The keys among the arguments, the first of which is the command.
fn keys<'a>(
    command: &Command,
    count: usize,
    arguments: impl Iterator<Item = &'a [u8]>,
) -> impl Iterator<Item = &'a [u8]> {
    let (first, last, step) = command.keys;
    let last = if last < 0 { count as i32 + last } else { last };
    let is_key = move |place: i32| {
        first > 0 && (first..=last).contains(&place) && (place - first) % step == 0
    };
    arguments.enumerate().filter(move |(place, _)| is_key(*place as i32)).map(|(_, key)| key)
}

/// The missing right of a user.
enum Denied<'a> {
    Command,
    Key(&'a [u8]),
}

/// The right that a user lacks for a request; its command is the argument at `from`.
fn denied<'a>(
    user: &User,
    command: &Command,
    args: &'a Args<'_>,
    from: usize,
) -> Option<Denied<'a>> {
    if !user.may(classes(command, args.get(from + 1))) {
        return Some(Denied::Command);
    }
    if !user.has_prefixes() {
        return None;
    }
    if is_for_all_keys(command) {
        return Some(Denied::Key(b"*"));
    }
    let mut keys = keys(command, args.len() - from, args.from(from));
    keys.find(|key| !user.may_use(key)).map(Denied::Key)
}

/// Checks a request of a connection without all rights.
pub(super) fn check(
    session: &Session,
    command: &Command,
    args: &Args<'_>,
    turn: &Turn<'_>,
) -> Done {
    let pass = &session.pass;
    if !pass.is_known() {
        return match command.name {
            "auth" | "hello" | "quit" | "reset" => Ok(()),
            _ => Err(UNAUTHENTICATED.into()),
        };
    }
    let found = pass.user().and_then(|user| denied(user, command, args, 0));
    let Some(denied) = found else { return Ok(()) };
    turn.counters.denied.add(1);
    Err(match denied {
        Denied::Command => no_command(pass.name(), command.name).into(),
        Denied::Key(_) => NO_KEY.into(),
    })
}

fn no_command(user: &str, command: &str) -> String {
    format!("NOPERM User {user} has no permissions to run the '{command}' command")
}

/// `AUTH`.
pub(super) fn auth(call: &mut Call<'_, '_>) -> Done {
    let (user, password) = match call.args.len() {
        2 if call.session.pass.is_free() && call.turn.shared.access.is_none() => {
            return Err(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?"
                    .into(),
            );
        }
        2 => (&b"default"[..], call.args.get(1)),
        3 => (call.args.get(1), call.args.get(2)),
        _ => return Err(super::strings::SYNTAX.into()),
    };
    authenticate(call.session, user, password, call.turn)?;
    reply::ok(call.turn.out);
    Ok(())
}

/// Logs a connection in. While the password is being verified the session's pass waits, and the replies of the
/// request are discarded: it is served again.
pub(super) fn authenticate(
    session: &mut Session,
    name: &[u8],
    password: &[u8],
    turn: &Turn<'_>,
) -> Done {
    let Some(access) = &turn.shared.access else {
        // There is a single user, without a password, so any password is right.
        return if name == b"default" { Ok(()) } else { Err(WRONG.into()) };
    };
    match session.pass.attempt(access, name, password, turn) {
        Attempt::Right => {
            turn.counters.auths.add(1);
            session.client.set_user(session.pass.name());
            Ok(())
        }
        Attempt::Wrong => {
            turn.counters.auths.add(1);
            turn.counters.auth_errors.add(1);
            Err(WRONG.into())
        }
        Attempt::Waits => Err("".into()),
        Attempt::Refused => Err("ERR too many passwords are being verified, try again".into()),
    }
}

/// Logs the connection out.
pub(super) fn forget(session: &mut Session, turn: &Turn<'_>) {
    session.pass = Pass::new(turn.shared.access.as_ref());
    session.client.set_user(session.pass.name());
}

/// Refuses `HELLO` without a user, on a connection that must log in.
pub(super) fn check_hello(session: &Session) -> Done {
    if session.pass.is_known() {
        return Ok(());
    }
    Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
         <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
         the same time"
        .into())
}

/// `ACL`.
pub(super) fn acl(call: &mut Call<'_, '_>) -> Done {
    let (args, count) = (call.args, call.args.len());
    let word = args.get(1).to_ascii_lowercase();
    match (word.as_slice(), count) {
        (b"whoami", 2) => reply::bulk(call.turn.out, call.session.pass.name().as_bytes()),
        (b"cat", 2) => {
            reply::array(call.turn.out, CLASSES.len());
            CLASSES.iter().for_each(|(_, name)| reply::bulk(call.turn.out, name.as_bytes()));
        }
        (b"cat", 3) => return commands_of(call),
        (b"users", 2) => users(call, |user| user.map_or("default", |user| &user.name).to_owned()),
        (b"list", 2) => users(call, line),
        (b"getuser", 3) => get_user(call),
        (b"dryrun", 4..) => return dry_run(call),
        (b"setuser" | b"deluser" | b"load" | b"save" | b"genpass" | b"log", _) => {
            let word = String::from_utf8_lossy(&word).to_ascii_uppercase();
            return Err(format!(
                "ERR ACL {word} is not supported: users are in the file of --users, read again at SIGHUP"
            )
            .into());
        }
        _ => return Err(table::unknown_subcommand("acl", args)),
    }
    Ok(())
}

fn commands_of(call: &mut Call<'_, '_>) -> Done {
    let wanted = call.args.get(2);
    let is_meant = |(_, name): &&(u8, &str)| wanted.eq_ignore_ascii_case(name.as_bytes());
    let Some(&(class, _)) = CLASSES.iter().find(is_meant) else {
        let shown = String::from_utf8_lossy(&wanted[..wanted.len().min(64)]);
        return Err(format!("ERR Unknown category '{shown}'").into());
    };
    let names = || COMMANDS.iter().filter(|command| classes(command, b"") & class != 0);
    reply::array(call.turn.out, names().count());
    names().for_each(|command| reply::bulk(call.turn.out, command.name.as_bytes()));
    Ok(())
}

/// Replies a line or a name for each user. `None` is the only user where there is no file.
fn users(call: &mut Call<'_, '_>, shown: impl Fn(Option<&User>) -> String) {
    let out = &mut *call.turn.out;
    let Some(access) = &call.turn.shared.access else {
        reply::array(out, 1);
        return reply::bulk(out, shown(None).as_bytes());
    };
    let users = access.users();
    reply::array(out, users.all().len());
    users.all().for_each(|user| reply::bulk(out, shown(Some(user)).as_bytes()));
}

/// A user in the format of `ACL LIST`, without the password.
fn line(user: Option<&User>) -> String {
    let Some(user) = user else { return "user default on nopass ~* &* +@all".into() };
    let password = if user.needs_password() { "" } else { " nopass" };
    format!("user {} on{password} {} &* {}", user.name, user.shown_keys(), user.shown_commands())
}

fn get_user(call: &mut Call<'_, '_>) {
    let (name, version) = (call.args.get(2), call.session.version);
    let users = call.turn.shared.access.as_ref().map(|access| access.users());
    let out = &mut *call.turn.out;
    let user = match &users {
        Some(users) => users
            .get(name)
            .map(|user| (user.needs_password(), user.shown_keys(), user.shown_commands())),
        None => (name == b"default").then(|| (false, "~*".to_owned(), "+@all".to_owned())),
    };
    let Some((needs_password, keys, commands)) = user else {
        return reply::null_array(out, version);
    };
    reply::map(out, 6, version);
    reply::bulk(out, b"flags");
    let flags: &[&str] = if needs_password { &["on"] } else { &["on", "nopass"] };
    reply::array(out, flags.len());
    flags.iter().for_each(|flag| reply::bulk(out, flag.as_bytes()));
    // Hashes of passwords are not shown.
    reply::bulk(out, b"passwords");
    reply::array(out, 0);
    for (field, value) in [("commands", commands), ("keys", keys), ("channels", "&*".into())] {
        reply::bulk(out, field.as_bytes());
        reply::bulk(out, value.as_bytes());
    }
    reply::bulk(out, b"selectors");
    reply::array(out, 0);
}

/// `ACL DRYRUN`: whether a user has the right to a request.
fn dry_run(call: &mut Call<'_, '_>) -> Done {
    let args = call.args;
    let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(128)]).into_owned();
    let unknown = || Problem::from(format!("ERR User '{}' not found", shown(args.get(2))));
    let command = table::by_name(args.get(3))
        .ok_or_else(|| Problem::from(format!("ERR Command '{}' not found", shown(args.get(3)))))?;
    let count = args.len() - 3;
    if count as i32 != command.arity && (command.arity > 0 || (count as i32) < -command.arity) {
        return Err(table::wrong_count(command.name));
    }
    let name = shown(args.get(2));
    let Some(access) = &call.turn.shared.access else {
        if name != "default" {
            return Err(unknown());
        }
        reply::ok(call.turn.out);
        return Ok(());
    };
    let users = access.users();
    let user = users.get(args.get(2)).ok_or_else(unknown)?;
    let found = denied(user, command, args, 3);
    let out = &mut *call.turn.out;
    match found {
        None => reply::ok(out),
        Some(Denied::Command) => {
            let text = no_command(&name, command.name);
            reply::bulk(out, text.trim_start_matches("NOPERM ").as_bytes());
        }
        Some(Denied::Key(key)) => {
            let text = format!("User {name} has no permissions to access the '{}' key", shown(key));
            reply::bulk(out, text.as_bytes());
        }
    }
    Ok(())
}
