//! An exact min-heap of messages `(deliver_at_ms, ledger_id, entry_id)`. Any three `i64` are valid. Equal triples are
//! separate messages.
//!
//! It returns messages in the order of a heap, but it is a *ladder queue*, which avoids heap operations. In a queue of
//! any size, a message is moved about twice. The parts of the queue, with the cost of an addition or a removal at the
//! right:
//!
//! ```text
//! top      unsorted messages, all later than the ladder                   add: a push
//! rungs    time ranges, divided into buckets. Each rung has the range     add: a push into a bucket
//!          of the bucket that was opened last in the rung outside it
//! bottom   the messages of the earliest bucket, sorted                    pop: from the end of a vector
//! heap     a small binary heap of messages that are added later           add, pop: a heap operation
//!          and are due before the end of that bucket
//! ```
//!
//! When `bottom` and `heap` are empty, the next bucket is opened. A small bucket is sorted; a larger bucket is split
//! into a new rung. So, in a queue of any size, a message is moved to a bucket once and sorted in cache once. If all
//! times of a large bucket are equal, it cannot be split and is sorted as a whole. So the queue is never slower than a
//! heap. Messages in `top` and in the rungs are packed into 8 bytes each (`packing.rs`) if their columns allow it.
//!
//! Invariants: every message of `bottom` and `heap` is before every message of the rungs. Every message of a rung is
//! before every message of the rungs outside it. The times of all these messages are at most `top_after`, and the times
//! of all messages of `top` are greater.

mod chunks;
mod hole_heap;
mod packing;
mod rung;

pub use hole_heap::HoleHeap;

use crate::delayed::{DelayedColumns, DelayedIndex, DelayedMessage};
use crate::error::{Result, Validity};
use chunks::Chunks;
use packing::{Extent, sort_descending};
use rung::Rung;

/// The maximum number of messages in a bucket that is sorted. A larger bucket is split. 1,024 messages of 24 bytes fit
/// into a first-level cache.
const SORT_MAX: usize = 1024;
/// The intended number of messages in a bucket of a new rung. It is below [`SORT_MAX`], so that evenly distributed
/// messages need no further split. For values from 32 to 512, the speed differs by at most 20 %.
const BUCKET_AIM: usize = 128;
/// The number of messages at which `heap` is converted to a rung. With more messages, the heap operations cost more
/// than moving the messages to buckets.
const HEAP_MAX: usize = 4096;

/// The exact heap of delayed messages. The module documentation describes its representation.
#[derive(Debug, Clone, Default)]
pub struct TripleLongHeap {
    /// The earliest messages in descending order, so that the next one is last.
    bottom: Vec<DelayedMessage>,
    heap: HoleHeap,
    /// The rungs, the outermost first.
    rungs: Vec<Rung>,
    top: Chunks,
    /// A message with a later time than this is added to `top`. `None` means that there is no ladder, and every message
    /// is added to `top`.
    top_after: Option<i64>,
    /// The number of messages in `heap` at which the next conversion to a rung is tried.
    heap_limit: usize,
    length: usize,
}

impl TripleLongHeap {
    /// Returns an empty heap. Nothing is allocated before the first message.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the earliest message.
    pub fn peek(&mut self) -> Option<DelayedMessage> {
        self.refill();
        match (self.bottom.last(), self.heap.peek()) {
            (Some(&a), Some(b)) => Some(a.min(b)),
            (a, b) => a.copied().or(b),
        }
    }

    /// Removes and returns the earliest message.
    pub fn pop(&mut self) -> Option<DelayedMessage> {
        self.refill();
        let message = match (self.bottom.last(), self.heap.peek()) {
            (Some(&a), Some(b)) if b < a => self.heap.pop(),
            (Some(_), _) => self.bottom.pop(),
            (None, _) => self.heap.pop(),
        }?;
        self.length -= 1;
        Some(message)
    }

    /// Returns the number of messages that fit into the allocated memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bottom.capacity()
            + self.heap.capacity()
            + self.top.capacity()
            + self.rungs.iter().map(Rung::capacity).sum::<usize>()
    }

    /// Adds one message.
    #[inline]
    pub fn push(&mut self, message: DelayedMessage) {
        self.length += 1;
        let time = message.deliver_at_ms;
        let Some(top_after) = self.top_after else {
            return self.top.push(message);
        };
        if time > top_after {
            return self.top.push(message);
        }
        for rung in &mut self.rungs {
            if rung.push(message) {
                return;
            }
        }
        self.heap.push(message);
        if self.heap.len() >= self.heap_limit.max(HEAP_MAX) {
            self.split_heap();
        }
    }

    /// Converts the messages of `heap` and `bottom` to a new innermost rung, if their times differ.
    #[cold]
    fn split_heap(&mut self) {
        self.heap_limit = self.heap.len() * 2;
        let mut messages = self.heap.take();
        messages.append(&mut self.bottom);
        match cut(&messages) {
            Some(rung) => {
                self.rungs.push(rung);
                self.heap_limit = 0;
            }
            None => self.heap = HoleHeap::from(messages),
        }
    }

    /// If `bottom` and `heap` are empty, opens the next bucket, so that `bottom` has the earliest messages. Does
    /// nothing if the heap is empty.
    #[inline]
    fn refill(&mut self) {
        if self.bottom.is_empty() && self.heap.is_empty() && self.length > 0 {
            self.open();
        }
    }

    #[cold]
    fn open(&mut self) {
        self.heap_limit = 0;
        let mut bucket = std::mem::take(&mut self.bottom);
        loop {
            if let Some(rung) = self.rungs.last_mut() {
                if !rung.open(&mut bucket) {
                    self.rungs.pop();
                    continue;
                }
                if bucket.len() > SORT_MAX {
                    if let Some(rung) = cut(&bucket) {
                        self.rungs.push(rung);
                        bucket.clear();
                        continue;
                    }
                    sort_descending(&mut bucket);
                }
            } else {
                // No rung is left, so the messages of `top` become the next ladder.
                let top = std::mem::take(&mut self.top);
                let extent = top.extent();
                self.top_after = (top.len() > 0).then_some(extent.greatest.deliver_at_ms);
                if top.len() > SORT_MAX
                    && let Some(rung) = Rung::cut(top.iter(), top.len(), &extent, BUCKET_AIM)
                {
                    self.rungs.push(rung);
                    continue;
                }
                bucket.extend(top.iter());
                sort_descending(&mut bucket);
            }
            self.bottom = bucket;
            return;
        }
    }

    fn parts(&self) -> impl Iterator<Item = DelayedMessage> + '_ {
        self.bottom
            .iter()
            .copied()
            .chain(self.heap.iter())
            .chain(self.rungs.iter().flat_map(Rung::iter))
            .chain(self.top.iter())
    }
}

