//! `ManagedCursorInfo`, with and without the header of compressed values.
#![no_main]

use ackwell_core::{Compression, ManagedCursorInfo};
use libfuzzer_sys::fuzz_target;

const RESULT_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Ok((record, _)) = ManagedCursorInfo::decode(bytes, RESULT_BYTES_MAX) else { return };
    for compression in [None, Some(Compression::Lz4), Some(Compression::Zstd)] {
        let encoded = record.encode(compression).expect("small enough");
        let (again, found) = ManagedCursorInfo::decode(&encoded, 64 << 20).expect("we read what we write");
        assert_eq!(found, compression);
        assert_eq!(again, record);
    }
});
