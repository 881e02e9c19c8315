//! The codec: every form decodes to the encoded state, and refuses bytes that are not a state.

mod ranges;
mod sizes;
mod states;
mod vectors;

use ackwell_core::position_info::RESULT_BYTES_MAX;
use ackwell_core::{Compression, Error, Form, ManagedCursorInfo, Position, PositionInfo};
use proptest::prelude::*;

fn decode(bytes: &[u8]) -> ackwell_core::Result<(PositionInfo, Form)> {
    PositionInfo::decode(bytes, RESULT_BYTES_MAX)
}

proptest! {
    #[test]
    fn every_form_gives_back_what_was_written(info in states::infos()) {
        for form in Form::ALL {
            let expected = states::held_by(form, &info);
            let bytes = expected.encode(form).unwrap();
            let (decoded, found) = decode(&bytes).unwrap();
            decoded.validate().unwrap();
            prop_assert_eq!(&decoded, &expected);
            let no_acks = expected.individually_deleted.is_empty();
            prop_assert!(found == form || (no_acks && found == Form::PulsarRanges));
            prop_assert_eq!(decoded.encode(form).unwrap(), bytes);
        }
    }

    #[test]
    fn any_bytes_are_a_state_or_a_typed_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        match decode(&bytes) {
            Ok((info, _)) => info.validate().unwrap(),
            Err(Error::Corrupt { offset, .. }) => prop_assert!(offset <= bytes.len()),
            Err(error) => prop_assert!(matches!(error, Error::Limit(_))),
        }
    }

    #[test]
    fn a_changed_bit_of_compact_is_always_found(info in states::infos(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = info.encode(Form::Compact).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn a_torn_compact_is_always_found(info in states::infos(), at in any::<prop::sample::Index>()) {
        let bytes = info.encode(Form::Compact).unwrap();
        prop_assert!(decode(&bytes[..at.index(bytes.len())]).is_err());
    }
}

proptest! {
    #[test]
    fn a_cursor_record_gives_back_what_was_written(
        info in states::infos(),
        ledger_id in any::<i64>(),
        last_active in any::<Option<i64>>(),
        cursor_properties in prop::collection::btree_map("[a-zäü]{0,40}", "[a-zäü]{0,300}", 0..3),
        compression in prop::option::of(prop::sample::select(&Compression::ALL[..])),
    ) {
        let mut record = ManagedCursorInfo::new(ledger_id);
        let mut held = states::held_by(Form::PulsarRanges, &info);
        held.redelivery_counts.clear();
        held.idle_since = None;
        held.set_unknown_fields(&[]).unwrap();
        record.set_position_info(held).unwrap();
        record.last_active = last_active;
        record.cursor_properties = cursor_properties;
        let bytes = record.encode(compression).unwrap();
        prop_assert_eq!(ManagedCursorInfo::decode(&bytes, RESULT_BYTES_MAX).unwrap(), (record, compression));
    }
}

#[test]
fn validate_says_which_invariant_is_broken_and_does_not_panic() {
    let mut info = PositionInfo::new(Position::new(-1, 0));
    assert_eq!(Err("mark-delete -1:0".to_owned()), info.validate());
    info.mark_delete = Position::new(3, -1);
    assert_eq!(Ok(()), info.validate());
    info.batch_deleted.insert(Position::new(3, -1), &[1]);
    assert_eq!(Err("ack set of 3:-1".to_owned()), info.validate());
}
