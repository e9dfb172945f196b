//! Users: log-in, rights, and the verification of passwords.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use frazil_server::{Address, Server, Settings, hash_password};
use socket2::{Domain, Socket, Type};

use crate::client::{Client, requests, settings};
use crate::origin::{Answer, TestOrigin};

/// A file of users, deleted at the end of the test.
struct Users(PathBuf);

impl Users {
    fn new(name: &str, text: &str) -> Users {
        let path = std::env::temp_dir().join(format!("frazil-users-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Users(path)
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The hash of `secret`, computed once because it is slow by design.
fn hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| hash_password(b"secret").unwrap())
}

fn user(name: &str, rest: &str) -> String {
    format!("[users.{name}]\npassword = '{}'\n{rest}\n", hash())
}

const ALL: &str = "classes = ['read', 'write', 'admin', 'dangerous']";
const SOME: &str = "classes = ['read', 'write']\nprefixes = ['app:', 'tmp:']";

fn start(users: &Users) -> Server {
    Server::start(Settings { users: Some(users.0.clone()), ..settings() }).unwrap()
}

/// Sends requests and reads as many bytes as the replies have. Needs no rights for a request of its own, unlike
/// `expect`.
#[track_caller]
fn ask(client: &mut Client, lines: &str, replies: &str) {
    client.send(&crate::client::requests(lines));
    let mut bytes = vec![0; replies.len()];
    std::io::Read::read_exact(&mut client.stream, &mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), replies, "{lines}");
}

const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

#[test]
fn a_connection_can_only_log_in_at_first() {
    let users = Users::new("stranger", &user("app", ALL));
    let server = start(&users);
    let mut client = Client::new(&server);
    for request in ["GET key", "MGET a b", "SET key value", "MULTI", "PING", "ACL WHOAMI"] {
        ask(&mut client, request, NOAUTH);
    }
    ask(&mut client, "HELLO 3", "-NOAUTH HELLO must be called");
    let mut client = Client::new(&server);
    ask(&mut client, "AUTH app wrong", WRONG);
    ask(&mut client, "AUTH nobody secret", WRONG);
    ask(&mut client, "AUTH secret", WRONG);
    // Later requests wait for the verdict.
    ask(&mut client, "AUTH app secret\nSET key value\nGET key", "+OK\r\n+OK\r\n$5\r\nvalue\r\n");
    client.expect("ACL WHOAMI", "$3 app");
    ask(&mut client, "RESET\nGET key", &format!("+RESET\r\n{NOAUTH}"));
    let mut client = Client::new(&server);
    ask(&mut client, "HELLO 3 AUTH app secret SETNAME me", "%7\r\n");
    let mut client = Client::new(&server);
    // An inline request, with another in the same packet.
    client.send(b"AUTH app secret\r\nPING\r\n");
    ask(&mut client, "ECHO done", "+OK\r\n+PONG\r\n$4\r\ndone\r\n");
    client.expect("CLIENT LIST ID 0", "-ERR client-id should be greater than 0");
    let list = client.ask(&crate::client::requests("CLIENT INFO"));
    assert!(String::from_utf8_lossy(&list).contains(" user=app "));
}

#[test]
fn a_connection_takes_little_memory_before_its_log_in() {
    let users = Users::new("little", &user("app", ALL));
    let server = start(&users);
    let mut client = Client::new(&server);
    client.send(format!("*2\r\n$4\r\nAUTH\r\n$20000\r\n{}\r\n", "a".repeat(20_000)).as_bytes());
    ask(&mut client, "PING", "-ERR the request has more than 16384 bytes\r\n");
}

#[test]
fn a_user_does_what_its_classes_and_prefixes_allow() {
    let text = user("app", SOME) + &user("reader", "classes = ['read']") + &user("root", ALL);
    let users = Users::new("classes", &text);
    let server = start(&users);
    let mut app = Client::new(&server);
    app.expect("AUTH app secret\nSET app:1 one\nMSET app:2 two tmp:1 x", "+OK +OK +OK");
    app.expect("GET app:1\nMGET app:1 app:2", "$3 one *2 $3 one $3 two");
    const KEY: &str = "-NOPERM No permissions to access a key";
    for request in [
        "GET other",
        "MGET app:1 other",
        "MGET other",
        "SET other 1",
        "MSET app:1 1 other 2",
        "DEL app:1 other",
        "RENAME app:1 other",
        "COPY other app:1",
        "OBJECT ENCODING other",
        "WATCH other",
        "SCAN 0",
        "RANDOMKEY",
        "EXPIRE ap 1",
        "LCS app:1 other",
    ] {
        app.expect(request, KEY);
    }
    for (request, name) in [
        ("CONFIG GET maxmemory", "config"),
        ("FLUSHALL", "flushall"),
        ("KEYS app:*", "keys"),
        ("INFO", "info"),
        ("CLIENT LIST", "client"),
        ("ACL LIST", "acl"),
        ("SHUTDOWN", "shutdown"),
    ] {
        let told = format!("-NOPERM User app has no permissions to run the '{name}' command");
        app.expect(request, &told);
    }
    app.expect("CLIENT ID\nACL WHOAMI\nPING", ":1 $3 app +PONG");
    app.expect(
        "MULTI\nGET app:1\nGET other\nEXEC",
        &format!("+OK +QUEUED {KEY} -EXECABORT Transaction discarded because of previous errors."),
    );
    app.expect(
        "MULTI\nAUTH root secret\nDISCARD",
        "+OK -ERR Command not allowed inside a transaction +OK",
    );
    let mut reader = Client::new(&server);
    reader.expect("AUTH reader secret\nGET app:1\nGET other\nTTL app:1", "+OK $3 one $-1 :-1");
    for request in ["SET app:1 x", "GETDEL app:1", "EXPIRE app:1 1", "FLUSHALL"] {
        let name = request.split(' ').next().unwrap().to_lowercase();
        let told = format!("-NOPERM User reader has no permissions to run the '{name}' command");
        reader.expect(request, &told);
    }
    let mut root = Client::new(&server);
    root.expect(
        "AUTH root secret\nGET app:1\nCONFIG GET maxmemory",
        "+OK $3 one *2 $9 maxmemory $1 0",
    );
}

/// Leases, fetches and tracking are for keys that a user may use. Other keys are not requested from the origin.
#[test]
fn a_user_waits_for_and_hears_of_its_own_keys_only() {
    let text = user("app", SOME)
        + &user("reader", "classes = ['read']\nprefixes = ['app:']")
        + &user("writer", "classes = ['write']")
        + &user("part", &format!("{ALL}\nprefixes = ['app:']"))
        + &user("root", ALL);
    let users = Users::new("waits", &text);
    let origin = TestOrigin::open(|path| Answer::With(200, "", path.as_bytes().to_vec()));
    let server = origin.server(|settings| settings.users = Some(users.0.clone()));
    const KEY: &str = "-NOPERM No permissions to access a key";
    let denied = |user, command| {
        format!("-NOPERM User {user} has no permissions to run the '{command}' command")
    };
    let mut stranger = Client::new(&server);
    ask(&mut stranger, "GET app:1\nMGET app:1\nGETLEASE app:1 1000 0", &NOAUTH.repeat(3));
    let mut app = Client::new(&server);
    app.expect("AUTH app secret\nGET other", &format!("+OK {KEY}"));
    app.expect("MGET app:1 other\nGETLEASE other 1000 1000", &format!("{KEY} {KEY}"));
    let mut writer = Client::new(&server);
    writer.expect("AUTH writer secret\nGET app:1", &format!("+OK {}", denied("writer", "get")));
    assert_eq!(origin.count(), 0);
    app.expect("GETLEASE app:9 1000 0", "*2 $-1 $3 won");
    app.expect("GET app:1\nMGET app:1 tmp:1", "$8 /app%3A1 *2 $8 /app%3A1 $8 /tmp%3A1");
    assert_eq!(origin.count(), 2);
    let mut reader = Client::new(&server);
    let no_lease = denied("reader", "getlease");
    reader.expect("AUTH reader secret\nGETLEASE app:1 1000 0", &format!("+OK {no_lease}"));
    for client in [&mut app, &mut reader, &mut writer] {
        client.ask(&crate::client::requests("HELLO 3"));
    }
    app.expect("HOTKEYS GET", &denied("app", "hotkeys"));
    Client::new(&server).expect("AUTH part secret\nHOTKEYS GET", &format!("+OK {KEY}"));
    for words in ["", " PREFIX other", " PREFIX ap", " PREFIX app:1 PREFIX other"] {
        reader.expect(&format!("CLIENT TRACKING ON BCAST{words}"), KEY);
    }
    writer.expect("CLIENT TRACKING ON BCAST", KEY);
    reader.expect("CLIENT TRACKING ON BCAST PREFIX app:1", "+OK");
    app.expect("CLIENT TRACKING ON\nGET app:1", "+OK $8 /app%3A1");
    let mut root = Client::new(&server);
    root.expect("AUTH root secret\nSET other 1\nSET app:1 2\nHOTKEYS GET", "+OK +OK +OK $-1");
    for client in [&mut app, &mut reader] {
        let told = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$5\r\napp:1\r\n";
        let mut bytes = vec![0; told.len()];
        std::io::Read::read_exact(&mut client.stream, &mut bytes).unwrap();
        assert_eq!(bytes.escape_ascii().to_string(), told.escape_ascii().to_string());
        client.expect("PING", "+PONG");
    }
    let list = root.ask(&crate::client::requests("CLIENT LIST"));
    let list = String::from_utf8(list).unwrap();
    let line = |user: &str| list.lines().find(|line| line.contains(&format!(" user={user} ")));
    let (app, root) = (line("app").unwrap(), line("root").unwrap());
    assert!(app.contains(" flags=t ") && app.contains(" redir=0 "), "{list}");
    assert!(root.contains(" flags=N ") && root.contains(" redir=-1 "), "{list}");
}

#[test]
fn rights_are_shown() {
    let text = user("app", SOME) + &user("root", ALL) + "[users.default]\nclasses = []\n";
    let users = Users::new("shown", &text);
    let server = start(&users);
    let mut client = Client::new(&server);
    client.expect("ACL WHOAMI", "$7 default");
    client.expect("GET key", "-NOPERM User default has no permissions to run the 'get' command");
    client.expect("AUTH root secret\nACL USERS", "+OK *3 $3 app $7 default $4 root");
    client.expect("ACL CAT", "*4 $4 read $5 write $5 admin $9 dangerous");
    client.expect("ACL CAT none", "-ERR Unknown category 'none'");
    let list =
        String::from_utf8(client.ask(&crate::client::requests("ACL LIST\nACL CAT dangerous")))
            .unwrap();
    for part in [
        "user app on ~app:* ~tmp:* &* +@all -@admin -@dangerous\r\n",
        "user default on nopass ~* &* +@all -@read -@write -@admin -@dangerous\r\n",
        "user root on ~* &* +@all\r\n",
        "flushall\r\n",
    ] {
        assert!(list.contains(part), "{part}: {list}");
    }
    assert!(!list.contains("argon2"));
    client.expect("ACL GETUSER nobody", "*-1");
    let shown = String::from_utf8(client.ask(&crate::client::requests("ACL GETUSER app"))).unwrap();
    assert!(shown.starts_with("*12\r\n") && shown.contains("~app:* ~tmp:*"), "{shown}");
    client.expect("ACL DRYRUN app GET app:1\nACL DRYRUN root FLUSHALL", "+OK +OK");
    client.expect("ACL DRYRUN app GET x", "$49 User app has no permissions to access the 'x' key");
    client
        .expect("ACL DRYRUN app INFO", "$53 User app has no permissions to run the 'info' command");
    client.expect("ACL DRYRUN no GET x", "-ERR User 'no' not found");
    client.expect("ACL DRYRUN app NONE x", "-ERR Command 'NONE' not found");
    for word in ["SETUSER", "DELUSER", "LOAD"] {
        let told = format!(
            "-ERR ACL {word} is not supported: users are in the file of --users, read again at SIGHUP"
        );
        client.expect(&format!("ACL {word} x"), &told);
    }
}

/// Unchanged users keep their connections.
#[test]
fn a_reload_ends_connections_of_changed_users() {
    let users =
        Users::new("again", &(user("stays", ALL) + &user("changes", ALL) + &user("goes", ALL)));
    let server = start(&users);
    let client = |name: &str| {
        let mut client = Client::new(&server);
        client.expect(&format!("AUTH {name} secret"), "+OK");
        client
    };
    let (mut stays, mut changes, mut goes) = (client("stays"), client("changes"), client("goes"));
    std::fs::write(&users.0, "[users.stays\n").unwrap();
    assert!(server.handle().reload()[0].1.is_err());
    stays.expect("PING", "+PONG");
    goes.expect("PING", "+PONG");
    std::fs::write(&users.0, user("stays", ALL) + &user("changes", SOME)).unwrap();
    server.handle().reload().into_iter().for_each(|(_, outcome)| outcome.unwrap());
    assert_eq!(goes.rest(), b"");
    assert_eq!(changes.rest(), b"");
    stays.expect("PING", "+PONG");
    let mut changes = client("changes");
    changes.expect("GET other", "-NOPERM No permissions to access a key");
    let mut goes = Client::new(&server);
    ask(&mut goes, "AUTH goes secret", WRONG);
}

/// A user verified before gets in at once, and logged-in clients are served, whatever others try.
#[test]
fn a_flood_of_passwords_keeps_nobody_waiting() {
    let users = Users::new("flood", &user("app", ALL));
    let server = start(&users);
    let mut inside = Client::new(&server);
    inside.expect("AUTH app secret", "+OK");
    let mut flood: Vec<Client> = (0..60).map(|_| Client::new(&server)).collect();
    for (number, client) in flood.iter_mut().enumerate() {
        client.send(&crate::client::requests(&format!("AUTH app wrong{number}")));
    }
    let began = Instant::now();
    for _ in 0..20 {
        inside.expect("PING", "+PONG");
        let mut other = Client::new(&server);
        other.expect("AUTH app secret\nPING", "+OK +PONG");
    }
    // The flood takes a few seconds, most of which the verifying thread rests.
    let took = began.elapsed();
    let mut refused = 0;
    for client in &mut flood {
        client.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut reply = [0; 100];
        if let Ok(bytes) = std::io::Read::read(&mut client.stream, &mut reply) {
            refused += usize::from(reply[..bytes].starts_with(b"-ERR too many passwords"));
        }
    }
    assert!(refused > 0, "none of the flood was refused");
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// Those who guess without end from one address do not keep out a user from another, verified before or not.
#[test]
fn a_first_login_has_its_turn_among_those_who_guess() {
    let users = Users::new("first", &user("app", ALL));
    let server = start(&users);
    let (refused, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for number in 0..60 {
            let mut client = guesser(&server);
            let (refused, ended) = (&refused, &ended);
            scope.spawn(move || {
                for guess in 0.. {
                    client.send(&requests(&format!("AUTH app {number}-{guess}")));
                    let told = client.until(b"\r\n");
                    if told.starts_with(b"-ERR too many passwords") {
                        refused.store(true, Relaxed);
                    }
                    if ended.load(Relaxed) {
                        return;
                    }
                }
            });
        }
        while !refused.load(Relaxed) {
            std::thread::yield_now();
        }
        let mut first = Client::new(&server);
        first.send(&requests("AUTH app secret"));
        let told = first.until(b"\r\n");
        ended.store(true, Relaxed);
        assert_eq!(told.escape_ascii().to_string(), "+OK");
    });
}

/// A client at another address than the others.
fn guesser(server: &Server) -> Client {
    let Some(Address::Tcp(address)) = server.addresses().last() else { unreachable!() };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&(*address).into()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    Client { stream: socket.into() }
}

/// A password that many connections give at once is verified once, so none is refused.
#[test]
fn many_connections_of_one_user_begin_together() {
    let users = Users::new("many", &user("app", ALL));
    let server = start(&users);
    let mut clients: Vec<Client> = (0..100).map(|_| Client::new(&server)).collect();
    for client in &mut clients {
        client.send(&crate::client::requests("AUTH app secret"));
    }
    for client in &mut clients {
        client.expect("PING", "+OK +PONG");
    }
}
