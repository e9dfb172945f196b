//! Servers in processes of their own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::step;

/// Longest time for a server to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Nodes of a cluster, by their shares of the 16,384 slots.
const SHARES: [(&str, &str); 3] =
    [("one", "0-5460"), ("two", "5461-10922"), ("three", "10923-16383")];

/// Addresses that nobody listens at, held together so that no two are the same.
///
/// # Errors
///
/// The system has none.
pub(crate) fn free_addresses(count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let held =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    Ok(held.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?)
}

/// Starts three servers by the same map of a Redis Cluster, which is written into `file`.
///
/// # Errors
///
/// One does not start.
pub(crate) fn cluster(
    frazil: &Path,
    file: &Path,
    flags: &[&str],
) -> anyhow::Result<Vec<(Serving, SocketAddr)>> {
    let addresses = free_addresses(SHARES.len())?;
    let nodes = addresses.iter().zip(SHARES).map(|(address, (name, slots))| {
        format!("[[nodes]]\nname = \"{name}\"\naddress = \"{address}\"\nslots = [\"{slots}\"]\n\n")
    });
    std::fs::write(file, nodes.collect::<String>()).with_context(|| file.display().to_string())?;
    let start = |address: SocketAddr| {
        let mut command = Command::new(frazil);
        command.arg("serve").args(flags).arg("--resp").arg(address.to_string());
        command.arg("--cluster").arg(file).stdout(Stdio::null()).stderr(Stdio::null());
        Ok((Serving::start(&mut command, address)?, address))
    };
    addresses.into_iter().map(start).collect()
}

/// A server that runs for as long as this lives.
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

    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.0.id()
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
