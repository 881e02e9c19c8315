"""Random traces: every reader returns a result or a message of one line."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackwell.errors import AckwellError
from ackwell.replay.files import read_events
from tests.commands import ERROR, ackwell, held
from tests.hostile.values import ODD, damaged, hostile, text_of

QUICK, LONG = 25, 20_000
FIXTURES = list(HealthCheck)

META = {"ev": "meta", "topic": "persistent://public/default/t", "sub": "s", "config": {"type": "Shared"}}
LINES: list[dict[str, Any]] = [
    META,
    {"ev": "publish", "l": 3, "e": 0, "t": 5, "batch_size": 3, "deliver_at": 9, "key": "k", "txn": "(0,1)"},
    {"ev": "publish", "l": 3, "e": 1, "t": 6, "ok": False},
    {"ev": "publish", "l": 3, "e": 2, "t": 6, "deliver_after_ms": 5},
    {"ev": "consumer_open", "c": "c", "type": "Shared", "t": 7},
    {"ev": "dispatch", "l": 3, "e": 0, "c": "c", "batch_size": 3, "sticky_key_hash": 7, "rc": 1, "t": 7},
    {"ev": "ack", "l": 3, "e": 0, "c": "c", "ack_set": [4], "batch_size": 3, "t": 8},
    {"ev": "ack", "l": 3, "e": 2, "c": "c", "txn": "(0,1)", "t": 8},
    {"ev": "ack", "l": 3, "e": 0, "bi": 2, "batch_size": 3, "t": 8},
    {"ev": "nack", "l": 3, "e": 2, "c": "c", "t": 9},
    {"ev": "commit", "txn": "(0,1)", "t": 9},
    {"ev": "ack_cumulative", "l": 3, "e": 1, "t": 9},
    {"ev": "seek", "l": 3, "e": 0, "t": 10},
    {"ev": "trim", "l": 2, "e": 0, "t": 11},
    {"ev": "snapshot", "file": "x.json", "t": 12},
    {"ev": "broker_restart", "mode": "crash", "t": 13},
    {"ev": "unsubscribe", "t": 14},
]
TEXT = "".join(f"{json.dumps(line)}\n" for line in LINES)


@st.composite
def trace_texts(draw: st.DrawFn) -> str:
    """Draw a trace with one or two odd lines."""
    lines = [json.dumps(line) for line in LINES]
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(LINES) - 1))
        lines[at] = draw(hostile(LINES[at]))
    return "\n".join(lines) + draw(st.sampled_from(["\n", "", "\r\n", "\x00", "{"]))


@st.composite
def trace_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw the name and the bytes of a trace."""
    data = draw(
        trace_texts().map(lambda text: text.encode("utf-8", "surrogatepass")) | damaged(TEXT.encode())
    )
    form = draw(
        st.sampled_from([".jsonl", ".jsonl.gz", ".jsonl.gz damaged", ".jsonl.zst", ".jsonl.zst damaged"])
    )
    if ".gz" in form:
        data = gzip.compress(data, 1)
    elif ".zst" in form:
        data = pa.compress(data, codec="zstd", asbytes=True)
    if "damaged" in form:
        data = draw(damaged(data))
    return f"trace{form.removesuffix(' damaged')}", data


def judge(path: Path) -> None:
    """Check that every reader of a trace returns events or raises `EventError`."""
    held(ackwell("replay", str(path)))
    held(ackwell("replay", str(path), "--format", "json", "--at", "9", "--keep-going"))
    with suppress(AckwellError):
        assert sum(1 for _ in read_events([path])) >= 0


def check(path: Path, file: tuple[str, bytes]) -> None:
    name, data = file
    (path / name).write_bytes(data)
    judge(path / name)


@given(trace_files())
@settings(max_examples=QUICK, suppress_health_check=FIXTURES)
def test_any_trace_is_replayed_or_refused_in_one_line(tmp_path: Path, file: tuple[str, bytes]) -> None:
    check(tmp_path, file)


@pytest.mark.proof
@given(trace_files())
@settings(max_examples=LONG, suppress_health_check=FIXTURES)
def test_many_traces_are_replayed_or_refused_in_one_line(tmp_path: Path, file: tuple[str, bytes]) -> None:
    check(tmp_path, file)


@pytest.mark.proof
def test_every_odd_value_in_every_field_is_taken_or_refused(tmp_path: Path) -> None:
    refused = taken = 0
    path = tmp_path / "trace.jsonl"
    for line in LINES:
        for name in line:
            for odd in ODD:
                changed = {**line, name: odd}
                path.write_text("\n".join(map(text_of, [META, changed])), errors="surrogatepass")
                answer = held(ackwell("replay", str(path)))
                refused += answer.code == ERROR
                taken += not answer.code
    assert refused > 500
    assert taken > 500


def test_the_lines_themselves_are_a_trace(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text(TEXT)
    assert not held(ackwell("replay", str(tmp_path))).code
    assert len(list(read_events([tmp_path]))) == len(LINES)
