//! What a snapshot brings back after its server was killed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

struct Server {
    child: Child,
    client: TcpStream,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(snapshot: &Path, store: &str, address: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frazil"));
    command.args(["serve", "--resp", address, "--memory", "16MiB", "--store", store, "--snapshot"]);
    command.arg(snapshot).env_remove("NOTIFY_SOCKET").stderr(Stdio::piped());
    command
}

impl Server {
    /// Serves, and has read the snapshot if `reads`.
    fn start(snapshot: &Path, store: &str, reads: bool) -> Server {
        let mut child = command(snapshot, store, "127.0.0.1:0").spawn().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        let client = TcpStream::connect(line.trim().rsplit(' ').next().unwrap()).unwrap();
        if reads {
            told.read_line(&mut line).unwrap();
        }
        // A closed pipe would end its notes.
        std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
        Server { child, client }
    }

    fn exchange(&mut self, request: &str, expected: &str) {
        self.client.write_all(request.as_bytes()).unwrap();
        let mut reply = vec![0; expected.len()];
        self.client.read_exact(&mut reply).unwrap();
        assert_eq!(String::from_utf8_lossy(&reply), expected, "{request}");
    }

    fn end(mut self) {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(killed.unwrap().success() && self.child.wait().unwrap().success());
    }
}

/// An empty folder of a test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("frazil-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

/// Each turn kills a server that has read the snapshot, or still reads it, after it has answered a write.
/// `FRAZIL_KILLS` sets the number of turns.
#[test]
fn nothing_overwritten_or_deleted_comes_back_after_a_kill() {
    let folder = folder("serve-kill");
    let snapshot = folder.join("items");
    let turns = std::env::var("FRAZIL_KILLS").map_or(4, |turns| turns.parse().unwrap());
    for turn in 0..turns {
        let store = ["segment", "objects"][turn % 2];
        let mut server = Server::start(&snapshot, store, true);
        server.exchange("MSET price old token secret\r\n", "+OK\r\n");
        server.end();
        let mut server = Server::start(&snapshot, store, turn % 4 < 2);
        if turn % 3 == 2 {
            server.exchange("FLUSHALL\r\n", "+OK\r\n");
        } else {
            server.exchange("SET price new\r\n", "+OK\r\n");
            server.client.write_all(b"DEL token\r\n").unwrap();
            // Deleted, or not read yet.
            server.client.read_exact(&mut [0; 4]).unwrap();
        }
        drop(server);
        // The second crash is one without a snapshot.
        for _ in 0..2 {
            let mut server = Server::start(&snapshot, store, true);
            server.exchange("MGET price token\r\n", "*2\r\n$-1\r\n$-1\r\n");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_start_that_fails_leaves_the_snapshot() {
    let folder = folder("serve-failed");
    let snapshot = folder.join("items");
    let mut server = Server::start(&snapshot, "segment", true);
    server.exchange("SET price old\r\n", "+OK\r\n");
    server.end();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert!(!command(&snapshot, "segment", &address).output().unwrap().status.success());
    Server::start(&snapshot, "segment", true).exchange("GET price\r\n", "$3\r\nold\r\n");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn files_of_killed_saves_are_removed_at_the_start() {
    let folder = folder("serve-abandoned");
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let abandoned = format!("items.{}.0.tmp", ended.id());
    let others = [format!("items.{}.0.tmp", std::process::id()), "items.new.0.tmp".to_owned()];
    for name in others.iter().chain([&abandoned]) {
        std::fs::write(folder.join(name), "part").unwrap();
    }
    drop(Server::start(&folder.join("items"), "segment", true));
    let left = names(&folder);
    assert!(
        !left.contains(&abandoned) && others.iter().all(|name| left.contains(name)),
        "{left:?}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_snapshot_that_cannot_be_written_is_an_error_at_the_start() {
    for flags in [&[][..], &["--check"]] {
        let mut command = command(Path::new("/no/such/folder/items"), "segment", "127.0.0.1:0");
        let mut child = command.args(flags).stdout(Stdio::null()).spawn().unwrap();
        let mut told = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut told).unwrap();
        let _ = child.kill();
        assert!(told.contains("/no/such/folder/items: "), "{told}");
        let _ = child.wait();
    }
}
