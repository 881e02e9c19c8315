//! A set of bits in 64-bit words, like Java's `BitSet`. Ack sets and prefix indexes of entry ids use it.
//!
//! **Representation.** `words[i >> 6] >> (i & 63) & 1` is bit `i`, which is the order of Java's
//! `BitSet.toLongArray` and of Pulsar's `ack_set`.
//!
//! **Invariants** (`validate` checks them): the last word is not zero, so two equal sets have equal words;
//! no set bit is at or above `limit`.
//!
//! **Limit.** Without a limit, a single wrong index could allocate a huge array. The default is the limit of Java's
//! `BitSet`, whose indexes are 32-bit integers.

use crate::error::{
    Error, InvalidArgument, LimitReached, Result, Validity, invariant, vec_with_room,
};

/// The default limit. As in Java, indexes are below 2^31.
pub const LIMIT_DEFAULT: usize = 1 << 31;

const BITS: usize = u64::BITS as usize;

/// A growing set of bit indexes from 0 up to a limit.
#[derive(Debug, Clone)]
pub struct BitSet {
    words: Vec<u64>,
    limit: usize,
}

/// Returns a mask for the word of `bit`: `bit` and all higher bits are set.
fn from_bit(bit: usize) -> u64 {
    !0 << (bit % BITS)
}

impl BitSet {
    /// Returns an empty set of bits below [`LIMIT_DEFAULT`].
    #[must_use]
    pub const fn new() -> Self {
        Self::with_limit(LIMIT_DEFAULT)
    }

    /// Returns an empty set of bits below `limit`.
    #[must_use]
    pub const fn with_limit(limit: usize) -> Self {
        Self { words: Vec::new(), limit }
    }

    /// Returns the set of these words, in the order of Java's `BitSet.toLongArray`; zero words at the end are dropped.
    ///
    /// # Errors
    /// [`Error::Limit`] for a bit at or past `limit`.
    pub fn from_words(words: Vec<u64>, limit: usize) -> Result<Self> {
        let mut set = Self { words, limit };
        set.trim();
        match set.last() {
            Some(last) if last >= limit => Err(past_limit(last, limit)),
            _ => Ok(set),
        }
    }

    /// Returns the words in the order of Java's `BitSet.toLongArray`.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the limit: the least index that is too large.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns whether `bit` is set. O(1).
    #[must_use]
    #[inline]
    pub fn get(&self, bit: usize) -> bool {
        self.words.get(bit / BITS).is_some_and(|word| word >> (bit % BITS) & 1 == 1)
    }

    /// Sets `bit`; returns whether it was clear. O(1) amortised.
    ///
    /// # Errors
    /// [`Error::Limit`] for a bit at or past the limit, [`Error::Memory`] if memory does not suffice for the words up
    /// to the bit.
    #[inline]
    pub fn set(&mut self, bit: usize) -> Result<bool> {
        if bit >= self.limit {
            return Err(past_limit(bit, self.limit));
        }
        self.reach(bit)?;
        let word = &mut self.words[bit / BITS];
        let was_clear = *word >> (bit % BITS) & 1 == 0;
        *word |= 1 << (bit % BITS);
        Ok(was_clear)
    }

    /// Sets bits; returns the number of bits that were clear before. If one bit is refused, nothing changes.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative bit; otherwise as [`BitSet::set`].
    pub fn set_many(&mut self, bits: &[i64]) -> Result<usize> {
        self.check_many(bits)?;
        let Some(&greatest) = bits.iter().max() else { return Ok(0) };
        self.reach(greatest as usize)?;
        let mut new = 0;
        for &bit in bits {
            new += usize::from(self.set(bit as usize)?);
        }
        Ok(new)
    }

    /// Returns an error for bits that [`BitSet::set_many`] would refuse.
    ///
    /// # Errors
    /// As [`BitSet::set_many`].
    pub fn check_many(&self, bits: &[i64]) -> Result<()> {
        Self::check_natural(bits)?;
        match bits.iter().max() {
            Some(&greatest) if greatest as usize >= self.limit => {
                Err(past_limit(greatest as usize, self.limit))
            }
            _ => Ok(()),
        }
    }

