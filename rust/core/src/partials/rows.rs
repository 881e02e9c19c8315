//! The application of event rows to partials: one pass with one look-up for each row. A pair is a (topic,
//! subscription).

use super::events::{ACKS, Action, Codes, EXISTS, Rows, UP_TO};
use super::sorted_columns::SortedColumns;
use super::{Flaw, NULL, Partials};
use crate::error::Result;

/// A cache of the numbers that identify pairs. The key is the code of the topic and the code of the subscription. The
/// cache is used only if the number of code combinations is small enough.
pub(super) struct PairsOfBatch<'a> {
    topics: Codes<'a>,
    subscriptions: Codes<'a>,
    width: usize,
    pairs: Vec<u32>,
}

const NO_PAIR: u32 = u32::MAX;
/// The cache is used if a batch has at most this number of code combinations for each of its rows.
const CODES_PER_ROW: usize = 4;

impl Partials {
    /// Applies rows. Returns the index of the first invalid row. An invalid row becomes a flaw of its subscription, and
    /// all other rows are applied.
    ///
    /// # Errors
    /// [`Error::Value`] for columns of different lengths, and for codes or offsets that are out of range. No row is
    /// applied then.
    pub fn feed(&mut self, rows: &Rows<'_>) -> Result<Option<usize>> {
        rows.check(self.files.len())?;
        let mut pairs = PairsOfBatch::new(rows.topics, rows.subscriptions, rows.ledger_ids.len());
        if !self.resets_known && rows.kinds.numbers.contains(&(Action::Seek as i32)) {
            self.feed_seeks(rows, &mut pairs);
        }
        let mut first_flawed = None;
        let mut add_flawed = |row: usize| {
            first_flawed = Some(first_flawed.map_or(row, |first: usize| first.min(row)));
        };
        let mut memory = std::mem::take(&mut self.memory);
        pairs.of_rows(self, rows.ledger_ids.len(), &mut memory.pairs);
        let Memory { pairs, by_pair, .. } = &mut memory;
        let is_mixed = runs(pairs) >= pairs.len() / RUN;
        if !is_mixed {
            self.take_runs(rows, pairs, add_flawed);
        } else if self.pairs.len() <= pairs.len() / RUN {
            by_pair.take(rows, pairs, self.pairs.len());
            let given = &by_pair.given;
            self.take_runs(&by_pair.rows(rows), &by_pair.pairs, |row| {
                add_flawed(given[row] as usize);
            });
        } else {
            let has_groups = self.pairs.len() > 2 * PAIRS_PER_GROUP;
            let order = has_groups.then(|| order_by_pair_group(pairs, self.pairs.len()));
            for at in 0..pairs.len() {
                let row = order.as_ref().map_or(at, |order| order[at] as usize);
                if !self.take_row(rows, pairs[row], row) {
                    add_flawed(row);
                }
            }
        }
        self.keep(memory);
        Ok(first_flawed)
    }

    /// Stores the memory of this batch of rows for the next batch, unless it is too large.
    pub(super) fn keep(&mut self, memory: Memory) {
        if memory.pairs.len().max(memory.uncommitted.len()) <= ROWS_KEPT_MAX {
            self.memory = memory;
        }
    }

    /// Applies one row; returns whether it is valid. An invalid row becomes a flaw of its subscription.
    #[inline]
    pub(super) fn take_row(&mut self, rows: &Rows<'_>, pair: u32, row: usize) -> bool {
        let action = rows.action(row);
        let taken = match rows.flaw(row, action, self.batch_size_max) {
            Some(flaw) => Err(flaw),
            None => self.take(pair, row, action, rows),
        };
        if let Err(flaw) = taken {
            self.note_flaw(pair, rows.order(row), flaw);
        }
        taken.is_ok()
    }

    /// Applies the seeks of `rows` before all other rows. Then the acknowledgments that precede a seek in the order of
    /// events can be skipped.
    fn feed_seeks(&mut self, rows: &Rows<'_>, pairs: &mut PairsOfBatch<'_>) {
        for row in 0..rows.ledger_ids.len() {
            let is_seek = rows.action(row) == Action::Seek;
            if is_seek && rows.flaw(row, Action::Seek, self.batch_size_max).is_none() {
                let codes = (rows.topics.code(row), rows.subscriptions.code(row));
                let pair = pairs.get(self, codes);
                self.seek(pair, rows.order(row), rows.position(row), rows.ack_set(row));
            }
        }
    }

    #[inline]
    fn take(
        &mut self,
        pair: u32,
        row: usize,
        action: Action,
        rows: &Rows<'_>,
    ) -> std::result::Result<(), Flaw> {
        let does = action.effects();
        if does & EXISTS != 0 {
            let ledger = self.ledger(pair, rows.ledger_ids[row]);
            let ledger = &mut self.ledgers[ledger as usize];
            let entry_id = rows.entry_ids[row];
            ledger.note_entry(entry_id);
            ledger.batches.note_size(entry_id, rows.batch_size_known(row));
            return Ok(());
        }
        if does & ACKS != 0 {
            self.acknowledge(pair, row, does & UP_TO != 0, rows);
            return Ok(());
        }
        match action {
            Action::Clear if rows.ledger_ids[row] != NULL && rows.entry_ids[row] != NULL => {
                self.acknowledge(pair, row, true, rows);
            }
            Action::Clear if !self.resets_known => return Err(Flaw::ClearedBlindly),
            Action::InTransaction => return Err(Flaw::InTransaction),
            Action::Void => self.note_batch_size(pair, row, rows),
            Action::Trim => self.trim(pair, rows.ledger_ids[row]),
            Action::Delete => self.delete(pair, rows.order(row)),
            _ => (),
        }
        Ok(())
    }

