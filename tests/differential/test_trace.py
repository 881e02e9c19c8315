"""The readers of traces agree: columns of plain lines, and whole lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ackwell._native import TraceReader
from ackwell.errors import EventError
from ackwell.replay.events import EFFECTS, Kind
from ackwell.replay.traces import TraceParser

KINDS = [
    (kind.value, effect.of_topic, effect.transaction)
    for kind, effect in EFFECTS.items()
    if kind is not Kind.META
]
NULL = -(2**63)
INTEGERS = {
    "sequence": "sequences",
    "ledger_id": "ledger_ids",
    "entry_id": "entry_ids",
    "batch_index": "batch_indexes",
    "batch_size": "batch_sizes",
}

LINES = [
    b'{"ev":"publish","topic":"t","sub":"s","l":3,"e":0}',
    b' {"kind": "ack", "topic": "t", "subscription": "s2", "ledger_id": 3, "entry_id": 0, "ack_set": [7]}\r',
    b"",
    b'{"ev":"publish","topic":"u","l":3,"e":1,"ok":false,"detail":{"a":[1]}}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":0,"txn":"1:2","bi":null,"ack_set":null}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":0,"ok":1}',
    b'{"ev":"publish","topic":"t","l":3,"e":0,"t":1,"deliver_after_ms":1.5}',
]
ODD = [
    b'{"ev":"meta","topic":"t","sub":"s","config":{}}',
    b'{"ev":"explode","topic":"t","sub":"s"}',
    b'{"ev":"ack","sub":"s","l":3,"e":0}',
    b'{"ev":"ack","topic":"t","l":3,"e":0}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":-1}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":1.0}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":true}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":9223372036854775808}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":9223372036854775807}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"ledger_id":3,"e":0}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":0,"c":5}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":0,"ack_set":[1.5]}',
    b'{"ev":"commit","topic":"t","sub":"s"}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e"',
    b"[1]",
    b"null",
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":0,"detail":1,"detail":2}',
    b"\xff",
    b"[" * 100_000,
]


def read(data: bytes, defaults: tuple[str | None, str | None]) -> list[Any]:
    """Read lines into columns, up to the first line that is not plain."""
    reader = TraceReader(KINDS)
    reader.set_defaults(*defaults)
    taken, lines, odd, columns = reader.read(data, 0, len(data), 7)
    end, fields = odd or (None, None)
    assert end is None or fields == reader.fields(data[taken:end])
    plain = {name: value.tolist() for name, value in columns.items()}
    return [taken, lines, end, plain, reader.names([0, 0, 0])]


def rows(read_lines: list[Any]) -> list[dict[str, Any]]:
    """Return columns as rows with names instead of numbers, without nulls."""
    columns, (topics, subscriptions, transactions) = read_lines[3], read_lines[4]
    found = []
    for n in range(len(columns["kinds"])):
        start, end = columns["set_starts"][n], columns["set_ends"][n]
        row = {
            "topic": topics[columns["topics"][n]],
            "subscription": subscriptions[columns["subscriptions"][n]],
            "kind": KINDS[columns["kinds"][n]][0],
            "transaction": transactions[columns["transactions"][n]] or None,
            "ack_set": tuple(columns["words"][start:end]) if start != NULL else None,
        }
        row |= {name: columns[plural][n] for name, plural in INTEGERS.items()}
        found.append({name: value for name, value in row.items() if value is not None and value != NULL})
    return found


def whole(data: bytes, defaults: tuple[str | None, str | None]) -> list[dict[str, Any]]:
    """Return the events of the lines from the reader of whole lines, as `rows` does."""
    parser = TraceParser()
    parser.reader.set_defaults(*defaults)
    events = [parser.parse(text + b"\n", 7 + n) for n, text in enumerate(data.split(b"\n"))]
    names = ("topic", "subscription", "kind", "transaction", "ack_set", *INTEGERS)
    return [
        {name: getattr(event, name) for name in names if getattr(event, name) is not None}
        for event in events
        if event is not None
    ]


def test_both_readers_give_the_same_events_and_columns_stop_before_an_odd_line() -> None:
    plain = b"\n".join(LINES) + b"\n"
    for defaults in ((None, None), ("d", "e")):
        found = read(plain, defaults)
        assert found[:3] == [len(plain), len(LINES), None]
        assert rows(found) == whole(plain, defaults)
        assert len(rows(found)) == 6
    for line in ODD:
        found = read(plain + line + b"\n" + plain, (None, None))
        assert found[:3] == [len(plain), len(LINES), len(plain) + len(line) + 1], line[:80]


FIELDS = [
    (b'"ev"', b'"kind"', [b'"publish"', b"null"]),
    (b'"topic"', None, [b'"t"', b'"u"', b"null"]),
    (b'"sub"', b'"subscription"', [b'"s"', b'""', b"null"]),
    (b'"txn"', b'"transaction"', [b'"1:2"', b"null"]),
    (b'"l"', b'"ledger_id"', [b"3", b"-1", b"null", b"9223372036854775807", b'"3"']),
    (b'"e"', b'"entry_id"', [b"0", b"12", b"-2", b"null", b"1e2"]),
    (b'"sequence"', None, [b"77", b"-1", b"null", b"-9223372036854775808", b"1.5"]),
    (b'"bi"', b'"batch_index"', [b"2", b"null", b"-1", b"[]"]),
    (b'"batch_size"', None, [b"5", b"null", b"01"]),
    (b'"rc"', b'"redelivery_count"', [b"1", b"null", b"false"]),
    (b'"ack_set"', None, [b"[]", b"[ 7, -1 ]", b"null", b"[1,]", b"[true]", b"5"]),
    (b'"ok"', None, [b"true", b"false", b"null", b"true0"]),
    (b'"t"', b'"time_ms"', [b"5", b"null", b'"5"']),
    (b'"deliver_at"', b'"deliver_at_ms"', [b"5", b"null", b"{}"]),
    (b'"sticky_key_hash"', None, [b"5", b"null", b"true"]),
    (b'"c"', b'"consumer"', [b'"a"', b"null", b"5"]),
    (b'"key"', None, [b'"k"', b"null", b"5"]),
    (b'"other"', None, [b'"k"', b"null", b"5", b"true", b"false0"]),
]
BASE = {b'"ev"': b'"ack"', b'"topic"': b'"t"', b'"sub"': b'"s"', b'"l"': b"3", b'"e"': b"0"}


def lines_of_every_field() -> Iterator[bytes]:
    for name, other, values in FIELDS:
        for value in values:
            for written in (name, other or name):
                fields = {key: text for key, text in BASE.items() if key != name} | {written: value}
                yield b"{" + b",".join(key + b":" + text for key, text in fields.items()) + b"}"


def test_every_field_is_read_alike_by_the_quick_the_general_and_the_whole_line_parser() -> None:
    read_lines = odd_lines = 0
    for line in lines_of_every_field():
        # The quick parser does not handle objects and escapes.
        texts = (line, line[:-1] + b',"more":{}}', line[:-1] + b',"m\\u006fre":1}')
        found = [read(text, (None, None)) for text in texts]
        # A rejected line may already have added its names.
        is_odd = found[0][2] is not None
        assert {each[2] is not None for each in found} == {is_odd}, line
        assert all(each[3] == found[0][3] for each in found), line
        if is_odd:
            odd_lines += 1
            with suppress(EventError):
                # A whole event may have a field that columns cannot hold, such as -2**63 for null.
                assert whole(line, (None, None))
        else:
            read_lines += 1
            # The fold checks the position of a row.
            has_position = {"ledger_id", "entry_id"} <= rows(found[0])[0].keys()
            assert not has_position or rows(found[0]) == whole(line, (None, None)), line
    assert min(read_lines, odd_lines) > 20


SHORT = {
    "ev": "kind",
    "t": "time_ms",
    "c": "consumer",
    "l": "ledger_id",
    "e": "entry_id",
    "bi": "batch_index",
    "rc": "redelivery_count",
    "sub": "subscription",
    "deliver_at": "deliver_at_ms",
    "txn": "transaction",
}


ALTERING = ("ok", "deliver_after_ms", "detail", "config", "other")
"""The keys that change other fields, and the one that is not a field."""


def test_the_fields_of_a_line_are_those_of_the_standard_library_s_json_reader() -> None:
    seen = refused = 0
    for line in (*lines_of_every_field(), *LINES, *ODD[:-3]):
        if not line.strip():
            continue
        try:
            expected = json.loads(line)
        except ValueError:
            expected = None
        fields = TraceReader(KINDS).fields(line)
        if not isinstance(fields, dict):
            refused += 1
            assert not isinstance(expected, dict) or len({SHORT.get(n, n) for n in expected}) < len(expected)
            continue
        seen += 1
        named = {SHORT.get(name, name): value for name, value in expected.items() if value is not None}
        if named.get("kind") == "publish" and named.get("ok") is False:
            named["kind"] = "publish_failed"
        if named.get("kind") == "meta":
            named["detail"] = named["config"]
        if "detail" in named:
            assert json.loads(fields.pop("detail")) == named["detail"]
        assert fields == {n: v for n, v in named.items() if n not in ALTERING}
    assert min(seen, refused) > 5


def test_a_detail_is_the_text_of_its_kind_s_field() -> None:
    def detail(line: bytes) -> Any:
        fields = TraceReader(KINDS).fields(line)
        assert isinstance(fields, dict)
        return fields.get("detail")

    assert detail(b'{"ev":"broker_restart","mode":"crash","detail":"other"}') == "crash"
    assert detail(b'{"ev":"gap","mode":"crash","detail":"other"}') == "other"
    assert detail(b'{"ev":"gap","detail":"a\\u00e9"}') == "a\u00e9"
    assert detail(b'{"ev":"gap","detail":{"a": [1]}}') == '{"a": [1]}'
    assert detail(b'{"ev":"gap","detail":null}') is None


def test_a_delay_past_int64_is_an_integer_outside_int64() -> None:
    reader = TraceReader(KINDS)
    time_ms = 2**63 - 1
    fields = reader.fields(b'{"t":%d,"deliver_after_ms":1}' % time_ms)
    assert fields == {"time_ms": time_ms, "deliver_at_ms": 2**63}
    plain = b'{"ev":"publish","topic":"t","l":3,"e":0,"t":%d,"deliver_after_ms":1}' % time_ms
    # Columns have no delivery time. Both ways of reading accept the line.
    for line in (plain, plain[:-1] + b',"more":{}}'):
        assert read(line, (None, None))[:3] == [len(line), 1, None]
    assert reader.fields(b'{"l":-18446744073709551616}') == {"ledger_id": -(2**64)}
