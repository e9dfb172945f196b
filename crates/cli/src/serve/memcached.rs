//! `frazil memcached`: the server with memcached's own flags, so that memcached's units and scripts
//! start it.
//!
//! It parses flags as `getopt` does: `-m 64`, `-m64`, `-vv`, `--memory-limit=64`. It refuses by
//! name a flag that it cannot honour, because the caller relies on it. It ignores flags for slabs
//! and crawlers, which it does not have, and a UDP port, with a note.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use frazil_server::{
    Address, ITEM_BYTES_MAX, Limits, Server, Settings, SwitchUserError, switch_user,
};

use crate::Done;
use crate::failure::{Failure, note};

/// Serve memcached clients, started by memcached's own flags
#[derive(clap::Args)]
#[command(disable_help_flag = true, long_about = HELP)]
#[command(after_help = "Examples:
  frazil memcached -m 64 -l 127.0.0.1 -p 11211
  frazil memcached -s /run/memcached.sock -a 0766 -t 4")]
pub(crate) struct Args {
    /// memcached's flags
    #[arg(value_name = "FLAGS", trailing_var_arg = true, allow_hyphen_values = true)]
    flags: Vec<String>,
}

const HELP: &str = "frazil memcached: a cache server with memcached's protocol and flags

-p, --port=<num>          TCP port (default: 11211, 0: none, -1: any free port)
-s, --unix-socket=<file>  listen on a Unix socket instead
-a, --unix-mask=<mask>    permissions of the Unix socket, octal (default: 0700)
-A, --enable-shutdown     enable the command `shutdown`
-l, --listen=<addr>       address, or several separated by commas, each with or without a port
                          (default: all of IPv4, as memcached; without -Y there are no users)
-u, --user=<user>         become this user before it listens, if started by root
-m, --memory-limit=<num>  MiB for items, index and buffers together (default: 64)
-c, --conn-limit=<num>    open connections (default: 1024, or what the limit of open files allows)
-t, --threads=<num>       threads (default: 4)
-b, --listen-backlog=<num> queue of connections not yet accepted (default: 1024)
-B, --protocol=<name>     auto or ascii; binary is not supported, and closes all connections
-C, --disable-cas         all numbers for cas are 0
-D <char>                 count requests by key prefix; a prefix ends with this character
-F, --disable-flush-all   disable the command `flush_all`
-I, --max-item-size=<num> bytes of an item, with k or m (default and maximum: 1m)
-M, --disable-evictions   refuse a value if memory is full, instead of evicting
-P, --pidfile=<file>      write the process ID to a file
-R, --max-reqs-per-event  requests of a connection before the next has its turn (default: by bytes)
-U, --udp-port=<num>      accepted without effect, as UDP is not supported; noted unless 0
-v, --verbose             accepted without effect, shown by `stats settings`
-W, --disable-watch       accepted without effect, as there is no `watch`
-X, --disable-dumping     disable `stats cachedump` and `lru_crawler metadump`
-Y, --auth-file=<file>    users and passwords, `user:password` a line
-h, --help                print this help
-V, --version             print the version
-o, --extended            options separated by commas:
   - idle_timeout=<num>   close a connection after this many seconds without a request
   - modern, no_modern, maxconns_fast, slab_chunk_max, slab_reassign, slab_automove, hashpower,
     lru_crawler, lru_maintainer, and these with no_ before: accepted without effect
   - relaxed_privileges   for tests: enables the command `debugtime`
";

