//! What every class of the binding shares: integers in, arrays in, errors out.

use std::borrow::Cow;
use std::ffi::c_int;

use ackwell_core::{Error, Position};
use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyAssertionError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

pyo3::import_exception!(ackwell.errors, CorruptStateError);
pyo3::import_exception!(ackwell.errors, LimitError);
pyo3::import_exception!(ackwell.errors, NewerVersionError);
pyo3::import_exception!(ackwell.errors, ProtocolError);

/// The Python exception for a refusal of the core.
pub(crate) fn raise(error: Error) -> PyErr {
    match error {
        Error::Corrupt { offset, message } => CorruptStateError::new_err((message, offset)),
        Error::NewerVersion { offset, message } => NewerVersionError::new_err((message, offset)),
        Error::Limit(message) => LimitError::new_err(message),
        Error::Protocol(message) => ProtocolError::new_err(message),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// An int64 argument. Beyond int64 it is a `ValueError`, as in the reference, not PyO3's `OverflowError`.
#[derive(Clone, Copy)]
pub(crate) struct Int(pub(crate) i64);

impl<'a, 'py> FromPyObject<'a, 'py> for Int {
    type Error = PyErr;

    /// Asks Python once, where `extract::<i64>` has it raise first: every scalar call passes here.
    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let mut overflow = 0;
        // SAFETY: the object is borrowed, and this thread is attached to the interpreter.
        let value =
            unsafe { ffi::PyLong_AsLongLongAndOverflow(object.as_ptr(), &raw mut overflow) };
        if value == -1 { minus_one(object.py(), overflow) } else { Ok(Int(value)) }
    }
}

/// The number itself, or what stands for a refusal.
#[cold]
fn minus_one(py: Python<'_>, overflow: c_int) -> PyResult<Int> {
    if overflow != 0 {
        return Err(PyValueError::new_err("integer outside int64"));
    }
    PyErr::take(py).map_or(Ok(Int(-1)), Err)
}

/// A position argument: a `Position` or any tuple of two ints.
#[allow(dead_code, reason = "the range set brings it to life")]
pub(crate) type Pair = (Int, Int);

/// A batch argument: a one-dimensional int64 array, or what `ackwell.arrays.as_int64` makes one of.
///
/// The memory stays the caller's. A batch that lets go of the interpreter reads it meanwhile, so no other
/// thread may write to it; every batch method's documentation says so.
pub(crate) struct Ints<'py>(PyReadonlyArray1<'py, i64>);

impl<'a, 'py> FromPyObject<'a, 'py> for Ints<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = object.extract::<PyReadonlyArray1<'py, i64>>() {
            return Ok(Ints(array));
        }
        let arrays = object.py().import("ackwell.arrays")?;
        let array = arrays.call_method1("as_int64", (object,))?;
        Ok(Ints(array.extract::<PyReadonlyArray1<'py, i64>>()?))
    }
}

impl Ints<'_> {
    /// The elements in order; copied only if they are not contiguous.
    pub(crate) fn slice(&self) -> Cow<'_, [i64]> {
        match self.0.as_slice() {
            Ok(slice) => slice.into(),
            Err(_) => self.0.as_array().to_vec().into(),
        }
    }
}

/// Refuses arrays of different lengths before anything is changed.
pub(crate) fn same_length(lengths: &[usize]) -> PyResult<()> {
    if lengths.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(PyValueError::new_err(format!("arrays of different lengths: {lengths:?}")));
    }
    Ok(())
}

/// A checked lower bound or place between entries: ledger ≥ 0, entry ≥ −1.
pub(crate) fn bound((ledger_id, entry_id): Pair) -> PyResult<Position> {
    Position::bound(ledger_id.0, entry_id.0).map_err(raise)
}

/// The `ackwell.Position` of a position.
pub(crate) fn position(py: Python<'_>, position: Position) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.import(py, "ackwell.position", "Position")?;
    class.call1((position.ledger_id, position.entry_id))
}

/// Runs a `validate` of the core, whose panic becomes Python's `AssertionError`.
pub(crate) fn validate(check: impl FnOnce()) -> PyResult<()> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).map_err(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        PyAssertionError::new_err(message.unwrap_or_else(|| "an invariant does not hold".into()))
    })
}
