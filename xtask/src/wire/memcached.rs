//! Requests of memcached's text and meta protocol, and its replies.

use super::chance::Chance;

/// Keys: the third is one in base 64 as well.
const KEYS: [&str; 4] = ["@@@@@@@@a", "@@@@@@@@b", "@@@@@@@@", "@@@@@@@@none"];
/// Keys of numbers that are added to, and of values that grow at an end or become stale. While a reply with an entry waits,
/// memcached does not pad a number that becomes shorter, and makes a new entry of it, which is neither stale nor won.
const COUNTED: [&str; 2] = ["@@@@@@@@a", "@@@@@@@@none"];
const GROWING: [&str; 2] = ["@@@@@@@@b", "@@@@@@@@"];
/// memcached ends a line at a zero for some purposes, but not for others. Our server ends the connection at the first byte of
/// the binary protocol. The flag `w` of `mg` is our own.
pub(super) const NEVER: [u8; 3] = [0, 0x80, b'w'];
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "7",
    "10",
    "-1",
    "99",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "-18446744073709551615",
    "1x",
    "x",
];
/// Lifetimes that do not end while a sequence runs, or have ended.
const LIFETIMES: [&str; 5] = ["0", "0", "1000", "-1", "2000000000"];
/// No number that becomes 2^63 or more when it is added to, unless it wraps: in such a one memcached looks for a minus also
/// behind the end of the value, where a part of an entry deleted before may have one.
const VALUES: [&str; 7] = ["", "1", "10", "99", "4611686018427387904", "value", "a longer value"];
const STORING: [&str; 5] = ["set", "add", "replace", "append", "prepend"];

/// A request, valid or nearly so.
pub(super) fn request(chance: &mut Chance) -> Vec<u8> {
    let (mut line, value) = match chance.below(10) {
        0..=2 => storing(chance),
        3 => (format!("{} {}", chance.of(&["get", "gets"]), keys(chance)), None),
        4 => (text_of_key(chance), None),
        5 | 6 => (meta(chance), None),
        7 | 8 => meta_set(chance),
        _ => {
            (chance.of(&["mn", "version", "verbosity 1", "verbosity", "nonsense", ""]).into(), None)
        }
    };
    if chance.one_in(12) {
        line = nearly(chance, &line);
    }
    let end = if chance.one_in(20) { "\n" } else { "\r\n" };
    let mut bytes = format!("{line}{end}").into_bytes();
    if let Some(value) = value {
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(if chance.one_in(60) { b"x\r\n" } else { b"\r\n" });
    }
    bytes
}

fn keys(chance: &mut Chance) -> String {
    let keys: Vec<_> = (0..=chance.below(4)).map(|_| chance.of(&KEYS)).collect();
    keys.join(" ")
}

fn noreply(chance: &mut Chance) -> &'static str {
    if chance.one_in(8) { " noreply" } else { "" }
}

fn storing(chance: &mut Chance) -> (String, Option<&'static str>) {
    let value = chance.of(&VALUES);
    let (key, flags, life) =
        (chance.of(&KEYS), chance.of(&["0", "5", "4294967295"]), chance.of(&LIFETIMES));
    let (bytes, quiet) = (value.len(), noreply(chance));
    let storing = chance.of(&STORING);
    let key = if storing.ends_with("pend") { chance.of(&GROWING) } else { key };
    let line = if chance.one_in(6) {
        format!("cas {key} {flags} {life} {bytes} 9999999999{quiet}")
    } else {
        format!("{storing} {key} {flags} {life} {bytes}{quiet}")
    };
    (line, Some(value))
}

fn text_of_key(chance: &mut Chance) -> String {
    let (key, quiet) = (chance.of(&KEYS), noreply(chance));
    match chance.below(5) {
        0 => format!("delete {key}{}{quiet}", chance.of(&["", "", " 0", " 1"])),
        1 | 2 => {
            let (name, key) = (chance.of(&["incr", "decr"]), chance.of(&COUNTED));
            format!("{name} {key} {}{quiet}", chance.of(&NUMBERS))
        }
        3 => format!("touch {key} {}{quiet}", chance.of(&LIFETIMES)),
        _ => {
            let name = chance.of(&["gat", "gats"]);
            format!("{name} {} {}", chance.of(&LIFETIMES), keys(chance))
        }
    }
}

