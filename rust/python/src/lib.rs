//! `ackwell._native`: the core's structures as Python classes, one file a class.
//!
//! Each method does four things and no more: parse the arguments, let go of the interpreter where the
//! call is a batch, call the core, wrap the result. No rule of the domain lives here.

#[expect(dead_code, reason = "the first class brings it to life")]
mod convert;

#[pyo3::pymodule]
mod _native {}
