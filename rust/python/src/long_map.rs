//! The class `LongMap`.

use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};

use crate::arrays::{Array, Ints, Rows, array};
use crate::convert::{Int, pair, pairs, raise};
use crate::shared::SharedCell;

/// The columns of a map: keys and values.
type Columns<'py> = (Array<'py, i64>, Array<'py, i64>);

/// A hash map from int64 to int64. An entry takes 18 to 24 bytes.
///
/// Every int64 is a valid key and a valid value. Scalar methods are O(1). Removed entries leave no tombstones, so time
/// and memory depend only on the entries in the map. The order of iteration is not defined. It is the counterpart of
/// Apache Pulsar's `Long2LongOpenHashMap`.
///
/// Parameters
/// ----------
/// entries : mapping or iterable of pairs, optional
///     The initial entries.
///
/// Examples
/// --------
/// >>> from ackwell import LongMap
/// >>> ledgers = LongMap({3: 5_000})
/// >>> ledgers.put(3, 6_000), ledgers.put(4, 10)
/// (5000, None)
/// >>> ledgers[3], ledgers.get(9), ledgers.get(9, 0)
/// (6000, None, 0)
/// >>> ledgers.put_many([5, 6], [7, 8])
/// 2
/// >>> ledgers.get_many([3, 5, 9], default=-1).tolist()
/// [6000, 7, -1]
/// >>> ledgers
/// <LongMap 4 entries>
#[pyclass(frozen, mapping, module = "ackwell")]
pub(crate) struct LongMap(SharedCell<ackwell_core::LongMap>);

impl LongMap {
    fn of(map: ackwell_core::LongMap) -> Self {
        Self(SharedCell::new(map))
    }

    /// Converts the pairs of a mapping or an iterable, or returns an error for the first invalid one.
    fn pairs(entries: &Bound<'_, PyAny>) -> PyResult<Vec<(i64, i64)>> {
        pairs(entries)?.map(|item| pair(&item?, "a key and a value")).collect()
    }
}

