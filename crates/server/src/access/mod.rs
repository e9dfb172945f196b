//! Users with a password, their classes of commands and prefixes of keys, read from a file.
//!
//! Each connection has a [`Pass`]. A flag marks one with all rights, and is all that its requests check. A separate
//! thread verifies passwords ([`checks`]).

mod checks;
mod pass;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Argon2, Params};
use parking_lot::RwLock;
use serde::Deserialize;

pub(crate) use checks::{Checks, run};
pub(crate) use pass::{Attempt, Pass};

/// Size of a file of users, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Users in a file.
const USERS_MAX: usize = 4096;
/// Prefixes of a user, and the length of each.
const PREFIXES_MAX: usize = 64;
const PREFIX_BYTES_MAX: usize = 250;
/// Length of a user's name, and of a password, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 128;
pub(crate) const PASSWORD_BYTES_MAX: usize = 512;
/// Cost of one verification: KiB of memory, passes over it, lanes.
const HASH_KIB_MAX: u32 = 64 << 10;
const HASH_PASSES_MAX: u32 = 16;
const HASH_LANES_MAX: u32 = 4;
/// The user of a connection before it logs in, if the file has this user without a password.
const DEFAULT: &str = "default";
/// A hash without a password, as costly as a real one: verified for unknown names.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm8gdXNlciBoYXMgdGhpcw$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Classes of commands, one bit each.
pub(crate) const READ: u8 = 1;
pub(crate) const WRITE: u8 = 2;
pub(crate) const ADMIN: u8 = 4;
pub(crate) const DANGEROUS: u8 = 8;
/// The classes by name.
pub(crate) const CLASSES: [(u8, &str); 4] =
    [(READ, "read"), (WRITE, "write"), (ADMIN, "admin"), (DANGEROUS, "dangerous")];

/// A user.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) name: Box<str>,
    entry: Entry,
    classes: u8,
    /// Prefixes of the keys it may use; empty: any key.
    prefixes: Box<[Box<[u8]>]>,
    /// The keyed digest of the password, set when it was first verified.
    verified: OnceLock<[u8; 32]>,
    /// The file no longer has this user, or has changed it: its connections are closed.
    is_revoked: AtomicBool,
}

/// A user as written in the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    password: Option<String>,
    classes: Vec<String>,
    prefixes: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    users: BTreeMap<String, Entry>,
}

impl User {
    fn of(name: &str, entry: &Entry) -> Result<User, String> {
        let is_shown = |byte: u8| byte.is_ascii_graphic() && byte != b':';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_shown) {
            return Err("expected a name of 1 to 128 visible ASCII characters without `:`".into());
        }
        match &entry.password {
            Some(hash) => check_hash(hash)?,
            None if name == DEFAULT => {}
            None => return Err("no password; only `default` may have none".into()),
        }
        let mut classes = 0;
        for class in &entry.classes {
            let known = CLASSES.iter().find(|(_, name)| name == class);
            classes |= known
                .ok_or_else(|| {
                    format!("unknown class `{class}`; known are read, write, admin, dangerous")
                })?
                .0;
        }
        let prefixes = entry.prefixes.as_deref();
        if prefixes.is_some_and(|prefixes| prefixes.is_empty() || prefixes.len() > PREFIXES_MAX) {
            return Err(format!(
                "expected 1 to {PREFIXES_MAX} prefixes; leave `prefixes` out to allow all keys"
            ));
        }
        let prefixes = prefixes.unwrap_or_default();
        if prefixes.iter().any(|prefix| prefix.is_empty() || prefix.len() > PREFIX_BYTES_MAX) {
            return Err(format!("expected prefixes of 1 to {PREFIX_BYTES_MAX} bytes"));
        }
        Ok(User {
            name: name.into(),
            entry: entry.clone(),
            classes,
            prefixes: prefixes.iter().map(|prefix| prefix.as_bytes().into()).collect(),
            verified: OnceLock::new(),
            is_revoked: AtomicBool::new(false),
        })
    }

    /// Whether it has all rights on all keys.
    fn is_free(&self) -> bool {
        self.prefixes.is_empty() && self.may(READ | WRITE | ADMIN | DANGEROUS)
    }

    /// Whether it has all these classes.
    pub(crate) fn may(&self, classes: u8) -> bool {
        self.classes & classes == classes
    }

    pub(crate) fn may_use(&self, key: &[u8]) -> bool {
        self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }

    pub(crate) fn has_prefixes(&self) -> bool {
        !self.prefixes.is_empty()
    }

    pub(crate) fn needs_password(&self) -> bool {
        self.entry.password.is_some()
    }

    /// Its keys as patterns of Redis, with special characters escaped.
    pub(crate) fn shown_keys(&self) -> String {
        if self.prefixes.is_empty() {
            return "~*".into();
        }
        let mut text = String::new();
        for prefix in &self.prefixes {
            text.push_str(if text.is_empty() { "~" } else { " ~" });
            for character in String::from_utf8_lossy(prefix).chars() {
                if "*?[]\\^".contains(character) {
                    text.push('\\');
                }
                text.push(character);
            }
            text.push('*');
        }
        text
    }

    /// Its commands in Redis' notation: all, less those of the classes it lacks.
    pub(crate) fn shown_commands(&self) -> String {
        let mut text = "+@all".to_owned();
        for (_, name) in CLASSES.iter().filter(|(class, _)| !self.may(*class)) {
            // Writing to a string cannot fail.
            let _ = write!(text, " -@{name}");
        }
        text
    }
}

