//! `PositionRangeSet` against a `BTreeSet` of positions.

use std::collections::BTreeSet;

use ackwell_core::{Position, PositionRange, PositionRangeSet};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Operation {
    Add(i64, i64),
    AddRange(i64, i64, i64),
    AddEvery { ledger: i64, first: i64, step: i64, count: i64 },
    AddWords(i64, Vec<i64>),
    Remove(i64, i64),
    RemoveRange(i64, i64, i64),
    RemoveUpTo(i64, i64),
    Union(Vec<(i64, i64, i64)>),
    Difference(Vec<(i64, i64, i64)>),
    Pickle,
    Print,
}

/// Entries dense enough for windows, far enough apart for trees, and both in turn.
fn entry() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 0i64..300,
        2 => 0i64..20_000,
        1 => (0i64..100).prop_map(|entry| (1 << 40) + entry * 1000),
        1 => (0i64..100).prop_map(|entry| i64::MAX - entry),
    ]
}

fn range() -> impl Strategy<Value = (i64, i64, i64)> {
    (0i64..3, entry(), 0i64..200)
        .prop_map(|(ledger, first, length)| (ledger, first - 1, first.saturating_add(length) - 1))
}

fn operation() -> impl Strategy<Value = Operation> {
    let ranges = || prop::collection::vec(range(), 0..40);
    prop_oneof![
        6 => (0i64..3, entry()).prop_map(|(ledger, entry)| Operation::Add(ledger, entry)),
        3 => range().prop_map(|(ledger, lower, upper)| Operation::AddRange(ledger, lower, upper)),
        2 => (0i64..3, 0i64..2000, 1i64..300, 1i64..300)
            .prop_map(|(ledger, first, step, count)| Operation::AddEvery { ledger, first, step, count }),
        1 => (0i64..3, prop::collection::vec(any::<i64>(), 0..6))
            .prop_map(|(ledger, words)| Operation::AddWords(ledger, words)),
        3 => (0i64..3, entry()).prop_map(|(ledger, entry)| Operation::Remove(ledger, entry)),
        2 => range().prop_map(|(ledger, lower, upper)| Operation::RemoveRange(ledger, lower, upper)),
        1 => (0i64..3, entry()).prop_map(|(ledger, entry)| Operation::RemoveUpTo(ledger, entry)),
        1 => ranges().prop_map(Operation::Union),
        1 => ranges().prop_map(Operation::Difference),
        1 => Just(Operation::Pickle),
        1 => Just(Operation::Print),
    ]
}

fn positions(ledger: i64, lower: i64, upper: i64) -> impl Iterator<Item = Position> {
    (lower..upper).map(move |before| Position::new(ledger, before + 1))
}

fn set_of(ranges: &[(i64, i64, i64)]) -> PositionRangeSet {
    let mut set = PositionRangeSet::new();
    for (ledger, lower, upper) in ranges {
        set.add_range(*ledger, *lower, *upper).unwrap();
    }
    set.validate().unwrap();
    set
}

fn model_of(ranges: &[(i64, i64, i64)]) -> BTreeSet<Position> {
    ranges.iter().flat_map(|(ledger, lower, upper)| positions(*ledger, *lower, *upper)).collect()
}

