//! `PendingAcks`: the entries that were sent to one consumer and are not acknowledged.
//!
//! **Representation.** A hash map of ledgers (`directory`). Each ledger (`ledger`) is stored in one of two forms, the
//! smaller one. The first form is a window: an array of 64-entry pages from the first to the last entry (`window`,
//! `page`, `column`). The second form, for entries that are far apart, is a hash map with a bit set as prefix index
//! (`sparse`).
//!
//! **Reason.** Dispatch delivers entry ids almost in order, and an advance of the mark-delete position removes the
//! first entries. In a window, an entry is found by a shift, without hashing its id. The entries are in order without
//! sorting, and a prefix is removed page by page. An entry needs no bytes for its id, only the low bytes in which its
//! value differs from the other values of the page. By comparison, the design of apache/pulsar#26024 has a hash map and
//! a bit set for each ledger, and hashes the id of every entry that it removes.
//!
//! Semantics are those of Pulsar's `PendingAcksMap`. Ids are any `i64`.

mod column;
mod directory;
mod ledger;
mod page;
mod removal;
mod sparse;
mod value;
mod window;

pub use removal::Removal;
pub use value::PendingAck;

use crate::error::{Result, Validity, invariant};
use directory::Directory;
use window::split;

/// A sorted map from position to [`PendingAck`], optimised for consecutive entries that are added at the end and
/// removed from the front.
#[derive(Debug, Clone, Default)]
pub struct PendingAcks {
    directory: Directory,
    entries: usize,
    is_closed: bool,
}

impl PendingAcks {
    /// Creates an empty map. Nothing is allocated before the first entry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of entries. O(1).
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Returns whether the map is empty. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns whether [`PendingAcks::close`] was called.
    #[must_use]
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Closes the map: every later [`PendingAcks::add`] is refused. The entries stay.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Adds or replaces an entry. Returns `false`, and changes nothing, if the map is closed. O(1) amortised.
    #[inline]
    pub fn add(&mut self, ledger_id: i64, entry_id: i64, value: PendingAck) -> bool {
        if self.is_closed {
            return false;
        }
        let is_new = self.directory.get_or_insert(ledger_id).put(entry_id, value);
        self.entries += usize::from(is_new);
        true
    }

    /// Adds or replaces many entries; returns the number of accepted entries: all, or 0 if the map is closed.
    /// Consecutive entries of one page need only one look-up of the page.
    pub fn add_many(&mut self, entries: impl IntoIterator<Item = (i64, i64, PendingAck)>) -> usize {
        if self.is_closed {
            return 0;
        }
        let mut entries = entries.into_iter().peekable();
        let mut added = 0;
        while let Some((ledger_id, entry_id, value)) = entries.next() {
            let ledger = self.directory.get_or_insert(ledger_id);
            let (set, new) = ledger.put_page(entry_id, value, &mut entries);
            self.entries += new;
            added += set;
        }
        added
    }

    /// Adds or replaces entries given as columns of equal length; returns the number of accepted entries: all, or 0 if
    /// the map is closed.
    ///
    /// # Errors
    /// [`crate::Error::Value`] for a value that [`PendingAck::new`] refuses. Nothing changes then.
    pub fn add_columns(
        &mut self,
        [ledgers, entries, remaining, hashes]: [&[i64]; 4],
    ) -> Result<usize> {
        PendingAck::check_many(remaining, hashes)?;
        let values = remaining.iter().zip(hashes).map(|(&remaining, &hash)| PendingAck {
            remaining: remaining as i32,
            sticky_key_hash: hash as i32,
        });
        let positions = ledgers.iter().zip(entries);
        let rows = positions.zip(values).map(|((&ledger, &entry), value)| (ledger, entry, value));
        Ok(self.add_many(rows))
    }

    /// Puts back a removed entry, even if the map is closed. Does nothing if the entry was added again after its
    /// removal.
    fn put_back(&mut self, ledger_id: i64, entry_id: i64, value: PendingAck) {
        if !self.contains(ledger_id, entry_id) {
            self.directory.get_or_insert(ledger_id).put(entry_id, value);
            self.entries += 1;
        }
    }

    /// Returns whether an entry is pending. O(1).
    #[must_use]
    #[inline]
    pub fn contains(&self, ledger_id: i64, entry_id: i64) -> bool {
        self.directory.get(ledger_id).is_some_and(|ledger| ledger.contains(entry_id))
    }

    /// Returns the value of an entry. O(1).
    #[must_use]
    #[inline]
    pub fn get(&self, ledger_id: i64, entry_id: i64) -> Option<PendingAck> {
        self.directory.get(ledger_id)?.get(entry_id)
    }

    /// Returns the remaining count of an entry. O(1). This is faster than [`Self::get`], because the hash is not read.
    #[must_use]
    #[inline]
    pub fn get_remaining(&self, ledger_id: i64, entry_id: i64) -> Option<i32> {
        self.directory.get(ledger_id)?.remaining_of(entry_id)
    }

    /// Subtracts `acked` from an entry's remaining count. Returns `false`, and changes nothing, if the entry is not
    /// pending or the result is outside 0..2^31. O(1).
    #[inline]
    pub fn update_remaining(&mut self, ledger_id: i64, entry_id: i64, acked: i64) -> bool {
        let Some(ledger) = self.directory.get_mut(ledger_id) else { return false };
        ledger.update_remaining(entry_id, |remaining| {
            let remaining = i64::from(remaining).checked_sub(acked)?;
            i32::try_from(remaining).ok().filter(|&left| left >= 0)
        })
    }

