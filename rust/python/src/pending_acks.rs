//! The class `PendingAcks`.
//!
//! Handlers and callbacks are Python code, so they run while nothing is locked: what a call removes is taken
//! out first, then told, and what was not told because a handler raised is put back.

use ackwell_core::PendingAck;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyKeyError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use crate::convert::{self, Int, Ints, Pair, raise, same_length};
use crate::shared::Shared;

type Array<'py, T> = Bound<'py, PyArray1<T>>;
/// Ledger ids, entry ids, remaining, sticky-key hashes.
type Columns<'py> = (Array<'py, i64>, Array<'py, i64>, Array<'py, i64>, Array<'py, i64>);
/// The same, and whether the map is closed.
type Pickled<'py> = (Array<'py, i64>, Array<'py, i64>, Array<'py, i64>, Array<'py, i64>, bool);
type Entry = (i64, i64, PendingAck);

/// The position after all others: `up to` it is everything.
const LAST: (i64, i64) = (i64::MAX, i64::MAX);

/// What was sent to one consumer and is not acknowledged yet: a mapping from `Position` to `PendingAck`.
///
/// Semantics are those of Apache Pulsar's `PendingAcksMap`. Ids are any int64, `remaining` is 0 to 2**31 − 1
/// (0 is a value, not an absence), `sticky_key_hash` is 32 signed bits; anything else is a `ValueError`.
/// Iteration is in order of position, over the entries as they are when it begins. Scalar methods are O(1),
/// `len` too; dense windows of entries cost 0.5 to 9 bytes an entry, sparse ones up to 24.
///
/// Handlers and callbacks run while nothing is locked and may call any method. Entries leave
/// when they have been told: if a handler or callback raises, that entry and those after it are pending as
/// before, and the exception is the caller's. To a handler or callback itself, all entries of its call are gone.
///
/// Parameters
/// ----------
/// entries : mapping or iterable of pairs, optional
///     What it holds at first: positions and `(remaining, sticky_key_hash)`. No handler is asked.
/// add_handler : callable, optional
///     `add_handler(ledger_id, entry_id, sticky_key_hash)` is asked before each add; a false answer refuses it.
/// remove_handler : RemoveHandler, optional
///     Told of each removal: `handle_removing(ledger_id, entry_id, sticky_key_hash, closing)`, between
///     `start_batch()` and `end_batch()` where a call may remove more than one.
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
    acks: Shared<ackwell_core::PendingAcks>,
    add_handler: Option<Py<PyAny>>,
    remove_handler: Option<Py<PyAny>>,
}

/// What is iterated over.
enum Part {
    Keys,
    Values,
    Items,
}

/// Iterates entries as they were when it was made.
#[pyclass(module = "ackwell")]
pub(crate) struct PendingAcksIterator {
    entries: std::vec::IntoIter<Entry>,
    part: Part,
}

#[pymethods]
impl PendingAcksIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((ledger_id, entry_id, value)) = self.entries.next() else { return Ok(None) };
        Ok(Some(match self.part {
            Part::Keys => position(py, ledger_id, entry_id)?,
            Part::Values => pending_ack(py, value)?,
            Part::Items => (position(py, ledger_id, entry_id)?, pending_ack(py, value)?)
                .into_pyobject(py)?
                .into_any(),
        }))
    }

    fn __length_hint__(&self) -> usize {
        self.entries.len()
    }
}

/// A named tuple, made as `tuple.__new__` makes it: its own `__new__` is Python code and takes three times as long.
fn named<'py>(
    py: Python<'py>,
    class: &Bound<'py, PyType>,
    fields: impl IntoPyObject<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    static TUPLE_NEW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let new = TUPLE_NEW.get_or_try_init(py, || {
        py.get_type::<pyo3::types::PyTuple>().getattr("__new__").map(Bound::unbind)
    })?;
    new.bind(py).call1((class, fields))
}

fn position(py: Python<'_>, ledger_id: i64, entry_id: i64) -> PyResult<Bound<'_, PyAny>> {
    static POSITION: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    named(py, POSITION.import(py, "ackwell.position", "Position")?, (ledger_id, entry_id))
}

fn pending_ack(py: Python<'_>, value: PendingAck) -> PyResult<Bound<'_, PyAny>> {
    static PENDING_ACK: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = PENDING_ACK.import(py, "ackwell.pending_ack", "PendingAck")?;
    named(py, class, (value.remaining, value.sticky_key_hash))
}

#[inline]
fn value_of(remaining: Int, sticky_key_hash: Int) -> PyResult<PendingAck> {
    PendingAck::new(remaining.0, sticky_key_hash.0).map_err(raise)
}

fn columns<'py>(py: Python<'py>, entries: &[Entry]) -> Columns<'py> {
    let column =
        |of: fn(&Entry) -> i64| entries.iter().map(of).collect::<Vec<_>>().into_pyarray(py);
    (
        column(|entry| entry.0),
        column(|entry| entry.1),
        column(|entry| i64::from(entry.2.remaining)),
        column(|entry| i64::from(entry.2.sticky_key_hash)),
    )
}

