"""The steps of a maintenance window, with fixed answers instead of a broker."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from ackwell import PositionRangeSet
from ackwell.broker.stats import UnreadableSource
from ackwell.errors import StatsError
from ackwell.rescue import restoring, windows
from ackwell.rescue.checksums import with_sha256
from ackwell.rescue.policy_readers import UnreadPolicies
from ackwell.rescue.refusals import RefusedError
from ackwell.rescue.restoring import Report
from ackwell.rescue.windows import Result, Window, begin, end, protected, release_all, unload_window
from tests.pauses import recorded_pauses
from tests.rescue.test_plan import AFTER, BEFORE, HOLES, TOPIC, answer
from tests.rescue.test_watch_rounds import FACTS, LOADED, OPEN, snapshot
from tests.rescue.test_watch_rounds import answer as topic_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ackwell.cluster.admin import BrokerFacts
    from ackwell.rescue.connection import Connection
    from ackwell.rescue.snapshot import Snapshot

A, B = (TOPIC, "a"), (TOPIC, "b")
KEYED = answer("3:0", HOLES, AFTER, type="Key_Shared")


class Admin:
    cluster = "standalone"

    def brokers(self) -> set[str]:
        return {"b1", "b2"}

    def facts(self, owner: str | None = None) -> BrokerFacts:
        return FACTS


class Fake:
    """A connection that returns a live state and records its calls."""

    def __init__(self, live: Snapshot = BEFORE, done: list[Any] | None = None) -> None:
        self.live = live
        self.admin = Admin()
        self.done = [] if done is None else done
        self.failures = 0
        """The number of next requests without an answer."""

    def renewed(self) -> Fake:
        return Fake(self.live, self.done)

    def __enter__(self) -> Fake:
        return self

    def __exit__(self, *_: object) -> None:
        self.done.append("exit")

    def close(self) -> None:
        self.done.append("close")

    def read_live(self, topic: str, subscription: str) -> Snapshot:
        if self.failures:
            self.failures -= 1
            raise StatsError("no answer", topic)
        return self.live

    def wake(self, topic: str, subscription: str) -> int:
        self.done.append(("wake", subscription))
        return 0

    def open(self, topic: str) -> None:
        self.done.append(("open", topic))

    def change(self, *arguments: Any) -> None:
        self.done.append(arguments)


def taken(name: str = "a", ranges: int = 20, ledgers: Any = OPEN, **shown: Any) -> tuple[Any, Snapshot]:
    """Return the answers about a subscription, and its live state."""
    found = topic_answer(ranges, ledgers, topic=TOPIC, names=(name,), **shown)
    return found, snapshot(found)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Replace holds, releases, snapshots and restores; return the calls in order."""
    done: list[Any] = []

    def hold(connection: object, topic: str, subscription: str, journal: Path) -> None:
        done.append(("hold", subscription))
        journal.write_text("held")

    def release(connection: object, journal: Path, *, check: Callable[[], None] = lambda: None) -> str:
        check()
        done.append(("release", journal.name))
        journal.unlink()
        return "released"

    def take(admin: object, topic: str, subscription: str) -> tuple[Any, Snapshot]:
        done.append(("take", subscription))
        return taken(subscription)

    def check_holdable(connection: object, topic: str, subscription: str, journal: Path) -> None:
        assert not journal.exists()
        done.append(("check", subscription))

    def plan(before: Snapshot, live: Snapshot, *, restart: str, brokers: list[Any]) -> Any:
        done.append(("plan", restart, len(brokers)))
        return before

    def apply(plan: Any, connection: object) -> Report:
        done.append("restore")
        return Report(topic=TOPIC, subscription=plan.name[1], sent=9, missing=0, ack_sets=0)

    def remaining(plan: Any, live: Snapshot) -> tuple[PositionRangeSet, dict[Any, Any]]:
        done.append(("remaining", plan.name[1]))
        return PositionRangeSet(), {}

    for each in (hold, release, take, plan, apply, check_holdable):
        monkeypatch.setattr(windows, each.__name__, each)
    monkeypatch.setattr(restoring, "remaining", remaining)
    monkeypatch.setattr(windows, "wait_until_read", lambda *_: ())
    monkeypatch.chdir(tmp_path)
    return done


