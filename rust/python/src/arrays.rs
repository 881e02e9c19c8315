//! The conversion of arrays: int64 columns of the caller are copied before use, and results become arrays.
//!
//! Another thread can write to the caller's arrays while a batch runs detached. So the core does not use these arrays
//! directly. Each element is read once and copied into a block, and the core checks and uses the block. A small batch
//! is copied whole while attached to the interpreter. A large batch is copied in blocks while detached; a block stays
//! in cache and takes little memory. Weak references pin the arrays: NumPy does not resize an array to which a weak
//! reference exists. A large batch that can be refused is read twice: first to check it, then to apply it. The first
//! pass reads only the columns that the [`Check`] needs. If the check accepts all integers ≥ 0, the first pass only
//! checks that no integer is negative, and copies nothing.

use std::ptr;

use ackwell_core as core;
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;

use crate::convert::raise;
use crate::shared::SharedCell;

/// An array that is returned to the caller.
pub(crate) type Array<'py, T> = Bound<'py, PyArray1<T>>;

/// The number of rows in a block. A smaller batch is copied whole. Three columns of a block take 384 KiB.
const BLOCK_ROWS: usize = 1 << 14;

/// Batches of at most this many rows run attached to the interpreter, because detaching takes longer than the batch.
const ATTACHED_ROWS: usize = 256;

/// The number of rows in a small block. Its three columns take 96 KiB, which fits into the second-level cache. In
/// smaller blocks, copying a row would take longer, because of the latency of memory.
pub(crate) const SMALL_BLOCK_ROWS: usize = 1 << 12;

/// A batch argument: a one-dimensional int64 array, or an object that `ackwell.arrays.as_int64` converts.
pub(crate) struct Ints<'py>(Bound<'py, PyArray1<i64>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Ints<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = object.cast::<PyArray1<i64>>() {
            return Ok(Self(array.to_owned()));
        }
        let arrays = object.py().import("ackwell.arrays")?;
        let array = arrays.call_method1("as_int64", (object,))?;
        Ok(Self(array.cast_into::<PyArray1<i64>>()?))
    }
}

impl<'py> Ints<'py> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns a copy of all elements.
    pub(crate) fn to_vec(&self) -> Vec<i64> {
        let mut copied = Vec::new();
        self.copy_to(&mut copied);
        copied
    }

    /// Copies all elements into `copied`. Callers reuse its memory, because an allocation takes longer than the copy.
    pub(crate) fn copy_to(&self, copied: &mut Vec<i64>) {
        let memory = self.memory();
        // SAFETY: no thread frees the elements while this thread is attached.
        unsafe { memory.copy_to(0, memory.len, copied) };
    }

    fn memory(&self) -> Memory {
        Memory { first: self.0.data().cast(), stride: self.0.strides()[0], len: self.0.len() }
    }

    /// Adds to `pins` a weak reference to the array, and to each array of which it is a view.
    fn pin(&self, pins: &mut Vec<Pin<'py>>) -> PyResult<()> {
        let mut array = self.0.clone().into_any();
        while array.cast::<PyUntypedArray>().is_ok() {
            pins.push(PyWeakrefReference::new(&array)?);
            array = array.getattr("base")?;
        }
        Ok(())
    }
}

/// A weak reference to an array. While it exists, NumPy refuses to resize the array.
type Pin<'py> = Bound<'py, PyWeakrefReference>;

/// The memory of the elements of a one-dimensional array.
#[derive(Clone, Copy)]
struct Memory {
    first: *const u8,
    /// The distance in bytes from one element to the next. It can be negative.
    stride: isize,
    len: usize,
}

