//! The clients, fetched at the versions of their manifests in `xtask/clients`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::Language;
use crate::{others, step, tools};

/// Packages that the clients' own tests need.
const TEST_TOOLS: [&str; 3] = ["pytest==9.2.0", "pytest-asyncio==1.5.0", "pytest-timeout==2.4.0"];

pub(super) struct Fetched {
    /// The folder of everything fetched.
    place: PathBuf,
    manifests: PathBuf,
}

impl Fetched {
    /// Fetches missing packages, and compiles the programs.
    ///
    /// # Errors
    ///
    /// A package or program is missing, or a program does not compile.
    pub(super) fn fetch(root: &Path) -> anyhow::Result<Fetched> {
        let place = root.join("target/clients");
        std::fs::create_dir_all(&place).context("a folder for clients")?;
        let fetched = Fetched { place, manifests: root.join("xtask/clients") };
        fetched.python()?;
        for name in ["ioredis", "redis"] {
            let version = fetched.version(Language::Node, name)?;
            others::npm_package(&fetched.node_place(name)?, name, &version)?;
        }
        fetched.go()?;
        fetched.java()?;
        Ok(fetched)
    }

    /// The version of a package in its manifest.
    pub(super) fn version(&self, language: Language, package: &str) -> anyhow::Result<String> {
        let (file, before) = match language {
            Language::Python => ("py/requirements.txt", format!("{package}==")),
            Language::Node => ("js/package.json", format!("\"{package}\": \"")),
            Language::Go => ("go/go.mod", format!("\t{package} v")),
            Language::Java => {
                ("java/pom.xml", format!("<artifactId>{package}</artifactId><version>"))
            }
        };
        let text = std::fs::read_to_string(self.manifests.join(file)).context(file)?;
        let found = after(&text, &before).with_context(|| format!("{file} has no {package}"))?;
        Ok(found.to_owned())
    }

    /// The same, short: a Go module without versions is identified by its commit.
    pub(super) fn shown_version(
        &self,
        language: Language,
        package: &str,
    ) -> anyhow::Result<String> {
        let version = self.version(language, package)?;
        let commit = version.strip_prefix("0.0.0-").and_then(|rest| rest.rsplit('-').next());
        Ok(commit.map_or_else(|| version.clone(), str::to_owned))
    }

    /// The command that starts a program.
    pub(super) fn program(&self, root: &Path, language: Language, name: &str) -> Vec<OsString> {
        let source = |folder: &str| root.join("xtask/clients").join(folder).join(name).into();
        match language {
            Language::Python => vec![self.python_program().into(), source("py")],
            Language::Node => vec!["node".into(), source("js")],
            Language::Go => vec![self.place.join("go").join(name).into()],
            Language::Java => {
                vec!["java".into(), "-cp".into(), self.class_path(), name.into()]
            }
        }
    }

    /// Sets the paths of packages, and keeps programs from writing into the sources.
    pub(super) fn set_environment(&self, command: &mut Command) {
        let nodes = ["ioredis", "redis"].iter().filter_map(|name| self.node_place(name).ok());
        let nodes: Vec<PathBuf> = nodes.map(|place| place.join("node_modules")).collect();
        command.env("NODE_PATH", std::env::join_paths(nodes).unwrap_or_default());
        command.env("PYTHONDONTWRITEBYTECODE", "1");
    }

    pub(super) fn python_program(&self) -> PathBuf {
        self.place.join("python/bin/python")
    }

    /// The folder of Go's manifest, which names its packages.
    pub(super) fn go_place(&self) -> PathBuf {
        self.manifests.join("go")
    }

    /// The published source of a Python package, unpacked.
    pub(super) fn python_source(&self, package: &str) -> anyhow::Result<PathBuf> {
        let named =
            format!("{}-{}", package.to_lowercase(), self.version(Language::Python, package)?);
        let place = self.place.join("sources");
        let source = place.join(&named);
        if !source.exists() {
            std::fs::create_dir_all(&place)?;
            let mut pip = self.pip("download");
            pip.args(["--no-deps", "--no-binary", package, "--dest"]).arg(&place);
            pip.arg(format!("{package}=={}", self.version(Language::Python, package)?));
            step::run(&format!("pip download {named}"), &mut pip)?;
            let archive = place.join(format!("{named}.tar.gz"));
            step::run("tar", Command::new("tar").current_dir(&place).arg("xf").arg(archive))?;
        }
        Ok(source)
    }

