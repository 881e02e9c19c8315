//! The iterator over the positions of a mapping.

use ackwell_core::Position;
use pyo3::prelude::*;

use crate::convert::position;
use crate::shared::SharedCell;

/// An iterator over a copy of a mapping's positions.
#[pyclass(frozen, module = "ackwell")]
pub(crate) struct Positions(SharedCell<std::vec::IntoIter<Position>>);

impl Positions {
    pub(crate) fn of(positions: Vec<Position>) -> Self {
        Self(SharedCell::new(positions.into_iter()))
    }
}

#[pymethods]
impl Positions {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = self.0.locked(py).next();
        next.map(|at| position(py, at)).transpose()
    }

    fn __length_hint__(&self, py: Python<'_>) -> usize {
        self.0.locked(py).len()
    }
}
