//! The three indexes of delayed messages on `workloads.toml`; beside the peers they are measured by `benches/bars`.

use std::hint::black_box;

use ackwell_core::{
    Delayed, DelayedIndex, HoleHeap, Rounding, TimeBuckets, TimeWheel, TripleLongHeap,
};
use criterion::{BatchSize, Criterion};

use crate::cpu_time::{CpuTime, elements};
use crate::workloads::{mix, section};

/// A tenth of what the bars take.
const MESSAGES: i64 = 1_000_000;
const START_MS: i64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;
const WEEK_MS: u64 = 7 * 86_400_000;

type Columns = [Vec<i64>; 3];

fn names(key: &str) -> Vec<String> {
    let names = section("delayed")[key].as_array().expect("names").clone();
    names.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
}

/// Messages of ledgers of 50,000, each at a time of its own.
fn columns(messages: i64, time: impl FnMut(i64) -> i64) -> Columns {
    [
        (0..messages).map(time).collect(),
        (0..messages).map(|number| number / 50_000).collect(),
        (0..messages).map(|number| number % 50_000).collect(),
    ]
}

fn at_random(messages: i64, within: u64) -> Columns {
    let mut state = 42;
    columns(messages, |_| START_MS + (mix(&mut state) % within) as i64)
}

fn filled<I: DelayedIndex>(mut index: I, [times, ledgers, entries]: &Columns) -> I {
    index.add_many(times, ledgers, entries).expect("positions");
    index
}

/// Adding in one batch, and popping in batches of 1,000.
fn fill_and_drain<I: DelayedIndex + Clone>(
    criterion: &mut Criterion<CpuTime>,
    name: &str,
    make: impl Fn() -> I,
    columns: &Columns,
) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(elements(columns[0].len()));
    group.bench_function("add in a batch", |bench| {
        bench.iter(|| black_box(filled(make(), columns)));
    });
    let full = filled(make(), columns);
    group.bench_function("drain", |bench| {
        bench.iter_batched_ref(
            || full.clone(),
            |index| while !black_box(index.pop_due(i64::MAX, 1_000)).is_empty() {},
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    for name in names("heap") {
        let messages = at_random(name.parse().expect("a size"), HOUR_MS);
        fill_and_drain(criterion, &format!("triple_heap, {name}"), TripleLongHeap::new, &messages);
        let [times, ledgers, entries] = &messages;
        let mut group = criterion.benchmark_group(format!("triple_heap, {name}"));
        group.throughput(elements(times.len()));
        // What it is measured against: the plain binary heap.
        group.bench_function("add and pop all, hole heap", |bench| {
            bench.iter(|| {
                let mut heap = HoleHeap::default();
                for ((&time, &ledger), &entry) in times.iter().zip(ledgers).zip(entries) {
                    heap.push(Delayed::new(time, ledger, entry));
                }
                while let Some(message) = heap.pop() {
                    black_box(message);
                }
            });
        });
        group.finish();
    }
    for name in names("seed") {
        let (per_ms, bits) = name.split_once(',').expect("x,y");
        let (per_ms, bits): (i64, u32) = (per_ms.parse().expect("x"), bits.parse().expect("y"));
        let messages = columns(MESSAGES, |number| START_MS + number / per_ms);
        let buckets = || TimeBuckets::new(bits, Rounding::Down).expect("bits");
        fill_and_drain(criterion, &format!("time_buckets, {name}"), buckets, &messages);
        let wheel = || TimeWheel::new(1).expect("a tick");
        fill_and_drain(criterion, &format!("time_wheel, {name}"), wheel, &messages);
    }
    for name in names("scattered") {
        let tick = name.trim_start_matches("rand,").parse().expect("a tick");
        let wheel = || TimeWheel::new(tick).expect("a tick");
        let messages = at_random(MESSAGES, WEEK_MS);
        fill_and_drain(criterion, &format!("time_wheel, {name}"), wheel, &messages);
    }
}
