//! A ledger's acknowledged entries as a window of bits: the form for many runs close to each other.
//!
//! Every entry in the window has a bit, whether it is acknowledged or not. So an add is one load and one store, in any
//! order of the entries. If every second entry is a hole, a range takes a quarter of a byte.
//!
//! Representation: bit `b` of `words[i]` is entry `64 * (first_word + i) + b`. Words before `head` are zero: their
//! entries were removed, or the words are reserved for earlier entries. When these zero words outnumber the other
//! words, they are released. So the other words are not moved each time a mark-delete position advances by an entry.
//!
//! Invariants: unless the window is empty, `words[head]` and the last word are not zero; `cardinality` is the number of
//! set bits, and `runs` the number of runs of set bits.

use super::run::Run;
use crate::error::{Validity, invariant};

const BITS: i64 = 64;

#[derive(Debug, Clone)]
pub(super) struct Window {
    first_word: i64,
    words: Vec<u64>,
    head: usize,
    cardinality: u64,
    runs: usize,
}

impl Window {
    /// Creates a window that covers `span` and has these runs. All runs must be in `span`.
    pub(super) fn from_runs(span: Run, runs: impl Iterator<Item = Run>) -> Self {
        let first_word = (span.lower + 1) / BITS;
        let mut words = vec![0; (span.upper / BITS - first_word) as usize + 1];
        runs.for_each(|run| {
            let word = |entry_id: i64| (entry_id / BITS - first_word) as usize;
            let (first, last) = (word(run.lower + 1), word(run.upper));
            let (low, high) =
                (u64::MAX << ((run.lower + 1) & 63), u64::MAX >> (63 - (run.upper & 63)));
            if first == last {
                words[first] |= low & high;
            } else {
                words[first] |= low;
                words[first + 1..last].fill(u64::MAX);
                words[last] |= high;
            }
        });
        let mut window = Self { first_word, words, head: 0, cardinality: 0, runs: 0 };
        window.recount((0, 0), 0..window.words.len());
        window
    }

    /// Creates a window with these words; `None` if no bit is set. The first of `words` has the index `first_word`.
    pub(super) fn of_words(first_word: i64, words: &[u64]) -> Option<Self> {
        let first = words.iter().position(|word| *word != 0)?;
        let last = words.iter().rposition(|word| *word != 0)?;
        let words = words[first..=last].to_vec();
        let mut window =
            Self { first_word: first_word + first as i64, words, head: 0, cardinality: 0, runs: 0 };
        window.recount((0, 0), 0..window.words.len());
        Some(window)
    }

    pub(super) fn len(&self) -> usize {
        self.runs
    }

    pub(super) fn cardinality(&self) -> u64 {
        self.cardinality
    }

    /// Returns the number of words of a window that covers `span`.
    pub(super) fn words_over(span: Run) -> u64 {
        (span.upper / BITS - (span.lower + 1) / BITS + 1).cast_unsigned()
    }

    /// Returns the run from the first entry of the first nonzero word to the last entry of the last word. The window
    /// must not be empty.
    pub(super) fn span(&self) -> Run {
        let first = self.first_word + self.head as i64;
        let last = self.first_word + self.words.len() as i64 - 1;
        Run { lower: first * BITS - 1, upper: last * BITS + (BITS - 1) }
    }

    pub(super) fn last_entry(&self) -> i64 {
        self.span().upper - i64::from(self.words[self.words.len() - 1].leading_zeros())
    }

    /// Returns whether the window has the word of an entry. If it has, adding the entry allocates no memory.
    pub(super) fn reaches(&self, entry_id: i64) -> bool {
        self.index(entry_id) < self.words.len()
    }

    pub(super) fn contains(&self, entry_id: i64) -> bool {
        self.words.get(self.index(entry_id)).is_some_and(|word| word & bit(entry_id) != 0)
    }

