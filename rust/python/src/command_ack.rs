//! `ackwell._native.decode_command_ack`: the reader of `ackwell_core::command_ack`.

use ackwell_core::CommandAck;
use ackwell_core::command_ack::MessageId;
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::arrays::Array;
use crate::convert::raise;

/// What [`decode_command_ack`] returns, by the names of `ackwell.protocol.command_ack.AckColumns`.
#[derive(IntoPyObject)]
pub(crate) struct AckColumns<'py> {
    consumer_id: u64,
    cumulative: bool,
    ledger_ids: Array<'py, i64>,
    entry_ids: Array<'py, i64>,
    ack_set_starts: Option<Array<'py, i64>>,
    ack_set_words: Option<Array<'py, i64>>,
    others: Vec<(usize, Bound<'py, PyDict>)>,
    validation_error: Option<i32>,
    properties: Vec<(String, u64)>,
    transaction_most_bits: Option<u64>,
    transaction_least_bits: Option<u64>,
    request_id: Option<u64>,
    unknown_fields: Bound<'py, PyBytes>,
}

/// One id of a command, by the names of `ackwell.protocol.command_ack.MessageId`.
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

/// Read the bytes of a `CommandAck` into columns, by the names of `ackwell.protocol.AckColumns`.
///
/// `cumulative` says whether it is; `others` are the rows, each with its fields, that say more than a position and an
/// ack set; the transaction comes as its two halves. Raises `CorruptStateError` with the offset for bytes that are not
/// a command, `LimitError` for a batch that is too large. O(bytes).
///
/// >>> from ackwell._native import decode_command_ack
/// >>> columns = decode_command_ack(bytes([8, 1, 16, 0, 26, 4, 8, 3, 16, 5]))
/// >>> columns["consumer_id"], columns["ledger_ids"], columns["entry_ids"]
/// (1, array([3]), array([5]))
#[pyfunction]
pub(crate) fn decode_command_ack<'py>(py: Python<'py>, data: &[u8]) -> PyResult<AckColumns<'py>> {
    let command = CommandAck::decode(data).map_err(raise)?;
    let (starts, words) = command.ack_sets.map(|sets| (sets.starts, sets.words)).unzip();
    let others = command
        .others
        .into_iter()
        .map(|(row, message)| Ok((row, message_id(py, message)?)))
        .collect::<PyResult<_>>()?;
    Ok(AckColumns {
        consumer_id: command.consumer_id,
        cumulative: command.cumulative,
        ledger_ids: command.ledger_ids.into_pyarray(py),
        entry_ids: command.entry_ids.into_pyarray(py),
        ack_set_starts: starts.map(|starts| starts.into_pyarray(py)),
        ack_set_words: words.map(|words| words.into_pyarray(py)),
        others,
        validation_error: command.validation_error,
        properties: command.properties,
        transaction_most_bits: command.transaction_most_bits,
        transaction_least_bits: command.transaction_least_bits,
        request_id: command.request_id,
        unknown_fields: PyBytes::new(py, &command.unknown_fields),
    })
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
