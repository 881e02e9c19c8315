//! Rows in the order of their pairs, where the events of several subscriptions are mixed.
//!
//! Row by row, each would wait for the memory of its subscription. The columns are written anew instead, so that the
//! rows of one pair follow each other, in their own order: each column is read once from its start to its end.

use super::rows::{Codes, Rows};

/// Columns by pair.
pub(super) struct ByPair<'a> {
    /// The place of each row as it was given.
    pub(super) given: Vec<u32>,
    pub(super) pairs: Vec<u32>,
    rows: Rows<'a>,
    integers: [Vec<i64>; 7],
    codes: [Vec<i32>; 3],
}

impl<'a> ByPair<'a> {
    pub(super) fn new(rows: &Rows<'a>, pairs: &[u32], count: usize) -> Self {
        let mut places = vec![0_u32; count + 1];
        for pair in pairs {
            places[*pair as usize + 1] += 1;
        }
        for pair in 1..places.len() {
            places[pair] += places[pair - 1];
        }
        let place = |pair: &u32| {
            let next = &mut places[*pair as usize];
            *next += 1;
            *next - 1
        };
        let places: Vec<u32> = pairs.iter().map(place).collect();
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
        let given: Vec<u32> = (0..pairs.len() as u32).collect();
        Self {
            given: moved(&given, &places),
            pairs: moved(pairs, &places),
            rows: *rows,
            integers: integers.map(|own| own.map_or(vec![], |own| moved(own, &places))),
            codes: codes.map(|own| own.map_or(vec![], |own| moved(own, &places))),
        }
    }

    /// The rows; their topics are those of their pairs.
    pub(super) fn rows(&self) -> Rows<'_> {
        let [ledger_ids, entry_ids, indexes, sizes, starts, ends, sequences] =
            self.integers.each_ref().map(Vec::as_slice);
        let [subscriptions, kinds, files] = self.codes.each_ref().map(Vec::as_slice);
        let coded = |known: Codes<'a>, codes| Codes { codes: known.codes.map(|_| codes), ..known };
        let known = &self.rows;
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

fn moved<T: Copy + Default>(column: &[T], places: &[u32]) -> Vec<T> {
    let mut moved = vec![T::default(); column.len()];
    for (value, place) in column.iter().zip(places) {
        moved[*place as usize] = *value;
    }
    moved
}
