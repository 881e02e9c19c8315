//! The fields of a line: their names, the types of their values, and the values that columns accept.
//!
//! There are two readers of a line. [`quick`](super::quick) reads the lines that recorders write, and
//! [`line`](super::line) reads any JSON object. Both find a field with [`Key::of`], and both pass its value to
//! [`Fields::put`].

use crate::partials::NULL;

/// The type of a field's value. The value of each field may also be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueType {
    /// A text that columns store, with its index in [`Fields::names`].
    Name(u8),
    /// An integer ≥ 0 that columns store, with its index in [`Fields::counts`].
    Count(u8),
    /// A list of signed 64-bit words.
    Words,
    /// `true` or `false`.
    Truth,
    /// An integer that columns do not store.
    Integer,
    /// A text that columns do not store.
    Text,
    /// Any value.
    Any,
    /// Any value. Only its JSON text is kept.
    Json,
}

/// The number of fields in [`FIELDS`].
pub(super) const FIELD_COUNT: usize = 23;

/// The fields of a line: the full name, the name in recorded traces, and the type of the value.
pub(super) const FIELDS: [(&str, &str, ValueType); FIELD_COUNT] = [
    ("kind", "ev", ValueType::Name(0)),
    ("topic", "topic", ValueType::Name(1)),
    ("subscription", "sub", ValueType::Name(2)),
    ("transaction", "txn", ValueType::Name(3)),
    ("ledger_id", "l", ValueType::Count(0)),
    ("entry_id", "e", ValueType::Count(1)),
    ("sequence", "sequence", ValueType::Count(2)),
    ("batch_index", "bi", ValueType::Count(3)),
    ("batch_size", "batch_size", ValueType::Count(4)),
    ("redelivery_count", "rc", ValueType::Count(5)),
    ("ack_set", "ack_set", ValueType::Words),
    ("ok", "ok", ValueType::Truth),
    ("time_ms", "t", ValueType::Integer),
    ("deliver_at_ms", "deliver_at", ValueType::Integer),
    ("deliver_after_ms", "deliver_after_ms", ValueType::Any),
    ("sticky_key_hash", "sticky_key_hash", ValueType::Integer),
    ("consumer", "c", ValueType::Text),
    ("key", "key", ValueType::Text),
    ("detail", "detail", ValueType::Json),
    ("file", "file", ValueType::Json),
    ("type", "type", ValueType::Json),
    ("mode", "mode", ValueType::Json),
    ("config", "config", ValueType::Json),
];

/// Returns the index in [`FIELDS`] of the field with this full name.
pub(super) const fn place_of(name: &str) -> usize {
    let mut place = 0;
    while !is_equal(FIELDS[place].0.as_bytes(), name.as_bytes()) {
        place += 1;
    }
    place
}

const fn is_equal(name: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < name.len() && at < other.len() && name[at] == other[at] {
        at += 1;
    }
    at == name.len() && at == other.len()
}

/// A key of a line: the index of its field in [`FIELDS`], and the type of its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) place: u8,
    pub(super) value: ValueType,
}

impl Key {
    /// A key that is not a field. Its value is ignored.
    pub(super) const UNKNOWN: Self = Self { place: FIELD_COUNT as u8, value: ValueType::Any };

    pub(super) fn of(name: &[u8]) -> Self {
        let is_named =
            |field: &(&str, &str, _)| name == field.0.as_bytes() || name == field.1.as_bytes();
        let place = FIELDS.iter().position(is_named);
        place.map_or(Self::UNKNOWN, |place| Self { place: place as u8, value: FIELDS[place].2 })
    }

    /// Returns a different bit for each field; 0 for an unknown key.
    pub(super) fn bit(self) -> u32 {
        (1 << self.place) & !(1 << Self::UNKNOWN.place)
    }
}

/// A name in a line.
#[derive(Debug, Clone, Copy)]
pub(super) enum Name<'a> {
    /// The number that identifies a name of an earlier line.
    Known(i32),
    /// The bytes between the quotes. The name has no escapes, so these bytes are the name.
    Plain(&'a [u8]),
    /// The name after decoding by the rules of JSON.
    Text(&'a str),
}

/// A value in a line.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Null,
    Text(Name<'a>),
    Integer(i64),
    Truth(bool),
    /// A list of signed 64-bit words, which the reader appended to the words of the columns.
    Words,
}

/// The fields of one line that columns store.
pub(super) struct Fields<'a> {
    pub(super) names: [Option<Name<'a>>; NAMES],
    pub(super) counts: [i64; 6],
    pub(super) has_set: bool,
}

/// The number of fields in [`Fields::names`].
pub(super) const NAMES: usize = 4;

impl Default for Fields<'_> {
    fn default() -> Self {
        Self { names: [None; NAMES], counts: [NULL; 6], has_set: false }
    }
}

impl<'a> Fields<'a> {
    /// Stores a value if columns store its field. Returns `None` if columns cannot hold the line: the value has another
    /// type than its field, a count is negative, an integer is [`NULL`], or `ok` is false. If `ok` is false, the event
    /// can be of another kind than the line names. [`line`](super::line) replaces the kind of such an event, and
    /// removes `ok`.
    #[inline]
    pub(super) fn put(&mut self, field: ValueType, value: Value<'a>) -> Option<()> {
        match (field, value) {
            (ValueType::Name(place), Value::Text(name)) => {
                self.names[usize::from(place)] = Some(name);
            }
            (ValueType::Count(place), Value::Integer(count)) if count >= 0 => {
                self.counts[usize::from(place)] = count;
            }
            (ValueType::Words, Value::Words) => self.has_set = true,
            (ValueType::Any | ValueType::Json, Value::Words) => return None,
            (ValueType::Integer, Value::Integer(value)) if value != NULL => {}
            (ValueType::Text, Value::Text(_))
            | (ValueType::Truth, Value::Truth(true))
            | (ValueType::Any | ValueType::Json, _)
            | (_, Value::Null) => {}
            _ => return None,
        }
        Some(())
    }
}
