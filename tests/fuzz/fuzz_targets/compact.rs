//! The compact form with a valid checksum: the fuzzer gives the body, and the header is computed.
#![no_main]

use ackwell_core::{Form, PositionInfo};
use libfuzzer_sys::fuzz_target;

const RESULT_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let _ = PositionInfo::decode(bytes, RESULT_BYTES_MAX);
    let mut entry = vec![0xac, 1, 0, 0, 0, 0, 0];
    entry.extend_from_slice(bytes);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&entry[..3]);
    crc.update(&entry[7..]);
    let checksum = crc.finalize();
    entry[3..7].copy_from_slice(&checksum.to_le_bytes());
    let Ok((info, _)) = PositionInfo::decode(&entry, RESULT_BYTES_MAX) else { return };
    info.validate().unwrap();
    let encoded = info.encode(Form::Compact).expect("it holds every state");
    let (again, form) = PositionInfo::decode(&encoded, 64 << 20).expect("we read what we write");
    assert_eq!(form, Form::Compact);
    assert_eq!(again, info);
});
