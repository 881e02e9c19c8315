//! An exact index of delayed messages in time slots, each a compressed stream. It is small for regular and for
//! scattered times.
//!
//! Bitmaps by time bucket are small as long as many messages share a bucket. If times are scattered, each bitmap has
//! one message. The slots of a wheel are wide. A slot stores its messages in order of *position*, as a stream of pairs.
//! A pair is the gap from the previous entry, and the tick. The size of the stream is near the entropy of these
//! numbers. Regular traffic becomes a few runs. With random times, a message takes 2.7 to 4 bytes. With ticks of 1 ms,
//! delivery times are exact.
//!
//! ```text
//! open    the open slot,  its runs sorted by time             pops: from the end of a vector
//! slots   B-tree of first tick → slot of 2^bits ticks        adds: append to the slot's stream
//! slot    tail run · stream of bits · a few late and removed messages
//! ```
//!
//! A slot is opened when its first message is due. A slot with many messages is first split by time, so the open slot
//! is small even if slots are wide. Slots never overlap, and all other slots are after the open slot.

mod bits;
mod bytes;
mod open_slot;
mod run;
mod slot;
mod stream;

use std::collections::BTreeMap;

use crate::delayed::{DelayedColumns, DelayedIndex, DelayedMessage, check_positions};
use crate::error::{Error, InvalidArgument, Result, Validity, vec_with_room};
use crate::nbytes::btree_bytes;
use crate::radix;
use open_slot::OpenSlot;
use run::MessageRun;
use slot::Slot;

/// A new slot is about 2^`SLOT_MS_BITS` ms wide, which is 70 minutes. A week has 144 such slots, so their fixed memory
/// is negligible. If positions are random, a message takes the same memory in a wide slot as in a narrow one.
const SLOT_MS_BITS: u32 = 22;
/// A new slot is at least 2^`SLOT_BITS_MIN` ticks wide, so it spans several ticks even if a tick takes hours.
const SLOT_BITS_MIN: u32 = 6;
/// A slot with at most this number of messages is always opened without a split. Its runs take at most 224 KiB.
const OPEN_MAX: u64 = 4096;
/// A slot with scattered times is opened without a split if it has at most this number of messages, because a split
/// would write each message once more. The runs of the open slot then take at most 14 MiB.
const WHOLE_MAX: u64 = 1 << 18;
/// The times of a slot count as scattered if the slot takes at least this number of bytes per message.
const SCATTERED_BYTES: u64 = 2;
/// A slot of at most this many bytes and at most `WHOLE_MAX` messages is opened without a split if its runs do not
/// overlap in time.
const RUNS_BYTES_MAX: u64 = 1 << 14;
/// A slot that exceeds the limits above is split into 2^`SPLIT_BITS` parts before it is opened.
const SPLIT_BITS: u32 = 6;

/// The number of slot changes after which the remaining messages of a batch can be grouped by slot. A slot change is a
/// message in another slot than the previous message. The messages are grouped if more than one in eight messages so
/// far was a slot change. Without grouping, finding the slots would take longer than all other work.
const SWITCHES_MAX: usize = 256;
/// The maximum number of messages that are grouped at once. Their columns take 1.5 MiB, which fits into a second-level
/// cache.
const GROUPED_MAX: usize = 1 << 16;

/// The index of delayed messages in time slots. The module documentation describes its representation.
#[derive(Debug, Clone)]
pub struct TimeWheel {
    tick_ms: i64,
    /// A new slot is up to 2^`slot_bits` ticks wide.
    slot_bits: u32,
    open: OpenSlot,
    slots: BTreeMap<i64, Box<Slot>>,
    length: usize,
}

impl TimeWheel {
    /// Creates a wheel that rounds times up to multiples of `tick_ms`. With 1, times are exact.
    ///
    /// # Errors
    /// [`Error::Value`] for a tick below 1 ms.
    pub fn new(tick_ms: i64) -> Result<Self> {
        if tick_ms < 1 {
            return Err(Error::Value(InvalidArgument::Tick { tick_ms }));
        }
        let slot_bits = SLOT_MS_BITS.saturating_sub(tick_ms.ilog2()).max(SLOT_BITS_MIN);
        Ok(Self {
            tick_ms,
            slot_bits,
            open: OpenSlot::default(),
            slots: BTreeMap::new(),
            length: 0,
        })
    }