/// Flags of a meta request, from `letters`.
fn flags(chance: &mut Chance, letters: &[&str]) -> String {
    let mut line = String::new();
    for _ in 0..chance.below(5) {
        let letter = chance.of(letters);
        let argument = match letter {
            // memcached 1.6.18 reads -1 as an endless lifetime here.
            "T" | "N" | "R" => chance.of(&["1000", "1000", "0", "30", "x", ""]),
            "F" | "D" | "J" => chance.of(&["5", "1", "4294967295", "x", "-1"]),
            "C" | "E" => chance.of(&["9999999999", "x"]),
            "O" => chance.of(&["abc", "7", ""]),
            "M" => chance.of(&["S", "A", "P", "E", "R", "I", "D", "set", "x", "+", "-"]),
            _ => "",
        };
        line += &format!(" {letter}{argument}");
    }
    line
}

/// Flags without those of one letter if there are some of another.
fn without(flags: String, with: char, letter: char) -> String {
    let has = |word: &str, letter| word.starts_with(letter);
    if !flags.split(' ').any(|word| has(word, with)) {
        return flags;
    }
    flags.split(' ').filter(|word| !has(word, letter)).collect::<Vec<_>>().join(" ")
}

fn meta(chance: &mut Chance) -> String {
    let key = chance.of(&KEYS);
    match chance.below(8) {
        0..=3 => {
            let letters =
                ["v", "f", "t", "s", "k", "O", "q", "c", "b", "N", "R", "T", "h", "l", "E", "z"];
            // memcached 1.6.18 returns a key that it has just created as raw bytes.
            let flags = without(flags(chance, &letters), 'b', 'N');
            let wins = [" N", " R"].iter().any(|flag| flags.contains(flag));
            let key = if wins { chance.of(&GROWING) } else { key };
            format!("mg {key}{flags}")
        }
        4 | 5 => {
            let letters = ["q", "b", "I", "T", "O", "k", "C", "E", "x", "z"];
            format!("md {}{}", chance.of(&GROWING), flags(chance, &letters))
        }
        _ => {
            let letters = ["N", "J", "D", "M", "q", "c", "v", "b", "O", "k", "C", "E", "z"];
            let flags = without(flags(chance, &letters), 'b', 'N');
            format!("ma {}{flags}", chance.of(&COUNTED))
        }
    }
}

fn meta_set(chance: &mut Chance) -> (String, Option<&'static str>) {
    let value = chance.of(&VALUES);
    let letters = ["b", "c", "C", "F", "I", "k", "O", "q", "s", "T", "M", "E", "N", "z"];
    // With `I` our server treats any `cas` number except the current one as older, which is
    // documented.
    let (key, flags) = (chance.of(&KEYS), without(flags(chance, &letters), 'I', 'C'));
    let grows = [" MA", " MP", " I"].iter().any(|flag| flags.contains(flag));
    let key = if grows { chance.of(&GROWING) } else { key };
    (format!("ms {key} {}{flags}", value.len()), Some(value))
}

/// Removes, repeats or replaces a word.
fn nearly(chance: &mut Chance, line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    let at = chance.below(words.len() as u64) as usize;
    match chance.below(4) {
        // Another key, as the command's name would be, might belong to another sequence.
        0 | 2 if words[at].contains('@') => {}
        1 if at == 0 => {}
        0 => drop(words.remove(at)),
        1 => words.insert(at, words[at]),
        2 => words[at] = chance.of(&NUMBERS),
        _ => words.insert(at, ""),
    }
    words.join(" ")
}

/// Whether a value may not be complete at the end of these requests. memcached waits for the rest of it, also if it has
/// refused the request, and when the client ends instead it closes the connection without the replies that it still holds.
pub(super) fn ends_in_value(requests: &[u8]) -> bool {
    let names = STORING.iter().map(|&name| (name, 3)).chain([("cas", 3), ("ms", 1)]);
    let commands: Vec<_> = names.map(|(name, words)| (format!("{name} "), words)).collect();
    let mut rest = requests;
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let line = String::from_utf8_lossy(&rest[..end]);
        rest = &rest[end + 1..];
        for (command, words) in &commands {
            // Not only at the beginning of the line, where a value without its end may be.
            for (at, _) in line.match_indices(command) {
                let mut words_behind =
                    line[at + command.len()..].split(' ').filter(|word| !word.is_empty());
                let length = words_behind.nth(*words).and_then(length_of);
                if length.is_some_and(|length| length + 2 > rest.len()) {
                    return true;
                }
            }
        }
    }
    false
}

