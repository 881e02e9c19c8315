"""Every scenario on a real broker and on the dev broker: both give the same answers.

`make lab-test-pulsar ANSWERS=1` stores the real broker's answers, for the tests without a broker.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.pulsar import kit

pytest.importorskip("pulsar")

from tests.scenarios import on

ANSWERS = Path(on.__file__).parent / "answers.json"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.Broker]:
    with kit.running_broker(tmp_path_factory.mktemp("scenarios")) as broker:
        yield broker


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, Any]]:
    """The real broker's answers; written at the end on request."""
    given: dict[str, Any] = {}
    yield given
    if os.environ.get("ANSWERS"):
        known = json.loads(ANSWERS.read_text(encoding="utf-8")) | given
        rows = [
            f"  {json.dumps(name)}: [\n"
            + ",\n".join(f"    {json.dumps(note)}" for note in known[name])
            + "\n  ]"
            for name in sorted(on.NAMES)
        ]
        ANSWERS.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


@pytest.mark.parametrize("name", on.NAMES)
def test_both_give_the_same_answers(real: kit.Broker, answers: dict[str, Any], name: str) -> None:
    with ThreadPoolExecutor(1) as beside:
        theirs = beside.submit(on.on_the_real_one, real, name)
        ours = on.on_ours(name)
        answers[name] = theirs.result()
    assert ours == answers[name]
