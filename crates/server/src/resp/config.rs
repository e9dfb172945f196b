//! `CONFIG`: settings that programs for Redis read.

use std::sync::atomic::Ordering::Relaxed;

use super::{Call, Done, Problem, glob, number, reply, table};

/// Names and values of all settings.
fn settings(call: &Call<'_, '_>) -> Vec<(&'static str, String)> {
    let shared = call.turn.shared;
    let limits = &shared.settings.limits;
    let port = shared.settings.resp.iter().find_map(|address| match address {
        crate::Address::Tcp(address) => Some(address.port()),
        crate::Address::Unix(_) => None,
    });
    let evicts = if shared.settings.evicts { "allkeys-lfu" } else { "noeviction" };
    vec![
        ("appendonly", "no".to_owned()),
        ("databases", "1".to_owned()),
        ("io-threads", shared.settings.threads.to_string()),
        ("maxclients", limits.connections.to_string()),
        ("maxmemory", shared.resp.memory_max.load(Relaxed).to_string()),
        ("maxmemory-policy", evicts.to_owned()),
        ("port", port.unwrap_or(0).to_string()),
        ("proto-max-bulk-len", super::request_bytes_max(call.turn).to_string()),
        ("save", String::new()),
        ("tcp-backlog", limits.backlog.to_string()),
        ("timeout", limits.idle_seconds.to_string()),
    ]
}

pub(super) fn config(call: &mut Call<'_, '_>) -> Done {
    let word = call.args.get(1).to_ascii_lowercase();
    match (word.as_slice(), call.args.len()) {
        (b"get", 3..) => get(call),
        (b"set", 4..) if call.args.len().is_multiple_of(2) => return set(call),
        (b"resetstat", 2) => {
            call.turn.shared.resp.reset(call.turn.shared);
            reply::ok(call.turn.out);
        }
        (b"rewrite", 2) => return Err("ERR The server is running without a config file".into()),
        _ => return Err(table::unknown_subcommand("config", call.args)),
    }
    Ok(())
}

fn get(call: &mut Call<'_, '_>) {
    let mut shown = settings(call);
    shown.retain(|(name, _)| {
        let is_meant =
            |pattern: &[u8]| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes());
        call.args.from(2).any(is_meant)
    });
    reply::map(call.turn.out, shown.len(), call.session.version);
    for (name, value) in shown {
        reply::bulk(call.turn.out, name.as_bytes());
        reply::bulk(call.turn.out, value.as_bytes());
    }
}

/// Changes all settings, or none if one cannot be changed.
fn set(call: &mut Call<'_, '_>) -> Done {
    let mut memory_max = None;
    let known = settings(call);
    let mut words = call.args.from(2);
    while let Some((name, value)) = words.next().zip(words.next()) {
        let name = name.to_ascii_lowercase();
        let Some((name, now)) = known.iter().find(|(known, _)| known.as_bytes() == name) else {
            let name = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
            let text =
                format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'");
            return Err(text.into());
        };
        if *name == "maxmemory" {
            let bytes =
                bytes(value).ok_or_else(|| refused(name, "argument must be a memory value"))?;
            memory_max = Some(bytes);
        } else if now.as_bytes() != value {
            // A program that restores the settings it has read sets them to the same values.
            return Err(refused(name, "can't set immutable config"));
        }
    }
    if let Some(bytes) = memory_max {
        call.turn.shared.resp.memory_max.store(bytes, Relaxed);
    }
    reply::ok(call.turn.out);
    Ok(())
}

fn refused(name: &str, why: &str) -> Problem {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}").into()
}

/// The bytes in a size such as `64mb`.
fn bytes(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit: u64 = match text[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    u64::try_from(number::integer(&text[..digits])?).ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_is_read_with_units() {
        let is =
            |text: &str, expected| assert_eq!(super::bytes(text.as_bytes()), expected, "{text}");
        is("0", Some(0));
        is("10MB", Some(10 << 20));
        is("1k", Some(1000));
        is("bla", None);
        is("-1", None);
        is("1x", None);
        is("99999999999gb", None);
    }
}
