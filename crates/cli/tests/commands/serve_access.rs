//! Access to `frazil serve`, its settings in a file, and inherited sockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

const FRAZIL: &str = env!("CARGO_BIN_EXE_frazil");

/// A server that is stopped on drop, and its standard error.
struct Server(Child, BufReader<ChildStderr>);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    fn start(command: &mut Command) -> Server {
        Server::of(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn of(mut child: Child) -> Server {
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Server(child, stderr)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

/// Sends requests, the last of which ends the connection, and returns all replies.
fn ask(address: &str, requests: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(requests.as_bytes()).unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).unwrap();
    replies
}

fn address(line: &str) -> &str {
    line.trim().rsplit(' ').next().unwrap()
}

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("frazil-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.0.join(name), text).unwrap();
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn serve(args: &[&str]) -> Output {
    Command::new(FRAZIL).arg("serve").args(args).stdin(Stdio::null()).output().unwrap()
}

fn hash() -> String {
    let mut child = Command::new(FRAZIL)
        .args(["serve", "--hash-password"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn users(names: &[&str]) -> String {
    let user = |name| format!("[users.{name}]\npassword = '{}'\nclasses = ['read']\n", hash());
    names.iter().map(user).collect()
}

/// With users it listens beyond this machine, and reloads their file on request.
#[test]
fn users_open_a_server_to_others_and_are_read_again() {
    let folder = Folder::new("serve-users");
    let file = folder.write("users.toml", &users(&["old"]));
    let mut server = Server::start(
        Command::new(FRAZIL).args(["serve", "--resp", "0.0.0.0:0", "--users"]).arg(&file),
    );
    let line = server.line();
    let port = address(&line).rsplit(':').next().unwrap().to_owned();
    let at = format!("127.0.0.1:{port}");
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    assert_eq!(
        ask(&at, "PING\r\nAUTH old secret\r\nGET key\r\nQUIT\r\n"),
        "-NOAUTH Authentication required.\r\n+OK\r\n$-1\r\n+OK\r\n"
    );
    folder.write("users.toml", "[users");
    server.signal("-HUP");
    let told = server.line();
    assert!(told.contains("users.toml: line 1: ") && told.contains("stay in force"), "{told}");
    assert_eq!(ask(&at, "AUTH old secret\r\nQUIT\r\n"), "+OK\r\n+OK\r\n");
    folder.write("users.toml", &users(&["new"]));
    server.signal("-HUP");
    assert!(server.line().contains("users.toml: reloaded"));
    assert_eq!(
        ask(&at, "AUTH old secret\r\nAUTH new secret\r\nQUIT\r\n"),
        format!("{wrong}+OK\r\n+OK\r\n")
    );
    // A user without a password admits everybody.
    let open = users(&["new"]) + "[users.default]\nclasses = ['read']\n";
    folder.write("users.toml", &open);
    let refused = serve(&["--resp", "0.0.0.0:0", "--users", file.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--insecure"), "{refused:?}");
    // HTTP has no users.
    folder.write("users.toml", &users(&["new"]));
    let http = ["--http", "0.0.0.0:0", "--origin", "http://127.0.0.1:1", "--users"];
    let refused = serve(&[&http[..], &[file.to_str().unwrap()]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--http 0.0.0.0:0"), "{refused:?}");
}

#[test]
fn settings_are_in_a_file_and_the_command_line_goes_before() {
    let folder = Folder::new("serve-config");
    let text = "memcached = ['127.0.0.1:0', 'unix:a.sock']\nmemory = '32MiB'\nthreads = 2\n
                insecure = true\nsnapshot = 'items'\nhttp = ['127.0.0.1:0']\nstore = 'objects'\n
                policy = 'lru'\nitem-max = '64KiB'\nline-max = '4KiB'\nkey-max = 64\n
                arguments-max = 100\npipeline-max = 20\nreplies-max = '64KiB'\npurge-token-file = 'token'\n
                origin = ['http://127.0.0.1:1', 'http://127.0.0.1:1/{key}']\n";
    folder.write("token", "secret\n");
    let file = folder.write("serve.toml", text);
    let file = file.to_str().unwrap();
    let shown = |args: &[&str]| {
        let output = serve(&[&["--config", file, "--check"], args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = shown(&[]);
    let place = folder.0.display();
    for line in [
        "threads = 2".to_owned(),
        "http = [\"127.0.0.1:0\"]".to_owned(),
        "origin = [\"http://127.0.0.1:1\", \"http://127.0.0.1:1/{key}\"]".to_owned(),
        "policy = \"lru\"".to_owned(),
        "store = \"objects\"".to_owned(),
        "item-max = \"64KiB\"".to_owned(),
        "line-max = \"4KiB\"".to_owned(),
        "key-max = 64".to_owned(),
        "arguments-max = 100".to_owned(),
        "pipeline-max = 20".to_owned(),
        "replies-max = \"64KiB\"".to_owned(),
        format!("purge-token-file = \"{place}/token\""),
        "memory = \"32MiB\"".to_owned(),
        "insecure = true".to_owned(),
        "request-timeout = 60".to_owned(),
        format!("snapshot = \"{place}/items\""),
        format!("memcached = [\"127.0.0.1:0\", \"unix:{place}/a.sock\"]"),
    ] {
        assert!(plain.lines().any(|shown| shown == line), "{line}: {plain}");
    }
    let other = shown(&["--threads=3", "--memcached", "127.0.0.1:11"]);
    assert!(
        other.contains("threads = 3") && other.contains("memcached = [\"127.0.0.1:11\"]"),
        "{other}"
    );
    // Defaults that depend on other settings too.
    let alone = serve(&["--memcached", "127.0.0.1:1", "--check"]);
    let alone = String::from_utf8(alone.stdout).unwrap();
    for line in ["policy = \"mobius\"", "connections = 1024", "item-max = 1048564"] {
        assert!(alone.lines().any(|shown| shown == line), "{line}: {alone}");
    }
    // The output is a file with the same settings.
    folder.write("serve.toml", &plain);
    assert_eq!(shown(&[]), plain);
    folder.write("serve.toml", "resp = ['127.0.0.1:0']");
    let mut server = Server::start(Command::new(FRAZIL).args(["serve", "--config", file]));
    let line = server.line();
    assert_eq!(ask(address(&line), "PING\r\nQUIT\r\n"), "+PONG\r\n+OK\r\n");
}

#[test]
fn a_file_of_settings_that_makes_no_sense_is_refused() {
    let folder = Folder::new("serve-refused");
    for (text, told) in [
        ("memroy = '1GiB'", "`memroy`; did you mean `memory`?"),
        ("config = 'other.toml'", "`config`"),
        ("memory = true", "`memory`: expected text or a number"),
        ("insecure = 'yes'", "`insecure`: expected true or false"),
        ("snapshot = 1", "`snapshot`: expected text in quotes"),
        ("memory = '1 gig'", "64MiB"),
        ("key-max = 8", "expected 16 to 255"),
        ("replies-max = '2MiB'", "expected 4096 to 1048576"),
        ("threads = [1, 2]", "`threads`"),
        ("resp = '127.0.0.1:0'\norigin-timeout = 3", "--origin"),
        ("threads = 1\nresp = ", "line 2"),
    ] {
        let file = folder.write("serve.toml", text);
        let output = serve(&["--config", file.to_str().unwrap(), "--check"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {stderr}");
        assert!(stderr.contains(told), "{text}: {stderr}");
    }
    let missing = serve(&["--config", "/no/such/file"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/no/such/file"));
}

/// Without a given number of connections, the process's limit applies.
#[test]
fn a_low_limit_of_files_lowers_connections_unless_they_were_given() {
    let limited = |args: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n 256 && exec {FRAZIL} {args}")]);
        command
    };
    for verb in [
        "serve --memcached 127.0.0.1:0",
        "memcached -l 127.0.0.1 -p -1 -t 1",
        "serve --http 127.0.0.1:0 --origin http://127.0.0.1:1",
        "serve --resp 127.0.0.1:0 --origin 'http://127.0.0.1:1/{key}'",
        "serve --memcached 127.0.0.1:0 --http 127.0.0.1:0 --origin http://127.0.0.1:1 \
         --origin 'http://127.0.0.1:1/{key}'",
    ] {
        let mut server = Server::start(&mut limited(verb));
        let told = server.line();
        assert!(told.contains("limited to") && told.contains("256 open files"), "{told}");
    }
    for verb in ["serve --memcached 127.0.0.1:0 --connections 1024", "memcached -p -1 -c 1024"] {
        let output = limited(verb).stdin(Stdio::null()).output().unwrap();
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("ulimit -Hn"));
    }
}

/// Passed as by systemd: at descriptors from 3 on, with names.
#[test]
fn sockets_that_are_passed_are_served() {
    let origin = "--threads 2 --origin http://127.0.0.1:1";
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [first, second] =
        listeners.each_ref().map(|listener| listener.local_addr().unwrap().to_string());
    let passed = |names: &str, args: &str| {
        let [first, second] = listeners.each_ref().map(|listener| listener.try_clone().unwrap());
        let mut command = Command::new("sh");
        let script = format!(
            "exec 3<&0 4<&1 </dev/null >&2
             export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES={names}
             exec {FRAZIL} serve {args}"
        );
        command.args(["-c", &script]).stderr(Stdio::piped());
        command.stdin(OwnedFd::from(first)).stdout(OwnedFd::from(second));
        command.spawn().unwrap()
    };
    let mut server = Server::of(passed("resp:memcached", "--threads 2"));
    let told = server.line() + &server.line();
    assert!(told.contains(&format!("RESP at {first}")), "{told}");
    assert!(told.contains(&format!("memcached's protocol at {second}")), "{told}");
    assert_eq!(ask(&first, "SET key value\r\nQUIT\r\n"), "+OK\r\n+OK\r\n");
    assert_eq!(ask(&second, "get key\r\nquit\r\n"), "VALUE key 0 5\r\nvalue\r\nEND\r\n");
    drop(server);
    let mut server = Server::of(passed("http:resp", origin));
    let told = server.line() + &server.line();
    assert!(told.contains(&format!("RESP at {second}")), "{told}");
    assert!(told.contains(&format!("HTTP at {first}")), "{told}");
    // Nothing listens at the origin's address.
    let reply = ask(&first, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(reply.starts_with("HTTP/1.1 502"), "{reply}");
    drop(server);
    let output = passed("resp:frazil.socket", "").wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`frazil.socket`"), "{output:?}");
}
