//! Fields of a text line and the numbers in them.
//!
//! Two layers. [`Fields`] and the `parse_*` functions handle all valid input (blanks around a
//! field, quotes, decimals) and report errors in the rest. [`leading_number`] reads digits eight at
//! a time straight from the block; a line of only digits never needs the first layer. Where both
//! apply, they agree.

use std::borrow::Cow;

use memchr::memchr;
use xxhash_rust::xxh3::xxh3_64;

use super::date_time::parse_iso;
use super::error::{excerpt, expected};
use super::{FOR_EVER, Operation, SIZE_UNKNOWN};

/// One field of a line, without the blanks or quotes around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) raw: &'a [u8],
    /// Whether quotes inside are still doubled.
    doubled: bool,
}

impl<'a> Field<'a> {
    /// A line that is one field.
    pub(super) fn whole(line: &'a [u8]) -> Self {
        Self { raw: line.trim_ascii(), doubled: false }
    }

    /// The field's text.
    fn text(&self) -> Cow<'a, [u8]> {
        if !self.doubled {
            return Cow::Borrowed(self.raw);
        }
        let mut text = Vec::with_capacity(self.raw.len());
        let mut quote = false;
        for &byte in self.raw {
            quote = byte == b'"' && !quote;
            if !quote {
                text.push(byte);
            }
        }
        Cow::Owned(text)
    }
}

/// The fields of a line. After an error there are no more.
pub(super) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Fields<'a> {
    pub(super) fn of(line: &'a [u8], separator: u8) -> Self {
        // A run of blanks is one separator, so blanks at the ends separate nothing.
        let line = if separator == b' ' { line.trim_ascii() } else { line };
        Self { rest: Some(line), separator }
    }

    /// A field that begins with a quote, and the bytes after its separator.
    #[cold]
    fn quoted(&self, start: &'a [u8]) -> Result<(Field<'a>, Option<&'a [u8]>), String> {
        let mut doubled = false;
        let mut at = 1;
        let end = loop {
            match memchr(b'"', &start[at..]) {
                None => return Err(expected("a closing quote on the same line", start)),
                Some(offset) if start.get(at + offset + 1) == Some(&b'"') => {
                    doubled = true;
                    at += offset + 2;
                }
                Some(offset) => break at + offset,
            }
        };
        let field = Field { raw: &start[1..end], doubled };
        let after = self.skip_blanks(&start[end + 1..]);
        match after.first() {
            None => Ok((field, None)),
            Some(&byte) if byte == self.separator => Ok((field, Some(&after[1..]))),
            Some(_) if self.separator == b' ' && after.len() < start.len() - end - 1 => {
                Ok((field, Some(after)))
            }
            Some(_) => Err(expected("a separator after the closing quote", after)),
        }
    }

    fn skip_blanks(&self, bytes: &'a [u8]) -> &'a [u8] {
        let blank = |byte: &u8| {
            (*byte == b' ' || *byte == b'\t') && (*byte != self.separator || self.separator == b' ')
        };
        let blanks = bytes.iter().take_while(|byte| blank(byte)).count();
        &bytes[blanks..]
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        let start = self.skip_blanks(rest);
        if start.first() == Some(&b'"') {
            return Some(self.quoted(start).map(|(field, rest)| {
                self.rest = rest;
                field
            }));
        }
        let end = if self.separator == b' ' {
            memchr::memchr2(b' ', b'\t', start)
        } else {
            // Fields are too short for a vectorised search to pay.
            start.iter().position(|&byte| byte == self.separator)
        };
        let raw = match end {
            Some(end) => {
                self.rest = Some(&start[end + 1..]);
                &start[..end]
            }
            None => start,
        };
        Some(Ok(Field { raw: raw.trim_ascii_end(), doubled: false }))
    }
}

