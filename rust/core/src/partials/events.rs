//! The input of a fold: columns of events, and the action of each kind.

use super::{Flaw, NULL, Order, TOPIC};
use crate::error::{Error, InvalidArgument, Result};
use crate::position::Position;

/// A flag of an [`Action`]: the entry exists.
pub const EXISTS: u8 = 1;
/// A flag of [`Action::Ack`]: the entry, or a part of it, is acknowledged.
pub(super) const ACK: u8 = 2;
/// A flag of [`Action::UpTo`]: everything up to the entry, or to a part of it, is acknowledged.
pub(super) const UP_TO: u8 = 4;
/// The flags of acknowledgments.
pub const ACKS: u8 = ACK | UP_TO;
/// A flag: the event must have a subscription, because it does not concern the topic as a whole.
pub const SUBSCRIPTION: u8 = 8;
/// A flag: the event must have a ledger id and an entry id.
pub const POSITION: u8 = 16;
/// A flag: the action has an effect that the other flags do not describe, or the kind is invalid. Rows with this flag
/// are applied one by one.
pub(super) const OTHER: u8 = 32;
/// A flag: the kind is null or unknown.
const KINDLESS: u8 = 64;

/// The effect of a kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The event has no effect on a cursor.
    Nothing,
    /// The event has no effect if it has a position. Without a position, it is a flaw.
    Placed,
    /// The entry exists.
    Exists,
    /// The entry, or a part of it, is acknowledged.
    Ack,
    /// Everything up to the entry, or to a part of it, is acknowledged.
    UpTo,
    /// Like `UpTo`. If the event has no position, everything published so far is acknowledged.
    Clear,
    /// The position is the next to be read; acknowledgments before it are void.
    Seek,
    /// All ledgers before the position's ledger are deleted.
    Trim,
    /// The subscription is deleted.
    Delete,
    /// An acknowledgment in a transaction whose outcome is unknown.
    InTransaction,
    /// The kind is not known.
    Unknown,
    /// The kind is null.
    Missing,
    /// An acknowledgment without effect, because its transaction was not committed. Only its batch size is recorded.
    Void,
    /// The event has no effect if it has a subscription. Without a subscription, it is a flaw.
    Named,
    /// The entry exists, because it was delivered to the subscription.
    Delivered,
    /// The acknowledgments in its transaction take effect.
    Commit,
}

impl Action {
    /// The actions in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::Nothing,
        Self::Placed,
        Self::Exists,
        Self::Ack,
        Self::UpTo,
        Self::Clear,
        Self::Seek,
        Self::Trim,
        Self::Delete,
        Self::InTransaction,
        Self::Unknown,
        Self::Missing,
        Self::Void,
        Self::Named,
        Self::Delivered,
        Self::Commit,
    ];

    /// Checks that each number is an index into [`Self::ALL`].
    pub(super) fn check(numbers: &[i32]) -> Result<()> {
        within(numbers, Self::ALL.len(), "an action")
    }

    /// Returns the flags of the action: its effects, and the columns that its events must have.
    pub(super) const fn effects(self) -> u8 {
        match self {
            Self::Nothing | Self::Commit => 0,
            Self::Named => SUBSCRIPTION,
            Self::Placed => SUBSCRIPTION | POSITION,
            Self::Exists => EXISTS | POSITION,
            Self::Delivered => EXISTS | SUBSCRIPTION | POSITION,
            Self::Ack => ACK | SUBSCRIPTION | POSITION,
            Self::UpTo => UP_TO | SUBSCRIPTION | POSITION,
            Self::Seek | Self::InTransaction | Self::Void => OTHER | SUBSCRIPTION | POSITION,
            Self::Clear | Self::Delete => OTHER | SUBSCRIPTION,
            Self::Trim => OTHER | POSITION,
            Self::Unknown | Self::Missing => OTHER | KINDLESS,
        }
    }

    /// Returns whether the action has at least one of these flags.
    #[must_use]
    pub const fn has(self, flags: u8) -> bool {
        self.effects() & flags != 0
    }
}

/// A dictionary-encoded column of names. Each row has a code, and `numbers[code]` is the number that identifies the
/// name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Codes<'a> {
    /// The code of each row; `None` if each row has code 0.
    pub codes: Option<&'a [i32]>,
    /// For each code, the number that identifies the name.
    pub numbers: &'a [i32],
}