// SAFETY: moving the pointer to another thread does not read through it. Reads are in unsafe functions.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Copies the elements `first..first + count`. Each element is read once, so a copy is a valid `i64` even if
    /// another thread writes to the array.
    ///
    /// # Safety
    /// The elements are not freed during the call.
    unsafe fn copy_to(self, first: usize, count: usize, copied: &mut Vec<i64>) {
        assert!(first + count <= self.len, "rows are within the array");
        copied.clear();
        copied.reserve_exact(count);
        // SAFETY: the array has these elements, and `copied` has room for `count` elements.
        unsafe {
            let from = self.first.offset(self.stride * first as isize);
            if self.stride == size_of::<i64>() as isize {
                let bytes = count * size_of::<i64>();
                ptr::copy_nonoverlapping(from, copied.as_mut_ptr().cast::<u8>(), bytes);
                copied.set_len(count);
            } else if self.stride == 0 && count > 0 {
                copied.resize(count, from.cast::<i64>().read_unaligned());
            } else {
                let at = |row: usize| from.offset(self.stride * row as isize).cast::<i64>();
                copied.extend((0..count).map(|row| at(row).read_unaligned()));
            }
        }
    }

    /// Returns whether any element is negative. Reads each element once, as `copy_to` does, but stores none. So it
    /// takes half the time of a copy.
    ///
    /// # Safety
    /// The elements are not freed during the call.
    unsafe fn has_negative(self) -> bool {
        let signs = |row: usize| {
            // SAFETY: the row is within the array; a volatile read returns some i64, whatever another thread writes.
            unsafe { self.first.offset(self.stride * row as isize).cast::<i64>().read_volatile() }
        };
        let is_aligned = self.first.cast::<i64>().is_aligned() && self.stride % 8 == 0;
        let whole = self.len - self.len % 4;
        // Arrays that are not aligned count as negative here, so that the check with a copy handles them.
        !is_aligned
            || (0..whole).step_by(4).fold(0, |all, row| {
                all | signs(row) | signs(row + 1) | signs(row + 2) | signs(row + 3)
            }) < 0
            || (whole..self.len).any(|row| signs(row) < 0)
    }
}

/// Columns of equal length.
pub(crate) struct Rows<'py, const N: usize> {
    columns: [Ints<'py>; N],
    len: usize,
    block_rows: usize,
}

/// A copy of some rows, column by column.
pub(crate) type Block<'a, const N: usize> = [&'a [i64]; N];

impl<'py, const N: usize> Rows<'py, N> {
    /// Combines columns into rows. Returns an error if the lengths of the columns differ.
    pub(crate) fn new(columns: [Ints<'py>; N]) -> PyResult<Self> {
        let lengths = columns.each_ref().map(Ints::len);
        if lengths.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(PyValueError::new_err(format!("arrays of different lengths: {lengths:?}")));
        }
        Ok(Self { columns, len: lengths[0], block_rows: BLOCK_ROWS })
    }

