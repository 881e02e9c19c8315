"""All events follow one schema, and every invalid line is refused."""

import gzip
import json
from pathlib import Path

import pytest

from ackwell import EventError
from ackwell.replay.events import Event, Kind, event_from_fields
from ackwell.replay.files import event_files, read_events
from ackwell.replay.states import replay_files
from ackwell.replay.traces import TraceParser

META = {"t": 1, "ev": "meta", "topic": "t", "sub": "s", "config": {"managedLedgerMaxEntriesPerLedger": 5}}
PUBLISH = {"t": 2, "ev": "publish", "l": 3, "e": 0, "ok": True}
ACK = {"t": 3, "ev": "ack", "c": "c0", "l": 3, "e": 0}


def trace(path: Path, *lines: object, end: str = "\n") -> Path:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end
    path.write_text(text, encoding="utf-8")
    return path


def test_the_short_names_of_traces_become_fields(tmp_path: Path) -> None:
    path = trace(tmp_path / "a.jsonl", META, PUBLISH, ACK)
    meta, publish, ack = read_events([path])
    assert json.loads(meta.detail or "") == META["config"]
    assert publish == Event("t", "s", 2, Kind.PUBLISH, 2, ledger_id=3, entry_id=0, file=str(path))
    assert ack == Event("t", "s", 3, Kind.ACK, 3, "c0", 3, 0, file=str(path))


def test_fields_under_their_own_names_need_no_meta_line(tmp_path: Path) -> None:
    line = {"topic": "t", "subscription": "s", "sequence": 7, "kind": "nack", "ledger_id": 1, "entry_id": 2}
    (event,) = read_events([trace(tmp_path / "a.jsonl", line)])
    assert event == Event("t", "s", 7, Kind.NACK, ledger_id=1, entry_id=2, file=event.file)


def test_a_delay_counts_from_the_publish_time() -> None:
    parser = TraceParser()
    parser.parse(json.dumps(META).encode(), 1)
    event = parser.parse(json.dumps(PUBLISH | {"deliver_after_ms": 500}).encode(), 2)
    assert event is not None
    assert event.deliver_at_ms == 502
    event = parser.parse(json.dumps(PUBLISH | {"deliver_after_ms": 500, "deliver_at_ms": 9}).encode(), 3)
    assert event is not None
    assert event.deliver_at_ms == 9


def test_files_are_read_by_name_whatever_order_they_are_given_in(tmp_path: Path) -> None:
    second = trace(tmp_path / "b.jsonl", META, ACK)
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write(json.dumps(META) + "\n" + json.dumps(PUBLISH) + "\n")
    kinds = [event.kind for event in read_events([second, tmp_path / "a.jsonl.gz"])]
    assert kinds == [Kind.META, Kind.PUBLISH, Kind.META, Kind.ACK]
    assert event_files([tmp_path]) == [tmp_path / "a.jsonl.gz", second]


def test_a_refused_publish_has_no_effect_and_is_still_an_event() -> None:
    fields = TraceParser()
    fields.parse(json.dumps(META).encode(), 1)
    event = fields.parse(json.dumps({"ev": "publish", "n": 1, "ok": False}).encode(), 2)
    assert event is not None
    assert event.kind is Kind.PUBLISH_FAILED


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"ev": "explode"}, "unknown event kind 'explode'"),
        ({"ev": "ack", "l": 3}, "no position"),
        ({"ev": "ack", "l": -3, "e": 1}, "ledger_id is -3"),
        ({"ev": "ack", "l": 3, "e": -1}, "entry_id is -1"),
        ({"ev": "ack", "l": 3, "e": 2**63}, "outside int64"),
        ({"ev": "ack", "l": 3, "e": 1, "t": -(2**70)}, "outside int64"),
        ({"ev": "ack", "l": 3, "e": 1.0}, "expected an integer"),
        ({"ev": "ack", "l": 3, "e": True}, "expected an integer"),
        ({"ev": "ack", "l": 3, "e": 1, "ack_set": [2**64]}, "signed 64-bit"),
        ({"ev": "ack", "l": 3, "e": 1, "ack_set": 5}, "expected a list of signed 64-bit words"),
        ({"ev": "ack", "l": 3, "e": 1, "ack_set": [True]}, "signed 64-bit"),
        ({"ev": "ack", "l": 3, "e": 1, "ack_set": [0] * 16_385}, "16,385 words; at most 16,384"),
        ({"ev": "ack", "l": 3, "e": 1, "batch_index": 2**34}, "at most 1,048,576 messages"),
        ({"ev": "ack", "l": 3, "e": 1, "batch_size": 10**9}, "at most 1,048,576 messages"),
        ({"ev": "ack", "l": 3, "e": 2**63 - 1}, "entry_id is 9223372036854775807; it is at most"),
        ({"ev": "ack", "l": 3, "e": 1, "c": 5}, "expected a string"),
        ({}, "unknown event kind None"),
        ("[1, 2]", "expected a JSON object"),
        ("null", "expected a JSON object"),
        ('{"ev": "ack", "l": 3, "e"', "not JSON"),
        ("[" * 100_000, "expected a JSON object"),
        ('{"ev": "ack", "l": ' + "[" * 1_000, "not JSON: recursion limit exceeded"),
        ('{"ev": "ack", "l": 3, "ledger_id": 3, "e": 1}', "the field ledger_id occurs twice"),
        ("9" * 5_000, "not JSON"),
    ],
)
def test_what_is_no_event_is_refused_with_its_line(line: object, message: str, tmp_path: Path) -> None:
    path = trace(tmp_path / "a.jsonl", META, line, ACK)
    with pytest.raises(EventError, match=message) as refused:
        list(read_events([path]))
    assert (refused.value.file, refused.value.line) == (str(path), 2)


