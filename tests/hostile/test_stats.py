"""Random stats answers: every command that reads them prints a result or a message of one line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackwell.broker.stats import UnreadableSource, read_each
from tests.commands import ERROR, USAGE, ackwell, held
from tests.hostile.values import ODD, changed, damaged, hostile, places, text_of

QUICK, LONG = 25, 20_000
FIXTURES = list(HealthCheck)
TRACES = Path(__file__).parents[2] / "examples" / "traces"

COMMANDS = [
    ["doctor"],
    ["doctor", "--format", "json"],
    ["doctor", "--format", "jsonl"],
    ["doctor", "--format", "prometheus"],
    ["doctor", "--messages-per-entry", "7"],
    ["holes"],
    ["holes", "--format", "json"],
    ["holes", "--format", "prometheus"],
    ["inspect"],
    ["inspect", "--format", "json"],
]


def small() -> dict[str, Any]:
    """Return a recorded answer with few ranges and with each field that commands read."""
    answer: dict[str, Any] = json.loads((TRACES / "batch_partial.live.stats.json").read_text())
    (cursor,) = answer["internalStats"]["cursors"].values()
    cursor["individuallyDeletedMessages"] = "[(3:5..3:9]]"
    sets = answer["cursor"]["batchDeletedIndexes"]
    answer["cursor"]["batchDeletedIndexes"] = dict(list(sets.items())[:2])
    return answer


ANSWER = small()
TEXT = json.dumps(ANSWER)


@st.composite
def stats_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw the name and the bytes of an answer."""
    documents = hostile(ANSWER).map(lambda text: text.encode("utf-8", "surrogatepass"))
    data = draw(documents | hostile(ANSWER["internalStats"]).map(str.encode) | damaged(TEXT.encode()))
    form = draw(st.sampled_from([".json", ".json", ".json.gz", ".json.gz damaged", " utf-16"]))
    if ".gz" in form:
        data = gzip.compress(data, 1)
    elif form == " utf-16":
        data = data.decode("utf-8", "replace").encode("utf-16")
    if "damaged" in form:
        data = draw(damaged(data))
    return f"a{form.partition(' ')[0] or '.json'}", data


def check(path: Path, file: tuple[str, bytes], command: list[str]) -> None:
    name, data = file
    (path / name).write_bytes(data)
    held(ackwell(*command, str(path / name)))
    if command == ["doctor"]:
        held(ackwell("doctor", "-", stdin=data))
        held(ackwell("diff", str(path / name), str(path / name)))
        held(ackwell("replay", "--start-from", str(path / name), str(TRACES / "shared_small_holes.jsonl")))
    for found in read_each([path / name]):
        assert not isinstance(found, UnreadableSource) or "\n" not in found.reason


@given(stats_files(), st.sampled_from(COMMANDS))
@settings(max_examples=QUICK, suppress_health_check=FIXTURES)
def test_any_answer_is_judged_or_refused_in_one_line(
    tmp_path: Path, file: tuple[str, bytes], command: list[str]
) -> None:
    check(tmp_path, file, command)


@pytest.mark.proof
@given(stats_files(), st.sampled_from(COMMANDS))
@settings(max_examples=LONG, suppress_health_check=FIXTURES)
def test_many_answers_are_judged_or_refused_in_one_line(
    tmp_path: Path, file: tuple[str, bytes], command: list[str]
) -> None:
    check(tmp_path, file, command)


@pytest.mark.proof
def test_every_odd_value_at_every_place_is_taken_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    seen = 0
    for number, place in enumerate(places(ANSWER)):
        for odd in [..., *ODD]:
            path.write_text(text_of(changed(ANSWER, place, odd)))
            for command in (COMMANDS[number % 6], ["doctor", "--html", "-"]):
                answer = held(ackwell(*command, str(path)))
                assert answer.code not in (ERROR, USAGE)
                seen += 1
    assert seen > 5_000


def test_the_answer_itself_is_judged(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(TEXT)
    assert json.loads(held(ackwell("doctor", "--format", "json", str(tmp_path))).out)["subscriptions"]
