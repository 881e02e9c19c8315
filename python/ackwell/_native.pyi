"""Stubs of the native engine, in the order of `docs/architecture.md`; checked by `make lab-types`."""

from collections.abc import (
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from typing import Any, ClassVar, Literal, Self, TypedDict, TypeVar, final, overload, type_check_only

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ackwell.engine import AckFields
from ackwell.loss import LossReport
from ackwell.pending_ack import (
    AddHandler,
    EntryCallback,
    PendingAck,
    PendingEntries,
    RemoveHandler,
)
from ackwell.position import Position

__all__ = [
    "AckSets",
    "BitSet",
    "Ledgers",
    "LongMap",
    "ManagedCursorInfo",
    "Names",
    "Partials",
    "PendingAcks",
    "PositionInfo",
    "PositionRangeSet",
    "TimeBuckets",
    "TimeWheel",
    "TraceReader",
    "TripleLongHeap",
    "compress",
    "crc32c",
    "decode_command_ack",
    "decompress",
]

_T = TypeVar("_T")

@final
class Ledgers:
    """The ledger directory of one topic: the entries of each ledger, the open ledger, and the trimmed ledgers.

    A cursor uses it to move from ledger to ledger, as Pulsar's `ManagedLedgerImpl` does, and to count the entries
    between two positions. Only the greatest ledger can be open.

    Parameters
    ----------
    entries : mapping or iterable of (int, int)
        Ledger id to number of entries, in any order.
    open : bool
        Whether the greatest ledger is still written to.
    trimmed_before : int
        Every ledger with a lower id is trimmed: it is deleted with its entries, and its id is never used again.

    Raises
    ------
    ValueError
        For a negative number, and for a ledger id that is given twice.
    ProtocolError
        For a ledger below `trimmed_before`.
    LimitError
        For more than 2**63 - 1 entries in all.

    Notes
    -----
    With n ledgers, adding or growing the greatest ledger takes O(1), adding or growing another ledger O(sqrt n), and
    a query O(log n). A ledger takes 16 to 32 bytes.

    Examples
    --------
    >>> from ackwell import Ledgers
    >>> ledgers = Ledgers({2: 16, 3: 0, 5: 10})
    >>> ledgers.next_valid(2, 15)
    Position(ledger_id=5, entry_id=0)
    >>> ledgers.entries_between((2, 13), (5, 1))
    4
    >>> ledgers
    Ledgers({2: 16, 3: 0, 5: 10}, open=True, trimmed_before=0)
    """
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __new__(
        cls,
        entries: Mapping[int, int] | Iterable[tuple[int, int]] | None = None,
        *,
        open: bool = True,
        trimmed_before: int = 0,
    ) -> Self: ...
    def add(self, ledger_id: int, entries: int = 0) -> None:
        """Add a ledger with a greater id than all others and open it. The previous open ledger is closed.

        Raises `ProtocolError` if the id is not greater than the ids of all other ledgers, including trimmed ledgers.
        O(1).

        >>> ledgers = Ledgers({2: 16})
        >>> ledgers.add(5)
        >>> ledgers.state(2), ledgers.state(5)
        ('closed', 'open')
        """
    def grow(self, ledger_id: int, entries: int) -> None:
        """Set the number of entries of a ledger, which may only grow. A closed ledger stays closed.

        An unknown ledger is added. If it has the greatest id, it is open and the previous open ledger is closed;
        otherwise it is closed. Raises `ProtocolError` for a trimmed ledger, and for fewer entries than the ledger has.
        With n ledgers, O(1) for the greatest ledger, and O(sqrt n) for another ledger.
        """
    def close(self, ledger_id: int) -> None:
        """Close a ledger. Only a new ledger can be open afterwards. Raises `KeyError` if the ledger is unknown or trimmed."""
    def trim_before(self, ledger_id: int) -> int:
        """Remove every ledger below `ledger_id`; return the number of removed ledgers. Their state is then "trimmed".

        Raises `ProtocolError` if the open ledger is below `ledger_id`, because a broker never trims the ledger to which
        it writes.

        >>> ledgers = Ledgers({2: 16, 3: 0, 5: 10})
        >>> ledgers.trim_before(5)
        2
        >>> ledgers.state(2)
        'trimmed'
        """
    def entries(self, ledger_id: int) -> int:
        """Return the number of entries of a ledger; `KeyError` if it is unknown or trimmed. O(log n)."""
    def state(self, ledger_id: int) -> Literal["open", "closed", "trimmed"]:
        """Return whether a ledger is "open", "closed" or "trimmed"; `KeyError` if it is unknown.

        Every id below `trimmed_before` counts as a trimmed ledger, because ledger ids only grow.
        """
    def next_valid(self, ledger_id: int, entry_id: int) -> Position:
        """Return the first existing entry after a position, in the same ledger or a later one. O(log n).

        If there is none, the result is the position of the next entry to be written: at the end of the open ledger or,
        if no ledger is open, after the last existing entry. The given position need not exist: any ledger id >= 0 and
        entry id >= -1 are valid, and a position in an unknown or trimmed ledger is compared by its ids. Raises
        `ProtocolError` if there are no ledgers. (Pulsar: `getNextValidPosition`.)

        >>> Ledgers({2: 16, 3: 0, 5: 10}).next_valid(5, 9)
        Position(ledger_id=5, entry_id=10)
        """
    def previous_valid(self, ledger_id: int, entry_id: int) -> Position:
        """Return the last existing entry before a position, in the same ledger or an earlier one. O(log n).

        If there is none, the result is entry -1 of the first ledger, or entry -1 of the given ledger if this ledger is
        before the first ledger. The given position need not exist, as in `next_valid`. (Pulsar: `getPreviousPosition`.)

        >>> Ledgers({2: 16, 3: 0, 5: 10}).previous_valid(5, 0)
        Position(ledger_id=2, entry_id=15)
        """
    def entries_between(
        self, lower_exclusive: tuple[int, int], upper_inclusive: tuple[int, int]
    ) -> int:
        """Count the entries that exist in `(lower_exclusive, upper_inclusive]`. O(log n).

        The bounds need not exist, as in `next_valid`. Entries of unknown and trimmed ledgers are not counted. Returns 0
        if the lower bound is not before the upper bound.
        """
    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry exists at a position. O(log n)."""
    def contains_all(self, ledger_ids: ArrayLike, entry_ids: ArrayLike, passed: tuple[int, int]) -> bool:
        """Return whether every position is an existing entry, or is at or before `passed`.

        The positions are two int64 arrays: ledger ids and entry ids. A negative id gives False. `passed` need not
        exist.

        >>> ledgers = Ledgers({2: 16, 5: 10}, trimmed_before=2)
        >>> ledgers.contains_all([1, 5], [40, 9], (1, 50)), ledgers.contains_all([5], [10], (1, 50))
        (True, False)
        """
    @property
    def first_position(self) -> Position | None:
        """The position before all entries: entry -1 of the first ledger. None if there are no ledgers."""
    @property
    def last_position(self) -> Position | None:
        """The position of the last existing entry; `first_position` if there are no entries."""
    @property
    def trimmed_before(self) -> int:
        """The ledger id below which every ledger is trimmed."""
    @property
    def total_entries(self) -> int:
        """The number of existing entries in all ledgers."""
    @property
    def nbytes(self) -> int:
        """The bytes allocated on the heap."""
    def validate(self) -> None:
        """Check the invariants; raise `AssertionError` if one does not hold."""
    def copy(self) -> Self:
        """Return an independent copy."""
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object, /) -> Self: ...
    def __getnewargs_ex__(self) -> tuple[tuple[list[tuple[int, int]]], dict[str, Any]]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[tuple[int, int]]: ...
    def __contains__(self, position: tuple[int, int], /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __sizeof__(self) -> int: ...

@final
class LongMap:
    """A hash map from int64 to int64. An entry takes 18 to 24 bytes.

    Every int64 is a valid key and a valid value. Scalar methods are O(1). Removed entries leave no tombstones, so time
    and memory depend only on the entries in the map. The order of iteration is not defined. It is the counterpart of
    Apache Pulsar's `Long2LongOpenHashMap`.

    Parameters
    ----------
    entries : mapping or iterable of pairs, optional
        The initial entries.

    Examples
    --------
    >>> from ackwell import LongMap
    >>> ledgers = LongMap({3: 5_000})
    >>> ledgers.put(3, 6_000), ledgers.put(4, 10)
    (5000, None)
    >>> ledgers[3], ledgers.get(9), ledgers.get(9, 0)
    (6000, None, 0)
    >>> ledgers.put_many([5, 6], [7, 8])
    2
    >>> ledgers.get_many([3, 5, 9], default=-1).tolist()
    [6000, 7, -1]
    >>> ledgers
    <LongMap 4 entries>
    """
    def __new__(
        cls, entries: Mapping[int, int] | Iterable[tuple[int, int]] | None = None, /
    ) -> Self: ...
    @staticmethod
    def from_arrays(keys: ArrayLike, values: ArrayLike) -> LongMap:
        """Build a map from two int64 arrays of equal length."""
    @overload
    def get(self, key: int, default: None = None, /) -> int | None:
        """Return the value of `key`, or `default`."""
    @overload
    def get(self, key: int, default: int, /) -> int:
        """Return the value of `key`, or `default`."""
    def put(self, key: int, value: int, /) -> int | None:
        """Set the value of `key`; return its previous value, or None."""
    def put_if_absent(self, key: int, value: int, /) -> int | None:
        """Return the value of `key`. If `key` is missing, set its value and return None."""
    def add_to(self, key: int, delta: int, /) -> int | None:
        """Add `delta` to the value of `key` and return the sum. Return None if the key is missing.

        Raises `ValueError`, and changes nothing, if the sum is outside int64.
        """
    def remove(self, key: int, /) -> int | None:
        """Remove `key`; return its value, or None."""
    def remove_if_value(self, key: int, value: int, /) -> bool:
        """Remove `key` if its value is `value`; return whether it was removed."""
    def contains(self, key: int, /) -> bool:
        """Return whether `key` is in the map."""
    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: int, /) -> int: ...
    def __setitem__(self, key: int, value: int, /) -> None: ...
    def __delitem__(self, key: int, /) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def keys(self) -> KeysView[int]:
        """Return a view of the keys."""
    def values(self) -> ValuesView[int]:
        """Return a view of the values."""
    def items(self) -> ItemsView[int, int]:
        """Return a view of the entries as pairs of key and value."""
    def update(self, entries: Mapping[int, int] | Iterable[tuple[int, int]], /) -> None:
        """Set the value of each key in a mapping or an iterable of pairs. Nothing changes if a pair is refused."""
    def pop(self, key: int, /, *default: _T) -> int | _T:
        """Remove `key` and return its value. If the key is missing, return `default`; `KeyError` without a `default`."""
    def popitem(self) -> tuple[int, int]:
        """Remove any entry and return its key and value; `KeyError` if the map is empty."""
    def setdefault(self, key: int, default: int, /) -> int:
        """Return the value of `key`. If the key is missing, set its value to `default` first."""
    def put_many(self, keys: ArrayLike, values: ArrayLike) -> int:
        """Set the values of keys, given as two int64 arrays of equal length; return how many keys were new."""
    def get_many(self, keys: ArrayLike, default: int = 0) -> NDArray[np.int64]:
        """Return the values of an int64 array of keys, with `default` for missing keys."""
    def contains_many(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Return a bool array: for each key in an int64 array, whether it is in the map."""
    def remove_many(self, keys: ArrayLike) -> int:
        """Remove the keys in an int64 array; return how many were in the map."""
    def to_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all keys and their values as two int64 arrays."""
    def clear(self) -> None:
        """Remove every entry and release the memory."""
    def reserve(self, additional: int, /) -> None:
        """Allocate memory for `additional` more entries; `MemoryError` if memory does not suffice."""
    def shrink_to_fit(self) -> None:
        """Release memory that the entries do not need."""
    @property
    def capacity(self) -> int:
        """The number of entries that fit into the allocated memory."""
    @property
    def nbytes(self) -> int:
        """The bytes allocated on the heap."""
    def __sizeof__(self) -> int: ...
    def validate(self) -> None:
        """Check the invariants; raise `AssertionError` if one does not hold."""
    def __eq__(self, other: object, /) -> bool: ...
    def copy(self) -> Self:
        """Return a map of the same entries."""
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object, /) -> Self: ...
    def __reduce__(self) -> tuple[object, ...]: ...

@final
class BitSet:
    """A set of bit indexes from 0 up to a limit, in 64-bit words, as Java's `BitSet`.

    Pulsar uses the same words in an `ack_set` and in the long-array form of a cursor. A bit below 0 raises
    `ValueError`. Setting a bit at or above the limit raises `LimitError`. If memory does not suffice, `MemoryError` is
    raised. A call that raises changes nothing.

    Parameters
    ----------
    bits : iterable of int, optional
        The bits that are set initially.
    limit : int, optional
        The first index that is too large; Java's 2**31 unless given.

    Examples
    --------
    >>> from ackwell import BitSet
    >>> pending = BitSet([1, 2, 70])
    >>> pending.set(5), pending.clear(2), pending.clear(2)
    (True, True, False)
    >>> list(pending), pending.next_set(6), pending.next_clear(5)
    ([1, 5, 70], 70, 6)
    >>> pending.to_words().tolist()
    [34, 64]
    >>> pending.clear_prefix(5).tolist(), list(pending)
    ([1, 5], [70])
    """
    def __new__(
        cls, bits: Iterable[int] | None = None, /, *, limit: int = 2147483648
    ) -> Self: ...
    @staticmethod
    def from_words(words: ArrayLike, limit: int = 2147483648) -> BitSet:
        """Build a set from signed 64-bit words in the order of Java's `BitSet.valueOf(long[])`."""
    def to_words(self) -> NDArray[np.int64]:
        """Return the words as an int64 array without zero words at the end, like Java's `BitSet.toLongArray`."""
    @property
    def limit(self) -> int:
        """The first index that is too large."""
    def set(self, bit: int, /) -> bool:
        """Set a bit; return whether it was clear."""
    def clear(self, bit: int, /) -> bool:
        """Clear a bit; return whether it was set."""
    def get(self, bit: int, /) -> bool:
        """Return whether a bit is set."""
    def __contains__(self, bit: int, /) -> bool: ...
    def set_many(self, bits: ArrayLike) -> int:
        """Set the bits in an int64 array; return how many of them were clear. Nothing changes if a bit is refused."""
    def get_many(self, bits: ArrayLike) -> NDArray[np.bool_]:
        """Return a bool array: for each index in an int64 array, whether the bit is set."""
    def set_range(self, start: int, end: int, /) -> None:
        """Set every bit from `start` up to `end`, exclusive."""
    def clear_range(self, start: int, end: int, /) -> None:
        """Clear every bit from `start` up to `end`, exclusive."""
    def clear_prefix(self, bit: int, /) -> NDArray[np.int64]:
        """Clear every bit up to and including `bit`; return the bits that were set, in order, as an int64 array."""
    def clear_all(self) -> None:
        """Clear every bit and release the memory."""
    def next_set(self, bit: int, /) -> int | None:
        """Return the first set bit at or after `bit`, or None."""
    def next_clear(self, bit: int, /) -> int:
        """Return the first clear bit at or after `bit`."""
    def previous_set(self, bit: int, /) -> int | None:
        """Return the last set bit at or before `bit`, or None."""
    def previous_clear(self, bit: int, /) -> int | None:
        """Return the last clear bit at or before `bit`, or None."""
    def first(self) -> int | None:
        """Return the first set bit, or None."""
    def last(self) -> int | None:
        """Return the last set bit, or None."""
    @property
    def cardinality(self) -> int:
        """The number of set bits; O(words)."""
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __iter__(self) -> Iterator[int]: ...
    def __and__(self, other: BitSet, /) -> BitSet: ...
    def __rand__(self, other: BitSet, /) -> BitSet: ...
    def __or__(self, other: BitSet, /) -> BitSet: ...
    def __ror__(self, other: BitSet, /) -> BitSet: ...
    def __sub__(self, other: BitSet, /) -> BitSet: ...
    def __rsub__(self, other: BitSet, /) -> BitSet: ...
    def __iand__(self, other: BitSet, /) -> Self: ...
    def __ior__(self, other: BitSet, /) -> Self: ...
    def __isub__(self, other: BitSet, /) -> Self: ...
    def shrink_to_fit(self) -> None:
        """Release memory that the bits do not need."""
    @property
    def nbytes(self) -> int:
        """The bytes allocated on the heap."""
    def __sizeof__(self) -> int: ...
    def validate(self) -> None:
        """Check the invariants; raise `AssertionError` if one does not hold."""
    def __eq__(self, other: object, /) -> bool: ...
    def copy(self) -> Self:
        """Return a set of the same bits and limit."""
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object, /) -> Self: ...
    def __reduce__(self) -> tuple[object, ...]: ...

