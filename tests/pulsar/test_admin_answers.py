"""A real broker still gives the recorded answers to admin requests; `ANSWERS=1` writes them."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from tests.admin_answers.shapes import answers
from tests.admin_answers.test_answers import FILE, VERSIONS
from tests.pulsar import kit

ENABLED = dict.fromkeys(
    ("transactionCoordinatorEnabled", "systemTopicEnabled", "topicLevelPoliciesEnabled"), "true"
)


@pytest.mark.pulsar
@pytest.mark.parametrize("release", VERSIONS)
def test_a_real_broker_gives_the_recorded_answers(tmp_path: Path, release: str) -> None:
    with kit.running_broker(tmp_path, release, **ENABLED) as real:
        found = answers(f"http://127.0.0.1:{real.ports.admin}", real.service_url)
    given = {name: list(answer) for name, answer in found.items()}
    known = json.loads(gzip.decompress(FILE.read_bytes()))
    if os.environ.get("ANSWERS"):
        known[release] = given
        FILE.write_bytes(gzip.compress(json.dumps(known, sort_keys=True).encode(), mtime=0))
    assert given == known[release]
