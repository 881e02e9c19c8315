//! Iteration over positions, and the named tuple of a value.

use ackwell_core::{PendingAck, Position};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::Entry;
use crate::convert::{named_tuple, position};
use crate::shared::Shared;

/// Iterates over the positions as they were when it was made.
#[pyclass(frozen, module = "ackwell")]
pub(crate) struct PendingAcksIterator(Shared<std::vec::IntoIter<Entry>>);

impl PendingAcksIterator {
    pub(super) fn of(entries: Vec<Entry>) -> Self {
        Self(Shared::new(entries.into_iter()))
    }
}

#[pymethods]
impl PendingAcksIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = self.0.locked(py).next();
        next.map(|(ledger_id, entry_id, _)| position(py, Position::new(ledger_id, entry_id)))
            .transpose()
    }

    fn __length_hint__(&self, py: Python<'_>) -> usize {
        self.0.locked(py).len()
    }
}

/// The `ackwell.PendingAck` of a value.
pub(super) fn pending_ack(py: Python<'_>, value: PendingAck) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.import(py, "ackwell.pending_ack", "PendingAck")?;
    named_tuple(class, (value.remaining, value.sticky_key_hash))
}
