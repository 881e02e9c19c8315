//! `Grouping` against an ordered map of rows.

use std::collections::BTreeMap;

use ackwell_core::group::Grouping;
use proptest::prelude::*;

proptest! {
    #[test]
    fn rows_come_by_code_in_their_order(codes in prop::collection::vec(0..9i32, 0..200)) {
        let rows: Vec<i64> = (0..codes.len() as i64).collect();
        let mut model: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (code, row) in codes.iter().zip(&rows) {
            model.entry((*code).into()).or_default().push(*row);
        }
        let grouped = Grouping::new(&codes, 9).unwrap();
        prop_assert_eq!(&grouped.codes, &model.keys().copied().collect::<Vec<_>>());
        let (first, second) = rows.split_at(rows.len() / 3);
        let mut moved = vec![-1; rows.len()];
        grouped.move_rows(0, first, &mut moved);
        grouped.move_rows(first.len(), second, &mut moved);
        prop_assert_eq!(moved, model.values().flatten().copied().collect::<Vec<_>>());
        let lengths: Vec<_> = grouped.starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect();
        prop_assert_eq!(lengths, model.values().map(Vec::len).collect::<Vec<_>>());
    }
}

#[test]
fn codes_outside_are_refused() {
    assert!(Grouping::new(&[0, 9], 9).is_err());
    assert!(Grouping::new(&[0, -1], 9).is_err());
}
