//! The types that the three indexes of delayed messages share: a message, columns of messages, and the trait of an
//! index.
//!
//! `TripleLongHeap`, `TimeBuckets` and `TimeWheel` have the same methods at different costs. So trackers, model tests
//! and benches are written once, for any [`DelayedIndex`].

use crate::error::{Error, InvalidArgument, Result, Validity, vec_with_room};

/// A delayed message: its delivery time and its position. Messages are ordered by time, ledger and entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DelayedMessage {
    /// Milliseconds since the epoch at which the message is due; any i64.
    pub deliver_at_ms: i64,
    /// The ledger id of the message.
    pub ledger_id: i64,
    /// The entry id of the message.
    pub entry_id: i64,
}

impl DelayedMessage {
    /// Creates a message without checks.
    #[must_use]
    pub const fn new(deliver_at_ms: i64, ledger_id: i64, entry_id: i64) -> Self {
        Self { deliver_at_ms, ledger_id, entry_id }
    }

    /// Returns the message if its ids are not negative.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative ledger or entry id.
    pub(crate) fn checked(self) -> Result<Self> {
        if (self.ledger_id | self.entry_id) < 0 {
            let Self { ledger_id, entry_id, .. } = self;
            return Err(Error::Value(InvalidArgument::EntryPosition { ledger_id, entry_id }));
        }
        Ok(self)
    }
}

/// Checks that no message of a batch has a negative id.
///
/// # Errors
/// [`Error::Value`] with the first negative id.
pub fn check_positions(ledger_ids: &[i64], entry_ids: &[i64]) -> Result<()> {
    // One pass without branches; the negative id is looked up only if there is one.
    let signs = ledger_ids.iter().chain(entry_ids).fold(0, |signs, id| signs | id);
    if signs < 0 {
        for (&ledger, &entry) in ledger_ids.iter().zip(entry_ids) {
            DelayedMessage::new(0, ledger, entry).checked()?;
        }
    }
    Ok(())
}

/// Messages as three columns of equal length. Methods that return many messages return this type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DelayedColumns {
    /// See [`DelayedMessage::deliver_at_ms`].
    pub deliver_at_ms: Vec<i64>,
    /// See [`DelayedMessage::ledger_id`].
    pub ledger_ids: Vec<i64>,
    /// See [`DelayedMessage::entry_id`].
    pub entry_ids: Vec<i64>,
}

impl DelayedColumns {
    /// Returns empty columns with room for `count` messages.
    ///
    /// # Errors
    /// [`Error::Memory`] if memory does not suffice.
    pub fn with_room(count: usize) -> Result<Self> {
        Ok(Self {
            deliver_at_ms: vec_with_room(count)?,
            ledger_ids: vec_with_room(count)?,
            entry_ids: vec_with_room(count)?,
        })
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.deliver_at_ms.len()
    }

    /// Returns whether the collection is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deliver_at_ms.is_empty()
    }

    /// Appends one message.
    #[inline]
    pub fn push(&mut self, message: DelayedMessage) {
        self.deliver_at_ms.push(message.deliver_at_ms);
        self.ledger_ids.push(message.ledger_id);
        self.entry_ids.push(message.entry_id);
    }

    /// Appends the entries `first..=last` of one ledger, which are all due at the same time.
    pub(crate) fn push_run(&mut self, deliver_at_ms: i64, ledger_id: i64, first: i64, last: i64) {
        let length = self.len() + (last - first) as usize + 1;
        self.deliver_at_ms.resize(length, deliver_at_ms);
        self.ledger_ids.resize(length, ledger_id);
        self.entry_ids.extend(first..=last);
    }

    /// Returns an iterator over the messages.
    pub fn iter(&self) -> impl Iterator<Item = DelayedMessage> + '_ {
        (0..self.len()).map(|index| {
            DelayedMessage::new(
                self.deliver_at_ms[index],
                self.ledger_ids[index],
                self.entry_ids[index],
            )
        })
    }
}

impl FromIterator<DelayedMessage> for DelayedColumns {
    fn from_iter<I: IntoIterator<Item = DelayedMessage>>(messages: I) -> Self {
        let mut columns = Self::default();
        messages.into_iter().for_each(|message| columns.push(message));
        columns
    }
}

/// The maximum number of messages in an index that is restored from bytes. A run of any length is encoded in a few
/// bytes, but a caller that pops the run needs 24 bytes for each message.
pub(crate) const RESTORED_MAX: u64 = 1 << 32;

/// An index of delayed messages. It has no clock; times are arguments.
pub trait DelayedIndex {
    /// Whether the index accepts negative ledger and entry ids. If false, [`check_positions`] refuses negative ids.
    const TAKES_ANY_IDS: bool = false;

    /// Whether [`DelayedIndex::add_many`] sorts its messages. If true, adding a message takes less time in a larger
    /// batch.
    const SORTS_BATCHES: bool = false;

    /// Adds a message; returns whether it was new. In the heap, every message is new, because equal messages are
    /// separate.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative id. The heap accepts any three integers.
    fn add(&mut self, message: DelayedMessage) -> Result<bool>;

    /// Adds messages given as columns of equal length; returns how many were new. Nothing changes if a message is
    /// refused.
    ///
    /// # Errors
    /// As [`DelayedIndex::add`].
    fn add_many(
        &mut self,
        times_ms: &[i64],
        ledger_ids: &[i64],
        entry_ids: &[i64],
    ) -> Result<usize>;

    /// Removes up to `max` messages that are due at `now_ms`, and returns them, the earliest first.
    ///
    /// # Errors
    /// [`Error::Memory`] if memory does not suffice for the columns. Nothing is removed then.
    fn pop_due(&mut self, now_ms: i64, max: usize) -> Result<DelayedColumns>;

    /// Returns whether the index has the message. `message` must have the delivery time with which it was added.
    fn contains(&mut self, message: DelayedMessage) -> bool;

    /// Removes the message; returns whether the index had it. If the heap has equal messages, one of them is removed.
    fn remove(&mut self, message: DelayedMessage) -> bool;

    /// Returns the time at which the earliest message is due; `None` without messages. An index that rounds delivery
    /// times returns the rounded time.
    fn next_due(&mut self) -> Option<i64>;

    /// Returns the number of messages, O(1).
    fn len(&self) -> usize;

    /// Returns whether the collection is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes every message and releases all memory.
    fn clear(&mut self);

    /// Releases memory that is allocated and not used.
    fn shrink_to_fit(&mut self);

    /// Returns the size of the heap memory in bytes. An open run is first moved to its bucket or slot, so that the
    /// result includes its messages.
    fn heap_bytes(&mut self) -> usize;

    /// Returns every message, in the order of [`DelayedIndex::pop_due`].
    ///
    /// # Errors
    /// [`Error::Memory`] if memory does not suffice. An index that is restored from a few bytes can have 2^32 messages.
    fn to_columns(&mut self) -> Result<DelayedColumns>;

    /// Checks the invariants.
    ///
    /// # Errors
    /// A sentence that names the broken invariant.
    fn validate(&self) -> Validity;
}
