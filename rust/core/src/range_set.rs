//! A set of acknowledged positions: Pulsar's individually deleted messages.
//!
//! Representation: an ordered map from ledger id to the acknowledged entries of the ledger. Each ledger is in the
//! smallest of three forms (see [`LedgerAcks`]): a single run, a sorted tree of runs, or a bit window. A ledger that is
//! acknowledged in order, the usual case, is a single run and allocates nothing. Callers do not see the form. Roaring
//! bitmaps are not used, because adding would be three to five times slower, and the set would not be smaller. With
//! them, a run of 2^40 entries, which hostile bytes can request, would take 2^24 containers.
//!
//! Ranges are open-closed, `(lower, upper]`, as Pulsar prints them, and never span ledgers.
//!
//! Invariants: no ledger is empty; the totals are the sums over the ledgers; the runs of a ledger are ascending and not
//! adjacent.

mod ledger_values;
mod bytes;
mod entry_set;
mod ledger_acks;
mod run;
mod runs;
mod text;
mod window;

use std::collections::BTreeMap;

use crate::error::{
    Error, InvalidArgument, LimitReached, Result, Validity, invariant, vec_with_room,
};
use crate::position::Position;
pub(crate) use entry_set::EntrySet;
use ledger_acks::LedgerAcks;
use ledger_values::LedgerValues;
use run::Run;

/// The maximum number of words of a Java `BitSet`, whose indexes are below 2^31.
const JAVA_BIT_SET_WORDS: i64 = 1 << 25;

/// Words are added to a ledger in blocks of at most this number, with one look-up of the ledger for each block. A block
/// is so small that zeros between distant bits take little memory.
pub(crate) const WORDS_TOGETHER: usize = 512;

/// Ranges are added to a ledger in blocks of at most this number, with one look-up of the ledger for each block. The
/// bits of a block take at most 33 KB.
pub(crate) const RANGES_TOGETHER: usize = 512;

/// The acknowledged entries `(lower_entry_exclusive, upper_entry_inclusive]` of one ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PositionRange {
    /// The ledger id, ≥ 0.
    pub ledger_id: i64,
    /// The id of the entry before the first entry of the range, ≥ −1.
    pub lower_entry_exclusive: i64,
    /// The id of the last entry of the range.
    pub upper_entry_inclusive: i64,
}

/// The set of acknowledged positions. The module documentation describes its representation.
#[derive(Debug, Clone, Default)]
pub struct PositionRangeSet {
    ledgers: BTreeMap<i64, LedgerAcks>,
    /// The number of all positions. It can exceed 64 bits, because a single ledger can have 2^63 positions.
    cardinality: u128,
    ranges: usize,
}

impl PartialEq for PositionRangeSet {
    /// Compares the positions. Equal sets may store their ledgers in different forms.
    fn eq(&self, other: &Self) -> bool {
        self.cardinality == other.cardinality
            && self.ranges == other.ranges
            && self.ranges().eq(other.ranges())
    }
}

impl Eq for PositionRangeSet {}

impl PositionRangeSet {
    /// Returns the empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a position; returns whether it was new.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative id.
    pub fn add(&mut self, ledger_id: i64, entry_id: i64) -> Result<bool> {
        Position::entry(ledger_id, entry_id)?;
        Ok(self.change(ledger_id, |acks| acks.add(entry_id)))
    }

    /// Adds the range `(lower, upper]` of one ledger and returns how many positions are new. `lower == upper` adds
    /// none.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative ledger, a lower bound below −1, or an upper bound below the lower.
    pub fn add_range(&mut self, ledger_id: i64, lower: i64, upper: i64) -> Result<u64> {
        Ok(match checked_run(ledger_id, lower, upper)? {
            Some(run) => self.change(ledger_id, |acks| acks.add_run(run)),
            None => 0,
        })
    }

    /// Adds positions given as two columns and returns how many are new.
    ///
    /// # Errors
    /// [`Error::Value`] if an id is negative or the columns have different lengths. Nothing is added then.
    pub fn add_many(&mut self, ledger_ids: &[i64], entry_ids: &[i64]) -> Result<u64> {
        Self::check_many(ledger_ids, entry_ids)?;
        let before = self.cardinality;
        self.change_many(ledger_ids, entry_ids, |acks, entry_id| {
            acks.add(*entry_id);
        });
        Ok((self.cardinality - before) as u64)
    }

    /// Returns an error for positions that [`Self::add_many`] would refuse.
    ///
    /// # Errors
    /// As [`Self::add_many`].
    pub fn check_many(ledger_ids: &[i64], entry_ids: &[i64]) -> Result<()> {
        same_length(&[ledger_ids.len(), entry_ids.len()])?;
        // One pass without branches; the offender is looked up only if there is one.
        let signs = ledger_ids.iter().chain(entry_ids).fold(0, |signs, id| signs | id);
        if signs < 0 {
            let mut pairs = ledger_ids.iter().zip(entry_ids);
            pairs.try_for_each(|(ledger, entry)| Position::entry(*ledger, *entry).map(drop))?;
        }
        Ok(())
    }