fn entries_up_to(acks: &ackwell_core::PendingAcks, last: (i64, i64)) -> Vec<Entry> {
    let mut entries = Vec::new();
    acks.for_each_up_to(last.0, last.1, |ledger, entry, value| {
        entries.push((ledger, entry, value))
    });
    entries
}

fn take_up_to(acks: &mut ackwell_core::PendingAcks, last: (i64, i64)) -> Vec<Entry> {
    let entries = entries_up_to(acks, last);
    acks.remove_all_up_to(last.0, last.1);
    entries
}

impl PendingAcks {
    fn of(acks: ackwell_core::PendingAcks) -> Self {
        Self { acks: Shared::new(acks), add_handler: None, remove_handler: None }
    }

    fn is_allowed(
        &self,
        py: Python<'_>,
        ledger_id: i64,
        entry_id: i64,
        hash: i32,
    ) -> PyResult<bool> {
        match &self.add_handler {
            // A closed map refuses by itself.
            Some(handler) if !self.acks.locked(py).is_closed() => {
                handler.bind(py).call1((ledger_id, entry_id, hash))?.is_truthy()
            }
            _ => Ok(true),
        }
    }

    /// Tells the callback and the handler of entries taken out, in order; puts back what was not told.
    fn tell(
        &self,
        py: Python<'_>,
        taken: &[Entry],
        callback: Option<&Bound<'_, PyAny>>,
        is_batch: bool,
    ) -> PyResult<()> {
        let mut told = 0;
        let mut result = self.tell_each(py, taken, callback, is_batch, &mut told);
        if is_batch && let Some(handler) = &self.remove_handler {
            let ended = handler.bind(py).call_method0("end_batch").map(|_| ());
            result = result.and(ended);
        }
        if told < taken.len() {
            let mut acks = self.acks.locked(py);
            for &(ledger_id, entry_id, value) in &taken[told..] {
                acks.put_back(ledger_id, entry_id, value);
            }
        }
        result
    }

    fn tell_each(
        &self,
        py: Python<'_>,
        taken: &[Entry],
        callback: Option<&Bound<'_, PyAny>>,
        is_batch: bool,
        told: &mut usize,
    ) -> PyResult<()> {
        let handler = self.remove_handler.as_ref().map(|handler| handler.bind(py));
        let closing = self.acks.locked(py).is_closed();
        if is_batch && let Some(handler) = handler {
            handler.call_method0("start_batch")?;
        }
        for &(ledger_id, entry_id, PendingAck { remaining, sticky_key_hash }) in taken {
            if let Some(callback) = callback {
                callback.call1((ledger_id, entry_id, remaining, sticky_key_hash))?;
            }
            if let Some(handler) = handler {
                let arguments = (ledger_id, entry_id, sticky_key_hash, closing);
                handler.call_method1("handle_removing", arguments)?;
            }
            *told += 1;
        }
        Ok(())
    }

    /// Removes everything up to `last`, closing the map first if asked to; how many entries left.
    fn remove_up_to(
        &self,
        py: Python<'_>,
        last: (i64, i64),
        callback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        if callback.is_none() && self.remove_handler.is_none() {
            return Ok(self.acks.detached(py, |acks| acks.remove_all_up_to(last.0, last.1)));
        }
        let taken = self.acks.detached(py, |acks| take_up_to(acks, last));
        self.tell(py, &taken, callback, true)?;
        Ok(taken.len())
    }

    /// Removes one entry and tells of it.
    fn remove_one(
        &self,
        py: Python<'_>,
        ledger_id: i64,
        entry_id: i64,
        expected: Option<PendingAck>,
    ) -> PyResult<Option<PendingAck>> {
        let mut acks = self.acks.locked(py);
        if expected.is_some() && acks.get(ledger_id, entry_id) != expected {
            return Ok(None);
        }
        let removed = acks.remove(ledger_id, entry_id);
        drop(acks);
        if let Some(value) = removed
            && self.remove_handler.is_some()
        {
            self.tell(py, &[(ledger_id, entry_id, value)], None, false)?;
        }
        Ok(removed)
    }

