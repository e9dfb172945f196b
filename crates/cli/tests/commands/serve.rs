//! The verbs that serve: addresses, refusals, and the end of the process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A server that is stopped on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn frazil(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frazil"));
    command.args(args).stdin(Stdio::null());
    command
}

/// The output of a command that ends by itself. One that serves instead is killed after twenty
/// seconds, and has no exit code.
fn output(args: &[&str]) -> Output {
    let mut command = frazil(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut tries = 0;
    while child.try_wait().unwrap().is_none() && tries < 4000 {
        tries += 1;
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let _ = child.kill();
    child.wait_with_output().unwrap()
}

#[test]
fn serve_says_where_and_serves_there() {
    let mut child = frazil(&["serve", "--memcached", "127.0.0.1:0", "--memory", "16MiB"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let _server = Server(child);
    let address = line.trim().rsplit(' ').next().unwrap();
    let mut client = TcpStream::connect(address).unwrap_or_else(|error| panic!("{line}: {error}"));
    client.write_all(b"set key 0 0 5\r\nvalue\r\nget key\r\nquit\r\n").unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).unwrap();
    assert_eq!(replies, "STORED\r\nVALUE key 0 5\r\nvalue\r\nEND\r\n");
}

/// An entry set by one protocol is visible in the other.
#[test]
fn serve_speaks_both_protocols() {
    let args =
        ["serve", "--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--memory", "16MiB"];
    let mut child = frazil(&args).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let _server = Server(child);
    for (protocol, requests, expected) in [
        ("memcached's protocol", "set key 7 0 5\r\nvalue\r\nquit\r\n", "STORED\r\n"),
        ("RESP", "GET key\r\nQUIT\r\n", "$5\r\nvalue\r\n+OK\r\n"),
    ] {
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains(&format!("serving {protocol} at ")), "{line}");
        let mut client = TcpStream::connect(line.rsplit(' ').next().unwrap()).unwrap();
        client.write_all(requests.as_bytes()).unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).unwrap();
        assert_eq!(replies, expected);
    }
}

#[test]
fn serve_refuses_what_it_cannot_do() {
    for (args, code, told) in [
        (&["serve"][..], 2, "--memcached"),
        (&["serve"], 2, "--resp"),
        (&["serve"], 2, "--http"),
        (&["serve", "--http", "127.0.0.1:0"], 2, "--origin"),
        (&["serve", "--resp", "127.0.0.1:0", "--policy", "lrv"], 2, "lru"),
        (&["serve", "--memcached", "127.0.0.1:0", "--memory", "1MiB"], 1, "2 MiB"),
        (&["serve", "--memcached", "127.0.0.1:0", "--memory", "64 megs"], 2, "64MiB"),
        (&["serve", "--memcached", "127.0.0.1:0", "--threads", "0"], 1, "at least one"),
        (&["serve", "--memcached", "0.0.0.0:0"], 2, "--insecure"),
        (&["serve", "--resp", "0.0.0.0:0"], 2, "--insecure"),
        (&["serve", "--resp", "127.0.0.1:0", "--admin", "0.0.0.0:0"], 2, "--tls-client-ca"),
        (&["serve", "--resp", "127.0.0.1:0", "--tls-cert", "a.pem"], 2, "--tls-key"),
        (&["serve", "--resp", "127.0.0.1:0", "--users", "/no/such/file"], 1, "/no/such/file"),
        (&["serve", "--hash-password", "--resp", "127.0.0.1:0"], 2, "--hash-password"),
        (&["serve", "--memcached", "nowhere", "--memory", "16MiB"], 2, "HOST:PORT"),
        (&["serve", "--memcached", "127.0.0.1:x"], 2, "127.0.0.1:11211"),
        (&["serve", "--memcached", "::1"], 2, "[::1]:11211"),
        (&["serve", "--memcached", "unix:"], 2, "unix:PATH"),
        (&["serve", "--memcached", "unix:/no/such/folder/a"], 1, "/no/such/folder/a"),
    ] {
        let output = output(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(told), "{args:?}: {stderr}");
    }
}

#[test]
fn serve_refuses_a_map_that_is_none_and_says_where() {
    let path = std::env::temp_dir().join(format!("frazil-map-{}.toml", std::process::id()));
    let args = ["serve", "--resp", "127.0.0.1:0", "--cluster", path.to_str().unwrap()];
    let first = "[[nodes]]\nname = \"a\"\naddress = \"10.0.0.1:6379\"\nslots = [\"0-9000\"]\n";
    let second = first.replace("\"a\"", "\"b\"").replace(".1:", ".2:");
    for (slots, told) in [
        ("9002-16383", ": slot 9001 belongs to no node"),
        ("8000-16383", ": line 8: slots 8000-9000 belong to node `a` already"),
        ("9001-16383\", \"0x1", ": line 8: `0x1`: slots are from 0"),
        ("9001-16383", "no node is at 127.0.0.1:"),
    ] {
        std::fs::write(&path, first.to_owned() + &second.replace("0-9000", slots)).unwrap();
        let output = output(&args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{slots}: {stderr}");
        assert!(stderr.contains(told), "{slots}: {stderr}");
    }
    std::fs::remove_file(&path).unwrap();
    let output = output(&args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(path.to_str().unwrap()), "{stderr}");
}

#[test]
fn memcacheds_flags_are_taken_or_refused_by_name() {
    for (args, told) in [
        (&["-d"][..], "`-d`"),
        (&["-m", "64", "-k"], "`-k`"),
        (&["-vvZ"], "`-Z`"),
        (&["--enable-ssl"], "`-Z`"),
        (&["--no-such-flag"], "`--no-such-flag`"),
        (&["-o", "modern,ext_path=/x:1G"], "`-o ext_path`"),
        (&["-c", "0"], "`-c 0`"),
        (&["-m"], "expected a value after `-m`"),
        (&["-I", "1000"], "`-I 1000`"),
        (&["-p", "70000"], "`-p 70000`"),
        (&["-p", "0"], "no address"),
        (&["-m", "18446744073709551615"], "`-m 18446744073709551615`"),
        (&["-l", "no.such.host.invalid"], "no.such.host.invalid"),
    ] {
        let output = output(&[&["memcached"], args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(told), "{args:?}: {stderr}");
    }
    let help = output(&["memcached", "-h"]);
    assert!(help.status.success() && help.stdout.starts_with(b"frazil memcached"));
}

/// As Debian's unit starts it: by root, with the user that it becomes.
#[test]
fn memcached_becomes_the_user_it_is_told() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("SKIPPED: only root becomes another user");
        return;
    }
    let folder = std::env::temp_dir().join(format!("frazil-user-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let (socket, pid) = (folder.join("socket"), folder.join("pid"));
    let args = ["memcached", "-unobody", "-m16", "-t2", "-a", "0700"];
    let mut command = frazil(&args);
    command.arg("-s").arg(&socket).arg("-P").arg(&pid);
    let mut server = Server(command.spawn().unwrap());
    let begun = std::time::Instant::now();
    let text = loop {
        if let Ok(text) = std::fs::read_to_string(&pid) {
            break text;
        }
        assert!(server.0.try_wait().unwrap().is_none(), "it has ended");
        assert!(begun.elapsed().as_secs() < 60, "no file of its number");
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let id = server.0.id();
    assert_eq!(text, format!("{id}\n"));
    let nobody = |path: &std::path::Path| std::fs::metadata(path).unwrap().uid();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = passwd.lines().find(|line| line.starts_with("nobody:")).unwrap();
    let ids: Vec<&str> = line.split(':').skip(2).take(2).collect();
    assert_eq!([nobody(&socket), nobody(&pid)].map(|id| id.to_string()), [ids[0]; 2]);
    let threads: Vec<_> = std::fs::read_dir(format!("/proc/{id}/task")).unwrap().collect();
    assert!(threads.len() > 2);
    for thread in threads {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!((of("Uid:"), of("Gid:")), (vec![ids[0].into(); 4], vec![ids[1].into(); 4]));
        assert!(of("Groups:").is_empty(), "{status}");
    }
    let mut client = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    client.write_all(b"set key 0 0 5\r\nvalue\r\nquit\r\n").unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).unwrap();
    assert_eq!(replies, "STORED\r\n");
    std::fs::remove_dir_all(&folder).unwrap();
    let unknown = output(&["memcached", "-u", "no-such-user", "-p", "-1"]);
    assert_eq!(unknown.status.code(), Some(67));
    let told = String::from_utf8_lossy(&unknown.stderr);
    assert!(told.contains("can't find the user no-such-user to switch to"), "{told}");
}

/// Used as in memcached's own tests: a Unix socket, combined flags, a port file, the command
/// `shutdown`.
#[test]
fn memcached_listens_and_ends_as_it_is_told() {
    let folder = std::env::temp_dir().join(format!("frazil-serve-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let ports: PathBuf = folder.join("ports");
    let mut command = frazil(&["memcached", "-vvA", "-m16", "-t", "1", "-l127.0.0.1", "-p", "-1"]);
    let mut server = Server(
        command.env("MEMCACHED_PORT_FILENAME", &ports).stderr(Stdio::null()).spawn().unwrap(),
    );
    let told = loop {
        if let Ok(told) = std::fs::read_to_string(&ports) {
            break told;
        }
        assert!(server.0.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    std::fs::remove_dir_all(&folder).unwrap();
    let port = told.trim().strip_prefix("TCP INET: ").unwrap().parse::<u16>().unwrap();
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.write_all(b"stats settings\r\nshutdown\r\n").unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).unwrap();
    for shown in ["STAT verbosity 2", "STAT num_threads 1", "STAT maxbytes 16777216"] {
        assert!(replies.contains(shown), "{shown}: {replies}");
    }
    assert!(server.0.wait().unwrap().success());
}

/// Serves with a snapshot; also returns the address.
fn serve_with(snapshot: &std::path::Path) -> (Child, BufReader<std::process::ChildStderr>, String) {
    let path = snapshot.to_str().unwrap();
    let mut child = frazil(&["serve", "--resp", "127.0.0.1:0", "--snapshot", path])
        .env_remove("NOTIFY_SOCKET")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    (child, stderr, line.trim().rsplit(' ').next().unwrap().to_owned())
}

/// What `frazil advise` reads comes from the server's own clients.
#[test]
fn requests_are_recorded_until_the_server_ends() {
    let path = std::env::temp_dir().join(format!("frazil-serve-record-{}", std::process::id()));
    let shown = path.to_str().unwrap();
    let flags = ["serve", "--memcached", "127.0.0.1:0", "--record", shown, "--record-rate", "1"];
    let mut child =
        frazil(&flags).env_remove("NOTIFY_SOCKET").stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let mut client = TcpStream::connect(line.trim().rsplit(' ').next().unwrap()).unwrap();
    for key in 0..100 {
        let requests = format!("get k{key}\r\nset k{key} 0 0 1\r\nx\r\nget k{key}\r\n");
        client.write_all(requests.as_bytes()).unwrap();
        let replies = format!("END\r\nSTORED\r\nVALUE k{key} 0 1\r\nx\r\nEND\r\n");
        let mut bytes = vec![0; replies.len()];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), replies);
    }
    drop(client);
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.unwrap().success() && child.wait().unwrap().success());
    let mut told = String::new();
    stderr.read_to_string(&mut told).unwrap();
    assert!(told.contains("200 requests recorded, 0 lost"), "{told}");
    let capacities = ["--capacity", "100", "--output", "csv"];
    let simulated = frazil(&["simulate", shown, "--policy", "lru"]).args(capacities).output();
    let simulated = String::from_utf8(simulated.unwrap().stdout).unwrap();
    std::fs::remove_file(&path).unwrap();
    let columns: Vec<&str> = simulated.lines().next().unwrap().split(',').collect();
    let values: Vec<&str> = simulated.lines().nth(1).unwrap().split(',').collect();
    let value = |name| values[columns.iter().position(|&column| column == name).unwrap()];
    assert_eq!((value("requests"), value("misses")), ("200", "100"), "{simulated}");

    let unwritten = frazil(&["serve", "--memcached", "127.0.0.1:0", "--record", "/no/such/file"]);
    let output = { unwritten }.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("/no/such/file"), "{told}");
}

#[test]
fn entries_live_through_a_restart() {
    let snapshot =
        std::env::temp_dir().join(format!("frazil-serve-snapshot-{}", std::process::id()));
    for round in 0..3 {
        let (mut child, mut stderr, address) = serve_with(&snapshot);
        let mut told = String::new();
        stderr.read_line(&mut told).unwrap();
        let read = ["no such file yet", "1 entries read", "1 entries read"][round];
        assert!(told.contains(read), "{told}");
        let mut client = TcpStream::connect(address).unwrap();
        let request = if round == 0 { "SET key value\r\n" } else { "GET key\r\n" };
        client.write_all(request.as_bytes()).unwrap();
        let reply = if round == 0 { "+OK\r\n" } else { "$5\r\nvalue\r\n" };
        let mut bytes = vec![0; reply.len()];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), reply);
        let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        assert!(child.wait().unwrap().success());
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("SIGTERM") && rest.contains("1 entries written"), "{rest}");
    }
    std::fs::remove_file(&snapshot).unwrap();
}

