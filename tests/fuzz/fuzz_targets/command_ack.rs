//! `CommandAck`: any bytes decode to a command or a typed error.
#![no_main]

use ackwell_core::{CommandAck, Error};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match CommandAck::decode(bytes) {
    Ok(command) => {
        assert_eq!(command.ledger_ids.len(), command.entry_ids.len());
        if let Some(sets) = command.ack_sets {
            assert_eq!(sets.starts.len(), command.ledger_ids.len() + 1);
            assert!(sets.starts.is_sorted());
            assert_eq!(sets.starts.last(), Some(&(sets.words.len() as i64)));
        }
        assert!(command.others.iter().all(|(index, _)| *index < command.ledger_ids.len()));
    }
    Err(Error::Corrupt { offset, .. }) => assert!(offset <= bytes.len()),
    Err(error) => assert!(matches!(error, Error::Limit(_))),
});
