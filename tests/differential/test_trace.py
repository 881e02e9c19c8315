"""Both engines read the same lines of a trace, and stop before the same."""

from __future__ import annotations

from typing import Any

from ackwell import _native, reference
from ackwell.replay.events import Kind

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
    taken, lines, odd, columns = reader.read(data, 0, 7)
    plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in columns.items()}
    return [taken, lines, odd, plain, reader.names(0, 0)]


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
