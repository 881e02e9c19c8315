//! `Grouping`: finding the places of rows, and moving a column to them.

use ackwell_core::group::Grouping;
use criterion::Criterion;

use crate::cpu_time::{CpuTime, elements};
use crate::workloads::mix;

const ROWS: usize = 1_000_000;
const CODES: u64 = 1_000;

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    let mut state = 42;
    let codes: Vec<i32> = (0..ROWS).map(|_| (mix(&mut state) % CODES) as i32).collect();
    let column: Vec<i64> = (0..ROWS as i64).collect();
    let mut moved = vec![0; ROWS];
    let mut group = criterion.benchmark_group("group");
    group.throughput(elements(ROWS));
    group.bench_function("places", |bench| bench.iter(|| Grouping::new(&codes, CODES as usize)));
    let grouping = Grouping::new(&codes, CODES as usize).expect("codes below the width");
    group.bench_function("move a column", |bench| {
        bench.iter(|| grouping.move_rows(0, &column, &mut moved));
    });
    group.finish();
}
