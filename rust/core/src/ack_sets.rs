//! Ack sets by position: the messages of partly acknowledged batches that are not acknowledged.
//!
//! A batch is one entry with many messages. Its *ack set* is 64-bit words, least significant bit first, without zero
//! words at the end; a set bit marks a message that is not acknowledged. Words are signed, as on the wire.
//!
//! **Representation.** Each ledger has its sets in order of entry id, in chunks of up to 128 sets. A chunk stores its
//! sets as columns: 4 bytes for each entry id, and the words of each set. The set of a batch of up to 64 messages is
//! one word and takes 12 bytes. Longer sets are packed ([`AckSet`]), so their empty and full words cost nothing. A
//! search is one look-up of the ledger and two binary searches; an insertion moves at most one chunk.
//!
//! **Changes.** Each set has two marks. One is set if the ack set changed since the last save, the other if it changed
//! since the current save began. The marks are stored in the chunk of the set, so a save costs O(changes) and a change
//! needs no memory. A removal has no mark, because a set is removed only if its entry is acknowledged. The exception is
//! `clear`, after which the changes are unknown.
//!
//! Invariants (`validate` checks them): no chunk and no ledger is empty; entry ids increase strictly; each set is in
//! its canonical form; `len` is the number of sets.

mod ack_set;
mod chunk;

use std::collections::{BTreeMap, HashSet};

use crate::error::{Error, InvalidArgument, Result, Validity, invariant};
use crate::nbytes::btree_bytes;
use crate::position::Position;
use crate::range_set::PositionRangeSet;
use ack_set::store;
pub use ack_set::{AckSet, Words};
use chunk::{Chunk, SETS_MAX};

/// The maximum number of changes that a save writes one by one. With more changes, a full save is cheaper.
pub const CHANGES_MAX: usize = 1 << 16;

/// A chunk with fewer sets than this is joined with a neighbouring chunk.
const SETS_MIN: usize = SETS_MAX / 4;

/// A map from the positions of entries to ack sets. The module documentation describes its representation.
#[derive(Debug, Default)]
pub struct AckSets {
    ledgers: BTreeMap<i64, Vec<Chunk>>,
    len: usize,
    /// The index of the chunk that changed last. A search tries this chunk first, because acknowledgments come almost
    /// in order.
    last: usize,
    tracking: Tracking,
}

/// The state of the change marks.
#[derive(Debug, Clone, Copy, Default)]
struct Tracking {
    /// Whether every change since the last save has set its mark.
    has_changed: bool,
    /// Whether every change since the current save began has set its mark.
    has_since: bool,
    /// Whether anything changed since the last save began.
    is_moved: bool,
}

/// The effect of an acknowledgment on an ack set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The set is as before.
    Unchanged,
    /// The set changed, and has this many unacknowledged messages.
    Left(u64),
    /// All messages are acknowledged, and the set is removed.
    Emptied,
}

impl Effect {
    /// Returns the number of messages that are unacknowledged after the change, or −1 if nothing changed.
    #[must_use]
    pub fn code(self) -> i64 {
        match self {
            Self::Unchanged => -1,
            Self::Left(count) => count as i64,
            Self::Emptied => 0,
        }
    }
}

fn chunks_of(ledger_id: i64, chunks: &[Chunk]) -> impl Iterator<Item = (i64, &Chunk)> + Clone {
    chunks.iter().map(move |chunk| (ledger_id, chunk))
}

/// Returns the index of the chunk to which an entry belongs.
#[inline]
fn chunk_of(chunks: &[Chunk], entry_id: i64) -> usize {
    chunks.partition_point(|chunk| chunk.base() <= entry_id).saturating_sub(1)
}

/// Does the same as [`chunk_of`], but first tries the chunk at index `first`.
#[inline]
fn chunk_near(chunks: &[Chunk], entry_id: i64, first: usize) -> usize {
    let is_right = chunks.get(first).is_some_and(|chunk| chunk.base() <= entry_id)
        && chunks.get(first + 1).is_none_or(|next| entry_id < next.base());
    if is_right { first } else { chunk_of(chunks, entry_id) }
}

