//! `CommandAck`: a command of a hundred positions.

use std::hint::black_box;

use ackwell_core::CommandAck;
use criterion::Criterion;

use crate::cpu_time::{CpuTime, elements};

const IDS: usize = 100;

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    let mut bytes = vec![8, 1, 16, 0];
    for entry in 0..IDS as u8 {
        bytes.extend([26, 5, 8, 200, 1, 16, entry]);
    }
    assert_eq!(IDS, CommandAck::decode(&bytes).expect("a command").ledger_ids.len());
    let mut group = criterion.benchmark_group("command_ack");
    group.throughput(elements(IDS));
    group.bench_function("decode", |bench| {
        bench.iter(|| black_box(CommandAck::decode(black_box(&bytes))).is_ok());
    });
    group.finish();
}
