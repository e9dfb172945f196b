//! The replies of each command.

use std::time::Duration;

use crate::client::{Client, request, requests, shown, start};

#[test]
fn values_are_set_and_got() {
    let server = start();
    let mut client = Client::new(&server);
    client.expect("GET a\nSET a 1\nGET a\nget a", "$-1 +OK $1 1 $1 1");
    client.expect("SET a 2 NX\nSET b 2 NX\nSET c 3 XX\nSET b 3 XX", "$-1 +OK $-1 +OK");
    client.expect(
        "SET a 4 GET\nSET a 5 NX GET\nSET d 6 XX GET\nGET a\nGET d",
        "$1 1 $1 4 $-1 $1 4 $-1",
    );
    client.expect(
        "SET a 1 NX XX\nSET a 1 EX\nSET a 1 EX 0",
        "-ERR syntax error -ERR syntax error \
        -ERR invalid expire time in 'set' command",
    );
    client.expect(
        "SET a 1 EX 5 PX 5\nSET a 1 EX 5 KEEPTTL\nSET a 1 EX x",
        "-ERR syntax error \
        -ERR syntax error -ERR value is not an integer or out of range",
    );
    client.expect("SETNX a 1\nSETNX e 1\nGETSET e 2\nGETDEL e\nGETDEL e", ":0 :1 $1 1 $1 2 $-1");
    client.expect(
        "MSET x 1 y 2\nMGET x none y\nMSETNX x 9 z 9\nMSETNX z 3 w 4\nMGET z w",
        "+OK *3 $1 1 $-1 $1 2 :0 :1 *2 $1 3 $1 4",
    );
    client.expect(
        "MSET x\nMSET x 1 y\nMGET",
        "-ERR wrong number of arguments for 'mset' command \
        -ERR wrong number of arguments for 'mset' command \
        -ERR wrong number of arguments for 'mget' command",
    );
}

#[test]
fn parts_of_values_are_read_and_changed() {
    let server = start();
    let mut client = Client::new(&server);
    client.expect("APPEND s Hello\nAPPEND s World\nSTRLEN s\nSTRLEN none", ":5 :10 :10 :0");
    client.expect(
        "GETRANGE s 0 3\nGETRANGE s -3 -1\nSUBSTR s 8 100\nGETRANGE none 0 -1",
        "$4 Hell $3 rld $2 ld $0",
    );
    client.expect(
        "SETRANGE s 5 Earth\nGET s\nSETRANGE s -1 x\nSETRANGE s 536870912 x",
        ":10 $10 HelloEarth -ERR offset is out of range \
        -ERR string exceeds maximum allowed size (proto-max-bulk-len)",
    );
    client.expect(
        "SETRANGE s 1048570 abcdefgh",
        "-ERR string exceeds maximum allowed size (an item \
        has no more than 1 MiB)",
    );
    client.expect("SETBIT bits 7 1\nSETBIT bits 7 0\nSETBIT bits 1 1\nGETBIT bits 1\nGETBIT bits 99\nGET bits",
        ":0 :1 :0 :1 :0 $1 @");
    client.expect("SET f foobar\nBITCOUNT f\nBITCOUNT f 1 1\nBITCOUNT f 5 30 BIT\nBITCOUNT f 0 -5 BIT\nSET first é\nBITCOUNT first -100 -200 BIT\nBITCOUNT none",
        "+OK :26 :6 :17 :25 +OK :0 :0");
    client.expect(
        "SETBIT bits 4294967296 1\nSETBIT bits 0 2",
        "-ERR bit offset is not an integer or \
        out of range -ERR bit is not an integer or out of range",
    );
    client.expect(
        "SET one ohmytext\nSET two mynewtext\nLCS one two\nLCS one two LEN",
        "+OK +OK $6 mytext :6",
    );
    client.expect(
        "LCS one two IDX MINMATCHLEN 4 WITHMATCHLEN",
        "*4 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 \
        $3 len :6",
    );
}

