//! Groups of objects by write time, and which objects are in which.
//!
//! Groups are in a list by write time; the last one is open. Beside its group an object
//! costs 8 bytes, and 4 for its place in the group's array.

use crate::{GroupLearning, Slot};

/// No group, and the end of the list.
pub(super) const NONE: u32 = u32::MAX;
/// In place of a sample: the group holds objects that came from samples, and have ghosts.
pub(super) const HEIR: u32 = NONE - 1;
/// Number of features.
pub(super) const FEATURES: usize = 7;
/// Features in the order in which a smaller number of them is shown: requests, age, mean size,
/// active objects, rates.
const SHOWN_FIRST: [usize; FEATURES] = [5, 4, 3, 6, 0, 1, 2];
/// With fewer groups a ranking has no choice, so a small cache has smaller groups.
const LEAST_GROUPS: u32 = 32;

/// Set in [`Object::place`] once the object was requested since it was written.
const ACTIVE: u32 = 1 << 31;
/// Instead of a place: not in a group, evicted next.
const CONDEMNED: u32 = ACTIVE - 1;
/// Instead of a place: not resident.
const ABSENT: u32 = ACTIVE - 2;
/// A place whose object has left.
const HOLE: Slot = Slot(u32::MAX);

/// An object as the policy knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    /// When it was last requested, in requests. Wraps.
    pub(super) last: u32,
    /// Where it is in [`Groups::members`], and [`ACTIVE`].
    place: u32,
}

impl Object {
    pub(super) fn is_active(self) -> bool {
        self.place & ACTIVE != 0
    }
}

/// The fields of a group that a hit reads and writes. Separate from the rest, so that those of all
/// groups fit into the first levels of the processor's cache: 12 bytes a group instead of 60.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    /// Fractional once groups were merged.
    pub(super) requests: f32,
    pub(super) active: f32,
    /// The group's sample number, [`HEIR`] or [`NONE`].
    pub(super) sample: u32,
}

const EMPTY: Tally = Tally { requests: 0.0, active: 0.0, sample: NONE };

/// A group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) older: u32,
    pub(super) newer: u32,
    /// Places filled, including holes, and objects still present.
    pub(super) filled: u32,
    pub(super) live: u32,
    pub(super) bytes: u64,
    /// When its first object was written, in seconds.
    pub(super) written: f64,
    /// Request rate, write rate, miss ratio when the group was written.
    pub(super) states: [f32; 3],
    /// The number of the ranking that includes the group.
    pub(super) ranking: u32,
}

impl Group {
    fn new(written: f64) -> Self {
        Group {
            older: NONE,
            newer: NONE,
            filled: 0,
            live: 0,
            bytes: 0,
            written,
            states: [0.0; 3],
            ranking: 0,
        }
    }
}

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    Group(u32),
    Condemned,
    Absent,
}

/// All groups, and all objects in them.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    segment: u32,
    /// Features hidden from the model.
    hidden: &'static [usize],
    /// A group's members begin at its number shifted by this.
    shift: u32,
    groups: Vec<Group>,
    tallies: Vec<Tally>,
    vacant: Vec<u32>,
    members: Vec<Slot>,
    objects: Vec<Object>,
    pub(super) oldest: u32,
    /// Where the next merge begins while there is no model; [`NONE`] at the oldest.
    pub(super) cursor: u32,
    /// The newest group, which takes written objects; [`NONE`] if the next object opens a new
    /// group.
    pub(super) open: u32,
    newest: u32,
    /// Groups that are not open.
    pub(super) closed: u32,
    /// Objects in groups.
    pub(super) live: u32,
}

impl Groups {
    pub(super) fn new(settings: &GroupLearning) -> Self {
        let shift = settings.segment.next_power_of_two().trailing_zeros();
        Groups {
            segment: settings.segment,
            hidden: &SHOWN_FIRST[(settings.features as usize).min(FEATURES)..],
            shift,
            groups: Vec::new(),
            tallies: Vec::new(),
            vacant: Vec::new(),
            members: Vec::new(),
            objects: Vec::new(),
            oldest: NONE,
            cursor: NONE,
            open: NONE,
            newest: NONE,
            closed: 0,
            live: 0,
        }
    }

