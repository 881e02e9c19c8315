//! `TimeBuckets` against the sorted model, its saved form, and roaring's portable format.

use ackwell_core::{DelayedIndex, DelayedMessage, Error, Rounding, TimeBuckets};
use proptest::prelude::*;

use crate::delayed::{agrees_with_the_model, operations};

fn rounding() -> impl Strategy<Value = Rounding> {
    prop_oneof![Just(Rounding::Down), Just(Rounding::Up), Just(Rounding::BucketEnd)]
}

/// The same rule in 128 bits, without overflow.
fn rounded(time: i64, bits: u32, rounding: Rounding) -> i64 {
    let (time, width) = (i128::from(time), 1i128 << bits);
    let bucket = match rounding {
        Rounding::Down => time.div_euclid(width) * width,
        Rounding::Up => -(-time).div_euclid(width) * width,
        Rounding::BucketEnd => time.div_euclid(width) * width + width - 1,
    };
    i64::try_from(bucket).unwrap_or(i64::MAX)
}

fn run_start() -> impl Strategy<Value = i64> {
    prop_oneof![
        -40..40i64,
        Just(i64::MAX).prop_flat_map(|end| end - 40..=end),
        i64::MIN..i64::MIN + 40,
        crate::delayed::time(),
    ]
}

/// Quarters of a ms from row to row, ms to jump first, the ledger, ids to step back first, rows.
fn stretch() -> impl Strategy<Value = (i64, i64, i64, i64, i64)> {
    let step = prop_oneof![4 => Just(0), 1 => -4..=4i64];
    let jump = prop_oneof![3 => Just(0), 1 => -70..70i64];
    let back = prop_oneof![3 => Just(0), 1 => -3..15i64];
    (step, jump, 0..2i64, back, 1..70i64)
}

