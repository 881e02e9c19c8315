"""Four threads on a store or a journal, which are for one thread: an error is raised and nothing is lost."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ackwell import (
    AckwellError,
    Cursor,
    DelayedDeliveryTracker,
    PositionInfo,
    ProtocolError,
    Subscription,
)
from ackwell.devbroker import AsyncBroker, Broker
from ackwell.saving.journal import Journal
from ackwell.store import MemoryStore, SqliteStore
from ackwell.store.pulsar import PulsarStore

THREADS = 4


@pytest.mark.parametrize(
    "structure",
    [
        Cursor,
        Subscription,
        DelayedDeliveryTracker,
        Journal,
        MemoryStore,
        SqliteStore,
        PulsarStore,
        Broker,
        AsyncBroker,
    ],
)
def test_a_docstring_states_which_threads_may_use_the_object(structure: type) -> None:
    pattern = r"Only one thread may use|the thread of that loop|[Aa]ny thread"
    assert re.search(pattern, structure.__doc__ or "")


@pytest.fixture(autouse=True)
def short_switch_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], object]) -> list[BaseException]:
    """Do the work in each thread; return the exceptions that are not an `AckwellError`."""
    other: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            other.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return other


def test_every_entry_that_a_store_confirmed_to_any_thread_is_there(tmp_path: Path) -> None:
    confirmed: dict[int, bytes] = {}
    with SqliteStore(tmp_path / "acks.db") as store:
        store.own()

        def append(number: int) -> None:
            for count in range(30):
                data = b"%d %d" % (number, count)
                try:
                    entry_id = store.append(data)
                except AckwellError:
                    continue
                assert confirmed.setdefault(entry_id, data) == data

        assert not in_threads(append)
    assert confirmed
    with SqliteStore(tmp_path / "acks.db", read_only=True) as store:
        assert {entry_id: store.read(entry_id) for entry_id in confirmed} == confirmed


def test_two_saves_of_one_journal_at_once_are_refused_and_the_last_confirmed_one_is_loaded() -> None:
    store, confirmed = MemoryStore(), [PositionInfo(3, 0)]
    journal = Journal(store)

    def save(number: int) -> None:
        for count in range(100):
            state = PositionInfo(3, 5, [(3, 7, 8 + number * 100 + count)])
            try:
                journal.save(state)
            except AckwellError:
                continue
            confirmed.append(state)

    assert not in_threads(save)
    newest = PositionInfo(3, 9)
    journal.save(newest)
    assert Journal(store).load().position_info == newest
    assert len(confirmed) > 1


def test_a_save_within_a_save_is_refused() -> None:
    store = MemoryStore()
    journal = Journal(store)

    class Within(MemoryStore):
        def append(self, data: bytes) -> int:
            with pytest.raises(ProtocolError, match="another thread saves"):
                inner.save(PositionInfo(3, 6))
            return super().append(data)

    inner = Journal(Within())
    inner.save(PositionInfo(3, 5))
    journal.save(PositionInfo(3, 5))
    assert inner.store.last_id == journal.store.last_id == 0
