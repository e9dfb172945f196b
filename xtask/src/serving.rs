//! A server in a separate process.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::step;

/// Longest time for a server to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server, stopped on drop.
pub(crate) struct Serving(Child);

impl Serving {
    /// Starts the server, and waits until it listens.
    ///
    /// # Errors
    ///
    /// The server cannot be started, or does not listen.
    pub(crate) fn start(command: &mut Command, address: SocketAddr) -> anyhow::Result<Serving> {
        let name = command.get_program().display().to_string();
        let serving = Serving(command.spawn().context(name.clone())?);
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if begun.elapsed() > PATIENCE {
                bail!("{name} does not listen at {address}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(serving)
    }

    /// Ends the server by SIGTERM.
    ///
    /// # Errors
    ///
    /// The server does not end, or fails.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        let id = self.0.id().to_string();
        step::succeeded("kill", Command::new("kill").args(["-TERM", &id]).status()?)?;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                return step::succeeded("a server", status);
            }
            if begun.elapsed() > PATIENCE {
                bail!("a server does not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended; then its users report that.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
