//! Every decompressor with a wrong size: exactly that many bytes, or a typed error.
#![no_main]

use ackwell_core::Compression;
use libfuzzer_sys::fuzz_target;

const DECOMPRESSED_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|input: (u8, u32, &[u8])| {
    let (number, size, bytes) = input;
    let compression = Compression::ALL[usize::from(number) % Compression::ALL.len()];
    if let Ok(plain) = compression.decompress(bytes, size as usize, DECOMPRESSED_BYTES_MAX) {
        assert_eq!(plain.len(), size as usize);
    }
    let small = compression.compress(bytes).expect("small enough");
    assert_eq!(compression.decompress(&small, bytes.len(), bytes.len()).as_deref(), Ok(bytes));
});
