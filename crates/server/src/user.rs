//! The user of this process.

use std::ffi::{CStr, CString};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use rustix::process::{geteuid, getuid};

/// The longest entry of a user.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Why the process does not become another user.
#[derive(Debug)]
#[non_exhaustive]
pub enum SwitchUserError {
    /// There is no such user.
    Unknown,
    /// The system refuses it.
    Refused(io::Error),
}

impl fmt::Display for SwitchUserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SwitchUserError::Unknown => f.write_str("there is no such user"),
            SwitchUserError::Refused(error) => write!(f, "the user cannot be switched to: {error}"),
        }
    }
}

impl std::error::Error for SwitchUserError {}

/// Makes a process of root that of another user and of that user's group, for all threads and for good, as memcached's
/// `-u` does. Without effect if the process is not root's. Files and sockets that are opened later are that user's, so
/// it is called before [`Server::start`](crate::Server::start).
///
/// # Errors
///
/// There is no such user, or the process lacks the right.
pub fn switch_user(name: &str) -> Result<(), SwitchUserError> {
    if !getuid().is_root() && !geteuid().is_root() {
        return Ok(());
    }
    let name = CString::new(name).map_err(|_| SwitchUserError::Unknown)?;
    let (user, group) = ids_of(&name)?.ok_or(SwitchUserError::Unknown)?;
    // SAFETY: no group is read from the null pointer, as their number is 0.
    let dropped = checked(unsafe { libc::setgroups(0, ptr::null()) });
    // A process in a sandbox may not, and has none to drop.
    if let Err(error) = dropped
        && error.raw_os_error() != Some(libc::EPERM)
    {
        return Err(SwitchUserError::Refused(error));
    }
    // SAFETY: they take numbers. The C library changes all threads.
    let switched = checked(unsafe { libc::setgid(group) })
        .and_then(|()| checked(unsafe { libc::setuid(user) }));
    switched.map_err(SwitchUserError::Refused)
}

fn checked(outcome: libc::c_int) -> io::Result<()> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The number of a user, and that of its group.
fn ids_of(name: &CStr) -> Result<Option<(libc::uid_t, libc::gid_t)>, SwitchUserError> {
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut texts = vec![0; 1 << 10];
    loop {
        let mut found = ptr::null_mut();
        // SAFETY: the name ends with a zero, all pointers are valid for the call, and the length is that of `texts`.
        let outcome = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                texts.as_mut_ptr(),
                texts.len(),
                &raw mut found,
            )
        };
        match outcome {
            0 if found.is_null() => return Ok(None),
            0 => {
                // SAFETY: it points to `entry`, which the call has filled in.
                let entry = unsafe { &*found };
                return Ok(Some((entry.pw_uid, entry.pw_gid)));
            }
            libc::ERANGE if texts.len() < ENTRY_BYTES_MAX => texts.resize(2 * texts.len(), 0),
            // Some systems have no file of users at all.
            libc::ENOENT => return Ok(None),
            error => return Err(SwitchUserError::Refused(io::Error::from_raw_os_error(error))),
        }
    }
}
