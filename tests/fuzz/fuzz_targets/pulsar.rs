//! `PositionInfo` in Pulsar's forms: any bytes decode to a state that round-trips in every form, or a typed error.
#![no_main]

use ackwell_core::{Form, PositionInfo};
use libfuzzer_sys::fuzz_target;

const RESULT_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Ok((info, _)) = PositionInfo::decode(bytes, RESULT_BYTES_MAX) else { return };
    info.validate().unwrap();
    for form in [Form::PulsarRanges, Form::Compact] {
        let encoded = info.encode(form).expect("these hold every state");
        let (again, _) = PositionInfo::decode(&encoded, 64 << 20).expect("we read what we write");
        let mut expected = info.clone();
        if form.is_pulsar() {
            expected.redelivery_counts.clear();
        }
        assert_eq!(again, expected);
        assert_eq!(again.encode(form).expect("as before"), encoded);
    }
});
