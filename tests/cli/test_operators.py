"""The commands of `docs/operators.md` exist, and `delay-advise` gives advice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.main import get_command

from ackwell.broker.codes import codes
from ackwell.broker.writes import ReasonCode
from ackwell.cli import app
from ackwell.cli.delay_advise_command import milliseconds
from tests.commands import command

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
    # The tables of the second verdict are compared by tests/diagnosis/test_codes.py.
    assert reasons <= set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)) <= reasons | set(codes())


def test_a_fixed_delay_costs_next_to_nothing_in_buckets() -> None:
    code, output = command("delay-advise", "fixed:60s", "--tolerance", "1s", "--rate", "10000", "--json")
    advice = json.loads(output)
    assert code == 0
    assert advice["bits"] <= 9
    assert advice["bytes_per_message"] < 1
    assert advice["entropy_bound_bytes"] == 0


def test_the_advice_ends_in_the_settings_of_a_broker() -> None:
    _, output = command("delay-advise", "fixed:60s", "--tolerance", "1s")
    assert re.search(r"delayedDeliveryTickTimeMillis=(\d+)", output)
    assert "isDelayedDeliveryDeliverAtTimeStrict=true" in output


@pytest.mark.slow
def test_scattered_delays_are_told_what_the_bound_is() -> None:
    code, output = command("delay-advise", "uniform:0s..7d", "--tolerance", "1s", "--rate", "100")
    assert code == 0
    assert "the least any index needs with that tick" in output
    assert "use TimeWheel" in output


def test_delays_are_read_from_a_text_and_from_a_trace(tmp_path: Path) -> None:
    text = tmp_path / "delays.txt"
    text.write_text("60s\n61000\n1.5m\n")
    assert json.loads(command("delay-advise", str(text), "--json")[1])["messages"] == 3
    trace = tmp_path / "trace.jsonl"
    publish = {"t": 1_000, "ev": "publish", "ok": True, "l": 3}
    lines = [{"t": 0, "ev": "meta", "topic": "t", "sub": "s"}]
    lines += [publish | {"n": n, "e": n, "deliver_at": 61_000 + n} for n in range(5)]
    trace.write_text("\n".join(json.dumps(line) for line in lines))
    assert json.loads(command("delay-advise", str(trace), "--json")[1])["messages"] == 5


def test_what_is_no_delay_is_refused() -> None:
    assert command("delay-advise", "fixed:soon")[0] == 2
    assert command("delay-advise", "no-such-file")[0] == 2
    assert command("delay-advise", "fixed:60s", "--tolerance", "x")[0] == 2


@pytest.mark.parametrize(
    ("text", "expected"), [("500ms", 500), ("60s", 60_000), ("1.5m", 90_000), ("7d", 604_800_000), ("0", 0)]
)
def test_times_are_read_with_their_unit(text: str, expected: int) -> None:
    assert milliseconds(text) == expected


def test_a_time_without_a_unit_is_refused_on_the_command_line_and_milliseconds_in_a_file() -> None:
    with pytest.raises(ValueError, match="a time without a unit: '60'; write 60ms, 60s or 60m"):
        milliseconds("60")
    assert milliseconds("60", "ms") == 60
    assert command("delay-advise", "fixed:60")[0] == 2
    assert command("delay-advise", "uniform:0..60s")[0] == 0


def test_the_tick_of_a_broker_is_the_width_that_takes_the_fewest_bytes() -> None:
    advice = json.loads(command("delay-advise", "uniform:0s..7d", "--tolerance", "1s", "--json")[1])
    least = min(advice["widths"], key=lambda width: width["bytes_per_message"])
    assert advice["bits"] == least["bits"] == 9
