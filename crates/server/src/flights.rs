//! Flights: keys whose value is being brought, and the requests that wait for it.
//!
//! All threads share one table, in parts with a lock each. Only misses use it, and writers while there is a flight.
//! The end of a flight is sent to each thread in one letter ([`Mail`]). `docs/design/server-waits.md` has the states
//! of a flight.

use std::collections::{BTreeMap, HashMap, hash_map};
use std::hash::{BuildHasher as _, RandomState};

use crate::mail::{Mail, News, Outcome, Place};
use crate::sync::Mutex;
use crate::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicU64, AtomicUsize, fence};

const PARTS: usize = if cfg!(loom) { 1 } else { 64 };
/// Memory of a remembered outcome, without its key.
const MEMO_BYTES: usize = 96;

/// The table of flights.
#[derive(Debug)]
pub(crate) struct Flights {
    parts: Box<[Mutex<Part>]>,
    hasher: RandomState,
    /// Flights. Writers read it after they have written ([`Flights::written`]); a request that is to wait raises it
    /// before its last look at the store.
    count: AtomicUsize,
    tickets: AtomicU64,
    waiters: AtomicUsize,
    waiters_max: usize,
    /// Remembered outcomes. A deletion reads it, and forgets that of its key.
    memos: AtomicUsize,
    /// Bytes of remembered outcomes in each part.
    memo_bytes_max: usize,
    mail: Mail,
}

#[derive(Debug, Default)]
struct Part {
    flights: HashMap<Box<[u8]>, Flight>,
    /// Fetches that are not to be stored or joined, by ticket.
    detached: HashMap<u64, Flight>,
    /// Requests that joined a flight, of the fetches in `detached`: the ticket of the fetch by theirs.
    followers: HashMap<u64, u64>,
    memos: HashMap<Box<[u8]>, Memo>,
    memo_bytes: usize,
}

#[derive(Debug)]
struct Flight {
    kind: Kind,
    /// By ticket, so in order of arrival.
    waiters: BTreeMap<u64, Place>,
}

#[derive(Debug)]
enum Kind {
    /// A fetch, by the ticket of the request that began it.
    Fetch(u64),
    /// A lease: the client that is to bring the value, by its ticket and connection if they are known.
    Lease(Option<(u64, Place)>),
}

/// A remembered outcome of a key that is not in the store.
#[derive(Clone, Copy, Debug)]
struct Memo {
    is_absent: bool,
    until_ms: u64,
}

/// The result of a miss that is to be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It waits under this ticket.
    Waits(u64),
    /// It waits under this ticket, and must begin the fetch.
    Begins(u64),
    /// The value has been stored meanwhile.
    Present,
    /// The origin has no value, by a remembered answer.
    Absent,
    /// Too many requests wait.
    Full,
}

/// Milliseconds for which an outcome that is not stored is remembered; 0: not at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remember {
    pub(crate) now_ms: u64,
    pub(crate) for_ms: u64,
}

impl Flights {
    pub(crate) fn new(waiters_max: usize, memo_bytes_max: usize, mail: Mail) -> Flights {
        Flights {
            parts: (0..PARTS).map(|_| Mutex::new(Part::default())).collect(),
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
            tickets: AtomicU64::new(0),
            waiters: AtomicUsize::new(0),
            waiters_max,
            memos: AtomicUsize::new(0),
            memo_bytes_max: memo_bytes_max / PARTS,
            mail,
        }
    }

    pub(crate) fn mail(&self) -> &Mail {
        &self.mail
    }

