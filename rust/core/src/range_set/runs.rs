//! A ledger's acknowledged entries as a sorted tree of runs: the form for few runs that are far apart.
//!
//! Memory depends only on the number of runs. So entries 0 and 2^40 in one ledger take the memory of two runs.
//! Invariants: runs are ascending and not adjacent; `cardinality` is the sum of their lengths.

use crate::error::{Validity, invariant};
use std::collections::BTreeMap;

use super::run::Run;

#[derive(Debug, Clone, Default)]
pub(super) struct Runs {
    /// A map from the lower bound (exclusive) to the upper bound (inclusive) of each run.
    uppers: BTreeMap<i64, i64>,
    cardinality: u64,
}

impl Runs {
    /// Creates the tree of runs, which must be ascending and not adjacent.
    pub(super) fn from_runs(runs: impl Iterator<Item = Run>) -> Self {
        let mut cardinality = 0;
        let uppers = runs
            .inspect(|run| cardinality += run.len())
            .map(|run| (run.lower, run.upper))
            .collect();
        Self { uppers, cardinality }
    }

    pub(super) fn len(&self) -> usize {
        self.uppers.len()
    }

    pub(super) fn cardinality(&self) -> u64 {
        self.cardinality
    }

    /// Returns the run that contains an entry.
    pub(super) fn run_containing(&self, entry_id: i64) -> Option<Run> {
        let (lower, upper) = self.uppers.range(..entry_id).next_back()?;
        Some(Run { lower: *lower, upper: *upper }).filter(|run| run.contains(entry_id))
    }

    /// Returns the smallest run that contains all runs; `None` if there are no runs.
    pub(super) fn span(&self) -> Option<Run> {
        let (lower, _) = self.uppers.first_key_value()?;
        let (_, upper) = self.uppers.last_key_value()?;
        Some(Run { lower: *lower, upper: *upper })
    }

    /// Adds a run and returns how many of its entries are new.
    pub(super) fn add_run(&mut self, run: Run) -> u64 {
        let before = self.cardinality;
        let mut joined = run;
        // Removes each run that touches the new one, beginning with the last, and joins it to the new one.
        while let Some((lower, upper)) = self.uppers.range(..=joined.upper).next_back() {
            let neighbor = Run { lower: *lower, upper: *upper };
            if !neighbor.touches(joined) {
                break;
            }
            self.uppers.remove(&neighbor.lower);
            self.cardinality -= neighbor.len();
            joined = joined.joined(neighbor);
        }
        self.uppers.insert(joined.lower, joined.upper);
        self.cardinality += joined.len();
        self.cardinality - before
    }

    /// Removes a run and returns how many of its entries were in the set.
    pub(super) fn remove_run(&mut self, run: Run) -> u64 {
        let before = self.cardinality;
        while let Some((lower, upper)) = self.uppers.range(..run.upper).next_back() {
            let neighbor = Run { lower: *lower, upper: *upper };
            if neighbor.upper <= run.lower {
                break;
            }
            self.uppers.remove(&neighbor.lower);
            self.cardinality -= neighbor.len();
            for rest in [
                Run { lower: neighbor.lower, upper: run.lower },
                Run { lower: run.upper, upper: neighbor.upper },
            ] {
                if rest.lower < rest.upper {
                    self.uppers.insert(rest.lower, rest.upper);
                    self.cardinality += rest.len();
                }
            }
        }
        before - self.cardinality
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.uppers.iter().map(|(lower, upper)| Run { lower: *lower, upper: *upper })
    }

    /// Returns the runs that begin after an entry.
    pub(super) fn iter_after(&self, entry_id: i64) -> impl Iterator<Item = Run> + '_ {
        self.uppers.range(entry_id..).map(|(lower, upper)| Run { lower: *lower, upper: *upper })
    }

    pub(super) fn heap_bytes(&self) -> usize {
        crate::nbytes::mixed_btree_bytes::<i64, i64>(self.uppers.len())
    }

    pub(super) fn validate(&self) -> Validity {
        let mut last = -2;
        let mut cardinality = 0;
        for run in self.iter() {
            invariant!(last < run.lower && run.lower < run.upper, "run {run:?} after {last}");
            last = run.upper;
            cardinality += run.len();
        }
        invariant!(self.cardinality == cardinality, "entries in the runs");
        Ok(())
    }
}
