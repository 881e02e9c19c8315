//! `Partials`: folding rows of few and of many subscriptions.

use ackwell_core::Partials;
use ackwell_core::partials::{Action, Codes, Rows};
use criterion::Criterion;

use crate::cpu_time::{CpuTime, elements};
use crate::workloads::mix;

const ROWS: usize = 1_000_000;

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("partials");
    group.throughput(elements(ROWS));
    for subscriptions in [200, 20_000] {
        let mut state = 42;
        let topics: Vec<i32> =
            (0..ROWS).map(|_| (mix(&mut state) % subscriptions as u64) as i32).collect();
        let numbers: Vec<i32> = (0..subscriptions).collect();
        let zeros = vec![0; ROWS];
        let ledger_ids = vec![7; ROWS];
        let entry_ids: Vec<i64> =
            (0..ROWS as i64).map(|row| row / i64::from(subscriptions)).collect();
        let rows = Rows {
            topics: Codes { codes: Some(&topics), numbers: &numbers },
            subscriptions: Codes { codes: Some(&zeros), numbers: &[1] },
            kinds: Codes { codes: Some(&zeros), numbers: &[Action::Ack as i32] },
            ledger_ids: &ledger_ids,
            entry_ids: &entry_ids,
            ..Rows::default()
        };
        group.bench_function(format!("acks of {subscriptions} subscriptions"), |bench| {
            bench.iter(|| Partials::new(false, true, 1 << 20).feed(&rows));
        });
    }
    group.finish();
}
