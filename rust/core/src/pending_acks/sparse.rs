//! The sparse form of a ledger: a hash map, and a bit set of its entry ids as an index. The index makes the removal of
//! a prefix fast.
//!
//! This is the design of apache/pulsar#26024. If entry ids are far apart, the index would be larger than the map, so it
//! is dropped. The next removal of a prefix rebuilds the index if the remaining ids are close together. Without the
//! index, the removal of a prefix reads every entry of the map.

use super::value::PendingAck;
use super::window::{join, split};
use crate::bit_set::{BitSet, LIMIT_DEFAULT};
use crate::error::{Validity, invariant};
use crate::long_map::LongMap;

/// The index of a ledger may have two words for each entry, and this number of words in addition.
const INDEX_WORDS_MIN: usize = 64;
const WORD_BITS: usize = 64;

#[derive(Debug, Clone, Default)]
pub(super) struct SparseEntries {
    values: LongMap,
    index: Option<Index>,
}

/// The entry ids as bits. Bit 0 is the entry id `64 × first_word`.
#[derive(Debug, Clone)]
struct Index {
    first_word: i64,
    bits: BitSet,
}

impl Index {
    /// Returns the index of the bit for an entry; `None` if the entry is before `first_word`, or if the index would
    /// need more than `words_max` words.
    fn bit(&self, entry_id: i64, words_max: usize) -> Option<usize> {
        let (word, bit) = split(entry_id);
        let word = usize::try_from(word.checked_sub(self.first_word)?).ok()?;
        (word < words_max).then_some(word * WORD_BITS + bit as usize)
    }

    fn entry_id(&self, bit: usize) -> i64 {
        self.first_word * WORD_BITS as i64 + bit as i64
    }

    /// Returns the index of the last bit for entries up to and including `last`; `None` if all bits are for later
    /// entries.
    fn bits_up_to(&self, last: i64) -> Option<usize> {
        let (word, bit) = split(last);
        let words = word.saturating_sub(self.first_word);
        let words_end = self.bits.words().len() as i64;
        (words >= 0).then(|| words.min(words_end) as usize * WORD_BITS + bit as usize)
    }
}

/// Returns the maximum number of words in the index of `entries` entries.
const fn words_max(entries: usize) -> usize {
    let words = 2 * entries + INDEX_WORDS_MIN;
    if words < LIMIT_DEFAULT / WORD_BITS { words } else { LIMIT_DEFAULT / WORD_BITS }
}

