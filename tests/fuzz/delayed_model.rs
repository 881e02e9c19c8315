//! An index of delayed messages under the fuzzer's operations, compared with a sorted multiset.
//!
//! Ten bytes an operation: kind, time, scale, ledger, entry, length; small numbers, so that they repeat.

use std::collections::BTreeMap;

use ackwell_core::{DelayedMessage, DelayedIndex};

/// The most messages that the runs of one input add. Without a bound, a few inputs take most of the time.
const RUNS_MAX: i64 = 512;
/// The limit of one input in sixteen, by its length: enough for every way in which an index grows.
const LONG_RUNS_MAX: i64 = 16_384;

/// Runs `operations`; `rounded` is the time at which the index delivers.
pub fn agrees<I: DelayedIndex>(
    mut index: I,
    operations: &[u8],
    counts_duplicates: bool,
    rounded: impl Fn(i64) -> i64,
    save_and_restore: impl Fn(I) -> I,
) {
    let mut model: BTreeMap<DelayedMessage, usize> = BTreeMap::new();
    let (mut held, mut left) =
        (0, if operations.len() % 16 == 0 { LONG_RUNS_MAX } else { RUNS_MAX });
    for operation in operations.chunks_exact(10) {
        let number = |at: usize| i64::from(u16::from_le_bytes([operation[at], operation[at + 1]]));
        // The scale byte spreads times over slots and rungs, and moves half of them before the epoch.
        let scale = operation[3];
        let time = number(1) << (scale % 40);
        let time = if scale >= 128 { -time } else { time };
        let message = DelayedMessage::new(time, number(4) % 4, number(6) % 4096);
        let kept = |m: DelayedMessage| DelayedMessage { deliver_at_ms: rounded(m.deliver_at_ms), ..m };
        let mut add = |message: DelayedMessage| {
            let count = model.entry(kept(message)).or_default();
            let new = counts_duplicates || *count == 0;
            *count += usize::from(new);
            held += usize::from(new);
            new
        };
        match operation[0] % 8 {
            0 => {
                let new = add(message);
                assert_eq!(index.add(message), Ok(new));
            }
            1..=3 => {
                // A run: some entries on a tick, a tick every so often. One of sixteen is long.
                let most = if operation[9] < 240 { 32 } else { 4096 };
                let (length, per, step) = (
                    (number(8) % most).min(left),
                    1 + i64::from(operation[0] >> 5),
                    i64::from(operation[0] >> 3 & 3),
                );
                left -= length;
                let run = (0..length).map(|at| {
                    DelayedMessage::new(time + at / per * step, message.ledger_id, message.entry_id + at)
                });
                let new = run.clone().filter(|&message| add(message)).count();
                let column = |of: fn(DelayedMessage) -> i64| run.clone().map(of).collect::<Vec<_>>();
                let (times, ledgers) = (column(|m| m.deliver_at_ms), column(|m| m.ledger_id));
                assert_eq!(index.add_many(&times, &ledgers, &column(|m| m.entry_id)), Ok(new));
            }
            4 => {
                let found = model.get_mut(&kept(message));
                assert_eq!(index.contains(message), found.is_some());
                assert_eq!(index.remove(message), found.is_some());
                if let Some(count) = found {
                    *count -= 1;
                    held -= 1;
                    if *count == 0 {
                        model.remove(&kept(message));
                    }
                }
            }
            5 => index = save_and_restore(index),
            _ => {
                let max = number(8) as usize % 3000;
                let mut due = Vec::new();
                while due.len() < max
                    && let Some(mut first) = model.first_entry()
                    && first.key().deliver_at_ms <= time
                {
                    due.push(*first.key());
                    *first.get_mut() -= 1;
                    if *first.get() == 0 {
                        first.remove();
                    }
                }
                held -= due.len();
                assert_eq!(index.pop_due(time, max).unwrap().iter().collect::<Vec<_>>(), due);
            }
        }
        assert_eq!(index.len(), held);
    }
    index.validate().expect("its invariants");
    let expected = model.iter().flat_map(|(&m, &count)| std::iter::repeat_n(m, count));
    assert_eq!(index.to_columns().unwrap().iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}
