//! A run of consecutive acknowledged entries in one ledger. Every form of a ledger can be converted to runs and built
//! from runs.

use super::PositionRange;

/// The entries `(lower, upper]`; `-1 <= lower < upper`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) lower: i64,
    pub(super) upper: i64,
}

impl Run {
    pub(super) const fn of_entry(entry_id: i64) -> Self {
        Self { lower: entry_id - 1, upper: entry_id }
    }

    /// Returns the number of entries, up to 2^63.
    pub(super) const fn len(self) -> u64 {
        self.upper.wrapping_sub(self.lower).cast_unsigned()
    }

    pub(super) const fn contains(self, entry_id: i64) -> bool {
        self.lower < entry_id && entry_id <= self.upper
    }

    /// Returns whether the union of both runs is one run.
    pub(super) const fn touches(self, other: Self) -> bool {
        self.lower <= other.upper && other.lower <= self.upper
    }

    /// Returns the smallest run that contains both runs.
    pub(super) fn joined(self, other: Self) -> Self {
        Self { lower: self.lower.min(other.lower), upper: self.upper.max(other.upper) }
    }

    pub(super) const fn in_ledger(self, ledger_id: i64) -> PositionRange {
        PositionRange {
            ledger_id,
            lower_entry_exclusive: self.lower,
            upper_entry_inclusive: self.upper,
        }
    }
}
