//! The class `AckSets`.

use ackwell_core::ack_sets::{AckSet, Effect};
use ackwell_core::command_ack::{BATCH_SIZE_MAX, WORDS_MAX};
use ackwell_core::error::LimitReached;
use ackwell_core::{Error, Position};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::arrays::{Array, Ints, Rows, array};
use crate::convert::{Int, Pair, entry, pairs, raise};
use crate::positions::Positions;
use crate::range_set::PositionRangeSet;
use crate::shared::SharedCell;

/// The columns of ack sets: ledger ids, entry ids, starts, words. `starts` has the index of each set's first word, and
/// ends with the number of all words.
type Columns<'py> = (Array<'py, i64>, Array<'py, i64>, Array<'py, i64>, Array<'py, i64>);

/// Batches of at most this many rows run attached to the interpreter, because detaching takes longer than the batch.
const ATTACHED_ROWS: usize = 64;

/// The ack sets of partly acknowledged batches: a mapping from `Position` to a tuple of words.
///
/// Words are signed 64-bit integers, least significant bit first, without zero words at the end; a set bit marks a
/// message that is not acknowledged. Methods accept signed and unsigned words, at most 16,384 for each set
/// (`LimitError`); only `from_arrays` and decoded states have longer sets. A batch of up to 64 messages costs 12 to 24
/// bytes. Empty and full words of larger batches cost nothing. Iteration is in order of position. It is not affected by
/// later changes.
///
/// The object records which sets changed since the last save. A removed set is not a change, because its entry is then
/// acknowledged as a whole. After `clear`, the changes are unknown.
///
/// Parameters
/// ----------
/// sets : mapping or iterable of pairs, optional
///     The initial positions and words. A later pair replaces an earlier one.
///
/// Examples
/// --------
/// >>> from ackwell import AckSets
/// >>> sets = AckSets({(3, 5): [0b1111]})
/// >>> sets.intersect(3, 5, [0b1010]), sets.intersect(3, 5, [0b1110]), sets[3, 5]
/// (2, -1, (10,))
/// >>> sets.intersect(3, 5, [0b0101]), len(sets)
/// (0, 0)
#[pyclass(frozen, mapping, module = "ackwell")]
pub(crate) struct AckSets(SharedCell<ackwell_core::AckSets>);

/// The words of an ack set, as an argument of a method.
enum Words {
    /// The word of a batch of up to 64 messages, without an allocation.
    One([i64; 1]),
    Many(Vec<i64>),
}

