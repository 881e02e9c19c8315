//! The ledgers that have entries, with look-up by hash and iteration in order.
//!
//! **Representation.** The ledgers are in one array without gaps. A hash map has the index of each ledger id. A tree of
//! the ids gives the order; it is used only for adding, removing and iterating over ledgers. The ledger that changed
//! last is stored too, because the next change is probably in it.
//!
//! **Invariants** (`validate` checks them): the array, the map and the tree have the same ledgers; each ledger has an
//! entry.

use std::collections::BTreeSet;

use super::ledger::PendingLedger;
use crate::error::{Validity, invariant};
use crate::long_map::LongMap;

#[derive(Debug, Clone, Default)]
pub(super) struct Directory {
    ledgers: Vec<PendingLedger>,
    places: LongMap,
    order: BTreeSet<i64>,
    recent: usize,
}

impl Directory {
    #[inline]
    pub(super) fn get(&self, ledger_id: i64) -> Option<&PendingLedger> {
        match self.ledgers.get(self.recent) {
            Some(ledger) if ledger.ledger_id == ledger_id => Some(ledger),
            _ => self.place(ledger_id).map(|at| &self.ledgers[at]),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, ledger_id: i64) -> Option<&mut PendingLedger> {
        let is_recent =
            self.ledgers.get(self.recent).is_some_and(|ledger| ledger.ledger_id == ledger_id);
        if !is_recent {
            self.recent = self.place(ledger_id)?;
        }
        Some(&mut self.ledgers[self.recent])
    }

    /// Returns the ledger with this id. If there is none, creates it. The caller must then add an entry, because a
    /// ledger must not be empty.
    #[inline]
    pub(super) fn get_or_insert(&mut self, ledger_id: i64) -> &mut PendingLedger {
        if self.get_mut(ledger_id).is_none() {
            self.insert(ledger_id);
        }
        &mut self.ledgers[self.recent]
    }

    /// Removes a ledger.
    pub(super) fn remove(&mut self, ledger_id: i64) {
        let Some(at) = self.places.remove(ledger_id) else { return };
        self.order.remove(&ledger_id);
        self.ledgers.swap_remove(at as usize);
        if let Some(moved) = self.ledgers.get(at as usize) {
            self.places.insert(moved.ledger_id, at);
        }
        if self.ledgers.capacity() > 4 * self.ledgers.len() + 8 {
            self.ledgers.shrink_to(2 * self.ledgers.len());
            self.places.shrink_to_fit();
        }
    }

    /// Returns the smallest ledger id.
    pub(super) fn first(&self) -> Option<i64> {
        self.order.first().copied()
    }

    /// Returns the ledgers in order of id. Dispatch adds ledgers in order, so each ledger is mostly at the array index
    /// after the previous one. This index is tried before the hash map.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingLedger> {
        let mut next = 0;
        self.order.iter().map(move |&id| {
            let at = match self.ledgers.get(next) {
                Some(ledger) if ledger.ledger_id == id => next,
                _ => self.place(id).expect("tree and map agree"),
            };
            next = at + 1;
            &self.ledgers[at]
        })
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.ledgers.capacity() * size_of::<PendingLedger>()
            + self.ledgers.iter().map(PendingLedger::heap_bytes).sum::<usize>()
            + self.places.heap_bytes()
            + crate::nbytes::btree_bytes::<i64, ()>(self.order.len())
    }

    pub(super) fn validate(&self) -> Validity {
        self.places.validate()?;
        invariant!(self.ledgers.len() == self.places.len(), "every ledger has a place");
        invariant!(self.ledgers.len() == self.order.len(), "every ledger is in order");
        for (at, ledger) in self.ledgers.iter().enumerate() {
            invariant!(Some(at) == self.place(ledger.ledger_id), "the map knows the place");
            invariant!(self.order.contains(&ledger.ledger_id), "the tree has the id");
            invariant!(ledger.len() > 0, "no ledger is empty");
            ledger.validate()?;
        }
        Ok(())
    }

    #[inline]
    fn place(&self, ledger_id: i64) -> Option<usize> {
        self.places.get(ledger_id).map(|at| at as usize)
    }

    #[cold]
    fn insert(&mut self, ledger_id: i64) {
        self.recent = self.ledgers.len();
        if self.ledgers.len() == self.ledgers.capacity() {
            self.ledgers.reserve_exact(1 + self.ledgers.len() / 4);
        }
        self.ledgers.push(PendingLedger::new(ledger_id));
        self.places.insert(ledger_id, self.recent as i64);
        self.order.insert(ledger_id);
    }
}
