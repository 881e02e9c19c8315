//! Traces: any bytes are read up to a line that is not plain, and nothing panics.

use ackwell_core::trace::TraceReader;
use proptest::prelude::*;

fn reader() -> TraceReader {
    TraceReader::new(vec![
        ("publish".into(), true),
        ("publish_failed".into(), true),
        ("ack".into(), false),
    ])
}

proptest! {
    #[test]
    fn any_bytes_are_read_up_to_a_line_that_is_not_plain(
        lines in prop::collection::vec(prop_oneof![
            Just(&br#"{"ev":"publish","topic":"t","l":3,"e":0}"#[..]),
            Just(&br#"{"ev":"ack","topic":"t","sub":"s","l":3,"e":0,"ack_set":[1,-1]}"#[..]),
            Just(&b""[..]),
            Just(&br#"{"ev":"ack","topic":"t","sub":"s","l":3,"e":0,"e":1}"#[..]),
            Just(&b"\xff{"[..]),
        ], 0..20)
    ) {
        let data = lines.join(&b"\n"[..]);
        let (columns, stop) = reader().read(&data, 1);
        prop_assert_eq!(columns.kinds.len(), columns.ledger_ids.len());
        prop_assert_eq!(columns.kinds.len(), columns.set_ends.len());
        prop_assert!(stop.bytes <= data.len());
        prop_assert_eq!(stop.odd.is_none(), stop.bytes == data.len());
        let plain = lines.iter().take(stop.lines as usize).filter(|line| !line.is_empty()).count();
        prop_assert_eq!(columns.kinds.len(), plain);
    }
}

#[test]
fn a_line_gives_its_fields() {
    let mut reader = reader();
    reader.set_defaults(Some("t"), None);
    let line = br#"{"kind":"ack","sub":"s","l":3,"e":5,"bi":2,"batch_size":9,"txn":"1:2"}"#;
    let (columns, stop) = reader.read(line, 7);
    assert_eq!((stop.bytes, stop.lines, stop.odd), (line.len(), 1, None));
    assert_eq!((columns.kinds[0], columns.ledger_ids[0], columns.entry_ids[0]), (2, 3, 5));
    assert_eq!((columns.sequences[0], columns.batch_indexes[0], columns.batch_sizes[0]), (7, 2, 9));
    assert_eq!(columns.transactions, [(0, "1:2".to_owned())]);
    assert_eq!(
        (reader.topics(), reader.subscriptions()),
        (&["t".into()][..], &[String::new(), "s".into()][..])
    );
}
