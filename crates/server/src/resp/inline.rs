//! Inline requests: a line of words, as typed by a person.

/// Writes the words of a line as a request of arguments, with quotes resolved. `None`: a quote is not closed, or
/// something follows it directly. Empty: the line has no words.
pub(super) fn translate(line: &[u8]) -> Option<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut at = 0;
    loop {
        at += line[at..].iter().take_while(|byte| is_space(**byte)).count();
        if at == line.len() {
            break;
        }
        let (word, next) = word(line, at)?;
        words.push(word);
        at = next;
    }
    let mut request = Vec::new();
    if !words.is_empty() {
        super::reply::array(&mut request, words.len());
        words.iter().for_each(|word| super::reply::bulk(&mut request, word));
    }
    Some(request)
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b)
}

/// The word at `at`, and its end.
fn word(line: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut word = Vec::new();
    while let Some(&byte) = line.get(at) {
        match byte {
            b'"' | b'\'' => {
                at = quoted(line, at + 1, byte, &mut word)?;
                return line.get(at).is_none_or(|&next| is_space(next)).then_some((word, at));
            }
            byte if is_space(byte) => break,
            byte => word.push(byte),
        }
        at += 1;
    }
    Some((word, at))
}

/// Appends the quoted text from `at` on to a word, and returns where it ends.
fn quoted(line: &[u8], mut at: usize, quote: u8, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match (quote, &line[at..]) {
            (_, []) => return None,
            (b'"', [b'\\', b'x', high, low, ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
                word.push(digit(*high) << 4 | digit(*low));
                at += 4;
            }
            (b'"', [b'\\', escaped, ..]) => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                at += 2;
            }
            (b'\'', [b'\\', b'\'', ..]) => {
                word.push(b'\'');
                at += 2;
            }
            (_, [byte, ..]) => {
                at += 1;
                if *byte == quote {
                    return Some(at);
                }
                word.push(*byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_redis_does() {
        let is = |line: &str, request: &str| {
            let translated = translate(line.as_bytes()).unwrap();
            assert_eq!(translated.escape_ascii().to_string(), request.escape_default().to_string());
        };
        is("", "");
        is("  \t", "");
        is(" get  key ", "*2\r\n$3\r\nget\r\n$3\r\nkey\r\n");
        is(r#"set "a b" 'c\'d'"#, "*3\r\n$3\r\nset\r\n$3\r\na b\r\n$3\r\nc'd\r\n");
        is(r#""\x41\n\"""#, "*1\r\n$3\r\nA\n\"\r\n");
        for bad in [r#"set """key""#, r#""abc"#, "'abc", r#""a"b"#, r#""a\"#] {
            assert_eq!(translate(bad.as_bytes()), None, "{bad}");
        }
    }
}
