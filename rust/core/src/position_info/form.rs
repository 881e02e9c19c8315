//! The forms of a persisted state, and their names in the API and on the command line.

use std::fmt;

use crate::error::{Error, InvalidArgument, Result};

/// The form of an encoded state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Pulsar's field 3: a message for each range.
    PulsarRanges,
    /// Pulsar's field 6: a dense bit set for each ledger.
    PulsarLongArray,
    /// ackwell's compact form: smaller than Pulsar's forms, and with a checksum.
    Compact,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 3] = [Self::PulsarRanges, Self::PulsarLongArray, Self::Compact];

    /// Returns the name in the API and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PulsarRanges => "pulsar-ranges",
            Self::PulsarLongArray => "pulsar-long-array",
            Self::Compact => "compact",
        }
    }

    /// Returns whether brokers can read the form.
    #[must_use]
    pub const fn is_pulsar(self) -> bool {
        matches!(self, Self::PulsarRanges | Self::PulsarLongArray)
    }

    /// Returns the form of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }
}

/// A given form, or the rule that chooses one of Pulsar's forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormChoice {
    /// A given form.
    Form(Form),
    /// The smaller of Pulsar's forms that a broker of this major version can read. The encoding may be at most as large
    /// as a ledger entry.
    PulsarAuto {
        /// The major version of the broker, for example 4 for 4.2.4.
        broker_major: u32,
    },
}

impl FormChoice {
    /// The name of [`Self::PulsarAuto`].
    pub const PULSAR_AUTO: &str = "pulsar-auto";

    /// Returns the choice with this name. `broker` is a version such as 4.2.4.
    ///
    /// # Errors
    /// [`Error::Value`] for an unknown name, and for `pulsar-auto` with an invalid version.
    pub fn named(name: &str, broker: &str) -> Result<Self> {
        if name == Self::PULSAR_AUTO {
            let major = broker.split('.').next().and_then(|major| major.parse().ok());
            return major.map(|broker_major| Self::PulsarAuto { broker_major }).ok_or_else(|| {
                Error::Value(InvalidArgument::BrokerVersion { broker: broker.to_owned() })
            });
        }
        Form::named(name).map(Self::Form).ok_or_else(|| {
            let known = [&Form::ALL.map(Form::name)[..], &[Self::PULSAR_AUTO]].concat().join(", ");
            Error::Value(InvalidArgument::FormName { name: name.to_owned(), known })
        })
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