    fn iterate(&self, py: Python<'_>, part: Part) -> PendingAcksIterator {
        let entries = entries_up_to(&self.acks.locked(py), LAST).into_iter();
        PendingAcksIterator { entries, part }
    }
}

/// One of the views of `collections.abc`, over any mapping.
fn view<'py>(mapping: &Bound<'py, PendingAcks>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    mapping.py().import("collections.abc")?.getattr(name)?.call1((mapping,))
}

#[pymethods]
impl PendingAcks {
    #[new]
    #[pyo3(signature = (entries = None, /, *, add_handler = None, remove_handler = None))]
    fn new(
        entries: Option<&Bound<'_, PyAny>>,
        add_handler: Option<Py<PyAny>>,
        remove_handler: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut acks = ackwell_core::PendingAcks::new();
        if let Some(entries) = entries {
            let pairs = match entries.getattr("items") {
                Ok(items) => items.call0()?,
                Err(_) => entries.clone(),
            };
            for pair in pairs.try_iter()? {
                let ((ledger_id, entry_id), (remaining, hash)): (Pair, Pair) = pair?.extract()?;
                acks.add(ledger_id.0, entry_id.0, value_of(remaining, hash)?);
            }
        }
        Ok(Self { acks: Shared::new(acks), add_handler, remove_handler })
    }

