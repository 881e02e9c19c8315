//! Every way in which the core refuses, separated by whose fault it is.
//!
//! The binding maps each kind to one exception of `ackwell.errors`; the Python reference raises the
//! same exceptions for the same input, which the differential tests hold both to.

use std::fmt;

/// The result of every fallible operation of the core.
pub type Result<T> = std::result::Result<T, Error>;

/// What every `validate` returns: nothing, or a sentence that says which invariant is broken, which is a defect.
pub type Validity = std::result::Result<(), String>;

/// Returns the sentence from a `validate` unless the condition holds.
macro_rules! invariant {
    ($holds:expr, $($sentence:tt)+) => {
        if !$holds {
            return Err(format!($($sentence)+));
        }
    };
}
pub(crate) use invariant;

/// Why an operation was refused. The state it was asked to change is as it was before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An argument is outside its documented domain, for example a negative ledger id.
    Value(String),
    /// The caller broke the order of events, for example an ack of a position never published.
    Protocol {
        /// What happened and what to do.
        message: String,
        /// The ledger and the entry that the message is about, if it is about one position.
        position: Option<(i64, i64)>,
    },
    /// Bytes that cannot be a state; `offset` is where reading stopped.
    Corrupt {
        /// Bytes before the offence, counted from the start of the input.
        offset: usize,
        /// What was found there and what was expected.
        message: String,
    },
    /// Bytes of a version that this release does not read, whole by their checksum: not damaged, but not to be
    /// passed over either.
    NewerVersion {
        /// Where the version is.
        offset: usize,
        /// Which version, and which one is read.
        message: String,
    },
    /// A limit was reached, for example the words a bit set may hold; nothing was changed.
    Limit(String),
    /// The allocator has no room for what an argument asks for; nothing was changed.
    Memory(String),
}

impl Error {
    /// An [`Error::Protocol`] about no position.
    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::Protocol { message: message.into(), position: None }
    }

    /// An [`Error::Protocol`] about a position.
    pub(crate) fn protocol_at(position: impl Into<(i64, i64)>, message: impl Into<String>) -> Self {
        Self::Protocol { message: message.into(), position: Some(position.into()) }
    }

    /// An [`Error::Corrupt`] at `offset`.
    pub fn corrupt(offset: usize, message: impl Into<String>) -> Self {
        Self::Corrupt { offset, message: message.into() }
    }

    /// An [`Error::Memory`] for `count` items of `size` bytes.
    pub(crate) fn memory(count: usize, size: usize) -> Self {
        Self::Memory(format!("no memory for {count} items of {size} bytes"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(message)
            | Self::Protocol { message, .. }
            | Self::Limit(message)
            | Self::Memory(message) => f.write_str(message),
            Self::Corrupt { offset, message } | Self::NewerVersion { offset, message } => {
                write!(f, "at byte {offset}: {message}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// An empty vector with room for `count` items, or [`Error::Memory`] where `with_capacity` would abort.
pub(crate) fn vec_with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut items = Vec::new();
    make_room(&mut items, count)?;
    Ok(items)
}

/// Makes room for `count` items in all.
pub(crate) fn make_room<T>(items: &mut Vec<T>, count: usize) -> Result<()> {
    let more = count.saturating_sub(items.len());
    items.try_reserve_exact(more).map_err(|_| Error::memory(count, size_of::<T>()))
}
