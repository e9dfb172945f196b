//! Requests of RESP on strings, keys and expiry, and replies.

use super::chance::Chance;

const KEYS: [&str; 4] = ["@@@@@@@@a", "@@@@@@@@b", "@@@@@@@@c", "@@@@@@@@none"];
/// Valkey ends a word at a zero, a vertical tab or a form feed, Redis not everywhere. Valkey passes over 255 in a line of
/// words, Redis does not.
pub(super) const NEVER: [u8; 4] = [0, 11, 12, 255];
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "7",
    "100",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1.5",
    "x",
    "",
    "+1",
    " 1",
];
const VALUES: [&str; 8] = ["", "1", "10", "-5", "3.25", "value", "a longer value", "foobar"];

/// Lifetimes are below 70 minutes, because our server keeps only those exactly. Commands with the
/// kinds of their arguments: `k` a key, `v` a value, `n` a number, `i` a small number, `t` seconds,
/// `p` milliseconds, `r` random milliseconds, `f` a fraction, `S` options of SET, `X` options of GETEX, `E` those of EXPIRE,
/// `L` those that compare lifetimes, `B` 0 or 1, `U` BYTE or BIT.
const COMMANDS: [(&str, &str); 54] = [
    ("SET", "kv"),
    ("SET", "kvS"),
    ("SET", "kvSS"),
    ("GET", "k"),
    ("MGET", "kkk"),
    ("MSET", "kvkv"),
    ("MSETNX", "kvkv"),
    ("SETNX", "kv"),
    ("SETEX", "ktv"),
    ("GETSET", "kv"),
    ("GETDEL", "k"),
    ("GETEX", "k"),
    ("GETEX", "kX"),
    ("APPEND", "kv"),
    ("STRLEN", "k"),
    ("GETRANGE", "kii"),
    ("SUBSTR", "kii"),
    ("SETRANGE", "kiv"),
    ("INCR", "k"),
    ("INCRBY", "kn"),
    ("INCRBYFLOAT", "kf"),
    ("DECR", "k"),
    ("DECRBY", "kn"),
    ("SETBIT", "kiB"),
    ("GETBIT", "ki"),
    ("BITCOUNT", "k"),
    ("BITCOUNT", "kii"),
    ("BITCOUNT", "kiiU"),
    ("EXPIRE", "kt"),
    ("EXPIRE", "ktE"),
    ("EXPIREAT", "kt"),
    // No two are equal: the milliseconds of the requests would decide.
    ("PEXPIRE", "krL"),
    ("TTL", "k"),
    ("EXPIRETIME", "k"),
    ("PERSIST", "k"),
    ("DEL", "kk"),
    ("UNLINK", "k"),
    ("EXISTS", "kkk"),
    ("TOUCH", "kk"),
    ("TYPE", "k"),
    ("RENAME", "kk"),
    ("RENAMENX", "kk"),
    ("COPY", "kk"),
    ("LCS", "kk"),
    ("PING", ""),
    ("PING", "v"),
    ("ECHO", "v"),
    ("MULTI", ""),
    ("EXEC", ""),
    ("DISCARD", ""),
    ("WATCH", "k"),
    ("UNWATCH", ""),
    ("SELECT", "i"),
    ("PSETEX", "kpv"),
];

/// A request, valid or nearly so; some are lines of words.
pub(super) fn request(chance: &mut Chance) -> Vec<u8> {
    let (name, kinds) = COMMANDS[chance.below(COMMANDS.len() as u64) as usize];
    let mut words = vec![if chance.one_in(6) { name.to_lowercase() } else { name.to_owned() }];
    for kind in kinds.chars() {
        if kind == 'r' {
            // Not half a second, where TTL is rounded by the millisecond of a request.
            let seconds = 1_001 + chance.below(2_900);
            words.push((1_000 * seconds + chance.below(400)).to_string());
            continue;
        }
        words.extend(argument(chance, kind).split(' ').map(str::to_owned));
    }
    if chance.one_in(12) {
        let at = chance.below(words.len() as u64) as usize;
        match chance.below(3) {
            0 => drop(words.remove(at)),
            1 => words.insert(at, words[at].clone()),
            _ => words[at] = chance.of(&NUMBERS).to_owned(),
        }
    }
    if chance.one_in(12) && words.iter().all(|word| !word.is_empty()) {
        let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        return format!("{}\r\n", words.join(" ")).into_bytes();
    }
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    request.into_bytes()
}

