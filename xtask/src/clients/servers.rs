//! The servers for a client's program.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::Protocol;
use crate::serving::Serving;
use crate::tools;

/// The passwords of the users `default` and `app`, also in the programs.
const PASSWORDS: [&str; 2] = ["secret", "word"];

/// A kind of server: `frazil serve` with one of its stores, or another program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    Segment,
    Objects,
    Memcached,
    Redis,
}

impl Server {
    pub(super) fn name(self) -> &'static str {
        match self {
            Server::Segment => "segment",
            Server::Objects => "objects",
            Server::Memcached => "memcached",
            Server::Redis => "redis",
        }
    }

    pub(super) fn speaks(self, protocol: Protocol) -> bool {
        match self {
            Server::Segment | Server::Objects => true,
            Server::Memcached => protocol == Protocol::Memcached,
            Server::Redis => protocol == Protocol::Resp,
        }
    }
}

/// A server without users, and for clients of Redis one with.
pub(super) struct Servers {
    open: (Serving, u16),
    secured: Option<(Serving, u16)>,
}

impl Servers {
    /// Starts empty servers.
    ///
    /// # Errors
    ///
    /// A server does not start.
    pub(super) fn start(
        root: &Path,
        server: Server,
        protocol: Protocol,
    ) -> anyhow::Result<Servers> {
        let is_secured = protocol == Protocol::Resp;
        Ok(Servers {
            open: start(root, server, protocol, false)?,
            secured: is_secured.then(|| start(root, server, protocol, true)).transpose()?,
        })
    }

    /// The ports as arguments of programs: 0 if there is no server with users.
    pub(super) fn ports(&self) -> [String; 2] {
        let secured = self.secured.as_ref().map_or(0, |(_, port)| *port);
        [self.open.1.to_string(), secured.to_string()]
    }

    pub(super) fn open_port(&self) -> String {
        self.open.1.to_string()
    }
}

fn start(
    root: &Path,
    server: Server,
    protocol: Protocol,
    has_users: bool,
) -> anyhow::Result<(Serving, u16)> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let mut command = match server {
        Server::Segment | Server::Objects => {
            let mut command = Command::new(root.join("target/release/frazil"));
            command.args(["serve", "--memory", "256MiB", "--threads", "2", "--store"]);
            command.arg(server.name());
            command.arg(if protocol == Protocol::Resp { "--resp" } else { "--memcached" });
            command.arg(address.to_string());
            if has_users {
                command.arg("--users").arg(users(root)?);
            }
            command
        }
        Server::Memcached => {
            let mut command = Command::new(tools::ensure_program("memcached", &["memcached"])?);
            command.args(["-u", "root", "-m", "256", "-l", "127.0.0.1", "-p"]);
            command.arg(address.port().to_string());
            command
        }
        Server::Redis => redis(address, has_users)?,
    };
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok((Serving::start(&mut command, address)?, address.port()))
}

fn redis(address: SocketAddr, has_users: bool) -> anyhow::Result<Command> {
    let mut command = Command::new(tools::ensure_program("redis-server", &["redis-server"])?);
    command.args(["--bind", "127.0.0.1", "--save", "", "--port"]).arg(address.port().to_string());
    if has_users {
        command.args(["--requirepass", PASSWORDS[0], "--user", "app", "on"]);
        command.arg(format!(">{}", PASSWORDS[1]));
        command.args(["~app:*", "+@read", "+@write", "+acl|whoami"]);
    }
    Ok(command)
}

/// Writes the file of users.
fn users(root: &Path) -> anyhow::Result<std::path::PathBuf> {
    let file = root.join("target/clients/users.toml");
    let [default, app] = PASSWORDS.map(|password| hash(root, password));
    let text = format!(
        "[users.default]\npassword = \"{}\"\nclasses = [\"read\", \"write\", \"admin\", \"dangerous\"]\n\
         [users.app]\npassword = \"{}\"\nclasses = [\"read\", \"write\"]\nprefixes = [\"app:\"]\n",
        default?, app?
    );
    std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    Ok(file)
}

fn hash(root: &Path, password: &str) -> anyhow::Result<String> {
    let mut command = Command::new(root.join("target/release/frazil"));
    command.args(["serve", "--hash-password"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("frazil serve --hash-password")?;
    child.stdin.take().context("no input")?.write_all(password.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("frazil serve --hash-password: {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
