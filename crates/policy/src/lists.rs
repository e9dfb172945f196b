//! Doubly linked lists threaded through slots: the order in which most policies
//! keep objects.
//!
//! `K` lists share one array of links, so an object moves from list to list
//! without allocation. Each list is a ring through a sentinel; that removes the
//! empty and end cases from every operation. 8 bytes a slot, 8 a list, all
//! operations O(1).

use crate::Slot;

#[derive(Clone, Copy, Debug)]
struct Link {
    /// Towards the head.
    newer: u32,
    /// Towards the tail.
    older: u32,
}

/// `K` lists over one set of slots. A slot is in at most one of them; the policy
/// knows which one.
///
/// ```
/// use frazil_policy::{Lists, Slot};
/// let mut lists = Lists::<1>::new();
/// lists.push_head(0, Slot(5));
/// lists.push_head(0, Slot(3));
/// assert_eq!(lists.tail(0), Some(Slot(5)));
/// assert_eq!(lists.newer(Slot(5)), Some(Slot(3)));
/// lists.unlink(Slot(5));
/// assert_eq!(lists.tail(0), Some(Slot(3)));
/// ```
#[derive(Clone, Debug)]
pub struct Lists<const K: usize> {
    /// Nodes `0..K` are the sentinels; slot `s` is node `s + K`.
    links: Vec<Link>,
}

/// [`Lists::in_order`], compiled once for all `K`.
fn in_order(links: &[Link], sentinels: u32, lists: &[usize]) -> Vec<Slot> {
    let mut order = Vec::new();
    for &list in lists {
        let mut node = links[list].newer;
        while node >= sentinels {
            order.push(Slot(node - sentinels));
            node = links[node as usize].newer;
        }
    }
    order
}

impl<const K: usize> Default for Lists<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const K: usize> Lists<K> {
    /// `K` empty lists.
    pub fn new() -> Self {
        let links = (0..K as u32).map(|node| Link { newer: node, older: node }).collect();
        Lists { links }
    }

    /// `K` empty lists that allocate no more as long as slots stay below `slots`.
    pub fn with_capacity(slots: usize) -> Self {
        let mut lists = Self::new();
        lists.links.reserve_exact(slots);
        lists
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
    }

    #[inline]
    fn node(slot: Slot) -> u32 {
        slot.0 + K as u32
    }

    #[inline]
    fn slot(node: u32) -> Option<Slot> {
        node.checked_sub(K as u32).map(Slot)
    }

    /// Links `node` between two neighbours.
    #[inline]
    fn link(&mut self, newer: u32, node: u32, older: u32) {
        self.links[node as usize] = Link { newer, older };
        self.links[newer as usize].older = node;
        self.links[older as usize].newer = node;
    }

    /// Grows the list to contain `slot`. Called before a slot is linked for the first time.
    #[inline]
    fn reserve(&mut self, slot: Slot) {
        let wanted = slot.index() + K + 1;
        if wanted > self.links.len() {
            self.grow(wanted);
        }
    }

    /// Grows by a quarter, not by doubling: at most a fifth of a full cache's links is unused.
    #[cold]
    fn grow(&mut self, wanted: usize) {
        if wanted > self.links.capacity() {
            self.links.reserve_exact(wanted + wanted / 4 - self.links.len());
        }
        self.links.resize(wanted, Link { newer: u32::MAX, older: u32::MAX });
    }

    /// An upper bound on the slots in all lists: the allocated number.
    #[inline]
    pub fn room(&self) -> usize {
        self.links.len() - K
    }

    /// Links an unlinked slot at the newest end of `list`.
    #[inline]
    pub fn push_head(&mut self, list: usize, slot: Slot) {
        self.reserve(slot);
        self.link(list as u32, Self::node(slot), self.links[list].older);
    }

    /// Links an unlinked slot at the oldest end of `list`.
    #[inline]
    pub fn push_tail(&mut self, list: usize, slot: Slot) {
        self.reserve(slot);
        self.link(self.links[list].newer, Self::node(slot), list as u32);
    }

    /// Links an unlinked slot directly above a linked one, in the same list.
    #[inline]
    pub fn push_above(&mut self, below: Slot, slot: Slot) {
        self.reserve(slot);
        let below = Self::node(below);
        self.link(self.links[below as usize].newer, Self::node(slot), below);
    }

    /// Links an unlinked slot right behind `anchor`, towards the tail.
    #[inline]
    pub fn insert_behind(&mut self, anchor: Slot, slot: Slot) {
        self.reserve(slot);
        let anchor = Self::node(anchor);
        self.link(anchor, Self::node(slot), self.links[anchor as usize].older);
    }

