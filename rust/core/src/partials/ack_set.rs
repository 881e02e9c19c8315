//! The batch indexes of one entry that are not acknowledged, before the batch's size is known.
//!
//! An acknowledgment by index says nothing of the indexes beyond it, so a set begins as ones without end; an
//! ack set from the broker ends where its words end. Joining is AND.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AckSet {
    /// Bit set = not acknowledged, least significant first.
    words: Vec<u64>,
    /// Whether what lies beyond the words is ones, not zeros.
    endless: bool,
}

impl Default for AckSet {
    /// Nothing is acknowledged.
    fn default() -> Self {
        Self { words: Vec::new(), endless: true }
    }
}

impl AckSet {
    pub(super) fn new(words: Vec<u64>, endless: bool) -> Self {
        Self { words, endless }
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn is_endless(&self) -> bool {
        self.endless
    }

    /// Acknowledges one index.
    pub(super) fn clear(&mut self, index: i64) {
        self.and_word(index as usize / 64, !(1 << (index % 64)));
    }

    /// Acknowledges every index up to this one.
    pub(super) fn clear_up_to(&mut self, index: i64) {
        let last = index as usize / 64;
        self.reach(last + 1);
        let whole = self.words.len().min(last);
        self.words[..whole].fill(0);
        if let Some(word) = self.words.get_mut(last) {
            *word &= (u64::MAX << (index % 64)) << 1;
        }
    }

    /// Joins one word, and says nothing of the others.
    pub(super) fn and_word(&mut self, index: usize, bits: u64) {
        self.reach(index + 1);
        if let Some(word) = self.words.get_mut(index) {
            *word &= bits;
        }
    }

    /// Ends the set: what lies beyond so many words is acknowledged.
    pub(super) fn end(&mut self, words: usize) {
        self.reach(words);
        self.words.truncate(words);
        self.endless = false;
    }

    pub(super) fn and(&mut self, other: &Self) {
        for (index, bits) in other.words.iter().enumerate() {
            self.and_word(index, *bits);
        }
        if !other.endless {
            self.end(other.words.len());
        }
    }

    /// The greatest index that is acknowledged, if a set without end has one.
    pub(super) fn greatest_cleared(&self) -> Option<i64> {
        let (index, word) = self.words.iter().enumerate().rfind(|(_, word)| **word != u64::MAX)?;
        Some(64 * index as i64 + 63 - i64::from((!word).leading_zeros()))
    }

    /// The set of a batch of `size` messages, without trailing zero words.
    pub(super) fn within(&self, size: i64) -> Vec<u64> {
        let mut words = self.words.clone();
        if self.endless {
            words.resize(words.len().max(size as usize / 64 + 1), u64::MAX);
            words.truncate(size as usize / 64 + 1);
            if let Some(last) = words.get_mut(size as usize / 64) {
                *last &= !(u64::MAX << (size % 64));
            }
        }
        while words.last() == Some(&0) {
            words.pop();
        }
        words
    }

    /// Makes the first `count` words explicit, as far as they are not zeros anyway.
    fn reach(&mut self, count: usize) {
        if self.endless && self.words.len() < count {
            self.words.resize(count, u64::MAX);
        }
    }
}
