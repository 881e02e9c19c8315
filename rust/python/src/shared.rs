//! A core structure that Python threads share, and the two ways to hold it.
//!
//! **Representation.** A flag beside the structure says that somebody holds it. Only a thread attached to the
//! interpreter looks at the flag and sets it, and no other is attached meanwhile: so this needs no atomic
//! read-modify-write, of which a mutex takes two, longer than most scalar calls do. A batch sets the flag, and
//! works detached; who finds the flag set detaches and waits for the batch's mutex.
//!
//! **Invariant.** The structure is touched only through a `Held`, and there is one at a time.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

#[cfg(Py_GIL_DISABLED)]
compile_error!("`Shared` stands on the interpreter's lock, which a free-threaded Python has not");

/// A structure behind a lock. No Python code ever runs while it is held, so no call can wait for itself.
pub(crate) struct Shared<T> {
    /// Set by attached threads, cleared by the one that set it.
    is_held: AtomicBool,
    /// Locked while a batch works detached: what others wait for.
    batch: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `Held` alone, of which there is one at a time.
unsafe impl<T: Send> Sync for Shared<T> {}

/// The only access there is, until it is dropped.
pub(crate) struct Held<'a, T> {
    shared: &'a Shared<T>,
    /// As a `&mut T` it goes to other threads, or not.
    exclusive: PhantomData<&'a mut T>,
}

impl<T> Shared<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            is_held: AtomicBool::new(false),
            batch: Mutex::new(()),
            value: UnsafeCell::new(value),
        }
    }

    /// Holds it for a scalar call, attached to the interpreter.
    #[inline]
    pub(crate) fn locked(&self, py: Python<'_>) -> Held<'_, T>
    where
        T: Send,
    {
        if self.is_held.load(Ordering::Acquire) {
            self.wait(py);
        }
        // This thread has been attached since the flag was seen clear, so nobody else has set it.
        self.is_held.store(true, Ordering::Relaxed);
        Held { shared: self, exclusive: PhantomData }
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
        let held = self.locked(py);
        py.detach(|| {
            let _waited_for = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
            // Dropped first, also by a panic: who wakes up finds the flag clear.
            let mut held = held;
            batch(&mut held)
        })
    }

    /// Returns attached, with the flag clear.
    #[cold]
    fn wait(&self, py: Python<'_>)
    where
        T: Send,
    {
        while self.is_held.load(Ordering::Acquire) {
            py.detach(|| drop(self.batch.lock()));
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is no other `Held`, and no `&mut` to this one.
        unsafe { &*self.shared.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is no other `Held`, and no other reference to this one.
        unsafe { &mut *self.shared.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.shared.is_held.store(false, Ordering::Release);
    }
}
