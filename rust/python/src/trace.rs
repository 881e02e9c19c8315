//! `ackwell._native.TraceReader`: the class of `ackwell_core::trace`.

use ackwell_core::trace::{FieldValue, LineFields};
use ackwell_core::{Names, trace};
use numpy::IntoPyArray;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList};

use crate::shared::SharedCell;

/// A line that is not plain: the offset of its end, and its fields or the reason why they cannot be read.
type OddLine<'py> = (usize, Bound<'py, PyAny>);

/// A reader of JSON lines. It returns columns of events for `Partials.feed`.
///
/// Parameters
/// ----------
/// kinds : list of (str, bool, bool)
///     The kinds of events, each with two flags: whether an event of the kind may apply to a whole topic, and whether
///     it must name a transaction. The kinds in the columns are indexes into this list.
#[pyclass(frozen, module = "ackwell._native")]
pub(crate) struct TraceReader(SharedCell<trace::TraceReader>);

#[pymethods]
impl TraceReader {
    #[new]
    fn new(kinds: Vec<(String, bool, bool)>) -> Self {
        Self(SharedCell::new(trace::TraceReader::new(kinds)))
    }

    /// Set the topic and the subscription of lines that do not name them. Call it at the start of each trace.
    #[pyo3(signature = (topic=None, subscription=None))]
    fn set_defaults(&self, py: Python<'_>, topic: Option<&str>, subscription: Option<&str>) {
        self.0.locked(py).set_defaults(topic, subscription);
    }

    /// Return three lists of names: topics, subscriptions and transactions.
    ///
    /// `starts` has one number for each list. Names with lower numbers are left out.
    fn names(&self, py: Python<'_>, starts: [usize; 3]) -> [Vec<String>; 3] {
        let reader = self.0.locked(py);
        let rest = |names: &Names, from: usize| {
            (from..names.len()).filter_map(|number| names.get(number)).map(str::to_owned).collect()
        };
        let names = [reader.topics(), reader.subscriptions(), reader.transactions()];
        std::array::from_fn(|index| rest(names[index], starts[index]))
    }

    /// Return all fields of one line under their full names, without nulls. Return `None` for a blank line.
    ///
    /// The line may contain escapes and unknown fields. If it is not a JSON object, or contains a field twice, the
    /// result is the reason as a text.
    fn fields<'py>(&self, py: Python<'py>, line: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
        let read = self.0.locked(py).fields(line).transpose();
        read.map(|read| fields_or_reason(py, read)).transpose()
    }

    /// Read the lines of `data[start:end]`, and stop before the first line that is not plain.
    ///
    /// `line` is the number of the first line. Returns the number of bytes read, the number of lines read, the line
    /// that is not plain (or None), and a dictionary of columns. The line that is not plain is a pair: the offset of
    /// its end in `data`, and the result of `fields`. Other threads run during the call.
    fn read<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyBytes>,
        start: usize,
        end: usize,
        line: i64,
    ) -> PyResult<(usize, i64, Option<OddLine<'py>>, Bound<'py, PyDict>)> {
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
        let odd = stop
            .odd
            .map(|odd| Ok::<_, PyErr>((odd.end + start, fields_or_reason(py, odd.fields)?)));
        Ok((stop.bytes, stop.lines, odd.transpose()?, columns))
    }
}

fn fields_or_reason<'py>(
    py: Python<'py>,
    read: Result<LineFields<'_>, String>,
) -> PyResult<Bound<'py, PyAny>> {
    match read {
        Err(reason) => reason.into_bound_py_any(py),
        Ok(read) => {
            let fields = PyDict::new(py);
            for (name, value) in read.iter() {
                fields.set_item(name, object(py, value)?)?;
            }
            Ok(fields.into_any())
        }
    }
}

fn object<'py>(py: Python<'py>, value: &FieldValue<'_>) -> PyResult<Bound<'py, PyAny>> {
    match value {
        FieldValue::Null => Ok(py.None().into_bound(py)),
        FieldValue::Bool(value) => value.into_bound_py_any(py),
        FieldValue::Integer(value) => value.into_bound_py_any(py),
        FieldValue::LargeInteger(digits) => py.get_type::<PyInt>().call1((digits,)),
        FieldValue::Float(value) => value.into_bound_py_any(py),
        FieldValue::Text(text) => text.into_bound_py_any(py),
        FieldValue::Object => Ok(PyDict::new(py).into_any()),
        FieldValue::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(object(py, item)?)?;
            }
            Ok(list.into_any())
        }
    }
}
