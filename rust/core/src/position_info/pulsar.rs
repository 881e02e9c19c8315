//! The encoding of `PositionInfo` in Pulsar's two forms: field 3 lists acknowledged entries as ranges, field 6 as bit
//! sets.
//!
//! Fields are written in the order of their numbers, then the unknown fields; they are read in any order. If both
//! field 3 and field 6 are present, field 3 wins, as in a broker.

use super::budget::Budget;
use super::form::{Form, FormChoice};
use super::limits::Limits;
use super::messages::{
    checked_position, each_long_list_word, long_list_key, long_list_length, put_batches,
    put_long_properties, put_range, put_words, read_batch, read_long_property, read_range,
    unpacked_length,
};
use super::wire::{Reader, Value, put_int_field, put_length};
use super::{PositionInfo, ranges};
use crate::error::{Error, LimitReached, Result};
use crate::position::Position;

const LEDGER_ID: u32 = 1;
const ENTRY_ID: u32 = 2;
const INDIVIDUAL_DELETED_MESSAGES: u32 = 3;
const PROPERTIES: u32 = 4;
const BATCHED_ENTRY_DELETION_INDEX_INFO: u32 = 5;
const INDIVIDUAL_DELETED_MESSAGE_RANGES: u32 = 6;
const IDLE_SINCE: u32 = 7;

/// The encoded size of a range whose ledger id and entry ids are below 2^14, in bytes. Most ranges have this size. The
/// writer reserves it for each range, so that a large vector need not grow and be copied.
const USUAL_RANGE_BYTES: usize = 20;

/// The maximum size of a Protocol Buffers message, in bytes. The bit set of a very large entry id would exceed it.
const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;

/// The maximum size of an entry that a bookie accepts by default, in bytes: a frame of 5 MiB minus its header.
const BROKER_ENTRY_BYTES_MAX: usize = (5 << 20) - (1 << 10);

/// The first major version whose every release reads [`Form::PulsarLongArray`] (apache/pulsar#9292).
const LONG_ARRAY_SINCE_MAJOR: u32 = 4;

impl PositionInfo {
    /// Returns the form that `choice` gives for this state. For `pulsar-auto`, also replaces a `None` in
    /// `limits.max_bytes` by the maximum size of a ledger entry.
    #[must_use]
    pub fn choose_form(&self, choice: FormChoice, limits: &mut Limits) -> Form {
        match choice {
            FormChoice::Form(form) => form,
            FormChoice::PulsarAuto { broker_major } => {
                limits.max_bytes.get_or_insert(BROKER_ENTRY_BYTES_MAX);
                self.smaller_pulsar_form(broker_major)
            }
        }
    }

    /// Returns the Pulsar form with the smaller encoding. It considers only forms that a broker of this major version
    /// can read.
    #[must_use]
    pub fn smaller_pulsar_form(&self, broker_major: u32) -> Form {
        if broker_major < LONG_ARRAY_SINCE_MAJOR {
            return Form::PulsarRanges;
        }
        match self.encode(Form::PulsarLongArray) {
            Ok(bytes) if bytes.len() < encode_ranges(self).len() => Form::PulsarLongArray,
            _ => Form::PulsarRanges,
        }
    }

    /// Appends the state in the smaller of Pulsar's forms. Returns the encoded sizes in the ranges form and in the
    /// long-array form, in bytes. The second is `None` if the long-array form cannot hold the state.
    pub(crate) fn put_smaller(&self, out: &mut Vec<u8>) -> (usize, Option<usize>) {
        let start = out.len();
        let (mut ranges, mut arrays) = (Vec::new(), Vec::new());
        put_all_ranges(&mut ranges, INDIVIDUAL_DELETED_MESSAGES, self);
        put_mark_delete(out, self);
        let before_ranges = out.len();
        put_properties_and_batches(out, self);
        let fits = put_long_arrays(&mut arrays, out.len() - start, self).is_ok();
        let chosen = if fits && arrays.len() < ranges.len() {
            out.extend_from_slice(&arrays);
            &arrays
        } else {
            out.splice(before_ranges..before_ranges, ranges.iter().copied());
            &ranges
        };
        put_idle_since_and_unknown(out, self);
        let common = out.len() - start - chosen.len();
        (common + ranges.len(), fits.then_some(common + arrays.len()))
    }
}

