//! A server that serves some slots of a cluster, and tells clients where the others are; `CLUSTER`.
//!
//! The map of slots does not change, so a request that is kept until `EXEC` is served where it was admitted.

use super::reply::{self, Version};
use super::slots::{self, SLOTS};
use super::{Call, Done, Problem, table};
use crate::cluster::{ClusterMap, Node};

pub(super) const CROSSES: &str = "CROSSSLOT Keys in request don't hash to the same slot";
const DISABLED: &str = "ERR This instance has cluster support disabled";

/// The map of a cluster, and this server's node.
#[derive(Debug)]
pub(crate) struct Cluster {
    map: ClusterMap,
    /// The index of this server's node.
    own: u16,
}

impl Cluster {
    /// The server is the node of index `own`.
    pub(crate) fn new(map: ClusterMap, own: u16) -> Cluster {
        Cluster { map, own }
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.map.owner(slots::slot(key)) == self.own
    }

    /// The slot of a request's keys, if it has any. An error sends its client to another node.
    pub(super) fn slot_of<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> Result<Option<u16>, Problem> {
        let mut slots = keys.into_iter().map(slots::slot);
        let Some(slot) = slots.next() else { return Ok(None) };
        if slots.any(|other| other != slot) {
            return Err(CROSSES.into());
        }
        let owner = self.map.owner(slot);
        if owner != self.own {
            let Node { host, port, .. } = self.node(owner);
            return Err(format!("MOVED {slot} {host}:{port}").into());
        }
        Ok(Some(slot))
    }

    fn node(&self, place: u16) -> &Node {
        &self.map.nodes()[usize::from(place)]
    }
}

pub(super) fn cluster(call: &mut Call<'_, '_>) -> Done {
    let (args, version) = (call.args, call.session.version);
    let Some(cluster) = &call.turn.shared.resp.cluster else { return Err(DISABLED.into()) };
    let out = &mut *call.turn.out;
    match (args.get(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"slots", 2) => show_slots(cluster, out),
        (b"shards", 2) => {
            let port = if call.turn.shared.tls.is_some() { "tls-port" } else { "port" };
            show_shards(cluster, out, port, version);
        }
        (b"nodes", 2) => reply::verbatim(out, nodes(cluster).as_bytes(), version),
        (b"info", 2) => reply::verbatim(out, info(cluster).as_bytes(), version),
        (b"myid", 2) => reply::bulk(out, cluster.node(cluster.own).id.as_bytes()),
        (b"keyslot", 3) => reply::integer(out, slots::slot(args.get(2)).into()),
        (b"countkeysinslot", 3) => return Err("ERR keys are not counted by slot".into()),
        _ => return Err(table::unknown_subcommand("cluster", args)),
    }
    Ok(())
}

/// `READONLY`, `READWRITE` and `ASKING`: there are no replicas, and no slot moves.
pub(super) fn no_effect(call: &mut Call<'_, '_>) -> Done {
    call.turn.shared.resp.cluster.as_ref().ok_or(DISABLED)?;
    reply::ok(call.turn.out);
    Ok(())
}

fn show_slots(cluster: &Cluster, out: &mut Vec<u8>) {
    reply::array(out, cluster.map.ranges().len());
    for (owner, slots) in cluster.map.ranges() {
        let node = cluster.node(*owner);
        reply::array(out, 3);
        reply::integer(out, *slots.start() as i64);
        reply::integer(out, *slots.end() as i64);
        // The last is for other addresses of the node.
        reply::array(out, 4);
        reply::bulk(out, node.host.as_bytes());
        reply::integer(out, node.port.into());
        reply::bulk(out, node.id.as_bytes());
        reply::array(out, 0);
    }
}

fn show_shards(cluster: &Cluster, out: &mut Vec<u8>, port: &str, version: Version) {
    reply::array(out, cluster.map.nodes().len());
    for node in cluster.map.nodes() {
        reply::map(out, 2, version);
        reply::bulk(out, b"slots");
        reply::array(out, 2 * node.ranges.len());
        for slots in &node.ranges {
            reply::integer(out, *slots.start() as i64);
            reply::integer(out, *slots.end() as i64);
        }
        reply::bulk(out, b"nodes");
        reply::array(out, 1);
        reply::map(out, 7, version);
        reply::bulk(out, b"id");
        reply::bulk(out, node.id.as_bytes());
        reply::bulk(out, port.as_bytes());
        reply::integer(out, node.port.into());
        for name in ["ip", "endpoint"] {
            reply::bulk(out, name.as_bytes());
            reply::bulk(out, node.host.as_bytes());
        }
        reply::bulk(out, b"role");
        reply::bulk(out, b"master");
        reply::bulk(out, b"replication-offset");
        reply::integer(out, 0);
        reply::bulk(out, b"health");
        reply::bulk(out, b"online");
    }
}

/// A line for each node. The port of a bus is 0, because there is none.
fn nodes(cluster: &Cluster) -> String {
    let mut text = String::new();
    for (place, Node { id, host, port, ranges, .. }) in (0..).zip(cluster.map.nodes()) {
        let flags = if place == cluster.own { "myself,master" } else { "master" };
        text += &format!("{id} {host}:{port}@0 {flags} - 0 0 {} connected", place + 1);
        for (first, last) in ranges.iter().map(|slots| (slots.start(), slots.end())) {
            text += &if first == last { format!(" {first}") } else { format!(" {first}-{last}") };
        }
        text.push('\n');
    }
    text
}

fn info(cluster: &Cluster) -> String {
    let nodes = cluster.map.nodes();
    let (count, with_slots) = (nodes.len(), nodes.iter().filter(|node| !node.ranges.is_empty()));
    format!(
        "cluster_enabled:1\r\ncluster_state:ok\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{SLOTS}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{count}\r\n\
         cluster_size:{}\r\ncluster_current_epoch:{count}\r\ncluster_my_epoch:{}\r\n",
        with_slots.count(),
        cluster.own + 1
    )
}