/// The length of a value, as memcached reads it: the lower half of a number of C.
fn length_of(word: &str) -> Option<usize> {
    let word = word.trim_start();
    let sign = usize::from(word.starts_with(['-', '+']));
    let digits = word[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let number: i64 = word[..sign + digits].parse().ok()?;
    usize::try_from(number as i32).ok()
}

/// Each line with its value. Numbers that may differ by the documents are replaced: `cas`, ages,
/// hits, lifetimes in seconds that may have passed.
pub(super) fn units(mut replies: &[u8]) -> Vec<String> {
    let mut units = Vec::new();
    while !replies.is_empty() {
        let end = replies.windows(2).position(|two| two == b"\r\n").unwrap_or(replies.len());
        let line = String::from_utf8_lossy(&replies[..end]).into_owned();
        replies = &replies[(end + 2).min(replies.len())..];
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let is = |name: &str| words.first().is_some_and(|first| first == name);
        let value = match () {
            () if is("VALUE") => words.get(3).cloned(),
            () if is("VA") => words.get(1).cloned(),
            () => None,
        };
        if is("VALUE") && words.len() == 5 {
            words[4] = "CAS".into();
        } else if is("VERSION") {
            words.truncate(1);
        } else if is("ME") {
            words.iter_mut().for_each(fact);
        } else if is("VA") || is("HD") || is("EX") || is("NF") || is("NS") {
            // memcached reports no lifetime for an entry that was just created.
            let is_won = words.last().is_some_and(|last| last == "W");
            words[1..].iter_mut().for_each(|word| plain(word, is_won));
        }
        let mut unit = words.join(" ");
        if let Some(bytes) = value.and_then(|bytes| bytes.parse::<usize>().ok()) {
            let (value, rest) = replies.split_at((bytes + 2).min(replies.len()));
            unit = with_value(&unit, value);
            replies = rest;
        }
        units.push(unit);
    }
    units
}

/// A line with its value; for a value with digits, without spaces and length: memcached does not
/// pad a shorter number if the entry was looked up before.
fn with_value(line: &str, value: &[u8]) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    let place = if words[0] == "VALUE" { 3 } else { 1 };
    let shown = value.escape_ascii().to_string();
    match value.iter().any(u8::is_ascii_digit) {
        true => {
            words[place] = "LENGTH";
            format!("{} {}", words.join(" "), shown.replace(' ', ""))
        }
        false => format!("{line} {shown}"),
    }
}

/// Keeps of a fact of `me` whether there is a lifetime, of which memcached 1.6.18 tells the negative, and whether the entry
/// was fetched. Ages, numbers for `cas` and sizes of the store are the server's own.
fn fact(word: &mut String) {
    let end = word.find('=').unwrap_or(word.len());
    if matches!(&word[..end], "exp" | "la" | "cas" | "cls" | "size") && word != "exp=-1" {
        word.truncate(end);
    }
}

fn plain(word: &mut String, is_won: bool) {
    let mut letters = word.chars();
    let letter = letters.next();
    let number: Option<i64> = letters.as_str().parse().ok();
    match (letter, number) {
        (Some('c' | 'l' | 'h'), Some(_)) => word.truncate(1),
        (Some('t'), Some(_)) if is_won => word.truncate(1),
        (Some('t'), Some(0..)) => *word = "t+".into(),
        // The lengths of `VALUES` that are no numbers are compared: see `with_value`.
        (Some('s'), Some(length)) if length != 5 && length != 14 => word.truncate(1),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_complete_are_found() {
        for complete in
            ["get a\r\n", "set a 0 0 1\r\n1\r\n", "ms a 1 T9\r\n1\r\n", "set a 0 0 -1\r\n", "set a"]
        {
            assert!(!ends_in_value(complete.as_bytes()), "{complete:?}");
        }
        for cut in [
            "set a 0 0 2\r\n1\r\n",
            "ms a 2\r\n1\r\n",
            "cas a 0 0 99 1\r\nget a\r\n",
            "set a 0 0 1\r\n1x\rset a 0 0 99\r\n",
            "set a 0 0 0\r0\n",
            "ms a -923372036854775808\r\n1\r\n",
        ] {
            assert!(ends_in_value(cut.as_bytes()), "{cut:?}");
        }
    }

    #[test]
    fn facts_of_me_that_are_not_the_server_s_own_are_compared() {
        let shown = |line: &str| units(line.as_bytes()).concat();
        assert_eq!(
            shown("ME a exp=-1 la=2 cas=3 fetch=no cls=1 size=9\r\n"),
            "ME a exp=-1 la cas fetch=no cls size"
        );
        assert_eq!(
            shown("ME a exp=30 la=2 cas=3 fetch=yes cls=1 size=9\r\n"),
            "ME a exp la cas fetch=yes cls size"
        );
    }
}
