"""The entries that a consumer has in hand: those that it works on. Its other entries are prefetched.

If an entry crashes its consumer, the redelivery count of the entry must increase, so that a poison message
becomes a dead letter. A broker cannot distinguish the entry that a lost consumer worked on from its
prefetched entries. Therefore a consumer reports its work in one of two ways. Either it declares its
concurrency N: its N oldest unacknowledged deliveries are then in hand. Or it reports each entry that it
starts.

This module implements `LostCounts.IN_HAND`. A *try* increases the redelivery count of an entry by one. Only
entries in hand get a try:

- If a consumer is lost, each entry that it had in hand gets a try.
- The entries in hand are part of the saved state. When the state is loaded, each of them gets a try.
- If the ack timeout of an entry ends while a reporting consumer has it in hand, the entry gets a try.

An entry that has got a try is a *suspect*. `quarantine` delivers suspects alone.
"""

from __future__ import annotations

from array import array
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from ackwell.errors import CorruptStateError
from ackwell.position import Position
from ackwell.subscription.subscription_settings import LostCounts
from ackwell.wire import Reader, bytes_field, int_field, varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ackwell._native import PendingAcks
    from ackwell.arrays import Int64s
    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.state import State
    from ackwell.wire import Field

IN_HAND_FIELD: Final = 20_603
"""The field of the saved state with the entries in hand and the suspects of one ledger.

Its message is `InHand {ledger=1, packed entries in hand=2, packed suspects=3}`. Each list is in order, and
stores an entry id as its difference from the previous id. An entry in hand is not in the list of suspects.
"""

GONE_MIN: Final = 64
"""If a tracker has this many more removed entries than pending entries, it drops the removed ones."""
UNPACKED_MIN: Final = 256
"""The number of entries that `positions` moves from the columns to `_order` at a time."""


