//! The functions of `include/frazil.h`.
//!
//! They do not unwind: a panic aborts the process with a message, because the functions are
//! `extern "C"`.

use std::borrow::Borrow;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use frazil::prometheus::Page;
use frazil::{
    Admitted, Freezing, FreezingControl, HandleBuilder, HandleCache, Held, Outcome, Policy,
    Priority,
};

use crate::entry::{Entry, Kind};
use crate::key::{Key, Query};

/// Bytes of an entry beside its object: its line, its words in the index at 60 % load, its place in
/// a queue.
const METADATA: u64 = 64 + 12 + 8;

/// Prefix of a policy: the hottest entries are frozen while that pays.
const FROZEN: &str = "frozen+";

/// A cache for C, shared with the thread that freezes it, if any.
#[derive(Debug)]
pub struct Cache {
    handles: Handles,
    /// Whether entries are also charged for [`METADATA`].
    charges_metadata: bool,
    control: Mutex<Option<FreezingControl>>,
}

type Handles = HandleCache<Key, Entry, FixedState>;

impl Borrow<Handles> for Cache {
    fn borrow(&self) -> &Handles {
        &self.handles
    }
}

/// The settings of a cache. Zeroes are defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A sum of charges.
    pub capacity: u64,
    /// The name of a policy, optionally after `frozen+`, or null for `mobius`.
    pub policy: *const c_char,
    /// Determines, with the keys, the order of entries in the index.
    pub hash_seed: u64,
    /// Whether an entry to be held is refused if it does not fit.
    pub strict: bool,
    /// Whether an entry's overhead beside its object is also charged.
    pub charges_metadata: bool,
}

/// The outcome of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// A strict cache has no room; the object still belongs to the caller.
    Refused = 1,
    /// There is no policy of this name.
    UnknownPolicy = 2,
    /// Entries of this policy cannot be held.
    CannotHold = 3,
    /// Success, and the object replaced another.
    Replaced = 4,
    /// The system refused the thread that a cache with freezing needs.
    NoThread = 5,
}

type Handle = NonNull<Entry>;

impl Cache {
    /// Locks the controller of freezing, if any.
    fn control(&self) -> MutexGuard<'_, Option<FreezingControl>> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn charge_with_metadata(&self, key: &Key, charge: u64) -> u64 {
        match self.charges_metadata {
            true => charge.saturating_add(METADATA + key.heap_bytes() as u64),
            false => charge,
        }
    }

    /// # Safety
    ///
    /// `handle` is a handle of this cache that was not released.
    unsafe fn held(&self, handle: Handle) -> std::mem::ManuallyDrop<Held<Key, Entry, FixedState>> {
        // SAFETY: as promised; the result is not dropped.
        std::mem::ManuallyDrop::new(unsafe { self.handles.from_raw(handle) })
    }

    fn insert_held(
        &self,
        key: Key,
        entry: Entry,
        charge: u64,
        priority: Priority,
    ) -> Option<(Handle, Outcome)> {
        let charge = self.charge_with_metadata(&key, charge);
        match self.handles.insert_held_with(key, entry, charge, priority) {
            Ok(insertion) => Some((Held::into_raw(insertion.held), insertion.outcome)),
            Err(refused) => {
                // Still the caller's.
                std::mem::forget(refused.value);
                None
            }
        }
    }
}

/// # Safety
///
/// `len` bytes at `key` are readable, unless `len` is 0.
#[inline(always)]
unsafe fn bytes<'k>(key: *const u8, len: usize) -> &'k [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as promised.
    unsafe { std::slice::from_raw_parts(key, len) }
}

