//! A static map of a cluster: which node serves which slots.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::Deserialize;
use toml::Spanned;

use crate::resp::SLOTS;

/// The most nodes of a map.
const NODES_MAX: usize = 1000;
/// The longest name of a node or of a host.
const NAME_BYTES_MAX: usize = 255;

/// The server of each of the 16,384 slots of Redis Cluster.
///
/// It is parsed from TOML, is the same for all servers, and does not change while a server runs. A server finds its own node by
/// `self`, if the map has it, and otherwise by the address at which it listens.
///
/// ```
/// use frazil_server::ClusterMap;
///
/// let map: Result<ClusterMap, _> = r#"
///     self = "one"
///     [[nodes]]
///     name = "one"
///     address = "10.0.0.1:6379"
///     slots = ["0-8000"]
///     [[nodes]]
///     name = "two"
///     address = "10.0.0.2:6379"
///     slots = ["8002-16383"]
/// "#
/// .parse();
/// assert_eq!(map.unwrap_err().to_string(), "slot 8001 belongs to no node");
/// ```
#[derive(Clone, Debug)]
pub struct ClusterMap {
    nodes: Vec<Node>,
    /// The index of each slot's node.
    owners: Box<[u16]>,
    /// Runs of slots of one node, in order.
    ranges: Vec<(u16, RangeInclusive<usize>)>,
    /// This server's node, if the map names it.
    own: Option<u16>,
}

/// A server of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    name: String,
    /// 40 hexadecimal digits, as clients expect.
    pub(crate) id: String,
    /// A name, or an address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Its runs of slots, in order.
    pub(crate) ranges: Vec<RangeInclusive<usize>>,
}

/// An invalid map of a cluster, or one without this server.
#[derive(Clone, Debug)]
pub struct ClusterMapError {
    /// Line of the text, from 1.
    line: Option<usize>,
    what: String,
}

impl ClusterMapError {
    pub(crate) fn new(what: String) -> ClusterMapError {
        ClusterMapError { line: None, what }
    }
}

impl fmt::Display for ClusterMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for ClusterMapError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "self")]
    own: Option<Spanned<String>>,
    nodes: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    address: Spanned<String>,
    slots: Vec<Spanned<String>>,
}

impl FromStr for ClusterMap {
    type Err = ClusterMapError;

    /// Reads a map from TOML. The error says in which line it is wrong, or which slots have no node.
    fn from_str(text: &str) -> Result<ClusterMap, ClusterMapError> {
        let line = |begin: usize| {
            let before = &text.as_bytes()[..begin.min(text.len())];
            Some(before.iter().filter(|&&byte| byte == b'\n').count() + 1)
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().and_then(|span| line(span.start));
            ClusterMapError { line, what: error.message().to_owned() }
        })?;
        let at = |place: &Spanned<String>, what: String| ClusterMapError {
            line: line(place.span().start),
            what,
        };
        if file.nodes.len() > NODES_MAX {
            return Err(ClusterMapError::new(format!("more than {NODES_MAX} nodes")));
        }
        let mut nodes: Vec<Node> = Vec::new();
        let mut owners = vec![None; SLOTS];
        for entry in &file.nodes {
            let node = Node::of(entry).map_err(|(place, what)| at(place, what))?;
            if let Some(same) = nodes.iter().find(|other| other.id == node.id) {
                return Err(at(&entry.name, format!("there is a node `{}` already", same.name)));
            }
            let is_there = |other: &&Node| (&other.host, other.port) == (&node.host, node.port);
            if let Some(same) = nodes.iter().find(is_there) {
                return Err(at(&entry.address, format!("`{}` has that address", same.name)));
            }
            for range in &entry.slots {
                let own = nodes.len() as u16;
                give(&mut owners, range.get_ref(), own, &nodes).map_err(|what| at(range, what))?;
            }
            nodes.push(node);
        }
        let own = match &file.own {
            None => None,
            Some(name) => {
                let found = nodes.iter().position(|node| node.name == *name.get_ref());
                let missing = || at(name, format!("no node has the name `{}`", name.get_ref()));
                Some(found.ok_or_else(missing)? as u16)
            }
        };
        let owners = all(&owners)?;
        let ranges: Vec<_> = ranges(&owners).collect();
        for (owner, slots) in &ranges {
            nodes[usize::from(*owner)].ranges.push(slots.clone());
        }
        Ok(ClusterMap { nodes, owners, ranges, own })
    }
}

