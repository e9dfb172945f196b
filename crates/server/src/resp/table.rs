//! The table of commands.

use std::ops::RangeInclusive;

use super::request::Args;
use super::{
    Call, Done, Problem, acl, arithmetic, client, cluster, command, config, expire, hotkeys, info,
    keys, lcs, ranges, scan, strings, transaction, waiting,
};

/// A command.
pub(super) struct Command {
    /// In lower case.
    pub(super) name: &'static str,
    /// Number of arguments, with the name; negative: the least number.
    pub(super) arity: i32,
    /// Index of the first key and of the last, which may count from the end, and the step between keys; 0: no keys.
    pub(super) keys: (i32, i32, i32),
    flags: u8,
    pub(super) group: &'static str,
    pub(super) run: fn(&mut Call<'_, '_>) -> Done,
}

impl Command {
    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

pub(super) const WRITE: u8 = 1;
pub(super) const READONLY: u8 = 2;
/// Takes memory, and is refused when there is none.
pub(super) const DENYOOM: u8 = 4;
pub(super) const ADMIN: u8 = 8;
/// Is not queued in a transaction.
pub(super) const NO_MULTI: u8 = 16;
pub(super) const FAST: u8 = 32;
const NO_AUTH: u8 = 64;

/// The flags by the names that clients know.
pub(super) const FLAGS: [(u8, &str); 7] = [
    (WRITE, "write"),
    (READONLY, "readonly"),
    (DENYOOM, "denyoom"),
    (ADMIN, "admin"),
    (NO_MULTI, "no_multi"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
];

type Run = fn(&mut Call<'_, '_>) -> Done;

const fn row(
    name: &'static str,
    arity: i32,
    keys: (i32, i32, i32),
    flags: u8,
    group: &'static str,
    run: Run,
) -> Command {
    Command { name, arity, keys, flags, group, run }
}

/// Sorted by name.
#[rustfmt::skip]
pub(super) static COMMANDS: &[Command] = &[
    row("acl", -2, (0, 0, 0), 0, "server", acl::acl),
    row("append", 3, (1, 1, 1), WRITE | DENYOOM | FAST, "string", ranges::append),
    row("asking", 1, (0, 0, 0), FAST, "cluster", cluster::no_effect),
    row("auth", -2, (0, 0, 0), FAST | NO_AUTH, "connection", acl::auth),
    row("bgsave", -1, (0, 0, 0), ADMIN, "server", client::refused),
    row("bitcount", -2, (1, 1, 1), READONLY, "bitmap", ranges::bitcount),
    row("client", -2, (0, 0, 0), 0, "connection", client::client),
    row("cluster", -2, (0, 0, 0), 0, "cluster", cluster::cluster),
    row("command", -1, (0, 0, 0), 0, "server", command::command),
    row("config", -2, (0, 0, 0), ADMIN, "server", config::config),
    row("copy", -3, (1, 2, 1), WRITE | DENYOOM, "generic", keys::copy),
    row("dbsize", 1, (0, 0, 0), READONLY | FAST, "server", keys::dbsize),
    row("debug", -2, (0, 0, 0), ADMIN, "server", client::refused),
    row("decr", 2, (1, 1, 1), WRITE | DENYOOM | FAST, "string", arithmetic::decr),
    row("decrby", 3, (1, 1, 1), WRITE | DENYOOM | FAST, "string", arithmetic::decrby),
    row("del", -2, (1, -1, 1), WRITE, "generic", keys::del),
    row("discard", 1, (0, 0, 0), FAST, "transactions", transaction::discard),
    row("echo", 2, (0, 0, 0), FAST, "connection", client::echo),
    row("exec", 1, (0, 0, 0), 0, "transactions", transaction::exec),
    row("exists", -2, (1, -1, 1), READONLY | FAST, "generic", keys::exists),
    row("expire", -3, (1, 1, 1), WRITE | FAST, "generic", expire::expire),
    row("expireat", -3, (1, 1, 1), WRITE | FAST, "generic", expire::expireat),
    row("expiretime", 2, (1, 1, 1), READONLY | FAST, "generic", expire::expiretime),
    row("flushall", -1, (0, 0, 0), WRITE, "server", keys::flush),
    row("flushdb", -1, (0, 0, 0), WRITE, "server", keys::flush),
    row("function", -2, (0, 0, 0), 0, "scripting", client::function),
    row("get", 2, (1, 1, 1), READONLY | FAST, "string", strings::get),
    row("getbit", 3, (1, 1, 1), READONLY | FAST, "bitmap", ranges::getbit),
    row("getdel", 2, (1, 1, 1), WRITE | FAST, "string", strings::getdel),
    row("getex", -2, (1, 1, 1), WRITE | FAST, "string", strings::getex),
    row("getlease", 4, (1, 1, 1), WRITE | DENYOOM | FAST, "string", waiting::getlease),
    row("getrange", 4, (1, 1, 1), READONLY, "string", ranges::getrange),
    row("getset", 3, (1, 1, 1), WRITE | DENYOOM | FAST, "string", strings::getset),
    row("hello", -1, (0, 0, 0), FAST | NO_AUTH, "connection", client::hello),
    row("hotkeys", -2, (0, 0, 0), ADMIN, "server", hotkeys::hotkeys),
    row("incr", 2, (1, 1, 1), WRITE | DENYOOM | FAST, "string", arithmetic::incr),
    row("incrby", 3, (1, 1, 1), WRITE | DENYOOM | FAST, "string", arithmetic::incrby),
    row("incrbyfloat", 3, (1, 1, 1), WRITE | DENYOOM | FAST, "string", arithmetic::incrbyfloat),
    row("info", -1, (0, 0, 0), 0, "server", info::info),
    row("keys", 2, (0, 0, 0), READONLY, "generic", scan::keys),
    row("lcs", -3, (1, 2, 1), READONLY, "string", lcs::lcs),
    row("mget", -2, (1, -1, 1), READONLY | FAST, "string", strings::mget),
    row("mset", -3, (1, -1, 2), WRITE | DENYOOM, "string", strings::mset),
    row("msetnx", -3, (1, -1, 2), WRITE | DENYOOM, "string", strings::msetnx),
    row("multi", 1, (0, 0, 0), FAST, "transactions", transaction::multi),
    row("object", -2, (2, 2, 1), READONLY, "generic", keys::object),
    row("persist", 2, (1, 1, 1), WRITE | FAST, "generic", expire::persist),
    row("pexpire", -3, (1, 1, 1), WRITE | FAST, "generic", expire::pexpire),
    row("pexpireat", -3, (1, 1, 1), WRITE | FAST, "generic", expire::pexpireat),
    row("pexpiretime", 2, (1, 1, 1), READONLY | FAST, "generic", expire::pexpiretime),
    row("ping", -1, (0, 0, 0), FAST, "connection", client::ping),
    row("psetex", 4, (1, 1, 1), WRITE | DENYOOM, "string", strings::psetex),
    row("pttl", 2, (1, 1, 1), READONLY | FAST, "generic", expire::pttl),
    row("quit", -1, (0, 0, 0), FAST | NO_AUTH, "connection", client::quit),
    row("randomkey", 1, (0, 0, 0), READONLY, "generic", scan::randomkey),
    row("readonly", 1, (0, 0, 0), FAST, "cluster", cluster::no_effect),
    row("readwrite", 1, (0, 0, 0), FAST, "cluster", cluster::no_effect),
    row("rename", 3, (1, 2, 1), WRITE, "generic", keys::rename),
    row("renamenx", 3, (1, 2, 1), WRITE | FAST, "generic", keys::renamenx),
    row("reset", 1, (0, 0, 0), FAST | NO_AUTH, "connection", client::reset),
    row("save", 1, (0, 0, 0), ADMIN | NO_MULTI, "server", client::refused),
    row("scan", -2, (0, 0, 0), READONLY, "generic", scan::scan),
    row("select", 2, (0, 0, 0), FAST, "connection", client::select),
    row("set", -3, (1, 1, 1), WRITE | DENYOOM, "string", strings::set),
    row("setbit", 4, (1, 1, 1), WRITE | DENYOOM, "bitmap", ranges::setbit),
    row("setex", 4, (1, 1, 1), WRITE | DENYOOM, "string", strings::setex),
    row("setnx", 3, (1, 1, 1), WRITE | DENYOOM | FAST, "string", strings::setnx),
    row("setrange", 4, (1, 1, 1), WRITE | DENYOOM, "string", ranges::setrange),
    row("shutdown", -1, (0, 0, 0), ADMIN | NO_MULTI, "server", client::refused),
    row("strlen", 2, (1, 1, 1), READONLY | FAST, "string", ranges::strlen),
    row("substr", 4, (1, 1, 1), READONLY, "string", ranges::getrange),
    row("time", 1, (0, 0, 0), FAST, "server", client::time),
    row("touch", -2, (1, -1, 1), READONLY | FAST, "generic", keys::touch),
    row("ttl", 2, (1, 1, 1), READONLY | FAST, "generic", expire::ttl),
    row("type", 2, (1, 1, 1), READONLY | FAST, "generic", keys::kind),
    row("unlink", -2, (1, -1, 1), WRITE | FAST, "generic", keys::del),
    row("unwatch", 1, (0, 0, 0), FAST, "transactions", transaction::unwatch),
    row("watch", -2, (1, -1, 1), FAST, "transactions", transaction::watch),
];

/// Length of a command's name.
const NAME_BYTES_MAX: usize = 16;
/// Bytes of a name, and of arguments, that an error shows.
const SHOWN_BYTES: usize = 128;

/// The place in [`COMMANDS`] of a name, in any case.
#[inline]
fn place(name: &[u8]) -> Option<usize> {
    let mut small = [0; NAME_BYTES_MAX];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    COMMANDS.binary_search_by(|command| command.name.as_bytes().cmp(small)).ok()
}

/// The command of a name, in any case.
pub(super) fn by_name(name: &[u8]) -> Option<&'static Command> {
    place(name).map(|at| &COMMANDS[at])
}

/// The place of a request's command. Checks the number of arguments.
pub(super) fn find(args: &Args<'_>) -> Result<usize, Problem> {
    place(args.get(0)).ok_or_else(|| unknown(args))
}

/// Checks the number of a request's arguments.
#[inline]
pub(super) fn check_count(command: &Command, args: &Args<'_>) -> Done {
    let count = args.len() as i32;
    if count != command.arity && (command.arity > 0 || count < -command.arity) {
        return Err(wrong_count(command.name));
    }
    if count > 1 && command.keys.0 != 1 {
        return check_subcommand(command, args);
    }
    Ok(())
}

/// Subcommands with the least and the greatest number of a request's arguments. A command that is not here has none.
#[rustfmt::skip]
const SUBCOMMANDS: &[(&str, &str, RangeInclusive<usize>)] = &[
    ("acl", "cat", 2..=3), ("acl", "dryrun", 4..=MANY), ("acl", "getuser", 3..=3), ("acl", "list", 2..=2),
    ("acl", "users", 2..=2), ("acl", "whoami", 2..=2),
    ("client", "caching", 3..=3), ("client", "getname", 2..=2), ("client", "getredir", 2..=2), ("client", "id", 2..=2),
    ("client", "info", 2..=2), ("client", "kill", 3..=MANY), ("client", "list", 2..=MANY),
    ("client", "no-evict", 3..=3), ("client", "no-touch", 3..=3), ("client", "reply", 3..=3),
    ("client", "setinfo", 4..=4), ("client", "setname", 3..=3), ("client", "tracking", 3..=MANY),
    ("client", "trackinginfo", 2..=2),
    ("cluster", "countkeysinslot", 3..=3), ("cluster", "info", 2..=2), ("cluster", "keyslot", 3..=3),
    ("cluster", "myid", 2..=2), ("cluster", "nodes", 2..=2), ("cluster", "shards", 2..=2), ("cluster", "slots", 2..=2),
    ("command", "count", 2..=2), ("command", "docs", 2..=MANY), ("command", "getkeys", 3..=MANY),
    ("command", "info", 2..=MANY), ("command", "list", 2..=2),
    ("config", "get", 3..=MANY), ("config", "resetstat", 2..=2), ("config", "rewrite", 2..=2), ("config", "set", 4..=MANY),
    ("function", "flush", 2..=MANY), ("function", "list", 2..=MANY),
    ("hotkeys", "get", 2..=2), ("hotkeys", "reset", 2..=2), ("hotkeys", "start", 2..=MANY), ("hotkeys", "stop", 2..=2),
    ("object", "encoding", 3..=3), ("object", "idletime", 3..=3), ("object", "refcount", 3..=3),
];
const MANY: usize = usize::MAX;

/// Checks the number of a subcommand's arguments, before the request is queued in a transaction.
#[cold]
fn check_subcommand(command: &Command, args: &Args<'_>) -> Done {
    let of_command = SUBCOMMANDS.iter().filter(|(name, ..)| *name == command.name);
    let mut found =
        of_command.filter(|(_, word, _)| args.get(1).eq_ignore_ascii_case(word.as_bytes()));
    match found.next() {
        Some((_, _, counts)) if !counts.contains(&args.len()) => {
            Err(unknown_subcommand(command.name, args))
        }
        _ => Ok(()),
    }
}

/// The keys of a request.
pub(super) fn keys_of<'a>(
    command: &Command,
    args: &Args<'a>,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let (first, last, step) = command.keys;
    let last = if last < 0 { args.len() as i32 + last } else { last };
    let count = if first > 0 { (last - first + 1).max(0) } else { 0 };
    args.from(first as usize).take(count as usize).step_by(step.max(1) as usize)
}

