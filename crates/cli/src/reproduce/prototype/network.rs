//! The network manager: two threads for each origin, a sender and a receiver, with one long-lived
//! connection to the origin.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use anyhow::{Context as _, bail};
use rtrb::Consumer;

use super::flows::{Fetch, Fetched};
use super::origin::{ANSWER_BYTES, REQUEST_BYTES};
use super::pipe::{BATCH, Bell, Ends, Inlet, Over};

/// Bytes in one read.
const READ_BYTES: usize = 1 << 18;

/// Requests objects from the origin until the end of the run; then closes the connection.
pub(super) fn ask(
    mut wanted: Consumer<Fetch>,
    stream: TcpStream,
    bell: &Bell,
    over: &Over,
) -> anyhow::Result<()> {
    let _ends = Ends(over);
    let mut line = HangUp(stream);
    let mut out = Vec::with_capacity(BATCH * REQUEST_BYTES);
    while !over.is_over() {
        out.clear();
        for _ in 0..BATCH {
            let Ok(Fetch { key, flow }) = wanted.pop() else { break };
            out.extend_from_slice(&key.to_le_bytes());
            out.extend_from_slice(&u64::from(flow).to_le_bytes());
        }
        if out.is_empty() {
            bell.wait(|| !wanted.is_empty());
        } else {
            line.0.write_all(&out).context("an origin does not listen")?;
        }
    }
    Ok(())
}

/// Closes a connection, so that its reader sees the end.
struct HangUp(TcpStream);

impl Drop for HangUp {
    fn drop(&mut self) {
        // If it fails, the origin has closed the connection before.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Passes on the origin's replies, until the origin or the other thread closes the connection.
pub(super) fn listen(
    mut stream: TcpStream,
    mut flows: Inlet<Fetched>,
    over: &Over,
) -> anyhow::Result<()> {
    let _ends = Ends(over);
    let mut buffer = vec![0; READ_BYTES];
    let mut kept = 0;
    loop {
        let count = match stream.read(&mut buffer[kept..]) {
            Ok(0) | Err(_) if over.is_over() => return Ok(()),
            Ok(0) => bail!("an origin has gone"),
            read => read.context("an origin cannot be heard")?,
        };
        let (answers, rest) = buffer[..kept + count].as_chunks::<ANSWER_BYTES>();
        for answer in answers {
            let Some((number, object)) = answer.split_first_chunk() else { continue };
            let flow = u32::try_from(u64::from_le_bytes(*number)).context("no such flow")?;
            flows.send(Fetched { flow, object: object.into() })?;
        }
        flows.flush();
        let whole = answers.len() * ANSWER_BYTES;
        kept = rest.len();
        buffer.copy_within(whole..whole + kept, 0);
    }
}

const _: () = assert!(REQUEST_BYTES == 2 * size_of::<u64>());
