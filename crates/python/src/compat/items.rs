//! The items of a cache, and which of them is evicted next.

use std::collections::HashMap;

use pyo3::prelude::*;

use super::number::Number;
use crate::table::{Entry, Order, Slot, Table};

/// Which item is evicted first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// The first inserted, in the order of a `dict`.
    Plain,
    /// The first inserted or set.
    Fifo,
    /// The one not used for longest.
    Lru,
    /// The one not used for longest; the order of insertion is that of the last assignment.
    Timed,
    /// The one used least often, and of those the first that was.
    Lfu,
    /// One that a function chooses.
    Random,
}

pub(super) struct Item {
    pub(super) value: Py<PyAny>,
    pub(super) size: Number,
    /// The end of its lifetime, as the owner noted it.
    pub(super) note: Option<Py<PyAny>>,
    /// LFU: how often it was used. Random: its position in `positions`.
    pub(super) rank: u64,
}

pub(super) struct Items {
    pub(super) table: Table<Item>,
    rule: Rule,
    pub(super) maxsize: Number,
    /// Whether values have sizes of their own.
    pub(super) sized: bool,
    pub(super) total: Number,
    /// LFU: the last, in order of eviction, of those that were used so often.
    last_of: HashMap<u64, Slot>,
    /// Random: all slots, densely.
    positions: Vec<Slot>,
}

/// The result of an assignment, with objects that the caller drops after the step.
#[expect(dead_code, reason = "what is held here is only dropped")]
pub(super) enum Put {
    Done(Option<Item>, Option<Py<PyAny>>),
    Full(Item, Py<PyAny>),
    Failed(PyErr, Item, Py<PyAny>),
}

impl Rule {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "plain" => Self::Plain,
            "fifo" => Self::Fifo,
            "lru" => Self::Lru,
            "timed" => Self::Timed,
            "lfu" => Self::Lfu,
            "random" => Self::Random,
            _ => return None,
        })
    }
}

impl Items {
    pub(super) fn new(rule: Rule) -> Self {
        Self {
            table: Table::new(),
            rule,
            maxsize: Number::ZERO,
            sized: false,
            total: Number::ZERO,
            last_of: HashMap::new(),
            positions: Vec::new(),
        }
    }

    /// Notes that an item was read.
    #[inline]
    pub(super) fn touch(&mut self, slot: Slot) {
        match self.rule {
            Rule::Lru | Rule::Timed => self.table.move_last(slot, Order::Eviction),
            Rule::Lfu => self.count(slot),
            Rule::Plain | Rule::Fifo | Rule::Random => {}
        }
    }

    /// Puts an item behind those that were used once more than it was.
    fn count(&mut self, slot: Slot) {
        let Some(uses) = self.table.entry(slot).map(|entry| entry.value.rank) else { return };
        let next = self.last_of.get(&(uses + 1)).copied();
        let last = self.last_of.get(&uses).copied();
        self.forget_count(slot);
        let ahead = next.or(last).unwrap_or(slot);
        if ahead != slot {
            self.table.move_behind(slot, ahead);
        }
        self.last_of.insert(uses + 1, slot);
        if let Some(entry) = self.table.entry_mut(slot) {
            entry.value.rank = uses + 1;
        }
    }

    /// Takes an item out of `last_of`, as it leaves those that were used as often.
    fn forget_count(&mut self, slot: Slot) {
        let Some(uses) = self.table.entry(slot).map(|entry| entry.value.rank) else { return };
        if self.last_of.get(&uses) != Some(&slot) {
            return;
        }
        let before = self.table.before(slot, Order::Eviction);
        let same =
            |&before: &Slot| self.table.entry(before).is_some_and(|entry| entry.value.rank == uses);
        match before.filter(same) {
            Some(before) => self.last_of.insert(uses, before),
            None => self.last_of.remove(&uses),
        };
    }

    /// Assigns, if there is room.
    pub(super) fn put(&mut self, slot: Option<Slot>, key: Py<PyAny>, hash: u64, item: Item) -> Put {
        let held = slot.and_then(|slot| self.table.entry(slot));
        let held = held.map_or(Number::ZERO, |entry| entry.value.size);
        if self.total.plus(item.size.minus(held)).exceeds(self.maxsize) {
            return Put::Full(item, key);
        }
        let Some(slot) = slot else { return self.insert(key, hash, item, 1) };
        let old = self.exchange(slot, item);
        match self.rule {
            Rule::Fifo => self.table.move_last(slot, Order::Eviction),
            Rule::Timed => self.table.move_last(slot, Order::Insertion),
            _ => {}
        }
        self.touch(slot);
        Put::Done(old, Some(key))
    }

    fn exchange(&mut self, slot: Slot, mut item: Item) -> Option<Item> {
        let entry = self.table.entry_mut(slot)?;
        item.rank = entry.value.rank;
        self.total = self.total.minus(entry.value.size).plus(item.size);
        Some(std::mem::replace(&mut entry.value, item))
    }

