//! `ackwell.Ledgers`: the class of `ackwell_core::ledgers`.

use ackwell_core::{self as core, LedgerState};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};

use crate::arrays::{Ints, Rows};
use crate::convert::{Int, Pair, bound, pair, position, raise};
use crate::shared::SharedCell;

/// The ledger directory of one topic: the entries of each ledger, the open ledger, and the trimmed ledgers.
///
/// A cursor uses it to move from ledger to ledger, as Pulsar's `ManagedLedgerImpl` does, and to count the entries
/// between two positions. Only the greatest ledger can be open.
///
/// Parameters
/// ----------
/// entries : mapping or iterable of (int, int)
///     Ledger id to number of entries, in any order.
/// open : bool
///     Whether the greatest ledger is still written to.
/// trimmed_before : int
///     Every ledger with a lower id is trimmed: it is deleted with its entries, and its id is never used again.
///
/// Raises
/// ------
/// ValueError
///     For a negative number, and for a ledger id that is given twice.
/// ProtocolError
///     For a ledger below `trimmed_before`.
/// LimitError
///     For more than 2**63 - 1 entries in all.
///
/// Notes
/// -----
/// With n ledgers, adding or growing the greatest ledger takes O(1), adding or growing another ledger O(sqrt n), and
/// a query O(log n). A ledger takes 16 to 32 bytes.
///
/// Examples
/// --------
/// >>> from ackwell import Ledgers
/// >>> ledgers = Ledgers({2: 16, 3: 0, 5: 10})
/// >>> ledgers.next_valid(2, 15)
/// Position(ledger_id=5, entry_id=0)
/// >>> ledgers.entries_between((2, 13), (5, 1))
/// 4
/// >>> ledgers
/// Ledgers({2: 16, 3: 0, 5: 10}, open=True, trimmed_before=0)
#[pyclass(frozen, module = "ackwell")]
pub(crate) struct Ledgers(SharedCell<core::Ledgers>);

impl Ledgers {
    pub(crate) fn of(ledgers: core::Ledgers) -> Self {
        Self(SharedCell::new(ledgers))
    }
}

/// The positional and keyword arguments of `__new__` that create an equal directory.
type NewArguments<'py> = ((Vec<(i64, i64)>,), Bound<'py, PyDict>);

