//! The reader of one line's fields by the rules of JSON: any order, any escapes, any further fields.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::partials::NULL;

/// The fields of one line that the fold needs.
#[derive(Default)]
pub(super) struct Fields<'a> {
    /// The names of the kind, topic, subscription and transaction, in this order.
    pub(super) names: [Option<Name<'a>>; NAMES],
    /// The ledger id, entry id, sequence, batch index, batch size and redelivery count, in this order.
    pub(super) counts: [i64; 6],
    pub(super) has_set: bool,
    /// Whether the broker refused the published message.
    pub(super) refused: bool,
}

/// The number of fields in [`Fields::names`].
pub(super) const NAMES: usize = 4;

/// A name in a line.
pub(super) enum Name<'a> {
    /// The number of a name that an earlier line had too.
    Known(i32),
    /// The bytes between the quotes. The name has no escapes, so these bytes are the name.
    Plain(&'a [u8]),
    /// The name after decoding by the rules of JSON.
    Text(Cow<'a, str>),
}

impl<'a> Fields<'a> {
    pub(super) fn read(text: &'a [u8], words: &mut Vec<i64>) -> Option<Self> {
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let fields = FieldsVisitor { words }.deserialize(&mut deserializer).ok()?;
        deserializer.end().ok()?;
        Some(fields)
    }
}

struct FieldsVisitor<'w> {
    words: &'w mut Vec<i64>,
}

/// The short field names of traces, each with the full name.
const SHORT_NAMES: [(&str, &str); 10] = [
    ("ev", "kind"),
    ("t", "time_ms"),
    ("c", "consumer"),
    ("l", "ledger_id"),
    ("e", "entry_id"),
    ("bi", "batch_index"),
    ("rc", "redelivery_count"),
    ("sub", "subscription"),
    ("deliver_at", "deliver_at_ms"),
    ("txn", "transaction"),
];

/// Returns the full name of a field.
pub(super) fn full_name(name: &str) -> &str {
    SHORT_NAMES.iter().find(|short| short.0 == name).map_or(name, |short| short.1)
}

fn full_name_bytes(name: &[u8]) -> &[u8] {
    SHORT_NAMES
        .iter()
        .find(|short| short.0.as_bytes() == name)
        .map_or(name, |short| short.1.as_bytes())
}

/// The field to which a key belongs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Key {
    /// A name, with its index in [`Fields::names`].
    Name(u8),
    /// A count, with its index in [`Fields::counts`].
    Count(u8),
    AckSet,
    Ok,
    /// An integer field that is checked and not stored. The number distinguishes these fields.
    Integer(u8),
    /// A text field that is checked and not stored. The number distinguishes these fields.
    Text(u8),
    Other,
}

impl Key {
    pub(super) fn of(name: &[u8]) -> Self {
        match full_name_bytes(name) {
            b"kind" => Self::Name(0),
            b"topic" => Self::Name(1),
            b"subscription" => Self::Name(2),
            b"transaction" => Self::Name(3),
            b"ledger_id" => Self::Count(0),
            b"entry_id" => Self::Count(1),
            b"sequence" => Self::Count(2),
            b"batch_index" => Self::Count(3),
            b"batch_size" => Self::Count(4),
            b"redelivery_count" => Self::Count(5),
            b"ack_set" => Self::AckSet,
            b"ok" => Self::Ok,
            b"time_ms" => Self::Integer(0),
            b"deliver_at_ms" => Self::Integer(1),
            b"sticky_key_hash" => Self::Integer(2),
            b"consumer" => Self::Text(0),
            b"key" => Self::Text(1),
            _ => Self::Other,
        }
    }

    /// The number of values that [`Key::place`] can return.
    pub(super) const PLACES: usize = 18;

    /// Returns a number that is different for each key, from 0 up to [`Key::PLACES`], exclusive.
    pub(super) fn place(self) -> usize {
        usize::from(match self {
            Self::Name(place) => place,
            Self::AckSet => 4,
            Self::Ok => 5,
            Self::Count(place) => 6 + place,
            Self::Integer(place) => 12 + place,
            Self::Text(place) => 15 + place,
            Self::Other => 17,
        })
    }

    /// Returns a different bit for each key; 0 for an ignored key.
    pub(super) fn bit(self) -> u32 {
        match self {
            Self::Other => 0,
            _ => 1 << self.place(),
        }
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field's name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Key, E> {
                Ok(Key::of(name.as_bytes()))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// A JSON string as text. It is copied only if it has escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

impl<'de> DeserializeSeed<'de> for FieldsVisitor<'_> {
    type Value = Fields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fields<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldsVisitor<'_> {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields { counts: [NULL; 6], ..Fields::default() };
        let mut seen = 0;
        while let Some(key) = map.next_key::<Key>()? {
            if seen & key.bit() != 0 {
                return Err(A::Error::custom("a field twice"));
            }
            seen |= key.bit();
            match key {
                Key::Name(place) => {
                    fields.names[usize::from(place)] = text(&mut map)?.map(Name::Text);
                }
                Key::Count(place) => {
                    fields.counts[usize::from(place)] = integer(&mut map)?;
                }
                Key::Integer(_) => drop(integer(&mut map)?),
                Key::Text(_) => drop(text(&mut map)?),
                Key::AckSet => fields.has_set = map.next_value_seed(WordsSeed(self.words))?,
                Key::Ok => fields.refused = !map.next_value::<bool>()?,
                Key::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(fields)
    }
}

fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<Cow<'de, str>>, A::Error> {
    Ok(map.next_value::<Option<Text<'de>>>()?.map(|text| text.0))
}

fn integer<'de, A: MapAccess<'de>>(map: &mut A) -> Result<i64, A::Error> {
    match map.next_value::<Option<i64>>()? {
        None => Ok(NULL),
        Some(NULL) => Err(A::Error::custom("stands for null")),
        Some(value) => Ok(value),
    }
}

/// A deserializer that appends an array of words to a vector. It returns false for null.
struct WordsSeed<'w>(&'w mut Vec<i64>);

impl<'de> DeserializeSeed<'de> for WordsSeed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for WordsSeed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("signed 64-bit words")
    }

    fn visit_none<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut words: A) -> Result<bool, A::Error> {
        while let Some(word) = words.next_element::<i64>()? {
            self.0.push(word);
        }
        Ok(true)
    }
}
