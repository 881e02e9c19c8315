//! Ack sets: a map of positions, for any order of insertion.

use std::collections::BTreeMap;

use ackwell_core::Position;
use ackwell_core::position_info::AckSets;
use proptest::prelude::*;

fn listed(sets: &AckSets) -> Vec<(Position, Vec<i64>)> {
    sets.iter().map(|(position, words)| (position, words.to_vec())).collect()
}

proptest! {
    #[test]
    fn sets_in_any_order_are_those_of_a_map(
        rows in prop::collection::vec(((0..3i64, 0..6i64), prop::collection::vec(0..3i64, 0..4)), 0..30)
    ) {
        let rows = rows.into_iter().map(|((ledger_id, entry_id), words)| {
            (Position::new(ledger_id, entry_id), words)
        });
        let mut model = BTreeMap::new();
        let (mut inserted, collected) = (AckSets::default(), rows.clone().collect::<AckSets>());
        for (position, mut words) in rows {
            inserted.insert(position, &words);
            while words.last() == Some(&0) {
                words.pop();
            }
            model.insert(position, words);
        }
        let expected: Vec<_> = model.into_iter().collect();
        prop_assert_eq!(&listed(&inserted), &expected);
        prop_assert_eq!(&listed(&collected), &expected);
        prop_assert_eq!(inserted.len(), expected.len());
        let words: Vec<i64> = expected.into_iter().flat_map(|(_, words)| words).collect();
        prop_assert_eq!(inserted.words(), &words);
        prop_assert_eq!(inserted.ends().last().copied().unwrap_or(0), words.len());
        prop_assert_eq!(inserted.into_words(), words);
    }
}