/// The fields of a line that must have exactly `N`.
pub(super) fn split<const N: usize>(line: &[u8], separator: u8) -> Result<[Field<'_>; N], String> {
    let mut fields = [Field::default(); N];
    let mut count = 0;
    for field in Fields::of(line, separator) {
        let field = field?;
        if let Some(place) = fields.get_mut(count) {
            *place = field;
        }
        count += 1;
    }
    if count == N {
        Ok(fields)
    } else {
        let what = format!("{N} fields ({count} found)");
        Err(expected(&what, line))
    }
}

/// Whether digits begin with zeros that a number would lose: `0123` and `123` are two ids.
pub(super) fn has_leading_zeros(digits: &[u8]) -> bool {
    digits.len() > 1 && digits.first() == Some(&b'0')
}

/// An id: digits without leading zeros are a number, anything else is hashed to 64 bits, also
/// numbers beyond 64 bits, which `wide` counts.
pub(super) fn parse_id(field: &Field<'_>, wide: &mut u64) -> Result<u64, String> {
    match parse_unsigned(field.raw) {
        Number::Value(_) if has_leading_zeros(field.raw) => Ok(hashed(field.raw)),
        Number::Value(id) => Ok(id),
        Number::TooLarge => {
            *wide += 1;
            Ok(hashed(field.raw))
        }
        Number::NotDigits if field.raw.is_empty() => {
            Err("expected an id, found nothing".to_owned())
        }
        Number::NotDigits => Ok(hashed(&field.text())),
    }
}

/// The id of an object in a trace whose ids are text, as a CSV file has them: digits without leading
/// zeros are a number, and anything else is hashed to 64 bits.
///
/// ```
/// use frazil_simulator::trace::id_of_name;
/// assert_eq!(id_of_name(b"42"), 42);
/// assert_ne!(id_of_name(b"apple"), id_of_name(b"pear"));
/// ```
pub fn id_of_name(name: &[u8]) -> u64 {
    match parse_unsigned(name) {
        Number::Value(id) if !has_leading_zeros(name) => id,
        _ => hashed(name),
    }
}

/// The id of an object whose name is text.
pub(super) fn hashed(name: &[u8]) -> u64 {
    xxh3_64(name)
}

/// An id in a format whose ids are numbers.
pub(super) fn parse_numeric_id(field: &Field<'_>) -> Result<u64, String> {
    match parse_unsigned(field.raw) {
        Number::Value(id) => Ok(id),
        Number::TooLarge => Err(format!("id {} beyond 64 bits", excerpt(field.raw))),
        Number::NotDigits => Err(expected("an id (unsigned integer)", field.raw)),
    }
}

/// Any unsigned 64-bit number; an error calls it `what`.
pub(super) fn parse_number(field: &Field<'_>, what: &str) -> Result<u64, String> {
    match parse_unsigned(field.raw) {
        Number::Value(value) => Ok(value),
        Number::TooLarge => Err(format!("{what} {} beyond 64 bits", excerpt(field.raw))),
        Number::NotDigits => Err(expected(&format!("{what} (unsigned integer)"), field.raw)),
    }
}

/// A size in bytes.
pub(super) fn parse_size(field: &Field<'_>) -> Result<u64, String> {
    match parse_unsigned(field.raw) {
        Number::Value(size) => size_of(size),
        Number::TooLarge => Err(format!("size {} beyond {SIZE_LIMIT}", excerpt(field.raw))),
        Number::NotDigits => Err(expected("a size (unsigned integer)", field.raw)),
    }
}

/// A size in bytes of a column that may lack it: empty, `-`, `null` and `NaN` are unknown, and a
/// fraction of zeros, as in `7.0`, adds nothing.
pub(super) fn parse_known_size(field: &Field<'_>) -> Result<u64, String> {
    let is = |word: &&str| field.raw.eq_ignore_ascii_case(word.as_bytes());
    if ["", "-", "null", "none", "nan"].iter().any(is) {
        return Ok(SIZE_UNKNOWN);
    }
    let zeros = |part: &[u8]| !part.is_empty() && part.iter().all(|&digit| digit == b'0');
    match memchr(b'.', field.raw).filter(|&point| zeros(&field.raw[point + 1..])) {
        Some(point) => parse_size(&Field { raw: &field.raw[..point], doubled: false }),
        None => parse_size(field),
    }
}

