//! `nbytes` of the indexes of delayed messages against what the allocator counts.
//!
//! A test binary of its own, since an allocator is the whole program's. It counts by thread, so tests run
//! side by side.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ackwell_core::{Delayed, DelayedIndex, Rounding, TimeBuckets, TimeWheel, TripleLongHeap};

struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MESSAGES: i64 = 500_000;

fn scattered(number: i64) -> i64 {
    let bits = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1_700_000_000_000 + ((u128::from(bits) * (7 * 86_400_000)) >> 64) as i64
}

/// Fills an index and holds what it reports against the allocator: the quotient, and the peak a message.
fn reported_to_counted<I: DelayedIndex>(
    make: impl Fn() -> I,
    time: impl Fn(i64) -> i64,
) -> (f64, f64) {
    let before = LIVE.get();
    PEAK.set(before);
    let mut index = make();
    for number in 0..MESSAGES {
        index
            .add(Delayed::new(time(number), number / 50_000, number % 50_000))
            .expect("a position");
    }
    // What is asked for opens what is waiting to be opened.
    index.next_due();
    let reported = index.nbytes() as f64;
    let counted = (LIVE.get() - before) as f64;
    let peak = (PEAK.get() - before) as f64 / MESSAGES as f64;
    assert!(counted > 0.0);
    index.clear();
    assert_eq!(0, LIVE.get() - before, "cleared, and not given back");
    // Only now, for the harness keeps what is printed, in memory that would be counted.
    println!("{reported} reported, {counted} counted, peak {peak:.2} a message");
    (reported / counted, peak)
}

#[test]
fn a_heap_reports_every_byte_and_peaks_below_50_a_message() {
    let (quotient, peak) = reported_to_counted(TripleLongHeap::new, scattered);
    assert!((0.999..=1.001).contains(&quotient), "{quotient}");
    assert!(peak <= 50.0, "{peak}");
}

#[test]
fn buckets_report_within_a_fifth_of_the_truth() {
    // std's tree does not tell how full its nodes are; filled in order it is exact, at random it errs upwards.
    for bits in [0, 10, 15] {
        let make = || TimeBuckets::new(bits, Rounding::Pulsar).expect("bits");
        let (in_order, _) = reported_to_counted(make, |number| 1_700_000_000_000 + number);
        assert!((0.9..=1.1).contains(&in_order), "{in_order}");
    }
    for bits in [10, 20, 25] {
        let make = || TimeBuckets::new(bits, Rounding::Pulsar).expect("bits");
        let (at_random, _) = reported_to_counted(make, scattered);
        assert!((0.8..=1.3).contains(&at_random), "{bits} bits: {at_random}");
    }
}

#[test]
fn a_wheel_reports_within_a_hundredth_of_the_truth() {
    for tick_ms in [1, 1_000] {
        let make = || TimeWheel::new(tick_ms).expect("a tick");
        let (quotient, peak) = reported_to_counted(make, scattered);
        assert!((0.99..=1.01).contains(&quotient), "{quotient}");
        assert!(peak <= 5.0, "{peak}");
        let (in_order, _) = reported_to_counted(make, |number| 1_700_000_000_000 + number);
        assert!((0.8..=1.2).contains(&in_order), "{in_order}");
    }
}
