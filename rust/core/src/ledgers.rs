//! The ledger directory of one topic: the number of entries of each ledger, and the ledger that is open.
//!
//! A cursor needs it for two purposes. First, the last entry of a ledger and entry −1 of the next ledger are the same
//! mark-delete position, and brokers write both notations. Second, the entries between two positions can be counted
//! only with the length of each ledger. The persisted cursor does not contain the directory.
//!
//! Representation: the ledgers in order, in blocks of at most [`BLOCK`] ledgers. Each block has its ids, the running
//! sums of its entries, and the number of entries in all earlier blocks. One flat array of running sums would be
//! simpler. But if events are out of order, a ledger in the middle of the directory grows, and each growth would change
//! every later sum. A tree would cost a cache miss for each level. Every query is one of two: *rank*, the number of
//! entries at or before a position, and *select*, the position of the n-th entry. Neither query needs a special case
//! for empty ledgers.
//!
//! Invariants: ids increase strictly and are at least `trimmed_before`; blocks are not empty; sums do not decrease;
//! only the greatest ledger can be open.

use std::cmp::Ordering;

use crate::error::{Error, InvalidArgument, LimitReached, Result, Validity, invariant};
use crate::position::Position;

/// The maximum number of ledgers in a block. Growing a ledger in the middle costs at most a pass over one block and a
/// pass over the list of blocks. At 100,000 ledgers each pass takes some hundred steps.
const BLOCK: usize = 256;

/// The state of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerState {
    /// The ledger with the greatest id, to which the broker still writes.
    Open,
    /// A ledger that no longer grows. It has its entries until it is trimmed.
    Closed,
    /// A ledger that was deleted with all its entries. Its id is never used again.
    Trimmed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    /// The number of entries in all earlier blocks together.
    before: i64,
    ids: Vec<i64>,
    /// `ends[i]` is the number of entries in the ledgers of this block up to and including the i-th.
    ends: Vec<i64>,
}

impl Block {
    /// Returns the number of entries of the first `index` ledgers of this block.
    fn start(&self, index: usize) -> i64 {
        if index == 0 { 0 } else { self.ends[index - 1] }
    }

    fn entries(&self, index: usize) -> i64 {
        self.ends[index] - self.start(index)
    }

    fn total(&self) -> i64 {
        self.ends.last().copied().unwrap_or(0)
    }
}

/// The ledger directory of one topic. The module documentation describes its representation.
#[derive(Debug, Clone, Default)]
pub struct Ledgers {
    blocks: Vec<Block>,
    open: bool,
    trimmed_before: i64,
}

impl PartialEq for Ledgers {
    /// Compares the ledgers, not their distribution over blocks.
    fn eq(&self, other: &Self) -> bool {
        self.open == other.open
            && self.trimmed_before == other.trimmed_before
            && self.iter().eq(other.iter())
    }
}

impl Eq for Ledgers {}

