//! `Ledgers`: growing, and look-ups at random positions.

use ackwell_core::{Ledgers, Position};
use criterion::{BatchSize, Criterion};

use crate::cpu_time::{CpuTime, elements};
use crate::workloads::{mix, section};

const QUESTIONS: usize = 1000;

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    for (name, workload) in section("ledgers") {
        let number = |key: &str| workload[key].as_integer().expect("an integer");
        let (count, entries) = (number("ledgers"), number("entries"));
        let pairs = (0..count).map(|index| (index * 3, entries)).collect();
        let ledgers = Ledgers::from_entries(pairs, true, 0).unwrap();
        let mut state = 1;
        let mut below = |limit: i64| (mix(&mut state) >> 1) as i64 % limit;
        let mut place = || Position::new(below(count * 3), below(entries));
        let places: Vec<_> = (0..QUESTIONS).map(|_| (place(), place())).collect();

        let mut group = criterion.benchmark_group(format!("ledgers/{name}"));
        group.throughput(elements(QUESTIONS));
        group.bench_function("next_valid", |bench| {
            bench.iter(|| {
                let next = places.iter().filter_map(|(place, _)| ledgers.next_valid(*place));
                next.map(|next| next.entry_id).sum::<i64>()
            });
        });
        group.bench_function("entries_between", |bench| {
            bench.iter(|| {
                let between = places.iter();
                between.map(|(lower, upper)| ledgers.entries_between(*lower, *upper)).sum::<i64>()
            });
        });
        group.bench_function("grow any", |bench| {
            let (mut ledgers, mut entries) = (ledgers.clone(), entries);
            bench.iter(|| {
                entries += 1;
                for (place, _) in &places {
                    ledgers.grow(place.ledger_id / 3 * 3, entries).unwrap();
                }
            });
        });
        group.bench_function("grow the last", |bench| {
            let last = (count - 1) * 3;
            bench.iter_batched_ref(
                || ledgers.clone(),
                |ledgers| {
                    let more = 0..QUESTIONS as i64;
                    more.for_each(|more| ledgers.grow(last, entries + more).unwrap());
                },
                BatchSize::LargeInput,
            );
        });
        group.finish();
    }
}
