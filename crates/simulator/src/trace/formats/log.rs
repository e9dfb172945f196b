//! Web-server logs in the common and the combined format:
//! `host ident user [date] "METHOD target protocol" status bytes …`.
//!
//! The id is the hash of the target. GET and HEAD are gets. POST, PUT, PATCH and DELETE invalidate
//! the cached object unless the answer is an error (RFC 9111, section 4.4). Only a full answer,
//! GET with 200, has the size of the object in its bytes sent. Other lines are counted and left
//! out.

use memchr::memmem;

use crate::trace::date_time::parse_log_date;
use crate::trace::decode::{Columns, LineFormat};
use crate::trace::error::expected;
use crate::trace::fields::{Field, hashed, parse_size};
use crate::trace::{Oddities, Operation, Record, SIZE_UNKNOWN};

/// Decoder of web-server logs.
#[derive(Default)]
pub(super) struct Log {
    other_lines: u64,
}

impl LineFormat for Log {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        match record(line)? {
            Some(record) => out.push(record),
            None => self.other_lines += 1,
        }
        Ok(())
    }

    fn columns(&self) -> Columns {
        Columns { times: true, sizes: true, ..Columns::default() }
    }

    fn oddities(&self) -> Oddities {
        Oddities { other_lines: self.other_lines, ..Oddities::default() }
    }
}

fn record(line: &[u8]) -> Result<Option<Record>, String> {
    let date = memmem::find(line, b" [").map(|at| &line[at + 2..]);
    let date = date.ok_or_else(|| expected("a date in [brackets]", line))?;
    let end = memmem::find(date, b"] \"").ok_or_else(|| expected("] \"request\"", date))?;
    let time_ns = parse_log_date(&date[..end])
        .ok_or_else(|| expected("a date as 10/Oct/2000:13:55:36 -0700", &date[..end]))?;
    let quoted = &date[end + 3..];
    let end = closing_quote(quoted).ok_or_else(|| expected("a closing quote", quoted))?;
    let (request, rest) = (&quoted[..end], &quoted[end + 1..]);
    let mut words = rest.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let status = words.next().unwrap_or_default();
    if status.len() != 3 || !status.iter().all(u8::is_ascii_digit) {
        return Err(expected("a status of three digits behind the request", rest));
    }
    let sent = match words.next() {
        Some(b"-") => 0,
        Some(bytes) => parse_size(&Field::whole(bytes))?,
        None => return Err(expected("the bytes sent behind the status", rest)),
    };
    Ok(request_of(request, status, sent).map(|request| Record { time_ns, ..request }))
}

/// The record of a request line, `METHOD target HTTP/1.1`, in which the target may have spaces.
/// `None` if it neither reads nor changes an object.
fn request_of(line: &[u8], status: &[u8], sent: u64) -> Option<Record> {
    let (method, rest) = line.split_at(memchr::memchr(b' ', line)?);
    let rest = rest.trim_ascii();
    let protocol = memmem::rfind(rest, b" HTTP/").unwrap_or(rest.len());
    let target = rest[..protocol].trim_ascii();
    let is_success = matches!(status.first(), Some(b'2' | b'3'));
    let operation = match method {
        b"GET" | b"HEAD" => Operation::Get,
        b"POST" | b"PUT" | b"PATCH" | b"DELETE" if is_success => Operation::Delete,
        _ => return None,
    };
    if target.is_empty() {
        return None;
    }
    let size = if method == b"GET" && status == b"200" { sent } else { SIZE_UNKNOWN };
    Some(Record { id: hashed(target), size, operation, ..Record::default() })
}

