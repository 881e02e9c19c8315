//! `AckSets` on the workloads of the peers' `EMain`, with the same names.

use std::hint::black_box;

use ackwell_core::position_info::RESULT_BYTES_MAX;
use ackwell_core::{AckSets, Form, Position, PositionInfo};

use crate::window::{once_each, print};

/// Returns the entry ids in the order of their acknowledgments, and the number of messages in each batch.
fn workload(name: &str) -> (Vec<i64>, usize) {
    let (count, messages) = if name == "large" { (20_000, 1_000) } else { (200_000, 10) };
    let mut entry_ids: Vec<i64> = (0..count).map(|at| 1 + 2 * at).collect();
    if name == "scattered" {
        entry_ids = shuffled(&entry_ids);
    }
    (entry_ids, messages)
}

/// Returns the same ids in another order. The step of 7,919 visits each id once, because it is coprime to each length.
fn shuffled(entry_ids: &[i64]) -> Vec<i64> {
    let len = entry_ids.len();
    (0..len).map(|at| entry_ids[at * 7_919 % len]).collect()
}

/// Returns the words of an ack set in which all messages of a batch but one are unacknowledged.
fn without(message: usize, messages: usize) -> Vec<i64> {
    let mut words = vec![0; messages.div_ceil(64)];
    for at in (0..messages).filter(|at| *at != message) {
        words[at / 64] |= 1 << (at % 64);
    }
    words
}

fn ack(sets: &mut AckSets, entry_ids: &[i64], words: &[i64]) {
    for entry_id in entry_ids {
        black_box(sets.intersect(Position::new(3, *entry_id), words));
    }
}

pub(crate) fn measure(name: &str) {
    let (entry_ids, messages) = workload(name);
    let (first, second) = (without(0, messages), without(messages / 2, messages));
    let filled = || {
        let mut sets = AckSets::new();
        ack(&mut sets, &entry_ids, &first);
        sets
    };
    let per_entry = |operation: &str, figures: Vec<f64>| {
        let figures: Vec<f64> =
            figures.iter().map(|figure| figure / entry_ids.len() as f64).collect();
        print(name, operation, &figures);
    };
    per_entry("ackFirst", once_each(AckSets::new, |sets| ack(sets, &entry_ids, &first)));
    per_entry("ackSecond", once_each(filled, |sets| ack(sets, &entry_ids, &second)));
    let mut info = PositionInfo::new(Position::new(3, -1));
    info.batch_deleted = filled();
    let sets = &info.batch_deleted;
    let bytes = sets.heap_bytes() as f64 / sets.len() as f64;
    println!(r#"{{"dataset":"{name}","bytesPerEntry":{bytes:.2}}}"#);
    let probes = shuffled(&entry_ids);
    let get = || {
        let found = probes.iter().filter_map(|entry_id| sets.get(Position::new(3, *entry_id)));
        black_box(found.map(|set| set.words().fold(0, |all, word| all ^ word)).sum::<i64>());
    };
    per_entry("get", once_each(|| (), |()| get()));
    let walk = || _ = black_box(sets.iter().map(|(_, set)| set.message_count()).sum::<u64>());
    per_entry("walk", once_each(|| (), |()| walk()));
    let encode = || info.encode(Form::PulsarRanges).expect("a state that every form holds");
    per_entry("encode", once_each(|| (), |()| _ = black_box(encode())));
    let bytes = encode();
    let decode = || PositionInfo::decode(&bytes, RESULT_BYTES_MAX).expect("own bytes").0;
    per_entry("decode", once_each(|| (), |()| _ = black_box(decode())));
    assert!(decode().batch_deleted == *sets, "decoded other sets");
    let middle = Position::new(3, entry_ids.len() as i64);
    per_entry("removeUpTo", once_each(filled, |sets| _ = black_box(sets.remove_up_to(middle))));
}
