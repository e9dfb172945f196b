//! Parsing of requests: arrays of bulk strings, or inline.
//!
//! A request is parsed in place; its arguments are slices of the input. The first few are kept, and later ones are
//! found again from there, so any number of arguments takes no memory.

use memchr::memchr;

/// Longest string, as clients of Redis know it.
const BULK_BYTES_MAX: i64 = 512 << 20;
/// Arguments that are kept.
const KEPT: usize = 8;
/// Length of the shortest argument: `$0`, two ends of line.
const ARGUMENT_BYTES_MIN: usize = 6;

/// Limits of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) bytes: usize,
    /// Bytes of a line.
    pub(super) line: usize,
    pub(super) arguments: usize,
}

impl Bounds {
    /// Those of a request that was parsed before.
    pub(super) const NONE: Bounds =
        Bounds { bytes: usize::MAX, line: usize::MAX, arguments: usize::MAX };
}

/// The arguments of a request, beginning with the command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Args<'i> {
    kept: [&'i [u8]; KEPT],
    count: usize,
    /// From the head of the first argument on.
    bytes: &'i [u8],
}

impl<'i> Args<'i> {
    /// Their number, at least one, with the command.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The argument at an index; empty if there is none.
    pub(super) fn get(&self, index: usize) -> &'i [u8] {
        if index < KEPT {
            return self.kept[index];
        }
        self.from(index).next().unwrap_or_default()
    }

    /// The arguments from an index on.
    pub(super) fn from(&self, index: usize) -> impl Iterator<Item = &'i [u8]> + use<'i> {
        self.placed().skip(index).map(|(_, argument)| argument)
    }

    /// All arguments, with the offset of the head of each from that of the first.
    pub(super) fn placed(&self) -> impl Iterator<Item = (usize, &'i [u8])> + use<'i> {
        let (bytes, count) = (self.bytes, self.count);
        let mut at = 0;
        (0..count).map_while(move |_| {
            let Ok(Some((argument, next))) = argument(bytes, at) else { return None };
            let place = std::mem::replace(&mut at, next);
            Some((place, argument))
        })
    }

    /// All arguments as received, with heads and ends.
    pub(super) fn as_bytes(&self) -> &'i [u8] {
        self.bytes
    }
}

/// The beginning of the input.
#[derive(Debug)]
pub(super) enum Parsed<'i> {
    /// A request: its arguments, its length, and the offset of its first argument.
    Request(Args<'i>, usize, usize),
    /// An inline request: its line, and its length with the end.
    Line(&'i [u8], usize),
    /// An empty request of this length.
    Nothing(usize),
    /// An incomplete request: the least number of bytes missing.
    More(usize),
    /// A request that is too large: the number of arguments missing, and their offset.
    TooLarge(u32, usize),
    /// Malformed.
    Bad(Bad),
}

/// Errors of syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    Says(&'static str),
    /// Beyond the limit of a line.
    Line(&'static str),
    /// Beyond the limit of arguments.
    Arguments(&'static str),
    /// Beyond the limit of a request.
    Length(&'static str),
    /// This byte instead of the head of an argument.
    Expected(u8),
}

/// Parses the beginning of the input, of which there is at least a byte.
#[inline]
pub(super) fn parse(input: &[u8], bounds: Bounds) -> Parsed<'_> {
    if input[0] != b'*' {
        return line(input, bounds.line);
    }
    let Some((count, begin)) = number(input, 1) else {
        return unfinished(input, bounds.line, "Protocol error: too big mbulk count string");
    };
    let count = match count {
        Some(count @ 1..) if count as u64 <= bounds.arguments as u64 => count as usize,
        Some(..1) => return Parsed::Nothing(begin),
        Some(_) => return Parsed::Bad(Bad::Arguments("Protocol error: invalid multibulk length")),
        None => return Parsed::Bad(Bad::Says("Protocol error: invalid multibulk length")),
    };
    let mut kept: [&[u8]; KEPT] = [b""; KEPT];
    let mut at = begin;
    for index in 0..count {
        let left = count - index;
        match argument(input, at) {
            Ok(Some((argument, next))) => {
                if let Some(kept) = kept.get_mut(index) {
                    *kept = argument;
                }
                at = next;
            }
            Ok(None) => return missing(input, at, left, bounds),
            Err(bad) => return Parsed::Bad(bad),
        }
        if at > bounds.bytes {
            return Parsed::TooLarge(left as u32 - 1, at);
        }
    }
    Parsed::Request(Args { kept, count, bytes: &input[begin..at] }, begin, at)
}

/// The result for a request whose argument at `at` is incomplete, and is the first of `left` arguments.
#[cold]
fn missing(input: &[u8], at: usize, left: usize, bounds: Bounds) -> Parsed<'_> {
    let of_others = (left - 1) * ARGUMENT_BYTES_MIN;
    let length = match head(input, at) {
        Ok(Some((length, begin))) => begin + length + 2 + of_others,
        _ if input.len() - at > bounds.line => {
            return Parsed::Bad(Bad::Line("Protocol error: too big bulk count string"));
        }
        // At least one byte more, even after a part of a length.
        _ => (input.len() + 1).max(at + left * ARGUMENT_BYTES_MIN),
    };
    if length > bounds.bytes { Parsed::TooLarge(left as u32, at) } else { Parsed::More(length) }
}

fn unfinished<'i>(input: &[u8], bytes_max: usize, too_long: &'static str) -> Parsed<'i> {
    if input.len() > bytes_max {
        return Parsed::Bad(Bad::Line(too_long));
    }
    Parsed::More(input.len() + 1)
}