#[test]
fn numbers_are_counted() {
    let server = start();
    let mut client = Client::new(&server);
    client.expect("INCR n\nINCRBY n 41\nDECR n\nDECRBY n 2\nGET n", ":1 :42 :41 :39 $2 39");
    client.expect(
        "SET n 9223372036854775807\nINCR n\nDECRBY n -9223372036854775808",
        "+OK -ERR increment or decrement would overflow -ERR decrement would overflow",
    );
    client.expect(
        "SET n 01\nINCR n\nINCRBYFLOAT n x",
        "+OK -ERR value is not an integer or out of range \
        -ERR value is not a valid float",
    );
    client.expect(
        "SET f 0.1\nINCRBYFLOAT f 0.2\nINCRBYFLOAT f -1.1e0\nINCRBYFLOAT f +inf",
        "+OK $3 0.3 $4 -0.8 -ERR increment would produce NaN or Infinity",
    );
    client.expect("SET n 5 EX 100\nINCR n\nTTL n", "+OK :6 :100");
}

#[test]
fn entries_expire_by_command() {
    let server = start();
    let mut client = Client::new(&server);
    client.expect(
        "TTL k\nSET k v\nTTL k\nEXPIRE k 100\nTTL k\nPERSIST k\nPERSIST k\nTTL k",
        ":-2 +OK :-1 :1 :100 :1 :0 :-1",
    );
    client.expect("EXPIRE k 10 XX\nEXPIRE k 10 NX\nEXPIRE k 9 GT\nEXPIRE k 20 GT\nEXPIRE k 30 LT\nEXPIRE k 5 LT\nTTL k",
        ":0 :1 :0 :1 :0 :1 :5");
    client.expect("EXPIRE k 10 NX GT\nEXPIRE k 10 GT LT\nEXPIRE k 1 AB\nEXPIRE k x", "-ERR NX and XX, GT or LT \
        options at the same time are not compatible -ERR GT and LT options at the same time are not \
        compatible -ERR Unsupported option AB -ERR value is not an integer or out of range");
    client.expect(
        "EXPIRE k 9223372036854775\nPEXPIRE k 9223372036854775807",
        "-ERR invalid expire time in \
        'expire' command -ERR invalid expire time in 'pexpire' command",
    );
    let reply = client.ask(&request(&["EXPIRE", "k", "1", "\r\nA\nB\r\n"]));
    assert_eq!(reply.escape_ascii().to_string(), r"-ERR Unsupported option   A B\r\n");
    client.expect("EXPIRE k -1\nEXISTS k\nEXPIRE k 1", ":1 :0 :0");
    client.expect("SET k v EXAT 1\nEXISTS k\nSET k v\nPEXPIREAT k 5\nEXISTS k", "+OK :0 +OK :1 :0");
    client.expect("SET k v EXAT 2000000000\nGETEX k\nGETEX k PERSIST\nTTL k", "+OK $1 v $1 v :-1");
    client.expect(
        "GETEX k EX 10\nTTL k\nSET k w KEEPTTL\nTTL k\nSET k x\nTTL k\nGETEX none EX 5",
        "$1 v :10 +OK :10 +OK :-1 $-1",
    );
    let ends = std::time::SystemTime::now() + Duration::from_secs(3000);
    let ends = ends.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    for end in ends..ends + 20 {
        client.expect(&format!("SET x v PXAT {end}\nPEXPIRETIME x"), &format!("+OK :{end}"));
    }
    client.expect("SET x v EX 86400\nTTL x\nDEL x", "+OK :86400 :1");
    client.expect(
        "PSETEX p 30 v\nSETEX q 0 v\nGET p\nDBSIZE",
        "+OK -ERR invalid expire time in 'setex' command \
        $1 v :2",
    );
    std::thread::sleep(Duration::from_millis(40));
    client.expect("GET p\nPTTL p\nDBSIZE\nSETNX p new", "$-1 :-2 :1 :1");
}