    /// Returns the width of a tick in milliseconds.
    #[must_use]
    pub fn tick_ms(&self) -> i64 {
        self.tick_ms
    }

    /// Returns the tick of a time, rounded up so that no message is early.
    #[inline]
    fn tick_of(&self, time_ms: i64) -> i64 {
        if self.tick_ms == 1 {
            return time_ms;
        }
        let (tick, rest) = (time_ms.div_euclid(self.tick_ms), time_ms.rem_euclid(self.tick_ms));
        tick + i64::from(rest > 0)
    }

    /// Returns the time of a tick in milliseconds, saturated to int64.
    #[inline]
    fn time_of(&self, tick: i64) -> i64 {
        tick.saturating_mul(self.tick_ms)
    }

    /// Returns the slot for a tick, and the first tick of that slot. If there is no slot for the tick, creates it. The
    /// open slot must not cover the tick.
    fn slot_at(&mut self, tick: i64) -> (i64, &mut Slot) {
        let before = self.slots.range(..=tick).next_back();
        let found = before.filter(|&(&start, slot)| within(tick, start, slot.bits));
        let start = match found {
            Some((&start, _)) => start,
            None => self.make_slot(tick),
        };
        (start, self.slots.get_mut(&start).expect("found or made"))
    }

    /// Creates the slot for a tick: the widest aligned slot, up to 2^`slot_bits` ticks, that overlaps no other slot.
    /// Returns the first tick of the slot.
    #[cold]
    fn make_slot(&mut self, tick: i64) -> i64 {
        let end_before =
            self.slots.range(..tick).next_back().map(|(&start, slot)| last(start, slot.bits));
        let start_after = self.slots.range(tick..).next().map(|(&start, _)| start);
        let (bits, start) = (0..=self.slot_bits)
            .rev()
            .map(|bits| (bits, tick & !low_bits(bits)))
            .find(|&(bits, start)| {
                !self.open.covers(start)
                    && end_before.is_none_or(|end| end < start)
                    && start_after.is_none_or(|after| after > last(start, bits))
            })
            .expect("a slot of one tick overlaps nothing");
        self.slots.insert(start, Box::new(Slot::new(bits)));
        start
    }

    fn add_checked(&mut self, message: DelayedMessage) -> bool {
        let tick = self.tick_of(message.deliver_at_ms);
        let new = if self.open.covers(tick) {
            self.open.add(DelayedMessage { deliver_at_ms: tick, ..message })
        } else {
            let (start, slot) = self.slot_at(tick);
            slot.add(message.ledger_id, message.entry_id, tick.wrapping_sub(start) as u64)
        };
        self.length += usize::from(new);
        new
    }