impl AckSets {
    /// Creates an empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of sets. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the map is empty. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the set of an entry. O(log sets).
    #[must_use]
    #[inline]
    pub fn get(&self, position: Position) -> Option<AckSet<'_>> {
        let chunks = self.ledgers.get(&position.ledger_id)?;
        let chunk = &chunks[chunk_of(chunks, position.entry_id)];
        chunk.find(position.entry_id).ok().map(|at| chunk.set(at))
    }

    /// Sets the words of an entry; returns whether this changed them. Zero words at the end are dropped.
    pub fn insert(&mut self, position: Position, words: &[i64]) -> bool {
        let mut stored = Vec::new();
        let stored = match words {
            [word] if *word != 0 => words,
            _ => {
                store(words, &mut stored);
                &stored
            }
        };
        self.insert_stored(position, stored)
    }

    fn insert_stored(
        &mut self,
        Position { ledger_id, entry_id }: Position,
        stored: &[i64],
    ) -> bool {
        let chunks = self.ledgers.entry(ledger_id).or_default();
        if chunks.is_empty() {
            chunks.reserve_exact(1);
            chunks.push(Chunk::new(entry_id));
        }
        let place = chunk_near(chunks, entry_id, self.last);
        let chunk = &mut chunks[place];
        self.last = place;
        match chunk.find(entry_id) {
            Ok(at) if chunk.set(at).stored() == stored => return false,
            Ok(at) => {
                chunk.replace(at, stored);
                self.tracking.mark(chunk, at);
            }
            Err(_) => {
                let (place, at) = insert_new(chunks, place, entry_id, stored);
                self.last = place;
                self.tracking.mark(&mut chunks[place], at);
                self.len += 1;
            }
        }
        true
    }

    /// Acknowledges the messages of an entry whose bits are clear in `words`. If the entry has no set, `words` become
    /// its set.
    pub fn intersect(&mut self, position: Position, words: &[i64]) -> Effect {
        let Position { ledger_id, entry_id } = position;
        let last = &mut self.last;
        let found = self.ledgers.get_mut(&ledger_id).and_then(|chunks| {
            let place = chunk_near(chunks, entry_id, *last);
            *last = place;
            let chunk = &mut chunks[place];
            chunk.find(entry_id).ok().map(|at| (chunk, at))
        });
        let Some((chunk, at)) = found else {
            return match words.iter().any(|word| *word != 0) {
                true => {
                    self.insert(position, words);
                    Effect::Left(words.iter().map(|word| u64::from(word.count_ones())).sum())
                }
                false => Effect::Emptied,
            };
        };
        if let Some(own) = chunk.word_mut(at) {
            let left = *own & words.first().copied().unwrap_or(0);
            if left == *own {
                return Effect::Unchanged;
            }
            if left != 0 {
                *own = left;
                self.tracking.mark(chunk, at);
                return Effect::Left(u64::from(left.count_ones()));
            }
            self.remove(position);
            return Effect::Emptied;
        }
        let own = chunk.set(at);
        let left: Vec<i64> = own.words().zip(words).map(|(own, word)| own & word).collect();
        let mut stored = Vec::new();
        store(&left, &mut stored);
        if stored.is_empty() {
            self.remove(position);
            return Effect::Emptied;
        }
        if stored == own.stored() {
            return Effect::Unchanged;
        }
        let count = AckSet::of(&stored).message_count();
        chunk.replace(at, &stored);
        self.tracking.mark(chunk, at);
        Effect::Left(count)
    }

    /// Calls [`Self::intersect`] for each row, in order. The words of row `i` are `words[ends[i - 1]..ends[i]]`; those
    /// of row 0 begin at 0. After a row that leaves an entry without unacknowledged messages, later rows of this entry
    /// change nothing.
    ///
    /// # Errors
    /// [`Error::Value`] if `ends` does not rise from 0 to the number of words.
    pub fn intersect_many(
        &mut self,
        ledger_ids: &[i64],
        entry_ids: &[i64],
        ends: &[i64],
        words: &[i64],
    ) -> Result<Vec<Effect>> {
        check_ends(ends, words)?;
        let mut emptied = HashSet::new();
        let mut start = 0;
        let rows = ledger_ids.iter().zip(entry_ids).zip(ends);
        Ok(rows
            .map(|((ledger_id, entry_id), end)| {
                let position = Position::new(*ledger_id, *entry_id);
                let own = &words[start..*end as usize];
                start = *end as usize;
                if !emptied.is_empty() && emptied.contains(&position) {
                    return Effect::Unchanged;
                }
                let effect = self.intersect(position, own);
                if effect == Effect::Emptied {
                    emptied.insert(position);
                }
                effect
            })
            .collect())
    }

    /// Replaces the set of an entry if the first unacknowledged batch index in `words` is higher than in the present
    /// set. If the entry has no set, `words` become its set. Returns whether this changed the set. Brokers before 5.0
    /// apply cumulative acknowledgments in this way.
    pub fn replace_if_later(&mut self, position: Position, words: &[i64]) -> bool {
        let mut stored = Vec::new();
        store(words, &mut stored);
        let new = AckSet::of(&stored);
        match self.get(position) {
            Some(own) if new.first_message() <= own.first_message() => false,
            _ => self.insert_stored(position, &stored),
        }
    }

    /// Removes the set of an entry; returns whether it had one.
    pub fn remove(&mut self, Position { ledger_id, entry_id }: Position) -> bool {
        let Some(chunks) = self.ledgers.get_mut(&ledger_id) else { return false };
        let place = chunk_of(chunks, entry_id);
        let Ok(at) = chunks[place].find(entry_id) else { return false };
        chunks[place].remove(at);
        join_small(chunks, place);
        if chunks.is_empty() {
            self.ledgers.remove(&ledger_id);
        }
        self.len -= 1;
        self.tracking.is_moved = true;
        true
    }

    /// Removes the sets of entries at or before a position; returns the number of removed sets. O(1) if there is no
    /// such set.
    pub fn remove_up_to(&mut self, last: Position) -> usize {
        let before = self.len;
        while let Some(first) = self.ledgers.first_entry()
            && *first.key() < last.ledger_id
        {
            self.len -= first.remove().iter().map(Chunk::len).sum::<usize>();
        }
        if let Some(chunks) = self.ledgers.get(&last.ledger_id)
            && chunks[0].entry_id(0) <= last.entry_id
        {
            let keeps = |entry_id: i64, _: AckSet<'_>| entry_id > last.entry_id;
            self.retain_between(last.ledger_id, i64::MIN, last.entry_id, keeps);
        }
        self.tracking.is_moved |= self.len < before;
        before - self.len
    }

    /// Removes the sets of the entries in `(lower, upper]` of a ledger; returns the number of removed sets.
    pub fn remove_range(&mut self, ledger_id: i64, lower: i64, upper: i64) -> usize {
        let before = self.len;
        let keeps = |entry_id: i64, _: AckSet<'_>| entry_id <= lower || entry_id > upper;
        self.retain_between(ledger_id, lower, upper, keeps);
        before - self.len
    }

    /// Removes the sets of the entries in `acked`; returns the number of removed sets. O(sets).
    pub fn remove_ranges(&mut self, acked: &PositionRangeSet) -> usize {
        self.retain(|position, _| !acked.contains(position.ledger_id, position.entry_id))
    }

    /// Removes the sets without unacknowledged messages; returns the number of removed sets. O(sets).
    pub fn remove_empty(&mut self) -> usize {
        self.retain(|_, set| !set.stored().is_empty())
    }

    /// Removes the sets for which `keeps` returns false; returns the number of removed sets. O(sets).
    pub fn retain(&mut self, mut keeps: impl FnMut(Position, AckSet<'_>) -> bool) -> usize {
        let before = self.len;
        let ledger_ids: Vec<i64> = self.ledger_ids().collect();
        for ledger_id in ledger_ids {
            self.retain_between(ledger_id, i64::MIN, i64::MAX, |entry_id, set| {
                keeps(Position::new(ledger_id, entry_id), set)
            });
        }
        before - self.len
    }

    /// Removes the sets of a ledger for which `keeps` returns false. `keeps` is called only for the sets in chunks that
    /// can have entries from `first` to `last`.
    fn retain_between(
        &mut self,
        ledger_id: i64,
        first: i64,
        last: i64,
        mut keeps: impl FnMut(i64, AckSet<'_>) -> bool,
    ) {
        let Some(chunks) = self.ledgers.get_mut(&ledger_id) else { return };
        let mut removed = 0;
        let places = chunk_of(chunks, first)..=chunk_of(chunks, last);
        for chunk in chunks.iter_mut().take(places.end() + 1).skip(*places.start()) {
            let len = chunk.len();
            let kept = (0..len).filter(|&at| keeps(chunk.entry_id(at), chunk.set(at)));
            let mask = kept.fold(0_u128, |mask, at| mask | 1 << at);
            if (mask.count_ones() as usize) < len {
                chunk.keep(mask);
                removed += len - chunk.len();
            }
        }
        if removed > 0 {
            chunks.retain(|chunk| chunk.len() > 0);
            let mut place = 0;
            while place < chunks.len() {
                let len = chunks.len();
                join_small(chunks, place);
                place += usize::from(chunks.len() == len);
            }
            chunks.shrink_to_fit();
            if chunks.is_empty() {
                self.ledgers.remove(&ledger_id);
            }
            self.len -= removed;
            self.tracking.is_moved = true;
        }
    }

    /// Keeps the first `count` sets, and removes and returns the others.
    #[must_use]
    pub fn split_off(&mut self, count: usize) -> Self {
        let mut rest = Self::new();
        let mut left = count;
        self.retain(|position, set| {
            let keeps = left > 0;
            left = left.saturating_sub(1);
            if !keeps {
                rest.insert_stored(position, set.stored());
            }
            keeps
        });
        rest
    }

    /// Inserts every set of `newer`. An inserted set replaces the present set of the same entry.
    pub fn update(&mut self, newer: &Self) {
        for (position, set) in newer.iter() {
            self.insert_stored(position, set.stored());
        }
    }

    /// Returns the sets of the entries that have no set or a different set in `older`. O(sets).
    #[must_use]
    pub fn changed_from(&self, older: &Self) -> Self {
        let mut changed = Self::new();
        for (position, set) in self.iter().filter(|(at, set)| older.get(*at) != Some(*set)) {
            changed.insert_stored(position, set.stored());
        }
        changed
    }

    /// Removes every set. The changes since the last save are then unknown.
    pub fn clear(&mut self) {
        *self = Self::new();
        self.tracking.is_moved = true;
    }

    /// Returns the ledgers with sets, in order.
    pub fn ledger_ids(&self) -> impl ExactSizeIterator<Item = i64> + '_ {
        self.ledgers.keys().copied()
    }

    /// Returns the sets in order of position.
    pub fn iter(&self) -> impl Iterator<Item = (Position, AckSet<'_>)> + Clone + '_ {
        self.chunks().flat_map(|(ledger_id, chunk)| {
            (0..chunk.len())
                .map(move |at| (Position::new(ledger_id, chunk.entry_id(at)), chunk.set(at)))
        })
    }

    fn chunks(&self) -> impl Iterator<Item = (i64, &Chunk)> + Clone + '_ {
        self.ledgers.iter().flat_map(|(ledger_id, chunks)| chunks_of(*ledger_id, chunks))
    }

    /// Returns the number of words of the longest set; 0 without sets.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.iter().map(|(_, set)| set.word_count()).max().unwrap_or(0)
    }

    /// Begins a save. Returns the sets that changed since the last save, or `None` if the changes are unknown or more
    /// than [`CHANGES_MAX`] sets changed. O(chunks + changes).
    pub fn begin_save(&mut self) -> Option<Self> {
        self.chunks_mut().for_each(|chunk| chunk.since = 0);
        let is_known = self.tracking.has_changed;
        self.tracking.has_since = true;
        self.tracking.is_moved = false;
        let counts = self.chunks().map(|(_, chunk)| chunk.changed.count_ones() as usize);
        if !is_known || counts.sum::<usize>() > CHANGES_MAX {
            return None;
        }
        let mut changed = Self::new();
        for (ledger_id, chunk) in self.chunks().filter(|(_, chunk)| chunk.changed != 0) {
            for at in (0..chunk.len()).filter(|at| chunk.changed >> at & 1 == 1) {
                let position = Position::new(ledger_id, chunk.entry_id(at));
                changed.insert_stored(position, chunk.set(at).stored());
            }
        }
        Some(changed)
    }

    /// Ends a successful save. The changes that were made before [`Self::begin_save`] then count as saved.
    pub fn end_save(&mut self) {
        self.tracking.has_changed = self.tracking.has_since;
        self.chunks_mut().for_each(|chunk| chunk.changed = chunk.since);
    }

    /// Returns whether anything changed since the last save began.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.tracking.is_moved
    }

    fn chunks_mut(&mut self) -> impl Iterator<Item = &mut Chunk> {
        self.ledgers.values_mut().flatten()
    }

    /// Returns the size of the heap memory in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let of_ledger = |chunks: &Vec<Chunk>| {
            let own = chunks.capacity() * size_of::<Chunk>();
            own + chunks.iter().map(Chunk::heap_bytes).sum::<usize>()
        };
        btree_bytes::<i64, Vec<Chunk>>(self.ledgers.len())
            + self.ledgers.values().map(of_ledger).sum::<usize>()
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// A sentence that names the broken invariant.
    pub fn validate(&self) -> Validity {
        let mut stored = Vec::new();
        for (ledger_id, chunks) in &self.ledgers {
            invariant!(!chunks.is_empty(), "ledger {ledger_id} has no chunk");
            let mut last = None;
            for chunk in chunks {
                invariant!(chunk.len() > 0, "an empty chunk in ledger {ledger_id}");
                invariant!(last < Some(chunk.base()), "the chunks of {ledger_id} overlap");
                for at in 0..chunk.len() {
                    let entry_id = chunk.entry_id(at);
                    invariant!(last < Some(entry_id), "{ledger_id}:{entry_id} is out of order");
                    invariant!(chunk.find(entry_id) == Ok(at), "{ledger_id}:{entry_id} is lost");
                    last = Some(entry_id);
                    let words: Vec<i64> = chunk.set(at).words().collect();
                    store(&words, &mut stored);
                    invariant!(
                        stored == chunk.set(at).stored(),
                        "the set of {ledger_id}:{entry_id} is not in its only form"
                    );
                }
            }
        }
        invariant!(self.iter().count() == self.len, "len is {}", self.len);
        Ok(())
    }
}

