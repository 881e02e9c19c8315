//! The class `TripleLongHeap`.

use ackwell_core::DelayedIndex;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::delayed::{Columns, delayed_index};

type Triple = (i64, i64, i64);

delayed_index! {
    /// An exact min-heap of `(deliver_at_ms, ledger_id, entry_id)`, ordered by all three.
    ///
    /// Any three int64 are valid. Duplicates are separate messages. The structure is a ladder queue, not a binary heap:
    /// from its addition until it is popped, a message is moved O(1) times (amortised) and sorted in cache once. A
    /// message takes 8 to 9 bytes after bulk adds. `contains` and `remove` are O(n). The order is that of Apache
    /// Pulsar's `TripleLongPriorityQueue`.
    ///
    /// Examples
    /// --------
    /// >>> from ackwell import TripleLongHeap
    /// >>> heap = TripleLongHeap()
    /// >>> heap.add(1_000, 3, 15)
    /// True
    /// >>> heap.add_many([500, 2_000], [3, 3], [16, 17])
    /// 2
    /// >>> heap.peek()
    /// (500, 3, 16)
    /// >>> [column.tolist() for column in heap.pop_due(1_500, 10)]
    /// [[500, 1000], [3, 3], [16, 15]]
    /// >>> heap
    /// <TripleLongHeap 1 messages>
    TripleLongHeap, |_| String::new(), {
        #[new]
        fn new() -> Self {
            Self::of(ackwell_core::TripleLongHeap::new())
        }

        /// Return the earliest message; `IndexError` if there is none.
        fn peek(&self, py: Python<'_>) -> PyResult<Triple> {
            let message = self.0.locked(py).peek();
            message
                .map(|m| (m.deliver_at_ms, m.ledger_id, m.entry_id))
                .ok_or_else(|| PyIndexError::new_err("peek of an empty heap"))
        }

        /// Remove and return the earliest message; `IndexError` if there is none.
        fn pop(&self, py: Python<'_>) -> PyResult<Triple> {
            let message = self.0.locked(py).pop();
            message
                .map(|m| (m.deliver_at_ms, m.ledger_id, m.entry_id))
                .ok_or_else(|| PyIndexError::new_err("pop from an empty heap"))
        }

        /// The number of messages that fit into the allocated memory.
        #[getter]
        fn capacity(&self, py: Python<'_>) -> usize {
            self.0.locked(py).capacity()
        }

        /// Build a heap from three int64 arrays of equal length.
        #[staticmethod]
        fn from_arrays(
            py: Python<'_>,
            deliver_at_ms: crate::arrays::Ints<'_>,
            ledger_ids: crate::arrays::Ints<'_>,
            entry_ids: crate::arrays::Ints<'_>,
        ) -> PyResult<Self> {
            let heap = Self::new();
            heap.add_many(py, deliver_at_ms, ledger_ids, entry_ids)?;
            Ok(heap)
        }

        fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Columns<'py>)> {
            let restore = slf.get_type().getattr("from_arrays")?;
            Ok((restore, slf.get().to_arrays(slf.py())?))
        }
    }
}
