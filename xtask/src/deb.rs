//! Builds a Debian package of the command with `dpkg-deb`, from a folder laid out like the
//! installed system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::packages::{COMPLETIONS, Release, output};
use crate::{step, tools};

const ARCHITECTURE: &str = "amd64";
const MAINTAINER: &str = "The Frazil authors";
const DOCUMENTS: &str = "usr/share/doc/frazil";

/// Writes `frazil_VERSION-1_amd64.deb` into `dist`.
pub(crate) fn make(root: &Path, dist: &Path, release: &Release) -> anyhow::Result<PathBuf> {
    let tree = dist.join("deb");
    lay_out(&tree, release)?;
    let documents = tree.join(DOCUMENTS);
    let texts = [
        ("copyright", copyright(root)?),
        ("changelog.gz", fs::read_to_string(root.join("CHANGELOG.md"))?),
        ("changelog.Debian.gz", changelog(release)?),
        ("third-party.txt.gz", fs::read_to_string(release.folder.join("THIRD-PARTY.txt"))?),
    ];
    for (name, text) in texts {
        write(&documents.join(name), &text)?;
    }
    control(&tree, release)?;
    let package = dist.join(format!("frazil_{}-1_{ARCHITECTURE}.deb", release.version));
    let mut build = Command::new(tools::ensure_program("dpkg-deb", &["dpkg"])?);
    build.env("SOURCE_DATE_EPOCH", release.seconds.to_string());
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree).arg(&package);
    step::run("dpkg-deb --build", &mut build)?;
    fs::remove_dir_all(&tree).context("target/packages/deb")?;
    Ok(package)
}

/// The program, its manual and its completions.
fn lay_out(tree: &Path, release: &Release) -> anyhow::Result<()> {
    let (programs, manual) = (tree.join("usr/bin"), tree.join("usr/share/man/man1"));
    fs::create_dir_all(&programs)?;
    fs::copy(release.folder.join("frazil"), programs.join("frazil")).context("the program")?;
    for page in fs::read_dir(release.folder.join("man/man1"))? {
        let page = page?;
        let name = format!("{}.gz", page.file_name().display());
        write(&manual.join(name), &fs::read_to_string(page.path())?)?;
    }
    for (shell, place) in COMPLETIONS {
        let script = output(Command::new(programs.join("frazil")).args(["completions", shell]))?;
        write(&tree.join(place), &script)?;
    }
    Ok(())
}

/// Writes a file and the folders above it; compressed if its name ends so.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder)?;
    if path.extension().is_some_and(|it| it == "gz") {
        let plain = path.with_extension("");
        fs::write(&plain, text)?;
        output(Command::new("gzip").args(["-9n", "--force"]).arg(&plain))?;
    } else {
        fs::write(path, text)?;
    }
    Ok(())
}

/// The fields that `dpkg` reads, and the checksums of all files.
fn control(tree: &Path, release: &Release) -> anyhow::Result<()> {
    // Modes first: they must not depend on the builder's umask.
    let modes =
        "chmod -R u=rwX,go=rX . && find usr -type f ! -path 'usr/bin/*' -exec chmod 644 {} +";
    output(Command::new("sh").current_dir(tree).args(["-c", modes]))?;
    let kibibytes =
        output(Command::new("du").current_dir(tree).args(["-sk", "--apparent-size", "usr"]))?;
    let kibibytes = kibibytes.split_whitespace().next().context("du")?;
    let fields = format!(
        "Package: frazil\nVersion: {}-1\nArchitecture: {ARCHITECTURE}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {kibibytes}\nSection: utils\nPriority: optional\n\
         Description: which cache policy and size to use, and why\n \
         Replays a trace of requests against eviction policies and sizes, predicts the\n \
         throughput of each from a queueing model, and recommends one.\n",
        release.version
    );
    let listed =
        "find usr -type f -printf '%P\\n' | LC_ALL=C sort | sed 's,^,usr/,' | xargs md5sum";
    let sums = output(Command::new("sh").current_dir(tree).args(["-c", listed]))?;
    write(&tree.join("DEBIAN/control"), &fields)?;
    write(&tree.join("DEBIAN/md5sums"), &sums)
}

/// Both licences, in Debian's machine-readable form.
fn copyright(root: &Path) -> anyhow::Result<String> {
    let mit = fs::read_to_string(root.join("LICENSE-MIT"))?;
    let paragraphs = mit.lines().skip(4).map(|line| match line.trim() {
        "" => " .\n".to_owned(),
        line => format!(" {line}\n"),
    });
    let paragraphs: String = paragraphs.collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: frazil\n\nFiles: *\nCopyright: The Frazil authors\n\
         License: Expat or Apache-2.0\nComment: third-party.txt.gz has the licences of what is linked in.\n\n\
         License: Expat\n{paragraphs}\nLicense: Apache-2.0\n \
         On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n"
    ))
}

/// Debian's changelog, which lists its own revisions.
fn changelog(release: &Release) -> anyhow::Result<String> {
    let date = output(
        Command::new("date")
            .args(["--utc", "--rfc-email"])
            .arg(format!("--date=@{}", release.seconds)),
    )?;
    Ok(format!(
        "frazil ({}-1) unstable; urgency=medium\n\n  * Release: see changelog.gz.\n\n -- {MAINTAINER}  {date}",
        release.version
    ))
}
