//! An index of delayed messages by time bucket and ledger. It is a smaller form of apache/pulsar#23611.
//!
//! The low bits of a delivery time are dropped. So messages with nearby times are in the same bucket, and their entry
//! ids are stored as a compressed set. [`Rounding`] determines the time at which a message of a bucket is due.
//!
//! ```text
//! open      the run that is being filled: ids first..=last of one ledger in one bucket; adding the next id is cheap
//! buckets   B-tree: bucket → vector of (ledger, entries), sorted by ledger
//! entries   one range, stored inline, or a roaring bitmap (array, bitset or run containers)
//! ```
//!
//! The open run keeps the index small *while the index is filled*: consecutive ids become a range directly, without a
//! bitmap. A set to which several runs are added is converted to run containers each time the number of added runs has
//! doubled. Every method that reads the index first closes the open run: it moves the run to its bucket.

mod entries;
mod bytes;

use std::collections::BTreeMap;

use crate::delayed::{DelayedColumns, DelayedIndex, DelayedMessage};
use crate::error::{Error, InvalidArgument, Result, Validity};
use entries::Entries;

/// The time at which all messages of a bucket are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// The greatest multiple of `2^bits` at or before the delivery time, so messages are up to `2^bits - 1` ms early.
    /// apache/pulsar#23611 did this.
    Down = 0,
    /// The least multiple of `2^bits` at or after the delivery time, or `i64::MAX` if int64 has none. Messages are up
    /// to `2^bits - 1` ms late and never early. Pulsar 4.2.4 does this if a delivery must not be early (strict
    /// cut-off).
    Up = 1,
    /// The last millisecond before the next multiple of `2^bits`. A bucket is due up to `2^bits - 1` ms after its
    /// messages, and never before them. Pulsar 4.2.4 does this with the lenient cut-off. It then delivers each bucket
    /// up to one tick before the bucket is due, so messages are at most one tick early.
    BucketEnd = 2,
}

/// The maximum number of dropped bits, for buckets of 2^62 ms. With 63 bits, int64 would have no multiple of `2^bits`
/// above 0.
pub const BITS_MAX: u32 = 62;

#[derive(Debug, Clone)]
struct LedgerEntries {
    ledger: i64,
    entries: Entries,
    /// The number of runs that were added since the set was last converted to run containers. At `pieces_limit` runs,
    /// the set is converted again.
    pieces: u32,
    pieces_limit: u32,
}

/// The number of added runs at which a set is converted to run containers for the first time. The limit doubles with
/// each conversion.
const PIECES_LIMIT: u32 = 16;

/// The run that is being filled. Its ids `first..=last` are already counted in [`TimeBuckets::length`], but are not yet
/// in [`TimeBuckets::buckets`].
#[derive(Debug, Clone, Copy)]
struct OpenRun {
    bucket: i64,
    ledger: i64,
    first: u64,
    last: u64,
    /// The least id above `first` that is already in the bucket. The run can grow up to this id without a search for
    /// duplicates.
    limit: u64,
}

/// The number of rows that are compared with the open run in one step.
const STEP_ROWS: usize = 16;

/// The index of delayed messages by time bucket. The module documentation describes its representation.
#[derive(Debug, Clone)]
pub struct TimeBuckets {
    bits: u32,
    rounding: Rounding,
    open: Option<OpenRun>,
    buckets: BTreeMap<i64, Vec<LedgerEntries>>,
    length: usize,
}

impl TimeBuckets {
    /// Creates an index with buckets of `2^bits` ms.
    ///
    /// # Errors
    /// [`Error::Value`] for more than [`BITS_MAX`] bits.
    pub fn new(bits: u32, rounding: Rounding) -> Result<Self> {
        if bits > BITS_MAX {
            return Err(Error::Value(InvalidArgument::BucketBits { bits, max: BITS_MAX }));
        }
        Ok(Self { bits, rounding, open: None, buckets: BTreeMap::new(), length: 0 })
    }

