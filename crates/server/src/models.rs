//! Flights against writers, deletions and clients that leave, and keys that move between two stores, in all interleavings that loom finds: `cargo xtask
//! check loom`.
//!
//! A store is one word, read and written without any ordering: the presence of the key.

use std::sync::Arc as Shared;

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;
use mio::{Poll, Token, Waker};

use crate::flights::{Flights, Joined, Remember};
use crate::mail::{Letter, Mail, News, Outcome, Place};
use crate::segments::Moves;
use crate::sync::Mutex;

const KEY: &[u8] = b"key";
const PLACE: Place = Place { thread: 0, slot: 0 };
const REMEMBERED: Remember = Remember { now_ms: 0, for_ms: 10 };

struct World {
    flights: Flights,
    is_there: AtomicBool,
}

impl World {
    fn look(&self) -> bool {
        self.is_there.load(Relaxed)
    }

    fn join(&self) -> Joined {
        self.flights.join(KEY, PLACE, 0, || self.look())
    }

    fn begin(&self) -> u64 {
        match self.join() {
            Joined::Begins(ticket) => ticket,
            joined => panic!("{joined:?}"),
        }
    }

    fn write(&self) {
        self.is_there.store(true, Relaxed);
        self.flights.written(KEY);
    }

    /// As `Items::delete`.
    fn delete(&self) {
        self.flights.overtake(KEY);
        self.is_there.store(false, Relaxed);
        self.flights.deleted(KEY);
    }

    fn fetched(&self, ticket: u64, outcome: Outcome) {
        self.flights.fetched(KEY, ticket, outcome, REMEMBERED, |outcome| {
            self.is_there.store(true, Relaxed);
            outcome
        });
    }

    fn letters(&self) -> Vec<Letter> {
        self.flights.mail().take(0)
    }
}

fn model(run: impl Fn(Arc<World>) + Send + Sync + 'static) {
    let poll = Poll::new().unwrap();
    let wakers: Shared<[Waker]> = Shared::new([Waker::new(poll.registry(), Token(0)).unwrap()]);
    loom::model(move || {
        let flights = Flights::new(8, 1 << 10, Mail::new(Shared::clone(&wakers)));
        run(Arc::new(World { flights, is_there: AtomicBool::new(false) }));
    });
}

fn spawn(world: &Arc<World>, work: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || work(&world))
}

/// A request that looked for the value during its write has seen it, or is notified.
fn assert_not_missed(world: &World, joined: Joined) {
    match joined {
        Joined::Present => assert!(world.look()),
        Joined::Begins(ticket) => {
            assert!(world.letters().iter().any(|letter| letter.ticket == ticket));
        }
        joined => panic!("{joined:?}"),
    }
    assert_eq!(world.flights.counts(), (0, 0));
}

#[test]
fn a_writer_misses_no_waiter_for_a_fetch() {
    model(|world| {
        let writer = spawn(&world, World::write);
        let joined = world.join();
        writer.join().unwrap();
        assert_not_missed(&world, joined);
    });
}

#[test]
fn a_writer_misses_no_waiter_for_a_fetch_in_place_of_a_lease() {
    model(|world| {
        world.flights.lease(KEY, PLACE, || true).unwrap();
        let writer = spawn(&world, World::write);
        let joined = world.join();
        writer.join().unwrap();
        assert_not_missed(&world, joined);
    });
}

#[test]
fn a_writer_misses_no_waiter_for_a_lease() {
    model(|world| {
        let writer = spawn(&world, World::write);
        // Two, so that one finds a flight.
        let waits = spawn(&world, |world| {
            world.flights.wait(KEY, PLACE, || !world.look());
        });
        let waiting = world.flights.wait(KEY, PLACE, || !world.look());
        writer.join().unwrap();
        waits.join().unwrap();
        if let Joined::Waits(ticket) = waiting {
            assert!(world.letters().iter().any(|letter| letter.ticket == ticket));
        }
        assert_eq!(world.flights.counts(), (0, 0));
    });
}

#[test]
fn a_fetch_from_before_a_deletion_is_not_stored() {
    model(|world| {
        let ticket = world.begin();
        let fetcher = spawn(&world, move |world| world.fetched(ticket, Outcome::Failed));
        world.delete();
        fetcher.join().unwrap();
        assert!(!world.look());
        assert_eq!(world.letters().len(), 1);
    });
}

#[test]
fn an_outcome_from_before_a_deletion_is_not_remembered() {
    model(|world| {
        let ticket = world.begin();
        let fetcher = spawn(&world, move |world| {
            world.flights.fetched(KEY, ticket, Outcome::Absent, REMEMBERED, |outcome| outcome);
        });
        world.delete();
        fetcher.join().unwrap();
        assert!(matches!(world.join(), Joined::Begins(_)));
    });
}

/// The holder of a lease leaves, while the waiter leaves or the key is written.
#[test]
fn each_ticket_ends_once() {
    model(|world| {
        let flights = &world.flights;
        let holder = flights.lease(KEY, PLACE, || true).unwrap();
        let Joined::Waits(first) = flights.wait(KEY, PLACE, || true) else { panic!("no wait") };
        let Joined::Waits(second) = flights.wait(KEY, PLACE, || true) else { panic!("no wait") };
        let goes = spawn(&world, move |world| world.flights.leave(KEY, holder, || ()));
        let writes = spawn(&world, World::write);
        let has_stopped = flights.stop_waiting(KEY, first);
        goes.join().unwrap();
        writes.join().unwrap();
        let letters = world.letters();
        let of = |ticket| letters.iter().filter(move |letter| letter.ticket == ticket).count();
        assert_eq!((of(first), of(second)), (usize::from(!has_stopped), 1));
        let wins = letters.iter().filter(|letter| matches!(letter.news, News::Win)).count();
        assert!(wins <= 1);
        assert_eq!(world.flights.counts(), (0, 0));
    });
}

/// The store of segments and that of objects, with a key that is always present.
struct Both {
    moves: Moves,
    lock: Mutex<()>,
    small: AtomicBool,
    large: AtomicBool,
}

impl Both {
    fn shift(&self, from: &AtomicBool, to: &AtomicBool) {
        let _lock = self.lock.lock();
        let _move = self.moves.begin();
        from.store(false, Relaxed);
        to.store(true, Relaxed);
    }

    /// As `Segments::look_further`.
    fn find(&self) -> bool {
        if self.small.load(Relaxed) {
            return true;
        }
        let moves = self.moves.count();
        if self.large.load(Relaxed) {
            return true;
        }
        if moves.is_some_and(|moves| !self.small.load(Relaxed) && self.moves.is_still(moves)) {
            return false;
        }
        let _lock = self.lock.lock();
        self.small.load(Relaxed) || self.large.load(Relaxed)
    }
}

#[test]
fn a_key_that_moves_is_not_missed() {
    loom::model(|| {
        let (small, large) = (AtomicBool::new(false), AtomicBool::new(true));
        let both = Both { moves: Moves::new(), lock: Mutex::new(()), small, large };
        let both = Arc::new(both);
        let mover = Arc::clone(&both);
        let mover = thread::spawn(move || {
            mover.shift(&mover.large, &mover.small);
            mover.shift(&mover.small, &mover.large);
        });
        assert!(both.find());
        mover.join().unwrap();
    });
}
