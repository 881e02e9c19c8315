//! The acknowledged entries of one ledger, for callers that keep the ledgers of many topics themselves.

use super::PositionRangeSet;
use super::ledger_acks::LedgerAcks;
use super::run::Run;

/// A set of entry ids ≥ 0. It has the same representation as one ledger of a [`PositionRangeSet`].
#[derive(Debug, Clone, Default)]
pub(crate) struct EntrySet(LedgerAcks);

impl EntrySet {
    /// Adds an entry ≥ 0.
    #[inline]
    pub(crate) fn add(&mut self, entry_id: i64) {
        self.0.add(entry_id);
    }

    /// Adds the entries `(lower, upper]`, `-1 <= lower < upper`.
    pub(crate) fn add_range(&mut self, lower: i64, upper: i64) {
        self.0.add_run(Run { lower, upper });
    }

    /// Adds entries, given as bits. Bit `b` of word `i` is entry `64 * (first_word + i) + b`.
    pub(crate) fn add_words(&mut self, first_word: i64, words: &[u64]) {
        self.0.add_words(first_word, words);
    }

    pub(crate) fn union_with(&mut self, other: &Self) {
        if self.is_empty() {
            self.clone_from(other);
        } else {
            self.0.union_with(&other.0);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the last entry, if there is one.
    pub(crate) fn last_entry(&self) -> Option<i64> {
        (!self.is_empty()).then(|| self.0.last_entry())
    }

    /// Returns the number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the ranges `(lower, upper]` in order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.0.runs().map(|run| (run.lower, run.upper))
    }

    /// Sets in `words` the bit of each entry. The first word of `words` has the index `first_word`. `words` must have
    /// the word of the last entry.
    pub(crate) fn write_words(&self, first_word: i64, words: &mut [u64]) {
        for (lower, upper) in self.ranges() {
            let (first, last) = (lower + 1 - 64 * first_word, upper - 64 * first_word);
            let (first, last) = (first as usize, last as usize);
            for (index, word) in words.iter_mut().enumerate().take(last / 64 + 1).skip(first / 64) {
                let low = if index == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
                let high = if index == last / 64 { u64::MAX >> (63 - last % 64) } else { u64::MAX };
                *word |= low & high;
            }
        }
    }
}

impl PositionRangeSet {
    /// Adds all entries of one ledger.
    pub(crate) fn add_entries(&mut self, ledger_id: i64, entries: &EntrySet) {
        if !entries.is_empty() {
            self.change(ledger_id, |acks| match acks.is_empty() {
                true => acks.clone_from(&entries.0),
                false => acks.union_with(&entries.0),
            });
        }
    }
}
