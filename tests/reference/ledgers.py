"""The ledger directory: a dict of entry counts, which each query scans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, Self

from ackwell.arrays import as_int64, same_length
from ackwell.errors import LimitError, ProtocolError
from ackwell.position import Position
from tests.reference.integers import INT64_MAX, int64, pair

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

State = Literal["open", "closed", "trimmed"]


class Ledgers:
    """Maps ledger ids to numbers of entries. Only the greatest ledger may be open."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        entries: Mapping[int, int] | Iterable[tuple[int, int]] | None = None,
        *,
        open: bool = True,  # noqa: A002  # the field's word
        trimmed_before: int = 0,
    ) -> None:
        pairs = list(entries.items() if isinstance(entries, Mapping) else entries or ())
        self._entries: dict[int, int] = {}
        self._open = False
        self._trimmed_before, _ = checked(trimmed_before, 0)
        for ledger_id, count in pairs:
            checked(ledger_id, count)
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a ledger is named twice")
        for ledger_id, count in sorted(pairs):
            self.add(ledger_id, count)
        self._open = open and bool(self._entries)

    def add(self, ledger_id: int, entries: int = 0) -> None:
        """Add and open a ledger with an id greater than all earlier ones, including trimmed ones."""
        checked(ledger_id, entries)
        if ledger_id <= max(self._entries, default=-1) or ledger_id < self._trimmed_before:
            raise ProtocolError(f"ledger {ledger_id} is not new")
        self._set(ledger_id, entries)
        self._open = True

    def grow(self, ledger_id: int, entries: int) -> None:
        """Set the number of entries of a ledger; a new greatest ledger is open, a smaller one closed."""
        checked(ledger_id, entries)
        if ledger_id < self._trimmed_before:
            raise ProtocolError(f"ledger {ledger_id} is trimmed")
        if entries < self._entries.get(ledger_id, 0):
            raise ProtocolError(f"ledger {ledger_id} cannot shrink")
        newest = ledger_id > max(self._entries, default=-1)
        self._set(ledger_id, entries)
        self._open = self._open or newest

    def close(self, ledger_id: int) -> None:
        """Close a ledger that is not trimmed."""
        if int64(ledger_id) not in self._entries:
            raise KeyError(ledger_id)
        if ledger_id == max(self._entries):
            self._open = False

    def trim_before(self, ledger_id: int) -> int:
        """Remove every ledger below `ledger_id`; none of them may be open. Return their number."""
        checked(ledger_id, 0)
        if self._open and ledger_id > max(self._entries):
            raise ProtocolError("the open ledger cannot be trimmed")
        self._trimmed_before = max(self._trimmed_before, ledger_id)
        gone = [known for known in self._entries if known < ledger_id]
        for known in gone:
            del self._entries[known]
        return len(gone)

    def entries(self, ledger_id: int) -> int:
        """Return the number of entries of a ledger that is not trimmed."""
        return self._entries[int64(ledger_id)]

    def state(self, ledger_id: int) -> State:
        """Return the state of a ledger; all ids below `trimmed_before` are trimmed."""
        if 0 <= int64(ledger_id) < self._trimmed_before:
            return "trimmed"
        self.entries(ledger_id)
        return "open" if self._open and ledger_id == max(self._entries) else "closed"

    def next_valid(self, ledger_id: int, entry_id: int) -> Position:
        """Return the next existing entry; past the last entry, the position of the next append."""
        place = bound((ledger_id, entry_id))
        if not self._entries:
            raise ProtocolError("no ledger is known; add one first")
        for ledger, entries in self:
            start = place.entry_id + 1 if ledger == place.ledger_id else 0
            if ledger >= place.ledger_id and start < entries:
                return Position(ledger, start)
        return self._end()

    def previous_valid(self, ledger_id: int, entry_id: int) -> Position:
        """Return the previous existing entry, or entry -1 of the first ledger."""
        place = bound((ledger_id, entry_id))
        for ledger, entries in sorted(self._entries.items(), reverse=True):
            end = min(entries, place.entry_id) if ledger == place.ledger_id else entries
            if ledger <= place.ledger_id and end > 0:
                return Position(ledger, end - 1)
        return Position(min(self._entries.keys() | {place.ledger_id}), -1)

    def entries_between(self, lower_exclusive: tuple[int, int], upper_inclusive: tuple[int, int]) -> int:
        """Count the existing entries in `(lower, upper]`."""
        lower, upper = bound(lower_exclusive), bound(upper_inclusive)
        return max(self._rank(upper) - self._rank(lower), 0)

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether the entry exists."""
        entries = self._entries.get(int64(ledger_id), 0)
        return 0 <= int64(entry_id) < entries

    def contains_all(self, ledger_ids: ArrayLike, entry_ids: ArrayLike, passed: tuple[int, int]) -> bool:
        """Return whether each entry exists or is at or before `passed`; negative ids do not exist."""
        ledgers, entries = as_int64(ledger_ids), as_int64(entry_ids)
        same_length(ledgers, entries)
        place = bound(passed)
        pairs = [*zip(ledgers.tolist(), entries.tolist(), strict=True)]
        return all(min(pair) >= 0 and (pair <= place or self.contains(*pair)) for pair in pairs)

    @property
    def first_position(self) -> Position | None:
        """Entry -1 of the first ledger that is not trimmed."""
        return Position(min(self._entries), -1) if self._entries else None

    @property
    def last_position(self) -> Position | None:
        """The last existing entry, or `first_position`."""
        return self._last_entry() or self.first_position

    @property
    def trimmed_before(self) -> int:
        """Every ledger below this id is trimmed."""
        return self._trimmed_before

    @property
    def total_entries(self) -> int:
        """The number of entries of all ledgers."""
        return sum(self._entries.values())

    @property
    def nbytes(self) -> int:
        """The bytes of the dict."""
        return self._entries.__sizeof__()

    def validate(self) -> None:
        """Check the invariants."""
        assert all(id_ >= self._trimmed_before and n >= 0 for id_, n in self._entries.items())
        assert self._entries or not self._open

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self)(self._entries, open=self._open, trimmed_before=self._trimmed_before)

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Self:
        return self.copy()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(sorted(self._entries.items()))

    def __contains__(self, position: tuple[int, int]) -> bool:
        return self.contains(*position)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ledgers):
            return NotImplemented
        return vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"Ledgers({dict(self)}, open={self._open}, trimmed_before={self._trimmed_before})"

    def _set(self, ledger_id: int, entries: int) -> None:
        if self.total_entries - self._entries.get(ledger_id, 0) + entries > INT64_MAX:
            raise LimitError("more than 2**63 - 1 entries in all ledgers")
        self._entries[ledger_id] = entries

    def _rank(self, place: Position) -> int:
        return sum(
            min(entries, place.entry_id + 1) if ledger == place.ledger_id else entries
            for ledger, entries in self._entries.items()
            if ledger <= place.ledger_id
        )

    def _last_entry(self) -> Position | None:
        filled = [ledger for ledger, entries in self._entries.items() if entries]
        return Position(max(filled), self._entries[max(filled)] - 1) if filled else None

    def _end(self) -> Position:
        newest, last = max(self._entries), self._last_entry()
        if last is None or (self._open and last.ledger_id < newest):
            return Position(newest, 0)
        return Position(last.ledger_id, last.entry_id + 1)


def checked(ledger_id: int, entries: int) -> tuple[int, int]:
    """Return both ids; `ValueError` for a negative one."""
    if int64(ledger_id) < 0 or int64(entries) < 0:
        raise ValueError(f"ledger {ledger_id} with {entries} entries: both are at least 0")
    return ledger_id, entries


def bound(place: tuple[int, int]) -> Position:
    """Return a bound in the order of positions; entry -1 is before the first entry."""
    ledger_id, entry_id = pair(place)
    if ledger_id < 0 or entry_id < -1:
        raise ValueError(f"bound {place}: the ledger id is at least 0, the entry id at least -1")
    return Position(ledger_id, entry_id)
