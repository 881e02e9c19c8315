"""The doctor's predictions, compared with recorded restarts of real brokers of three versions.

`tests/vectors/lives.jsonl.gz` has a line for each restart of a subscription, recorded with
`python -m tests.pulsar.lives --record`. Every input is an answer of the admin API.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.pulsar.lives.case import Case

RECORDED = Path(__file__).parents[1] / "vectors" / "lives.jsonl.gz"


def recorded() -> list[Case]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return [Case.from_json(line) for line in lines]


def test_the_doctor_is_right_about_every_recorded_restart() -> None:
    cases = recorded()
    wrong = [f"{number}: {said}" for number, case in enumerate(cases) if (said := case.wrong()) is not None]
    assert not wrong, "\n".join(wrong)


def test_the_recorded_lives_lose_something_in_every_version_and_kind_of_restart() -> None:
    losing = {(case.version, case.restart) for case in recorded() if case.lost}
    versions = {version for version, _ in losing}
    assert len(versions) == 3
    assert losing == {(version, restart) for version in versions for restart in ("graceful", "crash")}
