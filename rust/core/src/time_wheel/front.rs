//! The open slot: its messages sorted by tick and position, taken from the back.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::bits::low_mask;
use super::run::Stair;
use crate::delayed::{Delayed, DelayedColumns};
use crate::radix;

/// Ticks here are absolute, as [`Delayed::deliver_at_ms`] holds them; stairs never overlap.
#[derive(Debug, Clone, Default)]
pub(super) struct Front {
    /// All ticks up to this one belong here; `None` while nothing is open.
    pub(super) last_tick: Option<i64>,
    /// Descending by `(tick, ledger, first)`; the tick counts from `start`.
    stairs: Vec<Stair>,
    start: i64,
    /// What was added after the slot was opened.
    late: BTreeSet<Delayed>,
}

impl Front {
    /// Opens a slot: its stairs in any order.
    pub(super) fn open(&mut self, start: i64, last_tick: i64, mut stairs: Vec<Stair>) {
        debug_assert!(self.is_empty());
        let key = |stair: &Stair| Reverse((stair.tick, stair.ledger, stair.first));
        let bits = u64::BITS - (last_tick.wrapping_sub(start) as u64).leading_zeros();
        if bits <= radix::KEY_BITS_MAX {
            // Stairs come by position, the late ones after: sorted by tick from the back they are almost right.
            let keys = stairs.iter().rev().map(|stair| low_mask(bits) - stair.tick);
            let order = radix::order(keys, bits);
            let end = stairs.len() - 1;
            stairs = order.iter().map(|&index| stairs[end - index as usize]).collect();
            if !stairs.is_sorted_by_key(key) {
                // Only where something came out of order; the standard sort sees the runs that are there.
                stairs.sort_by_key(key);
            }
        } else {
            stairs.sort_unstable_by_key(key);
        }
        (self.start, self.last_tick, self.stairs) = (start, Some(last_tick), stairs);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stairs.is_empty() && self.late.is_empty()
    }

    /// Whether messages of this tick belong here.
    #[inline]
    pub(super) fn covers(&self, tick: i64) -> bool {
        self.last_tick.is_some_and(|last| tick <= last)
    }

    /// Forgets the range when nothing is left in it.
    pub(super) fn close_if_empty(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }

    fn stair_of(&self, message: &Delayed) -> Option<usize> {
        let tick = message.deliver_at_ms.wrapping_sub(self.start) as u64;
        if message.deliver_at_ms < self.start {
            return None;
        }
        let key = (tick, message.ledger_id, message.entry_id);
        let at = self.stairs.partition_point(|stair| (stair.tick, stair.ledger, stair.first) > key);
        let stair = self.stairs.get(at)?;
        let holds = (stair.tick, stair.ledger) == (tick, message.ledger_id);
        (holds && message.entry_id <= stair.last).then_some(at)
    }

    pub(super) fn contains(&self, message: &Delayed) -> bool {
        self.late.contains(message) || self.stair_of(message).is_some()
    }

    pub(super) fn add(&mut self, message: Delayed) -> bool {
        self.stair_of(&message).is_none() && self.late.insert(message)
    }

    pub(super) fn remove(&mut self, message: &Delayed) -> bool {
        if self.late.remove(message) {
            return true;
        }
        let Some(at) = self.stair_of(message) else { return false };
        let stair = self.stairs[at];
        let before = Stair { last: message.entry_id - 1, ..stair };
        let after = Stair { first: message.entry_id.saturating_add(1), ..stair };
        let parts = [after, before].into_iter().filter(|part| part.first <= part.last);
        // Entry i64::MAX has no successor: its saturated part would hold itself.
        let parts = parts.filter(|part| !(part.first..=part.last).contains(&message.entry_id));
        self.stairs.splice(at..=at, parts);
        true
    }

    /// The earliest tick.
    pub(super) fn next(&self) -> Option<i64> {
        let stair = self.stairs.last().map(|stair| self.start + stair.tick as i64);
        let late = self.late.first().map(|message| message.deliver_at_ms);
        match (stair, late) {
            (Some(stair), Some(late)) => Some(stair.min(late)),
            (stair, late) => stair.or(late),
        }
    }

    /// Moves up to `max` messages of ticks up to `due_tick` into the columns; `time_of` gives a tick's time.
    pub(super) fn drain(
        &mut self,
        due_tick: i64,
        time_of: impl Fn(i64) -> i64,
        max: usize,
        due: &mut DelayedColumns,
    ) {
        while due.len() < max {
            let late = self.late.first();
            let Some(stair) = self.stairs.last_mut() else {
                match late {
                    Some(late) if late.deliver_at_ms <= due_tick => self.take_late(&time_of, due),
                    _ => return,
                }
                continue;
            };
            let tick = self.start + stair.tick as i64;
            if late.is_some_and(|late| *late < Delayed::new(tick, stair.ledger, stair.first)) {
                if late.is_some_and(|late| late.deliver_at_ms > due_tick) {
                    return;
                }
                self.take_late(&time_of, due);
                continue;
            }
            if tick > due_tick {
                return;
            }
            let left = i64::try_from(max - due.len()).unwrap_or(i64::MAX);
            let last = stair.last.min(stair.first.saturating_add(left - 1));
            if last == stair.first {
                due.push(Delayed::new(time_of(tick), stair.ledger, last));
            } else {
                due.push_run(time_of(tick), stair.ledger, stair.first, last);
            }
            if last == stair.last {
                self.stairs.pop();
            } else {
                stair.first = last + 1;
            }
        }
    }

    fn take_late(&mut self, time_of: impl Fn(i64) -> i64, due: &mut DelayedColumns) {
        if let Some(late) = self.late.pop_first() {
            due.push(Delayed { deliver_at_ms: time_of(late.deliver_at_ms), ..late });
        }
    }

    /// Every message, ticks as times.
    pub(super) fn messages(&self) -> impl Iterator<Item = Delayed> + '_ {
        let stairs = self.stairs.iter().flat_map(|stair| {
            let tick = self.start + stair.tick as i64;
            (stair.first..=stair.last).map(move |entry| Delayed::new(tick, stair.ledger, entry))
        });
        stairs.chain(self.late.iter().copied())
    }

    pub(super) fn nbytes(&self) -> usize {
        // A set is a tree whose values take no room.
        self.stairs.capacity() * size_of::<Stair>()
            + crate::delayed::btree_nbytes::<Delayed, ()>(self.late.len())
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.stairs.shrink_to_fit();
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        let apart = |after: &Stair, before: &Stair| {
            (before.tick, before.ledger, before.last) < (after.tick, after.ledger, after.first)
        };
        if !self.stairs.is_sorted_by(apart) {
            return Err("stairs of the open slot are not descending".into());
        }
        if self.late.iter().any(|message| self.stair_of(message).is_some()) {
            return Err("a late message is in a stair, too".into());
        }
        match (self.last_tick, self.messages().map(|message| message.deliver_at_ms).max()) {
            (None, Some(_)) => Err("messages in front without an open slot".into()),
            (Some(last), Some(tick)) if tick > last => Err(format!("{tick} lies after {last}")),
            _ => Ok(()),
        }
    }
}
