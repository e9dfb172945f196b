//! The slots of Redis Cluster: to which of 16,384 parts a key belongs.

/// The number of slots.
pub(crate) const SLOTS: usize = 1 << 14;

/// CRC16/XMODEM, by byte.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x8000 != 0 { sum << 1 ^ 0x1021 } else { sum << 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum: u16, &byte| sum << 8 ^ TABLE[usize::from((sum >> 8) as u8 ^ byte)])
}

/// The hashed part of a key: the text between its first `{` and the next `}`, if that is not empty, else all.
fn hashed(key: &[u8]) -> &[u8] {
    let Some(begin) = memchr::memchr(b'{', key) else { return key };
    let tag = &key[begin + 1..];
    match memchr::memchr(b'}', tag) {
        None | Some(0) => key,
        Some(end) => &tag[..end],
    }
}

/// The slot of a key, below [`SLOTS`].
pub(super) fn slot(key: &[u8]) -> u16 {
    crc16(hashed(key)) % SLOTS as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(crc16(b""), 0);
        // As `CLUSTER KEYSLOT` of redis 7.0.15 answers.
        for (key, expected) in [("somekey", 11058), ("foo", 12182), ("bar", 5061), ("hello", 866)] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn a_tag_in_braces_decides() {
        for (key, tag) in [
            ("{user1000}.following", "user1000"),
            ("a{b}c{d}", "b"),
            ("foo{{bar}}zap", "{bar"),
            ("x}{y}", "y"),
        ] {
            assert_eq!(hashed(key.as_bytes()), tag.as_bytes(), "{key}");
        }
        for key in ["foo{}{bar}", "foo{bar", "}bar{", "", "{"] {
            assert_eq!(hashed(key.as_bytes()), key.as_bytes(), "{key}");
        }
    }
}
