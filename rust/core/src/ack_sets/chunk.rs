//! Up to [`SETS_MAX`] ack sets of one ledger, as columns.

use super::ack_set::AckSet;

/// The maximum number of ack sets in a chunk. It is the number of bits in a mask of changes.
pub(super) const SETS_MAX: usize = 128;

/// The maximum number of stored words in a chunk with several sets. An insertion moves at most this number of words.
const WORDS_MAX: usize = 1024;

/// A chunk of ack sets. An entry id is `base` plus an offset, so an entry takes 4 bytes in addition to its words.
#[derive(Debug, Clone, Default)]
pub(super) struct Chunk {
    /// The entry id that corresponds to offset 0. It is not greater than the first entry id.
    base: i64,
    offsets: Vec<u32>,
    /// For each set, the index in `words` at which its stored words end (exclusive). Empty if each set has exactly one
    /// word.
    ends: Vec<u32>,
    words: Vec<i64>,
    /// `changed` has a bit for each set that changed since the last save. `since` has a bit for each set that changed
    /// since the current save began.
    pub(super) changed: u128,
    pub(super) since: u128,
}

/// Makes room for `more` items. The capacity grows by half, but not beyond `most` items, so a full chunk has no spare
/// capacity.
fn grow<T>(items: &mut Vec<T>, more: usize, most: usize) {
    let needed = items.len() + more;
    if needed > items.capacity() {
        let wanted = (items.len() * 3 / 2).clamp(4.min(most), most).max(needed);
        items.reserve_exact(wanted - items.len());
    }
}

/// Returns a mask with a clear bit inserted as bit `at`.
fn with_gap(mask: u128, at: usize) -> u128 {
    let below = (1 << at) - 1;
    mask & below | (mask & !below) << 1
}

/// Returns a mask without bit `at`; the higher bits move down by one.
fn without(mask: u128, at: usize) -> u128 {
    let below = (1 << at) - 1;
    mask & below | mask >> 1 & !below
}

