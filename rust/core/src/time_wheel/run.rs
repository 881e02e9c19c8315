//! A run: consecutive entries of one ledger whose ticks increase in regular steps.
//!
//! A producer with a fixed delay causes such runs: `first` messages on the first tick, then `per` messages on every
//! `step`-th later tick. A single message is a run too.

/// A run of the entries `entry..entry + count` of `ledger`. Ticks count from the start of the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageRun {
    pub(super) ledger: i64,
    pub(super) entry: i64,
    pub(super) tick: u64,
    /// The number of messages on the first tick, ≥ 1.
    pub(super) first: u64,
    /// The number of messages on each later tick, ≥ 1; `u64::MAX` if it is unknown.
    pub(super) per: u64,
    /// The number of ticks from one tick with messages to the next; 0 if the run has only one tick.
    pub(super) step: u64,
    /// The number of all messages, ≥ 1.
    pub(super) count: u64,
}

impl MessageRun {
    pub(super) fn one(ledger: i64, entry: i64, tick: u64) -> Self {
        Self { ledger, entry, tick, first: 1, per: u64::MAX, step: 0, count: 1 }
    }

    #[inline]
    pub(super) fn last_entry(&self) -> i64 {
        self.entry + (self.count - 1) as i64
    }

    /// Returns the tick of the message with this index in the run.
    #[inline]
    pub(super) fn tick_of(&self, index: u64) -> u64 {
        match index.checked_sub(self.first) {
            None => self.tick,
            Some(after) => self.tick + self.step * (1 + after / self.per),
        }
    }

    #[inline]
    pub(super) fn last_tick(&self) -> u64 {
        self.tick_of(self.count - 1)
    }

    /// Returns the tick of an entry; `None` if the entry is not in the run.
    pub(super) fn tick_at(&self, entry: i64) -> Option<u64> {
        (self.entry..=self.last_entry())
            .contains(&entry)
            .then(|| self.tick_of((entry - self.entry) as u64))
    }

    /// Returns the number of messages whose tick is below `tick`.
    pub(super) fn count_before(&self, tick: u64) -> u64 {
        let Some(above) = tick.checked_sub(self.tick).filter(|&above| above > 0) else { return 0 };
        if self.step == 0 {
            return self.count;
        }
        // The number of ticks with messages after the first tick and before `tick`.
        let stairs = (above - 1) / self.step;
        self.first.saturating_add(stairs.saturating_mul(self.per)).min(self.count)
    }

    /// Removes the first `count` messages and returns them as a run; `None` for 0. `count` must be less than the number
    /// of messages.
    pub(super) fn cut_front(&mut self, count: u64) -> Option<Self> {
        if count == 0 {
            return None;
        }
        let mut front = *self;
        front.count = count;
        front.first = self.first.min(count);
        let tick = self.tick_of(count);
        // The number of messages on the first remaining tick.
        let first = match count.checked_sub(self.first) {
            None => self.first - count,
            Some(after) => self.per - after % self.per,
        };
        self.entry += count as i64;
        self.count -= count;
        self.tick = tick;
        self.first = first.min(self.count);
        self.reset_step();
        front.reset_step();
        Some(front)
    }

    /// Resets `per` and `step` if the run has only one tick.
    fn reset_step(&mut self) {
        if self.count <= self.first {
            (self.per, self.step) = (u64::MAX, 0);
        }
    }

    /// Splits the run into the messages before `tick` and the others. A part without messages is `None`.
    pub(super) fn split_at_tick(mut self, tick: u64) -> (Option<Self>, Option<Self>) {
        match self.count_before(tick) {
            count if count == self.count => (Some(self), None),
            count => {
                let front = self.cut_front(count);
                (front, Some(self))
            }
        }
    }

    /// Splits the run into one run for each tick, in order.
    pub(super) fn split_by_tick(self) -> impl Iterator<Item = Self> {
        let (mut left, mut entry, mut tick, mut size) =
            (self.count, self.entry, self.tick, self.first);
        std::iter::from_fn(move || {
            let count = size.min(left);
            let last = entry.checked_add(count.checked_sub(1)? as i64)?;
            let stair = Self { entry, tick, first: count, count, ..Self::one(self.ledger, 0, 0) };
            left -= count;
            (entry, tick, size) = (last.wrapping_add(1), tick + self.step, self.per);
            Some(stair)
        })
    }
}

/// A run that may still grow, with the counters that make growing O(1).
#[derive(Debug, Clone, Copy)]
pub(super) struct Tail {
    pub(super) run: MessageRun,
    last_tick: u64,
    /// The number of messages on the last tick so far.
    stair: u64,
}

impl Tail {
    pub(super) fn new(run: MessageRun) -> Self {
        let last_tick = run.last_tick();
        let stair = match (run.count - 1).checked_sub(run.first) {
            None => run.count,
            Some(after) => after % run.per + 1,
        };
        Self { run, last_tick, stair }
    }

    /// Adds the next entry if its tick continues the pattern of the run; returns whether it was added. The first change
    /// of the tick sets `step`, and the second change sets `per`.
    #[inline]
    pub(super) fn extend(&mut self, tick: u64) -> bool {
        let run = &mut self.run;
        if tick == self.last_tick {
            if run.step == 0 {
                run.first += 1;
            } else if self.stair == run.per {
                return false;
            }
            self.stair += 1;
        } else {
            if run.step == 0 {
                if tick < self.last_tick {
                    return false;
                }
                run.step = tick - self.last_tick;
            } else {
                if tick.wrapping_sub(self.last_tick) != run.step {
                    return false;
                }
                if run.per == u64::MAX {
                    run.per = self.stair;
                } else if self.stair != run.per {
                    return false;
                }
            }
            self.last_tick = tick;
            self.stair = 1;
        }
        run.count += 1;
        true
    }
}
