//! Users of a file, and their rights.

use std::path::PathBuf;

use frazil_server::{Server, Settings, hash_password};

use crate::client::{Client, settings};

fn start(name: &str, users: &str) -> Server {
    let path: PathBuf =
        std::env::temp_dir().join(format!("frazil-mc-users-{name}-{}", std::process::id()));
    std::fs::write(&path, users).unwrap();
    let server = Server::start(Settings { users: Some(path.clone()), ..settings() });
    std::fs::remove_file(&path).unwrap();
    server.unwrap()
}

const DENIED: &str = "CLIENT_ERROR unauthorized\r\n";

#[test]
fn a_user_does_what_its_classes_and_prefixes_allow() {
    let hash = hash_password(b"secret").unwrap();
    let users = format!(
        "[users.app]\npassword = '{hash}'\nclasses = ['read', 'write']\nprefixes = ['app:']\n
         [users.reader]\npassword = '{hash}'\nclasses = ['read']\n
         [users.root]\npassword = '{hash}'\nclasses = ['read', 'write', 'admin', 'dangerous']\n"
    );
    let server = start("classes", &users);
    let mut client = Client::new(&server);
    client.send(b"get key\r\nset a 0 0 9\r\napp wrong\r\n");
    let told = "CLIENT_ERROR unauthenticated\r\nCLIENT_ERROR authentication failure\r\n";
    assert_eq!(String::from_utf8_lossy(&client.receive(told.len())), told);
    // Requests in the same packet wait for the verdict.
    client.expect(
        "set a 0 0 10\r\napp secret\r\nset app:1 0 0 1\r\n1\r\nget app:1\r\n",
        "STORED\r\nSTORED\r\nVALUE app:1 0 1\r\n1\r\nEND\r\n",
    );
    for request in [
        "get other",
        "get app:1 other",
        "gets other",
        "gat 0 other",
        "gat 0 app:1 other",
        "mg other v",
        "mg b3RoZXI= b v",
        "mg other v N30 w1000",
        "md other",
        "ma other N0",
        "me other",
        "delete other",
        "incr other 1",
        "touch other 0",
        "flush_all",
        "stats",
        "stats cachedump 1 0",
        "lru_crawler metadump all",
        "verbosity 1",
        "shutdown",
        "cache_memlimit 10",
        "get other app:1",
        "mg app:1 b v",
    ] {
        client.expect(&format!("{request}\r\n"), DENIED);
    }
    // The value of a refused request is skipped, and not served as requests.
    client.expect("set other 0 0 7\r\nget a\r\n\r\nms other 7\r\nget a\r\n\r\n", &DENIED.repeat(2));
    client
        .expect("set other 0 0 1 noreply\r\n1\r\nget app:1\r\n", "VALUE app:1 0 1\r\n1\r\nEND\r\n");
    client.expect("mg YXBwOjE= b v\r\n", "VA 1\r\n1\r\n");
}
