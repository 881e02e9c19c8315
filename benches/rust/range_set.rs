//! `PositionRangeSet`: acknowledging one by one and in batches, look-ups, walks, bytes and text.

use std::hint::black_box;

use ackwell_core::PositionRangeSet;
use criterion::{BatchSize, Criterion};

use crate::cpu_time::{CpuTime, elements};
use crate::range_acks;
use crate::workloads::section;

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    for (name, workload) in section("range_set") {
        let ledgers = workload["ledgers"].as_integer().expect("an integer");
        let (acks, probes) = range_acks::named(&name);
        let mut set = PositionRangeSet::new();
        set.add_many(&acks.ledger_ids, &acks.entry_ids).unwrap();
        println!(
            "range_set/{name}: {} positions, {} ranges, {} B: {:.3} B a range, {:.0} B a ledger",
            set.cardinality(),
            set.len(),
            set.heap_bytes(),
            set.heap_bytes() as f64 / set.len() as f64,
            set.heap_bytes() as f64 / ledgers as f64,
        );

        let mut group = criterion.benchmark_group(format!("range_set/{name}"));
        group.sample_size(10);
        group.throughput(elements(acks.len()));
        group.bench_function("add", |bench| {
            bench.iter_with_large_drop(|| {
                let mut set = PositionRangeSet::new();
                acks.iter().for_each(|(ledger, entry)| drop(set.add(ledger, entry)));
                set
            });
        });
        group.bench_function("add_many", |bench| {
            bench.iter_with_large_drop(|| {
                let mut set = PositionRangeSet::new();
                set.add_many(&acks.ledger_ids, &acks.entry_ids).unwrap();
                set
            });
        });
        group.throughput(elements(probes.len()));
        group.bench_function("contains", |bench| {
            bench.iter(|| {
                probes.iter().filter(|(ledger, entry)| set.contains(*ledger, *entry)).count()
            });
        });
        group.bench_function("contains_many", |bench| {
            bench.iter(|| set.contains_many(&probes.ledger_ids, &probes.entry_ids));
        });
        group.throughput(elements(set.len()));
        group.bench_function("ranges", |bench| {
            bench.iter(|| set.ranges().map(|range| range.upper_entry_inclusive).sum::<i64>());
        });
        group.bench_function("add_ranges", |bench| {
            let columns: Vec<_> = set.ranges().collect();
            let ids: Vec<_> = columns.iter().map(|range| range.ledger_id).collect();
            let lowers: Vec<_> = columns.iter().map(|range| range.lower_entry_exclusive).collect();
            let uppers: Vec<_> = columns.iter().map(|range| range.upper_entry_inclusive).collect();
            bench.iter_with_large_drop(|| {
                let mut set = PositionRangeSet::new();
                set.add_ranges(&ids, &lowers, &uppers).unwrap();
                set
            });
        });
        group.bench_function("copy", |bench| bench.iter_with_large_drop(|| set.clone()));
        group.bench_function("union", |bench| {
            bench.iter_batched_ref(
                || set.clone(),
                |other| other.union_with(black_box(&set)),
                BatchSize::LargeInput,
            );
        });
        group.bench_function("first_range", |bench| bench.iter(|| set.first_range()));
        group.bench_function("print", |bench| bench.iter_with_large_drop(|| set.to_string()));
        let text = set.to_string();
        group.bench_function("parse", |bench| {
            bench.iter_with_large_drop(|| PositionRangeSet::parse(&text).unwrap());
        });
        let bytes = set.to_bytes();
        group.bench_function("to_bytes", |bench| bench.iter_with_large_drop(|| set.to_bytes()));
        group.bench_function("from_bytes", |bench| {
            bench.iter_with_large_drop(|| PositionRangeSet::from_bytes(&bytes).unwrap());
        });
        group.bench_function("remove_up_to_each", |bench| {
            let mut walk: Vec<_> = acks.iter().collect();
            walk.sort_unstable();
            bench.iter_batched_ref(
                || set.clone(),
                |set| {
                    let walk = walk.iter().step_by(16);
                    walk.map(|(ledger, entry)| set.remove_up_to(*ledger, *entry)).sum::<u128>()
                },
                BatchSize::LargeInput,
            );
        });
        group.finish();
    }
}