impl Words {
    fn as_slice(&self) -> &[i64] {
        match self {
            Self::One(word) => word,
            Self::Many(words) => words,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Words {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(tuple) = object.cast::<PyTuple>()
            && tuple.len() == 1
        {
            return Ok(Self::One([word(&tuple.get_item(0)?)?]));
        }
        let mut words = Vec::new();
        for item in object.try_iter()?.take(WORDS_MAX + 1) {
            words.push(word(&item?)?);
        }
        check_word_count(words.len())?;
        Ok(Self::Many(words))
    }
}

/// Returns a signed or unsigned 64-bit word as a signed one.
fn word(item: &Bound<'_, PyAny>) -> PyResult<i64> {
    if let Ok(Int(word)) = item.extract() {
        return Ok(word);
    }
    let number = item.py().import("operator")?.call_method1("index", (item,))?;
    match number.extract::<u64>() {
        Ok(word) => Ok(word.cast_signed()),
        Err(_) => {
            Err(PyValueError::new_err(format!("{number} in an ack set; expected a 64-bit word")))
        }
    }
}

fn check_word_count(count: usize) -> PyResult<()> {
    if count > WORDS_MAX {
        return Err(raise(Error::Limit(LimitReached::AckSetWords {
            max: WORDS_MAX,
            batch_size_max: BATCH_SIZE_MAX,
        })));
    }
    Ok(())
}

fn words_of<'py>(py: Python<'py>, set: AckSet<'_>) -> PyResult<Bound<'py, PyTuple>> {
    let words: Vec<i64> = set.words().collect();
    PyTuple::new(py, words)
}

/// Returns the set as a Python integer whose bit i is batch index i.
fn bits_of<'py>(py: Python<'py>, set: AckSet<'_>) -> PyResult<Bound<'py, PyAny>> {
    let mut words = set.words();
    let first = words.next().unwrap_or(0).cast_unsigned();
    if words.next().is_none() {
        return Ok(first.into_pyobject(py)?.into_any());
    }
    let bytes: Vec<u8> = set.words().flat_map(i64::to_le_bytes).collect();
    let int = py.get_type::<pyo3::types::PyInt>();
    int.call_method1("from_bytes", (PyBytes::new(py, &bytes), "little"))
}

impl AckSets {
    pub(crate) fn of(sets: ackwell_core::AckSets) -> Self {
        Self(SharedCell::new(sets))
    }

    /// Returns a copy of the core structure. Callers use a copy so that no call holds two locks.
    pub(crate) fn core(&self, py: Python<'_>) -> ackwell_core::AckSets {
        self.0.locked(py).clone()
    }

    /// Copies another `AckSets`, or builds sets from a mapping or an iterable of pairs. All pairs are checked before
    /// the first set is built.
    fn core_of(sets: &Bound<'_, PyAny>) -> PyResult<ackwell_core::AckSets> {
        if let Ok(sets) = sets.cast::<Self>() {
            return Ok(sets.get().core(sets.py()));
        }
        let mut all = ackwell_core::AckSets::new();
        for item in pairs(sets)? {
            let (position, words): (Pair, Words) = item?.extract()?;
            all.insert(entry(position)?, words.as_slice());
        }
        Ok(all)
    }

    fn get_with<'py, R>(
        &self,
        py: Python<'py>,
        (ledger_id, entry_id): Pair,
        read: impl FnOnce(AckSet<'_>) -> PyResult<R>,
    ) -> PyResult<Option<R>> {
        let sets = self.0.locked(py);
        sets.get(Position::new(ledger_id.0, entry_id.0)).map(read).transpose()
    }
}

crate::methods::mapping_methods! { AckSets, 0,
    "Return an independent copy. The copy has no previous save, so its changes are unknown.", {
    #[new]
    #[pyo3(signature = (sets = None, /))]
    fn new(sets: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        sets.map_or(Ok(ackwell_core::AckSets::new()), Self::core_of).map(Self::of)
    }

    /// Build the sets from int64 arrays: ledger ids, entry ids, starts, words.
    ///
    /// `starts` has the index of each set's first word, and ends with the number of all words. A set may have any
    /// number of words, because a decoded `PositionInfo` may have sets with more words than the largest batch needs.
    #[staticmethod]
    fn from_arrays(
        py: Python<'_>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
        starts: Ints<'_>,
        words: Ints<'_>,
    ) -> PyResult<Self> {
        let batch = Batch::new(ledger_ids, entry_ids, &starts, &words)?;
        let sets = Self::of(ackwell_core::AckSets::new());
        sets.0.detached(py, |sets| batch.each(|position, words| { sets.insert(position, words); }));
        Ok(sets)
    }

    /// Return the int64 arrays that `from_arrays` takes: ledger ids, entry ids, starts, words.
    fn to_arrays<'py>(&self, py: Python<'py>) -> Columns<'py> {
        let columns = self.0.detached(py, |sets| {
            let mut columns = [const { Vec::new() }; 4];
            let [ledger_ids, entry_ids, starts, words] = &mut columns;
            starts.push(0);
            for (position, set) in sets.iter() {
                ledger_ids.push(position.ledger_id);
                entry_ids.push(position.entry_id);
                words.extend(set.words());
                starts.push(words.len() as i64);
            }
            columns
        });
        columns.map(|column| array(py, column)).into()
    }

    /// Return the words of a position, or `default`.
    #[pyo3(signature = (position, default = None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        position: Pair,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.get_with(py, position, |set| words_of(py, set))?.map(Bound::into_any).or(default))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, position: Pair) -> PyResult<Bound<'py, PyTuple>> {
        let words = self.get_with(py, position, |set| words_of(py, set))?;
        words.ok_or_else(|| PyKeyError::new_err((position.0.0, position.1.0)))
    }

