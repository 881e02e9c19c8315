//! The class `TimeWheel`.

use ackwell_core::DelayedIndex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::{Int, raise};
use crate::delayed::delayed_index;

delayed_index! {
    /// An index of delayed messages in time slots, each a compressed stream. It is exact with ticks of 1 ms.
    ///
    /// Messages with a fixed delay take memory for each ledger, not for each message: 10 million take 4 kB. With random
    /// times, a message takes 2.7 bytes with ticks of a second and 4 bytes with ticks of 1 ms, near the entropy in both
    /// cases.
    ///
    /// Parameters
    /// ----------
    /// tick_ms : int
    ///     Times are rounded up to multiples of this number, which must be at least 1. So a message is never early, and
    ///     always less than a tick late. Times near the end of int64 saturate.
    ///
    /// Notes
    /// -----
    /// Ledger and entry ids are at least 0 (`ValueError`). A message is new unless its tick already has a message with
    /// the same position. Positions may come in any order. In ascending order they compress best. `contains`
    /// and `remove` decode at most 1,024 records.
    ///
    /// Examples
    /// --------
    /// >>> from ackwell import TimeWheel
    /// >>> wheel = TimeWheel(1)
    /// >>> wheel.add_many([5_000, 5_001, 9_000], [3, 3, 3], [15, 16, 17])
    /// 3
    /// >>> wheel.add(5_001, 3, 16), wheel.remove(9_000, 3, 17)
    /// (False, True)
    /// >>> wheel.next_due()
    /// 5000
    /// >>> [column.tolist() for column in wheel.pop_due(5_000, 10)]
    /// [[5000], [3], [15]]
    /// >>> TimeWheel.from_bytes(wheel.to_bytes()) == wheel
    /// True
    TimeWheel, |index| format!("tick_ms={}", index.tick_ms()), {
        #[new]
        fn new(tick_ms: Int) -> PyResult<Self> {
            ackwell_core::TimeWheel::new(tick_ms.0).map(Self::of).map_err(raise)
        }

        /// The width of a tick in milliseconds.
        #[getter]
        fn tick_ms(&self, py: Python<'_>) -> i64 {
            self.0.locked(py).tick_ms()
        }

        /// The length of `to_bytes()` in bytes. O(n).
        #[getter]
        fn serialized_size(&self, py: Python<'_>) -> usize {
            self.0.detached(py, |index| index.to_bytes().len())
        }

        /// Encode the index: magic, version, streams and checksum. See `docs/formats.md`.
        fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
            PyBytes::new(py, &self.0.detached(py, |index| index.to_bytes()))
        }

        /// Decode the bytes of `to_bytes`.
        ///
        /// Raises `CorruptStateError` with the offset for invalid bytes or a newer version, and `LimitError` for more
        /// than 2^32 messages.
        #[staticmethod]
        fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
            py.detach(|| ackwell_core::TimeWheel::from_bytes(data)).map(Self::of).map_err(raise)
        }

        fn __reduce__<'py>(
            slf: &Bound<'py, Self>,
        ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
            let restore = slf.get_type().getattr("from_bytes")?;
            Ok((restore, (slf.get().to_bytes(slf.py()),)))
        }
    }
}
