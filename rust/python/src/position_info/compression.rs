//! `ackwell._native.compress` and `decompress`: Pulsar's compression types.

use ackwell_core::Compression;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::{Int, natural, raise};

/// Returns the compression type with Pulsar's name for it.
pub(crate) fn compression_named(name: &str) -> PyResult<Compression> {
    Compression::named(name).ok_or_else(|| {
        let known: Vec<_> = Compression::ALL.iter().map(|compression| compression.name()).collect();
        PyValueError::new_err(format!("compression {name:?}: expected one of {}", known.join(", ")))
    })
}

/// Compress bytes as NONE, LZ4 (a block), ZLIB, ZSTD (a frame) or SNAPPY (a raw block).
///
/// >>> from ackwell._native import compress, decompress
/// >>> decompress(compress(bytes(1000), "ZSTD"), "ZSTD", 1000) == bytes(1000)
/// True
#[pyfunction]
pub(crate) fn compress<'py>(
    py: Python<'py>,
    data: &[u8],
    compression: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let compression = compression_named(compression)?;
    let bytes = py.detach(|| compression.compress(data)).map_err(raise)?;
    Ok(PyBytes::new(py, &bytes))
}

/// Decompress bytes to exactly `size` bytes.
///
/// Raises `CorruptStateError` if the result has another size, and `LimitError` if `size` is more than `max_bytes`. The
/// call takes at most twice the memory of the result.
#[pyfunction]
#[pyo3(
    signature = (data, compression, size, max_bytes=Int(67_108_864)),
    text_signature = "(data, compression, size, max_bytes=67108864)"
)]
pub(crate) fn decompress<'py>(
    py: Python<'py>,
    data: &[u8],
    compression: &str,
    size: Int,
    max_bytes: Int,
) -> PyResult<Bound<'py, PyBytes>> {
    let (size, max_bytes) = (natural(size, "size")?, natural(max_bytes, "max_bytes")?);
    let compression = compression_named(compression)?;
    let bytes = py.detach(|| compression.decompress(data, size, max_bytes)).map_err(raise)?;
    Ok(PyBytes::new(py, &bytes))
}
