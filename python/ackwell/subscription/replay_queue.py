"""Positions that were read before and are to be delivered again; they go out first, in position order.

A position comes here when a consumer gives it back, when its delay is over, or when its key is busy at
another consumer. A position is a bit in a range set; only a Key_Shared subscription remembers each hash
as well, because a message may not overtake an older one of its key that waits here.

What a transaction held may have been read past without a look at the message. When the transaction is aborted
such a position comes here *unseen*: whether its time of delivery has come is not known yet.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ackwell.equality import EqualByState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackwell._native import PendingAcks, PositionRangeSet
    from ackwell.arrays import Int64s
    from ackwell.position import Position
    from ackwell.subscription.structures import Structures


class ReplayQueue(EqualByState):
    """A sorted set of positions, with hashes where order per key matters."""

    __slots__ = ("_hashes", "_positions", "_unseen", "_waiting", "active")

    def __init__(self, structures: Structures, *, by_key: bool) -> None:
        self._positions: PositionRangeSet = structures.position_range_set()
        self._hashes: PendingAcks | None = structures.pending_acks() if by_key else None
        self._waiting: dict[int, int] = {}
        """Hash → how many positions here have it."""
        self._unseen: set[tuple[int, int]] = set()
        self.active = False
        """Whether any position is here."""

    def __len__(self) -> int:
        return self._positions.cardinality

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether a position is here."""
        return self._positions.contains(ledger_id, entry_id)

    def add(self, ledger_id: int, entry_id: int, sticky_key_hash: int = 0) -> None:
        """Put a position in; hash 0 means that it is not known."""
        if self._hashes is not None:
            self.discard(ledger_id, entry_id)
            if sticky_key_hash:
                self._hashes.add(ledger_id, entry_id, 1, sticky_key_hash)
                self._waiting[sticky_key_hash] = self._waiting.get(sticky_key_hash, 0) + 1
        self._positions.add(ledger_id, entry_id)
        self.active = True

    def add_unseen(self, position: Position, sticky_key_hash: int) -> None:
        """Put a position in whose message may be one that is to be delivered later."""
        self.add(*position, sticky_key_hash)
        self._unseen.add(position)

    def is_unseen(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether a position came here by `add_unseen`."""
        return bool(self._unseen) and (ledger_id, entry_id) in self._unseen

    def add_many(self, ledger_ids: Int64s, entry_ids: Int64s, sticky_key_hashes: Int64s) -> None:
        """Put many positions in."""
        if self._hashes is None:
            self._positions.add_many(ledger_ids, entry_ids)
            self.active = self._positions.cardinality > 0
            return
        columns = (ledger_ids.tolist(), entry_ids.tolist(), sticky_key_hashes.tolist())
        for ledger_id, entry_id, sticky_key_hash in zip(*columns, strict=True):
            self.add(ledger_id, entry_id, sticky_key_hash)

    def discard(self, ledger_id: int, entry_id: int) -> bool:
        """Take a position out; return whether it was there."""
        if self._hashes is not None:
            value = self._hashes.remove_and_get(ledger_id, entry_id)
            if value is not None:
                self._forget(value[1])
        if self._unseen:
            self._unseen.discard((ledger_id, entry_id))
        removed = self._positions.remove(ledger_id, entry_id)
        self.active = self._positions.cardinality > 0
        return removed

    def discard_many(self, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """Take many positions out, those of them that are there."""
        if self._hashes is not None or self._unseen:
            for ledger_id, entry_id in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                self.discard(ledger_id, entry_id)
            return
        self._positions.remove_many(ledger_ids, entry_ids)
        self.active = self._positions.cardinality > 0

    def remove_up_to(self, position: Position) -> None:
        """Take out everything at or before a position."""
        if self._hashes is not None:
            for sticky_key_hash in self._hashes.take_all_up_to(*position)[3].tolist():
                self._forget(sticky_key_hash)
        if self._unseen:
            self._unseen = {each for each in self._unseen if each > position}
        self._positions.remove_up_to(*position)
        self.active = self._positions.cardinality > 0

    def positions(self) -> Iterator[Position]:
        """Iterate in position order."""
        return self._positions.positions()

    def first(self, limit: int) -> list[Position]:
        """Return the first few positions."""
        return list(islice(self._positions.positions(), limit))

    def hash_of(self, position: Position) -> int:
        """Return a position's hash, 0 where it is not known."""
        if self._hashes is None:
            return 0
        value = self._hashes.get(position)
        return value[1] if value is not None else 0

    def waits(self, sticky_key_hash: int) -> bool:
        """Return whether a message of this hash is here, so that no newer one may go out."""
        return sticky_key_hash in self._waiting

    def clear(self) -> None:
        """Take everything out."""
        self._positions.clear()
        if self._hashes is not None:
            self._hashes.clear()
        self._waiting.clear()
        self._unseen.clear()
        self.active = False

    def as_set(self) -> PositionRangeSet:
        """Return the positions as a set; read only, for it is not a copy."""
        return self._positions

    @property
    def nbytes(self) -> int:
        """The heap bytes of positions and hashes."""
        hashes = self._hashes.nbytes if self._hashes is not None else 0
        return self._positions.nbytes + hashes + self._unseen.__sizeof__()

    def audit(self) -> list[str]:
        """Recompute the counts by hash; describe each that differs."""
        if self._hashes is None:
            return []
        waiting: dict[int, int] = {}
        for _, sticky_key_hash in self._hashes.values():
            waiting[sticky_key_hash] = waiting.get(sticky_key_hash, 0) + 1
        if waiting != self._waiting:
            return [f"waiting hashes are {self._waiting}, the queue holds {waiting}"]
        return []

    def validate(self) -> None:
        """Check both structures, and that only positions have hashes or are unseen."""
        self._positions.validate()
        assert self.active == (self._positions.cardinality > 0)
        assert all(self._positions.contains(*position) for position in self._unseen)
        if self._hashes is not None:
            self._hashes.validate()
            assert all(self._positions.contains(*position) for position in self._hashes)

    def _forget(self, sticky_key_hash: int) -> None:
        self._waiting[sticky_key_hash] -= 1
        if not self._waiting[sticky_key_hash]:
            del self._waiting[sticky_key_hash]