def window(*names: tuple[str, str], cluster: str | None = "standalone") -> Window:
    made = Window(Path("window"))
    made.create(names, cluster)
    return made


def of(fake: Fake) -> Connection:
    return cast("Connection", fake)


def test_the_state_of_a_subscription_follows_from_its_files(calls: list[Any]) -> None:
    made = window(A, B)
    for files, state in (
        ([], "not held"),
        ([made.journal(A)], "held, without a snapshot"),
        ([made.snapshot(A)], "held, with a snapshot"),
        ([made.report(A)], "done"),
    ):
        for file in files:
            file.write_text("")
        assert (made.state(A), made.state(B)) == (state, "not held")
    assert not made.is_done()
    made.report(B).write_text("")
    assert made.is_done()
    made.report(A).unlink()
    made.journal(A).unlink()
    assert made.state(A) == "with a snapshot, not held"
    names = {each(name).name for each in (made.journal, made.snapshot, made.report) for name in (A, B)}
    assert len(names) == 6
    assert {len(name.split(".")[0]) for name in names} == {16}


def test_an_existing_window_keeps_its_list_and_belongs_to_one_cluster(calls: list[Any]) -> None:
    made = window(A)
    assert window(B).names() == [A]
    value = json.loads(made.file.read_text())
    assert (value["version"], value["cluster"], made.cluster()) == (1, "standalone", "standalone")
    assert abs(value["timeMs"] - time.time() * 1000) < 3_600_000
    for call in (lambda: window(A, cluster="west"), lambda: list(end(of(west()), made))):
        with pytest.raises(RefusedError, match="'standalone', and this is 'west'") as raised:
            call()
        assert raised.value.code == "other-cluster"
    made.file.write_text(json.dumps(with_sha256(value | {"version": 2, "sha256": None})))
    with pytest.raises(StatsError, match="version 2"):
        made.names()


def west() -> Fake:
    made = Fake()
    made.admin.cluster = "west"
    return made


def test_every_hold_is_set_before_the_last_snapshots(calls: list[Any]) -> None:
    made = window(A, B)
    assert list(begin(of(Fake()), made)) == [Result(A, parts="lost"), Result(B, parts="lost")]
    assert {each[0] for each in calls[-2:]} == {"take"}
    for name in "ab":
        assert [each[0] for each in calls if each[1] == name] == ["take", "check", "hold", "take"]
    kept = made.read_snapshot(A)
    assert kept is not None
    assert (kept.name, kept.broker, kept.cluster) == (A, FACTS, "standalone")
    # An interrupted run is repeated without the subscriptions that are done.
    made.report(A).write_text("")
    calls.clear()
    assert list(begin(of(Fake()), made)) == [Result(B, parts="lost")]
    assert calls == [("take", "b"), ("hold", "b"), ("take", "b")]


LAGS = UnreadPolicies("shop/eu", "a broker lags", "unread")


