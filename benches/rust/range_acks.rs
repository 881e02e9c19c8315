//! The acknowledgments of the workloads of section `range_set`, in the order of their arrival.

use crate::workloads::{mix, section};

/// Positions as two columns.
pub(crate) struct Columns {
    pub(crate) ledger_ids: Vec<i64>,
    pub(crate) entry_ids: Vec<i64>,
}

impl Columns {
    pub(crate) fn len(&self) -> usize {
        self.ledger_ids.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.ledger_ids.iter().copied().zip(self.entry_ids.iter().copied())
    }
}

/// Returns the acknowledgments of a workload, and a million random positions in its ledgers.
pub(crate) fn named(name: &str) -> (Columns, Columns) {
    let section = section("range_set");
    let workload = section.get(name).unwrap_or_else(|| panic!("no workload {name}"));
    let number = |key: &str| workload[key].as_integer().expect("an integer");
    let word = |key: &str| workload[key].as_str().expect("a string");
    let (ledgers, entries) = (number("ledgers"), number("entries"));
    let mut state = 42;
    let mut below = |limit: i64| (mix(&mut state) >> 1) as i64 % limit;
    let all = (0..ledgers).flat_map(|ledger| (0..entries).map(move |entry| (100 + ledger, entry)));
    let mut acked: Vec<_> = match word("acked") {
        "every second" => all.filter(|(_, entry)| entry % 2 == 1).collect(),
        "7 of 10" => all.filter(|_| below(10) < 7).collect(),
        "all but first" => all.skip(1).collect(),
        other => panic!("no way to choose {other}"),
    };
    if word("order") == "random" {
        for last in (1..acked.len()).rev() {
            acked.swap(last, below(last as i64 + 1) as usize);
        }
    }
    let probes = (0..1_000_000).map(|_| (100 + below(ledgers), below(entries)));
    (columns(acked.into_iter()), columns(probes))
}

fn columns(positions: impl Iterator<Item = (i64, i64)>) -> Columns {
    let (ledger_ids, entry_ids) = positions.unzip();
    Columns { ledger_ids, entry_ids }
}
