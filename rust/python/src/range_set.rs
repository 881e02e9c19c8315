//! `ackwell.PositionRangeSet`: the class of `ackwell_core::range_set`.

use std::vec::IntoIter;

use ackwell_core::{self as core, Position, PositionRange};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use crate::arrays::{Array, Block, Check, Ints, Rows, array};
use crate::convert::{Int, Pair, position, raise};
use crate::shared::SharedCell;

/// A range in Python: the ledger id, the lower bound (exclusive) and the upper bound (inclusive).
type RangeTuple = (i64, i64, i64);

/// The columns of ranges: ledger ids, lower bounds (exclusive), upper bounds (inclusive).
type Columns<'py> = (Array<'py, i64>, Array<'py, i64>, Array<'py, i64>);

/// A set of acknowledged positions as ranges of entries by ledger: Pulsar's individually deleted messages.
///
/// `len` counts the ranges. Iteration yields each range as `(ledger_id, lower_entry_exclusive, upper_entry_inclusive)`,
/// as Pulsar prints it. A range never spans ledgers. Entries 0 to 5 are `(-1, 5]`. `in`, `cardinality` and `positions`
/// refer to positions. Each ledger is stored in the smallest of three forms: one range, a window of bits, or a tree of
/// ranges. So the set is small both with a hole at every second entry and with only the entries 0 and 2**40.
///
/// Parameters
/// ----------
/// ranges : iterable of (int, int, int)
///     The initial ranges, in any order. They may overlap.
///
/// Notes
/// -----
/// Adds and look-ups take O(log l) for l ledgers, plus O(log r) in a ledger with a tree of r ranges.
///
/// Examples
/// --------
/// >>> from ackwell import PositionRangeSet
/// >>> acked = PositionRangeSet()
/// >>> acked.add_range(3, -1, 5)
/// 6
/// >>> acked.add(3, 7)
/// True
/// >>> str(acked)
/// '[(3:-1..3:5],(3:6..3:7]]'
/// >>> (3, 4) in acked, acked.cardinality, len(acked)
/// (True, 7, 2)
#[pyclass(frozen, module = "ackwell")]
pub(crate) struct PositionRangeSet(pub(crate) SharedCell<core::PositionRangeSet>);

impl PositionRangeSet {
    pub(crate) fn of(set: core::PositionRangeSet) -> Self {
        Self(SharedCell::new(set))
    }
}