    /// Sets the number of rows in a block. Small blocks are faster if the core adds each row separately.
    pub(crate) fn in_blocks_of(self, block_rows: usize) -> Self {
        Self { block_rows, ..self }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns a copy of each column.
    pub(crate) fn to_vecs(&self) -> [Vec<i64>; N] {
        self.columns.each_ref().map(Ints::to_vec)
    }

    /// Returns the blocks for detached code, and the pins that must live as long as the blocks.
    fn blocks(&self) -> PyResult<(Blocks<N>, Vec<Pin<'py>>)> {
        let mut pins = Vec::new();
        if self.len <= BLOCK_ROWS {
            return Ok((Blocks::Whole(self.to_vecs()), pins));
        }
        for column in &self.columns {
            column.pin(&mut pins)?;
        }
        Ok((Blocks::Pinned(self.columns.each_ref().map(Ints::memory)), pins))
    }
}

enum Blocks<const N: usize> {
    Whole([Vec<i64>; N]),
    /// Arrays that are not freed while a block is copied.
    Pinned([Memory; N]),
}

impl<const N: usize> Blocks<N> {
    /// Calls `visit` with each block, up to the first error.
    fn for_each(
        &self,
        block_rows: usize,
        mut visit: impl FnMut(Block<'_, N>) -> core::Result<()>,
    ) -> core::Result<()> {
        match self {
            Self::Whole(copied) => visit(copied.each_ref().map(Vec::as_slice)),
            // SAFETY: see `Pinned`.
            Self::Pinned(columns) => unsafe { copy_blocks(columns, block_rows, visit) },
        }
    }
}

/// Calls `visit` with a copy of each block of rows, up to the first error.
///
/// # Safety
/// The elements of the columns are not freed during the call.
unsafe fn copy_blocks<const N: usize>(
    columns: &[Memory; N],
    rows: usize,
    mut visit: impl FnMut(Block<'_, N>) -> core::Result<()>,
) -> core::Result<()> {
    let mut copied = [const { Vec::new() }; N];
    let len = columns.iter().map(|column| column.len).min().unwrap_or(0);
    for first in (0..len).step_by(rows) {
        for (column, copied) in columns.iter().zip(&mut copied) {
            // SAFETY: as for this function.
            unsafe { column.copy_to(first, rows.min(len - first), copied) };
        }
        visit(copied.each_ref().map(Vec::as_slice))?;
    }
    Ok(())
}

/// A check that can refuse a batch before anything changes. It gets only the `M` columns at the indexes `columns`, in
/// blocks.
pub(crate) struct Check<const M: usize, F> {
    pub(crate) columns: [usize; M],
    /// Whether a row always passes the check if its integers in these columns are at least 0.
    pub(crate) passes_naturals: bool,
    pub(crate) refuse: F,
}

/// The check of a batch that refuses no row.
type NoCheck<T> = Check<0, fn(&T, Block<'_, 0>) -> core::Result<()>>;

impl<T: Send> SharedCell<T> {
    /// Calls `change` with every block of rows. A batch runs detached unless it is small. If `check` refuses any block,
    /// `change` is not called at all. Without a `check`, `change` must not refuse a row.
    ///
    /// `change` must refuse every row that `check` refuses. If another thread changes the arrays between the check and
    /// the change, `change` can fail at a later block. The earlier blocks then stay applied, and the structure remains
    /// valid.
    pub(crate) fn batch<const N: usize, const M: usize>(
        &self,
        py: Python<'_>,
        rows: &Rows<'_, N>,
        check: Option<Check<M, impl Fn(&T, Block<'_, M>) -> core::Result<()> + Send>>,
        mut change: impl FnMut(&mut T, Block<'_, N>) -> core::Result<()> + Send,
    ) -> PyResult<()> {
        if rows.len() <= ATTACHED_ROWS {
            let copied = rows.to_vecs();
            let block = copied.each_ref().map(Vec::as_slice);
            return change(&mut self.locked(py), block).map_err(raise);
        }
        let (blocks, _pins) = rows.blocks()?;
        let block_rows = rows.block_rows;
        let done = self.detached(py, move |value| {
            if let (Some(check), Blocks::Pinned(columns)) = (check, &blocks) {
                let columns = check.columns.map(|at| columns[at]);
                // SAFETY: see `Pinned`.
                unsafe {
                    let passes =
                        check.passes_naturals && !columns.iter().any(|each| each.has_negative());
                    if !passes {
                        copy_blocks(&columns, SMALL_BLOCK_ROWS, |block| {
                            (check.refuse)(&*value, block)
                        })?;
                    }
                };
            }
            blocks.for_each(block_rows, |block| change(value, block))
        });
        done.map_err(raise)
    }

    /// Runs a batch that refuses no row.
    pub(crate) fn batch_of_any<const N: usize>(
        &self,
        py: Python<'_>,
        rows: &Rows<'_, N>,
        mut change: impl FnMut(&mut T, Block<'_, N>) + Send,
    ) -> PyResult<()> {
        let check: Option<NoCheck<T>> = None;
        self.batch(py, rows, check, |value, block| {
            change(value, block);
            Ok(())
        })
    }
}

/// Converts a vector to an array without a copy.
pub(crate) fn array<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> Array<'_, T> {
    values.into_pyarray(py)
}
