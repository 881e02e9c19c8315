"""Messages on their way to a second delivery: how often, when, and when no more.

A count stands for every message that a consumer gave back or let time out, until it is acknowledged.
Unlike the broker's (apache/pulsar#25533) the counts are part of the saved state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from ackwell._native import PendingAcks, PositionRangeSet, TripleLongHeap
    from ackwell.engine import Engine
    from ackwell.subscription.replay_queue import ReplayQueue
    from ackwell.subscription.settings import SubscriptionSettings

    Int64s = NDArray[np.int64]


class Redelivery:
    """Redelivery counts, negative acknowledgments that wait, dead letters, and the way to the queue."""

    def __init__(self, engine: Engine, settings: SubscriptionSettings, replay: ReplayQueue) -> None:
        self._settings = settings
        self._replay = replay
        # The count stands where a pending entry has its remaining messages.
        self._counts: PendingAcks = engine.PendingAcks()
        self._waiting: TripleLongHeap = engine.TripleLongHeap()
        self._due_ms: dict[Position, int] = {}
        self._dead: PositionRangeSet = engine.PositionRangeSet()
        self.active = False
        """Whether there is anything here that a dispatch or an acknowledgment has to look at."""

    def count(self, ledger_id: int, entry_id: int) -> int:
        """Return how often an entry was redelivered."""
        value = self._counts.get((ledger_id, entry_id)) if len(self._counts) else None
        return value[0] if value is not None else 0

    def counts(self) -> Iterator[tuple[Position, int]]:
        """Iterate the entries redelivered and not acknowledged, with their counts."""
        return ((Position(*position), count) for position, (count, _) in self._counts.items())

    @property
    def counted(self) -> int:
        """Entries with a count."""
        return len(self._counts)

    def counts_of(self, ledger_ids: Int64s, entry_ids: Int64s) -> Int64s | None:
        """Return the counts of many entries; `None` where no entry at all has one."""
        if not len(self._counts):
            return None
        import numpy as np

        found: Int64s = np.maximum(self._counts.get_many(ledger_ids, entry_ids)[0], 0)
        return found

    def restore(self, position: Position, count: int) -> None:
        """Take in a count from a saved state."""
        self._counts.add(*position, count, 0)
        self.active = True

    def again(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> None:
        """Count one more redelivery and put the entry in the queue."""
        self._counts.add(ledger_id, entry_id, self.count(ledger_id, entry_id) + 1, 0)
        self.active = True
        self.back(ledger_id, entry_id, sticky_key_hash)

    def again_many(self, ledger_ids: Int64s, entry_ids: Int64s, sticky_key_hashes: Int64s) -> None:
        """Do the same for many entries."""
        import numpy as np

        counts = self.counts_of(ledger_ids, entry_ids)
        ones = np.ones(len(ledger_ids), dtype=np.int64)
        self.active = self.active or len(ledger_ids) > 0
        self._counts.add_many(ledger_ids, entry_ids, ones if counts is None else counts + 1, ones * 0)
        self.back_many(ledger_ids, entry_ids, sticky_key_hashes)

    def back(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> None:
        """Put the entry in the queue; its consumer left, which is no failure of the message."""
        self._due_ms.pop(Position(ledger_id, entry_id), None)
        self._replay.add(ledger_id, entry_id, sticky_key_hash)

    def back_many(self, ledger_ids: Int64s, entry_ids: Int64s, sticky_key_hashes: Int64s) -> None:
        """Do the same for many entries."""
        if self._due_ms:
            for position in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                self._due_ms.pop(Position(*position), None)
        self._replay.add_many(ledger_ids, entry_ids, sticky_key_hashes)

    def later(self, position: Position, now_ms: int) -> int:
        """Let a negatively acknowledged entry wait out its back-off; give when it is due.

        A second one before that starts the wait anew.
        """
        due_ms = now_ms + self._settings.nack_backoff.delay_ms(self.count(*position))
        self._due_ms[position] = due_ms
        self._waiting.add(due_ms, *position)
        self.active = True
        return due_ms

    def due(self, now_ms: int) -> list[Position]:
        """Give, and forget, the entries whose back-off is over."""
        if not self._due_ms:
            return []
        columns = (column.tolist() for column in self._waiting.pop_due(now_ms, len(self._waiting)))
        found = []
        for due_ms, ledger_id, entry_id in zip(*columns, strict=True):
            position = Position(ledger_id, entry_id)
            if self._due_ms.get(position) == due_ms:
                del self._due_ms[position]
                found.append(position)
        return found

    def next_due_ms(self) -> int | None:
        """Return when the next back-off ends, or `None`."""
        return min(self._due_ms.values(), default=None)

    @property
    def waiting(self) -> int:
        """Entries whose back-off is not over."""
        return len(self._due_ms)

    def is_dead(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry was redelivered too often; it becomes a dead letter then."""
        limit = self._settings.max_redeliver_count
        if limit is None or self.count(ledger_id, entry_id) <= limit:
            return False
        self._dead.add(ledger_id, entry_id)
        return True

    @property
    def dead(self) -> int:
        """How many dead letters wait to be acknowledged."""
        return self._dead.cardinality

    def dead_letters(self) -> list[Position]:
        """List the dead letters that were not acknowledged yet."""
        return list(self._dead.positions())

    def forget(self, ledger_id: int, entry_id: int) -> None:
        """Drop all of an entry that is acknowledged."""
        self._counts.remove(ledger_id, entry_id)
        self._due_ms.pop(Position(ledger_id, entry_id), None)
        self._dead.remove(ledger_id, entry_id)
        self._look()

    def forget_up_to(self, position: Position) -> None:
        """Drop all of what is at or before a position."""
        self._counts.remove_all_up_to(*position)
        self._dead.remove_up_to(*position)
        for waiting in [each for each in self._due_ms if each <= position]:
            del self._due_ms[waiting]
        self._look()

    def _look(self) -> None:
        self.active = bool(len(self._counts) or self._due_ms or self._dead.cardinality)

    @property
    def nbytes(self) -> int:
        """The heap bytes of counts, waits and dead letters."""
        return self._counts.nbytes + self._waiting.nbytes + self._due_ms.__sizeof__() + self._dead.nbytes

    def validate(self) -> None:
        """Check the structures."""
        self._counts.validate()
        self._waiting.validate()
        self._dead.validate()
        anything = len(self._counts) or self._due_ms or self._dead.cardinality
        assert self.active or not anything, "entries that nobody looks at"
        assert len(self._due_ms) <= len(self._waiting), "a back-off that no deadline ends"
