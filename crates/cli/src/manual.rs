//! `frazil man`: manual pages, from the definitions of `--help`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::Resettable;
use clap::{Args as ClapArgs, Command};
use clap_mangen::Man;

use crate::Done;
use crate::failure::note;
use crate::output;

/// Print the manual page, or write one for each verb into a folder.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil man | man -l -
  frazil man ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Folder for frazil.1, frazil-simulate.1 and so on; created if absent [default: print frazil.1
    /// to standard output].
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Runs the verb for the whole of `command`.
pub(crate) fn run(args: &Args, command: Command) -> Done {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let Some(folder) = &args.folder else {
        return output::print(&page(&command)?);
    };
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let written = write(&command, folder)?;
    note(&format!("wrote {written} pages into {}", folder.display()));
    Ok(())
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
