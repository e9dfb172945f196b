//! Capacities as users write them: `1000`, `1e6`, `0.1%`, `10%peak`, `64MB`, `64MiB`.

use std::fmt;
use std::str::FromStr;

use crate::trace::Trace;

/// The unit of a capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Every object counts 1.
    #[default]
    Objects,
    /// An object counts its size in bytes.
    Bytes,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Objects => "objects",
            Unit::Bytes => "bytes",
        })
    }
}

impl FromStr for Unit {
    type Err = CapacityError;

    fn from_str(text: &str) -> Result<Self, CapacityError> {
        match text {
            "objects" => Ok(Unit::Objects),
            "bytes" => Ok(Unit::Bytes),
            _ => Err(CapacityError::UnknownUnit(text.to_owned())),
        }
    }
}

/// A capacity, absolute or as a share of a trace.
///
/// ```
/// use frazil_simulator::{CapacitySpec, Unit, trace::Trace};
/// let trace = Trace {
///     ids: (0..2000).collect(),
///     sizes: vec![512; 2000].into(),
///     objects: (0..2000).collect(),
///     ..Trace::default()
/// };
/// assert_eq!("0.1%".parse::<CapacitySpec>()?.resolve(&trace, Unit::Objects)?, 2);
/// assert_eq!("0.1%".parse::<CapacitySpec>()?.resolve(&trace, Unit::Bytes)?, 1024);
/// assert_eq!("64MiB".parse::<CapacitySpec>()?.resolve(&trace, Unit::Bytes)?, 64 << 20);
/// assert!("101%".parse::<CapacitySpec>().is_err());
/// # Ok::<(), frazil_simulator::CapacityError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacitySpec {
    text: String,
    amount: Amount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    /// A number in either unit.
    Plain(u64),
    Bytes(u64),
    /// A share of the distinct objects, or of their first sizes.
    Share(Fraction),
    /// A share of the most objects alive at once, between their first and last request.
    PeakShare(Fraction),
}

/// An exact decimal fraction: a percentage in binary floating point would round
/// some capacities down by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fraction {
    numerator: u64,
    denominator: u64,
}

impl Fraction {
    fn of(self, whole: u64) -> u64 {
        self.rounded(whole, 0)
    }

    /// Rounds to the nearest, halves up.
    fn nearest(self, whole: u64) -> u64 {
        self.rounded(whole, self.denominator / 2)
    }

    fn rounded(self, whole: u64, before: u64) -> u64 {
        let part = u128::from(whole) * u128::from(self.numerator) + u128::from(before);
        // A fraction is at most 1, so a part is at most the whole.
        u64::try_from(part / u128::from(self.denominator)).unwrap_or(whole).max(1)
    }
}

/// Why a capacity is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapacityError {
    /// The text cannot be parsed.
    #[error(
        "capacity `{0}` is not understood; write a number (1000, 10K, 1e6), a share (0.1%, 10%peak) or bytes (64MB, 64MiB)"
    )]
    Malformed(String),
    /// The capacity is 0.
    #[error("capacity `{0}` is zero; a cache holds at least one object")]
    Zero(String),
    /// The share is above 100 %.
    #[error("capacity `{0}` is above 100 %")]
    AboveAll(String),
    /// Bytes were given where objects are counted.
    #[error("capacity `{0}` is in bytes, but objects are counted; add --unit bytes")]
    BytesOfObjects(String),
    /// A share of the peak was given in bytes.
    #[error(
        "capacity `{0}` is a share of the peak number of objects, but bytes are counted; drop --unit bytes"
    )]
    PeakOfBytes(String),
    /// In bytes or a share of a peak, where only the number of objects is known.
    #[error("capacity `{0}` does not go here; write a number (1000, 10K) or a share (0.1%)")]
    NotOfCount(String),
    /// Bytes are counted, but the trace has no sizes.
    #[error("bytes are counted, but the trace has no object sizes; drop --unit bytes")]
    NoSizes,
    /// The unit is unknown.
    #[error("unknown unit `{0}`; known are objects, bytes")]
    UnknownUnit(String),
}

impl CapacitySpec {
    /// The capacity in `unit`, if it does not depend on a trace.
    ///
    /// # Errors
    /// If the capacity does not fit the unit.
    pub fn known(&self, unit: Unit) -> Result<Option<u64>, CapacityError> {
        match (self.amount, unit) {
            (Amount::Plain(capacity), _) | (Amount::Bytes(capacity), Unit::Bytes) => {
                Ok(Some(capacity))
            }
            (Amount::Bytes(_), Unit::Objects) => {
                Err(CapacityError::BytesOfObjects(self.text.clone()))
            }
            (Amount::PeakShare(_), Unit::Bytes) => {
                Err(CapacityError::PeakOfBytes(self.text.clone()))
            }
            (Amount::Share(_) | Amount::PeakShare(_), _) => Ok(None),
        }
    }

