//! The nested messages of `PositionInfo` and `ManagedCursorInfo`. Both contain the same messages under different field
//! numbers.

use std::collections::BTreeMap;

use super::budget::Budget;
use super::wire::{
    Reader, Value, put_bytes_field, put_int_field, put_length, put_varint, tag_length,
    varint_length,
};
use crate::ack_sets::AckSets;
use crate::error::{Error, Result};
use crate::position::Position;

/// The approximate memory of a map entry without its content, in bytes: node, key and value header.
pub(crate) const MAP_ENTRY_BYTES: usize = 96;

/// Reads the int64 fields 1 and 2 of a message; `None` for a missing field.
fn two_ints(mut message: Reader<'_>) -> Result<(Option<i64>, Option<i64>)> {
    let (mut first, mut second) = (None, None);
    while let Some(field) = message.field()? {
        match (field.number, field.value) {
            (1, Value::Varint(value)) => first = Some(value as i64),
            (2, Value::Varint(value)) => second = Some(value as i64),
            _ => {}
        }
    }
    Ok((first, second))
}

/// Reads a `NestedPositionInfo{ledgerId=1, entryId=2}`. Both fields are required. An entry id below `least_entry` is an
/// error.
fn nested_position(message: Reader<'_>, least_entry: i64) -> Result<Position> {
    let offset = message.offset();
    let (Some(ledger_id), Some(entry_id)) = two_ints(message)? else {
        return Err(Error::corrupt(offset, "a position without ledgerId or entryId"));
    };
    checked_position(offset, ledger_id, entry_id, least_entry)
}

/// Returns the position, or an error if an id is missing or out of range.
pub(crate) fn checked_position(
    offset: usize,
    ledger_id: i64,
    entry_id: i64,
    least_entry: i64,
) -> Result<Position> {
    if ledger_id < 0 || entry_id < least_entry {
        return Err(Error::corrupt(
            offset,
            format!(
                "position {ledger_id}:{entry_id}: expected a ledger of at least 0 and an entry of at least {least_entry}"
            ),
        ));
    }
    Ok(Position::new(ledger_id, entry_id))
}

/// Reads a `MessageRange{lowerEndpoint=1, upperEndpoint=2}`, an open-closed range. Both fields are required.
pub(crate) fn read_range(mut message: Reader<'_>) -> Result<(Position, Position)> {
    let offset = message.offset();
    let (mut lower, mut upper) = (None, None);
    while let Some(field) = message.field()? {
        match (field.number, field.value) {
            (1, Value::Bytes(inner)) => lower = Some(nested_position(inner, -1)?),
            (2, Value::Bytes(inner)) => upper = Some(nested_position(inner, -1)?),
            _ => {}
        }
    }
    match (lower, upper) {
        (Some(lower), Some(upper)) if lower <= upper => Ok((lower, upper)),
        (Some(lower), Some(upper)) => {
            Err(Error::corrupt(offset, format!("range ({lower}..{upper}] ends before it begins")))
        }
        _ => Err(Error::corrupt(offset, "a range without lowerEndpoint or upperEndpoint")),
    }
}

/// Appends a position as the fields `ledgerId=1` and `entryId=2`.
fn put_position(out: &mut Vec<u8>, position: Position) {
    put_int_field(out, 1, position.ledger_id);
    put_int_field(out, 2, position.entry_id);
}

/// Returns the number of bytes that [`put_position`] appends.
fn position_length(position: Position) -> usize {
    2 + varint_length(position.ledger_id as u64) + varint_length(position.entry_id as u64)
}

/// Appends a `MessageRange` as a field with this number.
pub(crate) fn put_range(out: &mut Vec<u8>, number: u32, lower: Position, upper: Position) {
    let (lower_length, upper_length) = (position_length(lower), position_length(upper));
    put_length(out, number, 4 + lower_length + upper_length);
    put_length(out, 1, lower_length);
    put_position(out, lower);
    put_length(out, 2, upper_length);
    put_position(out, upper);
}

/// Reads a string, which must be UTF-8.
fn text(bytes: Reader<'_>) -> Result<String> {
    match std::str::from_utf8(bytes.rest()) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            Err(Error::corrupt(bytes.offset() + error.valid_up_to(), "a name that is not UTF-8"))
        }
    }
}

/// Reads the fields `name=1` and `value=2` of a property. Both are required. `value_of` returns `None` for a wrong wire
/// type.
fn name_and_value<'a, T>(
    mut message: Reader<'a>,
    value_of: impl Fn(Value<'a>) -> Option<T>,
    missing: &'static str,
) -> Result<(Reader<'a>, T)> {
    let offset = message.offset();
    let (mut name, mut value) = (None, None);
    while let Some(field) = message.field()? {
        match (field.number, field.value) {
            (1, Value::Bytes(bytes)) => name = Some(bytes),
            (2, found) => value = value_of(found).or(value),
            _ => {}
        }
    }
    name.zip(value).ok_or_else(|| Error::corrupt(offset, missing))
}

/// Reads a `LongProperty{name=1, value=2}`. Both fields are required. If a name occurs twice, the last value counts.
pub(crate) fn read_long_property(
    message: Reader<'_>,
    properties: &mut BTreeMap<String, i64>,
    budget: &mut Budget,
) -> Result<()> {
    let number = |value| match value {
        Value::Varint(number) => Some(number as i64),
        _ => None,
    };
    let (name, value) = name_and_value(message, number, "a property without name or value")?;
    budget.spend(MAP_ENTRY_BYTES + name.rest().len())?;
    properties.insert(text(name)?, value);
    Ok(())
}

