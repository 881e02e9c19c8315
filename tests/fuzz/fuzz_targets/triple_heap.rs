//! `TripleLongHeap` against the model.
#![no_main]

#[path = "../delayed_model.rs"]
mod delayed_model;

use ackwell_core::TripleLongHeap;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    delayed_model::agrees(TripleLongHeap::new(), bytes, true, |time| time, |heap| heap);
});
