//! Ranges of many layouts in one message: written as any Protocol Buffers library writes them, and read back.

use ackwell_core::{Form, Position, PositionInfo};
use proptest::collection::vec;
use proptest::prelude::*;

use super::decode;

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    [&[tag], &varint(content.len() as u64)[..], content].concat()
}

fn plainly_written(info: &PositionInfo) -> Vec<u8> {
    let position = |ledger_id: i64, entry_id: i64| {
        [&[0x08], &varint(ledger_id as u64)[..], &[0x10], &varint(entry_id as u64)].concat()
    };
    let mut bytes = position(info.mark_delete.ledger_id, info.mark_delete.entry_id);
    for range in info.individually_deleted.ranges() {
        let lower = position(range.ledger_id, range.lower_entry_exclusive);
        let upper = position(range.ledger_id, range.upper_entry_inclusive);
        bytes.extend(field(0x1a, &[field(0x0a, &lower), field(0x12, &upper)].concat()));
    }
    bytes
}

/// Around every number at which a varint grows.
fn near_a_border() -> impl Strategy<Value = i64> {
    (0u32..=9, -9i64..9).prop_map(|(groups, beside)| {
        let border = 1i64.checked_shl(7 * groups).unwrap_or(i64::MAX);
        border.saturating_add(beside).clamp(0, i64::MAX - 40)
    })
}

proptest! {
    #[test]
    fn every_layout_is_written_plainly_and_read_back(
        ledgers in vec((near_a_border(), near_a_border(), vec((1i64..9, 1i64..200), 1..60)), 1..6),
    ) {
        let mut info = PositionInfo::new(Position::new(0, -1));
        for (ledger_id, first, runs) in ledgers {
            let mut lower = first - 1;
            for (gap, length) in runs {
                let upper = lower.saturating_add(length).min(i64::MAX - 1);
                info.individually_deleted.add_range(ledger_id, lower, upper).unwrap();
                lower = upper.saturating_add(gap).min(i64::MAX - 1);
            }
        }
        let bytes = info.encode(Form::PulsarRanges).unwrap();
        prop_assert_eq!(&plainly_written(&info), &bytes);
        let (decoded, _) = decode(&bytes).unwrap();
        decoded.validate().unwrap();
        prop_assert_eq!(decoded, info);
    }

    #[test]
    fn ranges_in_any_order_are_their_union(
        ranges in vec((0i64..3, 0i64..2000, 0i64..9), 0..1500), far in any::<bool>(),
    ) {
        let mut info = PositionInfo::new(Position::new(0, -1));
        let mut bytes = plainly_written(&info);
        for (ledger_id, lower, length) in ranges {
            let lower = if far && lower % 97 == 0 { lower << 30 } else { lower };
            let mut one = PositionInfo::new(Position::new(0, -1));
            one.individually_deleted.add_range(ledger_id, lower, lower + length).unwrap();
            bytes.extend(&plainly_written(&one)[13..]);
            info.individually_deleted.union_with(&one.individually_deleted);
        }
        let (decoded, _) = decode(&bytes).unwrap();
        decoded.validate().unwrap();
        prop_assert_eq!(decoded, info);
    }
}
