//! The workloads of `benches/workloads.toml`.

use ackwell_core::PendingAck;

/// Returns the section `name` of the file.
pub(crate) fn section(name: &str) -> toml::Table {
    let mut all: toml::Table =
        include_str!("../workloads.toml").parse().expect("workloads.toml is valid");
    match all.remove(name) {
        Some(toml::Value::Table(section)) => section,
        _ => panic!("workloads.toml has no section {name}"),
    }
}

/// Returns the keys of a workload of section `long_map`, shuffled, so that look-ups are in random order.
pub(crate) fn long_keys(name: &str) -> Vec<i64> {
    let entries = section("long_map")[name]["entries"].as_integer().expect("an integer");
    let mut state = 42;
    let mut key = |i: i64| match name {
        "random" => mix(&mut state) as i64,
        "consecutive" => i,
        "multiples of 2^16" => i << 16,
        "multiples of 2^47" => i << 47,
        "equal low bits" => i << 32 | 0x5555_5555,
        _ => panic!("no keys of kind {name}"),
    };
    let mut keys: Vec<i64> = (0..entries).map(&mut key).collect();
    shuffle(&mut keys);
    keys
}

/// Shuffles items. The result is the same on every machine.
pub(crate) fn shuffle<T>(items: &mut [T]) {
    let mut state = 7;
    for i in (1..items.len()).rev() {
        items.swap(i, (mix(&mut state) % (i as u64 + 1)) as usize);
    }
}

/// Pending acks in order of position: their positions, and the value of each.
pub(crate) struct Acks {
    pub(crate) positions: Vec<(i64, i64)>,
    pub(crate) values: Vec<PendingAck>,
}

/// Returns the next pseudo-random number, and updates `state`. The numbers are the same on every machine.
pub(crate) fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Acks {
    /// Returns the workload of section `pending_acks` with this name.
    pub(crate) fn named(name: &str) -> Self {
        let section = section("pending_acks");
        let workload = section.get(name).unwrap_or_else(|| panic!("no workload {name}"));
        let number = |key: &str| workload[key].as_integer().expect("an integer");
        let (ledgers, entries) = (number("ledgers"), number("entries"));
        let mut state = 42;
        let mut entry_id = |within: i64| match number("stride") {
            0 => (mix(&mut state) >> 24) as i64,
            stride => within * stride,
        };
        let mut positions = Vec::new();
        for ledger in 0..ledgers {
            let in_ledger = entries / ledgers + i64::from(ledger < entries % ledgers);
            positions.extend((0..in_ledger).map(|within| (ledger, entry_id(within))));
        }
        positions.sort_unstable();
        let kind = workload["values"].as_str().expect("a string");
        let values = (0..positions.len() as i32).map(|i| value(kind, i)).collect();
        Self { positions, values }
    }

    /// Returns the indexes of the entries, shuffled.
    pub(crate) fn shuffled(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.positions.len()).collect();
        shuffle(&mut order);
        order
    }
}

fn value(kind: &str, i: i32) -> PendingAck {
    match kind {
        "varied" => PendingAck { remaining: (i & 15) + 1, sticky_key_hash: i.wrapping_mul(31) },
        "equal" => PendingAck { remaining: 1, sticky_key_hash: 0 },
        "hashed" => PendingAck { remaining: 1, sticky_key_hash: mix(&mut (i as u64)) as i32 },
        _ => panic!("no values of kind {kind}"),
    }
}
