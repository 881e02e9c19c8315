"""Operations with a helper on a fake cluster: the requests, their order and their number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import PositionRangeSet
from ackwell.errors import StatsError
from ackwell.position import Position
from ackwell.protocol.constants import SubscriptionType
from ackwell.rescue import AuditFile, RefusedError, ack, apply, copy, operations, plan, unload
from ackwell.rescue.operations import unacknowledged
from ackwell.rescue.restoring import Report, restore_after_unload, send
from tests.rescue.scripted import FakeAdmin
from tests.rescue.test_plan import AFTER, BEFORE, HOLES, KEPT, TOPIC, answer

if TYPE_CHECKING:
    from ackwell.rescue.snapshot import Snapshot

NAME = "billing"
LOST = answer("3:0", KEPT, AFTER)
WHOLE = answer("3:0", HOLES, AFTER)
PATH = "persistent/shop/eu/orders"


def test_a_line_of_the_audit_file_has_its_time_in_milliseconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackwell.rescue.audit.clock_ms", lambda: 1_700_000_000_250)
    file, synced = tmp_path / "audit.jsonl", list[int]()
    monkeypatch.setattr("ackwell.rescue.audit.os.fsync", lambda _: synced.append(file.stat().st_size))
    audit = AuditFile(file)
    audit("unload", TOPIC, NAME)
    assert synced == [file.stat().st_size]
    audit("acknowledge", TOPIC, NAME, positions=1, digest="ab")
    first, second = map(json.loads, file.read_text().splitlines())
    plain = {"timeMs": 1_700_000_000_250, "topic": TOPIC, "subscription": NAME}
    assert first == plain | {"what": "unload"}
    assert second == plain | {"what": "acknowledge", "positions": 1, "sha256": "ab"}


@pytest.mark.parametrize("before", ["", '{"what": "unl', '{"what": "unload"}\n'])
def test_a_line_after_a_torn_one_in_the_audit_file_is_whole(before: str, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.write_text(before)
    AuditFile(str(file))("unload", TOPIC, NAME)
    text = file.read_text()
    assert text.startswith(before)
    *first, last = text.splitlines()
    assert first == ([before.rstrip()] if before else [])
    assert json.loads(last)["topic"] == TOPIC


class Remembering:
    """A cluster that returns the given states in order, repeats the last one, and records the calls."""

    def __init__(self, *states: Snapshot, answers: dict[str, Any] | None = None) -> None:
        self.states = list(states)
        self.admin = FakeAdmin(answers)
        self.done: list[Any] = []
        self.taken: list[RefusedError] = []
        """The errors of the next attachments."""

    def read_live(self, topic: str, subscription: str) -> Snapshot:
        self.done.append("read live")
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    @contextmanager
    def attached(self, topic: str, subscription: str, kind: SubscriptionType) -> Iterator[None]:
        if self.taken:
            raise self.taken.pop(0)
        self.done.append(("attach", subscription, kind))
        yield
        self.done.append("leave")

    def acknowledge(
        self, topic: str, subscription: str, commands: Iterable[list[Any]], positions: int, digest: str
    ) -> None:
        self.done.append(("acknowledge", subscription, list(commands), digest))

    def wake(self, topic: str, subscription: str) -> int:
        self.done.append("wake")
        return 6

    def change(
        self, what: str, method: str, topic: str, subscription: str, path: str, body: Any = None
    ) -> None:
        self.done.append((what, method, subscription, path, body))

    def open(self, topic: str) -> None:
        self.done.append("open")

    def acknowledged(self) -> list[tuple[int, int]]:
        ids = [each[2] for each in self.done if isinstance(each, tuple) and each[0] == "acknowledge"]
        return [tuple(position) for batches in ids for batch in batches for position, _ in batch]


def other_type(kind: str, mark: str = "3:0", ranges: str = KEPT, ledgers: Any = AFTER) -> Snapshot:
    return answer(mark, ranges, ledgers, type=kind)


def test_what_is_missing_is_looked_for_again_when_the_helper_is_there() -> None:
    made = plan(BEFORE, LOST)
    cluster = Remembering(LOST, LOST, WHOLE)
    report = apply(made, cluster)
    digest = hashlib.sha256(b"[(3:5..3:6],(3:7..3:8]] {}").hexdigest()
    ids = [[(Position(3, 6), ()), (Position(3, 8), ())]]
    assert cluster.done == [
        "read live",
        ("attach", NAME, SubscriptionType.SHARED),
        "read live",
        ("acknowledge", NAME, ids, digest),
        "leave",
        "read live",
    ]
    assert report == Report(topic=TOPIC, subscription=NAME, sent=2, missing=0, ack_sets=0)
    # Entries that a consumer acknowledged in between are not sent.
    cluster = Remembering(LOST, answer("3:0", "[(3:1..3:2],(3:3..3:4],(3:5..3:6]]", AFTER))
    assert apply(made, cluster).missing == 1
    assert cluster.acknowledged() == [(3, 8)]
    cluster = Remembering(LOST, WHOLE)
    assert apply(made, cluster).sent == 0
    assert cluster.done[1:] == [("attach", NAME, SubscriptionType.SHARED), "read live", "leave", "read live"]
    cluster = Remembering(WHOLE)
    assert apply(made, cluster).sent == 0
    assert cluster.done == ["read live", "read live"]


def test_ack_sets_alone_are_put_back_too() -> None:
    parts = {Position(3, 9): (5,)}
    state = BEFORE.stats
    made = plan(
        BEFORE,
        WHOLE,
        ack_sets=type(state).__mro__[1](  # the state alone
            state.mark_delete_position, state.individually_deleted, parts
        ),
    )
    cluster = Remembering(WHOLE)
    report = apply(made, cluster)
    assert (report.sent, report.missing, report.ack_sets, report.waiting) == (1, 0, 1, 0)
    assert [each[2] for each in cluster.done if each[0] == "acknowledge"] == [[[(Position(3, 9), (5,))]]]


def test_a_key_shared_subscription_is_woken_if_anything_was_sent() -> None:
    before = answer("3:0", HOLES, {3: 20}, type="Key_Shared")
    lost, whole = other_type("Key_Shared"), other_type("Key_Shared", ranges=HOLES)
    cluster = Remembering(lost, lost, whole)
    assert apply(plan(before, lost), cluster).waiting == 6
    assert cluster.done[-1] == "wake"
    cluster = Remembering(whole)
    assert apply(plan(before, lost), cluster).waiting == 0
    assert "wake" not in cluster.done


def test_a_report_says_what_was_done() -> None:
    def said(sent: int = 1_234, missing: int = 0, ack_sets: int = 0, waiting: int = 0) -> str:
        report = Report(
            topic="t", subscription="s", sent=sent, missing=missing, ack_sets=ack_sets, waiting=waiting
        )
        return str(report)

    assert said() == "'s' of t: 1,234 acknowledgments restored, 0 are still missing"
    assert said(sent=0, ack_sets=2, waiting=3) == "'s' of t: nothing is missing"
    assert said(missing=1_000).endswith("restored, 1,000 are still missing")
    assert said(ack_sets=1_000).endswith("; 1,000 of them are ack sets, which cannot be read back")
    assert said(waiting=1_000).endswith("still missing; 1,000 entries wait to be delivered again")
    assert said(ack_sets=1, waiting=1).endswith("read back; 1 entries wait to be delivered again")


def test_nothing_to_send_is_no_command() -> None:
    cluster = Remembering(WHOLE)
    assert send(cluster, (TOPIC, NAME), PositionRangeSet(), {}) == 0
    assert cluster.done == []
    assert send(cluster, (TOPIC, NAME), PositionRangeSet([(3, -1, 1_200)]), {Position(4, 0): (1,)}) == 1_202


def test_what_our_own_unload_forgot_is_planned_with_the_helper_there() -> None:
    cluster = Remembering(LOST, WHOLE)
    made, report = restore_after_unload(BEFORE, cluster)
    assert (made.missing.cardinality, report.sent, report.missing) == (2, 2, 0)
    assert cluster.done[:2] == [("attach", NAME, SubscriptionType.SHARED), "read live"]
    with pytest.raises(RefusedError) as caught:
        restore_after_unload(answer("3:0", HOLES, {3: 20}, type="None"), cluster)
    assert caught.value.code == "no-type"


# An unload

APPLIED = {f"{PATH}/billing/dispatchRate?applied=true": None}


def unloaded(cluster: Remembering, folder: Path, **options: Any) -> Report:
    return unload(cluster, TOPIC, NAME, journal=str(folder / "j"), hold=False, **options)  # type: ignore[arg-type]


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `take` return the state before the unload."""
    from ackwell.cluster.admin import TopicAnswer

    internal = {
        "lastConfirmedEntry": "3:19",
        "currentLedgerEntries": 20,
        "ledgers": [{"ledgerId": 3, "entries": 0, "size": 0}],
        "cursors": {NAME: {"markDeletePosition": "3:0", "individuallyDeletedMessages": HOLES}},
    }
    shown = {"subscriptions": {NAME: dict(BEFORE.shown)}}
    monkeypatch.setattr(
        operations, "take", lambda *_: (TopicAnswer(TOPIC, "x", 1_000_000, internal, shown, {}), BEFORE)
    )