    /// Adds an entry; returns whether it was new.
    pub(super) fn add(&mut self, entry_id: i64) -> bool {
        if !self.reaches(entry_id) {
            self.extend(Run::of_entry(entry_id));
        }
        let index = self.index(entry_id);
        let word = self.words[index];
        if word & bit(entry_id) != 0 {
            return false;
        }
        self.words[index] = word | bit(entry_id);
        self.head = self.head.min(index);
        self.cardinality += 1;
        self.runs = self.runs + 1 - self.neighbours(index, entry_id);
        true
    }

    /// Removes an entry; returns whether it was in the set.
    pub(super) fn remove(&mut self, entry_id: i64) -> bool {
        if !self.contains(entry_id) {
            return false;
        }
        let index = self.index(entry_id);
        self.words[index] &= !bit(entry_id);
        self.cardinality -= 1;
        self.runs = self.runs + self.neighbours(index, entry_id) - 1;
        self.drop_empty_ends();
        true
    }

    /// Adds a run and returns how many of its entries are new.
    pub(super) fn add_run(&mut self, run: Run) -> u64 {
        if run.len() == 1 {
            return u64::from(self.add(run.upper));
        }
        self.extend(run);
        self.change(run, |word, mask| word | mask)
    }

    /// Removes a run and returns how many of its entries were in the set.
    pub(super) fn remove_run(&mut self, run: Run) -> u64 {
        let span = self.span();
        let run = Run { lower: run.lower.max(span.lower), upper: run.upper.min(span.upper) };
        if run.lower >= run.upper {
            return 0;
        }
        let removed = self.change(run, |word, mask| word & !mask);
        self.drop_empty_ends();
        removed
    }

    /// Adds the entries of another window, a word at a time.
    pub(super) fn union_with(&mut self, other: &Self) {
        self.extend(other.span());
        let (first, words) = other.words();
        let start = (first - self.first_word) as usize;
        let range = start..start + words.len();
        let before = self.counts(range.clone());
        for (mine, theirs) in self.words[range.clone()].iter_mut().zip(words) {
            *mine |= theirs;
        }
        self.head = self.head.min(start);
        self.recount(before, range);
    }

    /// Removes the entries of another window, a word at a time.
    pub(super) fn difference_with(&mut self, other: &Self) {
        let (their_first, theirs) = other.words();
        let first = their_first.max(self.words().0);
        let end =
            (their_first + theirs.len() as i64).min(self.first_word + self.words.len() as i64);
        if first >= end {
            return;
        }
        let range = (first - self.first_word) as usize..(end - self.first_word) as usize;
        let before = self.counts(range.clone());
        let theirs = &theirs[(first - their_first) as usize..];
        for (mine, theirs) in self.words[range.clone()].iter_mut().zip(theirs) {
            *mine &= !theirs;
        }
        self.recount(before, range);
        self.drop_empty_ends();
    }

    /// Returns the run that contains an entry.
    pub(super) fn run_containing(&self, entry_id: i64) -> Option<Run> {
        if !self.contains(entry_id) {
            return None;
        }
        let index = self.index(entry_id);
        let below = bit(entry_id) - 1;
        // Searches the nearest clear bit on each side, a word at a time.
        let mut left = (index, !self.words[index] & below);
        while left.1 == 0 && left.0 > self.head {
            left = (left.0 - 1, !self.words[left.0 - 1]);
        }
        let mut right = (index, !self.words[index] & !below);
        while right.1 == 0 && right.0 + 1 < self.words.len() {
            right = (right.0 + 1, !self.words[right.0 + 1]);
        }
        let base = |index: usize| (self.first_word + index as i64) * BITS;
        Some(Run {
            lower: base(left.0) + (BITS - 1) - i64::from(left.1.leading_zeros()),
            // In this order, the last possible entry, 2^63 - 1, does not overflow.
            upper: base(right.0) - 1 + i64::from(right.1.trailing_zeros()),
        })
    }

