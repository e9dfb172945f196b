//! `COMMAND`: the supported commands.

use super::reply::Version;
use super::table::{self, COMMANDS, Command, FAST, FLAGS};
use super::{Call, Done, acl, reply};
use crate::access::{ADMIN, DANGEROUS, READ, WRITE};

pub(super) fn command(call: &mut Call<'_, '_>) -> Done {
    let (args, version) = (call.args, call.session.version);
    let out = &mut *call.turn.out;
    if args.len() > 2 + COMMANDS.len() && !args.get(1).eq_ignore_ascii_case(b"getkeys") {
        return Err("ERR more names than there are commands".into());
    }
    match (args.get(1).to_ascii_lowercase().as_slice(), args.len()) {
        (_, 1) | (b"info", 2) => {
            reply::array(out, COMMANDS.len());
            COMMANDS.iter().for_each(|command| show(command, version, out));
        }
        (b"count", 2) => reply::integer(out, COMMANDS.len() as i64),
        (b"list", 2) => {
            reply::array(out, COMMANDS.len());
            COMMANDS.iter().for_each(|command| reply::bulk(out, command.name.as_bytes()));
        }
        (b"info", _) => {
            reply::array(out, args.len() - 2);
            for name in args.from(2) {
                match table::by_name(name) {
                    Some(command) => show(command, version, out),
                    None => reply::null_array(out, version),
                }
            }
        }
        (b"docs", count) => {
            let is_meant = |command: &&Command| {
                count == 2
                    || args.from(2).any(|name| name.eq_ignore_ascii_case(command.name.as_bytes()))
            };
            reply::map(out, COMMANDS.iter().filter(is_meant).count(), version);
            for command in COMMANDS.iter().filter(is_meant) {
                reply::bulk(out, command.name.as_bytes());
                reply::map(out, 1, version);
                reply::bulk(out, b"group");
                reply::bulk(out, command.group.as_bytes());
            }
        }
        (b"getkeys", 3..) => return keys_of(call),
        _ => return Err(table::unknown_subcommand("command", args)),
    }
    Ok(())
}

fn show(command: &Command, version: Version, out: &mut Vec<u8>) {
    reply::array(out, 10);
    reply::bulk(out, command.name.as_bytes());
    reply::integer(out, command.arity.into());
    let flags = FLAGS.iter().filter(|(flag, _)| command.is(*flag));
    reply::set(out, flags.clone().count(), version);
    flags.for_each(|(_, name)| reply::simple(out, name));
    let (first, last, step) = command.keys;
    [first, last, step].into_iter().for_each(|place| reply::integer(out, place.into()));
    let categories: Vec<&str> = categories(command).collect();
    reply::set(out, categories.len(), version);
    categories.iter().for_each(|name| reply::simple(out, name));
    // Tips, kinds of keys, subcommands.
    (0..3).for_each(|_| reply::set(out, 0, version));
}

/// The categories of Redis, in its order: the classes of rights, the group, and the speed.
fn categories(command: &Command) -> impl Iterator<Item = &'static str> {
    let classes = acl::classes(command, b"");
    let (group, is) = (command.group, |class| classes & class != 0);
    let is_of_keyspace = matches!(command.name, "dbsize" | "flushall" | "flushdb");
    let is_of_connection = matches!(command.name, "asking" | "command" | "readonly" | "readwrite");
    let all = [
        (group == "generic" || is_of_keyspace, "@keyspace"),
        (is(READ), "@read"),
        (is(WRITE), "@write"),
        (group == "string", "@string"),
        (group == "bitmap", "@bitmap"),
        (is(ADMIN), "@admin"),
        (command.is(FAST), "@fast"),
        (!command.is(FAST), "@slow"),
        (is(DANGEROUS), "@dangerous"),
        (group == "connection" || is_of_connection, "@connection"),
        (group == "transactions", "@transaction"),
        (group == "scripting", "@scripting"),
    ];
    all.into_iter().filter_map(|(has, name)| has.then_some(name))
}

/// The keys of the request in the arguments.
fn keys_of(call: &mut Call<'_, '_>) -> Done {
    let args = call.args;
    let command = table::by_name(args.get(2)).ok_or("ERR Invalid command specified")?;
    let count = args.len() as i32 - 2;
    if count != command.arity && (command.arity > 0 || count < -command.arity) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let (first, last, step) = command.keys;
    if first == 0 {
        return Err("ERR The command has no key arguments".into());
    }
    let last = if last < 0 { count + last } else { last };
    let keys = || (first..=last).step_by(step as usize);
    reply::array(call.turn.out, keys().count());
    let mut at = 0;
    for (place, argument) in args.from(2).enumerate() {
        let place = place as i32;
        if (first..=last).contains(&place) && (place - first) % step == 0 {
            reply::bulk(call.turn.out, argument);
            at += 1;
        }
    }
    debug_assert_eq!(at, keys().count());
    Ok(())
}
