//! Traces: events as JSON lines, read into columns.
//!
//! The columns have only the fields that [`Partials`](crate::partials::Partials) needs. The reader reads only plain
//! lines into columns. A plain line is an object with each field at most once and of the right type. Reading stops
//! before any other line (a `meta` line, an unknown kind, a torn line, a repeated field). The reader returns all fields
//! of that line, or the reason why the fields cannot be read. The caller then handles that line.

mod fields;
mod line;
mod quick;

use std::collections::HashMap;

use crate::names::Names;
use crate::partials::{MixBuilder, NULL};
use fields::{Fields, Name, place_of};
pub use line::{FieldValue, LineFields};

/// The minimum length of an event's line in bytes.
const LINE_BYTES_MIN: usize = 16;

/// Columns of events, with a row for each event. [`NULL`] means null.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceColumns {
    /// The number that identifies each row's topic in [`TraceReader::topics`].
    pub topics: Vec<i32>,
    /// The number that identifies each row's subscription in [`TraceReader::subscriptions`]; 0 is the topic itself.
    pub subscriptions: Vec<i32>,
    /// The index of each row's kind in the list that [`TraceReader::new`] takes.
    pub kinds: Vec<i32>,
    /// The ledger id of each row's position.
    pub ledger_ids: Vec<i64>,
    /// The entry id of each row's position.
    pub entry_ids: Vec<i64>,
    /// The sequence of each row. For a line without a sequence, it is the line number.
    pub sequences: Vec<i64>,
    /// The index of each row's message in its batch.
    pub batch_indexes: Vec<i64>,
    /// The number of messages in the batch of each row's message.
    pub batch_sizes: Vec<i64>,
    /// The start of each row's ack set in `words`.
    pub set_starts: Vec<i64>,
    /// The end of each row's ack set in `words`.
    pub set_ends: Vec<i64>,
    /// The words of all ack sets.
    pub words: Vec<i64>,
    /// The number that identifies each row's transaction in [`TraceReader::transactions`]; 0 means no transaction.
    pub transactions: Vec<i32>,
}

impl TraceColumns {
    fn with_capacity(rows: usize) -> Self {
        let (codes, integers) = (|| Vec::with_capacity(rows), || Vec::with_capacity(rows));
        Self {
            topics: codes(),
            subscriptions: codes(),
            kinds: codes(),
            ledger_ids: integers(),
            entry_ids: integers(),
            sequences: integers(),
            batch_indexes: integers(),
            batch_sizes: integers(),
            set_starts: integers(),
            set_ends: integers(),
            words: Vec::new(),
            transactions: codes(),
        }
    }
}

/// The place at which reading stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct Stop<'a> {
    /// The number of bytes read.
    pub bytes: usize,
    /// The number of lines read, including blank ones.
    pub lines: i64,
    /// The line that is not plain, if such a line stopped the reading. It begins at offset `bytes`.
    pub odd: Option<OddLine<'a>>,
}

/// A line that is not plain.
#[derive(Debug, Clone, PartialEq)]
pub struct OddLine<'a> {
    /// The offset of the first byte after the line.
    pub end: usize,
    /// The fields of the line, or the reason why they cannot be read.
    pub fields: Result<LineFields<'a>, String>,
}

/// A reader that reads traces one after another. It gives a name the same number in all traces.
#[derive(Debug, Clone)]
pub struct TraceReader {
    kinds: HashMap<Vec<u8>, i32, MixBuilder>,
    of_topic: Vec<bool>,
    needs_transaction: Vec<bool>,
    topics: Names,
    subscriptions: Names,
    transactions: Names,
    /// The number that identifies the topic of lines that do not name a topic. The last `meta` line sets it.
    default_topic: Option<i32>,
    default_subscription: Option<i32>,
    predictor: quick::KeyPredictor,
}

impl TraceReader {
    /// Creates a reader. `kinds` has the name of each kind of event except `meta`, and two flags. The first flag is
    /// true if an event of this kind may concern a topic as a whole. The second is true if it must name a transaction.
    #[must_use]
    pub fn new(kinds: Vec<(String, bool, bool)>) -> Self {
        let of_topic = kinds.iter().map(|kind| kind.1).collect();
        let needs_transaction = kinds.iter().map(|kind| kind.2).collect();
        let codes = kinds.into_iter().enumerate();
        let kinds: HashMap<Vec<u8>, i32, MixBuilder> =
            codes.map(|(code, (kind, ..))| (kind.into_bytes(), code as i32)).collect();
        let mut subscriptions = Names::default();
        subscriptions.number("");
        let mut transactions = Names::default();
        transactions.number("");
        Self {
            kinds,
            of_topic,
            needs_transaction,
            topics: Names::default(),
            subscriptions,
            transactions,
            default_topic: None,
            default_subscription: None,
            predictor: quick::KeyPredictor::default(),
        }
    }

    /// Sets the topic and the subscription for lines that do not name them. The caller calls it at the start of each
    /// trace.
    pub fn set_defaults(&mut self, topic: Option<&str>, subscription: Option<&str>) {
        self.default_topic = topic.map(|name| self.topics.number(name));
        self.default_subscription = subscription.map(|name| self.subscriptions.number(name));
    }

    /// Returns the table of topics: the name for each number.
    #[must_use]
    pub fn topics(&self) -> &Names {
        &self.topics
    }

    /// Returns the table of subscriptions: the name for each number.
    #[must_use]
    pub fn subscriptions(&self) -> &Names {
        &self.subscriptions
    }

