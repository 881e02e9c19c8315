//! The class `PendingAcks`. `handlers` calls the Python functions that a caller passes; `value` contains the named
//! tuple of an entry.

mod handlers;
mod value;

use ackwell_core::{PendingAck, Position};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::arrays::{Array, Block, Check, Ints, Rows, SMALL_BLOCK_ROWS, array};
use crate::convert::{Int, Pair, pairs, raise};
use crate::positions::Positions;
use crate::shared::SharedCell;
use handlers::Handlers;
use value::pending_ack;

/// The columns of entries: ledger ids, entry ids, remaining counts, sticky-key hashes.
type Columns<'py> = (Array<'py, i64>, Array<'py, i64>, Array<'py, i64>, Array<'py, i64>);
/// The arguments for a pickle: the [`Columns`], and whether the map is closed.
type PickleState<'py> = (Array<'py, i64>, Array<'py, i64>, Array<'py, i64>, Array<'py, i64>, bool);
type Entry = (i64, i64, PendingAck);

/// The position after all others.
const LAST: (i64, i64) = (i64::MAX, i64::MAX);

/// The entries that were sent to one consumer and are not acknowledged: a mapping from `Position` to `PendingAck`.
///
/// Semantics are those of Apache Pulsar's `PendingAcksMap`. Ids are any int64. `remaining` is 0 to 2**31 − 1; an entry
/// with 0 is still pending. `sticky_key_hash` is a signed 32-bit integer. Other values raise `ValueError`. Iteration is
/// in order of position and is not affected by later changes. Scalar methods and `len` are O(1). An entry takes 0.5 to
/// 9 bytes if most entries around it are pending, otherwise up to 24 bytes.
///
/// Handlers and callbacks run while the map is not locked, so they may call any method. All entries that a call removes
/// are removed before the first handler or callback runs. If a handler or callback raises, its entry and the later ones
/// are pending again, and the caller gets the exception.
///
/// Parameters
/// ----------
/// entries : mapping or iterable of pairs, optional
///     The initial entries: positions and `(remaining, sticky_key_hash)`. No handler is called.
/// add_handler : callable, optional
///     `add_handler(ledger_id, entry_id, sticky_key_hash)` is called before each add. If it returns a false value, the
///     entry is not added.
/// remove_handler : RemoveHandler, optional
///     `handle_removing(ledger_id, entry_id, sticky_key_hash, closing)` is called for each removed entry. If a call can
///     remove more than one entry, `start_batch()` is called before and `end_batch()` afterwards.
///
/// Examples
/// --------
/// >>> from ackwell import PendingAcks
/// >>> pending = PendingAcks()
/// >>> pending.add(3, 0, remaining=10, sticky_key_hash=-7)
/// True
/// >>> pending.add_many([3, 3, 4], [1, 2, 0], [1, 1, 1], [5, 6, 7])
/// 3
/// >>> pending.update_remaining(3, 0, 4), pending.get_remaining(3, 0)
/// (True, 6)
/// >>> pending[3, 0]
/// PendingAck(remaining=6, sticky_key_hash=-7)
/// >>> pending.remove_all_up_to(3, 1)
/// 2
/// >>> list(pending)
/// [Position(ledger_id=3, entry_id=2), Position(ledger_id=4, entry_id=0)]
#[pyclass(frozen, mapping, module = "ackwell")]
pub(crate) struct PendingAcks {
    acks: SharedCell<ackwell_core::PendingAcks>,
    handlers: Handlers,
}

#[inline]
fn value_of(remaining: Int, sticky_key_hash: Int) -> PyResult<PendingAck> {
    PendingAck::new(remaining.0, sticky_key_hash.0).map_err(raise)
}

/// Converts entries to four arrays.
fn columns<'py>(py: Python<'py>, entries: &[Entry]) -> Columns<'py> {
    let column = |value: fn(&Entry) -> i64| array(py, entries.iter().map(value).collect());
    (
        column(|entry| entry.0),
        column(|entry| entry.1),
        column(|entry| i64::from(entry.2.remaining)),
        column(|entry| i64::from(entry.2.sticky_key_hash)),
    )
}

fn entries_of(acks: &ackwell_core::PendingAcks) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(acks.len());
    acks.for_each(|ledger, entry, value| entries.push((ledger, entry, value)));
    entries
}

impl PendingAcks {
    fn of(acks: ackwell_core::PendingAcks) -> Self {
        Self { acks: SharedCell::new(acks), handlers: Handlers::default() }
    }
}

