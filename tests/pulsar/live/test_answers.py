"""A broker and our model answer the scripts of `answers.py` equally; `ANSWERS=1` stores the answers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pulsar.live.answers import SCRIPTS, on_broker

if TYPE_CHECKING:
    from tests.pulsar import kit

KEPT = Path(__file__).parents[2] / "vectors" / "answers.json"


@pytest.mark.parametrize("name", SCRIPTS)
def test_both_give_the_same_answer(broker: kit.Broker, name: str) -> None:
    answer = on_broker(name, broker)
    if os.environ.get("ANSWERS"):
        kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
        rows = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in (kept | {name: answer}).items()]
        KEPT.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    assert SCRIPTS[name].ours(answer) == answer