    /// The capacity in objects, for a trace of `objects`: shares are rounded down, to at least 1.
    /// O(1).
    ///
    /// ```
    /// use frazil_simulator::CapacitySpec;
    /// assert_eq!("0.1%".parse::<CapacitySpec>()?.among(20_000)?, 20);
    /// # Ok::<(), frazil_simulator::CapacityError>(())
    /// ```
    ///
    /// # Errors
    /// When the capacity is in bytes, or a share of a peak, which only a trace has.
    pub fn among(&self, objects: u64) -> Result<u64, CapacityError> {
        match self.amount {
            Amount::Plain(capacity) => Ok(capacity),
            Amount::Share(share) => Ok(share.of(objects)),
            Amount::Bytes(_) | Amount::PeakShare(_) => {
                Err(CapacityError::NotOfCount(self.text.clone()))
            }
        }
    }

    /// The capacity in `unit`. Shares are rounded down, to at least 1; shares of the peak are
    /// rounded to the nearest, as by paper 5's authors.
    ///
    /// O(1) for absolute capacities, O(records) for shares of bytes or of the peak.
    ///
    /// # Errors
    /// If the capacity does not fit the unit, or if it is in bytes and the trace has no sizes.
    pub fn resolve(&self, trace: &Trace, unit: Unit) -> Result<u64, CapacityError> {
        if unit == Unit::Bytes && trace.sizes.is_empty() {
            return Err(CapacityError::NoSizes);
        }
        if let Some(capacity) = self.known(unit)? {
            return Ok(capacity);
        }
        Ok(match (self.amount, unit) {
            (Amount::Plain(capacity) | Amount::Bytes(capacity), _) => capacity,
            (Amount::Share(share), Unit::Objects) => share.of(trace.objects.len() as u64),
            (Amount::Share(share), Unit::Bytes) => {
                share.of(trace.footprint_bytes().unwrap_or_default())
            }
            (Amount::PeakShare(share), _) => share.nearest(peak_objects(trace)),
        })
    }
}

impl fmt::Display for CapacitySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for CapacitySpec {
    type Err = CapacityError;

    fn from_str(text: &str) -> Result<Self, CapacityError> {
        let malformed = || CapacityError::Malformed(text.to_owned());
        let share = text.strip_suffix("%peak").or(text.strip_suffix('%'));
        let amount = if let Some(percent) = share {
            let share = parse_percent(percent).ok_or_else(malformed)?;
            if share.numerator > share.denominator {
                return Err(CapacityError::AboveAll(text.to_owned()));
            }
            if text.ends_with('%') { Amount::Share(share) } else { Amount::PeakShare(share) }
        } else {
            parse_amount(text).ok_or_else(malformed)?
        };
        let zero = match amount {
            Amount::Plain(amount) | Amount::Bytes(amount) => amount == 0,
            Amount::Share(share) | Amount::PeakShare(share) => share.numerator == 0,
        };
        if zero {
            return Err(CapacityError::Zero(text.to_owned()));
        }
        Ok(CapacitySpec { text: text.to_owned(), amount })
    }
}

/// The capacity for a sample of the objects taken at `rate` that corresponds to `capacity` for all
/// of them; at least 1.
///
/// ```
/// assert_eq!(frazil_simulator::sample_capacity(12_345, 0.01), 123);
/// ```
pub fn sample_capacity(capacity: u64, rate: f64) -> u64 {
    if rate < 1.0 { ((capacity as f64 * rate).round() as u64).max(1) } else { capacity }
}

/// The inverse of [`sample_capacity`]: the capacity for all objects.
///
/// ```
/// use frazil_simulator::{full_capacity, sample_capacity};
/// assert_eq!(full_capacity(123, 0.01), 12_300);
/// assert!((1..1_000).all(|n| sample_capacity(full_capacity(n, 0.3), 0.3) == n));
/// ```
pub fn full_capacity(capacity: u64, rate: f64) -> u64 {
    if rate < 1.0 { (capacity as f64 / rate).round() as u64 } else { capacity }
}

