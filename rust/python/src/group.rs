//! `ackwell._native.group_rows`: the function of `ackwell_core::group`.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::convert::{Ints, raise};

type Array<'py> = Bound<'py, PyArray1<i64>>;

/// Bring the rows of int64 columns together by a code, an int32 array of values in `range(width)`.
///
/// Return the codes that occur, where each one's rows begin and the last ones' end, and the columns: rows by
/// code, those of one code in their order. Raises `ValueError` for a code outside, for different lengths, and for
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
    width: usize,
    columns: Vec<Ints<'py>>,
) -> PyResult<(Array<'py>, Array<'py>, Vec<Array<'py>>)> {
    let codes = codes.as_slice()?;
    let columns: Vec<_> = columns.iter().map(Ints::slice).collect();
    let grouped = py
        .detach(|| {
            let columns: Vec<&[i64]> = columns.iter().map(AsRef::as_ref).collect();
            ackwell_core::group::group_rows(codes, width, &columns)
        })
        .map_err(raise)?;
    let columns = grouped.columns.into_iter().map(|column| column.into_pyarray(py)).collect();
    Ok((grouped.codes.into_pyarray(py), grouped.starts.into_pyarray(py), columns))
}
