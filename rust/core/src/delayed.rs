//! The types that the three indexes of delayed messages share: the message, columns of messages, and one trait.
//!
//! `TripleLongHeap`, `TimeBuckets` and `TimeWheel` have the same methods at different costs, so a tracker, a model
//! test or a bench is written once against [`DelayedIndex`].

use crate::error::{Error, Result, Validity, vec_with_room};

/// A delayed message: its delivery time and its position. Ordered by time, ledger and entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delayed {
    /// Milliseconds since the epoch at which the message is due; any i64.
    pub deliver_at_ms: i64,
    /// The ledger id of the message.
    pub ledger_id: i64,
    /// The entry id of the message.
    pub entry_id: i64,
}

impl Delayed {
    /// A message taken as it is.
    #[must_use]
    pub const fn new(deliver_at_ms: i64, ledger_id: i64, entry_id: i64) -> Self {
        Self { deliver_at_ms, ledger_id, entry_id }
    }

    /// # Errors
    /// [`Error::Value`] for a negative ledger or entry id.
    pub(crate) fn checked(self) -> Result<Self> {
        if (self.ledger_id | self.entry_id) < 0 {
            return Err(Error::Value(format!(
                "position {}:{}: ledger and entry ids are at least 0",
                self.ledger_id, self.entry_id
            )));
        }
        Ok(self)
    }
}

/// Refuses a batch with a negative id before anything is changed.
///
/// # Errors
/// [`Error::Value`] that names the first one.
pub fn check_positions(ledger_ids: &[i64], entry_ids: &[i64]) -> Result<()> {
    // One pass without branches; the offender is looked up only if there is one.
    let signs = ledger_ids.iter().chain(entry_ids).fold(0, |signs, id| signs | id);
    if signs < 0 {
        for (&ledger, &entry) in ledger_ids.iter().zip(entry_ids) {
            Delayed::new(0, ledger, entry).checked()?;
        }
    }
    Ok(())
}

/// Messages as three columns of one length, the shape of every batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DelayedColumns {
    /// See [`Delayed::deliver_at_ms`].
    pub deliver_at_ms: Vec<i64>,
    /// See [`Delayed::ledger_id`].
    pub ledger_ids: Vec<i64>,
    /// See [`Delayed::entry_id`].
    pub entry_ids: Vec<i64>,
}

impl DelayedColumns {
    /// Empty columns with room for `count` messages.
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

    /// The number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.deliver_at_ms.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deliver_at_ms.is_empty()
    }

    /// Appends one message.
    #[inline]
    pub fn push(&mut self, message: Delayed) {
        self.deliver_at_ms.push(message.deliver_at_ms);
        self.ledger_ids.push(message.ledger_id);
        self.entry_ids.push(message.entry_id);
    }

    /// Appends the entries `first..=last` of one ledger, all due at one time.
    pub(crate) fn push_run(&mut self, deliver_at_ms: i64, ledger_id: i64, first: i64, last: i64) {
        let length = self.len() + (last - first) as usize + 1;
        self.deliver_at_ms.resize(length, deliver_at_ms);
        self.ledger_ids.resize(length, ledger_id);
        self.entry_ids.extend(first..=last);
    }

    /// The messages one by one.
    pub fn iter(&self) -> impl Iterator<Item = Delayed> + '_ {
        (0..self.len()).map(|index| {
            Delayed::new(self.deliver_at_ms[index], self.ledger_ids[index], self.entry_ids[index])
        })
    }
}

impl FromIterator<Delayed> for DelayedColumns {
    fn from_iter<I: IntoIterator<Item = Delayed>>(messages: I) -> Self {
        let mut columns = Self::default();
        messages.into_iter().for_each(|message| columns.push(message));
        columns
    }
}

/// The most messages that a restored index may hold: a run of any length takes a few bytes, and a caller that pops it
/// would need 24 for each message.
pub(crate) const RESTORED_MAX: u64 = 1 << 32;

/// An index of delayed messages. It has no clock; times are arguments.
pub trait DelayedIndex {
    /// Whether negative ledger and entry ids are taken, which [`check_positions`] refuses.
    const TAKES_ANY_IDS: bool = false;

    /// Whether [`DelayedIndex::add_many`] sorts its messages, so that large batches cost less for each.
    const SORTS_BATCHES: bool = false;

    /// Adds a message; returns whether it was new (a heap counts duplicates, so there it always is).
    ///
    /// # Errors
    /// [`Error::Value`] for a negative id, except in the heap, which takes any three integers.
    fn add(&mut self, message: Delayed) -> Result<bool>;

    /// Adds messages given as columns of one length; returns how many were new. Nothing changes if one is refused.
    ///
    /// # Errors
    /// As [`DelayedIndex::add`].
    fn add_many(
        &mut self,
        times_ms: &[i64],
        ledger_ids: &[i64],
        entry_ids: &[i64],
    ) -> Result<usize>;

    /// Takes up to `max` messages that are due at `now_ms`, the earliest first.
    ///
    /// # Errors
    /// [`Error::Memory`] if memory does not suffice for the columns; then nothing is taken.
    fn pop_due(&mut self, now_ms: i64, max: usize) -> Result<DelayedColumns>;

    /// Whether the message is here, given with the time it was added with.
    fn contains(&mut self, message: Delayed) -> bool;

    /// Takes the message out (one of its duplicates, in the heap); returns whether it was here.
    fn remove(&mut self, message: Delayed) -> bool;

    /// The time at which the earliest message is due, as the index has rounded it.
    fn next_due(&mut self) -> Option<i64>;

    /// The number of messages, O(1).
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets every message and releases all memory.
    fn clear(&mut self);

    /// Releases memory that is allocated and not used.
    fn shrink_to_fit(&mut self);

    /// The bytes on the heap. Messages in an open run are moved into their place first, so a memory limit counts
    /// them.
    fn heap_bytes(&mut self) -> usize;

    /// Every message, in the order in which [`DelayedIndex::pop_due`] would give them.
    ///
    /// # Errors
    /// [`Error::Memory`] if memory does not suffice: an index restored from a few bytes can hold 2^32 messages.
    fn to_columns(&mut self) -> Result<DelayedColumns>;

    /// Checks the invariants.
    ///
    /// # Errors
    /// A sentence that says which one is broken.
    fn validate(&self) -> Validity;
}