crate::methods::mapping_methods! { PendingAcks, acks,
    "Return a copy without handlers. The copy is closed if this map is closed.", {
    #[new]
    #[pyo3(signature = (entries = None, /, *, add_handler = None, remove_handler = None))]
    fn new(
        entries: Option<&Bound<'_, PyAny>>,
        add_handler: Option<Py<PyAny>>,
        remove_handler: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut acks = ackwell_core::PendingAcks::new();
        if let Some(entries) = entries {
            for pair in pairs(entries)? {
                let ((ledger_id, entry_id), (remaining, hash)): (Pair, Pair) = pair?.extract()?;
                acks.add(ledger_id.0, entry_id.0, value_of(remaining, hash)?);
            }
        }
        Ok(Self { acks: SharedCell::new(acks), handlers: Handlers::new(add_handler, remove_handler) })
    }

    /// Build a map without handlers from four int64 arrays of equal length.
    #[staticmethod]
    #[pyo3(signature = (ledger_ids, entry_ids, remaining, sticky_key_hashes, closed = false))]
    fn from_arrays(
        py: Python<'_>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
        remaining: Ints<'_>,
        sticky_key_hashes: Ints<'_>,
        closed: bool,
    ) -> PyResult<Self> {
        let acks = Self::of(ackwell_core::PendingAcks::new());
        acks.add_many(py, ledger_ids, entry_ids, remaining, sticky_key_hashes)?;
        if closed {
            acks.acks.locked(py).close();
        }
        Ok(acks)
    }

    /// Add or replace an entry; return whether it was allowed.
    ///
    /// If the map is closed or the add handler refuses the entry, return False and change nothing.
    #[pyo3(
        signature = (ledger_id, entry_id, remaining = Int(1), sticky_key_hash = Int(0)),
        text_signature = "($self, ledger_id, entry_id, remaining=1, sticky_key_hash=0)"
    )]
    fn add(
        &self,
        py: Python<'_>,
        ledger_id: Int,
        entry_id: Int,
        remaining: Int,
        sticky_key_hash: Int,
    ) -> PyResult<bool> {
        let value = value_of(remaining, sticky_key_hash)?;
        if !self.handlers.allow(py, &self.acks, (ledger_id.0, entry_id.0, value))? {
            return Ok(false);
        }
        Ok(self.acks.locked(py).add(ledger_id.0, entry_id.0, value))
    }

    /// Add or replace entries given as int64 arrays of equal length; return how many were allowed.
    ///
    /// Nothing changes if an argument is refused.
    fn add_many(
        &self,
        py: Python<'_>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
        remaining: Ints<'_>,
        sticky_key_hashes: Ints<'_>,
    ) -> PyResult<usize> {
        let rows = Rows::new([ledger_ids, entry_ids, remaining, sticky_key_hashes])?;
        let rows = rows.in_blocks_of(SMALL_BLOCK_ROWS);
        if self.handlers.has_add_handler() {
            return self.handlers.add_many(py, &self.acks, &rows);
        }
        let mut added = 0;
        let check = Check {
            columns: [2, 3],
            passes_naturals: false,
            refuse: |_: &ackwell_core::PendingAcks, [remaining, hashes]: Block<'_, 2>| {
                PendingAck::check_many(remaining, hashes)
            },
        };
        self.acks.batch(py, &rows, Some(check), |acks, columns| {
            added += acks.add_columns(columns)?;
            Ok(())
        })?;
        Ok(added)
    }

    /// Return whether an entry is pending.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn contains(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> bool {
        self.acks.locked(py).contains(ledger_id.0, entry_id.0)
    }

    /// Return whether a position is pending; False for an object that is not a position.
    fn __contains__(&self, py: Python<'_>, position: &Bound<'_, PyAny>) -> bool {
        position.extract::<Pair>().is_ok_and(|position| self.contains(py, position.0, position.1))
    }

    /// Return a bool array: for each position in two int64 arrays, whether it is pending.
    fn contains_many<'py>(
        &self,
        py: Python<'py>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
    ) -> PyResult<Array<'py, bool>> {
        let rows = Rows::new([ledger_ids, entry_ids])?;
        let mut found = Vec::with_capacity(rows.len());
        self.acks.batch_of_any(py, &rows, |acks, [ledgers, entries]| {
            let positions = ledgers.iter().zip(entries);
            found.extend(positions.map(|(&ledger, &entry)| acks.contains(ledger, entry)));
        })?;
        Ok(array(py, found))
    }

    /// Return an entry's remaining count, or None if it is not pending.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn get_remaining(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> Option<i32> {
        self.acks.locked(py).get_remaining(ledger_id.0, entry_id.0)
    }

    /// Return the `PendingAck` of a position, or `default`.
    #[pyo3(signature = (position, default = None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        position: Pair,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.acks.locked(py).get(position.0.0, position.1.0);
        value.map_or(Ok(default), |value| pending_ack(py, value).map(Some))
    }

    /// Return two int64 arrays: remaining counts and sticky-key hashes. For a position that is not pending: −1 and 0.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
    ) -> PyResult<(Array<'py, i64>, Array<'py, i64>)> {
        const ABSENT: PendingAck = PendingAck { remaining: -1, sticky_key_hash: 0 };
        let rows = Rows::new([ledger_ids, entry_ids])?;
        let mut remaining = Vec::with_capacity(rows.len());
        let mut hashes = Vec::with_capacity(rows.len());
        self.acks.batch_of_any(py, &rows, |acks, [ledgers, entries]| {
            for (&ledger, &entry) in ledgers.iter().zip(entries) {
                let value = acks.get(ledger, entry).unwrap_or(ABSENT);
                remaining.push(i64::from(value.remaining));
                hashes.push(i64::from(value.sticky_key_hash));
            }
        })?;
        Ok((array(py, remaining), array(py, hashes)))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, position: Pair) -> PyResult<Bound<'py, PyAny>> {
        let value = self.acks.locked(py).get(position.0.0, position.1.0);
        match value {
            Some(value) => pending_ack(py, value),
            None => Err(PyKeyError::new_err((position.0.0, position.1.0))),
        }
    }

    /// Subtract `acked` from an entry's remaining count; return whether the count changed.
    ///
    /// If the entry is not pending or the result is outside 0 to 2**31 − 1, return False and change nothing. An entry
    /// with count 0 stays pending until it is removed.
    #[pyo3(signature = (ledger_id, entry_id, acked, /))]
    fn update_remaining(&self, py: Python<'_>, ledger_id: Int, entry_id: Int, acked: Int) -> bool {
        self.acks.locked(py).update_remaining(ledger_id.0, entry_id.0, acked.0)
    }

    /// Lower the remaining count of each entry to its count in `remaining`; return the differences.
    ///
    /// The result is an int64 array. A difference is the old count minus the new count. If the old count is not greater
    /// than the new count, it does not change, and the difference is 0. For an entry that is not pending, the
    /// difference is -1.
    fn lower_many<'py>(
        &self,
        py: Python<'py>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
        remaining: Ints<'_>,
    ) -> PyResult<Array<'py, i64>> {
        let rows = Rows::new([ledger_ids, entry_ids, remaining])?;
        let mut lowered = Vec::with_capacity(rows.len());
        let is_valid = |remaining: &[i64]| {
            remaining.iter().try_for_each(|&left| PendingAck::new(left, 0).map(drop))
        };
        let check = Check {
            columns: [2],
            passes_naturals: false,
            refuse: |_: &ackwell_core::PendingAcks, [remaining]: Block<'_, 1>| is_valid(remaining),
        };
        self.acks.batch(py, &rows, Some(check), |acks, [ledgers, entries, remaining]| {
            is_valid(remaining)?;
            for ((&ledger, &entry), &left) in ledgers.iter().zip(entries).zip(remaining) {
                lowered.push(acks.lower(ledger, entry, left));
            }
            Ok(())
        })?;
        Ok(array(py, lowered))
    }

    /// Remove an entry; return whether it was pending.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn remove(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> PyResult<bool> {
        if self.handlers.has_remove_handler() {
            return Ok(self
                .handlers
                .remove(py, &self.acks, (ledger_id.0, entry_id.0), None)?
                .is_some());
        }
        Ok(self.acks.locked(py).discard(ledger_id.0, entry_id.0))
    }

    /// Remove an entry if it has this value; return whether it was removed.
    #[pyo3(signature = (ledger_id, entry_id, remaining, sticky_key_hash, /))]
    fn remove_if_value(
        &self,
        py: Python<'_>,
        ledger_id: Int,
        entry_id: Int,
        remaining: Int,
        sticky_key_hash: Int,
    ) -> PyResult<bool> {
        let expected = value_of(remaining, sticky_key_hash)?;
        let position = (ledger_id.0, entry_id.0);
        Ok(self.handlers.remove(py, &self.acks, position, Some(expected))?.is_some())
    }

    /// Remove an entry and return its `PendingAck`, or None if it was not pending.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn remove_and_get<'py>(
        &self,
        py: Python<'py>,
        ledger_id: Int,
        entry_id: Int,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let removed = self.handlers.remove(py, &self.acks, (ledger_id.0, entry_id.0), None)?;
        removed.map(|value| pending_ack(py, value)).transpose()
    }

    /// Remove the entries of positions given as two int64 arrays; return how many were pending.
    fn remove_many(
        &self,
        py: Python<'_>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
    ) -> PyResult<usize> {
        let rows = Rows::new([ledger_ids, entry_ids])?;
        if self.handlers.has_remove_handler() {
            return self.handlers.remove_many(py, &self.acks, &rows);
        }
        let mut removed = 0;
        self.acks.batch_of_any(py, &rows, |acks, [ledgers, entries]| {
            let positions = ledgers.iter().zip(entries);
            removed += acks.remove_many(positions.map(|(&ledger, &entry)| (ledger, entry)));
        })?;
        Ok(removed)
    }

    /// Remove every entry up to and including a position; return their number. O(pages of 64 entries).
    ///
    /// `callback(ledger_id, entry_id, remaining, sticky_key_hash)` is called for each, in order.
    #[pyo3(signature = (ledger_id, entry_id, callback = None))]
    fn remove_all_up_to(
        &self,
        py: Python<'_>,
        ledger_id: Int,
        entry_id: Int,
        callback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        callback.as_ref().map_or(Ok(()), check_callable)?;
        let last = (ledger_id.0, entry_id.0);
        self.handlers.remove_up_to(py, &self.acks, last, callback.as_ref())
    }

    /// Remove every entry up to and including a position; return them, in order, as four int64 arrays.
    ///
    /// Returns ledger ids, entry ids, remaining counts and sticky-key hashes.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn take_all_up_to<'py>(
        &self,
        py: Python<'py>,
        ledger_id: Int,
        entry_id: Int,
    ) -> PyResult<Columns<'py>> {
        let taken = self.handlers.take_up_to(py, &self.acks, (ledger_id.0, entry_id.0), None)?;
        Ok(columns(py, &taken))
    }

    /// Call `callback(ledger_id, entry_id, remaining, sticky_key_hash)` with every entry, in order.
    ///
    /// Changes by the callback do not affect which entries are visited.
    #[pyo3(signature = (callback, /))]
    fn for_each(&self, py: Python<'_>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        check_callable(callback)?;
        let entries = entries_of(&self.acks.locked(py));
        for (ledger_id, entry_id, PendingAck { remaining, sticky_key_hash }) in entries {
            callback.call1((ledger_id, entry_id, remaining, sticky_key_hash))?;
        }
        Ok(())
    }

    /// Remove every entry, then call `callback` as `for_each` does.
    #[pyo3(signature = (callback, /))]
    fn for_each_and_clear(&self, py: Python<'_>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        check_callable(callback)?;
        self.handlers.remove_up_to(py, &self.acks, LAST, Some(callback)).map(drop)
    }

    /// Close the map, which then refuses every add. Remove every entry, then call `callback` as `for_each` does.
    #[pyo3(signature = (callback, /))]
    fn for_each_and_close(&self, py: Python<'_>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        check_callable(callback)?;
        self.acks.locked(py).close();
        self.for_each_and_clear(py, callback)
    }

    /// Remove every entry. The remove handler is called for each.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.handlers.remove_up_to(py, &self.acks, LAST, None).map(drop)
    }

    /// Whether `for_each_and_close` was called.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.acks.locked(py).is_closed()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.acks.locked(py).len()
    }

    fn __iter__(&self, py: Python<'_>) -> Positions {
        let acks = self.acks.locked(py);
        let mut positions = Vec::with_capacity(acks.len());
        acks.for_each(|ledger, entry, _| positions.push(Position::new(ledger, entry)));
        Positions::of(positions)
    }

    /// Return every entry, in order, as four int64 arrays.
    fn to_arrays<'py>(&self, py: Python<'py>) -> Columns<'py> {
        let entries = self.acks.detached(py, |acks| entries_of(acks));
        columns(py, &entries)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let acks = self.acks.locked(py);
        let state = if acks.is_closed() { ", closed" } else { "" };
        format!("<PendingAcks {} entries{state}>", acks.len())
    }

    /// Return the arguments for a pickle: the entries, and whether the map is closed.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, PickleState<'py>)> {
        let (py, acks) = (slf.py(), slf.get());
        let (ledger_ids, entry_ids, remaining, hashes) = acks.to_arrays(py);
        let arguments = (ledger_ids, entry_ids, remaining, hashes, acks.closed(py));
        Ok((slf.get_type().getattr("from_arrays")?, arguments))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.handlers.traverse(&visit)
    }
} }

/// Refuses an object that is not callable, before anything is changed.
fn check_callable(callback: &Bound<'_, PyAny>) -> PyResult<()> {
    if callback.is_callable() {
        return Ok(());
    }
    let kind = callback.get_type().name()?;
    Err(PyTypeError::new_err(format!("expected a callable, got {kind}")))
}
