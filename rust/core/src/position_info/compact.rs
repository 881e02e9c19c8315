//! The compact form: its size is near the entropy of the content, and a checksum detects changed bits.
//!
//! ```text
//! 0  0xAC      magic: in Protocol Buffers, the tag of a group's end; no message begins with it
//! 1  version   1
//! 2  flags     bit 0: the body is compressed with zstd
//! 3  checksum  CRC-32 (IEEE), little-endian, of all other bytes
//! 7  body      if compressed: its decompressed length as a varint, then a zstd frame
//! ```
//!
//! The body is the mark-delete position, a byte with a bit for each present section, and the sections.
//! `docs/formats.md` describes each section.

mod acks;
mod bits;
mod column;
mod sections;

use bits::{BitReader, BitWriter};

use super::PositionInfo;
use super::budget::Budget;
use super::compression::{Compression, ZstdCompressor};
use super::wire::{Reader, put_varint};
use crate::error::{Error, Result};
use crate::position::Position;

/// The first byte. In Protocol Buffers, this byte and the version byte are the tag of field 21 with wire type 4, the
/// end of a group.
pub(crate) const MAGIC: u8 = 0xac;

/// The version that this module writes. It is also the newest version that this module can read.
const VERSION: u8 = 1;

const COMPRESSED: u8 = 1;

/// The size of the header: magic, version, flags and checksum.
const HEADER_BYTES: usize = 7;

/// The minimum size, in bytes, at which a body is compressed. For a shorter body, the header of a zstd frame takes more
/// bytes than the compression saves.
const COMPRESS_FROM_BYTES: usize = 64;

/// The bit of each section. If it is set, the body has the section. Sections have the order of their bits.
mod section {
    pub(super) const ACKS: u64 = 1;
    pub(super) const SPANNING_RANGES: u64 = 2;
    pub(super) const BATCHES: u64 = 4;
    pub(super) const PROPERTIES: u64 = 8;
    pub(super) const REDELIVERY_COUNTS: u64 = 16;
    pub(super) const IDLE_SINCE: u64 = 32;
    pub(super) const UNKNOWN_FIELDS: u64 = 64;
    pub(super) const ALL: u64 = 127;
}

/// Writes a whole state.
pub(crate) fn encode(info: &PositionInfo, zstd: &mut ZstdCompressor) -> Result<Vec<u8>> {
    let mut bits = BitWriter::appending_to(vec![MAGIC, VERSION, 0, 0, 0, 0, 0]);
    put_body(&mut bits, info);
    seal(bits.finish(), zstd)
}

/// Reads a whole state.
pub(crate) fn decode(bytes: &[u8], max_bytes: usize) -> Result<PositionInfo> {
    let body = open(bytes, max_bytes)?;
    take_body(BitReader::new(body.bytes()), max_bytes).map_err(|error| body.locate(error))
}

/// The body of an encoded state whose header was checked.
enum Body<'a> {
    Plain(&'a [u8]),
    Decompressed(Vec<u8>),
}

impl Body<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Decompressed(bytes) => bytes,
        }
    }

    /// Converts the offset of an error in the body to an offset in the encoded state. For a body that was compressed,
    /// the error gets the offset at which the body begins, and its message contains the offset in the decompressed
    /// body.
    fn locate(&self, error: Error) -> Error {
        match (self, error) {
            (Self::Plain(_), Error::Corrupt { offset, message }) => {
                Error::corrupt(HEADER_BYTES + offset, message)
            }
            (Self::Decompressed(_), Error::Corrupt { offset, message }) => Error::corrupt(
                HEADER_BYTES,
                format!("byte {offset} of the decompressed body: {message}"),
            ),
            (_, error) => error,
        }
    }
}

/// Completes an encoded state: compresses the body if that makes it smaller, then writes the flag and the checksum into
/// the header.
fn seal(mut entry: Vec<u8>, zstd: &mut ZstdCompressor) -> Result<Vec<u8>> {
    let body = &entry[HEADER_BYTES..];
    if body.len() >= COMPRESS_FROM_BYTES {
        let mut size = Vec::new();
        put_varint(&mut size, body.len() as u64);
        let compressed = zstd.compress(body)?;
        if size.len() + compressed.len() < body.len() {
            entry.truncate(HEADER_BYTES);
            entry.extend_from_slice(&size);
            entry.extend_from_slice(&compressed);
            entry[2] |= COMPRESSED;
        }
    }
    let checksum = checksum(&entry);
    entry[3..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    Ok(entry)
}

/// Returns the CRC-32 of all bytes except the checksum. Python and most languages have it in their standard libraries.
fn checksum(entry: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&entry[..3]);
    crc.update(&entry[HEADER_BYTES..]);
    crc.finalize()
}

