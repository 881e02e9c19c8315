//! The Python type of a pending entry's value.

use ackwell_core::PendingAck;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::convert::named_tuple;

/// Converts a value to `ackwell.PendingAck`.
pub(super) fn pending_ack(py: Python<'_>, value: PendingAck) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.import(py, "ackwell.pending_ack", "PendingAck")?;
    named_tuple(class, (value.remaining, value.sticky_key_hash))
}
