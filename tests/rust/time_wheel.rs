//! `TimeWheel` against the sorted model, its saved form, and its sizes.

use std::collections::BTreeSet;

use ackwell_core::{DelayedIndex, DelayedMessage, Error, TimeWheel};
use proptest::prelude::*;

use crate::delayed::{agrees_with_the_model, operations, time};

/// The same rule in 128 bits, without overflow.
fn rounded_up(time: i64, tick_ms: i64) -> i64 {
    let (time, tick) = (i128::from(time), i128::from(tick_ms));
    i64::try_from(-(-time).div_euclid(tick) * tick).unwrap_or(i64::MAX)
}

fn tick_ms() -> impl Strategy<Value = i64> {
    prop_oneof![3 => Just(1i64), 2 => 2..2000i64, 1 => 1..=i64::MAX]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_operations_agree_with_a_sorted_set(operations in operations(), tick_ms in tick_ms()) {
        let wheel = TimeWheel::new(tick_ms).unwrap();
        agrees_with_the_model(wheel, operations, |time| rounded_up(time, tick_ms), false);
    }

    #[test]
    fn saved_bytes_restore_the_same_wheel(
        messages in prop::collection::vec((time(), 0..4i64, 0..5_000i64), 0..3_000),
        sorted in any::<bool>(), tick_ms in tick_ms(), flip in any::<prop::sample::Index>(),
    ) {
        let mut wheel = TimeWheel::new(tick_ms).unwrap();
        let mut messages = messages;
        if sorted {
            messages.sort_unstable_by_key(|&(_, ledger, entry)| (ledger, entry));
        }
        for &(time, ledger, entry) in &messages {
            wheel.add(DelayedMessage::new(time, ledger, entry)).unwrap();
        }
        wheel.pop_due(50, 10).unwrap();
        let bytes = wheel.to_bytes();
        prop_assert_eq!(Ok(()), wheel.validate());
        let mut restored = TimeWheel::from_bytes(&bytes).unwrap();
        prop_assert_eq!(Ok(()), restored.validate());
        prop_assert_eq!(wheel.to_columns().unwrap(), restored.to_columns().unwrap());
        // The restored wheel continues like the original.
        for &(time, ledger, entry) in messages.iter().take(50) {
            let message = DelayedMessage::new(time.saturating_add(1), ledger, entry + 2_500);
            prop_assert_eq!(wheel.add(message), restored.add(message));
        }
        prop_assert_eq!(Ok(()), restored.validate());
        prop_assert_eq!(wheel.pop_due(i64::MAX, usize::MAX).unwrap(), restored.pop_due(i64::MAX, usize::MAX).unwrap());

        let mut damaged = bytes.clone();
        damaged[flip.index(bytes.len())] ^= 1;
        let refused = matches!(TimeWheel::from_bytes(&damaged), Err(Error::Corrupt { .. }));
        prop_assert!(refused);
    }

    #[test]
    fn hostile_streams_with_a_good_checksum_are_refused_or_valid(
        messages in prop::collection::vec((0..100_000i64, 0..4i64, 0..5_000i64), 1..200),
        flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..8),
    ) {
        let mut wheel = TimeWheel::new(1).unwrap();
        for &(time, ledger, entry) in &messages {
            wheel.add(DelayedMessage::new(time, ledger, entry)).unwrap();
        }
        let mut bytes = wheel.to_bytes();
        let body = bytes.len() - 4;
        for (place, bits) in flips {
            bytes[5 + place.index(body - 5)] ^= bits;
        }
        let checksum = crc32fast::hash(&bytes[..body]).to_le_bytes();
        bytes[body..].copy_from_slice(&checksum);
        if let Ok(restored) = TimeWheel::from_bytes(&bytes) {
            prop_assert_eq!(Ok(()), restored.validate());
        }
    }
}

#[test]
fn slots_of_as_many_ticks_as_have_differences_in_int64_are_read() {
    let mut wheel = TimeWheel::new(1).unwrap();
    wheel.add(DelayedMessage::new(5, 3, 7)).unwrap();
    let bytes = wheel.to_bytes();
    assert_eq!([1, 1, 0], bytes[5..8], "the tick, one slot, from tick 0 on");
    for (bits, is_read) in [(59, true), (60, true), (61, false), (64, false), (255, false)] {
        let mut wide = bytes.clone();
        wide[8] = bits;
        let body = wide.len() - 4;
        let checksum = crc32fast::hash(&wide[..body]).to_le_bytes();
        wide[body..].copy_from_slice(&checksum);
        let restored = TimeWheel::from_bytes(&wide);
        assert_eq!(is_read, restored.is_ok(), "{bits} bits");
        if let Ok(mut restored) = restored {
            restored.validate().unwrap();
            assert_eq!(wheel.to_columns().unwrap(), restored.to_columns().unwrap());
        }
    }
}

