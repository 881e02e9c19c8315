//! `ackwell._native.group_rows`: the function of `ackwell_core::group`.

use ackwell_core::group::Grouping;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Array, Ints, array, visit_blocks};
use crate::convert::{Int, natural, raise};

/// The codes, where the rows of each begin, and the columns.
type Grouped<'py> = (Array<'py, i64>, Array<'py, i64>, Vec<Array<'py, i64>>);

/// Group the rows of int64 columns by a code, an int32 array of values in `range(width)`.
///
/// Return the codes that occur, where the rows of each begin and those of the last end, and the columns: rows by
/// code, those of one code in their order. Raise `ValueError` for a code outside, for different lengths, and for
/// a width beyond both 2**24 and the number of rows. O(rows + width).
///
/// >>> import numpy as np
/// >>> from ackwell._native import group_rows
/// >>> group_rows(np.array([7, 2, 7], dtype=np.int32), 8, [[10, 11, 12]])
/// (array([2, 7]), array([0, 1, 3]), [array([11, 10, 12])])
#[pyfunction]
pub(crate) fn group_rows<'py>(
    py: Python<'py>,
    codes: PyReadonlyArray1<'py, i32>,
    width: Int,
    columns: Vec<Ints<'_>>,
) -> PyResult<Grouped<'py>> {
    let width = natural(width, "width")?;
    let codes: Vec<i32> = codes.as_array().iter().copied().collect();
    if columns.iter().any(|column| column.len() != codes.len()) {
        return Err(PyValueError::new_err("columns of different lengths"));
    }
    let grouping = py.detach(|| Grouping::new(&codes, width)).map_err(raise)?;
    let mut grouped = Vec::with_capacity(columns.len());
    for column in columns {
        let mut moved = vec![0; codes.len()];
        let mut first = 0;
        visit_blocks(py, column, |values| {
            grouping.move_rows(first, values, &mut moved);
            first += values.len();
        })?;
        grouped.push(array(py, moved));
    }
    Ok((array(py, grouping.codes), array(py, grouping.starts), grouped))
}
