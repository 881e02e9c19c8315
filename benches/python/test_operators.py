"""Commands that an operator waits for: inspect a large state, diagnose a fleet, write the page of a fleet."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ackwell import PositionInfo, PositionRangeSet
from ackwell.broker.stats import parse_stats, read_each
from ackwell.diagnosis.checkup import Checkup, JudgedBroker
from ackwell.diagnosis.inspection import inspect
from benches.python.browser import BROWSER, milliseconds_to_open, running

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

RANGES, LEDGERS = 1_000_000, 40
SUBSCRIPTIONS = 5_000


@pytest.fixture(scope="module")
def state() -> bytes:
    """Return a state with a million ranges: every second entry of forty ledgers is acknowledged."""
    each = np.arange(RANGES // LEDGERS) * 2
    ranges = PositionRangeSet()
    lowers = np.tile(each, LEDGERS)
    ranges.add_ranges(np.repeat(np.arange(LEDGERS) + 10, len(each)), lowers, lowers + 1)
    return PositionInfo(10, -1, ranges).encode("pulsar-ranges")


def answer(number: int) -> dict[str, Any]:
    """Return the answer of a broker about a subscription with 100 ranges at random in five ledgers."""
    random = np.random.default_rng(number)
    ledgers = [{"ledgerId": 3 + n, "entries": 5_000, "size": 500_000} for n in range(5)]
    cuts = np.sort(random.choice(4_990, 40, replace=False) + 1).reshape(-1, 2)
    ranges = ",".join(f"({3 + n}:{a}..{3 + n}:{b}]" for n in range(5) for a, b in cuts.tolist())
    cursor = {
        "markDeletePosition": "3:-1",
        "individuallyDeletedMessages": f"[{ranges}]",
        "cursorLedger": 9,
        "state": "Open",
    }
    internal = {
        "entriesAddedCounter": 25_000,
        "numberOfEntries": 25_000,
        "lastConfirmedEntry": "7:4999",
        "ledgers": ledgers,
        "cursors": {"sub": cursor},
    }
    consumers = [
        {
            "consumerName": f"consumer-{n}",
            "availablePermits": 0,
            "unackedMessages": 1_000,
            "msgOutCounter": 9_000,
        }
        for n in range(3)
    ]
    shown = {"type": "Shared", "msgBacklog": 20_000, "msgInReplay": 0, "msgOutCounter": 27_000}
    stats = {"msgInCounter": 25_000, "subscriptions": {"sub": {**shown, "consumers": consumers}}}
    return {"internalStats": internal, "stats": stats}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    for number in range(SUBSCRIPTIONS):
        (folder / f"orders-{number}.json").write_text(json.dumps(answer(number)))
    return folder


def test_inspect_a_million_ranges(benchmark: BenchmarkFixture, state: bytes) -> None:
    benchmark(inspect, state)


def test_predict_the_restart_of_a_million_ranges(benchmark: BenchmarkFixture, state: bytes) -> None:
    benchmark(inspect(state).restart_losses)


def test_the_inspect_command_on_a_million_ranges(
    benchmark: BenchmarkFixture, state: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "state.bin"
    file.write_bytes(state)
    command = [sys.executable, "-m", "ackwell", "inspect", str(file)]
    benchmark(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)


def test_read_a_hundred_thousand_ranges_of_one_answer(benchmark: BenchmarkFixture) -> None:
    told = answer(1)
    ranges = ",".join(f"(3:{2 * n}..3:{2 * n + 1}]" for n in range(100_000))
    told["internalStats"]["cursors"]["sub"]["individuallyDeletedMessages"] = f"[{ranges}]"
    data = json.dumps(told).encode()
    benchmark(lambda: list(parse_stats(data, "answer")))


def checkup(fleet: Path) -> Checkup:
    return Checkup.of(read_each([fleet]), JudgedBroker.of("4.0", others_are_defaults=True))


def test_diagnose_five_thousand_files(benchmark: BenchmarkFixture, fleet: Path) -> None:
    found: Checkup = benchmark.pedantic(checkup, (fleet,), rounds=1)  # type: ignore[no-untyped-call]
    assert len(found.diagnoses) == SUBSCRIPTIONS


@pytest.fixture(scope="module")
def page(fleet: Path) -> str:
    from ackwell.diagnosis.report import report_html

    return report_html(checkup(fleet))


def test_write_the_page_of_five_thousand_subscriptions(benchmark: BenchmarkFixture, fleet: Path) -> None:
    from ackwell.diagnosis.report import report_html

    page = benchmark.pedantic(report_html, (checkup(fleet),), rounds=1)  # type: ignore[no-untyped-call]
    assert len(page.encode()) <= 5_000_000


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on this machine")
def test_open_the_page_of_five_thousand_subscriptions(
    benchmark: BenchmarkFixture, page: str, tmp_path: Path
) -> None:
    """Measure the time from the navigation until the first map is painted, by the browser's clock."""
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    drawn = "document.querySelector('#map-0 > *')"
    with running(tmp_path / "profile") as port:
        times_ms = [milliseconds_to_open(port, file, drawn) for _ in range(5)]
        benchmark.extra_info["ms_to_open"] = times_ms
        benchmark.pedantic(milliseconds_to_open, (port, file, drawn), rounds=3)  # type: ignore[no-untyped-call]
