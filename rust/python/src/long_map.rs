//! The class `LongMap`.

use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator};

use crate::convert::{self, Int, Ints, same_length};
use crate::shared::Shared;

type Array<'py, T> = Bound<'py, PyArray1<T>>;
/// Keys and values.
type Columns<'py> = (Array<'py, i64>, Array<'py, i64>);

/// A hash map from int64 to int64: a mapping that costs 18 to 24 bytes an entry, without objects.
///
/// Every key and value of int64 is legal. Scalar methods are O(1); removing leaves nothing behind, so time and
/// bytes follow the content alone. Iteration has no promised order. It is the counterpart of Apache
/// Pulsar's `Long2LongOpenHashMap`.
///
/// Parameters
/// ----------
/// entries : mapping or iterable of pairs, optional
///     What it holds at first.
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
pub(crate) struct LongMap(Shared<ackwell_core::LongMap>);

impl LongMap {
    fn of(map: ackwell_core::LongMap) -> Self {
        Self(Shared::new(map))
    }

    fn entries(&self, py: Python<'_>) -> Vec<(i64, i64)> {
        self.0.locked(py).iter().collect()
    }
}

#[pymethods]
impl LongMap {
    #[new]
    #[pyo3(signature = (entries = None, /))]
    fn new(entries: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let mut map = ackwell_core::LongMap::new();
        if let Some(entries) = entries {
            let pairs = match entries.getattr("items") {
                Ok(items) => items.call0()?,
                Err(_) => entries.clone(),
            };
            for pair in pairs.try_iter()? {
                let (key, value): (Int, Int) = pair?.extract()?;
                map.insert(key.0, value.0);
            }
        }
        Ok(Self::of(map))
    }

    /// Build a map of two int64 arrays of one length.
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

    /// Set the value of `key`; return the one before, or None.
    #[pyo3(signature = (key, value, /))]
    fn put(&self, py: Python<'_>, key: Int, value: Int) -> Option<i64> {
        self.0.locked(py).insert(key.0, value.0)
    }

    /// Set the value of `key` unless it has one, which is returned; None if it was set.
    #[pyo3(signature = (key, value, /))]
    fn put_if_absent(&self, py: Python<'_>, key: Int, value: Int) -> Option<i64> {
        self.0.locked(py).insert_if_absent(key.0, value.0)
    }

    /// Add `delta` to the value of `key` and return the sum; None, and nothing changes, if there is none.
    ///
    /// `ValueError`, and nothing changes, if the sum is outside int64.
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

    /// Remove `key` if its value is `value`; return whether it was.
    #[pyo3(signature = (key, value, /))]
    fn remove_if_value(&self, py: Python<'_>, key: Int, value: Int) -> bool {
        self.0.locked(py).remove_if_value(key.0, value.0)
    }

    /// Return whether `key` is here.
    #[pyo3(signature = (key, /))]
    fn contains(&self, py: Python<'_>, key: Int) -> bool {
        self.0.locked(py).contains(key.0)
    }

    fn __contains__(&self, py: Python<'_>, key: Int) -> bool {
        self.contains(py, key)
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

    /// Iterate the keys as they are now, in no promised order.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let keys: Vec<i64> = self.entries(py).into_iter().map(|(key, _)| key).collect();
        keys.into_pyobject(py)?.try_iter()
    }

    /// Return the keys.
    fn keys(&self, py: Python<'_>) -> Vec<i64> {
        self.entries(py).into_iter().map(|(key, _)| key).collect()
    }

    /// Return the values, in the order of `keys`.
    fn values(&self, py: Python<'_>) -> Vec<i64> {
        self.entries(py).into_iter().map(|(_, value)| value).collect()
    }

    /// Return the entries as pairs.
    fn items(&self, py: Python<'_>) -> Vec<(i64, i64)> {
        self.entries(py)
    }

    /// Set the values of keys given as int64 arrays of one length; return how many keys were new.
    ///
    /// The arrays are read without the interpreter: no other thread may write to them meanwhile.
    fn put_many(&self, py: Python<'_>, keys: Ints<'_>, values: Ints<'_>) -> PyResult<usize> {
        let (keys, values) = (keys.slice(), values.slice());
        same_length(&[keys.len(), values.len()])?;
        Ok(self.0.detached(py, |map| {
            let before = map.len();
            for (&key, &value) in keys.iter().zip(values.iter()) {
                map.insert(key, value);
            }
            map.len() - before
        }))
    }

