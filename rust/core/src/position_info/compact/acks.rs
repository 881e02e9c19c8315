//! The acknowledged entries: a record for each ledger, then the entries of each ledger in the smallest of four kinds.
//!
//! A record is five numbers in five columns (see [`Record`]), so similar ledgers take almost no bytes. The records are
//! followed by the entries of each ledger. The entries of a ledger begin at a byte boundary and have one of four kinds:
//!
//! - `Runs`: for each run except the last, its length and the gap after it. Lengths and gaps are written alternately,
//!   but each of the two columns has its own code. The length of the last run follows from the span.
//! - `Holes`: for each hole, the number of acknowledged entries between the previous hole and this one.
//! - `Acks`: for each acknowledged entry except the first, the number of holes between the previous acknowledged entry
//!   and this one.
//! - `Bitmap`: a bit for each entry of the span.
//!
//! The reader adds each number to the result as soon as it is read. So hostile bytes cannot allocate more memory than
//! the result takes.

use super::bits::{BitReader, BitWriter};
use super::column::Code;
use crate::error::{Error, Result};
use crate::position_info::budget::Budget;
use crate::range_set::{PositionRange, PositionRangeSet, RANGES_TOGETHER};

/// The fixed memory of a decoded ledger, in bytes.
const LEDGER_BYTES: usize = 160;

/// The maximum memory of a decoded run, in bytes. Only runs that are far apart take this much.
const RUN_BYTES: u64 = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Runs,
    Holes,
    Acks,
    Bitmap,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Runs, Self::Holes, Self::Acks, Self::Bitmap];
}

/// The five numbers that describe a ledger. `count` depends on the kind. For `Runs` it is the number of runs minus 1,
/// for `Holes` the number of holes, for `Acks` the number of acknowledged entries minus 1, for `Bitmap` 0.
#[derive(Clone, Copy)]
struct Record {
    /// The ledger id minus the previous ledger id minus 1; for the first ledger, the id.
    gap: u64,
    kind: Kind,
    /// The first acknowledged entry.
    start: u64,
    /// The number of entries from the first to the last acknowledged entry, both included.
    span: u64,
    count: u64,
}

impl Record {
    const COLUMNS: usize = 5;

    fn numbers(self) -> [u64; Self::COLUMNS] {
        [self.gap, self.kind as u64, self.start, self.span, self.count]
    }
}

/// A run of acknowledged entries: its length, and the number of holes between the previous run and this one.
#[derive(Clone, Copy)]
struct HolesAndAcks {
    holes: u64,
    length: u64,
}

/// Returns the runs of a ledger. The holes before the first run count from entry 0.
fn runs_of(set: &PositionRangeSet, ledger_id: i64) -> Vec<HolesAndAcks> {
    let mut next = 0;
    let run = |range: PositionRange| {
        let first = range.lower_entry_exclusive + 1;
        let holes = first.abs_diff(next);
        next = range.upper_entry_inclusive.wrapping_add(1);
        HolesAndAcks { holes, length: range.upper_entry_inclusive.abs_diff(first) + 1 }
    };
    set.ranges_of(ledger_id).map(run).collect()
}

/// Returns the numbers that the kind `Holes` writes for these runs.
fn before_holes(runs: &[HolesAndAcks]) -> impl Iterator<Item = u64> + Clone + '_ {
    runs.windows(2)
        .flat_map(|pair| std::iter::once(pair[0].length).chain((1..pair[1].holes).map(|_| 0)))
}

/// Returns the numbers that the kind `Acks` writes for these runs.
fn before_acks(runs: &[HolesAndAcks]) -> impl Iterator<Item = u64> + Clone + '_ {
    runs.iter().enumerate().flat_map(|(index, run)| {
        let first = (index > 0).then_some(run.holes);
        first.into_iter().chain((1..run.length).map(|_| 0))
    })
}

/// The encoding of one ledger's entries.
enum Plan {
    /// The kind `Runs`, with the codes for the gaps and lengths of the runs after the first.
    Runs(Code, Code),
    Holes(Code),
    Acks(Code),
    Bitmap,
    /// The ledger has one run, which the record describes completely.
    Nothing,
}

