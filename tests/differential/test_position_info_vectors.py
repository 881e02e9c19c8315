"""`tests/vectors/position_info.toml` on both Python engines; the Rust core replays it, too."""

from __future__ import annotations

import hashlib
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


@pytest.mark.parametrize(
    ("first_ledger", "holes", "idle_since", "size", "digest"),
    [
        (
            3,
            30_000,
            1_795_771_062_834,
            10_345,
            "6b3a12703784eb0489efc5ff1c0a1b9a53e54d6c942e3f599d88959fe5a29bb8",
        ),
        # Of 300,000 holes, 5.0.1 writes 200,000, the limit.
        (
            8,
            200_000,
            1_795_771_305_678,
            68_820,
            "708e9365ab0dc7fc72f5bd2747c558ef583a32677b85dbfd2ded767580298351",
        ),
    ],
)
def test_a_state_of_many_holes_has_the_bytes_of_5_0_1(
    first_ledger: int, holes: int, idle_since: int, size: int, digest: str
) -> None:
    """Every second entry of ledgers of 50,000 entries is acknowledged."""
    acked = ackwell.PositionRangeSet(
        (first_ledger + number // 25_000, 2 * (number % 25_000), 2 * (number % 25_000) + 1)
        for number in range(holes)
    )
    state = ackwell.PositionInfo(first_ledger, -1, acked, idle_since=idle_since)
    data = state.encode("pulsar-long-array")
    assert (len(data), hashlib.sha256(data).hexdigest()) == (size, digest)
    assert ackwell.PositionInfo.decode(data) == state