    /// Return the values of an int64 array of keys, with `default` where there is none.
    #[pyo3(signature = (keys, default = Int(0)), text_signature = "($self, keys, default=0)")]
    fn get_many<'py>(&self, py: Python<'py>, keys: Ints<'_>, default: Int) -> Array<'py, i64> {
        let keys = keys.slice();
        let values: Vec<i64> = self.0.detached(py, |map| {
            keys.iter().map(|&key| map.get(key).unwrap_or(default.0)).collect()
        });
        values.into_pyarray(py)
    }

    /// Return, for each key of an int64 array, whether it is here.
    fn contains_many<'py>(&self, py: Python<'py>, keys: Ints<'_>) -> Array<'py, bool> {
        let keys = keys.slice();
        let found: Vec<bool> =
            self.0.detached(py, |map| keys.iter().map(|&key| map.contains(key)).collect());
        found.into_pyarray(py)
    }

    /// Remove the keys of an int64 array; return how many were here.
    fn remove_many(&self, py: Python<'_>, keys: Ints<'_>) -> usize {
        let keys = keys.slice();
        self.0.detached(py, |map| keys.iter().filter(|&&key| map.remove(key).is_some()).count())
    }

    /// Return all keys and their values as two int64 arrays.
    fn to_arrays<'py>(&self, py: Python<'py>) -> Columns<'py> {
        let (keys, values): (Vec<i64>, Vec<i64>) = self.0.detached(py, |map| map.iter().unzip());
        (keys.into_pyarray(py), values.into_pyarray(py))
    }

    /// Remove every entry and give the memory back.
    fn clear(&self, py: Python<'_>) {
        self.0.locked(py).clear();
    }

    /// Make room for `additional` more entries at once.
    #[pyo3(signature = (additional, /))]
    fn reserve(&self, py: Python<'_>, additional: Int) -> PyResult<()> {
        // An entry is 16 bytes: more than this cannot be addressed.
        let additional = usize::try_from(additional.0).ok().filter(|&entries| entries < 1 << 40);
        let additional =
            additional.ok_or_else(|| PyValueError::new_err("expected 0 to 2**40 entries"))?;
        self.0.detached(py, |map| map.reserve(additional));
        Ok(())
    }

    /// Release memory that the entries do not need.
    fn shrink_to_fit(&self, py: Python<'_>) {
        self.0.detached(py, ackwell_core::LongMap::shrink_to_fit);
    }

    /// The entries that fit into the memory allocated now.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> usize {
        self.0.locked(py).capacity()
    }

    /// The bytes allocated on the heap.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> usize {
        self.0.locked(py).heap_bytes()
    }

    fn __sizeof__(&self, py: Python<'_>) -> usize {
        size_of::<Self>() + self.nbytes(py)
    }

    /// Hold the map to its invariants; `AssertionError` if one is broken.
    fn validate(&self, py: Python<'_>) -> PyResult<()> {
        convert::validate(|| self.0.locked(py).validate())
    }

    fn __eq__<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(other) = other.cast::<Self>() {
            let theirs = other.get().0.locked(py).clone();
            let equal = *self.0.locked(py) == theirs;
            return Ok(equal.into_pyobject(py)?.to_owned().into_any());
        }
        if other.is_instance_of::<PyDict>() {
            let ours = PyDict::from_sequence(&self.entries(py).into_pyobject(py)?)?;
            return Ok(ours.eq(other)?.into_pyobject(py)?.to_owned().into_any());
        }
        Ok(py.NotImplemented().into_bound(py))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<LongMap {} entries>", self.__len__(py))
    }

    /// Return a map of the same entries.
    fn copy(&self, py: Python<'_>) -> Self {
        Self::of(self.0.locked(py).clone())
    }

    fn __copy__(&self, py: Python<'_>) -> Self {
        self.copy(py)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Columns<'py>)> {
        Ok((slf.get_type().getattr("from_arrays")?, slf.get().to_arrays(slf.py())))
    }
}