fn is_the_same_one_by_one(rows: &[DelayedMessage], bits: u32, rounding: Rounding) {
    let mut alone = TimeBuckets::new(bits, rounding).unwrap();
    let mut together = alone.clone();
    let new = rows.iter().filter(|&&row| alone.add(row).unwrap()).count();
    let column = |of: fn(&DelayedMessage) -> i64| rows.iter().map(of).collect::<Vec<i64>>();
    let added = together.add_many(
        &column(|row| row.deliver_at_ms),
        &column(|row| row.ledger_id),
        &column(|row| row.entry_id),
    );
    assert_eq!(added.unwrap(), new);
    assert_eq!(together.to_columns().unwrap(), alone.to_columns().unwrap());
    assert_eq!(together.len(), alone.len());
    assert_eq!(together.validate(), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_operations_agree_with_a_sorted_set(
        operations in operations(), bits in 0..=62u32, rounding in rounding(),
    ) {
        let index = TimeBuckets::new(bits, rounding).unwrap();
        agrees_with_the_model(index, operations, |time| rounded(time, bits, rounding), false);
    }

    /// A walk whose stretches continue at the end of the last one, except for a jump of one of the three numbers.
    #[test]
    fn runs_in_a_batch_are_what_their_rows_are_one_by_one(
        start in run_start(), stretches in prop::collection::vec(stretch(), 1..8),
        bits in prop_oneof![0..8u32, 0..=62u32], rounding in rounding(),
    ) {
        let (mut time, mut entry) = (start, 100);
        let mut rows = Vec::new();
        for (step, jump, ledger, back, count) in stretches {
            time = time.saturating_add(jump);
            entry -= back;
            for row in 0..count {
                rows.push(DelayedMessage::new(time.saturating_add(step * row / 4), ledger, entry + row));
            }
            entry += count;
        }
        is_the_same_one_by_one(&rows, bits, rounding);
    }

    #[test]
    fn saved_bytes_restore_the_same_index(
        messages in prop::collection::vec((crate::delayed::time(), crate::delayed::id(), crate::delayed::id()), 0..300),
        bits in 0..=62u32, rounding in rounding(), flip in any::<prop::sample::Index>(),
    ) {
        let mut index = TimeBuckets::new(bits, rounding).unwrap();
        for &(time, ledger, entry) in &messages {
            index.add(DelayedMessage::new(time, ledger, entry)).unwrap();
        }
        let bytes = index.to_bytes();
        let mut restored = TimeBuckets::from_bytes(&bytes).unwrap();
        prop_assert_eq!(Ok(()), restored.validate());
        prop_assert_eq!(index.to_columns().unwrap(), restored.to_columns().unwrap());
        prop_assert_eq!(&bytes, &restored.to_bytes());

        let mut damaged = bytes.clone();
        damaged[flip.index(bytes.len())] ^= 1;
        let refused = matches!(TimeBuckets::from_bytes(&damaged), Err(Error::Corrupt { .. }));
        prop_assert!(refused);
        let cut = matches!(
            TimeBuckets::from_bytes(&bytes[..flip.index(bytes.len())]), Err(Error::Corrupt { .. }));
        prop_assert!(cut);
    }
}

#[test]
fn pieces_of_a_run_that_touch_take_the_memory_of_one() {
    let filled = |pieces: &[std::ops::Range<i64>]| {
        let mut index = TimeBuckets::new(0, Rounding::Down).unwrap();
        for piece in pieces {
            for entry in piece.clone() {
                assert_eq!(Ok(true), index.add(DelayedMessage::new(1, 3, entry)));
            }
            // A message elsewhere ends the piece.
            index.add(DelayedMessage::new(2, 3, 0)).unwrap();
        }
        // Brings the last piece to its place.
        index.to_columns().unwrap();
        index.heap_bytes()
    };
    let whole = filled(std::slice::from_ref(&(0..300)));
    assert_eq!(whole, filled(&[0..100, 100..200, 200..300]));
    assert_eq!(whole, filled(&[200..300, 100..200, 0..100]));
    assert!(whole < filled(&[0..100, 101..200, 201..301]));
}

#[test]
fn a_bucket_at_an_end_of_time_has_fewer_times() {
    for (first, others) in [(i64::MIN, i64::MIN + 1), (i64::MAX, i64::MAX - 7)] {
        let rows: Vec<DelayedMessage> = (0..40)
            .map(|row| DelayedMessage::new(if row < 16 { first } else { others }, 0, row))
            .collect();
        is_the_same_one_by_one(&rows, 3, Rounding::Up);
    }
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let mut bytes = TimeBuckets::new(9, Rounding::Down).unwrap().to_bytes();
    bytes[4] = 2;
    let Err(Error::Corrupt { offset: 4, message }) = TimeBuckets::from_bytes(&bytes) else {
        panic!("accepted");
    };
    assert_eq!("TimeBuckets of version 2; this ackwell reads version 1", message);
}

#[test]
fn portable_roaring_goes_out_and_in() {
    let mut index = TimeBuckets::new(10, Rounding::Down).unwrap();
    for entry in (0..1000).chain([5_000, 5_002]) {
        index.add(DelayedMessage::new(100, 3, entry)).unwrap();
    }
    let (bytes, wide) = index.to_roaring(900, 3).unwrap();
    assert!(!wide);
    assert_eq!(1002, roaring::RoaringBitmap::deserialize_from(&bytes[..]).unwrap().len());
    let mut other = TimeBuckets::new(10, Rounding::Down).unwrap();
    assert_eq!(Ok(1002), other.add_roaring(100, 3, &bytes, wide));
    assert_eq!(Ok(0), other.add_roaring(100, 3, &bytes, wide));
    assert_eq!(index.to_columns().unwrap(), other.to_columns().unwrap());
    assert_eq!(None, index.to_roaring(2_000, 3));
    assert!(matches!(other.add_roaring(0, 0, &bytes[1..], false), Err(Error::Corrupt { .. })));
}

#[test]
fn ids_past_32_bits_take_the_64_bit_form() {
    let mut index = TimeBuckets::new(10, Rounding::Down).unwrap();
    let ids = [0, u32::MAX.into(), 1 << 32, 1 << 40, i64::MAX];
    for entry in ids {
        assert_eq!(Ok(true), index.add(DelayedMessage::new(1, 1, entry)));
        assert_eq!(Ok(false), index.add(DelayedMessage::new(2, 1, entry)));
    }
    let (bytes, wide) = index.to_roaring(0, 1).unwrap();
    assert!(wide);
    let treemap = roaring::RoaringTreemap::deserialize_from(&bytes[..]).unwrap();
    assert_eq!(ids.map(|id| id as u64).to_vec(), treemap.iter().collect::<Vec<_>>());
    assert_eq!(ids.to_vec(), index.pop_due(0, 10).unwrap().entry_ids);
}

#[test]
fn the_ticks_of_the_broker_become_bits() {
    for (tick, bits) in [(1, 0), (2, 1), (1000, 9), (1024, 10), (i64::MAX, 62)] {
        assert_eq!(bits, TimeBuckets::from_tick(tick, Rounding::Down).unwrap().bits());
    }
    assert!(TimeBuckets::from_tick(0, Rounding::Down).is_err());
    assert!(TimeBuckets::new(63, Rounding::Down).is_err());
}

/// The seed's workload: entries in order, the time one ms later after every `per_ms` messages.
#[test]
fn the_seeds_rows_stay_small_while_filling() {
    for (per_ms, bits, mib) in [(1, 10, 4.0), (4, 10, 1.0), (8, 10, 0.6), (8, 15, 0.06)] {
        let mut index = TimeBuckets::new(bits, Rounding::Down).unwrap();
        for message in 0..10_000_000i64 {
            let time = 1_700_000_000_001 + message / per_ms;
            index
                .add(DelayedMessage::new(time, 10_000 + message / 50_000, message % 50_000))
                .unwrap();
        }
        let found = index.heap_bytes() as f64 / f64::from(1 << 20);
        println!("({per_ms}, {bits}): {found:.3} MiB, {} buckets", index.bucket_count());
        assert!(found <= mib, "({per_ms}, {bits}): {found} MiB");
        assert_eq!(10_000_000, index.len());
    }
}
