//! `CommandAck`: a client's acknowledgment command, decoded into columns.
//!
//! ```text
//! ledger_ids, entry_ids   one row for each message id
//! ack_sets                None if no id has an ack set, else the start of each id's words, and the words of all ids
//! others                  the ids that have more than a position and an ack set, in order of their row
//! ```
//!
//! A command often has hundreds of ids that have only a position and an ack set. The values of these ids are stored in
//! arrays, so that the cursor acknowledges all of them in one call. Other ids are rare, and each becomes a
//! [`MessageId`]. Unknown fields and unknown enum values are kept byte for byte.

use crate::error::{Error, LimitReached, Result};
use crate::position_info::wire::{Field, Reader, Value};

/// The maximum number of messages in a batch. `ackwell.cursor.ack_sets.BATCH_SIZE_MAX` gives the reason for this limit.
pub const BATCH_SIZE_MAX: i32 = 1 << 20;

/// The maximum number of 64-bit words in one ack set.
pub const WORDS_MAX: usize = BATCH_SIZE_MAX as usize / 64;

/// The maximum depth of nested `first_chunk` fields. A valid command has at most one level. Commands with deeper
/// nesting are hostile.
const CHUNK_DEPTH_MAX: usize = 4;

/// The number of values of Pulsar's enum `ValidationError`.
const VALIDATION_ERRORS: i32 = 5;

/// One `MessageIdData`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageId {
    /// Field 1, converted to a signed number.
    pub ledger_id: i64,
    /// Field 2, converted to a signed number.
    pub entry_id: i64,
    /// Field 3; −1 if absent.
    pub partition: i32,
    /// Field 4; −1 if absent.
    pub batch_index: i32,
    /// Field 5: the words of the ack set. A set bit means not acknowledged. Empty if the whole entry is acknowledged.
    pub ack_set: Vec<i64>,
    /// Field 6.
    pub batch_size: Option<i32>,
    /// Field 7: the first chunk of a chunked message.
    pub first_chunk: Option<Box<MessageId>>,
    /// The bytes of all other fields, unchanged.
    pub unknown_fields: Vec<u8>,
}

impl MessageId {
    /// Returns whether the id has only a position and an ack set.
    fn is_plain(&self) -> bool {
        self.partition == -1
            && self.batch_index == -1
            && self.batch_size.is_none()
            && self.first_chunk.is_none()
            && self.unknown_fields.is_empty()
    }
}

/// The ack sets of all ids of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckSets {
    /// For each id, the index of its first word in `words`. One more element at the end is the total number of words.
    pub starts: Vec<i64>,
    /// The words of all ids, one id after another.
    pub words: Vec<i64>,
}

/// An acknowledgment command. The module documentation describes its representation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandAck {
    /// Field 1.
    pub consumer_id: u64,
    /// Field 2: whether the acknowledgment is cumulative.
    pub cumulative: bool,
    /// The ledger of each id.
    pub ledger_ids: Vec<i64>,
    /// The entry of each id.
    pub entry_ids: Vec<i64>,
    /// The ack sets, if any id has one.
    pub ack_sets: Option<AckSets>,
    /// The ids that have more than a position and an ack set, each with its row. The columns and `ack_sets` contain
    /// these ids too.
    pub others: Vec<(usize, MessageId)>,
    /// Field 4.
    pub validation_error: Option<i32>,
    /// Field 5: the names and values of the properties.
    pub properties: Vec<(String, u64)>,
    /// Field 6.
    pub transaction_least_bits: Option<u64>,
    /// Field 7.
    pub transaction_most_bits: Option<u64>,
    /// Field 8.
    pub request_id: Option<u64>,
    /// The bytes of all other fields, unchanged.
    pub unknown_fields: Vec<u8>,
}

