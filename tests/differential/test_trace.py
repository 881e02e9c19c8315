"""Both engines read the same lines of a trace and stop before the same line."""

from __future__ import annotations

from typing import Any

from ackwell import _native
from ackwell.replay.events import Kind
from tests import reference

ENGINES: tuple[Any, ...] = (_native, reference)

LINES = [
    b'{"ev":"publish","topic":"t","sub":"s","l":3,"e":0}',
    b' {"kind": "ack", "topic": "t", "subscription": "s2", "ledger_id": 3, "entry_id": 0, "ack_set": [7]}\r',
    b"",
    b'{"ev":"publish","topic":"u","l":3,"e":1,"ok":false,"detail":{"a":[1]}}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":0,"txn":"1:2","bi":null,"ack_set":null}',
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
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":0,"ok":1}',
    b'{"ev":"commit","topic":"t","sub":"s"}',
    b'{"ev":"ack","topic":"t","sub":"s","l":3,"e"',
    b"[1]",
    b"null",
    b"\xff",
    b"[" * 100_000,
]


def read(engine: Any, data: bytes, defaults: tuple[str | None, str | None]) -> list[Any]:
    kinds = [(kind.value, kind.value in ("publish", "publish_failed", "commit")) for kind in Kind]
    reader = engine.TraceReader([kind for kind in kinds if kind[0] != "meta"])
    reader.set_defaults(*defaults)
    taken, lines, odd, columns = reader.read(data, 0, len(data), 7)
    plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in columns.items()}
    return [taken, lines, odd, plain, reader.names([0, 0, 0])]


def test_both_engines_read_the_same_lines_and_stop_before_the_same() -> None:
    plain = b"\n".join(LINES) + b"\n"
    for defaults in ((None, None), ("d", "e")):
        native, twin = (read(engine, plain, defaults) for engine in ENGINES)
        assert native == twin
        assert native[:3] == [len(plain), len(LINES), None]
    for line in ODD:
        native, twin = (read(engine, plain + line + b"\n" + plain, (None, None)) for engine in ENGINES)
        assert native == twin, line[:80]
        assert native[:3] == [len(plain), len(LINES), len(plain) + len(line) + 1], line[:80]


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


def test_every_field_is_read_alike_by_both_engines_and_in_the_quick_way_and_the_general_one() -> None:
    read_lines = odd_lines = 0
    for name, other, values in FIELDS:
        for value in values:
            for written in (name, other or name):
                fields = {key: text for key, text in BASE.items() if key != name} | {written: value}
                line = b"{" + b",".join(key + b":" + text for key, text in fields.items()) + b"}"
                # The quick parser does not handle objects and escapes.
                for general in (b',"more":{}}', b',"m\\u006fre":1}'):
                    found = [
                        read(engine, text, (None, None))
                        for engine in ENGINES
                        for text in (line, line[:-1] + general)
                    ]
                    # A rejected line may already have added its names.
                    is_odd = found[0][2] is not None
                    assert {each[2] is not None for each in found} == {is_odd}, line
                    assert all(each[3] == found[0][3] for each in found), line
                    assert is_odd or all(each[4] == found[0][4] for each in found), line
                read_lines += not is_odd
                odd_lines += is_odd
    assert min(read_lines, odd_lines) > 20