#[test]
fn messages_out_of_order_and_twice_are_found_before_they_are_due() {
    let mut wheel = TimeWheel::new(1).unwrap();
    for entry in (0..20_000).rev() {
        assert_eq!(Ok(true), wheel.add(DelayedMessage::new(entry % 777, 1, entry)));
    }
    for entry in (0..20_000).step_by(3) {
        assert_eq!(Ok(false), wheel.add(DelayedMessage::new(entry % 777, 1, entry)));
        assert!(wheel.remove(DelayedMessage::new(entry % 777, 1, entry)));
        assert!(!wheel.contains(DelayedMessage::new(entry % 777, 1, entry)));
        assert!(
            wheel.contains(DelayedMessage::new((entry + 1) % 777, 1, entry + 1))
                || entry + 1 == 20_000
        );
    }
    assert_eq!(Ok(()), wheel.validate());
    assert_eq!(13_333, wheel.len());
    let due = wheel.pop_due(776, usize::MAX).unwrap();
    assert!(due.iter().is_sorted());
    assert_eq!(13_333, due.len());
}

/// The seed's workload: entries in order, the time one ms later after every `per_ms` messages.
#[test]
fn the_seeds_rows_take_kilobytes_at_any_tick() {
    for (per_ms, bits) in [(1, 10), (4, 10), (8, 10), (8, 15), (1, 0), (8, 0)] {
        let mut wheel = TimeWheel::new(1 << bits).unwrap();
        let mut peak = 0;
        for message in 0..10_000_000i64 {
            let time = 1_700_000_000_001 + message / per_ms;
            wheel
                .add(DelayedMessage::new(time, 10_000 + message / 50_000, message % 50_000))
                .unwrap();
            if message % 100_000 == 0 {
                peak = peak.max(wheel.heap_bytes());
            }
        }
        println!("({per_ms}, {bits}): {} bytes, {peak} while filling", wheel.heap_bytes());
        assert!(peak.max(wheel.heap_bytes()) < 20_000);
        let mut drained = 0;
        while !wheel.is_empty() {
            drained += wheel.pop_due(i64::MAX, 1000).unwrap().len();
        }
        assert_eq!(10_000_000, drained);
    }
}

#[test]
fn random_times_take_little_more_than_their_entropy() {
    for (tick_ms, most) in [(1, 4.5), (1000, 3.1)] {
        let (mut wheel, mut state) = (TimeWheel::new(tick_ms).unwrap(), 42u64);
        let count = 2_000_000i64;
        for message in 0..count {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let time = 1_700_000_000_000 + ((state >> 33) % (7 * 86_400_000)) as i64;
            wheel.add(DelayedMessage::new(time, message / 50_000, message % 50_000)).unwrap();
        }
        let each = wheel.heap_bytes() as f64 / count as f64;
        println!("ticks of {tick_ms} ms: {each:.3} bytes a message");
        assert!(each <= most);
        wheel.validate().unwrap();
    }
}

#[test]
fn the_ends_of_int64_fit_into_a_stream() {
    let mut wheel = TimeWheel::new(1).unwrap();
    let ends = [(i64::MIN, 0, 0), (i64::MAX, i64::MAX, 0), (i64::MAX, i64::MAX, i64::MAX)];
    for (time, ledger, entry) in ends {
        assert_eq!(Ok(true), wheel.add(DelayedMessage::new(time, ledger, entry)));
    }
    let mut restored = TimeWheel::from_bytes(&wheel.to_bytes()).unwrap();
    let expected = ends.map(|(time, ledger, entry)| DelayedMessage::new(time, ledger, entry));
    assert_eq!(
        expected.to_vec(),
        restored.pop_due(i64::MAX, 9).unwrap().iter().collect::<Vec<_>>()
    );
}

#[test]
fn a_batch_rounds_like_single_adds_where_time_ends() {
    let tick_ms = 7_276_335_202_403_344_710;
    let times = [0, i64::MAX, 1_947_036_834_451_431_098];
    let mut wheel = TimeWheel::new(tick_ms).unwrap();
    assert_eq!(Ok(3), wheel.add_many(&times, &[0; 3], &[0; 3]));
    let rounded = times.map(|time| rounded_up(time, tick_ms));
    assert_eq!(
        [rounded[0], rounded[2], rounded[1]].to_vec(),
        wheel.to_columns().unwrap().deliver_at_ms
    );
}