impl CommandAck {
    /// Reads a command. If a field that is not repeated occurs twice, the last value counts, as in Protocol Buffers.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for bytes that are not a command, [`Error::Limit`] for a batch of more than
    /// [`BATCH_SIZE_MAX`] messages.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut command = Self::default();
        let (mut consumer_id, mut cumulative) = (None, None);
        let mut reader = Reader::new(bytes);
        loop {
            command.read_plain_ids(&mut reader);
            let Some(field) = reader.field()? else { break };
            match field.number {
                1 => consumer_id = Some(field.varint()?),
                2 if (0..2).contains(&int32(&field)?) => cumulative = Some(int32(&field)? == 1),
                3 => command.push(read_message_id(field.message()?, 0)?),
                4 if (0..VALIDATION_ERRORS).contains(&int32(&field)?) => {
                    command.validation_error = Some(int32(&field)?);
                }
                5 => command.properties.push(read_property(&field)?),
                6 => command.transaction_least_bits = Some(field.varint()?),
                7 => command.transaction_most_bits = Some(field.varint()?),
                8 => command.request_id = Some(field.varint()?),
                _ => command.unknown_fields.extend_from_slice(reader.since(field.start)),
            }
        }
        let (Some(consumer_id), Some(cumulative)) = (consumer_id, cumulative) else {
            return Err(reader.refuse("an acknowledgment without consumer or type"));
        };
        (command.consumer_id, command.cumulative) = (consumer_id, cumulative);
        Ok(command)
    }

    /// Reads ids up to the first id that is not plain, and builds no `MessageId` for them. A plain id has a ledger, an
    /// entry and at most one word, in this order, and nothing else. [`read_message_id`] reads the other ids.
    fn read_plain_ids(&mut self, reader: &mut Reader<'_>) {
        let bytes = reader.rest();
        let mut at = 0;
        while let Some((ledger_id, entry_id, word, length)) = plain_id(&bytes[at..]) {
            if self.ledger_ids.len() == self.ledger_ids.capacity() {
                // An estimate of the number of ids left, as if all had the length of this one.
                let left = (bytes.len() - at) / length;
                self.ledger_ids.reserve(left);
                self.entry_ids.reserve(left);
            }
            self.push_set(word.map(|word| word as i64).as_slice());
            self.ledger_ids.push(ledger_id as i64);
            self.entry_ids.push(entry_id as i64);
            at += length;
        }
        reader.advance(at);
    }

    fn push(&mut self, message: MessageId) {
        self.push_set(&message.ack_set);
        self.ledger_ids.push(message.ledger_id);
        self.entry_ids.push(message.entry_id);
        if !message.is_plain() {
            self.others.push((self.ledger_ids.len() - 1, message));
        }
    }

    /// Adds the words of the next id.
    #[inline]
    fn push_set(&mut self, words: &[i64]) {
        if self.ack_sets.is_none() && !words.is_empty() {
            let mut starts = Vec::with_capacity(self.ledger_ids.capacity() + 1);
            starts.resize(self.ledger_ids.len() + 1, 0);
            let words = Vec::with_capacity(self.ledger_ids.capacity());
            self.ack_sets = Some(AckSets { starts, words });
        }
        if let Some(sets) = &mut self.ack_sets {
            sets.words.extend_from_slice(words);
            sets.starts.push(sets.words.len() as i64);
        }
    }
}

/// The tags of a plain id, one byte each: the tag of the id in the command, and the tags of the fields 1, 2 and 5 in
/// the id.
const ID_TAG: u8 = 3 << 3 | 2;
const LEDGER_ID_TAG: u8 = 1 << 3;
const ENTRY_ID_TAG: u8 = 2 << 3;
const WORD_TAG: u8 = 5 << 3;

/// Parses the plain id at the start of the bytes. Returns its ledger, its entry, its word, and its length in bytes;
/// `None` if the id is not plain.
#[inline]
fn plain_id(bytes: &[u8]) -> Option<(u64, u64, Option<u64>, usize)> {
    let [ID_TAG, length, LEDGER_ID_TAG, rest @ ..] = bytes else { return None };
    let (ledger_id, rest) = short_varint(rest)?;
    let [ENTRY_ID_TAG, rest @ ..] = rest else { return None };
    let (entry_id, rest) = short_varint(rest)?;
    let length = usize::from(*length) + 2;
    if bytes.len() - rest.len() == length {
        return Some((ledger_id, entry_id, None, length));
    }
    let [WORD_TAG, rest @ ..] = rest else { return None };
    let (word, rest) = short_varint(rest)?;
    (bytes.len() - rest.len() == length).then_some((ledger_id, entry_id, Some(word), length))
}