    fn pip(&self, verb: &str) -> Command {
        let mut pip = Command::new(self.python_program());
        pip.args(["-m", "pip", verb, "--quiet", "--disable-pip-version-check"]);
        pip
    }

    fn python(&self) -> anyhow::Result<()> {
        let mark = self.place.join("python/fetched");
        let manifest = self.manifests.join("py/requirements.txt");
        let wanted = std::fs::read_to_string(&manifest)? + &TEST_TOOLS.join("\n");
        if std::fs::read_to_string(&mark).is_ok_and(|there| there == wanted) {
            return Ok(());
        }
        let python = tools::ensure_program("python3", &["python3", "python3-venv"])?;
        let mut venv = Command::new(python);
        venv.args(["-m", "venv"]).arg(self.place.join("python"));
        step::run("a virtual environment of Python", &mut venv)?;
        let mut pip = self.pip("install");
        step::run("pip install", pip.arg("-r").arg(&manifest).args(TEST_TOOLS))?;
        Ok(std::fs::write(mark, wanted)?)
    }

    fn node_place(&self, name: &str) -> anyhow::Result<PathBuf> {
        Ok(self.place.join(format!("{name}-{}", self.version(Language::Node, name)?)))
    }

    fn go(&self) -> anyhow::Result<()> {
        let go = tools::ensure_program("go", &["golang-go"])?;
        let programs = self.place.join("go");
        std::fs::create_dir_all(&programs)?;
        let mut build = Command::new(go);
        build.current_dir(self.go_place()).args(["build", "-o"]).arg(programs);
        step::run("go build", build.args(["./gomemcache", "./goredis", "./gorediscluster"]))
    }

    fn java(&self) -> anyhow::Result<()> {
        let java = self.place.join("java");
        let manifest = std::fs::read_to_string(self.manifests.join("java/pom.xml"))?;
        let mark = java.join("pom.xml");
        if !std::fs::read_to_string(&mark).is_ok_and(|there| there == manifest) {
            if java.exists() {
                std::fs::remove_dir_all(&java)?;
            }
            let maven = tools::ensure_program("mvn", &["maven"])?;
            let mut copy = Command::new(maven);
            copy.current_dir(self.manifests.join("java"));
            copy.args(["--quiet", "--batch-mode", "-Dstyle.color=never"]);
            copy.arg("dependency:copy-dependencies");
            copy.arg(format!("-DoutputDirectory={}", java.join("jars").display()));
            step::run("mvn, clients", &mut copy)?;
            std::fs::write(mark, manifest)?;
        }
        let javac = tools::ensure_program("javac", &["default-jdk-headless"])?;
        let mut compile = Command::new(javac);
        compile.args(["-nowarn", "-XDsuppressNotes", "-d"]).arg(java.join("classes"));
        compile.arg("-cp").arg(self.class_path());
        for entry in std::fs::read_dir(self.manifests.join("java"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == "java") {
                compile.arg(path);
            }
        }
        step::run("javac", &mut compile)
    }

    fn class_path(&self) -> OsString {
        let java = self.place.join("java");
        format!("{}:{}/jars/*", java.join("classes").display(), java.display()).into()
    }
}

/// The word after `before`.
fn after<'t>(text: &'t str, before: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    rest.split(|c: char| c.is_whitespace() || "\"<".contains(c)).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_in_each_manifest() {
        assert_eq!(after("redis==8.1.0\nDjango==5.2.19\n", "Django=="), Some("5.2.19"));
        assert_eq!(after("{\"redis\": \"6.3.1\"}", "\"redis\": \""), Some("6.3.1"));
        assert_eq!(
            after("\tgithub.com/x/y v1.2.3 // indirect\n", "\tgithub.com/x/y v"),
            Some("1.2.3")
        );
        let pom = "<artifactId>jedis</artifactId><version>8.0.2</version>";
        assert_eq!(after(pom, "<artifactId>jedis</artifactId><version>"), Some("8.0.2"));
        assert_eq!(after(pom, "<artifactId>lettuce</artifactId>"), None);
    }
}
