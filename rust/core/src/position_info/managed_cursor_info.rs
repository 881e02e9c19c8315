//! `ManagedCursorInfo`: a cursor's record in the metadata store, with the header of compressed values.
//!
//! A compressed value has four parts: the bytes `0x4778`; a length as a big-endian int32; a message
//! `ManagedCursorInfoMetadata{compressionType=1, uncompressedSize=2}` of this length; the compressed
//! `ManagedCursorInfo`.

use std::collections::BTreeMap;

use super::budget::{Budget, RESULT_BYTES_MAX};
use super::compression::Compression;
use super::messages::{
    checked_position, put_batches, put_long_properties, put_string_properties, read_batch,
    read_long_property, read_range, read_string_property,
};
use super::wire::{Reader, Value, put_int_field};
use super::{PositionInfo, pulsar, ranges};
use crate::error::{Error, InvalidArgument, LimitReached, Result};
use crate::position::Position;

/// The first bytes of a compressed value. A plain message begins with the tag 0x08 instead.
pub(crate) const COMPRESSED_MAGIC: [u8; 2] = [0x47, 0x78];

const CURSORS_LEDGER_ID: u32 = 1;
const MARK_DELETE_LEDGER_ID: u32 = 2;
const MARK_DELETE_ENTRY_ID: u32 = 3;
const INDIVIDUAL_DELETED_MESSAGES: u32 = 4;
const PROPERTIES: u32 = 5;
const LAST_ACTIVE: u32 = 6;
const BATCHED_ENTRY_DELETION_INDEX_INFO: u32 = 7;
const CURSOR_PROPERTIES: u32 = 8;

/// A cursor's record in the metadata store. Its acknowledged entries are always stored as ranges.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagedCursorInfo {
    /// The BookKeeper ledger with the states of the cursor that are newer than this record; −1 if this record has the
    /// newest state.
    pub cursors_ledger_id: i64,
    /// The part of the state that is in this record.
    pub position_info: Option<PositionInfo>,
    /// The time of the cursor's last activity, in ms since the epoch.
    pub last_active: Option<i64>,
    /// Properties of the subscription.
    pub cursor_properties: BTreeMap<String, String>,
    /// The concatenated bytes of unknown fields, including their tags.
    pub unknown_fields: Vec<u8>,
}

impl ManagedCursorInfo {
    /// Returns a record without a state.
    #[must_use]
    pub fn new(cursors_ledger_id: i64) -> Self {
        Self {
            cursors_ledger_id,
            position_info: None,
            last_active: None,
            cursor_properties: BTreeMap::new(),
            unknown_fields: Vec::new(),
        }
    }

    /// Sets the state. It must not have content that only `PositionInfo` or the compact form can hold.
    ///
    /// # Errors
    /// [`Error::Value`] for redelivery counts, the idle time or unknown fields.
    pub fn set_position_info(&mut self, info: PositionInfo) -> Result<()> {
        if !info.redelivery_counts.is_empty()
            || info.idle_since.is_some()
            || !info.unknown_fields.is_empty()
        {
            return Err(Error::Value(InvalidArgument::ExtraFields));
        }
        self.position_info = Some(info);
        Ok(())
    }

    /// Sets the unknown fields, which are written back unchanged.
    ///
    /// # Errors
    /// [`Error::Value`] if `fields` is not a sequence of whole fields, or contains a field that `ManagedCursorInfo`
    /// defines.
    pub fn set_unknown_fields(&mut self, fields: &[u8]) -> Result<()> {
        let mut bytes = vec![1 << 3, 0];
        bytes.extend_from_slice(fields);
        match decode_message(&bytes, RESULT_BYTES_MAX) {
            Ok(record) if record.unknown_fields == fields => {
                self.unknown_fields = record.unknown_fields;
                Ok(())
            }
            _ => Err(Error::Value(InvalidArgument::KnownFields)),
        }
    }

    /// Reads the value; returns the record and the compression. The compression is `None` if the value has no header.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the offset (in the decompressed message, if there is a header) where reading
    /// stopped; [`Error::Limit`] when the message or the result would take more than `max_bytes`.
    pub fn decode(bytes: &[u8], max_bytes: usize) -> Result<(Self, Option<Compression>)> {
        if !bytes.starts_with(&COMPRESSED_MAGIC) {
            return Ok((decode_message(bytes, max_bytes)?, None));
        }
        let (compression, size, stored) = read_header(bytes)?;
        let message = compression.decompress(&bytes[stored..], size, max_bytes).map_err(
            |error| match error {
                Error::Corrupt { offset, message } => Error::corrupt(stored + offset, message),
                other => other,
            },
        )?;
        Ok((decode_message(&message, max_bytes)?, Some(compression)))
    }

    /// Writes the value, with the header of `compression` if one is given.
    ///
    /// # Errors
    /// [`Error::Limit`] if the length of the message does not fit into the header.
    pub fn encode(&self, compression: Option<Compression>) -> Result<Vec<u8>> {
        let message = encode_message(self);
        let Some(compression) = compression else { return Ok(message) };
        let size = i32::try_from(message.len())
            .map_err(|_| Error::Limit(LimitReached::ManagedCursorInfoBytes))?;
        let mut metadata = Vec::new();
        put_int_field(&mut metadata, 1, i64::from(compression.number()));
        put_int_field(&mut metadata, 2, i64::from(size));
        let mut out = COMPRESSED_MAGIC.to_vec();
        out.extend_from_slice(&(metadata.len() as u32).to_be_bytes());
        out.extend_from_slice(&metadata);
        out.extend_from_slice(&compression.compress(&message)?);
        Ok(out)
    }
}

