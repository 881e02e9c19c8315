//! `ackwell._native.decode_command_ack`: the reader of `ackwell_core::command_ack`.

use ackwell_core::CommandAck;
use ackwell_core::command_ack::MessageId;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::convert::raise;

type Array<'py> = Bound<'py, PyArray1<i64>>;

/// Read the bytes of a `CommandAck` into columns; `ackwell.subscription.AckColumns` names what is returned.
///
/// Return the consumer id, whether it is cumulative, the ledger ids and entry ids, the starts and the words of the
/// ack sets (or `None` twice), the ids that say more than a position and an ack set, the validation error, the
/// properties, the most and least bits of the transaction, the request id, and the unknown fields. Raises
/// `CorruptStateError` with the offset for bytes that are no command, `LimitError` for a batch that is too large.
/// O(bytes).
///
/// >>> from ackwell._native import decode_command_ack
/// >>> decode_command_ack(bytes([8, 1, 16, 0, 26, 4, 8, 3, 16, 5]))[:4]
/// (1, False, array([3]), array([5]))
#[pyfunction]
pub(crate) fn decode_command_ack<'py>(
    py: Python<'py>,
    data: &[u8],
) -> PyResult<Bound<'py, PyTuple>> {
    let CommandAck {
        consumer_id,
        cumulative,
        ledger_ids,
        entry_ids,
        ack_sets,
        others,
        validation_error,
        properties,
        transaction_least_bits,
        transaction_most_bits,
        request_id,
        unknown_fields,
    } = CommandAck::decode(data).map_err(raise)?;
    let (starts, words): (Option<Array<'_>>, Option<Array<'_>>) = match ack_sets {
        Some(sets) => (Some(sets.starts.into_pyarray(py)), Some(sets.words.into_pyarray(py))),
        None => (None, None),
    };
    let others = others
        .into_iter()
        .map(|(index, message)| (index, message_id(py, message)?).into_pyobject(py))
        .collect::<PyResult<Vec<_>>>()?;
    let items: [Bound<'py, PyAny>; 13] = [
        consumer_id.into_pyobject(py)?.into_any(),
        cumulative.into_pyobject(py)?.to_owned().into_any(),
        ledger_ids.into_pyarray(py).into_any(),
        entry_ids.into_pyarray(py).into_any(),
        starts.into_pyobject(py)?.into_any(),
        words.into_pyobject(py)?.into_any(),
        others.into_pyobject(py)?.into_any(),
        validation_error.into_pyobject(py)?.into_any(),
        properties.into_pyobject(py)?.into_any(),
        transaction_most_bits.into_pyobject(py)?.into_any(),
        transaction_least_bits.into_pyobject(py)?.into_any(),
        request_id.into_pyobject(py)?.into_any(),
        PyBytes::new(py, &unknown_fields).into_any(),
    ];
    PyTuple::new(py, items)
}

/// The fields of an id in the order of their numbers, the unknown ones last.
fn message_id(py: Python<'_>, message: MessageId) -> PyResult<Bound<'_, PyTuple>> {
    let first_chunk = match message.first_chunk {
        Some(first) => Some(message_id(py, *first)?),
        None => None,
    };
    (
        message.ledger_id,
        message.entry_id,
        message.partition,
        message.batch_index,
        PyTuple::new(py, message.ack_set)?,
        message.batch_size,
        first_chunk,
        PyBytes::new(py, &message.unknown_fields),
    )
        .into_pyobject(py)
}