    /// Adds ranges `(lower, upper]` given as three columns and returns how many positions are new.
    ///
    /// # Errors
    /// As [`Self::add_range`], and [`Error::Value`] if the columns have different lengths. Nothing is added then.
    pub fn add_ranges(&mut self, ledgers: &[i64], lowers: &[i64], uppers: &[i64]) -> Result<u128> {
        Self::check_ranges(ledgers, lowers, uppers)?;
        let before = self.cardinality;
        let runs = lowers.iter().zip(uppers).map(|(&lower, &upper)| Run { lower, upper });
        self.change_many(ledgers, runs, |acks, run| {
            if run.lower < run.upper {
                acks.add_run(run);
            }
        });
        Ok(self.cardinality - before)
    }

    /// Returns an error for ranges that [`Self::add_ranges`] would refuse.
    ///
    /// # Errors
    /// As [`Self::add_ranges`].
    pub fn check_ranges(ledgers: &[i64], lowers: &[i64], uppers: &[i64]) -> Result<()> {
        same_length(&[ledgers.len(), lowers.len(), uppers.len()])?;
        for ((&ledger_id, &lower), &upper) in ledgers.iter().zip(lowers).zip(uppers) {
            checked_run(ledger_id, lower, upper)?;
        }
        Ok(())
    }

    /// Adds ranges `(lower, upper]` of one ledger. Many ranges in ascending order are added fastest.
    ///
    /// # Errors
    /// As [`Self::add_range`]; then nothing is added.
    pub(crate) fn add_ranges_of(&mut self, ledger_id: i64, bounds: &[(i64, i64)]) -> Result<()> {
        for &(lower, upper) in bounds {
            checked_run(ledger_id, lower, upper)?;
        }
        if !bounds.is_empty() {
            self.change(ledger_id, |acks| acks.add_runs(bounds));
        }
        Ok(())
    }

    /// Adds entries of one ledger, given as bits in the order of Java's `BitSet.toLongArray`. Bit b of word i, counted
    /// from the lowest bit, is entry 64 × i + b. A set bit means acknowledged. Returns how many positions are new.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative ledger.
    pub fn add_words(&mut self, ledger_id: i64, words: &[i64]) -> Result<u64> {
        self.add_words_from(ledger_id, 0, words)
    }

    /// Does the same as [`Self::add_words`], except that the first of `words` has the index `first_word`, not 0.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative ledger.
    pub fn add_words_from(
        &mut self,
        ledger_id: i64,
        first_word: usize,
        words: &[i64],
    ) -> Result<u64> {
        Position::entry(ledger_id, 0)?;
        let before = self.cardinality_of(ledger_id);
        for (index, block) in words.chunks(WORDS_TOGETHER).enumerate() {
            let block: Vec<u64> = block.iter().map(|word| word.cast_unsigned()).collect();
            let first_word = first_word + index * WORDS_TOGETHER;
            self.add_words_at(ledger_id, first_word as i64, &block)?;
        }
        Ok(self.cardinality_of(ledger_id) - before)
    }

    /// Adds entries of one ledger, given as bits. Bit b of word i is entry 64 × (`first_word` + i) + b.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative ledger.
    pub(crate) fn add_words_at(
        &mut self,
        ledger_id: i64,
        first_word: i64,
        words: &[u64],
    ) -> Result<()> {
        Position::entry(ledger_id, 0)?;
        self.change(ledger_id, |acks| acks.add_words(first_word, words));
        Ok(())
    }

    /// Removes a position; returns whether it was in the set.
    pub fn remove(&mut self, ledger_id: i64, entry_id: i64) -> bool {
        self.ledgers.contains_key(&ledger_id)
            && self.change(ledger_id, |acks| acks.remove(entry_id))
    }

    /// Removes the positions in two columns of equal length; returns how many were in the set.
    pub fn remove_many(&mut self, ledger_ids: &[i64], entry_ids: &[i64]) -> u64 {
        let before = self.cardinality;
        self.change_many(ledger_ids, entry_ids, |acks, entry_id| {
            acks.remove(*entry_id);
        });
        (before - self.cardinality) as u64
    }

    /// Removes the range `(lower, upper]` of one ledger; returns how many of its positions were in the set.
    ///
    /// # Errors
    /// As [`Self::add_range`].
    pub fn remove_range(&mut self, ledger_id: i64, lower: i64, upper: i64) -> Result<u64> {
        let before = self.cardinality_of(ledger_id);
        if let (Some(run), 1..) = (checked_run(ledger_id, lower, upper)?, before) {
            self.change(ledger_id, |acks| acks.remove_run(run));
        }
        Ok(before - self.cardinality_of(ledger_id))
    }