/// The largest size of an object, 1 TiB: a larger number means that the column has no sizes.
const SIZE_MAX: u64 = 1 << 40;
const SIZE_LIMIT: &str = "1 TiB, the largest object size";

/// A size within bounds.
pub(super) fn size_of(size: u64) -> Result<u64, String> {
    if size <= SIZE_MAX { Ok(size) } else { Err(format!("size {size} beyond {SIZE_LIMIT}")) }
}

/// How a time column is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Nanoseconds in a unit of the column.
    pub(super) unit_ns: u64,
    /// Whether the times are kept. If not, they must still be numbers, but may be of any size.
    pub(super) keep: bool,
}

impl Clock {
    /// A whole number of units in nanoseconds; `None` if that is beyond 64 bits.
    #[inline]
    pub(super) fn whole(self, units: u64) -> Option<u64> {
        if self.keep { units.checked_mul(self.unit_ns) } else { Some(0) }
    }

    /// A lifetime of a decimal number of units, in nanoseconds: 0 if the field is empty,
    /// [`FOR_EVER`] if it is `never`, -1, or beyond 64 bits.
    pub(super) fn parse_lifetime(self, field: &Field<'_>) -> Result<u64, String> {
        let is =
            |words: &[&str]| words.iter().any(|it| field.raw.eq_ignore_ascii_case(it.as_bytes()));
        if is(&["", "null", "none"]) {
            return Ok(0);
        }
        if is(&["never", "inf", "-1"]) {
            return Ok(FOR_EVER);
        }
        let is_number = field.raw.iter().all(|it| it.is_ascii_digit());
        let problem = match self.parse(field) {
            Ok(_) if parse_iso(field.raw).is_some() => expected("a time span", field.raw),
            Err(_) if is_number => return Ok(FOR_EVER),
            Err(problem) => problem,
            Ok(ns) => return Ok(ns),
        };
        Err(format!("in the column of lifetimes, which --ttl none leaves aside: {problem}"))
    }

    /// A decimal number of units in nanoseconds, cut to whole ones.
    pub(super) fn parse(self, field: &Field<'_>) -> Result<u64, String> {
        let wrong = || expected("a time (unsigned number, or as 2026-11-26T16:28:18Z)", field.raw);
        let point = memchr(b'.', field.raw);
        let (units, fraction) = match point {
            Some(point) => (&field.raw[..point], &field.raw[point + 1..]),
            None => (field.raw, &b"0"[..]),
        };
        let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        if !digits(units) || !digits(fraction) {
            let time_ns = parse_iso(field.raw).ok_or_else(wrong)?;
            return Ok(if self.keep { time_ns } else { 0 });
        }
        if !self.keep {
            return Ok(0);
        }
        // Nanoseconds have fewer than 18 digits after the point.
        let shown = &fraction[..fraction.len().min(18)];
        let Number::Value(part) = parse_unsigned(shown) else {
            return Err(wrong());
        };
        let part_ns = u128::from(part) * u128::from(self.unit_ns) / 10u128.pow(shown.len() as u32);
        let units = match parse_unsigned(units) {
            Number::Value(units) => self.whole(units),
            _ => None,
        };
        units.and_then(|whole_ns| whole_ns.checked_add(part_ns as u64)).ok_or_else(|| {
            let time = excerpt(field.raw);
            format!("time {time} beyond 64 bits in nanoseconds; is the time unit right?")
        })
    }
}

