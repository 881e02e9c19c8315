//! `ackwell.PositionInfo`: the class of `ackwell_core::position_info`.

pub(crate) mod compression;
pub(crate) mod managed_cursor_info;

use std::collections::BTreeMap;

use ackwell_core::position_info::{FormChoice, Limits, Loss};
use ackwell_core::{self as core, Form, Position};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};

use crate::ack_sets::AckSets;
use crate::convert::{Int, Pair, bound, entry, natural, position, raise, valid};
use crate::range_set::PositionRangeSet;

pyo3::import_exception!(ackwell.errors, StateTooLargeError);

/// Returns the method `decode` of a class without its memory limit. Pickles use it: a pickled state was in memory
/// before, so it needs no limit.
pub(crate) fn decode_without_limit<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let limit = PyDict::new(class.py());
    limit.set_item("max_bytes", isize::MAX)?;
    let partial = class.py().import("functools")?.getattr("partial")?;
    partial.call((class.getattr("decode")?,), Some(&limit))
}

/// A persisted cursor: the mark-delete position, and the positions acknowledged after it.
///
/// The object is immutable. `individually_deleted` and the mappings are returned as copies. `replace` returns a changed
/// copy.
///
/// Parameters
/// ----------
/// ledger_id, entry_id : int
///     The mark-delete position: everything up to here, inclusive, is acknowledged. The entry may be -1.
/// individually_deleted : PositionRangeSet or iterable of (int, int, int)
///     The entries after the mark-delete position that are acknowledged as a whole.
/// batch_deleted : AckSets or mapping of Position to sequence of int
///     The partly acknowledged entries, each with the signed 64-bit words of a Java `BitSet`: lowest bit first,
///     bit set = not yet acknowledged.
/// properties : mapping of str to int
///     The properties that the client sent with its last cumulative ack.
/// redelivery_counts : mapping of Position to int
///     The number of redeliveries of each entry. Only the form `compact` stores these numbers.
/// idle_since : int, optional
///     The time since which the cursor is idle, in ms since the epoch (Pulsar 5.0.1).
/// spanning_ranges : iterable of (Position, Position)
///     Ranges from one ledger into another, as brokers before 2.4 wrote them. Without a ledger directory, the entries
///     of such a range in the lower ledgers are unknown. The part in the upper ledger is also in `individually_deleted`
///     after decoding.
/// unknown_fields : bytes
///     Unknown Protocol Buffers fields; they are written back unchanged.
///
/// Examples
/// --------
/// >>> from ackwell import PositionInfo
/// >>> info = PositionInfo(3, 5, [(3, 6, 8)], batch_deleted={(3, 10): [0b1010]})
/// >>> data = info.encode("pulsar-ranges")
/// >>> PositionInfo.decode(data) == info, PositionInfo.decode(data).form
/// (True, 'pulsar-ranges')
/// >>> info.position, str(info.individually_deleted), info.batch_deleted[3, 10]
/// (Position(ledger_id=3, entry_id=5), '[(3:6..3:8]]', (10,))
#[pyclass(frozen, module = "ackwell")]
pub(crate) struct PositionInfo {
    state: core::PositionInfo,
    /// The bytes from which the state was decoded, and their form. An unchanged state is encoded to the same bytes.
    original: Option<(Py<PyBytes>, Form)>,
}

impl PositionInfo {
    pub(crate) fn of(state: core::PositionInfo) -> Self {
        Self { state, original: None }
    }

    pub(crate) fn state(&self) -> &core::PositionInfo {
        &self.state
    }

    fn encode_within<'py>(
        &self,
        py: Python<'py>,
        form: Form,
        limits: Limits,
    ) -> PyResult<(Bound<'py, PyBytes>, Loss)> {
        if let Some((bytes, original_form)) = &self.original
            && *original_form == form
            && limits.allow(&self.state.individually_deleted, bytes.as_bytes(py).len())
        {
            return Ok((bytes.bind(py).clone(), Loss::default()));
        }
        let (bytes, loss) = py.detach(|| self.state.encode_within(form, limits)).map_err(raise)?;
        Ok((PyBytes::new(py, &bytes), loss))
    }
}