@final
class PendingAcks:
    """The entries that were sent to one consumer and are not acknowledged: a mapping from `Position` to `PendingAck`.

    Semantics are those of Apache Pulsar's `PendingAcksMap`. Ids are any int64. `remaining` is 0 to 2**31 − 1; an entry
    with 0 is still pending. `sticky_key_hash` is a signed 32-bit integer. Other values raise `ValueError`. Iteration is
    in order of position and is not affected by later changes. Scalar methods and `len` are O(1). An entry takes 0.5 to
    9 bytes if most entries around it are pending, otherwise up to 24 bytes.

    Handlers and callbacks run while the map is not locked, so they may call any method. All entries that a call removes
    are removed before the first handler or callback runs. If a handler or callback raises, its entry and the later ones
    are pending again, and the caller gets the exception.

    Parameters
    ----------
    entries : mapping or iterable of pairs, optional
        The initial entries: positions and `(remaining, sticky_key_hash)`. No handler is called.
    add_handler : callable, optional
        `add_handler(ledger_id, entry_id, sticky_key_hash)` is called before each add. If it returns a false value, the
        entry is not added.
    remove_handler : RemoveHandler, optional
        `handle_removing(ledger_id, entry_id, sticky_key_hash, closing)` is called for each removed entry. If a call can
        remove more than one entry, `start_batch()` is called before and `end_batch()` afterwards.

    Examples
    --------
    >>> from ackwell import PendingAcks
    >>> pending = PendingAcks()
    >>> pending.add(3, 0, remaining=10, sticky_key_hash=-7)
    True
    >>> pending.add_many([3, 3, 4], [1, 2, 0], [1, 1, 1], [5, 6, 7])
    3
    >>> pending.update_remaining(3, 0, 4), pending.get_remaining(3, 0)
    (True, 6)
    >>> pending[3, 0]
    PendingAck(remaining=6, sticky_key_hash=-7)
    >>> pending.remove_all_up_to(3, 1)
    2
    >>> list(pending)
    [Position(ledger_id=3, entry_id=2), Position(ledger_id=4, entry_id=0)]
    """
    def __new__(
        cls,
        entries: PendingEntries | None = None,
        /,
        *,
        add_handler: AddHandler | None = None,
        remove_handler: RemoveHandler | None = None,
    ) -> Self: ...
    @staticmethod
    def from_arrays(
        ledger_ids: ArrayLike,
        entry_ids: ArrayLike,
        remaining: ArrayLike,
        sticky_key_hashes: ArrayLike,
        closed: bool = False,
    ) -> PendingAcks:
        """Build a map without handlers from four int64 arrays of equal length."""
    def add(
        self, ledger_id: int, entry_id: int, remaining: int = 1, sticky_key_hash: int = 0
    ) -> bool:
        """Add or replace an entry; return whether it was allowed.

        If the map is closed or the add handler refuses the entry, return False and change nothing.
        """
    def add_many(
        self,
        ledger_ids: ArrayLike,
        entry_ids: ArrayLike,
        remaining: ArrayLike,
        sticky_key_hashes: ArrayLike,
    ) -> int:
        """Add or replace entries given as int64 arrays of equal length; return how many were allowed.

        Nothing changes if an argument is refused.
        """
    def contains(self, ledger_id: int, entry_id: int, /) -> bool:
        """Return whether an entry is pending."""
    def __contains__(self, position: object, /) -> bool: ...
    def contains_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> NDArray[np.bool_]:
        """Return a bool array: for each position in two int64 arrays, whether it is pending."""
    def get_remaining(self, ledger_id: int, entry_id: int, /) -> int | None:
        """Return an entry's remaining count, or None if it is not pending."""
    @overload
    def get(self, position: tuple[int, int], default: None = None, /) -> PendingAck | None:
        """Return the `PendingAck` of a position, or `default`."""
    @overload
    def get(self, position: tuple[int, int], default: _T, /) -> PendingAck | _T:
        """Return the `PendingAck` of a position, or `default`."""
    def get_many(
        self, ledger_ids: ArrayLike, entry_ids: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return two int64 arrays: remaining counts and sticky-key hashes. For a position that is not pending: −1 and 0."""
    def __getitem__(self, position: tuple[int, int], /) -> PendingAck: ...
    def update_remaining(self, ledger_id: int, entry_id: int, acked: int, /) -> bool:
        """Subtract `acked` from an entry's remaining count; return whether the count changed.

        If the entry is not pending or the result is outside 0 to 2**31 − 1, return False and change nothing. An entry
        with count 0 stays pending until it is removed.
        """
    def lower_many(
        self, ledger_ids: ArrayLike, entry_ids: ArrayLike, remaining: ArrayLike
    ) -> NDArray[np.int64]:
        """Lower the remaining count of each entry to its count in `remaining`; return the differences.

        The result is an int64 array. A difference is the old count minus the new count. If the old count is not greater
        than the new count, it does not change, and the difference is 0. For an entry that is not pending, the
        difference is -1.
        """
    def remove(self, ledger_id: int, entry_id: int, /) -> bool:
        """Remove an entry; return whether it was pending."""
    def remove_if_value(
        self, ledger_id: int, entry_id: int, remaining: int, sticky_key_hash: int, /
    ) -> bool:
        """Remove an entry if it has this value; return whether it was removed."""
    def remove_and_get(self, ledger_id: int, entry_id: int, /) -> PendingAck | None:
        """Remove an entry and return its `PendingAck`, or None if it was not pending."""
    def remove_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Remove the entries of positions given as two int64 arrays; return how many were pending."""
    def remove_all_up_to(
        self, ledger_id: int, entry_id: int, callback: EntryCallback | None = None
    ) -> int:
        """Remove every entry up to and including a position; return their number. O(pages of 64 entries).

        `callback(ledger_id, entry_id, remaining, sticky_key_hash)` is called for each, in order.
        """
    def take_all_up_to(
        self, ledger_id: int, entry_id: int, /
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Remove every entry up to and including a position; return them, in order, as four int64 arrays.

        Returns ledger ids, entry ids, remaining counts and sticky-key hashes.
        """
    def for_each(self, callback: EntryCallback, /) -> None:
        """Call `callback(ledger_id, entry_id, remaining, sticky_key_hash)` with every entry, in order.

        Changes by the callback do not affect which entries are visited.
        """
    def for_each_and_clear(self, callback: EntryCallback, /) -> None:
        """Remove every entry, then call `callback` as `for_each` does."""
    def for_each_and_close(self, callback: EntryCallback, /) -> None:
        """Close the map, which then refuses every add. Remove every entry, then call `callback` as `for_each` does."""
    def clear(self) -> None:
        """Remove every entry. The remove handler is called for each."""
    @property
    def closed(self) -> bool:
        """Whether `for_each_and_close` was called."""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Position]: ...
    def keys(self) -> KeysView[Position]:
        """Return a view of the keys."""
    def values(self) -> ValuesView[PendingAck]:
        """Return a view of the values."""
    def items(self) -> ItemsView[Position, PendingAck]:
        """Return a view of the entries as pairs of key and value."""
    def to_arrays(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return every entry, in order, as four int64 arrays."""
    @property
    def nbytes(self) -> int:
        """The bytes allocated on the heap."""
    def __sizeof__(self) -> int: ...
    def validate(self) -> None:
        """Check the invariants; raise `AssertionError` if one does not hold."""
    def __eq__(self, other: object, /) -> bool: ...
    def copy(self) -> Self:
        """Return a copy without handlers. The copy is closed if this map is closed."""
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object, /) -> Self: ...
    def __reduce__(self) -> tuple[object, ...]: ...

@final
class PositionRangeSet:
    """A set of acknowledged positions as ranges of entries by ledger: Pulsar's individually deleted messages.

    `len` counts the ranges. Iteration yields each range as `(ledger_id, lower_entry_exclusive, upper_entry_inclusive)`,
    as Pulsar prints it. A range never spans ledgers. Entries 0 to 5 are `(-1, 5]`. `in`, `cardinality` and `positions`
    refer to positions. Each ledger is stored in the smallest of three forms: one range, a window of bits, or a tree of
    ranges. So the set is small both with a hole at every second entry and with only the entries 0 and 2**40.

    Parameters
    ----------
    ranges : iterable of (int, int, int)
        The initial ranges, in any order. They may overlap.

    Notes
    -----
    Adds and look-ups take O(log l) for l ledgers, plus O(log r) in a ledger with a tree of r ranges.

    Examples
    --------
    >>> from ackwell import PositionRangeSet
    >>> acked = PositionRangeSet()
    >>> acked.add_range(3, -1, 5)
    6
    >>> acked.add(3, 7)
    True
    >>> str(acked)
    '[(3:-1..3:5],(3:6..3:7]]'
    >>> (3, 4) in acked, acked.cardinality, len(acked)
    (True, 7, 2)
    """
    __hash__: ClassVar[None]  # type: ignore[assignment]
    # Python adds these two: `ackwell.drawing`.
    def _repr_html_(self) -> str: ...
    def __rich__(self) -> object: ...
    def __new__(cls, ranges: Iterable[tuple[int, int, int]] | None = None) -> Self: ...
    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the notation of `stats-internal`, which `str` writes.

        Spaces between ranges, Guava's `‥` for `..`, and ranges in any order are accepted too. Raises
        `CorruptStateError` with the offset of the first invalid byte. A range across ledgers is invalid.

        >>> len(PositionRangeSet.parse("[(3:-1..3:5],(3:7..3:9]]"))
        2
        """
    def add(self, ledger_id: int, entry_id: int) -> bool:
        """Add a position; return whether it was new. Raises `ValueError` for a negative id."""
    def add_range(
        self, ledger_id: int, lower_entry_exclusive: int, upper_entry_inclusive: int
    ) -> int:
        """Add the entries after `lower_entry_exclusive` up to `upper_entry_inclusive`; return how many are new.

        Equal bounds add nothing. Raises `ValueError` for a lower bound below -1 or above the upper bound.
        """
    def add_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Add the positions in two int64 arrays and return how many are new.

        Raises `ValueError`, and adds nothing, for a negative id or different lengths. Consecutive positions of one
        ledger need one look-up of the ledger.

        >>> PositionRangeSet().add_many([3, 3, 3, 4], [0, 1, 1, 0])
        3
        """
    def add_ranges(
        self, ledger_ids: ArrayLike, lowers_exclusive: ArrayLike, uppers_inclusive: ArrayLike
    ) -> int:
        """Do the same as `add_range` for each row of three int64 arrays; return how many positions are new."""
    def add_words(self, ledger_id: int, words: ArrayLike) -> int:
        """Add entries of one ledger, given as the words of Java's `BitSet.toLongArray`; return how many are new.

        Bit b of word i of the int64 array is entry 64 * i + b; bit 0 is the lowest. If the bit is set, the entry is
        acknowledged.

        >>> acked = PositionRangeSet()
        >>> acked.add_words(3, [0b1011, -1])
        67
        >>> str(acked)
        '[(3:-1..3:1],(3:2..3:3],(3:63..3:127]]'
        """
    def remove(self, ledger_id: int, entry_id: int) -> bool:
        """Remove a position; return whether it was in the set."""
    def remove_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Remove the positions in two int64 arrays; return how many of them were in the set.

        >>> acked = PositionRangeSet([(3, -1, 9)])
        >>> acked.remove_many([3, 3, 4], [0, 0, 0])
        1
        """
    def remove_range(
        self, ledger_id: int, lower_entry_exclusive: int, upper_entry_inclusive: int
    ) -> int:
        """Remove the entries after `lower_entry_exclusive` up to `upper_entry_inclusive`; return how many were in the set.

        Raises `ValueError` in the cases of `add_range`.

        >>> acked = PositionRangeSet([(3, -1, 9)])
        >>> acked.remove_range(3, 4, 6)
        2
        >>> str(acked)
        '[(3:-1..3:4],(3:6..3:9]]'
        """
    def remove_up_to(self, ledger_id: int, entry_id: int) -> int:
        """Remove every position at or before this one; return how many were in the set.

        The remaining positions are not moved in memory, so it is cheap to advance a mark-delete position entry by
        entry.
        """
    def clear(self) -> None:
        """Remove all positions."""
    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether a position is acknowledged; False for an invalid position."""
    def contains_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> NDArray[np.bool_]:
        """Return a bool array: for each position in two int64 arrays, whether it is acknowledged.

        >>> PositionRangeSet([(3, -1, 5)]).contains_many([3, 3], [5, 6])
        array([ True, False])
        """
    @property
    def cardinality(self) -> int:
        """The number of positions."""
    def cardinality_of(self, ledger_id: int) -> int:
        """Return the number of positions of one ledger."""
    def ledger_ids(self) -> list[int]:
        """Return the ledgers that have a position, in order."""
    def words_of(self, ledger_id: int) -> NDArray[np.int64]:
        """Return the acknowledged entries of one ledger as an int64 array of bits, like Java's `BitSet.toLongArray`.

        Zero words at the end are dropped. The array of an unknown ledger is empty. Raises `LimitError` for an entry of
        2**31 or above, which a Java `BitSet` cannot hold.

        >>> PositionRangeSet([(3, -1, 1), (3, 2, 3)]).words_of(3)
        array([11])
        """
    def first_range(self) -> tuple[int, int, int] | None:
        """Return the first range; None for an empty set."""
    def range_containing(self, ledger_id: int, entry_id: int) -> tuple[int, int, int] | None:
        """Return the range that contains a position; None if the position is not acknowledged.

        >>> PositionRangeSet([(3, -1, 5)]).range_containing(3, 2)
        (3, -1, 5)
        """
    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """Iterate over a copy of the ranges, in order. Later changes of the set have no effect."""
    def positions(self) -> Iterator[Position]:
        """Iterate over a copy of the positions, in order.

        >>> list(PositionRangeSet([(3, 4, 6)]).positions())
        [Position(ledger_id=3, entry_id=5), Position(ledger_id=3, entry_id=6)]
        """
    def to_arrays(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return all ranges as three int64 arrays: ledger ids, lower bounds (exclusive), upper bounds (inclusive)."""
    def union(self, other: PositionRangeSet) -> Self:
        """Return a set with the positions of both sets."""
    def difference(self, other: PositionRangeSet) -> Self:
        """Return a set with the positions that are not in the other set."""
    def copy(self) -> Self:
        """Return an independent copy. The call takes as long as a copy of the memory."""
    @property
    def nbytes(self) -> int:
        """The bytes allocated on the heap."""
    def validate(self) -> None:
        """Check the invariants; raise `AssertionError` if one does not hold."""
    def __or__(self, other: PositionRangeSet, /) -> Self: ...
    def __ior__(self, other: PositionRangeSet, /) -> Self: ...
    def __sub__(self, other: PositionRangeSet, /) -> Self: ...
    def __ror__(self, other: PositionRangeSet, /) -> Self: ...
    def __rsub__(self, other: PositionRangeSet, /) -> Self: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object, /) -> Self: ...
    def __getstate__(self) -> bytes: ...
    def __setstate__(self, state: bytes, /) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[tuple[int, int, int]]: ...
    def __contains__(self, position: tuple[int, int], /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __sizeof__(self) -> int: ...

class _DelayedIndex:
    def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int, /) -> bool:
        """Add a message; return whether it was new.

        Raises `ValueError` for an integer outside int64 or outside the domain of the class.
        """
    def add_many(
        self, deliver_at_ms: ArrayLike, ledger_ids: ArrayLike, entry_ids: ArrayLike
    ) -> int:
        """Add messages given as int64 arrays of equal length; return how many were new.

        If a message is refused, nothing changes.
        """
    def pop_due(
        self, now_ms: int, max: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Remove and return up to `max` messages due at `now_ms`, the earliest first.

        Returns three int64 arrays: delivery times, ledger ids, entry ids. If memory does not suffice, raises
        `MemoryError` and removes nothing.
        """
    def contains(self, deliver_at_ms: int, ledger_id: int, entry_id: int, /) -> bool:
        """Return whether the index has a message that was added with these three integers."""
    def __contains__(self, message: tuple[int, int, int], /) -> bool: ...
    def remove(self, deliver_at_ms: int, ledger_id: int, entry_id: int, /) -> bool:
        """Remove the message that was added with these three integers; return whether it was in the index."""
    def has_due(self, now_ms: int) -> bool:
        """Return whether any message is due at `now_ms`."""
    def next_due(self) -> int | None:
        """Return the time at which the earliest message is due, or None."""
    def __len__(self) -> int: ...
    def clear(self) -> None:
        """Remove every message and release the memory."""
    def shrink_to_fit(self) -> None:
        """Release memory that is allocated and not used."""
    @property
    def nbytes(self) -> int:
        """The bytes allocated on the heap."""
    def __sizeof__(self) -> int: ...
    def to_arrays(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return every message as three int64 arrays, in the order of `pop_due`."""
    def validate(self) -> None:
        """Check the invariants; raise `AssertionError` if one does not hold."""
    def __iter__(self) -> Iterator[tuple[int, int, int]]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object, /) -> Self: ...
    def copy(self) -> Self:
        """Return an independent copy."""
    def __reduce__(self) -> tuple[object, ...]: ...

_Sets = (
    Mapping[_Pair, Sequence[int]]
    | Mapping[Position, Sequence[int]]
    | Iterable[tuple[tuple[int, int], Sequence[int]]]
)

@final
class AckSets(Mapping[Position, tuple[int, ...]]):
    """The ack sets of partly acknowledged batches: a mapping from `Position` to a tuple of words.

    Words are signed 64-bit integers, least significant bit first, without zero words at the end; a set bit marks a
    message that is not acknowledged. Methods accept signed and unsigned words, at most 16,384 for each set
    (`LimitError`); only `from_arrays` and decoded states have longer sets. A batch of up to 64 messages costs 12 to 24
    bytes. Empty and full words of larger batches cost nothing. Iteration is in order of position. It is not affected by
    later changes.

    The object records which sets changed since the last save. A removed set is not a change, because its entry is then
    acknowledged as a whole. After `clear`, the changes are unknown.

    Parameters
    ----------
    sets : mapping or iterable of pairs, optional
        The initial positions and words. A later pair replaces an earlier one.

    Examples
    --------
    >>> from ackwell import AckSets
    >>> sets = AckSets({(3, 5): [0b1111]})
    >>> sets.intersect(3, 5, [0b1010]), sets.intersect(3, 5, [0b1110]), sets[3, 5]
    (2, -1, (10,))
    >>> sets.intersect(3, 5, [0b0101]), len(sets)
    (0, 0)
    """
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __new__(cls, sets: _Sets | None = None, /) -> Self: ...
    @staticmethod
    def from_arrays(
        ledger_ids: ArrayLike, entry_ids: ArrayLike, starts: ArrayLike, words: ArrayLike
    ) -> AckSets:
        """Build the sets from int64 arrays: ledger ids, entry ids, starts, words.

        `starts` has the index of each set's first word, and ends with the number of all words. A set may have any
        number of words, because a decoded `PositionInfo` may have sets with more words than the largest batch needs.
        """
    def to_arrays(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the int64 arrays that `from_arrays` takes: ledger ids, entry ids, starts, words."""
    @overload
    def get(self, position: _Pair, default: None = None, /) -> tuple[int, ...] | None:
        """Return the words of a position, or `default`."""
    @overload
    def get(self, position: _Pair, default: _T, /) -> tuple[int, ...] | _T:
        """Return the words of a position, or `default`."""
    def __getitem__(self, position: _Pair, /) -> tuple[int, ...]: ...
    def unacked_bits(self, ledger_id: int, entry_id: int, /) -> int | None:
        """Return an integer with a bit for each unacknowledged message of an entry; None if the entry has no set."""
    def contains(self, ledger_id: int, entry_id: int, /) -> bool:
        """Return whether an entry has a set."""
    def __contains__(self, position: object, /) -> bool: ...
    def set(self, ledger_id: int, entry_id: int, words: Iterable[int]) -> bool:
        """Set the words of an entry; return whether this changed them."""
    def intersect(self, ledger_id: int, entry_id: int, words: Iterable[int]) -> int:
        """Acknowledge messages of an entry: those whose bits are clear in `words`.

        If the entry has no set, `words` become its set. Return the number of unacknowledged messages, or -1 if nothing
        changed. If the number is 0, the set is removed.
        """
    def intersect_many(
        self, ledger_ids: ArrayLike, entry_ids: ArrayLike, starts: ArrayLike, words: ArrayLike
    ) -> NDArray[np.int64]:
        """Do the same as `intersect` for each row of int64 arrays, in order; return the results as an int64 array.

        `starts` has the form that `from_arrays` accepts. If a row acknowledges the last unacknowledged message of an
        entry, later rows of this entry change nothing. If an argument is refused, no row is applied.
        """
    def replace_if_later(self, ledger_id: int, entry_id: int, words: Iterable[int]) -> bool:
        """Replace the set of an entry by `words` if they acknowledge more messages from the start of the batch.

        The first unacknowledged batch index in `words` must be higher than the one in the present set. If the entry has
        no set, `words` become its set. Returns whether the set changed. Brokers before 5.0 apply cumulative
        acknowledgments in this way.
        """
    def remove(self, ledger_id: int, entry_id: int, /) -> bool:
        """Remove the set of an entry; return whether it had one."""
    def remove_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Remove the sets of entries, given as int64 arrays of ledger and entry ids; return the number of removed sets."""
    def remove_up_to(self, ledger_id: int, entry_id: int, /) -> int:
        """Remove the sets of entries at or before a position; return the number of removed sets."""
    def remove_range(
        self, ledger_id: int, lower_entry_exclusive: int, upper_entry_inclusive: int
    ) -> int:
        """Remove the sets of entries after the lower bound up to the upper (inclusive); return how many were removed."""
    def remove_ranges(self, acked: PositionRangeSet, /) -> int:
        """Remove the sets of the entries in `acked`; return the number of removed sets. O(sets)."""
    def remove_empty(self) -> int:
        """Remove the sets without unacknowledged messages; return the number of removed sets. O(sets)."""
    def update(self, sets: _Sets, /) -> None:
        """Set the words of the entries in a mapping or an iterable of pairs."""
    def changed_from(self, older: AckSets, /) -> AckSets:
        """Return the sets that are missing from `older` or have other words there. O(sets)."""
    def clear(self) -> None:
        """Remove every set. The changes since the last save are then unknown."""
    def ledger_ids(self) -> list[int]:
        """Return the ids of the ledgers with sets, in order."""
    def longest(self) -> int:
        """Return the number of words of the longest set. O(sets)."""
    def begin_save(self) -> AckSets | None:
        """Begin a save; return the sets that changed since the previous save. O(changes).

        Return None if the changes are unknown, or if there are more than 65,536.
        """
    def end_save(self) -> None:
        """End a successful save. Changes from before `begin_save` then count as saved."""
    @property
    def moved(self) -> bool:
        """Whether a set changed since the last save began."""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Position]: ...
    def keys(self) -> KeysView[Position]:
        """Return a view of the keys."""
    def values(self) -> ValuesView[tuple[int, ...]]:
        """Return a view of the values."""
    def items(self) -> ItemsView[Position, tuple[int, ...]]:
        """Return a view of the entries as pairs of key and value."""
    @property
    def nbytes(self) -> int:
        """The bytes allocated on the heap."""
    def __sizeof__(self) -> int: ...
    def validate(self) -> None:
        """Check the invariants; raise `AssertionError` if one does not hold."""
    def __eq__(self, other: object, /) -> bool: ...
    def copy(self) -> Self:
        """Return an independent copy. The copy has no previous save, so its changes are unknown."""
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object, /) -> Self: ...
    def __reduce__(self) -> tuple[object, ...]: ...

@final
class TripleLongHeap(_DelayedIndex):
    """An exact min-heap of `(deliver_at_ms, ledger_id, entry_id)`, ordered by all three.

    Any three int64 are valid. Duplicates are separate messages. The structure is a ladder queue, not a binary heap:
    from its addition until it is popped, a message is moved O(1) times (amortised) and sorted in cache once. A
    message takes 8 to 9 bytes after bulk adds. `contains` and `remove` are O(n). The order is that of Apache
    Pulsar's `TripleLongPriorityQueue`.

    Examples
    --------
    >>> from ackwell import TripleLongHeap
    >>> heap = TripleLongHeap()
    >>> heap.add(1_000, 3, 15)
    True
    >>> heap.add_many([500, 2_000], [3, 3], [16, 17])
    2
    >>> heap.peek()
    (500, 3, 16)
    >>> [column.tolist() for column in heap.pop_due(1_500, 10)]
    [[500, 1000], [3, 3], [16, 15]]
    >>> heap
    <TripleLongHeap 1 messages>
    """
    def __new__(cls) -> Self: ...
    @staticmethod
    def from_arrays(
        deliver_at_ms: ArrayLike, ledger_ids: ArrayLike, entry_ids: ArrayLike
    ) -> TripleLongHeap:
        """Build a heap from three int64 arrays of equal length."""
    @property
    def capacity(self) -> int:
        """The number of messages that fit into the allocated memory."""
    def peek(self) -> tuple[int, int, int]:
        """Return the earliest message; `IndexError` if there is none."""
    def pop(self) -> tuple[int, int, int]:
        """Remove and return the earliest message; `IndexError` if there is none."""

_BucketMode = Literal["round_down", "round_up", "bucket_end"]

@final
class TimeBuckets(_DelayedIndex):
    """An index of delayed messages by time bucket, with a roaring set of entry ids for each bucket and ledger.

    The lowest `bits` bits (0 to 62) of a time are dropped, so that messages of nearby times compress as one set.

    Parameters
    ----------
    bits : int
        Buckets are `2**bits` ms wide.
    mode : {"round_down", "round_up", "bucket_end"}
        The time at which all messages of a bucket are due. "round_down": the multiple of `2**bits` at or before
        their time, so up to `2**bits - 1` ms early, as in apache/pulsar#23611. "round_up": the multiple at or after
        their time, so never early, as in Pulsar 4.2.4 with the strict cut-off. "bucket_end": the last ms before the
        next multiple, so never early, as in Pulsar 4.2.4 with the lenient cut-off.

    Notes
    -----
    Ledger and entry ids are at least 0 (`ValueError`). Times are int64 milliseconds; returned times are those of
    the buckets. A message is new unless its bucket already has a message with the same position.

    Examples
    --------
    >>> from ackwell import TimeBuckets
    >>> buckets = TimeBuckets(10)
    >>> buckets.add_many([5_000, 5_001, 9_000], [3, 3, 3], [15, 16, 17])
    3
    >>> buckets.add(5_100, 3, 16)
    False
    >>> buckets.next_due()
    4096
    >>> [column.tolist() for column in buckets.pop_due(4_500, 10)]
    [[4096, 4096], [3, 3], [15, 16]]
    >>> TimeBuckets.from_bytes(buckets.to_bytes()) == buckets
    True
    """
    def __new__(cls, bits: int, mode: _BucketMode = "round_down") -> Self: ...
    @staticmethod
    def from_tick(
        tick_time_ms: int, mode: _BucketMode = "round_down"
    ) -> TimeBuckets:
        """Create an index with the bucket width that the broker derives from a tick time: floor(log2(tick)) bits."""
    @property
    def bits(self) -> int:
        """The number of low bits that are dropped from each delivery time."""
    @property
    def mode(self) -> _BucketMode:
        """The mode: "round_down", "round_up" or "bucket_end"."""
    @property
    def bucket_count(self) -> int:
        """The number of buckets that hold a message."""
    @property
    def serialized_size(self) -> int:
        """The length of `to_bytes()` in bytes. O(n)."""
    def to_bytes(self) -> bytes:
        """Encode the index: magic, version, sets and checksum. See `docs/formats.md`."""
    @staticmethod
    def from_bytes(data: bytes) -> TimeBuckets:
        """Decode the bytes of `to_bytes`.

        Raises `CorruptStateError` with the offset for invalid bytes or a newer version, and `LimitError` for more
        than 2^32 messages.
        """
    def to_roaring(self, deliver_at_ms: int, ledger_id: int) -> tuple[bytes, bool] | None:
        """Return the entry ids of a ledger in the bucket of a time as `(data, wide)`.

        Return None if the bucket has no messages of the ledger. `data` is a roaring bitmap in the portable format,
        which roaring libraries read. `wide` is true for the 64-bit form, which is used if an id exceeds 32 bits.
        """
    def add_roaring(
        self, deliver_at_ms: int, ledger_id: int, data: bytes, *, wide: bool = False
    ) -> int:
        """Add a message for each entry id in a portable roaring bitmap; return how many were new.

        Raises `CorruptStateError` for bytes that are not such a bitmap.
        """

@final
class TimeWheel(_DelayedIndex):
    """An index of delayed messages in time slots, each a compressed stream. It is exact with ticks of 1 ms.

    Messages with a fixed delay take memory for each ledger, not for each message: 10 million take 4 kB. With random
    times, a message takes 2.7 bytes with ticks of a second and 4 bytes with ticks of 1 ms, near the entropy in both
    cases.

    Parameters
    ----------
    tick_ms : int
        Times are rounded up to multiples of this number, which must be at least 1. So a message is never early, and
        always less than a tick late. Times near the end of int64 saturate.

    Notes
    -----
    Ledger and entry ids are at least 0 (`ValueError`). A message is new unless its tick already has a message with
    the same position. Positions may come in any order. In ascending order they compress best. `contains`
    and `remove` decode at most 1,024 records.

    Examples
    --------
    >>> from ackwell import TimeWheel
    >>> wheel = TimeWheel(1)
    >>> wheel.add_many([5_000, 5_001, 9_000], [3, 3, 3], [15, 16, 17])
    3
    >>> wheel.add(5_001, 3, 16), wheel.remove(9_000, 3, 17)
    (False, True)
    >>> wheel.next_due()
    5000
    >>> [column.tolist() for column in wheel.pop_due(5_000, 10)]
    [[5000], [3], [15]]
    >>> TimeWheel.from_bytes(wheel.to_bytes()) == wheel
    True
    """
    def __new__(cls, tick_ms: int) -> Self: ...
    @property
    def tick_ms(self) -> int:
        """The width of a tick in milliseconds."""
    @property
    def serialized_size(self) -> int:
        """The length of `to_bytes()` in bytes. O(n)."""
    def to_bytes(self) -> bytes:
        """Encode the index: magic, version, streams and checksum. See `docs/formats.md`."""
    @staticmethod
    def from_bytes(data: bytes) -> TimeWheel:
        """Decode the bytes of `to_bytes`.

        Raises `CorruptStateError` with the offset for invalid bytes or a newer version, and `LimitError` for more
        than 2^32 messages.
        """

_Pair = tuple[int, int]

@final
class PositionInfo:
    """A persisted cursor: the mark-delete position, and the positions acknowledged after it.

    The object is immutable. `individually_deleted` and the mappings are returned as copies. `replace` returns a changed
    copy.

    Parameters
    ----------
    ledger_id, entry_id : int
        The mark-delete position: everything up to here, inclusive, is acknowledged. The entry may be -1.
    individually_deleted : PositionRangeSet or iterable of (int, int, int)
        The entries after the mark-delete position that are acknowledged as a whole.
    batch_deleted : AckSets or mapping of Position to sequence of int
        The partly acknowledged entries, each with the signed 64-bit words of a Java `BitSet`: lowest bit first,
        bit set = not yet acknowledged.
    properties : mapping of str to int
        The properties that the client sent with its last cumulative ack.
    redelivery_counts : mapping of Position to int
        The number of redeliveries of each entry. Only the form `compact` stores these numbers.
    idle_since : int, optional
        The time since which the cursor is idle, in ms since the epoch (Pulsar 5.0.1).
    spanning_ranges : iterable of (Position, Position)
        Ranges from one ledger into another, as brokers before 2.4 wrote them. Without a ledger directory, the entries
        of such a range in the lower ledgers are unknown. The part in the upper ledger is also in `individually_deleted`
        after decoding.
    unknown_fields : bytes
        Unknown Protocol Buffers fields; they are written back unchanged.

    Examples
    --------
    >>> from ackwell import PositionInfo
    >>> info = PositionInfo(3, 5, [(3, 6, 8)], batch_deleted={(3, 10): [0b1010]})
    >>> data = info.encode("pulsar-ranges")
    >>> PositionInfo.decode(data) == info, PositionInfo.decode(data).form
    (True, 'pulsar-ranges')
    >>> info.position, str(info.individually_deleted), info.batch_deleted[3, 10]
    (Position(ledger_id=3, entry_id=5), '[(3:6..3:8]]', (10,))
    """
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __new__(
        cls,
        ledger_id: int,
        entry_id: int,
        individually_deleted: PositionRangeSet | Iterable[tuple[int, int, int]] | None = None,
        batch_deleted: Mapping[_Pair, Sequence[int]] | Mapping[Position, Sequence[int]] | None = None,
        properties: Mapping[str, int] | None = None,
        *,
        redelivery_counts: Mapping[_Pair, int] | Mapping[Position, int] | None = None,
        idle_since: int | None = None,
        spanning_ranges: Iterable[tuple[_Pair, _Pair]] | None = None,
        unknown_fields: bytes | None = None,
    ) -> Self: ...
    @classmethod
    def decode(cls, data: bytes, *, max_bytes: int = 67108864) -> Self:
        """Decode a state in any form. The form is recognised by the content.

        Raises `CorruptStateError` with the offset at which reading stopped, and `LimitError` if the decoded state
        would take more than `max_bytes` of memory. Other threads run during the call.

        >>> PositionInfo.decode(bytes.fromhex("0803 1005")).position
        Position(ledger_id=3, entry_id=5)
        """
    def encode(
        self,
        form: str | None = None,
        *,
        max_ranges: int | None = None,
        max_ledgers: int | None = None,
        max_bytes: int | None = None,
        broker: str = "4.2.4",
    ) -> bytes:
        """Encode the state; raise an error if the form or a limit does not admit the whole state.

        Parameters
        ----------
        form : str, optional
            `pulsar-ranges`, `pulsar-long-array`, `pulsar-auto` or `compact`. `pulsar-auto` selects the smaller of the
            first two forms, or `pulsar-ranges` if `broker` cannot read the other. It also limits the size to the 5 MiB
            of a bookie's frame, unless `max_bytes` is given. The default is the form from which the state was decoded,
            or `pulsar-ranges` if the state was not decoded. In the form from which it was decoded, an unchanged state
            is encoded to the original bytes.
        max_ranges, max_ledgers, max_bytes : int, optional
            Limits on ranges, on ledgers with ranges, and on encoded bytes.
        broker : str
            The version of the broker that will read `pulsar-auto`.

        Raises
        ------
        StateTooLargeError
            If a limit or the form would cut the state. The attribute `report` of the exception lists the exact loss.

        >>> PositionInfo(3, 5, [(3, 6, 8)]).encode("pulsar-ranges", max_ranges=0)
        Traceback (most recent call last):
        ackwell.errors.StateTooLargeError: 2 entries in 1 ranges would be lost: 1 ranges, max_ranges = 0
        """
    def encode_with_report(
        self,
        form: str | None = None,
        *,
        max_ranges: int | None = None,
        max_ledgers: int | None = None,
        max_bytes: int | None = None,
        broker: str = "4.2.4",
    ) -> tuple[bytes, LossReport]:
        """Encode as much of the state as the form and the limits allow; return `(bytes, LossReport)`.

        If the state is cut, the ranges nearest to the mark-delete position are kept. The parameters are those of
        `encode`.

        >>> data, report = PositionInfo(3, 5, [(3, 6, 8), (3, 9, 11)]).encode_with_report(max_ranges=1)
        >>> report.entries, list(report.individually_deleted)
        (2, [(3, 9, 11)])
        """
    def replace(self, **changes: Any) -> PositionInfo:
        """Return a copy with changed values; `changes` are keyword arguments of the constructor.

        >>> PositionInfo(3, 5).replace(entry_id=6).position
        Position(ledger_id=3, entry_id=6)
        """
    @property
    def ledger_id(self) -> int:
        """The ledger of the mark-delete position."""
    @property
    def entry_id(self) -> int:
        """The entry of the mark-delete position; -1 means before the first entry of the ledger."""
    @property
    def position(self) -> Position:
        """The mark-delete position."""
    @property
    def individually_deleted(self) -> PositionRangeSet:
        """A copy of the set of entries after the mark-delete position that are acknowledged as a whole."""
    @property
    def batch_deleted(self) -> AckSets:
        """A copy of the ack sets of partly acknowledged entries, in order."""
    @property
    def properties(self) -> dict[str, int]:
        """A copy of the properties that the client sent with its last cumulative ack."""
    @property
    def redelivery_counts(self) -> dict[Position, int]:
        """A copy of the redelivery counts by position."""
    @property
    def idle_since(self) -> int | None:
        """The time since which the cursor is idle, in ms since the epoch, or None."""
    @property
    def spanning_ranges(self) -> tuple[tuple[Position, Position], ...]:
        """Ranges `(lower, upper)` from one ledger into another."""
    @property
    def unknown_fields(self) -> bytes:
        """Unknown Protocol Buffers fields."""
    @property
    def form(self) -> str | None:
        """The form from which the state was decoded, or None."""
    def validate(self) -> None:
        """Check the invariants; raise `AssertionError` if one is broken."""
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, tuple[bytes]]: ...

@final
class ManagedCursorInfo:
    """A cursor's record in the metadata store.

    Parameters
    ----------
    cursors_ledger_id : int
        The BookKeeper ledger that has newer states of the cursor than this record; -1 if this record has the state.
    position_info : PositionInfo, optional
        The part of the state that is in this record.
    last_active : int, optional
        The time of the cursor's last activity, in ms since the epoch.
    cursor_properties : dict of str to str
        Properties of the subscription.
    unknown_fields : bytes
        Unknown Protocol Buffers fields; they are written back unchanged.

    Examples
    --------
    >>> from ackwell import ManagedCursorInfo, PositionInfo
    >>> record = ManagedCursorInfo(-1, PositionInfo(3, 5, [(3, 6, 8)]))
    >>> data = record.encode(compression="ZSTD")
    >>> data[:2].hex(), ManagedCursorInfo.decode(data) == record
    ('4778', True)
    """
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __new__(
        cls,
        cursors_ledger_id: int,
        position_info: PositionInfo | None = None,
        *,
        last_active: int | None = None,
        cursor_properties: Mapping[str, str] | None = None,
        unknown_fields: bytes | None = None,
    ) -> Self: ...
    @classmethod
    def decode(cls, data: bytes, *, max_bytes: int = 67108864) -> Self:
        """Decode a value of the metadata store, with or without the header of compressed values.

        Raises `CorruptStateError` with the offset at which reading stopped. If the message was decompressed before the
        error, the offset is in the decompressed message. Raises `LimitError` if the message or the result would take
        more than `max_bytes`.
        """
    def encode(self, compression: str | None = None) -> bytes:
        """Encode the record. `compression` is NONE, LZ4, ZLIB, ZSTD or SNAPPY, and is stored in a header.

        Without `compression`, a decoded record gives the bytes from which it was decoded. A record that was not decoded
        is encoded without a header.
        """
    @property
    def cursors_ledger_id(self) -> int:
        """The BookKeeper ledger that has newer states of the cursor than this record, or -1."""
    @property
    def position_info(self) -> PositionInfo | None:
        """The part of the state that is in this record, or None."""
    @property
    def last_active(self) -> int | None:
        """The time of the cursor's last activity, in ms since the epoch, or None."""
    @property
    def cursor_properties(self) -> dict[str, str]:
        """Properties of the subscription; a copy."""
    @property
    def unknown_fields(self) -> bytes:
        """Unknown Protocol Buffers fields."""
    @property
    def compression(self) -> str | None:
        """The compression of the decoded bytes, or None if they had no header."""
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, tuple[bytes]]: ...

_Codes = tuple[NDArray[np.int32] | None, NDArray[np.int32]]

@final
class Names:
    """A table that gives each name a number, from 0 in the order of first use.

    Columns of texts have the layout of Arrow: the bytes of all texts, an int32 offset for the start of each text, and a
    last offset for the end.

    Parameters
    ----------
    names : list of str
        The initial names. They get the numbers from 0, in this order.

    Examples
    --------
    >>> import numpy as np
    >>> from ackwell._native import Names
    >>> names = Names(["a"])
    >>> names.number("b"), len(names), names[1]
    (1, 2, 'b')
    >>> names.number_many(np.array([0, 1, 2, 3], dtype=np.int32), np.frombuffer(b"bca", np.uint8)).tolist()
    [1, 2, 0]
    """

    def __new__(cls, names: list[str] | None = None) -> Self: ...
    def __len__(self) -> int: ...
    def __getitem__(self, number: int, /) -> str: ...
    def number(self, name: str) -> int:
        """Return the number that identifies a name. A new name gets the next number."""

    def number_many(self, offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return an int32 array with the number that identifies each text. New texts get new numbers.

        Raises `ValueError` for offsets outside the bytes, and for bytes that are not UTF-8. Names that were added
        before the error keep their numbers. O(bytes). The call does not detach from the interpreter, because the texts
        are not copied.
        """

    def to_arrays(self, start: int = 0) -> tuple[NDArray[np.int32], bytes]:
        """Return the names whose numbers are at least `start`: an int32 array of offsets, and the bytes of the names.

        Raises `LimitError` for more than 2 GiB of names.
        """

    def validate(self) -> None:
        """Check the invariants; raise `AssertionError` if one does not hold."""

@type_check_only
class FlawFound(TypedDict):
    file: str
    sequence: int | None
    flaw: int
    message: str

@type_check_only
class TextColumn(TypedDict):
    offsets: NDArray[np.int32]
    data: bytes

@type_check_only
class PartialRows(TypedDict):
    taken: int
    pairs: NDArray[np.int64]
    ledger_ids: NDArray[np.int64]
    states: TextColumn

@type_check_only
class AckSetColumns(TypedDict):
    offsets: NDArray[np.int32]
    keys: TextColumn
    word_offsets: NDArray[np.int32]
    words: NDArray[np.int64]
    acked: NDArray[np.int64]

@type_check_only
class LedgerColumns(TypedDict):
    offsets: NDArray[np.int32]
    ids: NDArray[np.int64]
    entries: NDArray[np.int64]

@type_check_only
class CursorColumns(TypedDict):
    taken: int
    errors: list[tuple[int, str]]
    deleted: list[int]
    integers: dict[str, NDArray[np.int64]]
    individually_deleted: TextColumn
    position_info: TextColumn
    compact: TextColumn
    batch_sizes: TextColumn
    batch_deleted: AckSetColumns
    ledgers: LedgerColumns

@final
class Partials:
    """The combined effect of events on many subscriptions. Two such objects can be merged in any order.

    The caller numbers topics and subscriptions. Subscription 0 is the topic itself; its entries belong to all
    subscriptions of the topic. In columns, the least int64 means null. Events may be fed in any order, and more than
    once. An invalid event becomes the flaw of its subscription; other subscriptions are not affected.

    Parameters
    ----------
    ordered : bool
        Store the place (file and sequence) of each acknowledgment. A seek that is applied later needs these places.
    resets_known : bool
        The caller applies every seek (`seek`) and every cleared backlog (`clear`) before it feeds events.
    batch_size_max : int
        The number of messages in the largest accepted batch.

    Examples
    --------
    >>> import numpy as np
    >>> from ackwell._native import Partials
    >>> partials = Partials()
    >>> names = np.zeros(3, dtype=np.int32), np.array([1], dtype=np.int32)
    >>> kinds = np.array([0, 0, 1], dtype=np.int32), np.array([2, 3], dtype=np.int32)  # exists, ack
    >>> partials.feed(names, names, kinds, [7, 7, 7], [0, 1, 0])
    >>> info, ledgers, sizes = partials.cursor(0)
    >>> info.position, list(ledgers)
    (Position(ledger_id=7, entry_id=0), [(7, 2)])
    """
    ACTIONS: ClassVar[list[str]]
    ACTIONS_BY_PROPERTY: ClassVar[list[list[int]]]
    FLAWS: ClassVar[list[str]]
    def __new__(
        cls, *, ordered: bool = True, resets_known: bool = False, batch_size_max: int = 1048576
    ) -> Self: ...
    def __len__(self) -> int: ...
    def pair_many(
        self, topics: NDArray[np.int32], subscriptions: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Return an int64 array with the result of `pair` for each row's (topic, subscription).

        Raises `ValueError`, and adds no pair, for columns of different lengths.
        """

    def pair(self, topic: int, subscription: int) -> int:
        """Return the number that identifies a (topic, subscription). A new pair gets a new number."""
    def names(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return two int64 arrays: the topic and the subscription of each pair, by pair number."""
    def file(self, name: str) -> int:
        """Return the number that identifies a file. A new file gets a new number; 0 is the file without a name."""
    def seek(
        self,
        pair: int,
        file: int,
        sequence: int,
        ledger_id: int,
        entry_id: int,
        ack_set: Sequence[int] | None = None,
    ) -> None:
        """Apply a seek: `ledger_id:entry_id` is read next, and earlier acknowledgments are void.

        `ack_set` has the messages of that entry that are not acknowledged. The seek is ignored if a seek with a later
        (file, sequence) is known.
        """
    def clear(self, pair: int, file: int, sequence: int, ledger_id: int, entry_id: int) -> None:
        """Apply a cleared backlog: everything up to `ledger_id:entry_id` is acknowledged."""
    def start(self, pair: int, info: PositionInfo, ledgers: Iterable[tuple[int, int]]) -> None:
        """Apply `info`, the state of a subscription before its first event, and add the known ledgers of its topic.

        If a seek is already known, it voids the acknowledgments of this state.
        """
    def set_settings(self, pair: int, file: int, sequence: int, detail: str) -> None:
        """Set the settings of a subscription, given as a JSON text.

        The call is ignored if settings with a later (file, sequence) are known.
        """
    def settings(self) -> list[tuple[int, str]]:
        """Return `(pair, JSON text)` for each pair with settings."""
    def set_ledgers(self, pair: int, ledger_ids: ArrayLike, entries: ArrayLike) -> None:
        """Set the ledgers of a pair's topic, given as ascending ids and numbers of entries.

        These ledgers replace the ledgers that are computed from the events.
        """
    def flaw(self, pair: int) -> FlawFound | None:
        """Return the flaw of a pair as a dictionary, or None.

        The keys are `file`, `sequence` (or None), `flaw` (a number of `ackwell.errors.Flaw`) and `message`.
        """
    def note_flaw(self, pair: int, file: int, sequence: int, flaw: int) -> None:
        """Record a flaw of a pair, unless a flaw with an earlier (file, sequence) is known. `flaw` is the flaw's number."""
    def is_deleted(self, pair: int) -> bool:
        """Return whether the subscription was deleted and not created again."""
    def last_published(self, pair: int) -> tuple[int, int] | None:
        """Return the last position that exists according to the events of the subscription and its topic, or None."""
    def first_flawed(self) -> int | None:
        """Return the pair whose flaw comes first by (file, sequence); None if no pair has a flaw."""
    def feed(
        self,
        topics: _Codes,
        subscriptions: _Codes,
        kinds: _Codes,
        ledger_ids: ArrayLike,
        entry_ids: ArrayLike,
        *,
        batches: tuple[ArrayLike | None, ArrayLike | None] = (None, None),
        ack_sets: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
        order: tuple[ArrayLike | None, _Codes | None] = (None, None),
    ) -> int | None:
        """Apply rows of events; return the index of the first row that is not an event, or None.

        The subscription of a row that is not an event gets a flaw. A column of names (`topics`, `subscriptions`,
        `kinds` and files) is a pair of int32 arrays, `(codes, numbers)`. `codes` has the code of each row, or is None
        if each row has code 0. `numbers[code]` is the number that identifies a name. For a kind, this number is an
        index into `ACTIONS`. Every other column is an int64 array. O(rows); other threads run during the call.

        Parameters
        ----------
        batches : (batch indexes or None, batch sizes or None), optional
            The index of each row's message in its batch, and the number of messages in the batch.
        ack_sets : (starts, ends, words), optional
            The ack set of a row is `words[start:end]`. If the start is null, the row has no ack set.
        order : (sequences or None, files or None), optional
            The sequence of each event in its file, and the file. Without files, all rows belong to file 0.

        Raises
        ------
        ValueError
            For columns of different lengths, and for codes or ack sets that are out of range. No row is applied.
        """
    def merge(self, pairs: ArrayLike, ledger_ids: ArrayLike, states: Sequence[bytes]) -> None:
        """Merge states that `encode` returned. Each row has a pair, a ledger id or null, and a state.

        Raises `CorruptStateError` for invalid bytes, and `NewerVersionError` for bytes of a newer release. In both
        cases, the states of the rows before the error are merged.
        """
    def commit_many(self, pairs: ArrayLike, transactions: NDArray[np.int32]) -> None:
        """Apply commits of transactions, given as an int64 array of pairs and an int32 array of transaction numbers.

        Raises `ValueError`, and applies no commit, for columns of different lengths and for an unknown pair.
        """
    def uncommitted_rows(
        self,
        topics: _Codes,
        subscriptions: _Codes,
        kinds: _Codes,
        transactions: _Codes,
        ledger_ids: ArrayLike,
        *,
        takes_commits: bool,
    ) -> NDArray[np.int64]:
        """Return the indexes of the rows with an acknowledgment in a transaction whose commit is not known.

        The result is an int64 array in ascending order. The columns are those of `feed`. The length of `ledger_ids` is
        the number of rows. Transaction 0 means no transaction. With `takes_commits`, the commits among the rows are
        applied first. Raises `ValueError`, and applies no commit, in the cases of `feed`. O(rows); other threads run
        during the call.
        """
    def absorb(
        self,
        other: Self,
        topics: NDArray[np.int32],
        subscriptions: NDArray[np.int32],
        transactions: NDArray[np.int32],
    ) -> None:
        """Merge all of `other` into this object, and leave `other` empty.

        `topics`, `subscriptions` and `transactions` are int32 arrays that map the numbers of `other` to the numbers in
        this object. O(size of `other`); other threads run during the call. Raises `ValueError` if a number of `other`
        is not in its mapping. Then nothing is merged, and `other` is empty.
        """
    def encode(self, start: int = 0, max_bytes: int = 4194304) -> PartialRows:
        """Return the states of pairs as a dictionary of columns, from pair number `start`, up to about `max_bytes`.

        `taken` is the number of encoded pairs. Each row has a pair, a ledger id or null, and a state. The column of
        states is int32 offsets and bytes.
        """
    def cursor(
        self, pair: int, *, batch_index_acks: bool = True
    ) -> tuple[PositionInfo, Ledgers, list[tuple[int, int, int]]]:
        """Return a pair's state: its `PositionInfo`, its `Ledgers`, and `(ledger_id, entry_id, size)` of each batch.

        Raises `ProtocolError` for a flaw, for an acknowledgment of an entry that was never published, and for a batch
        index beyond its batch or in a batch of unknown size.
        """
    def cursors(
        self, pairs: ArrayLike, whole_acks: Sequence[int] | None = None, max_bytes: int = 4194304
    ) -> CursorColumns:
        """Return the cursors of `pairs` as a dictionary of columns, and stop after about `max_bytes`.

        `taken` is the number of pairs that are returned. Each of these pairs is a row. Columns of texts, bytes and
        lists have int32 offsets. `errors` has `(row, message)` for each pair without a cursor. `deleted` has the rows
        of deleted subscriptions. For the pairs in `whole_acks`, acknowledgments of single batch indexes are ignored.
        For each ack set, `acked` has the number of acknowledged messages in its batch; the value -n - 1 means at least
        n.
        """

@final
class TraceReader:
    """A reader of JSON lines. It returns columns of events for `Partials.feed`.

    Parameters
    ----------
    kinds : list of (str, bool, bool)
        The kinds of events, each with two flags: whether an event of the kind may apply to a whole topic, and whether
        it must name a transaction. The kinds in the columns are indexes into this list.
    """
    def __new__(cls, kinds: Sequence[tuple[str, bool, bool]]) -> Self: ...
    def set_defaults(self, topic: str | None = None, subscription: str | None = None) -> None:
        """Set the topic and the subscription of lines that do not name them. Call it at the start of each trace."""
    def names(self, starts: list[int]) -> list[list[str]]:
        """Return three lists of names: topics, subscriptions and transactions.

        `starts` has one number for each list. Names with lower numbers are left out.
        """
    def fields(self, line: bytes) -> dict[str, Any] | str | None:
        """Return all fields of one line under their full names, without nulls. Return `None` for a blank line.

        The line may contain escapes and unknown fields. If it is not a JSON object, or contains a field twice, the
        result is the reason as a text.
        """
    def read(
        self, data: bytes, start: int, end: int, line: int
    ) -> tuple[int, int, tuple[int, dict[str, Any] | str] | None, dict[str, NDArray[Any]]]:
        """Read the lines of `data[start:end]`, and stop before the first line that is not plain.

        `line` is the number of the first line. Returns the number of bytes read, the number of lines read, the line
        that is not plain (or None), and a dictionary of columns. The line that is not plain is a pair: the offset of
        its end in `data`, and the result of `fields`. Other threads run during the call.
        """

def compress(data: bytes, compression: str) -> bytes:
    """Compress bytes as NONE, LZ4 (a block), ZLIB, ZSTD (a frame) or SNAPPY (a raw block).

    >>> from ackwell._native import compress, decompress
    >>> decompress(compress(bytes(1000), "ZSTD"), "ZSTD", 1000) == bytes(1000)
    True
    """
def crc32c(data: bytes, crc: int = 0) -> int:
    """Return the CRC-32C of `data`. With the checksum of earlier bytes as `crc`, return the CRC-32C of all bytes.

    O(bytes). The call does not detach from the interpreter, because detaching takes longer than the checksum of a
    message.

    >>> from ackwell._native import crc32c
    >>> hex(crc32c(b"123456789")), crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
    ('0xe3069283', True)
    """
def decode_command_ack(data: bytes) -> AckFields:
    """Decode the bytes of a `CommandAck` into columns.

    Raises `CorruptStateError` with the offset for bytes that are not a command, `LimitError` for a batch that is too
    large. O(bytes).

    >>> from ackwell._native import decode_command_ack
    >>> fields = decode_command_ack(bytes([8, 1, 16, 0, 26, 4, 8, 3, 16, 5]))
    >>> fields.consumer_id, fields.ledger_ids, fields.entry_ids
    (1, array([3]), array([5]))
    """
def decompress(data: bytes, compression: str, size: int, max_bytes: int = 67108864) -> bytes:
    """Decompress bytes to exactly `size` bytes.

    Raises `CorruptStateError` if the result has another size, and `LimitError` if `size` is more than `max_bytes`. The
    call takes at most twice the memory of the result.
    """
