//! The lock for a Python with a global interpreter lock.
//!
//! **Representation.** A flag next to the structure marks it as locked. Only a thread that is attached to the
//! interpreter reads and sets the flag, and only one thread is attached at a time. So locking needs no atomic
//! read-modify-write operation. A mutex needs two, which take longer than most scalar calls. A batch sets the flag and
//! runs detached. A thread that finds the flag set detaches and waits for the mutex of the batch.
//!
//! **Invariant.** The structure is accessed only through a `Guard`, and at most one exists at a time.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

/// A structure with a lock.
pub(crate) struct SharedCell<T> {
    /// Whether a call has locked the structure. An attached thread sets the flag, and the same thread clears it.
    is_held: AtomicBool,
    /// Locked while a batch runs detached; other threads wait for it.
    batch: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessed only through a `Guard`, and at most one exists at a time.
unsafe impl<T: Send> Sync for SharedCell<T> {}

/// A lock on the structure, and the only access to it. Dropping it unlocks the structure.
pub(crate) struct Guard<'a, T> {
    shared: &'a SharedCell<T>,
    /// Makes `Guard` `Send` under the same condition as a `&mut T`: if `T` is `Send`.
    exclusive: PhantomData<&'a mut T>,
}

impl<T: Send> SharedCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            is_held: AtomicBool::new(false),
            batch: Mutex::new(()),
            value: UnsafeCell::new(value),
        }
    }

    /// Locks the structure for a scalar call; the thread stays attached to the interpreter.
    #[inline]
    pub(crate) fn locked(&self, py: Python<'_>) -> Guard<'_, T> {
        if self.is_held.load(Ordering::Acquire) {
            self.wait(py);
        }
        // This thread has stayed attached since it read the flag as clear, so no other thread has set it.
        self.is_held.store(true, Ordering::Relaxed);
        Guard { shared: self, exclusive: PhantomData }
    }

    /// Locks the structure and runs a batch, detached from the interpreter.
    pub(super) fn run_detached<R: Send>(
        &self,
        py: Python<'_>,
        batch: impl FnOnce(&mut T) -> R + Send,
    ) -> R {
        let held = self.locked(py);
        py.detach(|| {
            let _others_wait = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
            // This lock is dropped before the mutex, also in a panic. So a thread that waited for the mutex reads the
            // flag as clear.
            let mut held = held;
            batch(&mut held)
        })
    }

    /// Waits until the flag is clear. The thread is attached again when this returns.
    #[cold]
    fn wait(&self, py: Python<'_>) {
        while self.is_held.load(Ordering::Acquire) {
            py.detach(|| drop(self.batch.lock()));
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no other `Guard` exists, and no `&mut` to this one.
        unsafe { &*self.shared.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: no other `Guard` exists, and no other reference to this one.
        unsafe { &mut *self.shared.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.shared.is_held.store(false, Ordering::Release);
    }
}
