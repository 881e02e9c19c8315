"""Positions that were read before and are to be delivered again; they go out first, in position order.

A position comes here when a consumer gives it back, when its delay is over, or when its key is busy at
another consumer. A position is a bit in a range set; only a Key_Shared subscription remembers each hash
as well, because a message may not overtake an older one of its key that waits here.

What a transaction held may have been read past without a look at the message. When the transaction is aborted
such a position comes here *unseen*: whether its time of delivery has come is not known yet. If its hash is
not known either, it may be of any key, and everything later waits until it was looked at.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ackwell.equality import EqualByState
from ackwell.position import Position
from ackwell.subscription.positions_by_hash import PositionsByHash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackwell._native import PositionRangeSet
    from ackwell.arrays import Int64s
    from ackwell.subscription.structures import Structures


class ReplayQueue(EqualByState):
    """A sorted set of positions, with hashes if order per key matters."""

    __slots__ = ("_by_hash", "_positions", "_unknown", "_unseen", "active")

    def __init__(self, structures: Structures, *, by_key: bool) -> None:
        self._positions: PositionRangeSet = structures.position_range_set()
        self._by_hash = PositionsByHash(structures) if by_key else None
        self._unseen: set[Position] = set()
        self._unknown: PositionRangeSet = structures.position_range_set()
        """The unseen positions whose hash is not known."""
        self.active = False
        """Whether any position is here."""

    def __len__(self) -> int:
        return self._positions.cardinality

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether a position is here."""
        return self._positions.contains(ledger_id, entry_id)

    def add(self, ledger_id: int, entry_id: int, sticky_key_hash: int | None = None) -> None:
        """Put a position in, with its hash if that is known."""
        if self._by_hash is not None:
            self._seen(ledger_id, entry_id)
            if sticky_key_hash is None:
                self._by_hash.discard(ledger_id, entry_id)
            else:
                self._by_hash.add(ledger_id, entry_id, sticky_key_hash)
        self._positions.add(ledger_id, entry_id)
        self.active = True

    def add_unseen(self, position: Position, sticky_key_hash: int | None) -> None:
        """Put a position in whose message may be one that is to be delivered later."""
        self.add(*position, sticky_key_hash)
        self._unseen.add(position)
        if sticky_key_hash is None:
            self._unknown.add(*position)

    def is_unseen(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether a position came here by `add_unseen`."""
        return bool(self._unseen) and (ledger_id, entry_id) in self._unseen

    def add_many(self, ledger_ids: Int64s, entry_ids: Int64s, sticky_key_hashes: Int64s) -> None:
        """Put many positions in."""
        if self._by_hash is None:
            self._positions.add_many(ledger_ids, entry_ids)
            self.active = self._positions.cardinality > 0
            return
        columns = (ledger_ids.tolist(), entry_ids.tolist(), sticky_key_hashes.tolist())
        for ledger_id, entry_id, sticky_key_hash in zip(*columns, strict=True):
            self.add(ledger_id, entry_id, sticky_key_hash)

    def discard(self, ledger_id: int, entry_id: int) -> bool:
        """Take a position out; return whether it was there."""
        if self._by_hash is not None:
            self._by_hash.discard(ledger_id, entry_id)
        self._seen(ledger_id, entry_id)
        removed = self._positions.remove(ledger_id, entry_id)
        self.active = self._positions.cardinality > 0
        return removed

    def remove_many(self, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """Take many positions out, those of them that are there."""
        if self._by_hash is not None or self._unseen:
            for ledger_id, entry_id in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                self.discard(ledger_id, entry_id)
            return
        self._positions.remove_many(ledger_ids, entry_ids)
        self.active = self._positions.cardinality > 0

    def remove_up_to(self, position: Position) -> None:
        """Take out everything at or before a position. O(those that are taken out, and unseen ones)."""
        if not self.active or next(self._positions.positions()) > position:
            return
        if self._by_hash is not None:
            self._by_hash.remove_up_to(position)
        if self._unseen:
            self._unseen = {each for each in self._unseen if each > position}
            self._unknown.remove_up_to(*position)
        self._positions.remove_up_to(*position)
        self.active = self._positions.cardinality > 0

    def positions(self) -> Iterator[Position]:
        """Iterate in position order."""
        return self._positions.positions()

    def first(self, limit: int) -> list[Position]:
        """Return the first few positions."""
        return list(islice(self._positions.positions(), limit))

    def hash_of(self, position: Position) -> int | None:
        """Return a position's hash; `None` if it is not known."""
        return None if self._by_hash is None else self._by_hash.hash_of(position)

    def has_earlier(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> bool:
        """Return whether an earlier message of this hash is here, which goes out first. O(1)."""
        return self._by_hash is not None and self._by_hash.has_earlier(ledger_id, entry_id, sticky_key_hash)

    def has_earlier_unknown(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an earlier message is here that is unseen, and its hash not known."""
        if not self._unseen or not self._unknown.cardinality:
            return False
        return next(self._unknown.positions()) < (ledger_id, entry_id)

    def clear(self) -> None:
        """Take everything out."""
        self._positions.clear()
        if self._by_hash is not None:
            self._by_hash.clear()
        self._unseen.clear()
        self._unknown.clear()
        self.active = False

    def as_set(self) -> PositionRangeSet:
        """Return the positions as a set; read only, for it is not a copy."""
        return self._positions

    @property
    def nbytes(self) -> int:
        """The heap bytes of positions and hashes."""
        hashes = self._by_hash.nbytes if self._by_hash is not None else 0
        return self._positions.nbytes + hashes + self._unseen.__sizeof__()

    def validate(self) -> None:
        """Check both structures, and that only positions have hashes or are unseen."""
        self._positions.validate()
        assert self.active == (self._positions.cardinality > 0)
        assert all(self._positions.contains(*position) for position in self._unseen)
        assert all(position in self._unseen for position in self._unknown.positions())
        if self._by_hash is not None:
            self._by_hash.validate()
            assert all(self._positions.contains(*position) for position in self._by_hash.positions())

    def _seen(self, ledger_id: int, entry_id: int) -> None:
        if self._unseen:
            self._unseen.discard(Position(ledger_id, entry_id))
            self._unknown.remove(ledger_id, entry_id)
