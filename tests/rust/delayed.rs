//! One model for the three indexes of delayed messages: a sorted multiset of rounded messages.

use std::collections::BTreeMap;

use ackwell_core::{DelayedIndex, DelayedMessage};
use proptest::prelude::*;

/// What can be done to an index.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Add(DelayedMessage),
    AddMany(Vec<DelayedMessage>),
    PopDue { now_ms: i64, max: usize },
    Contains(DelayedMessage),
    Remove(DelayedMessage),
    Clear,
    Shrink,
}

/// Times cluster, collide and reach the ends of i64; positions repeat and come in runs.
pub(crate) fn time() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => 0..200i64,
        4 => 0..100_000i64,
        1 => any::<i64>(),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(-1), Just(i64::MAX - 1)],
    ]
}

pub(crate) fn id() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0..6i64, 4 => 0..5_000i64, 1 => (1i64 << 32) - 2..(1i64 << 32) + 2, 1 => i64::MAX - 2..=i64::MAX]
}

fn message() -> impl Strategy<Value = DelayedMessage> {
    (time(), id(), id()).prop_map(|(time, ledger, entry)| DelayedMessage::new(time, ledger, entry))
}

/// Runs of entries whose time steps on every `per_time` messages, as a producer with a fixed delay makes them.
fn run() -> impl Strategy<Value = Vec<DelayedMessage>> {
    (time(), 0..3i64, 0..3_000i64, 1..6i64, 1..400i64, 0..3i64).prop_map(
        |(time, ledger, entry, per_time, length, step)| {
            (0..length)
                .map(|index| {
                    let time = time.saturating_add(index / per_time * step);
                    DelayedMessage::new(time, ledger, entry + index)
                })
                .collect()
        },
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => message().prop_map(Operation::Add),
        4 => run().prop_map(Operation::AddMany),
        2 => prop::collection::vec(message(), 0..600).prop_map(Operation::AddMany),
        3 => (time(), prop_oneof![0..5usize, Just(100), Just(100_000)])
            .prop_map(|(now_ms, max)| Operation::PopDue { now_ms, max }),
        2 => message().prop_map(Operation::Contains),
        3 => message().prop_map(Operation::Remove),
        1 => Just(Operation::Clear),
        1 => Just(Operation::Shrink),
    ]
}

pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(operation(), 1..40)
}

/// Applies the operations to the index and to the model and compares after each.
pub(crate) fn agrees_with_the_model(
    mut index: impl DelayedIndex,
    operations: Vec<Operation>,
    rounded: impl Fn(i64) -> i64,
    counts_duplicates: bool,
) {
    let mut model: BTreeMap<DelayedMessage, usize> = BTreeMap::new();
    let key =
        |m: DelayedMessage| DelayedMessage::new(rounded(m.deliver_at_ms), m.ledger_id, m.entry_id);
    let mut seen: Vec<DelayedMessage> = Vec::new();
    for operation in operations {
        let add = |model: &mut BTreeMap<DelayedMessage, usize>, message| {
            let count = model.entry(key(message)).or_default();
            let new = counts_duplicates || *count == 0;
            *count += usize::from(new);
            new
        };
        // Half of the probes are for messages that were added.
        let probe = |message: DelayedMessage| match seen.len() {
            0 => message,
            length if message.entry_id % 2 == 0 => seen[message.entry_id as usize % length],
            _ => message,
        };
        match operation {
            Operation::Add(message) => {
                seen.push(message);
                assert_eq!(Ok(add(&mut model, message)), index.add(message));
            }
            Operation::AddMany(messages) => {
                seen.extend(messages.iter().step_by(7));
                let new = messages.iter().filter(|&&message| add(&mut model, message)).count();
                let column =
                    |of: fn(&DelayedMessage) -> i64| messages.iter().map(of).collect::<Vec<_>>();
                let times = column(|m| m.deliver_at_ms);
                let (ledgers, entries) = (column(|m| m.ledger_id), column(|m| m.entry_id));
                assert_eq!(Ok(new), index.add_many(&times, &ledgers, &entries));
            }
            Operation::PopDue { now_ms, max } => {
                let mut expected = Vec::new();
                while expected.len() < max
                    && let Some(mut entry) = model.first_entry()
                    && entry.key().deliver_at_ms <= now_ms
                {
                    expected.push(*entry.key());
                    *entry.get_mut() -= 1;
                    if *entry.get() == 0 {
                        entry.remove();
                    }
                }
                assert_eq!(
                    expected,
                    index.pop_due(now_ms, max).unwrap().iter().collect::<Vec<_>>()
                );
            }
            Operation::Contains(message) => {
                let message = probe(message);
                assert_eq!(model.contains_key(&key(message)), index.contains(message));
            }
            Operation::Remove(message) => {
                let message = probe(message);
                let held = model.get_mut(&key(message));
                assert_eq!(held.is_some(), index.remove(message), "{message:?}");
                if let Some(count) = held {
                    *count -= 1;
                    if *count == 0 {
                        model.remove(&key(message));
                    }
                }
            }
            Operation::Clear => {
                model.clear();
                index.clear();
                assert_eq!(0, index.heap_bytes());
            }
            Operation::Shrink => index.shrink_to_fit(),
        }
        assert_eq!(Ok(()), index.validate());
        assert_eq!(model.values().sum::<usize>(), index.len());
        assert_eq!(model.keys().next().map(|message| message.deliver_at_ms), index.next_due());
    }
    let all: Vec<_> =
        model.iter().flat_map(|(&message, &count)| std::iter::repeat_n(message, count)).collect();
    assert_eq!(all, index.to_columns().unwrap().iter().collect::<Vec<_>>());
}
