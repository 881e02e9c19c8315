//! `LongMap` on keys that are hard to hash, and after many removals and additions.

use std::hint::black_box;

use ackwell_core::LongMap;

use crate::window::{print, windows};
use crate::workloads::{long_keys, mix};

const CALLS: usize = 1_000;
/// Entries of the map whose keys come and go, and how often one does.
const ENTRIES: usize = 50_000;
const CYCLES: usize = 1_000_000;

pub(crate) fn measure(name: &str) {
    if name == "cycles" {
        return cycles();
    }
    let keys = long_keys(name);
    let mut map: LongMap = keys.iter().map(|&key| (key, key)).collect();
    let mut at = 0;
    let mut time = |operation: &str, call: &mut dyn FnMut(i64)| {
        let figures = windows(|| {
            for _ in 0..CALLS {
                call(keys[at]);
                at = if at + 1 == keys.len() { 0 } else { at + 1 };
            }
            CALLS
        });
        print(name, operation, &figures);
    };
    time("get", &mut |key| _ = black_box(map.get(key)));
    time("miss", &mut |key| _ = black_box(map.get(!key)));
    time("remove and insert", &mut |key| {
        map.remove(key);
        map.insert(key, key);
    });
}

/// Each cycle removes the oldest key and inserts a new one. The map must not become slower or larger than a fresh map
/// of the same content and capacity.
fn cycles() {
    let mut state = 42;
    // Half of the keys are outside the map; after every 100,000 cycles the map has its initial content.
    let ring: Vec<i64> = (0..2 * ENTRIES).map(|_| mix(&mut state) as i64).collect();
    let fresh: LongMap = ring[..ENTRIES].iter().map(|&key| (key, key)).collect();
    let (mut used, mut next) = (fresh.clone(), 0);
    let mut cycle = |map: &mut LongMap| {
        map.remove(ring[next]);
        map.insert(ring[(next + ENTRIES) % ring.len()], 0);
        next = (next + 1) % ring.len();
    };
    for _ in 0..CYCLES {
        cycle(&mut used);
    }
    for (name, map) in [("fresh", &fresh), ("after 10^6 cycles", &used)] {
        println!(r#"{{"dataset":"{name}","bytesPerEntry":{}}}"#, bytes(map));
    }
    // In turn, and each for whole rounds of the ring, so that both end with their initial content.
    let mut maps = [("fresh", fresh, Vec::new()), ("after 10^6 cycles", used, Vec::new())];
    for _ in 0..3 {
        for (_, map, figures) in &mut maps {
            figures.extend(windows(|| {
                (0..ring.len()).for_each(|_| cycle(map));
                ring.len()
            }));
        }
    }
    for (name, _, figures) in &maps {
        print(name, "remove and insert another", figures);
    }
}

fn bytes(map: &LongMap) -> f64 {
    map.heap_bytes() as f64 / map.len() as f64
}
