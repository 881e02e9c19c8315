"""`tests/vectors/position_info.toml` on both Python engines; the Rust core replays it, too."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import ackwell
import tests.reference
from ackwell import CorruptStateError

VECTORS = tomllib.loads((Path(__file__).parents[1] / "vectors" / "position_info.toml").read_text())
ENGINES = [pytest.param(ackwell, id="native"), pytest.param(tests.reference, id="reference")]


def state(engine: Any, case: dict[str, Any]) -> Any:
    ranges = engine.PositionRangeSet.parse(case.get("individually_deleted", "[]"))
    return engine.PositionInfo(
        *case["mark_delete"],
        ranges,
        {(ledger_id, entry_id): words for ledger_id, entry_id, words in case.get("batch_deleted", ())},
        case.get("properties"),
        redelivery_counts={tuple(position): count for *position, count in case.get("redelivery_counts", ())},
        idle_since=case.get("idle_since"),
        spanning_ranges=[((a, b), (c, d)) for a, b, c, d in case.get("spanning_ranges", ())],
        unknown_fields=bytes.fromhex(case.get("unknown_fields", "")),
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", VECTORS["state"], ids=lambda case: case["name"])
def test_a_state_is_read_and_written_as_the_vector_says(engine: Any, case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["bytes"])
    decoded = engine.PositionInfo.decode(data)
    assert state(engine, case) == decoded
    assert case["form"] == decoded.form
    assert decoded.encode() == data
    assert case.get("written", case["bytes"]) == decoded.replace().encode(case["form"]).hex()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda case: case["name"])
def test_bytes_are_refused_as_the_vector_says(engine: Any, case: dict[str, Any]) -> None:
    with pytest.raises(CorruptStateError) as refusal:
        engine.PositionInfo.decode(bytes.fromhex(case["bytes"]))
    assert (case["error"], case["offset"]) == (type(refusal.value).__name__, refusal.value.offset)