#[test]
fn keys_are_moved_and_found() {
    let server = start();
    let mut client = Client::new(&server);
    client.expect(
        "SET a 1 EX 100\nRENAME a b\nEXISTS a b b\nTTL b\nRENAME a c\nRENAMENX b b",
        "+OK +OK :2 :100 \
        -ERR no such key :0",
    );
    client.expect("SET c 3\nRENAMENX b c\nRENAMENX b d\nCOPY d c\nCOPY d c REPLACE\nCOPY none c\nTTL c\nMGET b c d",
        "+OK :0 :1 :0 :1 :0 :100 *3 $-1 $1 1 $1 1");
    client.expect("COPY d d\nCOPY d e DB 1\nSELECT 0\nSELECT 1\nSELECT x", "-ERR source and destination objects \
        are the same -ERR DB index is out of range +OK -ERR DB index is out of range -ERR value is not an integer or out of range");
    client.expect(
        "TYPE c\nTYPE none\nTOUCH c none d\nUNLINK c none\nDBSIZE\nKEYS *\nRANDOMKEY",
        "+string +none :2 :1 \
        :1 *1 $1 d $1 d",
    );
    client.expect("OBJECT ENCODING d\nOBJECT ENCODING none\nOBJECT REFCOUNT d", "$3 int $-1 :1");
    client.expect(
        "FLUSHALL ASYNC\nDBSIZE\nRANDOMKEY\nKEYS *\nFLUSHDB x",
        "+OK :0 $-1 *0 \
        -ERR syntax error",
    );
}

/// After a flush of many entries most of the index is empty.
#[test]
fn random_keys_are_as_likely_however_far_apart_they_are() {
    let server = start();
    let mut client = Client::new(&server);
    client.ask(&requests(&(0..5000).map(|at| format!("SET k{at} v\n")).collect::<String>()));
    for round in 0..60 {
        // An item beside the segments is as likely as one in them.
        let value = "v".repeat(if round % 2 == 0 { 1 } else { 70_000 });
        client.expect(&format!("FLUSHALL\nMSET a{round} v b{round} {value}"), "+OK +OK");
        let replies = shown(&client.ask(&requests(&"RANDOMKEY\n".repeat(40))));
        for key in [format!("a{round}"), format!("b{round}")] {
            assert!(replies.split(' ').any(|word| word == key), "no {key}: {replies}");
        }
    }
}

/// Most parts of the index of small items are empty, and none of the large ones. Of a right server this fails by chance
/// less than once in 10^14 runs.
#[test]
fn random_keys_are_large_and_small_in_proportion_to_the_items() {
    let server = start();
    let mut client = Client::new(&server);
    let value = "v".repeat(70_000);
    let mut large_of = |small: usize, large: usize, calls: usize| {
        client.expect("FLUSHALL", "+OK");
        client.ask(&requests(&(0..small).map(|at| format!("SET s{at} v\n")).collect::<String>()));
        for at in 0..large {
            client.expect(&format!("SET l{at} {value}"), "+OK");
        }
        let replies = shown(&client.ask(&requests(&"RANDOMKEY\n".repeat(calls))));
        let count = |first| replies.split(' ').filter(|word| word.starts_with(first)).count();
        assert_eq!(count('s') + count('l'), calls, "{replies}");
        count('l')
    };
    // 45 of 500 are expected, and 200 of 400.
    let few = large_of(10, 1, 500);
    assert!((4..=150).contains(&few), "{few}");
    let many = large_of(20, 20, 400);
    assert!((100..=300).contains(&many), "{many}");
    assert_eq!((large_of(3, 0, 20), large_of(0, 3, 20)), (0, 20));
}

/// All keys of a scan.
fn scan(client: &mut Client, options: &str) -> std::collections::BTreeSet<String> {
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = shown(&client.ask(&requests(&format!("SCAN {cursor} {options}"))));
        let mut words = reply.split(' ').filter(|word| !word.starts_with(['$', '*']));
        cursor = words.next().unwrap().to_owned();
        // Clients may read it as a signed number.
        assert!(cursor.parse().is_ok_and(|cursor: u64| cursor < 1 << 40), "{cursor}");
        seen.extend(words.map(str::to_owned));
        if cursor == "0" {
            return seen;
        }
    }
}

