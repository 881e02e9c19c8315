//! The encoding of runs in order of position as a stream of bits. Its size is near the entropy of the content.
//!
//! ```text
//! record   of a message   gap, tick
//!          of a run       escape 2, gap, tick, count - 1, first, per, step
//! gap      if it is near the mean             Rice(entry - previous entry - 1)
//!          if it is far above the mean        escape 0, the same number after its length
//!          in another ledger                  escape 1, ledger - previous ledger, entry
//! tick     if Rice is shorter on average      Rice(zigzag(tick - previous tick)),
//!                                             or `ESCAPE` ones and the bits of a far tick
//!          otherwise                          the bits of the tick
//! ```
//!
//! The reader and the writer compute the parameter of a Rice code from the mean of about the last thirty values. So the
//! stream has no parameters and no header. An escape is [`ESCAPE`] ones, and two bits for its kind. After every
//! [`MARK_EVERY`] records, the state is stored in memory as a mark. So a look-up decodes at most that number of
//! records.

use super::bits::{BitReader, Bits, low_mask};
use super::run::MessageRun;
use crate::varint::{unzigzag, zigzag};

/// The number of ones that begin an escape. A Rice code has fewer ones, unless its value is far above the mean. This is
/// the case for about one gap in several thousand.
const ESCAPE: u32 = 12;
const MARK_EVERY: u32 = 1024;
/// The largest value in a mean. A larger value counts as this value, so that every code fits into 64 bits.
const VALUE_MAX: u64 = 1 << 40;
/// The approximate number of bits by which the record of a run is longer than the record of a message.
const RUN_BITS: u64 = 64;

const FAR: u64 = 0;
const LEDGER: u64 = 1;
const RUN: u64 = 2;

/// The state of the reader and the writer after a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    ledger: i64,
    entry: i64,
    tick: u64,
    /// 32 × the mean gap. The field `ticks` is 32 × the mean difference of ticks.
    gaps: u64,
    ticks: u64,
}

impl State {
    const START: Self = Self { ledger: -1, entry: -1, tick: 0, gaps: 0, ticks: 0 };

    #[inline]
    fn gap_bits(&self) -> u32 {
        rice_bits(self.gaps)
    }

    /// Returns the Rice parameter for the next tick; `None` if a plain tick of `bits` bits is shorter.
    #[inline]
    fn tick_bits(&self, bits: u32) -> Option<u32> {
        Some(rice_bits(self.ticks)).filter(|k| k + 2 < bits)
    }

    #[inline]
    fn saw_gap(&mut self, gap: u64) {
        self.gaps = self.gaps - self.gaps / 32 + gap.min(VALUE_MAX);
    }

    #[inline]
    fn saw_tick(&mut self, tick: u64) {
        let difference = zigzag(tick as i64 - self.tick as i64);
        self.ticks = self.ticks - self.ticks / 32 + difference.min(VALUE_MAX);
        self.tick = tick;
    }
}

/// Returns the best Rice parameter for geometrically distributed values: log2(0.69 × their mean). `mean` is 32 × the
/// mean.
#[inline]
fn rice_bits(mean: u64) -> u32 {
    (mean * 11 / 512).checked_ilog2().unwrap_or(0)
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    bit: u64,
    state: State,
}

/// The encoded runs of a slot of `2^bits` ticks.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    bits: Bits,
    state: State,
    /// The number of records since the last mark.
    unmarked: u32,
    marks: Vec<Mark>,
}

impl Stream {
    pub(super) fn new() -> Self {
        Self { bits: Bits::default(), state: State::START, unmarked: 0, marks: Vec::new() }
    }

    /// Returns the last encoded position.
    pub(super) fn last(&self) -> (i64, i64) {
        (self.state.ledger, self.state.entry)
    }

