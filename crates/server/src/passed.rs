//! Listening sockets passed by the service manager: systemd's `LISTEN_FDS`.
//!
//! They are at descriptors from 3 on, in the process that `LISTEN_PID` names. `LISTEN_FDNAMES` names the purpose of
//! each.

use std::env;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use socket2::{Socket, Type};

use crate::listen::Address;

/// The first descriptor.
const FIRST: RawFd = 3;
/// Descriptors taken at most.
const SOCKETS_MAX: RawFd = 64;

/// The purpose of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Memcached,
    Resp,
    Http,
    Admin,
}

/// Names of purposes, as in `FileDescriptorName=`.
const NAMES: [(&str, Purpose); 4] = [
    ("memcached", Purpose::Memcached),
    ("resp", Purpose::Resp),
    ("http", Purpose::Http),
    ("admin", Purpose::Admin),
];

/// Sockets that the service manager has passed to this process. A server serves them beside its addresses.
#[derive(Clone, Debug, Default)]
pub struct Passed(Vec<(Purpose, Arc<Socket>)>);

impl Passed {
    /// Takes the sockets passed to this process. A second call finds none.
    ///
    /// # Errors
    ///
    /// A name is none of `memcached`, `resp`, `http` and `admin`, or a descriptor is not a listening socket.
    pub fn take() -> io::Result<Passed> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let number = |name: &str| env::var(name).ok()?.parse::<RawFd>().ok();
        let is_ours = number("LISTEN_PID") == i32::try_from(std::process::id()).ok();
        let count = number("LISTEN_FDS").filter(|&count| is_ours && count > 0);
        let Some(count) = count.filter(|_| !TAKEN.swap(true, Relaxed)) else {
            return Ok(Passed::default());
        };
        if count > SOCKETS_MAX {
            return Err(io::Error::other(format!("LISTEN_FDS: more than {SOCKETS_MAX} sockets")));
        }
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let sockets = (FIRST..FIRST + count).map(|descriptor| {
            let name = names.next().unwrap_or_default();
            let purpose = NAMES.iter().find(|(known, _)| *known == name).ok_or_else(|| {
                io::Error::other(format!(
                    "LISTEN_FDNAMES: expected memcached, resp, http or admin, found `{name}`"
                ))
            })?;
            // SAFETY: The service manager has opened these descriptors for this process. This is the only place that
            // takes them, and `TAKEN` lets it run once.
            let socket = Socket::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
            let is_stream = socket.r#type()? == Type::STREAM && is_listener(&socket)?;
            if !is_stream {
                return Err(io::Error::other(format!(
                    "the socket `{name}` is not a listening stream socket"
                )));
            }
            socket.set_cloexec(true)?;
            socket.set_nonblocking(true)?;
            Ok((purpose.1, Arc::new(socket)))
        });
        sockets.collect::<io::Result<_>>().map(Passed)
    }

    /// The numbers of sockets for memcached's protocol, RESP, HTTP and operators, with those of the server's
    /// addresses.
    pub fn beside(&self, mut counts: [usize; 4]) -> [usize; 4] {
        for (purpose, _) in &self.0 {
            counts[*purpose as usize] += 1;
        }
        counts
    }

    /// The addresses for memcached's protocol and RESP.
    pub fn of_keys(&self) -> Vec<Address> {
        self.of(Purpose::Memcached).chain(self.of(Purpose::Resp)).map(address).collect()
    }

    /// The addresses for HTTP.
    pub fn of_http(&self) -> Vec<Address> {
        self.of(Purpose::Http).map(address).collect()
    }

    /// The addresses for operators.
    pub fn of_operators(&self) -> Vec<Address> {
        self.of(Purpose::Admin).map(address).collect()
    }

    pub(crate) fn of(&self, wanted: Purpose) -> impl Iterator<Item = &Socket> {
        let sockets = self.0.iter().filter(move |(purpose, _)| *purpose == wanted);
        sockets.map(|(_, socket)| &**socket)
    }

    pub(crate) fn has(&self, wanted: Purpose) -> bool {
        self.of(wanted).next().is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The bound address of a socket.
pub(crate) fn address(socket: &Socket) -> Address {
    let Ok(bound) = socket.local_addr() else { return Address::Unix(PathBuf::new()) };
    match bound.as_socket() {
        Some(address) => Address::Tcp(address),
        None => Address::Unix(bound.as_pathname().map(PathBuf::from).unwrap_or_default()),
    }
}

#[cfg(target_os = "linux")]
fn is_listener(socket: &Socket) -> io::Result<bool> {
    socket.is_listener()
}

/// Apple's systems cannot tell, and have no systemd.
#[cfg(not(target_os = "linux"))]
fn is_listener(_: &Socket) -> io::Result<bool> {
    Ok(true)
}
