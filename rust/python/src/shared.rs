//! A core structure that Python threads share: a mutex, and the two ways to hold it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;

/// A structure behind a mutex. No Python code ever runs while it is held, so no call can wait for itself.
pub(crate) struct Shared<T>(Mutex<T>);

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Holds it for a scalar call, attached to the interpreter.
    #[inline]
    pub(crate) fn locked(&self, py: Python<'_>) -> MutexGuard<'_, T> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a batch on it without the interpreter.
    pub(crate) fn detached<R: Send>(
        &self,
        py: Python<'_>,
        batch: impl FnOnce(&mut T) -> R + Send,
    ) -> R
    where
        T: Send,
    {
        py.detach(|| batch(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
