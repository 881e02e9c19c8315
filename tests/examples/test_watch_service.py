"""The files of `examples/watch`: command lines that the command accepts, and metrics that exist."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from ackwell.rescue.watch import WatchCounts
from ackwell.rescue.watch_server import watch_metrics
from tests.cli.test_help import COMMANDS

FOLDER = Path(__file__).parents[2] / "examples" / "watch"


@pytest.mark.parametrize("file", ["alerts.yml", "dashboard.json"])
def test_the_metrics_exist(file: str) -> None:
    counts = WatchCounts()
    counts.refused["first-range-gone"] += 1
    shown = set(re.findall(r"^(ackwell_\w+)", watch_metrics(counts, restores=True), re.MULTILINE))
    used = set(re.findall(r"ackwell_watch_\w+", (FOLDER / file).read_text()))
    assert used
    assert used <= shown
    if file == "dashboard.json":
        assert used == shown
        assert {each["type"] for each in json.loads((FOLDER / file).read_text())["panels"]} == {
            "stat",
            "timeseries",
        }


def test_the_command_lines_are_accepted() -> None:
    unit = (FOLDER / "ackwell-watch.service").read_text()
    (line,) = re.findall(r"^ExecStart=\S+/ackwell rescue watch (.+)$", unit, re.MULTILINE)
    compose = (FOLDER / "compose.yml").read_text()
    (folded,) = re.findall(r"command: >-\n\s+(.+)\n", compose)
    command = COMMANDS["rescue watch"]
    for arguments in (line, folded):
        context = command.make_context("watch", shlex.split(arguments), resilient_parsing=True)
        assert list(context.params["namespaces"]) == ["shop/eu"]
        assert not context.params["yes"]
        assert (context.params["every"], context.params["listen"].rpartition(":")[2]) == ("10s", "9464")
    assert 'ENTRYPOINT ["ackwell", "rescue", "watch"]' in (FOLDER / "Dockerfile").read_text()
