//! The class `TimeBuckets`.

use ackwell_core::{DelayedIndex, Rounding};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::{Int, raise};
use crate::delayed::delayed_index;

fn rounding(mode: &str) -> PyResult<Rounding> {
    match mode {
        "round_down" => Ok(Rounding::Down),
        "round_up" => Ok(Rounding::Up),
        "bucket_end" => Ok(Rounding::BucketEnd),
        other => Err(PyValueError::new_err(format!(
            "mode is 'round_down', 'round_up' or 'bucket_end', got {other:?}"
        ))),
    }
}

fn mode(rounding: Rounding) -> &'static str {
    match rounding {
        Rounding::Down => "round_down",
        Rounding::Up => "round_up",
        Rounding::BucketEnd => "bucket_end",
    }
}

delayed_index! {
    /// An index of delayed messages by time bucket, with a roaring set of entry ids for each bucket and ledger.
    ///
    /// The lowest `bits` bits (0 to 62) of a time are dropped, so that messages of nearby times compress as one set.
    ///
    /// Parameters
    /// ----------
    /// bits : int
    ///     Buckets are `2**bits` ms wide.
    /// mode : {"round_down", "round_up", "bucket_end"}
    ///     The time at which all messages of a bucket are due. "round_down": the multiple of `2**bits` at or before
    ///     their time, so up to `2**bits - 1` ms early, as in apache/pulsar#23611. "round_up": the multiple at or after
    ///     their time, so never early, as in Pulsar 4.2.4 with the strict cut-off. "bucket_end": the last ms before the
    ///     next multiple, so never early, as in Pulsar 4.2.4 with the lenient cut-off.
    ///
    /// Notes
    /// -----
    /// Ledger and entry ids are at least 0 (`ValueError`). Times are int64 milliseconds; returned times are those of
    /// the buckets. A message is new unless its bucket already has a message with the same position.
    ///
    /// Examples
    /// --------
    /// >>> from ackwell import TimeBuckets
    /// >>> buckets = TimeBuckets(10)
    /// >>> buckets.add_many([5_000, 5_001, 9_000], [3, 3, 3], [15, 16, 17])
    /// 3
    /// >>> buckets.add(5_100, 3, 16)
    /// False
    /// >>> buckets.next_due()
    /// 4096
    /// >>> [column.tolist() for column in buckets.pop_due(4_500, 10)]
    /// [[4096, 4096], [3, 3], [15, 16]]
    /// >>> TimeBuckets.from_bytes(buckets.to_bytes()) == buckets
    /// True
    TimeBuckets, |index| format!("bits={}, mode='{}'", index.bits(), mode(index.rounding())), {
        #[new]
        #[pyo3(signature = (bits, mode = "round_down"))]
        fn new(bits: Int, mode: &str) -> PyResult<Self> {
            let bits = u32::try_from(bits.0)
                .map_err(|_| PyValueError::new_err(format!("bits are 0 to 62, got {}", bits.0)))?;
            ackwell_core::TimeBuckets::new(bits, rounding(mode)?).map(Self::of).map_err(raise)
        }

        /// Create an index with the bucket width that the broker derives from a tick time: floor(log2(tick)) bits.
        #[staticmethod]
        #[pyo3(signature = (tick_time_ms, mode = "round_down"))]
        fn from_tick(tick_time_ms: Int, mode: &str) -> PyResult<Self> {
            ackwell_core::TimeBuckets::from_tick(tick_time_ms.0, rounding(mode)?)
                .map(Self::of)
                .map_err(raise)
        }

        /// The number of low bits that are dropped from each delivery time.
        #[getter]
        fn bits(&self, py: Python<'_>) -> u32 {
            self.0.locked(py).bits()
        }

        /// The mode: "round_down", "round_up" or "bucket_end".
        #[getter]
        fn mode(&self, py: Python<'_>) -> &'static str {
            mode(self.0.locked(py).rounding())
        }

        /// The number of buckets that hold a message.
        #[getter]
        fn bucket_count(&self, py: Python<'_>) -> usize {
            self.0.locked(py).bucket_count()
        }

        /// The length of `to_bytes()` in bytes. O(n).
        #[getter]
        fn serialized_size(&self, py: Python<'_>) -> usize {
            self.0.detached(py, |index| index.to_bytes().len())
        }

        /// Encode the index: magic, version, sets and checksum. See `docs/formats.md`.
        fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
            PyBytes::new(py, &self.0.detached(py, |index| index.to_bytes()))
        }

        /// Decode the bytes of `to_bytes`.
        ///
        /// Raises `CorruptStateError` with the offset for invalid bytes or a newer version, and `LimitError` for more
        /// than 2^32 messages.
        #[staticmethod]
        fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
            py.detach(|| ackwell_core::TimeBuckets::from_bytes(data)).map(Self::of).map_err(raise)
        }

        /// Return the entry ids of a ledger in the bucket of a time as `(data, wide)`.
        ///
        /// Return None if the bucket has no messages of the ledger. `data` is a roaring bitmap in the portable format,
        /// which roaring libraries read. `wide` is true for the 64-bit form, which is used if an id exceeds 32 bits.
        fn to_roaring<'py>(
            &self,
            py: Python<'py>,
            deliver_at_ms: Int,
            ledger_id: Int,
        ) -> Option<(Bound<'py, PyBytes>, bool)> {
            let (data, wide) = self.0.locked(py).to_roaring(deliver_at_ms.0, ledger_id.0)?;
            Some((PyBytes::new(py, &data), wide))
        }

        /// Add a message for each entry id in a portable roaring bitmap; return how many were new.
        ///
        /// Raises `CorruptStateError` for bytes that are not such a bitmap.
        #[pyo3(signature = (deliver_at_ms, ledger_id, data, *, wide = false))]
        fn add_roaring(
            &self,
            py: Python<'_>,
            deliver_at_ms: Int,
            ledger_id: Int,
            data: &[u8],
            wide: bool,
        ) -> PyResult<usize> {
            self.0.locked(py).add_roaring(deliver_at_ms.0, ledger_id.0, data, wide).map_err(raise)
        }

        fn __reduce__<'py>(
            slf: &Bound<'py, Self>,
        ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
            let restore = slf.get_type().getattr("from_bytes")?;
            Ok((restore, (slf.get().to_bytes(slf.py()),)))
        }
    }
}
