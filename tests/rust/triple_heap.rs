//! `TripleLongHeap` against the sorted model and std's `BinaryHeap`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ackwell_core::{DelayedIndex, DelayedMessage, HoleHeap, TripleLongHeap};
use proptest::prelude::*;

use crate::delayed::{agrees_with_the_model, operations};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_operations_agree_with_a_sorted_multiset(operations in operations()) {
        agrees_with_the_model(TripleLongHeap::new(), operations, |time| time, true);
    }
}

/// A deterministic stream of numbers; enough for spreading times.
fn numbers(seed: u64) -> impl FnMut(u64) -> i64 {
    let mut state = seed;
    move |below| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below) as i64
    }
}

/// Adds and pops in alternation, checked message by message, for times drawn by `time`.
fn interleaves_like_binary_heap(mut time: impl FnMut(i64) -> i64) {
    let (mut ours, mut plain, mut std_heap) =
        (TripleLongHeap::new(), HoleHeap::default(), BinaryHeap::new());
    let mut next = numbers(7);
    let mut popped = 0;
    for round in 0..60 {
        for step in 0..500 + next(3000) {
            let message = DelayedMessage::new(time(round * 100 + step), next(5), next(1000));
            ours.push(message);
            plain.push(message);
            std_heap.push(Reverse(message));
        }
        for _ in 0..next(4000) {
            let expected = std_heap.pop().map(|Reverse(message)| message);
            assert_eq!(expected, ours.peek());
            assert_eq!(expected, ours.pop());
            assert_eq!(expected, plain.pop());
            popped += usize::from(expected.is_some());
        }
        assert_eq!(Ok(()), ours.validate());
        assert_eq!(std_heap.len(), ours.len());
    }
    assert!(popped > 10_000);
}

#[test]
fn random_times_interleave_like_std() {
    let mut next = numbers(1);
    interleaves_like_binary_heap(move |_| next(3_600_000));
}

#[test]
fn equal_times_fall_back_to_order_of_position() {
    interleaves_like_binary_heap(|_| 42);
}

#[test]
fn falling_times_interleave_like_std() {
    interleaves_like_binary_heap(|step| -step);
}

#[test]
fn rising_times_interleave_like_std() {
    interleaves_like_binary_heap(|step| step);
}

#[test]
fn exponentially_skewed_times_interleave_like_std() {
    let mut next = numbers(3);
    interleaves_like_binary_heap(move |_| 1 << next(63));
}

#[test]
fn the_ends_of_i64_interleave_like_std() {
    let mut next = numbers(4);
    interleaves_like_binary_heap(move |_| [i64::MIN, i64::MAX, 0, next(9)][next(4) as usize]);
}

#[test]
fn bulk_adds_hold_at_most_10_bytes_a_message_and_25_5_where_nothing_packs() {
    // Ids of 63 bits and any time need more than 64 bits.
    let hash = |index: i64| (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64 & i64::MAX;
    for (most, wide) in [(10.0, false), (25.5, true)] {
        let mut heap = TripleLongHeap::new();
        let mut next = numbers(5);
        for index in 0..2_000_000 {
            let entry = if wide { hash(index) } else { index };
            heap.push(DelayedMessage::new(next(3_600_000), index / 1000, entry));
        }
        let mut before = heap.peek().expect("two million");
        let each = heap.heap_bytes() as f64 / 2e6;
        assert!(each <= most, "{each}");
        for _ in 0..5_000 {
            let message = heap.pop().expect("two million");
            assert!(before <= message);
            before = message;
        }
    }
}

#[test]
fn columns_that_pack_into_64_bits_and_not_into_65_pop_alike() {
    // 30 bits of time, and bits of ledger and entry that fill 64 in total, or one more.
    for (ledger_bits, entry_bits) in
        [(17, 17), (34, 0), (0, 34), (17, 18), (0, 35), (34, 30), (64, 64)]
    {
        let end = |bits: u32| if bits == 64 { i64::MAX } else { (1i64 << bits) - 1 };
        let mut next = numbers(6);
        let (mut heap, mut expected) = (TripleLongHeap::new(), Vec::new());
        for index in 0..5_000 {
            let ends = [0, end(ledger_bits), end(entry_bits)];
            let message =
                DelayedMessage::new(next(1 << 30), ends[index % 2], ends[index / 2 % 2 * 2]);
            heap.push(message);
            expected.push(message);
        }
        expected.sort_unstable();
        assert_eq!(expected, heap.pop_due(i64::MAX, 5_000).unwrap().iter().collect::<Vec<_>>());
    }
}