crate::methods::structure_methods! { Ledgers, 0, attached, "Return an independent copy.", {
    #[new]
    #[pyo3(
        signature = (entries=None, *, open=true, trimmed_before=Int(0)),
        text_signature = "(entries=None, *, open=True, trimmed_before=0)"
    )]
    fn new(entries: Option<&Bound<'_, PyAny>>, open: bool, trimmed_before: Int) -> PyResult<Self> {
        let mut pairs = Vec::new();
        if let Some(entries) = entries {
            let items = match entries.cast::<PyMapping>() {
                Ok(mapping) => mapping.items()?.into_any(),
                Err(_) => entries.clone(),
            };
            for item in items.try_iter()? {
                pairs.push(pair(&item?, "a ledger id and a number of entries")?);
            }
        }
        let ledgers = core::Ledgers::from_entries(pairs, open, trimmed_before.0).map_err(raise)?;
        Ok(Self(SharedCell::new(ledgers)))
    }

    /// Add a ledger with a greater id than all others and open it. The previous open ledger is closed.
    ///
    /// Raises `ProtocolError` if the id is not greater than the ids of all other ledgers, including trimmed ledgers.
    /// O(1).
    ///
    /// >>> ledgers = Ledgers({2: 16})
    /// >>> ledgers.add(5)
    /// >>> ledgers.state(2), ledgers.state(5)
    /// ('closed', 'open')
    #[pyo3(
        signature = (ledger_id, entries=Int(0)),
        text_signature = "($self, ledger_id, entries=0)"
    )]
    fn add(&self, py: Python<'_>, ledger_id: Int, entries: Int) -> PyResult<()> {
        self.0.locked(py).add(ledger_id.0, entries.0).map_err(raise)
    }

    /// Set the number of entries of a ledger, which may only grow. A closed ledger stays closed.
    ///
    /// An unknown ledger is added. If it has the greatest id, it is open and the previous open ledger is closed;
    /// otherwise it is closed. Raises `ProtocolError` for a trimmed ledger, and for fewer entries than the ledger has.
    /// With n ledgers, O(1) for the greatest ledger, and O(sqrt n) for another ledger.
    fn grow(&self, py: Python<'_>, ledger_id: Int, entries: Int) -> PyResult<()> {
        self.0.locked(py).grow(ledger_id.0, entries.0).map_err(raise)
    }

    /// Close a ledger. Only a new ledger can be open afterwards. Raises `KeyError` if the ledger is unknown or trimmed.
    fn close(&self, py: Python<'_>, ledger_id: Int) -> PyResult<()> {
        match self.0.locked(py).close(ledger_id.0) {
            true => Ok(()),
            false => Err(PyKeyError::new_err(ledger_id.0)),
        }
    }

    /// Remove every ledger below `ledger_id`; return the number of removed ledgers. Their state is then "trimmed".
    ///
    /// Raises `ProtocolError` if the open ledger is below `ledger_id`, because a broker never trims the ledger to which
    /// it writes.
    ///
    /// >>> ledgers = Ledgers({2: 16, 3: 0, 5: 10})
    /// >>> ledgers.trim_before(5)
    /// 2
    /// >>> ledgers.state(2)
    /// 'trimmed'
    fn trim_before(&self, py: Python<'_>, ledger_id: Int) -> PyResult<usize> {
        self.0.locked(py).trim_before(ledger_id.0).map_err(raise)
    }

    /// Return the number of entries of a ledger; `KeyError` if it is unknown or trimmed. O(log n).
    fn entries(&self, py: Python<'_>, ledger_id: Int) -> PyResult<i64> {
        self.0.locked(py).entries(ledger_id.0).ok_or_else(|| PyKeyError::new_err(ledger_id.0))
    }

    /// Return whether a ledger is "open", "closed" or "trimmed"; `KeyError` if it is unknown.
    ///
    /// Every id below `trimmed_before` counts as a trimmed ledger, because ledger ids only grow.
    fn state(&self, py: Python<'_>, ledger_id: Int) -> PyResult<&'static str> {
        match self.0.locked(py).state(ledger_id.0) {
            Some(LedgerState::Open) => Ok("open"),
            Some(LedgerState::Closed) => Ok("closed"),
            Some(LedgerState::Trimmed) => Ok("trimmed"),
            None => Err(PyKeyError::new_err(ledger_id.0)),
        }
    }

    /// Return the first existing entry after a position, in the same ledger or a later one. O(log n).
    ///
    /// If there is none, the result is the position of the next entry to be written: at the end of the open ledger or,
    /// if no ledger is open, after the last existing entry. The given position need not exist: any ledger id >= 0 and
    /// entry id >= -1 are valid, and a position in an unknown or trimmed ledger is compared by its ids. Raises
    /// `ProtocolError` if there are no ledgers. (Pulsar: `getNextValidPosition`.)
    ///
    /// >>> Ledgers({2: 16, 3: 0, 5: 10}).next_valid(5, 9)
    /// Position(ledger_id=5, entry_id=10)
    fn next_valid<'py>(
        &self,
        py: Python<'py>,
        ledger_id: Int,
        entry_id: Int,
    ) -> PyResult<Bound<'py, PyAny>> {
        let next = self.0.locked(py).next_valid(bound((ledger_id, entry_id))?);
        position(py, next.ok_or_else(no_ledger)?)
    }

    /// Return the last existing entry before a position, in the same ledger or an earlier one. O(log n).
    ///
    /// If there is none, the result is entry -1 of the first ledger, or entry -1 of the given ledger if this ledger is
    /// before the first ledger. The given position need not exist, as in `next_valid`. (Pulsar: `getPreviousPosition`.)
    ///
    /// >>> Ledgers({2: 16, 3: 0, 5: 10}).previous_valid(5, 0)
    /// Position(ledger_id=2, entry_id=15)
    fn previous_valid<'py>(
        &self,
        py: Python<'py>,
        ledger_id: Int,
        entry_id: Int,
    ) -> PyResult<Bound<'py, PyAny>> {
        let previous = self.0.locked(py).previous_valid(bound((ledger_id, entry_id))?);
        position(py, previous)
    }

    /// Count the entries that exist in `(lower_exclusive, upper_inclusive]`. O(log n).
    ///
    /// The bounds need not exist, as in `next_valid`. Entries of unknown and trimmed ledgers are not counted. Returns 0
    /// if the lower bound is not before the upper bound.
    fn entries_between(
        &self,
        py: Python<'_>,
        lower_exclusive: Pair,
        upper_inclusive: Pair,
    ) -> PyResult<i64> {
        let (lower, upper) = (bound(lower_exclusive)?, bound(upper_inclusive)?);
        Ok(self.0.locked(py).entries_between(lower, upper))
    }

    /// Return whether an entry exists at a position. O(log n).
    fn contains(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> bool {
        self.0.locked(py).contains(core::Position::new(ledger_id.0, entry_id.0))
    }

    /// Return whether every position is an existing entry, or is at or before `passed`.
    ///
    /// The positions are two int64 arrays: ledger ids and entry ids. A negative id gives False. `passed` need not
    /// exist.
    ///
    /// >>> ledgers = Ledgers({2: 16, 5: 10}, trimmed_before=2)
    /// >>> ledgers.contains_all([1, 5], [40, 9], (1, 50)), ledgers.contains_all([5], [10], (1, 50))
    /// (True, False)
    fn contains_all(
        &self,
        py: Python<'_>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
        passed: Pair,
    ) -> PyResult<bool> {
        let (rows, passed) = (Rows::new([ledger_ids, entry_ids])?, bound(passed)?);
        let mut all = true;
        self.0.batch_of_any(py, &rows, |ledgers, [ledger_ids, entry_ids]| {
            all = all && ledgers.contains_all(ledger_ids, entry_ids, passed);
        })?;
        Ok(all)
    }

    /// The position before all entries: entry -1 of the first ledger. None if there are no ledgers.
    #[getter]
    fn first_position<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let first = self.0.locked(py).first_position();
        first.map(|first| position(py, first)).transpose()
    }

    /// The position of the last existing entry; `first_position` if there are no entries.
    #[getter]
    fn last_position<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let last = self.0.locked(py).last_position();
        last.map(|last| position(py, last)).transpose()
    }

    /// The ledger id below which every ledger is trimmed.
    #[getter]
    fn trimmed_before(&self, py: Python<'_>) -> i64 {
        self.0.locked(py).trimmed_before()
    }

    /// The number of existing entries in all ledgers.
    #[getter]
    fn total_entries(&self, py: Python<'_>) -> i64 {
        self.0.locked(py).total()
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<NewArguments<'py>> {
        let ledgers = self.0.locked(py);
        let options = PyDict::new(py);
        options.set_item("open", ledgers.is_open())?;
        options.set_item("trimmed_before", ledgers.trimmed_before())?;
        Ok(((ledgers.iter().collect(),), options))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.0.locked(py).len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pairs: Vec<_> = self.0.locked(py).iter().collect();
        Ok(pairs.into_pyobject(py)?.try_iter()?.into_any())
    }

    fn __contains__(&self, py: Python<'_>, position: Pair) -> bool {
        self.contains(py, position.0, position.1)
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> bool {
        // Holds one lock at a time. Otherwise, two threads that compare the same directories in opposite orders would
        // wait for each other.
        let theirs = other.0.locked(py).clone();
        *self.0.locked(py) == theirs
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        const SHOWN: usize = 8;
        let ledgers = self.0.locked(py);
        let mut shown: Vec<_> =
            ledgers.iter().take(SHOWN).map(|(id, entries)| format!("{id}: {entries}")).collect();
        if ledgers.len() > SHOWN {
            shown.push(format!("... {} ledgers", ledgers.len()));
        }
        format!(
            "Ledgers({{{}}}, open={}, trimmed_before={})",
            shown.join(", "),
            if ledgers.is_open() { "True" } else { "False" },
            ledgers.trimmed_before()
        )
    }
} }

fn no_ledger() -> PyErr {
    crate::convert::ProtocolError::new_err("no ledger is known; add one first")
}
