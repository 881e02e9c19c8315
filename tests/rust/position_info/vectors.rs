//! `tests/vectors/position_info.toml`, which the Python engines replay, too.

use ackwell_core::{Error, Position, PositionInfo, PositionRangeSet};
use toml::{Table, Value};

use super::decode;

fn hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("hexadecimal digits");
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(digits).collect()
}

fn int(value: &Value) -> i64 {
    value.as_integer().expect("an integer")
}

fn position(values: &[Value]) -> Position {
    Position::new(int(&values[0]), int(&values[1]))
}

/// The rows of a list that may be missing.
fn rows<'a>(case: &'a Table, key: &str) -> impl Iterator<Item = &'a Vec<Value>> {
    let rows = case.get(key).map(|rows| rows.as_array().expect("a list of rows"));
    rows.into_iter().flatten().map(|row| row.as_array().expect("a row"))
}

fn state(case: &Table) -> PositionInfo {
    let mark_delete = case["mark_delete"].as_array().expect("a position");
    let mut info = PositionInfo::new(position(mark_delete));
    if let Some(text) = case.get("individually_deleted") {
        let text = text.as_str().expect("ranges as they are printed");
        info.individually_deleted = PositionRangeSet::parse(text).expect("ranges");
    }
    for row in rows(case, "batch_deleted") {
        let words: Vec<i64> = row[2].as_array().expect("words").iter().map(int).collect();
        info.batch_deleted.insert(position(row), &words);
    }
    for (name, value) in case.get("properties").and_then(Value::as_table).into_iter().flatten() {
        info.properties.insert(name.clone(), int(value));
    }
    for row in rows(case, "redelivery_counts") {
        info.insert_redelivery_count(position(row), int(&row[2])).expect("a count");
    }
    info.idle_since = case.get("idle_since").map(int);
    info.spanning_ranges =
        rows(case, "spanning_ranges").map(|row| (position(row), position(&row[2..]))).collect();
    if let Some(fields) = case.get("unknown_fields") {
        info.set_unknown_fields(&hex(fields)).expect("whole fields");
    }
    info
}

#[test]
fn every_vector_is_read_and_written_as_it_says() {
    let all: Table = include_str!("../../vectors/position_info.toml").parse().expect("TOML");
    let cases = |key: &str| all[key].as_array().expect("cases").iter().map(|case| case.as_table());
    let mut seen = 0;
    for case in cases("state").map(|case| case.expect("a case")) {
        let (bytes, name) = (hex(&case["bytes"]), &case["name"]);
        let (info, form) = decode(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        info.validate().unwrap();
        assert_eq!(state(case), info, "{name}");
        assert_eq!(case["form"].as_str(), Some(form.name()), "{name}");
        let written = case.get("written").map_or(bytes, hex);
        assert_eq!(written, info.encode(form).expect("its own form holds it"), "{name}");
        seen += 1;
    }
    for case in cases("refused").map(|case| case.expect("a case")) {
        let (found, offset) = match decode(&hex(&case["bytes"])) {
            Err(Error::Corrupt { offset, .. }) => ("CorruptStateError", offset),
            Err(Error::NewerVersion { offset, .. }) => ("NewerVersionError", offset),
            other => panic!("{}: {other:?}", case["name"]),
        };
        assert_eq!(case["error"].as_str(), Some(found), "{}", case["name"]);
        assert_eq!(int(&case["offset"]), offset as i64, "{}", case["name"]);
        seen += 1;
    }
    assert!(seen > 30, "{seen} vectors");
}
