//! `ackwell._native.crc32c`: the function of `ackwell_core::crc32c`.

use pyo3::prelude::*;

/// Return the CRC-32C of `data`. With the checksum of earlier bytes as `crc`, return the CRC-32C of all bytes.
///
/// O(bytes). The call does not detach from the interpreter, because detaching takes longer than the checksum of a
/// message.
///
/// >>> from ackwell._native import crc32c
/// >>> hex(crc32c(b"123456789")), crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
/// ('0xe3069283', True)
#[pyfunction]
#[pyo3(signature = (data, crc=0))]
pub(crate) fn crc32c(data: &[u8], crc: u32) -> u32 {
    ackwell_core::crc32c::crc32c(data, crc)
}