/// Assigns slots to the node of index `own`.
fn give(owners: &mut [Option<u16>], text: &str, own: u16, nodes: &[Node]) -> Result<(), String> {
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|&slot| slot < SLOTS);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..=last,
        _ => return Err(format!("`{text}`: slots are from 0 to 16383, as in \"0-5460\"")),
    };
    let taken = |slot: &usize| owners[*slot].is_some();
    if let Some(first) = range.clone().find(taken) {
        let owner = owners[first];
        let last = (first..=*range.end()).take_while(|&slot| owners[slot] == owner).last();
        let shown = shown(&(first..=last.unwrap_or(first)));
        let name = owner.and_then(|owner| nodes.get(usize::from(owner)));
        return Err(match name {
            Some(node) => format!("{shown} to node `{}` already", node.name),
            None => format!("{shown} to this node already"),
        });
    }
    owners[range].fill(Some(own));
    Ok(())
}

/// The nodes of all slots, if each has one.
fn all(owners: &[Option<u16>]) -> Result<Box<[u16]>, ClusterMapError> {
    let Some(first) = owners.iter().position(Option::is_none) else {
        return Ok(owners.iter().flatten().copied().collect());
    };
    let count = owners[first..].iter().take_while(|owner| owner.is_none()).count();
    let shown = shown(&(first..=first + count - 1));
    Err(ClusterMapError::new(format!("{shown} to no node")))
}

/// Runs of slots of one node, in order.
fn ranges(owners: &[u16]) -> impl Iterator<Item = (u16, RangeInclusive<usize>)> {
    let mut begin = 0;
    owners.chunk_by(|one, other| one == other).map(move |run| {
        let first = begin;
        begin += run.len();
        (run[0], first..=begin - 1)
    })
}

fn shown(slots: &RangeInclusive<usize>) -> String {
    match (slots.start(), slots.end()) {
        (first, last) if first == last => format!("slot {first} belongs"),
        (first, last) => format!("slots {first}-{last} belong"),
    }
}

impl Node {
    fn of(entry: &Entry) -> Result<Node, (&Spanned<String>, String)> {
        let name = entry.name.get_ref();
        // `CLUSTER NODES` separates name and address by spaces, commas and `@`.
        let is_word = |text: &str| {
            (1..=NAME_BYTES_MAX).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@' && byte != b',')
        };
        if !is_word(name) {
            let what = "a name has 1 to 255 visible characters of ASCII, and no `@` or `,`";
            return Err((&entry.name, what.into()));
        }
        let address = entry.address.get_ref();
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match inner {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
            None => is_word(host) && !host.contains(':'),
        };
        match port.parse() {
            Ok(port @ 1..) if is_host => {
                let host = inner.unwrap_or(host).to_owned();
                Ok(Node { id: id(name), name: name.clone(), host, port, ranges: Vec::new() })
            }
            _ => Err((
                &entry.address,
                format!("`{address}`: `HOST:PORT` or `[IPV6]:PORT`, as clients reach the node"),
            )),
        }
    }

    /// Whether a server at one of these addresses is this node.
    fn is_at(&self, listens: &[SocketAddr]) -> bool {
        let mut on_port = listens.iter().filter(|address| address.port() == self.port).peekable();
        if on_port.peek().is_none() {
            return false;
        }
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let hosts: Vec<IpAddr> = found.into_iter().flatten().map(|found| found.ip()).collect();
        on_port.any(|address| {
            hosts.contains(&address.ip())
                || address.ip().is_unspecified() && hosts.iter().any(|&host| is_here(host))
        })
    }
}

/// Whether an address belongs to this machine: a socket can be bound to no other.
fn is_here(host: IpAddr) -> bool {
    UdpSocket::bind((host, 0)).is_ok()
}

