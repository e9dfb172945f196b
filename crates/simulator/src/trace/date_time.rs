//! Dates with a time of day, as text: ISO 8601 (RFC 3339 and looser forms), and the dates of web
//! servers' logs.

/// Nanoseconds in a second.
const NANOSECONDS: u64 = 1_000_000_000;
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// `2026-11-26T16:28:18.25Z`, with `T` or a space, optional seconds and decimals, then `Z`,
/// `+02:00`, `+0200`, `+02` or nothing (UTC); or the date alone. Nanoseconds since 1970; `None` if
/// it is none of these, or not from 1970 to 2553.
pub(super) fn parse_iso(text: &[u8]) -> Option<u64> {
    let mut rest = Digits(text);
    let year = rest.number(4)?;
    rest.skip(b'-')?;
    let month = rest.number(2)?;
    rest.skip(b'-')?;
    let day = rest.number(2)?;
    let days = days_since_1970(year, month, day)?;
    if rest.0.is_empty() {
        return since_1970(days, 0, 0, 0);
    }
    if rest.skip(b'T').is_none() && rest.skip(b't').is_none() {
        rest.skip(b' ')?;
    }
    let hour = rest.number(2)?;
    rest.skip(b':')?;
    let minute = rest.number(2)?;
    let (mut second, mut part_ns) = (0, 0);
    if rest.skip(b':').is_some() {
        second = rest.number(2)?;
        if rest.skip(b'.').is_some() || rest.skip(b',').is_some() {
            part_ns = rest.fraction_ns()?;
        }
    }
    let of_day = second_of_day(hour, minute, second)?;
    since_1970(days, of_day, part_ns, rest.offset()?)
}

/// `10/Oct/2000:13:55:36 -0700`, as web servers log it. As [`parse_iso`].
pub(super) fn parse_log_date(text: &[u8]) -> Option<u64> {
    let mut rest = Digits(text);
    let day = rest.number(2)?;
    rest.skip(b'/')?;
    let (name, behind) = rest.0.split_at_checked(3)?;
    let month = MONTHS.iter().position(|it| it.eq_ignore_ascii_case(name))? as i64 + 1;
    rest.0 = behind;
    rest.skip(b'/')?;
    let year = rest.number(4)?;
    rest.skip(b':')?;
    let hour = rest.number(2)?;
    rest.skip(b':')?;
    let minute = rest.number(2)?;
    rest.skip(b':')?;
    let of_day = second_of_day(hour, minute, rest.number(2)?)?;
    since_1970(days_since_1970(year, month, day)?, of_day, 0, rest.offset()?)
}

/// The rest of a text.
struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    /// A number with exactly `digits` digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        if !number.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.0 = rest;
        Some(number.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// Decimals of a second, cut off below a nanosecond.
    fn fraction_ns(&mut self) -> Option<u64> {
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let shown = self.0.iter().take(digits.min(9));
        let value = shown.fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
        self.0 = &self.0[digits..];
        (digits > 0).then(|| value * 10u64.pow(9 - digits.min(9) as u32))
    }

    /// Seconds that the clock is ahead of UTC; nothing may follow.
    fn offset(&mut self) -> Option<i64> {
        let _ = self.skip(b' ');
        if self.0.is_empty() || self.0.eq_ignore_ascii_case(b"z") || self.0 == b"UTC" {
            return Some(0);
        }
        let sign = if self.skip(b'-').is_some() { -1 } else { self.skip(b'+').map(|()| 1)? };
        let hours = self.number(2)?;
        let _ = self.skip(b':');
        let minutes = if self.0.is_empty() { 0 } else { self.number(2)? };
        (self.0.is_empty() && hours < 24 && minutes < 60)
            .then_some(sign * (hours * 3600 + minutes * 60))
    }
}

/// A leap second counts as the next second.
fn second_of_day(hour: i64, minute: i64, second: i64) -> Option<i64> {
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

/// Days of the proleptic Gregorian calendar (Hinnant, `days_from_civil`).
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Years begin in March here, so that a leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(
        year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
            - 719_468,
    )
}

fn since_1970(days: i64, of_day: i64, part_ns: u64, offset_s: i64) -> Option<u64> {
    let seconds = u64::try_from(days * 86_400 + of_day - offset_s).ok()?;
    seconds.checked_mul(NANOSECONDS)?.checked_add(part_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_764_174_498; // 2025-11-26T16:28:18Z

    #[test]
    fn iso_times_have_many_forms() {
        for text in [
            "2025-11-26T16:28:18Z",
            "2025-11-26 16:28:18",
            "2025-11-26t16:28:18z",
            "2025-11-26T18:28:18+02:00",
            "2025-11-26T18:28:18+0200",
            "2025-11-26T18:28:18 +02",
            "2025-11-26T11:58:18-04:30",
            "2025-11-26 16:28:18 UTC",
        ] {
            assert_eq!(parse_iso(text.as_bytes()), Some(S * NANOSECONDS), "{text}");
        }
        let precise = S * NANOSECONDS + 250_000_001;
        assert_eq!(parse_iso(b"2025-11-26T16:28:18.2500000019Z"), Some(precise));
        assert_eq!(parse_iso(b"2025-11-26T16:28Z"), Some((S - 18) * NANOSECONDS));
        assert_eq!(parse_iso(b"1970-01-01"), Some(0));
        assert_eq!(parse_iso(b"2000-02-29"), Some(951_782_400 * NANOSECONDS));
        assert_eq!(parse_iso(b"2400-02-29"), Some(13_574_563_200 * NANOSECONDS));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "2025",
            "2025-11",
            "2025-13-01",
            "2025-02-29",
            "1900-02-29",
            "2025-11-26T",
            "2025-11-26T24:00:00Z",
            "2025-11-26T16:60:00Z",
            "2025-11-26T16:28:18.Z",
            "2025-11-26T16:28:18ZZ",
            "2025-11-26T16:28:18+2",
            "2025-11-26T16:28:18+99:00",
            "1969-12-31T23:59:59Z",
            "9999-01-01T00:00:00Z",
            "2025-1-6",
        ] {
            assert_eq!(parse_iso(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn logs_have_a_form_of_their_own() {
        let read = |text: &str| parse_log_date(text.as_bytes());
        assert_eq!(read("10/Oct/2000:13:55:36 -0700"), Some(971_211_336 * NANOSECONDS));
        assert_eq!(read("26/Nov/2025:16:28:18 +0000"), Some(S * NANOSECONDS));
        for text in ["", "1/Oct/2000:13:55:36 -0700", "10/Okt/2000:13:55:36 -0700", "10/Oct/2000"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn days_follow_each_other() {
        let mut days = 0;
        for year in 1970..2410 {
            for month in 1..=12 {
                for day in 1..=31 {
                    if let Some(counted) = days_since_1970(year, month, day) {
                        assert_eq!(counted, days, "{year}-{month}-{day}");
                        days += 1;
                    }
                }
            }
        }
    }
}