    /// Takes a linked slot out of whichever list it is in.
    #[inline]
    pub fn unlink(&mut self, slot: Slot) {
        let Link { newer, older } = self.links[Self::node(slot) as usize];
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
    }

    /// Moves a linked slot to the head of `list`.
    #[inline]
    pub fn move_to_head(&mut self, list: usize, slot: Slot) {
        self.unlink(slot);
        self.link(list as u32, Self::node(slot), self.links[list].older);
    }

    /// Moves a linked slot to the tail of `list`.
    #[inline]
    pub fn move_to_tail(&mut self, list: usize, slot: Slot) {
        self.unlink(slot);
        self.link(self.links[list].newer, Self::node(slot), list as u32);
    }

    /// The newest slot of `list`.
    #[inline]
    pub fn head(&self, list: usize) -> Option<Slot> {
        Self::slot(self.links[list].older)
    }

    /// The newest slot of the first list below `list`, counting down, that holds any.
    /// O(`list`).
    pub fn head_below(&self, list: usize) -> Option<Slot> {
        (0..list).rev().find_map(|list| self.head(list))
    }

    /// The oldest slot of `list`.
    #[inline]
    pub fn tail(&self, list: usize) -> Option<Slot> {
        Self::slot(self.links[list].newer)
    }

    /// The next slot towards the head, or `None` from the head.
    #[inline]
    pub fn newer(&self, slot: Slot) -> Option<Slot> {
        Self::slot(self.links[Self::node(slot) as usize].newer)
    }

    /// The next slot towards the tail, or `None` from the tail.
    #[inline]
    pub fn older(&self, slot: Slot) -> Option<Slot> {
        Self::slot(self.links[Self::node(slot) as usize].older)
    }

    /// Whether `list` holds nothing.
    #[inline]
    pub fn is_empty(&self, list: usize) -> bool {
        self.links[list].older == list as u32
    }

    /// Moves everything behind `slot` in `list`, from the tail up to it, to the head, in
    /// order: `slot` becomes the tail. O(1), because in a ring only the sentinel moves.
    #[inline]
    pub fn rotate_to(&mut self, list: usize, slot: Slot) {
        let node = Self::node(slot);
        let sentinel = list as u32;
        let Link { newer: tail, older: head } = self.links[list];
        if tail != node {
            self.links[head as usize].newer = tail;
            self.links[tail as usize].older = head;
            let last = self.links[node as usize].older;
            self.link(node, sentinel, last);
        }
    }

    /// Cuts everything from the head of `from` down to and including `last` off
    /// and puts it, in order, at the head of `to`. O(1).
    pub fn splice_head(&mut self, from: usize, last: Slot, to: usize) {
        let first = self.links[from].older;
        let last = Self::node(last);
        let rest = self.links[last as usize].older;
        self.links[from].older = rest;
        self.links[rest as usize].newer = from as u32;
        let below = self.links[to].older;
        self.links[to].older = first;
        self.links[first as usize].newer = to as u32;
        self.links[last as usize].older = below;
        self.links[below as usize].newer = last;
    }

    /// Moves everything in `from`, in order, to the head of `to`. O(1).
    #[inline]
    pub fn splice_all(&mut self, from: usize, to: usize) {
        if let Some(last) = self.tail(from) {
            self.splice_head(from, last, to);
        }
    }

    /// The slots of `list` from tail to head.
    pub fn from_tail(&self, list: usize) -> impl Iterator<Item = Slot> + '_ {
        std::iter::successors(self.tail(list), |&slot| self.newer(slot))
    }

    /// The slots of some lists, one list after the other, each from tail to head.
    pub fn in_order(&self, lists: &[usize]) -> Vec<Slot> {
        in_order(&self.links, K as u32, lists)
    }

    /// The slots of two lists from their tails: of `first` until a weight of `surplus` is passed,
    /// then of `second`, then the rest of `first`.
    pub fn from_tails(
        &self,
        [first, second]: [usize; 2],
        mut surplus: u64,
        weight: impl Fn(Slot) -> u64,
    ) -> Vec<Slot> {
        let mut first = self.from_tail(first);
        let mut order = Vec::new();
        while surplus > 0
            && let Some(slot) = first.next()
        {
            surplus = surplus.saturating_sub(weight(slot));
            order.push(slot);
        }
        order.extend(self.from_tail(second).chain(first));
        order
    }

    /// The slots of `list` from head to tail.
    pub fn iter(&self, list: usize) -> impl Iterator<Item = Slot> + '_ {
        std::iter::successors(self.head(list), |&slot| self.older(slot))
    }
}
