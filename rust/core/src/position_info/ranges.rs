//! Between the wire and the range set: both of Pulsar's lists of acknowledged entries, in and out.

use super::budget::Budget;
use super::form::Form;
use super::wire::{put_varint, varint_length};
use crate::error::Result;
use crate::position::Position;
use crate::range_set::PositionRangeSet;

/// Ranges gathered before the set takes them together, which spares it a search for the ledger of each.
const GATHERED: usize = 1 << 10;

/// Gathers what a message lists, in any order, and lets field 3 win over field 6.
pub(super) struct Collector {
    set: PositionRangeSet,
    spanning: Vec<(Position, Position)>,
    form: Form,
    saw_ranges: bool,
    columns: [Vec<i64>; 3],
    gathered: usize,
    measure_at: usize,
}

impl Collector {
    pub(super) fn new() -> Self {
        Self {
            set: PositionRangeSet::new(),
            spanning: Vec::new(),
            form: Form::PulsarRanges,
            saw_ranges: false,
            columns: Default::default(),
            gathered: 0,
            measure_at: GATHERED,
        }
    }

    /// One range of field 3. A range over a ledger's end counts in its upper ledger and is kept.
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
            self.columns.iter_mut().for_each(Vec::clear);
        }
        if lower.ledger_id == upper.ledger_id {
            return self.add(upper.ledger_id, lower.entry_id, upper.entry_id, budget);
        }
        budget.spend(size_of::<(Position, Position)>())?;
        self.spanning.push((lower, upper));
        self.add(upper.ledger_id, -1, upper.entry_id, budget)
    }

    /// Takes the words of one ledger of field 6.
    pub(super) fn words_of(&mut self, ledger_id: i64) -> WordRuns<'_> {
        if !self.saw_ranges {
            self.form = Form::PulsarLongArray;
        }
        WordRuns { collector: self, ledger_id, next_entry: 0, run_start: None }
    }

    /// The form and what was listed.
    pub(super) fn finish(mut self, budget: &Budget) -> Result<(Form, Acks)> {
        self.flush()?;
        budget.allow(self.set.heap_bytes())?;
        Ok((self.form, Acks { set: self.set, spanning: self.spanning }))
    }

    #[inline]
    fn add(&mut self, ledger_id: i64, lower: i64, upper: i64, budget: &Budget) -> Result<()> {
        for (column, value) in self.columns.iter_mut().zip([ledger_id, lower, upper]) {
            column.push(value);
        }
        if self.columns[0].len() < GATHERED {
            return Ok(());
        }
        self.flush()?;
        // Measuring walks the ledgers, so it is done each time the number of ranges has doubled.
        self.gathered += GATHERED;
        if self.gathered >= self.measure_at {
            self.measure_at = 2 * self.gathered;
            budget.allow(self.set.heap_bytes())?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let [ledgers, lowers, uppers] = &mut self.columns;
        self.set.add_ranges(ledgers, lowers, uppers)?;
        self.columns.iter_mut().for_each(Vec::clear);
        Ok(())
    }
}

/// What a message lists as acknowledged.
pub(super) struct Acks {
    pub(super) set: PositionRangeSet,
    /// Ranges over ledgers' ends, whose upper part is in the set.
    pub(super) spanning: Vec<(Position, Position)>,
}

/// Turns words, bit set = acknowledged, into ranges as they come: an array of one far bit needs no copy.
pub(super) struct WordRuns<'a> {
    collector: &'a mut Collector,
    ledger_id: i64,
    next_entry: i64,
    run_start: Option<i64>,
}

impl WordRuns<'_> {
    /// The next 64 entries.
    #[inline]
    pub(super) fn push(&mut self, word: i64, budget: &Budget) -> Result<()> {
        let first = self.next_entry;
        self.next_entry += 64;
        match (word, self.run_start) {
            (0, None) | (-1, Some(_)) => return Ok(()),
            (-1, None) => {
                self.run_start = Some(first);
                return Ok(());
            }
            _ => {}
        }
        // Each turn looks for the next bit that ends what is open: a run of ones or of zeros.
        let mut bit = 0u32;
        while bit < 64 {
            let open = self.run_start.is_some();
            let rest = (if open { !word } else { word } as u64) >> bit;
            if rest == 0 {
                break;
            }
            bit += rest.trailing_zeros();
            if let Some(start) = self.run_start.take() {
                self.add(start, first + i64::from(bit), budget)?;
            } else {
                self.run_start = Some(first + i64::from(bit));
            }
        }
        Ok(())
    }

    /// Closes a run that reaches the last entry.
    pub(super) fn finish(mut self, budget: &Budget) -> Result<()> {
        match self.run_start.take() {
            Some(start) => self.add(start, self.next_entry, budget),
            None => Ok(()),
        }
    }

    fn add(&mut self, start: i64, end: i64, budget: &Budget) -> Result<()> {
        if self.collector.saw_ranges {
            return Ok(());
        }
        self.collector.add(self.ledger_id, start - 1, end - 1, budget)
    }
}

/// Appends every range as field `number`.
///
/// A million ranges differ in their entries alone, so the bytes up to the entry are laid once a ledger.
pub(super) fn put_all(out: &mut Vec<u8>, number: u32, set: &PositionRangeSet) {
    let mut ledger = Vec::new();
    let mut ledger_id = None;
    for range in set.ranges() {
        if ledger_id != Some(range.ledger_id) {
            ledger_id = Some(range.ledger_id);
            ledger.clear();
            ledger.push(1 << 3);
            put_varint(&mut ledger, range.ledger_id as u64);
            ledger.push(2 << 3);
        }
        let lower_length = ledger.len() + varint_length(range.lower_entry_exclusive as u64);
        let upper_length = ledger.len() + varint_length(range.upper_entry_inclusive as u64);
        // Both endpoints are at most 22 bytes, so every length is one byte.
        out.extend_from_slice(&[
            (number << 3 | 2) as u8,
            (4 + lower_length + upper_length) as u8,
            1 << 3 | 2,
            lower_length as u8,
        ]);
        out.extend_from_slice(&ledger);
        put_varint(out, range.lower_entry_exclusive as u64);
        out.extend_from_slice(&[2 << 3 | 2, upper_length as u8]);
        out.extend_from_slice(&ledger);
        put_varint(out, range.upper_entry_inclusive as u64);
    }
}
