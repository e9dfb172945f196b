//! Memory of the policies with the most data beside an entry: resident set of a
//! full cache of a million objects with full histories, per object.
//!
//!     cargo run --release -p frazil-policy --example memory

use frazil_policy::{
    Cacheus, Eviction, Host, Incoming, Lecar, Lru, Policy, Rng, S3Fifo, Slot, object_hash,
};

const OBJECTS: u64 = 1_000_000;
const REQUESTS: u64 = 20_000_000;

/// Ids by slot: the host's only data beside its index.
struct Ids<M> {
    ids: Vec<u32>,
    meta: Vec<M>,
}

impl<M> Host<M> for Ids<M> {
    fn now(&self) -> u64 {
        0
    }
    fn meta(&self, slot: Slot) -> &M {
        &self.meta[slot.index()]
    }
    fn hash(&self, slot: Slot) -> u64 {
        object_hash(u64::from(self.ids[slot.index()]), 1)
    }
    fn weight(&self, _: Slot) -> u64 {
        1
    }
}

/// Bytes resident, if the kernel reports them.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

fn measure<P: Policy>(name: &str, policy: P, history: impl Fn(&P) -> Option<usize>) {
    let ids = 4 * OBJECTS;
    let mut slot_of = vec![u32::MAX; ids as usize];
    slot_of.fill(u32::MAX - 1);
    let mut host = Ids {
        ids: vec![u32::MAX; OBJECTS as usize],
        meta: (0..OBJECTS).map(|_| P::Meta::default()).collect(),
    };
    let before = resident();
    let mut policy = policy;
    let mut rng = Rng::new(1);
    let mut used = 0;
    for _ in 0..REQUESTS {
        // The product of two uniform numbers: skewed, with a long tail.
        let id = ((rng.unit() * rng.unit()) * ids as f64) as usize;
        if slot_of[id] < u32::MAX - 1 {
            policy.hit(&mut host, Slot(slot_of[id]));
            continue;
        }
        let hash = object_hash(id as u64, 1);
        let pending = policy.miss(&mut host, hash, 1);
        let incoming = Incoming { hash, weight: 1, pending };
        let slot = if used < OBJECTS {
            used += 1;
            Slot(used as u32 - 1)
        } else {
            let Eviction::Victim(slot) = policy.evict(&mut host, Some(&incoming)) else {
                continue;
            };
            slot_of[host.ids[slot.index()] as usize] = u32::MAX - 1;
            slot
        };
        host.ids[slot.index()] = id as u32;
        slot_of[id] = slot.0;
        policy.insert(&mut host, slot, incoming);
    }
    let grown = resident().zip(before).map(|(after, before)| after.saturating_sub(before));
    let per_object = |bytes: usize| format!("{:.1}", bytes as f64 / OBJECTS as f64);
    println!(
        "{name:8} {:>7} bytes an object, of them {:>6} for histories",
        grown.map_or("?".to_owned(), per_object),
        history(&policy).map_or("?".to_owned(), per_object),
    );
}

fn main() {
    measure("lru", Lru::default(), |_| Some(0));
    measure("s3-fifo", S3Fifo::new(OBJECTS), |policy| Some(policy.ghost_bytes()));
    measure("lecar", Lecar::new(OBJECTS, 1), |policy| Some(policy.history_bytes()));
    measure("cacheus", Cacheus::new(OBJECTS, 1), |policy| Some(policy.history_bytes()));
}