/// Started as by systemd, with an abstract name and with a path.
#[cfg(target_os = "linux")]
#[test]
fn the_service_manager_is_told_of_the_beginning_and_the_end() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    let name = format!("frazil-notify-{}", std::process::id());
    let path = std::env::temp_dir().join(&name);
    let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap());
    let by_path = UnixDatagram::bind(&path);
    for (socket, shown) in [(by_name, format!("@{name}")), (by_path, path.display().to_string())] {
        let socket = socket.unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let mut child = frazil(&["serve", "--memcached", "127.0.0.1:0"])
            .env("NOTIFY_SOCKET", &shown)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let told = || {
            let mut notice = [0; 100];
            let bytes = socket.recv(&mut notice).unwrap();
            String::from_utf8_lossy(&notice[..bytes]).into_owned()
        };
        assert_eq!(told(), "READY=1");
        let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        assert_eq!(told(), "STOPPING=1");
        assert!(child.wait().unwrap().success());
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_snapshot_that_cannot_be_read_is_kept() {
    let snapshot = std::env::temp_dir().join(format!("frazil-serve-unread-{}", std::process::id()));
    std::fs::write(&snapshot, "no snapshot, and longer than its head").unwrap();
    let (mut child, mut stderr, _) = serve_with(&snapshot);
    let mut told = String::new();
    (0..2).for_each(|_| _ = stderr.read_line(&mut told).unwrap());
    assert!(told.contains("not a snapshot") && told.contains("kept as"), "{told}");
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.unwrap().success() && child.wait().unwrap().success());
    let kept = snapshot.with_added_extension("unread");
    assert!(std::fs::read_to_string(&kept).unwrap().starts_with("no snapshot"));
    assert_ne!(std::fs::read(&snapshot).unwrap(), std::fs::read(&kept).unwrap());
    std::fs::remove_file(&kept).unwrap();
    std::fs::remove_file(&snapshot).unwrap();
}

