//! The open slot: its messages sorted by tick and position, taken from the back.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::run::Stair;
use crate::delayed::{Delayed, DelayedColumns};

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
        stairs.sort_unstable_by_key(|stair| Reverse((stair.tick, stair.ledger, stair.first)));
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

    /// Moves up to `max` messages of the earliest tick into the columns, as due at `time`; how many.
    pub(super) fn drain(&mut self, time: i64, max: usize, due: &mut DelayedColumns) -> usize {
        let start = self.start;
        if let Some(&late) = self.late.first() {
            let earlier = self.stairs.last().is_none_or(|stair| {
                late < Delayed::new(start + stair.tick as i64, stair.ledger, stair.first)
            });
            if earlier {
                self.late.pop_first();
                due.push(Delayed { deliver_at_ms: time, ..late });
                return 1;
            }
        }
        let Some(stair) = self.stairs.last_mut() else { return 0 };
        let taken = (stair.last - stair.first + 1).min(i64::try_from(max).unwrap_or(i64::MAX));
        due.push_run(time, stair.ledger, stair.first, stair.first + (taken - 1));
        if stair.first + (taken - 1) == stair.last {
            self.stairs.pop();
        } else {
            stair.first += taken;
        }
        taken as usize
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