    /// Inserts an absent key behind those that were used as often.
    fn insert(&mut self, key: Py<PyAny>, hash: u64, mut item: Item, uses: u64) -> Put {
        if let Err(error) = self.table.reserve() {
            return Put::Failed(error, item, key);
        }
        item.rank = if self.rule == Rule::Random { self.positions.len() as u64 } else { uses };
        self.total = self.total.plus(item.size);
        let slot = self.table.insert(key, hash, item);
        match self.rule {
            Rule::Random => self.positions.push(slot),
            Rule::Lfu => match self.last_of.insert(uses, slot) {
                Some(last) => self.table.move_behind(slot, last),
                None => self.table.move_first(slot),
            },
            _ => {}
        }
        Put::Done(None, None)
    }

    /// Inserts an item with its uses, whatever the sizes; its order is set afterwards.
    pub(super) fn restore(
        &mut self,
        slot: Option<Slot>,
        key: Py<PyAny>,
        hash: u64,
        item: Item,
    ) -> Put {
        match slot {
            Some(slot) => Put::Done(self.exchange(slot, item), Some(key)),
            None => {
                let uses = item.rank;
                self.insert(key, hash, item, uses)
            }
        }
    }

    /// Takes an item out. The caller drops it, when the items are free.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Entry<Item>> {
        match self.rule {
            Rule::Lfu => self.forget_count(slot),
            Rule::Random => {
                let position = self.table.entry(slot)?.value.rank;
                self.positions.swap_remove(position as usize);
                let moved = self.positions.get(position as usize).copied();
                if let Some(moved) = moved.and_then(|moved| self.table.entry_mut(moved)) {
                    moved.value.rank = position;
                }
            }
            _ => {}
        }
        let entry = self.table.remove(slot)?;
        let rest = self.total.minus(entry.value.size);
        // Sums of floating-point numbers leave rests.
        self.total = if self.table.len() == 0 { Number::ZERO } else { rest };
        Some(entry)
    }

    /// Takes all items out. The caller drops them, when the items are free.
    pub(super) fn take(&mut self) -> Vec<Option<Entry<Item>>> {
        self.total = Number::ZERO;
        self.last_of.clear();
        self.positions.clear();
        self.table.take()
    }

    /// The slot at a position, of a cache whose victims are chosen.
    pub(super) fn at(&self, position: usize) -> Option<Slot> {
        self.positions.get(position).copied()
    }

    fn slots(&self, order: Order) -> impl Iterator<Item = Slot> {
        let first = self.table.first(order);
        std::iter::successors(first, move |&slot| self.table.after(slot, order))
    }

    /// All keys in the order of insertion.
    pub(super) fn keys<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        let entries = self.slots(Order::Insertion).filter_map(|slot| self.table.entry(slot));
        entries.map(|entry| entry.key.bind(py).clone()).collect()
    }

    /// All items in the order of insertion, and their positions there in that of eviction.
    pub(super) fn dump<'py>(&self, py: Python<'py>) -> (Vec<Raw<'py>>, Vec<usize>) {
        let mut position_of = HashMap::new();
        let mut items = Vec::with_capacity(self.table.len());
        for slot in self.slots(Order::Insertion) {
            let Some(entry) = self.table.entry(slot) else { continue };
            position_of.insert(slot, items.len());
            let item = &entry.value;
            let note = item.note.as_ref().map(|note| note.bind(py).clone());
            let value = item.value.bind(py).clone();
            items.push((entry.key.bind(py).clone(), value, item.size, note, item.rank));
        }
        let order: Vec<Slot> = match self.rule {
            Rule::Random => self.positions.clone(),
            _ => self.slots(Order::Eviction).collect(),
        };
        (items, order.iter().filter_map(|slot| position_of.get(slot).copied()).collect())
    }

    /// Sets the order of eviction of restored items. False if it does not name each of them once.
    pub(super) fn restore_order(&mut self, order: &[usize]) -> bool {
        let slots: Vec<Slot> = self.slots(Order::Insertion).collect();
        let mut named = vec![false; slots.len()];
        for &position in order {
            match named.get_mut(position) {
                Some(named) if !*named => *named = true,
                _ => return false,
            }
        }
        if order.len() != slots.len() {
            return false;
        }
        self.last_of.clear();
        self.positions.clear();
        for slot in order.iter().map(|&position| slots[position]) {
            self.table.move_last(slot, Order::Eviction);
            let position = self.positions.len() as u64;
            let Some(entry) = self.table.entry_mut(slot) else { continue };
            match self.rule {
                Rule::Lfu => drop(self.last_of.insert(entry.value.rank, slot)),
                Rule::Random => {
                    entry.value.rank = position;
                    self.positions.push(slot);
                }
                _ => {}
            }
        }
        true
    }
}

/// Key, value, size, note, uses.
pub(super) type Raw<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Number, Option<Bound<'py, PyAny>>, u64);