/// `12.5` as 12.5 / 100, exactly. At most 12 digits after the point.
fn parse_percent(text: &str) -> Option<Fraction> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || text.len() > 20 || decimals.len() > 12 {
        return None;
    }
    let numerator = format!("{whole}{decimals}").parse().ok()?;
    let denominator = 10u64.pow(decimals.len() as u32).checked_mul(100)?;
    Some(Fraction { numerator, denominator })
}

/// `1000`, `10K`, `1e6`, `64MB` (decimal), `64MiB` (binary).
fn parse_amount(text: &str) -> Option<Amount> {
    let unit = |byte: &u8| byte.is_ascii_alphabetic() && !matches!(byte, b'e' | b'E');
    let end = text.bytes().position(|byte| unit(&byte)).unwrap_or(text.len());
    let scaled = |factor| parse_decimal(&text[..end], factor);
    Some(match text[end..].to_ascii_lowercase().as_str() {
        "" => Amount::Plain(scaled(1)?),
        "k" => Amount::Plain(scaled(1000)?),
        "m" => Amount::Plain(scaled(1_000_000)?),
        "g" => Amount::Plain(scaled(1_000_000_000)?),
        "b" => Amount::Bytes(scaled(1)?),
        "kb" => Amount::Bytes(scaled(1000)?),
        "mb" => Amount::Bytes(scaled(1_000_000)?),
        "gb" => Amount::Bytes(scaled(1_000_000_000)?),
        "tb" => Amount::Bytes(scaled(1_000_000_000_000)?),
        "kib" => Amount::Bytes(scaled(1 << 10)?),
        "mib" => Amount::Bytes(scaled(1 << 20)?),
        "gib" => Amount::Bytes(scaled(1 << 30)?),
        "tib" => Amount::Bytes(scaled(1 << 40)?),
        _ => return None,
    })
}

/// A count as people write it: `1000`, `10K`, `1.5M`, `1e6`, all decimal. `None` if it is not a
/// whole number, or beyond 64 bits.
///
/// ```
/// use frazil_simulator::parse_count;
/// assert_eq!(parse_count("1e6"), Some(1_000_000));
/// assert_eq!(parse_count("2.5K"), Some(2_500));
/// assert_eq!((parse_count("1.5"), parse_count("1MB")), (None, None));
/// ```
pub fn parse_count(text: &str) -> Option<u64> {
    match parse_amount(text)? {
        Amount::Plain(count) => Some(count),
        _ => None,
    }
}

/// A number of bytes as people write it: `1e8`, `64MB` and `1.5GB`, decimal, and `64MiB`. `None` if it is not a whole number
/// of bytes, or beyond 64 bits.
///
/// ```
/// use frazil_simulator::parse_bytes;
/// assert_eq!(parse_bytes("64MB"), Some(64_000_000));
/// assert_eq!(parse_bytes("1.5KiB"), Some(1_536));
/// assert_eq!((parse_bytes("0.5"), parse_bytes("64 MiB")), (None, None));
/// ```
pub fn parse_bytes(text: &str) -> Option<u64> {
    match parse_amount(text)? {
        Amount::Plain(bytes) | Amount::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

/// `12`, `1.5`, `1e6` and `2.5e3` times `factor`, if that is whole: exactly.
fn parse_decimal(text: &str, factor: u64) -> Option<u64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent),
        None => (text, "0"),
    };
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let written = mantissa.contains('.') != decimals.is_empty();
    if whole.is_empty() || !written || exponent.is_empty() || decimals.len() > 18 {
        return None;
    }
    if ![whole, decimals, exponent].into_iter().all(digits) {
        return None;
    }
    let number = format!("{whole}{decimals}").parse::<u64>().ok()?;
    let shift = 10u128.checked_pow(exponent.parse().ok()?)?;
    let scaled = u128::from(number).checked_mul(u128::from(factor))?.checked_mul(shift)?;
    let divisor = 10u128.pow(decimals.len() as u32);
    let whole = scaled.is_multiple_of(divisor).then_some(scaled / divisor)?;
    u64::try_from(whole).ok()
}

