//! A primitive hash map from `i64` to `i64`, the counterpart of Pulsar's `Long2LongOpenHashMap`.
//!
//! **Representation.** One array of `(key, value)` slots, sorted by the hash of the key, with gaps between the slots. A
//! key's home is its hash scaled to the array (`hash × homes >> 64`, so any size works, not only powers of two). A key
//! is at its home or a few slots later, and never before a key with a smaller hash.
//!
//! **Invariants** (`validate` checks them): hashes never decrease along the array; no key is before its home, and there
//! is no gap between a home and its key; the last slot is a gap, so probes need no bound. The key that marks a gap,
//! `i64::MIN`, is stored in a field outside the array, so every key and every value is valid.
//!
//! **Alternatives.** A map with tombstones becomes slower if keys are removed and inserted, even if its size stays the
//! same. Here a removal moves the following keys back by one slot, up to a gap or a key at its home. So time and memory
//! depend only on the content. Because the slots are in order of hash, a failed search ends at the first greater hash.
//! So searches stay cheap if 7/8 of the homes are used, and growing needs only one sequential pass. Because the map
//! grows by about a third instead of doubling, an entry takes 18 to 24 bytes. `hashbrown` is as fast (8 ns), but it has
//! tombstones, and it doubles its size when it grows.

use std::fmt;

use crate::error::{Error, Result, Validity, invariant, make_room};

/// The key that marks a gap; its value is in `LongMap::gap_value`.
const GAP: i64 = i64::MIN;
/// The minimum number of homes of a map that is not empty.
const HOMES_MIN: usize = 4;
/// The initial number of slots after the last home. Keys that do not fit at the last homes are stored there.
const SPILL: usize = 4;

type Slot = (i64, i64);

/// A hash map from `i64` to `i64`; any key and any value is legal.
#[derive(Clone, Default)]
pub struct LongMap {
    slots: Vec<Slot>,
    /// The number of slots that can be a home. A few more slots follow for keys that do not fit at the last homes.
    homes: usize,
    /// The number of entries in `slots`.
    filled: usize,
    gap_value: Option<i64>,
}

/// Spreads a key over 64 bits: one widening multiplication, whose two halves are combined by XOR.
///
/// With a plain multiplication, multiples of 2^k have hashes that are close together; combining the halves spreads
/// them. The constants are the fractional digits of the golden ratio and of π.
#[inline]
fn hash(key: i64) -> u64 {
    let product = u128::from(key.cast_unsigned() ^ 0x243f_6a88_85a3_08d3)
        * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    (product as u64) ^ ((product >> 64) as u64)
}

