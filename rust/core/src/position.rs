//! A position: one entry of one ledger.

use std::fmt;

use crate::error::{Error, InvalidArgument, Result};

/// The position `(ledger_id, entry_id)` of an entry. Positions are ordered by ledger id, then by entry id.
///
/// Both ids are at least 0. Entry −1 is valid only as an exclusive lower bound ("before the first entry"), as in
/// Pulsar's notation `3:-1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The ledger, ≥ 0.
    pub ledger_id: i64,
    /// The entry id in the ledger, ≥ 0, or −1 as a lower bound.
    pub entry_id: i64,
}

impl Position {
    /// Creates a position without checks. [`Position::entry`] and [`Position::bound`] check the ids.
    #[must_use]
    pub const fn new(ledger_id: i64, entry_id: i64) -> Self {
        Self { ledger_id, entry_id }
    }

    /// Creates the position of an entry. Both ids must be ≥ 0.
    ///
    /// # Errors
    /// [`Error::Value`] for a negative id.
    pub fn entry(ledger_id: i64, entry_id: i64) -> Result<Self> {
        if ledger_id < 0 || entry_id < 0 {
            return Err(Error::Value(InvalidArgument::EntryPosition { ledger_id, entry_id }));
        }
        Ok(Self { ledger_id, entry_id })
    }

    /// Creates a lower bound: an entry, or −1 for "before the first entry of this ledger".
    ///
    /// # Errors
    /// [`Error::Value`] for a negative ledger id or an entry id below −1.
    pub fn bound(ledger_id: i64, entry_id: i64) -> Result<Self> {
        if ledger_id < 0 || entry_id < -1 {
            return Err(Error::Value(InvalidArgument::BoundPosition { ledger_id, entry_id }));
        }
        Ok(Self { ledger_id, entry_id })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.ledger_id, self.entry_id)
    }
}

impl From<Position> for (i64, i64) {
    fn from(position: Position) -> Self {
        (position.ledger_id, position.entry_id)
    }
}
