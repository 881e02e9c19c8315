//! The operations of `PendingAcks` and of a sorted map, for the model tests and the fuzz target.

use std::collections::BTreeMap;

use ackwell_core::{PendingAck, PendingAcks};

/// The content of a map, in a standard collection.
pub(crate) type Model = BTreeMap<(i64, i64), PendingAck>;

/// A call of `PendingAcks`; ledger first, entry second.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Add(i64, i64, PendingAck),
    AddRun(i64, i64, u16, PendingAck),
    AddMany(i64, i64, u16, PendingAck),
    Update(i64, i64, i64),
    Remove(i64, i64),
    RemoveRun(i64, i64, u16),
    Discard(i64, i64),
    DiscardMany(i64, i64, u16),
    RemoveIfValue(i64, i64, PendingAck),
    RemoveAllUpTo(i64, i64),
    TakeAllUpTo(i64, i64),
    /// Removes all up to a position; after some notifications, adds one entry and fails.
    TakeAndFail(i64, i64, u16, PendingAck),
    Clear,
}

impl Operation {
    /// Applies the operation to both and compares the results.
    pub(crate) fn apply(&self, acks: &mut PendingAcks, model: &mut Model) {
        match *self {
            Self::Add(ledger, entry, value) => {
                assert!(acks.add(ledger, entry, value));
                model.insert((ledger, entry), value);
            }
            Self::AddRun(ledger, first, length, value) => {
                for entry in run(first, length) {
                    acks.add(ledger, entry, value);
                    model.insert((ledger, entry), value);
                }
            }
            Self::AddMany(ledger, first, length, value) => {
                let values = (0..).map(|step| PendingAck {
                    sticky_key_hash: value.sticky_key_hash ^ (step % 3),
                    ..value
                });
                let entries = twice(first, length).zip(values).map(|(e, v)| (ledger, e, v));
                assert_eq!(entries.clone().count(), acks.add_many(entries.clone()));
                model.extend(entries.map(|(ledger, entry, value)| ((ledger, entry), value)));
            }
            Self::Update(ledger, entry, acked) => {
                let expected = model.get_mut(&(ledger, entry)).is_some_and(|value| {
                    let left = i64::from(value.remaining).checked_sub(acked);
                    let left = left.and_then(|left| i32::try_from(left).ok()).filter(|&l| l >= 0);
                    left.inspect(|&left| value.remaining = left).is_some()
                });
                assert_eq!(expected, acks.update_remaining(ledger, entry, acked));
            }
            Self::Remove(ledger, entry) => {
                assert_eq!(model.remove(&(ledger, entry)), acks.remove(ledger, entry));
            }
            Self::RemoveRun(ledger, first, length) => {
                for entry in run(first, length) {
                    assert_eq!(model.remove(&(ledger, entry)), acks.remove(ledger, entry));
                }
            }
            Self::Discard(ledger, entry) => {
                assert_eq!(model.remove(&(ledger, entry)).is_some(), acks.discard(ledger, entry));
            }
            Self::DiscardMany(ledger, first, length) => {
                let positions = twice(first, length).map(|entry| (ledger, entry));
                let gone = positions.clone().filter(|at| model.remove(at).is_some()).count();
                assert_eq!(gone, acks.remove_many(positions));
            }
            Self::RemoveIfValue(ledger, entry, value) => {
                let expected = model.get(&(ledger, entry)) == Some(&value);
                if expected {
                    model.remove(&(ledger, entry));
                }
                assert_eq!(expected, acks.remove_if_value(ledger, entry, value));
            }
            Self::RemoveAllUpTo(ledger, entry) => {
                let kept = split_off_after(model, (ledger, entry));
                assert_eq!(model.len(), acks.remove_all_up_to(ledger, entry));
                *model = kept;
            }
            Self::TakeAllUpTo(ledger, entry) => {
                let kept = split_off_after(model, (ledger, entry));
                let mut removal = acks.take_up_to(ledger, entry);
                let told = removal.notify_each(|_, _, _| Ok::<_, ()>(()));
                let taken = removal.finish(acks, told).unwrap();
                let taken =
                    taken.into_iter().map(|(ledger, entry, value)| ((ledger, entry), value));
                assert!(model.clone().into_iter().eq(taken));
                *model = kept;
            }
            Self::TakeAndFail(ledger, entry, notified, value) => {
                let kept = split_off_after(model, (ledger, entry));
                let mut left = usize::from(notified);
                let mut removal = acks.take_up_to(ledger, entry);
                let failed: Result<(), ()> = removal.notify_each(|_, _, _| {
                    left = left.checked_sub(1).ok_or(())?;
                    Ok(())
                });
                assert!(acks.add(ledger, entry, value));
                assert_eq!(failed.is_err(), removal.finish(acks, failed).is_err());
                let mut remaining: Model =
                    std::mem::take(model).into_iter().skip(notified.into()).collect();
                remaining.insert((ledger, entry), value);
                *model = kept;
                model.extend(remaining);
            }
            Self::Clear => {
                acks.clear();
                model.clear();
            }
        }
    }
}

fn run(first: i64, length: u16) -> impl Iterator<Item = i64> + Clone {
    (0..i64::from(length)).filter_map(move |step| first.checked_add(step))
}

/// A batch that leaves its page, returns to it, and contains some entries twice.
fn twice(first: i64, length: u16) -> impl Iterator<Item = i64> + Clone {
    run(first, length).chain(run(first, length).step_by(3))
}

/// Splits `model` at the position `at`: keeps the entries up to it and returns the rest.
fn split_off_after(model: &mut Model, at: (i64, i64)) -> Model {
    let mut kept = model.split_off(&at);
    if let Some(value) = kept.remove(&at) {
        model.insert(at, value);
    }
    kept
}
