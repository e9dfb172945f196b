//! Listening: addresses in use, sockets at paths, and limits.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use frazil_server::{Address, Limits, Server, Settings, StartError};

use crate::client::{address, settings};

/// A path for this test in the directory for temporary files.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("frazil-{name}-{}", std::process::id()))
}

fn start(at: &Address, threads: usize) -> Result<Server, StartError> {
    Server::start(Settings { memcached: vec![at.clone()], threads, ..settings() })
}

#[test]
fn only_a_socket_without_a_server_is_replaced() {
    let path = path("replaced");
    let at = Address::Unix(path.clone());
    std::fs::write(&path, "data").unwrap();
    let on_file = start(&at, 1);
    let kept = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(on_file, Err(StartError::Listen(..))), "{on_file:?}");
    assert_eq!(kept, b"data");

    drop(UnixListener::bind(&path).unwrap());
    let server = start(&at, 1).unwrap();
    let second = start(&at, 1);
    assert!(matches!(second, Err(StartError::Listen(..))), "{second:?}");
    UnixStream::connect(&path).unwrap();
    drop(server);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_socket_has_the_mode_requested() {
    let path = path("mode");
    let memcached = vec![Address::Unix(path.clone())];
    let server = Server::start(Settings { memcached, unix_mode: Some(0o604), ..settings() });
    let mode = std::fs::metadata(&path).map(|found| found.permissions().mode() & 0o777);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(mode.unwrap(), 0o604);
    drop(server.unwrap());
}

/// The limit of files concerns the process, so this raises it for the other tests as well.
#[test]
fn connections_beyond_the_limit_of_files_are_refused_at_the_start() {
    let most = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = most.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let most = line.split_whitespace().nth(4).unwrap().parse::<usize>();
    let limits = |connections| Limits { connections, ..Limits::default() };
    let start = |connections| {
        Server::start(Settings { limits: limits(connections), ..settings() }).map(drop)
    };
    // `unlimited` is not a number.
    if let Ok(most) = most {
        let refused = start(most);
        assert!(matches!(refused, Err(StartError::TooFewFiles(..))), "{refused:?}");
        start(most - 100).unwrap();
    }
}

#[test]
fn a_port_belongs_to_one_server() {
    for threads in [1, 2] {
        let server = start(&"127.0.0.1:0".parse().unwrap(), threads).unwrap();
        let second = start(&Address::Tcp(address(&server)), 2);
        assert!(matches!(second, Err(StartError::Listen(..))), "{second:?}");
        let third = start(&Address::Tcp(address(&server)), 1);
        assert!(matches!(third, Err(StartError::Listen(..))), "{third:?}");
    }
}