impl Ledgers {
    /// Creates a directory without ledgers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a directory from `(ledger_id, entries)` pairs, which may be in any order. If `open` is true, the
    /// greatest ledger is open.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative number or a ledger named twice, [`Error::Protocol`] for a ledger below
    /// `trimmed_before`, [`Error::Limit`] for more than 2^63 − 1 entries in all.
    pub fn from_entries(
        mut pairs: Vec<(i64, i64)>,
        open: bool,
        trimmed_before: i64,
    ) -> Result<Self> {
        check(trimmed_before, 0)?;
        pairs.sort_unstable();
        if let Some(twice) = pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::Value(InvalidArgument::RepeatedLedger { ledger_id: twice[0].0 }));
        }
        let mut ledgers = Self { trimmed_before, ..Self::new() };
        for (ledger_id, entries) in pairs {
            ledgers.add(ledger_id, entries)?;
        }
        ledgers.open = open && !ledgers.is_empty();
        Ok(ledgers)
    }

    /// Adds a ledger and opens it. Its id must be greater than the ids of all other ledgers. The previous open ledger
    /// is closed.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the id is not greater than the ids of all other ledgers, including the trimmed ledgers.
    pub fn add(&mut self, ledger_id: i64, entries: i64) -> Result<()> {
        check(ledger_id, entries)?;
        if let Some(last) = self.last_id().filter(|last| *last >= ledger_id) {
            return Err(Error::protocol(format!(
                "ledger {ledger_id} is not new: ledger {last} is known"
            )));
        }
        self.refuse_trimmed(ledger_id)?;
        self.refuse_overflow(entries)?;
        let before = self.total();
        match self.blocks.last_mut() {
            Some(block) if block.ids.len() < BLOCK => {
                block.ids.push(ledger_id);
                block.ends.push(before - block.before + entries);
            }
            _ => self.blocks.push(Block { before, ids: vec![ledger_id], ends: vec![entries] }),
        }
        self.open = true;
        Ok(())
    }

    /// Sets the number of entries of a ledger. The number may only grow. A closed ledger stays closed.
    ///
    /// An unknown ledger is added. If the new ledger has the greatest id, it is open, and the previous open ledger is
    /// closed. If not, the new ledger is closed.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a trimmed ledger, and for fewer entries than the ledger has.
    pub fn grow(&mut self, ledger_id: i64, entries: i64) -> Result<()> {
        check(ledger_id, entries)?;
        self.refuse_trimmed(ledger_id)?;
        if self.last_id().is_none_or(|last| last < ledger_id) {
            return self.add(ledger_id, entries);
        }
        match self.find(ledger_id) {
            Some((block, index)) => {
                let held = self.blocks[block].entries(index);
                if entries < held {
                    return Err(Error::protocol(format!(
                        "ledger {ledger_id} holds {held} entries and cannot shrink to {entries}"
                    )));
                }
                let more = entries - held;
                self.refuse_overflow(more)?;
                self.add_to_sums(block, index, more);
            }
            None => {
                self.refuse_overflow(entries)?;
                self.insert(ledger_id, entries);
            }
        }
        Ok(())
    }

    /// Closes a ledger; returns false if the ledger is unknown or trimmed. Closing a ledger that is not the greatest
    /// changes nothing, because it is already closed.
    pub fn close(&mut self, ledger_id: i64) -> bool {
        if self.last_id() == Some(ledger_id) {
            self.open = false;
        }
        self.find(ledger_id).is_some()
    }

    /// Removes every ledger with an id below `ledger_id`; returns the number of removed ledgers. Their state is then
    /// [`LedgerState::Trimmed`].
    ///
    /// # Errors
    /// [`Error::Protocol`] if the open ledger is below `ledger_id`, because a broker never trims the ledger to
    /// which it writes.
    pub fn trim_before(&mut self, ledger_id: i64) -> Result<usize> {
        check(ledger_id, 0)?;
        if let Some(last) = self.last_id().filter(|last| self.open && *last < ledger_id) {
            return Err(Error::protocol(format!("ledger {last} is open and cannot be trimmed")));
        }
        self.trimmed_before = self.trimmed_before.max(ledger_id);
        let known = self.len();
        let gone = self.blocks.partition_point(|block| block.ids[block.ids.len() - 1] < ledger_id);
        self.blocks.drain(..gone);
        if let Some(block) = self.blocks.first_mut() {
            let gone = block.ids.partition_point(|id| *id < ledger_id);
            let entries = block.start(gone);
            block.ids.drain(..gone);
            block.ends.drain(..gone);
            block.ends.iter_mut().for_each(|end| *end -= entries);
        }
        self.count_blocks_from(0);
        Ok(known - self.len())
    }

    /// Returns the ledger id below which all ledgers are trimmed.
    #[must_use]
    pub fn trimmed_before(&self) -> i64 {
        self.trimmed_before
    }

    /// Returns whether the greatest ledger is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the number of ledgers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.ids.len()).sum()
    }

    /// Returns whether the directory is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns `(ledger_id, entries)` of each ledger, in order.
    pub fn iter(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.blocks.iter().flat_map(|block| {
            block.ids.iter().enumerate().map(|(index, id)| (*id, block.entries(index)))
        })
    }

    /// Returns the number of entries of a ledger; `None` if it is unknown or trimmed.
    #[must_use]
    pub fn entries(&self, ledger_id: i64) -> Option<i64> {
        let (block, index) = self.find(ledger_id)?;
        Some(self.blocks[block].entries(index))
    }

    /// Returns the state of a ledger; `None` if it is unknown. Ledger ids only grow, so every ledger below
    /// `trimmed_before` is trimmed.
    #[must_use]
    pub fn state(&self, ledger_id: i64) -> Option<LedgerState> {
        if (0..self.trimmed_before).contains(&ledger_id) {
            return Some(LedgerState::Trimmed);
        }
        self.find(ledger_id)?;
        let open = self.open && self.last_id() == Some(ledger_id);
        Some(if open { LedgerState::Open } else { LedgerState::Closed })
    }

    /// Returns whether the position is an entry that exists.
    #[must_use]
    pub fn contains(&self, position: Position) -> bool {
        position.entry_id >= 0
            && self.entries(position.ledger_id).is_some_and(|entries| position.entry_id < entries)
    }

    /// Returns true if every position of two columns of equal length is an existing entry, or is at or before `passed`.
    /// Returns false if an id is negative.
    #[must_use]
    pub fn contains_all(&self, ledger_ids: &[i64], entry_ids: &[i64], passed: Position) -> bool {
        // The ledger of the previous look-up, and the result of that look-up.
        let (mut ledger_id, mut last) = (-1, -1);
        ledger_ids.iter().zip(entry_ids).all(|(&id, &entry_id)| {
            if id != ledger_id {
                (ledger_id, last) = (id, self.last_existing_or_passed(id, passed));
            }
            (0..=last).contains(&entry_id)
        })
    }

    /// Returns the greatest entry id for which the entry of the ledger exists, or is at or before `passed`; −1 if there
    /// is none.
    fn last_existing_or_passed(&self, ledger_id: i64, passed: Position) -> i64 {
        let last_passed = match ledger_id.cmp(&passed.ledger_id) {
            _ if ledger_id < 0 => -1,
            Ordering::Less => i64::MAX,
            Ordering::Equal => passed.entry_id,
            Ordering::Greater => -1,
        };
        last_passed.max(self.entries(ledger_id).unwrap_or(0) - 1)
    }

    /// Returns the first existing entry after `position`; if there is none, [`Ledgers::end`].
    #[must_use]
    pub fn next_valid(&self, position: Position) -> Option<Position> {
        self.select(self.rank(position)).or_else(|| self.end())
    }

    /// Returns the last existing entry before `position`. If there is none, returns entry −1 of the first ledger or of
    /// the ledger of `position`, whichever ledger id is less. Pulsar's `getPreviousPosition` does the same.
    #[must_use]
    pub fn previous_valid(&self, position: Position) -> Position {
        let before = Position::new(position.ledger_id, position.entry_id.saturating_sub(1));
        self.select(self.rank(before) - 1).unwrap_or_else(|| {
            let first = self.blocks.first().map_or(position.ledger_id, |block| block.ids[0]);
            Position::new(first.min(position.ledger_id), -1)
        })
    }

    /// Returns the position of the next entry to be written. It is the position after the last entry of the open ledger
    /// or, if no ledger is open, the position after the last existing entry. If all ledgers are empty, it is entry 0 of
    /// the greatest ledger. `None` without ledgers.
    #[must_use]
    pub fn end(&self) -> Option<Position> {
        let last = self.last_id()?;
        match self.select(self.total() - 1) {
            Some(entry) if !self.open || entry.ledger_id == last => {
                Some(Position::new(entry.ledger_id, entry.entry_id + 1))
            }
            _ => Some(Position::new(last, 0)),
        }
    }

    /// Returns the position before all entries: entry −1 of the first ledger.
    #[must_use]
    pub fn first_position(&self) -> Option<Position> {
        self.blocks.first().map(|block| Position::new(block.ids[0], -1))
    }

    /// Returns the position of the last existing entry; if there are no entries, [`Ledgers::first_position`].
    #[must_use]
    pub fn last_position(&self) -> Option<Position> {
        self.select(self.total() - 1).or_else(|| self.first_position())
    }

    /// Returns the number of existing entries in `(lower, upper]`. The bounds need not exist. Entries of unknown and
    /// trimmed ledgers are not counted.
    #[must_use]
    pub fn entries_between(&self, lower: Position, upper: Position) -> i64 {
        (self.rank(upper) - self.rank(lower)).max(0)
    }

    /// Returns the number of existing entries in all ledgers.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.blocks.last().map_or(0, |block| block.before + block.total())
    }

    /// Returns the number of existing entries at or before `position`.
    #[must_use]
    pub fn rank(&self, position: Position) -> i64 {
        let after = self.blocks.partition_point(|block| block.ids[0] <= position.ledger_id);
        let Some(block) = after.checked_sub(1).map(|index| &self.blocks[index]) else { return 0 };
        let index = block.ids.partition_point(|id| *id <= position.ledger_id) - 1;
        let inside = if block.ids[index] == position.ledger_id {
            position.entry_id.saturating_add(1).clamp(0, block.entries(index))
        } else {
            block.entries(index)
        };
        block.before + block.start(index) + inside
    }

    /// Returns the position of the entry that has exactly `rank` existing entries before it; `None` if there is no such
    /// entry.
    #[must_use]
    pub fn select(&self, rank: i64) -> Option<Position> {
        if rank < 0 || rank >= self.total() {
            return None;
        }
        // The last block with at most `rank` entries before it. A block of empty ledgers has the same `before` as the
        // next block. The last block with this `before` has the entry.
        let block = &self.blocks[self.blocks.partition_point(|block| block.before <= rank) - 1];
        let inside = rank - block.before;
        let index = block.ends.partition_point(|end| *end <= inside);
        Some(Position::new(block.ids[index], inside - block.start(index)))
    }

    /// Returns the size of the heap memory in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let words: usize =
            self.blocks.iter().map(|block| block.ids.capacity() + block.ends.capacity()).sum();
        self.blocks.capacity() * size_of::<Block>() + words * size_of::<i64>()
    }

    /// Checks the invariants of the module.
    ///
    /// # Errors
    /// A sentence that names the broken invariant.
    pub fn validate(&self) -> Validity {
        let mut before = 0;
        let mut last_id = -1;
        for block in &self.blocks {
            invariant!(block.before == before, "a block's entries before it");
            invariant!((1..=BLOCK).contains(&block.ids.len()), "a block of {}", block.ids.len());
            invariant!(block.ids.len() == block.ends.len(), "one sum a ledger");
            for (index, id) in block.ids.iter().enumerate() {
                invariant!(*id > last_id, "ledger {id} after {last_id}");
                invariant!(*id >= self.trimmed_before, "trimmed ledger {id} is kept");
                invariant!(block.entries(index) >= 0, "ledger {id} holds less than nothing");
                last_id = *id;
            }
            before += block.total();
        }
        invariant!(!self.open || !self.is_empty(), "an open ledger that is not kept");
        Ok(())
    }

    fn last_id(&self) -> Option<i64> {
        self.blocks.last().and_then(|block| block.ids.last().copied())
    }

    /// Returns the index of a ledger's block, and the index of the ledger in the block.
    fn find(&self, ledger_id: i64) -> Option<(usize, usize)> {
        let block =
            self.blocks.partition_point(|block| block.ids[0] <= ledger_id).checked_sub(1)?;
        let index = self.blocks[block].ids.binary_search(&ledger_id).ok()?;
        Some((block, index))
    }

    /// Inserts a new ledger that is not the greatest.
    fn insert(&mut self, ledger_id: i64, entries: i64) {
        let mut at =
            self.blocks.partition_point(|block| block.ids[0] <= ledger_id).saturating_sub(1);
        if self.blocks[at].ids.len() == BLOCK {
            self.split(at);
            at += usize::from(self.blocks[at + 1].ids[0] < ledger_id);
        }
        let block = &mut self.blocks[at];
        let index = block.ids.partition_point(|id| *id < ledger_id);
        block.ids.insert(index, ledger_id);
        block.ends.insert(index, block.start(index));
        self.add_to_sums(at, index, entries);
    }

    fn split(&mut self, at: usize) {
        let block = &mut self.blocks[at];
        let ids = block.ids.split_off(BLOCK / 2);
        let mut ends = block.ends.split_off(BLOCK / 2);
        let moved = block.total();
        ends.iter_mut().for_each(|end| *end -= moved);
        self.blocks.insert(at + 1, Block { before: 0, ids, ends });
        self.count_blocks_from(at + 1);
    }

    /// Adds `more` entries to the ledger `blocks[at].ids[index]`. Its running sum and all later sums grow by `more`.
    fn add_to_sums(&mut self, at: usize, index: usize, more: i64) {
        if more > 0 {
            self.blocks[at].ends[index..].iter_mut().for_each(|end| *end += more);
            self.blocks[at + 1..].iter_mut().for_each(|block| block.before += more);
        }
    }

    /// Recomputes `before` of the block at index `at` and of all later blocks.
    fn count_blocks_from(&mut self, at: usize) {
        let mut before = match at.checked_sub(1).map(|index| &self.blocks[index]) {
            Some(block) => block.before + block.total(),
            None => 0,
        };
        for block in &mut self.blocks[at..] {
            block.before = before;
            before += block.total();
        }
    }

    fn refuse_trimmed(&self, ledger_id: i64) -> Result<()> {
        if ledger_id < self.trimmed_before {
            return Err(Error::protocol(format!(
                "ledger {ledger_id} is trimmed, as all before {}",
                self.trimmed_before
            )));
        }
        Ok(())
    }

    fn refuse_overflow(&self, more: i64) -> Result<()> {
        match self.total().checked_add(more) {
            Some(_) => Ok(()),
            None => Err(Error::Limit(LimitReached::LedgerEntries)),
        }
    }
}

fn check(ledger_id: i64, entries: i64) -> Result<()> {
    if ledger_id < 0 || entries < 0 {
        return Err(Error::Value(InvalidArgument::Ledger { ledger_id, entries }));
    }
    Ok(())
}
