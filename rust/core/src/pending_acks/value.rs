//! The value of one pending entry.

use crate::error::{Error, InvalidArgument, Result};

/// The value of a pending entry: the number of its unacknowledged messages, and the hash of its message key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PendingAck {
    /// The number of unacknowledged messages in the entry's batch, ≥ 0. An entry with 0 is still pending.
    pub remaining: i32,
    /// The signed 32-bit hash of the message key, which selects the consumer.
    pub sticky_key_hash: i32,
}

impl PendingAck {
    /// Creates a value from int64 arguments.
    ///
    /// # Errors
    /// [`Error::Value`] if `remaining` is not in 0..2^31 or `sticky_key_hash` does not fit 32 signed bits.
    #[inline]
    pub fn new(remaining: i64, sticky_key_hash: i64) -> Result<Self> {
        match (i32::try_from(remaining), i32::try_from(sticky_key_hash)) {
            (Ok(remaining @ 0..), Ok(sticky_key_hash)) => Ok(Self { remaining, sticky_key_hash }),
            (Ok(0..), Err(_)) => {
                Err(Error::Value(InvalidArgument::StickyKeyHash { sticky_key_hash }))
            }
            _ => Err(Error::Value(InvalidArgument::Remaining { remaining })),
        }
    }

    /// Returns an error if [`PendingAck::new`] would refuse a row of the columns.
    ///
    /// # Errors
    /// As [`PendingAck::new`].
    pub fn check_many(remaining: &[i64], sticky_key_hashes: &[i64]) -> Result<()> {
        let values = || remaining.iter().zip(sticky_key_hashes);
        // One pass without branches: checks that no value has a bit outside the domain.
        let beyond = values().fold(0, |beyond, (&remaining, &hash)| {
            beyond | (remaining & !0x7fff_ffff) | (hash ^ i64::from(hash as i32))
        });
        if beyond != 0 {
            values().try_for_each(|(&remaining, &hash)| Self::new(remaining, hash).map(drop))?;
        }
        Ok(())
    }

    /// Packs both numbers into one integer, as Pulsar does: `remaining << 32 | hash & 0xffff_ffff`.
    #[must_use]
    #[inline]
    pub const fn pack(self) -> i64 {
        (self.remaining as i64) << 32 | self.sticky_key_hash.cast_unsigned() as i64
    }

    /// Unpacks the result of [`PendingAck::pack`].
    #[must_use]
    #[inline]
    pub const fn unpack(packed: i64) -> Self {
        Self { remaining: (packed >> 32) as i32, sticky_key_hash: packed as i32 }
    }
}
