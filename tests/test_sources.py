"""Every command names a file of another kind with the same message."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ackwell import PositionInfo
from ackwell.devbroker.loading import read
from ackwell.errors import StatsError
from ackwell.replay.events import Kind
from ackwell.sources import SourceKind, source_kind, wrong_kind
from tests.commands import ackwell

CURSOR = b"\x08\x03\x10\x05"
INTERNAL = {"entriesAddedCounter": 1, "ledgers": [], "cursors": {}}

EXAMPLES = {
    SourceKind.CURSOR: CURSOR,
    SourceKind.FOOTER: b'{"numParts":2,"length":10}',
    SourceKind.EVENTS: b'{"kind":"ack","topic":"t","subscription":"s","ledger_id":3,"entry_id":0}\n',
    SourceKind.STATS: json.dumps(INTERNAL, indent=2).encode(),
    SourceKind.DUMP: json.dumps({"topic": "t", "internalStats": INTERNAL, "stats": {}}).encode(),
    SourceKind.PLAN: b'{"version": 9, "timeMs": 0, "plans": [], "refused": []}',
    SourceKind.JOURNAL: b'{"version": 9, "admin": "http://a", "cluster": "c", "before": null}',
    SourceKind.WINDOW: b'{"version": 9, "cluster": "c", "timeMs": 0, "subscriptions": [["t", "s"]]}',
    SourceKind.PREDICTION: b'{"topic": "t", "returnedEntries": "[]", "vanishedEntries": "[]"}',
    SourceKind.LEDGER_INFO: bytes.fromhex("0a0408392000"),
    SourceKind.DECODED_CURSOR: b'{"cursorsLedgerId": 3, "markDeleteLedgerId": 4}',
    SourceKind.HTML: b"<!DOCTYPE html><html></html>",
}
"""A file of each kind that its first bytes show."""

PREPARED = ("a", "sub", "--admin", "http://127.0.0.1:1")

READERS: dict[str, tuple[list[str], tuple[SourceKind, ...], tuple[SourceKind, ...]]] = {
    "doctor": (["doctor", "FILE"], (SourceKind.STATS,), (SourceKind.DUMP,)),
    "holes": (["holes", "FILE"], (SourceKind.STATS,), (SourceKind.DUMP,)),
    "what-if": (["what-if", "skip", "FILE", "sub"], (SourceKind.STATS,), (SourceKind.DUMP,)),
    "inspect": (
        ["inspect", "FILE"],
        (SourceKind.CURSOR,),
        (SourceKind.FOOTER, SourceKind.STORE, SourceKind.DECODED_CURSOR),
    ),
    "diff": (
        ["diff", "FILE", "FILE"],
        (SourceKind.CURSOR, SourceKind.STATS),
        (SourceKind.FOOTER, SourceKind.STORE, SourceKind.DUMP, SourceKind.DECODED_CURSOR),
    ),
    "convert": (
        ["convert", "--to", "compact", "FILE", "-"],
        (SourceKind.CURSOR, SourceKind.STATS),
        (SourceKind.FOOTER, SourceKind.STORE, SourceKind.DUMP, SourceKind.DECODED_CURSOR),
    ),
    "replay": (["replay", "FILE"], (SourceKind.EVENTS,), ()),
    "history": (["history", "FILE"], (SourceKind.EVENTS,), ()),
    "events check": (["events", "check", "FILE"], (SourceKind.EVENTS,), ()),
    "rescue apply": (["rescue", "apply", "FILE", *PREPARED[2:]], (SourceKind.PLAN,), ()),
    "rescue release": (["rescue", "release", "--journal", "FILE", *PREPARED[2:]], (SourceKind.JOURNAL,), ()),
    "rescue plan": (["rescue", "plan", "FILE", *PREPARED[2:]], (SourceKind.DUMP,), ()),
}
"""A command line, the kinds that its messages expect, and the other kinds that it reads."""


@pytest.fixture
def files(tmp_path: Path) -> dict[SourceKind, Path]:
    found = {}
    for kind, data in EXAMPLES.items():
        found[kind] = tmp_path / kind.name
        found[kind].write_bytes(data)
    found[SourceKind.STORE] = tmp_path / "STORE"
    with closing(sqlite3.connect(found[SourceKind.STORE])) as store:
        store.execute("CREATE TABLE other (number)")
    return found


@pytest.mark.parametrize("kind", [*EXAMPLES, SourceKind.STORE], ids=lambda kind: kind.name)
@pytest.mark.parametrize("reader", READERS)
def test_each_command_names_each_other_kind_with_the_same_message(
    reader: str, kind: SourceKind, files: dict[SourceKind, Path]
) -> None:
    line, expected, also_read = READERS[reader]
    answer = ackwell(*(str(files[kind]) if each == "FILE" else each for each in line))
    said = " ".join((answer.out + answer.err).split())
    message = wrong_kind(kind, *expected)
    if kind in (*expected, *also_read):
        assert f"{kind}, not" not in said
    else:
        assert answer.code in (1, 5)
        assert message in said
        assert str(files[kind]) in said


@pytest.mark.parametrize("kind", [*EXAMPLES, SourceKind.STORE], ids=lambda kind: kind.name)
def test_the_dev_broker_names_each_kind_that_it_cannot_load(
    kind: SourceKind, files: dict[SourceKind, Path]
) -> None:
    expected = (SourceKind.STATS, SourceKind.CURSOR, SourceKind.EVENTS)
    try:
        read([files[kind]])
    except StatsError as error:
        said = str(error)
    else:
        said = ""
    if kind in (*expected, SourceKind.STORE, SourceKind.DUMP):
        assert f"{kind}, not" not in said
    else:
        assert wrong_kind(kind, *expected) in said


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.name)
def test_the_first_bytes_show_the_kind_also_inside_gzip(kind: SourceKind) -> None:
    assert source_kind(EXAMPLES[kind]) is kind
    assert source_kind(gzip.compress(EXAMPLES[kind], mtime=0)) is kind


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", SourceKind.EMPTY),
        (b" \n", SourceKind.EMPTY),
        (b"persistent://a/b/c", SourceKind.TEXT),
        (b'{"a": 1}', SourceKind.JSON),
        ('{"a": 1}'.encode("utf-16"), SourceKind.JSON),
        (b"\xff\x00\x81", SourceKind.BINARY),
        (b"\x1f\x8b\xff", SourceKind.BINARY),
        (b"PAR1", SourceKind.EVENTS),
        ("é".encode() * 40_000, SourceKind.TEXT),
    ],
)
def test_other_bytes_have_a_kind_too(data: bytes, kind: SourceKind) -> None:
    assert source_kind(data) is kind


@pytest.mark.parametrize("form", ["pulsar-ranges", "pulsar-long-array", "compact"])
def test_each_form_of_a_state_is_a_cursor(form: str) -> None:
    info = PositionInfo.decode(CURSOR)
    assert source_kind(info.encode(form)) is SourceKind.CURSOR


def test_a_trace_with_answers_of_a_broker_is_a_trace() -> None:
    line = {"ev": str(Kind.ACK), "internal": {"cursors": {}}}
    assert source_kind(json.dumps(line).encode()) is SourceKind.EVENTS
