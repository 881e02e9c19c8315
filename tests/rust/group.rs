//! `group_rows` against an ordered map of rows.

use std::collections::BTreeMap;

use ackwell_core::group::group_rows;
use proptest::prelude::*;

proptest! {
    #[test]
    fn rows_come_by_code_in_their_order(codes in prop::collection::vec(0..9i32, 0..200)) {
        let rows: Vec<i64> = (0..codes.len() as i64).collect();
        let twice: Vec<i64> = rows.iter().map(|row| 2 * row).collect();
        let mut model: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (code, row) in codes.iter().zip(&rows) {
            model.entry((*code).into()).or_default().push(*row);
        }
        let grouped = group_rows(&codes, 9, &[&rows, &twice]).unwrap();
        prop_assert_eq!(&grouped.codes, &model.keys().copied().collect::<Vec<_>>());
        prop_assert_eq!(&grouped.columns[0], &model.values().flatten().copied().collect::<Vec<_>>());
        prop_assert!(grouped.columns[0].iter().zip(&grouped.columns[1]).all(|(a, b)| 2 * a == *b));
        let lengths: Vec<_> = grouped.starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect();
        prop_assert_eq!(lengths, model.values().map(Vec::len).collect::<Vec<_>>());
    }
}

#[test]
fn codes_outside_and_lengths_that_differ_are_refused() {
    assert!(group_rows(&[0, 9], 9, &[]).is_err());
    assert!(group_rows(&[0, -1], 9, &[]).is_err());
    assert!(group_rows(&[0, 1], 9, &[&[1]]).is_err());
}