/// Makes a cache: `frazil_new` of `frazil.h`.
///
/// # Safety
///
/// Both pointers are valid, and the name of the policy ends in a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_new(options: *const Options, cache: *mut *mut Cache) -> Status {
    // SAFETY: as promised.
    let options = unsafe { &*options };
    let name = match options.policy.is_null() {
        true => "mobius",
        // SAFETY: as promised. Bytes that are not UTF-8 name no policy.
        false => unsafe { CStr::from_ptr(options.policy) }.to_str().unwrap_or(""),
    };
    let (freezing, name) = match name.strip_prefix(FROZEN) {
        Some(base) => (Freezing::Learned, base),
        None => (Freezing::Never, name),
    };
    let Ok(policy) = name.parse::<Policy>() else { return Status::UnknownPolicy };
    let builder: HandleBuilder<Key, Entry> = HandleCache::builder(options.capacity);
    let hasher = FixedState::with_seed(options.hash_seed);
    let builder = builder.policy(policy).strict(options.strict).freezing(freezing);
    let Ok(handles) = builder.with_hasher(hasher).try_build() else { return Status::CannotHold };
    let charges_metadata = options.charges_metadata;
    let made = Arc::new(Cache { handles, charges_metadata, control: Mutex::default() });
    if freezing != Freezing::Never {
        let Ok(control) = Handles::control_freezing(&made) else { return Status::NoThread };
        *made.control() = Some(control);
    }
    // SAFETY: as promised.
    unsafe { *cache = Arc::into_raw(made).cast_mut() };
    Status::Ok
}

/// Drops a cache and all entries that are not held: `frazil_free` of `frazil.h`.
///
/// # Safety
///
/// The cache came from [`frazil_new`], and no thread uses it any more; or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_free(cache: *mut Cache) {
    if !cache.is_null() {
        // SAFETY: as promised.
        let cache = unsafe { Arc::from_raw(cache) };
        // First, so that the cache is dropped here and not by the thread, for which this waits.
        let control = cache.control().take();
        drop(control);
        drop(cache);
    }
}

/// Inserts an object: `frazil_insert` of `frazil.h`.
///
/// # Safety
///
/// The key has `key_len` bytes; the kind outlives the entry; any thread may use and drop the
/// object; `handle` is valid or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_insert(
    cache: &Cache,
    key: *const u8,
    key_len: usize,
    object: *mut c_void,
    kind: *const Kind,
    charge: u64,
    priority: c_int,
    handle: *mut *const Entry,
) -> Status {
    // SAFETY: as promised.
    let key = Key::new(unsafe { bytes(key, key_len) });
    let entry = Entry { object, kind };
    // Numbers and not an enum, because C may pass any number.
    let priority = match priority {
        1 => Priority::High,
        2 => Priority::Bottom,
        _ => Priority::Low,
    };
    if handle.is_null() {
        let charge = cache.charge_with_metadata(&key, charge);
        return match cache.handles.insert_with(key, entry, charge, priority) {
            Ok(Admitted::Replaced) => Status::Replaced,
            // An object that is not admitted is dropped at once, as if it had been evicted.
            Ok(Admitted::New) | Err(_) => Status::Ok,
        };
    }
    let (entry, status) = match cache.insert_held(key, entry, charge, priority) {
        Some((entry, Outcome::Replaced)) => (entry.as_ptr().cast_const(), Status::Replaced),
        Some((entry, _)) => (entry.as_ptr().cast_const(), Status::Ok),
        None => (std::ptr::null(), Status::Refused),
    };
    // SAFETY: as promised.
    unsafe { *handle = entry };
    status
}

/// Holds an object that no look-up finds: `frazil_standalone` of `frazil.h`.
///
/// # Safety
///
/// As for [`frazil_insert`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_standalone(
    cache: &Cache,
    key: *const u8,
    key_len: usize,
    object: *mut c_void,
    kind: *const Kind,
    charge: u64,
    may_be_uncharged: bool,
) -> *const Entry {
    // SAFETY: as promised.
    let key = unsafe { bytes(key, key_len) };
    let make = || (Key::nameless(key), Entry { object, kind });
    let (name, entry) = make();
    if let Some((handle, _)) = cache.insert_held(name, entry, charge, Priority::Low) {
        // SAFETY: it was just created.
        cache.handles.erase_held(&*unsafe { cache.held(handle) });
        return handle.as_ptr();
    }
    if !may_be_uncharged {
        return std::ptr::null();
    }
    let (name, entry) = make();
    // Also without metadata.
    match cache.handles.hold_detached(name, entry, 0) {
        Ok(held) => Held::into_raw(held).as_ptr(),
        Err(refused) => {
            std::mem::forget(refused.value);
            std::ptr::null()
        }
    }
}

