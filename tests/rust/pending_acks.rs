//! `PendingAcks` against the standard library's tree, through every operation, with its invariants checked.

mod operation;

use ackwell_core::{PendingAck, PendingAcks};
use proptest::prelude::*;

use operation::{Model, Operation};

fn ledger_id() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0_i64..3, 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
}

/// Dense at the front, sparser later, and the extremes.
fn entry_id() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => 0_i64..300,
        4 => 0_i64..5_000,
        2 => -200_i64..0,
        1 => 0_i64..1 << 40,
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(-1), Just(i64::MAX - 63)],
    ]
}

fn value() -> impl Strategy<Value = PendingAck> {
    let remaining = prop_oneof![4 => 0..3_i32, 2 => 0..1_000_i32, 1 => 0..=i32::MAX];
    let hash = prop_oneof![4 => 0..2_i32, 2 => 0..65_536_i32, 1 => any::<i32>()];
    (remaining, hash)
        .prop_map(|(remaining, sticky_key_hash)| PendingAck { remaining, sticky_key_hash })
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation as Op;
    prop_oneof![
        10 => (ledger_id(), entry_id(), value()).prop_map(|(l, e, v)| Op::Add(l, e, v)),
        4 => (ledger_id(), entry_id(), 0_u16..400, value()).prop_map(|(l, e, n, v)| Op::AddRun(l, e, n, v)),
        2 => (ledger_id(), entry_id(), 0_u16..200, value()).prop_map(|(l, e, n, v)| Op::AddMany(l, e, n, v)),
        4 => (ledger_id(), entry_id(), -2_i64..3).prop_map(|(l, e, n)| Op::Update(l, e, n)),
        1 => (ledger_id(), entry_id(), any::<i64>()).prop_map(|(l, e, n)| Op::Update(l, e, n)),
        6 => (ledger_id(), entry_id()).prop_map(|(l, e)| Op::Remove(l, e)),
        3 => (ledger_id(), entry_id(), 0_u16..400).prop_map(|(l, e, n)| Op::RemoveRun(l, e, n)),
        3 => (ledger_id(), entry_id()).prop_map(|(l, e)| Op::Discard(l, e)),
        2 => (ledger_id(), entry_id(), 0_u16..200).prop_map(|(l, e, n)| Op::DiscardMany(l, e, n)),
        2 => (ledger_id(), entry_id(), value()).prop_map(|(l, e, v)| Op::RemoveIfValue(l, e, v)),
        2 => (ledger_id(), entry_id()).prop_map(|(l, e)| Op::RemoveAllUpTo(l, e)),
        1 => (ledger_id(), entry_id()).prop_map(|(l, e)| Op::TakeAllUpTo(l, e)),
        2 => (ledger_id(), entry_id(), 0..40u16, value())
            .prop_map(|(l, e, n, v)| Op::TakeAndFail(l, e, n, v)),
        1 => Just(Op::Clear),
    ]
}

fn content(acks: &PendingAcks) -> Vec<((i64, i64), PendingAck)> {
    let mut content = Vec::new();
    acks.for_each(|ledger, entry, value| content.push(((ledger, entry), value)));
    content
}

proptest! {
    #[test]
    fn every_operation_agrees_with_a_sorted_map(
        operations in prop::collection::vec(operation(), 1..80)
    ) {
        let (mut acks, mut model) = (PendingAcks::new(), Model::new());
        for operation in operations {
            operation.apply(&mut acks, &mut model);
            acks.validate().unwrap();
            prop_assert_eq!(model.len(), acks.len());
        }
        prop_assert_eq!(model.clone().into_iter().collect::<Vec<_>>(), content(&acks));
        for (&(ledger, entry), &value) in &model {
            prop_assert_eq!(Some(value), acks.get(ledger, entry));
            prop_assert_eq!(Some(value.remaining), acks.get_remaining(ledger, entry));
            prop_assert!(acks.contains(ledger, entry));
        }
    }

    #[test]
    fn packing_loses_nothing(remaining in 0..=i32::MAX, sticky_key_hash in any::<i32>()) {
        let value = PendingAck { remaining, sticky_key_hash };
        prop_assert_eq!(value, PendingAck::unpack(value.pack()));
        prop_assert_eq!(i64::from(remaining) << 32 | i64::from(sticky_key_hash as u32), value.pack());
    }
}

#[test]
fn a_count_is_read_and_changed_where_all_values_are_equal() {
    let mut acks = PendingAcks::new();
    acks.add(7, 63, PendingAck { remaining: 5, sticky_key_hash: -7 });
    assert_eq!(Some(5), acks.get_remaining(7, 63));
    assert!(acks.update_remaining(7, 63, 1));
    assert_eq!((-1, -1), (acks.lower(7, 10_000, 0), acks.lower(8, 63, 0)));
    acks.validate().unwrap();
    assert_eq!(Some(PendingAck { remaining: 4, sticky_key_hash: -7 }), acks.get(7, 63));
    assert_eq!(None, acks.get_remaining(7, 62));
}