    #[inline]
    fn note_batch_size(&mut self, pair: u32, row: usize, rows: &Rows<'_>) {
        let (_, size) = rows.batch(row);
        if size != NULL {
            let ledger = self.ledger(pair, rows.ledger_ids[row]);
            self.ledgers[ledger as usize].batches.note_size(rows.entry_ids[row], size);
        }
    }

    #[inline]
    fn acknowledge(&mut self, pair: u32, row: usize, up_to: bool, rows: &Rows<'_>) {
        if self.needs_places(pair) {
            let order = rows.order(row);
            if self.admit_acknowledgments(pair, order, order) == Some(false) {
                return self.note_batch_size(pair, row, rows);
            }
        }
        let ledger = self.ledger(pair, rows.ledger_ids[row]);
        let ledger = &mut self.ledgers[ledger as usize];
        if ledger.take_acknowledgment(rows, row, up_to) {
            ledger.acked.add(rows.entry_ids[row]);
        }
    }
}

/// The memory for a batch of rows. It is reused, because allocating costs more than writing.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// The pair of each row.
    pairs: Vec<u32>,
    by_pair: SortedColumns,
    /// The indexes of rows that are acknowledgments in transactions.
    pub(super) uncommitted: Vec<u32>,
}

/// The memory of a batch with more rows than this is not kept for the next batch. The kept memory is some tens of MB.
const ROWS_KEPT_MAX: usize = 1 << 20;

/// The number of pairs in a group. The ledgers of a group fit into the second-level cache.
const PAIRS_PER_GROUP: usize = 256;

/// If a run of rows with the same pair has at most this number of rows on average, the rows count as mixed and may be
/// reordered.
const RUN: usize = 8;

/// Returns the number of runs of rows with the same pair.
fn runs(pairs: &[u32]) -> usize {
    pairs.windows(2).filter(|two| two[0] != two[1]).count()
}

/// Returns the row indexes, grouped by pair number: first the rows of the first [`PAIRS_PER_GROUP`] pairs, then the
/// rows of the next, and so on. Rows of one group keep their order.
///
/// If the rows of many subscriptions are mixed and keep their order, each row waits for memory several times.
fn order_by_pair_group(pairs: &[u32], count: usize) -> Vec<u32> {
    let part = |pair: &u32| *pair as usize / PAIRS_PER_GROUP;
    let mut ends = vec![0_u32; count / PAIRS_PER_GROUP + 2];
    for pair in pairs {
        ends[part(pair) + 1] += 1;
    }
    for at in 1..ends.len() {
        ends[at] += ends[at - 1];
    }
    let mut rows = vec![0; pairs.len()];
    for (row, pair) in pairs.iter().enumerate() {
        let end = &mut ends[part(pair)];
        rows[*end as usize] = row as u32;
        *end += 1;
    }
    rows
}

impl<'a> PairsOfBatch<'a> {
    pub(super) fn new(topics: Codes<'a>, subscriptions: Codes<'a>, count: usize) -> Self {
        let width = subscriptions.numbers.len();
        let all = width.saturating_mul(topics.numbers.len());
        let is_dense = all <= CODES_PER_ROW * count;
        Self { topics, subscriptions, width, pairs: vec![NO_PAIR; if is_dense { all } else { 0 }] }
    }

    /// Writes the pair numbers of the first `count` rows to `pairs`.
    fn of_rows(&mut self, partials: &mut Partials, count: usize, pairs: &mut Vec<u32>) {
        let (topics, subscriptions) = (self.topics, self.subscriptions);
        pairs.clear();
        if count == 0 {
            return;
        }
        if topics.codes.is_none() && subscriptions.codes.is_none() {
            return pairs.resize(count, self.get(partials, (0, 0)));
        }
        let mut last = (usize::MAX, usize::MAX, 0);
        pairs.extend((0..count).map(|row| {
            let codes = (topics.code(row), subscriptions.code(row));
            if (last.0, last.1) != codes {
                last = (codes.0, codes.1, self.get(partials, codes));
            }
            last.2
        }));
    }

    #[inline]
    pub(super) fn get(&mut self, partials: &mut Partials, codes: (usize, usize)) -> u32 {
        let place = self.pairs.get_mut(codes.0 * self.width + codes.1);
        if let Some(&mut pair) = place
            && pair != NO_PAIR
        {
            return pair;
        }
        let topic = self.topics.numbers[codes.0];
        let pair = partials.pair(topic, self.subscriptions.numbers[codes.1]);
        if let Some(place) = place {
            *place = pair;
        }
        pair
    }
}
