//! `PendingAcks` on every shape of `workloads.toml`; `benches/bars` compares it with the peers.

use std::hint::black_box;

use ackwell_core::PendingAcks;
use criterion::{BatchSize, Criterion};

use crate::cpu_time::{CpuTime, elements};
use crate::workloads::Acks;

const SHAPES: [&str; 4] = ["1x50000", "equal", "tenth", "scattered"];

fn populate(workload: &Acks) -> PendingAcks {
    let mut acks = PendingAcks::new();
    let positions = workload.positions.iter();
    acks.add_many(positions.zip(&workload.values).map(|(&(l, e), &value)| (l, e, value)));
    acks
}

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    for shape in SHAPES {
        let workload = Acks::named(shape);
        let order = workload.shuffled();
        let mut acks = populate(&workload);
        let mut group = criterion.benchmark_group(format!("pending_acks, {shape}"));
        let mut next = order.iter().map(|&i| workload.positions[i]).cycle();
        let mut key = || next.next().expect("it cycles");
        group.bench_function("get at random", |bench| {
            bench.iter(|| {
                let (ledger, entry) = key();
                black_box(acks.get(ledger, entry))
            });
        });
        group.bench_function("remove and add at random", |bench| {
            bench.iter(|| {
                let (ledger, entry) = key();
                let value = acks.remove(ledger, entry).expect("it is pending");
                acks.add(ledger, entry, value);
            });
        });
        group.throughput(elements(acks.len()));
        group.bench_function("populate", |bench| bench.iter(|| black_box(populate(&workload))));
        group.bench_function("for each", |bench| {
            bench.iter(|| {
                let mut total = 0_i64;
                acks.for_each(|_, entry, value| total += entry + i64::from(value.remaining));
                black_box(total)
            });
        });
        let (ledger, entry) = workload.positions[workload.positions.len() / 2];
        group.bench_function("remove half as a prefix", |bench| {
            bench.iter_batched_ref(
                || acks.clone(),
                |acks| black_box(acks.remove_all_up_to(ledger, entry)),
                BatchSize::LargeInput,
            );
        });
        group.finish();
    }
}
