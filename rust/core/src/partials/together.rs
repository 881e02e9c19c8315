//! Rows of one ledger taken together: what a whole topic, or a slice ordered by subscription, consists of.
//!
//! Row by row, the costs are the kind, which no processor foresees, and the counts of a set that changes by an entry. So
//! the kinds of a run are read without a branch, and its acknowledgments become bits, which are joined at once. Those of
//! parts of batches go to their entries one by one, by one look-up each.

use std::ops::Range;

use super::events::{Action, Rows};
use super::{Ledger, NULL, Order, Partials, TOPIC};

/// Rows of one ledger that are worth it.
const RUN_MIN: usize = 8;

/// So many rows at a time: their acknowledgments fit the first-level cache.
const RUN_MAX: usize = 2_048;

const EXISTS: u8 = 1;
const ACK: u8 = 2;
const UP_TO: u8 = 4;
/// A topic has no such event.
const OWNED: u8 = 8;
const OTHER: u8 = 16;

/// The order of the first and of the last of some acknowledgments; none if there are none.
type Span = Option<(Order, Order)>;

/// What the kinds of some rows do, and memory that is used again.
pub(super) struct Together {
    /// By code.
    does: Vec<u8>,
    /// Rows that say that an entry exists, and those that acknowledge.
    rows: [Vec<u32>; 2],
    acked: Vec<i64>,
    bits: Vec<u64>,
}

impl Together {
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

    /// Takes what rows say of batches; gathers the entries acknowledged whole in `acked`, and returns how many there
    /// are, and up to where everything is acknowledged.
    fn take_batches(
        &mut self,
        ledger: &mut Ledger,
        rows: &Rows<'_>,
        run: Range<usize>,
    ) -> (usize, i64) {
        // By what they do, without a branch on it.
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
            let (index, size) = rows.batch(row);
            let size = if size == NULL { index.saturating_add(1) } else { size };
            // Each message of a batch says the same.
            if told.0 != entry_id || told.1 < size {
                told = (entry_id, size);
                ledger.batches.has_size(entry_id, size);
            }
        }
        let (mut acked, mut up_to) = (0, -2);
        for row in &acks[..acks_count] {
            let row = *row as usize;
            let entry_id = rows.entry_ids[row];
            let is_up_to = self.does[rows.kinds.code(row)] & UP_TO != 0;
            if rows.is_whole(row) {
                ledger.batches.has_size(entry_id, rows.batch(row).1);
                self.acked[acked] = entry_id;
                acked += usize::from(!is_up_to);
                up_to = up_to.max(if is_up_to { entry_id } else { -2 });
            } else {
                ledger.take_part(entry_id, rows.part(row), is_up_to);
                up_to = up_to.max(if is_up_to { entry_id - 1 } else { -2 });
            }
        }
        (acked, up_to)
    }

    /// Joins the first `count` of `acked`.
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
    /// Whether rows may be taken together: no batch is beyond the limit.
    pub(super) fn takes_together(&self, rows: &Rows<'_>) -> bool {
        rows.has_sound_batches(self.batch_size_max)
    }

    /// Takes rows; calls `one` for each row that has to be taken alone.
    pub(super) fn take_together(
        &mut self,
        rows: &Rows<'_>,
        pairs: &[u32],
        mut one: impl FnMut(&mut Self, u32, usize),
    ) {
        let mut together = Together::new(rows);
        let mut start = 0;
        while start < pairs.len() {
            let (pair, ledger_id) = (pairs[start], rows.ledger_ids[start]);
            let end = pairs.len().min(start + RUN_MAX);
            let differs = |row: &usize| pairs[*row] != pair || rows.ledger_ids[*row] != ledger_id;
            let end = (start + 1..end).find(differs).unwrap_or(end);
            let run = start..end;
            if run.len() < RUN_MIN
                || !self.take_run(rows, pair, ledger_id, &mut together, run.clone())
            {
                for row in run {
                    one(self, pair, row);
                }
            }
            start = end;
        }
    }

    /// The order of the first and of the last acknowledgment of a run, if it has some; an error if they are of several
    /// files.
    fn acked_in(rows: &Rows<'_>, together: &Together, run: Range<usize>) -> Result<Span, ()> {
        let file = rows.order(run.start).file;
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        for row in run {
            let Order { file: own, sequence } = rows.order(row);
            if own != file {
                return Err(());
            }
            let is_ack = together.does[rows.kinds.code(row)] & (ACK | UP_TO) != 0;
            least = least.min(if is_ack { sequence } else { i64::MAX });
            greatest = greatest.max(if is_ack { sequence } else { i64::MIN });
        }
        let at = |sequence| Order { file, sequence };
        Ok((least <= greatest).then(|| (at(least), at(greatest))))
    }

    /// Takes rows of one ledger; takes none and returns false if one of them has to be looked at.
    fn take_run(
        &mut self,
        rows: &Rows<'_>,
        pair: u32,
        ledger_id: i64,
        together: &mut Together,
        run: Range<usize>,
    ) -> bool {
        let known = &self.pairs[pair as usize];
        let is_topic = known.subscription == TOPIC;
        let has_batches = rows.has_batches();
        let mut acks = None;
        if self.ordered || known.rare.seek.is_some() {
            match Self::acked_in(rows, together, run.clone()) {
                Ok(found) => acks = found,
                Err(()) => return false,
            }
        }
        let is_void = |order| self.voiding_seek(known, order).is_some();
        let (first_void, last_void) =
            acks.map_or((false, false), |(first, last)| (is_void(first), is_void(last)));
        // A seek between them, or what is void says how large its batch is.
        if first_void != last_void || (last_void && has_batches) {
            return false;
        }
        let (mut signs, mut all, mut greatest) = (ledger_id, 0, -1);
        let (mut exists, mut up_to, mut acked) = (-1, -2, 0);
        for row in run.clone() {
            let entry_id = rows.entry_ids[row];
            let does = together.does[rows.kinds.code(row)];
            signs |= entry_id | rows.sequences.map_or(0, |column| column[row]);
            all |= does;
            greatest = greatest.max(entry_id);
            exists = exists.max(if does & EXISTS != 0 { entry_id } else { -1 });
            up_to = up_to.max(if does & UP_TO != 0 { entry_id } else { -2 });
            together.acked[acked] = entry_id;
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
            self.cover(pair, first, last);
        }
        let ledger = self.ledger(pair, ledger_id);
        let ledger = &mut self.ledgers[ledger as usize];
        if all & EXISTS != 0 {
            ledger.has_entry(exists);
        }
        if last_void {
            return true;
        }
        if has_batches {
            (acked, up_to) = together.take_batches(ledger, rows, run);
        }
        if all & UP_TO != 0 {
            ledger.acknowledge_up_to(up_to);
        }
        together.acknowledge(ledger, acked);
        true
    }
}