impl Tracking {
    #[inline]
    fn mark(&mut self, chunk: &mut Chunk, at: usize) {
        self.is_moved = true;
        chunk.changed |= 1 << at;
        chunk.since |= 1 << at;
    }
}

/// Inserts the set of an entry that has none. Returns the index of the chunk, and the index of the set in the chunk.
fn insert_new(
    chunks: &mut Vec<Chunk>,
    mut place: usize,
    entry_id: i64,
    stored: &[i64],
) -> (usize, usize) {
    loop {
        let chunk = &mut chunks[place];
        let at = chunk.find(entry_id).unwrap_or_else(|at| at);
        if chunk.has_room(entry_id, stored.len()) {
            chunk.insert(at, entry_id, stored);
            return (place, at);
        }
        if at == 0 {
            chunk.tighten();
        } else if at < chunk.len() {
            let right = chunk.split_off(chunk.len() / 2);
            let is_right = entry_id >= right.base();
            chunks.insert(place + 1, right);
            place += usize::from(is_right);
            continue;
        } else {
            place += 1;
            if let Some(next) = chunks.get_mut(place)
                && next.has_room(entry_id, stored.len())
            {
                next.insert(0, entry_id, stored);
                return (place, 0);
            }
        }
        let mut own = Chunk::new(entry_id);
        own.insert(0, entry_id, stored);
        chunks.insert(place, own);
        return (place, 0);
    }
}

