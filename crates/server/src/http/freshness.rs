//! Freshness lifetimes and storability, for a shared cache (RFC 9111).

use hyper::HeaderMap;
use hyper::header::{DATE, EXPIRES, HeaderName, LAST_MODIFIED};

use super::date;
use crate::cache_control::{self, Asked, Said};

/// Longest heuristic lifetime: a day.
const GUESSED_SECONDS_MAX: i64 = 86_400;

/// Statuses that may have a heuristic lifetime (RFC 9110, section 15.1). 206 is not stored.
const GUESSED: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];

/// The lifetime of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    /// In the server's time.
    received_ms: u64,
    /// Its age on arrival.
    age_ms: u64,
    lifetime_ms: u64,
    /// It must be validated before each use, however fresh.
    no_cache: bool,
    /// It must not be used stale.
    must_revalidate: bool,
    while_revalidate_ms: u64,
    if_error_ms: u64,
}

/// The permitted use of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Fresh,
    /// Stale but usable.
    Stale,
    /// Stale but usable while it is fetched anew.
    Revalidating,
    /// Unusable: the origin must be asked.
    No,
}

impl Life {
    pub(crate) fn age_ms(&self, now_ms: u64) -> u64 {
        self.age_ms + now_ms.saturating_sub(self.received_ms)
    }

    /// Seconds of freshness left; negative when stale.
    pub(crate) fn left_seconds(&self, now_ms: u64) -> i64 {
        (self.lifetime_ms as i64 - self.age_ms(now_ms) as i64).div_euclid(1000)
    }

    #[inline]
    pub(crate) fn is_fresh(&self, now_ms: u64) -> bool {
        !self.no_cache && self.age_ms(now_ms) < self.lifetime_ms
    }

    pub(crate) fn usable(&self, now_ms: u64, asked: &Asked) -> Use {
        if asked.takes_any_fresh() && self.is_fresh(now_ms) {
            return Use::Fresh;
        }
        let age = self.age_ms(now_ms);
        let is_too_old = asked.max_age.is_some_and(|most| most == 0 || age / 1000 > most);
        if asked.no_cache || asked.no_store || self.no_cache || is_too_old {
            return Use::No;
        }
        let until = self.lifetime_ms.saturating_sub(asked.min_fresh * 1000);
        if age < until {
            return Use::Fresh;
        }
        if age < self.lifetime_ms || self.must_revalidate {
            return Use::No;
        }
        let stale = age - self.lifetime_ms;
        if asked.max_stale.is_some_and(|most| stale <= most.saturating_mul(1000)) {
            Use::Stale
        } else if stale < self.while_revalidate_ms {
            Use::Revalidating
        } else {
            Use::No
        }
    }

    /// Whether it may be used stale at some later time.
    pub(crate) fn may_be_stale(&self, now_ms: u64) -> bool {
        let more_ms = self.while_revalidate_ms.max(self.if_error_ms);
        let until = self.lifetime_ms.saturating_add(more_ms);
        more_ms > 0 && !self.must_revalidate && !self.no_cache && self.age_ms(now_ms) < until
    }

    /// Whether it may be used when the origin fails.
    pub(crate) fn stands_in(&self, now_ms: u64) -> bool {
        let until = self.lifetime_ms.saturating_add(self.if_error_ms);
        !self.must_revalidate && !self.no_cache && self.age_ms(now_ms) < until
    }
}

/// The times of the request to the origin and its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// In the server's time.
    pub(crate) asked_ms: u64,
    pub(crate) received_ms: u64,
    /// Unix time of the response, in milliseconds.
    pub(crate) received_unix_ms: u64,
}

impl Times {
    pub(crate) fn unix(&self) -> i64 {
        (self.received_unix_ms / 1000) as i64
    }
}

fn date_of(fields: &HeaderMap, name: HeaderName, now: i64) -> Option<i64> {
    fields.get(name).and_then(|value| date::parse(value.as_bytes(), now))
}

/// `Date`, or the time of arrival.
pub(crate) fn date(fields: &HeaderMap, times: Times) -> i64 {
    date_of(fields, DATE, times.unix()).unwrap_or(times.unix())
}

pub(crate) fn last_modified(fields: &HeaderMap, times: Times) -> Option<i64> {
    date_of(fields, LAST_MODIFIED, times.unix())
}

/// The explicit lifetime of a response, in seconds (RFC 9111, section 4.2.1).
fn explicit(fields: &HeaderMap, said: &Said, is_targeted: bool, times: Times) -> Option<u64> {
    if let Some(seconds) = said.lifetime() {
        return Some(seconds);
    }
    if is_targeted || !fields.contains_key(EXPIRES) {
        return None;
    }
    // A malformed date counts as past.
    let expires = date_of(fields, EXPIRES, times.unix()).unwrap_or(0);
    Some((expires - date(fields, times)).max(0) as u64)
}

/// The heuristic lifetime: a tenth of the time since the last modification.
fn guessed(fields: &HeaderMap, said: &Said, status: u16, times: Times) -> Option<u64> {
    if !said.public && !GUESSED.contains(&status) {
        return None;
    }
    let since = date(fields, times) - last_modified(fields, times)?;
    Some((since / 10).clamp(0, GUESSED_SECONDS_MAX) as u64)
}

/// The lifetime of a response.
pub(crate) fn life(fields: &HeaderMap, status: u16, times: Times) -> Life {
    let (said, is_targeted) = Said::of(fields);
    let explicit = explicit(fields, &said, is_targeted, times);
    let lifetime = explicit.or_else(|| guessed(fields, &said, status, times)).unwrap_or(0);
    let age = cache_control::age(fields);
    let apparent_ms = times.received_unix_ms as i64 - date(fields, times) * 1000;
    // `Date` has whole seconds: a response of the same second has no age.
    let apparent_ms = if apparent_ms < 1000 { 0 } else { apparent_ms as u64 };
    let on_the_way_ms = times.received_ms.saturating_sub(times.asked_ms);
    let corrected_ms = age.unwrap_or(0) * 1000 + on_the_way_ms;
    Life {
        received_ms: times.received_ms,
        age_ms: corrected_ms.max(apparent_ms),
        lifetime_ms: if age.is_none() { 0 } else { lifetime * 1000 },
        no_cache: said.no_cache,
        must_revalidate: said.must_revalidate || said.s_maxage.is_some(),
        while_revalidate_ms: said.stale_while_revalidate * 1000,
        if_error_ms: said.stale_if_error * 1000,
    }
}

/// Whether the status is a known one: `must-understand` permits storing only those.
fn is_understood(status: u16) -> bool {
    matches!(
        status,
        200 | 203 | 204 | 300..=303 | 307 | 308 | 400..=410 | 414 | 421 | 451 | 500..=505
    )
}

/// Whether the response to a `GET` may be stored (RFC 9111, section 3).
pub(crate) fn is_storable(
    fields: &HeaderMap,
    status: u16,
    is_authorized: bool,
    times: Times,
) -> bool {
    let (said, is_targeted) = Said::of(fields);
    if status < 200 || matches!(status, 206 | 304) || said.private {
        return false;
    }
    if said.must_understand && !is_understood(status) || said.no_store && !said.must_understand {
        return false;
    }
    let is_for_all = said.public || said.must_revalidate || said.s_maxage.is_some();
    if is_authorized && !is_for_all {
        return false;
    }
    let is_explicit = explicit(fields, &said, is_targeted, times).is_some();
    is_explicit || said.public || GUESSED.contains(&status)
}
