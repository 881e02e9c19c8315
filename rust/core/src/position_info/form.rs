//! The forms of a persisted state, under the names that API and command line share.

use std::fmt;

use super::{PositionInfo, pulsar};

/// How a state is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Field 3: a message per range.
    PulsarRanges,
    /// Field 6: a dense bit set per ledger.
    PulsarLongArray,
    /// Ours: the smallest, with a checksum.
    Compact,
}

impl Form {
    /// Every form, in the order in which they were invented.
    pub const ALL: [Self; 3] = [Self::PulsarRanges, Self::PulsarLongArray, Self::Compact];

    /// Its name everywhere.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PulsarRanges => "pulsar-ranges",
            Self::PulsarLongArray => "pulsar-long-array",
            Self::Compact => "compact",
        }
    }

    /// Whether a broker reads it.
    #[must_use]
    pub const fn is_pulsar(self) -> bool {
        matches!(self, Self::PulsarRanges | Self::PulsarLongArray)
    }

    /// The form of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The bytes of an entry that a bookie takes by default: a frame of 5 MiB, less room for its header.
pub const BROKER_ENTRY_BYTES_MAX: usize = (5 << 20) - (1 << 10);

/// The first major version whose every release reads [`Form::PulsarLongArray`] (apache/pulsar#9292).
const LONG_ARRAY_SINCE_MAJOR: u32 = 4;

impl PositionInfo {
    /// The smaller of Pulsar's forms that a broker of this major version reads: `pulsar-auto`.
    #[must_use]
    pub fn smaller_pulsar_form(&self, broker_major: u32) -> Form {
        if broker_major < LONG_ARRAY_SINCE_MAJOR {
            return Form::PulsarRanges;
        }
        match self.encode(Form::PulsarLongArray) {
            Ok(bytes) if bytes.len() < pulsar::encode_ranges(self).len() => Form::PulsarLongArray,
            _ => Form::PulsarRanges,
        }
    }
}