/// Removes the chunk at `place` if it is empty, or joins it with a neighbour if it is small.
fn join_small(chunks: &mut Vec<Chunk>, place: usize) {
    let len = chunks[place].len();
    if len == 0 {
        chunks.remove(place);
    } else if len < SETS_MIN {
        for first in [Some(place), place.checked_sub(1)].into_iter().flatten() {
            if first + 1 < chunks.len() && chunks[first].can_take(&chunks[first + 1]) {
                let next = chunks.remove(first + 1);
                chunks[first].take(&next);
                break;
            }
        }
    }
    if chunks.capacity() > 2 * chunks.len() + 4 {
        chunks.shrink_to_fit();
    }
}

/// Returns an error unless `ends` increases from 0 to the number of words.
fn check_ends(ends: &[i64], words: &[i64]) -> Result<()> {
    let is_sorted = ends.is_sorted() && ends.first().is_none_or(|first| *first >= 0);
    if !is_sorted || ends.last().copied().unwrap_or(0) != words.len() as i64 {
        return Err(Error::Value(InvalidArgument::AckSetEnds { words: words.len() }));
    }
    Ok(())
}

impl Clone for AckSets {
    /// Returns the same sets. The copy was never saved, so its changes are unknown.
    fn clone(&self) -> Self {
        let (ledgers, len) = (self.ledgers.clone(), self.len);
        Self { ledgers, len, last: 0, tracking: Tracking::default() }
    }
}

impl PartialEq for AckSets {
    /// Compares the sets, not their distribution over chunks.
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for AckSets {}

impl<W: AsRef<[i64]>> FromIterator<(Position, W)> for AckSets {
    fn from_iter<I: IntoIterator<Item = (Position, W)>>(sets: I) -> Self {
        let mut all = Self::new();
        for (position, words) in sets {
            all.insert(position, words.as_ref());
        }
        all
    }
}
