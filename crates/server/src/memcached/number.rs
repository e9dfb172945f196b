//! Numbers as memcached reads them, following C's `strtoul` and `strtol`: white space and a sign are allowed before,
//! white space and anything after.

/// An unsigned number of 64 bits; negative ones are rejected.
pub(super) fn unsigned(token: &[u8]) -> Option<u64> {
    let (negative, magnitude) = read(token)?;
    // C negates it, and memcached rejects what then looks negative.
    (!negative || magnitude == 0).then_some(magnitude)
}

/// An unsigned number of 32 bits: the lower half of a larger one.
pub(super) fn unsigned_32(token: &[u8]) -> Option<u32> {
    unsigned(token).map(|number| number as u32)
}

/// A signed number of 32 bits: the lower half of a larger one.
pub(super) fn signed_32(token: &[u8]) -> Option<i32> {
    let (negative, magnitude) = read(token)?;
    let number = i64::try_from(magnitude).ok()?;
    Some(if negative { -number } else { number } as i32)
}

/// Its sign and its magnitude.
fn read(token: &[u8]) -> Option<(bool, u64)> {
    let token = token.trim_ascii_start();
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
        for bad in [&b""[..], b"-", b"+", b"-1", b"x", b"12x", b" ", b"1.5"] {
            assert_eq!(unsigned(bad), None, "{}", bad.escape_ascii());
        }
        assert_eq!(unsigned_32(b"4294967297"), Some(1));
        assert_eq!(signed_32(b"-7"), Some(-7));
        assert_eq!(signed_32(b"4294967295"), Some(-1));
        assert_eq!(signed_32(b"9223372036854775808"), None);
    }
}
