//! `TripleLongHeap`: adding and popping, compared with a plain binary heap.

use std::hint::black_box;

use ackwell_core::{DelayedMessage, HoleHeap, TripleLongHeap};
use criterion::Criterion;

use crate::cpu_time::{CpuTime, elements};
use crate::delayed::{HOUR_MS, at_random, fill_and_drain, names};

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    for name in names("heap") {
        let messages = at_random(name.parse().expect("a size"), HOUR_MS);
        fill_and_drain(criterion, &format!("triple_heap, {name}"), TripleLongHeap::new, &messages);
        let [times, ledgers, entries] = &messages;
        let mut group = criterion.benchmark_group(format!("triple_heap, {name}"));
        group.throughput(elements(times.len()));
        group.bench_function("add and pop all, hole heap", |bench| {
            bench.iter(|| {
                let mut heap = HoleHeap::default();
                for ((&time, &ledger), &entry) in times.iter().zip(ledgers).zip(entries) {
                    heap.push(DelayedMessage::new(time, ledger, entry));
                }
                while let Some(message) = heap.pop() {
                    black_box(message);
                }
            });
        });
        group.finish();
    }
}
