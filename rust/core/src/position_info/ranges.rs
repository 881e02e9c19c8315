//! The conversion between a range set and Pulsar's two lists of acknowledged entries.

use super::budget::Budget;
use super::form::Form;
use super::messages::put_range;
use super::range_frame::{Frame, WINDOW};
use super::wire::Reader;
use crate::error::Result;
use crate::position::Position;
use crate::range_set::{PositionRangeSet, RANGES_TOGETHER, WORDS_TOGETHER};

/// A collector of the acknowledged entries of a message. The fields of the message may have any order. If field 3 is
/// present, field 6 is ignored.
pub(super) struct Collector {
    set: PositionRangeSet,
    spanning: Vec<(Position, Position)>,
    form: Form,
    saw_ranges: bool,
    /// The ledger of the collected ranges that are not in the set yet.
    ledger_id: i64,
    bounds: Vec<(i64, i64)>,
    /// The collected words of one ledger that are not in the set yet.
    words: Vec<u64>,
    taken: usize,
    measure_at: usize,
}

impl Collector {
    pub(super) fn new() -> Self {
        Self {
            set: PositionRangeSet::new(),
            spanning: Vec::new(),
            form: Form::PulsarRanges,
            saw_ranges: false,
            ledger_id: 0,
            bounds: Vec::new(),
            words: Vec::new(),
            taken: 0,
            measure_at: RANGES_TOGETHER,
        }
    }

    /// Reads the next ranges as long as they have the layout of the last added range.
    pub(super) fn take_framed(
        &mut self,
        reader: &mut Reader<'_>,
        number: u32,
        budget: &Budget,
    ) -> Result<()> {
        let Some(&(lower, upper)) = self.bounds.last() else { return Ok(()) };
        let Some(frame) = Frame::like(number, self.ledger_id, lower, upper) else { return Ok(()) };
        while let Some((lower, upper)) =
            reader.rest().first_chunk::<WINDOW>().and_then(|window| frame.read(window))
        {
            self.add(self.ledger_id, lower, upper, budget)?;
            reader.advance(frame.length());
        }
        Ok(())
    }

    /// Adds a range of field 3. A range that ends in a later ledger is stored in `spanning`, and its part in the upper
    /// ledger is added to the set.
    #[inline]
    pub(super) fn add_range(
        &mut self,
        (lower, upper): (Position, Position),
        budget: &mut Budget,
    ) -> Result<()> {
        if !self.saw_ranges {
            self.saw_ranges = true;
            self.form = Form::PulsarRanges;
            self.set.clear();
            self.bounds.clear();
        }
        if lower.ledger_id == upper.ledger_id {
            return self.add(upper.ledger_id, lower.entry_id, upper.entry_id, budget);
        }
        budget.spend(size_of::<(Position, Position)>())?;
        self.spanning.push((lower, upper));
        self.add(upper.ledger_id, -1, upper.entry_id, budget)
    }

    /// Returns a collector for the words of one ledger of field 6.
    pub(super) fn words_of(&mut self, ledger_id: i64) -> WordBlocks<'_> {
        if !self.saw_ranges {
            self.form = Form::PulsarLongArray;
        }
        WordBlocks { collector: self, ledger_id, first_word: 0 }
    }

    /// Returns the form of the message, and the acknowledged entries.
    pub(super) fn finish(mut self, budget: &Budget) -> Result<(Form, Acks)> {
        self.flush()?;
        budget.allow(self.set.heap_bytes())?;
        Ok((self.form, Acks { set: self.set, spanning: self.spanning }))
    }

    #[inline]
    fn add(&mut self, ledger_id: i64, lower: i64, upper: i64, budget: &Budget) -> Result<()> {
        if self.bounds.len() == RANGES_TOGETHER || ledger_id != self.ledger_id {
            self.flush()?;
            self.ledger_id = ledger_id;
            self.measure(budget)?;
        }
        self.bounds.push((lower, upper));
        Ok(())
    }

    /// Checks that the set is within the budget. A check reads every ledger, so it is done only when the set is twice
    /// as large as at the last check.
    fn measure(&mut self, budget: &Budget) -> Result<()> {
        if self.taken < self.measure_at {
            return Ok(());
        }
        self.measure_at = 2 * self.taken;
        budget.allow(self.set.heap_bytes())
    }

    fn flush(&mut self) -> Result<()> {
        self.set.add_ranges_of(self.ledger_id, &self.bounds)?;
        self.taken += self.bounds.len();
        self.bounds.clear();
        Ok(())
    }
}

/// The acknowledged entries of a message.
pub(super) struct Acks {
    pub(super) set: PositionRangeSet,
    /// Ranges that begin in one ledger and end in a later one. Their part in the upper ledger is in the set.
    pub(super) spanning: Vec<(Position, Position)>,
}

/// A collector of one ledger's words, in which a set bit means acknowledged. It adds the words to the set in blocks and
/// skips blocks of zeros, so a long array with few bits takes little memory.
pub(super) struct WordBlocks<'a> {
    collector: &'a mut Collector,
    ledger_id: i64,
    first_word: i64,
}

impl WordBlocks<'_> {
    /// Adds the next word, which covers 64 entries.
    #[inline]
    pub(super) fn push(&mut self, word: i64, budget: &Budget) -> Result<()> {
        self.collector.words.push(word.cast_unsigned());
        if self.collector.words.len() == WORDS_TOGETHER { self.flush(budget) } else { Ok(()) }
    }

    /// Adds the last words.
    pub(super) fn finish(mut self, budget: &Budget) -> Result<()> {
        self.flush(budget)
    }

    fn flush(&mut self, budget: &Budget) -> Result<()> {
        let Collector { set, words, saw_ranges, taken, .. } = self.collector;
        if !*saw_ranges && words.iter().any(|word| *word != 0) {
            set.add_words_at(self.ledger_id, self.first_word, words)?;
            *taken += WORDS_TOGETHER;
        }
        self.first_word += words.len() as i64;
        words.clear();
        self.collector.measure(budget)
    }
}

/// The size of the buffer on the stack, in bytes. It is appended as a whole, because appending each range to the vector
/// would take longer than writing the range.
const LAID_MAX: usize = 4096;

/// Appends each range as a field with this number.
pub(super) fn put_all(out: &mut Vec<u8>, number: u32, set: &PositionRangeSet) {
    let mut laid = [0; LAID_MAX + WINDOW];
    let mut at = 0;
    for ledger_id in set.ledger_ids() {
        let mut frame = Frame::default();
        set.ranges_of(ledger_id).for_each(|range| {
            let (lower, upper) = (range.lower_entry_exclusive, range.upper_entry_inclusive);
            if at > LAID_MAX {
                out.extend_from_slice(&laid[..at]);
                at = 0;
            }
            let window = laid[at..].first_chunk_mut::<WINDOW>().expect("room for one more");
            if frame.write(window, lower, upper) {
                at += frame.length();
            } else {
                frame = put_first(out, &laid[..at], number, ledger_id, lower, upper);
                at = 0;
            }
        });
    }
    out.extend_from_slice(&laid[..at]);
}

/// Appends the content of the buffer, then one range; returns the frame of that range.
#[cold]
#[inline(never)]
fn put_first(
    out: &mut Vec<u8>,
    laid: &[u8],
    number: u32,
    ledger_id: i64,
    lower: i64,
    upper: i64,
) -> Frame {
    out.extend_from_slice(laid);
    let bound = |entry_id| Position::new(ledger_id, entry_id);
    put_range(out, number, bound(lower), bound(upper));
    Frame::like(number, ledger_id, lower, upper).unwrap_or_default()
}
