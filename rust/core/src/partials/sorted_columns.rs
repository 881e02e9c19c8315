//! A copy of event rows in the order of their pairs (topic, subscription).
//!
//! If the rows of many pairs are mixed, each row waits for the memory of its subscription. In the copied columns, the
//! rows of a pair are consecutive and keep their order. Each column is read once, sequentially.

use super::events::{Codes, Rows};

/// Copied columns of event rows, sorted by pair. The buffers are reused for the next batch of rows.
#[derive(Debug, Clone, Default)]
pub(super) struct SortedColumns {
    /// The original index of each row.
    pub(super) given: Vec<u32>,
    pub(super) pairs: Vec<u32>,
    /// The new index of each row.
    places: Vec<u32>,
    integers: [Vec<i64>; 7],
    codes: [Vec<i32>; 3],
}

impl SortedColumns {
    /// Copies `rows` in the order of their pairs. There are `count` pairs, with numbers from 0.
    pub(super) fn take(&mut self, rows: &Rows<'_>, pairs: &[u32], count: usize) {
        let mut next = vec![0_u32; count + 1];
        for pair in pairs {
            next[*pair as usize + 1] += 1;
        }
        for pair in 1..next.len() {
            next[pair] += next[pair - 1];
        }
        self.places.clear();
        self.places.extend(pairs.iter().map(|pair| {
            let next = &mut next[*pair as usize];
            *next += 1;
            *next - 1
        }));
        let (starts, ends) = rows.ack_sets.unzip();
        let integers = [
            Some(rows.ledger_ids),
            Some(rows.entry_ids),
            rows.batch_indexes,
            rows.batch_sizes,
            starts,
            ends,
            rows.sequences,
        ];
        let codes =
            [rows.subscriptions.codes, rows.kinds.codes, rows.files.and_then(|own| own.codes)];
        for (column, own) in integers.into_iter().zip(&mut self.integers) {
            move_to(own, column.unwrap_or_default(), &self.places);
        }
        for (column, own) in codes.into_iter().zip(&mut self.codes) {
            move_to(own, column.unwrap_or_default(), &self.places);
        }
        move_to(&mut self.pairs, pairs, &self.places);
        self.given.resize(pairs.len(), 0);
        for (row, place) in self.places.iter().enumerate() {
            self.given[*place as usize] = row as u32;
        }
    }

    /// Returns the copied rows. Their topics are not copied, because the pair of each row is known.
    pub(super) fn rows<'a>(&'a self, known: &Rows<'a>) -> Rows<'a> {
        let [ledger_ids, entry_ids, indexes, sizes, starts, ends, sequences] =
            self.integers.each_ref().map(Vec::as_slice);
        let [subscriptions, kinds, files] = self.codes.each_ref().map(Vec::as_slice);
        let coded = |known: Codes<'a>, codes| Codes { codes: known.codes.map(|_| codes), ..known };
        Rows {
            topics: Codes { codes: None, ..known.topics },
            subscriptions: coded(known.subscriptions, subscriptions),
            kinds: coded(known.kinds, kinds),
            ledger_ids,
            entry_ids,
            batch_indexes: known.batch_indexes.map(|_| indexes),
            batch_sizes: known.batch_sizes.map(|_| sizes),
            ack_sets: known.ack_sets.map(|_| (starts, ends)),
            words: known.words,
            sequences: known.sequences.map(|_| sequences),
            files: known.files.map(|own| coded(own, files)),
        }
    }
}

/// Writes each value of a column to `moved`, at the new index of its row.
fn move_to<T: Copy + Default>(moved: &mut Vec<T>, column: &[T], places: &[u32]) {
    moved.resize(column.len(), T::default());
    for (value, place) in column.iter().zip(places) {
        moved[*place as usize] = *value;
    }
}
