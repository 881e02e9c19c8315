//! The errors of the core, one kind for each cause.
//!
//! The binding maps each kind to one exception of `ackwell.errors`. The Python reference raises the same exceptions
//! for the same input; the differential tests check this.

mod causes;

use std::fmt;

pub use causes::{InvalidArgument, LimitReached};

/// The result of every fallible operation of the core.
pub type Result<T> = std::result::Result<T, Error>;

/// The result of every `validate`: nothing, or a sentence that names the broken invariant. A broken invariant is a
/// defect.
pub type Validity = std::result::Result<(), String>;

/// Makes a `validate` function return this sentence as its error, unless the condition is true.
macro_rules! invariant {
    ($holds:expr, $($sentence:tt)+) => {
        if !$holds {
            return Err(format!($($sentence)+));
        }
    };
}
pub(crate) use invariant;

/// The reason why an operation was refused. The state is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An argument is outside its documented domain, for example a negative ledger id.
    Value(InvalidArgument),
    /// The call violates the protocol, for example by an ack of a position that was never published.
    Protocol {
        /// The problem and its remedy.
        message: String,
        /// The ledger and the entry of the position, if the message is about one position.
        position: Option<(i64, i64)>,
    },
    /// Bytes that are not a valid state.
    Corrupt {
        /// The offset of the error in the input.
        offset: usize,
        /// A sentence with the value at the offset and the expected value.
        message: String,
    },
    /// Bytes of a version that this release cannot read. Their checksum is right, so they are not damaged. A reader
    /// must not skip them.
    NewerVersion {
        /// The offset of the version number in the input.
        offset: usize,
        /// A sentence with the version in the input and the version that this release reads.
        message: String,
    },
    /// A limit was reached, for example the maximum number of words of a bit set. Nothing was changed.
    Limit(LimitReached),
    /// The memory that an argument requires is not available. Nothing was changed.
    Memory {
        /// The number of items for which memory was requested.
        items: usize,
        /// The size of one item in bytes.
        item_bytes: usize,
    },
}

impl Error {
    /// Creates an [`Error::Protocol`] without a position.
    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::Protocol { message: message.into(), position: None }
    }

    /// Creates an [`Error::Protocol`] about a position.
    pub(crate) fn protocol_at(position: impl Into<(i64, i64)>, message: impl Into<String>) -> Self {
        Self::Protocol { message: message.into(), position: Some(position.into()) }
    }

    /// Creates an [`Error::Corrupt`] at `offset`.
    pub fn corrupt(offset: usize, message: impl Into<String>) -> Self {
        Self::Corrupt { offset, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(cause) => cause.fmt(f),
            Self::Limit(cause) => cause.fmt(f),
            Self::Protocol { message, .. } => f.write_str(message),
            Self::Memory { items, item_bytes } => {
                write!(f, "no memory for {items} items of {item_bytes} bytes")
            }
            Self::Corrupt { offset, message } | Self::NewerVersion { offset, message } => {
                write!(f, "at byte {offset}: {message}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// Returns an empty vector with room for `count` items. Returns [`Error::Memory`] if memory does not suffice;
/// `with_capacity` would abort.
pub(crate) fn vec_with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut items = Vec::new();
    make_room(&mut items, count)?;
    Ok(items)
}

/// Reserves memory so that the vector can hold a total of `count` items.
pub(crate) fn make_room<T>(items: &mut Vec<T>, count: usize) -> Result<()> {
    let more = count.saturating_sub(items.len());
    let item_bytes = size_of::<T>();
    items.try_reserve_exact(more).map_err(|_| Error::Memory { items: count, item_bytes })
}
