//! `Ledgers` against a `BTreeMap`, whose entries are counted one by one.

use std::collections::BTreeMap;

use ackwell_core::{LedgerState, Ledgers, Position};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Operation {
    Add(i64, i64),
    Grow(i64, i64),
    Close(i64),
    TrimBefore(i64),
}

/// Ids close to each other, so that blocks fill up and split, and ids repeat.
fn operation() -> impl Strategy<Value = Operation> {
    let (id, entries) = (0i64..2000, 0i64..4);
    prop_oneof![
        1 => (id.clone(), entries.clone()).prop_map(|(id, entries)| Operation::Add(id, entries)),
        8 => (id.clone(), entries).prop_map(|(id, entries)| Operation::Grow(id, entries)),
        1 => id.clone().prop_map(Operation::Close),
        1 => (0i64..600).prop_map(Operation::TrimBefore),
    ]
}

#[derive(Default)]
struct Model {
    entries: BTreeMap<i64, i64>,
    open: bool,
    trimmed_before: i64,
}

impl Model {
    /// Applies the operation if it is legal; returns whether it is.
    fn apply(&mut self, operation: &Operation) -> bool {
        let last = self.entries.keys().next_back().copied().unwrap_or(-1);
        match *operation {
            Operation::Add(id, _) if id <= last || id < self.trimmed_before => return false,
            Operation::Grow(id, _) if id < self.trimmed_before => return false,
            Operation::Grow(id, entries)
                if self.entries.get(&id).is_some_and(|held| entries < *held) =>
            {
                return false;
            }
            Operation::Close(id) if !self.entries.contains_key(&id) => return false,
            Operation::TrimBefore(id) if self.open && last < id => return false,
            Operation::Add(id, entries) | Operation::Grow(id, entries) => {
                self.entries.insert(id, entries);
                self.open |= id > last;
            }
            Operation::Close(id) => self.open &= id != last,
            Operation::TrimBefore(id) => {
                self.entries = self.entries.split_off(&id);
                self.trimmed_before = self.trimmed_before.max(id);
            }
        }
        true
    }

    fn existing(&self) -> impl Iterator<Item = Position> + '_ {
        self.entries
            .iter()
            .flat_map(|(id, entries)| (0..*entries).map(|entry| Position::new(*id, entry)))
    }
}

fn apply(ledgers: &mut Ledgers, operation: &Operation) -> bool {
    match *operation {
        Operation::Add(id, entries) => ledgers.add(id, entries).is_ok(),
        Operation::Grow(id, entries) => ledgers.grow(id, entries).is_ok(),
        Operation::Close(id) => ledgers.close(id),
        Operation::TrimBefore(id) => ledgers.trim_before(id).is_ok(),
    }
}

fn agree(ledgers: &Ledgers, model: &Model, places: &[Position]) {
    let existing: Vec<_> = model.existing().collect();
    assert_eq!(
        model.entries.iter().map(|(id, n)| (*id, *n)).collect::<Vec<_>>(),
        ledgers.iter().collect::<Vec<_>>()
    );
    assert_eq!(model.trimmed_before, ledgers.trimmed_before());
    let last = model.entries.keys().next_back().copied();
    for place in places {
        let rank = existing.partition_point(|entry| entry <= place);
        let below = existing.partition_point(|entry| entry < place);
        assert_eq!(rank as i64, ledgers.rank(*place));
        let exists = existing.binary_search(place).is_ok();
        assert_eq!(exists, ledgers.contains(*place));
        let passed = places[0];
        let columns = ([passed.ledger_id, place.ledger_id], [0, place.entry_id]);
        let fits = place.entry_id >= 0 && (exists || *place <= passed);
        let first_fits =
            passed.entry_id >= 0 || existing.contains(&Position::new(passed.ledger_id, 0));
        assert_eq!(fits && first_fits, ledgers.contains_all(&columns.0, &columns.1, passed));
        let end = existing.last().map(|entry| Position::new(entry.ledger_id, entry.entry_id + 1));
        let end = end.filter(|end| !model.open || Some(end.ledger_id) == last);
        let end = end.or(last.map(|last| Position::new(last, 0)));
        assert_eq!(existing.get(rank).copied().or(end), ledgers.next_valid(*place));
        let first = model
            .entries
            .keys()
            .next()
            .map_or(place.ledger_id, |first| place.ledger_id.min(*first));
        let previous = below.checked_sub(1).map(|index| existing[index]);
        assert_eq!(previous.unwrap_or(Position::new(first, -1)), ledgers.previous_valid(*place));
        let state = match place.ledger_id {
            id if id < model.trimmed_before => Some(LedgerState::Trimmed),
            id if model.open && Some(id) == last => Some(LedgerState::Open),
            id => model.entries.get(&id).map(|_| LedgerState::Closed),
        };
        assert_eq!(state, ledgers.state(place.ledger_id));
    }
    for pair in places.windows(2) {
        let between = existing.iter().filter(|entry| pair[0] < **entry && **entry <= pair[1]);
        assert_eq!(between.count() as i64, ledgers.entries_between(pair[0], pair[1]));
    }
    for (rank, entry) in existing.iter().enumerate() {
        assert_eq!(Some(*entry), ledgers.select(rank as i64));
    }
    assert_eq!(None, ledgers.select(existing.len() as i64));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_operations_agree_with_a_map(
        operations in prop::collection::vec(operation(), 1..1200),
        places in prop::collection::vec((0i64..2100, -1i64..6), 2..30),
    ) {
        let (mut ledgers, mut model) = (Ledgers::new(), Model::default());
        for operation in &operations {
            prop_assert_eq!(model.apply(operation), apply(&mut ledgers, operation), "{:?}", operation);
        }
        ledgers.validate().unwrap();
        let places: Vec<_> = places.into_iter().map(|(id, entry)| Position::new(id, entry)).collect();
        agree(&ledgers, &model, &places);
        let again = Ledgers::from_entries(ledgers.iter().collect(), model.open, model.trimmed_before);
        prop_assert_eq!(Ok(ledgers), again, "equal however the blocks are cut");
    }
}

#[test]
fn every_order_of_growth_gives_the_same_directory() {
    let mut rising = Ledgers::new();
    (0..3000).for_each(|id| rising.grow(id, id % 7).unwrap());
    let mut falling = Ledgers::new();
    (0..3000).rev().for_each(|id| falling.grow(id, id % 7).unwrap());
    let mut mixed = Ledgers::new();
    (0..3000).for_each(|id| mixed.grow(id * 1663 % 3000, 0).unwrap());
    (0..3000).for_each(|id| mixed.grow(id * 1009 % 3000, id * 1009 % 3000 % 7).unwrap());
    for ledgers in [&falling, &mixed] {
        ledgers.validate().unwrap();
        assert_eq!(&rising, ledgers);
    }
}
