//! `heap_bytes` of each structure against the allocator's count.
//!
//! A separate test binary, because it counts every allocation.

mod counting;

use ackwell_core::partials::{Action, Codes, Rows};
use ackwell_core::{
    AckSets, BitSet, DelayedIndex, DelayedMessage, Ledgers, LongMap, Names, Partials, PendingAck,
    PendingAcks, Position, PositionRangeSet, Rounding, TimeBuckets, TimeWheel, TripleLongHeap,
};
use counting::{HELD, PEAK};

const MESSAGES: i64 = 500_000;

fn scattered(number: i64) -> i64 {
    let bits = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1_700_000_000_000 + ((u128::from(bits) * (7 * 86_400_000)) >> 64) as i64
}

/// Fills an index and compares its `heap_bytes` with the allocator's count: the quotient, and the peak a message.
fn reported_to_counted<I: DelayedIndex>(
    make: impl Fn() -> I,
    time: impl Fn(i64) -> i64,
) -> (f64, f64) {
    let before = HELD.get();
    PEAK.set(before);
    let mut index = make();
    for number in 0..MESSAGES {
        index
            .add(DelayedMessage::new(time(number), number / 50_000, number % 50_000))
            .expect("a position");
    }
    // The request opens the slot or bucket that is next.
    index.next_due();
    let reported = index.heap_bytes() as f64;
    let counted = (HELD.get() - before) as f64;
    let peak = (PEAK.get() - before) as f64 / MESSAGES as f64;
    assert!(counted > 0.0);
    index.clear();
    assert_eq!(0, HELD.get() - before, "cleared, and not given back");
    // Printed only now, because the harness keeps output in memory, which would be counted.
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
    // std's tree does not report how full its nodes are. The estimate is exact for trees filled in order, and too
    // high at random.
    for bits in [0, 10, 15] {
        let make = || TimeBuckets::new(bits, Rounding::Down).expect("bits");
        let (in_order, _) = reported_to_counted(make, |number| 1_700_000_000_000 + number);
        assert!((0.9..=1.1).contains(&in_order), "{in_order}");
    }
    // Sets of few entries, of some thousands, and of enough entries for bitsets.
    for bits in [10, 20, 25, 27] {
        let make = || TimeBuckets::new(bits, Rounding::Down).expect("bits");
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

/// The memory that a structure reports, divided by the allocator's count.
fn quotient<S>(make: impl FnOnce() -> S, reported: impl Fn(&S) -> usize) -> f64 {
    let before = HELD.get();
    let structure = make();
    let counted = HELD.get() - before;
    let quotient = reported(&structure) as f64 / counted as f64;
    assert!(counted > 0);
    drop(structure);
    println!("{quotient:.3} of {counted}");
    quotient
}

/// Ledgers, entries in each, and their distance, which decides the form of a ledger.
const LAYOUTS: [(i64, i64, i64); 6] =
    [(1, 1, 1), (1, 40_000, 2), (1, 40_000, 90), (300, 1, 1), (300, 50, 3), (40, 500, 700)];

#[test]
fn positions_report_within_a_fifth_of_the_truth() {
    for layout in LAYOUTS {
        let (ledgers, entries, step) = layout;
        let make = || {
            let mut set = PositionRangeSet::new();
            for number in 0..ledgers * entries {
                set.add(number / entries, number % entries * step).expect("a position");
            }
            set
        };
        let found = quotient(make, PositionRangeSet::heap_bytes);
        assert!((0.8..=1.1).contains(&found), "{layout:?}: {found}");
    }
}

#[test]
fn pending_acknowledgments_report_within_a_twentieth_of_the_truth() {
    for layout in LAYOUTS {
        let (ledgers, entries, step) = layout;
        let make = || {
            let mut acks = PendingAcks::new();
            for number in 0..ledgers * entries {
                let value =
                    PendingAck { remaining: (number % 9) as i32, sticky_key_hash: number as i32 };
                acks.add(number / entries, number % entries * step, value);
            }
            acks
        };
        let found = quotient(make, PendingAcks::heap_bytes);
        assert!((0.95..=1.05).contains(&found), "{layout:?}: {found}");
    }
}

#[test]
fn ack_sets_report_within_a_hundredth_of_the_truth() {
    for words in [vec![5], vec![5, 6, 7]] {
        let make = || {
            let entry_ids = 0..50_000;
            entry_ids.map(|entry_id| (Position::new(3, entry_id), &words)).collect::<AckSets>()
        };
        let found = quotient(make, AckSets::heap_bytes);
        assert!((0.99..=1.01).contains(&found), "{} words: {found}", words.len());
    }
}

#[test]
fn maps_bits_ledgers_and_names_report_every_byte() {
    for count in [1, 100, 50_000] {
        let map = || {
            let mut map = LongMap::new();
            for number in 0..count {
                map.insert(number * 7, number);
            }
            map
        };
        assert_eq!(1.0, quotient(map, LongMap::heap_bytes), "{count} keys");
        let bits = || {
            let mut bits = BitSet::new();
            for number in 0..count as usize {
                bits.set(number * 3).expect("room");
            }
            bits
        };
        assert_eq!(1.0, quotient(bits, BitSet::heap_bytes), "{count} bits");
        let ledgers = || {
            let mut ledgers = Ledgers::new();
            for ledger_id in 0..count {
                ledgers.grow(ledger_id, 5).expect("room");
            }
            ledgers
        };
        assert_eq!(1.0, quotient(ledgers, Ledgers::heap_bytes), "{count} ledgers");
        let names = || {
            let mut names = Names::default();
            for number in 0..count {
                names.number(&number.to_string());
            }
            names
        };
        assert_eq!(1.0, quotient(names, Names::heap_bytes), "{count} names");
    }
}

#[test]
fn the_memory_for_rows_is_reused_unless_it_is_large() {
    for (count, is_kept) in [(200_000, true), ((1 << 20) + 1, false)] {
        let zeros = vec![0; count];
        let (ledger_ids, entry_ids) = (vec![3; count], vec![0; count]);
        let names = Codes { codes: Some(&zeros), numbers: &[1] };
        let rows = Rows {
            topics: names,
            subscriptions: names,
            kinds: Codes { codes: Some(&zeros), numbers: &[Action::Exists as i32] },
            ledger_ids: &ledger_ids,
            entry_ids: &entry_ids,
            ..Rows::default()
        };
        let mut partials = Partials::new(true, false, 1 << 20);
        let column = 4 * count as isize;
        let before = HELD.get();
        partials.feed(&rows).expect("valid rows");
        let held = HELD.get() - before;
        assert_eq!(held >= column, is_kept, "{count} rows: {held} bytes");
        PEAK.set(HELD.get());
        let before = HELD.get();
        partials.feed(&rows).expect("valid rows");
        let allocated = PEAK.get() - before;
        assert_eq!(allocated < column, is_kept, "{count} rows: {allocated} bytes");
        assert_eq!(HELD.get(), before);
    }
}
