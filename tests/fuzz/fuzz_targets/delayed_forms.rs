//! The saved forms of `TimeBuckets` and `TimeWheel` with a valid checksum: the fuzzer gives the body.
#![no_main]

use ackwell_core::{DelayedIndex, TimeBuckets, TimeWheel};
use libfuzzer_sys::fuzz_target;

fn framed(magic: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = [magic, &[1][..], body].concat();
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    let _ = (TimeBuckets::from_bytes(bytes), TimeWheel::from_bytes(bytes));
    if let Ok(mut buckets) = TimeBuckets::from_bytes(&framed(b"AKTB", bytes)) {
        buckets.validate().expect("what is restored is valid");
        let again = TimeBuckets::from_bytes(&buckets.to_bytes()).expect("we read what we write");
        assert_eq!(again.len(), buckets.len());
    }
    if let Ok(mut wheel) = TimeWheel::from_bytes(&framed(b"AKTW", bytes)) {
        wheel.validate().expect("what is restored is valid");
        let mut again = TimeWheel::from_bytes(&wheel.to_bytes()).expect("we read what we write");
        assert_eq!(again.len(), wheel.len());
        assert_eq!(again.pop_due(i64::MAX, 1000).unwrap(), wheel.pop_due(i64::MAX, 1000).unwrap());
    }
});
