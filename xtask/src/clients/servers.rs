//! The servers for a client's program.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::Protocol;
use crate::packages::output;
use crate::serving::{self, Serving};
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
            Server::Redis => protocol != Protocol::Memcached,
        }
    }
}

/// A server without users, and for clients of Redis one with; or the nodes of a cluster.
pub(super) struct Servers {
    protocol: Protocol,
    all: Vec<(Serving, SocketAddr)>,
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
        let all = match protocol {
            Protocol::Memcached => vec![start(root, server, protocol, false)?],
            Protocol::Resp => {
                vec![start(root, server, protocol, false)?, start(root, server, protocol, true)?]
            }
            Protocol::Cluster => cluster(root, server)?,
        };
        Ok(Servers { protocol, all })
    }

    /// As programs take them: two ports, of which the second is 0 if there is no server with users; of a cluster all ports,
    /// and the process of the last node.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> =
            self.all.iter().map(|(_, address)| address.port().to_string()).collect();
        match self.protocol {
            Protocol::Memcached => arguments.push("0".to_owned()),
            Protocol::Resp => {}
            Protocol::Cluster => {
                arguments.extend(self.all.last().map(|(last, _)| last.process().to_string()));
            }
        }
        arguments
    }

    pub(super) fn open_port(&self) -> String {
        self.all[0].1.port().to_string()
    }
}

/// Three servers that share the keys.
fn cluster(root: &Path, server: Server) -> anyhow::Result<Vec<(Serving, SocketAddr)>> {
    if server == Server::Redis {
        return redis_cluster(root);
    }
    let flags = ["--memory", "64MiB", "--threads", "2", "--store", server.name()];
    let file = root.join("target/clients/cluster.toml");
    serving::cluster(&root.join("target/release/frazil"), &file, &flags)
}

fn redis_cluster(root: &Path) -> anyhow::Result<Vec<(Serving, SocketAddr)>> {
    let program = tools::ensure_program("redis-server", &["redis-server"])?;
    let folder = root.join("target/clients/redis-cluster");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    // A node has a second port, for the other nodes.
    let free = serving::free_addresses(6)?;
    let start = |pair: &[SocketAddr]| {
        let mut command = Command::new(&program);
        command.current_dir(&folder).args(["--bind", "127.0.0.1", "--save", "", "--port"]);
        command.arg(pair[0].port().to_string()).args(["--cluster-enabled", "yes"]);
        command.arg("--cluster-port").arg(pair[1].port().to_string());
        command.arg("--cluster-config-file").arg(format!("{}.conf", pair[0].port()));
        command.args(["--cluster-require-full-coverage", "no"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok((Serving::start(&mut command, pair[0])?, pair[0]))
    };
    let nodes: Vec<_> = free.chunks(2).map(start).collect::<anyhow::Result<_>>()?;
    let mut create = Command::new(tools::ensure_program("redis-cli", &["redis-tools"])?);
    create.args(["--cluster", "create"]);
    create.args(nodes.iter().map(|(_, address)| address.to_string())).arg("--cluster-yes");
    output(&mut create)?;
    Ok(nodes)
}

fn start(
    root: &Path,
    server: Server,
    protocol: Protocol,
    has_users: bool,
) -> anyhow::Result<(Serving, SocketAddr)> {
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
    Ok((Serving::start(&mut command, address)?, address))
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