    /// Flights, and waiting requests.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.count.load(Relaxed), self.waiters.load(Relaxed))
    }

    fn part(&self, key: &[u8]) -> &Mutex<Part> {
        &self.parts[self.hasher.hash_one(key) as usize % PARTS]
    }

    fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Relaxed)
    }

    /// Counts one more waiting request, if there may be one more.
    fn admits(&self) -> bool {
        let is_full = self.waiters.fetch_add(1, Relaxed) >= self.waiters_max;
        if is_full {
            self.waiters.fetch_sub(1, Relaxed);
        }
        !is_full
    }

    /// Waits for the fetch of a missing key. `is_present` looks at the store once more, with the part locked: a fetch
    /// stores its value before it leaves the table.
    pub(crate) fn join(
        &self,
        key: &[u8],
        place: Place,
        now_ms: u64,
        is_present: impl FnOnce() -> bool,
    ) -> Joined {
        let mut part = self.part(key).lock();
        let memo = self.memo(&mut part, key, now_ms);
        if memo.is_some_and(|memo| memo.is_absent) {
            return Joined::Absent;
        }
        if !self.admits() {
            return Joined::Full;
        }
        let ticket = self.ticket();
        let waiters = || BTreeMap::from([(ticket, place)]);
        let flight = || Flight { kind: Kind::Fetch(ticket), waiters: waiters() };
        // An uncacheable value is for one client only, so nobody joins its fetch.
        if memo.is_some() {
            part.detached.insert(ticket, flight());
            return Joined::Begins(ticket);
        }
        match part.flights.get_mut(key) {
            Some(Flight { kind: Kind::Fetch(_), waiters }) => {
                waiters.insert(ticket, place);
                Joined::Waits(ticket)
            }
            // The client that held the lease is gone: a fetch brings the value.
            Some(flight) => {
                // The count was raised with the part locked, followed by its fence.
                if is_present() {
                    self.waiters.fetch_sub(1, Relaxed);
                    return Joined::Present;
                }
                flight.kind = Kind::Fetch(ticket);
                flight.waiters.insert(ticket, place);
                Joined::Begins(ticket)
            }
            None => {
                // Before the look at the store: partner of the fence in `written`.
                self.count.fetch_add(1, SeqCst);
                fence(SeqCst);
                if is_present() {
                    self.count.fetch_sub(1, Relaxed);
                    self.waiters.fetch_sub(1, Relaxed);
                    return Joined::Present;
                }
                part.flights.insert(key.into(), flight());
                Joined::Begins(ticket)
            }
        }
    }

    /// Ends the fetch that began with `ticket`. If the value may be stored, `store` is called with the part locked,
    /// so that no request misses it and begins another fetch.
    pub(crate) fn fetched(
        &self,
        key: &[u8],
        ticket: u64,
        outcome: Outcome,
        remember: Remember,
        store: impl FnOnce(Outcome) -> Outcome,
    ) {
        let mut part = self.part(key).lock();
        let is_joined = matches!(part.flights.get(key), Some(Flight { kind: Kind::Fetch(of), .. }) if *of == ticket);
        let (flight, outcome) = if is_joined {
            let outcome = store(outcome);
            let is_absent = matches!(outcome, Outcome::Absent);
            if remember.for_ms > 0 {
                self.remember(&mut part, key, is_absent, remember);
            }
            // Partner of the load in `has_older`: a thread that no longer counts the flight sees what it left to
            // remember.
            self.count.fetch_sub(1, Release);
            (part.flights.remove(key), outcome)
        } else {
            (part.end_detached(ticket), outcome)
        };
        drop(part);
        let Some(flight) = flight else { return };
        self.waiters.fetch_sub(flight.waiters.len(), Relaxed);
        let is_for_one = matches!(&outcome, Outcome::Value(value) if !value.is_shared);
        let news = |nth: usize| match is_for_one && nth > 0 {
            true => News::Again,
            false => News::Fetched(outcome.clone()),
        };
        self.mail.send(flight.waiters.into_iter().enumerate().map(|(nth, to)| (to, news(nth))));
    }

    /// Notes the client that has a key's lease. `is_won` tells, with the part locked, whether the lease still stands.
    pub(crate) fn lease(
        &self,
        key: &[u8],
        place: Place,
        is_won: impl FnOnce() -> bool,
    ) -> Option<u64> {
        let mut part = self.part(key).lock();
        let ticket = self.ticket();
        let is_new = self.open_lease(&mut part, key);
        if !is_won() {
            if is_new {
                self.remove(&mut part, key);
            }
            return None;
        }
        if let Some(Flight { kind: Kind::Lease(holder), .. }) = part.flights.get_mut(key) {
            *holder = Some((ticket, place));
            return Some(ticket);
        }
        None
    }

    /// Waits for the holder of a key's lease. `is_won` tells, with the part locked, whether the lease still stands.
    pub(crate) fn wait(&self, key: &[u8], place: Place, is_won: impl FnOnce() -> bool) -> Joined {
        let mut part = self.part(key).lock();
        if !self.admits() {
            return Joined::Full;
        }
        let is_new = self.open_lease(&mut part, key);
        if !is_won() {
            self.waiters.fetch_sub(1, Relaxed);
            if is_new {
                self.remove(&mut part, key);
            }
            return Joined::Present;
        }
        let ticket = self.ticket();
        if let Some(flight) = part.flights.get_mut(key) {
            flight.waiters.insert(ticket, place);
        }
        Joined::Waits(ticket)
    }

    /// Opens a flight for the key if it has none, counted before the look at the store: partner of the fence in
    /// `written`.
    fn open_lease(&self, part: &mut Part, key: &[u8]) -> bool {
        let is_new = !part.flights.contains_key(key);
        if is_new {
            self.count.fetch_add(1, SeqCst);
            let flight = Flight { kind: Kind::Lease(None), waiters: BTreeMap::new() };
            part.flights.insert(key.into(), flight);
        }
        fence(SeqCst);
        is_new
    }

    fn remove(&self, part: &mut Part, key: &[u8]) -> Option<Flight> {
        let flight = part.flights.remove(key)?;
        self.count.fetch_sub(1, Relaxed);
        Some(flight)
    }

    /// Removes a waiter, or the holder of a lease. The lease goes to the next waiter; without one, `abandon` is
    /// called.
    pub(crate) fn leave(&self, key: &[u8], ticket: u64, abandon: impl FnOnce()) {
        let mut part = self.part(key).lock();
        if self.stop(&mut part, key, ticket) {
            return;
        }
        let Some(Flight { kind: Kind::Lease(holder), waiters }) = part.flights.get_mut(key) else {
            return;
        };
        if holder.is_none_or(|(of, _)| of != ticket) {
            return;
        }
        *holder = waiters.pop_first();
        if let Some(next) = *holder {
            self.waiters.fetch_sub(1, Relaxed);
            self.mail.send([(next, News::Win)].into_iter());
        } else {
            abandon();
            self.remove(&mut part, key);
        }
    }

    /// Ends a wait at its timeout. False: it has ended before.
    pub(crate) fn stop_waiting(&self, key: &[u8], ticket: u64) -> bool {
        self.stop(&mut self.part(key).lock(), key, ticket)
    }

    fn stop(&self, part: &mut Part, key: &[u8], ticket: u64) -> bool {
        let mut waited = false;
        let mut is_over = false;
        if let Some(flight) = part.flights.get_mut(key) {
            waited = flight.waiters.remove(&ticket).is_some();
            // A fetch ends by itself, and so does a lease with a known holder.
            is_over =
                waited && flight.waiters.is_empty() && matches!(flight.kind, Kind::Lease(None));
        }
        if is_over {
            self.remove(part, key);
        }
        waited = waited || part.leave_detached(ticket);
        if waited {
            self.waiters.fetch_sub(1, Relaxed);
        }
        waited
    }

    /// Whether this ticket still holds the lease.
    pub(crate) fn holds(&self, key: &[u8], ticket: u64) -> bool {
        let part = self.part(key).lock();
        let flight = part.flights.get(key);
        matches!(flight, Some(Flight { kind: Kind::Lease(Some((of, _))), .. }) if *of == ticket)
    }

    /// A client has written the key: all waiters look again, and a fetch of the key is not stored.
    #[inline]
    pub(crate) fn written(&self, key: &[u8]) {
        // Partner of those in `join` and `open_lease`: either this thread sees their flight, or they see the written
        // value.
        fence(SeqCst);
        if self.count.load(Relaxed) > 0 {
            self.end(key, false);
        }
    }

    /// A client has deleted the key: waiters for a lease look again.
    #[inline]
    pub(crate) fn deleted(&self, key: &[u8]) {
        fence(SeqCst);
        if self.count.load(Relaxed) > 0 {
            self.end(key, true);
        }
    }

    #[cold]
    fn end(&self, key: &[u8], only_leases: bool) {
        let mut part = self.part(key).lock();
        let is_fetch = matches!(part.flights.get(key), Some(Flight { kind: Kind::Fetch(_), .. }));
        if only_leases && is_fetch {
            return;
        }
        let Some(flight) = self.remove(&mut part, key) else { return };
        drop(part);
        self.waiters.fetch_sub(flight.waiters.len(), Relaxed);
        self.mail.send(flight.waiters.into_iter().map(|to| (to, News::Look)));
    }

    /// A client is about to delete the key: a fetch in flight is delivered to its present waiters only, and not
    /// stored. The remembered outcome of an earlier one is forgotten.
    #[inline]
    pub(crate) fn overtake(&self, key: &[u8]) {
        if self.has_older() {
            let mut part = self.part(key).lock();
            self.detach(&mut part, key);
            self.forget(&mut part, key);
        }
    }

    /// Whether there may be a flight or an outcome older than a deletion that begins now. Flights are read first: an
    /// outcome is remembered before its flight is gone.
    fn has_older(&self) -> bool {
        self.count.load(SeqCst) > 0 || self.memos.load(Relaxed) > 0
    }

    /// A client is about to delete everything.
    pub(crate) fn overtake_all(&self) {
        if !self.has_older() {
            return;
        }
        for part in &self.parts {
            let mut part = part.lock();
            let keys: Vec<_> = part.flights.keys().cloned().collect();
            keys.iter().for_each(|key| self.detach(&mut part, key));
            self.memos.fetch_sub(part.memos.len(), Relaxed);
            (part.memos, part.memo_bytes) = (HashMap::new(), 0);
        }
    }

    fn detach(&self, part: &mut Part, key: &[u8]) {
        let Some(Flight { kind: Kind::Fetch(ticket), .. }) = part.flights.get(key) else { return };
        let ticket = *ticket;
        if let Some(flight) = self.remove(part, key) {
            let joined = flight.waiters.keys().filter(|&&waiter| waiter != ticket);
            part.followers.extend(joined.map(|&waiter| (waiter, ticket)));
            part.detached.insert(ticket, flight);
        }
    }

    fn memo(&self, part: &mut Part, key: &[u8], now_ms: u64) -> Option<Memo> {
        let memo = *part.memos.get(key)?;
        if memo.until_ms > now_ms {
            return Some(memo);
        }
        self.forget(part, key);
        None
    }

    fn forget(&self, part: &mut Part, key: &[u8]) {
        if part.memos.remove(key).is_some() {
            part.memo_bytes -= key.len() + MEMO_BYTES;
            self.memos.fetch_sub(1, Relaxed);
        }
    }

    /// Remembers an outcome. If all take too much memory, others are forgotten.
    fn remember(&self, part: &mut Part, key: &[u8], is_absent: bool, remember: Remember) {
        let bytes = key.len() + MEMO_BYTES;
        let memo = Memo { is_absent, until_ms: remember.now_ms.saturating_add(remember.for_ms) };
        if let hash_map::Entry::Occupied(mut there) = part.memos.entry(key.into()) {
            there.insert(memo);
            return;
        }
        while part.memo_bytes + bytes > self.memo_bytes_max {
            let Some(other) = part.memos.keys().next().cloned() else { return };
            self.forget(part, &other);
        }
        part.memos.insert(key.into(), memo);
        part.memo_bytes += bytes;
        self.memos.fetch_add(1, Relaxed);
    }
}