impl SparseEntries {
    pub(super) fn from_entries(entries: impl Iterator<Item = (i64, PendingAck)>) -> Self {
        let mut sparse =
            Self { values: entries.map(|(id, value)| (id, value.pack())).collect(), index: None };
        sparse.rebuild_index();
        sparse
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the number of 64-entry pages that a window of these entries would have; `None` without an index.
    pub(super) fn pages(&self) -> Option<usize> {
        self.index.as_ref().map(|index| index.bits.words().len())
    }

    pub(super) fn contains(&self, entry_id: i64) -> bool {
        self.values.contains(entry_id)
    }

    pub(super) fn get(&self, entry_id: i64) -> Option<PendingAck> {
        self.values.get(entry_id).map(PendingAck::unpack)
    }

    /// Sets the value of an entry; returns whether the entry is new.
    pub(super) fn put(&mut self, entry_id: i64, value: PendingAck) -> bool {
        let is_new = self.values.insert(entry_id, value.pack()).is_none();
        if is_new && let Some(index) = &mut self.index {
            let bit = index.bit(entry_id, words_max(self.values.len()));
            let is_set = bit.is_some_and(|bit| index.bits.set(bit).is_ok());
            if !is_set {
                self.index = None;
            }
        }
        is_new
    }

    /// Calls `change` with the remaining count of an entry, if the entry is pending. If `change` returns a count,
    /// stores it. Returns whether a count was stored.
    pub(super) fn update_remaining(
        &mut self,
        entry_id: i64,
        change: impl FnOnce(i32) -> Option<i32>,
    ) -> bool {
        let Some(packed) = self.values.get_mut(entry_id) else { return false };
        let value = PendingAck::unpack(*packed);
        let Some(remaining) = change(value.remaining) else { return false };
        *packed = PendingAck { remaining, ..value }.pack();
        true
    }

    pub(super) fn remove(&mut self, entry_id: i64) -> Option<PendingAck> {
        let value = self.values.remove(entry_id)?;
        if let Some(index) = &mut self.index {
            let bit = index.bit(entry_id, usize::MAX).expect("every entry is in the index");
            index.bits.clear(bit);
        }
        if self.values.capacity() > 4 * self.values.len() + 64 {
            self.shrink();
        }
        Some(PendingAck::unpack(value))
    }

    /// In a 64-entry page, removes the entries whose slots are set in the mask `slots`; returns the number of removed
    /// entries.
    pub(super) fn discard(&mut self, page: i64, mut slots: u64) -> usize {
        let mut discarded = 0;
        while slots != 0 {
            discarded += usize::from(self.remove(join(page, slots.trailing_zeros())).is_some());
            slots &= slots - 1;
        }
        discarded
    }

    /// Removes every entry up to and including `last`; returns the number of removed entries.
    pub(super) fn remove_up_to(&mut self, last: i64) -> usize {
        let before = self.values.len();
        match &mut self.index {
            Some(index) => {
                let Some(bit) = index.bits_up_to(last) else { return 0 };
                let removed =
                    index.bits.clear_prefix(bit).expect("room for the ids of what is removed");
                // Removing ids one by one needs a random memory access for each id. A pass over the whole map costs
                // only a fraction of such an access for each entry.
                if removed.len() * 8 > before {
                    self.values.retain(|id, _| id > last);
                } else {
                    for bit in removed {
                        self.values.remove(index.entry_id(bit));
                    }
                }
            }
            None => self.values.retain(|id, _| id > last),
        }
        let removed = before - self.values.len();
        if removed > 0 {
            self.shrink();
        }
        removed
    }

    /// Calls `visit` in order with the id and the value of every entry up to and including `last`.
    pub(super) fn for_each_up_to(&self, last: i64, mut visit: impl FnMut(i64, PendingAck)) {
        if let Some(index) = &self.index {
            let entries = index.bits.iter().map(|bit| index.entry_id(bit));
            for entry_id in entries.take_while(|&id| id <= last) {
                visit(entry_id, self.get(entry_id).expect("the index and the map agree"));
            }
            return;
        }
        let mut entries: Vec<_> = self.values.iter().filter(|&(id, _)| id <= last).collect();
        entries.sort_unstable();
        for (entry_id, packed) in entries {
            visit(entry_id, PendingAck::unpack(packed));
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.values.heap_bytes() + self.index.as_ref().map_or(0, |index| index.bits.heap_bytes())
    }

    pub(super) fn validate(&self) -> Validity {
        self.values.validate()?;
        if let Some(index) = &self.index {
            index.bits.validate()?;
            invariant!(
                index.bits.cardinality() == self.values.len(),
                "the index has every entry once"
            );
            for bit in index.bits.iter() {
                invariant!(
                    self.values.contains(index.entry_id(bit)),
                    "the index has no entry of its own"
                );
            }
        }
        Ok(())
    }

    /// Releases the memory that is unused after a removal, and rebuilds the index.
    fn shrink(&mut self) {
        self.values.shrink_to_fit();
        self.rebuild_index();
    }

    fn rebuild_index(&mut self) {
        self.index = None;
        let words = || self.values.iter().map(|(id, _)| split(id).0);
        let (Some(first_word), Some(last_word)) = (words().min(), words().max()) else { return };
        let words_max = words_max(self.values.len());
        if first_word.abs_diff(last_word) >= words_max as u64 {
            return;
        }
        let mut index = Index { first_word, bits: BitSet::new() };
        for (id, _) in self.values.iter() {
            let bit = index.bit(id, words_max).expect("the span was checked");
            index.bits.set(bit).expect("the span is below the limit of a bit set");
        }
        self.index = Some(index);
    }
}
