//! The forms of a persisted state, and their names in the API and on the command line.

use std::fmt;

use crate::error::{Error, Result};

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

/// A form by name, or the rule that chooses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormChoice {
    /// This form.
    Form(Form),
    /// The smaller of Pulsar's forms that a broker of this major version reads, at most as large as an entry may be.
    PulsarAuto {
        /// The major version, 4 of 4.2.4.
        broker_major: u32,
    },
}

impl FormChoice {
    /// The name of [`Self::PulsarAuto`].
    pub const PULSAR_AUTO: &str = "pulsar-auto";

    /// The choice of this name; `broker` is a version such as 4.2.4.
    ///
    /// # Errors
    /// [`Error::Value`] for an unknown name, and for `pulsar-auto` with an invalid version.
    pub fn named(name: &str, broker: &str) -> Result<Self> {
        if name == Self::PULSAR_AUTO {
            let major = broker.split('.').next().and_then(|major| major.parse().ok());
            return major.map(|broker_major| Self::PulsarAuto { broker_major }).ok_or_else(|| {
                Error::Value(format!("broker {broker:?}: expected a version such as 4.2.4"))
            });
        }
        Form::named(name).map(Self::Form).ok_or_else(|| {
            let known = Form::ALL.map(Form::name).join(", ");
            Error::Value(format!("form {name:?}: expected one of {known}, {}", Self::PULSAR_AUTO))
        })
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
