//! The limit on the length of a file. (Clippy's `too_many_lines`, set in `clippy.toml`, limits the
//! length of a function.)

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

/// A git pathspec, and how many lines a file it matches may have.
const LIMITS: [(&str, usize); 3] = [("*.rs", 1000), ("README.md", 150), ("docs/design/*.md", 250)];

/// Checks every file against its limit, and names all that exceed it.
///
/// # Errors
///
/// A file exceeds its limit or can't be read, or git can't list the files.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let mut over = Vec::new();
    for (pathspec, limit) in LIMITS {
        for file in files(root, pathspec)? {
            let lines = count_lines(&root.join(&file)).with_context(|| file.clone())?;
            if lines > limit {
                over.push(format!("{file}: {lines} lines, at most {limit}"));
            }
        }
    }
    if !over.is_empty() {
        bail!("file too long:\n  {}", over.join("\n  "));
    }
    eprintln!("xtask: file lengths: ok");
    Ok(())
}

/// Tracked files and those that `git add` would add, so that a new file is checked before its
/// commit.
pub(crate) fn files(root: &Path, pathspec: &str) -> anyhow::Result<Vec<String>> {
    let output = git(root)
        .args(["ls-files", "-z"])
        .args(["--cached", "--others", "--exclude-standard", "--", pathspec])
        .output()
        .context("cannot start git")?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("git ls-files: {}", message.trim_end());
    }
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(names.split_terminator('\0').map(str::to_owned).collect())
}

fn git(root: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(root)
        // CI may run as another user than the owner of the clone; listing its
        // files trusts it no further than compiling it does.
        .args(["-c", "safe.directory=*"])
        // Set when a git hook runs us; they would take precedence over the directory.
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE");
    command
}

/// Lines of a file; 0 if it is deleted but still in git's index.
fn count_lines(path: &Path) -> std::io::Result<usize> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).lines().count()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_every_file_over_its_limit_and_no_other() {
        let root = std::env::temp_dir().join(format!("xtask-house-{}", std::process::id()));
        fs::create_dir_all(root.join("docs/design")).unwrap();
        fs::create_dir_all(root.join("target")).unwrap();
        let init = git(&root).args(["init", "--quiet"]).status().unwrap();
        assert!(init.success());
        fs::write(root.join(".gitignore"), "/target\n").unwrap();
        fs::write(root.join("at_limit.rs"), "\n".repeat(1000)).unwrap();
        fs::write(root.join("docs/free.md"), "\n".repeat(5000)).unwrap();
        fs::write(root.join("target/generated.rs"), "\n".repeat(5000)).unwrap();
        check(&root).unwrap();

        fs::write(root.join("over.rs"), "\n".repeat(1001)).unwrap();
        fs::write(root.join("README.md"), "\n".repeat(151)).unwrap();
        fs::write(root.join("docs/design/over.md"), "\n".repeat(251)).unwrap();
        let error = check(&root).unwrap_err().to_string();
        fs::remove_dir_all(&root).unwrap();
        let named: Vec<_> = error.lines().skip(1).map(str::trim).collect();
        assert_eq!(
            named,
            [
                "over.rs: 1001 lines, at most 1000",
                "README.md: 151 lines, at most 150",
                "docs/design/over.md: 251 lines, at most 250",
            ]
        );
    }
}