/// Applies an operation to both and compares their results.
fn apply(set: &mut PositionRangeSet, model: &mut BTreeSet<Position>, operation: Operation) {
    let before = model.len() as u128;
    match operation {
        Operation::Add(ledger, entry) => {
            let new = model.insert(Position::new(ledger, entry));
            assert_eq!(Ok(new), set.add(ledger, entry));
        }
        Operation::AddRange(ledger, lower, upper) => {
            model.extend(positions(ledger, lower, upper));
            let new = (model.len() as u128 - before) as u64;
            assert_eq!(Ok(new), set.add_range(ledger, lower, upper));
        }
        Operation::AddEvery { ledger, first, step, count } => {
            let entries: Vec<_> = (0..count).map(|index| first + index * step).collect();
            model.extend(entries.iter().map(|entry| Position::new(ledger, *entry)));
            let new = (model.len() as u128 - before) as u64;
            assert_eq!(Ok(new), set.add_many(&vec![ledger; entries.len()], &entries));
        }
        Operation::AddWords(ledger, words) => {
            let bits = (0..64 * words.len()).filter(|bit| words[bit / 64] >> (bit % 64) & 1 != 0);
            model.extend(bits.map(|bit| Position::new(ledger, bit as i64)));
            let new = (model.len() as u128 - before) as u64;
            assert_eq!(Ok(new), set.add_words(ledger, &words));
        }
        Operation::Remove(ledger, entry) => {
            let there = model.remove(&Position::new(ledger, entry));
            assert_eq!(there, set.remove(ledger, entry));
        }
        Operation::RemoveRange(ledger, lower, upper) => {
            positions(ledger, lower, upper).for_each(|position| {
                model.remove(&position);
            });
            let gone = (before - model.len() as u128) as u64;
            assert_eq!(Ok(gone), set.remove_range(ledger, lower, upper));
        }
        Operation::RemoveUpTo(ledger, entry) => {
            model.retain(|position| *position > Position::new(ledger, entry));
            assert_eq!(before - model.len() as u128, set.remove_up_to(ledger, entry));
        }
        Operation::Union(ranges) => {
            model.extend(model_of(&ranges));
            set.union_with(&set_of(&ranges));
        }
        Operation::Difference(ranges) => {
            let other = model_of(&ranges);
            model.retain(|position| !other.contains(position));
            set.difference_with(&set_of(&ranges));
        }
        Operation::Pickle => {
            assert_eq!(Ok(&*set), PositionRangeSet::from_bytes(&set.to_bytes()).as_ref());
        }
        Operation::Print => {
            assert_eq!(Ok(&*set), PositionRangeSet::parse(&set.to_string()).as_ref());
        }
    }
}

/// The ranges of a sorted set of positions.
fn ranges_of(model: &BTreeSet<Position>) -> Vec<PositionRange> {
    let mut ranges: Vec<PositionRange> = Vec::new();
    for position in model {
        match ranges.last_mut() {
            Some(last)
                if last.ledger_id == position.ledger_id
                    && last.upper_entry_inclusive == position.entry_id - 1 =>
            {
                last.upper_entry_inclusive = position.entry_id;
            }
            _ => ranges.push(PositionRange {
                ledger_id: position.ledger_id,
                lower_entry_exclusive: position.entry_id - 1,
                upper_entry_inclusive: position.entry_id,
            }),
        }
    }
    ranges
}

