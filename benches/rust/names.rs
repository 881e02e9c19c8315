//! `Names`: numbering texts that repeat some thousand names in a mixed order.

use ackwell_core::Names;
use criterion::Criterion;

use crate::cpu_time::{CpuTime, elements};

const TEXTS: usize = 100_000;

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    let mut bytes = String::new();
    let mut offsets = vec![0];
    for text in 0..TEXTS {
        bytes += &format!("persistent://a/b/topic-{:05}", text * 7_919 % 20_000);
        offsets.push(bytes.len() as i32);
    }
    let mut group = criterion.benchmark_group("names");
    group.throughput(elements(TEXTS));
    group.bench_function("number_many", |bench| {
        bench.iter(|| Names::default().number_many(&offsets, bytes.as_bytes()));
    });
    group.finish();
}
