//! The three indexes of delayed messages under the fuzzer's operations, held against a sorted set.
//! Nine bytes an operation: what, time, ledger and entry; small numbers, so that they meet again.
#![no_main]

use std::collections::BTreeSet;

use ackwell_core::{Delayed, DelayedIndex, Rounding, TimeBuckets, TimeWheel, TripleLongHeap};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut heap = TripleLongHeap::new();
    let mut wheel = TimeWheel::new(1).expect("a tick");
    let mut buckets = TimeBuckets::new(0, Rounding::Pulsar).expect("bits");
    let mut model = BTreeSet::new();
    for operation in bytes.chunks_exact(9) {
        let number = |at: usize| i64::from(u16::from_le_bytes([operation[at], operation[at + 1]]));
        // The scale byte stretches times over slots and rungs.
        let time = number(1) << (operation[8] % 40);
        let message = Delayed::new(time, number(3) % 4, number(5) % 4096);
        match operation[0] % 4 {
            0 | 1 => {
                let new = model.insert(message);
                assert_eq!(wheel.add(message), Ok(new));
                assert_eq!(buckets.add(message), Ok(new));
                if new {
                    heap.push(message);
                }
            }
            2 => {
                let held = model.remove(&message);
                assert_eq!(wheel.remove(message), held);
                assert_eq!(buckets.remove(message), held);
                assert_eq!(heap.remove(message), held);
            }
            _ => {
                let due: Vec<_> =
                    model.iter().take_while(|held| held.deliver_at_ms <= time).take(50).copied().collect();
                due.iter().for_each(|held| _ = model.remove(held));
                assert_eq!(wheel.pop_due(time, 50).iter().collect::<Vec<_>>(), due);
                assert_eq!(buckets.pop_due(time, 50).iter().collect::<Vec<_>>(), due);
                assert_eq!(heap.pop_due(time, 50).iter().collect::<Vec<_>>(), due);
            }
        }
    }
    wheel.validate().expect("the wheel's invariants");
    buckets.validate().expect("the buckets' invariants");
    heap.validate().expect("the heap's invariants");
});