/// Appends each property as a `LongProperty` field with this number, in the order of their names.
pub(crate) fn put_long_properties(
    out: &mut Vec<u8>,
    number: u32,
    properties: &BTreeMap<String, i64>,
) {
    for (name, &value) in properties {
        let name_length = 1 + varint_length(name.len() as u64) + name.len();
        put_length(out, number, name_length + 1 + varint_length(value as u64));
        put_bytes_field(out, 1, name.as_bytes());
        put_int_field(out, 2, value);
    }
}

/// Reads a `StringProperty{name=1, value=2}`. Both fields are required. If a name occurs twice, the last value counts.
pub(crate) fn read_string_property(
    message: Reader<'_>,
    properties: &mut BTreeMap<String, String>,
    budget: &mut Budget,
) -> Result<()> {
    let bytes = |value| match value {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    };
    let (name, value) = name_and_value(message, bytes, "a cursor property without name or value")?;
    budget.spend(MAP_ENTRY_BYTES + name.rest().len() + value.rest().len())?;
    properties.insert(text(name)?, text(value)?);
    Ok(())
}

/// Appends each property as a `StringProperty` field with this number, in the order of their names.
pub(crate) fn put_string_properties(
    out: &mut Vec<u8>,
    number: u32,
    properties: &BTreeMap<String, String>,
) {
    for (name, value) in properties {
        let length = |text: &str| 1 + varint_length(text.len() as u64) + text.len();
        put_length(out, number, length(name) + length(value));
        put_bytes_field(out, 1, name.as_bytes());
        put_bytes_field(out, 2, value.as_bytes());
    }
}

/// A collector of the words of a bit set. Zero words at the end are not stored, as in Java's `BitSet`.
#[derive(Default)]
struct Words {
    words: Vec<i64>,
    zeros: usize,
}

impl Words {
    fn push(&mut self, word: i64, budget: &mut Budget) -> Result<()> {
        if word == 0 {
            self.zeros += 1;
            return Ok(());
        }
        budget.spend(8 * (self.zeros + 1))?;
        self.words.resize(self.words.len() + self.zeros, 0);
        self.zeros = 0;
        self.words.push(word);
        Ok(())
    }
}

/// Calls `each` with every int64 in one occurrence of a repeated field. The occurrence has one element or, if the field
/// is packed, several.
pub(crate) fn each_int(value: Value<'_>, mut each: impl FnMut(i64) -> Result<()>) -> Result<()> {
    match value {
        Value::Varint(word) => each(word as i64),
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                each(packed.varint()? as i64)?;
            }
            Ok(())
        }
        Value::Other => Ok(()),
    }
}

/// Reads a `BatchedEntryDeletionIndexInfo{position=1, deleteSet=2}` with its fields in any order. If a position occurs
/// twice, the last set counts.
pub(crate) fn read_batch(
    mut message: Reader<'_>,
    batch_deleted: &mut AckSets,
    budget: &mut Budget,
) -> Result<()> {
    let offset = message.offset();
    let mut position = None;
    let mut set = Words::default();
    while let Some(field) = message.field()? {
        match (field.number, field.value) {
            (1, Value::Bytes(inner)) => position = Some(nested_position(inner, 0)?),
            (2, value) => each_int(value, |word| set.push(word, budget))?,
            _ => {}
        }
    }
    let position =
        position.ok_or_else(|| Error::corrupt(offset, "batch indexes without a position"))?;
    budget.spend(MAP_ENTRY_BYTES)?;
    batch_deleted.insert(position, &set.words);
    Ok(())
}

/// Appends each ack set as a `BatchedEntryDeletionIndexInfo` field with this number. Each word is a separate field,
/// because Pulsar does not write packed words.
pub(crate) fn put_batches(out: &mut Vec<u8>, number: u32, batch_deleted: &AckSets) {
    let mut words = Vec::new();
    for (position, set) in batch_deleted.iter() {
        words.clear();
        words.extend(set.words());
        let position_bytes = position_length(position);
        put_length(
            out,
            number,
            1 + varint_length(position_bytes as u64) + position_bytes + unpacked_length(&words),
        );
        put_length(out, 1, position_bytes);
        put_position(out, position);
        put_words(out, &words);
    }
}

/// Returns the number of bytes that [`put_words`] appends.
pub(crate) fn unpacked_length(words: &[i64]) -> usize {
    words.iter().map(|&word| 1 + varint_length(word as u64)).sum()
}

/// Appends each word as a separate field 2, not packed.
pub(crate) fn put_words(out: &mut Vec<u8>, words: &[i64]) {
    for &word in words {
        out.push(2 << 3);
        put_varint(out, word as u64);
    }
}

/// Returns the key of a `LongListMap{key=1, values=2}`. The key may be after the values.
pub(crate) fn long_list_key(mut message: Reader<'_>) -> Result<i64> {
    let offset = message.offset();
    let mut key = None;
    while let Some(field) = message.field()? {
        if let (1, Value::Varint(value)) = (field.number, field.value) {
            key = Some(value as i64);
        }
    }
    match key {
        Some(key) if key >= 0 => Ok(key),
        Some(key) => Err(Error::corrupt(offset, format!("ledger {key}: expected at least 0"))),
        None => Err(Error::corrupt(offset, "a long array without its ledger")),
    }
}

/// Calls `each` for every word of a `LongListMap`.
pub(crate) fn each_long_list_word(
    mut message: Reader<'_>,
    mut each: impl FnMut(i64) -> Result<()>,
) -> Result<()> {
    while let Some(field) = message.field()? {
        if field.number == 2 {
            each_int(field.value, &mut each)?;
        }
    }
    Ok(())
}

/// Returns the number of bytes of a `LongListMap` without its tag and length.
pub(crate) fn long_list_length(ledger_id: i64, values_length: usize) -> usize {
    tag_length(1) + varint_length(ledger_id as u64) + values_length
}
