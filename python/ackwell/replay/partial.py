"""What some events say about one subscription, in a form that merges in any order.

Acknowledgments are a set: of two partials, the ledgers' lengths join by maximum, the acked positions by
union, the cumulative position by maximum, the ack sets by AND. Joining is commutative, associative and
idempotent, so events may come in any order, from many files or tasks, and twice. The mark-delete
position, the ranges and every byte are functions of the merged state (`Partial.cursor`).

A seek is the exception: it makes the acknowledgments before it void. A partial that is fed in order
forgets them by itself, and of two partials that saw different seeks only the later one's
acknowledgments count. Whoever splits a subscription's events over several partials must first leave
out the acknowledgments before its last seek.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell import engine as engines
from ackwell.ack_sets import after, from_words, to_words, within, without
from ackwell.cursor import Cursor
from ackwell.errors import ProtocolError
from ackwell.position import Position
from ackwell.replay.events import Event, Kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ackwell._native import Ledgers, PositionRangeSet
    from ackwell.cursor_settings import CursorSettings
    from ackwell.engine import Engine

_BUFFER = 65_536
"""How many acked positions are held as plain ints before one batch takes them into the range set."""


class Partial:
    """The mergeable state of one subscription: feed it events, merge it, ask it for the cursor."""

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine or engines.native()
        self.ledger_entries: dict[int, int] = {}
        """Ledger id → how many entries it holds at least."""
        self.batch_sizes: dict[tuple[int, int], int] = {}
        """How many messages an entry holds, where it holds a batch."""
        self.cumulative: Position | None = None
        """Everything at or before it is acknowledged."""
        self.owed_bits: dict[Position, int] = {}
        """Batch indexes still owed, as bits; negative (ones without end) until the size is known."""
        self.seek: tuple[str, int, Position] | None = None
        """The last seek: file, sequence, and the position that it made the next to be read."""
        self._acked: PositionRangeSet = self._engine.PositionRangeSet()
        self._buffer: tuple[list[int], list[int]] = ([], [])

    @property
    def acked(self) -> PositionRangeSet:
        """The positions acknowledged one by one."""
        ledger_ids, entry_ids = self._buffer
        if ledger_ids:
            self._acked.add_many(ledger_ids, entry_ids)
            self._buffer = ([], [])
        return self._acked

    def feed(self, event: Event) -> None:
        """Take one event in; kinds that say nothing of acknowledgments change nothing.

        Amortised O(1). `ProtocolError` for a cleared backlog before anything was published.
        """
        if event.ledger_id is not None and event.entry_id is not None:
            self._feed_at(event, Position(event.ledger_id, event.entry_id))
        elif event.kind is Kind.CLEAR_BACKLOG:
            if not self.ledger_entries:
                raise ProtocolError("backlog cleared before anything was published")
            last = max(self.ledger_entries)
            self.acknowledge_up_to(Position(last, self.ledger_entries[last] - 1))

    def _feed_at(self, event: Event, position: Position) -> None:
        match event.kind:
            case Kind.PUBLISH | Kind.DISPATCH | Kind.RECEIVE:
                # What was received was published, also where the trace began later.
                self._exists(position)
                size = event.batch_size
                if size is None and event.batch_index is not None:
                    size = event.batch_index + 1
                if size is not None:
                    self.has_size(position, size)
            case Kind.ACK:
                if event.batch_size is not None:
                    self.has_size(position, event.batch_size)
                self.acknowledge(position, _owed(event))
            case Kind.ACK_CUMULATIVE | Kind.CLEAR_BACKLOG | Kind.SKIP | Kind.EXPIRE:
                if event.batch_size is not None:
                    self.has_size(position, event.batch_size)
                owed = _owed_after(event)
                if owed:
                    self.acknowledge(position, owed)
                    position = Position(position.ledger_id, position.entry_id - 1)
                self.acknowledge_up_to(position)
            case Kind.SEEK:
                self.forget_acknowledgments()
                self.seek = (event.file or "", event.sequence, position)

    def publish_many(self, ledger_ids: NDArray[np.int64], entry_ids: NDArray[np.int64]) -> None:
        """Learn that these entries exist; two int64 arrays of one length."""
        import numpy as np

        if not len(ledger_ids):
            return
        # Runs of one ledger first: events come almost in order.
        starts = np.concatenate(([0], np.flatnonzero(ledger_ids[1:] != ledger_ids[:-1]) + 1))
        greatest = np.maximum.reduceat(entry_ids, starts).tolist()
        for ledger_id, entry_id in zip(ledger_ids[starts].tolist(), greatest, strict=True):
            self._exists(Position(ledger_id, entry_id))

    def acknowledge_many(self, ledger_ids: NDArray[np.int64], entry_ids: NDArray[np.int64]) -> None:
        """Acknowledge whole entries; two int64 arrays of one length."""
        self._acked.add_many(ledger_ids, entry_ids)

    def acknowledge_words(self, ledger_id: int, words: NDArray[np.int64]) -> None:
        """Acknowledge the entries of one ledger whose bits are set, least significant first."""
        self._acked.add_words(ledger_id, words)

    def acknowledge_ranges(self, ranges: PositionRangeSet) -> None:
        """Acknowledge every position of a range set."""
        self._acked |= ranges

    def merge(self, other: Partial) -> None:
        """Join `other` into this one; `other` stays as it is."""
        for ledger_id, entries in other.ledger_entries.items():
            known = self.ledger_entries.get(ledger_id, 0)
            self.ledger_entries[ledger_id] = max(known, entries)
        for position, size in other.batch_sizes.items():
            self.has_size(position, size)
        if self.seek and other.seek and self.seek[:2] > other.seek[:2]:
            return
        if other.seek and (self.seek is None or self.seek[:2] < other.seek[:2]):
            if self.seek is not None:
                self.forget_acknowledgments()
            self.seek = other.seek
        acked = self.acked
        acked |= other.acked
        if other.cumulative is not None:
            self.acknowledge_up_to(other.cumulative)
        for position, bits in other.owed_bits.items():
            self.acknowledge(position, bits)

    def ledgers(self) -> Ledgers:
        """Return the ledger directory as far as the events tell it; the greatest ledger is open."""
        ledgers: Ledgers = self._engine.Ledgers(sorted(self.ledger_entries.items()))
        return ledgers

    def cursor(self, ledgers: Ledgers | None = None, *, settings: CursorSettings | None = None) -> Cursor:
        """Return the cursor that these events lead to.

        `ledgers` replaces what the events tell of the ledgers. Raises `ProtocolError` for an acknowledgment
        of what was never published; `never_published` finds it.
        """
        cursor = Cursor(
            self.ledgers() if ledgers is None else ledgers,
            settings=settings,
            engine=self._engine,
        )
        position = self.never_published(cursor.ledgers)
        if position is not None:
            last = cursor.ledgers.last_position or "none"
            raise ProtocolError(
                f"acknowledgment of {position}, which was never published; last position: {last}"
            )
        if self.seek is not None:
            cursor.reset(*self.seek[2])
        if self.cumulative is not None and self.cumulative.entry_id >= 0:
            cursor.ack_cumulative(*self.cumulative)
        elif self.cumulative is not None:
            previous = cursor.ledgers.previous_valid(self.cumulative.ledger_id, 0)
            if previous > cursor.mark_delete_position:
                cursor.ack_cumulative(*previous)
        cursor.ack_ranges(self.acked)
        for position, bits in sorted(self.owed_bits.items()):
            cursor.ack_batch(*position, to_words(self._within_size(position, bits)))
        return cursor

    def never_published(self, ledgers: Ledgers) -> Position | None:
        """Find a position that was acknowledged but that `ledgers` does not hold."""
        for ledger_id, _, upper in self.acked.ranges():
            if not ledgers.contains(ledger_id, upper):
                return Position(ledger_id, upper)
        candidates = list(self.owed_bits)
        if self.cumulative is not None and self.cumulative.entry_id >= 0:
            candidates.append(self.cumulative)
        return next((p for p in sorted(candidates) if not ledgers.contains(*p)), None)

    def _exists(self, position: Position) -> None:
        if self.ledger_entries.get(position.ledger_id, 0) <= position.entry_id:
            self.ledger_entries[position.ledger_id] = position.entry_id + 1

    def has_size(self, position: tuple[int, int], size: int) -> None:
        """Learn that an entry holds at least `size` messages."""
        if self.batch_sizes.get(position, 0) < size:
            self.batch_sizes[position] = size

    def acknowledge(self, position: Position, owed_bits: int = 0) -> None:
        """Acknowledge an entry but for the batch indexes whose bits are set."""
        if owed_bits:
            self.owed_bits[position] = self.owed_bits.get(position, -1) & owed_bits
            return
        ledger_ids, entry_ids = self._buffer
        ledger_ids.append(position.ledger_id)
        entry_ids.append(position.entry_id)
        if len(ledger_ids) >= _BUFFER:
            _ = self.acked

    def acknowledge_up_to(self, position: Position) -> None:
        """Acknowledge everything at or before a position."""
        if self.cumulative is None or self.cumulative < position:
            self.cumulative = position

    def forget_acknowledgments(self) -> None:
        """Make every acknowledgment void, as a seek does."""
        self.cumulative = None
        self.owed_bits.clear()
        self._acked = self._engine.PositionRangeSet()
        self._buffer = ([], [])

    def _within_size(self, position: Position, bits: int) -> int:
        """Cut the ones without end to the batch's size."""
        if bits >= 0:
            return bits
        size = self.batch_sizes.get(position)
        if size is None:
            raise ProtocolError(
                f"acknowledgment of a part of {position}, but no event tells how many messages it holds"
            )
        if ~bits >> size:
            raise ProtocolError(
                f"acknowledgment of batch index {(~bits).bit_length() - 1} of {position}, "
                f"which holds {size} messages"
            )
        return within(bits, size)


def _owed(event: Event) -> int:
    """What an individual acknowledgment leaves of its entry: 0 for nothing, else bits."""
    if event.ack_set is not None:
        return from_words(event.ack_set)
    return 0 if event.batch_index is None else without(event.batch_index)


def _owed_after(event: Event) -> int:
    """What a cumulative acknowledgment leaves of its last entry."""
    if event.ack_set is not None:
        return from_words(event.ack_set)
    return 0 if event.batch_index is None else after(event.batch_index)
