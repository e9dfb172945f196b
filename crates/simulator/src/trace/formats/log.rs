//! Web-server logs in the common and the combined format:
//! `host ident user [date] "METHOD target protocol" status bytes …`.
//!
//! The id is the target's hash, the size the bytes sent. GET and HEAD are gets. POST, PUT, PATCH
//! and DELETE invalidate the cached object (RFC 9111, section 4.4). Other lines are counted and
//! left out.

use memchr::memmem;

use crate::trace::date_time::parse_log_date;
use crate::trace::decode::{Columns, LineFormat};
use crate::trace::error::expected;
use crate::trace::fields::{Field, hashed, parse_size};
use crate::trace::{Oddities, Operation, Record};

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
    let size = match words.next() {
        Some(b"-") => 0,
        Some(bytes) => parse_size(&Field::whole(bytes))?,
        None => return Err(expected("the bytes sent behind the status", rest)),
    };
    let mut words = request.split(|&byte| byte == b' ');
    let operation = match words.next() {
        Some(b"GET" | b"HEAD") => Operation::Get,
        Some(b"POST" | b"PUT" | b"PATCH" | b"DELETE") => Operation::Delete,
        _ => return Ok(None),
    };
    let target = words.next().filter(|target| !target.is_empty());
    Ok(target.map(|target| {
        let id = hashed(target);
        Record { time_ns, id, size, operation, ..Record::default() }
    }))
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
    use crate::trace::{Format, Operation, Record};
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
            row(971_211_337, "/b?\\\"x", 0, Operation::Get),
            row(971_211_337, "/a.gif", 7, Operation::Delete),
        ];
        assert_eq!(decoded(Format::Log, file), expected);
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
