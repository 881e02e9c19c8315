"""The cursor of a subscription: what was acknowledged, exactly as Pulsar's `ManagedCursorImpl` has it.

Everything up to the *mark-delete position* is acknowledged. Beyond it stand the *individually deleted*
ranges, and for entries that hold a batch of messages the indexes that are still owed (*ack sets*: bit
set = not acknowledged). The mark-delete position moves as soon as no existing entry is left between it
and the first range; then everything at or before it leaves the ranges and the ack sets.

The state is a join-semilattice but for `reset`: acknowledgments commute, and one twice is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from ackwell import engine as engines
from ackwell.ack_sets import from_words, to_words
from ackwell.errors import ProtocolError
from ackwell.position import Position
from ackwell.saving.journal import Journal

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ackwell._native import Ledgers, PositionInfo, PositionRangeSet
    from ackwell.engine import Engine
    from ackwell.saving.journal import Saved
    from ackwell.saving.recovery import Recovery
    from ackwell.store import Store


class Cursor:
    """The acknowledgment state of one subscription over the ledgers of its topic.

    `ledgers` is shared with whoever publishes, and never changed here. Without `mark_delete` the
    cursor stands before the first entry. With `batch_index_acks=False` it ignores acknowledgments of
    parts of a batch, as a broker does with `acknowledgmentAtBatchIndexLevelEnabled=false`.

    >>> from ackwell import Cursor, Ledgers
    >>> cursor = Cursor(Ledgers({3: 16, 4: 10}))
    >>> cursor.ack(3, 1), cursor.ack(3, 1)
    (True, False)
    >>> cursor.mark_delete_position, str(cursor.individually_deleted)
    (Position(ledger_id=3, entry_id=-1), '[(3:0..3:1]]')
    >>> cursor.ack(3, 0)
    True
    >>> cursor.mark_delete_position, cursor.backlog_entries
    (Position(ledger_id=3, entry_id=1), 24)
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        ledgers: Ledgers,
        *,
        mark_delete: tuple[int, int] | None = None,
        batch_index_acks: bool = True,
        engine: Engine | None = None,
    ) -> None:
        self._engine = engine or engines.native()
        self._ledgers = ledgers
        self._batch_index_acks = batch_index_acks
        self._mark_delete = Position(*mark_delete) if mark_delete else _before_first(ledgers)
        self._individually_deleted: PositionRangeSet = self._engine.PositionRangeSet()
        self._ack_sets: dict[Position, int] = {}
        self._consumed_before = 0
        self.properties: dict[str, int] = {}
        """Named int64 values that are saved with the cursor, as Pulsar's cursor properties are."""
        self.recovery: Recovery | None = None
        """What `load` found in the store and used, and what it skipped and why; None without a load."""
        self._journal: Journal | None = None

    @property
    def ledgers(self) -> Ledgers:
        """The ledger directory this cursor reads positions by."""
        return self._ledgers

    @property
    def mark_delete_position(self) -> Position:
        """Everything at or before this position is acknowledged."""
        return self._mark_delete

    @property
    def individually_deleted(self) -> PositionRangeSet:
        """The acknowledged positions beyond the mark-delete position; read only, for it is not a copy."""
        return self._individually_deleted

    @property
    def batch_deleted(self) -> Mapping[Position, tuple[int, ...]]:
        """The ack sets of partly acknowledged batches, as signed 64-bit words, in position order."""
        return MappingProxyType(
            {position: to_words(bits) for position, bits in sorted(self._ack_sets.items())}
        )

    def unacked_bits(self, ledger_id: int, entry_id: int) -> int | None:
        """Return the unacknowledged messages of a partly acknowledged entry as bits; else `None`. O(1)."""
        return self._ack_sets.get(Position(ledger_id, entry_id))

    @property
    def partly_acked(self) -> int:
        """How many entries are partly acknowledged."""
        return len(self._ack_sets)

    @property
    def backlog_entries(self) -> int:
        """How many existing entries are not wholly acknowledged; O(log ledgers)."""
        last = self._ledgers.last_position or self._mark_delete
        beyond = self._ledgers.entries_between(self._mark_delete, last)
        return beyond - self._individually_deleted.cardinality

    @property
    def messages_consumed(self) -> int:
        """Entries acknowledged since this cursor was made: `messagesConsumedCounter` of Pulsar."""
        return self._consumed_before + self._individually_deleted.cardinality

    def is_acked(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether the entry is wholly acknowledged."""
        if (ledger_id, entry_id) <= self._mark_delete:
            return True
        return self._individually_deleted.contains(ledger_id, entry_id)

    def acknowledged(self) -> PositionRangeSet:
        """Return every existing position that is wholly acknowledged, as a set of its own."""
        return acknowledged(self._ledgers, self._mark_delete, self._individually_deleted)

    def ack(self, ledger_id: int, entry_id: int) -> bool:
        """Acknowledge one entry; tell whether that changed anything but its ack set.

        An entry already acknowledged only loses its ack set. Raises `ProtocolError` for an entry that
        does not exist, as the broker refuses a position ahead of the last one.
        """
        mark_delete = self._mark_delete
        if (ledger_id, entry_id) <= mark_delete:
            return False
        if not self._ledgers.contains(ledger_id, entry_id):
            self._require(Position(ledger_id, entry_id))
        deleted = self._individually_deleted
        if self._ack_sets:
            self._ack_sets.pop(Position(ledger_id, entry_id), None)
        elif (ledger_id, entry_id - 1) == mark_delete and not deleted.cardinality:
            # In order, with nothing beyond: the ranges would only be passed through.
            self._mark_delete = Position(ledger_id, entry_id)
            self._consumed_before += 1
            return True
        if not deleted.add(ledger_id, entry_id):
            return False
        self._advance()
        return True

    def ack_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Acknowledge many entries; return how many were not before.

        Two int64 arrays of one length. Nothing changes when one of them does not exist
        (`ProtocolError`). The mark-delete position moves once, at the end.
        """
        import numpy as np

        from ackwell.arrays import as_int64, same_length

        ledgers, entries = as_int64(ledger_ids), as_int64(entry_ids)
        same_length(ledgers, entries)
        beyond = (ledgers > self._mark_delete.ledger_id) | (
            (ledgers == self._mark_delete.ledger_id) & (entries > self._mark_delete.entry_id)
        )
        ledgers, entries = ledgers[beyond], entries[beyond]
        one_ledger = len(ledgers) and (ledgers == ledgers[0]).all()
        for ledger_id in ledgers[:1] if one_ledger else np.unique(ledgers):
            # Entries of a ledger are dense, so the greatest one answers for all.
            known = entries if one_ledger else entries[ledgers == ledger_id]
            self._require(Position(int(ledger_id), int(known.max())))
        added = self._individually_deleted.add_many(ledgers, entries)
        if self._ack_sets:
            for position in [p for p in self._ack_sets if p in self._individually_deleted]:
                del self._ack_sets[position]
        self._advance()
        return added

    def ack_ranges(self, ranges: PositionRangeSet) -> int:
        """Acknowledge all positions of a range set; return how many were not before.

        The positions are taken as they are, also where no ledger holds them, as a broker takes the
        ranges it recovers.
        """
        before = self.messages_consumed
        self._individually_deleted |= ranges
        self._drop_up_to_mark_delete()
        if self._ack_sets:
            for position in [p for p in self._ack_sets if p in self._individually_deleted]:
                del self._ack_sets[position]
        self._advance()
        return self.messages_consumed - before

    def ack_batch(self, ledger_id: int, entry_id: int, ack_set: Iterable[int]) -> bool:
        """Acknowledge the batch indexes whose bit is clear in `ack_set`; tell whether that changed anything.

        `ack_set` holds 64-bit words, signed or not, least significant bit first, bit set = not
        acknowledged; none at all means the whole entry. It is AND-ed to what is stored; when nothing
        is left the entry is acknowledged as a whole.
        """
        return self._ack_bits(Position(ledger_id, entry_id), from_words(ack_set))

    def ack_cumulative(self, ledger_id: int, entry_id: int, ack_set: Iterable[int] | None = None) -> bool:
        """Acknowledge everything up to an entry; tell whether that changed anything.

        With an `ack_set` (see `ack_batch`), everything before the entry, and in it the indexes whose
        bit is clear.
        """
        position = Position(ledger_id, entry_id)
        if position <= self._mark_delete:
            return False
        self._require(position)
        bits = 0 if ack_set is None else from_words(ack_set)
        if bits == 0:
            self._mark_delete_up_to(position)
            return True
        changed = False
        previous = self._ledgers.previous_valid(*position)
        if previous > self._mark_delete:
            self._mark_delete_up_to(previous)
            changed = True
        return self._ack_bits(position, bits) or changed

    def reset(self, ledger_id: int, entry_id: int) -> None:
        """Make this position the next to be read: what lies before is acknowledged, the rest is not."""
        self._mark_delete = self._ledgers.previous_valid(ledger_id, entry_id)
        self._individually_deleted = self._engine.PositionRangeSet()
        self._ack_sets.clear()
        self._consumed_before = 0

    def to_position_info(self, **others: Any) -> PositionInfo:
        """Return the state as it is persisted; `others` go to `PositionInfo` as they are."""
        info: PositionInfo = self._engine.PositionInfo(
            *self._mark_delete,
            individually_deleted=self._individually_deleted,
            batch_deleted=self.batch_deleted,
            properties=self.properties,
            **others,
        )
        return info

    @classmethod
    def from_position_info(
        cls,
        info: PositionInfo,
        ledgers: Ledgers,
        *,
        batch_index_acks: bool = True,
        engine: Engine | None = None,
    ) -> Self:
        """Recover a cursor from its persisted state.

        Ranges that connect with the mark-delete position move it; ranges that no ledger of `ledgers`
        holds are kept as they are. A range from one ledger into another, as brokers before 2.4 wrote
        it, is split by what `ledgers` holds.
        """
        cursor = cls(
            ledgers,
            mark_delete=(info.ledger_id, info.entry_id),
            batch_index_acks=batch_index_acks,
            engine=engine,
        )
        cursor.ack_ranges(info.individually_deleted)
        for lower, upper in info.spanning_ranges:
            cursor.ack_ranges(cursor._between(lower, upper))
        for position, words in info.batch_deleted.items():
            if not cursor.is_acked(*position):
                cursor._ack_sets[Position(*position)] = from_words(words)
        cursor._consumed_before = -cursor._individually_deleted.cardinality
        cursor.properties = dict(info.properties)
        return cursor

    def save(self, store: Store, *, form: str = "compact", compression: str = "NONE") -> Saved:
        """Save the state in a store; once this returns, no crash takes it back.

        In the form `compact` only what changed since the save or load before is written, as long as
        the store stays the same one; see `ackwell.saving.journal`, also for `compression`.

        >>> from ackwell import Ledgers
        >>> from ackwell.store import MemoryStore
        >>> store, ledgers = MemoryStore(), Ledgers({3: 16})
        >>> cursor = Cursor(ledgers)
        >>> cursor.ack(3, 5), cursor.save(store).kind, cursor.ack(3, 7), cursor.save(store).kind
        (True, 'full', True, 'delta')
        >>> str(Cursor.load(store, ledgers).individually_deleted)
        '[(3:4..3:5],(3:6..3:7]]'
        """
        if self._journal is None or not self._journal.writes(store, form, compression):
            self._journal = Journal(store, form=form, compression=compression, engine=self._engine)
        return self._journal.save(self.to_position_info())

    @classmethod
    def load(
        cls,
        store: Store,
        ledgers: Ledgers,
        *,
        form: str = "compact",
        compression: str = "NONE",
        batch_index_acks: bool = True,
        engine: Engine | None = None,
    ) -> Self:
        """Recover the newest whole state in a store; a new cursor where none was saved.

        The cursor's `recovery` tells what was used and what was skipped. `form` and `compression` are those
        of saves to come; what is there is read in any. Raises `CorruptStateError` where states were saved but
        none is whole, `NewerVersionError` where a newer release saved the newest.
        """
        journal = Journal(store, form=form, compression=compression, engine=engine)
        recovery = journal.load()
        if recovery.position_info is None:
            cursor = cls(ledgers, batch_index_acks=batch_index_acks, engine=engine)
        else:
            cursor = cls.from_position_info(
                recovery.position_info, ledgers, batch_index_acks=batch_index_acks, engine=engine
            )
        cursor.recovery = recovery
        cursor._journal = journal  # noqa: SLF001 - its own class
        return cursor

    def validate(self) -> None:
        """Check the invariants; `AssertionError` names the one that does not hold."""
        self._individually_deleted.validate()
        first = self._individually_deleted.first_range()
        if first is not None:
            ledger_id, lower, _ = first
            assert Position(ledger_id, lower) > self._mark_delete, "range at or before mark-delete"
            assert self._ledgers.entries_between(self._mark_delete, (ledger_id, lower)) > 0, (
                "no entry between mark-delete and the first range"
            )
        for position, bits in self._ack_sets.items():
            assert position > self._mark_delete, f"ack set of {position} at or before mark-delete"
            assert position not in self._individually_deleted, f"ack set of {position}, acked"
            assert bits > 0, f"empty ack set of {position}"

    def __repr__(self) -> str:
        return (
            f"<Cursor at {self._mark_delete}, {len(self._individually_deleted)} ranges, "
            f"{len(self._ack_sets)} partly acknowledged batches>"
        )

    def _between(self, lower: Position, upper: Position) -> PositionRangeSet:
        """Return the existing positions of a range that goes over the border of a ledger."""
        split: PositionRangeSet = self._engine.PositionRangeSet()
        for ledger_id, entries in self._ledgers:
            if lower.ledger_id <= ledger_id <= upper.ledger_id:
                first = lower.entry_id if ledger_id == lower.ledger_id else -1
                last = entries - 1 if ledger_id < upper.ledger_id else min(upper.entry_id, entries - 1)
                if first < last:
                    split.add_range(ledger_id, first, last)
        return split

    def _require(self, position: Position) -> None:
        if not self._ledgers.contains(*position):
            raise ProtocolError(
                f"acknowledgment of {position}, which was never published; "
                f"the last position is {self._ledgers.last_position or 'none'}"
            )

    def _ack_bits(self, position: Position, bits: int) -> bool:
        """AND `bits` (set = still owed) to the ack set of `position`."""
        if bits == 0:
            return self.ack(*position)
        if not self._batch_index_acks or self.is_acked(*position):
            return False
        self._require(position)
        before = self._ack_sets.get(position)
        after = bits if before is None else before & bits
        if after == 0:
            return self.ack(*position)
        self._ack_sets[position] = after
        return after != before

    def _mark_delete_up_to(self, position: Position) -> None:
        acked = self._ledgers.entries_between(self._mark_delete, position)
        self._mark_delete = position
        self._consumed_before += acked
        self._drop_up_to_mark_delete()
        self._advance()

    def _advance(self) -> None:
        """Move the mark-delete position over connected ranges and over ledger borders."""
        start_ledger_id = self._mark_delete.ledger_id
        while (first := self._individually_deleted.first_range()) is not None:
            ledger_id, lower, upper = first
            start = ledger_id, lower
            if start > self._mark_delete and self._ledgers.entries_between(self._mark_delete, start):
                break
            self._mark_delete = Position(ledger_id, upper)
            self._consumed_before += self._individually_deleted.remove_up_to(ledger_id, upper)
        # Inside a ledger it passes only entries whose ack sets went when they were acknowledged; beside
        # its borders a recovered state may hold ack sets of entries that do not exist.
        if self._ack_sets and self._mark_delete.ledger_id != start_ledger_id:
            self._drop_ack_sets()

    def _drop_up_to_mark_delete(self) -> None:
        self._individually_deleted.remove_up_to(*self._mark_delete)
        if self._ack_sets:
            self._drop_ack_sets()

    def _drop_ack_sets(self) -> None:
        for position in [p for p in self._ack_sets if p <= self._mark_delete]:
            del self._ack_sets[position]


def acknowledged(
    ledgers: Ledgers, mark_delete: tuple[int, int], individually_deleted: PositionRangeSet
) -> PositionRangeSet:
    """Return every existing position at or before `mark_delete`, and those individually deleted.

    Two states are the same if these are, however their mark-delete positions are written.
    """
    acked = individually_deleted.copy()
    for ledger_id, entries in ledgers:
        last = entries - 1 if ledger_id < mark_delete[0] else min(mark_delete[1], entries - 1)
        if ledger_id <= mark_delete[0] and last >= 0:
            acked.add_range(ledger_id, -1, last)
    return acked


def _before_first(ledgers: Ledgers) -> Position:
    return ledgers.first_position or Position(0, -1)
