//! Numbers as Redis reads them: the whole text, in the form that Redis would write.

/// A number of 64 bits, without blanks, `+` or leading zeros.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_negative = digits.len() < text.len();
    if digits == b"0" && !is_negative {
        return Some(0);
    }
    if !(1..=19).contains(&digits.len()) || digits[0] == b'0' {
        return None;
    }
    let mut number: i64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // Built as a negative number, because there is one more of those.
        number = number.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))?;
    }
    if is_negative { Some(number) } else { number.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_redis_does() {
        for number in [0, 1, -1, 10, i64::MAX, i64::MIN, -90] {
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
        let bad = ["", "-", "-0", "+1", "01", " 1", "1 ", "1.0", "9223372036854775808"];
        for text in bad.into_iter().chain(["-9223372036854775809", "99999999999999999999"]) {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }
}
