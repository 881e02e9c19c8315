"""The size of the record that a close writes, and the verdict on it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ackwell import PositionRangeSet
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.metadata_node import closing_request_bytes
from ackwell.cursor.cursor_state import CursorState
from ackwell.position import Position
from tests.broker.answers import answer, holes
from tests.commands import ackwell

NEWEST = BrokerSettings.of("5.0.1")


def state(ranges: int, per_ledger: int = 25_000) -> CursorState:
    ledgers = [(3 + k // per_ledger, 2 * (k % per_ledger), 2 * (k % per_ledger) + 1) for k in range(ranges)]
    return CursorState(Position(3, -1), PositionRangeSet(ledgers))


def test_the_record_has_the_size_that_a_broker_wrote() -> None:
    """5.0.1 wrote 960,847 bytes for 120,000 ranges and 1,441,316 for 180,000, with LZ4.

    With ledgers of 2,500 ranges, it wrote 1,048,285 bytes for 128,454 ranges. For 128,551, ZooKeeper refused
    a request of 1,049,156 bytes.
    """
    for ranges, per_ledger, written in (
        (120_000, 25_000, 960_847),
        (180_000, 25_000, 1_441_316),
        (128_454, 2_500, 1_048_285),
        (128_551, 2_500, 1_049_156),
    ):
        size = closing_request_bytes(state(ranges, per_ledger), NEWEST)
        assert size is not None
        assert abs(size - written) < 0.01 * written
    # Without compression the record has about twice the size.
    older = NEWEST.with_values(["managedCursorInfoCompressionType=NONE"])
    assert (closing_request_bytes(state(120_000), older) or 0) > 1.8 * 960_847


def test_a_small_state_and_a_state_of_the_cursor_ledger_have_no_size() -> None:
    assert closing_request_bytes(state(1_000), NEWEST) is None
    few = NEWEST.with_values(["managedLedgerMaxUnackedRangesToPersistInMetadataStore=100000"])
    assert closing_request_bytes(state(100_001), few) is None
    assert closing_request_bytes(state(100_000), few) is not None
    # Only the ranges within the limit are written.
    cut = NEWEST.with_values(["managedLedgerMaxUnackedRangesToPersist=10000"])
    assert closing_request_bytes(state(100_000), cut) == closing_request_bytes(
        state(10_000), replace(cut, metadata_node_bytes=1)
    )


def test_the_compression_is_one_of_the_brokers() -> None:
    assert NEWEST.cursor_info_compression == "LZ4"
    assert BrokerSettings.of("4.2.4").cursor_info_compression == "NONE"
    with pytest.raises(ValueError, match="is one of NONE, LZ4"):
        NEWEST.with_values(["managedCursorInfoCompressionType=GZIP"])


def test_a_record_above_the_limit_is_a_verdict_with_its_remedy(tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    file.write_text(json.dumps(answer(holes(150_000), entries=400_000)))
    options = ("doctor", str(file), "--broker-version", "5.0.1", "--format", "json", "--restart")
    found = {}
    for restart, limit in (("graceful", "1048575"), ("crash", "1048575"), ("graceful", "10485760")):
        done = ackwell(*options, restart, "--metadata-node-bytes", limit)
        (found[restart, limit],) = json.loads(done.out)["subscriptions"]
    assert found["graceful", "1048575"]["verdict"] == "unwritable"
    assert found["graceful", "10485760"]["verdict"] != "unwritable"
    assert found["crash", "1048575"]["verdict"] != "unwritable"
    (limit,) = (each for each in found["graceful", "1048575"]["limits"] if "metadata" in each["setting"])
    assert limit["used"] > limit["limit"] == 1_048_575
    remedies = [each["settings"] for each in found["graceful", "1048575"]["remedies"]]
    assert ["managedLedgerMaxUnackedRangesToPersistInMetadataStore=1000"] in remedies
    assert ackwell(*options, "graceful").code == 4
