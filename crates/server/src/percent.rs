//! Percent-encoding of URLs.

/// Percent-encodes all bytes except letters, digits and `-._~` (RFC 3986, section 2).
pub(crate) fn encoded(bytes: &[u8]) -> impl Iterator<Item = u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    bytes.iter().flat_map(|&byte| {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let escaped = [b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        let (shown, count) = if is_plain { ([byte; 3], 1) } else { (escaped, 3) };
        shown.into_iter().take(count)
    })
}
