//! One rung of the ladder: a range of times in buckets of equal width. The buckets are opened in order, the earliest
//! first.
//!
//! The initial messages of a rung are in one flat vector, the latest bucket first. So opening a bucket truncates the
//! vector, and memory is released while the rung is emptied. Messages that are added later to an unopened bucket are in
//! a separate vector for that bucket.

use super::SORT_MAX;
use super::packing::{Extent, Messages, Packing, sort_descending};
use crate::delayed::DelayedMessage;
use crate::error::Validity;

#[derive(Debug, Clone)]
pub(super) struct Rung {
    base: i64,
    /// The index of the bucket of a time is `min((time - base) >> shift, buckets - 1)`.
    shift: u32,
    /// The index of the next bucket to open. All earlier buckets were opened.
    next: usize,
    flat: Messages,
    /// `starts[b]` is the start of bucket `b` in `flat`. The bucket ends at `starts[b - 1]`, because later buckets are
    /// stored first.
    starts: Vec<u32>,
    late: Vec<Vec<DelayedMessage>>,
}

impl Rung {
    /// Creates a rung of `length` messages with buckets of about `aim` messages; `None` if all times are equal or there
    /// are more than 2^32 - 1 messages.
    pub(super) fn cut(
        messages: impl Iterator<Item = DelayedMessage> + Clone,
        length: usize,
        extent: &Extent,
        aim: usize,
    ) -> Option<Self> {
        let (least, greatest) = (extent.least.deliver_at_ms, extent.greatest.deliver_at_ms);
        // The indexes in `starts` have 32 bits, so more messages do not fit into a rung. The caller sorts them as a
        // whole.
        if least >= greatest || length > u32::MAX as usize {
            return None;
        }
        let span = greatest.wrapping_sub(least) as u64;
        let wanted = (length / aim).max(2) as u64;
        let shift = 64 - (span / wanted).leading_zeros();
        let buckets = (span >> shift) as usize + 1;
        let bucket_of = |message: &DelayedMessage| {
            (message.deliver_at_ms.wrapping_sub(least) as u64 >> shift) as usize
        };
        let mut ends = vec![0u32; buckets];
        messages.clone().for_each(|message| ends[bucket_of(&message)] += 1);
        let mut end = 0;
        for count in ends.iter_mut().rev() {
            end += *count;
            *count = end;
        }
        let mut place = |message: &DelayedMessage| {
            let place = &mut ends[bucket_of(message)];
            *place -= 1;
            *place as usize
        };
        let flat = match Packing::of(extent) {
            Some(packing) => {
                let mut keys = vec![0; length];
                messages.for_each(|message| keys[place(&message)] = packing.pack(&message));
                Messages::Packed(packing, keys)
            }
            None => {
                let mut plain = vec![DelayedMessage::new(0, 0, 0); length];
                messages.for_each(|message| plain[place(&message)] = message);
                Messages::Plain(plain)
            }
        };
        let late = vec![Vec::new(); buckets];
        Some(Self { base: least, shift, next: 0, flat, starts: ends, late })
    }

    /// Adds a message if this rung has an unopened bucket for it; returns whether it was added.
    #[inline]
    pub(super) fn push(&mut self, message: DelayedMessage) -> bool {
        if message.deliver_at_ms < self.base {
            return false;
        }
        let bucket = (message.deliver_at_ms.wrapping_sub(self.base) as u64 >> self.shift) as usize;
        let bucket = bucket.min(self.late.len() - 1);
        if bucket < self.next {
            return false;
        }
        let late = &mut self.late[bucket];
        if late.len() == late.capacity() {
            // Grow by a half. If thousands of buckets doubled, a quarter of the memory would be unused.
            late.reserve_exact((late.len() / 2).max(8));
        }
        late.push(message);
        true
    }

    /// Opens the next bucket that has messages, and moves them into the empty vector `bucket`. Up to `SORT_MAX`
    /// messages are sorted, with the earliest last; more messages are not sorted. Returns false if no bucket is left.
    pub(super) fn open(&mut self, bucket: &mut Vec<DelayedMessage>) -> bool {
        while self.next < self.late.len() {
            let start = self.starts[self.next] as usize;
            let late = std::mem::take(&mut self.late[self.next]);
            self.next += 1;
            let count = self.flat.len() - start + late.len();
            if count == 0 {
                continue;
            }
            if late.is_empty() && count <= SORT_MAX {
                self.flat.take_descending(start, bucket);
            } else {
                bucket.extend(self.flat.iter_from(start));
                bucket.extend_from_slice(&late);
                self.flat.truncate(start);
                if count <= SORT_MAX {
                    sort_descending(bucket);
                }
            }
            return true;
        }
        false
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = DelayedMessage> + '_ {
        self.flat.iter().chain(self.late.iter().flatten().copied())
    }

    pub(super) fn capacity(&self) -> usize {
        self.flat.capacity() + self.late.iter().map(Vec::capacity).sum::<usize>()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.flat.heap_bytes()
            + self.late.iter().map(Vec::capacity).sum::<usize>() * size_of::<DelayedMessage>()
            + self.starts.capacity() * size_of::<u32>()
            + self.late.capacity() * size_of::<Vec<DelayedMessage>>()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.flat.shrink_to_fit();
        self.late.iter_mut().for_each(Vec::shrink_to_fit);
    }

    pub(super) fn validate(&self) -> Validity {
        let bucket_of = |message: &DelayedMessage| {
            let bucket = message.deliver_at_ms.wrapping_sub(self.base) as u64 >> self.shift;
            (bucket as usize).min(self.late.len() - 1)
        };
        let mut end = self.flat.len();
        for bucket in self.next..self.late.len() {
            let start = self.starts[bucket] as usize;
            let held = self.flat.iter_from(start).take(end - start);
            for message in held.chain(self.late[bucket].iter().copied()) {
                if message.deliver_at_ms < self.base || bucket_of(&message) != bucket {
                    return Err(format!("bucket {bucket} holds {message:?}"));
                }
            }
            end = start;
        }
        if end > 0 || self.late[..self.next].iter().any(|late| !late.is_empty()) {
            return Err("an opened bucket holds messages".into());
        }
        Ok(())
    }
}
