//! A core structure that Python threads share, and the two ways to lock it: for a scalar call and for a batch.
//!
//! A scalar call stays attached to the interpreter while the structure is locked. A batch is detached from the
//! interpreter while the structure is locked. No Python code runs while a structure is locked, so a call cannot wait
//! for a lock that its own thread holds.

#[cfg_attr(Py_GIL_DISABLED, path = "shared/free_threaded.rs")]
#[cfg_attr(not(Py_GIL_DISABLED), path = "shared/with_gil.rs")]
mod lock;

use pyo3::prelude::*;

use crate::forks;
pub(crate) use lock::SharedCell;

impl<T: Send> SharedCell<T> {
    /// Locks the structure and runs a scalar call.
    pub(crate) fn attached<R>(&self, py: Python<'_>, call: impl FnOnce(&mut T) -> R) -> R {
        call(&mut self.locked(py))
    }

    /// Locks the structure and runs a batch detached from the interpreter.
    pub(crate) fn detached<R: Send>(
        &self,
        py: Python<'_>,
        batch: impl FnOnce(&mut T) -> R + Send,
    ) -> R {
        // A fork during the batch would copy the structure in the middle of a change, and locked by a thread that does
        // not exist in the child.
        match forks::begin_batch() {
            Some(_batch) => self.run_detached(py, batch),
            None => batch(&mut self.locked(py)),
        }
    }
}
