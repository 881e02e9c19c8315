//! The three indexes of delayed messages on the operations that the peers' `BMain` and `CMain` time, with the same
//! names.
//!
//! A workload of the heap is its size. A workload of the other two is "x,y" (x messages per ms, y bits cut off) or
//! "rand,tick" (random times over seven days). Random times are drawn before the measurement (`rngOnly` is 0).

use std::hint::black_box;

use ackwell_core::{
    DelayedIndex, DelayedMessage, HoleHeap, Rounding, TimeBuckets, TimeWheel, TripleLongHeap,
};
use cpu_time::ThreadTime;

use crate::window::print;

const MESSAGES: i64 = 10_000_000;
const ENTRIES_PER_LEDGER: i64 = 50_000;
const START_MS: i64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;
const WEEK_MS: u64 = 7 * 86_400_000;
const BATCH: usize = 1_000;

/// A SplitMix64 generator of random times.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(bits ^ bits >> 31) * u128::from(bound)) >> 64) as i64
    }
}

pub(crate) fn measure(workload: &str) {
    match workload.split_once(',') {
        None => {
            let size = workload.parse().expect("a size");
            heap::<Ladder>(workload, size, "");
            heap::<HoleHeap>(workload, size, " (hole heap)");
            high_water(workload, size);
        }
        Some(("rand", tick)) => random_times(workload, tick.parse().expect("a tick")),
        Some((per_ms, bits)) => {
            seed(workload, per_ms.parse().expect("a rate"), bits.parse().expect("bits"));
        }
    }
}

/// The operations of `BMain` on a queue.
trait Queue: Default {
    fn push(&mut self, message: DelayedMessage);
    fn pop(&mut self) -> Option<DelayedMessage>;
}

type Ladder = TripleLongHeap;

impl Queue for Ladder {
    fn push(&mut self, message: DelayedMessage) {
        TripleLongHeap::push(self, message);
    }
    fn pop(&mut self) -> Option<DelayedMessage> {
        TripleLongHeap::pop(self)
    }
}

impl Queue for HoleHeap {
    fn push(&mut self, message: DelayedMessage) {
        HoleHeap::push(self, message);
    }
    fn pop(&mut self) -> Option<DelayedMessage> {
        HoleHeap::pop(self)
    }
}

fn drain(queue: &mut impl Queue) {
    while let Some(message) = queue.pop() {
        black_box(message.deliver_at_ms);
    }
}

fn heap<Q: Queue>(workload: &str, size: usize, suffix: &str) {
    let mut random = Random(42);
    let times: Vec<i64> = (0..size).map(|_| START_MS + random.below(HOUR_MS)).collect();
    let message = |index: usize| {
        DelayedMessage::new(times[index % size], (index / 1000) as i64, index as i64)
    };
    let time = |operation: &str, run: &dyn Fn()| {
        let repeats = (200_000 / size).max(1);
        let mut figures = Vec::new();
        for round in 0..6 {
            let start = ThreadTime::now();
            (0..repeats).for_each(|_| run());
            if round > 0 {
                figures.push(start.elapsed().as_nanos() as f64 / repeats as f64);
            }
        }
        print(workload, &format!("{operation}{suffix}"), &figures);
    };
    time("recoveryBulkAddThenPop", &|| {
        let mut queue = Q::default();
        (0..size).for_each(|index| queue.push(message(index)));
        drain(&mut queue);
    });
    time("interleavedAddPop", &|| {
        let (mut queue, mut random, mut added) = (Q::default(), Random(7), 0);
        while added < size {
            let batch = (500 + random.below(500) as usize).min(size - added);
            (added..added + batch).for_each(|index| queue.push(message(index)));
            added += batch;
            (0..500).for_each(|_| _ = black_box(queue.pop()));
        }
        drain(&mut queue);
    });
    time("steadyState", &|| {
        let (mut queue, mut random, mut added, mut operations) = (Q::default(), Random(7), 0, 0);
        (0..10_000).for_each(|index| queue.push(message(index)));
        added += 10_000;
        while operations < size {
            let batch = 100 + random.below(100) as usize;
            let adds = batch.min(size - operations);
            (added..added + adds).for_each(|index| queue.push(message(index)));
            (added, operations) = (added + adds, operations + adds);
            let pops = batch - random.below(20) as usize;
            (0..pops).for_each(|_| _ = black_box(queue.pop()));
        }
    });
    if suffix.is_empty() {
        print(workload, "rngOnly", &[0.0]);
    }
}