/// The most objects that are between their first and last record at one moment (paper 5's
/// concurrent objects).
fn peak_objects(trace: &Trace) -> u64 {
    let mut last = vec![0; trace.objects.len()];
    for (record, &id) in trace.ids.iter().enumerate() {
        last[id as usize] = record;
    }
    let (mut seen, mut live, mut peak) = (0, 0u64, 0u64);
    for (record, &id) in trace.ids.iter().enumerate() {
        // Dense numbers are in order of first appearance.
        if id == seen {
            seen += 1;
            live += 1;
            peak = peak.max(live);
        }
        if last[id as usize] == record {
            live -= 1;
        }
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects 0 to 3 live at the same time, then 4 and 5 alone.
    fn trace() -> Trace {
        Trace {
            ids: vec![0, 1, 2, 3, 0, 1, 2, 3, 4, 4, 5],
            sizes: vec![10, 20, 30, 40, 99, 99, 99, 99, 50, 99, 60].into(),
            objects: (0..6).collect(),
            ..Trace::default()
        }
    }

    #[test]
    fn every_form_resolves_exactly() {
        for (text, unit, capacity) in [
            ("7", Unit::Objects, 7),
            ("7", Unit::Bytes, 7),
            ("10K", Unit::Objects, 10_000),
            ("2M", Unit::Objects, 2_000_000),
            ("1G", Unit::Bytes, 1_000_000_000),
            ("5B", Unit::Bytes, 5),
            ("1e6", Unit::Objects, 1_000_000),
            ("2.5K", Unit::Objects, 2_500),
            ("1.5e3", Unit::Objects, 1_500),
            ("64MB", Unit::Bytes, 64_000_000),
            ("1.5GiB", Unit::Bytes, 3 << 29),
            ("2kb", Unit::Bytes, 2_000),
            ("1TB", Unit::Bytes, 1_000_000_000_000),
            ("3KiB", Unit::Bytes, 3 << 10),
            ("3MiB", Unit::Bytes, 3 << 20),
            ("3GiB", Unit::Bytes, 3 << 30),
            ("3TiB", Unit::Bytes, 3 << 40),
            ("100%", Unit::Objects, 6),
            ("50%", Unit::Objects, 3),
            ("49.99%", Unit::Objects, 2),
            ("0.000000000001%", Unit::Objects, 1),
            ("100%", Unit::Bytes, 210),
            ("10%", Unit::Bytes, 21),
            ("100%peak", Unit::Objects, 4),
            ("50%peak", Unit::Objects, 2),
            ("62.4%peak", Unit::Objects, 2),
            ("62.5%peak", Unit::Objects, 3),
        ] {
            let spec: CapacitySpec = text.parse().unwrap();
            assert_eq!(spec.resolve(&trace(), unit), Ok(capacity), "{text} in {unit}");
        }
    }

    #[test]
    fn a_number_of_objects_resolves_numbers_and_shares() {
        let among = |text: &str| text.parse::<CapacitySpec>().unwrap().among(2_000);
        assert_eq!(among("7"), Ok(7));
        assert_eq!(among("10%"), Ok(200));
        assert_eq!(among("0.01%"), Ok(1));
        for text in ["1MiB", "10%peak"] {
            assert_eq!(among(text), Err(CapacityError::NotOfCount(text.to_owned())));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "%",
            "%peak",
            "-1",
            "+1",
            "1.5",
            "1e-3",
            "1.e3",
            "1e",
            "e3",
            "1e99",
            "1.5B",
            "1 %",
            "0x10",
            "10KX",
            "1.%%",
            "NaN",
            "99999999999999999999",
            "18446744073709551615K",
            "0.0000000000001%",
            "..5%",
            "1.2.3%",
        ] {
            let error = text.parse::<CapacitySpec>().unwrap_err();
            assert_eq!(error, CapacityError::Malformed(text.to_owned()), "{text}");
        }
        for text in ["0", "0%", "0.00%", "0%peak", "0MiB"] {
            let error = text.parse::<CapacitySpec>().unwrap_err();
            assert_eq!(error, CapacityError::Zero(text.to_owned()));
        }
        for text in ["100.000000000001%", "101%peak"] {
            let error = text.parse::<CapacitySpec>().unwrap_err();
            assert_eq!(error, CapacityError::AboveAll(text.to_owned()));
        }
        let resolve = |text: &str, unit, trace: &Trace| {
            text.parse::<CapacitySpec>().unwrap().resolve(trace, unit).unwrap_err()
        };
        let bytes = resolve("1MiB", Unit::Objects, &trace());
        assert_eq!(bytes, CapacityError::BytesOfObjects("1MiB".to_owned()));
        let peak = resolve("1%peak", Unit::Bytes, &trace());
        assert_eq!(peak, CapacityError::PeakOfBytes("1%peak".to_owned()));
        let bare = Trace { sizes: vec![].into(), ..trace() };
        assert_eq!(resolve("5", Unit::Bytes, &bare), CapacityError::NoSizes);
    }
}
