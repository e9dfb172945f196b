//! `frazil man`: manual pages, from the definitions of `--help`.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, anyhow};
use clap::builder::Resettable;
use clap::{Args as ClapArgs, Command};
use clap_mangen::Man;

use crate::Done;
use crate::failure::{Failure, note};
use crate::output;

/// Show the manual page of a verb, or write all pages into a folder.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil man
  frazil man trace convert
  frazil man serve > frazil-serve.1
  frazil man --dir ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Verb whose page is shown, such as `serve` or `trace convert` [default: the page of frazil].
    /// A terminal gets it by `man`, a pipe or file as roff.
    #[arg(value_name = "VERB")]
    verb: Vec<String>,
    /// Write frazil.1, frazil-simulate.1 and so on into this folder; created if absent.
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    dir: Option<PathBuf>,
}

/// Runs the verb for the whole of `command`.
pub(crate) fn run(args: &Args, command: Command) -> Done {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let Some(folder) = &args.dir else {
        let page = page(find(&command, &args.verb)?)?;
        let is_shown = std::io::stdout().is_terminal() && show(&page).unwrap_or(false);
        return if is_shown { Ok(()) } else { output::print(&page) };
    };
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let written = write(&command, folder)?;
    note(&format!("wrote {written} pages into {}", folder.display()));
    Ok(())
}

/// The verb of these words.
fn find<'c>(command: &'c Command, words: &[String]) -> Result<&'c Command, Failure> {
    words.iter().try_fold(command, |command, word| {
        let verbs = || command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let found = verbs().find(|verb| verb.get_name() == word);
        found.ok_or_else(|| {
            let names: Vec<_> = verbs().map(Command::get_name).collect();
            let near = frazil_policy::nearest(word, names.iter().copied());
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let known = match names.is_empty() {
                true => format!("`{}` has no verbs of its own", command.get_name()),
                false => format!("known are {}", names.join(", ")),
            };
            Failure::usage(anyhow!(
                "no manual page for the verb `{word}`{near} ({known}; --dir writes pages to a folder)"
            ))
        })
    })
}

/// Shows a page by `man`. False: there is no `man` that reads standard input.
fn show(page: &str) -> std::io::Result<bool> {
    let mut man =
        std::process::Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn()?;
    // `man` may quit before it has read all.
    let _ = man.stdin.take().map(|mut stdin| stdin.write_all(page.as_bytes()));
    Ok(man.wait()?.success())
}

/// Writes the page of `command` and those of its verbs. Returns their number.
fn write(command: &Command, folder: &Path) -> anyhow::Result<usize> {
    let path = folder.join(Man::new(command.clone()).get_filename());
    std::fs::write(&path, page(command)?).with_context(|| path.display().to_string())?;
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    verbs.map(|verb| write(verb, folder)).try_fold(1, |sum, pages| Ok(sum + pages?))
}

/// A page in roff. Examples stand under their own heading, line by line.
fn page(command: &Command) -> anyhow::Result<String> {
    let examples = command.get_after_help().map(ToString::to_string);
    let mut roff = Vec::new();
    Man::new(command.clone().after_help(Resettable::Reset)).render(&mut roff)?;
    let mut page = String::from_utf8(roff).context("a page is text")?;
    if let Some(examples) = examples {
        page += ".SH EXAMPLES\n.nf\n";
        let lines = examples.lines().filter(|line| *line != "Examples:");
        page.extend(lines.map(|line| format!("{}\n", literal(line.trim_start()))));
        page += ".fi\n";
    }
    Ok(page)
}

/// A line that roff prints unchanged: roff would turn a plain hyphen into one that a shell does not
/// read.
fn literal(line: &str) -> String {
    format!("\\&{}", line.replace('\\', "\\e").replace('-', "\\-"))
}
