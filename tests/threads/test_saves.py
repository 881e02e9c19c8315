"""One thread acknowledges while another saves: no acknowledgment is lost, and an error is raised."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

import pytest

from ackwell import Cursor, Ledgers, Position, ProtocolError
from ackwell.cursor.changes import ChangedPositions
from ackwell.store import MemoryLedger, MemoryStore
from ackwell.subscription import Subscription

ENTRIES = 4_000


@pytest.fixture(autouse=True)
def short_switch_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def while_saving(acknowledge: Callable[[int], object], save: Callable[[], object]) -> None:
    """Acknowledge every entry in one thread and save in another."""
    done = threading.Event()

    def work() -> None:
        for entry_id in range(ENTRIES):
            acknowledge(entry_id)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        with suppress(ProtocolError):
            save()
    thread.join()


def scattered(entry_id: int) -> int:
    """Return each entry once, in an order that leaves many ranges."""
    return entry_id * 1_237 % ENTRIES


def test_what_a_thread_acknowledges_in_a_cursor_while_another_saves_it_is_in_the_next_save() -> None:
    ledgers = Ledgers({3: ENTRIES + 1})
    for _ in range(5):
        ledger = MemoryLedger()
        store, cursor = MemoryStore(ledger), Cursor(ledgers)

        def acknowledge(number: int, cursor: Cursor = cursor) -> None:
            entry_id = scattered(number)
            if entry_id % 5 == 0:
                cursor.ack_batch(3, entry_id, [0b10])
            else:
                cursor.ack(3, entry_id)

        while_saving(acknowledge, partial(cursor.save, store))
        cursor.save(store)
        assert Cursor.load(MemoryStore(ledger), ledgers) == cursor


class Interrupted(set[Position]):
    """A set that runs a function in another thread during the next `add`."""

    def __init__(self, positions: Iterable[Position], meanwhile: Callable[[], object]) -> None:
        super().__init__(positions)
        self._meanwhile: list[Callable[[], object]] = [meanwhile]

    def add(self, position: Position) -> None:
        while self._meanwhile:
            self._meanwhile.pop()()
        super().add(position)


@pytest.mark.parametrize("ends", [True, False])
def test_what_changes_while_a_save_begins_or_ends_is_in_the_next_save(ends: bool) -> None:
    """The save at that moment does not include it."""
    changed = ChangedPositions()
    changed.begin()
    changed.end_save()
    seen: list[set[Position] | None] = []

    def save() -> None:
        seen.append(changed.begin())
        if ends:
            changed.end_save()

    changed.positions = Interrupted({Position(3, 1)}, save)
    changed.add(Position(3, 7))
    assert seen == [{Position(3, 1)}]
    if not ends:
        assert changed.moved
        changed.end_save()
    assert changed.begin() == {Position(3, 7)}


def test_what_a_thread_acknowledges_in_a_subscription_while_another_saves_it_is_in_the_next_save() -> None:
    ledgers = Ledgers({3: ENTRIES + 1})
    for _ in range(3):
        ledger = MemoryLedger()
        store, subscription = MemoryStore(ledger), Subscription("Shared", ledgers)
        subscription.add_consumer("a")

        def acknowledge(number: int, subscription: Subscription = subscription) -> None:
            subscription.ack("a", 3, scattered(number))

        while_saving(acknowledge, partial(subscription.save, store))
        subscription.save(store)
        assert Subscription.load("Shared", MemoryStore(ledger), ledgers).cursor == subscription.cursor


class InterruptedStore(MemoryStore):
    """A store that calls a function once, while a save appends its entry."""

    def __init__(self, ledger: MemoryLedger, interrupt: Callable[[], object]) -> None:
        super().__init__(ledger)
        self._interrupt: list[Callable[[], object]] = [interrupt]

    def append(self, data: bytes) -> int:
        while self._interrupt:
            self._interrupt.pop()()
        return super().append(data)


def acknowledge_in_a_thread(acknowledge: Callable[[int, int], object], entry_id: int) -> None:
    thread = threading.Thread(target=acknowledge, args=(3, entry_id))
    thread.start()
    thread.join()


def test_a_save_raises_if_another_thread_acknowledges_and_the_next_save_has_the_acknowledgment() -> None:
    ledgers = Ledgers({3: 10})
    cursor, subscription = Cursor(ledgers), Subscription("Shared", ledgers)
    for state, acknowledge in ((cursor, cursor.ack), (subscription, partial(subscription.ack, None))):
        ledger = MemoryLedger()
        acknowledge(3, 2)
        store = InterruptedStore(ledger, partial(acknowledge_in_a_thread, acknowledge, 5))
        with pytest.raises(ProtocolError, match="another thread"):
            state.save(store)
        state.save(store)
        assert (
            str(Cursor.load(MemoryStore(ledger), ledgers).individually_deleted) == "[(3:1..3:2],(3:4..3:5]]"
        )