pub(super) fn wrong_count(name: &str) -> Problem {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

fn shown(bytes: &[u8], most: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
}

fn unknown(args: &Args<'_>) -> Problem {
    let name = shown(args.get(0), SHOWN_BYTES);
    let mut with = String::new();
    for argument in args.from(1) {
        if with.len() >= SHOWN_BYTES {
            break;
        }
        with += &format!("'{}' ", shown(argument, SHOWN_BYTES - with.len()));
    }
    format!("ERR unknown command '{name}', with args beginning with: {with}").into()
}

/// The error for an unknown subcommand, or one with a wrong number of arguments.
pub(super) fn unknown_subcommand(name: &str, args: &Args<'_>) -> Problem {
    let word = shown(args.get(1), SHOWN_BYTES);
    format!("ERR unknown subcommand or wrong number of arguments for '{word}' of '{name}'").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_in_order() {
        assert!(COMMANDS.is_sorted_by(|one, other| one.name < other.name));
        for command in COMMANDS {
            assert!(command.name.len() <= NAME_BYTES_MAX && command.arity != 0);
            assert!(by_name(command.name.to_uppercase().as_bytes()).is_some());
        }
        assert!(by_name(b"lpush").is_none() && by_name(&[b'a'; 1000]).is_none());
    }
}
