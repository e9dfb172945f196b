//! Bytes of a client of the server, cut anywhere: the first two bytes choose the cuts, the rest is sent.
//!
//! Whole and in pieces they get the same replies.

use frazil_server::hostile::{Speaks, Told, serve};

/// Words of requests whose replies depend on the process, on chance or on the order of a hash, in
/// small letters. These are served and not compared.
const NOT_COMPARED: [&[u8]; 12] = [
    b"stats",
    b"info",
    b"time",
    b"client",
    b"hotkeys",
    b"scan",
    b"keys",
    b"randomkey",
    b"metadump",
    b"cachedump",
    b"mn_",
    b"config",
];

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// One client of the protocol.
pub fn feed_memcached(input: &[u8]) {
    feed(Speaks::Memcached, input);
}

/// One client of the protocol.
pub fn feed_resp(input: &[u8]) {
    feed(Speaks::Resp, input);
}

/// One client of the protocol.
pub fn feed_http(input: &[u8]) {
    let has_origin = input.first().is_some_and(|first| first % 2 == 1);
    feed(if has_origin { Speaks::HttpWithOrigin } else { Speaks::Http }, input);
}

fn feed(speaks: Speaks, input: &[u8]) {
    let Some((&[step, spread], sent)) = input.split_first_chunk() else { return };
    let [whole, cut] = [Vec::new(), cuts(step, spread, sent.len())].map(|cuts| {
        let mut told = serve(speaks, sent, &cuts);
        if matches!(speaks, Speaks::Http | Speaks::HttpWithOrigin) {
            // A client that has already sent the body gets no CONTINUE.
            while let Some(at) = memchr::memmem::find(&told.replies, CONTINUE) {
                told.replies.drain(at..at + CONTINUE.len());
            }
        }
        told
    });
    let small = sent.to_ascii_lowercase();
    if NOT_COMPARED.iter().any(|word| memchr::memmem::find(&small, word).is_some()) {
        return;
    }
    if whole.has_gone || cut.has_gone {
        let least = whole.replies.len().min(cut.replies.len());
        assert!(whole.replies[..least] == cut.replies[..least], "the begin of many replies");
        return;
    }
    // A session waits for the least number of bytes that the rest of a request has, so a bad
    // request may get its reply only after them.
    let waits = whole.is_closed && !cut.is_closed && whole.replies.starts_with(&cut.replies);
    if waits && whole.replies[cut.replies.len()..].starts_with(b"-ERR Protocol error") {
        return;
    }
    assert!(whole == cut, "whole:\n{}\ncut:\n{}", shown(&whole), shown(&cut));
}

/// Where to cut: after each byte, or in steps that grow and shrink.
fn cuts(step: u8, spread: u8, length: usize) -> Vec<usize> {
    let (mut cuts, mut at, mut turn) = (Vec::new(), 0, 0_usize);
    while at < length {
        at +=
            1 + usize::from(step) * usize::from(turn.wrapping_mul(usize::from(spread)) as u8) / 64;
        turn += 1;
        cuts.push(at);
    }
    cuts
}

fn shown(told: &Told) -> String {
    format!("{} closed: {}", told.replies.escape_ascii(), told.is_closed)
}
