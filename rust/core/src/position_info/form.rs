//! The forms of a persisted state, and their names in the API and on the command line.

use std::fmt;

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
    /// Every form.
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
