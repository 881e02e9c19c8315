"""`PositionInfo` of a million ranges through its class; `benches/bars` measures it beside its peers."""

from __future__ import annotations

from typing import Any

import pytest

from ackwell import PositionInfo, PositionRangeSet

FORMS = pytest.mark.parametrize("form", ["pulsar-ranges", "pulsar-long-array", "compact"])


@pytest.fixture(scope="module")
def state() -> PositionInfo:
    ledgers = range(100, 120)
    acked = PositionRangeSet((ledger_id, at - 1, at) for ledger_id in ledgers for at in range(1, 100_000, 2))
    return PositionInfo(100, -1, acked)


@FORMS
def test_encode(benchmark: Any, state: PositionInfo, form: str) -> None:
    assert benchmark(state.encode, form)


@FORMS
def test_decode(benchmark: Any, state: PositionInfo, form: str) -> None:
    assert benchmark(PositionInfo.decode, state.encode(form)) == state
