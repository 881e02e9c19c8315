"""JSON values with limits, and the commands that read them: one message, no traceback."""

from __future__ import annotations

import json
import urllib.error
from email.message import Message
from io import BytesIO
from pathlib import Path

import pytest

from ackwell import json_values
from ackwell.cluster.endpoint import _error_reason
from ackwell.json_values import json_value
from tests.commands import ERROR, ackwell, held

DEEP = "[" * 60_000
TRACES = Path(__file__).parents[1] / "examples" / "traces"
STATS = TRACES / "shared_small_holes.live.stats.json"


def test_a_json_value_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json_value('{"a": [1, {"a": 2}], "b": null}') == {"a": [1, {"a": 2}], "b": None}
    with pytest.raises(ValueError, match=r"^nested too deeply$"):
        json_value(DEEP)
    with pytest.raises(ValueError, match=r"^the key 'b' is twice in one object$"):
        json_value('{"x": {"a": 1, "b": 1, "b": 1}}')
    monkeypatch.setattr(json_values, "JSON_BYTES_MAX", 1 << 20)
    assert len(json_value(json.dumps(" " * ((1 << 20) - 2)))) == (1 << 20) - 2
    with pytest.raises(ValueError, match=r"^more than 1 MiB of JSON$"):
        json_value(json.dumps(" " * ((1 << 20) - 1)))


def test_a_deep_answer_of_an_error_is_the_hint_of_its_status() -> None:
    error = urllib.error.HTTPError("http://a", 418, "a teapot", Message(), BytesIO(DEEP.encode()))
    assert _error_reason(error) == "a teapot"


def test_commands_refuse_deep_json_in_one_line(tmp_path: Path) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text(DEEP)
    answer = held(ackwell("what-if", "skip", "--verify", str(deep), str(STATS), "sub"))
    assert answer.code == ERROR
    events = tmp_path / "events.jsonl"
    config = f'{{"a":{DEEP}{"]" * len(DEEP)}}}'
    events.write_text(f'{{"t":1,"ev":"meta","topic":"t","sub":"s","config":{config}}}\n')
    for command in ("replay", "events check"):
        held(ackwell(*command.split(), str(events)))
