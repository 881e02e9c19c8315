"""A whole subscription in sets and dicts: the rules said once more, as plainly as they go.

A *message* is `(position, batch index)`. An entry is acknowledged when all its messages are. What is
neither acknowledged nor held by a transaction is owed; an owed entry is with one consumer, in the
queue, or unread.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ackwell import Position
from ackwell.ack_sets import to_words

if TYPE_CHECKING:
    from ackwell.subscription import Subscription

Message = tuple[Position, int]


@dataclass
class Saved:
    """What a save keeps."""

    acked: set[Message] = field(default_factory=set)
    counts: dict[Position, int] = field(default_factory=dict)
    held: dict[int, set[Message]] = field(default_factory=dict)


class Naive:
    """The model; `sizes` are the messages of each entry, in position order."""

    def __init__(self, sizes: dict[Position, int], *, individual: bool) -> None:
        self.sizes = sizes
        self.individual = individual
        self.now = Saved()
        self.saved = Saved()
        self.holder: dict[Position, str] = {}
        self.queue: set[Position] = set()
        self.read_up_to = Position(0, -1)

    # What follows from the state

    def messages(self, position: Position) -> set[Message]:
        return {(position, index) for index in range(self.sizes[position])}

    def is_acked(self, position: Position) -> bool:
        return self.messages(position) <= self.now.acked

    def owed(self, position: Position) -> set[Message]:
        held = set().union(*self.now.held.values())
        return self.messages(position) - self.now.acked - held

    def unread(self) -> list[Position]:
        return [p for p in self.sizes if p > self.read_up_to and self.owed(p)]

    # What happens

    def dispatched(self, position: Position, consumer: object) -> None:
        """The subscription decided; the decision must be a legal one."""
        if not isinstance(consumer, str):
            return
        assert self.owed(position), f"{position} was delivered, and nothing of it is owed"
        assert position not in self.holder, f"{position} was delivered twice without cause"
        assert position in self.queue or position == self.unread()[0], f"{position} out of order"
        self.passed(position)
        self.queue.discard(position)
        if self.individual:
            self.holder[position] = consumer

    def passed(self, position: Position) -> None:
        """The read position moved past this entry, if it was not past it before."""
        self.read_up_to = max(self.read_up_to, position)

    def ack(self, messages: set[Message]) -> None:
        self.now.acked |= messages
        self._settle({position for position, _ in messages})

    def ack_cumulative(self, messages: set[Message]) -> None:
        last = max(position for position, _ in messages)
        before = {message for p in self.sizes if p < last for message in self.messages(p)}
        self.ack(messages | before)

    def release(self, consumer: str, positions: set[Position], *, counted: bool) -> None:
        for position in [p for p in sorted(positions) if self.holder.get(p) == consumer]:
            del self.holder[position]
            self.queue.add(position)
            if counted:
                self.now.counts[position] = self.now.counts.get(position, 0) + 1

    def close(self, consumer: str) -> None:
        self.release(consumer, set(self.sizes), counted=False)

    def hold(self, transaction: int, messages: set[Message]) -> bool:
        """Return whether the transaction may have them; all or none.

        A whole entry may be had also where a part of it is acknowledged.
        """
        whole = all(self.messages(position) <= messages for position, _ in messages)
        taken = set().union(*self.now.held.values())
        if messages & taken or (messages <= self.now.acked if whole else messages & self.now.acked):
            return False
        self.now.held.setdefault(transaction, set()).update(messages)
        self._settle({position for position, _ in messages})
        return True

    def commit(self, transaction: int) -> None:
        self.ack(self.now.held.pop(transaction, set()))

    def abort(self, transaction: int) -> None:
        for position in sorted({p for p, _ in self.now.held.pop(transaction, set())}):
            # One that was never read still is not.
            if self.owed(position) and position <= self.read_up_to:
                self.holder.pop(position, None)
                self.queue.add(position)
                self.now.counts[position] = self.now.counts.get(position, 0) + 1

    def save(self) -> None:
        self.saved = deepcopy(self.now)

    def restart(self) -> None:
        self.now = deepcopy(self.saved)
        self.holder.clear()
        self.queue.clear()
        self.read_up_to = Position(0, -1)

    def _settle(self, positions: set[Position]) -> None:
        for position in positions:
            if not self.owed(position):
                self.holder.pop(position, None)
                self.queue.discard(position)
            if self.is_acked(position):
                self.now.counts.pop(position, None)

    # What must be alike

    def check(self, subscription: Subscription) -> None:
        """Compare everything a caller or a restart could ever see."""
        cursor = subscription.cursor
        acked = {position for position in self.sizes if self.is_acked(position)}
        assert acked == {position for position in self.sizes if cursor.is_acked(*position)}
        assert dict(cursor.batch_deleted) == {
            position: to_words(sum(1 << index for _, index in messages))
            for position in self.sizes
            if position not in acked
            and (messages := self.messages(position) - self.now.acked) != self.messages(position)
        }
        unacked = [position for position in self.sizes if position not in acked]
        first = min(unacked, default=None)
        assert subscription.summary(0).oldest_hole == first
        assert cursor.backlog_entries == len(unacked)
        self.check_places(subscription)

    def check_places(self, subscription: Subscription) -> None:
        outstanding = subscription._state.consumers
        pending = {
            Position(*position): (consumer.name, remaining)
            for consumer in outstanding
            for position, (remaining, _) in consumer.pending.items()
        }
        assert pending == {p: (name, len(self.owed(p))) for p, name in self.holder.items()}
        assert outstanding.unacked == sum(remaining for _, remaining in pending.values())
        assert set(subscription._state.replay.positions()) == self.queue
        assert dict(subscription._state.counts.counts()) == self.now.counts
        unread = {Position(*p) for p in zip(*map(list, subscription._state.unread.first(10**6)), strict=True)}
        if self.individual:
            assert unread == set(self.unread())
            # Nothing is lost: an owed entry is in exactly one place.
            owed = {position for position in self.sizes if self.owed(position)}
            assert owed == pending.keys() | self.queue | unread
            assert len(owed) == len(pending) + len(self.queue) + len(unread)
