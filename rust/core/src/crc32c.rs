//! CRC-32C (Castagnoli), the checksum of a message in Pulsar's binary protocol.
//!
//! The crate `crc32c` computes the checksum. It uses the CRC-32C instruction of the processor if there is one.

/// Returns the CRC-32C of earlier bytes and `data` together. `crc` is the checksum of the earlier bytes, 0 if there are
/// none.
#[must_use]
pub fn crc32c(data: &[u8], crc: u32) -> u32 {
    ::crc32c::crc32c_append(crc, data)
}
