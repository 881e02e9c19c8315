"""The replay queue: positions that were read before and wait for redelivery, in position order.

They are delivered before unread entries. A position is added when a consumer returns its message, when the
delay of its message ends, or when another consumer still has messages of the same key. A position takes one
bit in a range set. A Key_Shared subscription also stores the hash of each position, because a message must
not overtake an older message with the same key.

If an open transaction has acknowledged an entry, a read skips the entry and does not examine its message. If
the transaction is aborted, the position is added as *unseen*: the delivery time of its message is unknown. If
the hash is also unknown, the message may have any key. So all later messages wait until this message is
examined.
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
    """A sorted set of positions that wait for redelivery. On Key_Shared, each has its hash."""

    __slots__ = ("_by_hash", "_keeps_places", "_positions", "_unknown", "_unseen", "acknowledged", "active")

    def __init__(self, structures: Structures, *, by_key: bool, keeps_places: bool) -> None:
        self._positions: PositionRangeSet = structures.position_range_set()
        self._by_hash = PositionsByHash(structures) if by_key else None
        self._unseen: set[Position] = set()
        self._unknown: PositionRangeSet = structures.position_range_set()
        """The unseen positions whose hash is unknown."""
        self.active = False
        """Whether the queue contains any position."""
        self._keeps_places = keeps_places
        self.acknowledged = PositionsByHash(structures)
        """With `keeps_places`: the positions that were acknowledged while they were queued. A broker removes
        such a position only when it reads the position, so the position takes a place in a read."""

    def __len__(self) -> int:
        return self._positions.cardinality

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether a position is queued."""
        return self._positions.contains(ledger_id, entry_id)

    def add(self, ledger_id: int, entry_id: int, sticky_key_hash: int | None = None) -> None:
        """Add a position. `sticky_key_hash` is the hash of its message, or None if it is unknown."""
        if self._by_hash is not None:
            self._mark_seen(ledger_id, entry_id)
            if sticky_key_hash is None:
                self._by_hash.discard(ledger_id, entry_id)
            else:
                self._by_hash.add(ledger_id, entry_id, sticky_key_hash)
        self._positions.add(ledger_id, entry_id)
        self.active = True

    def add_unseen(self, position: Position, sticky_key_hash: int | None) -> None:
        """Add a position as unseen. Its message was not examined and may have a future delivery time."""
        self.add(*position, sticky_key_hash)
        self._unseen.add(position)
        if sticky_key_hash is None:
            self._unknown.add(*position)

    def is_unseen(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether a position was added by `add_unseen`."""
        return bool(self._unseen) and (ledger_id, entry_id) in self._unseen

    def add_many(self, ledger_ids: Int64s, entry_ids: Int64s, sticky_key_hashes: Int64s) -> None:
        """Add many positions with their hashes."""
        if self._by_hash is None:
            self._positions.add_many(ledger_ids, entry_ids)
            self.active = bool(self._positions.cardinality)
            return
        columns = (ledger_ids.tolist(), entry_ids.tolist(), sticky_key_hashes.tolist())
        for ledger_id, entry_id, sticky_key_hash in zip(*columns, strict=True):
            self.add(ledger_id, entry_id, sticky_key_hash)

    def discard(self, ledger_id: int, entry_id: int) -> bool:
        """Remove a position; return whether it was queued."""
        if self._by_hash is not None:
            self._by_hash.discard(ledger_id, entry_id)
        self._mark_seen(ledger_id, entry_id)
        removed = self._positions.remove(ledger_id, entry_id)
        self.active = bool(self._positions.cardinality)
        return removed

    def acknowledge(self, ledger_id: int, entry_id: int) -> None:
        """Remove a position that is acknowledged. With `keeps_places`, add it to `acknowledged`."""
        sticky_key_hash = self.hash_of(Position(ledger_id, entry_id)) if self._keeps_places else None
        if self.discard(ledger_id, entry_id) and self._keeps_places:
            self.acknowledged.add(ledger_id, entry_id, sticky_key_hash or 0)

    def acknowledge_many(self, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """Remove the positions that are acknowledged. Positions that are not queued are ignored."""
        if self._by_hash is not None or self._unseen or self._keeps_places:
            for ledger_id, entry_id in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                self.acknowledge(ledger_id, entry_id)
            return
        self._positions.remove_many(ledger_ids, entry_ids)
        self.active = bool(self._positions.cardinality)

    def remove_up_to(self, position: Position) -> None:
        """Remove all positions up to and including the given one. O(removed positions + unseen positions)."""
        if self.acknowledged.active:
            self.acknowledged.remove_up_to(position)
        if not self.active or next(self._positions.positions()) > position:
            return
        if self._by_hash is not None:
            self._by_hash.remove_up_to(position)
        if self._unseen:
            self._unseen = {each for each in self._unseen if each > position}
            self._unknown.remove_up_to(*position)
        self._positions.remove_up_to(*position)
        self.active = bool(self._positions.cardinality)

    def positions(self) -> Iterator[Position]:
        """Return an iterator over the queued positions, in order."""
        return self._positions.positions()

    def first(self, limit: int) -> list[Position]:
        """Return the first `limit` positions."""
        return list(islice(self._positions.positions(), limit))

    def hash_of(self, position: Position) -> int | None:
        """Return the hash of a position; `None` if the hash is unknown or the position is not queued."""
        return None if self._by_hash is None else self._by_hash.hash_of(position)

    def has_earlier(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> bool:
        """Return whether the queue contains an earlier message with this hash. O(1).

        That message must be delivered first.
        """
        return self._by_hash is not None and self._by_hash.has_earlier(ledger_id, entry_id, sticky_key_hash)

    def has_earlier_unknown(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether the queue contains an earlier message that is unseen and whose hash is unknown."""
        if not self._unseen or not self._unknown.cardinality:
            return False
        return next(self._unknown.positions()) < (ledger_id, entry_id)

    def clear(self) -> None:
        """Remove all positions."""
        self.acknowledged.clear()
        self._positions.clear()
        if self._by_hash is not None:
            self._by_hash.clear()
        self._unseen.clear()
        self._unknown.clear()
        self.active = False

    def as_set(self) -> PositionRangeSet:
        """Return the set of queued positions itself, not a copy. Do not change it."""
        return self._positions

    @property
    def nbytes(self) -> int:
        """The heap bytes of the positions and the hashes."""
        hashes = self._by_hash.nbytes if self._by_hash is not None else 0
        return self._positions.nbytes + hashes + self._unseen.__sizeof__() + self.acknowledged.nbytes

    def validate(self) -> None:
        """Check the sets of queued and of acknowledged positions; raise `AssertionError` if one is invalid.

        Check that each position with a hash or an unseen mark is queued.
        """
        self._positions.validate()
        self.acknowledged.validate()
        assert not any(self._positions.contains(*position) for position in self.acknowledged.positions())
        assert self.active == bool(self._positions.cardinality)
        assert all(self._positions.contains(*position) for position in self._unseen)
        assert all(position in self._unseen for position in self._unknown.positions())
        if self._by_hash is not None:
            self._by_hash.validate()
            assert all(self._positions.contains(*position) for position in self._by_hash.positions())

    def _mark_seen(self, ledger_id: int, entry_id: int) -> None:
        if self._unseen:
            self._unseen.discard(Position(ledger_id, entry_id))
            self._unknown.remove(ledger_id, entry_id)
