//! Python interpreters on this machine, and their virtual environments.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::step;

/// Prints an interpreter's version, and a `t` if it has no global lock.
const VERSION: &str = "import sys, sysconfig; \
                       print('%d.%d' % sys.version_info[:2] + \
                       ('t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''))";

/// A version that the package supports, in the form of programs' names: `3.11`, or `3.13t`.
pub(super) type Version = &'static str;

/// An installed interpreter.
pub(super) struct Interpreter {
    pub(super) version: Version,
    pub(super) program: PathBuf,
}

impl Interpreter {
    /// Searches `given`, the path, pyenv's interpreters, and `/opt`.
    pub(super) fn find(version: Version, given: &[PathBuf]) -> Option<Self> {
        let name = format!("python{version}");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv"));
        if let Some(pyenv) = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or(home) {
            folders.extend(programs_below(&pyenv.join("versions")));
        }
        folders.extend(programs_below(Path::new("/opt")));
        let found = folders.into_iter().map(|folder| folder.join(&name));
        let mut candidates = given.iter().cloned().chain(found.filter(|path| path.exists()));
        // Each candidate is run: pyenv has programs on the path that only list versions.
        let program = candidates.find(|program| is(program, version))?;
        Some(Interpreter { version, program })
    }

    /// A new empty environment in a folder.
    pub(super) fn environment(&self, place: PathBuf) -> anyhow::Result<Environment> {
        let mut venv = Command::new(&self.program);
        quiet(venv.args(["-m", "venv", "--clear"]).arg(&place))?;
        Ok(Environment { place })
    }

    /// An environment with these packages, made unless it exists with exactly these. Packages in
    /// `perhaps` without a wheel for the interpreter are omitted, and returned.
    pub(super) fn environment_with(
        &self,
        place: PathBuf,
        packages: &[&str],
        perhaps: &[&str],
    ) -> anyhow::Result<(Environment, Vec<String>)> {
        let mark = place.join("installed");
        let wanted = format!("{} {packages:?} {perhaps:?}\n", self.program.display());
        if let Ok(there) = std::fs::read_to_string(&mark)
            && let Some(lacking) = there.strip_prefix(&wanted)
        {
            return Ok((Environment { place }, lacking.lines().map(str::to_owned).collect()));
        }
        let environment = self.environment(place)?;
        // Nothing is built: pip installs the newest version with a wheel for this interpreter.
        let install = || {
            let mut pip = environment.pip("install");
            pip.args(["--only-binary", ":all:"]);
            pip
        };
        if !packages.is_empty() {
            quiet(install().args(packages))?;
        }
        let mut lacking = Vec::new();
        for &package in perhaps {
            if quiet(install().arg(package)).is_err() {
                lacking.push(package.to_owned());
            }
        }
        std::fs::write(mark, wanted + &lacking.join("\n"))?;
        Ok((environment, lacking))
    }
}

/// The folders of programs in the folders below one, in order of their names.
fn programs_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path().join("bin")).collect();
    found.sort();
    found
}

fn is(program: &Path, version: Version) -> bool {
    let told = Command::new(program).args(["-c", VERSION]).output();
    told.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).trim() == version)
}

/// A virtual environment.
pub(super) struct Environment {
    place: PathBuf,
}

impl Environment {
    pub(super) fn python(&self) -> Command {
        Command::new(self.program("python"))
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.place.join("bin").join(name)
    }

    fn pip(&self, verb: &str) -> Command {
        let mut pip = self.python();
        pip.args(["-m", "pip", verb, "--quiet", "--disable-pip-version-check"]);
        pip
    }

    /// Installs a wheel, replacing the installed one, without dependencies.
    pub(super) fn install(&self, wheel: &Path) -> anyhow::Result<()> {
        let mut pip = self.pip("install");
        pip.args(["--no-index", "--no-deps", "--force-reinstall"]).arg(wheel);
        quiet(&mut pip).map(drop)
    }
}

/// Runs a program, and returns its output.
///
/// # Errors
///
/// The program can't be started, or fails; its output then goes to the terminal.
pub(super) fn quiet(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    if let Err(error) = step::succeeded(&name, output.status) {
        eprint!("{told}{}", String::from_utf8_lossy(&output.stderr));
        bail!("{error}");
    }
    Ok(told)
}
