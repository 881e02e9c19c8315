//! `BitSet` against the standard library's tree set.

use std::collections::BTreeSet;

use ackwell_core::{BitSet, Error};
use proptest::prelude::*;

const LIMIT: usize = 400;

fn bits() -> impl Strategy<Value = BTreeSet<usize>> {
    prop::collection::btree_set(0..LIMIT, 0..60)
}

fn set_of(bits: &BTreeSet<usize>) -> BitSet {
    let mut set = BitSet::with_limit(LIMIT);
    for &bit in bits {
        assert_eq!(Ok(true), set.set(bit));
        assert_eq!(Ok(false), set.set(bit));
    }
    set.validate().unwrap();
    set
}

fn bits_of(set: &BitSet) -> BTreeSet<usize> {
    set.validate().unwrap();
    set.iter().collect()
}

proptest! {
    #[test]
    fn every_question_is_answered_as_by_a_sorted_set(bits in bits(), at in 0..LIMIT + 100) {
        let set = set_of(&bits);
        prop_assert_eq!(bits.contains(&at), set.get(at));
        prop_assert_eq!(bits.range(at..).next().copied(), set.next_set(at));
        prop_assert_eq!(bits.range(..=at).next_back().copied(), set.previous_set(at));
        prop_assert_eq!((at..).find(|bit| !bits.contains(bit)), Some(set.next_clear(at)));
        prop_assert_eq!((0..=at).rev().find(|bit| !bits.contains(bit)), set.previous_clear(at));
        prop_assert_eq!(bits.first().copied(), set.first());
        prop_assert_eq!(bits.last().copied(), set.last());
        prop_assert_eq!(bits.len(), set.cardinality());
        prop_assert_eq!(bits.is_empty(), set.is_empty());
        prop_assert_eq!(&set, &BitSet::from_words(set.words().to_vec(), LIMIT).unwrap());
    }

    #[test]
    fn every_change_is_the_change_of_a_sorted_set(
        bits in bits(), others in bits(), range in (0..=LIMIT, 0..LIMIT + 100)
    ) {
        let (start, end) = (range.0.min(range.1), range.0.max(range.1));
        let (set, other) = (set_of(&bits), set_of(&others));

        let mut changed = set.clone();
        changed.and(&other);
        prop_assert_eq!(&bits & &others, bits_of(&changed));
        changed = set.clone();
        changed.or(&other).unwrap();
        prop_assert_eq!(&bits | &others, bits_of(&changed));
        changed = set.clone();
        changed.and_not(&other);
        prop_assert_eq!(&bits - &others, bits_of(&changed));

        let within: BTreeSet<usize> = (start..end).collect();
        changed = set.clone();
        changed.clear_range(start, end).unwrap();
        prop_assert_eq!(&bits - &within, bits_of(&changed));
        changed = set.clone();
        if end <= LIMIT {
            changed.set_range(start, end).unwrap();
            prop_assert_eq!(&bits | &within, bits_of(&changed));
        } else {
            prop_assert!(matches!(changed.set_range(start, end), Err(Error::Limit(_))) || start == end);
            prop_assert_eq!(&bits, &bits_of(&changed));
        }
        changed = set.clone();
        prop_assert_eq!(bits.range(..=end).copied().collect::<Vec<_>>(), changed.clear_prefix(end).unwrap());
        prop_assert_eq!(bits.range(end + 1..).copied().collect::<BTreeSet<_>>(), bits_of(&changed));
        changed = set.clone();
        prop_assert_eq!(bits.contains(&end), changed.clear(end));
        changed.validate().unwrap();
    }
}

#[test]
fn a_bit_past_the_limit_is_refused_and_changes_nothing() {
    let mut set = BitSet::with_limit(70);
    assert!(matches!(set.set(70), Err(Error::Limit(_))));
    assert!(matches!(set.set(usize::MAX), Err(Error::Limit(_))));
    assert!(matches!(set.set_range(0, 71), Err(Error::Limit(_))));
    assert_eq!(
        set.set(79).unwrap_err(),
        set.set_range(0, 80).unwrap_err(),
        "the last bit of a range is named"
    );
    assert!(matches!(set.set_range(3, 2), Err(Error::Value(_))));
    assert!(matches!(BitSet::from_words(vec![0, 1 << 6], 70), Err(Error::Limit(_))));
    assert!(set.is_empty());
    assert_eq!(Ok(true), set.set(69));
    assert_eq!(0, BitSet::new().heap_bytes());
}

#[test]
fn a_bit_that_memory_does_not_reach_is_refused_and_changes_nothing() {
    let mut set = BitSet::with_limit(usize::MAX);
    assert_eq!(Ok(true), set.set(3));
    for far in [1 << 62, usize::MAX - 1] {
        assert!(matches!(set.set(far), Err(Error::Memory { .. })));
        assert!(matches!(set.set_range(0, far), Err(Error::Memory { .. })));
    }
    assert!(matches!(set.set_many(&[4, 1 << 62]), Err(Error::Memory { .. })));
    assert_eq!(vec![3], set.iter().collect::<Vec<_>>());
    set.validate().unwrap();
}

#[test]
fn many_bits_are_set_or_none() {
    let mut set = BitSet::with_limit(100);
    assert_eq!(Ok(2), set.set_many(&[99, 3, 99]));
    assert!(matches!(set.set_many(&[4, -1]), Err(Error::Value(_))));
    assert!(matches!(set.set_many(&[4, 100]), Err(Error::Limit(_))));
    assert_eq!(Ok(0), set.set_many(&[]));
    assert_eq!(vec![3, 99], set.iter().collect::<Vec<_>>());
}