@pytest.mark.parametrize(
    ("state", "note", "error"),
    [
        ("waiting", "a broker lags; waiting up to 90 s", "None"),
        ("unknown", "a broker lags", "None"),
        ("unread", "", "a broker lags; run the same command again"),
    ],
)
def test_the_brokers_read_the_holds_before_the_last_snapshots(
    state: Any, note: str, error: str, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_until_read(admin: object, topics: Iterable[str]) -> Iterator[UnreadPolicies]:
        calls.append(("read", *topics))
        yield LAGS._replace(state=state)

    monkeypatch.setattr(windows, "wait_until_read", wait_until_read)
    first, second = begin(of(Fake()), window(A))
    assert (first.name, first.note, str(first.error)) == (("shop/eu", ""), note, error)
    assert second == Result(A, parts="lost")
    assert [each[0] for each in calls] == ["take", "check", "hold", "read", "take"]
    assert ("read", TOPIC) in calls


def test_a_subscription_that_no_helper_may_join_is_not_held(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "take", lambda *_: taken(isReplicated=True))
    made = window(A)
    (result,) = begin(of(Fake()), made)
    assert isinstance(result.error, RefusedError)
    assert (result.name, result.error.code, result.report, calls) == (A, "replicated", None, [])
    assert made.state(A) == "not held"


def test_a_snapshot_that_fails_is_a_result(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made = window(A)
    left = [taken()]

    def take(*_: object) -> Any:
        if not left:
            raise StatsError("no answer", TOPIC)
        return left.pop()

    monkeypatch.setattr(windows, "take", take)
    for state in ["held, with a snapshot"] * 2:
        (result,) = begin(of(Fake()), made)
        assert isinstance(result.error, StatsError)
        assert (result.name, calls, made.state(A)) == (A, [("check", "a"), ("hold", "a")], state)


@pytest.mark.parametrize(
    ("ranges", "ledgers", "is_replaced"), [(11, LOADED, False), (11, OPEN, True), (20, LOADED, True)]
)
def test_a_snapshot_is_kept_if_the_topic_was_loaded_since_and_lost_acknowledgments(
    ranges: int, ledgers: Any, is_replaced: bool, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = window(A)
    list(begin(of(Fake()), made))
    first = made.snapshot(A).read_bytes()
    later = taken("a", ranges, ledgers, time_ms=2_000_000)
    monkeypatch.setattr(windows, "take", lambda *_: later)
    assert list(begin(of(Fake()), made)) == [Result(A, parts="lost")]
    assert (made.snapshot(A).read_bytes() != first) is is_replaced


def test_a_damaged_snapshot_is_an_error(calls: list[Any]) -> None:
    made = window(A)
    assert made.read_snapshot(A) is None
    made.snapshot(A).write_text("{}")
    with pytest.raises(StatsError) as raised:
        made.read_snapshot(A)
    assert raised.value.source == str(made.snapshot(A))


def test_an_end_restores_releases_and_writes_a_report(calls: list[Any]) -> None:
    made = window(A, B)
    list(begin(of(Fake()), made))
    calls.clear()
    fake = Fake(KEYED)
    results = {each.name: each for each in end(of(fake), made, restart="crash")}
    assert results.keys() == {A, B}
    report = results[A].report
    assert report is not None
    assert report.sent == 9
    assert json.loads(made.report(A).read_text())["sent"] == 9
    assert calls.count("restore") == 2
    assert calls.count(("plan", "crash", 2)) == 2
    assert sorted(fake.done, key=str) == [("wake", "a"), ("wake", "b"), "exit", "exit"]
    assert (made.is_done(), list(end(of(fake), made))) == (True, [])
    other = window(A)
    other.report(A).unlink()
    shared = Fake(BEFORE)
    assert [each.error for each in end(of(shared), other)] == [None]
    assert calls[-2:] == [("plan", "graceful", 2), "restore"]
    assert shared.done == ["exit"]


def test_a_restore_with_missing_entries_leaves_the_hold(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = window(A)
    list(begin(of(Fake()), made))
    left = Report(topic=TOPIC, subscription="a", sent=9, missing=1_234, ack_sets=0)
    monkeypatch.setattr(windows, "apply", lambda *_: left)
    fake = Fake()
    (result,) = end(of(fake), made)
    assert str(result.error) == f"{TOPIC}: 1,234 entries are still missing; run `end` again"
    assert made.state(A) == "held, with a snapshot"
    # The next user of the connection begins a new one.
    assert fake.done == ["close", "exit"]


@pytest.mark.parametrize("seconds", [0.0, 5.0])
def test_a_loss_between_the_restore_and_the_release_leaves_the_hold(
    seconds: float, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow state may begin with an answer from before a crash, so it is requested again."""
    made = window(A)
    list(begin(of(Fake()), made))
    calls.clear()
    before, after = taken()[1], taken(ranges=11, ledgers=LOADED)[1]
    clock_s = 0.0

    def read_live(fake: Fake, topic: str, subscription: str) -> Snapshot:
        nonlocal clock_s
        if "restore" not in calls:
            return before
        is_stale = seconds > 0 and not clock_s
        clock_s += seconds
        return before if is_stale else after

    monkeypatch.setattr(restoring, "remaining", lambda plan, live: (plan.acked - live.acked, {}))
    monkeypatch.setattr(Fake, "read_live", read_live)
    monkeypatch.setattr(time, "monotonic", lambda: clock_s)
    (result,) = end(of(Fake()), made)
    assert (
        str(result.error) == f"{TOPIC}: 9 entries are missing before the release; run the same command again"
    )
    assert made.state(A) == "held, with a snapshot"
    assert ("release", made.journal(A).name) not in calls


@pytest.mark.parametrize(
    ("is_held", "text"), [(True, "the hold is released"), (False, "this window set no hold")]
)
def test_a_window_without_a_snapshot_restores_nothing(calls: list[Any], is_held: bool, text: str) -> None:
    made = window(A)
    if is_held:
        made.journal(A).write_text("held")
    (result,) = end(of(Fake()), made)
    assert str(result.error).endswith(f"`begin` took no snapshot, so nothing was restored; {text}")
    assert calls == ([("release", made.journal(A).name)] if is_held else [])
    assert json.loads(made.report(A).read_text()) == {
        "topic": TOPIC,
        "subscription": "a",
        "sent": 0,
        "missing": 0,
        "ack_sets": 0,
        "waiting": 0,
        "lost_parts": False,
    }


def test_a_topic_is_waited_for_until_the_deadline(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = recorded_pauses(monkeypatch, "ackwell.rescue.windows")
    made = window(A)
    fake = Fake()
    fake.failures = 2
    (result,) = end(of(fake), made)
    assert (fake.failures, pauses) == (0, [1.0, 1.0])
    made.report(A).unlink()
    fake.failures = 5
    (result,) = end(of(fake), made, wait_seconds=0)
    assert str(result.error) == f"{TOPIC}: no answer"
    assert (fake.failures, len(pauses)) == (4, 2)


def test_all_holds_are_released_even_if_one_fails(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made = window(A, B, (TOPIC, "c"))
    for name in (A, B):
        made.journal(name).write_text("held")
    release: Callable[..., str] = vars(windows)["release"]

    def fails(connection: Any, journal: Path) -> str:
        if journal == made.journal(A):
            raise StatsError("no answer", TOPIC)
        return release(connection, journal)

    monkeypatch.setattr(windows, "release", fails)
    first, second = release_all(of(Fake()), made)
    assert (first.name, str(first.error), second) == (A, f"{TOPIC}: no answer", Result(B))


def test_an_unload_in_a_window_deletes_the_folder_after_a_success(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Window(Path("window"))
    fake = Fake()
    (result,) = unload_window(of(fake), made, TOPIC, [A])
    assert result.error is None
    assert fake.done[:2] == [("open", TOPIC), ("unload", "PUT", TOPIC, "", "unload")]
    assert not made.folder.exists()
    # Without names, an interrupted run is completed and nothing is unloaded.
    window(A)
    fake = Fake()
    (result,) = unload_window(of(fake), made, TOPIC, None)
    assert result.error is not None
    assert "unload" not in str(fake.done)
    assert made.folder.exists()


def test_nothing_is_unloaded_if_a_hold_fails(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "take", lambda *_: taken(isReplicated=True))
    made = Window(Path("window"))
    fake = Fake()
    first, *_ = unload_window(of(fake), made, TOPIC, [A])
    assert isinstance(first.error, RefusedError)
    assert "unload" not in str(fake.done)
    assert ("open", TOPIC) not in fake.done
    # No hold remains, and the next run begins again.
    assert not made.folder.exists()


def test_nothing_is_unloaded_if_a_broker_has_not_read_the_holds(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "wait_until_read", lambda *_: [LAGS._replace(state="waiting"), LAGS])
    made = window(A)
    fake = Fake()
    first, second, last = unload_window(of(fake), made, TOPIC, [A])
    assert first.note == "a broker lags; waiting up to 90 s"
    assert str(second.error) == "a broker lags; run the same command again"
    assert last.report is not None
    assert "unload" not in str(fake.done)
    assert not made.journal(A).exists()


class Diagnosed:
    """The names in a diagnosis."""

    def __init__(self, name: tuple[str, str]) -> None:
        self.stats = self
        self.topic, self.subscription = name


def test_subscriptions_are_split_by_whether_a_helper_may_attach(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(admin: object, topic: str, subscription: str) -> tuple[None, Snapshot]:
        if subscription == "c":
            raise StatsError("no answer", topic)
        return None, answer("3:0", HOLES, AFTER, isReplicated=subscription == "b")

    monkeypatch.setattr(windows, "take", take)
    found = [Diagnosed((TOPIC, name)) for name in "abc"]
    names, refused = protected(cast("Any", found), cast("Any", Admin()))
    assert names == [A]
    assert [(each.name, type(each.error)) for each in refused] == [
        (B, RefusedError),
        ((TOPIC, "c"), StatsError),
    ]


class Survey(Admin):
    """An admin API with answers of two brokers."""

    def __init__(self) -> None:
        self.found: list[Any] = [
            topic_answer(topic=f"{TOPIC}-{name}", names=(name,))._replace(owner=owner)
            for name, owner in (("x", "b1"), ("y", "b2"))
        ]
        self.found.append(topic_answer(0, topic=f"{TOPIC}-none")._replace(owner="b1"))
        self.found.append(UnreadableSource("b3", f"{TOPIC}-z", "no answer"))

    def overviews(self) -> dict[str, Any]:
        return {}

    def read(self, wanted: list[str], *, owners: object) -> Iterator[Any]:
        for each in self.found:
            yield from [each] if isinstance(each, UnreadableSource) else each.subscriptions()


@pytest.mark.parametrize(("owner", "names"), [(None, ["x", "y"]), ("b1", ["x"]), ("b2", ["y"]), ("b9", [])])
def test_the_endangered_subscriptions_of_a_broker_have_ranges_that_a_restart_loses(
    owner: str | None, names: list[str]
) -> None:
    found = windows.endangered(cast("Any", Survey()), ["shop/eu"], ["graceful"], owner)
    assert [each.stats.subscription for each in found.restorable] == names
    assert [each.source for each in found.unread] == ["b3"]


REPORTED: dict[str, Any] = {"sent": 9, "missing": 0, "ack_sets": 0}
PARTITIONS = [(f"{TOPIC}-partition-{number}", "a") for number in range(3)]


def test_partitions_share_a_hold_that_the_last_one_releases(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = window(*PARTITIONS)
    (journal,) = {made.journal(name) for name in PARTITIONS}
    journal.write_text("held")
    left = []

    def ended(*arguments: Any, check: Callable[[], None]) -> str:
        check()
        left.append([made.report(name).exists() for name in PARTITIONS])
        journal.unlink()
        return "released"

    monkeypatch.setattr(windows, "release", ended)
    for name in PARTITIONS:
        made.snapshot(name).write_bytes(b"")
    monkeypatch.setattr(Window, "read_snapshot", lambda *_: BEFORE)
    monkeypatch.setattr(windows, "apply", lambda *_: Report(topic=TOPIC, subscription="a", **REPORTED))
    assert [each.error for each in end(of(Fake()), made)] == [None] * 3
    assert left == [[False] * 3]
    # Each partition is read again before the release.
    assert [each[0] for each in calls].count("remaining") == 3


def test_partitions_stay_held_if_one_is_refused(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made = window(*PARTITIONS)
    made.journal(PARTITIONS[0]).write_text("held")
    monkeypatch.setattr(Window, "read_snapshot", lambda *_: BEFORE)
    results = iter([RefusedError("no-type", subscription="a"), None, None])

    def apply(*_: object) -> Report:
        if (error := next(results)) is not None:
            raise error
        return Report(topic=TOPIC, subscription="a", **REPORTED)

    monkeypatch.setattr(windows, "apply", apply)
    assert sorted(each.error is None for each in end(of(Fake()), made)) == [False, True, True]
    assert made.journal(PARTITIONS[0]).exists()
    assert [made.report(name).exists() for name in PARTITIONS] == [False] * 3
    assert ("release", made.journal(PARTITIONS[0]).name) not in calls
