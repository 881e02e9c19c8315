//! `TimeBuckets` against the model; the first byte chooses the width and the rounding.
#![no_main]

#[path = "../delayed_model.rs"]
mod delayed_model;

use ackwell_core::{Rounding, TimeBuckets};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, operations)) = bytes.split_first() else { return };
    let (bits, rounding) = match first {
        0..128 => (u32::from(first) % 24, Rounding::Pulsar),
        _ => (u32::from(first) % 24, Rounding::NeverEarly),
    };
    let width = 1i64 << bits;
    let up = if rounding == Rounding::NeverEarly { width - 1 } else { 0 };
    delayed_model::agrees(
        TimeBuckets::new(bits, rounding).expect("bits"),
        operations,
        false,
        |time| (time + up).div_euclid(width) * width,
        |mut index| TimeBuckets::from_bytes(&index.to_bytes()).expect("we read what we write"),
    );
});
