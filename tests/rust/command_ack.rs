//! `CommandAck::decode` on the bytes of a plain writer.

use ackwell_core::CommandAck;
use ackwell_core::Error;
use ackwell_core::command_ack::{BATCH_SIZE_MAX, WORDS_MAX};
use proptest::prelude::*;

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_int(out: &mut Vec<u8>, number: u64, value: i64) {
    put_varint(out, number << 3);
    put_varint(out, value as u64);
}

fn put_bytes(out: &mut Vec<u8>, number: u64, content: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

type Id = (i64, i64, Vec<i64>, Option<i32>);

fn message_id((ledger_id, entry_id, words, batch_size): &Id, packed: bool) -> Vec<u8> {
    let mut out = Vec::new();
    put_int(&mut out, 1, *ledger_id);
    put_int(&mut out, 2, *entry_id);
    if packed && !words.is_empty() {
        let mut content = Vec::new();
        words.iter().for_each(|word| put_varint(&mut content, *word as u64));
        put_bytes(&mut out, 5, &content);
    } else {
        words.iter().for_each(|word| put_int(&mut out, 5, *word));
    }
    if let Some(size) = batch_size {
        put_int(&mut out, 6, i64::from(*size));
    }
    out
}

fn command(ids: &[Id], packed: bool) -> Vec<u8> {
    let mut out = Vec::new();
    put_int(&mut out, 1, 7);
    put_int(&mut out, 2, 0);
    ids.iter().for_each(|id| put_bytes(&mut out, 3, &message_id(id, packed)));
    out
}

proptest! {
    #[test]
    fn columns_hold_what_was_written(
        ids in prop::collection::vec(
            (any::<i64>(), any::<i64>(), prop::collection::vec(any::<i64>(), 0..4), prop::option::of(1..99i32)),
            0..20,
        ),
        packed in any::<bool>(),
    ) {
        let read = CommandAck::decode(&command(&ids, packed)).unwrap();
        prop_assert_eq!(read.consumer_id, 7);
        prop_assert_eq!(&read.ledger_ids, &ids.iter().map(|id| id.0).collect::<Vec<_>>());
        prop_assert_eq!(&read.entry_ids, &ids.iter().map(|id| id.1).collect::<Vec<_>>());
        let words: Vec<i64> = ids.iter().flat_map(|id| id.2.clone()).collect();
        prop_assert_eq!(read.ack_sets.is_some(), !words.is_empty());
        if let Some(sets) = read.ack_sets {
            prop_assert_eq!(&sets.words, &words);
            let lengths = sets.starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
            prop_assert_eq!(lengths.collect::<Vec<_>>(), ids.iter().map(|id| id.2.len()).collect::<Vec<_>>());
        }
        let others: Vec<usize> = read.others.iter().map(|(index, _)| *index).collect();
        let sized: Vec<usize> = (0..ids.len()).filter(|&index| ids[index].3.is_some()).collect();
        prop_assert_eq!(others, sized);
    }

    #[test]
    fn any_bytes_are_a_command_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        match CommandAck::decode(&bytes) {
            Ok(_) | Err(Error::Limit(_)) => {}
            Err(Error::Corrupt { offset, .. }) => prop_assert!(offset <= bytes.len()),
            Err(error) => prop_assert!(false, "an error of another kind: {error:?}"),
        }
    }
}

#[test]
fn a_batch_up_to_the_limit_is_read_and_a_larger_one_refused() {
    for packed in [false, true] {
        let whole = command(&[(3, 5, vec![-1; WORDS_MAX], Some(BATCH_SIZE_MAX))], packed);
        assert_eq!(WORDS_MAX, CommandAck::decode(&whole).unwrap().ack_sets.unwrap().words.len());
        let longer = command(&[(3, 5, vec![-1; WORDS_MAX + 1], None)], packed);
        assert!(matches!(CommandAck::decode(&longer), Err(Error::Limit(_))));
        let larger = command(&[(3, 5, vec![], Some(BATCH_SIZE_MAX + 1))], packed);
        assert!(matches!(CommandAck::decode(&larger), Err(Error::Limit(_))));
    }
}

#[test]
fn what_is_beside_ledger_and_entry_is_kept() {
    let mut first = Vec::new();
    put_int(&mut first, 1, 3);
    put_int(&mut first, 2, 1);
    let mut id = Vec::new();
    for (number, value) in [(1, 3), (2, 5), (3, 4), (4, 2), (6, 8), (90, 9)] {
        put_int(&mut id, number, value);
    }
    put_bytes(&mut id, 7, &first);
    let mut out = Vec::new();
    put_int(&mut out, 1, 7);
    put_int(&mut out, 2, 0);
    put_bytes(&mut out, 3, &id);
    let read = CommandAck::decode(&out).unwrap();
    let [(0, message)] = &read.others[..] else { panic!("{:?}", read.others) };
    assert_eq!((message.ledger_id, message.entry_id), (3, 5));
    assert_eq!((message.partition, message.batch_index, message.batch_size), (4, 2, Some(8)));
    let first = message.first_chunk.as_ref().expect("a first chunk");
    assert_eq!((first.ledger_id, first.entry_id), (3, 1));
    assert_eq!((first.partition, first.batch_index, first.batch_size), (-1, -1, None));
    assert_eq!(message.unknown_fields, [0xd0, 0x05, 9]);
}