/// Flags with a long name; `true`: they have a value.
const FLAGS: &[(char, &str, bool)] = &[
    ('p', "port", true),
    ('s', "unix-socket", true),
    ('a', "unix-mask", true),
    ('A', "enable-shutdown", false),
    ('l', "listen", true),
    ('d', "daemon", false),
    ('r', "enable-coredumps", false),
    ('u', "user", true),
    ('m', "memory-limit", true),
    ('M', "disable-evictions", false),
    ('c', "conn-limit", true),
    ('k', "lock-memory", false),
    ('v', "verbose", false),
    ('h', "help", false),
    ('V', "version", false),
    ('P', "pidfile", true),
    ('f', "slab-growth-factor", true),
    ('n', "slab-min-size", true),
    ('L', "enable-largepages", false),
    ('D', "", true),
    ('t', "threads", true),
    ('R', "max-reqs-per-event", true),
    ('C', "disable-cas", false),
    ('b', "listen-backlog", true),
    ('B', "protocol", true),
    ('I', "max-item-size", true),
    ('F', "disable-flush-all", false),
    ('X', "disable-dumping", false),
    ('W', "disable-watch", false),
    ('o', "extended", true),
    ('U', "udp-port", true),
    ('Y', "auth-file", true),
    ('S', "enable-sasl", false),
    ('Z', "enable-ssl", false),
    ('e', "memory-file", true),
    ('N', "napi-ids", true),
];

/// The parsed flags.
struct Flags {
    settings: Settings,
    port: i32,
    interfaces: Vec<String>,
    socket: Option<PathBuf>,
    access: u32,
    pid_file: Option<PathBuf>,
    user: Option<String>,
    /// Whether the number of connections was given.
    has_connections: bool,
    /// The text to print instead of serving.
    prints: Option<String>,
}

/// Serves until a signal or the command `shutdown` ends the process.
pub(crate) fn run(args: &Args) -> Done {
    let limits = Limits { item_bytes: Some(ITEM_BYTES_MAX), ..Limits::default() };
    let mut flags = Flags {
        settings: Settings { threads: 4, limits, ..Settings::default() },
        port: 11211,
        interfaces: Vec::new(),
        socket: None,
        access: 0o700,
        pid_file: None,
        user: None,
        has_connections: false,
        prints: None,
    };
    flags.parse(&args.flags).map_err(Failure::usage)?;
    if let Some(text) = flags.prints {
        crate::output::print(&text)?;
        return Ok(());
    }
    flags.listen().map_err(Failure::usage)?;
    // Before anything is opened, as in memcached: the Unix socket and the file of `-P` are that user's.
    flags.user.as_deref().map_or(Ok(()), become_user)?;
    let is_open =
        |address: &Address| matches!(address, Address::Tcp(address) if !address.ip().is_loopback());
    if flags.settings.options.users.is_none() && flags.settings.memcached.iter().any(is_open) {
        note(
            "other machines can reach the server, and without users (-Y) anybody there can read and change all entries",
        );
    }
    let settings = super::with_possible_connections(flags.settings, flags.has_connections)?;
    let server = super::start(settings)?;
    if let Some(path) = &flags.pid_file {
        write_pid(path);
    }
    tell_ports(&server)?;
    Ok(server.join().context("serving")?)
}

/// Writes the ports to the file that the environment names, as memcached does.
fn tell_ports(server: &Server) -> anyhow::Result<()> {
    let Some(path) = std::env::var_os("MEMCACHED_PORT_FILENAME").map(PathBuf::from) else {
        return Ok(());
    };
    let mut text = String::new();
    for address in server.addresses() {
        if let Address::Tcp(address) = address {
            let family = if address.is_ipv6() { "INET6" } else { "INET" };
            text.push_str(&format!("TCP {family}: {}\n", address.port()));
        }
    }
    // Written under another name first: a program that waits for the file reads it as soon as it
    // appears.
    let whole = path.with_extension("lck");
    std::fs::write(&whole, text).and_then(|()| std::fs::rename(&whole, &path))?;
    Ok(())
}

