//! CRC-32C (Castagnoli), the checksum of a message in Pulsar's binary protocol.
//!
//! The crate `crc32c` computes it, with the processor's instruction if there is one.

/// Returns the CRC-32C of `data`, continued from `crc`, the checksum of the bytes before it (0 at the beginning).
#[must_use]
pub fn crc32c(data: &[u8], crc: u32) -> u32 {
    ::crc32c::crc32c_append(crc, data)
}
