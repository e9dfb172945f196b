//! `LCS`: the longest common subsequence of two values.

use super::strings::SYNTAX;
use super::times::NOT_AN_INTEGER;
use super::{Call, Done, number, reply};

/// Cells of the table, of two bytes each: two values of 2,048 bytes.
const CELLS_MAX: usize = 1 << 22;
/// Cells that count as one byte of work.
const CELLS_A_BYTE: usize = 4;

/// The options of a request.
#[derive(Default)]
struct Options {
    length: bool,
    ranges: bool,
    with_lengths: bool,
    length_min: i64,
}

/// A range of one value that equals one of the other, and its length.
struct Match {
    one: (usize, usize),
    other: (usize, usize),
}

impl Match {
    fn length(&self) -> usize {
        self.one.1 - self.one.0 + 1
    }
}

pub(super) fn lcs(call: &mut Call<'_, '_>) -> Done {
    let mut options = Options::default();
    let mut words = call.args.from(3);
    while let Some(word) = words.next() {
        match word.to_ascii_lowercase().as_slice() {
            b"len" => options.length = true,
            b"idx" => options.ranges = true,
            b"withmatchlen" => options.with_lengths = true,
            b"minmatchlen" => {
                let least = number::integer(words.next().ok_or(SYNTAX)?).ok_or(NOT_AN_INTEGER)?;
                options.length_min = least.max(0);
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    if options.length && options.ranges {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    let (one, other) = {
        let store = &call.turn.shared.items.store;
        (store.hold(call.args.get(1)), store.hold(call.args.get(2)))
    };
    let one = one.as_ref().map_or(&b""[..], |held| held.entry().value);
    let other = other.as_ref().map_or(&b""[..], |held| held.entry().value);
    let cells = (one.len() + 1).saturating_mul(other.len() + 1);
    if cells > CELLS_MAX {
        return Err("ERR Insufficient memory, transient memory for LCS exceeds its bound".into());
    }
    let (common, matches) = common(one, other);
    let out = &mut *call.turn.out;
    if options.length {
        reply::integer(out, common.len() as i64);
    } else if options.ranges {
        reply::map(out, 2, call.session.version);
        reply::bulk(out, b"matches");
        let long = |found: &&Match| found.length() as i64 >= options.length_min;
        reply::array(out, matches.iter().filter(long).count());
        for found in matches.iter().filter(long) {
            reply::array(out, 2 + usize::from(options.with_lengths));
            for (from, to) in [found.one, found.other] {
                reply::array(out, 2);
                reply::integer(out, from as i64);
                reply::integer(out, to as i64);
            }
            if options.with_lengths {
                reply::integer(out, found.length() as i64);
            }
        }
        reply::bulk(out, b"len");
        reply::integer(out, common.len() as i64);
    } else {
        reply::bulk(out, &common);
    }
    call.turn.spend(cells / CELLS_A_BYTE);
    Ok(())
}

/// The common bytes, and their ranges, last first.
fn common(one: &[u8], other: &[u8]) -> (Vec<u8>, Vec<Match>) {
    let width = other.len() + 1;
    let mut lengths = vec![0u16; (one.len() + 1) * width];
    for (row, byte) in one.iter().enumerate() {
        for (column, same) in other.iter().enumerate() {
            let at = (row + 1) * width + column + 1;
            lengths[at] = if byte == same {
                lengths[at - width - 1] + 1
            } else {
                lengths[at - 1].max(lengths[at - width])
            };
        }
    }
    let (mut row, mut column) = (one.len(), other.len());
    let (mut bytes, mut matches) = (Vec::new(), Vec::<Match>::new());
    while row > 0 && column > 0 {
        if one[row - 1] == other[column - 1] {
            row -= 1;
            column -= 1;
            bytes.push(one[row]);
            match matches.last_mut() {
                Some(last) if last.one.0 == row + 1 && last.other.0 == column + 1 => {
                    (last.one.0, last.other.0) = (row, column);
                }
                _ => matches.push(Match { one: (row, row), other: (column, column) }),
            }
        } else if lengths[(row - 1) * width + column] > lengths[row * width + column - 1] {
            row -= 1;
        } else {
            column -= 1;
        }
    }
    bytes.reverse();
    (bytes, matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_bytes_are_found() {
        let (bytes, matches) = common(b"ohmytext", b"mynewtext");
        assert_eq!(bytes, b"mytext");
        let ranges: Vec<_> = matches.iter().map(|found| (found.one, found.other)).collect();
        assert_eq!(ranges, [((4, 7), (5, 8)), ((2, 3), (0, 1))]);
        assert_eq!(common(b"", b"abc").0, b"");
    }
}
