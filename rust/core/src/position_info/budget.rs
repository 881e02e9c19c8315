//! The memory limit of a decoded state. With it, a small hostile input cannot be decoded to a huge state.

use crate::error::{Error, LimitReached, Result};

/// The default maximum memory of a decoded state, in bytes. For comparison: a hundred million entries, every second one
/// acknowledged, take 12 MB.
pub const RESULT_BYTES_MAX: usize = 64 << 20;

/// The memory that the decoded state may still take.
pub(crate) struct Budget {
    left: usize,
    max: usize,
}

impl Budget {
    /// Creates a budget of `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self { left: max, max }
    }

    /// Subtracts `bytes` from the budget before the caller allocates them.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.exceeded()),
        }
    }

    /// Returns an error if `bytes` exceed the remaining budget. The budget does not change.
    pub(crate) fn allow(&self, bytes: usize) -> Result<()> {
        if bytes > self.left { Err(self.exceeded()) } else { Ok(()) }
    }

    fn exceeded(&self) -> Error {
        Error::Limit(LimitReached::DecodedBytes { max_bytes: self.max })
    }
}
