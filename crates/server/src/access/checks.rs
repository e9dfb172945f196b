//! Verification of passwords outside the loop. One takes some 30 ms of the processor and 19 MiB, by design.
//!
//! One thread verifies one password at a time. A password that was right before is recognized by its digest under a
//! key of this process, so clients of a user that has connected before are admitted at once, whatever others try. A
//! password that many connections give at the same time is verified once. After a wrong password the thread rests for
//! three times as long as the verification took.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use sha2::{Digest as _, Sha256};

use super::{NOBODY, User, verify};
use crate::mail::{News, Place};
use crate::server::Shared;

/// Passwords in the queue, of all clients and of one source. Clients with further ones are told to try again.
const WAITING_MAX: usize = 256;
const OF_SOURCE_MAX: usize = 16;
/// Rest after a wrong password, in multiples of the time that its verification took.
const REST: u32 = 3;
/// No waiting reply has this ticket: the letter only wakes the connection.
const NO_TICKET: u64 = u64::MAX;

/// Values of a verdict.
pub(super) const WAITS: u8 = 0;
pub(super) const RIGHT: u8 = 1;
const WRONG: u8 = 2;

/// The queue of passwords. The first is being verified.
pub(crate) struct Checks {
    key: [u8; 32],
    queue: Mutex<Queue>,
    came: Condvar,
}

/// Where passwords come from. Sources take turns, so those who guess from one address keep nobody else waiting, nor a
/// connection of theirs that has not guessed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// `None`: a Unix socket.
    pub(crate) address: Option<IpAddr>,
    /// The connection has given a wrong password.
    pub(super) has_failed: bool,
}

#[derive(Default)]
struct Queue {
    orders: VecDeque<Order>,
    /// Sources whose passwords were verified, the latest last.
    served: VecDeque<Source>,
    stops: bool,
}

impl Queue {
    fn is_full_for(&mut self, source: Source) -> bool {
        // A closed connection has dropped its verdict. The first order is being verified.
        let mut place = 0;
        self.orders.retain(|order| {
            place += 1;
            place == 1 || order.verdicts.iter().any(|(verdict, _)| Arc::strong_count(verdict) > 1)
        });
        let of_source = self.orders.iter().filter(|order| order.source == source).count();
        self.orders.len() >= WAITING_MAX || of_source >= OF_SOURCE_MAX
    }

    /// Puts the order first whose source was served longest ago.
    fn choose(&mut self) {
        let turn = |order: &Order| self.served.iter().position(|source| *source == order.source);
        let orders = self.orders.iter().enumerate();
        let chosen = orders.min_by_key(|(_, order)| turn(order)).map(|(at, _)| at);
        let Some(order) = chosen.and_then(|at| self.orders.remove(at)) else { return };
        self.served.retain(|source| *source != order.source);
        self.served.push_back(order.source);
        if self.served.len() > WAITING_MAX {
            self.served.pop_front();
        }
        self.orders.push_front(order);
    }
}

struct Order {
    source: Source,
    digest: [u8; 32],
    /// `None`: an unknown name. Its refusal must take as long as that of a known one.
    user: Option<Arc<User>>,
    password: Box<[u8]>,
    /// The verdict and place of each waiting connection.
    verdicts: Vec<(Arc<AtomicU8>, Place)>,
}

/// A password and the user it is claimed for.
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

    /// The digest that recognizes a verified password. The key makes it useless without this process's memory, and
    /// keeps the time of a comparison from revealing the password.
    pub(super) fn digest(&self, name: &[u8], password: &[u8]) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.key);
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
        digest.update(password);
        digest.finalize().into()
    }

    /// Queues a password for verification, for the connection at a place. `None`: the queue is full.
    pub(super) fn order(
        &self,
        (digest, password): ([u8; 32], &[u8]),
        user: Option<&Arc<User>>,
        place: Place,
        source: Source,
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
            None if queue.is_full_for(source) => return None,
            None => queue.orders.push_back(Order {
                source,
                digest,
                user: user.cloned(),
                password: password.into(),
                verdicts: vec![(Arc::clone(&verdict), place)],
            }),
        }
        self.came.notify_one();
        Some(verdict)
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.queue.lock().stops = true;
        self.came.notify_one();
    }

    /// The next password to verify. It stays in the queue, so that other connections with the same password join it.
    /// `None`: the server ends.
    fn next(&self) -> Option<Next> {
        let mut queue = self.queue.lock();
        loop {
            if queue.stops {
                return None;
            }
            queue.choose();
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

    /// Rests after a wrong password whose verification began at `began`.
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
            // A value set before is the same one: a user has one password.
            let _ = user.verified.set(order.digest);
        }
        for (verdict, _) in &order.verdicts {
            verdict.store(if is_right { RIGHT } else { WRONG }, Relaxed);
        }
        // After the verdicts are stored, so that a woken connection sees them: the mail's lock orders both.
        let letters = order.verdicts.iter().map(|(_, place)| ((NO_TICKET, *place), News::Look));
        shared.items.flights.mail().send(letters);
        if !is_right {
            checks.rest(began);
        }
    }
}
