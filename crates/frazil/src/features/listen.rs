//! Listeners: calls of the user's function for every entry that leaves, with the cause.
//!
//! A *residency* begins when an entry is admitted or replaces another. It ends once: with the
//! exchange that takes its word out of the index. The thread that makes this exchange notes slot
//! and cause (`note`) in its own list, and calls the listener when the operation has released its
//! stripe. Until the listener returns, a pin protects the noted slots. So nothing is cloned, and no
//! lock is held.
//!
//! Only the outermost operation of a thread calls the listener. Residencies that end in the
//! listener, or in other user code under a stripe, join the list, so there is no recursion,
//! whatever a listener does. Nor is there an endless loop: noted slots stay pinned until the list
//! is done, so a listener that inserts as many entries as it is called for finds no free slot in
//! the end, and its insertion is refused.
//!
//! A panic in a listener stops nothing: the other calls are made, an operation of several steps
//! finishes all of them ([`Steps`]), and then the first panic continues to the caller.
//!
//! A *refused* entry was never in the index, and has no slot. Its operation still owns it, and
//! calls the listener for it last ([`Telling::refuse`]). Only the outermost operation does:
//! otherwise a listener that inserts refused entries again would not end.
//!
//! Without a listener a write pays a branch for each of its steps, 4 to 7 instructions in a
//! hundred, and a hit pays nothing. With one, an insertion into a full cache executes 940
//! instructions instead of 690: for a pin, a list, and a call whose panics are caught.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::core::Ending;
use crate::core::steps::Panics;
use crate::features::Featured;
use crate::smr::protect::Pinned;

/// Notes for which a thread keeps memory.
const KEPT: usize = 64;

/// Why an entry left the cache or was not admitted; an argument of the
/// [listener](crate::Builder::listener).
///
/// ```
/// use frazil::Cause;
/// assert!(Cause::Size.was_evicted() && !Cause::Removed.was_evicted());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Evicted: for a new entry, for an entry that became heavier, or because the capacity was
    /// lowered.
    Size,
    /// Its lifetime ended.
    Expired,
    /// Another value was inserted under its key, admitted or not. If two threads insert an absent
    /// key at the same time, one of the two entries ends like this.
    Replaced,
    /// The program removed it: `remove`, `invalidate`, `retain`, `clear`.
    Removed,
    /// Not admitted: the entry of an insertion or a load that the cache refused.
    /// [`Cache::try_insert`](crate::Cache::try_insert) returns the [reason](crate::Refusal).
    Refused,
}

impl Cause {
    /// The listener's data of an ending.
    fn of(ending: Ending) -> Self {
        match ending {
            Ending::Evicted => Cause::Size,
            Ending::Lapsed => Cause::Expired,
            Ending::Replaced | Ending::Outdated => Cause::Replaced,
            Ending::Removed => Cause::Removed,
        }
    }

    /// Whether it left without a request of the program: evicted or expired. False for a refused
    /// entry, which was never there.
    ///
    /// ```
    /// assert!(frazil::Cause::Expired.was_evicted());
    /// assert!(!frazil::Cause::Replaced.was_evicted());
    /// ```
    pub fn was_evicted(self) -> bool {
        matches!(self, Cause::Size | Cause::Expired)
    }
}

pub(crate) type Listener<K, V> = Box<dyn Fn(&K, &V, Cause) + Send + Sync>;

/// The data of each thread, used only by it.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// Its pending calls of the listener.
    departed: OnceCell<Box<Departed>>,
}

// SAFETY: `departed` is reached here alone, through the stripe of the calling thread.
unsafe impl Sync for Local {}

/// Endings of a thread's operations that are not reported yet. Used only by that thread.
#[derive(Debug, Default)]
struct Departed {
    slots: RefCell<VecDeque<(u32, Cause)>>,
    /// Operations of this thread that may end residencies, one inside the other.
    depth: Cell<u32>,
    /// Whether the listener is being called.
    calling: Cell<bool>,
}

/// An operation that may end residencies. Its drop, which must come after the stripe is released,
/// reports all of them to the listener.
pub(crate) struct Telling<'c, K, V, S> {
    cache: &'c Featured<K, V, S>,
    /// Where they are noted.
    departed: &'c Departed,
    /// Their protection.
    pinned: Option<Pinned<'c>>,
    /// A new entry that this operation has not admitted.
    refused: Option<(K, V)>,
}

