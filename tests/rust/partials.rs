//! Partials against hostile bytes and columns: refused, never a panic.

use ackwell_core::partials::{Action, Codes, NULL, Order, Rows};
use ackwell_core::{Error, Partials, Position};
use proptest::prelude::*;

fn fed(entries: &[i64], kinds: &[i32]) -> Partials {
    let zeros = vec![0; entries.len()];
    let ledger_ids = vec![3; entries.len()];
    let numbers: Vec<i32> = (0..Action::ALL.len() as i32).collect();
    let names = Codes { codes: Some(&zeros), numbers: &[1] };
    let mut partials = Partials::new(true, false, 1 << 20);
    let rows = Rows {
        topics: names,
        subscriptions: names,
        kinds: Codes { codes: Some(kinds), numbers: &numbers },
        ledger_ids: &ledger_ids,
        entry_ids: entries,
        ..Rows::default()
    };
    partials.feed(&rows).unwrap();
    partials
}

proptest! {
    #[test]
    fn any_entries_fold_and_come_back_from_their_bytes(
        rows in prop::collection::vec((prop_oneof![0..200i64, any::<i64>()], 0..12i32), 0..60)
    ) {
        let (entries, kinds): (Vec<i64>, Vec<i32>) = rows.into_iter().unzip();
        let partials = fed(&entries, &kinds);
        if !partials.is_empty() {
            let mut again = Partials::new(true, false, 1 << 20);
            again.pair(1, 1);
            for (ledger_id, state) in partials.encode(0) {
                again.merge(0, ledger_id, &state).unwrap();
            }
            prop_assert_eq!(again.encode(0), partials.encode(0));
            prop_assert_eq!(again.flaw(0), partials.flaw(0));
            let (first, second) = (partials.cursor(0, true), again.cursor(0, true));
            prop_assert_eq!(first.map(|c| c.info).ok(), second.map(|c| c.info).ok());
        }
    }

    #[test]
    fn rows_together_have_the_effect_and_the_flaw_of_each_row_alone(
        rows in prop::collection::vec(
            (
                prop_oneof![40 => 0..200i64, 1 => any::<i64>()],
                prop_oneof![40 => prop::sample::select(vec![0, 2, 3, 3, 4, 13, 14]), 1 => 0..16i32],
                prop_oneof![20 => Just(NULL), 10 => 0..9i64, 1 => -1..11i64],
            ),
            8..40,
        ),
        has_batches in any::<bool>(), ordered in any::<bool>(), seek in 0..50i64,
        subscription in 0..2i32,
    ) {
        let count = rows.len();
        let entries: Vec<i64> = rows.iter().map(|row| row.0).collect();
        let kinds: Vec<i32> = rows.iter().map(|row| row.1).collect();
        let batch_indexes: Vec<i64> = rows.iter().map(|row| row.2).collect();
        let sequences: Vec<i64> = (0..count as i64).collect();
        let numbers: Vec<i32> = (0..Action::ALL.len() as i32).collect();
        let fed_in = |size: usize| {
            let mut partials = Partials::new(ordered, true, 10);
            let pair = partials.pair(1, subscription);
            partials.seek(pair, Order { file: 0, sequence: seek }, Position::new(3, 5), None);
            for start in (0..count).step_by(size) {
                let end = count.min(start + size);
                let rows = Rows {
                    topics: Codes { codes: None, numbers: &[1] },
                    subscriptions: Codes { codes: None, numbers: &[subscription] },
                    kinds: Codes { codes: Some(&kinds[start..end]), numbers: &numbers },
                    ledger_ids: &vec![3; end - start],
                    entry_ids: &entries[start..end],
                    batch_indexes: has_batches.then_some(&batch_indexes[start..end]),
                    sequences: Some(&sequences[start..end]),
                    ..Rows::default()
                };
                partials.feed(&rows).unwrap();
            }
            (partials.encode(pair), partials.flaw(pair))
        };
        prop_assert_eq!(fed_in(count), fed_in(1));
    }

    #[test]
    fn changed_bytes_with_a_fitting_checksum_are_refused_or_read(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), entries in prop::collection::vec(0..5_000i64, 1..40)
    ) {
        let partials = fed(&entries, &vec![3; entries.len()]);
        for (ledger_id, mut state) in partials.encode(0) {
            let body = state.len() - 4;
            let place = 5 + at.index(body - 5);
            state[place] = byte;
            let checksum = crc32fast_of(&state[..body]);
            state[body..].copy_from_slice(&checksum.to_le_bytes());
            let mut again = Partials::new(true, false, 1 << 20);
            again.pair(1, 1);
            match again.merge(0, ledger_id, &state) {
                Ok(()) => drop(again.cursor(0, true)),
                Err(error) => prop_assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
            }
        }
    }
}

/// CRC-32 (IEEE), bit by bit.
fn crc32fast_of(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn a_state_of_another_place_or_with_more_in_it_than_is_known_is_refused() {
    let states = fed(&[1, 2], &[3, 3]).encode(0);
    let merged = |ledger_id, state: &[u8]| {
        let mut again = Partials::new(true, false, 1 << 20);
        again.pair(1, 1);
        again.merge(0, ledger_id, state)
    };
    assert!(states.iter().any(|(ledger_id, _)| ledger_id.is_some()));
    for (ledger_id, mut state) in states {
        merged(ledger_id, &state).unwrap();
        let other = if ledger_id.is_some() { None } else { Some(3) };
        assert!(matches!(merged(other, &state), Err(Error::Corrupt { .. })));
        state[5] |= 0x80;
        let body = state.len() - 4;
        let checksum = crc32fast_of(&state[..body]);
        state[body..].copy_from_slice(&checksum.to_le_bytes());
        assert!(matches!(merged(ledger_id, &state), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn codes_out_of_range_take_no_row() {
    let mut partials = Partials::new(true, false, 1 << 20);
    let names = Codes { codes: Some(&[0]), numbers: &[1] };
    let rows = Rows {
        topics: names,
        subscriptions: Codes { codes: Some(&[7]), numbers: &[1] },
        kinds: Codes { codes: Some(&[0]), numbers: &[Action::Ack as i32] },
        ledger_ids: &[3],
        entry_ids: &[0],
        sequences: Some(&[NULL]),
        ..Rows::default()
    };
    assert!(matches!(partials.feed(&rows), Err(Error::Value(_))));
    assert!(partials.is_empty());
}