#[pymethods]
impl PositionInfo {
    #[new]
    #[pyo3(signature = (ledger_id, entry_id, individually_deleted=None, batch_deleted=None, properties=None, *,
                        redelivery_counts=None, idle_since=None, spanning_ranges=None, unknown_fields=None))]
    #[expect(clippy::too_many_arguments, reason = "the fields of the message")]
    fn new(
        py: Python<'_>,
        ledger_id: Int,
        entry_id: Int,
        individually_deleted: Option<&Bound<'_, PyAny>>,
        batch_deleted: Option<&Bound<'_, PyAny>>,
        properties: Option<&Bound<'_, PyAny>>,
        redelivery_counts: Option<&Bound<'_, PyAny>>,
        idle_since: Option<Int>,
        spanning_ranges: Option<Vec<(Pair, Pair)>>,
        unknown_fields: Option<&[u8]>,
    ) -> PyResult<Self> {
        let mark_delete = Position::bound(ledger_id.0, entry_id.0).map_err(raise)?;
        let mut state = core::PositionInfo::new(mark_delete);
        if let Some(ranges) = individually_deleted {
            state.individually_deleted = range_set(py, ranges)?;
        }
        match batch_deleted.map(|sets| sets.cast::<AckSets>()) {
            Some(Ok(sets)) => state.batch_deleted = sets.get().core(py),
            _ => each_item(batch_deleted, |(position, words): (Pair, Vec<Int>)| {
                let words: Vec<i64> = words.into_iter().map(|word| word.0).collect();
                state.batch_deleted.insert(entry(position)?, &words);
                Ok(())
            })?,
        }
        each_item(properties, |(name, value): (String, Int)| {
            state.properties.insert(name, value.0);
            Ok(())
        })?;
        each_item(redelivery_counts, |(position, count): (Pair, Int)| {
            state.insert_redelivery_count(entry(position)?, count.0).map_err(raise)
        })?;
        state.idle_since = idle_since.map(|value| value.0);
        for (lower, upper) in spanning_ranges.unwrap_or_default() {
            state.add_spanning_range(bound(lower)?, bound(upper)?).map_err(raise)?;
        }
        state.set_unknown_fields(unknown_fields.unwrap_or_default()).map_err(raise)?;
        Ok(Self::of(state))
    }

    /// Decode a state in any form. The form is recognised by the content.
    ///
    /// Raises `CorruptStateError` with the offset at which reading stopped, and `LimitError` if the decoded state
    /// would take more than `max_bytes` of memory. Other threads run during the call.
    ///
    /// >>> PositionInfo.decode(bytes.fromhex("0803 1005")).position
    /// Position(ledger_id=3, entry_id=5)
    #[classmethod]
    #[pyo3(
        signature = (data, *, max_bytes=Int(67_108_864)),
        text_signature = "(data, *, max_bytes=67108864)"
    )]
    fn decode(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        data: &Bound<'_, PyBytes>,
        max_bytes: Int,
    ) -> PyResult<Self> {
        let max_bytes = natural(max_bytes, "max_bytes")?;
        let bytes = data.as_bytes();
        let (state, form) =
            py.detach(|| core::PositionInfo::decode(bytes, max_bytes)).map_err(raise)?;
        Ok(Self { state, original: Some((data.clone().unbind(), form)) })
    }

    /// Encode the state; raise an error if the form or a limit does not admit the whole state.
    ///
    /// Parameters
    /// ----------
    /// form : str, optional
    ///     `pulsar-ranges`, `pulsar-long-array`, `pulsar-auto` or `compact`. `pulsar-auto` selects the smaller of the
    ///     first two forms, or `pulsar-ranges` if `broker` cannot read the other. It also limits the size to the 5 MiB
    ///     of a bookie's frame, unless `max_bytes` is given. The default is the form from which the state was decoded,
    ///     or `pulsar-ranges` if the state was not decoded. In the form from which it was decoded, an unchanged state
    ///     is encoded to the original bytes.
    /// max_ranges, max_ledgers, max_bytes : int, optional
    ///     Limits on ranges, on ledgers with ranges, and on encoded bytes.
    /// broker : str
    ///     The version of the broker that will read `pulsar-auto`.
    ///
    /// Raises
    /// ------
    /// StateTooLargeError
    ///     If a limit or the form would cut the state. The attribute `report` of the exception lists the exact loss.
    ///
    /// >>> PositionInfo(3, 5, [(3, 6, 8)]).encode("pulsar-ranges", max_ranges=0)
    /// Traceback (most recent call last):
    /// ackwell.errors.StateTooLargeError: 2 entries in 1 ranges would be lost: 1 ranges, max_ranges = 0
    #[pyo3(signature = (form=None, *, max_ranges=None, max_ledgers=None, max_bytes=None, broker="4.2.4"))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        form: Option<&str>,
        max_ranges: Option<Int>,
        max_ledgers: Option<Int>,
        max_bytes: Option<Int>,
        broker: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (bytes, report) =
            self.encode_with_report(py, form, max_ranges, max_ledgers, max_bytes, broker)?;
        if report.is_truthy()? {
            return Err(StateTooLargeError::new_err((report.str()?.unbind(), report.unbind())));
        }
        Ok(bytes)
    }

    /// Encode as much of the state as the form and the limits allow; return `(bytes, LossReport)`.
    ///
    /// If the state is cut, the ranges nearest to the mark-delete position are kept. The parameters are those of
    /// `encode`.
    ///
    /// >>> data, report = PositionInfo(3, 5, [(3, 6, 8), (3, 9, 11)]).encode_with_report(max_ranges=1)
    /// >>> report.entries, list(report.individually_deleted)
    /// (2, [(3, 9, 11)])
    #[pyo3(signature = (form=None, *, max_ranges=None, max_ledgers=None, max_bytes=None, broker="4.2.4"))]
    fn encode_with_report<'py>(
        &self,
        py: Python<'py>,
        form: Option<&str>,
        max_ranges: Option<Int>,
        max_ledgers: Option<Int>,
        max_bytes: Option<Int>,
        broker: &str,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyAny>)> {
        let limit = |max: Option<Int>, name| max.map(|max| natural(max, name)).transpose();
        let mut limits = Limits {
            max_ranges: limit(max_ranges, "max_ranges")?,
            max_ledgers: limit(max_ledgers, "max_ledgers")?,
            max_bytes: limit(max_bytes, "max_bytes")?,
        };
        let choice = match form {
            Some(name) => FormChoice::named(name, broker).map_err(raise)?,
            None => FormChoice::Form(self.original.as_ref().map_or(Form::PulsarRanges, |o| o.1)),
        };
        let form = py.detach(|| self.state.choose_form(choice, &mut limits));
        let (bytes, loss) = self.encode_within(py, form, limits)?;
        Ok((bytes, loss_report(py, loss)?))
    }

    /// Return a copy with changed values; `changes` are keyword arguments of the constructor.
    ///
    /// >>> PositionInfo(3, 5).replace(entry_id=6).position
    /// Position(ledger_id=3, entry_id=6)
    #[pyo3(signature = (**changes))]
    fn replace<'py>(
        slf: &Bound<'py, Self>,
        changes: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let fields = PyDict::new(slf.py());
        for name in FIELDS {
            fields.set_item(name, slf.getattr(name)?)?;
        }
        if let Some(changes) = changes {
            fields.update(changes.as_mapping())?;
        }
        slf.get_type().call((), Some(&fields))
    }

    /// The ledger of the mark-delete position.
    #[getter]
    fn ledger_id(&self) -> i64 {
        self.state.mark_delete.ledger_id
    }

    /// The entry of the mark-delete position; -1 means before the first entry of the ledger.
    #[getter]
    fn entry_id(&self) -> i64 {
        self.state.mark_delete.entry_id
    }

    /// The mark-delete position.
    #[getter]
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        position(py, self.state.mark_delete)
    }

    /// A copy of the set of entries after the mark-delete position that are acknowledged as a whole.
    #[getter]
    fn individually_deleted(&self) -> PositionRangeSet {
        PositionRangeSet::of(self.state.individually_deleted.clone())
    }

    /// A copy of the ack sets of partly acknowledged entries, in order.
    #[getter]
    fn batch_deleted(&self) -> AckSets {
        AckSets::of(self.state.batch_deleted.clone())
    }

    /// A copy of the properties that the client sent with its last cumulative ack.
    #[getter]
    fn properties(&self) -> BTreeMap<String, i64> {
        self.state.properties.clone()
    }

    /// A copy of the redelivery counts by position.
    #[getter]
    fn redelivery_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        counts_dict(py, &self.state.redelivery_counts)
    }

    /// The time since which the cursor is idle, in ms since the epoch, or None.
    #[getter]
    fn idle_since(&self) -> Option<i64> {
        self.state.idle_since
    }

    /// Ranges `(lower, upper)` from one ledger into another.
    #[getter]
    fn spanning_ranges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        spanning_tuple(py, &self.state.spanning_ranges)
    }

    /// Unknown Protocol Buffers fields.
    #[getter]
    fn unknown_fields(&self) -> &[u8] {
        &self.state.unknown_fields
    }

    /// The form from which the state was decoded, or None.
    #[getter(form)]
    fn original_form(&self) -> Option<&'static str> {
        self.original.as_ref().map(|(_, form)| form.name())
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.state == other.state
    }

    fn __repr__(&self) -> String {
        let state = &self.state;
        format!(
            "<PositionInfo {} with {} ranges, {} partly acknowledged>",
            state.mark_delete,
            state.individually_deleted.len(),
            state.batch_deleted.len()
        )
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        // A state that was not decoded is pickled in the compact form, which can hold every state.
        let form = slf.get().original.is_none().then(|| Form::Compact.name());
        let bytes = slf.call_method1("encode", (form,))?;
        Ok((decode_without_limit(&slf.get_type())?, PyTuple::new(slf.py(), [bytes])?))
    }

    /// Check the invariants; raise `AssertionError` if one is broken.
    fn validate(&self) -> PyResult<()> {
        valid(self.state.validate())
    }
}

