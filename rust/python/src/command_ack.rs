//! `ackwell._native.decode_command_ack`: the reader of `ackwell_core::command_ack`.

use ackwell_core::CommandAck;
use ackwell_core::command_ack::MessageId;
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};

use crate::convert::{named_tuple, raise};

/// One message id of a command, with the field names of `ackwell.protocol.MessageId`.
#[derive(IntoPyObject)]
struct MessageFields<'py> {
    ledger_id: i64,
    entry_id: i64,
    partition: i32,
    batch_index: i32,
    ack_set: Bound<'py, PyTuple>,
    batch_size: Option<i32>,
    first_chunk: Option<Bound<'py, PyDict>>,
    unknown_fields: Bound<'py, PyBytes>,
}

/// Decode the bytes of a `CommandAck` into columns.
///
/// Raises `CorruptStateError` with the offset for bytes that are not a command, `LimitError` for a batch that is too
/// large. O(bytes).
///
/// >>> from ackwell._native import decode_command_ack
/// >>> fields = decode_command_ack(bytes([8, 1, 16, 0, 26, 4, 8, 3, 16, 5]))
/// >>> fields.consumer_id, fields.ledger_ids, fields.entry_ids
/// (1, array([3]), array([5]))
#[pyfunction]
pub(crate) fn decode_command_ack<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let command = CommandAck::decode(data).map_err(raise)?;
    let (starts, words) = command.ack_sets.map(|sets| (sets.starts, sets.words)).unzip();
    let others = command
        .others
        .into_iter()
        .map(|(row, message)| Ok((row, message_id(py, message)?)))
        .collect::<PyResult<Vec<_>>>()?;
    let fields = (
        command.consumer_id,
        command.cumulative,
        command.ledger_ids.into_pyarray(py),
        command.entry_ids.into_pyarray(py),
        starts.map(|starts| starts.into_pyarray(py)),
        words.map(|words| words.into_pyarray(py)),
        others,
        command.validation_error,
        PyTuple::new(py, command.properties)?,
        command.transaction_most_bits.zip(command.transaction_least_bits),
        command.request_id,
        PyBytes::new(py, &command.unknown_fields),
    );
    named_tuple(CLASS.import(py, "ackwell.engine", "AckFields")?, fields)
}

fn message_id(py: Python<'_>, message: MessageId) -> PyResult<Bound<'_, PyDict>> {
    MessageFields {
        ledger_id: message.ledger_id,
        entry_id: message.entry_id,
        partition: message.partition,
        batch_index: message.batch_index,
        ack_set: PyTuple::new(py, message.ack_set)?,
        batch_size: message.batch_size,
        first_chunk: message.first_chunk.map(|first| message_id(py, *first)).transpose()?,
        unknown_fields: PyBytes::new(py, &message.unknown_fields),
    }
    .into_pyobject(py)
}
