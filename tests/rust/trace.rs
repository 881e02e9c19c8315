//! Traces: any bytes are read up to a line that is not plain, and nothing panics.

use ackwell_core::trace::TraceReader;
use proptest::prelude::*;

fn reader() -> TraceReader {
    TraceReader::new(vec![
        ("publish".into(), true, false),
        ("publish_failed".into(), true, false),
        ("ack".into(), false, false),
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
    assert_eq!((columns.transactions[0], reader.transactions().get(1)), (1, Some("1:2")));
    assert_eq!(
        (reader.topics().get(0), reader.subscriptions().get(0), reader.subscriptions().get(1)),
        (Some("t"), Some(""), Some("s"))
    );
}

#[test]
fn an_ack_set_is_read_in_both_ways() {
    for key in ["", r#""\u0078":null,"#] {
        let line =
            format!(r#"{{{key}"ev":"ack","topic":"t","sub":"s","l":3,"e":5,"ack_set":[7,-1]}}"#);
        let (columns, stop) = reader().read(line.as_bytes(), 1);
        assert_eq!(None, stop.odd, "{line}");
        assert_eq!((&columns.words[..], &columns.set_ends[..]), (&[7, -1][..], &[2][..]), "{line}");
    }
}

/// A key with an escape, so only the general parser reads its line.
const ESCAPED: &str = r#""\u0078":null"#;

fn value() -> impl Strategy<Value = String> {
    const TEXTS: &[&str] = &[
        "publish",
        "ack",
        "t",
        "",
        "a b",
        "ü",
        "\u{7f}",
        "\\n",
        "\\u0061",
        "{",
        "0123456\"",
        "01234567\\",
    ];
    const OTHERS: &[&str] = &[
        "null",
        "true",
        "false",
        "nul",
        "-",
        "-0",
        "00",
        "1.5",
        "1e3",
        "[]",
        "[ ]",
        "[1]",
        "[1, -1]",
        "[1,]",
        "[null]",
        "{}",
        "[[1]]",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
        "[-9223372036854775808]",
        "",
    ];
    prop_oneof![
        4 => any::<u16>().prop_map(|number| number.to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        2 => prop::sample::select(TEXTS).prop_map(|text| format!("\"{text}\"")),
        2 => prop::sample::select(OTHERS).prop_map(str::to_owned),
    ]
}

fn member() -> impl Strategy<Value = String> {
    const KEYS: &[&str] = &[
        "ev",
        "kind",
        "topic",
        "sub",
        "txn",
        "l",
        "e",
        "ledger_id",
        "sequence",
        "bi",
        "batch_size",
        "rc",
        "ack_set",
        "ok",
        "t",
        "deliver_at",
        "c",
        "key",
        "n",
        "other",
        "ü",
        "",
    ];
    let spaces = prop::sample::select(&["", " ", "  ", "\t"][..]);
    (prop::sample::select(KEYS), spaces, value())
        .prop_map(|(key, space, value)| format!("\"{key}\":{space}{value}"))
}

proptest! {
    #[test]
    fn both_ways_of_reading_a_line_give_the_same(
        members in prop::collection::vec(member(), 0..4),
        comma in prop::sample::select(&[",", ", ", " ,"][..]),
        end in prop::sample::select(&["}", "}\n", "}\r\n", " } \t", "}}", "} x", "", "\n}"][..]),
    ) {
        let plain = [r#""ev":"ack""#, r#""topic":"t""#, r#""sub":"s""#].map(str::to_owned);
        let all: Vec<String> = plain.into_iter().chain(members).collect();
        let quick = format!("{{{}{end}", all.join(comma));
        let general = format!("{{{ESCAPED},{}{end}", all.join(comma));
        let (columns, stop) = reader().read(quick.as_bytes(), 1);
        let (others, other) = reader().read(general.as_bytes(), 1);
        prop_assert_eq!(columns, others);
        prop_assert_eq!(stop.lines, other.lines);
        prop_assert_eq!(stop.odd.is_some(), other.odd.is_some());
    }
}

#[test]
fn a_name_that_lines_before_had_is_not_taken_for_another() {
    let line = |topic: &str, subscription: &str| {
        format!(r#"{{"ev":"ack","topic":"{topic}","sub":"{subscription}","l":3,"e":5}}"#)
    };
    let escaped = r#"t\"x"#;
    let names = ["t", "t2", "s", "t", escaped, "t", "t2", escaped, "u", "v", "w", "x", "t"];
    let lines = names.map(|name| line(name, name)).join("\n");
    let mut reader = reader();
    let (columns, stop) = reader.read(lines.as_bytes(), 1);
    assert_eq!(stop.odd, None);
    let read = |numbers: &[i32], known: &ackwell_core::Names| -> Vec<String> {
        let name = |number: &i32| known.get(*number as usize).map(str::to_owned);
        numbers.iter().map(|number| name(number).expect("a known number")).collect()
    };
    let meant = names.map(|name| name.replace('\\', ""));
    assert_eq!(read(&columns.topics, reader.topics()), meant);
    assert_eq!(read(&columns.subscriptions, reader.subscriptions()), meant);
    let torn = br#"{"ev":"ack","topic":"t"x","sub":"t","l":3,"e":5}"#;
    assert_eq!(reader.read(torn, 1).1.odd.map(|odd| odd.end), Some(torn.len()));
}
