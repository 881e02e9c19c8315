"""The doctor's predictions from the admin API alone hold when a real broker restarts.

`make lab-test-pulsar LIVES=200 SEED=1 VERSIONS="4.2.4 4.0.7 5.0.0-M1 5.0.1"`:
200 subscriptions, 20 at once, each through several broker processes that end gracefully or by kill -9.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.pulsar import kit
from tests.pulsar.lives.case import summary
from tests.pulsar.lives.examine import SETTINGS, examined

if TYPE_CHECKING:
    from pathlib import Path

LIVES = int(os.environ.get("LIVES", "40"))
SEED = int(os.environ.get("SEED", "1"))
VERSIONS = os.environ.get("VERSIONS", kit.VERSIONS[0]).split()
AT_ONCE = 20


@pytest.mark.parametrize("version", VERSIONS)
def test_the_doctor_is_never_falsely_fine_or_exact(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    processes = max(2, 2 * LIVES // AT_ONCE)
    with kit.running_broker(tmp_path, version, **SETTINGS) as broker:
        cases = list(examined(broker, AT_ONCE, processes, SEED))
    with capsys.disabled():
        print(f"\n{version}, {processes} broker processes: {summary(cases)}")
    assert any(case.lost for case in cases)
    wrong = [f"{said}; {case.settings}" for case in cases if (said := case.wrong()) is not None]
    assert not wrong, "\n".join(wrong)
