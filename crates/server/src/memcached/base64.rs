//! Base 64 of keys, for the flag `b` of the meta dialect (RFC 4648, padded).

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes a text. `None`: it is empty or not base 64.
pub(super) fn decode<'b>(text: &[u8], into: &'b mut [u8]) -> Option<&'b [u8]> {
    if text.is_empty() || !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|&&byte| byte == b'=').count();
    let mut length = 0;
    for quad in text.chunks_exact(4) {
        let mut word = 0;
        for &digit in quad {
            word = word << 6 | if digit == b'=' { 0 } else { value(digit)? };
        }
        let bytes = [(word >> 16) as u8, (word >> 8) as u8, word as u8];
        into.get_mut(length..length + 3)?.copy_from_slice(&bytes);
        length += 3;
    }
    // Padding is allowed at the end only.
    let digits = &text[..text.len() - padding];
    (padding <= 2 && !digits.contains(&b'=')).then(|| &into[..length - padding])
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

/// Appends `bytes` in base 64.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for triple in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=triple.len()].copy_from_slice(triple);
        let word = u32::from_be_bytes(word);
        for place in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= triple.len() { digit } else { b'=' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_keys_are_decoded() {
        for (bytes, text) in [
            (&b"f"[..], &b"Zg=="[..]),
            (b"fo", b"Zm8="),
            (b"foo", b"Zm9v"),
            (b"foobar", b"Zm9vYmFy"),
            (b"\xff\x00\xfe", b"/wD+"),
        ] {
            let mut out = Vec::new();
            encode(bytes, &mut out);
            assert_eq!(out, text);
            assert_eq!(decode(text, &mut [0; 250]), Some(bytes));
        }
        for bad in [&b""[..], b"Zg", b"Z===", b"====", b"Zg=a", b"Z g=", b"Zm9v\n"] {
            assert_eq!(decode(bad, &mut [0; 250]), None, "{}", bad.escape_ascii());
        }
        assert_eq!(decode(b"Zm9v", &mut [0; 2]), None);
    }
}
