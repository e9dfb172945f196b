//! Names of files as text that identifies the file, whatever bytes are in them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The character for byte 0 where a name is not UTF-8: a private character that no name has.
#[cfg(unix)]
const BYTES: u32 = 0x10_fe00;

/// The name of a file as [`load`](super::load) and its kin take it: the text itself, with a private
/// character for each byte that is not UTF-8. [`path_of`] is the inverse.
///
/// ```
/// use frazil_simulator::trace::{path_of, spec_of};
/// # #[cfg(unix)] {
/// use std::os::unix::ffi::OsStrExt;
/// let name = std::ffi::OsStr::from_bytes(b"gr\xfcn.csv");
/// assert_eq!(path_of(&spec_of(name)).as_os_str(), name);
/// # }
/// assert_eq!(spec_of("green.csv".as_ref()), "green.csv");
/// ```
pub fn spec_of(name: &OsStr) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let mut text = String::new();
        for chunk in name.as_bytes().utf8_chunks() {
            text.push_str(chunk.valid());
            let bytes = chunk.invalid().iter().map(|byte| BYTES + u32::from(*byte));
            text.extend(bytes.filter_map(char::from_u32));
        }
        text
    }
    #[cfg(not(unix))]
    name.to_string_lossy().into_owned()
}

/// The byte that a character stands for, if any.
fn byte_of(c: char) -> Option<u8> {
    #[cfg(unix)]
    {
        u32::from(c).checked_sub(BYTES).and_then(|byte| u8::try_from(byte).ok())
    }
    #[cfg(not(unix))]
    {
        let _ = c;
        None
    }
}

/// The file that a specification names: the inverse of [`spec_of`].
pub fn path_of(spec: &str) -> PathBuf {
    if !spec.contains(|c| byte_of(c).is_some()) {
        return PathBuf::from(spec);
    }
    PathBuf::from(os_string(spec))
}

#[cfg(unix)]
fn os_string(spec: &str) -> OsString {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::new();
    for c in spec.chars() {
        match byte_of(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(not(unix))]
fn os_string(spec: &str) -> OsString {
    spec.into()
}

/// A path for a message.
pub(super) fn shown(path: &Path) -> String {
    printable(&spec_of(path.as_os_str()))
}

/// Foreign text for a message: on one line, with control characters and invalid bytes escaped, so
/// that a file's name can't rewrite a terminal.
///
/// ```
/// assert_eq!(frazil_simulator::trace::printable("a\u{1b}[31m\n"), "a\\u{1b}[31m\\n");
/// ```
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => shown += &format!("\\x{byte:02x}"),
            None if c.is_control() => shown.extend(c.escape_default()),
            None => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_on_one_line() {
        assert_eq!(shown(Path::new("a\nb")), "a\\nb");
    }

    #[cfg(unix)]
    #[test]
    fn bytes_that_are_no_text_come_back() {
        use std::os::unix::ffi::OsStrExt;
        for name in [&b"a"[..], b"", b"\xff", b"a\xc3\xa9\xfc/\x80.csv", b"\xe2\x82"] {
            let name = OsStr::from_bytes(name);
            assert_eq!(path_of(&spec_of(name)).as_os_str(), name);
        }
        assert_eq!(shown(Path::new(OsStr::from_bytes(b"gr\xfcn"))), "gr\\xfcn");
    }
}