    /// Appends a run, which must be after [`Stream::last`].
    pub(super) fn push(&mut self, run: MessageRun, slot_bits: u32) {
        let tick_bits = self.state.tick_bits(slot_bits).map_or(slot_bits, |k| k + 1);
        let each = u64::from(1 + self.state.gap_bits() + tick_bits);
        if run.count == 1 {
            self.record(&run, slot_bits);
        } else if (run.count - 1).saturating_mul(each) > RUN_BITS {
            self.escape(RUN);
            self.record(&run, slot_bits);
            self.number(run.count - 1);
            self.number(run.first);
            // A run with only one tick has no `per` yet. The reader then ignores the number.
            self.number(if run.step == 0 { 1 } else { run.per.min(run.count) });
            self.number(run.step);
            self.state.entry = run.last_entry();
            self.state.tick = run.last_tick();
        } else {
            for index in 0..run.count {
                let one = MessageRun::one(run.ledger, run.entry + index as i64, run.tick_of(index));
                self.record(&one, slot_bits);
            }
        }
        if self.unmarked >= MARK_EVERY {
            self.unmarked = 0;
            if self.marks.len() == self.marks.capacity() {
                self.marks.reserve_exact(self.marks.len() / 8 + 1);
            }
            self.marks.push(Mark { bit: self.bits.len(), state: self.state });
        }
    }

    /// Writes the gap and the tick of the first message of `run`.
    #[inline]
    fn record(&mut self, run: &MessageRun, slot_bits: u32) {
        self.unmarked += 1;
        if run.ledger == self.state.ledger {
            let gap = (run.entry - self.state.entry) as u64 - 1;
            let k = self.state.gap_bits();
            let high = gap >> k;
            if high < u64::from(ESCAPE) {
                let high = high as u32;
                self.bits.put(low_mask(high) | (gap & low_mask(k)) << (high + 1), high + 1 + k);
            } else {
                self.escape(FAR);
                self.number(gap);
            }
            self.state.saw_gap(gap);
        } else {
            self.escape(LEDGER);
            self.number(run.ledger.wrapping_sub(self.state.ledger) as u64);
            self.number(run.entry as u64);
            self.state.ledger = run.ledger;
        }
        self.state.entry = run.entry;
        match self.state.tick_bits(slot_bits) {
            None => self.bits.put(run.tick, slot_bits),
            Some(k) => {
                let difference = zigzag(run.tick as i64 - self.state.tick as i64);
                let high = difference >> k;
                if high < u64::from(ESCAPE) {
                    let high = high as u32;
                    let low = difference & low_mask(k);
                    self.bits.put(low_mask(high) | low << (high + 1), high + 1 + k);
                } else {
                    self.bits.put(low_mask(ESCAPE), ESCAPE);
                    self.bits.put(run.tick, slot_bits);
                }
            }
        }
        self.state.saw_tick(run.tick);
    }

    fn escape(&mut self, kind: u64) {
        self.bits.put(low_mask(ESCAPE) | kind << ESCAPE, ESCAPE + 2);
    }

    /// Writes the length of a number, and then the number. The length is the bit count of the number minus 1, in six
    /// bits.
    fn number(&mut self, number: u64) {
        let length = number.checked_ilog2().unwrap_or(0);
        self.bits.put(u64::from(length), 6);
        self.bits.put(number, length + 1);
    }

    /// Returns the runs in order of position.
    pub(super) fn runs(&self, slot_bits: u32) -> MessageRuns<'_> {
        MessageRuns {
            input: BitReader::new(&self.bits, 0),
            state: State::START,
            slot_bits,
            broken: false,
        }
    }

    /// Returns the runs that can contain a position: the runs after the last mark before the position.
    pub(super) fn runs_from(&self, ledger: i64, entry: i64, slot_bits: u32) -> MessageRuns<'_> {
        let after =
            self.marks.partition_point(|m| (m.state.ledger, m.state.entry) < (ledger, entry));
        let (bit, state) = match after.checked_sub(1) {
            Some(at) => (self.marks[at].bit, self.marks[at].state),
            None => (0, State::START),
        };
        MessageRuns { input: BitReader::new(&self.bits, bit), state, slot_bits, broken: false }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bits.heap_bytes() + self.marks.capacity() * size_of::<Mark>()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.bits.shrink_to_fit();
        self.marks.shrink_to_fit();
    }

    pub(super) fn bits(&self) -> &Bits {
        &self.bits
    }

    /// Creates a stream from saved bits. Decodes the bits to check them and to rebuild the fields that are not saved,
    /// and calls `visit` with each run. Returns `None` if the bits are not a valid stream.
    pub(super) fn restore(
        bits: Bits,
        slot_bits: u32,
        mut visit: impl FnMut(&MessageRun),
    ) -> Option<Self> {
        let mut stream = Self::new();
        let input = BitReader::new(&bits, 0);
        let mut runs = MessageRuns { input, state: State::START, slot_bits, broken: false };
        while let Some(run) = runs.next() {
            visit(&run);
            stream.unmarked += 1;
            if stream.unmarked == MARK_EVERY {
                stream.unmarked = 0;
                stream.marks.push(Mark { bit: runs.input.at(), state: runs.state });
            }
        }
        let (state, broken) = (runs.state, runs.broken);
        (stream.state, stream.bits) = (state, bits);
        (!broken).then_some(stream)
    }
}

