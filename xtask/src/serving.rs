//! A server in a process of its own.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::step;

/// How long a server may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that runs for as long as this lives.
pub(crate) struct Serving(Child);

impl Serving {
    /// Starts it, and waits until it listens.
    ///
    /// # Errors
    ///
    /// It cannot be started, or does not listen.
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

    /// Has it end by itself, with SIGTERM.
    ///
    /// # Errors
    ///
    /// It does not end, or fails.
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
        // It may have ended, which whoever uses it tells.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