#[test]
fn a_scan_meets_every_key() {
    let server = start();
    let mut client = Client::new(&server);
    assert!(scan(&mut client, "").is_empty());
    for number in 0..1000 {
        client.send(&request(&["SET", &format!("key:{number}"), "v"]));
    }
    client.ask(b"");
    assert_eq!(scan(&mut client, "COUNT 50 TYPE string").len(), 1000);
    let large = "v".repeat(70_000);
    for number in 0..20 {
        client.expect(&format!("SET large:{number} {large}"), "+OK");
    }
    assert_eq!(scan(&mut client, "COUNT 1").len(), 1020);
    assert_eq!(scan(&mut client, "COUNT 100000").len(), 1020);
    let some = scan(&mut client, "MATCH key:99? COUNT 1000");
    assert!(some.len() == 10 && some.iter().all(|key| key.starts_with("key:99")), "{some:?}");
    assert!(scan(&mut client, "TYPE list").is_empty());
    client.expect(
        "SCAN x\nSCAN 0 COUNT 0\nSCAN 0 NONE",
        "-ERR invalid cursor -ERR syntax error -ERR syntax error",
    );
}

#[test]
fn clients_describe_themselves() {
    let server = start();
    let mut client = Client::new(&server);
    client.expect("CLIENT GETNAME\nCLIENT SETNAME me\nCLIENT GETNAME\nCLIENT SETINFO LIB-NAME test\nCLIENT SETINFO X y",
        "$-1 +OK $2 me +OK -ERR Unrecognized option");
    let text = shown(&client.ask(&request(&["CLIENT", "INFO"])));
    assert!(text.contains("name=me") && text.contains("lib-name=test"), "{text}");
    client.expect(
        "HELLO 4\nHELLO x\nAUTH x\nAUTH default any\nAUTH other x",
        "-NOPROTO unsupported protocol version \
        -ERR Protocol version is not an integer or out of range \
        -ERR AUTH <password> called without any password configured for the default user. Are you \
        sure your configuration is correct? +OK \
        -WRONGPASS invalid username-password pair or user is disabled.",
    );
    let hello = shown(&client.ask(&request(&["HELLO", "3", "SETNAME", "you"])));
    assert!(hello.starts_with("%7 $6 server $5 redis") && hello.contains("$5 proto :3"), "{hello}");
    client.expect(
        "GET none\nMGET none\nCLIENT GETNAME\nCONFIG GET maxmemory",
        "_ *1 _ $3 you %1 $9 maxmemory $1 0",
    );
    client.expect("RESET\nGET none\nCLIENT GETNAME", "+RESET $-1 $-1");
    client.send(&request(&["CLIENT", "REPLY", "SKIP"]));
    client.expect(
        "SET a 1\nGET a\nCLIENT REPLY OFF\nGET a\nMGET a\nKEYS *\nCLIENT REPLY ON",
        "$1 1 +OK",
    );
}

#[test]
fn a_client_is_ended_by_another() {
    let server = start();
    let (mut one, mut other) = (Client::new(&server), Client::new(&server));
    let id = shown(&one.ask(&request(&["CLIENT", "ID"])));
    let id = id.trim_start_matches(':');
    // An idle connection is closed within a second, but is no client any more.
    other.expect(
        &format!(
            "CLIENT KILL ID {id}\nCLIENT KILL ID {id}\nCLIENT LIST ID {id}\nCLIENT KILL ID 999"
        ),
        ":1 :0 $0 :0",
    );
    assert_eq!(one.rest(), b"");
    other.send(&requests_of_quit());
    assert_eq!(shown(&other.rest()), "+OK");
}

