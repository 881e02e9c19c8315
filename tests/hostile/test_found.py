"""Minimal hostile inputs that once caused a traceback or unbounded memory."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackwell.broker.stats import parse_stats
from ackwell.errors import AckwellError, EventError, StatsError
from ackwell.replay.files import fold_files, read_events
from tests.commands import ERROR, USAGE, ackwell, held
from tests.hostile.test_parquet import COLUMNS
from tests.hostile.test_stats import ANSWER
from tests.hostile.test_traces import META, TEXT
from tests.hostile.values import DEEP, Raw, changed, places, text_of

MIB = 1 << 20


def refused(path: Path, why: str) -> None:
    """Assert that both readers of events and the command refuse a file with a reason of one line."""
    for read in (lambda: list(read_events([path])), lambda: fold_files([path])):
        with pytest.raises(EventError, match=why) as found:
            read()
        assert found.value.file == str(path)
        assert "\n" not in str(found.value)
    assert held(ackwell("replay", str(path))).code == ERROR


def test_a_gzip_file_with_a_broken_block(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(TEXT.encode()))
    data[10] = 0xFF
    (tmp_path / "a.jsonl.gz").write_bytes(data)
    refused(tmp_path / "a.jsonl.gz", "unreadable.*invalid block type")


def test_half_a_surrogate_pair_is_no_text(tmp_path: Path) -> None:
    for name in ("topic", "sub"):
        (tmp_path / "a.jsonl").write_text(json.dumps({**META, name: "\ud800"}))
        refused(tmp_path / "a.jsonl", "not JSON: .* hex escape")


@pytest.mark.parametrize("packed", ["gz", "zst"])
def test_a_small_file_that_unpacks_to_one_endless_line_takes_little_memory(
    tmp_path: Path, packed: str
) -> None:
    line = b" " * (96 * MIB)
    data = gzip.compress(line, 1) if packed == "gz" else pa.compress(line, codec="zstd", asbytes=True)
    path = tmp_path / f"a.jsonl.{packed}"
    path.write_bytes(data)
    del line
    tracemalloc.start()
    try:
        refused(path, "a line of more than 16 MiB")
        assert tracemalloc.get_traced_memory()[1] < 48 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("at", ["schema", "pages"])
def test_a_parquet_file_whose_schema_or_pages_are_damaged(tmp_path: Path, at: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(COLUMNS), path, compression="NONE")
    data = bytearray(path.read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    span = slice(4, footer) if at == "pages" else slice(data.index(b"ARROW:schema") + 20, None)
    data[span] = b"\xff" * len(data[span]) if at == "pages" else b"\xff" + data[span][1:]
    path.write_bytes(data)
    refused(path, "unreadable")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("t",), "x"),
        (("t",), 2**63),
        (("t",), Raw("9" * 5_000)),
        (("scenario",), Raw("9" * 5_000)),
        (("internalStats", "ledgers", 0, "size"), "x"),
        (("internalStats", "ledgers", 0), 7),
        (("internalStats", "cursors", "sub"), []),
        (("internalStats", "cursors"), {"\ud800": ANSWER["internalStats"]["cursors"]["sub"]}),
        (("stats", "subscriptions"), "x"),
        (("stats", "subscriptions", "sub", "lastMarkDeleteAdvancedTimestamp"), "x"),
        (("stats", "subscriptions", "sub", "msgDelayed"), "x"),
        (("stats", "subscriptions", "sub", "type"), []),
        (("stats", "msgInCounter"), 0.5),
        (("cursor", "persistentMarkDelete"), {"ledger": "x", "entry": 1}),
        (("cursor", "batchDeletedIndexes"), [1]),
    ],
)
def test_values_of_another_type_in_an_answer(place: tuple[Any, ...], value: Any) -> None:
    assert place[:-1] in [(), *places(ANSWER)]
    with pytest.raises(StatsError) as found:
        list(parse_stats(text_of(changed(ANSWER, place, value)).encode(), "a.json"))
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("text", ["[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "{}" + "}" * DEEP])
def test_an_answer_nested_deeper_than_calls_may_be(text: str) -> None:
    with pytest.raises(StatsError):
        list(parse_stats(text.encode(), "a.json"))


def test_a_file_of_settings_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_bytes(b"\xf8")
    answer = held(ackwell("doctor", "a.json", "--broker-setting", str(tmp_path / "broker.conf")))
    assert answer.code == USAGE


def test_a_name_that_is_too_long_is_a_source_that_was_not_read() -> None:
    answer = held(ackwell("holes", "a" * 5_000))
    assert (answer.code, answer.err.count("not read: ")) == (5, 1)


def test_an_error_stays_on_one_line_whatever_a_name_holds() -> None:
    answer = held(ackwell("replay", "a\nb\u2028c"))
    assert answer.err.count("\n") == 1
    assert issubclass(StatsError, AckwellError)
    assert str(StatsError("a\nb", "c")) == "c: a b"
