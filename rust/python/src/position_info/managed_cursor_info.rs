//! `ackwell.ManagedCursorInfo`: the class of `ackwell_core::position_info::ManagedCursorInfo`.

use std::collections::BTreeMap;

use ackwell_core::{self as core, Compression};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};

use super::compression::compression_named;
use super::{PositionInfo, decode_without_limit};
use crate::convert::{Int, natural, raise};

/// A cursor's record in the metadata store.
///
/// Parameters
/// ----------
/// cursors_ledger_id : int
///     The BookKeeper ledger that has newer states of the cursor than this record; -1 if this record has the state.
/// position_info : PositionInfo, optional
///     The part of the state that is in this record.
/// last_active : int, optional
///     The time of the cursor's last activity, in ms since the epoch.
/// cursor_properties : dict of str to str
///     Properties of the subscription.
/// unknown_fields : bytes
///     Unknown Protocol Buffers fields; they are written back unchanged.
///
/// Examples
/// --------
/// >>> from ackwell import ManagedCursorInfo, PositionInfo
/// >>> record = ManagedCursorInfo(-1, PositionInfo(3, 5, [(3, 6, 8)]))
/// >>> data = record.encode(compression="ZSTD")
/// >>> data[:2].hex(), ManagedCursorInfo.decode(data) == record
/// ('4778', True)
#[pyclass(frozen, module = "ackwell")]
pub(crate) struct ManagedCursorInfo {
    record: core::ManagedCursorInfo,
    compression: Option<Compression>,
    /// The bytes from which the record was decoded. An unchanged record is encoded to the same bytes.
    original: Option<Py<PyBytes>>,
}

#[pymethods]
impl ManagedCursorInfo {
    #[new]
    #[pyo3(signature = (cursors_ledger_id, position_info=None, *, last_active=None, cursor_properties=None,
                        unknown_fields=None))]
    fn new(
        cursors_ledger_id: Int,
        position_info: Option<&PositionInfo>,
        last_active: Option<Int>,
        cursor_properties: Option<BTreeMap<String, String>>,
        unknown_fields: Option<&[u8]>,
    ) -> PyResult<Self> {
        let mut record = core::ManagedCursorInfo::new(cursors_ledger_id.0);
        if let Some(info) = position_info {
            record.set_position_info(info.state().clone()).map_err(raise)?;
        }
        record.last_active = last_active.map(|value| value.0);
        record.cursor_properties = cursor_properties.unwrap_or_default();
        record.set_unknown_fields(unknown_fields.unwrap_or_default()).map_err(raise)?;
        Ok(Self { record, compression: None, original: None })
    }

    /// Decode a value of the metadata store, with or without the header of compressed values.
    ///
    /// Raises `CorruptStateError` with the offset at which reading stopped. If the message was decompressed before the
    /// error, the offset is in the decompressed message. Raises `LimitError` if the message or the result would take
    /// more than `max_bytes`.
    #[classmethod]
    #[pyo3(
        signature = (data, *, max_bytes=Int(67_108_864)),
        text_signature = "(data, *, max_bytes=67108864)"
    )]
    fn decode(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        data: &Bound<'_, PyBytes>,
        max_bytes: Int,
    ) -> PyResult<Self> {
        let max_bytes = natural(max_bytes, "max_bytes")?;
        let bytes = data.as_bytes();
        let (record, compression) =
            py.detach(|| core::ManagedCursorInfo::decode(bytes, max_bytes)).map_err(raise)?;
        Ok(Self { record, compression, original: Some(data.clone().unbind()) })
    }

    /// Encode the record. `compression` is NONE, LZ4, ZLIB, ZSTD or SNAPPY, and is stored in a header.
    ///
    /// Without `compression`, a decoded record gives the bytes from which it was decoded. A record that was not decoded
    /// is encoded without a header.
    #[pyo3(signature = (compression=None))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        compression: Option<&str>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if let (None, Some(original)) = (compression, &self.original) {
            return Ok(original.bind(py).clone());
        }
        let compression = compression.map(compression_named).transpose()?;
        let bytes = py.detach(|| self.record.encode(compression)).map_err(raise)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The BookKeeper ledger that has newer states of the cursor than this record, or -1.
    #[getter]
    fn cursors_ledger_id(&self) -> i64 {
        self.record.cursors_ledger_id
    }

    /// The part of the state that is in this record, or None.
    #[getter]
    fn position_info(&self) -> Option<PositionInfo> {
        self.record.position_info.clone().map(PositionInfo::of)
    }

    /// The time of the cursor's last activity, in ms since the epoch, or None.
    #[getter]
    fn last_active(&self) -> Option<i64> {
        self.record.last_active
    }

    /// Properties of the subscription; a copy.
    #[getter]
    fn cursor_properties(&self) -> BTreeMap<String, String> {
        self.record.cursor_properties.clone()
    }

    /// Unknown Protocol Buffers fields.
    #[getter]
    fn unknown_fields(&self) -> &[u8] {
        &self.record.unknown_fields
    }

    /// The compression of the decoded bytes, or None if they had no header.
    #[getter(compression)]
    fn original_compression(&self) -> Option<&'static str> {
        self.compression.map(Compression::name)
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.record == other.record
    }

    fn __repr__(&self) -> String {
        let state = match &self.record.position_info {
            Some(info) => format!("state at {}", info.mark_delete),
            None => "no state".to_owned(),
        };
        format!("<ManagedCursorInfo of cursor ledger {}, {state}>", self.record.cursors_ledger_id)
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let bytes = slf.call_method0("encode")?;
        Ok((decode_without_limit(&slf.get_type())?, PyTuple::new(slf.py(), [bytes])?))
    }
}