    pub(super) fn iter(&self) -> WordRuns<impl Iterator<Item = u64> + '_> {
        runs_from(self.first_word + self.head as i64, self.words[self.head..].iter().copied())
    }

    /// Returns the runs that begin after an entry.
    pub(super) fn iter_after(&self, entry_id: i64) -> impl Iterator<Item = Run> + '_ {
        let word = (entry_id.max(0) / BITS - self.first_word).max(self.head as i64);
        let start = (word as usize).min(self.words.len());
        runs_from(self.first_word + start as i64, self.words[start..].iter().copied())
            .skip_while(move |run| run.lower < entry_id)
    }

    /// Returns the index of the first word that is not zero, and the words from it to the last.
    pub(super) fn words(&self) -> (i64, &[u64]) {
        (self.first_word + self.head as i64, &self.words[self.head..])
    }

    /// Sets the bits of the window's entries in `words`. Bit 0 of the first of `words` is entry 0.
    pub(super) fn write_words(&self, words: &mut [u64]) {
        let start = (self.first_word + self.head as i64) as usize;
        for (word, mine) in words[start..].iter_mut().zip(&self.words[self.head..]) {
            *word |= mine;
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    pub(super) fn validate(&self) -> Validity {
        invariant!(self.first_word >= 0, "first word {}", self.first_word);
        invariant!(self.words[..self.head].iter().all(|word| *word == 0), "bits before the head");
        invariant!(self.words[self.head] != 0, "nothing at the head");
        invariant!(self.words.last() != Some(&0), "nothing at the end");
        let cardinality: u64 = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        invariant!(self.cardinality == cardinality, "bits");
        invariant!(self.runs == self.iter().count(), "runs");
        Ok(())
    }

    /// Returns the index of an entry's word in `words`. For an entry before the first word, the index is greater than
    /// any possible length of `words`.
    fn index(&self, entry_id: i64) -> usize {
        (entry_id >> 6).wrapping_sub(self.first_word) as usize
    }

    /// Returns how many neighbours of an entry are in the set: 0, 1 or 2. The neighbours are the previous and the next
    /// entry. `index` is the index of the entry's word.
    fn neighbours(&self, index: usize, entry_id: i64) -> usize {
        let word = self.words[index];
        let left = match entry_id & 63 {
            0 => index > 0 && self.words[index - 1] >> 63 != 0,
            b => word >> (b - 1) & 1 != 0,
        };
        let right = match entry_id & 63 {
            63 => self.words.get(index + 1).is_some_and(|word| word & 1 != 0),
            b => word >> (b + 1) & 1 != 0,
        };
        usize::from(left) + usize::from(right)
    }

    /// Extends the window so that it has every word of `run`. The caller must then add the first and the last entry of
    /// `run`, because the first and the last word must not be zero.
    fn extend(&mut self, run: Run) {
        let (first, last) = ((run.lower + 1) / BITS, run.upper / BITS);
        if first < self.first_word {
            let missing = self.first_word - first;
            // Reserves an eighth more at the front. Otherwise, adding entries in descending order would move all words
            // for every new word.
            let spare = (self.words.len() as i64 / 8).min(first);
            let front = (missing + spare) as usize;
            let mut words = vec![0; front + self.words.len()];
            words[front..].copy_from_slice(&self.words);
            self.words = words;
            self.head += front;
            self.first_word = first - spare;
        }
        let len = (last - self.first_word) as usize + 1;
        if len > self.words.len() {
            if len > self.words.capacity() {
                // Grows by an eighth, not by doubling. A copied word costs little compared with its 64 adds, and unused
                // words would waste memory.
                let spare = len / 8;
                self.words.reserve_exact(len + spare - self.words.len());
            }
            self.words.resize(len, 0);
        }
        self.head = self.head.min((first - self.first_word) as usize);
    }

    /// Replaces each word of `run` with `change(word, mask)`, and updates the counts. In `mask`, the bits of the
    /// entries of `run` are set. The window must have every word of `run`. Returns the number of entries by which the
    /// cardinality grows or shrinks.
    fn change(&mut self, run: Run, change: impl Fn(u64, u64) -> u64) -> u64 {
        let (first, last) = (run.lower + 1, run.upper);
        let range = self.index(first)..self.index(last) + 1;
        let before = self.counts(range.clone());
        let end = range.end - 1;
        for index in range.clone() {
            let mut mask = u64::MAX;
            if index == range.start {
                mask &= u64::MAX << (first & 63);
            }
            if index == end {
                mask &= u64::MAX >> (63 - (last & 63));
            }
            self.words[index] = change(self.words[index], mask);
        }
        let cardinality = self.cardinality;
        self.recount(before, range);
        self.cardinality.abs_diff(cardinality)
    }

    /// Returns the number of set bits in the words of `range`, and the number of runs that begin in these words. A run
    /// that begins at the first bit of the next word is counted, too.
    fn counts(&self, range: std::ops::Range<usize>) -> (u64, usize) {
        let mut carry = range.start.checked_sub(1).map_or(0, |index| self.words[index] >> 63);
        let mut bits = 0;
        let mut begins = 0;
        for word in &self.words[range.clone()] {
            bits += u64::from(word.count_ones());
            begins += u64::from((word & !(word << 1 | carry)).count_ones());
            carry = word >> 63;
        }
        begins += self.words.get(range.end).map_or(0, |word| word & 1 & !carry);
        (bits, begins as usize)
    }

    /// Updates the cardinality and the number of runs after a change of the words of `range`. `before` is the result of
    /// [`Window::counts`] before the change.
    fn recount(&mut self, before: (u64, usize), range: std::ops::Range<usize>) {
        let (bits, begins) = self.counts(range);
        self.cardinality = self.cardinality - before.0 + bits;
        self.runs = self.runs - before.1 + begins;
    }

    /// Removes zero words at the end, and advances `head` past zero words at the front. Releases the words before
    /// `head` when they outnumber the others.
    fn drop_empty_ends(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
        while self.words.get(self.head) == Some(&0) {
            self.head += 1;
        }
        self.head = self.head.min(self.words.len());
        if self.head > self.words.len() / 2 {
            self.words.drain(..self.head);
            self.words.shrink_to(self.words.len() + self.words.len() / 4);
            self.first_word += self.head as i64;
            self.head = 0;
        }
    }
}

const fn bit(entry_id: i64) -> u64 {
    1 << (entry_id & 63)
}

/// Returns an iterator over the runs of set bits in `words`. The first of `words` has the index `first_word`.
pub(super) fn runs_from<I: Iterator<Item = u64>>(first_word: i64, words: I) -> WordRuns<I> {
    WordRuns { words, word: 0, base: (first_word - 1) * BITS }
}

/// The iterator of [`runs_from`].
pub(super) struct WordRuns<I> {
    words: I,
    /// The remaining bits of the word at `base`.
    word: u64,
    /// The entry of the word's bit 0.
    base: i64,
}

impl<I: Iterator<Item = u64>> Iterator for WordRuns<I> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        while self.word == 0 {
            self.word = self.words.next()?;
            self.base += BITS;
        }
        let lower = self.base - 1 + i64::from(self.word.trailing_zeros());
        // After the zeros below the run are set, the run ends before the lowest zero, possibly in a later word.
        self.word |= self.word - 1;
        while self.word == u64::MAX {
            match self.words.next() {
                Some(word) => {
                    self.word = word;
                    self.base += BITS;
                }
                None => {
                    self.word = 0;
                    return Some(Run { lower, upper: self.base + (BITS - 1) });
                }
            }
        }
        let upper = self.base - 1 + i64::from(self.word.trailing_ones());
        self.word &= self.word + 1;
        Some(Run { lower, upper })
    }
}
