//! A page: up to 64 consecutive entries of one ledger.
//!
//! **Representation.** The slot of an entry is its entry id modulo 64. A page has a presence word with a bit for each
//! slot, and two columns (remaining count, sticky-key hash) in one allocation. The place of an entry is the index of
//! its values in both columns. A page with many entries is *dense*: it has a place for every slot. A page with few
//! entries is *packed*: the place of an entry is the number of present entries before it. A page of equal values has no
//! allocation.
//!
//! **Invariants** (`validate` checks them): the allocation has exactly `places × (remaining width + hash width)` bytes
//! plus the padding, or there is no allocation; a packed page has at least as many places as entries.
//!
//! **Reason.** The pending entries of a consumer are dense, because dispatch delivers entry ids almost in order. In
//! this form, an entry takes no bytes for its id, and only the low bytes in which its value differs from the others. A
//! prefix is removed 64 entries at a time.

use super::column::{Column, PADDING, SLOTS, Width, zip};
use super::value::PendingAck;
use crate::error::{Validity, invariant};

/// The maximum number of entries of a packed page. With more entries, an insertion would move too many values.
const PACKED_MAX: usize = 24;
/// A dense page is packed again when a removal leaves this number of entries or fewer. It is a third of [`PACKED_MAX`],
/// so that a page does not switch back and forth between the two forms.
const PACKED_AGAIN: u32 = 8;
/// A packed page may have two places for each entry, and this number of places in addition. A page with more places
/// releases memory.
const SPARE_MAX: usize = 6;

#[derive(Debug, Clone)]
pub(super) struct Page {
    present: u64,
    /// The bytes of the column of remaining counts, followed by the bytes of the column of hashes.
    bytes: Box<[u8]>,
    remaining_prefix: i32,
    hash_prefix: i32,
    remaining_width: Width,
    hash_width: Width,
    places: u8,
    /// The offset of the hash column in `bytes`: the number of places × the width of the remaining column.
    split: u16,
}

/// The remaining counts and the hashes of a page. The index in the arrays is the place of an entry ([`Page::by_place`])
/// or its slot ([`Page::by_slot`]).
struct Values {
    remaining: [i32; SLOTS],
    hash: [i32; SLOTS],
}

impl Page {
    pub(super) fn new() -> Self {
        Self {
            present: 0,
            bytes: Box::default(),
            remaining_prefix: 0,
            hash_prefix: 0,
            remaining_width: Width::Zero,
            hash_width: Width::Zero,
            places: SLOTS as u8,
            split: 0,
        }
    }

    /// Returns whether the page has an allocation with a place for every slot.
    pub(super) fn is_dense(&self) -> bool {
        !self.is_packed() && !self.bytes.is_empty()
    }

