//! The value of an entry: an object of the caller, and the function that deletes it.

use std::ffi::c_void;

/// The way to drop objects of a kind. It must outlive every entry of the kind.
///
/// ```
/// use frazil_rocksdb::Kind;
/// let kind = Kind { drop: None, context: std::ptr::null_mut() };
/// assert!(kind.drop.is_none(), "nothing is to be done");
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Called once for each admitted object, with the context, on the last thread to release it. It
    /// may call the cache, and must not unwind.
    pub drop: Option<unsafe extern "C" fn(object: *mut c_void, context: *mut c_void)>,
    /// Passed to `drop`.
    pub context: *mut c_void,
}

/// An object and its kind: a handle points to these.
///
/// ```
/// // With a key of 16 bytes and the count of holders it fills a line.
/// assert_eq!(size_of::<frazil_rocksdb::Entry>(), 16);
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct Entry {
    /// Belongs to the caller; may be null.
    pub object: *mut c_void,
    /// Never null.
    pub kind: *const Kind,
}

// SAFETY: the caller that inserts an object promises that any thread may use and drop it
// (`frazil.h`).
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

impl Drop for Entry {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the kind outlives its entries (promised to `frazil_insert`).
        let kind = unsafe { &*self.kind };
        if let Some(drop) = kind.drop {
            // SAFETY: as the caller wants it, once.
            unsafe { drop(self.object, kind.context) };
        }
    }
}