crate::methods::structure_methods! { PositionRangeSet, 0, attached,
    "Return an independent copy. The call takes as long as a copy of the memory.", {
    #[new]
    #[pyo3(signature = (ranges=None))]
    fn new(ranges: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let mut set = core::PositionRangeSet::new();
        if let Some(ranges) = ranges {
            for range in ranges.try_iter()? {
                let (ledger_id, lower, upper): (Int, Int, Int) = range?.extract()?;
                set.add_range(ledger_id.0, lower.0, upper.0).map_err(raise)?;
            }
        }
        Ok(Self::of(set))
    }

    /// Parse the notation of `stats-internal`, which `str` writes.
    ///
    /// Spaces between ranges, Guava's `‥` for `..`, and ranges in any order are accepted too. Raises
    /// `CorruptStateError` with the offset of the first invalid byte. A range across ledgers is invalid.
    ///
    /// >>> len(PositionRangeSet.parse("[(3:-1..3:5],(3:7..3:9]]"))
    /// 2
    #[classmethod]
    fn parse(_class: &Bound<'_, PyType>, py: Python<'_>, text: &str) -> PyResult<Self> {
        py.detach(|| core::PositionRangeSet::parse(text)).map(Self::of).map_err(raise)
    }

    /// Add a position; return whether it was new. Raises `ValueError` for a negative id.
    fn add(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> PyResult<bool> {
        self.0.locked(py).add(ledger_id.0, entry_id.0).map_err(raise)
    }

    /// Add the entries after `lower_entry_exclusive` up to `upper_entry_inclusive`; return how many are new.
    ///
    /// Equal bounds add nothing. Raises `ValueError` for a lower bound below -1 or above the upper bound.
    fn add_range(
        &self,
        py: Python<'_>,
        ledger_id: Int,
        lower_entry_exclusive: Int,
        upper_entry_inclusive: Int,
    ) -> PyResult<u64> {
        let (lower, upper) = (lower_entry_exclusive.0, upper_entry_inclusive.0);
        self.0.locked(py).add_range(ledger_id.0, lower, upper).map_err(raise)
    }

    /// Add the positions in two int64 arrays and return how many are new.
    ///
    /// Raises `ValueError`, and adds nothing, for a negative id or different lengths. Consecutive positions of one
    /// ledger need one look-up of the ledger.
    ///
    /// >>> PositionRangeSet().add_many([3, 3, 3, 4], [0, 1, 1, 0])
    /// 3
    fn add_many(&self, py: Python<'_>, ledger_ids: Ints<'_>, entry_ids: Ints<'_>) -> PyResult<u64> {
        let rows = Rows::new([ledger_ids, entry_ids])?;
        let mut new = 0;
        let check = Check {
            columns: [0, 1],
            passes_naturals: true,
            refuse: |_: &core::PositionRangeSet, [ledger_ids, entry_ids]: Block<'_, 2>| {
                core::PositionRangeSet::check_many(ledger_ids, entry_ids)
            },
        };
        self.0.batch(py, &rows, Some(check), |set, [ledger_ids, entry_ids]| {
            new += set.add_many(ledger_ids, entry_ids)?;
            Ok(())
        })?;
        Ok(new)
    }

    /// Do the same as `add_range` for each row of three int64 arrays; return how many positions are new.
    fn add_ranges(
        &self,
        py: Python<'_>,
        ledger_ids: Ints<'_>,
        lowers_exclusive: Ints<'_>,
        uppers_inclusive: Ints<'_>,
    ) -> PyResult<u128> {
        let rows = Rows::new([ledger_ids, lowers_exclusive, uppers_inclusive])?;
        let mut new = 0;
        let check = Check {
            columns: [0, 1, 2],
            passes_naturals: false,
            refuse: |_: &core::PositionRangeSet, [ledger_ids, lowers, uppers]: Block<'_, 3>| {
                core::PositionRangeSet::check_ranges(ledger_ids, lowers, uppers)
            },
        };
        self.0.batch(py, &rows, Some(check), |set, [ledger_ids, lowers, uppers]| {
            new += set.add_ranges(ledger_ids, lowers, uppers)?;
            Ok(())
        })?;
        Ok(new)
    }

    /// Add entries of one ledger, given as the words of Java's `BitSet.toLongArray`; return how many are new.
    ///
    /// Bit b of word i of the int64 array is entry 64 * i + b; bit 0 is the lowest. If the bit is set, the entry is
    /// acknowledged.
    ///
    /// >>> acked = PositionRangeSet()
    /// >>> acked.add_words(3, [0b1011, -1])
    /// 67
    /// >>> str(acked)
    /// '[(3:-1..3:1],(3:2..3:3],(3:63..3:127]]'
    fn add_words(&self, py: Python<'_>, ledger_id: Int, words: Ints<'_>) -> PyResult<u64> {
        core::Position::entry(ledger_id.0, 0).map_err(raise)?;
        let (mut new, mut next_word) = (0, 0);
        self.0.batch_of_any(py, &Rows::new([words])?, |set, [words]| {
            let added = set.add_words_from(ledger_id.0, next_word, words);
            new += added.expect("the ledger was checked");
            next_word += words.len();
        })?;
        Ok(new)
    }

    /// Remove a position; return whether it was in the set.
    fn remove(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> bool {
        self.0.locked(py).remove(ledger_id.0, entry_id.0)
    }

    /// Remove the positions in two int64 arrays; return how many of them were in the set.
    ///
    /// >>> acked = PositionRangeSet([(3, -1, 9)])
    /// >>> acked.remove_many([3, 3, 4], [0, 0, 0])
    /// 1
    fn remove_many(
        &self,
        py: Python<'_>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
    ) -> PyResult<u64> {
        let rows = Rows::new([ledger_ids, entry_ids])?;
        let mut removed = 0;
        self.0.batch_of_any(py, &rows, |set, [ledger_ids, entry_ids]| {
            removed += set.remove_many(ledger_ids, entry_ids);
        })?;
        Ok(removed)
    }

    /// Remove the entries after `lower_entry_exclusive` up to `upper_entry_inclusive`; return how many were in the set.
    ///
    /// Raises `ValueError` in the cases of `add_range`.
    ///
    /// >>> acked = PositionRangeSet([(3, -1, 9)])
    /// >>> acked.remove_range(3, 4, 6)
    /// 2
    /// >>> str(acked)
    /// '[(3:-1..3:4],(3:6..3:9]]'
    fn remove_range(
        &self,
        py: Python<'_>,
        ledger_id: Int,
        lower_entry_exclusive: Int,
        upper_entry_inclusive: Int,
    ) -> PyResult<u64> {
        let (lower, upper) = (lower_entry_exclusive.0, upper_entry_inclusive.0);
        self.0.locked(py).remove_range(ledger_id.0, lower, upper).map_err(raise)
    }

    /// Remove every position at or before this one; return how many were in the set.
    ///
    /// The remaining positions are not moved in memory, so it is cheap to advance a mark-delete position entry by
    /// entry.
    fn remove_up_to(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> u128 {
        self.0.locked(py).remove_up_to(ledger_id.0, entry_id.0)
    }

    /// Remove all positions.
    fn clear(&self, py: Python<'_>) {
        self.0.locked(py).clear();
    }

    /// Return whether a position is acknowledged; False for an invalid position.
    fn contains(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> bool {
        self.0.locked(py).contains(ledger_id.0, entry_id.0)
    }

    /// Return a bool array: for each position in two int64 arrays, whether it is acknowledged.
    ///
    /// >>> PositionRangeSet([(3, -1, 5)]).contains_many([3, 3], [5, 6])
    /// array([ True, False])
    fn contains_many<'py>(
        &self,
        py: Python<'py>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
    ) -> PyResult<Array<'py, bool>> {
        let rows = Rows::new([ledger_ids, entry_ids])?;
        let mut found = Vec::with_capacity(rows.len());
        self.0.batch_of_any(py, &rows, |set, [ledger_ids, entry_ids]| {
            found.extend(set.contains_many(ledger_ids, entry_ids));
        })?;
        Ok(array(py, found))
    }

    /// The number of positions.
    #[getter]
    fn cardinality(&self, py: Python<'_>) -> u128 {
        self.0.locked(py).cardinality()
    }

    /// Return the number of positions of one ledger.
    fn cardinality_of(&self, py: Python<'_>, ledger_id: Int) -> u64 {
        self.0.locked(py).cardinality_of(ledger_id.0)
    }

    /// Return the ledgers that have a position, in order.
    fn ledger_ids(&self, py: Python<'_>) -> Vec<i64> {
        self.0.locked(py).ledger_ids().collect()
    }

    /// Return the acknowledged entries of one ledger as an int64 array of bits, like Java's `BitSet.toLongArray`.
    ///
    /// Zero words at the end are dropped. The array of an unknown ledger is empty. Raises `LimitError` for an entry of
    /// 2**31 or above, which a Java `BitSet` cannot hold.
    ///
    /// >>> PositionRangeSet([(3, -1, 1), (3, 2, 3)]).words_of(3)
    /// array([11])
    fn words_of<'py>(&self, py: Python<'py>, ledger_id: Int) -> PyResult<Array<'py, i64>> {
        let words = self.0.detached(py, |set| set.words_of(ledger_id.0)).map_err(raise)?;
        Ok(array(py, words))
    }

    /// Return the first range; None for an empty set.
    fn first_range(&self, py: Python<'_>) -> Option<RangeTuple> {
        self.0.locked(py).first_range().map(tuple)
    }

    /// Return the range that contains a position; None if the position is not acknowledged.
    ///
    /// >>> PositionRangeSet([(3, -1, 5)]).range_containing(3, 2)
    /// (3, -1, 5)
    fn range_containing(
        &self,
        py: Python<'_>,
        ledger_id: Int,
        entry_id: Int,
    ) -> Option<RangeTuple> {
        self.0.locked(py).range_containing(ledger_id.0, entry_id.0).map(tuple)
    }

    /// Iterate over a copy of the ranges, in order. Later changes of the set have no effect.
    fn ranges(&self, py: Python<'_>) -> RangeIterator {
        RangeIterator::of(self.0.locked(py).clone())
    }

    /// Iterate over a copy of the positions, in order.
    ///
    /// >>> list(PositionRangeSet([(3, 4, 6)]).positions())
    /// [Position(ledger_id=3, entry_id=5), Position(ledger_id=3, entry_id=6)]
    fn positions(&self, py: Python<'_>) -> PositionIterator {
        PositionIterator(SharedCell::new((RangeIterator::of(self.0.locked(py).clone()), None)))
    }

    /// Return all ranges as three int64 arrays: ledger ids, lower bounds (exclusive), upper bounds (inclusive).
    fn to_arrays<'py>(&self, py: Python<'py>) -> Columns<'py> {
        let (ledger_ids, lowers, uppers) = self.0.detached(py, |set| {
            let mut columns = (
                Vec::with_capacity(set.len()),
                Vec::with_capacity(set.len()),
                Vec::with_capacity(set.len()),
            );
            for range in set.ranges() {
                columns.0.push(range.ledger_id);
                columns.1.push(range.lower_entry_exclusive);
                columns.2.push(range.upper_entry_inclusive);
            }
            columns
        });
        (array(py, ledger_ids), array(py, lowers), array(py, uppers))
    }

    /// Return a set with the positions of both sets.
    fn union(&self, py: Python<'_>, other: &Self) -> Self {
        let union = self.copy(py);
        union.__ior__(py, other);
        union
    }

    /// Return a set with the positions that are not in the other set.
    fn difference(&self, py: Python<'_>, other: &Self) -> Self {
        let theirs = other.0.locked(py).clone();
        let difference = self.copy(py);
        difference.0.detached(py, |set| set.difference_with(&theirs));
        difference
    }

    fn __or__(&self, py: Python<'_>, other: &Self) -> Self {
        self.union(py, other)
    }

    fn __ior__(&self, py: Python<'_>, other: &Self) {
        // Holds one lock at a time. So `a |= b` and `b |= a` in two threads do not wait for each other, and `a |= a`
        // does not wait for itself.
        let theirs = other.0.locked(py).clone();
        self.0.detached(py, |set| set.union_with(&theirs));
    }

    fn __sub__(&self, py: Python<'_>, other: &Self) -> Self {
        self.difference(py, other)
    }

    fn __getstate__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.detached(py, |set| set.to_bytes()))
    }

    fn __setstate__(&self, py: Python<'_>, state: &[u8]) -> PyResult<()> {
        *self.0.locked(py) = core::PositionRangeSet::from_bytes(state).map_err(raise)?;
        Ok(())
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.0.locked(py).len()
    }

    fn __iter__(&self, py: Python<'_>) -> RangeIterator {
        self.ranges(py)
    }

    fn __contains__(&self, py: Python<'_>, position: Pair) -> bool {
        self.contains(py, position.0, position.1)
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> bool {
        let theirs = other.0.locked(py).clone();
        self.0.detached(py, |set| *set == theirs)
    }

    fn __str__(&self, py: Python<'_>) -> String {
        self.0.detached(py, |set| set.to_string())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        const SHOWN: usize = 4;
        let set = self.0.locked(py);
        let mut shown: Vec<_> = set.ranges().take(SHOWN).map(|range| range.to_string()).collect();
        if set.len() > SHOWN {
            shown.push(format!("... {} ranges", set.len()));
        }
        format!("<PositionRangeSet [{}]>", shown.join(","))
    }
} }

