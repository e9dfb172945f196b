//! Verification of passwords, off the loop: it takes some 30 ms of the processor and 19 MiB by design.
//!
//! One thread does one at a time. A password that was right before is known by a digest with a key of this process, so
//! clients of a user that was seen are let in at once whatever others try. One password that many connections give
//! at a time is verified once. After a wrong one the thread rests three times as long as it took.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use sha2::{Digest as _, Sha256};

use super::{NOBODY, User, verify};
use crate::mail::{News, Place};
use crate::server::Shared;

/// Passwords that wait to be verified at once; clients with others are told to try again.
const WAITING_MAX: usize = 32;
/// How long the thread rests after a wrong password: so many times what that took.
const REST: u32 = 3;
/// No hole has this number: the letter only wakes the connection.
const NO_TICKET: u64 = u64::MAX;

/// A verdict.
pub(super) const WAITS: u8 = 0;
pub(super) const RIGHT: u8 = 1;
const WRONG: u8 = 2;

/// Passwords to be verified, the first of which is being.
pub(crate) struct Checks {
    key: [u8; 32],
    queue: Mutex<Queue>,
    came: Condvar,
}

#[derive(Default)]
struct Queue {
    orders: VecDeque<Order>,
    stops: bool,
}

struct Order {
    digest: [u8; 32],
    /// `None`: nobody has the name, which must not be told faster.
    user: Option<Arc<User>>,
    password: Box<[u8]>,
    /// One of each connection.
    verdicts: Vec<(Arc<AtomicU8>, Place)>,
}

/// A password, and whose it may be.
type Next = (Option<Arc<User>>, Box<[u8]>);

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks").finish_non_exhaustive()
    }
}

impl Checks {
    pub(super) fn new() -> io::Result<Checks> {
        let mut key = [0; 32];
        let random = rustls::crypto::ring::default_provider().secure_random;
        random.fill(&mut key).map_err(|_| io::Error::other("no random numbers"))?;
        Ok(Checks { key, queue: Mutex::default(), came: Condvar::new() })
    }

    /// The digest by which a password is known again. The key keeps it from being of use to who does not have this
    /// process's memory, and time that a comparison takes from telling anything of the password.
    pub(super) fn digest(&self, name: &[u8], password: &[u8]) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.key);
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
        digest.update(password);
        digest.finalize().into()
    }

    /// Has a password verified for a connection. `None`: too many are.
    pub(super) fn order(
        &self,
        digest: [u8; 32],
        user: Option<&Arc<User>>,
        password: &[u8],
        place: Place,
    ) -> Option<Arc<AtomicU8>> {
        let verdict = Arc::new(AtomicU8::new(WAITS));
        let mut queue = self.queue.lock();
        let is_same = |order: &Order| {
            let users = (order.user.as_ref(), user);
            let is_same_user = match users {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() && other.is_none(),
            };
            order.digest == digest && is_same_user
        };
        match queue.orders.iter().position(is_same) {
            Some(at) => queue.orders[at].verdicts.push((Arc::clone(&verdict), place)),
            None if queue.orders.len() >= WAITING_MAX => return None,
            None => queue.orders.push_back(Order {
                digest,
                user: user.cloned(),
                password: password.into(),
                verdicts: vec![(Arc::clone(&verdict), place)],
            }),
        }
        self.came.notify_one();
        Some(verdict)
    }

    /// Has the thread end.
    pub(crate) fn stop(&self) {
        self.queue.lock().stops = true;
        self.came.notify_one();
    }

    /// The password that is verified next; it stays in the queue, so that others with the same wait for it too. `None`:
    /// the server ends.
    fn next(&self) -> Option<Next> {
        let mut queue = self.queue.lock();
        loop {
            if queue.stops {
                return None;
            }
            // A connection that was closed has let its verdict go.
            if let Some(order) = queue.orders.front_mut() {
                order.verdicts.retain(|(verdict, _)| Arc::strong_count(verdict) > 1);
            }
            match queue.orders.front() {
                Some(order) if order.verdicts.is_empty() => _ = queue.orders.pop_front(),
                Some(order) => return Some((order.user.clone(), order.password.clone())),
                None => self.came.wait(&mut queue),
            }
        }
    }

    /// Rests after a wrong password that took since `began`.
    fn rest(&self, began: Instant) {
        let until = Instant::now() + began.elapsed() * REST;
        let mut queue = self.queue.lock();
        while !queue.stops && !self.came.wait_until(&mut queue, until).timed_out() {}
    }
}

/// Verifies passwords until the server ends.
pub(crate) fn run(shared: &Shared) {
    let Some(access) = &shared.access else { return };
    let checks = &access.checks;
    while let Some((user, password)) = checks.next() {
        let began = Instant::now();
        let hash = user.as_ref().and_then(|user| user.entry.password.as_deref());
        let is_right = verify(&password, hash.unwrap_or(NOBODY)) && user.is_some();
        let Some(order) = checks.queue.lock().orders.pop_front() else { return };
        if let Some(user) = user.filter(|_| is_right) {
            // If it is set already, then to the same: a user has one password.
            let _ = user.verified.set(order.digest);
        }
        for (verdict, _) in &order.verdicts {
            verdict.store(if is_right { RIGHT } else { WRONG }, Relaxed);
        }
        // Behind the verdicts, so that who is woken sees them: the mail's lock orders both.
        let letters = order.verdicts.iter().map(|(_, place)| ((NO_TICKET, *place), News::Look));
        shared.items.flights.mail().send(letters);
        if !is_right {
            checks.rest(began);
        }
    }
}
