//! A core structure that Python threads share, and the two ways of locking it.
//!
//! A scalar call holds the structure while it is attached to the interpreter, a batch while it is detached. No Python
//! code runs while a structure is held, so a call cannot wait for itself.

#[cfg_attr(Py_GIL_DISABLED, path = "shared/free_threaded.rs")]
#[cfg_attr(not(Py_GIL_DISABLED), path = "shared/with_gil.rs")]
mod lock;

use pyo3::prelude::*;

use crate::forks;
pub(crate) use lock::Shared;

impl<T: Send> Shared<T> {
    /// Locks the structure and runs a batch detached from the interpreter.
    pub(crate) fn detached<R: Send>(
        &self,
        py: Python<'_>,
        batch: impl FnOnce(&mut T) -> R + Send,
    ) -> R {
        // A fork would copy the structure in the middle of a change, locked by a thread that the child does not have.
        match forks::begin_batch() {
            Some(_batch) => self.run_detached(py, batch),
            None => batch(&mut self.locked(py)),
        }
    }
}
