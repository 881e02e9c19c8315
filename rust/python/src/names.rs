//! `ackwell._native.Names`: the class of `ackwell_core::names`.

use ackwell_core as core;
use ackwell_core::error::LimitReached;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::raise;
use crate::shared::SharedCell;

/// A table that gives each name a number, from 0 in the order of first use.
///
/// Columns of texts have the layout of Arrow: the bytes of all texts, an int32 offset for the start of each text, and a
/// last offset for the end.
///
/// Parameters
/// ----------
/// names : list of str
///     The initial names. They get the numbers from 0, in this order.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> from ackwell._native import Names
/// >>> names = Names(["a"])
/// >>> names.number("b"), len(names), names[1]
/// (1, 2, 'b')
/// >>> names.number_many(np.array([0, 1, 2, 3], dtype=np.int32), np.frombuffer(b"bca", np.uint8)).tolist()
/// [1, 2, 0]
#[pyclass(frozen, module = "ackwell._native")]
pub(crate) struct Names(SharedCell<core::Names>);

#[pymethods]
impl Names {
    #[new]
    #[pyo3(signature = (names=None))]
    fn new(names: Option<Vec<String>>) -> Self {
        let mut known = core::Names::default();
        for name in names.unwrap_or_default() {
            known.number(&name);
        }
        Self(SharedCell::new(known))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.0.locked(py).len()
    }

    fn __getitem__(&self, py: Python<'_>, number: isize) -> PyResult<String> {
        let names = self.0.locked(py);
        let number = usize::try_from(number).ok();
        let name = number.and_then(|number| names.get(number)).map(str::to_owned);
        name.ok_or_else(|| PyIndexError::new_err("a number that no name has"))
    }

    /// Return the number that identifies a name. A new name gets the next number.
    fn number(&self, py: Python<'_>, name: &str) -> i32 {
        self.0.locked(py).number(name)
    }

    /// Return an int32 array with the number that identifies each text. New texts get new numbers.
    ///
    /// Raises `ValueError` for offsets outside the bytes, and for bytes that are not UTF-8. Names that were added
    /// before the error keep their numbers. O(bytes). The call does not detach from the interpreter, because the texts
    /// are not copied.
    fn number_many<'py>(
        &self,
        py: Python<'py>,
        offsets: PyReadonlyArray1<'py, i32>,
        data: PyReadonlyArray1<'py, u8>,
    ) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let (offsets, data) = (offsets.as_slice()?, data.as_slice()?);
        let numbers = self.0.locked(py).number_many(offsets, data).map_err(raise)?;
        Ok(numbers.into_pyarray(py))
    }

    /// Return the names whose numbers are at least `start`: an int32 array of offsets, and the bytes of the names.
    ///
    /// Raises `LimitError` for more than 2 GiB of names.
    #[pyo3(signature = (start=0))]
    fn to_arrays<'py>(
        &self,
        py: Python<'py>,
        start: usize,
    ) -> PyResult<(Bound<'py, PyArray1<i32>>, Bound<'py, PyBytes>)> {
        let names = self.0.locked(py);
        let (offsets, bytes) = names.from(start);
        let offsets: Option<Vec<i32>> = offsets.map(|offset| i32::try_from(offset).ok()).collect();
        let offsets = offsets.ok_or_else(|| raise(core::Error::Limit(LimitReached::NameBytes)))?;
        Ok((offsets.into_pyarray(py), PyBytes::new(py, bytes)))
    }

    /// Check the invariants; raise `AssertionError` if one does not hold.
    fn validate(&self, py: Python<'_>) -> PyResult<()> {
        crate::convert::valid(self.0.locked(py).validate())
    }
}
