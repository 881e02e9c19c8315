//! One stored ack set: its words, packed if there is more than one.
//!
//! **Representation.** A set without unacknowledged messages has no stored word. A set of one word is stored as the
//! word. A longer set is stored as blocks. A block is a marker, followed by literal words. A marker describes a run of
//! equal words, all empty or all full, and the number of literal words after the run. So a word of a large batch costs
//! nothing if its messages are all acknowledged or all unacknowledged. If a set would be stored as a single marker, an
//! empty marker is added, so that a single stored word is never a marker.

/// The bit of a marker that is set for a run of full words.
const FULL: u64 = 1;
const RUN_SHIFT: u32 = 33;
const LITERALS_MASK: u64 = u32::MAX as u64;

/// The unacknowledged messages of a batch, as a view of their stored words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckSet<'a>(&'a [i64]);

impl<'a> AckSet<'a> {
    pub(super) fn of(stored: &'a [i64]) -> Self {
        Self(stored)
    }

    pub(super) fn stored(self) -> &'a [i64] {
        self.0
    }

    /// Returns the words, without zero words at the end.
    #[must_use]
    pub fn words(self) -> Words<'a> {
        if self.0.len() <= 1 {
            Words { run: 0, fill: 0, literals: self.0, packed: &[] }
        } else {
            Words { run: 0, fill: 0, literals: &[], packed: self.0 }
        }
    }

    /// Returns the number of words.
    #[must_use]
    pub fn word_count(self) -> usize {
        if self.0.len() <= 1 {
            return self.0.len();
        }
        blocks(self.0).map(|(marker, _)| marker.run + marker.literals).sum()
    }

    /// Returns the number of unacknowledged messages.
    #[must_use]
    #[inline]
    pub fn message_count(self) -> u64 {
        match self.0 {
            [] => 0,
            [word] => u64::from(word.count_ones()),
            packed => blocks(packed)
                .map(|(marker, literals)| {
                    let run = if marker.fill == 0 { 0 } else { 64 * marker.run as u64 };
                    run + literals.iter().map(|word| u64::from(word.count_ones())).sum::<u64>()
                })
                .sum(),
        }
    }

    /// Returns the batch index of the first unacknowledged message; −1 if there is none.
    #[must_use]
    pub fn first_message(self) -> i64 {
        let mut words = self.words().enumerate();
        let first = words.find(|(_, word)| *word != 0);
        first.map_or(-1, |(at, word)| 64 * at as i64 + i64::from(word.trailing_zeros()))
    }

    /// Returns the batch index of the last unacknowledged message; −1 if there is none.
    #[must_use]
    pub fn last_message(self) -> i64 {
        let last = self.words().last().map_or(0, |word| i64::from(word.leading_zeros()));
        64 * self.word_count() as i64 - 1 - last
    }
}

/// An iterator over the words of a set.
#[derive(Debug, Clone)]
pub struct Words<'a> {
    /// The number of remaining words in the current run.
    run: usize,
    fill: i64,
    /// The remaining literal words of the current block.
    literals: &'a [i64],
    packed: &'a [i64],
}

impl Iterator for Words<'_> {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        loop {
            if self.run > 0 {
                self.run -= 1;
                return Some(self.fill);
            }
            if let Some((word, rest)) = self.literals.split_first() {
                self.literals = rest;
                return Some(*word);
            }
            let (marker, rest) = self.packed.split_first()?;
            let marker = Marker::of(*marker);
            (self.run, self.fill) = (marker.run, marker.fill);
            (self.literals, self.packed) = rest.split_at(marker.literals);
        }
    }
}

struct Marker {
    run: usize,
    fill: i64,
    literals: usize,
}

impl Marker {
    fn of(word: i64) -> Self {
        let bits = word.cast_unsigned();
        Self {
            run: (bits >> RUN_SHIFT) as usize,
            fill: if bits & FULL == 0 { 0 } else { -1 },
            literals: (bits >> 1 & LITERALS_MASK) as usize,
        }
    }

    fn word(&self) -> i64 {
        let full = if self.fill == 0 { 0 } else { FULL };
        ((self.run as u64) << RUN_SHIFT | (self.literals as u64) << 1 | full).cast_signed()
    }
}

/// Returns the markers of a packed set, each with its literal words.
fn blocks(mut packed: &[i64]) -> impl Iterator<Item = (Marker, &[i64])> {
    std::iter::from_fn(move || {
        let (marker, rest) = packed.split_first()?;
        let marker = Marker::of(*marker);
        let (literals, rest) = rest.split_at(marker.literals);
        packed = rest;
        Some((marker, literals))
    })
}

/// Writes the stored form of `words` into `stored`.
pub(super) fn store(words: &[i64], stored: &mut Vec<i64>) {
    stored.clear();
    let len = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
    let mut rest = &words[..len];
    if rest.len() <= 1 {
        stored.extend_from_slice(rest);
        return;
    }
    while let Some(&fill) = rest.first() {
        let is_run = |word: &i64| *word == 0 || *word == -1;
        let run = match is_run(&fill) {
            true => rest.iter().take_while(|word| **word == fill).count(),
            false => 0,
        };
        let literals = rest[run..].iter().take_while(|word| !is_run(word)).count();
        let fill = if run == 0 { 0 } else { fill };
        stored.push(Marker { run, fill, literals }.word());
        stored.extend_from_slice(&rest[run..run + literals]);
        rest = &rest[run + literals..];
    }
    if stored.len() == 1 {
        stored.push(Marker { run: 0, fill: 0, literals: 0 }.word());
    }
}
