//! Durations as users write them: a number and a unit, such as `100us`.

/// Units, and the µs in each. Of two with the same end, the longer comes first.
const UNITS: [(&str, f64); 9] = [
    ("ns", 1e-3),
    ("us", 1.0),
    ("µs", 1.0),
    ("ms", 1e3),
    ("min", 6e7),
    ("s", 1e6),
    ("m", 6e7),
    ("h", 3.6e9),
    ("d", 8.64e10),
];

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a number with one of the known units.
    #[error("expected a duration with its unit, such as 500ns, 100us, 5ms, 1s, 5m or 1h")]
    Unreadable,
    /// Out of range.
    #[error("expected a duration of 0, or from 1ns to 30 years")]
    OutOfRange,
}

/// Reads a duration as µs: 0, or a number with its unit, from 1 ns to 10^15 µs.
///
/// # Errors
///
/// If the text cannot be read, or its value is out of range.
///
/// ```
/// assert_eq!(frazil_simulator::parse_us("0.5ms"), Ok(500.0));
/// assert!(frazil_simulator::parse_us("100").is_err());
/// ```
pub fn parse_us(text: &str) -> Result<f64, DurationError> {
    if text == "0" {
        return Ok(0.0);
    }
    let unit = UNITS.iter().find_map(|&(unit, us)| Some((text.strip_suffix(unit)?, us)));
    let (number, us) = unit.ok_or(DurationError::Unreadable)?;
    let plain = number.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let number: f64 = number.trim_end().parse().map_err(|_| DurationError::Unreadable)?;
    let length = number * us;
    match length {
        _ if !plain => Err(DurationError::Unreadable),
        0.0 => Ok(length),
        _ if (1e-3..=1e15).contains(&length) => Ok(length),
        _ => Err(DurationError::OutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        let good = [("100us", 100.0), ("0.5ms", 500.0), ("1s", 1e6), ("250ns", 0.25)];
        for (text, us) in
            good.into_iter().chain([("0us", 0.0), ("0", 0.0), ("2min", 1.2e8), ("5 µs", 5.0)])
        {
            assert_eq!(parse_us(text), Ok(us), "{text}");
        }
        for text in
            ["", "100", "us", "-1us", "+1us", "infs", "nans", "1e400s", "1us2", "1y", "0.1ns"]
        {
            assert!(parse_us(text).is_err(), "{text}");
        }
    }
}