    /// Removes every position up to and including this one; returns the number of removed positions.
    pub fn remove_up_to(&mut self, ledger_id: i64, entry_id: i64) -> u128 {
        let before = self.cardinality;
        while let Some(first) = self.ledgers.first_entry().filter(|first| *first.key() < ledger_id)
        {
            let acks = first.remove();
            self.cardinality -= u128::from(acks.cardinality());
            self.ranges -= acks.len();
        }
        if self.ledgers.contains_key(&ledger_id) {
            self.change(ledger_id, |acks| acks.remove_up_to(entry_id));
        }
        before - self.cardinality
    }

    /// Adds every position of `other`.
    pub fn union_with(&mut self, other: &Self) {
        for (ledger_id, theirs) in &other.ledgers {
            self.change(*ledger_id, |acks| acks.union_with(theirs));
        }
    }

    /// Removes every position of `other`.
    pub fn difference_with(&mut self, other: &Self) {
        for (ledger_id, theirs) in &other.ledgers {
            if self.ledgers.contains_key(ledger_id) {
                self.change(*ledger_id, |acks| acks.difference_with(theirs));
            }
        }
    }

    /// Removes all positions.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Returns whether a position is acknowledged; false for an invalid position.
    #[must_use]
    pub fn contains(&self, ledger_id: i64, entry_id: i64) -> bool {
        self.ledgers.get(&ledger_id).is_some_and(|acks| acks.contains(entry_id))
    }

    /// For each position in two columns of equal length, returns whether it is acknowledged.
    #[must_use]
    pub fn contains_many(&self, ledger_ids: &[i64], entry_ids: &[i64]) -> Vec<bool> {
        let mut acks = LedgerValues::new();
        let pairs = ledger_ids.iter().zip(entry_ids);
        pairs
            .map(|(ledger_id, entry_id)| {
                acks.get(*ledger_id, || self.ledgers.get(ledger_id))
                    .is_some_and(|acks| acks.contains(*entry_id))
            })
            .collect()
    }

    /// Returns the number of positions.
    #[must_use]
    pub fn cardinality(&self) -> u128 {
        self.cardinality
    }