fn argument(chance: &mut Chance, kind: char) -> &'static str {
    match kind {
        'k' => chance.of(&KEYS),
        'n' => chance.of(&NUMBERS),
        'i' => chance.of(&["0", "1", "3", "-1", "-3", "10", "100", "x", "-100", "4294967296"]),
        't' => chance.of(&["1000", "100", "0", "-1", "4000", "x", "9223372036854775807"]),
        'p' => chance.of(&["1000000", "0", "-1", "x", ""]),
        'f' => chance.of(&["1.5", "-0.25", "1e2", "3", "0", "x", "nan", "inf"]),
        'S' => chance.of(&[
            "NX",
            "XX",
            "GET",
            "KEEPTTL",
            "EX 1000",
            "PX 1000000",
            "EX 0",
            "EX x",
            "EXAT 1",
            "zz",
        ]),
        'X' => chance.of(&["PERSIST", "EX 1000", "PX 100000", "EX -1", "EXAT 1", "zz"]),
        'E' => chance.of(&["NX", "XX", "nx", "zz", "NX XX", "GT LT", "GT XX LT"]),
        'L' => chance.of(&["GT", "LT", "gt", "LT XX", "GT NX"]),
        'B' => chance.of(&["0", "1", "2", "x"]),
        'U' => chance.of(&["BYTE", "BIT", "zz"]),
        _ => chance.of(&VALUES),
    }
}

/// Each reply: a line, followed by the bytes of a string. Elements of arrays are replies of their own.
pub(super) fn units(mut replies: &[u8]) -> Vec<String> {
    let mut units = Vec::new();
    while !replies.is_empty() {
        let end = replies.windows(2).position(|two| two == b"\r\n").unwrap_or(replies.len());
        let line = &replies[..end];
        replies = &replies[(end + 2).min(replies.len())..];
        let mut unit = String::from_utf8_lossy(line).into_owned();
        let bytes = line.strip_prefix(b"$").and_then(|rest| std::str::from_utf8(rest).ok());
        if let Some(bytes) = bytes.and_then(|bytes| bytes.parse::<usize>().ok()) {
            let bytes = (bytes + 2).min(replies.len());
            unit += &format!(" {}", replies[..bytes].escape_ascii());
            replies = &replies[bytes..];
        }
        units.push(unit);
        hide_time(&mut units);
    }
    units
}

/// Replaces the two parts of the reply to TIME, which damage makes of EXPIRETIME, at the end of these.
fn hide_time(units: &mut [String]) {
    let digits = |unit: &str| {
        let (_, digits) = unit.strip_suffix("\\r\\n")?.split_once(' ')?;
        digits.parse::<u64>().ok()
    };
    if let [.., two, seconds, micros] = units
        && two == "*2"
        && digits(seconds).is_some_and(|seconds| (1_600_000_000..4_000_000_000).contains(&seconds))
        && digits(micros).is_some_and(|micros| micros < 1_000_000)
    {
        *seconds = "seconds".into();
        *micros = "microseconds".into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_hidden_and_other_numbers_are_not() {
        let shown = |replies: &str| units(replies.as_bytes()).join(", ");
        let time = "*2\r\n$10\r\n1795805342\r\n$6\r\n994302\r\n";
        assert_eq!(shown(time), "*2, seconds, microseconds");
        let pair = "*2\r\n$10\r\n1595805342\r\n$1\r\n9\r\n";
        assert_eq!(shown(pair), r"*2, $10 1595805342\r\n, $1 9\r\n");
    }
}
