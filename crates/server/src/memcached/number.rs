//! Numbers as memcached reads them, following C's `strtoul` and `strtol`: white space and a sign are allowed before,
//! white space and anything after. Unlike there, no number is negated or cut to fit: one out of range is refused.

/// The longest value that a request may announce, as in memcached.
pub(super) const LENGTH_MAX: u64 = i32::MAX as u64 - 2;
/// The latest expiry time whose milliseconds have 64 bits.
const TIME_MAX: u64 = i64::MAX as u64 / 1000;

/// An unsigned number of 64 bits.
pub(super) fn unsigned(token: &[u8]) -> Option<u64> {
    let (negative, magnitude) = read(token)?;
    magnitude.filter(|&number| !negative || number == 0)
}

/// An unsigned number of 32 bits.
pub(super) fn unsigned_32(token: &[u8]) -> Option<u32> {
    unsigned(token)?.try_into().ok()
}

/// An expiry time.
pub(super) fn time(token: &[u8]) -> Option<i64> {
    let (negative, magnitude) = read(token)?;
    let time = magnitude.filter(|&time| time <= TIME_MAX)?.cast_signed();
    Some(if negative { -time } else { time })
}

/// The length of a value. One of more than 64 bits counts as the largest: its value is refused, but follows.
pub(super) fn length(token: &[u8]) -> Option<u64> {
    match read(token)? {
        (true, magnitude) => magnitude.filter(|&number| number == 0),
        (false, magnitude) => Some(magnitude.unwrap_or(u64::MAX)),
    }
}

/// Whether it is a number, in range or not.
pub(super) fn is_number(token: &[u8]) -> bool {
    read(token).is_some()
}

/// Its sign and its magnitude, `None` for more than 64 bits.
fn read(token: &[u8]) -> Option<(bool, Option<u64>)> {
    let blanks = token.iter().take_while(|&&byte| is_space(byte)).count();
    let token = &token[blanks..];
    let (negative, digits) = match token.first()? {
        b'-' => (true, &token[1..]),
        b'+' => (false, &token[1..]),
        _ => (false, token),
    };
    let mut number = Some(0u64);
    let mut length = 0;
    for &digit in digits.iter().take_while(|digit| digit.is_ascii_digit()) {
        number = number.and_then(|it| it.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
        length += 1;
    }
    let ends = digits.get(length).is_none_or(|&next| is_space(next));
    (length > 0 && ends).then_some((negative, number))
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_does() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(unsigned(b" +12 x"), Some(12));
        assert_eq!(unsigned(b"\t\n\x0b\x0c\r 12"), Some(12));
        assert_eq!(unsigned(b"-0"), Some(0));
        assert_eq!(unsigned(b"-18446744073709551615"), None);
        assert_eq!(unsigned(b"-9223372036854775809"), None);
        assert_eq!(unsigned(b"9223372036854775808"), Some(1 << 63));
        assert_eq!(unsigned(b"9223372036854775808\r-"), Some(1 << 63));
        for bad in [&b""[..], b"-", b"+", b"-1", b"x", b"12x", b" ", b"1.5"] {
            assert_eq!(unsigned(bad), None, "{}", bad.escape_ascii());
        }
        assert_eq!(unsigned_32(b"4294967295"), Some(u32::MAX));
        assert_eq!(unsigned_32(b"4294967296"), None);
        assert_eq!(time(b"-7"), Some(-7));
        assert_eq!(time(b"4294967296"), Some(1 << 32));
        assert_eq!(time(b"-2147483649"), Some(-2_147_483_649));
        assert_eq!(time(b"9223372036854775"), Some(9_223_372_036_854_775));
        assert_eq!(time(b"9223372036854776"), None);
        assert_eq!(time(b"18446744073709551616"), None);
        assert_eq!(length(b"4294967301"), Some(4_294_967_301));
        assert_eq!(length(b"18446744073709551617"), Some(u64::MAX));
        assert_eq!(length(b"-1"), None);
        assert_eq!(length(b"-18446744073709551617"), None);
    }
}