impl LongMap {
    /// Creates an empty map. Nothing is allocated before the first entry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.filled + usize::from(self.gap_value.is_some())
    }

    /// Returns whether the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of `key`. O(1).
    #[must_use]
    #[inline]
    pub fn get(&self, key: i64) -> Option<i64> {
        if key == GAP {
            return self.gap_value;
        }
        self.find(key).ok().map(|at| self.slots[at].1)
    }

    /// Returns whether the map has `key`. O(1).
    #[must_use]
    #[inline]
    pub fn contains(&self, key: i64) -> bool {
        self.get(key).is_some()
    }

    /// Returns a mutable reference to the value of `key`. O(1).
    #[inline]
    pub fn get_mut(&mut self, key: i64) -> Option<&mut i64> {
        if key == GAP {
            return self.gap_value.as_mut();
        }
        self.find(key).ok().map(|at| &mut self.slots[at].1)
    }

    /// Sets the value of `key` and returns its previous value. O(1) amortised.
    #[inline]
    pub fn insert(&mut self, key: i64, value: i64) -> Option<i64> {
        if key == GAP {
            return self.gap_value.replace(value);
        }
        match self.find(key) {
            Ok(at) => Some(std::mem::replace(&mut self.slots[at].1, value)),
            Err(at) => {
                self.insert_at(at, key, value);
                None
            }
        }
    }

    /// Sets the value of `key` if the map does not have `key`. Otherwise changes nothing and returns the value of
    /// `key`. O(1) amortised.
    pub fn insert_if_absent(&mut self, key: i64, value: i64) -> Option<i64> {
        let present = self.get(key);
        if present.is_none() {
            self.insert(key, value);
        }
        present
    }

    /// Removes `key` and returns its value. O(1).
    #[inline]
    pub fn remove(&mut self, key: i64) -> Option<i64> {
        if key == GAP {
            return self.gap_value.take();
        }
        self.find(key).ok().map(|at| self.remove_at(at))
    }

    /// Removes `key` if its value is `value`; returns whether it was removed. O(1).
    pub fn remove_if_value(&mut self, key: i64, value: i64) -> bool {
        let matches = self.get(key) == Some(value);
        if matches {
            self.remove(key);
        }
        matches
    }

    /// Removes and returns an arbitrary entry. O(slots / entries) on average, because the searches start at slots all
    /// over the array. If they all started at the first slot, they would pass the slots that earlier calls emptied.
    pub fn pop(&mut self) -> Option<(i64, i64)> {
        if self.filled == 0 {
            return self.gap_value.take().map(|value| (GAP, value));
        }
        let start = self.home(hash(self.filled as i64));
        let rest = (start..self.slots.len()).chain(0..start);
        let at = rest.into_iter().find(|&at| self.slots[at].0 != GAP).expect("an entry is there");
        let key = self.slots[at].0;
        Some((key, self.remove_at(at)))
    }

    /// Returns all entries, in an undefined order. O(capacity).
    pub fn iter(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        let gap = self.gap_value.map(|value| (GAP, value));
        self.slots.iter().copied().filter(|slot| slot.0 != GAP).chain(gap)
    }

    /// Keeps the entries that `keep` accepts, in one sequential pass. O(capacity).
    pub fn retain(&mut self, mut keep: impl FnMut(i64, i64) -> bool) {
        self.gap_value = self.gap_value.filter(|&value| keep(GAP, value));
        let mut next = 0;
        for at in 0..self.slots.len() {
            let slot = std::mem::replace(&mut self.slots[at], (GAP, 0));
            if slot.0 == GAP {
                continue;
            }
            if keep(slot.0, slot.1) {
                // `to` is never after `at`, because this pass removes entries before `at` and adds none there.
                let to = self.home(hash(slot.0)).max(next);
                self.slots[to] = slot;
                next = to + 1;
            } else {
                self.filled -= 1;
            }
        }
    }

    /// Removes everything and releases the memory.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Allocates memory for `additional` more entries.
    ///
    /// # Errors
    /// [`Error::Memory`] if memory does not suffice; nothing changes then.
    pub fn reserve(&mut self, additional: usize) -> Result<()> {
        let too_many = || Error::Memory { items: additional, item_bytes: size_of::<Slot>() };
        let entries =
            self.filled.checked_add(additional).filter(|&entries| entries < usize::MAX / 16);
        let homes = slots_for(entries.ok_or_else(too_many)?);
        if homes > self.homes {
            let mut slots = Vec::new();
            make_room(&mut slots, homes + SPILL)?;
            self.rebuild_into(slots, homes);
        }
        Ok(())
    }

    /// Releases memory that the entries do not need.
    pub fn shrink_to_fit(&mut self) {
        let homes = if self.filled == 0 { 0 } else { slots_for(self.filled) };
        if homes < self.homes {
            self.rebuild(homes);
        }
        self.slots.shrink_to_fit();
    }

    /// Returns the number of entries that the map can have before it grows.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.homes * 7 / 8
    }

    /// Returns the size of the heap memory in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// A sentence that names the broken invariant.
    pub fn validate(&self) -> Validity {
        let filled: Vec<usize> =
            (0..self.slots.len()).filter(|&at| self.slots[at].0 != GAP).collect();
        invariant!(filled.len() == self.filled, "entries are counted");
        invariant!(self.filled * 8 <= self.homes * 7, "the load is at most 7/8");
        invariant!(self.slots.len() > self.homes || self.slots.is_empty(), "homes lie inside");
        invariant!(self.slots.last().is_none_or(|slot| slot.0 == GAP), "the last slot is a gap");
        let mut before = 0;
        for &at in &filled {
            let key = self.slots[at].0;
            let hash = hash(key);
            invariant!(before <= hash, "hashes never decrease");
            before = hash;
            let home = self.home(hash);
            invariant!(home <= at, "no key is before its home");
            let run = &self.slots[home..at];
            invariant!(
                run.iter().all(|slot| slot.0 != GAP && slot.0 != key),
                "no gap, no duplicate"
            );
        }
        Ok(())
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.homes as u128) >> 64) as usize
    }

    /// Returns the slot of `key`, or the slot at which to insert it.
    #[inline]
    fn find(&self, key: i64) -> std::result::Result<usize, usize> {
        if self.slots.is_empty() {
            return Err(0);
        }
        let hash_sought = hash(key);
        let mut at = self.home(hash_sought);
        loop {
            let found = self.slots[at].0;
            if found == key {
                return Ok(at);
            }
            if found == GAP || hash(found) > hash_sought {
                return Err(at);
            }
            at += 1;
        }
    }

    fn insert_at(&mut self, at: usize, key: i64, value: i64) {
        if (self.filled + 1) * 8 > self.homes * 7 {
            self.rebuild(slots_for(self.filled + 1).max(self.homes + self.homes * 3 / 10));
            let Err(at) = self.find(key) else { unreachable!("the key was absent") };
            return self.insert_at(at, key, value);
        }
        let run = self.slots[at..].iter().position(|slot| slot.0 == GAP);
        let gap = at + run.expect("the last slot is a gap");
        self.slots.copy_within(at..gap, at + 1);
        self.slots[at] = (key, value);
        self.filled += 1;
        if gap + 1 == self.slots.len() {
            self.spill_to(gap + 2);
        }
    }

    fn remove_at(&mut self, at: usize) -> i64 {
        let value = self.slots[at].1;
        let mut end = at + 1;
        // The keys to move end at a gap, or at a key that is at its home, because no key may be before its home.
        while self.slots[end].0 != GAP && self.home(hash(self.slots[end].0)) < end {
            end += 1;
        }
        self.slots.copy_within(at + 1..end, at);
        self.slots[end - 1] = (GAP, 0);
        self.filled -= 1;
        value
    }

    /// Extends the array to `slots` slots; the homes stay the same. Reserves room for only [`SPILL`] more slots,
    /// because the vector would otherwise double its capacity.
    fn spill_to(&mut self, slots: usize) {
        self.slots.reserve_exact(SPILL);
        self.slots.resize(slots, (GAP, 0));
    }

    /// Distributes the entries over `homes` homes. This is a sequential pass, because the old and the new array are
    /// both in order of hash.
    fn rebuild(&mut self, homes: usize) {
        self.rebuild_into(Vec::new(), homes);
    }

    /// Does the same as [`LongMap::rebuild`], but uses the empty vector `slots`, which may already have enough room.
    fn rebuild_into(&mut self, mut slots: Vec<Slot>, homes: usize) {
        let spill = if homes == 0 { 0 } else { SPILL };
        slots.reserve_exact(homes + spill);
        slots.resize(homes + spill, (GAP, 0));
        let before = std::mem::replace(&mut self.slots, slots);
        self.homes = homes;
        let mut next = 0;
        for slot in before.into_iter().filter(|slot| slot.0 != GAP) {
            let to = self.home(hash(slot.0)).max(next);
            if to + 1 >= self.slots.len() {
                self.spill_to(to + 2);
            }
            self.slots[to] = slot;
            next = to + 1;
        }
    }
}

/// Returns the number of homes for `entries` entries. At most 7/8 of the homes are then used.
fn slots_for(entries: usize) -> usize {
    (entries * 8).div_ceil(7).max(HOMES_MIN)
}

impl PartialEq for LongMap {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl Eq for LongMap {}

impl FromIterator<(i64, i64)> for LongMap {
    fn from_iter<I: IntoIterator<Item = (i64, i64)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut map = Self::new();
        // A size hint may be too large for the memory. The map then grows as entries are inserted.
        let _ = map.reserve(entries.size_hint().0);
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl fmt::Debug for LongMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
