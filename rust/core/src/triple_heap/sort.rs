//! Sorting a bucket by its times first: they differ in few bits, so a radix sort orders them.

use crate::delayed::Delayed;
use crate::radix;

/// Sorts by all three columns, the earliest last.
pub(super) fn descending(messages: &mut Vec<Delayed>) {
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    for message in messages.iter() {
        least = least.min(message.deliver_at_ms);
        greatest = greatest.max(message.deliver_at_ms);
    }
    let bits = u64::BITS - (greatest.wrapping_sub(least) as u64).leading_zeros();
    let by_radix =
        messages.len() > 1 && bits <= radix::KEY_BITS_MAX && messages.len() <= u32::MAX as usize;
    if !by_radix {
        return messages.sort_unstable_by(|a, b| b.cmp(a));
    }
    let keys = messages.iter().map(|message| greatest.wrapping_sub(message.deliver_at_ms) as u64);
    let order = radix::order(keys, bits);
    *messages = order.iter().map(|&index| messages[index as usize]).collect();
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