    /// Adds messages one by one; returns how many were processed. Stops early if consecutive messages belong to
    /// different slots too often: more than `switches_max` times, and more than once in eight messages.
    fn add_sequence(
        &mut self,
        messages: impl Iterator<Item = DelayedMessage>,
        switches_max: usize,
    ) -> usize {
        let mut messages = messages.peekable();
        let (tick_ms, slot_bits) = (self.tick_ms, self.slot_bits);
        // All times in `low + 1..=high` are rounded up to `tick`, so messages in order of time need no division.
        let (mut tick, mut low, mut high) = (0, i64::MAX, i64::MIN);
        let mut round_up = |time: i64| {
            if tick_ms == 1 {
                return time;
            }
            if time <= low || time > high {
                let (whole, rest) = (time.div_euclid(tick_ms), time.rem_euclid(tick_ms));
                tick = whole + i64::from(rest > 0);
                high = tick.saturating_mul(tick_ms);
                low = (tick - 1).saturating_mul(tick_ms);
            }
            tick
        };
        let (mut served, mut switches) = (0, 0);
        while let Some(&message) = messages.peek() {
            if switches > switches_max && switches > served / 8 {
                return served;
            }
            switches += 1;
            let tick = round_up(message.deliver_at_ms);
            if self.open.covers(tick) {
                self.add_checked(message);
                messages.next();
                served += 1;
                continue;
            }
            // Nearly every slot has the usual width and is found by an exact search.
            let aligned = tick & !low_bits(slot_bits);
            let (start, slot) = match self.slots.get_mut(&aligned) {
                Some(slot) if slot.bits == slot_bits => (aligned, &mut **slot),
                _ => self.slot_at(tick),
            };
            // The following messages are added to the same slot as long as they belong to it.
            let (bits, mut new) = (slot.bits, 0);
            while let Some(&message) = messages.peek() {
                let tick = round_up(message.deliver_at_ms);
                if !within(tick, start, bits) {
                    break;
                }
                let tick = tick.wrapping_sub(start) as u64;
                new += usize::from(slot.add(message.ledger_id, message.entry_id, tick));
                messages.next();
                served += 1;
            }
            self.length += new;
        }
        served
    }

    /// Opens the first slot. A large slot is first split until its first part is small.
    fn open_first(&mut self) {
        while let Some((start, slot)) = self.slots.pop_first() {
            let (bits, bytes) = (slot.bits, slot.heap_bytes() as u64);
            let whole = slot.len() <= WHOLE_MAX;
            let scattered = whole && slot.len() <= bytes / SCATTERED_BYTES;
            let is_small = slot.len() <= OPEN_MAX || scattered || bits == 0;
            if is_small || whole && bytes <= RUNS_BYTES_MAX {
                // A run takes more than a byte in the slot.
                let mut runs = Vec::with_capacity(slot.len().min(bytes) as usize);
                slot.for_each_run(|run| runs.push(run));
                let mut in_order = open_slot::sort_descending(&mut runs, bits);
                if !in_order && is_small {
                    runs = runs.iter().rev().flat_map(|run| run.split_by_tick()).collect();
                    in_order = open_slot::sort_descending(&mut runs, bits);
                }
                if in_order {
                    return self.open.open(start, bits, runs);
                }
            }
            for (place, part) in split(&slot).into_iter().enumerate() {
                if let Some(part) = part {
                    self.slots.insert(start + ((place as i64) << part.bits), part);
                }
            }
        }
    }

    /// Closes the open slot: moves its messages back into `slots`.
    fn close_front(&mut self) {
        let Some((start, bits)) = self.open.range else { return };
        let (runs, late) = std::mem::take(&mut self.open).into_parts();
        if !runs.is_empty() {
            let mut slot = Slot::new(bits);
            for run in runs {
                add_run(&mut slot, run);
            }
            self.slots.insert(start, Box::new(slot));
        }
        for message in late {
            let (start, slot) = self.slot_at(message.deliver_at_ms);
            let tick = message.deliver_at_ms.wrapping_sub(start) as u64;
            slot.add(message.ledger_id, message.entry_id, tick);
        }
    }
}

/// Returns the indexes of the times, grouped by slot. Slots are `slot_ms` wide and begin at multiples of `slot_ms`.
///
/// The indexes of one slot keep their order, so ascending positions are added in ascending order. A slot stores a
/// position out of order as a late message, which is slower. The rounding of a quotient can put a message into the
/// group of a neighbouring slot. Such a message can become a late message, too. This affects fewer than one in 2^20
/// messages.
fn group_by_slot(times: impl ExactSizeIterator<Item = i64> + Clone, slot_ms: i128) -> Vec<u64> {
    let least = times.clone().min().unwrap_or_default();
    let start = i128::from(least).div_euclid(slot_ms) * slot_ms;
    let before = (i128::from(least) - start) as f64;
    let slots_per_ms = 1.0 / slot_ms as f64;
    let slot_of =
        |time: i64| ((time.wrapping_sub(least) as u64 as f64 + before) * slots_per_ms) as u64;
    let greatest = times.clone().max().unwrap_or_default();
    let bits = u64::BITS - slot_of(greatest).leading_zeros();
    let excess = bits.saturating_sub(radix::KEY_BITS_MAX);
    radix::order(times.map(|time| slot_of(time) >> excess), bits - excess)
}

