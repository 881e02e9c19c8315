//! Names against a vector of strings.

use ackwell_core::Names;
use proptest::prelude::*;

proptest! {
    #[test]
    fn names_are_numbered_in_the_order_in_which_they_come(
        texts in prop::collection::vec("[ab]{0,3}|\\PC{0,9}", 0..300)
    ) {
        let mut names = Names::default();
        let mut known: Vec<&str> = vec![];
        for text in &texts {
            let number = known.iter().position(|name| name == text).unwrap_or(known.len());
            if number == known.len() {
                known.push(text);
            }
            prop_assert_eq!(names.number(text), number as i32);
            names.validate().unwrap();
        }
        prop_assert_eq!(names.len(), known.len());
        for (number, name) in known.iter().enumerate() {
            prop_assert_eq!(names.get(number), Some(*name));
        }
        prop_assert_eq!(names.get(known.len()), None);
        let bytes = texts.concat();
        let mut offsets = vec![0];
        for text in &texts {
            offsets.push(offsets.last().unwrap() + text.len() as i32);
        }
        let mut again = Names::default();
        let numbers = again.number_many(&offsets, bytes.as_bytes()).unwrap();
        let one_by_one: Vec<i32> = texts.iter().map(|text| names.number(text)).collect();
        prop_assert_eq!(numbers, one_by_one);
        let (offsets, bytes) = again.from(1);
        let rest = known.get(1..).unwrap_or_default();
        let joined = rest.concat();
        prop_assert_eq!(bytes, joined.as_bytes());
        prop_assert_eq!(offsets.count(), rest.len() + 1);
    }
}

#[test]
fn texts_that_are_none_are_refused() {
    for (offsets, bytes) in
        [(&[0, 3][..], &b"ab"[..]), (&[1, 0], b"ab"), (&[-1, 1], b"ab"), (&[0, 1], b"\xff")]
    {
        let mut names = Names::default();
        assert!(names.number_many(offsets, bytes).is_err());
        assert!(names.is_empty());
        names.validate().unwrap();
    }
}

#[test]
fn names_with_equal_hashes_have_different_numbers() {
    // About ten pairs of these names have the same 32-bit hash.
    let mut names = Names::default();
    for number in 0..300_000 {
        assert_eq!(names.number(&format!("name-{number}")), number);
    }
}
