//! How much memory a decoded state may take: small inputs must not make large results.

use crate::error::{Error, Result};

/// Result bytes that decoding may use by default. A hundred million entries with alternating acks take 12 MB.
pub const RESULT_BYTES_MAX: usize = 64 << 20;

/// The remaining bytes that the result may take.
pub(crate) struct Budget {
    left: usize,
    max: usize,
}

impl Budget {
    /// A result of at most `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self { left: max, max }
    }

    /// Accounts for `bytes` before they are allocated.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.exceeded()),
        }
    }

    /// Refuses a part of the result that has grown to `bytes`, without accounting for it.
    pub(crate) fn allow(&self, bytes: usize) -> Result<()> {
        if bytes > self.left { Err(self.exceeded()) } else { Ok(()) }
    }

    fn exceeded(&self) -> Error {
        Error::Limit(format!(
            "the decoded state would take more than {} bytes; raise max_bytes to read it",
            self.max
        ))
    }
}