    /// Lowers an entry's remaining count to `remaining`, and returns by how much it was lowered. If the count is not
    /// greater than `remaining`, changes nothing and returns 0. Returns −1 if the entry is not pending. O(1).
    #[inline]
    pub fn lower(&mut self, ledger_id: i64, entry_id: i64, remaining: i64) -> i64 {
        let Some(ledger) = self.directory.get_mut(ledger_id) else { return -1 };
        let mut by = -1;
        ledger.update_remaining(entry_id, |before| {
            by = (i64::from(before) - remaining).max(0);
            i32::try_from(i64::from(before) - by).ok()
        });
        by
    }

    /// Removes an entry and returns its value. O(1) amortised.
    #[inline]
    pub fn remove(&mut self, ledger_id: i64, entry_id: i64) -> Option<PendingAck> {
        let ledger = self.directory.get_mut(ledger_id)?;
        let value = ledger.remove(entry_id)?;
        if ledger.len() == 0 {
            self.directory.remove(ledger_id);
        }
        self.entries -= 1;
        Some(value)
    }

    /// Removes an entry; returns whether it was pending. O(1) amortised. This is faster than [`Self::remove`], because
    /// the value is not read.
    #[inline]
    pub fn discard(&mut self, ledger_id: i64, entry_id: i64) -> bool {
        let (page, slot) = split(entry_id);
        self.discard_slots(ledger_id, page, 1 << slot) == 1
    }

    /// Removes many entries; returns how many of them were pending. Consecutive entries of one page are removed in one
    /// step.
    pub fn remove_many(&mut self, positions: impl IntoIterator<Item = (i64, i64)>) -> usize {
        let mut positions = positions.into_iter().peekable();
        let mut discarded = 0;
        while let Some((ledger_id, entry_id)) = positions.next() {
            let (page, slot) = split(entry_id);
            let mut slots = 1 << slot;
            let is_same =
                |&(id, entry_id): &(i64, i64)| id == ledger_id && split(entry_id).0 == page;
            while let Some((_, entry_id)) = positions.next_if(is_same) {
                slots |= 1 << split(entry_id).1;
            }
            discarded += self.discard_slots(ledger_id, page, slots);
        }
        discarded
    }

    #[inline]
    fn discard_slots(&mut self, ledger_id: i64, page: i64, slots: u64) -> usize {
        let Some(ledger) = self.directory.get_mut(ledger_id) else { return 0 };
        let discarded = ledger.discard(page, slots);
        if ledger.len() == 0 {
            self.directory.remove(ledger_id);
        }
        self.entries -= discarded;
        discarded
    }

    /// Removes an entry if it has this value; returns whether it was removed. O(1) amortised.
    pub fn remove_if_value(&mut self, ledger_id: i64, entry_id: i64, value: PendingAck) -> bool {
        self.get(ledger_id, entry_id) == Some(value) && self.remove(ledger_id, entry_id).is_some()
    }

    /// Removes every entry up to and including a position; returns the number of removed entries. O(removed pages).
    pub fn remove_all_up_to(&mut self, ledger_id: i64, entry_id: i64) -> usize {
        let mut removed = 0;
        while let Some(first) = self.directory.first().filter(|&first| first <= ledger_id) {
            let ledger = self.directory.get_mut(first).expect("the tree has only known ledgers");
            removed += if first < ledger_id { ledger.len() } else { ledger.remove_up_to(entry_id) };
            if first < ledger_id || ledger.len() == 0 {
                self.directory.remove(first);
            }
            if first == ledger_id {
                break;
            }
        }
        self.entries -= removed;
        removed
    }

    /// Calls `visit(ledger_id, entry_id, value)` with every entry, in order of position. O(n).
    #[inline]
    pub fn for_each(&self, mut visit: impl FnMut(i64, i64, PendingAck)) {
        for ledger in self.directory.iter() {
            ledger.for_each_up_to(i64::MAX, |entry_id, value| {
                visit(ledger.ledger_id, entry_id, value)
            });
        }
    }

    /// Calls `visit` in order with every entry up to and including a position.
    pub fn for_each_up_to(
        &self,
        ledger_id: i64,
        entry_id: i64,
        mut visit: impl FnMut(i64, i64, PendingAck),
    ) {
        for ledger in self.directory.iter().take_while(|ledger| ledger.ledger_id <= ledger_id) {
            let last = if ledger.ledger_id == ledger_id { entry_id } else { i64::MAX };
            ledger.for_each_up_to(last, |entry_id, value| visit(ledger.ledger_id, entry_id, value));
        }
    }

    /// Removes every entry and releases the memory. A closed map stays closed.
    pub fn clear(&mut self) {
        self.directory.clear();
        self.entries = 0;
    }

    /// Returns the size of the heap memory in bytes, as requested from the allocator. The size of the tree of ledger
    /// ids is an estimate.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.directory.heap_bytes()
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// A sentence that names the broken invariant.
    pub fn validate(&self) -> Validity {
        self.directory.validate()?;
        let entries: usize = self.directory.iter().map(ledger::PendingLedger::len).sum();
        invariant!(entries == self.entries, "entries are counted");
        Ok(())
    }
}

impl PartialEq for PendingAcks {
    /// Returns whether both maps have the same entries. A closed and an open map can be equal.
    fn eq(&self, other: &Self) -> bool {
        let mut equal = self.len() == other.len();
        self.for_each(|ledger_id, entry_id, value| {
            equal = equal && other.get(ledger_id, entry_id) == Some(value);
        });
        equal
    }
}

impl Eq for PendingAcks {}
