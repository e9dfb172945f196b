//! Completions for shells and manual pages, from the same definitions as `--help`.

use std::process::Command;

use crate::book::VERBS;
use crate::command::{Folder, fails, frazil};

fn printed(args: &[&str]) -> String {
    let output = frazil(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Words of `text` that are flags.
fn flags(text: &str) -> Vec<&str> {
    let word = |it: char| it == '-' || it.is_ascii_lowercase();
    let words = text.split(|it| !word(it));
    words.filter(|word| word.starts_with("--") && word.len() > 2).collect()
}

#[test]
fn every_shell_is_told_every_verb_and_flag() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        for verb in VERBS {
            let word = verb.split(' ').next_back().unwrap();
            assert!(script.contains(word), "{shell}: no {verb}");
        }
        for flag in ["target-miss", "skip-bad-rows", "fetch-latency", "value-bytes"] {
            assert!(script.contains(flag), "{shell}: no {flag}");
        }
    }
    fails(&["completions", "tcsh"], 2, &["tcsh"]);
}

/// Bash's completions for the last of `words`, from the script alone.
#[cfg(unix)]
fn offered(script: &str, words: &[&str]) -> Vec<String> {
    let ask = format!(
        "source {script}\nCOMP_WORDS=({}); COMP_CWORD={}\n_frazil frazil \"$2\" \"$3\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" "),
        words.len() - 1
    );
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let output = Command::new("bash").args(["-c", &ask, "bash", "frazil", last, before]).output();
    let output = output.expect("bash");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
#[cfg(unix)]
fn bash_completes_verbs_flags_policies_and_formats() {
    let folder = Folder::new("completions");
    let script = folder.file("frazil.bash", printed(&["completions", "bash"]));
    let checked = Command::new("bash").args(["-n", &script]).output().expect("bash");
    assert!(checked.status.success() && checked.stderr.is_empty());

    assert_eq!(offered(&script, &["frazil", "si"]), ["simulate"]);
    assert_eq!(offered(&script, &["frazil", "trace", "con"]), ["convert"]);
    assert_eq!(offered(&script, &["frazil", "mrc", "--poi"]), ["--points"]);
    let policies = |verb, begun| offered(&script, &["frazil", verb, "--policy", begun]);
    assert_eq!(policies("simulate", "belady-"), ["belady-size", "belady-mad"]);
    assert_eq!(policies("advise", "gl"), ["gl-cache"]);
    assert_eq!(policies("bench", "s"), ["slru", "sieve", "s3-fifo"]);
    // Values that a verb refuses are not offered.
    assert_eq!(policies("mrc", "bel"), [""]);
    assert_eq!(offered(&script, &["frazil", "advise", "--format", "tw"]), ["twitter"]);
}

#[test]
fn the_manual_has_a_page_for_every_verb_with_every_flag() {
    let folder = Folder::new("man");
    let output = frazil(&["man", "--dir", &folder.path("man1")]);
    assert!(output.status.success() && output.stdout.is_empty());
    let page = |name: &str| {
        let page = std::fs::read_to_string(folder.path(&format!("man1/{name}.1"))).expect(name);
        page.replace("\\-", "-")
    };
    let main = page("frazil");
    assert_eq!(main, printed(&["man"]).replace("\\-", "-"));
    for verb in VERBS {
        let name = format!("frazil-{}", verb.replace(' ', "-"));
        let listed = if let Some((verb, _)) = verb.split_once(' ') {
            page(&format!("frazil-{verb}"))
        } else {
            main.clone()
        };
        assert!(listed.contains(&format!("{name}(1)")), "{name} is not listed");
        let page = page(&name);
        let alone: Vec<&str> = ["man"].into_iter().chain(verb.split(' ')).collect();
        assert_eq!(page, printed(&alone).replace("\\-", "-"));
        let help: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
        for flag in flags(&printed(&help)) {
            assert!(page.contains(flag), "{name}(1): no {flag}");
        }
        assert!(page.contains(".SH EXAMPLES"), "{name}(1) has no examples");
    }
    let file = folder.file("file", "");
    fails(&["man", "--dir", &file], 1, &[&file]);
    fails(&["man", "serv"], 2, &["`serv`; did you mean `serve`?", "--dir"]);
    fails(&["man", "trace", "inf"], 2, &["did you mean `info`?"]);
    fails(&["man", "serve", "now"], 2, &["`serve` has no verbs"]);
    assert!(!std::path::Path::new("serv").exists());
}