impl<K, V, S> Featured<K, V, S> {
    /// To be called before anything is taken out of the index. `None` without a listener.
    #[inline(always)]
    pub(crate) fn telling(&self) -> Option<Telling<'_, K, V, S>> {
        self.hooks.listener.is_some().then(|| self.begin_telling())
    }

    /// Whether this thread is inside a call of the listener.
    #[cfg(feature = "expiry")]
    pub(crate) fn is_in_listener(&self) -> bool {
        self.hooks.listener.is_some() && self.departed().calling.get()
    }

    fn departed(&self) -> &Departed {
        self.stripe().local.features.listen.departed.get_or_init(Box::default)
    }

    #[cold]
    #[inline(never)]
    fn begin_telling(&self) -> Telling<'_, K, V, S> {
        let departed = self.departed();
        let mut telling = Telling { cache: self, departed, pinned: None, refused: None };
        telling.resume();
        telling
    }

    /// Notes that the caller has ended the residency of `slot`, within a [`Telling`].
    #[inline(always)]
    pub(crate) fn note(&self, slot: u32, ending: Ending) {
        if self.hooks.listener.is_some() {
            self.note_down(slot, Cause::of(ending));
        }
    }

    #[cold]
    #[inline(never)]
    fn note_down(&self, slot: u32, cause: Cause) {
        let departed = self.departed();
        // Without a pin the slot could be in other hands before it is read.
        debug_assert!(departed.depth.get() > 0, "an operation that does not tell");
        if departed.depth.get() > 0 {
            // Before it is declared dead, so it is not retired yet.
            self.stripe().reader.name(slot);
            departed.slots.borrow_mut().push_back((slot, cause));
        }
    }
}

impl<K, V, S> Telling<'_, K, V, S> {
    /// Begins again after a [pause](Telling::pause).
    pub(crate) fn resume(&mut self) {
        self.departed.depth.set(self.departed.depth.get() + 1);
        self.panics().enter();
        self.pinned = Some(self.cache.pinned());
    }
}

impl<'c, K, V, S> Telling<'c, K, V, S> {
    fn panics(&self) -> &'c Panics {
        self.cache.panics()
    }

    /// Notes a new entry that is not admitted, to report it after the removed ones.
    pub(crate) fn refuse(&mut self, key: K, value: V) {
        self.refused = Some((key, value));
    }

    /// Reports a new entry that is not admitted, and returns it. The caller holds no stripe.
    pub(crate) fn conclude(mut self, key: K, value: V) -> (K, V) {
        self.refuse(key, value);
        self.pause();
        let refused = self.refused.take();
        drop(self);
        refused.expect("it was noted above")
    }

    /// Reports the removed entries so far and releases them, so that the caller, which holds no
    /// stripe, can reclaim them. No entry may be removed before it is resumed.
    pub(crate) fn pause(&mut self) {
        if self.pinned.is_none() {
            return;
        }
        if self.departed.depth.get() == 1 {
            self.tell();
            self.tell_refused();
        }
        self.departed.depth.set(self.departed.depth.get() - 1);
        self.panics().leave();
        self.pinned = None;
    }

    /// Calls the listener. Its panic is kept, so that the other calls are made.
    fn call(&self, key: &K, value: &V, cause: Cause) {
        let Some(listener) = &self.cache.hooks.listener else { return };
        self.departed.calling.set(true);
        let call = AssertUnwindSafe(|| listener(key, value, cause));
        if let Err(panic) = catch_unwind(call) {
            self.panics().keep(panic);
        }
        self.departed.calling.set(false);
    }

    fn tell(&self) {
        let departed = self.departed;
        let next = || departed.slots.borrow_mut().pop_front();
        while let Some((slot, cause)) = next() {
            // SAFETY: it was named before it was retired, and a pin of the outermost operation of
            // this thread keeps the names.
            let (key, value) = unsafe { (self.cache.slab.key(slot), self.cache.slab.value(slot)) };
            self.call(key, value, cause);
        }
        departed.slots.borrow_mut().shrink_to(KEPT);
    }

    /// Reports the refused new entry, and residencies that the listener ends meanwhile.
    fn tell_refused(&mut self) {
        if let Some((key, value)) = &self.refused {
            self.call(key, value, Cause::Refused);
            self.tell();
        }
    }
}

impl<K, V, S> Drop for Telling<'_, K, V, S> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        self.pause();
        self.panics().go_on(None);
    }
}
