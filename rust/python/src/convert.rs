//! Conversions that all classes use: integers and positions from and to Python, and errors to exceptions.

use std::ffi::c_int;

use ackwell_core::{Error, Position, Validity};
use pyo3::exceptions::{PyAssertionError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyIterator, PyMapping, PyTuple, PyType};

pyo3::import_exception!(ackwell.errors, CorruptStateError);
pyo3::import_exception!(ackwell.errors, LimitError);
pyo3::import_exception!(ackwell.errors, NewerVersionError);
pyo3::import_exception!(ackwell.errors, ProtocolError);

/// Returns the Python exception for an error of the core.
pub(crate) fn raise(error: Error) -> PyErr {
    match error {
        Error::Corrupt { offset, message } => CorruptStateError::new_err((message, offset)),
        Error::NewerVersion { offset, message } => NewerVersionError::new_err((message, offset)),
        Error::Limit(cause) => LimitError::new_err(cause.to_string()),
        Error::Memory { .. } => PyMemoryError::new_err(error.to_string()),
        Error::Protocol { message, position } => {
            ProtocolError::new_err((message, position.map(PositionArgument)))
        }
        other => PyValueError::new_err(other.to_string()),
    }
}

/// A position as an argument of an exception. It is converted while the thread is attached to the interpreter.
struct PositionArgument((i64, i64));

impl<'py> IntoPyObject<'py> for PositionArgument {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let (ledger_id, entry_id) = self.0;
        position(py, Position::new(ledger_id, entry_id))
    }
}

/// An int64 argument. An integer outside int64 raises `ValueError`, as in the reference engine, not PyO3's
/// `OverflowError`.
#[derive(Clone, Copy)]
pub(crate) struct Int(pub(crate) i64);

impl<'a, 'py> FromPyObject<'a, 'py> for Int {
    type Error = PyErr;

    /// Converts an integer with one call of the C API. It must be fast, because every scalar call uses it.
    /// `extract::<i64>` is slower, because it first raises an exception for a wrong type.
    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let mut overflow = 0;
        // SAFETY: the object is borrowed, and this thread is attached to the interpreter.
        let value =
            unsafe { ffi::PyLong_AsLongLongAndOverflow(object.as_ptr(), &raw mut overflow) };
        if value == -1 { minus_one(object.py(), overflow) } else { Ok(Int(value)) }
    }
}

/// Handles a −1 from the C API, which is either the number −1 or the mark of an error. Returns the number or the error.
#[cold]
fn minus_one(py: Python<'_>, overflow: c_int) -> PyResult<Int> {
    if overflow != 0 {
        return Err(PyValueError::new_err("integer outside int64"));
    }
    PyErr::take(py).map_or(Ok(Int(-1)), Err)
}

/// A position argument: a `Position` or any tuple of two ints.
pub(crate) type Pair = (Int, Int);

/// Converts a size or a count. A negative value raises `ValueError` with the name of the argument.
pub(crate) fn natural(value: Int, name: &str) -> PyResult<usize> {
    usize::try_from(value.0)
        .map_err(|_| PyValueError::new_err(format!("{name} {}: expected at least 0", value.0)))
}

/// Checks a position that need not be an entry, such as a lower bound: ledger ≥ 0, entry ≥ −1.
pub(crate) fn bound((ledger_id, entry_id): Pair) -> PyResult<Position> {
    Position::bound(ledger_id.0, entry_id.0).map_err(raise)
}

/// Checks a position of an entry: ledger ≥ 0, entry ≥ 0.
pub(crate) fn entry((ledger_id, entry_id): Pair) -> PyResult<Position> {
    Position::entry(ledger_id.0, entry_id.0).map_err(raise)
}

/// Converts a position to `ackwell.Position`.
pub(crate) fn position(py: Python<'_>, position: Position) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.import(py, "ackwell.position", "Position")?;
    named_tuple(class, (position.ledger_id, position.entry_id))
}

/// Creates a named tuple by `tuple.__new__`. The `__new__` of the class is Python code and takes three times as long.
pub(crate) fn named_tuple<'py>(
    class: &Bound<'py, PyType>,
    fields: impl IntoPyObject<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    static TUPLE_NEW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = class.py();
    let new = TUPLE_NEW
        .get_or_try_init(py, || py.get_type::<PyTuple>().getattr("__new__").map(Bound::unbind))?;
    new.bind(py).call1((class, fields))
}

/// Converts an item to a pair of integers. Any other item raises `TypeError`; the message contains `expected` and
/// describes the item.
pub(crate) fn pair(item: &Bound<'_, PyAny>, expected: &str) -> PyResult<(i64, i64)> {
    if !item.is_instance_of::<PyTuple>() {
        let message = format!("{} is not a pair: expected {expected}", item.repr()?);
        return Err(PyTypeError::new_err(message));
    }
    let (first, second): Pair = item.extract()?;
    Ok((first.0, second.0))
}

/// Returns an iterator over the items of a mapping, or over an iterable of pairs.
pub(crate) fn pairs<'py>(entries: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    match entries.getattr("items") {
        Ok(items) => items.call0()?.try_iter(),
        Err(_) => entries.try_iter(),
    }
}

/// Returns a view of a mapping. `name` is a class of `collections.abc`: `KeysView`, `ValuesView` or `ItemsView`.
pub(crate) fn view<'py>(mapping: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    mapping.py().import("collections.abc")?.getattr(name)?.call1((mapping,))
}

/// Returns whether `other` is a mapping with the same items; `NotImplemented` if `other` is not a mapping.
pub(crate) fn equals_mapping<'py>(
    mapping: &Bound<'py, PyAny>,
    other: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = mapping.py();
    let dict = py.get_type::<PyDict>();
    let Ok(other) = other.cast::<PyMapping>() else {
        return Ok(py.NotImplemented().into_bound(py));
    };
    let equal = dict.call1((mapping.call_method0("items")?,))?.eq(dict.call1((other.items()?,))?)?;
    Ok(PyBool::new(py, equal).to_owned().into_any())
}

/// Converts a broken invariant to Python's `AssertionError`.
pub(crate) fn valid(found: Validity) -> PyResult<()> {
    found.map_err(PyAssertionError::new_err)
}