    #[inline]
    pub(super) fn tally(&self, group: u32) -> &Tally {
        &self.tallies[group as usize]
    }

    #[inline]
    pub(super) fn tally_mut(&mut self, group: u32) -> &mut Tally {
        &mut self.tallies[group as usize]
    }

    /// The seven features of a group at a time in seconds.
    pub(super) fn features(&self, group: u32, seconds: f64) -> [f32; FEATURES] {
        let Tally { requests, active, .. } = *self.tally(group);
        let group = self.get(group);
        let [request_rate, write_rate, miss_ratio] = group.states;
        let mean_size = group.bytes as f32 / group.live.max(1) as f32;
        let age = (seconds - group.written) as f32;
        let mut features = [request_rate, write_rate, miss_ratio, mean_size, age, requests, active];
        self.hidden.iter().for_each(|&hidden| features[hidden] = 0.0);
        features
    }

    /// The initial fields of a group into which others are merged: the mean of theirs, except the
    /// active objects, which are counted when they arrive.
    pub(super) fn mean(&self, merged: &[u32]) -> (Group, Tally) {
        let (mut mean, mut tally) = (Group::new(0.0), EMPTY);
        for &number in merged {
            let group = self.get(number);
            mean.written += group.written;
            tally.requests += self.tally(number).requests;
            tally.sample = if self.tally(number).sample == NONE { tally.sample } else { HEIR };
            for (sum, state) in mean.states.iter_mut().zip(group.states) {
                *sum += state;
            }
        }
        let count = merged.len() as f32;
        mean.written /= f64::from(count);
        mean.states = mean.states.map(|sum| sum / count);
        tally.requests /= count;
        (mean, tally)
    }