/// Long runs, apart or overlapping in time, drained while other messages are added, removed and saved.
#[test]
fn long_runs_drain_in_order_while_messages_come_and_go() {
    let mut state = 1u64;
    let mut next = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below) as i64
    };
    for (tick_ms, apart_ms) in [(1, 40_000), (1, 100), (7, 100), (1_000, 0)] {
        let mut wheel = TimeWheel::new(tick_ms).unwrap();
        let mut model = BTreeSet::new();
        let rounded = |message: DelayedMessage| DelayedMessage {
            deliver_at_ms: rounded_up(message.deliver_at_ms, tick_ms),
            ..message
        };
        for ledger in 0..3 {
            for entry in 0..20_000 {
                let time = ledger * apart_ms + entry * (ledger + 1) / 4;
                let message = DelayedMessage::new(time, ledger, entry);
                assert_eq!(Ok(model.insert(rounded(message))), wheel.add(message));
            }
        }
        let (mut round, mut late) = (0, 0);
        while let Some(first) = model.first().copied() {
            let now = first.deliver_at_ms + next(400);
            let adds = if model.len() > 1_000 { next(30) } else { 0 };
            for _ in 0..adds {
                // Some messages with a time and ledger of the runs, so that they fall inside them.
                let message = DelayedMessage::new(now + next(300) - 50, next(4), next(20_000));
                let new = model.insert(rounded(message));
                late += usize::from(new);
                assert_eq!(Ok(new), wheel.add(message));
            }
            let taken: Vec<_> = model.iter().copied().filter(|_| next(9) == 0).take(5).collect();
            for message in taken {
                assert!(wheel.contains(message) && wheel.remove(message));
                assert!(!wheel.contains(message) && model.remove(&message));
            }
            let due: Vec<_> =
                model.iter().take_while(|m| m.deliver_at_ms <= now).take(997).copied().collect();
            due.iter().for_each(|message| _ = model.remove(message));
            assert_eq!(due, wheel.pop_due(now, 997).unwrap().iter().collect::<Vec<_>>());
            assert_eq!(model.first().map(|message| message.deliver_at_ms), wheel.next_due());
            if round % 64 == 0 {
                assert_eq!(Ok(()), wheel.validate());
                wheel = TimeWheel::from_bytes(&wheel.to_bytes()).unwrap();
                assert_eq!(Ok(()), wheel.validate());
            }
            round += 1;
        }
        assert!(wheel.is_empty() && late > 500, "{late} late");
    }
}

#[test]
fn a_scattered_batch_adds_what_single_adds_do() {
    let mut state = 9u64;
    let mut bits = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    for tick_ms in [1, 1_000, 3_600_000] {
        // Over a week, and over the whole range of times, with slots of more than 32 bits.
        for span in [7 * 86_400_000, u64::MAX] {
            let messages: Vec<_> = (0..70_000)
                .map(|entry| {
                    DelayedMessage::new((bits() % span) as i64, entry / 50_000, entry % 50_000)
                })
                .collect();
            // Some come twice, others late.
            let messages: Vec<_> = messages.iter().chain(messages.iter().step_by(9)).collect();
            let (mut one_by_one, mut batch) =
                (TimeWheel::new(tick_ms).unwrap(), TimeWheel::new(tick_ms).unwrap());
            // A batch also meets an open slot.
            for wheel in [&mut one_by_one, &mut batch] {
                wheel.add(DelayedMessage::new(0, 9, 0)).unwrap();
                wheel.add(DelayedMessage::new(0, 9, 1)).unwrap();
                assert_eq!(1, wheel.pop_due(0, 1).unwrap().len());
            }
            let new = messages.iter().filter(|&&&message| one_by_one.add(message) == Ok(true));
            let column =
                |of: fn(&DelayedMessage) -> i64| messages.iter().map(|m| of(m)).collect::<Vec<_>>();
            let times = column(|m| m.deliver_at_ms);
            let added = batch.add_many(&times, &column(|m| m.ledger_id), &column(|m| m.entry_id));
            assert_eq!(Ok(new.count()), added);
            assert_eq!(Ok(()), batch.validate());
            assert_eq!(one_by_one.to_columns().unwrap(), batch.to_columns().unwrap());
        }
    }
}
