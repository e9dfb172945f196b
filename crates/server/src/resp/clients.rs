//! Connections as shown by `CLIENT`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::listen::Address;
use crate::mail::Place;

/// The user of a connection that has not logged in.
const DEFAULT: &str = "default";

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) place: Place,
    /// Its remote and local address.
    ends: Option<(Address, Address)>,
    /// When it was accepted, in the server's milliseconds.
    since_ms: u64,
    pub(super) version: AtomicU8,
    pub(super) is_killed: AtomicBool,
    pub(super) has_gone: AtomicBool,
    /// As shown by `CLIENT GETREDIR`: -1 without tracking, 0 if it gets the messages itself, or the number of the
    /// client that does.
    pub(super) redirect: AtomicI64,
    /// Most clients tell nothing, and take no memory for it.
    pub(super) about: Mutex<Option<Box<About>>>,
}

/// A client's own description.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    /// Empty: `default`.
    user: Box<str>,
    pub(super) name: Box<str>,
    pub(super) library: Box<str>,
    pub(super) library_version: Box<str>,
}

impl Client {
    pub(super) fn set_name(&self, name: Box<str>) {
        let mut about = self.about.lock();
        if about.is_some() || !name.is_empty() {
            about.get_or_insert_default().name = name;
        }
    }

    pub(super) fn set_user(&self, user: &str) {
        let mut about = self.about.lock();
        let user = if user == DEFAULT { "" } else { user };
        if about.is_some() || !user.is_empty() {
            about.get_or_insert_default().user = user.into();
        }
    }

    /// The name of its user.
    pub(super) fn user(&self) -> Box<str> {
        let about = self.about.lock();
        let user = about.as_ref().map(|about| &about.user).filter(|user| !user.is_empty());
        user.map_or_else(|| DEFAULT.into(), |user| user.clone())
    }

    /// Its remote and local address as text.
    pub(super) fn shown_ends(&self) -> (String, String) {
        let shown = |address: &Address| match address {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(path) => format!("{}:0", path.display()),
        };
        self.ends.as_ref().map_or_else(Default::default, |(from, to)| (shown(from), shown(to)))
    }

    /// Seconds since it was accepted.
    pub(super) fn age_seconds(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.since_ms) / 1000
    }

    /// Its line in `CLIENT LIST`.
    pub(super) fn show(&self, now_ms: u64, text: &mut String) {
        let About { user: _, name, library, library_version } =
            self.about.lock().as_deref().cloned().unwrap_or_default();
        let user = self.user();
        let (from, to) = self.shown_ends();
        let Client { id, version, .. } = self;
        let redirect = self.redirect.load(Relaxed);
        let flags = if redirect < 0 { "N" } else { "t" };
        let age = self.age_seconds(now_ms);
        let version = version.load(Relaxed);
        let _ = writeln!(
            text,
            "id={id} addr={from} laddr={to} name={name} age={age} flags={flags} db=0 sub=0 psub=0 \
             user={user} redir={redirect} resp={version} lib-name={library} lib-ver={library_version}"
        );
    }
}

/// All connections of RESP.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    last_id: u64,
    by_id: BTreeMap<u64, Arc<Client>>,
}

impl Clients {
    pub(super) fn add(
        &self,
        ends: Option<(Address, Address)>,
        place: Place,
        since_ms: u64,
    ) -> Arc<Client> {
        let mut known = self.0.lock();
        known.last_id += 1;
        let client = Arc::new(Client {
            id: known.last_id,
            place,
            ends,
            since_ms,
            version: AtomicU8::new(2),
            is_killed: AtomicBool::new(false),
            has_gone: AtomicBool::new(false),
            redirect: AtomicI64::new(-1),
            about: Mutex::default(),
        });
        known.by_id.insert(client.id, Arc::clone(&client));
        client
    }

    pub(super) fn remove(&self, id: u64) {
        self.0.lock().by_id.remove(&id);
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().by_id.len()
    }

    /// The clients that match and were not killed: their thread may close a killed one later.
    pub(super) fn select(&self, is_meant: impl Fn(&Client) -> bool) -> Vec<Arc<Client>> {
        let known = self.0.lock();
        let is_there = |client: &&Arc<Client>| !client.is_killed.load(Relaxed) && is_meant(client);
        known.by_id.values().filter(is_there).cloned().collect()
    }
}
