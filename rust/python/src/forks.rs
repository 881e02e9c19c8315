//! Makes a fork wait until no batch runs detached.
//!
//! A forked child has the memory of all threads but only one thread. If a batch of another thread held a structure at
//! the fork, the structure in the child would be half changed and locked for ever. So `os.fork` waits for running
//! batches. A batch that begins between the wait and the fork runs attached. The thread that forks is attached too, so
//! the fork cannot happen during that batch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

/// The number of batches that run detached. Only attached threads change it.
static BATCHES: AtomicUsize = AtomicUsize::new(0);
/// The number of pending forks: those that wait for batches, and those that no longer wait and are about to happen.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// A guard of a detached batch, which counts as running until the guard is dropped.
pub(crate) struct Batch(());

/// Counts a batch that will run detached, until the returned guard is dropped. Returns `None` if a fork is pending; the
/// batch must then run attached.
pub(crate) fn begin_batch() -> Option<Batch> {
    BATCHES.fetch_add(1, Ordering::SeqCst);
    let batch = Batch(());
    (FORKS.load(Ordering::SeqCst) == 0).then_some(batch)
}

impl Drop for Batch {
    fn drop(&mut self) {
        BATCHES.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes every fork of this process wait for batches.
pub(crate) fn register(py: Python<'_>) -> PyResult<()> {
    // Not every platform forks.
    let Ok(register) = py.import("os")?.getattr("register_at_fork") else { return Ok(()) };
    let hook = |run: fn(Python<'_>)| {
        PyCFunction::new_closure(py, None, None, move |args: &Bound<'_, PyTuple>, _| run(args.py()))
    };
    let hooks = PyDict::new(py);
    hooks.set_item("before", hook(wait_for_batches)?)?;
    hooks.set_item("after_in_parent", hook(|_| end_fork())?)?;
    hooks.set_item("after_in_child", hook(|_| end_fork())?)?;
    register.call((), Some(&hooks)).map(drop)
}

fn wait_for_batches(py: Python<'_>) {
    FORKS.fetch_add(1, Ordering::SeqCst);
    while BATCHES.load(Ordering::SeqCst) > 0 {
        py.detach(|| thread::sleep(Duration::from_micros(100)));
    }
}

fn end_fork() {
    FORKS.fetch_sub(1, Ordering::SeqCst);
}
