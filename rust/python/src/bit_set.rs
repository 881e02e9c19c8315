//! The class `BitSet`.

use ackwell_core::bit_set::LIMIT_DEFAULT;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Array, Check, Ints, Rows, array};
use crate::convert::{Int, raise};
use crate::shared::SharedCell;

/// The arguments for a pickle: the words and the limit.
type PickleState<'py> = (Array<'py, i64>, usize);

/// A set of bit indexes from 0 up to a limit, in 64-bit words, as Java's `BitSet`.
///
/// Pulsar uses the same words in an `ack_set` and in the long-array form of a cursor. A bit below 0 raises
/// `ValueError`. Setting a bit at or above the limit raises `LimitError`. If memory does not suffice, `MemoryError` is
/// raised. A call that raises changes nothing.
///
/// Parameters
/// ----------
/// bits : iterable of int, optional
///     The bits that are set initially.
/// limit : int, optional
///     The first index that is too large; Java's 2**31 unless given.
///
/// Examples
/// --------
/// >>> from ackwell import BitSet
/// >>> pending = BitSet([1, 2, 70])
/// >>> pending.set(5), pending.clear(2), pending.clear(2)
/// (True, True, False)
/// >>> list(pending), pending.next_set(6), pending.next_clear(5)
/// ([1, 5, 70], 70, 6)
/// >>> pending.to_words().tolist()
/// [34, 64]
/// >>> pending.clear_prefix(5).tolist(), list(pending)
/// ([1, 5], [70])
#[pyclass(frozen, module = "ackwell")]
pub(crate) struct BitSet(SharedCell<ackwell_core::BitSet>);

/// Converts an argument to a bit index of at least 0. The core checks the upper limit.
fn index(bit: Int) -> PyResult<usize> {
    usize::try_from(bit.0)
        .map_err(|_| PyValueError::new_err(format!("bit {}: bits are at least 0", bit.0)))
}

impl BitSet {
    fn of(set: ackwell_core::BitSet) -> Self {
        Self(SharedCell::new(set))
    }

    /// Returns a copy of another set's bits, so that no call holds two locks.
    fn bits_of(py: Python<'_>, other: &Bound<'_, Self>) -> ackwell_core::BitSet {
        other.get().0.locked(py).clone()
    }
}

