//! `TripleLongHeap` against the sorted model and std's `BinaryHeap`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ackwell_core::{Delayed, DelayedIndex, HoleHeap, TripleLongHeap};
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
            let message = Delayed::new(time(round * 100 + step), next(5), next(1000));
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
fn bulk_adds_hold_at_most_25_5_bytes_a_message() {
    let mut heap = TripleLongHeap::new();
    let mut next = numbers(5);
    for index in 0..2_000_000 {
        heap.push(Delayed::new(next(3_600_000), index / 1000, index));
    }
    assert!(heap.nbytes() as f64 / 2e6 <= 25.5, "{}", heap.nbytes() as f64 / 2e6);
    heap.pop();
    assert!(heap.nbytes() as f64 / 2e6 <= 25.5, "{}", heap.nbytes() as f64 / 2e6);
}
