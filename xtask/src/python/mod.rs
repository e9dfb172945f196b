//! `cargo xtask check python`: the package for Python, built, installed and tested with each
//! interpreter that it supports and that is on this machine.
//!
//! `crates/python` is outside the workspace, because it needs an interpreter: `test` and `lint` do
//! not cover it, and this command does their work for it. All its files are in `target/python` and
//! in the package's own `target`.

mod interpreters;
mod sanitized;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use clap::Args;

use crate::spent::{self, Spent};
use crate::{step, test};
use interpreters::{Environment, Interpreter, Version, quiet};

/// What the command may be told.
#[derive(Args, Clone, Default, PartialEq, Eq)]
// The group of `clients` has the same name.
#[group(skip)]
pub(crate) struct Options {
    /// With `python`: an interpreter, beside those on the path, of pyenv and below /opt
    #[arg(long = "interpreter", value_name = "PROGRAM")]
    interpreters: Vec<PathBuf>,
    /// With `python`: only the tests, under AddressSanitizer
    #[arg(long)]
    asan: bool,
}

/// Versions for which wheels are built.
const VERSIONS: [Version; 3] = ["3.11", "3.13", "3.13t"];

const MATURIN: &str = "maturin==1.16.0";
const MYPY: &str = "mypy==2.4.1";
/// Packages that tests need. The newest hypothesis has no wheel for free-threaded CPython 3.13.
const TEST_PACKAGES: [&str; 2] = ["pytest==9.2.0", "hypothesis"];
/// Packages that some tests use; without them these tests are skipped.
const TESTED_WITH: [&str; 5] = ["numpy", "pandas", "pyarrow", "polars", "tqdm"];
/// The same, only with `--long`; figures need it too.
const RAY: &str = "ray==2.60.0";
/// Packages that benchmarks compare with.
const RIVALS: [&str; 5] =
    ["cachebox==6.2.10", "cachetools==8.0.1", "lru-dict==1.4.1", "moka-py==0.5.0", "theine==2.0.0"];

/// A user's program, for the type checker.
const PROGRAM: &str = "\
import frazil
cache: frazil.Cache[str, int] = frazil.Cache(10, 'lru', ttl=5)
number: int | None = cache.get('a')
@frazil.cached(maxsize=10)
def length(word: str) -> int: return len(word)
doubled: int = length('a') * 2
frazil.simulate([1], 'lru', 5, warmupp=3)  # type: ignore[call-arg]
warm: frazil.Table = frazil.mrc([1], unit='bytes', columns={'id': 'key'})
table: frazil.Table = frazil.simulate([1, 2], 'lru', 5)
kept: int = frazil.sweep({'id': [1, 2]}, 'lru', range(1, 5)).stats['kept']
class Shop:
    @frazil.cached
    def price(self, name: str) -> int: return len(name)
hits: int = Shop().price.cache_info().hits
price: int = Shop().price('fig') + cache.get('a', default=1) + cache.pop('a', default=1)
";

const WHEEL_BYTES_MAX: u64 = 10_000_000;
const IMPORT_MS_MAX: f64 = 50.0;
/// Number of fresh processes that import, and of those that do not.
const IMPORTS: usize = 15;

/// Runs all steps, a line for each.
///
/// # Errors
///
/// There is no interpreter, or steps have failed; the error names them.
pub(crate) fn run(root: &Path, options: &Options, long: bool) -> anyhow::Result<()> {
    let find = |version| Interpreter::find(version, &options.interpreters);
    let found: Vec<Interpreter> = VERSIONS.into_iter().filter_map(find).collect();
    let first = found.first().context("no interpreter of Python: --interpreter names one")?;
    for version in VERSIONS {
        if found.iter().all(|it| it.version != version) {
            eprintln!("SKIPPED python{version}: not found; --interpreter PROGRAM names it");
        }
    }
    let mut steps = Steps { root, long, failed: Vec::new() };
    if options.asan {
        steps.build_command();
        found.iter().for_each(|interpreter| steps.sanitized(interpreter));
        return steps.end();
    }
    steps.step("python: format", || cargo(root, first, &["fmt", "--check"]));
    let clippy = ["clippy", "--locked", "--all-targets", "--", "-D", "warnings"];
    steps.step("python: clippy", || cargo(root, first, &clippy));
    steps.step("python: cargo test", || cargo(root, first, &["test", "--locked", "--quiet"]));
    steps.build_command();
    for interpreter in &found {
        steps.interpreter(interpreter);
    }
    steps.end()
}

struct Steps<'r> {
    root: &'r Path,
    long: bool,
    failed: Vec<String>,
}

