//! `PositionInfo`: encoding and decoding the states of the workloads of section `range_set`, in each form.

use ackwell_core::position_info::RESULT_BYTES_MAX;
use ackwell_core::{Form, Position, PositionInfo};
use criterion::Criterion;

use crate::cpu_time::{CpuTime, elements};
use crate::range_acks;
use crate::workloads::section;

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    for (name, _) in section("range_set") {
        let (acks, _) = range_acks::named(&name);
        let mut info = PositionInfo::new(Position::new(100, -1));
        info.individually_deleted.add_many(&acks.ledger_ids, &acks.entry_ids).unwrap();
        let mut group = criterion.benchmark_group(format!("position_info/{name}"));
        group.sample_size(10);
        group.throughput(elements(info.individually_deleted.len()));
        for form in Form::ALL {
            let bytes = info.encode(form).unwrap();
            println!("position_info/{name}: {} B as {form}", bytes.len());
            group.bench_function(format!("encode {form}"), |bench| {
                bench.iter_with_large_drop(|| info.encode(form).unwrap());
            });
            group.bench_function(format!("decode {form}"), |bench| {
                bench.iter_with_large_drop(|| {
                    PositionInfo::decode(&bytes, RESULT_BYTES_MAX).unwrap()
                });
            });
        }
        group.finish();
    }
}