/// The next connection, within twenty seconds.
fn accept(origin: &std::net::TcpListener) -> TcpStream {
    origin.set_nonblocking(true).unwrap();
    let mut tries = 0;
    let asked = loop {
        match origin.accept() {
            Ok((asked, _)) => break asked,
            Err(error) => assert!(tries < 2000, "nobody has asked the origin: {error}"),
        }
        tries += 1;
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    asked.set_nonblocking(false).unwrap();
    asked
}

/// HTTP is served from the origin's first response, until that is purged.
#[test]
fn serve_is_a_cache_of_http() {
    let origin = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/base", origin.local_addr().unwrap());
    let token = std::env::temp_dir().join(format!("purge-{}", std::process::id()));
    std::fs::write(&token, "secret\n").unwrap();
    let token_file = token.to_str().unwrap();
    let args = ["serve", "--http", "127.0.0.1:0", "--origin", &url, "--policy", "lru"];
    let mut command = frazil(&args);
    let command = command.args(["--purge-token-file", token_file]).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let _server = Server(child);
    std::fs::remove_file(&token).unwrap();
    assert!(line.contains("serving HTTP at"), "{line}");
    let mut client = TcpStream::connect(line.trim().rsplit(' ').next().unwrap()).unwrap();
    client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut asked = accept(&origin);
    let mut request = String::new();
    BufReader::new(asked.try_clone().unwrap()).read_line(&mut request).unwrap();
    assert_eq!(request, "GET /base/a HTTP/1.1\r\n");
    let answer = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\nvalue";
    asked.write_all(answer).unwrap();
    let mut replies = BufReader::new(client.try_clone().unwrap());
    let mut begun = String::new();
    while !begun.ends_with("\r\n\r\nvalue") {
        let mut byte = [0];
        replies.read_exact(&mut byte).unwrap();
        begun.push(byte[0].into());
    }
    client
        .write_all(
            b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n\
              PURGE /a HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\n\r\n\
              GET /a HTTP/1.1\r\nHost: h\r\nCache-Control: only-if-cached\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let mut rest = String::new();
    replies.read_to_string(&mut rest).unwrap();
    let statuses = rest.match_indices("HTTP/1.1 ").map(|(at, _)| &rest[at + 9..at + 12]);
    assert_eq!(statuses.collect::<Vec<_>>(), ["200", "200", "504"], "{rest}");
    assert!(rest.contains("cache-status: frazil; hit; ttl="), "{rest}");
}

/// Missing keys are fetched from the given origin.
#[test]
fn serve_fetches_what_is_missing() {
    let origin = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/items/{{key}}", origin.local_addr().unwrap());
    let args = ["serve", "--memcached", "127.0.0.1:0", "--memory", "16MiB", "--origin", &url];
    let mut child = frazil(&args).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let _server = Server(child);
    let mut client = TcpStream::connect(line.trim().rsplit(' ').next().unwrap()).unwrap();
    client.write_all(b"get key\r\nquit\r\n").unwrap();
    let mut asked = accept(&origin);
    let mut request = String::new();
    BufReader::new(asked.try_clone().unwrap()).read_line(&mut request).unwrap();
    assert_eq!(request, "GET /items/key HTTP/1.1\r\n");
    asked.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nvalue").unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).unwrap();
    assert_eq!(replies, "VALUE key 0 5\r\nvalue\r\nEND\r\n");
}

/// Each kind of origin requires clients of its kind.
#[test]
fn origins_go_with_their_clients() {
    let (keys, base) = ("http://127.0.0.1:1/{key}", "http://127.0.0.1:1");
    for (args, told) in [
        (&["--resp", "127.0.0.1:0", "--origin", base][..], Some("--http")),
        (&["--http", "127.0.0.1:0", "--origin", keys], Some("--memcached")),
        (&["--resp", "127.0.0.1:0", "--origin", keys, "--origin", keys], Some("two origins")),
        (&["--resp", "127.0.0.1:0", "--origin", keys, "--purge-token-file", "a"], Some("--http")),
        (
            &["--http", "127.0.0.1:0", "--origin", base, "--purge-token-file", "/no/such/file"],
            Some("/no/such/file"),
        ),
        (&["--resp", "127.0.0.1:0", "--origin", keys], None),
        (&["--http", "127.0.0.1:0", "--origin", base], None),
        (
            &["--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--origin", keys, "--origin", base],
            None,
        ),
    ] {
        let output = output(&[&["serve", "--check"], args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(if told.is_some() { 2 } else { 0 }),
            "{args:?}: {stderr}"
        );
        assert!(stderr.contains(told.unwrap_or_default()), "{args:?}: {stderr}");
    }
}

#[test]
fn origins_that_do_not_go_with_the_clients_are_refused() {
    let (keys, http) = ("http://127.0.0.1/{key}", "http://127.0.0.1");
    for (more, told) in [
        (&["--origin", keys][..], "needs `--memcached`"),
        (&["--origin", "https://127.0.0.1"], "plain http only"),
        (&["--origin", http, "--origin", http], "two origins of the same kind"),
        (&["--origin", http, "--policy", "lrb"], "only the simulator runs it"),
        (&["--origin", http, "--purge-token-file", "/dev/null"], "expected a token"),
        (&[], "--origin"),
    ] {
        let output = output(&[&["serve", "--http", "127.0.0.1:0"], more].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {stderr}");
        assert!(stderr.contains(told), "{more:?}: {stderr}");
    }
}

#[test]
fn origins_that_cannot_be_asked_are_refused() {
    for (url, told) in [
        ("https://127.0.0.1/{key}", "plain http only"),
        ("http://127.0.0.1/", "`{key}`"),
        ("127.0.0.1/{key}", "`http://`"),
    ] {
        let output = output(&["serve", "--memcached", "127.0.0.1:0", "--origin", url]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{url}: {stderr}");
        assert!(stderr.contains(told), "{url}: {stderr}");
    }
}
