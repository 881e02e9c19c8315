"""The directed cases agree with a live broker, and detect every wrong rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pulsar.live.directed import CASES
from tests.pulsar.live.test_sequences import VERSIONS
from tests.pulsar.live.wrong import RULES, judge

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("version", VERSIONS)
def test_each_wrong_field_of_the_preset_is_found(version: str, tmp_path: Path) -> None:
    assert {case.field for case in CASES} == set(RULES)
    verdict = judge(tmp_path, version)
    assert not verdict.differences, "\n\n".join(verdict.differences)
    assert [rule for rule, cases in verdict.convicted.items() if not cases] == []
