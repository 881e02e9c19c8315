//! The application of runs. A run is a sequence of consecutive rows of one pair and one ledger. Rows that are ordered
//! by subscription form long runs.
//!
//! If rows are applied one by one, two things take most of the time: mispredicted branches on the kind of the event,
//! and the update of the entry set's counts for each entry. So the kinds of a run are read without a branch. The
//! acknowledgments of a run become bits, which are added to the set in one operation. Acknowledgments of parts of
//! batches are applied one by one.

use std::ops::Range;

use super::events::{ACK, ACKS, Action, EXISTS, OTHER, Rows, UP_TO, are_sound};
use super::{Ledger, Order, Partials, TOPIC};

/// The minimum number of rows in a run that is applied as a whole. The rows of a shorter run are applied one by one.
const RUN_MIN: usize = 8;

/// The maximum number of rows in a run. The acknowledgments of such a run fit into the first-level cache.
const RUN_MAX: usize = 2_048;

/// The effects of each kind of event, and buffers that are reused for each run.
pub(super) struct BatchedRows {
    /// The effects of each kind ([`Action::effects`]). The index is the code of the kind.
    does: Vec<u8>,
    /// Two lists of row indexes: the rows that prove that an entry exists, and the rows that acknowledge an entry.
    rows: [Vec<u32>; 2],
    acked: Vec<i64>,
    bits: Vec<u64>,
}

impl BatchedRows {
    pub(super) fn new(rows: &Rows<'_>) -> Self {
        let does = |number: &i32| Action::ALL[*number as usize].effects();
        let does = rows.kinds.numbers.iter().map(does).collect();
        let rows = [vec![0; RUN_MAX], vec![0; RUN_MAX]];
        Self { does, rows, acked: vec![0; RUN_MAX], bits: Vec::new() }
    }

    /// Applies the batch columns and the cumulative acknowledgments of a run. If a row acknowledges one whole entry and
    /// nothing else, writes the id of the entry to `self.acked`. Returns the number of written ids.
    fn take_batches(&mut self, ledger: &mut Ledger, rows: &Rows<'_>, run: Range<usize>) -> usize {
        // Split the rows by effect, without a branch.
        let [exist, acks] = &mut self.rows;
        let (mut exist_count, mut acks_count) = (0, 0);
        for row in run {
            let does = self.does[rows.kinds.code(row)];
            exist[exist_count] = row as u32;
            exist_count += usize::from(does & EXISTS != 0);
            acks[acks_count] = row as u32;
            acks_count += usize::from(does & ACKS != 0);
        }
        let mut told = (-1, 0);
        for row in &exist[..exist_count] {
            let row = *row as usize;
            let entry_id = rows.entry_ids[row];
            let size = rows.batch_size_known(row);
            // Several rows may have the same entry, one for each message. The batch size is recorded once for them.
            if told.0 != entry_id || told.1 < size {
                told = (entry_id, size);
                ledger.batches.note_size(entry_id, size);
            }
        }
        let mut acked = 0;
        for row in &acks[..acks_count] {
            let row = *row as usize;
            let is_up_to = self.does[rows.kinds.code(row)] & UP_TO != 0;
            self.acked[acked] = rows.entry_ids[row];
            acked += usize::from(ledger.take_acknowledgment(rows, row, is_up_to));
        }
        acked
    }

    /// Returns the places of the first and the last acknowledgment of a run. The run must have an acknowledgment.
    /// Returns `None` if the rows of the run belong to several files.
    fn acked_in(&self, rows: &Rows<'_>, run: Range<usize>) -> Option<(Order, Order)> {
        let file = rows.order(run.start).file;
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        for row in run {
            let Order { file: own, sequence } = rows.order(row);
            if own != file {
                return None;
            }
            let is_ack = self.does[rows.kinds.code(row)] & ACKS != 0;
            least = least.min(if is_ack { sequence } else { i64::MAX });
            greatest = greatest.max(if is_ack { sequence } else { i64::MIN });
        }
        let at = |sequence| Order { file, sequence };
        Some((at(least), at(greatest)))
    }