    /// Returns the table of transactions: the name for each number.
    #[must_use]
    pub fn transactions(&self) -> &Names {
        &self.transactions
    }

    /// Reads all fields of one line, which need not be plain. Returns `None` for a blank line.
    ///
    /// # Errors
    ///
    /// The reason, if the line is not a JSON object, or contains a field twice.
    pub fn fields<'a>(&self, line: &'a [u8]) -> Result<Option<LineFields<'a>>, String> {
        Ok(LineFields::read(line)?.map(|fields| self.completed(fields)))
    }

    /// Completes the fields of an event: sets the topic and the subscription if the line does not name them, and
    /// replaces a delay by the delivery time.
    fn completed<'a>(&self, mut fields: LineFields<'a>) -> LineFields<'a> {
        for (place, names, number) in [
            (place_of("topic"), &self.topics, self.default_topic),
            (place_of("subscription"), &self.subscriptions, self.default_subscription),
        ] {
            fields.set_default(place, number.and_then(|number| names.get(number as usize)));
        }
        fields.set_delivery_time();
        fields
    }

    /// Reads lines from `bytes`, up to the first line that is not plain. The first line has the number `line`.
    pub fn read<'a>(&mut self, bytes: &'a [u8], line: i64) -> (TraceColumns, Stop<'a>) {
        let lines = 1 + memchr::memchr_iter(b'\n', bytes).count();
        let mut columns = TraceColumns::with_capacity(lines.min(bytes.len() / LINE_BYTES_MIN));
        let mut stop = Stop { bytes: 0, lines: 0, odd: None };
        while stop.bytes < bytes.len() {
            let rest = &bytes[stop.bytes..];
            let length = match self.take_quickly(rest, line + stop.lines, &mut columns) {
                Some(length) => length,
                None => {
                    let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
                    let taken = self.take(&rest[..length], line + stop.lines, &mut columns);
                    if let Err(fields) = taken {
                        stop.odd = Some(OddLine { end: stop.bytes + length, fields });
                        break;
                    }
                    length
                }
            };
            stop.bytes += length;
            stop.lines += 1;
        }
        (columns, stop)
    }

    /// Reads the first line of the text if it has the form that recorders write; returns the length of the line.
    fn take_quickly(
        &mut self,
        rest: &[u8],
        line: i64,
        columns: &mut TraceColumns,
    ) -> Option<usize> {
        let words = columns.words.len();
        let read = quick::read(rest, &mut columns.words, &mut self.predictor);
        let taken = read.and_then(|(fields, length)| {
            self.put(&fields, line, words as i64, columns).map(|()| length)
        });
        if taken.is_none() {
            columns.words.truncate(words);
        }
        taken
    }

    /// Reads one line if it is plain or blank. Otherwise, returns its fields, or the reason why they cannot be read.
    fn take<'a>(
        &mut self,
        text: &'a [u8],
        line: i64,
        columns: &mut TraceColumns,
    ) -> Result<(), Result<LineFields<'a>, String>> {
        let Some(fields) = LineFields::read(text).map_err(Err)? else { return Ok(()) };
        let words = columns.words.len();
        let stored = fields.stored(&mut columns.words);
        if stored.and_then(|stored| self.put(&stored, line, words as i64, columns)).is_some() {
            return Ok(());
        }
        columns.words.truncate(words);
        Err(Ok(self.completed(fields)))
    }

    fn put(
        &mut self,
        fields: &Fields<'_>,
        line: i64,
        words: i64,
        columns: &mut TraceColumns,
    ) -> Option<()> {
        let [kind, topic, subscription, transaction] = &fields.names;
        let kind = match kind.as_ref()? {
            Name::Known(number) => *number,
            Name::Text(name) => *self.kinds.get(name.as_bytes())?,
            Name::Plain(name) => {
                let number = *self.kinds.get(*name)?;
                self.predictor.note_name(0, name, number);
                number
            }
        };
        let of_topic = self.of_topic[kind as usize];
        let topic = match topic {
            Some(name) => self.number(1, name),
            None => self.default_topic?,
        };
        let subscription = match subscription {
            Some(Name::Plain(b"")) if of_topic => 0,
            Some(Name::Plain(b"")) => return None,
            Some(name) => match self.number(2, name) {
                0 if !of_topic => return None,
                number => number,
            },
            None => match self.default_subscription {
                Some(0) | None if !of_topic => return None,
                None => 0,
                Some(number) => number,
            },
        };
        if self.needs_transaction[kind as usize] && transaction.is_none() {
            return None;
        }
        let [ledger_id, entry_id, sequence, batch_index, batch_size, _] = fields.counts;
        if entry_id == i64::MAX {
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
        let transaction = transaction.as_ref().map_or(0, |name| self.number(3, name));
        columns.transactions.push(transaction);
        Some(())
    }

    /// Returns the number that identifies a topic, subscription or transaction. `place` is the index of the name in
    /// [`Fields::names`]; it determines the table of the number.
    #[inline]
    fn number(&mut self, place: usize, name: &Name<'_>) -> i32 {
        let names = match place {
            1 => &mut self.topics,
            2 => &mut self.subscriptions,
            _ => &mut self.transactions,
        };
        match name {
            Name::Known(number) => *number,
            Name::Text(name) => names.number(name),
            Name::Plain(name) => {
                let number = names.number_of(name).expect("plain names are ASCII");
                self.predictor.note_name(place, name, number);
                number
            }
        }
    }
}