/// Returns a mask of the low `bits` ≤ 63 bits of a tick.
fn low_bits(bits: u32) -> i64 {
    (1u64 << bits).wrapping_sub(1) as i64
}

/// Returns the last tick of a slot.
fn last(start: i64, bits: u32) -> i64 {
    start | low_bits(bits)
}

#[inline]
fn within(tick: i64, start: i64, bits: u32) -> bool {
    (tick.wrapping_sub(start) as u64) >> bits == 0
}

/// Adds a run to a slot. A run of several messages must be after all runs of the slot.
fn add_run(slot: &mut Slot, run: MessageRun) {
    if (run.ledger, run.entry) > slot.last() {
        slot.add_run(run);
    } else {
        debug_assert_eq!(run.count, 1);
        slot.add(run.ledger, run.entry, run.tick);
    }
}

/// Splits a slot into parts of equal width, in order of time. A part without messages is `None`.
fn split(slot: &Slot) -> Vec<Option<Box<Slot>>> {
    let bits = slot.bits.saturating_sub(SPLIT_BITS);
    let mut parts: Vec<Option<Box<Slot>>> = vec![None; 1 << (slot.bits - bits)];
    slot.for_each_run(|run| {
        let mut rest = Some(run);
        while let Some(run) = rest {
            let place = run.tick >> bits;
            let (piece, after) = run.split_at_tick((place + 1) << bits);
            rest = after;
            let Some(piece) = piece else { continue };
            let part = parts[place as usize].get_or_insert_with(|| Box::new(Slot::new(bits)));
            add_run(part, MessageRun { tick: piece.tick - (place << bits), ..piece });
        }
    });
    parts
}

impl DelayedIndex for TimeWheel {
    const SORTS_BATCHES: bool = true;

    fn add(&mut self, message: DelayedMessage) -> Result<bool> {
        Ok(self.add_checked(message.checked()?))
    }

    fn add_many(
        &mut self,
        times_ms: &[i64],
        ledger_ids: &[i64],
        entry_ids: &[i64],
    ) -> Result<usize> {
        check_positions(ledger_ids, entry_ids)?;
        let before = self.length;
        let message = |at: usize| DelayedMessage::new(times_ms[at], ledger_ids[at], entry_ids[at]);
        let served = self.add_sequence((0..times_ms.len()).map(message), SWITCHES_MAX);
        for part in (served..times_ms.len()).step_by(GROUPED_MAX) {
            let times = &times_ms[part..times_ms.len().min(part + GROUPED_MAX)];
            // A tick covers the times after the previous tick, up to and including its own time.
            let latest = times.iter().map(|time| time.saturating_add(self.tick_ms - 1));
            let order = group_by_slot(latest, i128::from(self.tick_ms) << self.slot_bits);
            let messages = order.iter().map(|&at| message(part + at as usize));
            self.add_sequence(messages, usize::MAX);
        }
        Ok(self.length - before)
    }

    fn pop_due(&mut self, now_ms: i64, max: usize) -> Result<DelayedColumns> {
        let mut due = DelayedColumns::with_room(max.min(self.length))?;
        // The last tick that is due. At the greatest int64, a tick with a saturated time is due too.
        let due_tick = if now_ms == i64::MAX { now_ms } else { now_ms.div_euclid(self.tick_ms) };
        while due.len() < max {
            if !self.open.is_empty() {
                self.open.drain(due_tick, self.tick_ms, max, &mut due);
                if !self.open.is_empty() {
                    break;
                }
            }
            self.open.close_if_empty();
            let Some((&start, slot)) = self.slots.first_key_value() else { break };
            let bound = start.wrapping_add(slot.least_bound() as i64);
            if bound > due_tick || self.next_due().is_none_or(|time| time > now_ms) {
                break;
            }
            self.open_first();
        }
        self.open.close_if_empty();
        self.length -= due.len();
        Ok(due)
    }

