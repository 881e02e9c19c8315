//! Traces: events as JSON lines, read into columns.
//!
//! Only what the fold needs is kept, and only lines that are plain: an object with each field once, of its type.
//! Reading stops before any other line (a `meta` line, an unknown kind, a torn line, a repeated field), and the caller
//! reads that one by the slow rules, which know every case and say what is wrong.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::partials::NULL;

/// Columns of events; [`NULL`] for null.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceColumns {
    /// The number of each row's topic.
    pub topics: Vec<i32>,
    /// The number of each row's subscription; 0 is the topic itself.
    pub subscriptions: Vec<i32>,
    /// The place of each row's kind among the kinds that the reader was given.
    pub kinds: Vec<i32>,
    /// The position's ledger.
    pub ledger_ids: Vec<i64>,
    /// The position's entry.
    pub entry_ids: Vec<i64>,
    /// The sequence that the line gives, or its number.
    pub sequences: Vec<i64>,
    /// The message's index in its batch.
    pub batch_indexes: Vec<i64>,
    /// How many messages the batch holds.
    pub batch_sizes: Vec<i64>,
    /// Where each row's ack set begins in `words`.
    pub set_starts: Vec<i64>,
    /// Where it ends.
    pub set_ends: Vec<i64>,
    /// The words of all ack sets.
    pub words: Vec<i64>,
    /// The transactions of the rows that have one.
    pub transactions: Vec<(usize, String)>,
}

/// Where reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// How many bytes were read.
    pub bytes: usize,
    /// How many lines that were, blank ones too.
    pub lines: i64,
    /// The end of the line that is not plain, which begins where reading ended.
    pub odd: Option<usize>,
}

/// Reads the lines of one trace after the other; names keep their numbers.
#[derive(Debug, Clone)]
pub struct TraceReader {
    kinds: HashMap<String, i32>,
    of_topic: Vec<bool>,
    publish: Option<i32>,
    publish_failed: Option<i32>,
    /// The kinds that say nothing without a transaction.
    ends_transaction: [Option<i32>; 2],
    topics: Names,
    subscriptions: Names,
    /// What lines leave out: the names of the last `meta` line.
    default_topic: Option<i32>,
    default_subscription: Option<i32>,
}

/// Numbers of names.
#[derive(Debug, Clone, Default)]
struct Names {
    names: Vec<String>,
    numbers: HashMap<String, i32>,
    last: i32,
}

impl Names {
    fn number(&mut self, name: &str) -> i32 {
        if self.names.get(self.last as usize).is_some_and(|last| last == name) {
            return self.last;
        }
        self.last = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                let number = self.names.len() as i32;
                self.names.push(name.to_owned());
                self.numbers.insert(name.to_owned(), number);
                number
            }
        };
        self.last
    }
}

impl TraceReader {
    /// For these kinds; the second of each pair says whether it may happen to a topic as a whole. `meta` is not
    /// among them.
    #[must_use]
    pub fn new(kinds: Vec<(String, bool)>) -> Self {
        let of_topic = kinds.iter().map(|kind| kind.1).collect();
        let kinds: HashMap<String, i32> =
            kinds.into_iter().enumerate().map(|(code, (kind, _))| (kind, code as i32)).collect();
        let publish = kinds.get("publish").copied();
        let publish_failed = kinds.get("publish_failed").copied();
        let ends_transaction = ["commit", "abort"].map(|kind| kinds.get(kind).copied());
        let mut subscriptions = Names::default();
        subscriptions.number("");
        Self {
            ends_transaction,
            kinds,
            of_topic,
            publish,
            publish_failed,
            topics: Names::default(),
            subscriptions,
            default_topic: None,
            default_subscription: None,
        }
    }

    /// Begins another trace: sets the names that its lines may leave out.
    pub fn set_defaults(&mut self, topic: Option<&str>, subscription: Option<&str>) {
        self.default_topic = topic.map(|name| self.topics.number(name));
        self.default_subscription = subscription.map(|name| self.subscriptions.number(name));
    }

    /// The names of topics by number.
    #[must_use]
    pub fn topics(&self) -> &[String] {
        &self.topics.names
    }

    /// The names of subscriptions by number.
    #[must_use]
    pub fn subscriptions(&self) -> &[String] {
        &self.subscriptions.names
    }

    /// Reads lines from `bytes`, the first of which has the number `line`.
    pub fn read(&mut self, bytes: &[u8], line: i64) -> (TraceColumns, Stop) {
        let mut columns = TraceColumns::default();
        let mut stop = Stop { bytes: 0, lines: 0, odd: None };
        while stop.bytes < bytes.len() {
            let rest = &bytes[stop.bytes..];
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let text = &rest[..length];
            if !text.iter().all(u8::is_ascii_whitespace)
                && self.take(text, line + stop.lines, &mut columns).is_none()
            {
                stop.odd = Some(stop.bytes + length);
                break;
            }
            stop.bytes += length;
            stop.lines += 1;
        }
        (columns, stop)
    }