impl Steps<'_> {
    /// Does `work`, and prints its last line.
    fn step(&mut self, name: &str, work: impl FnOnce() -> anyhow::Result<String>) {
        let begun = spent::begin();
        match work() {
            Ok(told) => {
                let told = told.trim().lines().last().unwrap_or("ok");
                eprintln!("xtask: {name}: {told} ({})", begun.spent());
            }
            Err(error) => {
                eprintln!("xtask: {name}: FAILED: {error:#}");
                self.failed.push(name.to_owned());
            }
        }
    }

    fn end(self) -> anyhow::Result<()> {
        ensure!(self.failed.is_empty(), "failed: {}", self.failed.join("; "));
        Ok(())
    }

    /// Builds the command, which the tests compare with.
    fn build_command(&mut self) {
        let mut build = step::cargo(self.root, ["build", "--release", "--locked", "--quiet"]);
        build.args(["-p", "frazil-cli", "--features", "full"]);
        self.step("build frazil", || quiet(&mut build));
    }

    /// The tests with one interpreter, under AddressSanitizer.
    fn sanitized(&mut self, interpreter: &Interpreter) {
        let root = self.root;
        self.step(&format!("python{}: tests under AddressSanitizer", interpreter.version), || {
            let wheel = sanitized::wheel(root, interpreter)?;
            let place = place(root, interpreter, "asan");
            let (environment, _) =
                interpreter.environment_with(place, &TEST_PACKAGES, &TESTED_WITH)?;
            environment.install(&wheel)?;
            sanitized::tests(root, interpreter, &mut pytest(root, &environment))
        });
    }

    /// All steps with one interpreter.
    fn interpreter(&mut self, interpreter: &Interpreter) {
        let (root, long) = (self.root, self.long);
        let name = format!("python{}", interpreter.version);
        let mut wheel = None;
        self.step(&format!("{name}: wheel"), || {
            let built = released_wheel(root, interpreter)?;
            let bytes = std::fs::metadata(&built)?.len();
            wheel = Some(built);
            ensure!(bytes <= WHEEL_BYTES_MAX, "{bytes} bytes, at most {WHEEL_BYTES_MAX}");
            Ok(format!("{:.1} MB, at most {}", bytes as f64 / 1e6, WHEEL_BYTES_MAX / 1_000_000))
        });
        let Some(wheel) = wheel else { return };
        self.step(&format!("{name}: import"), || {
            let clean = interpreter.environment(place(root, interpreter, "clean"))?;
            clean.install(&wheel)?;
            import_time(&clean)
        });
        let mut environment = None;
        self.step(&format!("{name}: environment"), || {
            let mut perhaps = TESTED_WITH.to_vec();
            perhaps.extend(long.then_some(RAY));
            let place = place(root, interpreter, "tested");
            let (made, lacking) = interpreter.environment_with(place, &TEST_PACKAGES, &perhaps)?;
            made.install(&wheel)?;
            environment = Some(made);
            Ok(match lacking.is_empty() {
                true => "ok".to_owned(),
                false => format!("SKIPPED tests with {}: no wheels", lacking.join(", ")),
            })
        });
        let Some(environment) = environment else { return };
        self.step(&format!("{name}: tests"), || tests(root, &environment, long));
        for script in ["cpython.py", "cachetools.py"] {
            let path = root.join("crates/python/tests/upstream").join(script);
            let step = format!("{name}: {script}");
            self.step(&step, || quiet(environment.python().arg(path)));
        }
        // Types are the same for all versions.
        if interpreter.version == VERSIONS[0] {
            self.step(&format!("{name}: types"), || types(root, interpreter, &wheel));
        }
    }
}

fn place(root: &Path, interpreter: &Interpreter, purpose: &str) -> PathBuf {
    root.join("target/python").join(format!("{}-{purpose}", interpreter.version))
}

/// Runs cargo in the package, whose build asks an interpreter for the link options.
fn cargo(root: &Path, interpreter: &Interpreter, arguments: &[&str]) -> anyhow::Result<String> {
    let mut cargo = step::cargo(&root.join("crates/python"), arguments);
    quiet(cargo.env("PYO3_PYTHON", &interpreter.program)).map(|_| "ok".to_owned())
}

/// Builds the wheel that users get; returns its path.
fn released_wheel(root: &Path, interpreter: &Interpreter) -> anyhow::Result<PathBuf> {
    build_wheel(root, interpreter, &place(root, interpreter, "wheel"), |_| Ok(()))
}

/// Builds the wheel for an interpreter, as `settings` say, alone in a folder; returns its path.
fn build_wheel(
    root: &Path,
    interpreter: &Interpreter,
    wheels: &Path,
    settings: impl FnOnce(&mut Command) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let (tools, _) =
        interpreter.environment_with(place(root, interpreter, "maturin"), &[MATURIN], &[])?;
    if wheels.exists() {
        std::fs::remove_dir_all(wheels)?;
    }
    let mut maturin = Command::new(tools.program("maturin"));
    maturin.current_dir(root.join("crates/python"));
    maturin.args(["build", "--release", "--locked", "--quiet", "--interpreter"]);
    maturin.arg(&interpreter.program).arg("--out").arg(wheels);
    settings(&mut maturin)?;
    quiet(&mut maturin)?;
    let built = std::fs::read_dir(wheels)?.filter_map(Result::ok).map(|entry| entry.path());
    let mut built = built.filter(|path| path.extension().is_some_and(|it| it == "whl"));
    built.next().context("maturin has built no wheel")
}