    /// Build a map, without handlers, of four int64 arrays of one length.
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
    /// False, and nothing changes, once the map is closed or if the add handler refuses.
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
        if self.add_handler.is_some()
            && !self.is_allowed(py, ledger_id.0, entry_id.0, value.sticky_key_hash)?
        {
            return Ok(false);
        }
        Ok(self.acks.locked(py).add(ledger_id.0, entry_id.0, value))
    }

    /// Add or replace entries given as int64 arrays of one length; return how many were allowed.
    ///
    /// Nothing changes if an argument is refused. Without an add handler the arrays are read without the
    /// interpreter: no other thread may write to them meanwhile.
    fn add_many(
        &self,
        py: Python<'_>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
        remaining: Ints<'_>,
        sticky_key_hashes: Ints<'_>,
    ) -> PyResult<usize> {
        let (ledgers, entries) = (ledger_ids.slice(), entry_ids.slice());
        let (remaining, hashes) = (remaining.slice(), sticky_key_hashes.slice());
        same_length(&[ledgers.len(), entries.len(), remaining.len(), hashes.len()])?;
        // Checked before anything changes: no bit outside the domain is set in any of them.
        let beyond = remaining.iter().zip(hashes.iter()).fold(0, |beyond, (&remaining, &hash)| {
            beyond | (remaining & !0x7fff_ffff) | (hash ^ i64::from(hash as i32))
        });
        if beyond != 0 {
            for (&remaining, &hash) in remaining.iter().zip(hashes.iter()) {
                value_of(Int(remaining), Int(hash))?;
            }
        }
        let positions =
            || ledgers.iter().zip(entries.iter()).map(|(&ledger, &entry)| (ledger, entry));
        let values = || {
            remaining.iter().zip(hashes.iter()).map(|(&remaining, &hash)| PendingAck {
                remaining: remaining as i32,
                sticky_key_hash: hash as i32,
            })
        };
        if self.add_handler.is_none() {
            return Ok(self.acks.detached(py, |acks| {
                acks.add_many(positions().zip(values()).map(|((l, e), value)| (l, e, value)))
            }));
        }
        let mut allowed = 0;
        for ((ledger, entry), value) in positions().zip(values()) {
            if self.is_allowed(py, ledger, entry, value.sticky_key_hash)? {
                allowed += usize::from(self.acks.locked(py).add(ledger, entry, value));
            }
        }
        Ok(allowed)
    }

    /// Return whether an entry is pending.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn contains(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> bool {
        self.acks.locked(py).contains(ledger_id.0, entry_id.0)
    }

    fn __contains__(&self, py: Python<'_>, position: Pair) -> bool {
        self.contains(py, position.0, position.1)
    }

    /// Return, for each position, given as two int64 arrays, whether it is pending.
    fn contains_many<'py>(
        &self,
        py: Python<'py>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
    ) -> PyResult<Array<'py, bool>> {
        let (ledgers, entries) = (ledger_ids.slice(), entry_ids.slice());
        same_length(&[ledgers.len(), entries.len()])?;
        let found: Vec<bool> = self.acks.detached(py, |acks| {
            ledgers.iter().zip(entries.iter()).map(|(&l, &e)| acks.contains(l, e)).collect()
        });
        Ok(found.into_pyarray(py))
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

    /// Return two int64 arrays: remaining counts, −1 where not pending, and sticky-key hashes, 0 where not.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
    ) -> PyResult<(Array<'py, i64>, Array<'py, i64>)> {
        let (ledgers, entries) = (ledger_ids.slice(), entry_ids.slice());
        same_length(&[ledgers.len(), entries.len()])?;
        let (remaining, hashes): (Vec<i64>, Vec<i64>) = self.acks.detached(py, |acks| {
            let value =
                |l, e| acks.get(l, e).unwrap_or(PendingAck { remaining: -1, sticky_key_hash: 0 });
            let mut remaining = Vec::with_capacity(ledgers.len());
            let mut hashes = Vec::with_capacity(ledgers.len());
            for (&ledger, &entry) in ledgers.iter().zip(entries.iter()) {
                let value = value(ledger, entry);
                remaining.push(i64::from(value.remaining));
                hashes.push(i64::from(value.sticky_key_hash));
            }
            (remaining, hashes)
        });
        Ok((remaining.into_pyarray(py), hashes.into_pyarray(py)))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, position: Pair) -> PyResult<Bound<'py, PyAny>> {
        let value = self.acks.locked(py).get(position.0.0, position.1.0);
        match value {
            Some(value) => pending_ack(py, value),
            None => Err(PyKeyError::new_err((position.0.0, position.1.0))),
        }
    }

    /// Take `acked` messages off an entry's remaining count; return whether that was done.
    ///
    /// False, and nothing changes, if the entry is not pending or the count would leave 0 to 2**31 − 1. At 0
    /// the entry stays until it is removed.
    #[pyo3(signature = (ledger_id, entry_id, acked, /))]
    fn update_remaining(&self, py: Python<'_>, ledger_id: Int, entry_id: Int, acked: Int) -> bool {
        self.acks.locked(py).update_remaining(ledger_id.0, entry_id.0, acked.0)
    }

    /// Remove an entry; return whether it was pending.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn remove(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> PyResult<bool> {
        if self.remove_handler.is_none() {
            return Ok(self.acks.locked(py).discard(ledger_id.0, entry_id.0));
        }
        Ok(self.remove_one(py, ledger_id.0, entry_id.0, None)?.is_some())
    }

    /// Remove an entry if this is its value; return whether it was.
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
        Ok(self.remove_one(py, ledger_id.0, entry_id.0, Some(expected))?.is_some())
    }

    /// Remove an entry and return its `PendingAck`, or None if it was not pending.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn remove_and_get<'py>(
        &self,
        py: Python<'py>,
        ledger_id: Int,
        entry_id: Int,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let removed = self.remove_one(py, ledger_id.0, entry_id.0, None)?;
        removed.map(|value| pending_ack(py, value)).transpose()
    }

    /// Remove the entries of positions given as two int64 arrays; return how many were pending.
    ///
    /// Without a remove handler the arrays are read without the interpreter: no other thread may write to
    /// them meanwhile.
    fn remove_many(
        &self,
        py: Python<'_>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
    ) -> PyResult<usize> {
        let (ledgers, entries) = (ledger_ids.slice(), entry_ids.slice());
        same_length(&[ledgers.len(), entries.len()])?;
        let positions =
            || ledgers.iter().zip(entries.iter()).map(|(&ledger, &entry)| (ledger, entry));
        if self.remove_handler.is_none() {
            return Ok(self.acks.detached(py, |acks| acks.discard_many(positions())));
        }
        let taken: Vec<Entry> = self.acks.detached(py, |acks| {
            positions().filter_map(|(l, e)| acks.remove(l, e).map(|value| (l, e, value))).collect()
        });
        self.tell(py, &taken, None, true)?;
        Ok(taken.len())
    }

    /// Remove every entry up to and with a position; return how many there were. O(pages of 64 entries).
    ///
    /// `callback(ledger_id, entry_id, remaining, sticky_key_hash)` is called with each, in order.
    #[pyo3(signature = (ledger_id, entry_id, callback = None))]
    fn remove_all_up_to(
        &self,
        py: Python<'_>,
        ledger_id: Int,
        entry_id: Int,
        callback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        self.remove_up_to(py, (ledger_id.0, entry_id.0), callback.as_ref())
    }

    /// Remove every entry up to and with a position; return them, in order, as four int64 arrays.
    ///
    /// Returns ledger ids, entry ids, remaining counts and sticky-key hashes.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn take_all_up_to<'py>(
        &self,
        py: Python<'py>,
        ledger_id: Int,
        entry_id: Int,
    ) -> PyResult<Columns<'py>> {
        let taken = self.acks.detached(py, |acks| take_up_to(acks, (ledger_id.0, entry_id.0)));
        if self.remove_handler.is_some() {
            self.tell(py, &taken, None, true)?;
        }
        Ok(columns(py, &taken))
    }

    /// Call `callback(ledger_id, entry_id, remaining, sticky_key_hash)` with every entry, in order.
    ///
    /// The entries are those at the time of the call, whatever the callback changes.
    #[pyo3(signature = (callback, /))]
    fn for_each(&self, py: Python<'_>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        let entries = entries_up_to(&self.acks.locked(py), LAST);
        for (ledger_id, entry_id, PendingAck { remaining, sticky_key_hash }) in entries {
            callback.call1((ledger_id, entry_id, remaining, sticky_key_hash))?;
        }
        Ok(())
    }

    /// Remove every entry, calling `callback` as `for_each` does.
    #[pyo3(signature = (callback, /))]
    fn for_each_and_clear(&self, py: Python<'_>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        self.remove_up_to(py, LAST, Some(callback)).map(|_| ())
    }

    /// Refuse every later add, then remove every entry, calling `callback` as `for_each` does.
    #[pyo3(signature = (callback, /))]
    fn for_each_and_close(&self, py: Python<'_>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        self.acks.locked(py).close();
        self.for_each_and_clear(py, callback)
    }

    /// Remove every entry; the remove handler is told.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.remove_up_to(py, LAST, None).map(|_| ())
    }

    /// Whether `for_each_and_close` was called.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.acks.locked(py).is_closed()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.acks.locked(py).len()
    }

    fn __iter__(&self, py: Python<'_>) -> PendingAcksIterator {
        self.iterate(py, Part::Keys)
    }

    /// Return a view of the positions.
    fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "KeysView")
    }

    /// Return the values as they are now, in order of position.
    fn values(&self, py: Python<'_>) -> PendingAcksIterator {
        self.iterate(py, Part::Values)
    }

    /// Return pairs of position and value as they are now, in order of position.
    fn items(&self, py: Python<'_>) -> PendingAcksIterator {
        self.iterate(py, Part::Items)
    }

    /// Return every entry, in order, as four int64 arrays.
    fn to_arrays<'py>(&self, py: Python<'py>) -> Columns<'py> {
        let entries = self.acks.detached(py, |acks| entries_up_to(acks, LAST));
        columns(py, &entries)
    }

    /// The bytes allocated on the heap.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> usize {
        self.acks.locked(py).heap_bytes()
    }

    fn __sizeof__(&self, py: Python<'_>) -> usize {
        size_of::<Self>() + self.nbytes(py)
    }

    /// Hold the map to its invariants; `AssertionError` if one is broken.
    fn validate(&self, py: Python<'_>) -> PyResult<()> {
        convert::validate(|| self.acks.locked(py).validate())
    }

    fn __eq__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if let Ok(other) = other.cast::<Self>() {
            let theirs = other.get().acks.locked(py).clone();
            let equal = *slf.get().acks.locked(py) == theirs;
            return Ok(equal.into_pyobject(py)?.to_owned().into_any());
        }
        if other.is_instance_of::<PyDict>() {
            let ours = PyDict::new(py);
            ours.call_method1("update", (slf.get().items(py),))?;
            return Ok(ours.eq(other)?.into_pyobject(py)?.to_owned().into_any());
        }
        Ok(py.NotImplemented().into_bound(py))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let acks = self.acks.locked(py);
        let state = if acks.is_closed() { ", closed" } else { "" };
        format!("<PendingAcks {} entries{state}>", acks.len())
    }

    /// Return a map of the same entries, closed if this one is, without handlers.
    fn copy(&self, py: Python<'_>) -> Self {
        Self::of(self.acks.locked(py).clone())
    }

    fn __copy__(&self, py: Python<'_>) -> Self {
        self.copy(py)
    }

    /// A pickle has what a copy has: the entries and whether it is closed.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Pickled<'py>)> {
        let (py, acks) = (slf.py(), slf.get());
        let (ledger_ids, entry_ids, remaining, hashes) = acks.to_arrays(py);
        let arguments = (ledger_ids, entry_ids, remaining, hashes, acks.closed(py));
        Ok((slf.get_type().getattr("from_arrays")?, arguments))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.add_handler)?;
        visit.call(&self.remove_handler)
    }
}
