//! Load on a server: `frazil bench --connect`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::command::{Folder, fails, frazil, json_lines};

/// A server that is stopped on drop.
struct Server {
    child: Child,
    /// Addresses of memcached's protocol, then of RESP.
    places: Vec<String>,
}

impl Server {
    /// Starts a server with both protocols, and these flags.
    fn start(places: [&str; 2], flags: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frazil"));
        command.args(["serve", "--memcached", places[0], "--resp", places[1]]).args(flags);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().take(2);
        let place =
            |line: std::io::Result<String>| line.unwrap().rsplit(' ').next().map(str::to_owned);
        let places = lines.map(|line| place(line).unwrap()).collect();
        Server { child, places }
    }

    fn tcp(flags: &[&str]) -> Server {
        Server::start(["127.0.0.1:0"; 2], flags)
    }

    fn urls(&self) -> [String; 2] {
        [format!("memcached://{}", self.places[0]), format!("redis://{}", self.places[1])]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The row that a load prints.
fn load(url: &str, args: &[&str]) -> Value {
    let all = [&["bench", "--connect", url, "--output", "json"], args].concat();
    json_lines(&frazil(&all)).swap_remove(0)
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"))
}

#[test]
fn keys_are_set_and_asked_for_by_both_protocols() {
    let server = Server::tcp(&["--memory", "16MiB"]);
    for url in server.urls() {
        let args = ["--keys", "500", "--operations", "20K", "--connections", "7"];
        let row =
            load(&url, &[&args[..], &["--pipeline", "16", "--workload", "zipf:0.99"]].concat());
        let of = |key: &str| number(&row, key);
        assert_eq!(
            (of("misses"), of("deletes"), of("closed_connections")),
            (0.0, 0.0, 0.0),
            "{row}"
        );
        // A round is not broken off: 7 x 16 requests.
        assert!((20_000.0..20_000.0 + 112.0).contains(&of("requests")), "{row}");
        assert_eq!(of("requests"), of("hits") + of("sets"));
        // Six standard deviations.
        assert!((of("sets") / of("requests") - 0.1).abs() < 6.0 * (0.09_f64 / 20_000.0).sqrt());
        assert_eq!(row["errors"], Value::Object(serde_json::Map::new()));
        let percentiles = ["p50_ns", "p99_ns", "p999_ns"].map(of);
        assert!(percentiles[0] > 0.0 && percentiles.is_sorted(), "{row}");
        assert!(of("in_flight") <= 7.01, "{row}");
        if cfg!(target_os = "linux") {
            let own = of("load_cpu_us");
            assert!(own > 0.0 && of("server_cpu_us") >= 0.0, "{row}");
        }
    }
}

#[test]
fn pieces_larger_than_a_socket_takes_are_sent_and_read() {
    let folder = Folder::new("load-large");
    let sockets = ["a", "b"].map(|name| format!("unix:{}", folder.path(name)));
    let server = Server::start([&sockets[0], &sockets[1]], &["--memory", "64MiB"]);
    let large = ["--value-bytes", "300000", "--keys", "20", "--pipeline", "8"];
    let some = ["--operations", "400", "--connections", "3", "--sets", "0.5"];
    for (scheme, name) in [("memcached+unix", "a"), ("redis+unix", "b")] {
        let row = load(&format!("{scheme}://{}", folder.path(name)), &[large, some].concat());
        assert_eq!((&row["misses"], number(&row, "requests") >= 400.0), (&0.into(), true), "{row}");
        if cfg!(target_os = "linux") {
            // The server's process is found by its path; copying the values took some time.
            assert!(number(&row, "server_cpu_us") > 0.0, "{row}");
        }
    }
    drop(server);
}

/// Requests in flight are counted by other clocks than the latencies.
#[test]
fn latencies_agree_with_the_throughput() {
    let server = Server::tcp(&["--memory", "16MiB"]);
    let args = ["--keys", "100", "--operations", "2000", "--connections", "1"];
    let row = load(&server.urls()[0], &args);
    assert!((0.7..1.3).contains(&number(&row, "little")), "{row}");
}

/// Without evictions a trace misses each object once, and none in a second replay.
#[test]
fn a_trace_is_replayed_with_a_set_after_each_miss() {
    let folder = Folder::new("load-trace");
    let lines: String = (0..3_000_u64)
        .map(|at| format!("{at},{},{}\n", at * at * 7919 % 401, 10 + at * at * 7919 % 401))
        .collect();
    let trace = folder.file("trace.csv", &lines);
    let simulated = ["simulate", "--policy", "lru", "--capacity", "1000", "--output", "json"];
    let told = frazil(&[&simulated[..], &["--trace", &trace, "--format", "csv"]].concat());
    let misses = json_lines(&told)[0]["misses"].clone();
    let server = Server::tcp(&["--memory", "16MiB"]);
    for url in server.urls() {
        let mut client = TcpStream::connect(&server.places[0]).unwrap();
        client.write_all(b"flush_all\r\n").unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
        let args = ["--trace", &trace, "--format", "csv"];
        let first = load(&url, &args);
        assert_eq!((&first["misses"], &first["sets"]), (&misses, &misses), "{first}");
        assert_eq!(number(&first, "hits") + number(&first, "misses"), 3_000.0);
        let second = load(&url, &[&args[..], &["--connections", "5", "--pipeline", "4"]].concat());
        assert_eq!((&second["misses"], &second["hits"]), (&0.into(), &3_000.into()), "{second}");
    }
}

#[test]
fn sets_and_deletes_of_a_trace_are_made_and_are_no_requests() {
    let folder = Folder::new("load-operations");
    let text = "time,id,size,op\n0,1,5,set\n1,1,5,get\n2,1,5,delete\n3,1,5,get\n4,1,5,get\n";
    let trace = folder.file("trace.csv", text);
    let server = Server::tcp(&["--memory", "16MiB"]);
    for url in server.urls() {
        let row = load(&url, &["--trace", &trace, "--format", "csv"]);
        let told = ["hits", "misses", "sets", "deletes"].map(|key| row[key].as_u64().unwrap());
        assert_eq!(told, [2, 1, 2, 1], "{row}");
    }
}

/// Values that the server refuses are counted.
#[test]
fn refusals_are_counted_by_kind() {
    let folder = Folder::new("load-refused");
    let trace = folder.file("trace.csv", "0,1,5\n1,2,3000000\n2,1,5\n3,2,3000000\n");
    let server = Server::tcp(&["--memory", "4MiB"]);
    for url in server.urls() {
        let row = load(&url, &["--trace", &trace, "--format", "csv"]);
        let (kind, count) = row["errors"].as_object().unwrap().iter().next().unwrap();
        assert!(
            ["too large", "more than"].iter().any(|it| kind.contains(it))
                && count.as_u64() == Some(2),
            "{row}"
        );
    }
    let url = &server.urls()[0];
    let args = ["bench", "--connect", url, "--value-bytes", "1000000", "--keys", "3"];
    fails(&args, 1, &["refused to set any key", "too large"]);
}

/// A server that answers each connection with fixed words, whatever the request, and closes it.
fn saying(words: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            std::thread::spawn(move || {
                if client.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {
                    let _ = client.write_all(words);
                }
            });
        }
    });
    place
}

