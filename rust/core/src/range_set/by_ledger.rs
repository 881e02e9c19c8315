//! Finds the ledgers of a batch without a tree search for each position.
//!
//! The acks of a topic come from a few hundred ledgers in any order. A table of the last ledger seen for
//! each value of the id's low bits, which consecutive ids fill without clashes, answers nearly all of them from
//! the first-level cache; the tree is asked once a ledger.

use std::collections::BTreeMap;

/// Three kilobytes of table: a small part of the first-level cache, and filled in some 50 ns.
const PLACES: usize = 256;

/// What a batch holds of each ledger it met.
pub(super) struct ByLedger<T> {
    ids: [i64; PLACES],
    places: [u32; PLACES],
    met: Vec<(i64, T)>,
    /// Where each ledger is in `met`, for those that lost their place in the table to another.
    all: BTreeMap<i64, u32>,
}

impl<T> ByLedger<T> {
    pub(super) fn new() -> Self {
        // No ledger has a negative id that could be taken for an empty place: `get` never stores one.
        Self { ids: [-1; PLACES], places: [0; PLACES], met: Vec::new(), all: BTreeMap::new() }
    }

    /// What is held of a ledger; fetched when it is met first.
    #[inline]
    pub(super) fn get(&mut self, ledger_id: i64, fetch: impl FnOnce() -> T) -> &mut T {
        let slot = ledger_id as usize % PLACES;
        if self.ids[slot] != ledger_id || ledger_id < 0 {
            self.places[slot] = self.meet(ledger_id, fetch);
            self.ids[slot] = ledger_id;
        }
        &mut self.met[self.places[slot] as usize].1
    }

    #[cold]
    fn meet(&mut self, ledger_id: i64, fetch: impl FnOnce() -> T) -> u32 {
        let met = &mut self.met;
        *self.all.entry(ledger_id).or_insert_with(|| {
            met.push((ledger_id, fetch()));
            met.len() as u32 - 1
        })
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = (i64, T)> {
        self.met.into_iter()
    }
}