/// Columns of events of equal length. [`NULL`] means null.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rows<'a> {
    /// The topic.
    pub topics: Codes<'a>,
    /// The subscription.
    pub subscriptions: Codes<'a>,
    /// The kind of the event. The numbers of kinds are indexes into [`Action::ALL`].
    pub kinds: Codes<'a>,
    /// The position's ledger.
    pub ledger_ids: &'a [i64],
    /// The position's entry.
    pub entry_ids: &'a [i64],
    /// The message's index in its batch.
    pub batch_indexes: Option<&'a [i64]>,
    /// The number of messages in the batch.
    pub batch_sizes: Option<&'a [i64]>,
    /// The start and the end of each row's ack set in `words`. A set bit marks a message that is not acknowledged.
    pub ack_sets: Option<(&'a [i64], &'a [i64])>,
    /// The words of all ack sets.
    pub words: &'a [i64],
    /// The sequence of each event in its file. Without it, the rows have no order.
    pub sequences: Option<&'a [i64]>,
    /// The file of each event. Without it, all rows belong to the file without a name.
    pub files: Option<Codes<'a>>,
}

impl Rows<'_> {
    pub(super) fn check(&self, files: usize) -> Result<()> {
        let length = self.ledger_ids.len();
        let optional = [self.batch_indexes, self.batch_sizes, self.sequences];
        let codes = [Some(self.topics), Some(self.subscriptions), Some(self.kinds), self.files];
        let mut lengths = vec![self.entry_ids.len()];
        lengths.extend(optional.iter().flatten().map(|column| column.len()));
        lengths.extend(codes.iter().flatten().filter_map(|column| column.codes).map(<[i32]>::len));
        if let Some((starts, ends)) = self.ack_sets {
            lengths.extend([starts.len(), ends.len()]);
        }
        if lengths.iter().any(|other| *other != length) {
            return Err(Error::Value(InvalidArgument::ColumnLengths));
        }
        for column in codes.into_iter().flatten() {
            column.check()?;
        }
        Action::check(self.kinds.numbers)?;
        within(self.files.map_or(&[], |column| column.numbers), files, "a file")?;
        if let Some((starts, ends)) = self.ack_sets {
            let fits = |(start, end): (&i64, &i64)| {
                *start == NULL || (0 <= *start && start <= end && *end <= self.words.len() as i64)
            };
            if !starts.iter().zip(ends).all(fits) {
                return Err(Error::Value(InvalidArgument::AckSetBounds));
            }
        }
        Ok(())
    }

    #[inline]
    pub(super) fn action(&self, row: usize) -> Action {
        Action::ALL[self.kinds.number(row) as usize]
    }

    pub(super) fn position(&self, row: usize) -> Position {
        Position::new(self.ledger_ids[row], self.entry_ids[row])
    }

    #[inline]
    pub(super) fn batch(&self, row: usize) -> (i64, i64) {
        let index = self.batch_indexes.map_or(NULL, |column| column[row]);
        (index, self.batch_sizes.map_or(NULL, |column| column[row]))
    }

    #[inline]
    pub(super) fn ack_set(&self, row: usize) -> Option<&[i64]> {
        let (starts, ends) = self.ack_sets?;
        (starts[row] != NULL).then(|| &self.words[starts[row] as usize..ends[row] as usize])
    }

    /// Returns the batch size of a row. If the size is null, returns a lower bound of it: the batch index + 1. If the
    /// row has neither a size nor a batch index, the result is 0 or less.
    #[inline]
    pub(super) fn batch_size_known(&self, row: usize) -> i64 {
        let (index, size) = self.batch(row);
        if size == NULL { index.saturating_add(1) } else { size }
    }

    /// Returns whether the rows have at least one of the three batch columns.
    pub(super) fn has_batches(&self) -> bool {
        self.batch_indexes.is_some() || self.batch_sizes.is_some() || self.ack_sets.is_some()
    }

    /// Returns whether the batch columns of all rows are valid. It compares the OR of all batch indexes and the OR of
    /// all batch sizes with the limit. An OR can exceed the limit although no value does; the result is then false for
    /// valid rows.
    pub(super) fn has_sound_batches(&self, size_max: i64) -> bool {
        // Returns the OR of all values except null; -1 if a value is negative. Compilers vectorise this form.
        let or = |column: Option<&[i64]>| {
            let values = column.unwrap_or_default().iter();
            let (values, negative) = values.fold((0, 0), |(values, negative), value| {
                (values | (value & i64::MAX), negative | ((value >> 63) & value & i64::MAX))
            });
            if negative == 0 { values } else { -1 }
        };
        let (starts, ends) = self.ack_sets.unwrap_or_default();
        let words = |(start, end): (&i64, &i64)| if *start == NULL { 0 } else { end - start };
        let words = starts.iter().zip(ends).map(words).max().unwrap_or(0);
        batch_flaw(or(self.batch_indexes), or(self.batch_sizes), words, size_max).is_none()
    }

    #[inline]
    fn batch_flaw(&self, row: usize, size_max: i64) -> Option<Flaw> {
        let (index, size) = self.batch(row);
        let words = self.ack_set(row).map_or(0, <[i64]>::len) as i64;
        batch_flaw(index, size, words, size_max)
    }

    #[inline]
    pub(super) fn order(&self, row: usize) -> Order {
        let file = self.files.map_or(0, |files| files.number(row) as u32);
        Order { file, sequence: self.sequences.map_or(NULL, |column| column[row]) }
    }

    /// Returns the flaw of a row, if it has one.
    #[inline]
    pub(super) fn flaw(&self, row: usize, action: Action, batch_size_max: i64) -> Option<Flaw> {
        let (ledger_id, entry_id) = (self.ledger_ids[row], self.entry_ids[row]);
        let sequence = self.sequences.map_or(0, |column| column[row]);
        let is_topic = self.subscriptions.number(row) == TOPIC;
        let batch_flaw = self.batch_flaw(row, batch_size_max);
        let ids = ledger_id | entry_id | sequence;
        if are_sound(ids, entry_id, action.effects(), is_topic) && batch_flaw.is_none() {
            return None;
        }
        let unplaced = ledger_id == NULL || entry_id == NULL;
        let nameless = is_topic && action.has(SUBSCRIPTION);
        if action == Action::Missing || sequence == NULL || nameless {
            Some(Flaw::Incomplete)
        } else if action == Action::Unknown {
            Some(Flaw::UnknownKind)
        } else if unplaced && action.has(POSITION) {
            Some(Flaw::NoPosition)
        } else if [ledger_id, entry_id, sequence].into_iter().any(is_negative)
            || entry_id == i64::MAX
        {
            Some(Flaw::Negative)
        } else {
            batch_flaw
        }
    }
}