/// Holds the entry of a key: `frazil_hold` of `frazil.h`.
///
/// # Safety
///
/// The key has `key_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_hold(
    cache: &Cache,
    key: *const u8,
    key_len: usize,
) -> *const Entry {
    // SAFETY: as promised.
    let query = Query(unsafe { bytes(key, key_len) });
    match cache.handles.hold(&query) {
        Some(held) => Held::into_raw(held).as_ptr(),
        None => std::ptr::null(),
    }
}

/// Holds an entry once more: `frazil_hold_more` of `frazil.h`.
///
/// # Safety
///
/// `handle` is a handle of this cache that was not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_hold_more(cache: &Cache, handle: Handle) {
    // SAFETY: as promised.
    std::mem::forget(Held::clone(&*unsafe { cache.held(handle) }));
}

/// Releases a handle: `frazil_release` of `frazil.h`. Returns whether the object was dropped.
///
/// # Safety
///
/// `handle` is a handle of this cache, released fewer times than it was held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_release(
    cache: &Cache,
    handle: Handle,
    erase_if_last: bool,
) -> bool {
    // SAFETY: as promised.
    cache.handles.release(unsafe { cache.handles.from_raw(handle) }, erase_if_last)
}

/// Removes a key: `frazil_erase` of `frazil.h`.
///
/// # Safety
///
/// The key has `key_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_erase(cache: &Cache, key: *const u8, key_len: usize) -> bool {
    // SAFETY: as promised.
    cache.handles.erase(&Query(unsafe { bytes(key, key_len) }))
}

/// The key of a held entry: `frazil_key` of `frazil.h`.
///
/// # Safety
///
/// `handle` is a handle of this cache that was not released, and `key_len` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_key(
    cache: &Cache,
    handle: Handle,
    key_len: *mut usize,
) -> *const u8 {
    // SAFETY: as promised; the key stays in place while the entry is held.
    unsafe {
        let held = cache.held(handle);
        let key = held.key().bytes();
        *key_len = key.len();
        key.as_ptr()
    }
}

/// The charge of a held entry, without metadata: `frazil_charge` of `frazil.h`.
///
/// # Safety
///
/// `handle` is a handle of this cache that was not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_charge(cache: &Cache, handle: Handle) -> u64 {
    // SAFETY: as promised.
    let held = unsafe { cache.held(handle) };
    held.charge().saturating_sub(cache.charge_with_metadata(held.key(), 0))
}

/// The charge of a held entry with metadata: `frazil_total_charge` of `frazil.h`.
///
/// # Safety
///
/// `handle` is a handle of this cache that was not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_total_charge(cache: &Cache, handle: Handle) -> u64 {
    // SAFETY: as promised.
    unsafe { cache.held(handle) }.charge()
}

/// The function called for each entry: object, kind, key, length, charge without metadata.
type Visit = unsafe extern "C" fn(
    context: *mut c_void,
    key: *const u8,
    key_len: usize,
    entry: *const Entry,
    charge: u64,
);

/// Calls `visit` for all entries: `frazil_for_each` of `frazil.h`.
///
/// # Safety
///
/// `visit` may be called with this context, and does not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_for_each(cache: &Cache, visit: Visit, context: *mut c_void) {
    cache.handles.for_each(|key, entry, charge| {
        let (bytes, metadata) = (key.bytes(), cache.charge_with_metadata(key, 0));
        let charge = charge.saturating_sub(metadata);
        // SAFETY: as promised.
        unsafe { visit(context, bytes.as_ptr(), bytes.len(), entry, charge) };
    });
}