/// The id of a node: its name if that is an id, else 40 digits derived from it, the same in each process.
fn id(name: &str) -> String {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if name.len() == 40 && name.bytes().all(is_digit) {
        return name.to_owned();
    }
    // FNV-1a, with the number of the part before the name.
    let sum = |part: u8| {
        let bytes = std::iter::once(part).chain(name.bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    };
    let mut digits: String = (0..3).map(|part| format!("{:016x}", sum(part))).collect();
    digits.truncate(40);
    digits
}

impl ClusterMap {
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The index of a slot's node.
    #[inline]
    pub(crate) fn owner(&self, slot: u16) -> u16 {
        self.owners[usize::from(slot)]
    }

    /// Runs of slots of one node, in order.
    pub(crate) fn ranges(&self) -> &[(u16, RangeInclusive<usize>)] {
        &self.ranges
    }

    /// The index of the node of a server that listens at these addresses.
    pub(crate) fn own(&self, listens: &[SocketAddr]) -> Result<u16, ClusterMapError> {
        if let Some(own) = self.own {
            return Ok(own);
        }
        let mut found = (0..).zip(&self.nodes).filter(|(_, node)| node.is_at(listens));
        let shown: Vec<String> = listens.iter().map(SocketAddr::to_string).collect();
        let shown = shown.join(", ");
        match (found.next(), found.next()) {
            (Some((own, _)), None) => Ok(own),
            (Some((_, one)), Some((_, other))) => Err(ClusterMapError::new(format!(
                "nodes `{}` and `{}` are both at {shown}: `self = \"NAME\"` in the map decides",
                one.name, other.name
            ))),
            _ => Err(ClusterMapError::new(format!(
                "no node is at {shown}, where RESP is served: `self = \"NAME\"` in the map says which this is"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(nodes: &str) -> Result<ClusterMap, String> {
        nodes.parse().map_err(|error: ClusterMapError| error.to_string())
    }

    fn node(name: &str, address: &str, slots: &str) -> String {
        format!("[[nodes]]\nname = \"{name}\"\naddress = \"{address}\"\nslots = [{slots}]\n")
    }

    #[test]
    fn every_slot_has_one_node() {
        let a = node("a", "h:1", r#""0-99", "16383""#);
        let whole = map(&(a.clone() + &node("b", "[::1]:2", r#""100-16382""#))).unwrap();
        assert_eq!(whole.ranges(), [(0, 0..=99), (1, 100..=16382), (0, 16383..=16383)]);
        assert_eq!(whole.nodes[0].ranges, [0..=99, 16383..=16383]);
        assert_eq!((&*whole.nodes[1].host, whole.nodes[1].port), ("::1", 2));
        assert_eq!([99, 100, 16382, 16383].map(|slot| whole.owner(slot)), [0, 1, 1, 0]);
        for (rest, told) in [
            (node("b", "h:2", r#""100-200", "300-16382""#), "slots 201-299 belong to no node"),
            (node("b", "h:2", r#""101-16382""#), "slot 100 belongs to no node"),
            (node("b", "h:2", "\n\"90-16382\""), "line 9: slots 90-99 belong to node `a` already"),
            (
                node("b", "h:2", r#""100-200", "200-16382""#),
                "line 8: slot 200 belongs to this node already",
            ),
            (node("b", "h:2", r#""100-16384""#), "line 8: `100-16384`: slots are from 0"),
            (node("b", "h:2", r#""200-100""#), "line 8: `200-100`: slots are from 0"),
            (node("a", "h:2", ""), "line 6: there is a node `a` already"),
            (node("b", "h:1", ""), "line 7: `a` has that address"),
            (node("b", "h", ""), "line 7: `h`: `HOST:PORT`"),
            (node("b", "::1:2", ""), "line 7: `::1:2`: `HOST:PORT`"),
            (node("b", "h:0", ""), "line 7: `h:0`: `HOST:PORT`"),
            (node("b c", "h:2", ""), "line 6: a name has"),
            ("nodess = 1".into(), "line 5"),
            ("[[nodes]]\nname = \"b\"".into(), "line 5: missing field `address`"),
        ] {
            let error = map(&(a.clone() + &rest)).unwrap_err();
            assert!(error.starts_with(told), "{error}\n{told}");
        }
        let error = map(&("self = \"c\"\n".to_owned() + &a)).unwrap_err();
        assert_eq!(error, "line 1: no node has the name `c`");
    }

    #[test]
    fn a_server_knows_itself_by_name_or_by_address() {
        let nodes = node("a", "127.0.0.1:7001", r#""0-99""#)
            + &node("b", "127.0.0.1:7002", r#""100-16383""#)
            + &node("c", "192.0.2.1:7001", "");
        let at = |address: &str| map(&nodes).unwrap().own(&[address.parse().unwrap()]);
        assert_eq!(at("127.0.0.1:7002").unwrap(), 1);
        assert_eq!(at("0.0.0.0:7001").unwrap(), 0);
        for nowhere in ["127.0.0.1:7003", "127.0.0.2:7001"] {
            let error = at(nowhere).unwrap_err().to_string();
            assert!(error.starts_with(&format!("no node is at {nowhere}")), "{error}");
        }
        let both = map(&nodes).unwrap();
        let both = both.own(&["127.0.0.1:7001", "127.0.0.1:7002"].map(|at| at.parse().unwrap()));
        assert!(both.unwrap_err().to_string().contains("nodes `a` and `b` are both at"));
        let named = map(&("self = \"c\"\n".to_owned() + &nodes)).unwrap();
        assert_eq!(named.own(&[]).unwrap(), 2);
    }

    #[test]
    fn ids_are_forty_digits_of_their_name() {
        let own = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(id(own), own);
        let ids = ["a", "b", &own[1..], &own.to_uppercase()].map(id);
        for (at, id) in ids.iter().enumerate() {
            assert!(id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
            assert!(!ids[..at].contains(id));
        }
    }
}
