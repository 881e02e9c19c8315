//! Code shared by the benches of the three indexes of delayed messages; `benches/bars` compares them with the peers.

use std::hint::black_box;

use ackwell_core::DelayedIndex;
use criterion::{BatchSize, Criterion};

use crate::cpu_time::{CpuTime, elements};
use crate::workloads::{mix, section};

/// The number of messages: a tenth of the number in `benches/bars`.
pub(crate) const MESSAGES: i64 = 1_000_000;
const START_MS: i64 = 1_700_000_000_000;
pub(crate) const HOUR_MS: u64 = 3_600_000;
pub(crate) const WEEK_MS: u64 = 7 * 86_400_000;

pub(crate) type Columns = [Vec<i64>; 3];

pub(crate) fn names(key: &str) -> Vec<String> {
    let names = section("delayed")[key].as_array().expect("names").clone();
    names.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
}

/// Returns the columns of messages in ledgers of 50,000 entries. `time` returns the time of each message.
fn columns(messages: i64, time: impl FnMut(i64) -> i64) -> Columns {
    [
        (0..messages).map(time).collect(),
        (0..messages).map(|number| number / 50_000).collect(),
        (0..messages).map(|number| number % 50_000).collect(),
    ]
}

pub(crate) fn at_random(messages: i64, within: u64) -> Columns {
    let mut state = 42;
    columns(messages, |_| START_MS + (mix(&mut state) % within) as i64)
}

/// Returns the workloads "x,y" (x messages per ms, y bits cut off): the name, the bits and the columns of each.
pub(crate) fn steady() -> impl Iterator<Item = (String, u32, Columns)> {
    names("seed").into_iter().map(|name| {
        let (per_ms, bits) = name.split_once(',').expect("x,y");
        let (per_ms, bits): (i64, u32) = (per_ms.parse().expect("x"), bits.parse().expect("y"));
        (name, bits, columns(MESSAGES, |number| START_MS + number / per_ms))
    })
}

fn filled<I: DelayedIndex>(mut index: I, [times, ledgers, entries]: &Columns) -> I {
    index.add_many(times, ledgers, entries).expect("positions");
    index
}

/// Measures adding all messages in one batch, and popping them in batches of 1,000.
pub(crate) fn fill_and_drain<I: DelayedIndex + Clone>(
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
            |index| while !black_box(index.pop_due(i64::MAX, 1_000).unwrap()).is_empty() {},
            BatchSize::LargeInput,
        );
    });
    group.finish();
}
