//! The reader of all fields of one line. The line may be any JSON object.
//!
//! It is used for lines that [`quick`](super::quick) does not read, and for programs that need whole events. If the
//! columns cannot hold a line, the caller gets all its fields and checks their values.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::fields::{FIELD_COUNT, FIELDS, Fields, Key, Name, Value, ValueType, place_of};

const KIND: usize = place_of("kind");
const OK: usize = place_of("ok");
const TIME_MS: usize = place_of("time_ms");
const DELIVER_AFTER_MS: usize = place_of("deliver_after_ms");
const DELIVER_AT_MS: usize = place_of("deliver_at_ms");
const DETAIL: usize = place_of("detail");

/// The kinds of events whose detail is not in the field `detail`, each with the index of the field that has it.
const DETAILS: [(&str, usize); 4] = [
    ("snapshot", place_of("file")),
    ("consumer_open", place_of("type")),
    ("broker_restart", place_of("mode")),
    ("meta", place_of("config")),
];

/// A value of a field. Integers outside int64 keep their decimal digits.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum FieldValue<'a> {
    /// `null`, or the line does not have the field.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// An integer outside int64.
    LargeInteger(String),
    /// A number with a fraction.
    Float(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// An array.
    List(Vec<FieldValue<'a>>),
    /// An object. No field of an event has an object as value.
    Object,
}

/// The fields of one line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineFields<'a>(Box<[FieldValue<'a>; FIELD_COUNT]>);

impl<'a> LineFields<'a> {
    /// Reads a line. Returns `None` for a blank line.
    ///
    /// # Errors
    ///
    /// The reason, if the line is not a JSON object, or contains a field twice.
    pub(super) fn read(line: &'a [u8]) -> Result<Option<Self>, String> {
        let text = std::str::from_utf8(line).map_err(|error| {
            let at = error.valid_up_to();
            format!("unreadable: not UTF-8: byte {:#04x} in position {at}", line[at])
        })?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read = deserializer
            .deserialize_map(LineVisitor)
            .and_then(|fields| deserializer.end().map(|()| fields));
        let mut fields = read.map_err(|error| match error.classify() {
            Category::Data => error.to_string(),
            _ if text.ends_with('\n') => format!("not JSON: {error}"),
            _ => format!("not JSON: {error}; the file ends here: was its last line torn?"),
        })?;
        fields.complete()?;
        Ok(Some(fields))
    }

    /// Returns the fields that are not null, each with its full name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &FieldValue<'a>)> {
        let named = FIELDS.iter().map(|field| field.0).zip(self.0.iter());
        named.filter(|(_, value)| **value != FieldValue::Null)
    }

    /// Returns the fields that columns store, and appends the words of the ack set to `words`. Returns `None` if
    /// columns cannot hold the line.
    pub(super) fn stored(&self, words: &mut Vec<i64>) -> Option<Fields<'_>> {
        let mut fields = Fields::default();
        let known = FIELDS.iter().zip(self.0.iter());
        for ((_, _, field), value) in known.filter(|field| field.0.2 != ValueType::Any) {
            let value = match value {
                FieldValue::Null => continue,
                FieldValue::Text(text) => Value::Text(Name::Text(text)),
                FieldValue::Integer(value) => Value::Integer(*value),
                FieldValue::Bool(value) => Value::Truth(*value),
                FieldValue::List(items) => {
                    for item in items {
                        let FieldValue::Integer(word) = item else { return None };
                        words.push(*word);
                    }
                    Value::Words
                }
                _ => return None,
            };
            fields.put(*field, value)?;
        }
        Some(fields)
    }

    /// Sets a text field that the line does not have.
    pub(super) fn set_default(&mut self, place: usize, text: Option<&str>) {
        if let (FieldValue::Null, Some(text)) = (&self.0[place], text) {
            self.0[place] = FieldValue::Text(Cow::Owned(text.to_owned()));
        }
    }

    fn take(&mut self, place: usize) -> FieldValue<'a> {
        std::mem::take(&mut self.0[place])
    }

    /// Replaces the kind of a `publish` whose `ok` is false, and moves the event's detail into the field `detail`.
    /// Clears `ok` and the other fields for details.
    fn complete(&mut self) -> Result<(), String> {
        let kind = match &self.0[KIND] {
            FieldValue::Text(kind) => kind.clone(),
            _ => Cow::Borrowed(""),
        };
        if self.take(OK) == FieldValue::Bool(false) && kind == "publish" {
            self.0[KIND] = FieldValue::Text(Cow::Borrowed("publish_failed"));
        }
        let mut detail = FieldValue::Null;
        for (field_kind, place) in [(&*kind, DETAIL)].iter().chain(&DETAILS) {
            if let FieldValue::Text(json) = self.take(*place)
                && kind == *field_kind
            {
                detail = FieldValue::Text(detail_text(json)?);
            }
        }
        self.0[DETAIL] = detail;
        Ok(())
    }

    /// Replaces `deliver_after_ms` by the time of delivery.
    pub(super) fn set_delivery_time(&mut self) {
        if let (FieldValue::Integer(after_ms), FieldValue::Integer(time_ms), FieldValue::Null) =
            (self.take(DELIVER_AFTER_MS), &self.0[TIME_MS], &self.0[DELIVER_AT_MS])
        {
            let at_ms = i128::from(*time_ms) + i128::from(after_ms);
            self.0[DELIVER_AT_MS] = i64::try_from(at_ms)
                .map_or_else(|_| FieldValue::LargeInteger(at_ms.to_string()), FieldValue::Integer);
        }
    }
}

/// Returns a detail as text: the content of a JSON string, or the unchanged JSON text of another value.
fn detail_text(json: Cow<'_, str>) -> Result<Cow<'_, str>, String> {
    if json.starts_with('"') {
        return serde_json::from_str(&json).map_err(|error| format!("not JSON: {error}"));
    }
    Ok(json)
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

struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = LineFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LineFields<'de>, A::Error> {
        let mut fields = LineFields::default();
        let mut seen = 0;
        while let Some(key) = map.next_key::<Key>()? {
            let place = usize::from(key.place);
            let Some(value) = fields.0.get_mut(place) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if seen & key.bit() != 0 {
                return Err(A::Error::custom(format!(
                    "the field {} occurs twice",
                    FIELDS[place].0
                )));
            }
            seen |= key.bit();
            *value = match key.value {
                ValueType::Json => match map.next_value::<&RawValue>()?.get() {
                    "null" => FieldValue::Null,
                    json => FieldValue::Text(Cow::Borrowed(json)),
                },
                _ => map.next_value()?,
            };
        }
        Ok(fields)
    }
}

impl<'de> Deserialize<'de> for FieldValue<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = FieldValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(FieldValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(FieldValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(FieldValue::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(match i64::try_from(value) {
            Ok(value) => FieldValue::Integer(value),
            Err(_) => FieldValue::LargeInteger(value.to_string()),
        })
    }

    /// Handles fractions, and integers outside 64 bits, which serde_json passes as floats.
    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(if value.abs() >= 2f64.powi(63) {
            FieldValue::LargeInteger(format!("{value:.0}"))
        } else {
            FieldValue::Float(value)
        })
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(FieldValue::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(FieldValue::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(FieldValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(FieldValue::Object)
    }
}
