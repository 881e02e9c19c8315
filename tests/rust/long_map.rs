//! `LongMap` against the standard library's hash map.

use std::collections::HashMap;

use ackwell_core::LongMap;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Operation {
    Insert(i64, i64),
    InsertIfAbsent(i64, i64),
    Remove(i64),
    RemoveIfValue(i64, i64),
    Double(i64),
    Retain(i64),
    Reserve(usize),
    Shrink,
    Clear,
}

impl Operation {
    fn apply(&self, map: &mut LongMap, model: &mut HashMap<i64, i64>) {
        match *self {
            Self::Insert(key, value) => {
                assert_eq!(model.insert(key, value), map.insert(key, value))
            }
            Self::InsertIfAbsent(key, value) => {
                let present = model.get(&key).copied();
                model.entry(key).or_insert(value);
                assert_eq!(present, map.insert_if_absent(key, value));
            }
            Self::Remove(key) => {
                assert_eq!(model.contains_key(&key), map.contains(key));
                assert_eq!(model.remove(&key), map.remove(key));
                assert!(!map.contains(key));
            }
            Self::RemoveIfValue(key, value) => {
                let expected = model.get(&key) == Some(&value);
                if expected {
                    model.remove(&key);
                }
                assert_eq!(expected, map.remove_if_value(key, value));
            }
            Self::Double(key) => {
                let double = |value: &mut i64| *value = value.wrapping_mul(2);
                assert_eq!(model.get_mut(&key).map(double), map.get_mut(key).map(double));
            }
            Self::Retain(bound) => {
                model.retain(|&key, _| key > bound);
                map.retain(|key, _| key > bound);
            }
            Self::Reserve(additional) => {
                map.reserve(additional).unwrap();
                assert!(map.capacity() + 1 >= map.len() + additional);
            }
            Self::Shrink => map.shrink_to_fit(),
            Self::Clear => {
                model.clear();
                map.clear();
            }
        }
    }
}

/// Few enough to repeat, with keys that are hard for a hash: extremes and equal low bits.
fn key() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -20_i64..20,
        2 => (-20_i64..20).prop_map(|key| key << 48),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MIN + 1), Just(i64::MAX)],
        1 => any::<i64>(),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation as Op;
    let value = || prop_oneof![-2_i64..3, any::<i64>()];
    prop_oneof![
        12 => (key(), value()).prop_map(|(k, v)| Op::Insert(k, v)),
        3 => (key(), value()).prop_map(|(k, v)| Op::InsertIfAbsent(k, v)),
        8 => key().prop_map(Op::Remove),
        2 => (key(), value()).prop_map(|(k, v)| Op::RemoveIfValue(k, v)),
        2 => key().prop_map(Op::Double),
        1 => key().prop_map(Op::Retain),
        1 => (0_usize..100).prop_map(Op::Reserve),
        1 => Just(Op::Shrink),
        1 => Just(Op::Clear),
    ]
}

proptest! {
    #[test]
    fn every_operation_agrees_with_a_hash_map(operations in prop::collection::vec(operation(), 1..300)) {
        let (mut map, mut model) = (LongMap::new(), HashMap::new());
        for operation in operations {
            operation.apply(&mut map, &mut model);
            map.validate().unwrap();
            prop_assert_eq!(model.len(), map.len());
        }
        prop_assert_eq!(model, map.iter().collect::<HashMap<_, _>>());
    }
}

#[test]
fn removing_and_adding_at_constant_size_changes_no_byte_and_no_probe() {
    let mut map: LongMap = (0..10_000).map(|key| (key, key)).collect();
    let bytes = map.heap_bytes();
    for round in 0..1_000_000 {
        map.remove(round);
        map.insert(round + 10_000, round);
    }
    map.validate().unwrap();
    assert_eq!((10_000, bytes), (map.len(), map.heap_bytes()));
}

#[test]
fn an_entry_costs_24_bytes_at_most() {
    let mut map = LongMap::new();
    for key in 0..200_000_i64 {
        map.insert(key.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64), key);
        let bytes = map.heap_bytes();
        assert!(bytes <= 24 * map.len() + 128, "{bytes} bytes for {} entries", map.len());
    }
}

#[test]
fn room_that_memory_does_not_have_is_refused_and_changes_nothing() {
    let mut map: LongMap = [(1, 2)].into_iter().collect();
    for additional in [1 << 46, usize::MAX] {
        assert!(matches!(map.reserve(additional), Err(ackwell_core::Error::Memory { .. })));
    }
    assert_eq!(vec![(1, 2)], map.iter().collect::<Vec<_>>());
    map.validate().unwrap();
}

#[test]
fn popping_takes_every_entry_once() {
    let mut map: LongMap = (0..1_000).map(|key| (key, -key)).chain([(i64::MIN, 7)]).collect();
    let mut popped: Vec<_> = std::iter::from_fn(|| map.pop()).collect();
    popped.sort_unstable();
    let expected = [(i64::MIN, 7)].into_iter().chain((0..1_000).map(|key| (key, -key)));
    assert!(expected.eq(popped));
    map.validate().unwrap();
}
