"""`PendingAcks` as a dict that each view sorts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ackwell.arrays import as_int64, same_length
from ackwell.pending_ack import (
    AddHandler,
    EntryCallback,
    PendingAck,
    PendingEntries,
    RemoveHandler,
)
from ackwell.position import Position
from tests.reference.integers import INT64_MAX, boolean, int64, pair

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from ackwell.arrays import Int64s

    Columns: TypeAlias = tuple[Int64s, Int64s, Int64s, Int64s]

LAST = Position(INT64_MAX, INT64_MAX)


def value_of(remaining: int, sticky_key_hash: int) -> PendingAck:
    """Return the value; `ValueError` outside 0..2**31 and 32 signed bits."""
    if not 0 <= int64(remaining) < 2**31:
        raise ValueError(f"remaining {remaining}: expected 0 to 2147483647")
    if not -(2**31) <= int64(sticky_key_hash) < 2**31:
        raise ValueError(f"sticky-key hash {sticky_key_hash}: expected 32 signed bits")
    return PendingAck(remaining, sticky_key_hash)


class PendingAcks(Mapping[Position, PendingAck]):
    """The entries that were sent to a consumer and are not acknowledged, by position.

    A call removes all its entries before the first handler or callback runs. If one raises, its entry and the
    later ones are pending again.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        entries: PendingEntries | None = None,
        /,
        *,
        add_handler: AddHandler | None = None,
        remove_handler: RemoveHandler | None = None,
    ) -> None:
        self._values: dict[Position, PendingAck] = {}
        self._closed = False
        self._add_handler = add_handler
        self._remove_handler = remove_handler
        entries = () if entries is None else entries
        for position, value in entries.items() if isinstance(entries, Mapping) else entries:
            self._values[Position(*pair(position))] = value_of(*pair(value))

    @classmethod
    def from_arrays(
        cls,
        ledger_ids: ArrayLike,
        entry_ids: ArrayLike,
        remaining: ArrayLike,
        sticky_key_hashes: ArrayLike,
        closed: bool = False,
    ) -> PendingAcks:
        """Build a map, without handlers, of four int64 arrays of one length."""
        built = cls()
        built.add_many(ledger_ids, entry_ids, remaining, sticky_key_hashes)
        built._closed = boolean(closed)
        return built

    @staticmethod
    def _position(ledger_id: int, entry_id: int) -> Position:
        return Position(int64(ledger_id), int64(entry_id))

    @staticmethod
    def _positions(ledger_ids: ArrayLike, entry_ids: ArrayLike) -> list[Position]:
        ledger_ids, entry_ids = as_int64(ledger_ids), as_int64(entry_ids)
        same_length(ledger_ids, entry_ids)
        return [Position(*at) for at in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True)]

    def _put(self, position: Position, value: PendingAck) -> bool:
        if self._closed:
            return False
        handler = self._add_handler
        if handler is not None and not handler(*position, value.sticky_key_hash):
            return False
        if self._closed:  # by the handler
            return False
        self._values[position] = value
        return True

    def add(self, ledger_id: int, entry_id: int, remaining: int = 1, sticky_key_hash: int = 0) -> bool:
        """Add or replace an entry; return whether it was allowed."""
        position = self._position(ledger_id, entry_id)
        return self._put(position, value_of(remaining, sticky_key_hash))

    def add_many(
        self,
        ledger_ids: ArrayLike,
        entry_ids: ArrayLike,
        remaining: ArrayLike,
        sticky_key_hashes: ArrayLike,
    ) -> int:
        """Add or replace entries; return how many were allowed; nothing changes on a bad argument."""
        remaining, hashes = as_int64(remaining), as_int64(sticky_key_hashes)
        same_length(as_int64(ledger_ids), as_int64(entry_ids), remaining, hashes)
        values = [value_of(*v) for v in zip(remaining.tolist(), hashes.tolist(), strict=True)]
        positions = self._positions(ledger_ids, entry_ids)
        return sum(self._put(at, value) for at, value in zip(positions, values, strict=True))

    def __contains__(self, position: object, /) -> bool:
        try:
            return Position(*pair(position)) in self._values  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False

    def get(self, position: tuple[int, int], default: Any = None, /) -> Any:
        """Return the `PendingAck` of a position, or `default`."""
        return self._values.get(Position(*pair(position)), default)

    def contains(self, ledger_id: int, entry_id: int, /) -> bool:
        """Return whether an entry is pending."""
        return self._position(ledger_id, entry_id) in self._values

    def contains_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> NDArray[np.bool_]:
        """Return a boolean for each position."""
        import numpy as np

        found = [at in self._values for at in self._positions(ledger_ids, entry_ids)]
        return np.array(found, dtype=np.bool_)

    def get_remaining(self, ledger_id: int, entry_id: int, /) -> int | None:
        """Return an entry's remaining count, or None."""
        value = self._values.get(self._position(ledger_id, entry_id))
        return None if value is None else value.remaining

    def get_many(
        self, ledger_ids: ArrayLike, entry_ids: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return remaining counts, -1 where not pending, and sticky-key hashes, 0 where not."""
        absent = PendingAck(-1, 0)
        found = [self._values.get(at, absent) for at in self._positions(ledger_ids, entry_ids)]
        return as_int64([v.remaining for v in found]), as_int64([v.sticky_key_hash for v in found])

    def __getitem__(self, position: tuple[int, int], /) -> PendingAck:
        return self._values[Position(*pair(position))]

    def update_remaining(self, ledger_id: int, entry_id: int, acked: int, /) -> bool:
        """Subtract `acked` from an entry's count if the result is 0 to 2**31 - 1; return whether it was."""
        position, acked = self._position(ledger_id, entry_id), int64(acked)
        value = self._values.get(position)
        if value is None or not 0 <= value.remaining - acked < 2**31:
            return False
        self._values[position] = value._replace(remaining=value.remaining - acked)
        return True

    def lower_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike, remaining: ArrayLike) -> Int64s:
        """Lower counts, never raise them; return the differences, -1 for entries that are not pending."""
        positions, counts = self._positions(ledger_ids, entry_ids), as_int64(remaining)
        same_length(as_int64(ledger_ids), counts)
        for count in counts.tolist():
            value_of(count, 0)
        lowered = []
        for position, count in zip(positions, counts.tolist(), strict=True):
            value = self._values.get(position)
            by = -1 if value is None else max(value.remaining - count, 0)
            if value is not None:
                self._values[position] = value._replace(remaining=value.remaining - by)
            lowered.append(by)
        return as_int64(lowered)

    def _remove(
        self, taken: list[Position], callback: EntryCallback | None = None, batch: bool = True
    ) -> int:
        """Remove these entries and notify of each in order; after an error, restore the rest."""
        handler = self._remove_handler
        removed = {position: self._values.pop(position) for position in taken}
        count, closing = len(removed), self._closed
        try:
            if handler is not None and batch:
                handler.start_batch()
            for position in taken:
                value = removed[position]
                if callback is not None:
                    callback(*position, *value)
                if handler is not None:
                    handler.handle_removing(*position, value.sticky_key_hash, closing)
                del removed[position]
        finally:
            try:
                if handler is not None and batch:
                    handler.end_batch()
            finally:
                self._values = removed | self._values
        return count

    def remove(self, ledger_id: int, entry_id: int, /) -> bool:
        """Remove an entry; return whether it was pending."""
        return self.remove_and_get(ledger_id, entry_id) is not None

    def remove_and_get(self, ledger_id: int, entry_id: int, /) -> PendingAck | None:
        """Remove an entry and return its value, or None."""
        position = self._position(ledger_id, entry_id)
        value = self._values.get(position)
        if value is not None:
            self._remove([position], batch=False)
        return value

    def remove_if_value(self, ledger_id: int, entry_id: int, remaining: int, sticky_key_hash: int, /) -> bool:
        """Remove an entry if it has this value; return whether it was removed."""
        position, value = self._position(ledger_id, entry_id), value_of(remaining, sticky_key_hash)
        return self._values.get(position) == value and self.remove(*position)

    def remove_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Remove many entries; return how many were pending."""
        positions = dict.fromkeys(self._positions(ledger_ids, entry_ids))
        return self._remove([at for at in positions if at in self._values])

    def _up_to(self, last: Position) -> list[Position]:
        return sorted(position for position in self._values if position <= last)

    def remove_all_up_to(self, ledger_id: int, entry_id: int, callback: EntryCallback | None = None) -> int:
        """Remove every entry up to and with a position; return how many there were."""
        if callback is not None:
            _check_callable(callback)
        return self._remove(self._up_to(self._position(ledger_id, entry_id)), callback)

    def take_all_up_to(self, ledger_id: int, entry_id: int, /) -> Columns:
        """Remove every entry up to and with a position; return them, in order, as arrays."""
        taken = self._up_to(self._position(ledger_id, entry_id))
        columns = self._columns(taken)
        self._remove(taken)
        return columns

    def for_each(self, callback: EntryCallback, /) -> None:
        """Call `callback` with every entry present at the time of the call, in order."""
        _check_callable(callback)
        for position, value in sorted(self._values.items()):
            callback(*position, *value)

    def for_each_and_clear(self, callback: EntryCallback, /) -> None:
        """Remove every entry, calling `callback` with each."""
        _check_callable(callback)
        self._remove(self._up_to(LAST), callback)

    def for_each_and_close(self, callback: EntryCallback, /) -> None:
        """Refuse every later add, then remove every entry, calling `callback` with each."""
        _check_callable(callback)
        self._closed = True
        self.for_each_and_clear(callback)

    def clear(self) -> None:
        """Remove every entry; the remove handler is called with each."""
        self._remove(self._up_to(LAST))

    @property
    def closed(self) -> bool:
        """Whether `for_each_and_close` was called."""
        return self._closed

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Position]:
        return iter(sorted(self._values))

    def _columns(self, positions: list[Position]) -> Columns:
        values = [self._values[position] for position in positions]
        return (
            as_int64([at.ledger_id for at in positions]),
            as_int64([at.entry_id for at in positions]),
            as_int64([value.remaining for value in values]),
            as_int64([value.sticky_key_hash for value in values]),
        )

    def to_arrays(self) -> Columns:
        """Return every entry, in order, as four int64 arrays."""
        return self._columns(list(self))

    @property
    def nbytes(self) -> int:
        """The bytes of the dict, without its tuples."""
        return self._values.__sizeof__()

    def validate(self) -> None:
        """Check the invariants: ids are int64, values in their domain."""
        for position, value in self._values.items():
            assert position == (int64(position[0]), int64(position[1]))
            assert 0 <= value.remaining < 2**31
            assert -(2**31) <= value.sticky_key_hash < 2**31

    def __repr__(self) -> str:
        return f"<PendingAcks {len(self)} entries{', closed' if self._closed else ''}>"

    def copy(self) -> PendingAcks:
        """Return a copy without handlers. The copy is closed if this map is closed."""
        copied = PendingAcks(self._values)
        copied._closed = self._closed
        return copied

    __copy__ = copy


def _check_callable(callback: object) -> None:
    if not callable(callback):
        raise TypeError(f"expected a callable, got {type(callback).__name__}")
