"""One thread acknowledges while another saves: no acknowledgment is lost, and an error is raised."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pytest

from ackwell import Cursor, Ledgers, Position, ProtocolError
from ackwell.cursor.changes import Changed
from ackwell.store import MemoryLedger, MemoryStore
from ackwell.subscription import Subscription

ENTRIES = 4_000


@pytest.fixture(autouse=True)
def short_switch_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def while_saving(acknowledge: Callable[[int], object], save: Callable[[], object]) -> int:
    """Acknowledge every entry in one thread and save in another; return the number of errors."""
    done = threading.Event()

    def work() -> None:
        for entry_id in range(ENTRIES):
            acknowledge(entry_id)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    shown = 0
    while not done.is_set():
        try:
            save()
        except ProtocolError:
            shown += 1
    thread.join()
    return shown


def scattered(entry_id: int) -> int:
    """Return each entry once, in an order that leaves many ranges."""
    return entry_id * 1_237 % ENTRIES


def test_what_a_thread_acknowledges_in_a_cursor_while_another_saves_it_is_in_the_next_save() -> None:
    ledgers, shown = Ledgers({3: ENTRIES + 1}), 0
    for _ in range(5):
        ledger = MemoryLedger()
        store, cursor = MemoryStore(ledger), Cursor(ledgers)

        def acknowledge(number: int, cursor: Cursor = cursor) -> None:
            entry_id = scattered(number)
            if entry_id % 5 == 0:
                cursor.ack_batch(3, entry_id, [0b10])
            else:
                cursor.ack(3, entry_id)

        shown += while_saving(acknowledge, partial(cursor.save, store))
        cursor.save(store)
        assert Cursor.load(MemoryStore(ledger), ledgers) == cursor
    assert shown


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
    changed = Changed()
    changed.begin()
    changed.saved()
    seen: list[set[Position] | None] = []

    def save() -> None:
        seen.append(changed.begin())
        if ends:
            changed.saved()

    changed.positions = Interrupted({Position(3, 1)}, save)
    changed.add(Position(3, 7))
    assert seen == [{Position(3, 1)}]
    if not ends:
        assert changed.moved
        changed.saved()
    assert changed.begin() == {Position(3, 7)}


def test_what_a_thread_acknowledges_in_a_subscription_while_another_saves_it_is_in_the_next_save() -> None:
    ledgers, shown = Ledgers({3: ENTRIES + 1}), 0
    for _ in range(3):
        ledger = MemoryLedger()
        store, subscription = MemoryStore(ledger), Subscription("Shared", ledgers)
        subscription.add_consumer("a")

        def acknowledge(number: int, subscription: Subscription = subscription) -> None:
            subscription.ack("a", 3, scattered(number))

        shown += while_saving(acknowledge, partial(subscription.save, store))
        subscription.save(store)
        assert Subscription.load("Shared", MemoryStore(ledger), ledgers).cursor == subscription.cursor
    assert shown
