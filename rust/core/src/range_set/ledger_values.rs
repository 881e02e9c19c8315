//! A cache of the ledgers of a batch, which avoids a tree search for each position.
//!
//! The acks of a topic belong to a few hundred ledgers, in any order. The low bits of a ledger id determine its place
//! in a table. A place stores the last used ledger with these bits. Consecutive ids have different places. So nearly
//! all look-ups find their ledger in the table, which fits into the first-level cache. The tree is searched once for
//! each ledger.

use std::collections::BTreeMap;

/// The number of places in the table. The table takes three kilobytes, a small part of the first-level cache, and is
/// initialised in about 50 ns.
const PLACES: usize = 256;

/// A value for each ledger of a batch.
pub(super) struct LedgerValues<T> {
    ids: [i64; PLACES],
    places: [u32; PLACES],
    met: Vec<(i64, T)>,
    /// For each ledger of the batch, the index of its value in `met`. This map is searched if the ledger's place in the
    /// table stores another ledger.
    all: BTreeMap<i64, u32>,
}

impl<T> LedgerValues<T> {
    pub(super) fn new() -> Self {
        // -1 marks an empty place; no ledger has a negative id.
        Self { ids: [-1; PLACES], places: [0; PLACES], met: Vec::new(), all: BTreeMap::new() }
    }

    /// Returns the value of a ledger. The first call for a ledger gets the value from `fetch`.
    #[inline]
    pub(super) fn get(&mut self, ledger_id: i64, fetch: impl FnOnce() -> T) -> &mut T {
        let slot = ledger_id as usize % PLACES;
        if self.ids[slot] != ledger_id || ledger_id < 0 {
            self.places[slot] = self.find_or_fetch(ledger_id, fetch);
            self.ids[slot] = ledger_id;
        }
        &mut self.met[self.places[slot] as usize].1
    }

    #[cold]
    fn find_or_fetch(&mut self, ledger_id: i64, fetch: impl FnOnce() -> T) -> u32 {
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