/// An operation by the names memcached, libCacheSim and block traces use.
pub(super) fn parse_operation(field: &Field<'_>) -> Result<Operation, String> {
    if field.raw == b"get" {
        return Ok(Operation::Get);
    }
    let is =
        |names: &[&str]| names.iter().any(|name| field.raw.eq_ignore_ascii_case(name.as_bytes()));
    if is(&["get", "gets", "head", "get_lease", "read", "r", "rest.get.object", "rest.head.object"])
    {
        Ok(Operation::Get)
    } else if is(&[
        "set",
        "add",
        "replace",
        "cas",
        "append",
        "prepend",
        "incr",
        "decr",
        "put",
        "write",
        "w",
        "set_lease",
        "rest.put.object",
    ]) {
        Ok(Operation::Set)
    } else if is(&["delete", "del", "remove", "rest.delete.object"]) {
        Ok(Operation::Delete)
    } else {
        Err(expected("an operation (get, set, delete or their like)", field.raw))
    }
}

/// The result of reading bytes as an unsigned number.
enum Number {
    Value(u64),
    TooLarge,
    NotDigits,
}

fn parse_unsigned(digits: &[u8]) -> Number {
    let mut value = Some(0u64);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Number::NotDigits;
        }
        value = value.and_then(|value| value.checked_mul(10)?.checked_add(u64::from(digit)));
    }
    match value {
        Some(_) if digits.is_empty() => Number::NotDigits,
        Some(value) => Number::Value(value),
        None => Number::TooLarge,
    }
}

/// Powers of ten by which up to eight digits shift a number.
const TENS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The number at the start of `bytes` and how many digits it has.
///
/// `None` if there is no digit, the number exceeds 64 bits, or fewer than eight bytes follow: the
/// caller then takes the slow path.
#[inline]
pub(super) fn leading_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let (mut value, mut length) = leading_digits(bytes)?;
    if length == 0 {
        return None;
    }
    if length == 8 {
        loop {
            let (more, digits) = leading_digits(&bytes[length..])?;
            value = value.checked_mul(TENS[digits])?.checked_add(more)?;
            length += digits;
            if digits < 8 {
                break;
            }
        }
    }
    Some((value, length))
}