    /// Returns the number of ranges. A range is always within one ledger. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ledgers.is_empty()
    }

    /// Returns the ids of the ledgers that have a position, in order.
    pub fn ledger_ids(&self) -> impl ExactSizeIterator<Item = i64> + '_ {
        self.ledgers.keys().copied()
    }

    /// Returns the number of positions of one ledger.
    #[must_use]
    pub fn cardinality_of(&self, ledger_id: i64) -> u64 {
        self.ledgers.get(&ledger_id).map_or(0, LedgerAcks::cardinality)
    }

    /// Returns the number of ranges of one ledger.
    #[must_use]
    pub fn len_of(&self, ledger_id: i64) -> usize {
        self.ledgers.get(&ledger_id).map_or(0, LedgerAcks::len)
    }

    /// Returns the acknowledged entries of one ledger as words, in the form that [`Self::add_words`] takes. Zero words
    /// at the end are dropped.
    ///
    /// # Errors
    /// [`Error::Limit`] for an entry of 2^31 or above, which a Java `BitSet` cannot hold; [`Error::Memory`] if there is
    /// too little memory for the words up to the last entry.
    pub fn words_of(&self, ledger_id: i64) -> Result<Vec<i64>> {
        let Some(acks) = self.ledgers.get(&ledger_id) else { return Ok(Vec::new()) };
        let last_word = acks.last_entry() / 64;
        if last_word >= JAVA_BIT_SET_WORDS {
            let entry_id = acks.last_entry();
            return Err(Error::Limit(LimitReached::JavaBitSet { ledger_id, entry_id }));
        }
        let mut words = vec_with_room(last_word as usize + 1)?;
        words.resize(last_word as usize + 1, 0);
        acks.write_words(&mut words);
        Ok(words.into_iter().map(u64::cast_signed).collect())
    }

    /// Returns the first range.
    #[must_use]
    pub fn first_range(&self) -> Option<PositionRange> {
        let (ledger_id, acks) = self.ledgers.first_key_value()?;
        Some(acks.first_run().in_ledger(*ledger_id))
    }

    /// Returns the range that contains a position.
    #[must_use]
    pub fn range_containing(&self, ledger_id: i64, entry_id: i64) -> Option<PositionRange> {
        Some(self.ledgers.get(&ledger_id)?.run_containing(entry_id)?.in_ledger(ledger_id))
    }

    /// Returns the ranges in order.
    pub fn ranges(&self) -> impl Iterator<Item = PositionRange> + '_ {
        self.ledgers
            .iter()
            .flat_map(|(ledger_id, acks)| acks.runs().map(|run| run.in_ledger(*ledger_id)))
    }

    /// Returns the ranges of one ledger in order.
    pub fn ranges_of(&self, ledger_id: i64) -> impl Iterator<Item = PositionRange> + '_ {
        let acks = self.ledgers.get(&ledger_id);
        acks.into_iter().flat_map(move |acks| acks.runs().map(move |run| run.in_ledger(ledger_id)))
    }

    /// Returns, in order, at most `limit` ranges: those that begin after the position `after`, or the first ranges if
    /// `after` is `None`. Iterators that cannot borrow the set use this method.
    #[must_use]
    pub fn ranges_after(&self, after: Option<Position>, limit: usize) -> Vec<PositionRange> {
        let Some(after) = after else { return self.ranges().take(limit).collect() };
        let mut ranges = Vec::with_capacity(limit.min(self.ranges));
        for (ledger_id, acks) in self.ledgers.range(after.ledger_id..) {
            let wanted = limit - ranges.len();
            if *ledger_id == after.ledger_id {
                let rest = acks.runs_after(after.entry_id);
                ranges.extend(rest.take(wanted).map(|run| run.in_ledger(*ledger_id)));
            } else {
                ranges.extend(acks.runs().take(wanted).map(|run| run.in_ledger(*ledger_id)));
            }
            if ranges.len() == limit {
                break;
            }
        }
        ranges
    }

    /// Returns the positions in order.
    pub fn positions(&self) -> impl Iterator<Item = Position> + '_ {
        self.ranges().flat_map(|range| {
            (range.lower_entry_exclusive..range.upper_entry_inclusive)
                .map(move |before| Position::new(range.ledger_id, before + 1))
        })
    }

    /// Returns the size of the set's heap memory, in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let own: usize = self.ledgers.values().map(LedgerAcks::heap_bytes).sum();
        own + crate::nbytes::mixed_btree_bytes::<i64, LedgerAcks>(self.ledgers.len())
    }

    /// Checks the invariants of the module and of each ledger's form.
    ///
    /// # Errors
    /// A sentence that names the broken invariant.
    pub fn validate(&self) -> Validity {
        let mut cardinality = 0;
        let mut ranges = 0;
        for (ledger_id, acks) in &self.ledgers {
            invariant!(*ledger_id >= 0, "ledger {ledger_id}");
            acks.validate()?;
            cardinality += u128::from(acks.cardinality());
            ranges += acks.len();
        }
        invariant!(self.cardinality == cardinality, "positions in all");
        invariant!(self.ranges == ranges, "ranges in all");
        Ok(())
    }

    /// Calls `change` with the entries of a ledger, and updates the totals. If the ledger is then empty, it is removed
    /// from the map.
    fn change<R>(&mut self, ledger_id: i64, change: impl FnOnce(&mut LedgerAcks) -> R) -> R {
        let acks = self.ledgers.entry(ledger_id).or_default();
        let (cardinality, ranges) = (acks.cardinality(), acks.len());
        let result = change(acks);
        self.cardinality += u128::from(acks.cardinality());
        self.cardinality -= u128::from(cardinality);
        self.ranges = self.ranges + acks.len() - ranges;
        if acks.is_empty() {
            self.ledgers.remove(&ledger_id);
        }
        result
    }

    /// Calls `change` with each item and the entries of its ledger, and updates the totals.
    fn change_many<T>(
        &mut self,
        ledger_ids: &[i64],
        items: impl IntoIterator<Item = T>,
        change: impl Fn(&mut LedgerAcks, T),
    ) {
        // The ledgers are taken out of the map during the batch, so that each is found without a search.
        let mut taken = LedgerValues::new();
        for (ledger_id, item) in ledger_ids.iter().zip(items) {
            let take = || {
                let acks = self.ledgers.get_mut(ledger_id).map(std::mem::take).unwrap_or_default();
                self.cardinality -= u128::from(acks.cardinality());
                self.ranges -= acks.len();
                acks
            };
            change(taken.get(*ledger_id, take), item);
        }
        for (ledger_id, acks) in taken.into_iter() {
            self.change(ledger_id, |mine| *mine = acks);
        }
    }
}

/// Checks the bounds of a range and returns it as a run; `None` if the range is empty.
fn checked_run(ledger_id: i64, lower: i64, upper: i64) -> Result<Option<Run>> {
    if ledger_id < 0 || lower < -1 || upper < lower {
        return Err(Error::Value(InvalidArgument::EntryRange { ledger_id, lower, upper }));
    }
    Ok((lower < upper).then_some(Run { lower, upper }))
}

fn same_length(lengths: &[usize]) -> Result<()> {
    if lengths.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(Error::Value(InvalidArgument::DifferentLengths { lengths: lengths.to_vec() }));
    }
    Ok(())
}
