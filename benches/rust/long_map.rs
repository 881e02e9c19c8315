//! `LongMap`: random keys beside those a hash may stumble over, and a map in steady state.

use std::hint::black_box;

use ackwell_core::LongMap;
use criterion::Criterion;

use crate::cpu_time::CpuTime;
use crate::workloads::mix;

const ENTRIES: usize = 50_000;

fn keys(kind: &str) -> Vec<i64> {
    let mut state = 42;
    let key = |i: i64| match kind {
        "random" => mix(&mut state) as i64,
        "consecutive" => i,
        "multiples of 2^16" => i << 16,
        "multiples of 2^47" => i << 47,
        "equal low bits" => i << 32 | 0x5555_5555,
        _ => unreachable!("the kinds below"),
    };
    (0..ENTRIES as i64).map(key).collect()
}

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("long_map");
    for kind in
        ["random", "consecutive", "multiples of 2^16", "multiples of 2^47", "equal low bits"]
    {
        let keys = keys(kind);
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