    /// Returns an empty page with the layout of this dense page, prepared to store `first` as its first value.
    pub(super) fn successor(&self, first: PendingAck) -> Self {
        Self {
            present: 0,
            bytes: vec![0; self.bytes.len()].into_boxed_slice(),
            remaining_prefix: Column::holding(first.remaining, self.remaining_width).prefix,
            hash_prefix: Column::holding(first.sticky_key_hash, self.hash_width).prefix,
            ..*self
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.present == 0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.present.count_ones() as usize
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(super) fn contains(&self, slot: u32) -> bool {
        self.present >> slot & 1 == 1
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<PendingAck> {
        self.contains(slot).then(|| self.read(self.place(slot)))
    }

    /// Returns the remaining count of a slot. The bytes of the hashes are not read.
    #[inline]
    pub(super) fn remaining_of(&self, slot: u32) -> Option<i32> {
        self.contains(slot).then(|| self.remaining().read(&self.bytes, 0, self.place(slot)))
    }

    /// Calls `change` with the remaining count of a slot, if the slot has an entry. If `change` returns a count, stores
    /// it. Returns whether a count was stored.
    #[inline]
    pub(super) fn update_remaining(
        &mut self,
        slot: u32,
        change: impl FnOnce(i32) -> Option<i32>,
    ) -> bool {
        let Some(remaining) = self.remaining_of(slot).and_then(change) else { return false };
        let (column, place) = (self.remaining(), self.place(slot));
        if column.fits(remaining) {
            column.write(&mut self.bytes, 0, place, remaining);
        } else {
            self.reshape_with(slot, PendingAck { remaining, ..self.read(place) });
        }
        true
    }

    /// Sets the value of a slot; returns whether the entry is new.
    #[inline]
    pub(super) fn put(&mut self, slot: u32, value: PendingAck) -> bool {
        let is_new = !self.contains(slot);
        if self.is_empty() {
            // The page is empty, so any prefix is possible.
            self.remaining_prefix = Column::holding(value.remaining, self.remaining_width).prefix;
            self.hash_prefix = Column::holding(value.sticky_key_hash, self.hash_width).prefix;
        }
        let fits =
            self.remaining().fits(value.remaining) && self.hash().fits(value.sticky_key_hash);
        if fits && !(is_new && self.is_packed()) {
            self.write(self.place(slot), value);
        } else if fits && self.len() < self.places as usize {
            self.open(self.place(slot));
            self.write(self.place(slot), value);
        } else {
            self.reshape_with(slot, value);
        }
        self.present |= 1 << slot;
        is_new
    }

    /// Sets the values of slots; returns the number of new entries. If a value does not fit into the layout, the page
    /// gets a new layout once, for this value and all following ones.
    pub(super) fn put_all(
        &mut self,
        mut entries: impl Iterator<Item = (u32, PendingAck)>,
    ) -> usize {
        let before = self.present;
        while let Some((slot, value)) = entries.next() {
            if self.has_room_for(slot, value) {
                self.write(self.place(slot), value);
                self.present |= 1 << slot;
                continue;
            }
            let mut values = self.by_slot();
            for (slot, value) in std::iter::once((slot, value)).chain(entries.by_ref()) {
                values.remaining[slot as usize] = value.remaining;
                values.hash[slot as usize] = value.sticky_key_hash;
                self.present |= 1 << slot;
            }
            let (remaining, hash) = columns(&values, self.present);
            let is_dense = self.is_dense();
            let places = if is_dense { SLOTS } else { places_for(self.len()) };
            self.reshape(&values, remaining, hash, places);
        }
        (self.present & !before).count_ones() as usize
    }

    /// Returns whether the page can store `value` in its layout without moving other values.
    #[inline]
    fn has_room_for(&self, slot: u32, value: PendingAck) -> bool {
        let fits =
            self.remaining().fits(value.remaining) && self.hash().fits(value.sticky_key_hash);
        fits && (!self.is_packed() || self.contains(slot))
    }

    /// Removes the entry of a slot, and returns its value.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> Option<PendingAck> {
        let value = self.get(slot)?;
        if self.is_packed() {
            self.close(self.place(slot));
        }
        self.present &= !(1 << slot);
        if !self.bytes.is_empty() {
            self.give_back();
        }
        Some(value)
    }

    /// Removes the entries whose slots are set in the mask `slots`, without reading their values; returns the number of
    /// removed entries.
    #[inline]
    pub(super) fn discard(&mut self, slots: u64) -> usize {
        let before = self.present;
        let left = before & !slots;
        if left == 0 {
            // Entries that were delivered together are mostly acknowledged together, so mostly no value remains that
            // must be moved.
            *self = Self::new();
        } else if left != before {
            if self.is_packed() {
                self.close_all(before & slots);
            }
            self.present = left;
            if !self.bytes.is_empty() {
                self.give_back();
            }
        }
        (before & slots).count_ones() as usize
    }

    /// Releases the memory that the values do not need.
    pub(super) fn shrink_to_fit(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        let values = self.by_slot();
        let (remaining, hash) = columns(&values, self.present);
        let places = places_for(self.len());
        let width = remaining.width.bytes() + hash.width.bytes();
        if bytes_of(places, width) < self.bytes.len() {
            self.reshape(&values, remaining, hash, places);
        }
    }

    /// Calls `visit` in order with each entry whose slot is set in the mask `slots`.
    #[inline]
    pub(super) fn for_each(&self, slots: u64, mut visit: impl FnMut(u32, PendingAck)) {
        if self.present & slots == !0 {
            let (bytes, hashes) = self.bytes.split_at(self.split as usize);
            return zip(
                (self.remaining(), bytes),
                (self.hash(), hashes),
                |slot, remaining, hash| {
                    visit(slot, PendingAck { remaining, sticky_key_hash: hash });
                },
            );
        }
        let values = self.by_place();
        let value = |at: usize| PendingAck {
            remaining: values.remaining[at % SLOTS],
            sticky_key_hash: values.hash[at % SLOTS],
        };
        let mut rest = self.present & slots;
        while rest != 0 {
            let slot = rest.trailing_zeros();
            visit(slot, value(self.place(slot)));
            rest &= rest - 1;
        }
    }

    pub(super) fn validate(&self) -> Validity {
        let width = self.remaining_width.bytes() + self.hash_width.bytes();
        invariant!(
            bytes_of(self.places as usize, width) == self.bytes.len(),
            "all bytes are places"
        );
        invariant!(
            self.places as usize * self.remaining_width.bytes() == self.split as usize,
            "the hashes begin behind the remaining messages"
        );
        invariant!(self.len() <= self.places as usize, "every entry has a place");
        invariant!(!self.is_packed() || width > 0, "a page without bytes is not packed");
        invariant!(!self.is_empty() || self.bytes.is_empty(), "an empty page has no bytes");
        Ok(())
    }

    #[inline]
    fn remaining(&self) -> Column {
        Column { prefix: self.remaining_prefix, width: self.remaining_width }
    }

    #[inline]
    fn hash(&self) -> Column {
        Column { prefix: self.hash_prefix, width: self.hash_width }
    }

    #[inline]
    fn is_packed(&self) -> bool {
        (self.places as usize) < SLOTS
    }

    /// Returns the place of a slot. For a slot without an entry, returns the place at which to insert its values.
    #[inline]
    fn place(&self, slot: u32) -> usize {
        if self.is_packed() {
            (self.present & ((1 << slot) - 1)).count_ones() as usize
        } else {
            slot as usize
        }
    }

    #[inline]
    fn read(&self, place: usize) -> PendingAck {
        PendingAck {
            remaining: self.remaining().read(&self.bytes, 0, place),
            sticky_key_hash: self.hash().read(&self.bytes, self.split as usize, place),
        }
    }

    #[inline]
    fn write(&mut self, place: usize, value: PendingAck) {
        if !self.bytes.is_empty() {
            let (remaining, hash) = (self.remaining(), self.hash());
            remaining.write(&mut self.bytes, 0, place, value.remaining);
            hash.write(&mut self.bytes, self.split as usize, place, value.sticky_key_hash);
        }
    }

    #[cold]
    fn open(&mut self, place: usize) {
        let (remaining, hash, count) = (self.remaining(), self.hash(), self.len());
        let (remaining_bytes, hash_bytes) = self.bytes.split_at_mut(self.split as usize);
        remaining.open(remaining_bytes, place, count);
        hash.open(hash_bytes, place, count);
    }

    #[cold]
    fn close(&mut self, place: usize) {
        let (remaining, hash, count) = (self.remaining(), self.hash(), self.len());
        let (remaining_bytes, hash_bytes) = self.bytes.split_at_mut(self.split as usize);
        remaining.close(remaining_bytes, place, count);
        hash.close(hash_bytes, place, count);
    }

    /// Removes the values of the slots that are set in the mask `slots`. Each must have an entry. The last slot is
    /// removed first, because then the fewest values move.
    fn close_all(&mut self, mut slots: u64) {
        while slots != 0 {
            let last = slots.ilog2();
            self.close(self.place(last));
            self.present &= !(1 << last);
            slots &= !(1 << last);
        }
    }

    /// Packs the page if it has few entries, and releases the memory of an empty page. Removals call this function at
    /// their end.
    #[inline]
    fn give_back(&mut self) {
        let entries = self.present.count_ones();
        let is_thin = if self.is_packed() {
            self.places as usize > 2 * entries as usize + SPARE_MAX
        } else {
            entries <= PACKED_AGAIN
        };
        if self.present == 0 {
            *self = Self::new();
        } else if is_thin {
            self.shrink_to_fit();
        }
    }

    /// Gives the page a new layout that has room for `value`, and sets the value of the slot. It is called if the old
    /// layout has no room.
    #[cold]
    fn reshape_with(&mut self, slot: u32, value: PendingAck) {
        let mut values = self.by_slot();
        values.remaining[slot as usize] = value.remaining;
        values.hash[slot as usize] = value.sticky_key_hash;
        self.present |= 1 << slot;
        let (remaining, hash) = columns(&values, self.present);
        // Reserve room for half as many additional entries. So a packed page becomes dense after six new layouts.
        let places = if self.is_packed() || self.bytes.is_empty() {
            places_for(self.len() + (self.len() / 2).max(2))
        } else {
            SLOTS
        };
        self.reshape(&values, remaining, hash, places);
    }

    fn reshape(&mut self, values: &Values, remaining: Column, hash: Column, places: usize) {
        let width = remaining.width.bytes() + hash.width.bytes();
        let places = if width == 0 { SLOTS } else { places };
        self.places = places as u8;
        self.bytes = vec![0; bytes_of(places, width)].into_boxed_slice();
        self.split = (places * remaining.width.bytes()) as u16;
        (self.remaining_prefix, self.remaining_width) = (remaining.prefix, remaining.width);
        (self.hash_prefix, self.hash_width) = (hash.prefix, hash.width);
        let mut rest = self.present;
        while rest != 0 {
            let slot = rest.trailing_zeros();
            self.write(
                self.place(slot),
                PendingAck {
                    remaining: values.remaining[slot as usize],
                    sticky_key_hash: values.hash[slot as usize],
                },
            );
            rest &= rest - 1;
        }
    }

    #[inline]
    fn by_place(&self) -> Values {
        let mut values = Values { remaining: [0; SLOTS], hash: [0; SLOTS] };
        let (remaining, hash) = self.bytes.split_at(self.split as usize);
        self.remaining().read_all(remaining, &mut values.remaining);
        self.hash().read_all(hash, &mut values.hash);
        values
    }

    fn by_slot(&self) -> Values {
        let packed = self.by_place();
        if !self.is_packed() {
            return packed;
        }
        let mut values = Values { remaining: [0; SLOTS], hash: [0; SLOTS] };
        let mut rest = self.present;
        for place in 0..self.len() {
            let slot = rest.trailing_zeros() as usize;
            values.remaining[slot] = packed.remaining[place];
            values.hash[slot] = packed.hash[place];
            rest &= rest - 1;
        }
        values
    }
}

/// Returns the narrowest columns that can store the values of the slots that are set in the mask `present`.
fn columns(values: &Values, present: u64) -> (Column, Column) {
    let first = present.trailing_zeros() as usize % SLOTS;
    let narrowest = |values: &[i32; SLOTS]| {
        let mut difference = 0;
        for (slot, value) in values.iter().enumerate() {
            let is_present = (present >> slot & 1) as i32;
            difference |= (value ^ values[first]) & -is_present;
        }
        Column::holding(values[first], Width::of_difference(difference))
    };
    (narrowest(&values.remaining), narrowest(&values.hash))
}

/// Returns the number of places for `entries` entries. The number is even for a packed page.
fn places_for(entries: usize) -> usize {
    if entries > PACKED_MAX { SLOTS } else { entries.next_multiple_of(2) }
}

/// Returns the size of the allocation, in bytes, of a page with `places` places of `width` bytes.
const fn bytes_of(places: usize, width: usize) -> usize {
    if width == 0 { 0 } else { places * width + PADDING }
}
