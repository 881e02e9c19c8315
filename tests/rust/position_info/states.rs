//! Generated states.

use ackwell_core::{Form, Position, PositionInfo};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// Ids that repeat: few ledgers, entries close to each other, and sometimes a far one.
fn ids() -> impl Strategy<Value = (i64, i64)> {
    (
        prop_oneof![8 => 0i64..5, 1 => any::<i64>().prop_map(|id| id & i64::MAX)],
        prop_oneof![8 => 0i64..300, 1 => any::<i64>().prop_map(|id| id & i64::MAX)],
    )
}

fn positions() -> impl Strategy<Value = Position> {
    ids().prop_map(|(ledger_id, entry_id)| Position::new(ledger_id, entry_id))
}

fn words() -> impl Strategy<Value = Vec<i64>> {
    vec(prop_oneof![any::<i64>(), Just(0), Just(-1)], 0..4)
}

/// States of every part.
pub(crate) fn infos() -> impl Strategy<Value = PositionInfo> {
    let ranges = prop_oneof![
        vec((ids(), 0i64..40), 0..60),
        vec(((0i64..3, 0i64..3000), 0i64..2).prop_map(|(ids, more)| (ids, more)), 0..900),
    ];
    let spanning = vec((positions(), 1i64..3, 0i64..9), 0..2);
    (
        (ids(), -1i64..2),
        ranges,
        spanning,
        btree_map(positions(), words(), 0..12),
        btree_map("[a-zé]{0,6}", any::<i64>(), 0..3),
        btree_map(positions(), 0i64..1000, 0..3),
        any::<Option<i64>>(),
        prop_oneof![3 => Just(vec![]), 1 => Just(vec![0xf2, 0x01, 3, b'a', b'b', b'c'])],
    )
        .prop_map(
            |(mark_delete, ranges, spanning, batches, properties, counts, idle, unknown)| {
                let ((ledger_id, entry_id), less) = mark_delete;
                let mut info = PositionInfo::new(Position::new(
                    ledger_id,
                    if less < 0 { -1 } else { entry_id },
                ));
                for ((ledger_id, entry_id), more) in ranges {
                    let upper = entry_id.saturating_add(more);
                    info.individually_deleted.add_range(ledger_id, entry_id - 1, upper).unwrap();
                }
                for (lower, ledgers, upper) in spanning {
                    if let Some(ledger_id) = lower.ledger_id.checked_add(ledgers) {
                        info.add_spanning_range(lower, Position::new(ledger_id, upper)).unwrap();
                    }
                }
                info.batch_deleted = batches.into_iter().collect();
                info.properties = properties;
                for (position, count) in counts {
                    info.insert_redelivery_count(position, count).unwrap();
                }
                info.idle_since = idle;
                info.set_unknown_fields(&unknown).unwrap();
                info
            },
        )
}

/// What `form` has a place for.
pub(crate) fn held_by(form: Form, info: &PositionInfo) -> PositionInfo {
    let mut held = info.clone();
    if form != Form::Compact {
        held.redelivery_counts.clear();
    }
    if form == Form::PulsarLongArray {
        held.spanning_ranges.clear();
        let far = |held: &PositionInfo| {
            held.individually_deleted.ranges().find(|range| range.upper_entry_inclusive > 1 << 20)
        };
        while let Some(range) = far(&held) {
            let mut cut = ackwell_core::PositionRangeSet::new();
            let upper = range.upper_entry_inclusive;
            cut.add_range(range.ledger_id, range.lower_entry_exclusive, upper).unwrap();
            held.individually_deleted.difference_with(&cut);
        }
    }
    held
}
