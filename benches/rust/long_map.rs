//! `LongMap`: random keys, keys that are hard to hash, and a map whose keys are replaced.

use std::hint::black_box;

use ackwell_core::LongMap;
use criterion::Criterion;

use crate::cpu_time::CpuTime;
use crate::workloads::{long_keys, section};

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("long_map");
    for (kind, _) in section("long_map") {
        let keys = long_keys(&kind);
        let mut map: LongMap = keys.iter().map(|&key| (key, key)).collect();
        let mut next = keys.iter().cycle();
        group.bench_function(format!("get, {kind}"), |bench| {
            bench.iter(|| black_box(map.get(*next.next().expect("it cycles"))));
        });
        group.bench_function(format!("remove and insert, {kind}"), |bench| {
            bench.iter(|| {
                let key = *next.next().expect("it cycles");
                map.remove(key);
                map.insert(key, key);
            });
        });
    }
    group.finish();
}