/// Reads the header. Returns the compression, the decompressed size, and the start of the compressed bytes.
fn read_header(bytes: &[u8]) -> Result<(Compression, usize, usize)> {
    let mut reader = Reader::starting_at(bytes, COMPRESSED_MAGIC.len());
    let length = reader.take(4)?;
    let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
    let length = usize::try_from(length)
        .map_err(|_| Error::corrupt(COMPRESSED_MAGIC.len(), "a header of negative length"))?;
    let mut metadata = reader.slice(length)?;
    let (mut compression, mut size) = (None, None);
    let offset = metadata.offset();
    while let Some(field) = metadata.field()? {
        match (field.number, field.value) {
            (1, Value::Varint(value)) => {
                compression = Some(Compression::numbered(value).ok_or_else(|| {
                    Error::corrupt(field.start, format!("compression type {value} is unknown"))
                })?);
            }
            (2, Value::Varint(value)) => {
                size = Some(i32::try_from(value).map_err(|_| {
                    Error::corrupt(field.start, format!("a message of {value} bytes"))
                })? as usize);
            }
            _ => {}
        }
    }
    match (compression, size) {
        (Some(compression), Some(size)) => Ok((compression, size, reader.offset())),
        _ => Err(Error::corrupt(offset, "a header without compressionType or uncompressedSize")),
    }
}

fn decode_message(bytes: &[u8], max_bytes: usize) -> Result<ManagedCursorInfo> {
    let mut budget = Budget::new(max_bytes);
    let mut reader = Reader::new(bytes);
    let mut info = PositionInfo::new(Position::new(0, -1));
    let mut cursor_properties = BTreeMap::new();
    let mut unknown_fields = Vec::new();
    let (mut cursors_ledger_id, mut last_active) = (None, None);
    let (mut ledger_id, mut entry_id) = (None, None);
    let mut deleted = ranges::Collector::new();
    while let Some(field) = reader.field()? {
        match (field.number, field.value) {
            (CURSORS_LEDGER_ID, Value::Varint(value)) => cursors_ledger_id = Some(value as i64),
            (MARK_DELETE_LEDGER_ID, Value::Varint(value)) => ledger_id = Some(value as i64),
            (MARK_DELETE_ENTRY_ID, Value::Varint(value)) => entry_id = Some(value as i64),
            (INDIVIDUAL_DELETED_MESSAGES, Value::Bytes(message)) => {
                deleted.add_range(read_range(message)?, &mut budget)?;
                deleted.take_framed(&mut reader, INDIVIDUAL_DELETED_MESSAGES, &budget)?;
            }
            (PROPERTIES, Value::Bytes(message)) => {
                read_long_property(message, &mut info.properties, &mut budget)?;
            }
            (LAST_ACTIVE, Value::Varint(value)) => last_active = Some(value as i64),
            (BATCHED_ENTRY_DELETION_INDEX_INFO, Value::Bytes(message)) => {
                read_batch(message, &mut info.batch_deleted, &mut budget)?;
            }
            (CURSOR_PROPERTIES, Value::Bytes(message)) => {
                read_string_property(message, &mut cursor_properties, &mut budget)?;
            }
            _ => unknown_fields.extend_from_slice(reader.since(field.start)),
        }
    }
    let Some(cursors_ledger_id) = cursors_ledger_id else {
        return Err(reader.refuse("a ManagedCursorInfo without cursorsLedgerId"));
    };
    let (_, acks) = deleted.finish(&budget)?;
    info.individually_deleted = acks.set;
    info.spanning_ranges = acks.spanning;
    let position_info = match (ledger_id, entry_id) {
        (Some(ledger_id), Some(entry_id)) => {
            info.mark_delete = checked_position(0, ledger_id, entry_id, -1)?;
            Some(info)
        }
        (None, None) if info == PositionInfo::new(info.mark_delete) => None,
        _ => return Err(reader.refuse("acknowledgments without a whole mark-delete position")),
    };
    Ok(ManagedCursorInfo {
        cursors_ledger_id,
        position_info,
        last_active,
        cursor_properties,
        unknown_fields,
    })
}

fn encode_message(cursor: &ManagedCursorInfo) -> Vec<u8> {
    let mut out = Vec::new();
    put_int_field(&mut out, CURSORS_LEDGER_ID, cursor.cursors_ledger_id);
    if let Some(info) = &cursor.position_info {
        put_int_field(&mut out, MARK_DELETE_LEDGER_ID, info.mark_delete.ledger_id);
        put_int_field(&mut out, MARK_DELETE_ENTRY_ID, info.mark_delete.entry_id);
        pulsar::put_all_ranges(&mut out, INDIVIDUAL_DELETED_MESSAGES, info);
        put_long_properties(&mut out, PROPERTIES, &info.properties);
    }
    if let Some(last_active) = cursor.last_active {
        put_int_field(&mut out, LAST_ACTIVE, last_active);
    }
    if let Some(info) = &cursor.position_info {
        put_batches(&mut out, BATCHED_ENTRY_DELETION_INDEX_INFO, &info.batch_deleted);
    }
    put_string_properties(&mut out, CURSOR_PROPERTIES, &cursor.cursor_properties);
    out.extend_from_slice(&cursor.unknown_fields);
    out
}
