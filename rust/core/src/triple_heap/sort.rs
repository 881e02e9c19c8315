//! Sorting a bucket by 8-byte keys instead of 24-byte messages.
//!
//! A bucket's times differ by little and its messages are few, so `(time - least, index)` fits one u64.
//! Sorting those takes half the time of sorting the messages, and the gather stays in cache.

use crate::delayed::Delayed;

/// Sorts by all three columns, the earliest last.
pub(super) fn descending(messages: &mut Vec<Delayed>) {
    if messages.len() < 2 {
        return;
    }
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    for message in messages.iter() {
        least = least.min(message.deliver_at_ms);
        greatest = greatest.max(message.deliver_at_ms);
    }
    let index_bits = usize::BITS - (messages.len() - 1).leading_zeros();
    let span = greatest.wrapping_sub(least) as u64;
    if span == 0 || span.leading_zeros() < index_bits {
        messages.sort_unstable_by(|a, b| b.cmp(a));
        return;
    }
    let mut keys: Vec<u64> = messages
        .iter()
        .enumerate()
        .map(|(index, message)| {
            (greatest.wrapping_sub(message.deliver_at_ms) as u64) << index_bits | index as u64
        })
        .collect();
    keys.sort_unstable();
    let mask = (1u64 << index_bits) - 1;
    let sorted: Vec<_> = keys.iter().map(|key| messages[(key & mask) as usize]).collect();
    *messages = sorted;
    sort_equal_times(messages);
}

/// Puts messages of one time into the order of their positions; most groups have one message.
fn sort_equal_times(messages: &mut [Delayed]) {
    let mut start = 0;
    for end in 1..=messages.len() {
        if end == messages.len() || messages[end].deliver_at_ms != messages[start].deliver_at_ms {
            if end - start > 1 {
                messages[start..end].sort_unstable_by(|a, b| b.cmp(a));
            }
            start = end;
        }
    }
}