crate::methods::structure_methods! { BitSet, 0, attached, "Return a set of the same bits and limit.", {
    #[new]
    #[pyo3(
        signature = (bits = None, /, *, limit = Int(LIMIT_DEFAULT as i64)),
        text_signature = "(bits=None, /, *, limit=2147483648)"
    )]
    fn new(bits: Option<&Bound<'_, PyAny>>, limit: Int) -> PyResult<Self> {
        let mut set = ackwell_core::BitSet::with_limit(index(limit)?);
        if let Some(bits) = bits {
            for bit in bits.try_iter()? {
                set.set(index(bit?.extract()?)?).map_err(raise)?;
            }
        }
        Ok(Self::of(set))
    }

    /// Build a set from signed 64-bit words in the order of Java's `BitSet.valueOf(long[])`.
    #[staticmethod]
    #[pyo3(
        signature = (words, limit = Int(LIMIT_DEFAULT as i64)),
        text_signature = "(words, limit=2147483648)"
    )]
    fn from_words(words: Ints<'_>, limit: Int) -> PyResult<Self> {
        let words = words.to_vec().into_iter().map(i64::cast_unsigned).collect();
        ackwell_core::BitSet::from_words(words, index(limit)?).map(Self::of).map_err(raise)
    }

    /// Return the words as an int64 array without zero words at the end, like Java's `BitSet.toLongArray`.
    fn to_words<'py>(&self, py: Python<'py>) -> Array<'py, i64> {
        let set = self.0.locked(py);
        let words: Vec<i64> = set.words().iter().map(|word| word.cast_signed()).collect();
        drop(set);
        array(py, words)
    }

    /// The first index that is too large.
    #[getter]
    fn limit(&self, py: Python<'_>) -> usize {
        self.0.locked(py).limit()
    }

    /// Set a bit; return whether it was clear.
    #[pyo3(signature = (bit, /))]
    fn set(&self, py: Python<'_>, bit: Int) -> PyResult<bool> {
        let bit = index(bit)?;
        self.0.locked(py).set(bit).map_err(raise)
    }

    /// Clear a bit; return whether it was set.
    #[pyo3(signature = (bit, /))]
    fn clear(&self, py: Python<'_>, bit: Int) -> PyResult<bool> {
        let bit = index(bit)?;
        Ok(self.0.locked(py).clear(bit))
    }

    /// Return whether a bit is set.
    #[pyo3(signature = (bit, /))]
    fn get(&self, py: Python<'_>, bit: Int) -> PyResult<bool> {
        let bit = index(bit)?;
        Ok(self.0.locked(py).get(bit))
    }

    fn __contains__(&self, py: Python<'_>, bit: Int) -> bool {
        index(bit).is_ok_and(|bit| self.0.locked(py).get(bit))
    }

    /// Set the bits in an int64 array; return how many of them were clear. Nothing changes if a bit is refused.
    fn set_many(&self, py: Python<'_>, bits: Ints<'_>) -> PyResult<usize> {
        let mut new = 0;
        let refuse = |set: &ackwell_core::BitSet, [bits]: [&[i64]; 1]| set.check_many(bits);
        let check = Check { columns: [0], passes_naturals: false, refuse };
        self.0.batch(py, &Rows::new([bits])?, Some(check), |set, [bits]| {
            new += set.set_many(bits)?;
            Ok(())
        })?;
        Ok(new)
    }

    /// Return a bool array: for each index in an int64 array, whether the bit is set.
    fn get_many<'py>(&self, py: Python<'py>, bits: Ints<'_>) -> PyResult<Array<'py, bool>> {
        let mut found = Vec::with_capacity(bits.len());
        let refuse = |_: &ackwell_core::BitSet, [bits]: [&[i64]; 1]| {
            ackwell_core::BitSet::check_natural(bits)
        };
        let check = Check { columns: [0], passes_naturals: true, refuse };
        self.0.batch(py, &Rows::new([bits])?, Some(check), |set, [bits]| {
            ackwell_core::BitSet::check_natural(bits)?;
            found.extend(bits.iter().map(|&bit| set.get(bit as usize)));
            Ok(())
        })?;
        Ok(array(py, found))
    }

    /// Set every bit from `start` up to `end`, exclusive.
    #[pyo3(signature = (start, end, /))]
    fn set_range(&self, py: Python<'_>, start: Int, end: Int) -> PyResult<()> {
        let (start, end) = (index(start)?, index(end)?);
        self.0.locked(py).set_range(start, end).map_err(raise)
    }

    /// Clear every bit from `start` up to `end`, exclusive.
    #[pyo3(signature = (start, end, /))]
    fn clear_range(&self, py: Python<'_>, start: Int, end: Int) -> PyResult<()> {
        let (start, end) = (index(start)?, index(end)?);
        self.0.locked(py).clear_range(start, end).map_err(raise)
    }

    /// Clear every bit up to and including `bit`; return the bits that were set, in order, as an int64 array.
    #[pyo3(signature = (bit, /))]
    fn clear_prefix<'py>(&self, py: Python<'py>, bit: Int) -> PyResult<Array<'py, i64>> {
        let bit = index(bit)?;
        let removed = self.0.locked(py).clear_prefix(bit).map_err(raise)?;
        Ok(array(py, removed.into_iter().map(|bit| bit as i64).collect()))
    }

    /// Clear every bit and release the memory.
    fn clear_all(&self, py: Python<'_>) {
        self.0.locked(py).clear_all();
    }

    /// Return the first set bit at or after `bit`, or None.
    #[pyo3(signature = (bit, /))]
    fn next_set(&self, py: Python<'_>, bit: Int) -> PyResult<Option<usize>> {
        let bit = index(bit)?;
        Ok(self.0.locked(py).next_set(bit))
    }

    /// Return the first clear bit at or after `bit`.
    #[pyo3(signature = (bit, /))]
    fn next_clear(&self, py: Python<'_>, bit: Int) -> PyResult<usize> {
        let bit = index(bit)?;
        Ok(self.0.locked(py).next_clear(bit))
    }

    /// Return the last set bit at or before `bit`, or None.
    #[pyo3(signature = (bit, /))]
    fn previous_set(&self, py: Python<'_>, bit: Int) -> PyResult<Option<usize>> {
        let bit = index(bit)?;
        Ok(self.0.locked(py).previous_set(bit))
    }

    /// Return the last clear bit at or before `bit`, or None.
    #[pyo3(signature = (bit, /))]
    fn previous_clear(&self, py: Python<'_>, bit: Int) -> PyResult<Option<usize>> {
        let bit = index(bit)?;
        Ok(self.0.locked(py).previous_clear(bit))
    }

    /// Return the first set bit, or None.
    fn first(&self, py: Python<'_>) -> Option<usize> {
        self.0.locked(py).first()
    }

    /// Return the last set bit, or None.
    fn last(&self, py: Python<'_>) -> Option<usize> {
        self.0.locked(py).last()
    }

    /// The number of set bits; O(words).
    #[getter]
    fn cardinality(&self, py: Python<'_>) -> usize {
        self.0.locked(py).cardinality()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.cardinality(py)
    }

    fn __bool__(&self, py: Python<'_>) -> bool {
        !self.0.locked(py).is_empty()
    }

    /// Iterate in order over a copy of the set bits.
    fn __iter__(&self, py: Python<'_>) -> BitSetIterator {
        BitSetIterator(SharedCell::new((self.0.locked(py).clone(), 0)))
    }

    fn __and__(&self, py: Python<'_>, other: &Bound<'_, Self>) -> Self {
        let copy = self.copy(py);
        copy.__iand__(py, other);
        copy
    }

    fn __or__(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<Self> {
        let copy = self.copy(py);
        copy.__ior__(py, other)?;
        Ok(copy)
    }

    fn __sub__(&self, py: Python<'_>, other: &Bound<'_, Self>) -> Self {
        let copy = self.copy(py);
        copy.__isub__(py, other);
        copy
    }

    fn __iand__(&self, py: Python<'_>, other: &Bound<'_, Self>) {
        let other = Self::bits_of(py, other);
        self.0.locked(py).and(&other);
    }

    fn __ior__(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<()> {
        let other = Self::bits_of(py, other);
        self.0.locked(py).or(&other).map_err(raise)
    }

    fn __isub__(&self, py: Python<'_>, other: &Bound<'_, Self>) {
        let other = Self::bits_of(py, other);
        self.0.locked(py).and_not(&other);
    }

    /// Release memory that the bits do not need.
    fn shrink_to_fit(&self, py: Python<'_>) {
        self.0.locked(py).shrink_to_fit();
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, Self>) -> bool {
        let other = Self::bits_of(py, other);
        *self.0.locked(py) == other
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<BitSet {} bits>", self.cardinality(py))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, PickleState<'py>)> {
        let restore = slf.get_type().getattr("from_words")?;
        let set = slf.get();
        Ok((restore, (set.to_words(slf.py()), set.limit(slf.py()))))
    }
} }

/// An iterator over a copy of a set's bits, with the next bit to check.
#[pyclass(frozen, module = "ackwell")]
struct BitSetIterator(SharedCell<(ackwell_core::BitSet, usize)>);

#[pymethods]
impl BitSetIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Option<usize> {
        let mut state = self.0.locked(py);
        let bit = state.0.next_set(state.1)?;
        state.1 = bit + 1;
        Some(bit)
    }
}
