//! `frazil completions`: scripts that complete the arguments of `frazil` in a shell, and the
//! suggestions for arguments that take other values too.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Args as ClapArgs, Command};
use clap_complete::Shell;
use frazil_policy::PolicySpec;

use crate::Done;
use crate::output;

/// Print a shell script that completes verbs, flags and their values.
///
/// In a comma-separated list only the first name is completed.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil completions bash > ~/.local/share/bash-completion/completions/frazil
  frazil completions zsh > ~/.zfunc/_frazil       # a folder of $fpath
  frazil completions fish > ~/.config/fish/completions/frazil.fish")]
pub(crate) struct Args {
    /// The shell.
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Runs the verb for the whole of `command`.
pub(crate) fn run(args: &Args, mut command: Command) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "frazil", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// A parser of values with names for shells to complete. It accepts other values too.
#[derive(Clone)]
pub(crate) struct Offering<P> {
    parser: P,
    names: Vec<&'static str>,
}

/// `parser`, which accepts `names` and more.
pub(crate) fn offering<P>(names: impl IntoIterator<Item = &'static str>, parser: P) -> Offering<P> {
    Offering { parser, names: names.into_iter().collect() }
}

/// Parses a policy as text, for the verb to read; offers the names of all policies.
pub(crate) fn policies() -> impl TypedValueParser<Value = String> {
    offering(PolicySpec::NAMES, StringValueParser::new())
}

/// The same for online policies.
pub(crate) fn online_policies() -> impl TypedValueParser<Value = String> {
    let online = |name: &&str| name.parse().is_ok_and(|spec: PolicySpec| !spec.is_offline());
    offering(PolicySpec::NAMES.into_iter().filter(online), StringValueParser::new())
}

/// The same for the cache's policies.
#[cfg(feature = "full")]
pub(crate) fn cached_policies() -> impl TypedValueParser<Value = String> {
    offering(frazil_policy::Online::NAMES, StringValueParser::new())
}

impl<P: TypedValueParser> TypedValueParser for Offering<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<P::Value, Error> {
        self.parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}