/// Records a share of the requests until the cache is freed: `frazil_record` of `frazil.h`. An
/// error of the system goes to `message`.
///
/// # Safety
///
/// The path ends in a zero byte, and `message` has room for `message_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_record(
    cache: &Cache,
    path: *const c_char,
    rate: f64,
    message: *mut u8,
    message_len: usize,
) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    // SAFETY: as promised.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    match cache.handles.record(path, rate) {
        Ok(recording) => {
            // The cache ends the recording.
            std::mem::forget(recording);
            true
        }
        Err(error) => {
            // SAFETY: as promised.
            unsafe { write_text(&error.to_string(), message, message_len) };
            false
        }
    }
}

/// Writes a page for Prometheus: `frazil_prometheus` of `frazil.h`. Returns the page's full length.
///
/// # Safety
///
/// The name ends in a zero byte, and `page` has room for `page_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frazil_prometheus(
    cache: &Cache,
    name: *const c_char,
    page: *mut u8,
    page_len: usize,
) -> usize {
    // SAFETY: as promised.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let text = Page::new().with_handles(&name, &cache.handles).to_string();
    // SAFETY: as promised.
    unsafe { write_text(&text, page, page_len) };
    text.len()
}

/// Writes a text that ends in a zero byte, cut to `room_len` bytes.
///
/// # Safety
///
/// `room` has `room_len` bytes.
unsafe fn write_text(text: &str, room: *mut u8, room_len: usize) {
    if room_len > 0 {
        let len = text.len().min(room_len - 1);
        // SAFETY: as promised.
        unsafe {
            room.copy_from_nonoverlapping(text.as_ptr(), len);
            *room.add(len) = 0;
        }
    }
}

/// The requested capacity: `frazil_capacity` of `frazil.h`.
#[unsafe(no_mangle)]
pub extern "C" fn frazil_capacity(cache: &Cache) -> u64 {
    cache.handles.capacity()
}

/// Requests a capacity, and returns the one in force: `frazil_set_capacity` of `frazil.h`.
#[unsafe(no_mangle)]
pub extern "C" fn frazil_set_capacity(cache: &Cache, capacity: u64) -> u64 {
    cache.handles.set_capacity(capacity)
}

/// Whether the cache is strict: `frazil_is_strict` of `frazil.h`.
#[unsafe(no_mangle)]
pub extern "C" fn frazil_is_strict(cache: &Cache) -> bool {
    cache.handles.is_strict()
}

/// Makes the cache strict, or not: `frazil_set_strict` of `frazil.h`.
#[unsafe(no_mangle)]
pub extern "C" fn frazil_set_strict(cache: &Cache, strict: bool) {
    cache.handles.set_strict(strict);
}

/// The charge of all resident and held entries: `frazil_usage` of `frazil.h`.
#[unsafe(no_mangle)]
pub extern "C" fn frazil_usage(cache: &Cache) -> u64 {
    cache.handles.usage()
}

/// The charge of all held entries: `frazil_held_usage` of `frazil.h`.
#[unsafe(no_mangle)]
pub extern "C" fn frazil_held_usage(cache: &Cache) -> u64 {
    cache.handles.held_usage()
}

/// How many entries are resident: `frazil_len` of `frazil.h`.
#[unsafe(no_mangle)]
pub extern "C" fn frazil_len(cache: &Cache) -> u64 {
    cache.handles.len() as u64
}

/// How many homes the hash table has: `frazil_homes` of `frazil.h`.
#[unsafe(no_mangle)]
pub extern "C" fn frazil_homes(cache: &Cache) -> u64 {
    cache.handles.homes() as u64
}

/// Removes all entries: `frazil_clear` of `frazil.h`.
#[unsafe(no_mangle)]
pub extern "C" fn frazil_clear(cache: &Cache) {
    cache.handles.clear();
}

/// Removes all entries that are not held: `frazil_clear_unheld` of `frazil.h`.
#[unsafe(no_mangle)]
pub extern "C" fn frazil_clear_unheld(cache: &Cache) {
    cache.handles.clear_unheld();
}