/// Returns the record of a ledger and the plan with the fewest bits.
fn plan(gap: u64, runs: &[HolesAndAcks]) -> (Record, Plan) {
    let start = runs[0].holes;
    let acks = runs.iter().map(|run| run.length).fold(0u64, u64::saturating_add);
    let holes = runs[1..].iter().map(|run| run.holes).fold(0u64, u64::saturating_add);
    let span = acks.saturating_add(holes);
    let record = |kind, count| Record { gap, kind, start, span, count };
    if runs.len() == 1 {
        return (record(Kind::Runs, 0), Plan::Nothing);
    }
    let (gaps, gaps_cost) = Code::cheapest(runs[1..].iter().map(|run| run.holes));
    let (lengths, lengths_cost) =
        Code::cheapest(runs[..runs.len() - 1].iter().map(|run| run.length));
    let mut cost = gaps_cost.saturating_add(lengths_cost);
    let mut best = (record(Kind::Runs, runs.len() as u64 - 1), Plan::Runs(gaps, lengths));
    // A number takes at least one bit unless all numbers are equal. So a kind is tried only if it has fewer numbers
    // than the best kind so far has bits.
    if holes < cost {
        let (code, holes_cost) = Code::cheapest(before_holes(runs));
        if holes_cost < cost {
            cost = holes_cost;
            best = (record(Kind::Holes, holes), Plan::Holes(code));
        }
    }
    if acks - 1 < cost {
        let (code, acks_cost) = Code::cheapest(before_acks(runs));
        if acks_cost < cost {
            cost = acks_cost;
            best = (record(Kind::Acks, acks - 1), Plan::Acks(code));
        }
    }
    if span <= cost {
        best = (record(Kind::Bitmap, 0), Plan::Bitmap);
    }
    best
}

/// Writes a set that is not empty.
pub(super) fn put(bits: &mut BitWriter, set: &PositionRangeSet) {
    let mut details = BitWriter::default();
    let mut records = Vec::with_capacity(set.ledger_ids().len());
    let mut next_ledger = 0;
    for ledger_id in set.ledger_ids() {
        let runs = runs_of(set, ledger_id);
        let (record, plan) = plan(ledger_id.abs_diff(next_ledger), &runs);
        next_ledger = ledger_id.wrapping_add(1);
        records.push(record.numbers());
        details.align();
        put_details(&mut details, &plan, &runs);
    }
    bits.put_varint(records.len() as u64);
    let codes: [Code; Record::COLUMNS] = std::array::from_fn(|column| {
        Code::cheapest(records.iter().map(move |record| record[column])).0
    });
    codes.iter().for_each(|code| code.put_header(bits));
    for record in records {
        codes.iter().zip(record).for_each(|(code, number)| code.put(bits, number));
    }
    bits.put_bytes(&details.finish());
}

fn put_details(bits: &mut BitWriter, plan: &Plan, runs: &[HolesAndAcks]) {
    match plan {
        Plan::Nothing => {}
        Plan::Runs(gaps, lengths) => {
            gaps.put_header(bits);
            lengths.put_header(bits);
            for pair in runs.windows(2) {
                lengths.put(bits, pair[0].length);
                gaps.put(bits, pair[1].holes);
            }
        }
        Plan::Holes(code) => {
            code.put_header(bits);
            before_holes(runs).for_each(|number| code.put(bits, number));
        }
        Plan::Acks(code) => {
            code.put_header(bits);
            before_acks(runs).for_each(|number| code.put(bits, number));
        }
        Plan::Bitmap => {
            let mut put_all = |bit: u64, mut count: u64| {
                while count > 0 {
                    let width = count.min(64) as u32;
                    bits.put((bit * u64::MAX) >> (64 - width), width);
                    count -= u64::from(width);
                }
            };
            for (index, run) in runs.iter().enumerate() {
                if index > 0 {
                    put_all(0, run.holes);
                }
                put_all(1, run.length);
            }
        }
    }
}

/// Reads a set.
pub(super) fn take(bits: &mut BitReader<'_>, budget: &mut Budget) -> Result<PositionRangeSet> {
    let count = bits.take_varint()?;
    budget.spend(usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(LEDGER_BYTES))?;
    let mut codes = [None; Record::COLUMNS];
    for code in &mut codes {
        *code = Some(Code::take_header(bits)?);
    }
    let codes = codes.map(|code| code.expect("each was read"));
    let mut records = bits.clone();
    for _ in 0..count {
        take_record(&codes, bits)?;
    }
    bits.align()?;
    let mut set = PositionRangeSet::new();
    let mut next_ledger = Some(0);
    for _ in 0..count {
        let record = take_record(&codes, &mut records)?;
        let ledger_id = next_ledger
            .and_then(|next: i64| next.checked_add_unsigned(record.gap))
            .ok_or_else(|| records.refuse("a ledger id of more than 63 bits"))?;
        next_ledger = ledger_id.checked_add(1);
        let end = record.start.checked_add(record.span).filter(|end| *end <= 1 << 63);
        if record.span == 0 || end.is_none() {
            return Err(records.refuse("entry ids of more than 63 bits"));
        }
        // A bitmap takes a bit for each entry in the set. The other kinds take at most `RUN_BYTES` for each run, and at
        // most two bits for each entry.
        let runs = record.count.saturating_add(1).saturating_mul(RUN_BYTES);
        let most =
            if record.kind == Kind::Bitmap { record.span / 8 } else { runs.min(record.span / 4) };
        budget.spend(usize::try_from(most).unwrap_or(usize::MAX))?;
        bits.align()?;
        take_details(bits, ledger_id, record, &mut set)?;
    }
    Ok(set)
}

