"""The doctor's predictions, compared with recorded restarts of real brokers of four versions.

`tests/vectors/lives.jsonl.gz` and, for 5.0.1, `lives_5_0_1.jsonl.gz` have a line for each restart of a
subscription, recorded with `python -m tests.pulsar.lives --record`. `lives_idle.jsonl.gz` was recorded with
`--idle`: the last acknowledgments are old enough to be certainly written. `broken.jsonl.gz` has crashes while
ZooKeeper and the bookie failed, recorded with `python -m tests.pulsar.broken --record`. In the last cases,
only the bookie did not answer. Every input is an answer of the admin API.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

from ackwell.diagnosis import unwritten
from ackwell.protocol.constants import SubscriptionType
from ackwell.releases import RELEASES
from tests.pulsar.lives.case import Case

if TYPE_CHECKING:
    import pytest

NOT_ANSWERED = 52
"""The recorded crashes while the bookie did not answer."""
VECTORS = Path(__file__).parents[1] / "vectors"


def recorded(name: str = "lives") -> list[Case]:
    with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [Case.from_json(line) for line in lines]


def lives() -> list[Case]:
    return recorded() + recorded("lives_5_0_1") + recorded("lives_idle")


def test_the_doctor_is_right_about_every_recorded_restart() -> None:
    wrong = [f"{number}: {said}" for number, case in enumerate(lives()) if (said := case.wrong()) is not None]
    assert not wrong, "\n".join(wrong)


def test_four_of_five_restarts_of_idle_subscriptions_are_decided() -> None:
    cases = recorded("lives_idle")
    assert {subscription_type(case) for case in cases} >= set(SubscriptionType)
    for version in {case.version for case in cases}:
        decided = [case.is_decided for case in cases if case.version == version]
        assert sum(decided) >= 0.8 * len(decided), version


def subscription_type(case: Case) -> str:
    (shown,) = case.answer["stats"]["subscriptions"].values()
    return str(shown["type"])


def test_the_recorded_lives_lose_something_in_every_version_and_kind_of_restart() -> None:
    losing = {(case.version, case.restart) for case in lives() if case.lost}
    assert losing == {(version, restart) for version in RELEASES for restart in ("graceful", "crash")}


def test_the_doctor_is_right_about_every_crash_while_the_store_failed() -> None:
    cases = recorded("broken")
    wrong = [
        f"{number}: {said}" for number, case in enumerate(cases) if (said := case.wrong_loss()) is not None
    ]
    assert not wrong, "\n".join(wrong)
    assert sum(case.lost > 0 for case in cases) > len(cases) / 3


def test_a_healthy_flush_interval_proves_no_write_while_a_bookie_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without an acknowledgment between two dumps, a delayed write looks like a finished one.
    cases = recorded("broken")[-NOT_ANSWERED:]
    assert not any(case._replace(before=None).wrong_loss() for case in cases)
    monkeypatch.setattr(unwritten, "ATTEMPTS", 0)
    wrong = [case for case in cases if case.wrong_loss() is not None]
    assert {case.version for case in wrong} == {"4.2.4", "5.0.1"}
    assert len(wrong) > 10
