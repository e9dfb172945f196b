//! Notices to the service manager: systemd's protocol of `NOTIFY_SOCKET`, a datagram a notice.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::failure::note;

/// Sends a notice, such as `READY=1`, if a service manager has started this process and waits for
/// it.
pub(super) fn notify(notice: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, notice) {
        note(&format!("NOTIFY_SOCKET {}: {error}", socket.display()));
    }
}

fn send(socket: &OsStr, notice: &str) -> io::Result<()> {
    // `@` stands for the zero byte of an abstract name.
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    // A manager that does not read must not keep the server from serving.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(notice.as_bytes(), &address).map(|_| ())
}