    #[inline]
    pub(super) fn get(&self, group: u32) -> &Group {
        &self.groups[group as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, group: u32) -> &mut Group {
        &mut self.groups[group as usize]
    }

    #[inline]
    pub(super) fn object(&self, slot: Slot) -> Object {
        self.objects[slot.index()]
    }

    #[inline]
    pub(super) fn whereabouts(&self, slot: Slot) -> Whereabouts {
        match self.objects.get(slot.index()).map_or(ABSENT, |object| object.place & !ACTIVE) {
            ABSENT => Whereabouts::Absent,
            CONDEMNED => Whereabouts::Condemned,
            place => Whereabouts::Group(place >> self.shift),
        }
    }

    /// An object in a group is requested. Returns its previous request.
    #[inline]
    pub(super) fn request(&mut self, slot: Slot, group: u32, now: u32) -> u32 {
        let object = &mut self.objects[slot.index()];
        let group = &mut self.tallies[group as usize];
        group.requests += 1.0;
        group.active += if object.is_active() { 0.0 } else { 1.0 };
        object.place |= ACTIVE;
        std::mem::replace(&mut object.last, now)
    }

    /// Most objects of the next group.
    pub(super) fn limit(&self) -> u32 {
        (self.live / LEAST_GROUPS).clamp(1, self.segment)
    }

    /// Writes an object at the end of the open group. True if the group is full now.
    #[inline]
    pub(super) fn write(&mut self, slot: Slot, bytes: u64, now: u32, seconds: f64) -> bool {
        if self.open == NONE {
            self.open = self.begin(Group::new(seconds), EMPTY);
            self.link(self.open, self.newest);
        }
        if self.objects.len() <= slot.index() {
            self.objects.resize(slot.index() + 1, Object { last: 0, place: ABSENT });
        }
        self.objects[slot.index()] = Object { last: now, place: 0 };
        self.put(self.open, slot, bytes);
        self.get(self.open).filled >= self.limit()
    }

    /// Puts an object in the next place of a group.
    pub(super) fn put(&mut self, group: u32, slot: Slot, bytes: u64) {
        let into = &mut self.groups[group as usize];
        let place = (group << self.shift) + into.filled;
        into.filled += 1;
        into.live += 1;
        into.bytes += bytes;
        self.live += 1;
        self.members[place as usize] = slot;
        let object = &mut self.objects[slot.index()];
        object.place = place | (object.place & ACTIVE);
    }

    /// Ends the open group.
    pub(super) fn close(&mut self, states: [f32; 3]) {
        if self.open != NONE {
            self.get_mut(self.open).states = states;
            let closed = std::mem::replace(&mut self.open, NONE);
            self.closed += 1;
            if self.get(closed).live == 0 {
                self.end(closed);
            }
        }
    }

    /// A group outside of the list.
    pub(super) fn begin(&mut self, group: Group, tally: Tally) -> u32 {
        match self.vacant.pop() {
            Some(number) => {
                self.groups[number as usize] = group;
                self.tallies[number as usize] = tally;
                number
            }
            None => {
                self.groups.push(group);
                self.tallies.push(tally);
                self.members.resize(self.groups.len() << self.shift, HOLE);
                self.groups.len() as u32 - 1
            }
        }
    }

    /// Links a group behind another, or first if that is [`NONE`].
    pub(super) fn link(&mut self, group: u32, older: u32) {
        let newer = if older == NONE { self.oldest } else { self.get(older).newer };
        (self.get_mut(group).older, self.get_mut(group).newer) = (older, newer);
        match older {
            NONE => self.oldest = group,
            _ => self.get_mut(older).newer = group,
        }
        match newer {
            NONE => self.newest = group,
            _ => self.get_mut(newer).older = group,
        }
    }

    /// Takes a closed group out of the list; its members stay in place.
    pub(super) fn end(&mut self, group: u32) {
        let Group { older, newer, live, .. } = *self.get(group);
        if self.cursor == group {
            self.cursor = newer;
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.get_mut(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.get_mut(newer).older = older,
        }
        self.live -= live;
        self.closed -= 1;
        let ended = self.get_mut(group);
        (ended.live, ended.ranking) = (0, 0);
        self.vacant.push(group);
    }

    /// The objects of a group, oldest first.
    pub(super) fn members(&self, group: u32) -> impl Iterator<Item = Slot> {
        let filled = self.get(group).filled as usize;
        let members = &self.members[(group as usize) << self.shift..][..filled];
        members.iter().copied().filter(|&slot| slot != HOLE)
    }

    /// Takes an object out of its group: deleted. An empty group that is closed ends.
    pub(super) fn remove(&mut self, slot: Slot, bytes: u64) {
        let place = self.objects[slot.index()].place & !ACTIVE;
        self.objects[slot.index()].place = ABSENT;
        if place >= ABSENT {
            return;
        }
        self.members[place as usize] = HOLE;
        self.live -= 1;
        let number = place >> self.shift;
        let group = self.get_mut(number);
        group.live -= 1;
        group.bytes = group.bytes.saturating_sub(bytes);
        if group.live == 0 && number != self.open {
            self.end(number);
        }
    }

    /// Marks an object of an ended group for eviction.
    pub(super) fn condemn(&mut self, slot: Slot) {
        self.objects[slot.index()].place = CONDEMNED;
    }

    /// An object has left.
    #[inline]
    pub(super) fn forget(&mut self, slot: Slot) {
        self.objects[slot.index()].place = ABSENT;
    }

    /// The closed groups, oldest first.
    pub(super) fn closed(&self) -> impl Iterator<Item = u32> {
        self.closed_from(self.oldest)
    }

    /// The closed groups from `first` on, which may be [`NONE`].
    pub(super) fn closed_from(&self, first: u32) -> impl Iterator<Item = u32> {
        let first = if first == self.open { NONE } else { first };
        let next = |&group: &u32| {
            let newer = self.get(group).newer;
            (newer != NONE && newer != self.open).then_some(newer)
        };
        std::iter::successors((first != NONE).then_some(first), next)
    }
}
