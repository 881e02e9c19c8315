//! Ack sets by position, in one vector, because a state may hold a million of them.

use crate::position::Position;

/// Entries of which a part is acknowledged, in ascending order, and the words of each: Java `BitSet` words, bit set =
/// not yet acknowledged, without trailing zero words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AckSets {
    positions: Vec<Position>,
    /// The end of each set's words.
    ends: Vec<usize>,
    words: Vec<i64>,
}

impl AckSets {
    /// The number of ack sets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The position and the words of each ack set, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Position, &[i64])> + Clone + '_ {
        self.positions.iter().enumerate().map(|(at, position)| (*position, self.set(at)))
    }

    /// The words of all ack sets, one set after another.
    #[must_use]
    pub fn words(&self) -> &[i64] {
        &self.words
    }

    /// Converts the ack sets into their words, without a copy.
    #[must_use]
    pub fn into_words(self) -> Vec<i64> {
        self.words
    }

    /// The end of each set's words.
    #[must_use]
    pub fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// Sets the words of an entry; trailing zero words are dropped. O(sets) unless it is the last.
    pub fn insert(&mut self, position: Position, words: &[i64]) {
        self.push(position, words);
        self.sort();
    }

    /// Takes a set in any order; [`Self::sort`] follows.
    pub(crate) fn push(&mut self, position: Position, words: &[i64]) {
        let len = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        self.words.extend_from_slice(&words[..len]);
        self.positions.push(position);
        self.ends.push(self.words.len());
    }

    /// Sorts sets that were pushed in any order; of several sets of one position, the last is kept. O(sets) if they
    /// are in order.
    pub(crate) fn sort(&mut self) {
        if self.positions.is_sorted_by(|a, b| a < b) {
            return;
        }
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|at| self.positions[*at]);
        let mut sorted = Self::default();
        for (next, at) in order.iter().enumerate() {
            let again = order.get(next + 1).map(|later| self.positions[*later]);
            if again != Some(self.positions[*at]) {
                sorted.push(self.positions[*at], self.set(*at));
            }
        }
        *self = sorted;
    }

    /// Keeps the sets of some positions.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(Position) -> bool) {
        let Some(first) = self.positions.iter().position(|position| !keeps(*position)) else {
            return;
        };
        let lost = self.split_off(first);
        for (position, words) in lost.iter().skip(1).filter(|(position, _)| keeps(*position)) {
            self.push(position, words);
        }
    }

    /// Removes the sets after the first `count`, and returns them.
    pub(crate) fn split_off(&mut self, count: usize) -> Self {
        let words = self.words.split_off(self.start(count));
        let start = self.words.len();
        let ends = self.ends.split_off(count).iter().map(|end| end - start).collect();
        Self { positions: self.positions.split_off(count), ends, words }
    }

    fn start(&self, at: usize) -> usize {
        if at == 0 { 0 } else { self.ends[at - 1] }
    }

    fn set(&self, at: usize) -> &[i64] {
        &self.words[self.start(at)..self.ends[at]]
    }
}

impl FromIterator<(Position, Vec<i64>)> for AckSets {
    fn from_iter<I: IntoIterator<Item = (Position, Vec<i64>)>>(sets: I) -> Self {
        let mut all = Self::default();
        sets.into_iter().for_each(|(position, words)| all.push(position, &words));
        all.sort();
        all
    }
}
