//! `PositionRangeSet` on the operations that the peers' `DMain` times, with the same names.

use std::hint::black_box;

use ackwell_core::PositionRangeSet;

use crate::range_acks;
use crate::window::once_each;

pub(crate) fn measure(name: &str) {
    let (acks, probes) = range_acks::named(name);
    let batch = || {
        let mut set = PositionRangeSet::new();
        set.add_many(&acks.ledger_ids, &acks.entry_ids).expect("positions that can be");
        set
    };
    let set = batch();
    let bytes = set.heap_bytes() as f64 / set.len() as f64;
    line(name, "bytesPerRange", 1, &[bytes]);
    let time = |operation: &str, per: usize, work: &mut dyn FnMut()| {
        line(name, operation, per, &once_each(|| (), |()| work()));
    };
    time("addOpenClosed", acks.len(), &mut || _ = black_box(batch()));
    time("addOneByOne", acks.len(), &mut || {
        let mut set = PositionRangeSet::new();
        acks.iter().for_each(|(ledger, entry)| _ = black_box(set.add(ledger, entry)));
    });
    time("containsRandom", probes.len(), &mut || {
        _ = black_box(set.contains_many(&probes.ledger_ids, &probes.entry_ids));
    });
    time("containsOneByOne", probes.len(), &mut || {
        let found = probes.iter().filter(|(ledger, entry)| set.contains(*ledger, *entry));
        black_box(found.count());
    });
    time("forEachRawRange", set.len(), &mut || {
        black_box(set.ranges().map(|range| range.upper_entry_inclusive).sum::<i64>());
    });
    let removed = once_each(batch, |set| _ = black_box(set.remove_up_to(110, 25_001)));
    line(name, "removeUpTo", 1, &removed);
    time("firstRange", 1, &mut || _ = black_box(set.first_range()));
}

/// Prints the figures of one operation. Each figure is the time of `per` operations, and is divided by `per`.
fn line(name: &str, operation: &str, per: usize, figures: &[f64]) {
    let figures: Vec<_> =
        figures.iter().map(|figure| format!("{:.4}", figure / per as f64)).collect();
    println!(r#"{{"pattern":"{name}","op":"{operation}","values":[{}]}}"#, figures.join(","));
}
