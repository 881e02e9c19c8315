"""Defects that the simulation must find. Each is one deliberate mistake, active while its context lasts."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ackwell.cursor.tracked import TrackedState
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.errors import StoreError
from ackwell.saving import delta, parts, recovery
from ackwell.saving.journal import Journal, SaveResult
from ackwell.saving.parts import Part
from ackwell.store import MemoryStore
from ackwell.subscription import in_hand, saved
from ackwell.subscription.backoffs import Backoffs
from ackwell.subscription.consumers import Consumers
from ackwell.subscription.durability import Durability
from ackwell.subscription.in_hand import DeliveryTracker
from ackwell.subscription.quarantine import Quarantine
from ackwell.subscription.redelivery_counts import RedeliveryCounts
from ackwell.subscription.replay_queue import ReplayQueue
from ackwell.subscription.state import State
from ackwell.subscription.transactions import Transactions

Defect = Callable[[], AbstractContextManager[Any]]


def instead(owner: Any, name: str, wrong: Callable[..., Any]) -> Defect:
    """Return the defect that replaces a function; `wrong` gets the original function first."""
    right = getattr(owner, name)

    def called(*arguments: Any, **options: Any) -> Any:
        return wrong(right, *arguments, **options)

    return lambda: mock.patch.object(owner, name, called)


def nothing(owner: Any, name: str, answer: object = None) -> Defect:
    """Return the defect that makes a function do nothing."""
    return instead(owner, name, lambda *_, **__: answer)


def confirmed_unwritten(save: Any, *arguments: Any, **options: Any) -> Any:
    try:
        return save(*arguments, **options)
    except StoreError:
        return SaveResult("delta", 0, 0)


def loaded_without_a_second_look(load: Any, self: Any, *build: Any, **options: Any) -> Any:
    store, seen = self._store, self._store.last_id
    with mock.patch.object(type(store), "last_id", property(lambda _: seen)):
        found = load(self, *build, **options)
    self._newest = replace(self._newest, last_id=store.last_id)
    return found


def change_without(**parts_: Any) -> Callable[..., Any]:
    def changed(change_since: Any, *arguments: Any) -> Any:
        change = change_since(*arguments)
        if change is None:
            return None
        return change._replace(changes=change.changes.replace(**parts_))

    return changed


def without_others(change_since: Any, *arguments: Any) -> Any:
    change = change_since(*arguments)
    return None if change is None else change._replace(others=False)


def merged_without_the_first(merge: Any, first: Any, second: Any) -> Any:
    return second


def deleted_too_far(saved_: Any, self: Any, *arguments: Any) -> Any:
    result = saved_(self, *arguments)
    if result.kind == "full":
        self._store.delete_up_to(self._newest.full_first_id - 1)
    return result


def owned_by_anybody(_: Any, self: Any) -> None:
    ledger = self._reading()
    if not self._generation:
        ledger.generation += 1
        self._generation = ledger.generation


def receipts_before_the_save(_: Any, self: Any, *__: Any) -> list[Any]:
    return [self._waiting.pop()] if self._waiting else []


def no_wait(_: Any, self: Any, position: Any, now_ms: int, __: int) -> None:
    self._deadlines.add(now_ms, *position)
    self.due_ms[position] = now_ms


def part_taken_for_whole(decode: Any, data: bytes, entry_id: int | None = None) -> Any:
    part = decode(data, entry_id)
    return part._replace(number=0, parts=1, checksum=zlib.crc32(part.save.body))


@contextmanager
def everything_in_hand() -> Iterator[None]:
    def positions(self: DeliveryTracker, pending: Any) -> Any:
        self.drop_removed(pending)
        return [*self._order]

    every = in_hand.outstanding
    unlimited = mock.patch.object(in_hand, "outstanding", lambda state, _=None: every(state))
    with mock.patch.object(DeliveryTracker, "positions", positions), unlimited:
        yield


def counted_twice(suspect: Any, self: RedeliveryCounts, positions: Any, *, counted: bool = True) -> None:
    positions = [*positions]
    for _ in range(1 + counted):
        suspect(self, positions, counted=counted)


def without_suspects(key_waits: Any, self: State, *asked: int) -> Any:
    hidden = [p for p in self.replay.positions() if self.counts.is_suspect(*p)]
    hashes = [self.replay.hash_of(p) for p in hidden]
    for position in hidden:
        self.replay.discard(*position)
    waits = key_waits(self, *asked)
    for position, sticky_key_hash in zip(hidden, hashes, strict=True):
        self.replay.add(*position, sticky_key_hash)
    return waits


def no_room(for_queued: Any, self: Quarantine, kept: set[Any]) -> Any:
    found = for_queued(self, kept)
    having = self._with_suspects()
    kept -= {each.key for each in self._state.consumers if len(each.pending) and each.key not in having}
    return found


@contextmanager
def no_checksums() -> Iterator[None]:
    same = SimpleNamespace(crc32=lambda _: 7)
    with mock.patch.object(parts, "zlib", same), mock.patch.object(recovery, "zlib", same):
        yield


TRIES: dict[str, Defect] = {
    "prefetched entries count a try": everything_in_hand,
    "a load forgets the entries in hand": nothing(saved, "restore_in_hand"),
    "a try counts twice": instead(RedeliveryCounts, "suspect", counted_twice),
    "a suspect releases its key": instead(State, "key_waits", without_suspects),
    "the quarantine starves": instead(Quarantine, "_for_queued", no_room),
}
"""Wrong rules for the deliveries of lost consumers."""

DEFECTS: dict[str, Defect] = {
    **TRIES,
    "recovery skips a damaged save": nothing(recovery, "_refuse"),
    "a save is confirmed that was not written": instead(Journal, "save_source", confirmed_unwritten),
    "checksums are not compared": no_checksums,
    "an entry is taken for another": instead(Part, "decode", lambda right, data, _=None: right(data)),
    "a part of a save is taken for a save": instead(Part, "decode", part_taken_for_whole),
    "an owner that was fenced writes": instead(MemoryStore, "own", owned_by_anybody),
    "a save in the middle of a load is lost": instead(Journal, "load_as", loaded_without_a_second_look),
    "the second base is deleted": instead(Journal, "_record_save", deleted_too_far),
    "a delta holds no open transactions": instead(TrackedState, "change_since", without_others),
    "a delta holds no redelivery counts": instead(
        TrackedState, "change_since", change_without(redelivery_counts={})
    ),
    "a delta holds no parts of batches": instead(
        TrackedState, "change_since", change_without(batch_deleted={})
    ),
    "a delta holds one change of two": instead(delta, "merge", merged_without_the_first),
    "open transactions are not saved": nothing(saved, "encode_transactions", b""),
    "receipts are given one by one": instead(Durability, "record_save", receipts_before_the_save),
    "a back-off is over at once": instead(Backoffs, "start", no_wait),
    "a delay is not kept": nothing(DelayedDeliveryTracker, "add", False),
    "an abort forgets the delay": nothing(ReplayQueue, "is_unseen", False),
    "a part of a batch does not lower the counters": nothing(Consumers, "reduce"),
    "a redelivery is not counted": nothing(RedeliveryCounts, "increment"),
    "an acknowledged entry stays in the queue": nothing(State, "forget"),
    "transactions conflict with nothing": nothing(Transactions, "check"),
}

FIRST_SEEDS: dict[str, int] = {
    "prefetched entries count a try": 1,
    "a load forgets the entries in hand": 12,
    "a try counts twice": 10,
    "a suspect releases its key": 2659,
    "the quarantine starves": 13,
    "recovery skips a damaged save": 14,
    "a save is confirmed that was not written": 0,
    "checksums are not compared": 129,
    "an entry is taken for another": 14,
    "a part of a save is taken for a save": 1,
    "an owner that was fenced writes": 9,
    "a save in the middle of a load is lost": 0,
    "the second base is deleted": 38,
    "a delta holds no open transactions": 3,
    "a delta holds no redelivery counts": 12,
    "a delta holds no parts of batches": 0,
    "a delta holds one change of two": 4,
    "open transactions are not saved": 3,
    "receipts are given one by one": 7,
    "a back-off is over at once": 1,
    "a delay is not kept": 1,
    "an abort forgets the delay": 534,
    "a part of a batch does not lower the counters": 7,
    "a redelivery is not counted": 1,
    "an acknowledged entry stays in the queue": 3,
    "transactions conflict with nothing": 33,
}
"""The first seed whose life finds each defect.

A change of `Life` or of the code moves them; `python -m pytest tests/simulation -m proof` names the new ones.
"""
