"""`ackwell rescue begin`, `end` and `status`: planned restarts without a redelivery."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from ackwell.errors import StatsError
from ackwell.protocol.constants import SubscriptionType
from ackwell.rescue import Connection, Plan, Report, Snapshot, apply, holding, policy_readers, windows
from ackwell.rescue.policy_readers import UnreadPolicies
from ackwell.rescue.windows import Window, end
from tests.commands import ackwell
from tests.rescue.cluster import NAME, TOPIC, Cluster, cluster
from tests.rescue.test_rescue import at_step, with_type

if TYPE_CHECKING:
    from ackwell.position import Position


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.chdir(tmp_path)
    with cluster() as made:
        yield made


def rescue(there: Cluster, *arguments: str, code: int = 0) -> str:
    done = ackwell("rescue", *arguments, "--admin", there.url)
    assert done.code == code, done.err
    return done.out + done.err


def fill_two(there: Cluster) -> list[Position]:
    """Fill a subscription and copy it to `second`; return the published positions."""
    positions = there.fill()
    with_type(there)
    assert rescue(there, "copy", TOPIC, NAME, "second", "--yes")
    return positions


def test_a_window_restores_an_unload_and_ends_its_holds(there: Cluster) -> None:
    positions = there.fill()
    with_type(there)
    assert "at least 16 messages" in rescue(there, "begin", "public/default", "--yes")
    (rate,) = there.rates.values()
    assert rate["dispatchThrottlingRateInMsg"] == 1
    assert ackwell("rescue", "status", "window").out == f"{NAME!r} of {TOPIC}: held, with a snapshot\n"
    there.unload()
    assert len(there.acked()) == 4
    assert "16 acknowledgments restored, 0 are still missing" in rescue(there, "end", "window", "--yes")
    assert (there.acked(), there.rates) == (set(positions[1::2]), {})
    assert ackwell("rescue", "status", "window").out.endswith(": done\n")
    # A second run changes nothing, and a window without a restart releases its holds.
    there.asked.clear()
    assert rescue(there, "end", "window", "--yes") == ""
    assert {method for method, _ in there.asked} == {"GET"}
    rescue(there, "begin", "-o", "second", "--yes")
    assert "nothing is missing" in rescue(there, "end", "second", "--yes")
    assert there.rates == {}


def test_without_yes_a_window_changes_nothing_and_reports_the_cost(there: Cluster) -> None:
    there.fill()
    with_type(there)
    text = rescue(there, "begin")
    assert "subscriptions that may lose acknowledgments: 1; at least 16 messages would be redelivered" in text
    assert "would hold 1 subscriptions; nothing was changed: add --yes" in text
    assert {method for method, _ in there.asked} == {"GET"}
    assert [path.name for path in Path().iterdir()] == []
    assert "would hold 0 subscriptions" in rescue(there, "begin", "--owner", "127.0.0.2:8080")
    rescue(there, "begin", "--yes")
    rates = dict(there.rates)
    assert "would restore and release 1 subscriptions" in rescue(there, "end", "window")
    assert there.rates == rates


def test_begin_prints_each_result_before_the_next_one(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_two(there)
    printed = list[str]()
    begin_window = windows.begin

    def begin(connection: Connection, window: Window) -> Iterator[windows.Result]:
        for result in begin_window(connection, window):
            yield result
            printed.append(cast("Any", sys.stdout).buffer.getvalue().decode().splitlines()[-1])

    monkeypatch.setattr(windows, "begin", begin)
    *_, first, second, last = rescue(there, "begin", "--yes").splitlines()
    assert printed == [first, second]
    assert {first, second} == {f"{name!r} of {TOPIC}: held, with a snapshot" for name in (NAME, "second")}
    assert last.startswith("2 subscriptions are held. ")


LAGS = UnreadPolicies("public/default", "a broker lags", "unread")


def test_a_broker_that_has_not_read_the_holds_is_reported(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.fill()
    with_type(there)
    not_known = "1 subscriptions have a hold, which may not be in force on every broker (public/default). "
    for state, code, text, last in (
        ("unread", 3, "error: a broker lags; run the same command again\n", not_known),
        ("unknown", 0, "note: a broker lags\n", not_known),
        ("waiting", 0, "note: a broker lags; waiting up to 90 s\n", "1 subscriptions are held. "),
    ):
        monkeypatch.setattr(windows, "wait_until_read", lambda *_, to=state: [LAGS._replace(state=to)])
        done = ackwell("rescue", "begin", "--admin", there.url, "--yes")
        assert (done.code, done.err) == (code, text)
        assert done.out.splitlines()[-1].startswith(last)


def test_a_hold_and_an_unload_wait_until_the_brokers_have_read_the_hold(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.fill()
    with_type(there)
    acked = there.acked()
    asked = list[str]()

    def lagging(admin: object, topics: list[str], seconds: float) -> list[UnreadPolicies]:
        asked.extend(topics)
        return [LAGS._replace(state="waiting"), LAGS]

    monkeypatch.setattr(policy_readers, "wait_until_read", lagging)
    notes = "note: a broker lags; waiting up to 90 s\nerror: a broker lags; run the same command again\n"
    assert rescue(there, "unload", TOPIC, NAME, "--yes", code=1) == notes
    assert (there.rates, there.acked(), asked) == ({}, acked, [TOPIC])
    assert [path for _, path in there.asked if path.endswith("/unload")] == []
    text = rescue(there, "hold", TOPIC, NAME, "--journal", "journal", "--yes", code=1)
    assert text.endswith(notes)
    assert "is held on the broker that owns the topic. To end it: ackwell rescue release" in text
    assert (len(there.rates), asked) == (1, [TOPIC, TOPIC])


def test_a_seek_in_a_window_is_refused_and_its_hold_is_named_until_it_is_released(there: Cluster) -> None:
    positions = there.fill()
    with_type(there)
    rescue(there, "begin", "--yes")
    there.do(lambda each: each.seek(positions[0]))
    there.unload()
    text = rescue(there, "end", "window", "--yes", code=3)
    assert "refused (" in text
    assert f"still held: {NAME!r} of {TOPIC}, journal window/" in text
    assert (len(there.acked()), len(there.rates)) == (0, 1)
    rescue(there, "end", "window", "--release-only", "--yes")
    assert (len(there.acked()), there.rates) == (0, {})


def test_a_hold_without_a_snapshot_is_released_and_reported(there: Cluster) -> None:
    """`begin` was killed between the hold and the snapshot, and the topic was restarted."""
    there.fill()
    with_type(there)
    rescue(there, "begin", "--yes")
    next(Path("window").glob("*.snapshot.json")).unlink()
    assert ackwell("rescue", "status", "window").out.endswith(": held, without a snapshot\n")
    there.unload()
    assert "took no snapshot, so nothing was restored" in rescue(there, "end", "window", "--yes", code=3)
    assert there.rates == {}
    assert "is a finished window" in " ".join(rescue(there, "begin", "--yes", code=2).split())


def test_a_crash_between_the_hold_and_its_snapshot_loses_nothing(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = there.fill()
    with_type(there)

    def crashes(*arguments: Any) -> None:
        holding.hold(*arguments)
        there.crash()

    monkeypatch.setattr(windows, "hold", crashes)
    rescue(there, "begin", "--yes")
    assert there.acked() < set(positions[1::2])
    rescue(there, "end", "window", "--restart", "crash", "--yes")
    assert (there.acked(), there.rates) == (set(positions[1::2]), {})


def test_a_crash_between_the_restore_and_the_release_leaves_the_hold(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = there.fill()
    with_type(there)
    rescue(there, "begin", "--yes")
    there.unload()

    def crashes(plan: Plan, cluster: Connection) -> Report:
        report = apply(plan, cluster)
        there.crash()
        return report

    with monkeypatch.context() as patched:
        patched.setattr(windows, "apply", crashes)
        text = rescue(there, "end", "window", "--restart", "crash", "--yes", code=3)
    assert "entries are missing before the release; run the same command again" in text
    assert f"still held: {NAME!r} of {TOPIC}" in text
    assert len(there.rates) == 1
    rescue(there, "end", "window", "--restart", "crash", "--yes")
    assert (there.acked(), there.rates) == (set(positions[1::2]), {})


def test_a_seek_before_the_second_snapshot_is_no_loss(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = there.fill()
    with_type(there)

    def seeks(*arguments: Any) -> None:
        holding.hold(*arguments)
        there.do(lambda each: each.seek(positions[0]))

    monkeypatch.setattr(windows, "hold", seeks)
    rescue(there, "begin", "--yes")
    there.unload()
    rescue(there, "end", "window", "--restart", "crash", "--yes")
    assert (there.acked(), there.rates) == (set(), {})


def test_a_topic_that_is_not_loaded_does_not_delay_the_others(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_two(there)
    rescue(there, "begin", "--yes")
    window = Window(Path("window"))
    stuck, *_ = names = window.names()
    assert len(names) == 2
    released = threading.Event()
    read_live = Connection.read_live

    def waits(connection: Connection, topic: str, subscription: str) -> Snapshot:
        if (topic, subscription) == stuck and not released.wait(30):
            raise StatsError("no answer", topic)
        return read_live(connection, topic, subscription)

    monkeypatch.setattr(Connection, "read_live", waits)
    with there.connection() as connection:
        results = end(connection, window)
        assert next(results).name != stuck
        released.set()
        assert [each.name for each in results] == [stuck]


def test_the_hold_of_another_journal_stays_and_is_not_reported_as_released(there: Cluster) -> None:
    there.fill()
    with_type(there)
    rescue(there, "hold", TOPIC, NAME, "--journal", "other", "--yes")
    assert "held-already" in rescue(there, "begin", "window", TOPIC, "--yes", code=3)
    assert "this window set no hold" in rescue(there, "end", "window", "--yes", code=3)
    assert len(there.rates) == 1


def test_a_window_of_no_subscription_begins_and_ends(there: Cluster) -> None:
    text = rescue(there, "begin", "--yes")
    assert "subscriptions that may lose acknowledgments: 0\n" in text
    assert (
        f"0 subscriptions are held. After the restarts: ackwell rescue end window --admin {there.url} --yes"
        in text
    )
    assert rescue(there, "end", "window", "--yes") == ""


def test_several_subscriptions_are_restored_at_once(there: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_two(there)
    rescue(there, "begin", "--yes")
    there.unload()
    both = threading.Barrier(2)

    def waits(plan: Plan, cluster: Connection) -> Report:
        both.wait(30)
        return apply(plan, cluster)

    monkeypatch.setattr(windows, "apply", waits)
    with there.connection() as connection:
        results = list(end(connection, Window(Path("window"))))
    assert [each.report.sent if each.report else each.error for each in results] == [16, 16]
    assert there.rates == {}


def test_a_window_of_another_cluster_or_with_a_changed_byte_is_refused(there: Cluster) -> None:
    there.fill()
    with_type(there)
    rescue(there, "begin", "--yes")
    file = Path("window/window.json")
    value = json.loads(file.read_text())
    file.write_text(json.dumps(value | {"cluster": "west"}))
    assert "its SHA-256 does not match" in rescue(there, "end", "window", "--yes", code=1)


def test_an_unload_without_a_subscription_protects_all(there: Cluster) -> None:
    positions = fill_two(there)
    there.do(lambda _: None)
    assert "would protect 2 subscriptions" in rescue(there, "unload", TOPIC)
    text = rescue(there, "unload", TOPIC, "--yes")
    assert text.count("16 acknowledgments restored, 0 are still missing") == 2
    assert (there.acked(), there.rates) == (set(positions[1::2]), {})
    assert not list(Path().glob("*.window"))
    assert ackwell("rescue", "unload", TOPIC, "--no-hold", "--admin", there.url).code == 2


def test_an_unload_that_did_not_unload_begins_again_in_the_next_run(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = there.fill()
    with_type(there)
    unload = ("unload", TOPIC, "--yes")
    with monkeypatch.context() as patched:
        patched.setattr(windows, "wait_until_read", lambda *_: [LAGS])
        assert LAGS.error in rescue(there, *unload, code=3)
    assert (list(Path().glob("*.window")), there.rates) == ([], {})
    assert f"{TOPIC} is unloaded\n" in rescue(there, *unload)
    assert sum(path.endswith("/unload") for _, path in there.asked) == 1
    assert there.acked() == set(positions[1::2])


def test_a_completed_run_does_not_claim_that_it_unloaded(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.fill()
    with_type(there)
    unload = ("unload", TOPIC, "--yes")

    def fails(*_: object) -> Iterator[windows.Result]:
        raise StatsError("no answer", TOPIC)

    with monkeypatch.context() as patched:
        patched.setattr(windows, "wait_until_read", fails)
        assert "still held" not in rescue(there, *unload, code=1)
    text = rescue(there, *unload)
    assert "If it did not unload the topic, run the command again" in text
    assert there.rates == {}
    assert f"{TOPIC} is unloaded\n" in rescue(there, *unload)


def kill(there: Cluster, at: int, *arguments: str) -> int:
    """Run a command, and kill it at a step; return its exit code."""
    words = [sys.executable, "-m", "ackwell", "rescue", *arguments]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        there.steps, there.kill_at, there.pid = 0, at, process.pid
        code = process.wait()
        there.pid = None
    return code


@pytest.mark.faults
@pytest.mark.parametrize("killed", ["begin", "end"])
def test_a_window_is_exact_after_a_kill_at_any_step(
    killed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = at = 0
    while True:
        with at_step(at, tmp_path, monkeypatch) as (there, wire):
            truth: set[Position] = set(there.fill(kind=SubscriptionType.KEY_SHARED)[1::2])
            with_type(there)
            options = ("--admin", there.url, "--broker", wire, "--yes")
            lines = {"begin": ("begin", *options), "end": ("end", "window", *options)}
            code = 0
            for name, line in lines.items():
                if name == killed:
                    code = kill(there, at, *line)
                    if code:
                        assert code == -9
                        kills += 1
                        # Each hold has a journal.
                        assert len(there.rates) <= len(list(Path().glob("window/*.journal")))
                if name != killed or code:
                    done = ackwell("rescue", *line)
                    assert done.code == 0, f"killed at step {at}: {done.err}"
                if name == "begin":
                    there.unload()
            assert (there.acked(), there.rates) == (truth, {}), f"killed at step {at}"
            assert not list(Path().glob("window/*.journal"))
        if not code:
            break
        at += 1
    print(kills)
    assert kills > 15