    /// Returns an error for a negative bit.
    ///
    /// # Errors
    /// [`Error::Value`] with the first negative bit.
    pub fn check_natural(bits: &[i64]) -> Result<()> {
        match bits.iter().find(|&&bit| bit < 0) {
            Some(&bit) => Err(Error::Value(InvalidArgument::Bit { bit })),
            None => Ok(()),
        }
    }

    /// Clears `bit`; returns whether it was set. O(1) amortised.
    #[inline]
    pub fn clear(&mut self, bit: usize) -> bool {
        let was_set = self.get(bit);
        if was_set {
            self.words[bit / BITS] &= !(1 << (bit % BITS));
            self.trim();
        }
        was_set
    }

    /// Sets every bit in `start..end`. O(words of the range).
    ///
    /// # Errors
    /// [`Error::Limit`] if the range passes the limit; [`Error::Value`] if it ends before it starts;
    /// [`Error::Memory`] as [`BitSet::set`].
    pub fn set_range(&mut self, start: usize, end: usize) -> Result<()> {
        check_ordered(start, end)?;
        if start == end {
            return Ok(());
        }
        if end > self.limit {
            return Err(past_limit(end - 1, self.limit));
        }
        self.reach(end - 1)?;
        for_each_word(start, end, |at, mask| self.words[at] |= mask);
        Ok(())
    }

    /// Clears every bit in `start..end`. O(words of the range).
    ///
    /// # Errors
    /// [`Error::Value`] if the range ends before it starts.
    pub fn clear_range(&mut self, start: usize, end: usize) -> Result<()> {
        check_ordered(start, end)?;
        let end = end.min(self.words.len() * BITS);
        if start < end {
            for_each_word(start, end, |at, mask| self.words[at] &= !mask);
            self.trim();
        }
        Ok(())
    }

    /// Clears every bit up to and including `bit`; returns the bits that were set, in order. O(words of the prefix).
    ///
    /// # Errors
    /// [`Error::Memory`] if memory does not suffice for the returned indexes, which take 64 times as much memory as the
    /// bits.
    pub fn clear_prefix(&mut self, bit: usize) -> Result<Vec<usize>> {
        let prefix = self.words.iter().take(bit / BITS + 1);
        let mut removed = vec_with_room(prefix.map(|word| word.count_ones() as usize).sum())?;
        removed.extend(self.iter().take_while(|&found| found <= bit));
        let end = bit.saturating_add(1).min(self.words.len() * BITS);
        for_each_word(0, end, |at, mask| self.words[at] &= !mask);
        self.trim();
        Ok(removed)
    }

    /// Returns the first set bit at or after `bit`. O(words passed).
    #[must_use]
    pub fn next_set(&self, bit: usize) -> Option<usize> {
        self.scan_up(bit, |word| word)
    }

    /// Returns the first clear bit at or after `bit`. After the last word every bit is clear. O(words passed).
    #[must_use]
    pub fn next_clear(&self, bit: usize) -> usize {
        self.scan_up(bit, |word| !word).unwrap_or(bit.max(self.words.len() * BITS))
    }

    /// Returns the last set bit at or before `bit`. O(words passed).
    #[must_use]
    pub fn previous_set(&self, bit: usize) -> Option<usize> {
        self.scan_down(bit, |word| word)
    }

    /// Returns the last clear bit at or before `bit`. O(words passed).
    #[must_use]
    pub fn previous_clear(&self, bit: usize) -> Option<usize> {
        if bit >= self.words.len() * BITS { Some(bit) } else { self.scan_down(bit, |word| !word) }
    }