fn spread(entries: i64, step: i64) -> PendingAcks {
    let mut acks = PendingAcks::new();
    for i in 0..entries {
        let value = PendingAck { remaining: (i as i32 & 15) + 1, sticky_key_hash: (i * 31) as i32 };
        acks.add(7, i * step, value);
    }
    acks.validate().unwrap();
    acks
}

#[test]
fn a_ledger_changes_form_and_back_unseen() {
    for (step, kept) in [(1, 100), (50, 10), (1_000, 10), (1 << 40, 10)] {
        let mut acks = spread(5_000, step);
        for i in (0..5_000).rev().filter(|i| i % kept != 0) {
            assert!(acks.remove(7, i * step).is_some());
        }
        acks.validate().unwrap();
        assert_eq!(5_000 / kept as usize, acks.len());
        for i in 0..5_000 {
            acks.add(7, i * step, PendingAck::default());
        }
        acks.validate().unwrap();
        assert_eq!(spread(5_000, step).len(), acks.len());
        assert_eq!(2_501, acks.remove_all_up_to(7, 2_500 * step));
        acks.validate().unwrap();
    }
}

#[test]
fn a_sparse_ledger_is_cleaned_up_with_and_without_its_index() {
    // A ledger with few entries a page is sparse and has an index; each far id drops the index.
    let value = PendingAck { remaining: 0, sticky_key_hash: i32::MIN };
    for stray in [i64::MIN, -(1 << 40), -1, 1 << 40, i64::MAX - 64, i64::MAX] {
        let (mut acks, mut model) = (PendingAcks::new(), Model::new());
        let mut apply = |operation: Operation| {
            operation.apply(&mut acks, &mut model);
            acks.validate().unwrap();
            assert_eq!(model.clone().into_iter().collect::<Vec<_>>(), content(&acks));
        };
        for entry in (0..100).map(|i| i * 300) {
            apply(Operation::Add(7, entry, value));
        }
        apply(Operation::Add(7, stray, value));
        apply(Operation::RemoveAllUpTo(7, 299));
        // The other entries are kept and can be read, and the index is rebuilt after the far entry is removed.
        apply(Operation::Update(7, stray, -1));
        apply(Operation::Add(7, stray, value));
        apply(Operation::TakeAllUpTo(7, 15_000));
        apply(Operation::Remove(7, stray));
        apply(Operation::RemoveAllUpTo(7, i64::MAX - 1));
        apply(Operation::RemoveAllUpTo(7, i64::MAX));
        assert!(acks.is_empty());
    }
}

#[test]
fn a_closed_map_refuses_adds_and_takes_back_what_was_there() {
    let mut acks = spread(3, 1);
    acks.close();
    assert!(!acks.add(7, 9, PendingAck::default()));
    assert_eq!(3, acks.len());
    let mut removal = acks.take_up_to(7, i64::MAX);
    assert!(removal.is_closed());
    let failed = removal.notify_each(|_, _, _| Err("refused"));
    assert_eq!(Err("refused"), removal.finish(&mut acks, failed));
    assert_eq!(spread(3, 1), acks);
}

#[test]
fn bytes_follow_the_content_down() {
    for step in [1, 10, 1_000, 1 << 40] {
        let mut acks = spread(20_000, step);
        let full = acks.heap_bytes();
        for i in 0..19_990 {
            acks.remove(7, (i * 7_919) % 20_000 * step);
        }
        assert!(acks.heap_bytes() < full / 20, "{} of {full} bytes are left", acks.heap_bytes());
        acks.validate().unwrap();
    }
}

#[test]
fn dense_entries_cost_only_the_bytes_that_differ() {
    let per_entry = |acks: &PendingAcks| acks.heap_bytes() as f64 / acks.len() as f64;
    assert!(per_entry(&spread(50_000, 1)) < 4.5, "{}", per_entry(&spread(50_000, 1)));
    assert!(per_entry(&spread(50_000, 10)) < 16.0, "{}", per_entry(&spread(50_000, 10)));
    assert!(per_entry(&spread(57_000, 1 << 24)) < 24.0, "{}", per_entry(&spread(57_000, 1 << 24)));
    let mut equal = PendingAcks::new();
    (0..50_000).for_each(|entry| assert!(equal.add(1, entry, PendingAck::default())));
    assert!(per_entry(&equal) < 0.8, "{}", per_entry(&equal));
}

/// Four bytes are read at every value, so four bytes must follow a hash column without bytes.
#[test]
fn the_last_slot_of_a_page_with_an_empty_hash_column_can_be_read() {
    let mut acks = PendingAcks::new();
    for entry in -1..65 {
        acks.add(1, entry, PendingAck { remaining: 0, sticky_key_hash: 1 });
    }
    acks.add(1, 0, PendingAck { remaining: 1, sticky_key_hash: 1 });
    acks.validate().unwrap();
    assert_eq!(Some(PendingAck { remaining: 0, sticky_key_hash: 1 }), acks.get(1, 63));
}
