//! The open slot. Its runs are sorted by tick and position in descending order. Messages that are due are removed from
//! the back.
//!
//! Runs that do not overlap in time stay as they are, and their messages are removed as fast as memory can be written.
//! Runs that overlap are split into one run for each tick. So the runs are totally ordered, and one search finds the
//! only run that can have a given message.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::bits::low_mask;
use super::run::MessageRun;
use crate::delayed::{DelayedColumns, DelayedMessage};
use crate::error::Validity;
use crate::radix;

/// The open slot. The messages in `late` have absolute ticks, in the field [`DelayedMessage::deliver_at_ms`]. The ticks
/// of runs count from the start of `range`.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenSlot {
    /// The start and the bits of the open range of ticks, `start..start + 2^bits`. The open slot also takes messages
    /// with earlier ticks. `None` if no slot is open.
    pub(super) range: Option<(i64, u32)>,
    /// The runs in descending order: all messages of a run are before all messages of the previous run.
    runs: Vec<MessageRun>,
    /// Messages that were added after the slot was opened.
    late: BTreeSet<DelayedMessage>,
}

/// The key by which messages are ordered for delivery: tick, ledger and entry.
type DeliveryKey = (u64, i64, i64);

fn first_key(run: &MessageRun) -> DeliveryKey {
    (run.tick, run.ledger, run.entry)
}

fn last_key(run: &MessageRun) -> DeliveryKey {
    (run.last_tick(), run.ledger, run.last_entry())
}

/// Sorts runs by tick and position, in descending order. Returns true if no two runs overlap. All ticks must be below
/// `2^bits`.
pub(super) fn sort_descending(runs: &mut Vec<MessageRun>, bits: u32) -> bool {
    if bits <= radix::KEY_BITS_MAX && !runs.is_empty() {
        // The runs of the stream come first, in order of position, and then the late messages. Most of the result has
        // the reverse order, so sorting from the back moves little.
        let keys = runs.iter().rev().map(|run| low_mask(bits) - run.tick);
        let (order, end) = (radix::order(keys, bits), runs.len() - 1);
        *runs = order.iter().map(|&index| runs[end - index as usize]).collect();
    }
    if in_order(runs) {
        return true;
    }
    // Some runs are out of order or overlap. The standard sort is fast for input that is mostly sorted.
    runs.sort_by_key(|run| Reverse(first_key(run)));
    in_order(runs)
}

fn in_order(runs: &[MessageRun]) -> bool {
    runs.is_sorted_by(|after, before| last_key(before) < first_key(after))
}

impl OpenSlot {
    /// Opens a slot with runs that [`sort_descending`] has sorted.
    pub(super) fn open(&mut self, start: i64, bits: u32, runs: Vec<MessageRun>) {
        debug_assert!(self.is_empty() && in_order(&runs));
        (self.range, self.runs) = (Some((start, bits)), runs);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.late.is_empty()
    }

    /// Returns the last tick of the open range.
    pub(super) fn last_tick(&self) -> Option<i64> {
        self.range.map(|(start, bits)| super::last(start, bits))
    }

    /// Returns whether messages of this tick belong to the open slot.
    #[inline]
    pub(super) fn covers(&self, tick: i64) -> bool {
        self.last_tick().is_some_and(|last| tick <= last)
    }