impl Part {
    /// Ends the wait of a ticket for a fetch that nobody joins. False: it waits for none.
    fn leave_detached(&mut self, ticket: u64) -> bool {
        let of = self.followers.remove(&ticket).unwrap_or(ticket);
        let detached = self.detached.get_mut(&of);
        detached.is_some_and(|flight| flight.waiters.remove(&ticket).is_some())
    }

    fn end_detached(&mut self, ticket: u64) -> Option<Flight> {
        let flight = self.detached.remove(&ticket)?;
        for follower in flight.waiters.keys() {
            self.followers.remove(follower);
        }
        Some(flight)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use mio::{Poll, Token, Waker};

    use super::*;

    const PLACE: Place = Place { thread: 0, slot: 0 };
    const NOT: Remember = Remember { now_ms: 0, for_ms: 0 };

    fn flights(memo_bytes_max: usize) -> Flights {
        let poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(0)).unwrap();
        Flights::new(100, memo_bytes_max, Mail::new(Arc::new([waker])))
    }

    fn join(flights: &Flights, key: &[u8]) -> (u64, bool) {
        match flights.join(key, PLACE, 0, || false) {
            Joined::Begins(ticket) => (ticket, true),
            Joined::Waits(ticket) => (ticket, false),
            joined => panic!("{joined:?}"),
        }
    }