/// An iterator over the ranges of a copy of a set. It fetches them in batches.
#[pyclass(frozen, module = "ackwell")]
struct RangeIterator(SharedCell<Ranges>);

struct Ranges {
    set: core::PositionRangeSet,
    batch: IntoIter<PositionRange>,
    last: Option<Position>,
}

impl Ranges {
    fn next(&mut self) -> Option<PositionRange> {
        const BATCH: usize = 1024;
        if self.batch.len() == 0 {
            self.batch = self.set.ranges_after(self.last, BATCH).into_iter();
        }
        let range = self.batch.next()?;
        self.last = Some(Position::new(range.ledger_id, range.upper_entry_inclusive));
        Some(range)
    }
}

impl RangeIterator {
    fn of(set: core::PositionRangeSet) -> Self {
        Self(SharedCell::new(Ranges { set, batch: Vec::new().into_iter(), last: None }))
    }
}

#[pymethods]
impl RangeIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Option<RangeTuple> {
        let mut ranges = self.0.locked(py);
        ranges.next().map(tuple)
    }
}

/// An iterator over the positions of a copy of a set, with the rest of the current range.
#[pyclass(frozen, module = "ackwell")]
struct PositionIterator(SharedCell<(RangeIterator, Option<PositionRange>)>);

#[pymethods]
impl PositionIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = {
            let mut state = self.0.locked(py);
            let (ranges, rest) = &mut *state;
            if rest.is_none() {
                *rest = ranges.0.locked(py).next();
            }
            let Some(range) = rest else { return Ok(None) };
            range.lower_entry_exclusive += 1;
            let next = Position::new(range.ledger_id, range.lower_entry_exclusive);
            if range.lower_entry_exclusive == range.upper_entry_inclusive {
                *rest = None;
            }
            next
        };
        position(py, next).map(Some)
    }
}

fn tuple(range: PositionRange) -> RangeTuple {
    (range.ledger_id, range.lower_entry_exclusive, range.upper_entry_inclusive)
}