/// Checks the header; returns the body.
fn open(bytes: &[u8], max_bytes: usize) -> Result<Body<'_>> {
    let Some(header) = bytes.get(..HEADER_BYTES).filter(|header| header[0] == MAGIC) else {
        return Err(Error::corrupt(
            0,
            "not the compact form: no magic byte, or shorter than a header",
        ));
    };
    let expected = u32::from_le_bytes([header[3], header[4], header[5], header[6]]);
    let (version, flags) = (bytes[1], bytes[2]);
    let found = checksum(bytes);
    // Magic, version and checksum have the same offsets in every version, so a reader can distinguish a newer version
    // from damaged bytes.
    if version > VERSION {
        let message =
            format!("compact version {version}; the newest this release reads is {VERSION}");
        return Err(match found == expected {
            true => Error::NewerVersion { offset: 1, message },
            false => Error::corrupt(1, message),
        });
    }
    if version == 0 {
        return Err(Error::corrupt(1, "compact version 0 does not exist"));
    }
    if found != expected {
        return Err(Error::corrupt(
            3,
            format!("checksum {found:08x}, expected {expected:08x}: bytes are missing or changed"),
        ));
    }
    if flags & !COMPRESSED != 0 {
        return Err(Error::corrupt(2, format!("flags {flags:#010b} are unknown")));
    }
    if flags & COMPRESSED == 0 {
        return Ok(Body::Plain(&bytes[HEADER_BYTES..]));
    }
    let mut reader = Reader::starting_at(bytes, HEADER_BYTES);
    let size = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
    let body =
        Compression::Zstd.decompress(reader.rest(), size, max_bytes).map_err(
            |error| match error {
                Error::Corrupt { message, .. } => reader.refuse(message),
                other => other,
            },
        )?;
    Ok(Body::Decompressed(body))
}

fn put_body(bits: &mut BitWriter, info: &PositionInfo) {
    bits.put_varint(info.mark_delete.ledger_id as u64);
    bits.put_varint(info.mark_delete.entry_id.wrapping_add(1).cast_unsigned());
    let mut present = 0;
    for (is_there, section) in [
        (!info.individually_deleted.is_empty(), section::ACKS),
        (!info.spanning_ranges.is_empty(), section::SPANNING_RANGES),
        (!info.batch_deleted.is_empty(), section::BATCHES),
        (!info.properties.is_empty(), section::PROPERTIES),
        (!info.redelivery_counts.is_empty(), section::REDELIVERY_COUNTS),
        (info.idle_since.is_some(), section::IDLE_SINCE),
        (!info.unknown_fields.is_empty(), section::UNKNOWN_FIELDS),
    ] {
        present |= if is_there { section } else { 0 };
    }
    bits.put_varint(present);
    let has = |section| present & section != 0;
    if has(section::ACKS) {
        acks::put(bits, &info.individually_deleted);
    }
    if has(section::SPANNING_RANGES) {
        sections::put_spanning(bits, &info.spanning_ranges);
    }
    if has(section::BATCHES) {
        sections::put_batches(bits, &info.batch_deleted);
    }
    if has(section::PROPERTIES) {
        sections::put_properties(bits, &info.properties);
    }
    if has(section::REDELIVERY_COUNTS) {
        sections::put_counts(bits, &info.redelivery_counts);
    }
    if let Some(idle_since) = info.idle_since {
        sections::put_int(bits, idle_since);
    }
    if has(section::UNKNOWN_FIELDS) {
        sections::put_bytes(bits, &info.unknown_fields);
    }
}

fn take_body(mut bits: BitReader<'_>, max_bytes: usize) -> Result<PositionInfo> {
    let mut budget = Budget::new(max_bytes);
    let ledger_id = i64::try_from(bits.take_varint()?);
    let entry = bits.take_varint()?;
    let (Ok(ledger_id), true) = (ledger_id, entry <= 1 << 63) else {
        return Err(bits.refuse("a mark-delete position of more than 63 bits"));
    };
    let mut info = PositionInfo::new(Position::new(ledger_id, entry.wrapping_sub(1).cast_signed()));
    let present = bits.take_varint()?;
    if present & !section::ALL != 0 {
        return Err(bits.refuse(format!("sections {present:#b} are unknown")));
    }
    let has = |section| present & section != 0;
    if has(section::ACKS) {
        info.individually_deleted = acks::take(&mut bits, &mut budget)?;
        bits.align()?;
    }
    if has(section::SPANNING_RANGES) {
        info.spanning_ranges = sections::take_spanning(&mut bits, &mut budget)?;
    }
    if has(section::BATCHES) {
        info.batch_deleted = sections::take_batches(&mut bits, &mut budget)?;
    }
    if has(section::PROPERTIES) {
        info.properties = sections::take_properties(&mut bits, &mut budget)?;
    }
    if has(section::REDELIVERY_COUNTS) {
        info.redelivery_counts = sections::take_counts(&mut bits, &mut budget)?;
    }
    if has(section::IDLE_SINCE) {
        info.idle_since = Some(sections::take_int(&mut bits)?);
    }
    if has(section::UNKNOWN_FIELDS) {
        let fields = sections::take_bytes(&mut bits, &mut budget)?;
        info.set_unknown_fields(fields)
            .map_err(|_| bits.refuse("bytes that are not unknown fields"))?;
    }
    bits.finish()?;
    Ok(info)
}
