//! `BitSet`: a word at a time and a bit at a time.

use std::hint::black_box;

use ackwell_core::BitSet;
use criterion::Criterion;

use crate::cpu_time::{CpuTime, elements};

const BITS: usize = 50_000;

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    let mut set = BitSet::new();
    for bit in (0..BITS).step_by(3) {
        set.set(bit).expect("below the limit");
    }
    let mut group = criterion.benchmark_group("bit_set");
    let mut bit = 0;
    group.bench_function("set and clear", |bench| {
        bench.iter(|| {
            bit = (bit + 7_919) % BITS;
            black_box(set.set(bit)).expect("below the limit");
            black_box(set.clear(bit));
        });
    });
    group.throughput(elements(set.cardinality()));
    group.bench_function("iterate", |bench| bench.iter(|| black_box(set.iter().sum::<usize>())));
    group.bench_function("clear half as a prefix", |bench| {
        bench.iter_batched_ref(
            || set.clone(),
            |set| black_box(set.clear_prefix(BITS / 2).unwrap()),
            criterion::BatchSize::SmallInput,
        );
    });
    group.finish();
}
