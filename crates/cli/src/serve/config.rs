//! `--config FILE`: flags of `frazil serve` from a file of TOML, whose keys are the flags' names.
//!
//! They become flags before the command line is parsed, so each is checked like a flag. A flag on the command
//! line replaces that of the file.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context as _, anyhow, bail};
use clap::{Arg, ArgAction};
use frazil_server::Settings;
use toml::{Table, Value};

use super::Args;

/// Bytes of a file of settings.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Flags that a file cannot have.
const NOT_IN_FILES: [&str; 4] = ["config", "check", "hash-password", "help"];

/// The arguments of this process, including those of the file named by `--config`. It is read once, because it may be a pipe.
pub(crate) fn arguments() -> anyhow::Result<&'static [OsString]> {
    static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();
    if let Some(read) = ARGUMENTS.get() {
        return Ok(read);
    }
    let read = with_file(std::env::args_os())?;
    Ok(ARGUMENTS.get_or_init(|| read))
}

fn with_file(given: impl Iterator<Item = OsString>) -> anyhow::Result<Vec<OsString>> {
    let mut given: Vec<OsString> = given.collect();
    let is_serve = given.get(1).is_some_and(|verb| verb == "serve");
    if let Some(path) = value_of(&given, "config").filter(|_| is_serve) {
        let read = read(Path::new(&path), &given);
        let read = read.with_context(|| format!("--config {}", path.display()))?;
        given.splice(2..2, read);
    }
    Ok(given)
}

/// Whether a flag was given.
fn has(given: &[OsString], name: &str) -> bool {
    let (alone, with) = (format!("--{name}"), format!("--{name}="));
    given
        .iter()
        .any(|one| one == alone.as_str() || one.to_str().is_some_and(|one| one.starts_with(&with)))
}

/// The first value of a flag.
fn value_of(given: &[OsString], name: &str) -> Option<OsString> {
    let (alone, with) = (format!("--{name}"), format!("--{name}="));
    given.iter().enumerate().find_map(|(at, one)| match one.to_str() {
        Some(one) if one == alone => given.get(at + 1).cloned(),
        Some(one) => one.strip_prefix(&with).map(OsString::from),
        None => None,
    })
}

/// The flags of `serve`.
fn command() -> clap::Command {
    let command = clap::Command::new("serve").no_binary_name(true);
    <Args as clap::Args>::augment_args(command)
}

/// The flags of a file, without those on the command line.
fn read(path: &Path, given: &[OsString]) -> anyhow::Result<Vec<OsString>> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let begin = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..begin].iter().filter(|&&byte| byte == b'\n').count() + 1;
        anyhow!("line {line}: {}", error.message())
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let command = command();
    let known: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| arg.get_long().is_some_and(|name| !NOT_IN_FILES.contains(&name)))
        .collect();
    let mut flags = Vec::new();
    for (key, value) in &table {
        let Some(arg) = known.iter().find(|arg| arg.get_long() == Some(key)) else {
            let names = known.iter().filter_map(|arg| arg.get_long());
            return Err(match frazil_policy::nearest(key, names) {
                Some(near) => anyhow!("unknown setting `{key}`; did you mean `{near}`?"),
                None => anyhow!(
                    "unknown setting `{key}`; settings have the names of the flags of `frazil serve`"
                ),
            });
        };
        let of_file = flags_of(arg, key, value, folder)?;
        if !has(given, key) {
            flags.extend(of_file);
        }
    }
    Ok(flags)
}

/// A setting as flags.
fn flags_of(arg: &Arg, key: &str, value: &Value, folder: &Path) -> anyhow::Result<Vec<OsString>> {
    let is_file =
        arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "FILE"));
    let is_address =
        arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "ADDR"));
    let text = |value: &Value| match value {
        Value::String(text) if is_file => Ok(folder.join(text).into_os_string()),
        Value::String(text) if is_address => Ok(match text.strip_prefix("unix:") {
            Some(path) => OsString::from(format!("unix:{}", folder.join(path).display())),
            None => text.into(),
        }),
        Value::String(text) => Ok(text.into()),
        Value::Integer(number) if !is_file && !is_address => Ok(number.to_string().into()),
        _ => bail!(
            "`{key}`: {}",
            if is_file || is_address {
                "expected text in quotes"
            } else {
                "expected text or a number"
            }
        ),
    };
    let flag = |value: OsString| {
        let mut flag = OsString::from(format!("--{key}="));
        flag.push(value);
        flag
    };
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(true)) => Ok(vec![format!("--{key}").into()]),
        (ArgAction::SetTrue, Value::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => bail!("`{key}`: expected true or false"),
        (ArgAction::Append, Value::Array(values)) => {
            values.iter().map(|value| text(value).map(flag)).collect()
        }
        (_, value) => Ok(vec![flag(text(value)?)]),
    }
}

/// All settings in force, as a file of TOML. Those whose default depends on others are taken from `settings`.
pub(super) fn effective(given: &[OsString], settings: &Settings) -> anyhow::Result<String> {
    let command = command();
    let matches = command.clone().try_get_matches_from(&given[2..])?;
    let mut table = Table::new();
    // `origin-timeout` is refused without `origin`.
    let is_of_absent = |name: &str| {
        let of = name.split('-').next().unwrap_or_default();
        let found = command.get_arguments().find(|arg| of != name && arg.get_long() == Some(of));
        found.is_some_and(|arg| matches.value_source(arg.get_id().as_str()).is_none())
    };
    for arg in command.get_arguments() {
        let Some(name) =
            arg.get_long().filter(|name| !NOT_IN_FILES.contains(name) && !is_of_absent(name))
        else {
            continue;
        };
        let id = arg.get_id().as_str();
        let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
        let value = if is_switch {
            Some(Value::Boolean(matches.get_flag(id)))
        } else {
            let raw = matches.get_raw(id).into_iter().flatten();
            let mut values: Vec<Value> = raw.map(|raw| value(&raw.to_string_lossy())).collect();
            match arg.get_action() {
                ArgAction::Append if !values.is_empty() => Some(Value::Array(values)),
                _ => values.pop(),
            }
        };
        if let Some(value) = value {
            table.insert(name.into(), value);
        }
    }
    for (name, value) in [
        ("policy", Value::String(settings.policy.to_string())),
        ("connections", Value::Integer(i64::try_from(settings.limits.connections)?)),
        ("item-max", Value::Integer(i64::try_from(settings.item_bytes_max())?)),
    ] {
        table.entry(name).or_insert(value);
    }
    Ok(table.to_string())
}

fn value(text: &str) -> Value {
    text.parse().map_or_else(|_| Value::String(text.into()), Value::Integer)
}
