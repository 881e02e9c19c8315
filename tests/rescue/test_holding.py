"""The hold: its journal, its confirmation by the broker, and the release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ackwell.errors import StatsError
from ackwell.rescue import Connection, RefusedError, held, hold, release
from ackwell.rescue.checksums import with_sha256
from ackwell.rescue.holding import HOLD, read_journal
from tests.pauses import recorded_pauses
from tests.rescue.scripted import FakeAdmin

TOPIC, NAME = "persistent://public/default/orders", "bil/ling"
PATH = "persistent/public/default/orders/bil%2Fling/dispatchRate"
APPLIED = f"{PATH}?applied=true"
RATE = {"dispatchThrottlingRateInMsg": 7}


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses that would have been made."""
    monkeypatch.setattr("ackwell.rescue.holding.clock_ms", lambda: 1_234_567)
    return recorded_pauses(monkeypatch, "ackwell.rescue.holding")


def connection(answers: dict[str, Any]) -> tuple[Connection, FakeAdmin]:
    admin = FakeAdmin(answers)
    return Connection(admin), admin  # type: ignore[arg-type]


def journal(path: Path, before: Any = None, **changed: Any) -> Path:
    whole = {"version": 1, "topic": TOPIC, "subscription": NAME, "before": before}
    whole |= {"admin": "http://127.0.0.1:1", "cluster": "standalone"} | changed
    path.write_text(json.dumps(with_sha256(whole)))
    return path


def test_a_hold_is_one_message_an_hour() -> None:
    assert HOLD == {
        "dispatchThrottlingRateInMsg": 1,
        "dispatchThrottlingRateInByte": 1,
        "ratePeriodInSecond": 3600,
        "relativeToPublishRate": False,
    }


def test_what_was_set_is_written_down_before_and_the_hold_is_waited_for(
    tmp_path: Path, slept: list[float]
) -> None:
    made, admin = connection({PATH: RATE, APPLIED: [None, RATE, HOLD]})
    change = admin.change

    def after_the_journal(method: str, path: str, body: Any = None) -> None:
        value = {
            "version": 1,
            "admin": "http://127.0.0.1:1",
            "cluster": "standalone",
            "topic": TOPIC,
            "subscription": NAME,
            "before": RATE,
            "timeMs": 1_234_567,
        }
        assert json.loads((tmp_path / "j").read_text()) == with_sha256(value)
        change(method, path, body)

    admin.change = after_the_journal  # type: ignore[method-assign]
    hold(made, TOPIC, NAME, tmp_path / "j")
    assert admin.changed == [("POST", PATH, HOLD)]
    assert admin.asked == [PATH, APPLIED, APPLIED, APPLIED]
    assert slept == [0.1, 0.1]
    assert [each.name for each in tmp_path.iterdir()] == ["j"]


def test_a_hold_that_is_never_applied_is_an_error_after_30_seconds(
    tmp_path: Path, slept: list[float]
) -> None:
    made, _ = connection({APPLIED: None})
    with pytest.raises(StatsError, match=r"was accepted and is not .* after 30 s") as caught:
        hold(made, TOPIC, NAME, tmp_path / "j")
    assert caught.value.source == f"http://127.0.0.1:1/admin/v2/{APPLIED}"
    assert slept == [0.1] * 300
    # The journal stays, because the hold may take effect later.
    assert (tmp_path / "j").exists()


def test_a_hold_without_a_journal_is_not_ours(tmp_path: Path) -> None:
    made, admin = connection({PATH: HOLD, APPLIED: HOLD})
    with pytest.raises(RefusedError) as caught:
        hold(made, TOPIC, NAME, tmp_path / "j")
    assert caught.value.code == "held-already"
    assert (admin.changed, list(tmp_path.iterdir())) == ([], [])
    # The journal of an interrupted run is used, because it keeps the rate from before that run.
    journal(tmp_path / "j", RATE)
    hold(made, TOPIC, NAME, str(tmp_path / "j"))
    assert read_journal(tmp_path / "j")["before"] == RATE
    assert admin.changed == []


@pytest.mark.parametrize("other", [{"topic": f"{TOPIC}-2"}, {"subscription": "other"}])
def test_the_journal_of_another_subscription_holds_nothing(tmp_path: Path, other: dict[str, str]) -> None:
    made, admin = connection({PATH: None, APPLIED: HOLD})
    file = journal(tmp_path / "j", **other)
    with pytest.raises(RefusedError) as caught:
        hold(made, TOPIC, NAME, file)
    assert caught.value.code == "other-journal"
    name = {"topic": TOPIC, "subscription": NAME} | other
    assert f"{file} is the journal of {name['subscription']!r} of {name['topic']}" in str(caught.value)
    with pytest.raises(RefusedError), held(made, TOPIC, NAME, str(file)):
        pass
    assert (admin.changed, file.exists()) == ([], True)


