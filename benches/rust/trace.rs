//! `TraceReader`: JSON lines into columns.

use ackwell_core::trace::TraceReader;
use criterion::Criterion;

use crate::cpu_time::{CpuTime, elements};

const LINES: usize = 10_000;

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    let lines: String = (0..LINES)
        .map(|entry| {
            format!(
                "{{\"t\":1760000000123,\"ev\":\"ack\",\"c\":\"consumer-1\",\"topic\":\"persistent://a/b/topic\",\
                 \"sub\":\"subscription\",\"l\":3,\"e\":{entry}}}\n"
            )
        })
        .collect();
    let mut group = criterion.benchmark_group("trace");
    group.throughput(elements(LINES));
    group.bench_function("lines", |bench| {
        bench.iter(|| {
            TraceReader::new(vec![("ack".into(), false, false)]).read(lines.as_bytes(), 1)
        });
    });
    group.finish();
}
