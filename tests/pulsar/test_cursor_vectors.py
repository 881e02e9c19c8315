"""A live broker still gives the recorded results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pulsar import cursor_vectors, kit

RECORDED = json.loads(cursor_vectors.RECORDED.read_text())


@pytest.mark.parametrize("version", kit.VERSIONS)
def test_the_broker_does_what_was_recorded(version: str, tmp_path: Path) -> None:
    with kit.running_broker(tmp_path, version, **cursor_vectors.SETTINGS) as broker:
        for name, scenario in RECORDED.items():
            assert scenario["steps"] == cursor_vectors.SCENARIOS[name]
            assert cursor_vectors.record(broker, name) == scenario[version]