@pytest.mark.parametrize(("before", "change"), [(RATE, ("POST", PATH, RATE)), (None, ("DELETE", PATH, None))])
def test_a_release_sets_what_was_set_before(
    tmp_path: Path, slept: list[float], before: Any, change: Any
) -> None:
    made, admin = connection({PATH: [HOLD, HOLD, before]})
    file = journal(tmp_path / "j", before)
    assert release(made, str(file)) == "released"
    assert admin.changed == [change]
    assert (admin.asked, slept) == ([PATH] * 3, [0.1])
    assert not file.exists()


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (RATE, "no longer held"),
        ({"dispatchThrottlingRateInMsg": 8}, "no longer held: another rate was set since"),
    ],
)
def test_a_rate_that_is_not_the_hold_is_left(tmp_path: Path, now: Any, said: str) -> None:
    made, admin = connection({PATH: now})
    file = journal(tmp_path / "j", RATE)
    assert release(made, file) == said
    assert (admin.changed, file.exists()) == ([], False)


@pytest.mark.parametrize("now", [HOLD, None, RATE])
def test_a_journal_of_another_cluster_changes_nothing_and_stays(tmp_path: Path, now: Any) -> None:
    made, admin = connection({PATH: now, APPLIED: HOLD})
    file = journal(tmp_path / "j", RATE, cluster="other")
    for act in (lambda: release(made, file), lambda: hold(made, TOPIC, NAME, file)):
        with pytest.raises(RefusedError, match=r"j is of cluster 'other', and this is 'standalone'"):
            act()
    assert (admin.changed, file.exists()) == ([], True)


@pytest.mark.parametrize("now", [None, RATE])
def test_what_is_not_held_at_another_address_is_not_taken_for_released(tmp_path: Path, now: Any) -> None:
    # Two clusters can have the same name.
    made, admin = connection({PATH: now})
    file = journal(tmp_path / "j", RATE, admin="http://prod:8080")
    with pytest.raises(RefusedError) as caught:
        release(made, file)
    assert caught.value.code == "not-held-here"
    assert "the journal was written for http://prod:8080" in str(caught.value)
    assert (admin.changed, file.exists()) == ([], True)
    # Another broker of the same cluster also shows the hold.
    made, admin = connection({PATH: [HOLD, RATE]})
    assert release(made, file) == "released"


def test_a_rate_that_was_set_since_an_old_journal_is_not_lost_by_another_hold(tmp_path: Path) -> None:
    made, admin = connection({PATH: {"dispatchThrottlingRateInMsg": 8}, APPLIED: HOLD})
    file = journal(tmp_path / "j", RATE)
    with pytest.raises(RefusedError) as caught:
        hold(made, TOPIC, NAME, file)
    assert (caught.value.code, admin.changed) == ("rate-changed", [])
    assert read_journal(file)["before"] == RATE
    # A run that ended before its hold leaves a journal without a hold.
    made, admin = connection({PATH: RATE, APPLIED: HOLD})
    hold(made, TOPIC, NAME, file)
    assert (admin.changed, read_journal(file)["before"]) == ([("POST", PATH, HOLD)], RATE)


@pytest.mark.parametrize("odd", [[], {}, {"reason": "not found"}, ["standalone"], "text", 5])
def test_what_is_not_a_rate_is_neither_written_down_nor_believed(tmp_path: Path, odd: Any) -> None:
    # One answer for each request.
    made, admin = connection({PATH: [odd, odd], APPLIED: HOLD})
    with pytest.raises(StatsError, match="expected a dispatch rate"):
        hold(made, TOPIC, NAME, tmp_path / "j")
    assert list(tmp_path.iterdir()) == []
    file = journal(tmp_path / "j", RATE)
    with pytest.raises(StatsError, match="expected a dispatch rate"):
        release(made, file)
    assert (admin.changed, file.exists()) == ([], True)


def test_a_hold_that_is_in_force_is_not_gone_because_no_policy_shows_it(tmp_path: Path) -> None:
    made, admin = connection({PATH: None, APPLIED: HOLD})
    file = journal(tmp_path / "j")
    with pytest.raises(StatsError, match="the hold is in force, and no policy shows it"):
        release(made, file)
    assert (admin.changed, file.exists()) == ([], True)