    /// Acknowledges the entries whose ids are the first `count` items of `acked`.
    fn acknowledge(&mut self, ledger: &mut Ledger, count: usize) {
        let acked = &self.acked[..count];
        let (Some(first), Some(last)) = (acked.iter().min(), acked.iter().max()) else { return };
        let (first, last) = (first >> 6, last >> 6);
        if (last - first) as usize >= count / 2 {
            for entry_id in acked {
                ledger.acked.add(*entry_id);
            }
            return;
        }
        self.bits.clear();
        self.bits.resize((last - first) as usize + 1, 0);
        for entry_id in acked {
            self.bits[((entry_id >> 6) - first) as usize] |= 1 << (entry_id & 63);
        }
        ledger.acked.add_words(first, &self.bits);
    }
}

impl Partials {
    /// Applies rows. If no batch exceeds the limit, long runs are applied as a whole. All other rows are applied one by
    /// one. Calls `add_flawed` with the index of each flawed row.
    pub(super) fn take_runs(
        &mut self,
        rows: &Rows<'_>,
        pairs: &[u32],
        mut add_flawed: impl FnMut(usize),
    ) {
        let has_sound_batches = rows.has_sound_batches(self.batch_size_max);
        let mut batched = BatchedRows::new(rows);
        let mut start = 0;
        while start < pairs.len() {
            let (pair, ledger_id) = (pairs[start], rows.ledger_ids[start]);
            let end = pairs.len().min(start + RUN_MAX);
            let differs = |row: &usize| pairs[*row] != pair || rows.ledger_ids[*row] != ledger_id;
            let end = (start + 1..end).find(differs).unwrap_or(end);
            let run = start..end;
            let is_batched = has_sound_batches
                && run.len() >= RUN_MIN
                && self.take_run(rows, pair, ledger_id, &mut batched, run.clone());
            if !is_batched {
                for row in run {
                    if !self.take_row(rows, pair, row) {
                        add_flawed(row);
                    }
                }
            }
            start = end;
        }
    }

    /// Applies a run of rows of one ledger. Returns whether the run was applied. If its rows must be checked one by
    /// one, returns false and applies no row.
    fn take_run(
        &mut self,
        rows: &Rows<'_>,
        pair: u32,
        ledger_id: i64,
        batched: &mut BatchedRows,
        run: Range<usize>,
    ) -> bool {
        let (mut ids, mut all, mut greatest) = (ledger_id, 0, -1);
        let (mut exists, mut up_to, mut acked) = (-1, -2, 0);
        for row in run.clone() {
            let entry_id = rows.entry_ids[row];
            let does = batched.does[rows.kinds.code(row)];
            ids |= entry_id | rows.sequences.map_or(0, |column| column[row]);
            all |= does;
            greatest = greatest.max(entry_id);
            exists = exists.max(if does & EXISTS != 0 { entry_id } else { -1 });
            up_to = up_to.max(if does & UP_TO != 0 { entry_id } else { -2 });
            batched.acked[acked] = entry_id;
            acked += usize::from(does & ACK != 0);
        }
        let is_topic = self.pairs[pair as usize].subscription == TOPIC;
        if !are_sound(ids, greatest, all, is_topic) || all & OTHER != 0 {
            return false;
        }
        let has_batches = rows.has_batches();
        let mut does = all & (EXISTS | ACKS);
        if does & ACKS != 0 && self.needs_places(pair) {
            let places = batched.acked_in(rows, run.clone());
            match places.and_then(|(first, last)| self.admit_acknowledgments(pair, first, last)) {
                Some(true) => (),
                // The batch sizes of void acknowledgments still count.
                Some(false) if !has_batches => does &= !ACKS,
                _ => return false,
            }
        }
        if does == 0 {
            return true;
        }
        let ledger = self.ledger(pair, ledger_id);
        let ledger = &mut self.ledgers[ledger as usize];
        if does & EXISTS != 0 {
            ledger.note_entry(exists);
        }
        if has_batches {
            acked = batched.take_batches(ledger, rows, run);
        } else if does & UP_TO != 0 {
            ledger.acknowledge_up_to(up_to);
        }
        if does & ACK != 0 {
            batched.acknowledge(ledger, acked);
        }
        true
    }
}