#[test]
fn clients_are_ended_by_age() {
    let server = start();
    let (mut old, mut other) = (Client::new(&server), Client::new(&server));
    old.expect("PING", "+PONG");
    other.expect(
        "CLIENT KILL MAXAGE 0\nCLIENT KILL MAXAGE x\nCLIENT KILL MAXAGE 1000",
        "-ERR maxage should be greater than 0 -ERR maxage is not an integer or out of range :0",
    );
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let mut young = Client::new(&server);
    young.expect("CLIENT KILL MAXAGE 100\nCLIENT KILL MAXAGE 1\nPING", ":0 :2 +PONG");
    assert_eq!(old.rest(), b"");
}

fn requests_of_quit() -> Vec<u8> {
    [request(&["QUIT"]), request(&["SET", "a", "1"])].concat()
}

#[test]
fn supported_commands_are_listed() {
    let server = start();
    let mut client = Client::new(&server);
    client.expect(
        "PING\nPING hi\nECHO x\nFUNCTION FLUSH\nDEBUG SLEEP 1\nSAVE",
        "+PONG $2 hi $1 x +OK \
        -ERR DEBUG command not allowed -ERR nothing is saved",
    );
    client.expect(
        "LPUSH l 1 2",
        "-ERR unknown command 'LPUSH', with args beginning with: 'l' '1' '2'",
    );
    client.expect("COMMAND GETKEYS MSET a 1 b 2\nCOMMAND INFO get none\nCOMMAND DOCS get", "*2 $1 a $1 b \
        *2 *10 $3 get :2 *2 +readonly +fast :1 :1 :1 *3 +@read +@string +@fast *0 *0 *0 *-1 *2 $3 get *2 $5 group $6 string");
    let mut third = Client::new(&server);
    third.ask(&request(&["HELLO", "3"]));
    third.expect(
        "COMMAND INFO get flushall bgsave",
        "*3 *10 $3 get :2 ~2 +readonly +fast :1 :1 :1 ~3 +@read +@string +@fast ~0 ~0 ~0 \
        *10 $8 flushall :-1 ~1 +write :0 :0 :0 ~4 +@keyspace +@write +@slow +@dangerous ~0 ~0 ~0 \
        *10 $6 bgsave :-1 ~1 +admin :0 :0 :0 ~3 +@admin +@slow +@dangerous ~0 ~0 ~0",
    );
    client.expect(
        "CONFIG SET maxmemory bla\nCONFIG SET nothing 1\nCONFIG SET port 1",
        "-ERR CONFIG SET failed \
        (possibly related to argument 'maxmemory') - argument must be a memory value \
        -ERR Unknown option or number of arguments for CONFIG SET - 'nothing' \
        -ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config",
    );
    client.expect(
        "SET b 1\nCONFIG SET maxmemory 1\nSET a 1\nGET a\nCONFIG SET maxmemory 0\nDEL b\nSET a 1",
        "+OK +OK -OOM command \
        not allowed when used memory > 'maxmemory'. $-1 +OK :1 +OK",
    );
    client.expect("CONFIG RESETSTAT\nGET a\nGET none", "+OK $1 1 $-1");
    let info = shown(&client.ask(&request(&["INFO", "stats", "commandstats"])));
    for line in ["keyspace_hits:1", "keyspace_misses:1", "cmdstat_get:calls=2,"] {
        assert!(info.contains(line), "{line}: {info}");
    }
}

/// What a command does that is not in its page, nobody knows.
#[test]
fn each_command_is_in_the_page() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server.md");
    // A package has no pages.
    let Ok(page) = std::fs::read_to_string(page) else { return };
    let listed = shown(&Client::new(&start()).ask(&request(&["COMMAND", "LIST"])));
    let names: Vec<_> = listed.split(' ').filter(|word| !word.starts_with(['*', '$'])).collect();
    assert!(names.len() > 70, "{listed}");
    for name in names {
        let name = name.to_uppercase();
        let is_there = [' ', '`'].iter().any(|end| page.contains(&format!("`{name}{end}")));
        assert!(is_there, "{name}");
    }
}