/// Checks that a hash can be verified, within the limits of cost.
fn check_hash(hash: &str) -> Result<(), String> {
    let refused = "expected a hash from `frazil serve --hash-password` as password: argon2id with at \
                   most 64 MiB, 16 passes and 4 lanes";
    let parsed = PasswordHash::new(hash).map_err(|_| refused.to_owned())?;
    let params = Params::try_from(&parsed).map_err(|_| refused.to_owned())?;
    let is_bounded = params.m_cost() <= HASH_KIB_MAX
        && params.t_cost() <= HASH_PASSES_MAX
        && params.p_cost() <= HASH_LANES_MAX;
    let is_whole = parsed.salt.is_some() && parsed.hash.is_some();
    if parsed.algorithm.as_str() != "argon2id" || !is_bounded || !is_whole {
        return Err(refused.into());
    }
    Ok(())
}

/// The hash of a password, for a file of users: argon2id with 19 MiB and two passes, and a salt of its own.
///
/// Takes some 30 ms, and 19 MiB while it does.
///
/// # Errors
///
/// The password is empty or longer than 512 bytes, or the system has no random numbers.
///
/// ```
/// let hash = frazil_server::hash_password(b"secret")?;
/// assert!(hash.starts_with("$argon2id$"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn hash_password(password: &[u8]) -> io::Result<String> {
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Err(io::Error::other(format!(
            "expected a password of 1 to {PASSWORD_BYTES_MAX} bytes"
        )));
    }
    let hash = Argon2::default().hash_password(password);
    hash.map(|hash| hash.to_string()).map_err(|error| io::Error::other(error.to_string()))
}

/// Verifies a password, at the cost that its hash sets.
fn verify(password: &[u8], hash: &str) -> bool {
    PasswordHash::new(hash)
        .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
}

/// The users of a file.
#[derive(Debug, Default)]
pub(crate) struct Users(BTreeMap<Box<str>, Arc<User>>);

impl Users {
    /// Reads a file. Users unchanged since `before` are kept, and so are their connections.
    fn read(path: &Path, before: &Users) -> io::Result<Users> {
        let mut text = String::new();
        std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other("the file is larger than 4 MiB"));
        }
        let file: File = toml::from_str(&text).map_err(|error| {
            let begin = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.as_bytes()[..begin].iter().filter(|&&byte| byte == b'\n').count() + 1;
            io::Error::other(format!("line {line}: {}", error.message()))
        })?;
        if file.users.is_empty() || file.users.len() > USERS_MAX {
            return Err(io::Error::other(format!(
                "expected 1 to {USERS_MAX} users, each as a table `[users.NAME]`"
            )));
        }
        let mut users = BTreeMap::new();
        for (name, entry) in &file.users {
            let user = match before.0.get(name.as_str()).filter(|old| old.entry == *entry) {
                Some(user) => Arc::clone(user),
                None => User::of(name, entry)
                    .map(Arc::new)
                    .map_err(|why| io::Error::other(format!("user `{name}`: {why}")))?,
            };
            users.insert(name.as_str().into(), user);
        }
        Ok(Users(users))
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.0.get(std::str::from_utf8(name).ok()?)
    }

    /// By name.
    pub(crate) fn all(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.0.values()
    }
}

