//! `TimeBuckets` against the model; the first byte chooses the width and the rounding.
#![no_main]

#[path = "../delayed_model.rs"]
mod delayed_model;

use ackwell_core::{Rounding, TimeBuckets};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, operations)) = bytes.split_first() else { return };
    let (bits, rounding) = match first {
        0..85 => (u32::from(first) % 24, Rounding::Down),
        85..170 => (u32::from(first) % 24, Rounding::Up),
        _ => (u32::from(first) % 24, Rounding::BucketEnd),
    };
    let width = 1i64 << bits;
    let before = if rounding == Rounding::Up { width - 1 } else { 0 };
    let after = if rounding == Rounding::BucketEnd { width - 1 } else { 0 };
    delayed_model::agrees(
        TimeBuckets::new(bits, rounding).expect("bits"),
        operations,
        false,
        |time| (time + before).div_euclid(width) * width + after,
        |mut index| TimeBuckets::from_bytes(&index.to_bytes()).expect("we read what we write"),
    );
});