class DeliveryTracker:
    """The tracker of one reporting consumer: its deliveries in order, or the entries that it started.

    An acknowledgment costs nothing, because a later scan drops the entries that are no longer pending. An
    entry is *late* if its ack timeout ended and the consumer may still work on it. Each operation is
    amortised O(1) for each entry, except `positions` and `drop_removed`, and except `deliver` and `finish`
    while an entry is late.
    """

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_columns", "_late", "_order", "concurrency")

    def __init__(self, concurrency: int | None) -> None:
        self.concurrency = concurrency
        """The number of entries that the consumer works on at once; `None` if it reports each entry that it
        starts."""
        self._order: dict[Position, None] = {}
        self._columns = array("q"), array("q")
        """The newest deliveries, as ledger ids and entry ids. They are later than the deliveries in `_order`.
        The columns are empty while an entry is late."""
        self._late: set[Position] = set()
        """The late entries. Each counts as one of the N entries in hand until the consumer finishes a later
        entry."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeliveryTracker):
            return NotImplemented
        return self._content() == other._content()

    def _content(self) -> tuple[int | None, list[Position], set[Position]]:
        return self.concurrency, [*self._order, *map(Position, *self._columns)], self._late

    def deliver(self, position: Position, pending: PendingAcks) -> None:
        """Record the delivery of one entry. `pending` has the pending entries of the consumer."""
        if self._columns[0]:
            self._unpack(pending)
        self.finish(position)
        if self.concurrency is not None:
            self._order[position] = None
            if len(self._order) > 2 * len(pending) + GONE_MIN:
                self.drop_removed(pending)

    def deliver_many(self, ledger_ids: Int64s, entry_ids: Int64s, pending: PendingAcks) -> None:
        """Record the delivery of entries that this consumer did not have before."""
        if self.concurrency is None:
            return
        for column, ids in zip(self._columns, (ledger_ids, entry_ids), strict=True):
            column.frombytes(ids.tobytes())
        if self._late:
            self._unpack(pending)
        elif len(self._order) + len(self._columns[0]) > 2 * len(pending) + GONE_MIN:
            import numpy as np

            self._scan(pending, len(self._order))
            kept = pending.get_many(*self._columns)[0] >= 0
            ledger_ids, entry_ids = (np.array(column)[kept] for column in self._columns)
            self._columns = array("q", ledger_ids.tobytes()), array("q", entry_ids.tobytes())

    def start(self, position: Position) -> None:
        """Record that the consumer has started an entry."""
        self._order[position] = None

    def finish(self, position: Position) -> None:
        """Record that the consumer no longer works on an entry.

        Late entries that were delivered before this entry are then no longer in hand.
        """
        if self._late and position in self._order and position not in self._late:
            self._late.difference_update(takewhile(position.__ne__, self._order))
        self.put_down(position)

    def put_down(self, position: Position) -> None:
        """Remove an entry from the tracker. Late entries that were delivered before it stay."""
        self._order.pop(position, None)
        self._late.discard(position)

    def time_out(self, position: Position) -> None:
        """Record that an entry in hand is late: it timed out, and the consumer may still work on it."""
        if self.concurrency is not None:
            self._late.add(position)

    def clear(self) -> None:
        """Record that the consumer has returned all its entries."""
        self._order.clear()
        self._columns = array("q"), array("q")
        self._late.clear()

    def positions(self, pending: PendingAcks) -> list[Position]:
        """Return the entries in hand. O(entries in hand + entries removed since the last call).

        O(deliveries) while an entry is late.
        """
        if self.concurrency is None:
            return self._scan(pending, len(self._order))
        if self._late:
            self.drop_removed(pending)
        found = self._scan(pending, self.concurrency)
        while len(found) < self.concurrency and self._columns[0]:
            self._unpack(pending, UNPACKED_MIN)
            found = self._scan(pending, self.concurrency)
        return found

    def drop_removed(self, pending: PendingAcks) -> None:
        """Drop the entries that are no longer pending, and move all deliveries to `_order`. O(deliveries)."""
        self._unpack(pending)
        self._scan(pending, len(self._order))

    def _unpack(self, pending: PendingAcks, limit: int | None = None) -> None:
        """Move the first `limit` entries of `_columns` to `_order`; all entries if `limit` is None.

        Entries that are not pending are dropped.
        """
        for position in map(Position, *(column[:limit] for column in self._columns)):
            if pending.contains(*position):
                self._order[position] = None
        for column in self._columns:
            del column[:limit]

    def _scan(self, pending: PendingAcks, limit: int) -> list[Position]:
        """Return the first pending entries of `_order`, at most `limit`.

        Each late entry that the scan reaches takes one of the `limit` places, unless it is dropped. All other
        entries that the scan reaches are dropped if they are not pending. A late entry is dropped if the
        consumer has finished an entry that was delivered after it, because the consumer then no longer works
        on the late entry.
        """
        found: list[Position] = []
        late: list[Position] = []
        gone: list[Position] = []
        for position in self._order:
            if len(found) == limit:
                break
            if pending.contains(*position):
                found.append(position)
            elif position in self._late:
                late.append(position)
            else:
                gone += late
                late.clear()
                gone.append(position)
        for position in gone:
            self.put_down(position)
        return found[: max(limit - len(late), 0)]


def in_hand_of(state: State, consumer: Consumer) -> list[Position]:
    """Return the entries that a consumer has in hand; an empty list if the consumer does not report."""
    tracker = consumer.in_hand
    if tracker is None:
        return []
    if state.policy.individual:
        return tracker.positions(consumer.pending)
    if consumer is not state.policy.active:
        return []
    if tracker.concurrency is not None:
        return outstanding(state, tracker.concurrency)
    started = tracker.positions(_UnfinishedEntries(state))  # type: ignore[arg-type]
    return sorted(started)


def outstanding(state: State, limit: int | None = None) -> list[Position]:
    """Return the first `limit` entries that the active consumer of Exclusive or Failover has not finished.

    If `limit` is None, return all of them. They are the unacknowledged entries before the read position,
    except dead letters and entries in their back-off.
    """
    dead, waiting = state.counts.dead, state.backoffs.due_ms
    most = None if limit is None else limit + dead.cardinality + len(waiting)
    read = state.unread.delivered(most)
    found = [position for position in read if position not in waiting and not dead.contains(*position)]
    return found if limit is None else found[:limit]


def count_tries(state: State, consumer: Consumer) -> None:
    """Give a try to each entry that a lost consumer had in hand.

    With `LostCounts.EVERY_DELIVERY`, increase the redelivery count of every entry of the consumer instead.
    Call this function before the entries are removed from the consumer.
    """
    if state.settings.lost_counts is not LostCounts.EVERY_DELIVERY:
        state.counts.suspect(in_hand_of(state, consumer))
    elif state.policy.individual:
        ledger_ids, entry_ids, *_ = consumer.pending.to_arrays()
        state.counts.increment_many(ledger_ids, entry_ids)
    elif consumer is state.policy.active:
        for position in outstanding(state):
            state.counts.increment(*position)


def encode_in_hand(state: State) -> bytes:
    """Encode the entries in hand, and the suspects that are not in hand; no bytes if there are none."""
    if not state.consumers.reporting and not state.counts.suspecting:
        return b""
    held = {position for consumer in state.consumers for position in in_hand_of(state, consumer)}
    suspects = (position for position in state.counts.suspects.positions() if position not in held)
    by_ledger: dict[int, tuple[list[int], list[int]]] = {}
    for kind, positions in enumerate((sorted(held), suspects)):
        for ledger_id, entry_id in positions:
            by_ledger.setdefault(ledger_id, ([], []))[kind].append(entry_id)
    return b"".join(
        bytes_field(IN_HAND_FIELD, int_field(1, ledger_id) + _packed(2, entries) + _packed(3, others))
        for ledger_id, (entries, others) in sorted(by_ledger.items())
    )


def restore_in_hand(state: State, unknown_fields: bytes) -> None:
    """Restore the suspects of a saved state, and give a try to each entry that was in hand at the save.

    An entry with a new try becomes a suspect.
    """
    if state.settings.lost_counts is not LostCounts.IN_HAND:
        return
    cursor = state.cursor
    for field in Reader(unknown_fields).fields():
        if field.number == IN_HAND_FIELD:
            in_hand, suspects = _read(field)
            tried = [
                each for each in in_hand if cursor.ledgers.contains(*each) and not cursor.is_acked(*each)
            ]
            state.counts.suspect(tried)
            state.counts.suspect((each for each in suspects if state.counts.count(*each)), counted=False)


def _packed(number: int, entry_ids: list[int]) -> bytes:
    if not entry_ids:
        return b""
    pairs = zip(entry_ids, [0, *entry_ids], strict=False)
    return bytes_field(number, b"".join(varint(entry_id - before) for entry_id, before in pairs))


def _read(field: Field) -> tuple[list[Position], list[Position]]:
    ledger_id, kinds = -1, {2: list[int](), 3: list[int]()}
    for part in field.message().fields():
        if part.number == 1:
            ledger_id = part.int64()
        elif part.number in kinds:
            kinds[part.number] += _summed(part.int64s())
    if ledger_id < 0 or any(min(entry_ids, default=0) < 0 for entry_ids in kinds.values()):
        raise CorruptStateError("an entry in hand has no position", field.start)
    in_hand, suspects = ([Position(ledger_id, entry_id) for entry_id in each] for each in kinds.values())
    return in_hand, suspects


def _summed(differences: Iterable[int]) -> Iterator[int]:
    entry_id = 0
    for difference in differences:
        entry_id += difference
        yield entry_id


class _UnfinishedEntries:
    """The entries that the active consumer of Exclusive or Failover has not finished.

    `DeliveryTracker.positions` gets this object instead of `PendingAcks`, because a subscription of these
    types does not track pending entries. A started entry stays in hand even if reading starts again at the
    first unacknowledged entry.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry is neither acknowledged nor in its back-off."""
        waits = (ledger_id, entry_id) in self._state.backoffs.due_ms
        return not waits and self._state.unread.needs_delivery(ledger_id, entry_id)