/// Up to eight digits at the start of `bytes`: their value and number.
#[inline]
fn leading_digits(bytes: &[u8]) -> Option<(u64, usize)> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // A digit becomes 0..=9, and only that stays below 0x80 when 0x76 is added. A carry out of
    // another byte affects only bytes behind it.
    let word = u64::from_le_bytes(*bytes.first_chunk()?) ^ (0x30 * ONES);
    let others = (word.wrapping_add(0x76 * ONES) | word) & (0x80 * ONES);
    let digits = others.trailing_zeros() as usize / 8;
    if digits == 0 {
        return Some((0, 0));
    }
    // The digits move to the top; the zeros that follow below count as leading ones.
    let word = word << (64 - 8 * digits);
    let pairs = (word.wrapping_mul(10).wrapping_add(word >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let value = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
    Some((value, digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(line: &str, separator: u8) -> Result<Vec<String>, String> {
        Fields::of(line.as_bytes(), separator)
            .map(|field| field.map(|field| String::from_utf8_lossy(&field.text()).into_owned()))
            .collect()
    }

    #[test]
    fn fields_lose_blanks_and_quotes() {
        assert_eq!(texts("a, b ,\tc", b',').unwrap(), ["a", "b", "c"]);
        assert_eq!(texts("a,,", b',').unwrap(), ["a", "", ""]);
        assert_eq!(texts(r#""a,b", "say ""x""" ,c"#, b',').unwrap(), ["a,b", "say \"x\"", "c"]);
        assert_eq!(texts("  1 \t 2   3 ", b' ').unwrap(), ["1", "2", "3"]);
        assert_eq!(texts(r#""a b" c"#, b' ').unwrap(), ["a b", "c"]);
        assert_eq!(texts("1\t\t3", b'\t').unwrap(), ["1", "", "3"]);
        assert!(texts(r#"1,"abc"#, b',').unwrap_err().contains("closing quote"));
        assert!(texts(r#""a"b,c"#, b',').unwrap_err().contains("separator"));
    }

    fn field(text: &str) -> Field<'_> {
        Field { raw: text.as_bytes(), doubled: false }
    }

    #[test]
    fn ids_are_numbers_or_hashes() {
        let mut wide = 0;
        let mut read = |text: &str| parse_id(&field(text), &mut wide);
        assert_eq!(read("7"), Ok(7));
        assert_eq!(read("007"), Ok(xxh3_64(b"007")));
        assert_eq!(read("0"), Ok(0));
        assert_eq!(read("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(read("key:1"), Ok(xxh3_64(b"key:1")));
        assert_eq!(read("-1"), Ok(xxh3_64(b"-1")));
        assert!(read("").is_err());
        assert_eq!(read("18446744073709551616"), Ok(xxh3_64(b"18446744073709551616")));
        assert_eq!(wide, 1);
        assert!(parse_numeric_id(&field("x")).is_err());
    }

    #[test]
    fn sizes_are_bounded() {
        assert_eq!(parse_size(&field("4294967296")), Ok(1 << 32));
        assert_eq!(parse_size(&field("1099511627776")), Ok(SIZE_MAX));
        assert_eq!(
            parse_size(&field("1099511627777")).unwrap_err(),
            "size 1099511627777 beyond 1 TiB, the largest object size"
        );
        assert_eq!(
            parse_size(&field("-5")).unwrap_err(),
            "expected a size (unsigned integer), found \"-5\""
        );
        assert!(parse_size(&field("99999999999999999999999")).is_err());
    }

    #[test]
    fn sizes_may_be_unknown_or_have_a_fraction_of_zeros() {
        let read = |text| parse_known_size(&field(text));
        for text in ["", "-", "NaN", "null", "None"] {
            assert_eq!(read(text), Ok(SIZE_UNKNOWN), "{text}");
        }
        assert_eq!((read("7.0"), read("7.000"), read("7")), (Ok(7), Ok(7), Ok(7)));
        for text in ["7.5", "7.", ".0", "-7", "x"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_may_be_decimal() {
        let clock = Clock { unit_ns: 1_000_000_000, keep: true };
        assert_eq!(clock.parse(&field("1.5")), Ok(1_500_000_000));
        assert_eq!(clock.parse(&field("0.0000000019")), Ok(1));
        assert_eq!(clock.parse(&field("12")), Ok(12_000_000_000));
        for wrong in ["", ".", "1.", ".5", "-1", "1e3", "1.2.3", "x"] {
            assert!(clock.parse(&field(wrong)).is_err(), "{wrong}");
        }
        let far = "18446744073709551615";
        assert_eq!(clock.parse(&field("1970-01-01T00:00:01.5Z")), Ok(1_500_000_000));
        assert!(clock.parse(&field(far)).unwrap_err().contains("time unit"));
        let free = Clock { keep: false, ..clock };
        assert_eq!(free.parse(&field(far)), Ok(0));
        assert!(free.parse(&field("x")).is_err());
        assert_eq!(free.parse(&field("2026-11-26")), Ok(0));
    }

    #[test]
    fn operations_have_many_names() {
        assert_eq!(parse_operation(&field("gets")), Ok(Operation::Get));
        assert_eq!(parse_operation(&field("INCR")), Ok(Operation::Set));
        assert_eq!(parse_operation(&field("delete")), Ok(Operation::Delete));
        assert!(parse_operation(&field("flush")).is_err());
    }

    proptest! {
        #[test]
        fn eight_at_a_time_is_one_at_a_time(
            digits in "[0-9]{0,21}",
            rest in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            let bytes = [digits.as_bytes(), &rest[..]].concat();
            let length = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if let Some((value, read)) = leading_number(&bytes) {
                prop_assert_eq!(read, length);
                prop_assert_eq!(Ok(value), str::from_utf8(&bytes[..length]).unwrap().parse());
            } else {
                let fits = str::from_utf8(&bytes[..length]).unwrap().parse::<u64>().is_ok();
                prop_assert!(!fits || bytes.len() < length / 8 * 8 + 8);
            }
        }
    }
}