    fn told(flights: &Flights) -> Vec<u64> {
        flights.mail().take(0).iter().map(|letter| letter.ticket).collect()
    }

    #[test]
    fn a_waiter_that_left_an_overtaken_fetch_gets_no_news() {
        let flights = flights(0);
        let tickets: Vec<_> = (0..4).map(|_| join(&flights, b"key")).collect();
        assert!(tickets[0].1 && !tickets[3].1);
        flights.overtake(b"key");
        flights.leave(b"key", tickets[0].0, || panic!("no lease"));
        assert!(flights.stop_waiting(b"key", tickets[2].0));
        assert!(!flights.stop_waiting(b"key", tickets[2].0));
        // Another flight begins, and its request leaves as well.
        let (next, begins) = join(&flights, b"key");
        assert!(begins && flights.stop_waiting(b"key", next));
        assert_eq!(flights.counts(), (1, 2));
        flights.fetched(b"key", tickets[0].0, Outcome::Failed, NOT, |_| panic!("stored"));
        assert_eq!(told(&flights), [tickets[1].0, tickets[3].0]);
        flights.fetched(b"key", next, Outcome::Failed, NOT, |outcome| outcome);
        assert!(told(&flights).is_empty());
        assert_eq!(flights.counts(), (0, 0));
        assert!(flights.parts.iter().all(|part| part.lock().followers.is_empty()));
    }

    #[test]
    fn remembered_outcomes_are_bounded_and_counted() {
        let flights = flights(PARTS * 1000);
        let remember = Remember { now_ms: 1, for_ms: u64::MAX };
        for number in 0..2000u32 {
            let key = number.to_le_bytes();
            let (ticket, _) = join(&flights, &key);
            flights.fetched(&key, ticket, Outcome::Absent, remember, |outcome| outcome);
            assert_eq!(flights.join(&key, PLACE, u64::MAX - 1, || false), Joined::Absent);
        }
        let kept: usize = flights.parts.iter().map(|part| part.lock().memos.len()).sum();
        assert!((PARTS * 5..=PARTS * 10).contains(&kept), "{kept}");
        assert_eq!(flights.memos.load(Relaxed), kept);
        flights.overtake_all();
        assert_eq!(flights.memos.load(Relaxed), 0);
        assert!(flights.parts.iter().all(|part| part.lock().memo_bytes == 0));
    }
}
