//! Numbers as memcached reads them, following C's `strtoul` and `strtol`: white space and a sign are allowed before,
//! white space and anything after.

/// An unsigned number of 64 bits. C negates one with a minus, and memcached rejects what then is 2^63 or more.
pub(super) fn unsigned(token: &[u8]) -> Option<u64> {
    let (negative, magnitude) = read(token)?;
    let number = if negative { magnitude.wrapping_neg() } else { magnitude };
    (number <= i64::MAX as u64 || !token.contains(&b'-')).then_some(number)
}

/// An unsigned number of 32 bits: the lower half of a larger one.
pub(super) fn unsigned_32(token: &[u8]) -> Option<u32> {
    unsigned(token).map(|number| number as u32)
}

/// A signed number of 32 bits: the lower half of a larger one.
pub(super) fn signed_32(token: &[u8]) -> Option<i32> {
    let (negative, magnitude) = read(token)?;
    let number = i128::from(magnitude);
    i64::try_from(if negative { -number } else { number }).ok().map(|number| number as i32)
}

/// Its sign and its magnitude.
fn read(token: &[u8]) -> Option<(bool, u64)> {
    let blanks = token.iter().take_while(|&&byte| is_space(byte)).count();
    let token = &token[blanks..];
    let (negative, digits) = match token.first()? {
        b'-' => (true, &token[1..]),
        b'+' => (false, &token[1..]),
        _ => (false, token),
    };
    let mut number: u64 = 0;
    let mut length = 0;
    for &digit in digits.iter().take_while(|digit| digit.is_ascii_digit()) {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
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
        assert_eq!(unsigned(b"-18446744073709551615"), Some(1));
        assert_eq!(unsigned(b"-9223372036854775809"), Some(i64::MAX as u64));
        assert_eq!(unsigned(b"-9223372036854775808"), None);
        assert_eq!(unsigned(b"9223372036854775808"), Some(1 << 63));
        assert_eq!(unsigned(b"9223372036854775808\r-"), None);
        for bad in [&b""[..], b"-", b"+", b"-1", b"x", b"12x", b" ", b"1.5"] {
            assert_eq!(unsigned(bad), None, "{}", bad.escape_ascii());
        }
        assert_eq!(unsigned_32(b"4294967297"), Some(1));
        assert_eq!(signed_32(b"-7"), Some(-7));
        assert_eq!(signed_32(b"4294967295"), Some(-1));
        assert_eq!(signed_32(b"9223372036854775808"), None);
        assert_eq!(signed_32(b"-9223372036854775808"), Some(0));
        assert_eq!(signed_32(b"-9223372036854775809"), None);
    }
}