/// The end of a text with escaped quotes.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|&byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{decoded, problem};
    use crate::trace::{Format, Operation, Record, SIZE_UNKNOWN};
    use xxhash_rust::xxh3::xxh3_64;

    #[test]
    fn common_and_combined_lines_are_requests() {
        let file =
            br#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326
::1 - - [10/Oct/2000:20:55:37 +0000] "HEAD /b?\"x HTTP/2" 304 - "http://a/\"b" "Mozilla [en] \"4\""
vhost:80 ::1 - - [10/Oct/2000:20:55:37 +0000] "POST /a.gif HTTP/1.1" 200 7 "-" "-"
1.2.3.4 - - [10/Oct/2000:20:55:38 +0000] "OPTIONS * HTTP/1.1" 200 0
1.2.3.4 - - [10/Oct/2000:20:55:38 +0000] "-" 408 0
1.2.3.4 - - [10/Oct/2000:20:55:38 +0000] "\x16\x03" 400 166
"#;
        let row = |seconds: u64, id: &str, size, operation| Record {
            time_ns: seconds * 1_000_000_000,
            id: xxh3_64(id.as_bytes()),
            size,
            operation,
            ..Record::default()
        };
        let expected = [
            row(971_211_336, "/a.gif", 2326, Operation::Get),
            row(971_211_337, "/b?\\\"x", SIZE_UNKNOWN, Operation::Get),
            row(971_211_337, "/a.gif", SIZE_UNKNOWN, Operation::Delete),
        ];
        assert_eq!(decoded(Format::Log, file), expected);
    }

    #[test]
    fn only_full_answers_have_sizes_and_only_answers_without_error_invalidate() {
        let line = |request: &str, rest: &str| {
            format!("::1 - - [10/Oct/2000:20:55:37 +0000] \"{request}\" {rest}\n")
        };
        let file = [
            line("GET /a HTTP/1.1", "200 9"),
            line("GET /a HTTP/1.1", "304 0"),
            line("HEAD /a HTTP/1.1", "200 0"),
            line("GET /a HTTP/1.1", "206 4"),
            line("GET /b HTTP/1.1", "404 153"),
            line("POST /a HTTP/1.1", "404 0"),
            line("PUT /a HTTP/1.1", "503 0"),
            line("DELETE /a HTTP/1.1", "204 0"),
        ]
        .concat();
        let records = decoded(Format::Log, file.as_bytes());
        let sizes: Vec<u64> = records.iter().map(|it| it.size).collect();
        assert_eq!(sizes, [vec![9], vec![SIZE_UNKNOWN; 5]].concat());
        assert_eq!(records[5].operation, Operation::Delete);
    }

    #[test]
    fn targets_may_have_spaces() {
        let line =
            |target: &str| format!("::1 - - [10/Oct/2000:20:55:37 +0000] \"GET {target}\" 200 9\n");
        for (target, name) in [
            ("/my cat.jpg HTTP/1.1", "/my cat.jpg"),
            (" /a HTTP/1.1", "/a"),
            ("/a?q=a b HTTP/2.0", "/a?q=a b"),
            ("/old", "/old"),
            ("/x HTTP/ y HTTP/1.1", "/x HTTP/ y"),
        ] {
            let records = decoded(Format::Log, line(target).as_bytes());
            assert_eq!(records[0].id, xxh3_64(name.as_bytes()), "{target}");
        }
    }

    #[test]
    fn faults_are_named() {
        let line = |date: &str, rest: &str| format!("::1 - - [{date}] \"GET /a HTTP/1.1{rest}\n");
        let date = "10/Oct/2000:13:55:36 -0700";
        for (file, expected) in [
            ("1 - -\n".to_owned(), "line 1: expected a date in [brackets]"),
            (line("yesterday", "\" 200 5"), "line 1: expected a date as 10/Oct"),
            (line(date, " 200 5"), "line 1: expected a closing quote"),
            (line(date, "\" OK 5"), "line 1: expected a status"),
            (line(date, "\" 200"), "line 1: expected the bytes"),
            (line(date, "\" 200 many"), "line 1: expected a size"),
            (line(date, "\" 200 1099511627777"), "line 1: size 1099511627777 beyond 1 TiB"),
        ] {
            let problem = problem(Format::Log, file.as_bytes());
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
}
