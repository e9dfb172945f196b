//! `cargo xtask check clients`: clients of memcached and Redis, unchanged, on `frazil serve`.
//!
//! Each client has a small program in `xtask/clients`, which uses it as an application would and
//! prints a line for each check. The program gets a new server with each store, or with `--against`
//! memcached or Redis, to see whether our server or the client causes an odd reply. Then some
//! clients' own tests run.

mod fetch;
mod own_tests;
mod servers;

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};

use crate::step;
use fetch::Fetched;
use servers::{Server, Servers};

/// What the command may be told.
#[derive(Args, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// With `clients`: run the programs against this server, and no client's own tests
    #[arg(long, value_name = "SERVER")]
    against: Option<Against>,
    /// With `clients`: only those whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    client: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Against {
    Memcached,
    Redis,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Memcached,
    Resp,
    /// RESP, by three servers that share the keys.
    Cluster,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    Node,
    Go,
    Java,
}

struct Client {
    name: &'static str,
    protocol: Protocol,
    language: Language,
    /// The package in the language's manifest that has the client's version.
    package: &'static str,
    program: &'static str,
    /// An argument of the program, besides those of the servers.
    argument: &'static str,
}

/// A row: name, protocol, language, package, program, and the program's argument.
type Row = (&'static str, Protocol, Language, &'static str, &'static str, &'static str);

const CLIENTS: [Row; 18] = {
    use Language::{Go, Java, Node, Python};
    use Protocol::{Cluster, Memcached, Resp};
    [
        ("pymemcache", Memcached, Python, "pymemcache", "use_pymemcache.py", ""),
        ("pylibmc", Memcached, Python, "pylibmc", "use_pylibmc.py", ""),
        ("meta-memcache", Memcached, Python, "meta-memcache", "use_meta_memcache.py", ""),
        ("spymemcached", Memcached, Java, "spymemcached", "UseSpymemcached", ""),
        ("gomemcache", Memcached, Go, "github.com/bradfitz/gomemcache", "gomemcache", ""),
        (
            "Django, pymemcache",
            Memcached,
            Python,
            "Django",
            "use_django.py",
            "memcached.PyMemcacheCache",
        ),
        ("Django, pylibmc", Memcached, Python, "Django", "use_django.py", "memcached.PyLibMCCache"),
        ("redis-py", Resp, Python, "redis", "use_redis_py.py", ""),
        ("Django, redis-py", Resp, Python, "Django", "use_django.py", "redis.RedisCache"),
        ("ioredis", Resp, Node, "ioredis", "use_ioredis.js", ""),
        ("node-redis", Resp, Node, "redis", "use_node_redis.js", ""),
        ("go-redis", Resp, Go, "github.com/redis/go-redis/v9", "goredis", ""),
        ("Jedis", Resp, Java, "jedis", "UseJedis", ""),
        ("Lettuce", Resp, Java, "lettuce-core", "UseLettuce", ""),
        ("redis-py, cluster", Cluster, Python, "redis", "use_redis_py_cluster.py", ""),
        ("ioredis, cluster", Cluster, Node, "ioredis", "use_ioredis_cluster.js", ""),
        ("node-redis, cluster", Cluster, Node, "redis", "use_node_redis_cluster.js", ""),
        ("go-redis, cluster", Cluster, Go, "github.com/redis/go-redis/v9", "gorediscluster", ""),
    ]
};

/// Runs the programs, and the clients' own tests.
///
/// # Errors
///
/// A client finds a difference, or a package or program is missing.
pub(crate) fn run(root: &Path, options: &Options) -> anyhow::Result<()> {
    let meant =
        |client: &Client| client.name.to_lowercase().contains(&options.client.to_lowercase());
    let clients: Vec<Client> = CLIENTS.into_iter().map(Client::new).filter(meant).collect();
    if clients.is_empty() {
        bail!("no client's name contains `{}`", options.client);
    }
    let fetched = Fetched::fetch(root)?;
    let mut build = step::cargo(root, ["build", "--release", "--locked"]);
    step::run("frazil", build.args(["--package", "frazil-cli", "--features", "full"]))?;
    let servers: &[Server] = match options.against {
        None => &[Server::Segment, Server::Objects],
        Some(Against::Memcached) => &[Server::Memcached],
        Some(Against::Redis) => &[Server::Redis],
    };
    let mut failed = Vec::new();
    println!("{:<20}{:<15}{:<11}{:>7}  result", "client", "version", "server", "checks");
    for client in &clients {
        for &server in servers.iter().filter(|server| server.speaks(client.protocol)) {
            let version = fetched.shown_version(client.language, client.package)?;
            let outcome = client.run(root, &fetched, server)?;
            println!(
                "{:<20}{version:<15}{:<11}{:>7}  {}",
                client.name,
                server.name(),
                outcome.checks,
                outcome.shown()
            );
            if outcome.difference.is_some() {
                failed.push(format!("{}, {}", client.name, server.name()));
            }
        }
    }
    if options.against.is_none() {
        println!();
        failed.extend(own_tests::run(root, &fetched, &options.client)?);
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("clients that find a difference: {}", failed.join("; ")),
    }
}

impl Client {
    fn new((name, protocol, language, package, program, argument): Row) -> Client {
        Client { name, protocol, language, package, program, argument }
    }

    fn run(&self, root: &Path, fetched: &Fetched, server: Server) -> anyhow::Result<Outcome> {
        let servers = Servers::start(root, server, self.protocol)?;
        let mut command = Command::new("timeout");
        command.arg("120").args(fetched.program(root, self.language, self.program));
        command.arg("127.0.0.1").args(servers.arguments()).arg(self.argument);
        fetched.set_environment(&mut command);
        let output = command.output().context("timeout")?;
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(Outcome::read(&said, &String::from_utf8_lossy(&output.stderr)))
    }
}

/// The result of a program.
#[derive(Debug, PartialEq)]
struct Outcome {
    checks: usize,
    /// The first check that failed.
    difference: Option<String>,
    skipped: Option<String>,
}

impl Outcome {
    fn read(said: &str, complained: &str) -> Outcome {
        let first = |mark| said.lines().find_map(|line| line.strip_prefix(mark)).map(str::to_owned);
        let has_ended = said.lines().last() == Some("end");
        let last = || complained.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let cut = || (!has_ended).then(|| format!("the program ended early: {}", last().trim()));
        Outcome {
            checks: said.lines().filter(|line| line.starts_with("ok ")).count(),
            difference: first("differs ").or_else(cut),
            skipped: first("skipped "),
        }
    }

    fn shown(&self) -> String {
        let skipped =
            self.skipped.as_ref().map(|what| format!(", but not {what}")).unwrap_or_default();
        match &self.difference {
            None => format!("pass{skipped}"),
            Some(difference) => format!("FAIL: {difference}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_fails_and_so_does_an_early_end() {
        let all =
            Outcome::read("ok get\nskipped the cache: it is old\nok set\nend\n", "SLF4J: none\n");
        assert_eq!((all.checks, all.shown().as_str()), (2, "pass, but not the cache: it is old"));
        let differs =
            Outcome::read("ok get\ndiffers set: 1 was expected\ndiffers cas: 2\nend\n", "");
        assert_eq!(differs.shown(), "FAIL: set: 1 was expected");
        let cut = Outcome::read("ok get\n", "Traceback\nKeyError: 'x'\n\n");
        assert_eq!(cut.shown(), "FAIL: the program ended early: KeyError: 'x'");
        assert!(Outcome::read("", "").difference.is_some());
    }
}
