//! `ackwell._native.TraceReader`: the class of `ackwell_core::trace`.

use ackwell_core::trace::FieldValue;
use ackwell_core::{Names, trace};
use numpy::IntoPyArray;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList};

use crate::shared::Shared;

/// A reader of JSON lines. It returns columns of events for `Partials.feed`.
///
/// Parameters
/// ----------
/// kinds : list of (str, bool)
///     The kinds of events, each with a flag that is true if the kind may apply to a whole topic. The kinds in the
///     columns are indexes into this list.
#[pyclass(frozen, module = "ackwell._native")]
pub(crate) struct TraceReader(Shared<trace::TraceReader>);

#[pymethods]
impl TraceReader {
    #[new]
    fn new(kinds: Vec<(String, bool)>) -> Self {
        Self(Shared::new(trace::TraceReader::new(kinds)))
    }

    /// Set the topic and the subscription of lines that do not name them. Call it at the start of each trace.
    #[pyo3(signature = (topic=None, subscription=None))]
    fn set_defaults(&self, py: Python<'_>, topic: Option<&str>, subscription: Option<&str>) {
        self.0.locked(py).set_defaults(topic, subscription);
    }

    /// Return three lists of names: topics, subscriptions and transactions.
    ///
    /// `starts` gives for each list the number of its first name; names with lower numbers are left out.
    fn names(&self, py: Python<'_>, starts: [usize; 3]) -> [Vec<String>; 3] {
        let reader = self.0.locked(py);
        let rest = |names: &Names, from: usize| {
            (from..names.len()).filter_map(|number| names.get(number)).map(str::to_owned).collect()
        };
        let names = [reader.topics(), reader.subscriptions(), reader.transactions()];
        std::array::from_fn(|index| rest(names[index], starts[index]))
    }

    /// Return all fields of one line under their full names, without nulls.
    ///
    /// The line may contain escapes and unknown fields. Raises `ValueError` if the text is not a JSON object, or
    /// contains a field twice.
    fn fields<'py>(&self, py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
        let read = self.0.locked(py).fields(text).map_err(PyValueError::new_err)?;
        let fields = PyDict::new(py);
        for (name, value) in read.iter() {
            fields.set_item(name, object(py, value)?)?;
        }
        Ok(fields)
    }

    /// Read the lines of `data[start:end]` up to the first line that is not plain. `line` is the first line's number.
    ///
    /// Returns the number of bytes read, the number of lines read, the end of the line that is not plain as an offset
    /// in `data` (or None), and a dictionary of columns. Other threads run during the call.
    fn read<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyBytes>,
        start: usize,
        end: usize,
        line: i64,
    ) -> PyResult<(usize, i64, Option<usize>, Bound<'py, PyDict>)> {
        let bytes = data.as_bytes().get(start..end).unwrap_or_default();
        let (read, stop) = self.0.detached(py, |reader| reader.read(bytes, line));
        let columns = PyDict::new(py);
        for (name, codes) in [
            ("topics", read.topics),
            ("subscriptions", read.subscriptions),
            ("kinds", read.kinds),
            ("transactions", read.transactions),
        ] {
            columns.set_item(name, codes.into_pyarray(py))?;
        }
        for (name, values) in [
            ("ledger_ids", read.ledger_ids),
            ("entry_ids", read.entry_ids),
            ("sequences", read.sequences),
            ("batch_indexes", read.batch_indexes),
            ("batch_sizes", read.batch_sizes),
            ("set_starts", read.set_starts),
            ("set_ends", read.set_ends),
            ("words", read.words),
        ] {
            columns.set_item(name, values.into_pyarray(py))?;
        }
        Ok((stop.bytes, stop.lines, stop.odd.map(|end| end + start), columns))
    }
}

fn object<'py>(py: Python<'py>, value: &FieldValue) -> PyResult<Bound<'py, PyAny>> {
    match value {
        FieldValue::Bool(value) => value.into_bound_py_any(py),
        FieldValue::Integer(value) => value.into_bound_py_any(py),
        FieldValue::LargeInteger(digits) => py.get_type::<PyInt>().call1((digits,)),
        FieldValue::Float(value) => value.into_bound_py_any(py),
        FieldValue::Text(text) => text.into_bound_py_any(py),
        FieldValue::Object => Ok(PyDict::new(py).into_any()),
        FieldValue::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                match item {
                    None => list.append(py.None())?,
                    Some(item) => list.append(object(py, item)?)?,
                }
            }
            Ok(list.into_any())
        }
    }
}