/// Whether a file of users requires a password of every client.
///
/// # Errors
///
/// The file cannot be read, or is not a file of users.
pub fn users_need_passwords(path: &Path) -> io::Result<bool> {
    let users = Users::read(path, &Users::default())?;
    Ok(users.all().all(|user| user.needs_password()))
}

/// The users of a server, and the queue of passwords.
#[derive(Debug)]
pub(crate) struct Access {
    users: RwLock<Arc<Users>>,
    pub(crate) checks: Checks,
}

impl Access {
    pub(crate) fn new(path: &Path) -> io::Result<Access> {
        let users = Users::read(path, &Users::default())?;
        Ok(Access { users: RwLock::new(Arc::new(users)), checks: Checks::new()? })
    }

    /// The current users.
    pub(crate) fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.read())
    }

    /// The user of connections without a name.
    fn anybody(&self) -> Option<Arc<User>> {
        let users = self.users.read();
        users.get(DEFAULT.as_bytes()).filter(|user| !user.needs_password()).cloned()
    }

    /// Reads the file again. Connections of changed or removed users are closed.
    pub(crate) fn reload(&self, path: &Path) -> io::Result<()> {
        let mut users = self.users.write();
        let read = Users::read(path, &users)?;
        for old in users.all() {
            let stays = read.get(old.name.as_bytes()).is_some_and(|new| Arc::ptr_eq(new, old));
            old.is_revoked.store(!stays, Relaxed);
        }
        *users = Arc::new(read);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Result<User, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let (name, entry) = file.users.iter().next().ok_or("none")?;
        User::of(name, entry)
    }

    #[test]
    fn entries_that_say_too_little_or_too_much_are_refused() {
        let hash = hash_password(b"secret").unwrap();
        let costly = hash.replace("m=19456", "m=1048576");
        let weak = hash.replace("argon2id", "argon2d");
        for (text, told) in [
            ("[users.a]\nclasses = []".to_owned(), "no password"),
            (format!("[users.a]\npassword = '{hash}'"), "classes"),
            (format!("[users.a]\npassword = '{hash}'\nclasses = ['all']"), "`all`"),
            (format!("[users.a]\npassword = '{costly}'\nclasses = []"), "64 MiB"),
            (format!("[users.a]\npassword = '{weak}'\nclasses = []"), "argon2id"),
            ("[users.a]\npassword = 'secret'\nclasses = []".to_owned(), "--hash-password"),
            (format!("[users.'a b']\npassword = '{hash}'\nclasses = []"), "visible"),
            (format!("[users.a]\npassword = '{hash}'\nclasses = []\nprefixes = []"), "prefixes"),
            (format!("[users.a]\npassword = '{hash}'\nclasses = []\nprefix = 'a'"), "prefix"),
        ] {
            let error = entry(&text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert!(entry(&format!("[users.a]\npassword = '{hash}'\nclasses = []")).is_ok());
    }

    #[test]
    fn a_password_has_its_hash_and_no_other() {
        let hash = hash_password(b"secret").unwrap();
        assert!(verify(b"secret", &hash) && !verify(b"secreT", &hash));
        assert!(!verify(b"", NOBODY) && check_hash(NOBODY).is_ok());
        assert!(hash_password(b"").is_err() && hash_password(&[b'a'; 513]).is_err());
    }

    #[test]
    fn a_user_may_use_keys_with_its_prefixes() {
        let user = entry("[users.default]\nclasses = ['read']\nprefixes = ['a:', 'b*']").unwrap();
        assert!(user.may_use(b"a:1") && user.may_use(b"b*") && !user.may_use(b"b"));
        assert!(user.may(READ) && !user.may(READ | WRITE) && !user.is_free());
        assert_eq!(user.shown_keys(), "~a:* ~b\\**");
        assert_eq!(user.shown_commands(), "+@all -@write -@admin -@dangerous");
    }
}