    /// Return an integer with a bit for each unacknowledged message of an entry; None if the entry has no set.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn unacked_bits<'py>(
        &self,
        py: Python<'py>,
        ledger_id: Int,
        entry_id: Int,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.get_with(py, (ledger_id, entry_id), |set| bits_of(py, set))
    }

    /// Return whether an entry has a set.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn contains(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> bool {
        self.0.locked(py).get(Position::new(ledger_id.0, entry_id.0)).is_some()
    }

    /// Return whether a position has a set; False for an object that is not a position.
    fn __contains__(&self, py: Python<'_>, position: &Bound<'_, PyAny>) -> bool {
        position.extract::<Pair>().is_ok_and(|position| self.contains(py, position.0, position.1))
    }

    /// Set the words of an entry; return whether this changed them.
    fn set(&self, py: Python<'_>, ledger_id: Int, entry_id: Int, words: Words) -> PyResult<bool> {
        let position = entry((ledger_id, entry_id))?;
        Ok(self.0.locked(py).insert(position, words.as_slice()))
    }

    /// Acknowledge messages of an entry: those whose bits are clear in `words`.
    ///
    /// If the entry has no set, `words` become its set. Return the number of unacknowledged messages, or -1 if nothing
    /// changed. If the number is 0, the set is removed.
    fn intersect(
        &self,
        py: Python<'_>,
        ledger_id: Int,
        entry_id: Int,
        words: Words,
    ) -> PyResult<i64> {
        let position = entry((ledger_id, entry_id))?;
        Ok(self.0.locked(py).intersect(position, words.as_slice()).code())
    }

    /// Do the same as `intersect` for each row of int64 arrays, in order; return the results as an int64 array.
    ///
    /// `starts` has the form that `from_arrays` accepts. If a row acknowledges the last unacknowledged message of an
    /// entry, later rows of this entry change nothing. If an argument is refused, no row is applied.
    fn intersect_many<'py>(
        &self,
        py: Python<'py>,
        ledger_ids: Ints<'py>,
        entry_ids: Ints<'py>,
        starts: Ints<'py>,
        words: Ints<'py>,
    ) -> PyResult<Array<'py, i64>> {
        let Batch { ledger_ids, entry_ids, starts, words } =
            Batch::new(ledger_ids, entry_ids, &starts, &words)?;
        let counts = starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
        check_word_count(counts.max().unwrap_or(0))?;
        let run = |sets: &mut ackwell_core::AckSets| {
            sets.intersect_many(&ledger_ids, &entry_ids, &starts[1..], &words)
        };
        let effects = match ledger_ids.len() <= ATTACHED_ROWS {
            true => run(&mut self.0.locked(py)),
            false => self.0.detached(py, run),
        };
        Ok(array(py, effects.map_err(raise)?.into_iter().map(Effect::code).collect()))
    }

    /// Replace the set of an entry by `words` if they acknowledge more messages from the start of the batch.
    ///
    /// The first unacknowledged batch index in `words` must be higher than the one in the present set. If the entry has
    /// no set, `words` become its set. Returns whether the set changed. Brokers before 5.0 apply cumulative
    /// acknowledgments in this way.
    fn replace_if_later(
        &self,
        py: Python<'_>,
        ledger_id: Int,
        entry_id: Int,
        words: Words,
    ) -> PyResult<bool> {
        let position = entry((ledger_id, entry_id))?;
        Ok(self.0.locked(py).replace_if_later(position, words.as_slice()))
    }

    /// Remove the set of an entry; return whether it had one.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn remove(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> bool {
        self.0.locked(py).remove(Position::new(ledger_id.0, entry_id.0))
    }

    /// Remove the sets of entries, given as int64 arrays of ledger and entry ids; return the number of removed sets.
    fn remove_many(
        &self,
        py: Python<'_>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
    ) -> PyResult<usize> {
        let mut removed = 0;
        self.0.batch_of_any(py, &Rows::new([ledger_ids, entry_ids])?, |sets, [ledgers, entries]| {
            for (ledger_id, entry_id) in ledgers.iter().zip(entries) {
                removed += usize::from(sets.remove(Position::new(*ledger_id, *entry_id)));
            }
        })?;
        Ok(removed)
    }

    /// Remove the sets of entries at or before a position; return the number of removed sets.
    #[pyo3(signature = (ledger_id, entry_id, /))]
    fn remove_up_to(&self, py: Python<'_>, ledger_id: Int, entry_id: Int) -> usize {
        self.0.locked(py).remove_up_to(Position::new(ledger_id.0, entry_id.0))
    }

    /// Remove the sets of entries after the lower bound up to the upper (inclusive); return how many were removed.
    fn remove_range(
        &self,
        py: Python<'_>,
        ledger_id: Int,
        lower_entry_exclusive: Int,
        upper_entry_inclusive: Int,
    ) -> usize {
        let (lower, upper) = (lower_entry_exclusive.0, upper_entry_inclusive.0);
        self.0.locked(py).remove_range(ledger_id.0, lower, upper)
    }

    /// Remove the sets of the entries in `acked`; return the number of removed sets. O(sets).
    #[pyo3(signature = (acked, /))]
    fn remove_ranges(&self, py: Python<'_>, acked: &Bound<'_, PositionRangeSet>) -> usize {
        // A copy, so that no call holds two locks.
        let acked = acked.get().0.locked(py).clone();
        self.0.detached(py, |sets| sets.remove_ranges(&acked))
    }

    /// Remove the sets without unacknowledged messages; return the number of removed sets. O(sets).
    fn remove_empty(&self, py: Python<'_>) -> usize {
        self.0.detached(py, |sets| sets.remove_empty())
    }

    /// Set the words of the entries in a mapping or an iterable of pairs.
    #[pyo3(signature = (sets, /))]
    fn update(&self, py: Python<'_>, sets: &Bound<'_, PyAny>) -> PyResult<()> {
        let newer = Self::core_of(sets)?;
        self.0.detached(py, |sets| sets.update(&newer));
        Ok(())
    }

    /// Return the sets that are missing from `older` or have other words there. O(sets).
    #[pyo3(signature = (older, /))]
    fn changed_from(&self, py: Python<'_>, older: &Bound<'_, Self>) -> Self {
        let older = older.get().core(py);
        Self::of(self.0.detached(py, |sets| sets.changed_from(&older)))
    }

    /// Remove every set. The changes since the last save are then unknown.
    fn clear(&self, py: Python<'_>) {
        self.0.locked(py).clear();
    }

    /// Return the ids of the ledgers with sets, in order.
    fn ledger_ids(&self, py: Python<'_>) -> Vec<i64> {
        self.0.locked(py).ledger_ids().collect()
    }

    /// Return the number of words of the longest set. O(sets).
    fn longest(&self, py: Python<'_>) -> usize {
        self.0.locked(py).longest()
    }

    /// Begin a save; return the sets that changed since the previous save. O(changes).
    ///
    /// Return None if the changes are unknown, or if there are more than 65,536.
    fn begin_save(&self, py: Python<'_>) -> Option<Self> {
        self.0.locked(py).begin_save().map(Self::of)
    }

    /// End a successful save. Changes from before `begin_save` then count as saved.
    fn end_save(&self, py: Python<'_>) {
        self.0.locked(py).end_save();
    }

    /// Whether a set changed since the last save began.
    #[getter]
    fn moved(&self, py: Python<'_>) -> bool {
        self.0.locked(py).is_moved()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.0.locked(py).len()
    }

    /// Iterate in order over a copy of the positions.
    fn __iter__(&self, py: Python<'_>) -> Positions {
        Positions::of(self.0.locked(py).iter().map(|(position, _)| position).collect())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<AckSets of {} entries>", self.__len__(py))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Columns<'py>)> {
        let restore = slf.get_type().getattr("from_arrays")?;
        Ok((restore, slf.get().to_arrays(slf.py())))
    }
} }

