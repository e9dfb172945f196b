//! Listening sockets that the service manager has made: systemd's `LISTEN_FDS`.
//!
//! They are at descriptors from 3 on, of the process that `LISTEN_PID` names, and `LISTEN_FDNAMES` says what each is for.

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
/// Descriptors that are taken at most.
const SOCKETS_MAX: RawFd = 64;

/// What a socket is for.
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

/// Sockets that a service manager has passed to this process, and that a server serves beside its addresses.
#[derive(Clone, Debug, Default)]
pub struct Passed(Vec<(Purpose, Arc<Socket>)>);

impl Passed {
    /// Takes the sockets that were passed to this process, if there are any; a second call finds none.
    ///
    /// # Errors
    ///
    /// A name is none of `memcached`, `resp`, `http` and `admin`, or what was passed does not listen.
    pub fn take() -> io::Result<Passed> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let number = |name: &str| env::var(name).ok()?.parse::<RawFd>().ok();
        let is_ours = number("LISTEN_PID") == i32::try_from(std::process::id()).ok();
        let count = number("LISTEN_FDS").filter(|&count| is_ours && count > 0);
        let Some(count) = count.filter(|_| !TAKEN.swap(true, Relaxed)) else {
            return Ok(Passed::default());
        };
        if count > SOCKETS_MAX {
            return Err(io::Error::other(format!("LISTEN_FDS: more than {SOCKETS_MAX}")));
        }
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let sockets = (FIRST..FIRST + count).map(|descriptor| {
            let name = names.next().unwrap_or_default();
            let purpose = NAMES.iter().find(|(known, _)| *known == name).ok_or_else(|| {
                io::Error::other(format!(
                    "LISTEN_FDNAMES: `{name}` is not memcached, resp, http or admin"
                ))
            })?;
            // SAFETY: The service manager has opened these descriptors for this process, and this is the only place that
            // takes them, once: `TAKEN`.
            let socket = Socket::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
            let is_stream = socket.r#type()? == Type::STREAM && socket.is_listener()?;
            if !is_stream {
                return Err(io::Error::other(format!("the socket `{name}` does not listen")));
            }
            socket.set_cloexec(true)?;
            socket.set_nonblocking(true)?;
            Ok((purpose.1, Arc::new(socket)))
        });
        sockets.collect::<io::Result<_>>().map(Passed)
    }

    /// How many sockets a server has for memcached's protocol, for RESP, for HTTP and for operators, with those of its
    /// addresses.
    pub fn beside(&self, mut counts: [usize; 4]) -> [usize; 4] {
        for (purpose, _) in &self.0 {
            counts[*purpose as usize] += 1;
        }
        counts
    }

    /// Where clients of memcached's protocol and of RESP connect.
    pub fn of_keys(&self) -> Vec<Address> {
        self.of(Purpose::Memcached).chain(self.of(Purpose::Resp)).map(address).collect()
    }

    /// Where clients of HTTP connect.
    pub fn of_http(&self) -> Vec<Address> {
        self.of(Purpose::Http).map(address).collect()
    }

    /// Where operators connect.
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

/// What a socket is bound to.
pub(crate) fn address(socket: &Socket) -> Address {
    let Ok(bound) = socket.local_addr() else { return Address::Unix(PathBuf::new()) };
    match bound.as_socket() {
        Some(address) => Address::Tcp(address),
        None => Address::Unix(bound.as_pathname().map(PathBuf::from).unwrap_or_default()),
    }
}
