//! The application of runs. A run is a sequence of consecutive rows of one pair and one ledger. Rows that are ordered
//! by subscription form long runs.
//!
//! If rows are applied one by one, most of the time is spent on mispredicted branches on the kind of the event, and on
//! updating the counts of the entry set for each entry. So the kinds of a run are read without a branch. The
//! acknowledgments of a run become bits, which are added to the set in one operation. Acknowledgments of parts of
//! batches are applied one by one.

use std::ops::Range;

use super::events::{Action, Rows};
use super::{Ledger, Order, Partials, TOPIC};

/// The minimum number of rows in a run that is applied as a whole. The rows of a shorter run are applied one by one.
const RUN_MIN: usize = 8;

/// The maximum number of rows in a run. The acknowledgments of such a run fit into the first-level cache.
const RUN_MAX: usize = 2_048;

const EXISTS: u8 = 1;
const ACK: u8 = 2;
const UP_TO: u8 = 4;
/// A flag: the event must belong to a subscription, not to the topic as a whole.
const OWNED: u8 = 8;
const OTHER: u8 = 16;

/// The places ([`Order`]) of the first and the last acknowledgment, if there are any.
type Span = Option<(Order, Order)>;

/// The effects of each kind of event, and buffers that are reused for each run.
pub(super) struct BatchedRows {
    /// The effects of each kind, as flags. The index is the code of the kind.
    does: Vec<u8>,
    /// The indexes of the rows that prove that an entry exists, and the indexes of the rows that acknowledge an entry.
    rows: [Vec<u32>; 2],
    acked: Vec<i64>,
    bits: Vec<u64>,
}

impl BatchedRows {
    pub(super) fn new(rows: &Rows<'_>) -> Self {
        let does = |number: &i32| match Action::ALL[*number as usize] {
            Action::Nothing | Action::Commit => 0,
            Action::Placed | Action::Named => OWNED,
            Action::Exists => EXISTS,
            Action::Delivered => EXISTS | OWNED,
            Action::Ack => ACK,
            Action::UpTo => UP_TO,
            _ => OTHER,
        };
        let does = rows.kinds.numbers.iter().map(does).collect();
        let rows = [vec![0; RUN_MAX], vec![0; RUN_MAX]];
        Self { does, rows, acked: vec![0; RUN_MAX], bits: Vec::new() }
    }

    /// Applies the batch columns of a run. Writes to `acked` the ids of the entries that single acknowledgments
    /// acknowledge as a whole. Returns the number of these ids, and the entry id up to which everything is acknowledged
    /// (-2 without a cumulative acknowledgment).
    fn take_batches(
        &mut self,
        ledger: &mut Ledger,
        rows: &Rows<'_>,
        run: Range<usize>,
    ) -> (usize, i64) {
        // Split the rows by effect, without a branch.
        let [exist, acks] = &mut self.rows;
        let (mut exist_count, mut acks_count) = (0, 0);
        for row in run {
            let does = self.does[rows.kinds.code(row)];
            exist[exist_count] = row as u32;
            exist_count += usize::from(does & EXISTS != 0);
            acks[acks_count] = row as u32;
            acks_count += usize::from(does & (ACK | UP_TO) != 0);
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
        let (mut acked, mut up_to) = (0, -2);
        for row in &acks[..acks_count] {
            let row = *row as usize;
            let entry_id = rows.entry_ids[row];
            let is_up_to = self.does[rows.kinds.code(row)] & UP_TO != 0;
            let is_whole = ledger.take_parts(rows, row, is_up_to);
            self.acked[acked] = entry_id;
            acked += usize::from(is_whole && !is_up_to);
            up_to = up_to.max(if is_up_to { entry_id - i64::from(!is_whole) } else { -2 });
        }
        (acked, up_to)
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

    /// Returns the places of the first and the last acknowledgment of a run, if the run has acknowledgments. Returns an
    /// error if its rows belong to several files.
    fn acked_in(rows: &Rows<'_>, batched: &BatchedRows, run: Range<usize>) -> Result<Span, ()> {
        let file = rows.order(run.start).file;
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        for row in run {
            let Order { file: own, sequence } = rows.order(row);
            if own != file {
                return Err(());
            }
            let is_ack = batched.does[rows.kinds.code(row)] & (ACK | UP_TO) != 0;
            least = least.min(if is_ack { sequence } else { i64::MAX });
            greatest = greatest.max(if is_ack { sequence } else { i64::MIN });
        }
        let at = |sequence| Order { file, sequence };
        Ok((least <= greatest).then(|| (at(least), at(greatest))))
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
        let known = &self.pairs[pair as usize];
        let is_topic = known.subscription == TOPIC;
        let has_batches = rows.has_batches();
        let mut acks = None;
        if self.ordered || known.rare.seek.is_some() {
            match Self::acked_in(rows, batched, run.clone()) {
                Ok(found) => acks = found,
                Err(()) => return false,
            }
        }
        let is_void = |order| self.voiding_seek(known, order).is_some();
        let (first_void, last_void) =
            acks.map_or((false, false), |(first, last)| (is_void(first), is_void(last)));
        // The seek is between the first and the last acknowledgment, or the acknowledgments are void but their batch
        // sizes still count.
        if first_void != last_void || (last_void && has_batches) {
            return false;
        }
        let (mut signs, mut all, mut greatest) = (ledger_id, 0, -1);
        let (mut exists, mut up_to, mut acked) = (-1, -2, 0);
        for row in run.clone() {
            let entry_id = rows.entry_ids[row];
            let does = batched.does[rows.kinds.code(row)];
            signs |= entry_id | rows.sequences.map_or(0, |column| column[row]);
            all |= does;
            greatest = greatest.max(entry_id);
            exists = exists.max(if does & EXISTS != 0 { entry_id } else { -1 });
            up_to = up_to.max(if does & UP_TO != 0 { entry_id } else { -2 });
            batched.acked[acked] = entry_id;
            acked += usize::from(does & ACK != 0);
        }
        if signs < 0 || greatest == i64::MAX || all & OTHER != 0 || (is_topic && all & !EXISTS != 0)
        {
            return false;
        }
        if all & !OWNED == 0 {
            return true;
        }
        if let Some((first, last)) = acks.filter(|_| self.ordered && !last_void) {
            self.widen_acked(pair, first, last);
        }
        let ledger = self.ledger(pair, ledger_id);
        let ledger = &mut self.ledgers[ledger as usize];
        if all & EXISTS != 0 {
            ledger.note_entry(exists);
        }
        if last_void {
            return true;
        }
        if has_batches {
            (acked, up_to) = batched.take_batches(ledger, rows, run);
        }
        if all & UP_TO != 0 {
            ledger.acknowledge_up_to(up_to);
        }
        batched.acknowledge(ledger, acked);
        true
    }
}