/// The copied and checked arguments of a batch call.
struct Batch {
    ledger_ids: Vec<i64>,
    entry_ids: Vec<i64>,
    starts: Vec<i64>,
    words: Vec<i64>,
}

impl Batch {
    fn new(
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
        starts: &Ints<'_>,
        words: &Ints<'_>,
    ) -> PyResult<Self> {
        let [ledger_ids, entry_ids] = Rows::new([ledger_ids, entry_ids])?.to_vecs();
        let (starts, words) = (starts.to_vec(), words.to_vec());
        let is_valid = starts.len() == ledger_ids.len() + 1
            && starts.is_sorted()
            && (starts.first(), starts.last()) == (Some(&0), Some(&(words.len() as i64)));
        if !is_valid {
            return Err(PyValueError::new_err(
                "starts: expected the start of each set's words and the number of all words",
            ));
        }
        for (ledger_id, entry_id) in ledger_ids.iter().zip(&entry_ids) {
            Position::entry(*ledger_id, *entry_id).map_err(raise)?;
        }
        Ok(Self { ledger_ids, entry_ids, starts, words })
    }

    fn each(&self, mut visit: impl FnMut(Position, &[i64])) {
        let positions = self.ledger_ids.iter().zip(&self.entry_ids);
        for ((ledger_id, entry_id), ends) in positions.zip(self.starts.windows(2)) {
            let words = &self.words[ends[0] as usize..ends[1] as usize];
            visit(Position::new(*ledger_id, *entry_id), words);
        }
    }
}