impl Flags {
    fn parse(&mut self, given: &[String]) -> anyhow::Result<()> {
        let mut given = given.iter();
        while let Some(one) = given.next() {
            if let Some(long) = one.strip_prefix("--") {
                let (name, value) =
                    long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
                let known = FLAGS.iter().find(|known| known.1 == name);
                let &(flag, _, has_value) =
                    known.ok_or_else(|| anyhow!("unknown flag `--{name}` (see -h)"))?;
                let value = match (has_value, value) {
                    (true, None) => given.next().map(String::as_str),
                    (_, value) => value,
                };
                self.take(flag, value.unwrap_or(""))?;
                continue;
            }
            let Some(mut letters) = one.strip_prefix('-').filter(|letters| !letters.is_empty())
            else {
                bail!("expected a flag, found `{one}` (see -h)");
            };
            while let Some(flag) = letters.chars().next() {
                letters = &letters[flag.len_utf8()..];
                let known = FLAGS.iter().find(|known| known.0 == flag);
                let &(_, _, has_value) =
                    known.ok_or_else(|| anyhow!("unknown flag `-{flag}` (see -h)"))?;
                if !has_value {
                    self.take(flag, "")?;
                    continue;
                }
                let value = if letters.is_empty() {
                    given.next().with_context(|| format!("expected a value after `-{flag}`"))?
                } else {
                    letters
                };
                self.take(flag, value)?;
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, flag: char, value: &str) -> anyhow::Result<()> {
        let (limits, options) = (&mut self.settings.limits, &mut self.settings.options);
        let number = || -> anyhow::Result<usize> {
            value.parse().with_context(|| format!("`-{flag} {value}`: expected a number"))
        };
        let at_least_one = || match number()? {
            0 => bail!("`-{flag} 0`: expected at least 1"),
            number => Ok(number),
        };
        match flag {
            'p' => {
                let port = value.parse().ok().filter(|port| (-1..=65535).contains(port));
                self.port = port.with_context(|| {
                    format!("`-p {value}`: expected a port up to 65535, or -1 for any")
                })?;
            }
            's' => self.socket = Some(PathBuf::from(value)),
            'a' => {
                self.access = u32::from_str_radix(value, 8)
                    .with_context(|| format!("`-a {value}`: expected an octal number"))?;
            }
            'A' => options.shutdown = true,
            'l' => self.interfaces.extend(value.split(',').map(str::to_owned)),
            'u' => self.user = Some(value.to_owned()),
            'm' => {
                self.settings.memory_bytes = at_least_one()?
                    .checked_mul(1 << 20)
                    .with_context(|| format!("`-m {value}`: more than this machine can address"))?;
            }
            'c' => {
                limits.connections = at_least_one()?;
                self.has_connections = true;
            }
            't' => self.settings.threads = at_least_one()?,
            'b' => limits.backlog = at_least_one()?.try_into().context("-b")?,
            'B' => (options.shown.protocol, options.text) = protocol(value)?,
            'C' => options.cas = false,
            'D' => {
                options.prefix_delimiter =
                    *value.as_bytes().first().context("`-D`: expected a character")?;
                options.detail = true;
            }
            'F' => options.flush = false,
            'I' => limits.item_bytes = Some(item_bytes(value)?),
            'P' => self.pid_file = Some(PathBuf::from(value)),
            'R' => limits.turn_requests = at_least_one()?,
            'U' if value == "0" => {}
            'U' => note(&format!("-U {value}: ignored, as UDP is not supported")),
            'v' => options.shown.verbosity += 1,
            'W' => {}
            'X' => options.dump = false,
            'Y' => options.users = Some(PathBuf::from(value)),
            'h' => self.prints = Some(HELP.into()),
            'V' => {
                self.prints = Some(concat!("frazil ", env!("CARGO_PKG_VERSION"), "\n").into());
            }
            'o' => value.split(',').try_for_each(|option| self.extended(option))?,
            'M' => self.settings.evicts = false,
            'd' => bail!("`-d` is not supported: run it in the background with systemd or `&`"),
            _ => bail!("`-{flag}` is not supported"),
        }
        Ok(())
    }

    fn extended(&mut self, option: &str) -> anyhow::Result<()> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name.strip_prefix("no_").unwrap_or(name) {
            "idle_timeout" => {
                self.settings.limits.idle_seconds = value
                    .parse()
                    .with_context(|| format!("`-o {option}`: expected a number of seconds"))?;
            }
            "relaxed_privileges" => self.settings.options.debug = true,
            "modern" | "maxconns_fast" | "slab_chunk_max" | "slab_reassign" | "slab_automove"
            | "hashpower" | "hashexpand" | "lru_crawler" | "lru_maintainer" => {}
            _ => bail!("`-o {name}` is not supported"),
        }
        Ok(())
    }

    /// Sets the addresses to listen on.
    fn listen(&mut self) -> anyhow::Result<()> {
        let shown = &mut self.settings.options.shown;
        shown.port = u16::try_from(self.port).unwrap_or(0);
        shown.access = self.access;
        self.settings.unix_mode = Some(self.access);
        shown.interface = Some(self.interfaces.join(",")).filter(|all| !all.is_empty());
        if let Some(path) = &self.socket {
            shown.socket = Some(path.display().to_string());
            self.settings.memcached.push(Address::Unix(path.clone()));
            return Ok(());
        }
        // Port 0 is none, and -1 is any, which the system calls 0.
        if self.port == 0 {
            bail!("`-p 0` needs `-s`, or there is no address to listen on");
        }
        let port = shown.port;
        if self.interfaces.is_empty() {
            let all = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
            self.settings.memcached.push(Address::Tcp(all));
        }
        for interface in &self.interfaces {
            let with_port = match interface.parse::<IpAddr>() {
                Ok(address) => SocketAddr::new(address, port).to_string(),
                Err(_) if interface.contains(':') => interface.clone(),
                Err(_) => format!("{interface}:{port}"),
            };
            let address = with_port.parse().with_context(|| format!("`-l {interface}`"))?;
            self.settings.memcached.push(address);
        }
        Ok(())
    }
}

/// Becomes the user of `-u`.
fn become_user(name: &str) -> Done {
    switch_user(name).map_err(|error| match error {
        SwitchUserError::Unknown => {
            Failure::NoUser(anyhow!("can't find the user {name} to switch to"))
        }
        error => Failure::from(anyhow!("failed to assume identity of user {name}: {error}")),
    })
}

/// Writes the ID of this process, as memcached does once it listens. It serves without the file.
fn write_pid(path: &Path) {
    // Written under another name first: a program that waits for the file reads it as soon as it
    // appears.
    let whole = path.with_added_extension("tmp");
    let written = std::fs::write(&whole, format!("{}\n", std::process::id()));
    if let Err(error) = written.and_then(|()| std::fs::rename(&whole, path)) {
        note(&format!("-P {}: not written: {error}", path.display()));
    }
}

/// The settings for `stats settings`, and whether the text protocol is allowed.
fn protocol(name: &str) -> anyhow::Result<(&'static str, bool)> {
    match name {
        "auto" => Ok(("auto-negotiate", true)),
        "ascii" => Ok(("ascii", true)),
        "binary" => {
            note("-B binary: all connections are closed, as the binary protocol is not supported");
            Ok(("binary", false))
        }
        _ => bail!("`-B {name}`: expected auto or ascii"),
    }
}

fn item_bytes(text: &str) -> anyhow::Result<usize> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        _ => (text, 0),
    };
    let number: usize = digits
        .parse()
        .with_context(|| format!("`-I {text}`: expected a size, as in `512k` or `1m`"))?;
    let bytes = number.saturating_mul(1 << shift);
    if !(1 << 10..=128 << 20).contains(&bytes) {
        bail!("`-I {text}`: expected a size from 1k to 128m");
    }
    if bytes > ITEM_BYTES_MAX {
        note(&format!("-I {text}: items above 1m are refused nevertheless"));
    }
    Ok(bytes)
}
