//! Conditional writes: additions, replacements, changes of a value.
//!
//! A change reads the entry under a guard, writes a new item, and replaces the old one in the index
//! if the index still leads to it. If not, another write or a merge intervened, and the change
//! begins anew.

use std::time::Duration;

use crate::store::{Kept, Store};
use crate::{Attributes, Entry, Expect, Held, StoreError, Stored, Update};

/// The longest decimal number of 64 bits.
const DIGITS_MAX: usize = 20;

impl Store {
    /// Stores a value if the present entry is as expected. Returns the outcome and the number of
    /// the stored entry ([`Entry::cas`]).
    ///
    /// # Errors
    ///
    /// As [`Store::set`].
    ///
    /// ```
    /// use frazil_segment::{Attributes, Expect, Stored};
    ///
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// let (stored, cas) = store.write(b"key", b"1", Attributes::default(), Expect::Nothing)?;
    /// assert_eq!(stored, Stored::Stored);
    /// let (stored, _) = store.write(b"key", b"2", Attributes::default(), Expect::Exactly(cas))?;
    /// assert_eq!(stored, Stored::Stored);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write(
        &self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        expect: Expect,
    ) -> Result<(Stored, u64), StoreError> {
        let Attributes { flags, marks, lifetime } = attributes;
        let deadline_ms = self.deadline_ms(lifetime);
        let kept = Kept { flags, marks, deadline_ms, restored: None };
        self.put(key, [value, &[]], kept, expect)
    }

    /// Calls `decide` with a key's entry, to build a new value in `value`, which is empty at first.
    /// Returns the decision, and the entry's number afterwards ([`Entry::cas`]); `None` if the key
    /// has no entry. If another write intervenes, `decide` is called again.
    ///
    /// # Errors
    ///
    /// As [`Store::set`].
    ///
    /// ```
    /// use frazil_segment::Update;
    ///
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"old", Default::default())?;
    /// let updated = store.update(b"key", &mut Vec::new(), |entry, value| {
    ///     value.extend(entry.value.iter().rev());
    ///     Update::Write { flags: entry.flags, marks: 1, lifetime: None, result: entry.value.len() }
    /// })?;
    /// assert_eq!(updated.map(|(length, _)| length), Some(3));
    /// assert_eq!(store.get_with(b"key", |entry| (entry.value == b"dlo", entry.marks)), Some((true, 1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn update<R>(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        mut decide: impl FnMut(&Entry<'_>, &mut Vec<u8>) -> Update<R>,
    ) -> Result<Option<(R, u64)>, StoreError> {
        self.change(key, |held| {
            let entry = held.entry();
            value.clear();
            match decide(entry, value) {
                Update::Leave(result) => Ok((Stored::Stored, (result, entry.cas))),
                Update::Write { flags, marks, lifetime, result } => {
                    let deadline_ms = match lifetime {
                        None => held.deadline_ms,
                        Some(lifetime) => self.deadline_ms(lifetime),
                    };
                    let kept = Kept { flags, marks, deadline_ms, restored: None };
                    let expect = Expect::Exactly(entry.cas);
                    let (stored, cas) = self.put(key, [value, &[]], kept, expect)?;
                    Ok((stored, (result, cas)))
                }
            }
        })
    }

    /// Stores a value if the key has none.
    ///
    /// # Errors
    ///
    /// As [`Store::set`].
    ///
    /// ```
    /// use frazil_segment::{Attributes, Stored};
    ///
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// assert_eq!(store.add(b"key", b"1", Attributes::default())?, Stored::Stored);
    /// assert_eq!(store.add(b"key", b"2", Attributes::default())?, Stored::NotStored);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add(
        &self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
    ) -> Result<Stored, StoreError> {
        // If the entry is certainly present nothing is written: that would cost space.
        if self.contains(key) {
            return Ok(Stored::NotStored);
        }
        self.write(key, value, attributes, Expect::Nothing).map(|(stored, _)| stored)
    }

    /// Stores a value if the key has one.
    ///
    /// # Errors
    ///
    /// As [`Store::set`].
    ///
    /// ```
    /// use frazil_segment::{Attributes, Stored};
    ///
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// assert_eq!(store.replace(b"key", b"1", Attributes::default())?, Stored::NotStored);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace(
        &self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
    ) -> Result<Stored, StoreError> {
        if !self.contains(key) {
            return Ok(Stored::NotStored);
        }
        self.write(key, value, attributes, Expect::Something).map(|(stored, _)| stored)
    }

    /// Stores a value if the number of the key's entry is still `cas`
    /// ([`Entry::cas`](crate::Entry::cas)).
    ///
    /// [`Stored::Exists`] means that the key has another entry, or that a merge has moved it: read
    /// it again.
    ///
    /// # Errors
    ///
    /// As [`Store::set`].
    ///
    /// ```
    /// use frazil_segment::{Attributes, Stored};
    ///
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"1", Attributes::default())?;
    /// let cas = store.get_with(b"key", |entry| entry.cas).unwrap();
    /// assert_eq!(store.cas(b"key", b"2", Attributes::default(), cas)?, Stored::Stored);
    /// assert_eq!(store.cas(b"key", b"3", Attributes::default(), cas)?, Stored::Exists);
    /// assert_eq!(store.cas(b"none", b"3", Attributes::default(), cas)?, Stored::NotFound);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cas(
        &self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        cas: u64,
    ) -> Result<Stored, StoreError> {
        self.write(key, value, attributes, Expect::Exactly(cas)).map(|(stored, _)| stored)
    }

    /// Appends to a value. Flags and lifetime stay.
    ///
    /// # Errors
    ///
    /// As [`Store::set`].
    ///
    /// ```
    /// use frazil_segment::{Attributes, Stored};
    ///
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"to", Attributes::default())?;
    /// assert_eq!(store.append(b"key", b"gether")?, Stored::Stored);
    /// assert_eq!(store.append(b"none", b"gether")?, Stored::NotStored);
    /// let mut value = Vec::new();
    /// store.get(b"key", &mut value);
    /// assert_eq!(value, b"together");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append(&self, key: &[u8], suffix: &[u8]) -> Result<Stored, StoreError> {
        self.change(key, |held| self.rewrite(key, held, [held.entry().value, suffix]))
            .map(|changed| changed.map_or(Stored::NotStored, |()| Stored::Stored))
    }

    /// Prepends to a value. Flags and lifetime stay.
    ///
    /// # Errors
    ///
    /// As [`Store::set`].
    ///
    /// ```
    /// use frazil_segment::{Attributes, Stored};
    ///
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"gether", Attributes::default())?;
    /// assert_eq!(store.prepend(b"key", b"to")?, Stored::Stored);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepend(&self, key: &[u8], prefix: &[u8]) -> Result<Stored, StoreError> {
        self.change(key, |held| self.rewrite(key, held, [prefix, held.entry().value]))
            .map(|changed| changed.map_or(Stored::NotStored, |()| Stored::Stored))
    }

    /// Changes the lifetime of an entry, and returns whether there is one. The item is
    /// rewritten, because segments hold items of similar lifetime, so its number changes.
    ///
    /// # Errors
    ///
    /// All memory is held by guards.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// assert!(store.touch(b"key", Some(Duration::from_secs(60)))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn touch(&self, key: &[u8], lifetime: Option<Duration>) -> Result<bool, StoreError> {
        let deadline_ms = self.deadline_ms(lifetime);
        let touched = self.change(key, |held| {
            let entry = held.entry();
            let kept = Kept { flags: entry.flags, marks: entry.marks, deadline_ms, restored: None };
            let stored = self.put(key, [entry.value, &[]], kept, Expect::Exactly(entry.cas))?.0;
            Ok((stored, ()))
        })?;
        Ok(touched.is_some())
    }

    /// Adds to a value that is a decimal number of 64 bits, modulo 2^64, and returns the sum;
    /// `None` if the key has no value. Flags and lifetime stay.
    ///
    /// # Errors
    ///
    /// The value is not a number; or as [`Store::set`].
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"9", Default::default())?;
    /// assert_eq!(store.incr(b"key", 3)?, Some(12));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn incr(&self, key: &[u8], by: u64) -> Result<Option<u64>, StoreError> {
        self.count(key, |number| number.wrapping_add(by))
    }

    /// Subtracts from a value that is a decimal number of 64 bits, but not below 0.
    ///
    /// # Errors
    ///
    /// As [`Store::incr`].
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"9", Default::default())?;
    /// assert_eq!(store.decr(b"key", 10)?, Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decr(&self, key: &[u8], by: u64) -> Result<Option<u64>, StoreError> {
        self.count(key, |number| number.saturating_sub(by))
    }

    fn count(&self, key: &[u8], next: impl Fn(u64) -> u64) -> Result<Option<u64>, StoreError> {
        self.change(key, |held| {
            let next = next(number(held.entry().value).ok_or(StoreError::NotANumber)?);
            let stored = self.rewrite(key, held, [next.to_string().as_bytes(), &[]])?.0;
            Ok((stored, next))
        })
    }

    fn rewrite(
        &self,
        key: &[u8],
        held: &Held<'_>,
        value: [&[u8]; 2],
    ) -> Result<(Stored, ()), StoreError> {
        let entry = held.entry();
        let deadline_ms = held.deadline_ms;
        let kept = Kept { flags: entry.flags, marks: entry.marks, deadline_ms, restored: None };
        Ok((self.put(key, value, kept, Expect::Exactly(entry.cas))?.0, ()))
    }

    /// Retries a change of a key's entry until no other write intervenes. `None`: the key has no
    /// entry.
    fn change<R>(
        &self,
        key: &[u8],
        mut attempt: impl FnMut(&Held<'_>) -> Result<(Stored, R), StoreError>,
    ) -> Result<Option<R>, StoreError> {
        while let Some(held) = self.hold(key) {
            match attempt(&held)? {
                (Stored::Stored, result) => return Ok(Some(result)),
                (Stored::NotFound, _) => return Ok(None),
                _ => {}
            }
        }
        Ok(None)
    }
}

/// A decimal number of 64 bits, and nothing else.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.len() <= DIGITS_MAX && value.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
}