def test_a_changed_bit_of_a_journal_is_never_a_rate(tmp_path: Path) -> None:
    made, admin = connection({PATH: HOLD})
    data = journal(tmp_path / "j", RATE).read_bytes()
    for bit in range(0, 8 * len(data), 7):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / "j").write_bytes(damaged)
        with pytest.raises(StatsError):
            release(made, tmp_path / "j")
    assert admin.changed == []


def test_a_second_run_that_ended_at_the_same_time_is_no_error(tmp_path: Path) -> None:
    made, admin = connection({PATH: [HOLD, RATE]})
    file = journal(tmp_path / "j", RATE)
    change = admin.change

    def other_run(method: str, path: str, body: Any = None) -> None:
        change(method, path, body)
        file.unlink()

    admin.change = other_run  # type: ignore[method-assign]
    assert release(made, file) == "released"


def test_a_hold_is_released_whatever_happens_inside(tmp_path: Path) -> None:
    made, admin = connection({PATH: [None, HOLD, None], APPLIED: HOLD})

    def fail() -> None:
        with held(made, TOPIC, NAME, tmp_path / "j"):
            assert [each[0] for each in admin.changed] == ["POST"]
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [each[0] for each in admin.changed] == ["POST", "DELETE"]
    assert list(tmp_path.iterdir()) == []


def test_what_a_hold_refuses_leaves_nothing_to_release(tmp_path: Path) -> None:
    made, admin = connection({PATH: HOLD})
    with pytest.raises(RefusedError), held(made, TOPIC, NAME, tmp_path / "j"):
        pass
    assert admin.changed == []


def test_a_broker_that_does_not_answer_is_asked_for_two_minutes(tmp_path: Path, slept: list[float]) -> None:
    made, admin = connection({PATH: None, APPLIED: HOLD})
    silent, asked = 3, 0

    def ask(path: str) -> Any:
        nonlocal asked
        asked += 1
        if asked <= silent:
            raise StatsError("no answer", path)
        return None

    with held(made, TOPIC, NAME, tmp_path / "j"):
        admin.ask = ask  # type: ignore[method-assign]
    # The fourth answer shows no hold in the policies, the fifth no hold in force.
    assert (asked, slept) == (5, [2.0] * 3)
    assert not (tmp_path / "j").exists()
    silent, asked = 1_000, 0
    slept.clear()
    with pytest.raises(StatsError, match="no answer"), held(made, TOPIC, NAME, journal(tmp_path / "j")):
        pass
    # The hold sent one request; then sixty attempts follow, without a pause after the last.
    assert (asked, slept) == (61, [2.0] * 59)
    assert (tmp_path / "j").exists()


def test_another_error_of_a_release_is_not_tried_again(tmp_path: Path, slept: list[float]) -> None:
    made, admin = connection({PATH: None, APPLIED: HOLD})

    def ask(path: str) -> Any:
        raise RefusedError("transactions", topic=path)

    with pytest.raises(RefusedError), held(made, TOPIC, NAME, tmp_path / "j"):
        admin.ask = ask  # type: ignore[method-assign]
    assert slept == []


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "1", "[" * 100_000, '{"topic": "t"}', '"text"', "null"],
)
def test_what_is_not_a_journal_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "j").write_text(text)
    with pytest.raises(StatsError, match="not a journal of `ackwell rescue hold`") as caught:
        read_journal(tmp_path / "j")
    assert caught.value.source == str(tmp_path / "j")


@pytest.mark.parametrize("version", [0, 2])
def test_the_journal_of_another_version_is_named(tmp_path: Path, version: int) -> None:
    with pytest.raises(StatsError, match=f"hold` of version {version}; this ackwell reads version 1"):
        read_journal(journal(tmp_path / "j", version=version))


def test_a_partition_is_held_by_the_policy_of_its_partitioned_topic(tmp_path: Path) -> None:
    """A broker refuses policies of a partition with HTTP 412."""
    made, admin = connection({PATH: [None, HOLD, None], APPLIED: HOLD})
    file = tmp_path / "j"
    hold(made, f"{TOPIC}-partition-3", NAME, file)
    # Another partition shares the hold.
    assert read_journal(file, f"{TOPIC}-partition-0", NAME)["topic"] == TOPIC
    release(made, file)
    assert admin.changed == [("POST", PATH, HOLD), ("DELETE", PATH, None)]