/// Returns whether rows are valid, apart from their batch columns. If the result is false, the caller must check each
/// row. `ids` is the OR of all ids and sequences, `entry_id` the greatest entry id, and `effects` the OR of all
/// [`Action::effects`]. `is_topic` means that the rows belong to the topic as a whole.
#[inline]
pub(super) fn are_sound(ids: i64, entry_id: i64, effects: u8, is_topic: bool) -> bool {
    let refused = if is_topic { KINDLESS | SUBSCRIPTION } else { KINDLESS };
    ids >= 0 && entry_id < i64::MAX && effects & refused == 0
}

/// Returns the flaw of a row with these batch columns, if it has one. `words` is the number of words of its ack set.
#[inline]
fn batch_flaw(index: i64, size: i64, words: i64, size_max: i64) -> Option<Flaw> {
    if is_negative(index) || is_negative(size) {
        Some(Flaw::Negative)
    } else if index >= size_max || size > size_max || words > size_max / 64 {
        Some(Flaw::BatchTooLarge)
    } else {
        None
    }
}

fn is_negative(value: i64) -> bool {
    value < 0 && value != NULL
}

impl Codes<'_> {
    #[inline]
    pub(super) fn code(&self, row: usize) -> usize {
        self.codes.map_or(0, |codes| codes[row] as usize)
    }

    #[inline]
    pub(super) fn number(&self, row: usize) -> i32 {
        self.numbers[self.code(row)]
    }

    pub(super) fn check(self) -> Result<()> {
        match self.codes {
            Some(codes) => within(codes, self.numbers.len(), "a code"),
            None => within(&[0], self.numbers.len(), "a code"),
        }
    }
}

fn within(values: &[i32], end: usize, what: &'static str) -> Result<()> {
    // The values are compared as unsigned integers, so negative values are the greatest. Compilers vectorise this.
    let greatest = values.iter().fold(0, |greatest, value| value.cast_unsigned().max(greatest));
    match values.is_empty() || (greatest as usize) < end {
        true => Ok(()),
        false => Err(Error::Value(InvalidArgument::Unknown { what })),
    }
}