/// Creates a rung of these messages; `None` if all times are equal.
fn cut(messages: &[DelayedMessage]) -> Option<Rung> {
    Rung::cut(messages.iter().copied(), messages.len(), &Extent::of(messages), BUCKET_AIM)
}

impl DelayedIndex for TripleLongHeap {
    const TAKES_ANY_IDS: bool = true;

    #[inline]
    fn add(&mut self, message: DelayedMessage) -> Result<bool> {
        self.push(message);
        Ok(true)
    }

    fn add_many(
        &mut self,
        times_ms: &[i64],
        ledger_ids: &[i64],
        entry_ids: &[i64],
    ) -> Result<usize> {
        for ((&time, &ledger), &entry) in times_ms.iter().zip(ledger_ids).zip(entry_ids) {
            self.push(DelayedMessage::new(time, ledger, entry));
        }
        Ok(times_ms.len())
    }

    fn pop_due(&mut self, now_ms: i64, max: usize) -> Result<DelayedColumns> {
        let mut due = DelayedColumns::with_room(max.min(self.length).min(SORT_MAX))?;
        while due.len() < max {
            self.refill();
            if !self.heap.is_empty() {
                match self.peek() {
                    Some(message) if message.deliver_at_ms <= now_ms => {
                        due.push(message);
                        self.pop();
                        continue;
                    }
                    _ => break,
                }
            }
            // Only `bottom` has messages. Its due messages are a suffix, which is taken in one step.
            let waiting = self.bottom.partition_point(|message| message.deliver_at_ms > now_ms);
            let taken = (self.bottom.len() - waiting).min(max - due.len());
            if taken == 0 {
                break;
            }
            let keep = self.bottom.len() - taken;
            self.bottom[keep..].iter().rev().for_each(|&message| due.push(message));
            self.bottom.truncate(keep);
            self.length -= taken;
        }
        Ok(due)
    }

    /// Returns whether the heap has the message. O(n), because the messages are not sorted for a search.
    fn contains(&mut self, message: DelayedMessage) -> bool {
        self.parts().any(|other| other == message)
    }

    /// Removes one copy of the message. O(n), because the ladder is rebuilt.
    fn remove(&mut self, message: DelayedMessage) -> bool {
        let mut found = false;
        let mut rest = Self::new();
        for other in self.parts() {
            if !found && other == message {
                found = true;
            } else {
                rest.push(other);
            }
        }
        if found {
            *self = rest;
        }
        found
    }

    fn next_due(&mut self) -> Option<i64> {
        self.peek().map(|message| message.deliver_at_ms)
    }

    fn len(&self) -> usize {
        self.length
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    fn shrink_to_fit(&mut self) {
        self.bottom.shrink_to_fit();
        self.heap.shrink_to_fit();
        self.top.shrink_to_fit();
        self.rungs.iter_mut().for_each(Rung::shrink_to_fit);
        self.rungs.shrink_to_fit();
    }

    fn heap_bytes(&mut self) -> usize {
        self.bottom.capacity() * size_of::<DelayedMessage>()
            + self.heap.heap_bytes()
            + self.top.heap_bytes()
            + self.rungs.iter().map(Rung::heap_bytes).sum::<usize>()
            + self.rungs.capacity() * size_of::<Rung>()
    }

    fn to_columns(&mut self) -> Result<DelayedColumns> {
        let mut messages: Vec<_> = self.parts().collect();
        sort_descending(&mut messages);
        Ok(messages.into_iter().rev().collect())
    }

    fn validate(&self) -> Validity {
        if self.parts().count() != self.length {
            return Err(format!("length {} counts {} messages", self.length, self.parts().count()));
        }
        if !self.bottom.is_sorted_by(|a, b| a >= b) {
            return Err("bottom is not descending".into());
        }
        self.heap.validate()?;
        let mut least = self.bottom.iter().copied().chain(self.heap.iter()).max();
        for rung in self.rungs.iter().rev() {
            rung.validate()?;
            let earliest = rung.iter().map(|message| message.deliver_at_ms).min();
            if let (Some(least), Some(earliest)) = (least, earliest)
                && least.deliver_at_ms > earliest
            {
                return Err(format!("a rung has {earliest}, before {}", least.deliver_at_ms));
            }
            least = least.max(rung.iter().max());
        }
        match (least, self.top_after) {
            (Some(least), Some(after)) if least.deliver_at_ms > after => {
                Err(format!("{} is after the ladder's end {after}", least.deliver_at_ms))
            }
            (Some(_), None) => Err("a ladder without an end".into()),
            (_, Some(after)) if self.top.iter().any(|message| message.deliver_at_ms <= after) => {
                Err(format!("top holds a message at or before {after}"))
            }
            _ => Ok(()),
        }
    }
}
