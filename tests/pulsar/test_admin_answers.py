"""A real broker still gives the recorded answers to admin requests; `ANSWERS=1` writes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.admin_answers.recorded import VERSIONS, record, recorded
from tests.admin_answers.shapes import answers
from tests.pulsar import kit

ENABLED = dict.fromkeys(
    ("transactionCoordinatorEnabled", "systemTopicEnabled", "topicLevelPoliciesEnabled"), "true"
)


@pytest.mark.pulsar
@pytest.mark.parametrize("release", VERSIONS)
def test_a_real_broker_gives_the_recorded_answers(tmp_path: Path, release: str) -> None:
    with kit.running_broker(tmp_path, release, **ENABLED) as real:
        found = answers(f"http://127.0.0.1:{real.ports.admin}", real.service_url)
    if os.environ.get("ANSWERS"):
        record(release, found)
    assert found == recorded(release)