    /// Returns the first set bit.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        self.next_set(0)
    }

    /// Returns the last set bit. O(1).
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        let last = self.words.last()?;
        Some(self.words.len() * BITS - 1 - last.leading_zeros() as usize)
    }

    /// Returns the number of set bits. O(words).
    #[must_use]
    pub fn cardinality(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether no bit is set. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the set bits in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            std::iter::successors((word != 0).then_some(word), |&rest| {
                let rest = rest & (rest - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |rest| at * BITS + rest.trailing_zeros() as usize)
        })
    }

    /// Keeps the bits that are also in `other`.
    pub fn and(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
        self.trim();
    }

    /// Adds the bits of `other`.
    ///
    /// # Errors
    /// [`Error::Limit`] if a bit of `other` is at or past the limit of this set; nothing is changed then.
    /// [`Error::Memory`] as [`BitSet::set`].
    pub fn or(&mut self, other: &Self) -> Result<()> {
        if let Some(last) = other.last().filter(|&last| last >= self.limit) {
            return Err(past_limit(last, self.limit));
        }
        let Some(last) = other.last() else { return Ok(()) };
        self.reach(last)?;
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
        Ok(())
    }

    /// Removes the bits of `other`.
    pub fn and_not(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
        self.trim();
    }

    /// Removes every bit and releases the memory.
    pub fn clear_all(&mut self) {
        self.words = Vec::new();
    }

    /// Releases the memory that the bits do not need.
    pub fn shrink_to_fit(&mut self) {
        self.words.shrink_to_fit();
    }

    /// Returns the size of the heap memory in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// A sentence that names the broken invariant.
    pub fn validate(&self) -> Validity {
        invariant!(self.words.last() != Some(&0), "the last word is not zero");
        invariant!(self.last().is_none_or(|last| last < self.limit), "no bit past the limit");
        Ok(())
    }

    /// Adds zero words up to the word of `bit`. The caller must then set `bit`, because the last word must not be zero.
    #[inline]
    fn reach(&mut self, bit: usize) -> Result<()> {
        if bit / BITS >= self.words.len() {
            self.grow(bit / BITS + 1)?;
        }
        Ok(())
    }

    #[cold]
    fn grow(&mut self, words: usize) -> Result<()> {
        let more = words - self.words.len();
        self.words
            .try_reserve(more)
            .map_err(|_| Error::Memory { items: words, item_bytes: size_of::<u64>() })?;
        self.words.resize(words, 0);
        Ok(())
    }

    fn scan_up(&self, bit: usize, view: impl Fn(u64) -> u64) -> Option<usize> {
        let first = view(*self.words.get(bit / BITS)?) & from_bit(bit);
        if first != 0 {
            return Some(bit / BITS * BITS + first.trailing_zeros() as usize);
        }
        (bit / BITS + 1..self.words.len()).find_map(|at| {
            let word = view(self.words[at]);
            (word != 0).then(|| at * BITS + word.trailing_zeros() as usize)
        })
    }

    fn scan_down(&self, bit: usize, view: impl Fn(u64) -> u64) -> Option<usize> {
        if self.words.is_empty() {
            return None;
        }
        let bit = bit.min(self.words.len() * BITS - 1);
        let up_to_bit = !0 >> (BITS - 1 - bit % BITS);
        (0..=bit / BITS).rev().find_map(|at| {
            let mask = if at == bit / BITS { up_to_bit } else { !0 };
            let word = view(self.words[at]) & mask;
            (word != 0).then(|| at * BITS + BITS - 1 - word.leading_zeros() as usize)
        })
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

/// For each word that has bits in `start..end`, calls `change` with the index of the word and a mask of these bits.
fn for_each_word(start: usize, end: usize, mut change: impl FnMut(usize, u64)) {
    for at in start / BITS..end.div_ceil(BITS) {
        let mut mask = !0;
        if at == start / BITS {
            mask &= from_bit(start);
        }
        if at == end / BITS {
            mask &= !from_bit(end);
        }
        change(at, mask);
    }
}

fn check_ordered(start: usize, end: usize) -> Result<()> {
    if end < start {
        return Err(Error::Value(InvalidArgument::BitRange { start, end }));
    }
    Ok(())
}

fn past_limit(bit: usize, limit: usize) -> Error {
    Error::Limit(LimitReached::Bit { bit, limit })
}

impl Default for BitSet {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for BitSet {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for BitSet {}