/// Additional time of a process that imports the package over one that does not. On a busy machine
/// the processor time counts.
fn import_time(environment: &Environment) -> anyhow::Result<String> {
    let run = |program: &str| -> anyhow::Result<f64> {
        let mut python = environment.python();
        let begun = Instant::now();
        // Outside the sources, so that Python imports the installed package.
        let status = python.current_dir("/").args(["-c", program]).stdin(Stdio::null()).status()?;
        step::succeeded("import frazil", status)?;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    };
    run("import frazil")?; // reads from the disk
    let measured = |program: &str| -> anyhow::Result<(f64, Spent)> {
        let begun = spent::begin();
        let times: Vec<f64> = (0..IMPORTS).map(|_| run(program)).collect::<Result<_, _>>()?;
        Ok((spent::median(times.into_iter()), begun.spent()))
    };
    let (empty, spent_empty) = measured("")?;
    let (imports, spent) = measured("import frazil")?;
    let took = imports - empty;
    let processor = spent.processor.zip(spent_empty.processor);
    let processor = processor.map(|(one, other)| (one - other) / IMPORTS as f64 * 1e3);
    let told = format!(
        "{took:.0} ms, {:.0} of the processor, at most {IMPORT_MS_MAX:.0}; an interpreter that imports \
         nothing takes {empty:.0}",
        processor.unwrap_or(f64::NAN)
    );
    let counts = processor.filter(|_| spent.is_disturbed()).unwrap_or(took);
    ensure!(counts <= IMPORT_MS_MAX, "{told}");
    Ok(told)
}

/// The program that tests.
fn pytest(root: &Path, environment: &Environment) -> Command {
    let mut pytest = environment.python();
    pytest.current_dir(root.join("crates/python"));
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]);
    pytest.env("PYTHONDONTWRITEBYTECODE", "1").env_remove(test::LONG);
    pytest.env("FRAZIL_COMMAND", root.join("target/release/frazil"));
    pytest.env(test::TRACES, test::wanted_traces(root));
    pytest
}

fn tests(root: &Path, environment: &Environment, long: bool) -> anyhow::Result<String> {
    let mut pytest = pytest(root, environment);
    match long {
        true => pytest.env(test::LONG, "1"),
        false => pytest.args(["-m", "not ray"]),
    };
    quiet(&mut pytest)
}

/// Checks the types of a user's program, with the installed wheel, and the stubs alone.
fn types(root: &Path, interpreter: &Interpreter, wheel: &Path) -> anyhow::Result<String> {
    let place = place(root, interpreter, "types");
    let (environment, _) = interpreter.environment_with(place, &[MYPY], &[])?;
    environment.install(wheel)?;
    let folder = root.join("crates/python/python/frazil");
    let stubs = std::fs::read_dir(&folder)?.filter_map(Result::ok).map(|entry| entry.path());
    let stubs = stubs.filter(|path| path.extension().is_some_and(|it| it == "pyi"));
    let stubs: Vec<PathBuf> = stubs.collect();
    for arguments in [&["-c".into(), PROGRAM.into()][..], &stubs] {
        let mut mypy = environment.python();
        mypy.current_dir(root.join("target/python")).args(["-m", "mypy", "--strict"]);
        quiet(mypy.args(arguments).env("MYPY_CACHE_DIR", root.join("target/python/mypy")))?;
    }
    Ok(format!("{} stubs", stubs.len()))
}

/// The interpreter of an environment with the package and all rivals, for figures: of the version
/// in `name`, such as `python3.13t`.
///
/// # Errors
///
/// There is no such interpreter, or the package does not build.
pub(crate) fn for_figures(root: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let wanted = VERSIONS.into_iter().find(|version| name == format!("python{version}"));
    let Some(version) = wanted else {
        bail!("`{name}`: figures come from python{}", VERSIONS.join(", python"));
    };
    let interpreter = Interpreter::find(version, &[]).with_context(|| format!("no {name}"))?;
    let wheel = released_wheel(root, &interpreter)?;
    let mut packages = RIVALS.to_vec();
    packages.extend(["numpy", "pyarrow", RAY]);
    let (environment, _) =
        interpreter.environment_with(place(root, &interpreter, "figures"), &[], &packages)?;
    environment.install(&wheel)?;
    Ok(environment.program("python"))
}