/// Reads a `PositionInfo`.
pub(crate) fn decode(bytes: &[u8], max_bytes: usize) -> Result<(PositionInfo, Form)> {
    let mut budget = Budget::new(max_bytes);
    let mut info = PositionInfo::new(Position::new(0, -1));
    let mut reader = Reader::new(bytes);
    let (mut ledger_id, mut entry_id) = (None, None);
    let mut deleted = ranges::Collector::new();
    while let Some(field) = reader.field()? {
        match (field.number, field.value) {
            (LEDGER_ID, Value::Varint(value)) => ledger_id = Some(value as i64),
            (ENTRY_ID, Value::Varint(value)) => entry_id = Some(value as i64),
            (INDIVIDUAL_DELETED_MESSAGES, Value::Bytes(message)) => {
                deleted.add_range(read_range(message)?, &mut budget)?;
                deleted.take_framed(&mut reader, INDIVIDUAL_DELETED_MESSAGES, &budget)?;
            }
            (PROPERTIES, Value::Bytes(message)) => {
                read_long_property(message, &mut info.properties, &mut budget)?;
            }
            (BATCHED_ENTRY_DELETION_INDEX_INFO, Value::Bytes(message)) => {
                read_batch(message, &mut info.batch_deleted, &mut budget)?;
            }
            (INDIVIDUAL_DELETED_MESSAGE_RANGES, Value::Bytes(message)) => {
                let ledger_id = long_list_key(message)?;
                let mut words = deleted.words_of(ledger_id);
                each_long_list_word(message, |word| words.push(word, &budget))?;
                words.finish(&budget)?;
            }
            (IDLE_SINCE, Value::Varint(value)) => info.idle_since = Some(value as i64),
            _ => info.unknown_fields.extend_from_slice(reader.since(field.start)),
        }
    }
    let (Some(ledger_id), Some(entry_id)) = (ledger_id, entry_id) else {
        return Err(reader.refuse("a PositionInfo without ledgerId or entryId"));
    };
    info.mark_delete = checked_position(0, ledger_id, entry_id, -1)?;
    let (form, acks) = deleted.finish(&budget)?;
    info.individually_deleted = acks.set;
    info.spanning_ranges = acks.spanning;
    Ok((info, form))
}

/// Writes acknowledged entries as ranges.
pub(crate) fn encode_ranges(info: &PositionInfo) -> Vec<u8> {
    let mut out = Vec::with_capacity(USUAL_RANGE_BYTES * info.individually_deleted.len());
    put_mark_delete(&mut out, info);
    put_all_ranges(&mut out, INDIVIDUAL_DELETED_MESSAGES, info);
    put_properties_and_batches(&mut out, info);
    put_idle_since_and_unknown(&mut out, info);
    out
}

/// Appends each range as a field with this number, including ranges that begin in one ledger and end in a later one.
pub(crate) fn put_all_ranges(out: &mut Vec<u8>, number: u32, info: &PositionInfo) {
    ranges::put_all(out, number, &info.individually_deleted);
    for &(lower, upper) in &info.spanning_ranges {
        put_range(out, number, lower, upper);
    }
}

/// Writes acknowledged entries as bit sets.
pub(crate) fn encode_long_array(info: &PositionInfo) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    put_mark_delete(&mut out, info);
    put_properties_and_batches(&mut out, info);
    put_long_arrays(&mut out, 0, info)?;
    put_idle_since_and_unknown(&mut out, info);
    Ok(out)
}

/// Appends the acknowledged entries of each ledger as a bit set. `before` is the number of bytes of the message that
/// are not in `out`; they count towards the maximum size of the message.
fn put_long_arrays(out: &mut Vec<u8>, before: usize, info: &PositionInfo) -> Result<()> {
    let form = Form::PulsarLongArray.name();
    if let Some((lower, upper)) = info.spanning_ranges.first() {
        let (lower, upper) = ((*lower).into(), (*upper).into());
        return Err(Error::Limit(LimitReached::SpanningRange { form, lower, upper }));
    }
    for ledger_id in info.individually_deleted.ledger_ids() {
        let words = info.individually_deleted.words_of(ledger_id)?;
        let length = long_list_length(ledger_id, unpacked_length(&words));
        if length > MESSAGE_BYTES_MAX - (before + out.len()).min(MESSAGE_BYTES_MAX) {
            let max_bytes = MESSAGE_BYTES_MAX;
            return Err(Error::Limit(LimitReached::MessageBytes { form, max_bytes }));
        }
        put_length(out, INDIVIDUAL_DELETED_MESSAGE_RANGES, length);
        put_int_field(out, 1, ledger_id);
        put_words(out, &words);
    }
    Ok(())
}

fn put_mark_delete(out: &mut Vec<u8>, info: &PositionInfo) {
    put_int_field(out, LEDGER_ID, info.mark_delete.ledger_id);
    put_int_field(out, ENTRY_ID, info.mark_delete.entry_id);
}

fn put_properties_and_batches(out: &mut Vec<u8>, info: &PositionInfo) {
    put_long_properties(out, PROPERTIES, &info.properties);
    put_batches(out, BATCHED_ENTRY_DELETION_INDEX_INFO, &info.batch_deleted);
}

fn put_idle_since_and_unknown(out: &mut Vec<u8>, info: &PositionInfo) {
    if let Some(idle_since) = info.idle_since {
        put_int_field(out, IDLE_SINCE, idle_since);
    }
    out.extend_from_slice(&info.unknown_fields);
}