/// Parses a varint of at most eight bytes. Returns its value and the bytes after it; `None` for a longer one.
#[inline]
fn short_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

fn read_message_id(mut reader: Reader<'_>, depth: usize) -> Result<MessageId> {
    let start = reader.offset();
    if depth > CHUNK_DEPTH_MAX {
        return Err(Error::corrupt(start, "chunk ids nested in chunk ids"));
    }
    let (mut ledger_id, mut entry_id) = (None, None);
    let mut message = MessageId {
        ledger_id: 0,
        entry_id: 0,
        partition: -1,
        batch_index: -1,
        ack_set: Vec::new(),
        batch_size: None,
        first_chunk: None,
        unknown_fields: Vec::new(),
    };
    while let Some(field) = reader.field()? {
        match field.number {
            1 => ledger_id = Some(field.varint()? as i64),
            2 => entry_id = Some(field.varint()? as i64),
            3 => message.partition = int32(&field)?,
            4 => message.batch_index = int32(&field)?,
            5 => read_words(&field, &mut message.ack_set)?,
            6 => message.batch_size = Some(int32(&field)?),
            7 => {
                let first = read_message_id(field.message()?, depth + 1)?;
                message.first_chunk = Some(Box::new(first));
            }
            _ => message.unknown_fields.extend_from_slice(reader.since(field.start)),
        }
    }
    let (Some(ledger_id), Some(entry_id)) = (ledger_id, entry_id) else {
        return Err(Error::corrupt(start, "a message id without ledger or entry"));
    };
    if let Some(batch_size) = message.batch_size.filter(|size| *size > BATCH_SIZE_MAX) {
        let cause = LimitReached::BatchSize { batch_size, max: BATCH_SIZE_MAX };
        return Err(Error::Limit(cause));
    }
    (message.ledger_id, message.entry_id) = (ledger_id, entry_id);
    Ok(message)
}

/// Appends the words of an ack-set field to `words`: one word or, if the field is packed, all its words.
fn read_words(field: &Field<'_>, words: &mut Vec<i64>) -> Result<()> {
    if let Value::Varint(word) = field.value {
        words.push(word as i64);
    } else {
        let mut packed = field.message()?;
        // More words than the maximum are refused below, so the loop need not read them all.
        while !packed.is_empty() && words.len() <= WORDS_MAX {
            words.push(packed.varint()? as i64);
        }
    }
    if words.len() > WORDS_MAX {
        let cause = LimitReached::AckSetWords { max: WORDS_MAX, batch_size_max: BATCH_SIZE_MAX };
        return Err(Error::Limit(cause));
    }
    Ok(())
}

fn read_property(field: &Field<'_>) -> Result<(String, u64)> {
    let (mut name, mut value) = (None, None);
    let mut reader = field.message()?;
    while let Some(part) = reader.field()? {
        match part.number {
            1 => name = Some(text(part.message()?)?),
            2 => value = Some(part.varint()?),
            _ => {}
        }
    }
    match (name, value) {
        (Some(name), Some(value)) => Ok((name, value)),
        _ => Err(Error::corrupt(field.start, "a property without name or value")),
    }
}

fn text(reader: Reader<'_>) -> Result<String> {
    match std::str::from_utf8(reader.rest()) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            Err(Error::corrupt(reader.offset() + error.valid_up_to(), "a name that is not UTF-8"))
        }
    }
}

/// Returns a varint as an int32: its low 32 bits, signed, as in Protocol Buffers.
fn int32(field: &Field<'_>) -> Result<i32> {
    Ok(field.varint()? as i32)
}