fn line(input: &[u8], bytes_max: usize) -> Parsed<'_> {
    const TOO_LONG: &str = "Protocol error: too big inline request";
    let Some(end) = memchr(b'\n', input) else {
        return unfinished(input, bytes_max, TOO_LONG);
    };
    if end > bytes_max {
        return Parsed::Bad(Bad::Line(TOO_LONG));
    }
    let line = &input[..end];
    Parsed::Line(line.strip_suffix(b"\r").unwrap_or(line), end + 1)
}

/// The argument whose head begins at `at`, and the offset of the next. `None`: it is incomplete.
#[inline]
pub(super) fn argument(input: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, Bad> {
    let Some((length, begin)) = head(input, at)? else { return Ok(None) };
    let next = begin + length + 2;
    if next > input.len() {
        return Ok(None);
    }
    Ok(Some((&input[begin..begin + length], next)))
}

/// The length in the head at `at`, and the offset of the argument.
#[inline]
pub(super) fn head(input: &[u8], at: usize) -> Result<Option<(usize, usize)>, Bad> {
    match input.get(at) {
        None => return Ok(None),
        Some(b'$') => {}
        Some(&other) => return Err(Bad::Expected(other)),
    }
    match number(input, at + 1) {
        None => Ok(None),
        Some((Some(length @ 0..=BULK_BYTES_MAX), begin)) => Ok(Some((length as usize, begin))),
        Some((Some(1..), _)) => Err(Bad::Length("Protocol error: invalid bulk length")),
        Some(_) => Err(Bad::Says("Protocol error: invalid bulk length")),
    }
}

/// The number at `at`, or `None` if malformed, and the offset after its line. The outer `None`: the line is
/// incomplete.
#[inline]
fn number(input: &[u8], at: usize) -> Option<(Option<i64>, usize)> {
    let rest = &input[at..];
    // Most numbers have few digits.
    let mut number = 0;
    for (index, &byte) in rest.iter().take(8).enumerate() {
        match byte {
            // A leading zero is malformed, except in 0.
            b'0' if index == 0 && rest.get(1) != Some(&b'\r') => break,
            b'0'..=b'9' => number = 10 * number + i64::from(byte - b'0'),
            b'\r' if index > 0 => {
                let next = at + index + 2;
                return (next <= input.len()).then_some((Some(number), next));
            }
            _ => break,
        }
    }
    let end = memchr(b'\r', rest)?;
    let next = at + end + 2;
    (next <= input.len()).then(|| (super::number::integer(&rest[..end]), next))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { bytes: 1000, line: 1000, arguments: 1000 };

    fn request(words: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        super::super::reply::array(&mut bytes, words.len());
        words.iter().for_each(|word| super::super::reply::bulk(&mut bytes, word));
        bytes
    }

    #[test]
    fn arguments_are_found_in_every_place() {
        let words: Vec<Vec<u8>> =
            (0..20).map(|number| vec![b'a' + number; number as usize]).collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let bytes = request(&words);
        let Parsed::Request(args, begin, end) = parse(&bytes, BOUNDS) else { panic!("none") };
        assert_eq!((args.len(), end), (words.len(), bytes.len()));
        assert!(words.iter().enumerate().all(|(at, word)| args.get(at) == *word));
        assert_eq!(args.get(20), b"");
        assert_eq!(args.from(9).collect::<Vec<_>>(), &words[9..]);
        assert!(args.placed().all(|(place, _)| bytes[begin + place] == b'$'));
    }

    /// Incomplete input asks for more than there is, and never for more than there will be.
    #[test]
    fn incomplete_requests_ask_for_the_bytes_missing() {
        let bytes = request(&[b"SET", b"key", b"a value of some bytes", b"", b"NX"]);
        for end in 1..bytes.len() {
            match parse(&bytes[..end], BOUNDS) {
                Parsed::More(wanted) => {
                    assert!(end < wanted && wanted <= bytes.len(), "{end}: {wanted}")
                }
                other => panic!("{end}: {other:?}"),
            }
        }
        assert!(matches!(parse(&bytes, Bounds { bytes: 20, ..BOUNDS }), Parsed::TooLarge(..)));
    }

    #[test]
    fn any_bytes_are_looked_at_without_a_panic() {
        let mut chance = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |bound: usize| {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            (chance >> 33) as usize % bound
        };
        let alphabet = b"*$$\r\n\r\n00112999-+ax\x00\xff";
        for _ in 0..20_000 {
            let mut bytes = request(&[b"GET", b"key"]);
            for _ in 0..below(8) {
                let at = below(bytes.len() + 1);
                match below(3) {
                    0 => bytes.insert(at, alphabet[below(alphabet.len())]),
                    1 => bytes.truncate(at.max(1)),
                    _ => *bytes.last_mut().unwrap() = below(256) as u8,
                }
            }
            match parse(&bytes, BOUNDS) {
                Parsed::Request(_, _, end) | Parsed::Line(_, end) | Parsed::Nothing(end) => {
                    assert!(0 < end && end <= bytes.len());
                }
                Parsed::More(wanted) => assert!(wanted > bytes.len()),
                Parsed::TooLarge(_, end) => assert!(end <= bytes.len()),
                Parsed::Bad(_) => {}
            }
        }
    }
}
