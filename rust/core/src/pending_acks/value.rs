//! The value of one pending message.

use crate::error::{Error, Result};

/// The value of a position: the number of unacknowledged messages of the entry, and the hash of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PendingAck {
    /// Messages of the entry's batch not yet acknowledged, ≥ 0; 0 is a value like any other.
    pub remaining: i32,
    /// Signed 32 bits; the hash selects the consumer of a message.
    pub sticky_key_hash: i32,
}

impl PendingAck {
    /// A value from integers of any size.
    ///
    /// # Errors
    /// [`Error::Value`] if `remaining` is not in 0..2^31 or `sticky_key_hash` does not fit 32 signed bits.
    #[inline]
    pub fn new(remaining: i64, sticky_key_hash: i64) -> Result<Self> {
        match (i32::try_from(remaining), i32::try_from(sticky_key_hash)) {
            (Ok(remaining @ 0..), Ok(sticky_key_hash)) => Ok(Self { remaining, sticky_key_hash }),
            (Ok(0..), Err(_)) => Err(Error::Value(format!(
                "sticky-key hash {sticky_key_hash}: expected 32 signed bits"
            ))),
            _ => Err(Error::Value(format!("remaining {remaining}: expected 0 to 2147483647"))),
        }
    }

    /// Refuses columns if [`PendingAck::new`] would refuse one of their values.
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

    /// Both in one integer, as Pulsar packs them: `remaining << 32 | hash & 0xffff_ffff`.
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
