//! The persisted cursor: the content of Pulsar's `PositionInfo` and `ManagedCursorInfo`, and their bytes.
//!
//! A [`PositionInfo`] is a plain value, independent of brokers and stores. The modules, from the lowest level: `wire`
//! (the wire format of Protocol Buffers), `messages` (the messages that are nested in `PositionInfo` and
//! `ManagedCursorInfo`), `pulsar` (the message `PositionInfo`), `managed_cursor_info` (the message
//! `ManagedCursorInfo`), `compact` (the compact form), `budget` (the memory limit of decoding).

mod range_frame;
mod budget;
mod compact;
mod compression;
mod managed_cursor_info;
mod form;
mod limits;
mod messages;
mod pulsar;
mod ranges;
pub(crate) mod wire;

use std::collections::BTreeMap;

pub use budget::RESULT_BYTES_MAX;
pub use compression::Compression;
pub(crate) use compression::ZstdCompressor;
pub use form::{Form, FormChoice};
pub use limits::{Limits, Loss};
pub use managed_cursor_info::ManagedCursorInfo;

use crate::ack_sets::AckSets;
use crate::error::{Error, InvalidArgument, Result, Validity, invariant};
use crate::position::Position;
use crate::range_set::PositionRangeSet;

/// A persisted cursor: the mark-delete position, and the positions acknowledged after it.
///
/// Decoding does not change the content. As a broker does, it keeps ranges that are at or before the mark-delete
/// position, after the end of a ledger, or in an unknown ledger. The cursor removes these ranges later.
#[derive(Debug, Clone, PartialEq)]
pub struct PositionInfo {
    /// The mark-delete position. Everything up to and including it is acknowledged.
    pub mark_delete: Position,
    /// The entries after the mark-delete position that are acknowledged as a whole.
    pub individually_deleted: PositionRangeSet,
    /// Ranges `(lower, upper]` that begin in one ledger and end in a later one. Brokers before 2.4 wrote them. The
    /// state does not contain the ends of ledgers, so `individually_deleted` has only the part of a range in the upper
    /// ledger.
    pub spanning_ranges: Vec<(Position, Position)>,
    /// The ack sets of partly acknowledged entries.
    pub batch_deleted: AckSets,
    /// The properties that a client stored with its last cumulative acknowledgment.
    pub properties: BTreeMap<String, i64>,
    /// The redelivery counts of entries. Only the compact form can hold them.
    pub redelivery_counts: BTreeMap<Position, i64>,
    /// The time since which the cursor is idle, in ms since the epoch (Pulsar 5.0.1).
    pub idle_since: Option<i64>,
    /// The concatenated bytes of unknown fields, including their tags.
    pub unknown_fields: Vec<u8>,
}

impl PositionInfo {
    /// Creates a state in which only the positions up to and including `mark_delete` are acknowledged.
    #[must_use]
    pub fn new(mark_delete: Position) -> Self {
        Self {
            mark_delete,
            individually_deleted: PositionRangeSet::new(),
            spanning_ranges: Vec::new(),
            batch_deleted: AckSets::default(),
            properties: BTreeMap::new(),
            redelivery_counts: BTreeMap::new(),
            idle_since: None,
            unknown_fields: Vec::new(),
        }
    }

    /// Sets the redelivery count of an entry.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative count.
    pub fn insert_redelivery_count(&mut self, position: Position, count: i64) -> Result<()> {
        if count < 0 {
            let Position { ledger_id, entry_id } = position;
            let cause = InvalidArgument::RedeliveryCount { count, ledger_id, entry_id };
            return Err(Error::Value(cause));
        }
        self.redelivery_counts.insert(position, count);
        Ok(())
    }

    /// Adds a range that begins in one ledger and ends in a later one. Its part in the upper ledger is also added to
    /// `individually_deleted`.
    ///
    /// # Errors
    /// [`Error::Value`] unless `upper` is in a later ledger than `lower`.
    pub fn add_spanning_range(&mut self, lower: Position, upper: Position) -> Result<()> {
        if lower.ledger_id >= upper.ledger_id {
            let (lower, upper) = (lower.into(), upper.into());
            return Err(Error::Value(InvalidArgument::SpanningRange { lower, upper }));
        }
        self.individually_deleted.add_range(upper.ledger_id, -1, upper.entry_id)?;
        self.spanning_ranges.push((lower, upper));
        Ok(())
    }

    /// Sets the unknown fields, which are written back unchanged.
    ///
    /// # Errors
    /// [`Error::Value`] if `fields` is not a sequence of whole fields, or contains a field that `PositionInfo` defines.
    pub fn set_unknown_fields(&mut self, fields: &[u8]) -> Result<()> {
        let mut bytes = vec![1 << 3, 0, 2 << 3, 0];
        bytes.extend_from_slice(fields);
        match pulsar::decode(&bytes, RESULT_BYTES_MAX) {
            Ok((info, _)) if info.unknown_fields == fields => {
                self.unknown_fields = info.unknown_fields;
                Ok(())
            }
            _ => Err(Error::Value(InvalidArgument::KnownFields)),
        }
    }

    /// Decodes a state in any form; returns the state and the form. The form is recognised by the content.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the offset where reading stopped; [`Error::Limit`] when the result would
    /// take more than `max_bytes` of memory.
    pub fn decode(bytes: &[u8], max_bytes: usize) -> Result<(Self, Form)> {
        match bytes.first() {
            Some(&compact::MAGIC) => Ok((compact::decode(bytes, max_bytes)?, Form::Compact)),
            _ => pulsar::decode(bytes, max_bytes),
        }
    }

    /// Encodes the state in a form.
    ///
    /// # Errors
    /// [`Error::Limit`] when the form cannot hold the state.
    pub fn encode(&self, form: Form) -> Result<Vec<u8>> {
        match form {
            Form::PulsarRanges => Ok(pulsar::encode_ranges(self)),
            Form::PulsarLongArray => pulsar::encode_long_array(self),
            Form::Compact => self.encode_compact(&mut ZstdCompressor::default()),
        }
    }

    /// Encodes the state in the compact form with a compressor, which the caller can use for many states.
    ///
    /// # Errors
    /// [`Error::Limit`] when the form cannot hold the state.
    pub(crate) fn encode_compact(&self, zstd: &mut ZstdCompressor) -> Result<Vec<u8>> {
        compact::encode(self, zstd)
    }

    /// Checks the invariants: every id is in its valid range.
    ///
    /// # Errors
    /// A sentence that names the broken invariant.
    pub fn validate(&self) -> Validity {
        invariant!(
            self.mark_delete.ledger_id >= 0 && self.mark_delete.entry_id >= -1,
            "mark-delete {}",
            self.mark_delete
        );
        self.individually_deleted.validate()?;
        for (lower, upper) in &self.spanning_ranges {
            invariant!(lower.ledger_id < upper.ledger_id, "a range inside one ledger spans none");
        }
        for (position, _) in self.batch_deleted.iter() {
            invariant!(position.ledger_id >= 0 && position.entry_id >= 0, "ack set of {position}");
        }
        Ok(())
    }
}
