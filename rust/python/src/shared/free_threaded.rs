//! The lock for a free-threaded Python: a mutex. A waiting thread is detached from the interpreter.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;

/// A structure with a lock.
pub(crate) struct SharedCell<T>(Mutex<T>);

impl<T: Send> SharedCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Locks the structure for a scalar call; the thread stays attached to the interpreter.
    #[inline]
    pub(crate) fn locked(&self, py: Python<'_>) -> MutexGuard<'_, T> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the structure and runs a batch, detached from the interpreter.
    pub(super) fn run_detached<R: Send>(
        &self,
        py: Python<'_>,
        batch: impl FnOnce(&mut T) -> R + Send,
    ) -> R {
        py.detach(|| batch(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
