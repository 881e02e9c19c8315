//! The reader of all fields of one line. The line may be any JSON object.
//!
//! [`TraceReader::read`](super::TraceReader::read) keeps the fields that the fold needs. This reader keeps every field
//! of an event. It serves lines that are not plain, and programs that need whole events. The caller checks the values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::fields::full_name;

/// The names of the fields of an event, and of the fields that change other fields (`ok`, `deliver_after_ms`).
const FIELDS: [&str; 19] = [
    "kind",
    "topic",
    "subscription",
    "sequence",
    "time_ms",
    "consumer",
    "ledger_id",
    "entry_id",
    "batch_index",
    "batch_size",
    "ack_set",
    "key",
    "sticky_key_hash",
    "deliver_at_ms",
    "redelivery_count",
    "transaction",
    "deliver_after_ms",
    "ok",
    "detail",
];

/// The kinds of events whose detail is in a field that is not called `detail`, each with the name of that field.
const DETAILS: [(&str, &str); 4] = [
    ("snapshot", "file"),
    ("consumer_open", "type"),
    ("broker_restart", "mode"),
    ("meta", "config"),
];

/// A value of a field. Integers outside int64 keep their decimal digits.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// An integer outside int64.
    LargeInteger(String),
    /// A number with a fraction.
    Float(f64),
    /// A text.
    Text(String),
    /// An array; its nulls are [`None`].
    List(Vec<Option<FieldValue>>),
    /// An object. No field of an event has an object as value.
    Object,
}

/// The fields of one line that are not null, each with its full name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineFields(Vec<(&'static str, FieldValue)>);

impl LineFields {
    /// Reads a line. `topic` and `subscription` are used if the line does not name them.
    ///
    /// # Errors
    ///
    /// The reason, if the text is not a JSON object, or contains a field twice.
    pub(super) fn read(
        text: &str,
        topic: Option<&str>,
        subscription: Option<&str>,
    ) -> Result<Self, String> {
        let mut details = Details::default();
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let visitor = LineVisitor { details: &mut details };
        let read = deserializer.deserialize_map(visitor).and_then(|fields| {
            deserializer.end()?;
            Ok(fields)
        });
        let mut fields = read.map_err(|error| match error.classify() {
            serde_json::error::Category::Data => error.to_string(),
            _ => format!("not JSON: {error}"),
        })?;
        fields.set_default("topic", topic);
        fields.set_default("subscription", subscription);
        fields.complete(&details)?;
        Ok(fields)
    }

    /// Returns the fields in any order, without those that only change other fields.
    pub fn iter(&self) -> impl Iterator<Item = &(&'static str, FieldValue)> {
        self.0.iter().filter(|(name, _)| !matches!(*name, "ok" | "deliver_after_ms"))
    }

    fn get(&self, name: &str) -> Option<&FieldValue> {
        self.0.iter().find(|field| field.0 == name).map(|field| &field.1)
    }

    fn set(&mut self, name: &'static str, value: FieldValue) {
        self.0.retain(|field| field.0 != name);
        self.0.push((name, value));
    }

    fn set_default(&mut self, name: &'static str, value: Option<&str>) {
        if let (None, Some(text)) = (self.get(name), value) {
            self.0.push((name, FieldValue::Text(text.to_owned())));
        }
    }

    /// Applies the fields that change other fields (`ok`, `deliver_after_ms` and the details).
    fn complete(&mut self, details: &Details) -> Result<(), String> {
        let kind = match self.get("kind") {
            Some(FieldValue::Text(kind)) => kind.clone(),
            _ => String::new(),
        };
        if kind == "publish" && self.get("ok") == Some(&FieldValue::Bool(false)) {
            self.set("kind", FieldValue::Text("publish_failed".to_owned()));
        }
        let name =
            DETAILS.iter().find(|detail| detail.0 == kind).map_or("detail", |detail| detail.1);
        for name in ["detail", name] {
            if let Some(raw) = details.get(name) {
                self.set("detail", FieldValue::Text(detail_text(raw)?));
            }
        }
        if let (Some(&FieldValue::Integer(time_ms)), Some(&FieldValue::Integer(after_ms)), None) =
            (self.get("time_ms"), self.get("deliver_after_ms"), self.get("deliver_at_ms"))
        {
            let at_ms = i128::from(time_ms) + i128::from(after_ms);
            let value = i64::try_from(at_ms)
                .map_or_else(|_| FieldValue::LargeInteger(at_ms.to_string()), FieldValue::Integer);
            self.set("deliver_at_ms", value);
        }
        Ok(())
    }
}

/// Returns a detail as text: the content of a JSON string, or the unchanged JSON text of another value.
fn detail_text(raw: &str) -> Result<String, String> {
    if raw.starts_with('"') {
        return serde_json::from_str(raw).map_err(|error| format!("not JSON: {error}"));
    }
    Ok(raw.to_owned())
}

/// The fields that may contain the detail: each field's name and its JSON text.
#[derive(Default)]
struct Details(Vec<(&'static str, String)>);

impl Details {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|detail| detail.0 == name).map(|detail| &*detail.1)
    }
}

struct LineVisitor<'d> {
    details: &'d mut Details,
}

impl<'de> Visitor<'de> for LineVisitor<'_> {
    type Value = LineFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LineFields, A::Error> {
        let mut fields = LineFields::default();
        let mut seen = [false; FIELDS.len()];
        while let Some(given) = map.next_key::<String>()? {
            let name = full_name(&given);
            let place = FIELDS.iter().position(|field| *field == name);
            let detail = DETAILS
                .iter()
                .map(|detail| detail.1)
                .chain(["detail"])
                .find(|field| *field == name);
            if let Some(place) = place
                && std::mem::replace(&mut seen[place], true)
            {
                return Err(A::Error::custom(format!("the field {name} occurs twice")));
            }
            if let Some(detail) = detail {
                let raw = map.next_value::<&RawValue>()?.get();
                if raw != "null" {
                    self.details.0.push((detail, raw.to_owned()));
                }
            } else if let Some(place) = place {
                if let Some(value) = map.next_value_seed(ValueSeed)? {
                    fields.0.push((FIELDS[place], value));
                }
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(fields)
    }
}

/// A deserializer of any value. [`None`] means null.
struct ValueSeed;

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Option<FieldValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = Option<FieldValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Some(FieldValue::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(FieldValue::Integer(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(match i64::try_from(value) {
            Ok(value) => FieldValue::Integer(value),
            Err(_) => FieldValue::LargeInteger(value.to_string()),
        }))
    }

    /// Handles fractions, and integers outside 64 bits, which serde_json passes as floats.
    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(if value.abs() >= 2f64.powi(63) {
            FieldValue::LargeInteger(format!("{value:.0}"))
        } else {
            FieldValue::Float(value)
        }))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Some(FieldValue::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(ValueSeed)? {
            list.push(item);
        }
        Ok(Some(FieldValue::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Some(FieldValue::Object))
    }
}