    /// Closes the slot if it has no messages.
    pub(super) fn close_if_empty(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Returns the runs in order of position, and the late messages. If two runs begin at the same position, the longer
    /// run comes first.
    pub(super) fn into_parts(mut self) -> (Vec<MessageRun>, BTreeSet<DelayedMessage>) {
        self.runs.sort_unstable_by_key(|run| (run.ledger, run.entry, Reverse(run.count)));
        (self.runs, self.late)
    }

    fn start(&self) -> i64 {
        self.range.map_or(0, |(start, _)| start)
    }

    fn run_of(&self, message: &DelayedMessage) -> Option<usize> {
        if message.deliver_at_ms < self.start() {
            return None;
        }
        let tick = message.deliver_at_ms.wrapping_sub(self.start()) as u64;
        let key = (tick, message.ledger_id, message.entry_id);
        let at = self.runs.partition_point(|run| first_key(run) > key);
        let run = self.runs.get(at)?;
        let holds = run.ledger == message.ledger_id && run.tick_at(message.entry_id) == Some(tick);
        holds.then_some(at)
    }

    pub(super) fn contains(&self, message: &DelayedMessage) -> bool {
        self.late.contains(message) || self.run_of(message).is_some()
    }

    pub(super) fn add(&mut self, message: DelayedMessage) -> bool {
        self.run_of(&message).is_none() && self.late.insert(message)
    }

    pub(super) fn remove(&mut self, message: &DelayedMessage) -> bool {
        if self.late.remove(message) {
            return true;
        }
        let Some(at) = self.run_of(message) else { return false };
        let mut run = self.runs[at];
        let before = run.cut_front((message.entry_id - run.entry) as u64);
        let after = (run.count > 1).then(|| {
            run.cut_front(1);
            run
        });
        self.runs.splice(at..=at, [after, before].into_iter().flatten());
        true
    }

    /// Returns the earliest tick; `None` if there are no messages.
    pub(super) fn next(&self) -> Option<i64> {
        let run = self.runs.last().map(|run| self.start() + run.tick as i64);
        let late = self.late.first().map(|message| message.deliver_at_ms);
        match (run, late) {
            (Some(run), Some(late)) => Some(run.min(late)),
            (run, late) => run.or(late),
        }
    }

    /// Moves messages with ticks up to `due_tick` into the columns, until the columns have `max` messages. Ticks are
    /// converted to times.
    pub(super) fn drain(
        &mut self,
        due_tick: i64,
        tick_ms: i64,
        max: usize,
        due: &mut DelayedColumns,
    ) {
        let start = self.start();
        while due.len() < max {
            let late = self.late.first();
            let head = self.runs.last_mut();
            if let Some(late) = late
                && head.as_ref().is_none_or(|run| *late < first_of(run, start))
            {
                if late.deliver_at_ms > due_tick {
                    return;
                }
                let time = late.deliver_at_ms.saturating_mul(tick_ms);
                due.push(DelayedMessage { deliver_at_ms: time, ..*late });
                self.late.pop_first();
                continue;
            }
            let Some(run) = head else { return };
            let tick = start + run.tick as i64;
            if tick > due_tick {
                return;
            }
            let mut count = run.count.min((max - due.len()) as u64);
            if run.step > 0 {
                let due_up_to = due_tick.wrapping_sub(start) as u64;
                count = count.min(run.count_before(due_up_to.saturating_add(1)));
            }
            if let Some(late) = late {
                count = count.min(count_up_to(run, start, late));
            }
            push_front(due, run, count, tick, tick_ms);
            if count == run.count {
                self.runs.pop();
            } else {
                run.cut_front(count);
            }
        }
    }

    /// Returns every message, in any order. The field `deliver_at_ms` has the tick, not the time.
    pub(super) fn messages(&self) -> impl Iterator<Item = DelayedMessage> + '_ {
        let runs = self.runs.iter().flat_map(|run| run.split_by_tick()).flat_map(|part| {
            let tick = self.start() + part.tick as i64;
            (part.entry..=part.last_entry())
                .map(move |entry| DelayedMessage::new(tick, part.ledger, entry))
        });
        runs.chain(self.late.iter().copied())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        // A set takes the memory of a tree whose values have the size 0.
        self.runs.capacity() * size_of::<MessageRun>()
            + crate::nbytes::btree_bytes::<DelayedMessage, ()>(self.late.len())
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.runs.shrink_to_fit();
    }

    pub(super) fn validate(&self) -> Validity {
        if !in_order(&self.runs) {
            return Err("runs of the open slot are not descending".into());
        }
        if self.late.iter().any(|message| self.run_of(message).is_some()) {
            return Err("a late message is in a run, too".into());
        }
        match (self.last_tick(), self.messages().map(|message| message.deliver_at_ms).max()) {
            (None, Some(_)) => Err("messages without an open slot".into()),
            (Some(last), Some(tick)) if tick > last => Err(format!("{tick} is after {last}")),
            _ => Ok(()),
        }
    }
}

fn first_of(run: &MessageRun, start: i64) -> DelayedMessage {
    DelayedMessage::new(start + run.tick as i64, run.ledger, run.entry)
}

/// Returns how many messages at the start of a run are delivered before a late message. If the tick of the late message
/// is not the first tick of the run, only messages with a lower tick are counted. The late message must be after the
/// first message of the run.
fn count_up_to(run: &MessageRun, start: i64, late: &DelayedMessage) -> u64 {
    let tick = late.deliver_at_ms.wrapping_sub(start) as u64;
    match run.count_before(tick) {
        // The late message is on the first tick of the run. The run may reach the next tick before the entry of the
        // late message.
        0 if late.ledger_id == run.ledger => {
            run.count_before(tick + 1).min((late.entry_id - run.entry) as u64)
        }
        0 => run.count_before(tick + 1),
        count => count,
    }
}

/// Appends the first `count` messages of a run to the columns. `tick` is the absolute first tick of the run.
#[inline]
fn push_front(due: &mut DelayedColumns, run: &MessageRun, count: u64, mut tick: i64, tick_ms: i64) {
    let time = tick.saturating_mul(tick_ms);
    if count == 1 {
        return due.push(DelayedMessage::new(time, run.ledger, run.entry));
    }
    due.push_run(time, run.ledger, run.entry, run.entry + (count - 1) as i64);
    let Some(climbing) = count.checked_sub(run.first) else { return };
    let after = due.len() - climbing as usize;
    let times = &mut due.deliver_at_ms[after..];
    let step = run.step as i64;
    if run.per == 1 && tick_ms == 1 {
        for time in times {
            tick += step;
            *time = tick;
        }
    } else {
        for stair in times.chunks_mut(run.per.try_into().unwrap_or(usize::MAX)) {
            tick += step;
            stair.fill(tick.saturating_mul(tick_ms));
        }
    }
}