def test_a_torn_last_line_is_refused(tmp_path: Path) -> None:
    path = trace(tmp_path / "a.jsonl", META, PUBLISH, '{"t":3,"ev":"ack","l":3,"e"', end="")
    with pytest.raises(EventError, match="torn") as refused:
        list(read_events([path]))
    assert refused.value.line == 3


def test_a_torn_compressed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    whole = gzip.compress("\n".join(json.dumps(line) for line in [META] + [PUBLISH] * 1000).encode())
    path.write_bytes(whole[:-20])
    with pytest.raises(EventError, match="unreadable"):
        list(read_events([path]))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(json.dumps(META).encode() + b"\n\xff\xfe\n")
    with pytest.raises(EventError, match="unreadable"):
        list(read_events([path]))


def test_events_without_a_subscription_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EventError, match="no topic"):
        list(read_events([trace(tmp_path / "a.jsonl", ACK)]))


def test_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.jsonl"):
        event_files([tmp_path / "missing.jsonl"])
    with pytest.raises(EventError, match="no trace here"):
        event_files([tmp_path])


@pytest.mark.slow
def test_parquet_and_json_lines_give_the_same_events(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    fields = [
        {"topic": "t", "subscription": "s", "kind": "publish", "ledger_id": 2**60, "entry_id": 0},
        {
            "topic": "t",
            "subscription": "s",
            "kind": "ack",
            "ledger_id": 2**60,
            "entry_id": 0,
            "ack_set": [-1],
        },
    ]
    rows = [{"ack_set": None} | row for row in fields]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    lines = trace(tmp_path / "a.jsonl", *fields)
    from_parquet = [event._replace(file=None) for event in read_events([tmp_path / "a.parquet"])]
    assert from_parquet == [event._replace(file=None) for event in read_events([lines])]
    assert len(from_parquet) == 2


@pytest.mark.parametrize("name", ["sub", "subscription", "topic", "l", "bi"])
def test_null_says_what_a_field_that_is_left_out_says_in_every_reader(name: str, tmp_path: Path) -> None:
    meta = {"kind": "meta", "topic": "t", "subscription": "s"}
    lines = [meta] + [{"kind": kind, "l": 3, "e": 0} for kind in ("publish", "ack")]
    left_out = [{other: value for other, value in line.items() if other != name} for line in lines[1:]]
    outcomes: list[object] = []
    for given in ([meta, *left_out], [meta, *({**line, name: None} for line in left_out)]):
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in given))
        for read in (
            lambda: list(read_events([tmp_path])),
            lambda: [s.cursor for s in replay_files([tmp_path])],
        ):
            try:
                outcomes.append(read())
            except EventError as error:
                outcomes.append(str(error))
    assert outcomes[:2] == outcomes[2:]
    assert isinstance(outcomes[0], str) == (name == "l")


def test_fields_unknown_to_the_schema_are_ignored() -> None:
    fields = {"topic": "t", "subscription": "s", "kind": "unload", "colour": "green"}
    assert event_from_fields(fields).kind is Kind.UNLOAD


def test_a_topic_s_event_needs_no_subscription_and_one_of_a_subscription_does() -> None:
    fields = {"topic": "t", "kind": "publish", "ledger_id": 1, "entry_id": 2}
    assert event_from_fields(fields).subscription == ""
    with pytest.raises(EventError, match="this ack names no subscription"):
        event_from_fields({**fields, "kind": "ack", "subscription": ""})


def test_a_trace_s_topic_event_with_an_empty_subscription_is_not_that_of_the_meta_line() -> None:
    parser = TraceParser()
    parser.parse(b'{"ev": "meta", "topic": "t", "sub": "s"}', 1)
    event = parser.parse(b'{"ev": "publish", "sub": "", "l": 1, "e": 2, "txn": "1:2"}', 2)
    assert event is not None
    assert (event.topic, event.subscription, event.transaction) == ("t", "", "1:2")


def test_the_end_of_a_transaction_names_it() -> None:
    with pytest.raises(EventError, match="this commit names no transaction"):
        event_from_fields({"topic": "t", "kind": "commit"})