    fn contains(&mut self, message: DelayedMessage) -> bool {
        let tick = self.tick_of(message.deliver_at_ms);
        if self.open.covers(tick) {
            return self.open.contains(&DelayedMessage { deliver_at_ms: tick, ..message });
        }
        let slot = self.slots.range(..=tick).next_back();
        slot.filter(|&(&start, slot)| within(tick, start, slot.bits)).is_some_and(
            |(&start, slot)| {
                slot.contains(message.ledger_id, message.entry_id, tick.wrapping_sub(start) as u64)
            },
        )
    }

    fn remove(&mut self, message: DelayedMessage) -> bool {
        let tick = self.tick_of(message.deliver_at_ms);
        let removed = if self.open.covers(tick) {
            let removed = self.open.remove(&DelayedMessage { deliver_at_ms: tick, ..message });
            self.open.close_if_empty();
            removed
        } else {
            let Some((&start, slot)) = self.slots.range_mut(..=tick).next_back() else {
                return false;
            };
            let removed = within(tick, start, slot.bits)
                && slot.remove(
                    message.ledger_id,
                    message.entry_id,
                    tick.wrapping_sub(start) as u64,
                );
            if removed && slot.len() == 0 {
                self.slots.remove(&start);
            }
            removed
        };
        self.length -= usize::from(removed);
        removed
    }

    fn next_due(&mut self) -> Option<i64> {
        let tick = match self.open.next() {
            Some(tick) => tick,
            None => {
                let (&start, slot) = self.slots.iter_mut().next()?;
                start.wrapping_add(slot.least() as i64)
            }
        };
        Some(self.time_of(tick))
    }

    fn len(&self) -> usize {
        self.length
    }

    fn clear(&mut self) {
        self.open = OpenSlot::default();
        self.slots = BTreeMap::new();
        self.length = 0;
    }

    fn shrink_to_fit(&mut self) {
        self.open.shrink_to_fit();
        self.slots.values_mut().for_each(|slot| slot.shrink_to_fit());
    }

    fn heap_bytes(&mut self) -> usize {
        btree_bytes::<i64, Box<Slot>>(self.slots.len())
            + self.slots.values().map(|slot| size_of::<Slot>() + slot.heap_bytes()).sum::<usize>()
            + self.open.heap_bytes()
    }

    fn to_columns(&mut self) -> Result<DelayedColumns> {
        let mut columns = DelayedColumns::with_room(self.length)?;
        let mut messages: Vec<DelayedMessage> = vec_with_room(self.length)?;
        messages.extend(self.open.messages());
        for (&start, slot) in &self.slots {
            let from = messages.len();
            slot.for_each_run(|run| {
                for step in run.split_by_tick() {
                    let (tick, ledger) = (start.wrapping_add(step.tick as i64), step.ledger);
                    let entries = step.entry..=step.last_entry();
                    messages.extend(entries.map(|entry| DelayedMessage::new(tick, ledger, entry)));
                }
            });
            messages[from..].sort_unstable();
        }
        let opened = self.open.messages().count();
        messages[..opened].sort_unstable();
        for message in messages {
            let deliver_at_ms = self.time_of(message.deliver_at_ms);
            columns.push(DelayedMessage { deliver_at_ms, ..message });
        }
        Ok(columns)
    }

    fn validate(&self) -> Validity {
        self.open.validate()?;
        let mut end = self.open.last_tick();
        let mut length = self.open.messages().count() as u64;
        for (&start, slot) in &self.slots {
            if start & low_bits(slot.bits) != 0 || end.is_some_and(|end| end >= start) {
                return Err(format!(
                    "slot at {start} of {} bits overlaps or is not aligned",
                    slot.bits
                ));
            }
            slot.validate().map_err(|fault| format!("slot at {start}: {fault}"))?;
            end = Some(last(start, slot.bits));
            length += slot.len();
        }
        if length != self.length as u64 {
            return Err(format!("length {} counts {length} messages", self.length));
        }
        Ok(())
    }
}