    /// Takes one line, unless it is odd.
    fn take(&mut self, text: &[u8], line: i64, columns: &mut TraceColumns) -> Option<()> {
        let words = columns.words.len();
        let fields = Fields::read(text, &mut columns.words);
        let taken = fields.and_then(|fields| self.put(&fields, line, words as i64, columns));
        if taken.is_none() {
            columns.words.truncate(words);
        }
        taken
    }

    fn put(
        &mut self,
        fields: &Fields<'_>,
        line: i64,
        words: i64,
        columns: &mut TraceColumns,
    ) -> Option<()> {
        let mut kind = *self.kinds.get(fields.kind.as_deref()?)?;
        let topic = match &fields.topic {
            Some(name) => self.topics.number(name),
            None => self.default_topic?,
        };
        let of_topic = self.of_topic[kind as usize];
        let subscription = match &fields.subscription {
            Some(name) if !name.is_empty() => self.subscriptions.number(name),
            Some(_) if of_topic => 0,
            Some(_) => return None,
            None => match self.default_subscription {
                Some(0) | None if !of_topic => return None,
                None => 0,
                Some(number) => number,
            },
        };
        if self.ends_transaction.contains(&Some(kind)) && fields.transaction.is_none() {
            return None;
        }
        if fields.refused && Some(kind) == self.publish {
            kind = self.publish_failed?;
        }
        let [ledger_id, entry_id, sequence, batch_index, batch_size, _] = fields.counts;
        if fields.counts.iter().any(|count| *count < 0 && *count != NULL) || entry_id == i64::MAX {
            return None;
        }
        columns.topics.push(topic);
        columns.subscriptions.push(subscription);
        columns.kinds.push(kind);
        columns.ledger_ids.push(ledger_id);
        columns.entry_ids.push(entry_id);
        columns.sequences.push(if sequence == NULL { line } else { sequence });
        columns.batch_indexes.push(batch_index);
        columns.batch_sizes.push(batch_size);
        columns.set_starts.push(if fields.has_set { words } else { NULL });
        columns.set_ends.push(columns.words.len() as i64);
        if let Some(transaction) = &fields.transaction {
            columns.transactions.push((columns.topics.len() - 1, transaction.clone().into_owned()));
        }
        Some(())
    }
}

/// The fields of one line that the fold needs.
#[derive(Default)]
struct Fields<'a> {
    kind: Option<Cow<'a, str>>,
    topic: Option<Cow<'a, str>>,
    subscription: Option<Cow<'a, str>>,
    transaction: Option<Cow<'a, str>>,
    /// Ledger id, entry id, sequence, batch index, batch size, redelivery count.
    counts: [i64; 6],
    has_set: bool,
    /// The broker refused the message.
    refused: bool,
}

impl<'a> Fields<'a> {
    fn read(text: &'a [u8], words: &mut Vec<i64>) -> Option<Self> {
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let fields = FieldsVisitor { words }.deserialize(&mut deserializer).ok()?;
        deserializer.end().ok()?;
        Some(fields)
    }
}

struct FieldsVisitor<'w> {
    words: &'w mut Vec<i64>,
}

/// What a key names.
#[derive(Clone, Copy, PartialEq)]
enum Key {
    Kind,
    Topic,
    Subscription,
    Transaction,
    /// A count, by its place in [`Fields::counts`].
    Count(u8),
    AckSet,
    Ok,
    /// An integer that is checked, and not kept.
    Integer(u8),
    /// A text that is checked, and not kept.
    Text(u8),
    Other,
}

impl Key {
    fn of(name: &str) -> Self {
        match name {
            "ev" | "kind" => Self::Kind,
            "topic" => Self::Topic,
            "sub" | "subscription" => Self::Subscription,
            "txn" | "transaction" => Self::Transaction,
            "l" | "ledger_id" => Self::Count(0),
            "e" | "entry_id" => Self::Count(1),
            "sequence" => Self::Count(2),
            "bi" | "batch_index" => Self::Count(3),
            "batch_size" => Self::Count(4),
            "rc" | "redelivery_count" => Self::Count(5),
            "ack_set" => Self::AckSet,
            "ok" => Self::Ok,
            "t" | "time_ms" => Self::Integer(0),
            "deliver_at" | "deliver_at_ms" => Self::Integer(1),
            "sticky_key_hash" => Self::Integer(2),
            "c" | "consumer" => Self::Text(0),
            "key" => Self::Text(1),
            _ => Self::Other,
        }
    }

    /// A bit of its own; none for what is ignored.
    fn bit(self) -> u32 {
        match self {
            Self::Kind => 1,
            Self::Topic => 2,
            Self::Subscription => 4,
            Self::Transaction => 8,
            Self::AckSet => 16,
            Self::Ok => 32,
            Self::Count(place) => 1 << (6 + place),
            Self::Integer(place) => 1 << (12 + place),
            Self::Text(place) => 1 << (15 + place),
            Self::Other => 0,
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
                Ok(Key::of(name))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// A text without a copy, where it has no escapes.
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
                Key::Kind => fields.kind = text(&mut map)?,
                Key::Topic => fields.topic = text(&mut map)?,
                Key::Subscription => fields.subscription = text(&mut map)?,
                Key::Transaction => fields.transaction = text(&mut map)?,
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

/// Reads an array of words to the end of others; false for null.
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