    /// Creates an index with the bucket size that the broker computes from its tick time: floor(log2(tick)) bits are
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Value`] for a tick below 1 ms.
    pub fn from_tick(tick_time_ms: i64, rounding: Rounding) -> Result<Self> {
        if tick_time_ms < 1 {
            return Err(Error::Value(InvalidArgument::TickTime { tick_time_ms }));
        }
        Self::new(tick_time_ms.ilog2().min(BITS_MAX), rounding)
    }

    /// Returns the number of low bits of a time that are dropped.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the rounding of delivery times.
    #[must_use]
    pub fn rounding(&self) -> Rounding {
        self.rounding
    }

    /// Returns the number of buckets that have messages.
    pub fn bucket_count(&mut self) -> usize {
        self.close_run();
        self.buckets.len()
    }

    /// Returns the rounded time, in ms, at which a message with the delivery time `deliver_at_ms` is due in this index.
    #[must_use]
    #[inline]
    pub fn bucket_of(&self, deliver_at_ms: i64) -> i64 {
        let mask = (1i64 << self.bits) - 1;
        match self.rounding {
            Rounding::Down => deliver_at_ms & !mask,
            Rounding::BucketEnd => deliver_at_ms | mask,
            Rounding::Up => match deliver_at_ms.checked_add(mask) {
                Some(end) => end & !mask,
                None => i64::MAX,
            },
        }
    }

    /// Returns the first of the `2^bits` delivery times that belong to a bucket. Returns `None` for a bucket at an end
    /// of the int64 range that has fewer delivery times.
    fn start_of(&self, bucket: i64) -> Option<i64> {
        let mask = (1i64 << self.bits) - 1;
        match self.rounding {
            Rounding::Down => Some(bucket),
            Rounding::BucketEnd => Some(bucket - mask),
            Rounding::Up if bucket == i64::MAX => None,
            Rounding::Up => bucket.checked_sub(mask),
        }
    }

    /// Adds rows to the open run, in steps of [`STEP_ROWS`] rows. Stops before a step if any of its rows does not
    /// continue the run. Returns the number of added rows.
    fn extend_run(&mut self, times_ms: &[i64], ledger_ids: &[i64], entry_ids: &[i64]) -> usize {
        let Some(mut open) = self.open else { return 0 };
        let Some(start) = self.start_of(open.bucket) else { return 0 };
        let outside = -1i64 << self.bits;
        let mut next = open.last + 1;
        let steps = times_ms
            .as_chunks::<STEP_ROWS>()
            .0
            .iter()
            .zip(ledger_ids.as_chunks::<STEP_ROWS>().0)
            .zip(entry_ids.as_chunks::<STEP_ROWS>().0);
        for ((times, ledgers), entries) in steps {
            // There is one branch for all rows of a step, so that the comparisons are vectorised.
            let mut differs = 0;
            for row in 0..STEP_ROWS {
                differs |= times[row].wrapping_sub(start) & outside;
                differs |= ledgers[row] ^ open.ledger;
                differs |= entries[row] ^ (next + row as u64) as i64;
            }
            if differs != 0 || open.limit - next < STEP_ROWS as u64 {
                break;
            }
            next += STEP_ROWS as u64;
        }
        let added = (next - open.last - 1) as usize;
        open.last = next - 1;
        self.open = Some(open);
        self.length += added;
        added
    }

    #[inline]
    fn add_checked(&mut self, message: DelayedMessage) -> bool {
        let bucket = self.bucket_of(message.deliver_at_ms);
        let entry = message.entry_id as u64;
        if let Some(open) = &mut self.open
            && open.bucket == bucket
            && open.ledger == message.ledger_id
        {
            if entry == open.last + 1 && entry < open.limit {
                open.last = entry;
                self.length += 1;
                return true;
            }
            if (open.first..=open.last).contains(&entry) {
                return false;
            }
        }
        self.open_run(bucket, message.ledger_id, entry)
    }

    /// Closes the open run, and starts a new run with one id. If the index already has the id, starts no run and
    /// returns false.
    fn open_run(&mut self, bucket: i64, ledger: i64, entry: u64) -> bool {
        self.close_run();
        let next = self
            .buckets
            .get(&bucket)
            .and_then(|ledgers| find(ledgers, ledger).ok().map(|at| &ledgers[at].entries))
            .and_then(|entries| entries.next(entry));
        if next == Some(entry) {
            return false;
        }
        let limit = next.unwrap_or(u64::MAX);
        self.open = Some(OpenRun { bucket, ledger, first: entry, last: entry, limit });
        self.length += 1;
        true
    }

    /// Moves the open run into its bucket.
    fn close_run(&mut self) {
        let Some(run) = self.open.take() else { return };
        let ledgers = self.buckets.entry(run.bucket).or_default();
        match find(ledgers, run.ledger) {
            Ok(at) => {
                let held = &mut ledgers[at];
                held.entries.insert(run.first, run.last);
                held.pieces += 1;
                if held.pieces >= held.pieces_limit {
                    held.entries.optimize();
                    held.pieces = 0;
                    held.pieces_limit *= 2;
                }
            }
            Err(at) => insert(ledgers, at, run.ledger, Entries::Range(run.first, run.last)),
        }
    }

    /// Returns the entry ids of one ledger in the bucket of `deliver_at_ms`, in roaring's portable format. The returned
    /// flag is true for the 64-bit form, which is used if an id exceeds 32 bits. Returns `None` if the bucket has no
    /// messages of the ledger.
    pub fn to_roaring(&mut self, deliver_at_ms: i64, ledger: i64) -> Option<(Vec<u8>, bool)> {
        self.close_run();
        let ledgers = self.buckets.get(&self.bucket_of(deliver_at_ms))?;
        find(ledgers, ledger).ok().map(|at| ledgers[at].entries.to_roaring())
    }

    /// Adds a message for each entry id in a portable roaring bitmap; returns how many messages were new. All of them
    /// have the same ledger and delivery time. `wide` is true for the 64-bit form.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative ledger id, [`Error::Corrupt`] for bytes that are not such a bitmap.
    pub fn add_roaring(
        &mut self,
        deliver_at_ms: i64,
        ledger: i64,
        bytes: &[u8],
        wide: bool,
    ) -> Result<usize> {
        DelayedMessage::new(deliver_at_ms, ledger, 0).checked()?;
        let ids = Entries::from_roaring(bytes, wide)
            .ok_or_else(|| Error::corrupt(0, "not a portable roaring bitmap with entry ids"))?;
        self.close_run();
        let bucket = self.bucket_of(deliver_at_ms);
        let ledgers = self.buckets.entry(bucket).or_default();
        let before = match find(ledgers, ledger) {
            Ok(at) => {
                let held = &mut ledgers[at].entries;
                let before = held.len();
                ids.for_each_range(|first, last| held.insert(first, last));
                held.optimize();
                before
            }
            Err(at) => {
                insert(ledgers, at, ledger, ids);
                0
            }
        };
        let at = find(ledgers, ledger).expect("just inserted");
        let new = (ledgers[at].entries.len() - before) as usize;
        self.length += new;
        Ok(new)
    }
}

fn find(ledgers: &[LedgerEntries], ledger: i64) -> std::result::Result<usize, usize> {
    // Messages are mostly added in order, so the last ledger is tried first.
    match ledgers.last() {
        Some(last) if last.ledger == ledger => Ok(ledgers.len() - 1),
        Some(last) if last.ledger < ledger => Err(ledgers.len()),
        _ => ledgers.binary_search_by_key(&ledger, |held| held.ledger),
    }
}

fn insert(ledgers: &mut Vec<LedgerEntries>, at: usize, ledger: i64, entries: Entries) {
    if ledgers.len() == ledgers.capacity() {
        // Most buckets have one ledger, but a vector that grows by itself begins with room for four.
        ledgers.reserve_exact(ledgers.len().max(1));
    }
    let held = LedgerEntries { ledger, entries, pieces: 0, pieces_limit: PIECES_LIMIT };
    ledgers.insert(at, held);
}

impl DelayedIndex for TimeBuckets {
    #[inline]
    fn add(&mut self, message: DelayedMessage) -> Result<bool> {
        Ok(self.add_checked(message.checked()?))
    }

    fn add_many(
        &mut self,
        times_ms: &[i64],
        ledger_ids: &[i64],
        entry_ids: &[i64],
    ) -> Result<usize> {
        crate::delayed::check_positions(ledger_ids, entry_ids)?;
        let before = self.length;
        let mut at = 0;
        while at < times_ms.len() {
            at += self.extend_run(&times_ms[at..], &ledger_ids[at..], &entry_ids[at..]);
            for row in at..times_ms.len().min(at + STEP_ROWS) {
                self.add_checked(DelayedMessage::new(
                    times_ms[row],
                    ledger_ids[row],
                    entry_ids[row],
                ));
            }
            at += STEP_ROWS;
        }
        Ok(self.length - before)
    }

    fn pop_due(&mut self, now_ms: i64, max: usize) -> Result<DelayedColumns> {
        self.close_run();
        let mut due = DelayedColumns::with_room(max.min(self.length))?;
        while due.len() < max
            && let Some(mut bucket) = self.buckets.first_entry()
            && *bucket.key() <= now_ms
        {
            let time = *bucket.key();
            let ledgers = bucket.get_mut();
            let mut emptied = 0;
            for held in ledgers.iter_mut() {
                if due.len() == max
                    || held.entries.drain(time, held.ledger, max - due.len(), &mut due)
                {
                    break;
                }
                emptied += 1;
            }
            ledgers.drain(..emptied);
            if ledgers.is_empty() {
                bucket.remove();
            }
        }
        self.length -= due.len();
        Ok(due)
    }

    fn contains(&mut self, message: DelayedMessage) -> bool {
        let bucket = self.bucket_of(message.deliver_at_ms);
        self.close_run();
        message.checked().is_ok()
            && self.buckets.get(&bucket).is_some_and(|ledgers| {
                find(ledgers, message.ledger_id)
                    .is_ok_and(|at| ledgers[at].entries.contains(message.entry_id as u64))
            })
    }

    fn remove(&mut self, message: DelayedMessage) -> bool {
        if !self.contains(message) {
            return false;
        }
        let bucket = self.bucket_of(message.deliver_at_ms);
        let ledgers = self.buckets.get_mut(&bucket).expect("contains");
        let at = find(ledgers, message.ledger_id).expect("contains");
        if !ledgers[at].entries.remove(message.entry_id as u64) {
            ledgers.remove(at);
            if ledgers.is_empty() {
                self.buckets.remove(&bucket);
            }
        }
        self.length -= 1;
        true
    }

    fn next_due(&mut self) -> Option<i64> {
        let open = self.open.map(|run| run.bucket);
        let held = self.buckets.first_key_value().map(|(&bucket, _)| bucket);
        match (open, held) {
            (Some(open), Some(held)) => Some(open.min(held)),
            (open, held) => open.or(held),
        }
    }

    fn len(&self) -> usize {
        self.length
    }

    fn clear(&mut self) {
        self.open = None;
        self.buckets = BTreeMap::new();
        self.length = 0;
    }

    /// Releases unused memory, and converts every set to run containers if these are smaller.
    fn shrink_to_fit(&mut self) {
        self.close_run();
        for ledgers in self.buckets.values_mut() {
            ledgers.iter_mut().for_each(|held| held.entries.shrink_to_fit());
            ledgers.shrink_to_fit();
        }
        // Rebuild the tree. Its nodes are full if it is built from sorted pairs, but not if it was drained or filled in
        // random order.
        self.buckets = std::mem::take(&mut self.buckets).into_iter().collect();
    }

    fn heap_bytes(&mut self) -> usize {
        self.close_run();
        let tree = crate::nbytes::btree_bytes::<i64, Vec<LedgerEntries>>(self.buckets.len());
        let sets = self.buckets.values().map(|ledgers| {
            ledgers.capacity() * size_of::<LedgerEntries>()
                + ledgers.iter().map(|held| held.entries.heap_bytes()).sum::<usize>()
        });
        tree + sets.sum::<usize>()
    }

    fn to_columns(&mut self) -> Result<DelayedColumns> {
        self.close_run();
        let mut columns = DelayedColumns::with_room(self.length)?;
        for (&bucket, ledgers) in &self.buckets {
            for held in ledgers {
                held.entries.for_each_range(|first, last| {
                    columns.push_run(bucket, held.ledger, first as i64, last as i64);
                });
            }
        }
        Ok(columns)
    }

    fn validate(&self) -> Validity {
        let mut length = self.open.map_or(0, |run| run.last - run.first + 1);
        for (bucket, ledgers) in &self.buckets {
            if self.bucket_of(*bucket) != *bucket {
                return Err(format!("{bucket} is no bucket of {} bits", self.bits));
            }
            if ledgers.is_empty() || !ledgers.is_sorted_by(|a, b| a.ledger < b.ledger) {
                return Err(format!("bucket {bucket}: ledgers are empty or not ascending"));
            }
            for held in ledgers {
                held.entries.validate().map_err(|fault| format!("bucket {bucket}: {fault}"))?;
                length += held.entries.len();
            }
        }
        if length != self.length as u64 {
            return Err(format!("length {} counts {length} messages", self.length));
        }
        Ok(())
    }
}
