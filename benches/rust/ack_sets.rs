//! `AckSets`: acknowledging parts of batches in order and in a scattered order, and operations on all sets.

use std::hint::black_box;

use ackwell_core::{AckSets, Position};
use criterion::{BatchSize, Criterion};

use crate::cpu_time::{CpuTime, elements};

const SETS: i64 = 200_000;

fn filled() -> AckSets {
    (0..SETS).map(|entry_id| (Position::new(3, 2 * entry_id), [0b11_1101_1011])).collect()
}

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    let sets = filled();
    let mut group = criterion.benchmark_group("ack_sets");
    let mut changing = sets.clone();
    let mut entry_id = 0;
    group.bench_function("intersect scattered", |bench| {
        bench.iter(|| {
            entry_id = (entry_id + 2 * 7_919) % (2 * SETS);
            black_box(changing.intersect(Position::new(3, entry_id), &[0b11_1101_0011]))
        });
    });
    group.bench_function("get scattered", |bench| {
        bench.iter(|| {
            entry_id = (entry_id + 2 * 7_919) % (2 * SETS);
            black_box(sets.get(Position::new(3, entry_id)))
        });
    });
    group.throughput(elements(SETS as usize));
    group.bench_function("insert in order", |bench| bench.iter(|| black_box(filled().len())));
    group.bench_function("insert scattered", |bench| {
        bench.iter(|| {
            let entry_ids = (0..SETS).map(|at| at * 7_919 % SETS);
            let sets = entry_ids.map(|entry_id| (Position::new(3, entry_id), [0b11_1101_1011]));
            black_box(sets.collect::<AckSets>().len())
        });
    });
    group.bench_function("iterate", |bench| {
        bench.iter(|| black_box(sets.iter().map(|(_, set)| set.message_count()).sum::<u64>()));
    });
    group.bench_function("remove up to", |bench| {
        bench.iter_batched_ref(
            || sets.clone(),
            |sets| black_box(sets.remove_up_to(Position::new(3, SETS))),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}
