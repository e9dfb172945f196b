//! Requests as they arrive: arrays of bulk strings, or a line of words.
//!
//! A request is read where it lies; its arguments are slices of the input. The first of them are
//! kept, and later ones are found again by passing over those before, so any number of arguments needs no memory.

use memchr::memchr;

/// A line that is longer and has no end yet is none.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Arguments of a request.
const ARGUMENTS_MAX: i64 = 1 << 20;
/// What clients of Redis take for the longest string.
const BULK_BYTES_MAX: i64 = 512 << 20;
/// Arguments that are kept.
const KEPT: usize = 8;
/// The shortest argument: `$0`, two ends of line.
const ARGUMENT_BYTES_MIN: usize = 6;

/// The arguments of a request, the command's name the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Args<'i> {
    kept: [&'i [u8]; KEPT],
    count: usize,
    /// From the head of the first on.
    bytes: &'i [u8],
}

impl<'i> Args<'i> {
    /// How many there are, the command's name included: at least one.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The argument of a place, empty if there is none.
    pub(super) fn get(&self, index: usize) -> &'i [u8] {
        if index < KEPT {
            return self.kept[index];
        }
        self.from(index).next().unwrap_or_default()
    }

    /// All from a place on.
    pub(super) fn from(&self, index: usize) -> impl Iterator<Item = &'i [u8]> + use<'i> {
        self.placed().skip(index).map(|(_, argument)| argument)
    }

    /// All, with where the head of each begins, counted from that of the first.
    pub(super) fn placed(&self) -> impl Iterator<Item = (usize, &'i [u8])> + use<'i> {
        let (bytes, count) = (self.bytes, self.count);
        let mut at = 0;
        (0..count).map_while(move |_| {
            let Ok(Some((argument, next))) = argument(bytes, at) else { return None };
            let place = std::mem::replace(&mut at, next);
            Some((place, argument))
        })
    }

    /// All as they came, heads and ends included.
    pub(super) fn as_bytes(&self) -> &'i [u8] {
        self.bytes
    }
}

/// What lies at the beginning of the input.
#[derive(Debug)]
pub(super) enum Parsed<'i> {
    /// A request of so many bytes. Its arguments begin that many bytes after its begin.
    Request(Args<'i>, usize, usize),
    /// A line of words without its end, and how many bytes it takes with it.
    Line(&'i [u8], usize),
    /// So many bytes of a request that asks for nothing.
    Nothing(usize),
    /// A request of which so many bytes are not there: its length at least.
    More(usize),
    /// A request that is too large, of which so many arguments are to come, from so many bytes on.
    TooLarge(u32, usize),
    /// No request: what is wrong with it.
    Bad(Bad),
}

/// Why bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    Says(&'static str),
    /// This instead of the head of an argument.
    Expected(u8),
}

/// Looks at what begins the input, of which there is at least a byte. A request may have `bytes_max` bytes.
#[inline]
pub(super) fn parse(input: &[u8], bytes_max: usize) -> Parsed<'_> {
    if input[0] != b'*' {
        return line(input);
    }
    let Some((count, begin)) = number(input, 1) else {
        return unfinished(input, "Protocol error: too big mbulk count string");
    };
    let count = match count {
        Some(count @ 1..=ARGUMENTS_MAX) => count as usize,
        Some(..1) => return Parsed::Nothing(begin),
        _ => return Parsed::Bad(Bad::Says("Protocol error: invalid multibulk length")),
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
            Ok(None) => return missing(input, at, left, bytes_max),
            Err(bad) => return Parsed::Bad(bad),
        }
        if at > bytes_max {
            return Parsed::TooLarge(left as u32 - 1, at);
        }
    }
    Parsed::Request(Args { kept, count, bytes: &input[begin..at] }, begin, at)
}

/// An argument whose head begins at `at` has not arrived whole, and it is the first of so many.
#[cold]
fn missing(input: &[u8], at: usize, left: usize, bytes_max: usize) -> Parsed<'_> {
    let of_others = (left - 1) * ARGUMENT_BYTES_MIN;
    let length = match head(input, at) {
        Ok(Some((length, begin))) => begin + length + 2 + of_others,
        _ if input.len() - at > LINE_BYTES_MAX => {
            return Parsed::Bad(Bad::Says("Protocol error: too big bulk count string"));
        }
        // At least one byte more, also where a part of a length has arrived.
        _ => (input.len() + 1).max(at + left * ARGUMENT_BYTES_MIN),
    };
    if length > bytes_max { Parsed::TooLarge(left as u32, at) } else { Parsed::More(length) }
}

fn unfinished<'i>(input: &[u8], too_long: &'static str) -> Parsed<'i> {
    if input.len() > LINE_BYTES_MAX {
        return Parsed::Bad(Bad::Says(too_long));
    }
    Parsed::More(input.len() + 1)
}

fn line(input: &[u8]) -> Parsed<'_> {
    let Some(end) = memchr(b'\n', input) else {
        return unfinished(input, "Protocol error: too big inline request");
    };
    let line = &input[..end];
    Parsed::Line(line.strip_suffix(b"\r").unwrap_or(line), end + 1)
}

/// The argument whose head begins at `at`, and where the next begins. `None`: it has not arrived whole.
#[inline]
pub(super) fn argument(input: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, Bad> {
    let Some((length, begin)) = head(input, at)? else { return Ok(None) };
    let next = begin + length + 2;
    if next > input.len() {
        return Ok(None);
    }
    Ok(Some((&input[begin..begin + length], next)))
}

/// The length that the head at `at` tells, and where the argument begins.
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
        Some(_) => Err(Bad::Says("Protocol error: invalid bulk length")),
    }
}

/// The number at `at` and where what follows its line begins; the number is `None` if it is none. `None`: the
/// line has no end yet.
#[inline]
fn number(input: &[u8], at: usize) -> Option<(Option<i64>, usize)> {
    let rest = &input[at..];
    // Mostly it has few digits.
    let mut number = 0;
    for (index, &byte) in rest.iter().take(8).enumerate() {
        match byte {
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

    const BYTES_MAX: usize = 1000;

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
        let Parsed::Request(args, begin, end) = parse(&bytes, BYTES_MAX) else { panic!("none") };
        assert_eq!((args.len(), end), (words.len(), bytes.len()));
        assert!(words.iter().enumerate().all(|(at, word)| args.get(at) == *word));
        assert_eq!(args.get(20), b"");
        assert_eq!(args.from(9).collect::<Vec<_>>(), &words[9..]);
        assert!(args.placed().all(|(place, _)| bytes[begin + place] == b'$'));
    }

    /// What is cut off asks for more than there is, and never for more than there will be.
    #[test]
    fn a_part_of_a_request_wants_more_and_not_too_much() {
        let bytes = request(&[b"SET", b"key", b"a value of some bytes", b"", b"NX"]);
        for end in 1..bytes.len() {
            match parse(&bytes[..end], BYTES_MAX) {
                Parsed::More(wanted) => {
                    assert!(end < wanted && wanted <= bytes.len(), "{end}: {wanted}")
                }
                other => panic!("{end}: {other:?}"),
            }
        }
        assert!(matches!(parse(&bytes, 20), Parsed::TooLarge(..)));
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
            match parse(&bytes, BYTES_MAX) {
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
