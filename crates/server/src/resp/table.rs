//! The commands.

use super::request::Args;
use super::{Call, Done, Problem, strings};

/// A command.
pub(super) struct Command {
    /// In small letters.
    pub(super) name: &'static str,
    /// Arguments, the name included; below 0: at least so many.
    pub(super) arity: i32,
    pub(super) run: fn(&mut Call<'_, '_>) -> Done,
}

/// By name.
static COMMANDS: &[Command] = &[
    Command { name: "del", arity: -2, run: strings::del },
    Command { name: "get", arity: 2, run: strings::get },
    Command { name: "ping", arity: -1, run: strings::ping },
    Command { name: "set", arity: -3, run: strings::set },
];

/// The longest name of a command.
const NAME_BYTES_MAX: usize = 16;
/// What an error shows of a name, and of arguments.
const SHOWN_BYTES: usize = 128;

/// The command of a request, if it has as many arguments as it must.
pub(super) fn find(args: &Args<'_>) -> Result<&'static Command, Problem> {
    let command = by_name(args.get(0)).ok_or_else(|| unknown(args))?;
    let count = args.len() as i32;
    if count != command.arity && (command.arity > 0 || count < -command.arity) {
        return Err(wrong_count(command.name));
    }
    Ok(command)
}

/// The command of a name, in any letters.
pub(super) fn by_name(name: &[u8]) -> Option<&'static Command> {
    let mut small = [0; NAME_BYTES_MAX];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    let found = COMMANDS.binary_search_by(|command| command.name.as_bytes().cmp(small));
    found.ok().map(|at| &COMMANDS[at])
}

pub(super) fn wrong_count(name: &str) -> Problem {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

fn unknown(args: &Args<'_>) -> Problem {
    let shown = |bytes: &[u8], most: usize| {
        String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
    };
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
    }
}
