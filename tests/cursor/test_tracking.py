"""Tracked changes equal the difference of the whole states."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from ackwell import Cursor, Ledgers, Position, PositionInfo, ProtocolError
from ackwell.cursor import tracked as tracking
from ackwell.cursor.carried import LoadedFields
from ackwell.cursor.changes import CHANGES_MAX, ChangedPositions, TrackedDict
from ackwell.cursor.tracked import Baseline, TrackedState
from ackwell.saving.delta import Change, difference, merge, replay
from ackwell.saving.journal import Journal
from ackwell.store import MemoryStore
from ackwell.subscription import AckType, CommandAck, MessageId, Subscription, SubscriptionType, TransactionId

ENTRIES = {3: 30, 5: 10}


class Checked:
    """Compares every tracked change with the difference of the states; counts the outcomes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.saved: PositionInfo | None = None
        self.seen: Counter[str] = Counter()
        change_since, baseline = TrackedState.change_since, TrackedState.baseline

        def checked(tracked: TrackedState, before: Baseline | PositionInfo) -> Change | None:
            change, after = change_since(tracked, before), tracked.whole()
            if isinstance(before, Baseline):
                assert self.saved is not None
                expected = difference(self.saved, after)
                if change is None:
                    self.seen["whole" if expected is None else "whole, though a change could say it"] += 1
                else:
                    assert expected is not None
                    assert replay(self.saved, [change]) == after
                    assert self.saved == after or not change.empty
                    self.seen["change"] += 1
            return change

        def remembered(tracked: TrackedState) -> Baseline:
            self.saved = tracked.whole()
            return baseline(tracked)

        monkeypatch.setattr(TrackedState, "change_since", checked)
        monkeypatch.setattr(TrackedState, "baseline", remembered)