@pytest.mark.usefixtures("takes")
def test_an_unload_looks_opens_unloads_and_puts_back(tmp_path: Path) -> None:
    cluster = Remembering(BEFORE, LOST, WHOLE)
    assert unloaded(cluster, tmp_path).sent == 2
    assert [each if isinstance(each, str) else each[0] for each in cluster.done] == [
        "read live",
        "open",
        "unload",
        "attach",
        "read live",
        "acknowledge",
        "leave",
        "read live",
    ]
    assert cluster.done[2] == ("unload", "PUT", NAME, "unload", None)
    assert cluster.acknowledged() == [(3, 6), (3, 8)]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("takes")
def test_a_run_that_died_is_brought_to_its_end_without_another_unload(tmp_path: Path) -> None:
    cluster = Remembering(BEFORE, LOST)
    cluster.taken = [RefusedError("transactions", topic=TOPIC)]
    with pytest.raises(RefusedError):
        unloaded(cluster, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["j.snapshot.json"]
    cluster = Remembering(LOST, LOST, WHOLE)
    assert unloaded(cluster, tmp_path).sent == 2
    assert not any(each[0] == "unload" or each == "open" for each in cluster.done)
    assert list(tmp_path.iterdir()) == []
    # A file that is not a snapshot ends the run.
    (tmp_path / "j.snapshot.json").write_text("[1]")
    with pytest.raises(StatsError, match="not a dump"):
        unloaded(Remembering(LOST), tmp_path)


@pytest.mark.usefixtures("takes")
def test_a_second_run_may_delete_the_snapshot_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Remembering(BEFORE, LOST, WHOLE)
    kept = tmp_path / "j.snapshot.json"
    monkeypatch.setattr(cluster, "acknowledge", lambda *_: kept.unlink())
    assert unloaded(cluster, tmp_path).sent == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("takes")
def test_the_snapshot_of_a_run_at_the_same_time_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, kept = Remembering(BEFORE), tmp_path / "j.snapshot.json"
    monkeypatch.setattr(cluster, "open", lambda _: kept.write_text("{}"))
    with pytest.raises(FileExistsError):
        unloaded(cluster, tmp_path)
    assert (kept.read_text(), cluster.done) == ("{}", ["read live"])


def test_nothing_is_unloaded_if_the_limit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = answer("3:0", HOLES, {3: 20}, facts=None)
    monkeypatch.setattr(operations, "take", lambda *_: (None, unknown))
    cluster = Remembering(unknown)
    with pytest.raises(RefusedError) as raised:
        unloaded(cluster, tmp_path)
    assert raised.value.code == "limit-unknown"
    assert cluster.done == ["read live", "open"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("takes")
def test_the_snapshot_of_another_subscription_is_not_restored(tmp_path: Path) -> None:
    cluster = Remembering(BEFORE, LOST)
    cluster.taken = [RefusedError("transactions", topic=TOPIC)]
    with pytest.raises(RefusedError):
        unloaded(cluster, tmp_path)
    other = Remembering(answer("3:0", HOLES, {3: 20}))
    with pytest.raises(
        StatsError, match=f"the snapshot of '{NAME}' of {TOPIC}, from an earlier run"
    ) as caught:
        unload(other, TOPIC, "other", journal=tmp_path / "j", hold=False)  # type: ignore[arg-type]
    assert caught.value.source == str(tmp_path / "j.snapshot.json")
    assert other.done == ["read live"]


@pytest.mark.usefixtures("takes")
@pytest.mark.parametrize("journal", [False, True])
def test_the_hold_of_a_run_that_died_is_released_by_the_next_one_with_a_hold_or_without(
    tmp_path: Path, journal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    @contextmanager
    def held(*names: object, check: Callable[[], None], keeps: Callable[[], bool]) -> Iterator[None]:
        seen.append("held")
        yield
        seen.append("released")

    monkeypatch.setattr(operations, "held", held)
    if journal:
        (tmp_path / "j").write_text("{}")
    assert unloaded(Remembering(BEFORE, LOST, WHOLE), tmp_path).sent == 2
    assert seen == (["held", "released"] if journal else [])


@pytest.mark.usefixtures("takes")
def test_a_seat_is_tried_for_five_times_each_after_an_unload(tmp_path: Path) -> None:
    busy = RefusedError("exclusive-consumer", subscription=NAME)
    cluster = Remembering(BEFORE, LOST, WHOLE)
    cluster.taken = [busy] * 4
    assert unloaded(cluster, tmp_path).sent == 2
    assert sum(each[0] == "unload" for each in cluster.done) == 5
    cluster = Remembering(BEFORE, LOST)
    cluster.taken = [busy] * 9
    with pytest.raises(RefusedError) as caught:
        unloaded(cluster, tmp_path)
    assert (caught.value.code, len(cluster.taken)) == ("exclusive-consumer", 4)
    # A resumed run unloads nothing, so it tries once.
    with pytest.raises(RefusedError):
        unloaded(cluster, tmp_path)
    assert len(cluster.taken) == 3
    # Any other refusal ends the run at once.
    (tmp_path / "j.snapshot.json").unlink()
    cluster.taken = [RefusedError("transactions", topic=TOPIC), busy]
    with pytest.raises(RefusedError):
        unloaded(cluster, tmp_path)
    assert len(cluster.taken) == 1


@pytest.mark.usefixtures("takes")
def test_what_cannot_be_attached_to_is_not_unloaded(tmp_path: Path) -> None:
    cluster = Remembering(answer("3:0", HOLES, {3: 20}, type="None"))
    with pytest.raises(RefusedError) as caught:
        unloaded(cluster, tmp_path)
    assert (caught.value.code, cluster.done) == ("no-type", ["read live"])


# A copy, and single entries


def copied(*made: Snapshot, source: Snapshot = WHOLE) -> tuple[Remembering, Report]:
    cluster = Remembering(source, *made, answers={f"{PATH}/subscriptions": ["billing", "x"]})
    cluster.admin.answered[f"{PATH}/subscriptions"] = [["billing", "x"]]
    return cluster, copy(cluster, TOPIC, NAME, "a/b")  # type: ignore[arg-type]


def test_a_copy_begins_at_the_mark_delete_position_and_gets_the_rest() -> None:
    new = answer("3:0", "[]", AFTER, name="a/b")
    cluster, report = copied(new, answer("3:0", HOLES, AFTER, name="a/b"))
    assert cluster.done[1] == (
        "create",
        "PUT",
        "a/b",
        "subscription/a%2Fb",
        {"ledgerId": 3, "entryId": 0},
    )
    assert cluster.acknowledged() == [(3, 2), (3, 4), (3, 6), (3, 8)]
    assert ("attach", "a/b", SubscriptionType.SHARED) in cluster.done
    assert report == Report(topic=TOPIC, subscription="a/b", sent=4, missing=0, ack_sets=0)
    # A missing entry and an extra entry are both counted.
    _, report = copied(new, answer("3:0", "[(3:1..3:2],(3:3..3:4],(3:5..3:6],(3:9..3:10]]", AFTER))
    assert report.missing == 2
    # Without a range after the mark-delete position, no helper attaches.
    none = answer("3:0", "[]", AFTER)
    cluster, report = copied(none, source=none)
    assert (report.sent, report.missing, len(cluster.done)) == (0, 0, 3)
    # A subscription without a known type can also be copied.
    _, report = copied(new, WHOLE, source=answer("3:0", HOLES, AFTER, type="None"))
    assert report.sent == 4


def test_a_copy_does_not_replace_a_subscription() -> None:
    cluster = Remembering(WHOLE)
    cluster.admin.answered[f"{PATH}/subscriptions"] = [["x", "new"]]
    with pytest.raises(RefusedError) as caught:
        copy(cluster, TOPIC, NAME, "new")  # type: ignore[arg-type]
    assert (caught.value.code, cluster.done) == ("exists", ["read live"])


@pytest.mark.parametrize("odd", [None, {}, "billing"])
def test_a_copy_is_refused_without_a_list_of_subscriptions(odd: Any) -> None:
    cluster = Remembering(WHOLE, answers={f"{PATH}/subscriptions": odd})
    with pytest.raises(StatsError, match="expected a list of names"):
        copy(cluster, TOPIC, NAME, "a/b")  # type: ignore[arg-type]
    assert cluster.done == ["read live"]


def test_single_entries_are_acknowledged_if_they_are_not() -> None:
    cluster = Remembering(LOST, LOST, WHOLE)
    report = ack(cluster, TOPIC, NAME, [(3, 2), (3, 8), (3, 6)])  # type: ignore[arg-type]
    assert report == Report(topic=TOPIC, subscription=NAME, sent=2, missing=0, ack_sets=0)
    assert cluster.acknowledged() == [(3, 6), (3, 8)]
    assert "wake" not in cluster.done
    cluster = Remembering(LOST)
    assert ack(cluster, TOPIC, NAME, [(3, 6)]).missing == 1  # type: ignore[arg-type]
    cluster = Remembering(WHOLE)
    assert ack(cluster, TOPIC, NAME, [(3, 2)]).sent == 0  # type: ignore[arg-type]
    assert cluster.done == ["read live"]
    cluster = Remembering(other_type("Key_Shared"))
    ack(cluster, TOPIC, NAME, [(3, 6)])  # type: ignore[arg-type]
    assert cluster.done[-1] == "wake"


def test_what_is_not_an_entry_is_refused_with_its_position() -> None:
    assert len(unacknowledged(LOST, [(3, 19), (4, 4)])) == 2
    for wrong in ((3, 20), (4, 5), (5, 0), (3, -1)):
        with pytest.raises(RefusedError, match=f"has no entry {wrong[0]}:{wrong[1]}") as caught:
            unacknowledged(LOST, [(3, 6), wrong])
        assert caught.value.code == "no-such-entry"
    with pytest.raises(RefusedError, match="replicated"):
        unacknowledged(answer("3:0", KEPT, AFTER, isReplicated=True), [(3, 6)])