fn take_record(codes: &[Code; Record::COLUMNS], bits: &mut BitReader<'_>) -> Result<Record> {
    let mut numbers = [0; Record::COLUMNS];
    for (number, code) in numbers.iter_mut().zip(codes) {
        *number = code.take(bits)?;
    }
    let [gap, kind, start, span, count] = numbers;
    let kind = usize::try_from(kind).ok().and_then(|kind| Kind::ALL.get(kind).copied());
    let kind = kind.ok_or_else(|| bits.refuse("an unknown kind of ledger"))?;
    Ok(Record { gap, kind, start, span, count })
}

fn take_details(
    bits: &mut BitReader<'_>,
    ledger_id: i64,
    record: Record,
    set: &mut PositionRangeSet,
) -> Result<()> {
    let mut runs = RangeBuilder::new(set, ledger_id, record);
    match record.kind {
        Kind::Runs if record.count == 0 => runs.ack(record.span)?,
        Kind::Runs => {
            let gaps = Code::take_header(bits)?;
            let lengths = Code::take_header(bits)?;
            for _ in 0..record.count {
                let (length, gap) = (lengths.take(bits)?, gaps.take(bits)?);
                if length == 0 || gap == 0 {
                    return Err(bits.refuse("an empty run"));
                }
                runs.ack(length)?;
                runs.skip(gap)?;
            }
            runs.ack(runs.left())?;
        }
        Kind::Holes => {
            let code = Code::take_header(bits)?;
            for _ in 0..record.count {
                runs.ack(code.take(bits)?)?;
                runs.skip(1)?;
            }
            runs.ack(runs.left())?;
        }
        Kind::Acks => {
            let code = Code::take_header(bits)?;
            runs.ack(1)?;
            for _ in 0..record.count {
                runs.skip(code.take(bits)?)?;
                runs.ack(1)?;
            }
        }
        Kind::Bitmap => {
            let mut left = record.span;
            while left > 0 {
                let width = left.min(64) as u32;
                let mut word = bits.take(width)?;
                left -= u64::from(width);
                let mut unread = width;
                while unread > 0 {
                    let holes = word.trailing_zeros().min(unread);
                    runs.skip(u64::from(holes))?;
                    word = word.checked_shr(holes).unwrap_or(0);
                    unread -= holes;
                    let acks = word.trailing_ones().min(unread);
                    runs.ack(u64::from(acks))?;
                    word = word.checked_shr(acks).unwrap_or(0);
                    unread -= acks;
                }
            }
        }
    }
    runs.finish().map_err(|message| bits.refuse(message))
}

/// A builder of one ledger's ranges. The reader passes it the holes and the acknowledged entries in order.
struct RangeBuilder<'a> {
    set: &'a mut PositionRangeSet,
    ledger_id: i64,
    /// The id of the next entry to add. `end` is the id of the first entry after the span. Both are at most 2^63.
    next: u64,
    end: u64,
    /// The start of the run that is still growing.
    open: Option<u64>,
    bounds: Vec<(i64, i64)>,
}

impl<'a> RangeBuilder<'a> {
    fn new(set: &'a mut PositionRangeSet, ledger_id: i64, record: Record) -> Self {
        let end = record.start + record.span;
        Self { set, ledger_id, next: record.start, end, open: None, bounds: Vec::new() }
    }

    fn left(&self) -> u64 {
        self.end - self.next
    }

    #[inline]
    fn ack(&mut self, count: u64) -> Result<()> {
        if count > 0 {
            self.open.get_or_insert(self.next);
        }
        self.advance(count)
    }

    #[inline]
    fn skip(&mut self, count: u64) -> Result<()> {
        if count > 0
            && let Some(start) = self.open.take()
        {
            self.bounds.push((start as i64 - 1, (self.next - 1) as i64));
            if self.bounds.len() == RANGES_TOGETHER {
                self.flush()?;
            }
        }
        self.advance(count)
    }

    #[inline]
    fn advance(&mut self, count: u64) -> Result<()> {
        if count > self.left() {
            return Err(Error::corrupt(0, "entries behind the end of the ledger's span"));
        }
        self.next += count;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.set.add_ranges_of(self.ledger_id, &self.bounds)?;
        self.bounds.clear();
        Ok(())
    }

    /// Checks that the whole span was read and that its last entry is acknowledged.
    fn finish(mut self) -> std::result::Result<(), String> {
        if self.left() > 0 || self.open.is_none() {
            return Err("the ledger's span is not what its entries are".to_owned());
        }
        self.end = self.end.saturating_add(1);
        self.skip(1).and_then(|()| self.flush()).map_err(|error| error.to_string())
    }
}