/// The names of the constructor's arguments. Each is also an attribute.
const FIELDS: [&str; 9] = [
    "ledger_id",
    "entry_id",
    "individually_deleted",
    "batch_deleted",
    "properties",
    "redelivery_counts",
    "idle_since",
    "spanning_ranges",
    "unknown_fields",
];

/// Calls `each` for the items of a mapping.
fn each_item<'py, T>(
    mapping: Option<&Bound<'py, PyAny>>,
    mut each: impl FnMut(T) -> PyResult<()>,
) -> PyResult<()>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    let Some(mapping) = mapping else { return Ok(()) };
    for item in mapping.call_method0("items")?.try_iter()? {
        each(item?.extract::<T>()?)?;
    }
    Ok(())
}

/// Returns a copy of a `PositionRangeSet`, or builds one from an iterable of ranges.
fn range_set(py: Python<'_>, ranges: &Bound<'_, PyAny>) -> PyResult<core::PositionRangeSet> {
    let made;
    let set = match ranges.cast::<PositionRangeSet>() {
        Ok(set) => set,
        Err(_) => {
            made = py.get_type::<PositionRangeSet>().call1((ranges,))?;
            made.cast::<PositionRangeSet>()?
        }
    };
    Ok(set.get().0.locked(py).clone())
}

fn counts_dict<'py>(
    py: Python<'py>,
    counts: &BTreeMap<Position, i64>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (&key, &count) in counts {
        dict.set_item(position(py, key)?, count)?;
    }
    Ok(dict)
}

fn spanning_tuple<'py>(
    py: Python<'py>,
    ranges: &[(Position, Position)],
) -> PyResult<Bound<'py, PyTuple>> {
    let pairs: PyResult<Vec<_>> = ranges
        .iter()
        .map(|&(lower, upper)| Ok((position(py, lower)?, position(py, upper)?)))
        .collect();
    PyTuple::new(py, pairs?)
}

/// Converts a loss of the core to `ackwell.loss.LossReport`.
fn loss_report(py: Python<'_>, loss: Loss) -> PyResult<Bound<'_, PyAny>> {
    py.import("ackwell.loss")?.getattr("LossReport")?.call1((
        PositionRangeSet::of(loss.individually_deleted),
        spanning_tuple(py, &loss.spanning_ranges)?,
        AckSets::of(loss.batch_deleted),
        counts_dict(py, &loss.redelivery_counts)?,
        PyTuple::new(py, loss.reasons)?,
    ))
}