class Life:
    """A subscription under random operations."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.chance = random.Random(seed)
        self.store = MemoryStore()
        self.subscription = Subscription(SubscriptionType(kind), Ledgers(ENTRIES))
        self.connect()

    def connect(self) -> None:
        self.subscription.add_consumer("a")
        self.subscription.flow("a", 10_000)

    def position(self) -> Position:
        ledger_id = self.chance.choice((3, 3, 5))
        return Position(ledger_id, self.chance.randrange(ENTRIES[ledger_id]))

    def step(self) -> None:
        chance, subscription, position = self.chance, self.subscription, self.position()
        operations: list[Callable[[], Any]] = [
            lambda: subscription.ack(None, *position),
            lambda: subscription.ack(None, *position, (chance.choice((6, 5, 3)),)),
            lambda: subscription.ack_many(None, [position[0]] * 2, [position[1], 0]),
            self.deliver,
            self.deliver,
            lambda: subscription.redeliver("a", [position]),
            lambda: subscription.redeliver("a"),
            lambda: subscription.handle(
                "a", CommandAck(1, message_ids=(MessageId(*position),), transaction=t)
            ),
            lambda: subscription.commit(t),
            lambda: subscription.abort(t),
            lambda: subscription.cursor.add_properties({"at": chance.randrange(3)}),
        ]
        if self.kind == "Exclusive":
            operations.append(lambda: subscription.ack_cumulative("a", *position))
            properties = (("name", chance.randrange(3)),)
            command = CommandAck(1, AckType.CUMULATIVE, (MessageId(*position),), properties=properties)
            operations.append(lambda: subscription.handle("a", command))
        if chance.random() < 0.03:
            operations = [lambda: subscription.seek(*position), self.restart, self.copied]
        t = TransactionId(0, chance.randrange(3))
        with suppress(ProtocolError):
            chance.choice(operations)()

    def deliver(self) -> None:
        for position in self.subscription.next_reads(10, 0):
            self.subscription.dispatch(position, now_ms=0, batch_size=3, sticky_key_hash=1)

    def restart(self) -> None:
        self.subscription.save(self.store)
        self.subscription = Subscription.load(
            SubscriptionType(self.kind), self.store, self.subscription.cursor.ledgers
        )
        self.connect()

    def copied(self) -> None:
        self.subscription = copy.copy(self.subscription)
        self.subscription.save(self.store, replace=True)


@pytest.mark.parametrize(
    "kind", ["Key_Shared", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("Shared", "Exclusive"))]
)
def test_a_subscriptions_tracked_changes_are_the_differences(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = Checked(monkeypatch)
    for seed in range(12):
        life = Life(kind, seed)
        for _ in range(120):
            life.step()
            if life.chance.random() < 0.7:
                life.subscription.save(life.store)
                expected = life.subscription.stage().info
                reader = MemoryStore(life.store._ledger, read_only=True)
                assert Journal(reader).load().position_info == expected
    assert checked.seen["change"] > 700
    assert checked.seen["whole, though a change could say it"] < 0.05 * checked.seen["change"]


def test_a_cursors_tracked_changes_are_the_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = Checked(monkeypatch)
    for seed in range(10):
        chance, store = random.Random(seed), MemoryStore()
        cursor = Cursor(Ledgers(ENTRIES))
        cursor.save(store)
        for _ in range(100):
            position = chance.choice((3, 5)), chance.randrange(10)
            match chance.randrange(12):
                case 0 | 1 | 2 | 3:
                    cursor.ack(*position)
                case 4 | 5 | 6 | 7:
                    cursor.ack_batch(*position, [chance.choice((6, 5, 3))])
                case 8:
                    cursor.ack_cumulative(*position, [chance.choice((6, 4))])
                case 9:
                    cursor.properties["at"] = chance.randrange(3)
                case 10 if chance.random() < 0.2:
                    cursor.reset(*position)
                case 11 if chance.random() < 0.2:
                    cursor = Cursor.load(store, cursor.ledgers)
            cursor.save(store)
            reader = MemoryStore(store._ledger, read_only=True)
            assert Cursor.load(reader, cursor.ledgers).to_position_info() == cursor.to_position_info()
    assert checked.seen["change"] > 500
    assert checked.seen["whole"] > 5


OPERATIONS: list[Callable[[Cursor], object]] = [
    *(partial(Cursor.ack, ledger_id=3, entry_id=entry_id) for entry_id in (0, 1)),
    *(partial(Cursor.ack_batch, ledger_id=3, entry_id=entry_id, ack_set=[6]) for entry_id in (0, 1)),
    *(partial(Cursor.reset, ledger_id=3, entry_id=entry_id) for entry_id in (0, 1)),
]


@pytest.mark.parametrize("before", [1, 2])
def test_a_save_after_any_four_operations_saves_their_state(before: int) -> None:
    """All sequences, with a save after the first operations and one at the end."""
    kinds = Counter[str]()
    for operations in itertools.product(OPERATIONS, repeat=4):
        store, cursor = MemoryStore(), Cursor(Ledgers({3: 3}))
        for operation in operations[:before]:
            operation(cursor)
        cursor.save(store)
        for operation in operations[before:]:
            operation(cursor)
        kinds[cursor.save(store).kind] += 1
        assert Journal(store).load().position_info == cursor.to_position_info(), operations
    assert kinds.keys() == {"full", "unchanged"}


def test_a_seek_forward_is_saved_as_a_delta() -> None:
    store, cursor = MemoryStore(), Cursor(Ledgers({3: 30}))
    for entry_id in (5, 7):
        cursor.ack_batch(3, entry_id, [2])
        cursor.save(store)
    cursor.reset(3, 9)
    assert cursor.save(store).kind == "delta"
    assert Journal(store).load().position_info == cursor.to_position_info()


def test_a_save_of_one_change_beside_many_neither_builds_nor_compares_the_whole_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, subscription = MemoryStore(), Subscription("Shared", Ledgers({3: 5000}))
    subscription.add_consumer("a")
    subscription.flow("a", 10_000)
    for position in subscription.next_reads(2000, 0):
        subscription.dispatch(*position, now_ms=0)
    subscription.redeliver("a", [(3, entry_id) for entry_id in range(1000)])
    for entry_id in range(2000, 3000):
        subscription.ack(None, 3, entry_id, (6,))
    subscription.save(store)
    subscription.redeliver("a", [(3, 1500)])
    subscription.save(store)

    def whole(_: TrackedState) -> PositionInfo:
        raise AssertionError("the whole state was built")

    monkeypatch.setattr(TrackedState, "whole", whole)
    monkeypatch.setattr(tracking, "difference", whole)
    changes: list[Callable[[], object]] = [
        lambda: subscription.redeliver("a", [(3, 1501)]),
        lambda: subscription.ack(None, 3, 2500, (4,)),
        lambda: subscription.ack(None, 3, 1502),
        lambda: None,
    ]
    sizes = []
    for change in changes:
        change()
        before = store.last_id
        subscription.save(store)
        sizes.append([len(store.read(entry_id)) for entry_id in range(before + 1, store.last_id + 1)])
    assert [len(each) for each in sizes] == [1, 1, 1, 0]
    assert max(size for each in sizes for size in each) < 120


def test_what_changed_is_remembered_from_the_first_save_on_and_not_without_end() -> None:
    changed = ChangedPositions()
    changed.add(Position(3, 1))
    assert changed.positions is None
    assert not changed.remembers
    changed.begin()
    assert changed.remembers
    changed.end_save()
    changed.update(Position(3, entry_id) for entry_id in range(CHANGES_MAX))
    assert changed.positions is not None
    assert len(changed.positions) == CHANGES_MAX
    changed.add(Position(3, CHANGES_MAX))
    changed.add(Position(3, CHANGES_MAX + 1))
    assert changed.positions is None
    assert not changed.remembers


def test_what_changes_during_a_save_is_still_to_be_saved() -> None:
    changed = ChangedPositions()
    changed.begin()
    changed.end_save()
    changed.add(Position(3, 1))
    assert (changed.begin(), changed.moved) == ({Position(3, 1)}, False)
    changed.add(Position(3, 2))
    assert changed.moved
    # A save that failed has saved nothing.
    assert changed.begin() == {Position(3, 1), Position(3, 2)}
    changed.add(Position(3, 3))
    changed.end_save()
    assert changed.begin() == {Position(3, 3)}
    changed.update(Position(3, entry_id) for entry_id in range(CHANGES_MAX + 1))
    assert (changed.moved, changed.positions) == (True, None)
    changed.end_save()
    assert changed.begin() is None


def operations_on(key: Position, value: int) -> list[Callable[[dict[Position, int]], object]]:
    return [
        lambda each: each.__setitem__(key, value),
        lambda each: each.pop(key, None),
        lambda each: each.update({key: value}),
        lambda each: each.__ior__({key: value}),
        lambda each: each.setdefault(key, value),
        lambda each: each.popitem() if each else None,
        lambda each: each.__delitem__(key) if key in each else None,
        lambda each: each.clear() if value else None,
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_tracked_dictionary_is_a_dictionary_and_remembers_every_key_that_changed(seed: int) -> None:
    chance = random.Random(seed)
    plain: dict[Position, int] = {}
    tracked = TrackedDict()
    for _ in range(200):
        tracked.changed.begin()
        tracked.changed.end_save()
        before = dict(plain)
        key, value = Position(3, chance.randrange(5)), chance.randrange(3)
        operation = chance.choice(operations_on(key, value))
        operation(plain)
        operation(tracked)
        assert tracked == plain
        assert tracked.changed.positions is not None
        different = {each for each in before | plain if before.get(each) != plain.get(each)}
        assert different <= tracked.changed.positions
    for again in (copy.copy(tracked), copy.deepcopy(tracked), pickle.loads(pickle.dumps(tracked))):
        assert again == plain
        again[Position(9, 9)] = 1
        assert Position(9, 9) not in tracked


def test_two_changes_as_one_hold_nothing_that_its_mark_delete_position_covers() -> None:
    states = [PositionInfo(3, 0), PositionInfo(3, 0, [(3, 4, 8)]), PositionInfo(3, 12, [(3, 20, 21)])]
    first, second = (difference(*pair) for pair in itertools.pairwise(states))
    assert first is not None
    assert second is not None
    merged = merge(first, second)
    assert list(merged.changes.individually_deleted) == [(3, 20, 21)]
    assert replay(states[0], [merged]) == states[2]


@pytest.mark.parametrize("field", [{"idle_since": 7}, {"unknown_fields": b"\x50\x01"}])
def test_what_is_carried_and_changes_is_a_change(field: dict[str, Any]) -> None:
    store, cursor = MemoryStore(), Cursor(Ledgers(ENTRIES))
    cursor.carried = carried = LoadedFields()
    for entry_id in (5, 7):
        cursor.ack(3, entry_id)
        cursor.save(store)
    for name, value in field.items():
        setattr(carried, name, value)
    assert cursor.save(store).kind == "delta"
    found = Journal(store).load().position_info
    assert found is not None
    assert found == cursor.to_position_info()
    assert {name: getattr(found, name) for name in field} == field


def test_a_state_given_after_tracked_ones_is_saved_whole() -> None:
    store, cursor = MemoryStore(), Cursor(Ledgers(ENTRIES))
    for entry_id in (5, 7):
        cursor.ack(3, entry_id)
        cursor.save(store)
    assert cursor.journal is not None
    assert cursor.journal.save(PositionInfo(3, 0)).kind == "full"
    assert Journal(store).load().position_info == PositionInfo(3, 0)
