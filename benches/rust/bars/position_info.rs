//! `PositionInfo` on the states that the peers' `DMain` times: encoding and decoding, in each form.

use std::hint::black_box;

use ackwell_core::position_info::RESULT_BYTES_MAX;
use ackwell_core::{Form, Position, PositionInfo};

use crate::range_acks;
use crate::window::{once_each, print};

pub(crate) fn measure(name: &str) {
    let (acks, _) = range_acks::named(name);
    let mut info = PositionInfo::new(Position::new(100, -1));
    let set = &mut info.individually_deleted;
    set.add_many(&acks.ledger_ids, &acks.entry_ids).expect("positions that can be");
    for form in Form::ALL {
        let bytes = info.encode(form).expect("a state that every form holds");
        print(name, &format!("{form} bytes"), &[bytes.len() as f64]);
        let time = |operation: &str, work: &mut dyn FnMut()| {
            print(name, &format!("{form} {operation}"), &once_each(|| (), |()| work()));
        };
        time("encode", &mut || _ = black_box(info.encode(form)));
        time("decode", &mut || {
            let (decoded, _) = PositionInfo::decode(&bytes, RESULT_BYTES_MAX).expect("own bytes");
            assert_eq!(info.individually_deleted.len(), decoded.individually_deleted.len());
        });
    }
}
