//! `TimeBuckets`: adding and popping messages of a steady rate.

use ackwell_core::{Rounding, TimeBuckets};
use criterion::Criterion;

use crate::cpu_time::CpuTime;
use crate::delayed::{fill_and_drain, steady};

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    for (name, bits, messages) in steady() {
        let buckets = || TimeBuckets::new(bits, Rounding::Down).expect("bits");
        fill_and_drain(criterion, &format!("time_buckets, {name}"), buckets, &messages);
    }
}
