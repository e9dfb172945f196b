//! Chunked bodies of requests (RFC 9112, section 7.1): their end is found first, then they are put together.

/// Length of a chunk's line with its extensions, and of all trailers.
const LINE_BYTES_MAX: usize = 256;
const TRAILER_BYTES_MAX: usize = 4 << 10;

/// How much of a body has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// Incomplete: this many bytes of the input are needed at least.
    Needs(usize),
    /// Complete: it ends at this byte.
    Whole(usize),
}

/// Why a body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Bad,
    TooLarge,
}

/// Looks for the end of a body whose next chunk begins at `at`, and moves `at` past whole chunks. `bytes` counts
/// their data.
pub(crate) fn look(
    input: &[u8],
    at: &mut usize,
    bytes: &mut usize,
    bytes_max: usize,
) -> Result<Arrived, Refused> {
    loop {
        let Some((size, data)) = line(input, *at)? else {
            return Ok(Arrived::Needs(input.len() + 1));
        };
        if size == 0 {
            return trailers(input, data);
        }
        *bytes += size;
        if *bytes > bytes_max {
            return Err(Refused::TooLarge);
        }
        let end = data + size;
        if input.len() < end + 2 {
            *bytes -= size;
            return Ok(Arrived::Needs(end + 2));
        }
        if &input[end..end + 2] != b"\r\n" {
            return Err(Refused::Bad);
        }
        *at = end + 2;
    }
}

/// The size of a chunk, and where its data begins.
fn line(input: &[u8], at: usize) -> Result<Option<(usize, usize)>, Refused> {
    let rest = &input[at.min(input.len())..];
    let Some(end) = memchr::memchr(b'\n', &rest[..rest.len().min(LINE_BYTES_MAX)]) else {
        return if rest.len() < LINE_BYTES_MAX { Ok(None) } else { Err(Refused::Bad) };
    };
    let line = rest[..end].strip_suffix(b"\r").ok_or(Refused::Bad)?;
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let extension = line[digits..].trim_ascii_start();
    let is_good = (1..=8).contains(&digits)
        && (extension.is_empty() && line.len() == digits || extension.first() == Some(&b';'))
        && !extension.contains(&b'\r');
    if !is_good {
        return Err(Refused::Bad);
    }
    let size = std::str::from_utf8(&line[..digits]).ok();
    let size = size.and_then(|size| usize::from_str_radix(size, 16).ok()).ok_or(Refused::Bad)?;
    Ok(Some((size, at + end + 1)))
}

/// Skips the trailers after the last chunk.
fn trailers(input: &[u8], begin: usize) -> Result<Arrived, Refused> {
    let mut at = begin;
    loop {
        let rest = &input[at..];
        let Some(end) = memchr::memchr(b'\n', rest) else {
            let is_long = input.len() - begin > TRAILER_BYTES_MAX;
            return if is_long { Err(Refused::Bad) } else { Ok(Arrived::Needs(input.len() + 1)) };
        };
        let line = rest[..end].strip_suffix(b"\r").ok_or(Refused::Bad)?;
        at += end + 1;
        if line.is_empty() {
            return Ok(Arrived::Whole(at));
        }
        if at - begin > TRAILER_BYTES_MAX || !line.contains(&b':') {
            return Err(Refused::Bad);
        }
    }
}

/// The data of a complete body, from `at` on.
pub(crate) fn data(input: &[u8], mut at: usize) -> Vec<u8> {
    let mut data = Vec::new();
    while let Ok(Some((size, begin))) = line(input, at) {
        if size == 0 || input.len() < begin + size + 2 {
            break;
        }
        data.extend_from_slice(&input[begin..begin + size]);
        at = begin + size + 2;
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Result<Arrived, Refused> {
        look(text.as_bytes(), &mut 0, &mut 0, 100)
    }

    #[test]
    fn a_body_is_found_however_it_is_cut() {
        let text = b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: u\r\n\r\nGET";
        let end = text.len() - 3;
        let (mut at, mut bytes) = (0, 0);
        for cut in 0..end {
            let arrived = look(&text[..cut], &mut at, &mut bytes, 100).unwrap();
            assert!(matches!(arrived, Arrived::Needs(needed) if needed > cut && needed <= end));
        }
        assert_eq!(look(text, &mut at, &mut bytes, 100), Ok(Arrived::Whole(end)));
        assert_eq!(data(&text[..end], 0), b"abc0123456789");
    }

    #[test]
    fn bad_chunks_are_refused() {
        for text in [
            "x\r\n",
            "\r\n",
            "-1\r\n",
            "0x1\r\na\r\n",
            "1\na\r\n",
            "1 \r\na\r\n",
            "1\r\nab\r\n",
            "1\r\na\n\n",
            "fffffffff\r\n",
            "0\r\nbad\r\n\r\n",
            "1\r\r\na\r\n",
        ] {
            assert_eq!(whole(text), Err(Refused::Bad), "{}", text.escape_debug());
        }
        assert_eq!(whole("65\r\n"), Err(Refused::TooLarge));
    }
}