/// An iterator that decodes runs. On invalid bits it stops and sets `broken`.
pub(super) struct MessageRuns<'a> {
    input: BitReader<'a>,
    state: State,
    slot_bits: u32,
    broken: bool,
}

impl MessageRuns<'_> {
    fn number(&mut self) -> u64 {
        let length = self.input.take(6) as u32;
        self.input.take(length + 1)
    }

    /// Reads an escape and returns its kind; `None` if the next code is not an escape.
    #[inline]
    fn escape(&mut self) -> Option<u64> {
        let next = self.input.peek();
        (next.trailing_ones() >= ESCAPE).then(|| {
            self.input.skip(ESCAPE + 2);
            next >> ESCAPE & 3
        })
    }

    /// Reads a Rice code that is not an escape.
    #[inline]
    fn rice(&mut self, k: u32) -> u64 {
        let next = self.input.peek();
        let high = next.trailing_ones();
        self.input.skip(high + 1 + k);
        u64::from(high) << k | next >> (high + 1) & low_mask(k)
    }

    fn record(&mut self) -> Option<MessageRun> {
        let mut escape = self.escape();
        let is_run = escape == Some(RUN);
        if is_run {
            escape = self.escape();
        }
        match escape {
            None | Some(FAR) => {
                let gap = match escape {
                    None => self.rice(self.state.gap_bits()),
                    Some(_) => self.number(),
                };
                let gap_and_one = i64::try_from(gap).ok()?.checked_add(1)?;
                self.state.entry = self.state.entry.checked_add(gap_and_one)?;
                if self.state.ledger < 0 {
                    return None;
                }
                self.state.saw_gap(gap);
            }
            Some(LEDGER) => {
                // The first step counts from ledger -1, so a step can be 2^63.
                let step = self.number();
                let ledger = (self.state.ledger as u64).wrapping_add(step);
                if step == 0 || step > 1 << 63 {
                    return None;
                }
                self.state.ledger = i64::try_from(ledger).ok()?;
                self.state.entry = i64::try_from(self.number()).ok()?;
            }
            Some(_) => return None,
        }
        let tick = match self.state.tick_bits(self.slot_bits) {
            None => self.input.take(self.slot_bits),
            Some(_) if self.input.peek().trailing_ones() >= ESCAPE => {
                self.input.skip(ESCAPE);
                self.input.take(self.slot_bits)
            }
            Some(k) => {
                let tick = self.state.tick as i64 + unzigzag(self.rice(k));
                u64::try_from(tick).ok().filter(|&tick| tick <= low_mask(self.slot_bits))?
            }
        };
        self.state.saw_tick(tick);
        let mut run = MessageRun::one(self.state.ledger, self.state.entry, tick);
        if is_run {
            run.count = self.number().checked_add(1)?;
            (run.first, run.per, run.step) = (self.number(), self.number(), self.number());
            self.finish(&run)?;
            if run.step == 0 {
                run.per = u64::MAX;
            }
        }
        Some(run)
    }

    /// Completes the state after a run. Returns `None` if an entry or a tick of the run is out of range.
    fn finish(&mut self, run: &MessageRun) -> Option<()> {
        let after = i64::try_from(run.count - 1).ok()?;
        self.state.entry = run.entry.checked_add(after)?;
        if run.first == 0 || run.per == 0 || run.first > run.count {
            return None;
        }
        if run.count > run.first {
            let stairs = (run.count - 1 - run.first) / run.per + 1;
            let climb = stairs.checked_mul(run.step).filter(|_| run.step > 0)?;
            run.tick.checked_add(climb).filter(|&tick| tick <= low_mask(self.slot_bits))?;
        } else if run.step != 0 {
            return None;
        }
        self.state.tick = run.last_tick();
        Some(())
    }
}

impl Iterator for MessageRuns<'_> {
    type Item = MessageRun;

    #[inline]
    fn next(&mut self) -> Option<MessageRun> {
        if self.input.done() || self.broken {
            return None;
        }
        let run = self.record();
        self.broken = run.is_none() || self.input.overrun();
        run.filter(|_| !self.broken)
    }
}
