"""The commands, options and reasons in `docs/operators.md` exist."""

from __future__ import annotations

import re
from pathlib import Path

from typer.main import get_command

from ackwell.broker.codes import codes
from ackwell.broker.writes import ReasonCode
from ackwell.cli import app

PAGE = Path(__file__).parents[2].joinpath("docs/operators.md").read_text(encoding="utf-8")


def test_the_page_names_only_commands_and_options_that_exist() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    lines = [line for line in re.findall(r"ackwell ([a-z-]+[^`\n]*)", PAGE) if line.split()[0] in commands]
    assert len(lines) >= 7
    for line in lines:
        options = {option for each in commands[line.split()[0]].params for option in each.opts}
        assert set(re.findall(r"--[a-z-]+", line)) <= options, line


def test_the_page_explains_every_reason() -> None:
    reasons: set[str] = set(ReasonCode.__args__)  # type: ignore[attr-defined]
    # tests/diagnosis/test_codes.py compares the tables of the delivery verdict.
    tables = "".join(re.findall(r"<!-- codes: .*?<!-- end -->", PAGE, re.DOTALL))
    assert reasons <= set(re.findall(r"^\| `([a-z-]+)` \|", tables, re.MULTILINE)) <= set(codes())