crate::methods::mapping_methods! { LongMap, 0, "Return a map of the same entries.", {
    #[new]
    #[pyo3(signature = (entries = None, /))]
    fn new(entries: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let entries = entries.map_or(Ok(Vec::new()), Self::pairs)?;
        Ok(Self::of(entries.into_iter().collect()))
    }

    /// Build a map from two int64 arrays of equal length.
    #[staticmethod]
    fn from_arrays(py: Python<'_>, keys: Ints<'_>, values: Ints<'_>) -> PyResult<Self> {
        let map = Self::of(ackwell_core::LongMap::new());
        map.put_many(py, keys, values)?;
        Ok(map)
    }

    /// Return the value of `key`, or `default`.
    #[pyo3(signature = (key, default = None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Int,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.0.locked(py).get(key.0);
        Ok(match value {
            Some(value) => Some(value.into_pyobject(py)?.into_any()),
            None => default,
        })
    }

    /// Set the value of `key`; return its previous value, or None.
    #[pyo3(signature = (key, value, /))]
    fn put(&self, py: Python<'_>, key: Int, value: Int) -> Option<i64> {
        self.0.locked(py).insert(key.0, value.0)
    }

    /// Return the value of `key`. If `key` is missing, set its value and return None.
    #[pyo3(signature = (key, value, /))]
    fn put_if_absent(&self, py: Python<'_>, key: Int, value: Int) -> Option<i64> {
        self.0.locked(py).insert_if_absent(key.0, value.0)
    }

    /// Add `delta` to the value of `key` and return the sum. Return None if the key is missing.
    ///
    /// Raises `ValueError`, and changes nothing, if the sum is outside int64.
    #[pyo3(signature = (key, delta, /))]
    fn add_to(&self, py: Python<'_>, key: Int, delta: Int) -> PyResult<Option<i64>> {
        let mut map = self.0.locked(py);
        let Some(value) = map.get_mut(key.0) else { return Ok(None) };
        *value = value
            .checked_add(delta.0)
            .ok_or_else(|| PyValueError::new_err("integer outside int64"))?;
        Ok(Some(*value))
    }

    /// Remove `key`; return its value, or None.
    #[pyo3(signature = (key, /))]
    fn remove(&self, py: Python<'_>, key: Int) -> Option<i64> {
        self.0.locked(py).remove(key.0)
    }

    /// Remove `key` if its value is `value`; return whether it was removed.
    #[pyo3(signature = (key, value, /))]
    fn remove_if_value(&self, py: Python<'_>, key: Int, value: Int) -> bool {
        self.0.locked(py).remove_if_value(key.0, value.0)
    }

    /// Return whether `key` is in the map.
    #[pyo3(signature = (key, /))]
    fn contains(&self, py: Python<'_>, key: Int) -> bool {
        self.0.locked(py).contains(key.0)
    }

    /// Return whether a key is in the map; False for an object that is not a key.
    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> bool {
        key.extract::<Int>().is_ok_and(|key| self.contains(py, key))
    }

    fn __getitem__(&self, py: Python<'_>, key: Int) -> PyResult<i64> {
        let value = self.0.locked(py).get(key.0);
        value.ok_or_else(|| PyKeyError::new_err(key.0))
    }

    fn __setitem__(&self, py: Python<'_>, key: Int, value: Int) {
        self.put(py, key, value);
    }

    fn __delitem__(&self, py: Python<'_>, key: Int) -> PyResult<()> {
        let removed = self.remove(py, key);
        removed.map(|_| ()).ok_or_else(|| PyKeyError::new_err(key.0))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.0.locked(py).len()
    }

    /// Iterate over a copy of the keys, in any order.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let keys: Vec<i64> = self.0.locked(py).iter().map(|(key, _)| key).collect();
        keys.into_pyobject(py)?.try_iter()
    }

    /// Set the value of each key in a mapping or an iterable of pairs. Nothing changes if a pair is refused.
    #[pyo3(signature = (entries, /))]
    fn update(&self, py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        let entries = Self::pairs(entries)?;
        let mut map = self.0.locked(py);
        for (key, value) in entries {
            map.insert(key, value);
        }
        Ok(())
    }

    /// Remove `key` and return its value. If the key is missing, return `default`; `KeyError` without a `default`.
    #[pyo3(signature = (key, /, *default), text_signature = "($self, key, /, *default)")]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: Int,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop takes a key and at most one default"));
        }
        match (self.remove(py, key), default.get_item(0)) {
            (Some(value), _) => Ok(value.into_pyobject(py)?.into_any()),
            (None, Ok(default)) => Ok(default),
            (None, Err(_)) => Err(PyKeyError::new_err(key.0)),
        }
    }

    /// Remove any entry and return its key and value; `KeyError` if the map is empty.
    fn popitem(&self, py: Python<'_>) -> PyResult<(i64, i64)> {
        self.0.locked(py).pop().ok_or_else(|| PyKeyError::new_err("popitem of an empty map"))
    }

    /// Return the value of `key`. If the key is missing, set its value to `default` first.
    #[pyo3(signature = (key, default, /))]
    fn setdefault(&self, py: Python<'_>, key: Int, default: Int) -> i64 {
        self.put_if_absent(py, key, default).unwrap_or(default.0)
    }

    /// Set the values of keys, given as two int64 arrays of equal length; return how many keys were new.
    fn put_many(&self, py: Python<'_>, keys: Ints<'_>, values: Ints<'_>) -> PyResult<usize> {
        let mut new = 0;
        self.0.batch_of_any(py, &Rows::new([keys, values])?, |map, [keys, values]| {
            let before = map.len();
            for (&key, &value) in keys.iter().zip(values) {
                map.insert(key, value);
            }
            new += map.len() - before;
        })?;
        Ok(new)
    }

    /// Return the values of an int64 array of keys, with `default` for missing keys.
    #[pyo3(signature = (keys, default = Int(0)), text_signature = "($self, keys, default=0)")]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: Ints<'_>,
        default: Int,
    ) -> PyResult<Array<'py, i64>> {
        let mut values = Vec::with_capacity(keys.len());
        self.0.batch_of_any(py, &Rows::new([keys])?, |map, [keys]| {
            values.extend(keys.iter().map(|&key| map.get(key).unwrap_or(default.0)));
        })?;
        Ok(array(py, values))
    }

    /// Return a bool array: for each key in an int64 array, whether it is in the map.
    fn contains_many<'py>(&self, py: Python<'py>, keys: Ints<'_>) -> PyResult<Array<'py, bool>> {
        let mut found = Vec::with_capacity(keys.len());
        self.0.batch_of_any(py, &Rows::new([keys])?, |map, [keys]| {
            found.extend(keys.iter().map(|&key| map.contains(key)));
        })?;
        Ok(array(py, found))
    }

    /// Remove the keys in an int64 array; return how many were in the map.
    fn remove_many(&self, py: Python<'_>, keys: Ints<'_>) -> PyResult<usize> {
        let mut removed = 0;
        self.0.batch_of_any(py, &Rows::new([keys])?, |map, [keys]| {
            removed += keys.iter().filter(|&&key| map.remove(key).is_some()).count();
        })?;
        Ok(removed)
    }

    /// Return all keys and their values as two int64 arrays.
    fn to_arrays<'py>(&self, py: Python<'py>) -> Columns<'py> {
        let (keys, values): (Vec<i64>, Vec<i64>) = self.0.detached(py, |map| map.iter().unzip());
        (array(py, keys), array(py, values))
    }

    /// Remove every entry and release the memory.
    fn clear(&self, py: Python<'_>) {
        self.0.locked(py).clear();
    }

    /// Allocate memory for `additional` more entries; `MemoryError` if memory does not suffice.
    #[pyo3(signature = (additional, /))]
    fn reserve(&self, py: Python<'_>, additional: Int) -> PyResult<()> {
        // An entry is 16 bytes; more entries cannot be addressed.
        let additional = usize::try_from(additional.0).ok().filter(|&entries| entries < 1 << 40);
        let additional =
            additional.ok_or_else(|| PyValueError::new_err("expected 0 to 2**40 entries"))?;
        self.0.detached(py, |map| map.reserve(additional)).map_err(raise)
    }

    /// Release memory that the entries do not need.
    fn shrink_to_fit(&self, py: Python<'_>) {
        self.0.detached(py, ackwell_core::LongMap::shrink_to_fit);
    }

    /// The number of entries that fit into the allocated memory.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> usize {
        self.0.locked(py).capacity()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<LongMap {} entries>", self.__len__(py))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Columns<'py>)> {
        Ok((slf.get_type().getattr("from_arrays")?, slf.get().to_arrays(slf.py())))
    }
} }