fn high_water(workload: &str, size: usize) {
    let mut random = Random(42);
    let mut queue = TripleLongHeap::new();
    for index in 0..size as i64 {
        queue.push(DelayedMessage::new(START_MS + random.below(HOUR_MS), index / 1000, index));
    }
    bytes(workload, "bytes", queue.heap_bytes() as f64 / size as f64);
}

fn bytes(workload: &str, operation: &str, figure: f64) {
    print(workload, operation, &[figure]);
}

/// Returns the columns of a workload "x,y": entries in order, whose time increases by 1 ms every `per_ms` messages.
fn seed_columns(per_ms: i64) -> [Vec<i64>; 3] {
    [
        (0..MESSAGES).map(|index| START_MS + 1 + index / per_ms).collect(),
        (0..MESSAGES).map(|index| 10_000 + index / ENTRIES_PER_LEDGER).collect(),
        (0..MESSAGES).map(|index| index % ENTRIES_PER_LEDGER).collect(),
    ]
}

fn seed(workload: &str, per_ms: i64, bits: u32) {
    let columns = seed_columns(per_ms);
    let new = || TimeBuckets::new(bits, Rounding::Down).expect("bits");
    fill_and_drain(
        workload,
        "buckets ",
        new,
        TimeBuckets::to_bytes,
        TimeBuckets::from_bytes,
        &columns,
    );
    for (name, tick) in [("wheel ", 1 << bits), ("exact wheel ", 1)] {
        let new = || TimeWheel::new(tick).expect("a tick");
        fill_and_drain(workload, name, new, TimeWheel::to_bytes, TimeWheel::from_bytes, &columns);
    }
}

fn random_times(workload: &str, tick: i64) {
    let mut random = Random(42);
    let mut columns = seed_columns(1);
    columns[0].iter_mut().for_each(|time| *time = START_MS + random.below(WEEK_MS));
    let new = || TimeWheel::new(tick).expect("a tick");
    fill_and_drain(workload, "wheel ", new, TimeWheel::to_bytes, TimeWheel::from_bytes, &columns);
}

/// Adds in batches and singly, measures memory while filling, saves, restores, and drains in batches.
fn fill_and_drain<I: DelayedIndex>(
    workload: &str,
    name: &str,
    new: impl Fn() -> I,
    save: impl Fn(&mut I) -> Vec<u8>,
    restore: impl Fn(&[u8]) -> ackwell_core::Result<I>,
    [times, ledgers, entries]: &[Vec<i64>; 3],
) {
    let each = |start: ThreadTime| start.elapsed().as_nanos() as f64 / times.len() as f64;
    let print =
        |operation: &str, figure: f64| bytes(workload, &format!("{name}{operation}"), figure);

    let mut index = new();
    let start = ThreadTime::now();
    for ((&time, &ledger), &entry) in times.iter().zip(ledgers).zip(entries) {
        black_box(index.add(DelayedMessage::new(time, ledger, entry))).expect("a position");
    }
    print("add, ns", each(start));

    let (mut index, mut peak) = (new(), 0);
    let mut spent = 0.0;
    for at in (0..times.len()).step_by(100_000) {
        let part = at..at + 100_000;
        let start = ThreadTime::now();
        index
            .add_many(&times[part.clone()], &ledgers[part.clone()], &entries[part])
            .expect("positions");
        spent += each(start);
        peak = peak.max(index.heap_bytes());
    }
    print("add in batches, ns", spent);
    print("bytes while filling", peak as f64);
    print("bytes", index.heap_bytes() as f64);

    let start = ThreadTime::now();
    let saved = save(&mut index);
    print("save, s", start.elapsed().as_secs_f64());
    print("saved bytes", saved.len() as f64);
    drop(index);
    let start = ThreadTime::now();
    let mut index = restore(&saved).expect("what was saved");
    print("restore, s", start.elapsed().as_secs_f64());

    let (mut drained, mut peak, mut spent) = (0, 0, 0.0);
    while drained < times.len() {
        let start = ThreadTime::now();
        for _ in 0..100 {
            drained += black_box(index.pop_due(i64::MAX, BATCH).unwrap()).len();
        }
        spent += each(start);
        peak = peak.max(index.heap_bytes());
    }
    print("drain in batches of 1,000, ns", spent);
    print("bytes while draining", peak as f64);
}
