//! Commands for parts of values: bytes and bits.

use frazil_segment::{Entry, StoreError};

use super::strings::SYNTAX;
use super::times::NOT_AN_INTEGER;
use super::write::{self, Change};
use super::{Call, Done, Problem, number, reply};

const TOO_LARGE: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
/// Longest string of Redis, which its errors mention.
const STRING_BYTES_MAX: i64 = 512 << 20;

fn value<'e>(entry: Option<&'e Entry<'_>>) -> &'e [u8] {
    entry.map_or(b"", |entry| entry.value)
}

pub(super) fn append(call: &mut Call<'_, '_>) -> Done {
    let more = call.args.get(2);
    write::change(call.args.get(1), call.turn, |entry, new, out| {
        new.extend_from_slice(value(entry));
        new.extend_from_slice(more);
        reply::integer(out, new.len() as i64);
        Change::Edit(())
    })
}

/// Calls `read` with a value, empty if there is none.
fn read<R>(call: &mut Call<'_, '_>, read: impl Fn(&[u8], &mut Vec<u8>) -> R) -> R {
    let turn = &mut *call.turn;
    let out = &mut *turn.out;
    let (key, store) = (call.args.get(1), &turn.shared.items.store);
    let found =
        store.get_with(key, |entry| (read(entry.value, &mut *out), store.recorded_bytes(&entry)));
    turn.count_get(key, found.as_ref().map(|&(_, bytes)| bytes));
    found.map_or_else(|| read(b"", turn.out), |(result, _)| result)
}

pub(super) fn strlen(call: &mut Call<'_, '_>) -> Done {
    read(call, |value, out| reply::integer(out, value.len() as i64));
    Ok(())
}

/// The bytes between two places, inclusive. Negative places count from the end.
fn between(value: &[u8], from: i64, to: i64) -> &[u8] {
    let length = value.len() as i64;
    if from < 0 && to < 0 && from > to {
        return b"";
    }
    let place = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let (from, to) = (place(from), place(to).min(length - 1));
    if from > to || length == 0 { b"" } else { &value[from as usize..=to as usize] }
}

fn integer(text: &[u8]) -> Result<i64, Problem> {
    number::integer(text).ok_or(NOT_AN_INTEGER.into())
}

pub(super) fn getrange(call: &mut Call<'_, '_>) -> Done {
    let (from, to) = (integer(call.args.get(2))?, integer(call.args.get(3))?);
    read(call, |value, out| reply::bulk(out, between(value, from, to)));
    Ok(())
}

pub(super) fn setrange(call: &mut Call<'_, '_>) -> Done {
    let (at, part) = (integer(call.args.get(2))?, call.args.get(3));
    if at < 0 {
        return Err("ERR offset is out of range".into());
    }
    let end = at.saturating_add(part.len() as i64);
    if !part.is_empty() && end > STRING_BYTES_MAX {
        return Err(TOO_LARGE.into());
    }
    if !part.is_empty() && call.turn.shared.items.is_too_large(call.args.get(1).len(), end as usize)
    {
        return Err(write::refusal(StoreError::TooLarge, call.turn));
    }
    write::change(call.args.get(1), call.turn, |entry, new, out| {
        let old = value(entry);
        if part.is_empty() {
            reply::integer(out, old.len() as i64);
            return Change::Leave(());
        }
        new.extend_from_slice(old);
        new.resize(new.len().max(end as usize), 0);
        new[at as usize..end as usize].copy_from_slice(part);
        reply::integer(out, new.len() as i64);
        Change::Edit(())
    })
}

/// The offset of a bit.
fn bit_place(text: &[u8]) -> Result<usize, Problem> {
    let bits = 0..8 * STRING_BYTES_MAX;
    let place = number::integer(text).filter(|place| bits.contains(place));
    let place = place.ok_or("ERR bit offset is not an integer or out of range")?;
    Ok(place as usize)
}

fn bit(value: &[u8], place: usize) -> bool {
    value.get(place / 8).is_some_and(|byte| byte << (place % 8) & 0x80 != 0)
}

pub(super) fn getbit(call: &mut Call<'_, '_>) -> Done {
    let place = bit_place(call.args.get(2))?;
    read(call, |value, out| reply::integer(out, bit(value, place).into()));
    Ok(())
}

pub(super) fn setbit(call: &mut Call<'_, '_>) -> Done {
    let place = bit_place(call.args.get(2))?;
    let is_set = match call.args.get(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    if call.turn.shared.items.is_too_large(call.args.get(1).len(), place / 8 + 1) {
        return Err(write::refusal(StoreError::TooLarge, call.turn));
    }
    write::change(call.args.get(1), call.turn, |entry, new, out| {
        new.extend_from_slice(value(entry));
        reply::integer(out, bit(new, place).into());
        new.resize(new.len().max(place / 8 + 1), 0);
        let mask = 0x80 >> (place % 8);
        new[place / 8] = new[place / 8] & !mask | if is_set { mask } else { 0 };
        Change::Edit(())
    })
}

pub(super) fn bitcount(call: &mut Call<'_, '_>) -> Done {
    let (args, count) = (call.args, call.args.len());
    let by_bits = match count {
        2 | 4 => false,
        5 if args.get(4).eq_ignore_ascii_case(b"bit") => true,
        5 if args.get(4).eq_ignore_ascii_case(b"byte") => false,
        _ => return Err(SYNTAX.into()),
    };
    let (from, to) =
        if count > 2 { (integer(args.get(2))?, integer(args.get(3))?) } else { (0, -1) };
    let ones = |bytes: &[u8]| bytes.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>();
    read(call, |value, out| {
        if !by_bits {
            return reply::integer(out, ones(between(value, from, to)));
        }
        // Checked before negative places are cut to 0, as by Redis.
        if from < 0 && to < 0 && from > to {
            return reply::integer(out, 0);
        }
        let bits = 8 * value.len() as i64;
        let place = |at: i64| if at < 0 { at.saturating_add(bits).max(0) } else { at };
        let (first, last) = (place(from), place(to).min(bits - 1));
        if first > last {
            return reply::integer(out, 0);
        }
        let (first, last) = (first as usize, last as usize);
        let whole = &value[first / 8..=last / 8];
        let before = (0..first % 8).filter(|bit_of| bit(whole, *bit_of)).count();
        let behind = (last % 8 + 1..8).filter(|bit_of| bit(&value[last / 8..], *bit_of)).count();
        reply::integer(out, ones(whole) - (before + behind) as i64);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_both_ends() {
        let value = b"Hello World";
        let is = |from, to, part: &[u8]| assert_eq!(between(value, from, to), part, "{from} {to}");
        is(0, 3, b"Hell");
        is(0, -1, value);
        is(-4, -1, b"orld");
        is(5, 3, b"");
        is(5, 5000, b" World");
        is(-5000, 10000, value);
        is(-1, -5, b"");
        is(i64::MIN, i64::MAX, value);
        is(i64::MIN, i64::MIN, b"H");
        is(11, 20, b"");
        assert_eq!(between(b"", 0, -1), b"");
        assert_eq!(between(b"", i64::MIN, 0), b"");
    }
}
