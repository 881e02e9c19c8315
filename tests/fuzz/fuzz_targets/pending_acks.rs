//! `PendingAcks`: any sequence of operations has the same effect as on a sorted map, in every form of a ledger.
#![no_main]

#[path = "../../rust/pending_acks/operation.rs"]
mod operation;

use ackwell_core::{PendingAck, PendingAcks};
use libfuzzer_sys::fuzz_target;
use operation::{Model, Operation};

/// Enough for every switch of form; the invariants are checked after each.
const OPERATIONS_MAX: usize = 64;

/// Eight bytes an operation: kind, ledger, entry (two bytes and their spread), value, length.
fn operation(bytes: &[u8; 8]) -> Operation {
    let [kind, ledger, low, high, spread, remaining, hash, length] = *bytes;
    let within = i64::from(u16::from_le_bytes([low, high]));
    let entry = match spread % 6 {
        0..3 => within % 512,
        3 => within - 300,
        4 => within << (spread % 40),
        _ => i64::MAX - within,
    };
    let ledger = i64::from(ledger % 3);
    let value = PendingAck {
        remaining: i32::from(remaining) << (spread % 24),
        sticky_key_hash: i32::from(hash as i8).wrapping_shl(u32::from(spread % 25)),
    };
    match kind % 13 {
        0 | 1 => Operation::Add(ledger, entry, value),
        2 => Operation::AddRun(ledger, entry, u16::from(length), value),
        3 => Operation::Update(ledger, entry, i64::from(length as i8)),
        4 => Operation::Remove(ledger, entry),
        5 => Operation::RemoveRun(ledger, entry, u16::from(length)),
        6 => Operation::RemoveIfValue(ledger, entry, value),
        7 => Operation::RemoveAllUpTo(ledger, entry),
        8 => Operation::TakeAllUpTo(ledger, entry),
        9 => Operation::AddMany(ledger, entry, u16::from(length), value),
        10 => Operation::Discard(ledger, entry),
        11 => Operation::DiscardMany(ledger, entry, u16::from(length)),
        _ => Operation::TakeAndFail(ledger, entry, u16::from(length), value),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (mut acks, mut model) = (PendingAcks::new(), Model::new());
    for bytes in bytes.as_chunks().0.iter().take(OPERATIONS_MAX) {
        operation(bytes).apply(&mut acks, &mut model);
        acks.validate().unwrap();
        assert_eq!(model.len(), acks.len());
    }
    let mut entries = model.into_iter();
    acks.for_each(|ledger, entry, value| {
        assert_eq!(Some(((ledger, entry), value)), entries.next())
    });
    assert_eq!(None, entries.next());
});
