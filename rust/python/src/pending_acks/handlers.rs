//! Calls of Python code by `PendingAcks`: its two handlers, and the callbacks that methods take.
//!
//! The Python code runs while no structure is locked. The core (`ackwell_core::pending_acks::Removal`) decides when an
//! entry is removed, and which entries are pending again after a failure. This module only calls the Python code with
//! each entry.

use ackwell_core::PendingAck;
use ackwell_core::pending_acks::Removal;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use super::Entry;
use crate::arrays::Rows;
use crate::convert::raise;
use crate::shared::SharedCell;

type Acks = SharedCell<ackwell_core::PendingAcks>;
type Callback<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The handlers of one map, if it has any.
#[derive(Default)]
pub(super) struct Handlers {
    add: Option<Py<PyAny>>,
    remove: Option<Py<PyAny>>,
}

impl Handlers {
    pub(super) fn new(add: Option<Py<PyAny>>, remove: Option<Py<PyAny>>) -> Self {
        Self { add, remove }
    }

    pub(super) fn has_add_handler(&self) -> bool {
        self.add.is_some()
    }

    pub(super) fn has_remove_handler(&self) -> bool {
        self.remove.is_some()
    }

    /// Returns whether the add handler allows an entry. The handler is not called for a closed map, which refuses every
    /// entry.
    #[inline]
    pub(super) fn allow(&self, py: Python<'_>, acks: &Acks, entry: Entry) -> PyResult<bool> {
        match &self.add {
            Some(handler) if !acks.locked(py).is_closed() => {
                let (ledger_id, entry_id, value) = entry;
                handler.bind(py).call1((ledger_id, entry_id, value.sticky_key_hash))?.is_truthy()
            }
            _ => Ok(true),
        }
    }

    /// Adds the rows that the add handler allows; returns their number.
    pub(super) fn add_many(
        &self,
        py: Python<'_>,
        acks: &Acks,
        rows: &Rows<'_, 4>,
    ) -> PyResult<usize> {
        let [ledgers, entries, remaining, hashes] = rows.to_vecs();
        PendingAck::check_many(&remaining, &hashes).map_err(raise)?;
        let mut allowed = 0;
        for at in 0..rows.len() {
            let value = PendingAck::new(remaining[at], hashes[at]).map_err(raise)?;
            if self.allow(py, acks, (ledgers[at], entries[at], value))? {
                allowed += usize::from(acks.locked(py).add(ledgers[at], entries[at], value));
            }
        }
        Ok(allowed)
    }

    /// Removes an entry. If `expected` is given, the entry is removed only if it has this value.
    pub(super) fn remove(
        &self,
        py: Python<'_>,
        acks: &Acks,
        position: (i64, i64),
        expected: Option<PendingAck>,
    ) -> PyResult<Option<PendingAck>> {
        let mut held = acks.locked(py);
        if expected.is_some() && held.get(position.0, position.1) != expected {
            return Ok(None);
        }
        if self.remove.is_none() {
            return Ok(held.remove(position.0, position.1));
        }
        let mut removal = held.take_many([position]);
        drop(held);
        let notified = self.notify(py, &mut removal, None);
        let entries = removal.finish(&mut acks.locked(py), notified)?;
        Ok(entries.first().map(|entry| entry.2))
    }

    /// Removes the entries at positions; returns how many were pending.
    pub(super) fn remove_many(
        &self,
        py: Python<'_>,
        acks: &Acks,
        rows: &Rows<'_, 2>,
    ) -> PyResult<usize> {
        let [ledgers, entries] = rows.to_vecs();
        let removal = acks.detached(py, |acks| acks.take_many(ledgers.into_iter().zip(entries)));
        Ok(self.notify_all(py, acks, removal, None)?.len())
    }

    /// Removes every entry up to and including a position; returns their number.
    pub(super) fn remove_up_to(
        &self,
        py: Python<'_>,
        acks: &Acks,
        last: (i64, i64),
        callback: Callback<'_, '_>,
    ) -> PyResult<usize> {
        if callback.is_none() && self.remove.is_none() {
            return Ok(acks.detached(py, |acks| acks.remove_all_up_to(last.0, last.1)));
        }
        Ok(self.take_up_to(py, acks, last, callback)?.len())
    }

    /// Removes every entry up to and including a position, and returns them.
    pub(super) fn take_up_to(
        &self,
        py: Python<'_>,
        acks: &Acks,
        last: (i64, i64),
        callback: Callback<'_, '_>,
    ) -> PyResult<Vec<Entry>> {
        let removal = acks.detached(py, |acks| acks.take_up_to(last.0, last.1));
        self.notify_all(py, acks, removal, callback)
    }

    /// Calls the callback and the remove handler with every entry of a removal, as one batch; returns the entries.
    fn notify_all(
        &self,
        py: Python<'_>,
        acks: &Acks,
        mut removal: Removal,
        callback: Callback<'_, '_>,
    ) -> PyResult<Vec<Entry>> {
        let result = match self.remove.as_ref().map(|handler| handler.bind(py)) {
            None => self.notify(py, &mut removal, callback),
            Some(handler) => {
                let started = handler.call_method0("start_batch").map(drop);
                let notified = started.and_then(|()| self.notify(py, &mut removal, callback));
                let ended = handler.call_method0("end_batch").map(drop);
                notified.and(ended)
            }
        };
        removal.finish(&mut acks.locked(py), result)
    }

    /// Calls the callback and the remove handler with each entry. Stops at the first call that raises.
    fn notify(
        &self,
        py: Python<'_>,
        removal: &mut Removal,
        callback: Callback<'_, '_>,
    ) -> PyResult<()> {
        let is_closed = removal.is_closed();
        let handler = self.remove.as_ref().map(|handler| handler.bind(py));
        removal.notify_each(|ledger_id, entry_id, PendingAck { remaining, sticky_key_hash }| {
            if let Some(callback) = callback {
                callback.call1((ledger_id, entry_id, remaining, sticky_key_hash))?;
            }
            if let Some(handler) = handler {
                let arguments = (ledger_id, entry_id, sticky_key_hash, is_closed);
                handler.call_method1("handle_removing", arguments)?;
            }
            Ok(())
        })
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.add)?;
        visit.call(&self.remove)
    }
}
