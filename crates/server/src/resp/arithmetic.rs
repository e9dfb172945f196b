//! Arithmetic commands.

use frazil_segment::Entry;

use super::times::NOT_AN_INTEGER;
use super::write::{self, Change};
use super::{Call, Done, Problem, number, reply};

pub(super) fn incr(call: &mut Call<'_, '_>) -> Done {
    add(1, call)
}

pub(super) fn decr(call: &mut Call<'_, '_>) -> Done {
    add(-1, call)
}

pub(super) fn incrby(call: &mut Call<'_, '_>) -> Done {
    add(number::integer(call.args.get(2)).ok_or(NOT_AN_INTEGER)?, call)
}

pub(super) fn decrby(call: &mut Call<'_, '_>) -> Done {
    let by = number::integer(call.args.get(2)).ok_or(NOT_AN_INTEGER)?;
    add(by.checked_neg().ok_or("ERR decrement would overflow")?, call)
}

fn add(by: i64, call: &mut Call<'_, '_>) -> Done {
    write::change(call.args.get(1), call.turn, |entry, new, out| {
        let sum = match number_of(entry) {
            None => return Change::Leave(Err(NOT_AN_INTEGER.into())),
            Some(number) => number.checked_add(by),
        };
        let Some(sum) = sum else {
            return Change::Leave(Err("ERR increment or decrement would overflow".into()));
        };
        new.extend_from_slice(itoa::Buffer::new().format(sum).as_bytes());
        reply::integer(out, sum);
        Change::Edit(Ok(()))
    })?
}

fn number_of(entry: Option<&Entry<'_>>) -> Option<i64> {
    entry.map_or(Some(0), |entry| number::integer(entry.value))
}

pub(super) fn incrbyfloat(call: &mut Call<'_, '_>) -> Done {
    let not_a_number = || Problem::from("ERR value is not a valid float");
    let by = Float::parse(call.args.get(2)).ok_or_else(not_a_number)?;
    write::change(call.args.get(1), call.turn, |entry, new, out| {
        let old = entry.map_or(&b"0"[..], |entry| entry.value);
        let Some(old) = Float::parse(old) else { return Change::Leave(Err(not_a_number())) };
        let Some(sum) = old.plus(by) else {
            return Change::Leave(Err("ERR increment would produce NaN or Infinity".into()));
        };
        new.extend_from_slice(sum.as_bytes());
        reply::bulk(out, new);
        Change::Edit(Ok(()))
    })?
}

/// Decimal places, as many as Redis keeps.
const PLACES: usize = 17;

/// A number with decimals.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Float {
    /// In units of the last place.
    Decimal(i128),
    /// Too large or too fine for units.
    Binary(f64),
}

impl Float {
    fn parse(text: &[u8]) -> Option<Float> {
        let text = std::str::from_utf8(text).ok()?;
        // Rust accepts neither leading blanks nor hexadecimal, unlike C.
        let number: f64 = text.parse().ok()?;
        if number.is_nan() {
            return None;
        }
        Some(decimal(text).map_or(Float::Binary(number), Float::Decimal))
    }

    fn as_binary(self) -> f64 {
        match self {
            Float::Decimal(units) => units as f64 / 10f64.powi(PLACES as i32),
            Float::Binary(number) => number,
        }
    }

    /// The sum as text, without trailing zeros or exponent.
    fn plus(self, other: Float) -> Option<String> {
        let text = match (self, other) {
            (Float::Decimal(one), Float::Decimal(other)) => {
                let sum = one.checked_add(other)?;
                let (whole, part) = (sum.unsigned_abs() / UNITS, sum.unsigned_abs() % UNITS);
                let sign = if sum < 0 { "-" } else { "" };
                format!("{sign}{whole}.{part:017}")
            }
            _ => {
                let sum = self.as_binary() + other.as_binary();
                format!("{:.17}", sum.is_finite().then_some(sum)?)
            }
        };
        let text = text.trim_end_matches('0').trim_end_matches('.');
        Some(if text == "-0" { "0" } else { text }.to_owned())
    }
}

/// Units of the last place in 1.
const UNITS: u128 = 10u128.pow(PLACES as u32);

/// A number of few enough digits, in units of the last place.
fn decimal(text: &str) -> Option<i128> {
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    // Places by which the digits, as an integer, move to the left.
    let shift = PLACES as i64 + i64::from(exponent.parse::<i32>().ok()?) - part.len() as i64;
    let digits: i128 = format!("0{whole}{part}").parse().ok()?;
    let units = digits.checked_mul(10i128.checked_pow(u32::try_from(shift).ok()?)?)?;
    Some(if number.starts_with('-') { -units } else { units })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, other: &str) -> Option<String> {
        Float::parse(one.as_bytes())?.plus(Float::parse(other.as_bytes())?)
    }

    #[test]
    fn decimals_are_added_exactly() {
        let is =
            |one, other, expected: &str| assert_eq!(sum(one, other).as_deref(), Some(expected));
        is("0", "1", "1");
        is("0.1", "0.2", "0.3");
        is("1", "-1.1", "-0.1");
        is("17179869184", "1.5", "17179869185.5");
        is("0.024390243902439025", "-0.024390243902439025", "0");
        is("10.50", "0.1", "10.6");
        is("5e3", "2.0e2", "5200");
        is("0.3", "-1.1e0", "-0.8");
        is("1e-17", "0", "0.00000000000000001");
        is("1e30", "1", "1000000000000000019884624838656");
        is(".5", "5.", "5.5");
        is("18446744073709551615", "1", "18446744073709551616");
    }

    #[test]
    fn malformed_numbers_are_refused() {
        for bad in ["", " 11", "11 ", "1 1", "x", "nan", "1\u{0}2", "--1"] {
            assert_eq!(Float::parse(bad.as_bytes()), None, "{bad}");
        }
        // An exponent near the limit of its own type.
        assert_eq!(sum("0", "0e2147483647").as_deref(), Some("0"));
        assert_eq!(sum("0", "+inf"), None);
        assert_eq!(sum("1e308", "1.7e308"), None);
    }
}