fn agree(set: &PositionRangeSet, model: &BTreeSet<Position>) {
    set.validate().unwrap();
    let ranges = ranges_of(model);
    assert_eq!(ranges, set.ranges().collect::<Vec<_>>());
    assert_eq!(ranges.len(), set.len());
    assert_eq!(model.len() as u128, set.cardinality());
    assert_eq!(ranges.first().copied(), set.first_range());
    for (index, range) in ranges.iter().enumerate() {
        let (ledger, upper) = (range.ledger_id, range.upper_entry_inclusive);
        for entry in [range.lower_entry_exclusive + 1, upper] {
            assert!(set.contains(ledger, entry));
            assert_eq!(Some(*range), set.range_containing(ledger, entry));
        }
        assert!(!set.contains(ledger, range.lower_entry_exclusive));
        assert!(upper == i64::MAX || !set.contains(ledger, upper + 1));
        if index % 16 == 0 {
            let rest = set.ranges_after(Some(Position::new(ledger, upper)), 5);
            assert_eq!(ranges[index + 1..].iter().take(5).copied().collect::<Vec<_>>(), rest);
        }
    }
    for ledger in set.ledger_ids().collect::<Vec<_>>() {
        let count = model.iter().filter(|position| position.ledger_id == ledger).count();
        assert_eq!(count as u64, set.cardinality_of(ledger));
        let last = ranges.iter().rfind(|range| range.ledger_id == ledger).unwrap();
        if last.upper_entry_inclusive < 1 << 20 {
            let words = set.words_of(ledger).unwrap();
            assert_ne!(Some(&0), words.last());
            let mut other = PositionRangeSet::new();
            other.add_words(ledger, &words).unwrap();
            assert_eq!(
                set.ranges_of(ledger).collect::<Vec<_>>(),
                other.ranges().collect::<Vec<_>>()
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_operations_agree_with_a_set_of_positions(
        operations in prop::collection::vec(operation(), 1..60),
    ) {
        let (mut set, mut model) = (PositionRangeSet::new(), BTreeSet::new());
        for operation in operations {
            apply(&mut set, &mut model, operation);
            agree(&set, &model);
        }
    }

    #[test]
    fn unions_are_commutative_associative_and_idempotent(
        sets in prop::array::uniform3(prop::collection::vec(range(), 0..60)),
    ) {
        let [a, b, c] = sets.map(|ranges| set_of(&ranges));
        let union = |left: &PositionRangeSet, right: &PositionRangeSet| {
            let mut both = left.clone();
            both.union_with(right);
            both.validate().unwrap();
            both
        };
        prop_assert_eq!(union(&a, &b), union(&b, &a));
        prop_assert_eq!(union(&union(&a, &b), &c), union(&a, &union(&b, &c)));
        prop_assert_eq!(&union(&a, &a), &a);
        let mut left = union(&a, &b);
        left.difference_with(&b);
        left.validate().unwrap();
        let mut rest = a.clone();
        rest.difference_with(&b);
        prop_assert_eq!(left, rest);
    }

    #[test]
    fn any_bytes_are_a_set_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let versioned = [&[1], &bytes[..]].concat();
        for input in [bytes, versioned] {
            if let Ok(set) = PositionRangeSet::from_bytes(&input) {
                set.validate().unwrap();
            }
        }
    }

    #[test]
    fn any_text_of_the_notations_characters_is_a_set_or_refused(text in "[\\[\\](),.:0-9 ‥-]{0,40}") {
        if let Ok(set) = PositionRangeSet::parse(&text) {
            set.validate().unwrap();
        }
    }
}

/// The most bytes of entries in one ledger, in any order and at any distance.
fn bytes_allowed(entries: usize) -> usize {
    4096 + 160 * entries
}

#[test]
fn a_window_with_room_in_front_of_what_it_holds_joins_one_that_begins_later() {
    let early = set_of(&[(2, 225, 226), (2, 63, 64)]);
    let mut late = set_of(&[(2, 191, 192), (2, 1026, 1152), (2, 63, 64)]);
    late.union_with(&early);
    let mut both = early.clone();
    both.union_with(&late);
    both.validate().unwrap();
    assert_eq!(both, late);
    assert_eq!(129, both.cardinality());
}

#[test]
fn memory_follows_the_number_of_entries_not_their_distance() {
    let mut set = PositionRangeSet::new();
    for index in 0..20_000i64 {
        let entry = match index % 4 {
            0 => index,
            1 => (1 << 40) + index,
            2 => i64::MAX - index,
            _ => index * 1_000_003,
        };
        set.add(7, entry).unwrap();
        let added = index as usize + 1;
        assert!(set.heap_bytes() < bytes_allowed(added), "{} for {added}", set.heap_bytes());
    }
    set.validate().unwrap();
}

#[test]
fn a_front_that_is_removed_gives_its_memory_back() {
    let mut set = PositionRangeSet::new();
    for entry in (0..1_000_000).step_by(2) {
        set.add(7, entry).unwrap();
        if entry >= 1000 {
            set.remove_up_to(7, entry - 1000);
        }
        assert!(set.heap_bytes() < 4096, "{} at {entry}", set.heap_bytes());
    }
    assert_eq!(500, set.len());
    set.validate().unwrap();
}

#[test]
fn a_hole_filled_makes_one_run_that_costs_nothing() {
    let mut set = PositionRangeSet::new();
    for entry in (0..50_000).step_by(2).chain((1..50_000).step_by(2)) {
        set.add(7, entry).unwrap();
    }
    assert_eq!(1, set.len());
    assert!(set.heap_bytes() < 1000, "{}", set.heap_bytes());
}
