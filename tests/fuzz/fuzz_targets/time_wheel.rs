//! `TimeWheel` against the model; the first byte chooses the tick.
#![no_main]

#[path = "../delayed_model.rs"]
mod delayed_model;

use ackwell_core::TimeWheel;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, operations)) = bytes.split_first() else { return };
    let tick_ms = [1, 1, 1, 2, 7, 1_000, 1 << 20, 3_600_000][usize::from(first % 8)];
    delayed_model::agrees(
        TimeWheel::new(tick_ms).expect("a tick"),
        operations,
        false,
        |time| -(-time).div_euclid(tick_ms) * tick_ms,
        |mut wheel| TimeWheel::from_bytes(&wheel.to_bytes()).expect("we read what we write"),
    );
});
