//! Dates of HTTP (RFC 9110, section 5.6.7), as seconds since 1970.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses any of the three forms. `now` decides the century of a year with two digits.
pub(crate) fn parse(text: &[u8], now: i64) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim_matches([' ', '\t']);
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let first = words.next()?;
    if let Some(day_name) = first.strip_suffix(',') {
        let second = words.next()?;
        // `06-Nov-94` of RFC 850, or `06 Nov 1994`.
        let (day, month, year) = if second.contains('-') {
            let mut parts = second.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
            (day, month, full_year(number(year, 2)?, now))
        } else {
            if day_name.len() != 3 {
                return None;
            }
            let (month, year) = (words.next()?, words.next()?);
            (second, month, number(year, 4)?)
        };
        let time = words.next()?;
        let is_gmt = words.next()? == "GMT";
        return (is_gmt && words.next().is_none())
            .then(|| seconds(year, month, number(day, 2)?, time))?;
    }
    // `Sun Nov  6 08:49:37 1994`, from C's `asctime`.
    let (month, day, time, year) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let day = number(day, day.len().clamp(1, 2))?;
    words.next().is_none().then(|| seconds(number(year, 4)?, month, day, time))?
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// The year of two digits, at most 50 years ahead.
fn full_year(two_digits: i64, now: i64) -> i64 {
    let this_year = 1970 + now / 31_556_952;
    let year = this_year / 100 * 100 + two_digits;
    if year > this_year + 50 { year - 100 } else { year }
}

fn seconds(year: i64, month: &str, day: i64, time: &str) -> Option<i64> {
    let month = MONTHS.iter().position(|&name| name == month)? as i64 + 1;
    let mut parts = time.split(':');
    let mut part = || number(parts.next()?, 2);
    let (hour, minute, second) = (part()?, part()?, part()?);
    let is_valid = parts.next().is_none()
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && year >= 1900;
    is_valid.then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days since 1970, counted in years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Appends a date in the current form.
pub(crate) fn write(out: &mut Vec<u8>, seconds: i64) {
    let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let name = DAYS[days.rem_euclid(7) as usize];
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let month = MONTHS[month as usize - 1];
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let text = format!("{name}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT");
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    #[test]
    fn all_three_forms_are_one_moment() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text.as_bytes(), NOW), Some(784_111_777), "{text}");
        }
        for text in ["0", "", "Sun, 06 Nov 1994 08:49:37", "Sun, 6 Nov 1994 08:49:37 GMT", "foo"] {
            assert_eq!(parse(text.as_bytes(), NOW), None, "{text}");
        }
    }

    #[test]
    fn written_dates_are_read_again() {
        for seconds in (0..5_000_000_000).step_by(98_765_432).chain([951_782_400, 4_107_542_399]) {
            let mut text = Vec::new();
            write(&mut text, seconds);
            assert_eq!(parse(&text, NOW), Some(seconds), "{}", text.escape_ascii());
        }
    }
}