/// One more than there are keys.
const OKS: &[u8] = b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n";

#[test]
fn what_is_no_server_of_the_protocol_is_told() {
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::tcp(&["--memory", "16MiB"]);
    let run =
        |url: &str, words: &[&str]| fails(&["bench", "--connect", url, "--keys", "9"], 1, words);
    run(&format!("memcached://{refused}"), &["cannot connect", "refused"]);
    run(&format!("memcached://{}", server.places[1]), &["`-ERR", "memcached's protocol"]);
    run(&format!("redis://{}", server.places[0]), &["`ERROR`", "RESP"]);
    run(&format!("memcached://{}", saying(b"\x1b[31m\r\n")), &["`\\x1b[31m`", "to a set"]);
    run(&format!("redis://{}", saying(OKS)), &["not asked for"]);
    run(&format!("redis://{}", saying(b"-NOAUTH no\r\n")), &["any key", "NOAUTH no"]);
    run(&format!("redis://{}", saying(b"")), &["any key", "connections were closed"]);
    run(&format!("http://{}/{{key}}", saying(b"SSH-2.0\r\n")), &["`SSH-2.0`", "HTTP"]);
    run("redis+unix:///no/such/socket", &["/no/such/socket"]);
}

#[test]
fn a_server_that_refuses_all_is_a_failure() {
    let url = format!("redis://{}", saying(b"-NOAUTH no\r\n"));
    let args = ["bench", "--connect", &url, "--no-fill", "--operations", "1"];
    fails(&[&args[..], &["--connections", "1", "--seconds", "1"]].concat(), 2, &["--seconds"]);
    fails(&[&args[..], &["--connections", "1"]].concat(), 1, &["each of 1 requests", "NOAUTH"]);
    let more = ["bench", "--connect", &url, "--no-fill", "--operations", "9", "--connections", "2"];
    fails(&more, 1, &["closed all connections", "NOAUTH"]);
}