impl Chunk {
    pub(super) fn new(entry_id: i64) -> Self {
        Self { base: entry_id, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the lower bound of the chunk. Every entry id of the previous chunk is less than this bound. Every entry
    /// id of this chunk is equal to the bound or greater.
    pub(super) fn base(&self) -> i64 {
        self.base
    }

    pub(super) fn entry_id(&self, at: usize) -> i64 {
        self.base.wrapping_add(i64::from(self.offsets[at]))
    }

    /// Returns the index of an entry, or the index at which to insert it.
    #[inline]
    pub(super) fn find(&self, entry_id: i64) -> Result<usize, usize> {
        if entry_id < self.base {
            return Err(0);
        }
        match u32::try_from(entry_id.abs_diff(self.base)) {
            Ok(offset) if self.offsets.last().is_some_and(|last| *last < offset) => Err(self.len()),
            Ok(offset) => self.offsets.binary_search(&offset),
            Err(_) => Err(self.len()),
        }
    }

    fn start(&self, at: usize) -> usize {
        match self.ends.is_empty() {
            true => at,
            false if at == 0 => 0,
            false => self.ends[at - 1] as usize,
        }
    }

    #[inline]
    pub(super) fn set(&self, at: usize) -> AckSet<'_> {
        AckSet::of(&self.words[self.start(at)..self.start(at + 1)])
    }

    /// Returns the stored word of the set with index `at`, or `None` if the set does not have exactly one word.
    #[inline]
    pub(super) fn word_mut(&mut self, at: usize) -> Option<&mut i64> {
        let (start, end) = (self.start(at), self.start(at + 1));
        if end == start + 1 { self.words.get_mut(start) } else { None }
    }

    /// Returns whether there is room for one more set with these stored words.
    pub(super) fn has_room(&self, entry_id: i64, words: usize) -> bool {
        if self.len() == 0 {
            return true;
        }
        let first = self.base.min(entry_id);
        let last = self.entry_id(self.len() - 1).max(entry_id);
        self.len() < SETS_MAX
            && self.words.len() + words <= WORDS_MAX
            && last.abs_diff(first) <= u64::from(u32::MAX)
    }

    pub(super) fn insert(&mut self, at: usize, entry_id: i64, stored: &[i64]) {
        if entry_id < self.base {
            let by = self.base.abs_diff(entry_id) as u32;
            self.offsets.iter_mut().for_each(|offset| *offset += by);
            self.base = entry_id;
        }
        grow(&mut self.offsets, 1, SETS_MAX);
        self.offsets.insert(at, entry_id.abs_diff(self.base) as u32);
        if stored.len() != 1 {
            self.give_ends();
        }
        let start = self.start(at);
        if !self.ends.is_empty() || stored.len() != 1 {
            grow(&mut self.ends, 1, SETS_MAX);
            self.ends.insert(at, start as u32);
        }
        self.replace_words(at, start, start, stored);
        (self.changed, self.since) = (with_gap(self.changed, at), with_gap(self.since, at));
    }

    pub(super) fn replace(&mut self, at: usize, stored: &[i64]) {
        if stored.len() != 1 {
            self.give_ends();
        }
        let (start, end) = (self.start(at), self.start(at + 1));
        self.replace_words(at, start, end, stored);
    }

    /// Fills `ends`, which was empty because each set had one word.
    fn give_ends(&mut self) {
        if self.ends.is_empty() {
            self.ends = (1..=self.words.len() as u32).collect();
        }
    }

    /// Replaces the stored words of the set with index `at`, which are `words[start..end]`, by `stored`.
    fn replace_words(&mut self, at: usize, start: usize, end: usize, stored: &[i64]) {
        if stored.len() == end - start {
            self.words[start..end].copy_from_slice(stored);
            return;
        }
        let more = stored.len().saturating_sub(end - start);
        let most = if self.ends.is_empty() { SETS_MAX } else { WORDS_MAX };
        grow(&mut self.words, more, most);
        match stored {
            // The usual cases do not need an iterator.
            [word] if start == end => self.words.insert(start, *word),
            [] if end == start + 1 => drop(self.words.remove(start)),
            _ => drop(self.words.splice(start..end, stored.iter().copied())),
        }
        let (old, new) = (end - start, stored.len());
        for end in self.ends.iter_mut().skip(at) {
            *end = *end + new as u32 - old as u32;
        }
    }

    pub(super) fn remove(&mut self, at: usize) {
        let (start, end) = (self.start(at), self.start(at + 1));
        self.replace_words(at, start, end, &[]);
        self.offsets.remove(at);
        if !self.ends.is_empty() {
            self.ends.remove(at);
        }
        (self.changed, self.since) = (without(self.changed, at), without(self.since, at));
        if self.offsets.capacity() > 2 * self.len() + 4 {
            self.shrink();
        }
    }

    /// Keeps only the sets whose bit in `mask` is set.
    pub(super) fn keep(&mut self, mask: u128) {
        let mut kept = Self::new(self.base);
        for at in (0..self.len()).filter(|at| mask >> at & 1 == 1) {
            kept.push(self, at);
        }
        kept.shrink();
        *self = kept;
    }

    /// Appends the set with index `at` of another chunk, with its change marks.
    fn push(&mut self, other: &Self, at: usize) {
        let to = self.len();
        self.insert(to, other.entry_id(at), other.set(at).stored());
        self.changed |= (other.changed >> at & 1) << to;
        self.since |= (other.since >> at & 1) << to;
    }

    /// Moves the set with index `at` and all later sets into a new chunk.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let mut right = Self::new(self.entry_id(at));
        for from in at..self.len() {
            right.push(self, from);
        }
        right.shrink();
        self.keep((1 << at) - 1);
        right
    }

    /// Returns whether this chunk has room for the sets of the next chunk and for a few more sets.
    pub(super) fn can_take(&self, next: &Self) -> bool {
        next.entry_id(next.len() - 1).abs_diff(self.base) <= u64::from(u32::MAX)
            && self.len() + next.len() <= SETS_MAX / 4 * 3
            && self.words.len() + next.words.len() <= WORDS_MAX
    }

    pub(super) fn take(&mut self, next: &Self) {
        for at in 0..next.len() {
            self.push(next, at);
        }
    }

    /// Sets the base to the first entry id.
    pub(super) fn tighten(&mut self) {
        let first = self.offsets[0];
        self.base = self.entry_id(0);
        self.offsets.iter_mut().for_each(|offset| *offset -= first);
    }

    fn shrink(&mut self) {
        if self.words.len() == self.len() && self.ends.iter().enumerate().all(is_single) {
            self.ends = Vec::new();
        }
        self.offsets.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.words.shrink_to_fit();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        4 * (self.offsets.capacity() + self.ends.capacity()) + 8 * self.words.capacity()
    }
}

/// Returns whether the set with index `at` and all sets before it have one word each.
fn is_single((at, end): (usize, &u32)) -> bool {
    *end as usize == at + 1
}
