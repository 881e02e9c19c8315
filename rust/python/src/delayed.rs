//! The methods that the three indexes of delayed messages share.
//!
//! PyO3 has no inheritance of methods across Rust types. So the macro `delayed_index!` defines each class with the
//! common methods, which call `DelayedIndex`, and with the methods of the class itself.

use ackwell_core::{DelayedColumns, DelayedMessage};
use pyo3::prelude::*;

use crate::arrays::{Array, array};
use crate::convert::Int;

/// A batch of messages from an index: the arrays `(deliver_at_ms, ledger_ids, entry_ids)`.
pub(crate) type Columns<'py> = (Array<'py, i64>, Array<'py, i64>, Array<'py, i64>);

/// Converts columns to arrays without a copy.
pub(crate) fn arrays(py: Python<'_>, columns: DelayedColumns) -> Columns<'_> {
    (array(py, columns.deliver_at_ms), array(py, columns.ledger_ids), array(py, columns.entry_ids))
}

/// Builds a message from the arguments of a scalar call.
pub(crate) fn message(deliver_at_ms: Int, ledger_id: Int, entry_id: Int) -> DelayedMessage {
    DelayedMessage::new(deliver_at_ms.0, ledger_id.0, entry_id.0)
}

/// Defines the class `$class`, which contains a `SharedCell<ackwell_core::$class>`. `$settings` returns the text of the
/// arguments for `repr`. Two instances are equal if these texts and their messages are equal.
macro_rules! delayed_index {
    ($(#[$meta:meta])* $class:ident, $settings:expr, { $($own:tt)* }) => {
        $(#[$meta])*
        #[pyclass(frozen, module = "ackwell")]
        pub(crate) struct $class($crate::shared::SharedCell<ackwell_core::$class>);

        impl $class {
            fn of(index: ackwell_core::$class) -> Self {
                Self($crate::shared::SharedCell::new(index))
            }

            fn settings(index: &ackwell_core::$class) -> String {
                let settings: fn(&ackwell_core::$class) -> String = $settings;
                settings(index)
            }
        }

        $crate::methods::structure_methods!($class, 0, detached, "Return an independent copy.", {
            /// Add a message; return whether it was new.
            ///
            /// Raises `ValueError` for an integer outside int64 or outside the domain of the class.
            #[pyo3(signature = (deliver_at_ms, ledger_id, entry_id, /))]
            fn add(
                &self,
                py: Python<'_>,
                deliver_at_ms: $crate::convert::Int,
                ledger_id: $crate::convert::Int,
                entry_id: $crate::convert::Int,
            ) -> PyResult<bool> {
                let message = $crate::delayed::message(deliver_at_ms, ledger_id, entry_id);
                self.0.locked(py).add(message).map_err($crate::convert::raise)
            }

            /// Add messages given as int64 arrays of equal length; return how many were new.
            ///
            /// If a message is refused, nothing changes.
            fn add_many(
                &self,
                py: Python<'_>,
                deliver_at_ms: $crate::arrays::Ints<'_>,
                ledger_ids: $crate::arrays::Ints<'_>,
                entry_ids: $crate::arrays::Ints<'_>,
            ) -> PyResult<usize> {
                let columns = [deliver_at_ms, ledger_ids, entry_ids];
                let mut rows = $crate::arrays::Rows::new(columns)?;
                if !ackwell_core::$class::SORTS_BATCHES {
                    rows = rows.in_blocks_of($crate::arrays::SMALL_BLOCK_ROWS);
                }
                let mut new = 0;
                self.0.batch(
                    py,
                    &rows,
                    (!ackwell_core::$class::TAKES_ANY_IDS).then_some($crate::arrays::Check {
                        columns: [1, 2],
                        passes_naturals: true,
                        refuse: |_: &ackwell_core::$class, [ledgers, entries]: $crate::arrays::Block<'_, 2>| {
                            ackwell_core::delayed::check_positions(ledgers, entries)
                        },
                    }),
                    |index, [times, ledgers, entries]| {
                        new += index.add_many(times, ledgers, entries)?;
                        Ok(())
                    },
                )?;
                Ok(new)
            }

            /// Remove and return up to `max` messages due at `now_ms`, the earliest first.
            ///
            /// Returns three int64 arrays: delivery times, ledger ids, entry ids. If memory does not suffice, raises
            /// `MemoryError` and removes nothing.
            fn pop_due<'py>(
                &self,
                py: Python<'py>,
                now_ms: $crate::convert::Int,
                max: $crate::convert::Int,
            ) -> PyResult<$crate::delayed::Columns<'py>> {
                let max = $crate::convert::natural(max, "max")?;
                let due = self.0.detached(py, |index| index.pop_due(now_ms.0, max));
                Ok($crate::delayed::arrays(py, due.map_err($crate::convert::raise)?))
            }

            /// Return whether the index has a message that was added with these three integers.
            #[pyo3(signature = (deliver_at_ms, ledger_id, entry_id, /))]
            fn contains(
                &self,
                py: Python<'_>,
                deliver_at_ms: $crate::convert::Int,
                ledger_id: $crate::convert::Int,
                entry_id: $crate::convert::Int,
            ) -> bool {
                let message = $crate::delayed::message(deliver_at_ms, ledger_id, entry_id);
                self.0.locked(py).contains(message)
            }

            fn __contains__(
                &self,
                py: Python<'_>,
                message: ($crate::convert::Int, $crate::convert::Int, $crate::convert::Int),
            ) -> bool {
                self.contains(py, message.0, message.1, message.2)
            }

            /// Remove the message that was added with these three integers; return whether it was in the index.
            #[pyo3(signature = (deliver_at_ms, ledger_id, entry_id, /))]
            fn remove(
                &self,
                py: Python<'_>,
                deliver_at_ms: $crate::convert::Int,
                ledger_id: $crate::convert::Int,
                entry_id: $crate::convert::Int,
            ) -> bool {
                let message = $crate::delayed::message(deliver_at_ms, ledger_id, entry_id);
                self.0.locked(py).remove(message)
            }

            /// Return whether any message is due at `now_ms`.
            fn has_due(&self, py: Python<'_>, now_ms: $crate::convert::Int) -> bool {
                self.0.locked(py).next_due().is_some_and(|due| due <= now_ms.0)
            }

            /// Return the time at which the earliest message is due, or None.
            fn next_due(&self, py: Python<'_>) -> Option<i64> {
                self.0.locked(py).next_due()
            }

            fn __len__(&self, py: Python<'_>) -> usize {
                self.0.locked(py).len()
            }

            /// Remove every message and release the memory.
            fn clear(&self, py: Python<'_>) {
                self.0.locked(py).clear();
            }

            /// Release memory that is allocated and not used.
            fn shrink_to_fit(&self, py: Python<'_>) {
                self.0.detached(py, |index| index.shrink_to_fit());
            }

            /// Return every message as three int64 arrays, in the order of `pop_due`.
            fn to_arrays<'py>(&self, py: Python<'py>) -> PyResult<$crate::delayed::Columns<'py>> {
                let columns = self.0.detached(py, |index| index.to_columns());
                Ok($crate::delayed::arrays(py, columns.map_err($crate::convert::raise)?))
            }

            fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyIterator>> {
                let columns = self.0.detached(py, |index| index.to_columns());
                let columns = columns.map_err($crate::convert::raise)?;
                let messages = columns.iter().map(|m| (m.deliver_at_ms, m.ledger_id, m.entry_id));
                pyo3::types::PyList::new(py, messages.collect::<Vec<_>>())?.try_iter()
            }

            fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                let Ok(other) = other.cast::<Self>() else {
                    return Ok(py.NotImplemented());
                };
                // Holds one lock at a time. Otherwise, two threads that compare the same instances in opposite orders
                // would wait for each other.
                let content = |index: &mut ackwell_core::$class| {
                    let columns = index.to_columns().map_err($crate::convert::raise)?;
                    PyResult::Ok((Self::settings(index), columns))
                };
                let ours = self.0.detached(py, content)?;
                let equal = ours == other.get().0.detached(py, content)?;
                Ok(pyo3::types::PyBool::new(py, equal).to_owned().into_any().unbind())
            }

            fn __repr__(&self, py: Python<'_>) -> String {
                let index = self.0.locked(py);
                let settings = Self::settings(&index);
                let comma = if settings.is_empty() { "" } else { ", " };
                format!("<{} {settings}{comma}{} messages>", stringify!($class), index.len())
            }

            $($own)*
        });
    };
}

pub(crate) use delayed_index;
