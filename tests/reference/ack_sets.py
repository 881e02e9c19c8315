"""`AckSets` as a dict of integers, one bit for each message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from ackwell.arrays import as_int64
from ackwell.cursor.ack_sets import check_word_count, first_unacked, from_words, to_words
from ackwell.position import Position
from tests.reference.integers import int64, pair
from tests.reference.range_set import PositionRangeSet, checked

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ackwell.arrays import Int64s

    Columns: TypeAlias = tuple[Int64s, Int64s, Int64s, Int64s]
    Sets: TypeAlias = (
        Mapping[tuple[int, int], Sequence[int]] | Iterable[tuple[tuple[int, int], Sequence[int]]]
    )

CHANGES_MAX = 1 << 16


class AckSets(Mapping[Position, tuple[int, ...]]):
    """The ack sets of partly acknowledged batches, by position."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, sets: Sets | None = None, /) -> None:
        self._bits: dict[Position, int] = {}
        self._changed: set[Position] | None = None
        self._since: set[Position] | None = None
        self._moved = False
        if isinstance(sets, AckSets):
            self._bits = sets.copy()._bits
            return
        for item in () if sets is None else _items(sets):
            position, words = _pair(item)
            self.set(*pair(position), words)

    @classmethod
    def from_arrays(
        cls, ledger_ids: ArrayLike, entry_ids: ArrayLike, starts: ArrayLike, words: ArrayLike
    ) -> AckSets:
        """Build the sets of four int64 arrays."""
        made = unlimited(dict(_rows(ledger_ids, entry_ids, starts, words)))
        made._moved = bool(made)
        return made

    def to_arrays(self) -> Columns:
        """Return the ledger ids, the entry ids, the starts of the words, and the words."""
        starts, words = [0], list[int]()
        for own in self.values():
            words += own
            starts.append(len(words))
        return (
            as_int64([ledger_id for ledger_id, _ in self]),
            as_int64([entry_id for _, entry_id in self]),
            as_int64(starts),
            as_int64(words),
        )

    def get(self, position: tuple[int, int], default: Any = None, /) -> Any:
        """Return the words of a position, or `default`."""
        bits = self._bits.get(Position(*pair(position)))
        return default if bits is None else to_words(bits)

    def __getitem__(self, position: tuple[int, int], /) -> tuple[int, ...]:
        return to_words(self._bits[Position(*pair(position))])

    def unacked_bits(self, ledger_id: int, entry_id: int, /) -> int | None:
        """Return the bits of an entry, or None."""
        return self._bits.get(Position(int64(ledger_id), int64(entry_id)))

    def contains(self, ledger_id: int, entry_id: int, /) -> bool:
        """Return whether an entry has a set."""
        return Position(int64(ledger_id), int64(entry_id)) in self._bits

    def __contains__(self, position: object, /) -> bool:
        try:
            return self.contains(*pair(position))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False

    def _put(self, position: Position, bits: int) -> bool:
        if self._bits.get(position) == bits:
            return False
        self._bits[position] = bits
        for changes in (self._changed, self._since):
            if changes is not None:
                changes.add(position)
        self._moved = True
        return True

    def set(self, ledger_id: int, entry_id: int, words: Iterable[int]) -> bool:
        """Set the words of an entry; return whether this changed them."""
        ids, bits = (int64(ledger_id), int64(entry_id)), from_words(words)
        return self._put(_entry(*ids), bits)

    def intersect(self, ledger_id: int, entry_id: int, words: Iterable[int]) -> int:
        """AND the words; return the number of messages that are left, -1 if nothing changed."""
        ids, bits = (int64(ledger_id), int64(entry_id)), from_words(words)
        position = _entry(*ids)
        left = self._bits.get(position, -1) & bits
        if not left:
            self._remove([position])
            return 0
        return left.bit_count() if self._put(position, left) else -1

    def intersect_many(
        self, ledger_ids: ArrayLike, entry_ids: ArrayLike, starts: ArrayLike, words: ArrayLike
    ) -> Int64s:
        """Call `intersect` for each row until the set of its entry is empty; return the results."""
        results: list[int] = []
        emptied = set()
        rows = _rows(ledger_ids, entry_ids, starts, words)
        check_word_count(max((len(own) for _, own in rows), default=0))
        for position, own in rows:
            results.append(-1 if position in emptied else self.intersect(*position, own))
            if results[-1] == 0:
                emptied.add(position)
        return as_int64(results)

    def replace_if_later(self, ledger_id: int, entry_id: int, words: Iterable[int]) -> bool:
        """Set words with a later first message; return whether this changed the set."""
        ids, bits = (int64(ledger_id), int64(entry_id)), from_words(words)
        position = _entry(*ids)
        own = self._bits.get(position)
        if own is not None and first_unacked(bits) <= first_unacked(own):
            return False
        return self._put(position, bits)

    def _remove(self, positions: list[Position]) -> int:
        removed = [self._bits.pop(position) for position in positions if position in self._bits]
        self._moved |= bool(removed)
        return len(removed)

    def _remove_if(self, test: Callable[[Position], bool]) -> int:
        return self._remove([position for position in self._bits if test(position)])

    def remove(self, ledger_id: int, entry_id: int, /) -> bool:
        """Remove the set of an entry; return whether it had one."""
        return bool(self._remove([Position(int64(ledger_id), int64(entry_id))]))

    def remove_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Remove the sets of many positions; return how many there were."""
        pairs = zip(as_int64(ledger_ids).tolist(), as_int64(entry_ids).tolist(), strict=True)
        return sum([self.remove(*position) for position in list(pairs)])

    def remove_up_to(self, ledger_id: int, entry_id: int, /) -> int:
        """Remove the sets at or before a position; return how many there were."""
        last = Position(int64(ledger_id), int64(entry_id))
        return self._remove_if(lambda position: position <= last)

    def remove_range(self, ledger_id: int, lower_entry_exclusive: int, upper_entry_inclusive: int) -> int:
        """Remove the sets of a range of entries; return how many there were."""
        bounds = int64(ledger_id), int64(lower_entry_exclusive), int64(upper_entry_inclusive)
        return self._remove_if(lambda at: at.ledger_id == bounds[0] and bounds[1] < at.entry_id <= bounds[2])

    def remove_ranges(self, acked: PositionRangeSet, /) -> int:
        """Remove the sets of acknowledged entries; return how many there were."""
        return self._remove_if(lambda position: position in acked)

    def remove_empty(self) -> int:
        """Remove the sets without messages; return how many there were."""
        return self._remove_if(lambda position: not self._bits[position])

    def clear(self) -> None:
        """Remove every set; the changes are then unknown."""
        self._bits, self._changed, self._since, self._moved = {}, None, None, True

    def update(self, sets: Sets, /) -> None:
        """Set the words of many entries."""
        # Two steps, because None is a valid argument of the constructor only.
        newer = sets if isinstance(sets, AckSets) else AckSets(iter(_items(sets)))
        for position in newer:
            self._put(position, newer._bits[position])

    def changed_from(self, older: AckSets, /) -> AckSets:
        """Return the sets that `older` does not have, or has with other words."""
        return self._only([at for at in self if self._bits[at] != older._bits.get(at)])

    def _only(self, positions: Iterable[Position]) -> AckSets:
        chosen = AckSets()
        for position in positions:
            chosen._put(position, self._bits[position])
        return chosen

    def ledger_ids(self) -> list[int]:
        """Return the ids of the ledgers with sets."""
        return sorted({position.ledger_id for position in self._bits})

    def longest(self) -> int:
        """Return the number of words of the longest set."""
        return max((len(words) for words in self.values()), default=0)

    def begin_save(self) -> AckSets | None:
        """Begin a save; return the sets that changed since the previous one, or None if they are unknown."""
        self._since, self._moved = set(), False
        kept = None if self._changed is None else self._changed & self._bits.keys()
        if kept is None or len(kept) > CHANGES_MAX:
            return None
        return self._only(kept)

    def end_save(self) -> None:
        """End a save that succeeded."""
        self._changed = None if self._since is None else set(self._since)

    @property
    def moved(self) -> bool:
        """Whether a set changed since the last save began."""
        return self._moved

    @property
    def nbytes(self) -> int:
        """The bytes of the dict, without its positions."""
        return self._bits.__sizeof__()

    def validate(self) -> None:
        """Check the invariants: ids of entries, and bits without a sign."""
        for position, bits in self._bits.items():
            assert min(position) >= 0
            assert bits >= 0

    def copy(self) -> AckSets:
        """Return the same sets, without their saves."""
        copied = AckSets()
        copied._bits = dict(self._bits)
        return copied

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> AckSets:
        return self.copy()

    def __len__(self) -> int:
        return len(self._bits)

    def __iter__(self) -> Iterator[Position]:
        return iter(sorted(self._bits))

    def __repr__(self) -> str:
        return f"<AckSets of {len(self)} entries>"

    def __reduce__(self) -> tuple[Any, ...]:
        return AckSets.from_arrays, self.to_arrays()


def unlimited(sets: Mapping[Position, Sequence[int]]) -> AckSets:
    """Return the sets of columns or of decoded bytes, which may have more words than other arguments."""
    made = AckSets()
    for position, words in sets.items():
        made._bits[position] = int.from_bytes(as_int64(words).astype("<i8").tobytes(), "little")
    return made


def _items(sets: Sets) -> Iterable[Any]:
    return sets.items() if isinstance(sets, Mapping) else sets


def _pair(item: Any) -> Any:
    if not isinstance(item, tuple):
        raise TypeError(f"expected a position and words, got {item!r}")
    return item


def _entry(ledger_id: int, entry_id: int) -> Position:
    checked(ledger_id, entry_id)
    return Position(ledger_id, entry_id)


def _rows(
    ledger_ids: ArrayLike, entry_ids: ArrayLike, starts: ArrayLike, words: ArrayLike
) -> list[tuple[Position, list[int]]]:
    """Check four columns as a whole, then return their rows."""
    columns = [as_int64(column).tolist() for column in (ledger_ids, entry_ids, starts, words)]
    ends, own = columns[2], columns[3]
    if len(columns[0]) != len(columns[1]) or len(ends) != len(columns[0]) + 1:
        raise ValueError("arrays of different lengths")
    if ends != sorted(ends) or ends[0] != 0 or ends[-1] != len(own):
        raise ValueError("starts: expected the start of each set's words and the number of all words")
    positions = [_entry(*ids) for ids in zip(columns[0], columns[1], strict=True)]
    return list(zip(positions, [own[start:end] for start, end in pairwise(ends)], strict=True))