#[test]
fn flags_that_do_not_go_together_are_refused() {
    let with = |args: &[&str], words: &[&str]| {
        fails(&[&["bench", "--connect", "http://127.0.0.1:1/{key}"], args].concat(), 2, words);
    };
    with(&["--policy", "lru"], &["--policy"]);
    with(&["--trace", "a", "--keys", "5"], &["--keys"]);
    with(&["--sets", "0.1"], &["only read"]);
    with(&["--value-bytes", "16000000"], &["16000000"]);
    with(&["--workload", "requests.csv"], &["--trace"]);
    fails(&["bench", "--connect", "ftp://a:1"], 2, &["memcached://HOST:PORT"]);
    fails(&["bench", "--pipeline", "2"], 2, &["--connect"]);
}

/// A web server that answers every second request with "not found".
fn web_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            std::thread::spawn(move || {
                let mut writer = client.unwrap();
                let mut reader = BufReader::new(writer.try_clone().unwrap());
                let mut count = 0;
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                    if let Some(path) = line.strip_prefix("GET ") {
                        let path = path.split(' ').next().unwrap();
                        assert!(path.starts_with("/a/") && path.len() == 3 + 16, "{path}");
                        count += 1;
                        let reply = if count % 2 == 0 {
                            "HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno"
                        } else {
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
                        };
                        writer.write_all(reply.as_bytes()).unwrap();
                    }
                    line.clear();
                }
            });
        }
    });
    place
}

#[test]
fn a_web_server_is_read() {
    let url = format!("http://{}/a/{{key}}", web_server());
    let args = ["--connections", "2", "--pipeline", "4", "--operations", "80", "--keys", "9"];
    let row = load(&url, &args);
    let told = ["hits", "misses", "sets"].map(|key| row[key].as_u64().unwrap());
    assert_eq!(told, [40, 40, 0], "{row}");
}

/// An interrupt ends the load, which prints its results so far.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_ends_the_load() {
    let server = Server::tcp(&["--memory", "16MiB"]);
    let url = &server.urls()[0];
    let folder = Folder::new("load-interrupt");
    let trace = folder.file("ids.txt", "1\n2\n3\n".repeat(2_000_000));
    let args =
        ["bench", "--connect", url, "--output", "json", "--trace", &trace, "--format", "plain"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_frazil"));
    let mut child =
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Waits until the load has made a request.
    let mut client = TcpStream::connect(&server.places[0]).unwrap();
    let mut replies = BufReader::new(client.try_clone().unwrap()).lines();
    let mut asked = 0;
    while asked == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        client.write_all(b"stats\r\n").unwrap();
        for line in replies.by_ref().map(Result::unwrap).take_while(|line| line != "END") {
            if let Some(count) = line.strip_prefix("STAT get_hits ") {
                asked = count.parse().unwrap();
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted after"));
    let row = json_lines(&output).swap_remove(0);
    assert!((1.0..6e6).contains(&number(&row, "requests")), "{row}");
}
