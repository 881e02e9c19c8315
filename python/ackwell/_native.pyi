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

    A cursor needs it to step over ledger borders, as Pulsar's `ManagedLedgerImpl` does, and to count the
    entries between two positions. At most the greatest ledger is open.

    Parameters
    ----------
    entries : mapping or iterable of (int, int)
        Ledger id to number of entries, in any order.
    open : bool
        Whether the greatest ledger is still written to.
    trimmed_before : int
        Every ledger below this id is trimmed: deleted with its entries. Its id is never used again.

    Raises
    ------
    ValueError
        For a negative number or a ledger named twice.
    ProtocolError
        For a ledger below `trimmed_before`.
    LimitError
        For more than 2**63 - 1 entries in all.

    Notes
    -----
    With n ledgers, adding and growing the greatest take O(1), growing another O(sqrt n), every query O(log n); 16 to
    32 bytes a ledger.

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
        """Add a new greatest ledger and open it; the one before closes.

        Raises `ProtocolError` unless it is greater than every ledger known, trimmed ones included. O(1).

        >>> ledgers = Ledgers({2: 16})
        >>> ledgers.add(5)
        >>> ledgers.state(2), ledgers.state(5)
        ('closed', 'open')
        """
    def grow(self, ledger_id: int, entries: int) -> None:
        """Set the number of entries of a ledger that may grow; never reopens a ledger.

        A ledger greater than all known opens and closes the one before; a smaller one is added as closed. Raises
        `ProtocolError` for a trimmed ledger, and for fewer entries than it holds. O(1) for the greatest, O(sqrt n)
        for another of n.
        """
    def close(self, ledger_id: int) -> None:
        """Close a ledger; the next to open is a new one. Raises `KeyError` if it is not kept."""
    def trim_before(self, ledger_id: int) -> int:
        """Remove every ledger below `ledger_id` and return their number; they then count as trimmed.

        Raises `ProtocolError` if the open ledger would go: a broker never trims the ledger it writes.

        >>> ledgers = Ledgers({2: 16, 3: 0, 5: 10})
        >>> ledgers.trim_before(5)
        2
        >>> ledgers.state(2)
        'trimmed'
        """
    def entries(self, ledger_id: int) -> int:
        """Return the number of entries of a ledger; `KeyError` if it is not kept. O(log n)."""
    def state(self, ledger_id: int) -> Literal["open", "closed", "trimmed"]:
        """Return whether a ledger is "open", "closed" or "trimmed"; `KeyError` if it is unknown.

        Ledger ids only grow, so every one below `trimmed_before` counts as trimmed.
        """
    def next_valid(self, ledger_id: int, entry_id: int) -> Position:
        """Return the first existing entry after a position, over ledger borders and empty ledgers. O(log n).

        Past the last entry it is the position of the next entry: after the end of the open ledger, or, if no ledger
        is open, after the last entry that exists. The position may have any ledger id >= 0 and entry id >= -1; one in
        an unknown or trimmed ledger is between its neighbours. Raises `ProtocolError` while no ledger is kept.
        (Pulsar: `getNextValidPosition`.)

        >>> Ledgers({2: 16, 3: 0, 5: 10}).next_valid(5, 9)
        Position(ledger_id=5, entry_id=10)
        """
    def previous_valid(self, ledger_id: int, entry_id: int) -> Position:
        """Return the last existing entry before a position, over ledger borders and empty ledgers. O(log n).

        Before the first entry it is entry -1 of the first ledger kept, or of the position's own if that is
        smaller. Positions as in `next_valid`. (Pulsar: `getPreviousPosition`.)

        >>> Ledgers({2: 16, 3: 0, 5: 10}).previous_valid(5, 0)
        Position(ledger_id=2, entry_id=15)
        """
    def entries_between(
        self, lower_exclusive: tuple[int, int], upper_inclusive: tuple[int, int]
    ) -> int:
        """Count the entries that exist in `(lower_exclusive, upper_inclusive]`. O(log n).

        Bounds are places in the order of positions, as in `next_valid`: they need not exist, and unknown and trimmed
        entries are not counted. For a lower bound at or past the upper, 0.
        """
    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Whether a position is an entry that exists. O(log n)."""
    def contains_all(self, ledger_ids: ArrayLike, entry_ids: ArrayLike, passed: tuple[int, int]) -> bool:
        """Whether each position of two int64 arrays is an entry that exists, or is at or before `passed`.

        False for a negative id. `passed` is a bound as in `entries_between`.

        >>> ledgers = Ledgers({2: 16, 5: 10}, trimmed_before=2)
        >>> ledgers.contains_all([1, 5], [40, 9], (1, 50)), ledgers.contains_all([5], [10], (1, 50))
        (True, False)
        """
    @property
    def first_position(self) -> Position | None:
        """The place before every entry: entry -1 of the first ledger kept; None without ledgers."""
    @property
    def last_position(self) -> Position | None:
        """The last entry that exists; without entries, `first_position`."""
    @property
    def trimmed_before(self) -> int:
        """Every ledger below this id is trimmed."""
    @property
    def total_entries(self) -> int:
        """The number of entries that exist, in all ledgers kept."""
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
    """A hash map from int64 to int64: a mapping that costs 18 to 24 bytes an entry, without objects.

    Every key and value of int64 is legal. Scalar methods are O(1). Removing leaves no tombstones, so time and bytes
    depend only on the content. The order of iteration is not defined. It is the counterpart of Apache Pulsar's
    `Long2LongOpenHashMap`.

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
        """Build a map of two int64 arrays of one length."""
    @overload
    def get(self, key: int, default: None = None, /) -> int | None:
        """Return the value of `key`, or `default`."""
    @overload
    def get(self, key: int, default: int, /) -> int:
        """Return the value of `key`, or `default`."""
    def put(self, key: int, value: int, /) -> int | None:
        """Set the value of `key`; return the one before, or None."""
    def put_if_absent(self, key: int, value: int, /) -> int | None:
        """Set the value of `key` if it has none, and return None; otherwise return its value."""
    def add_to(self, key: int, delta: int, /) -> int | None:
        """Add `delta` to the value of `key` and return the sum; None, and nothing changes, if the key is missing.

        `ValueError`, and nothing changes, if the sum is outside int64.
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
        """Set the values of a mapping or of pairs; nothing changes if one is refused."""
    def pop(self, key: int, /, *default: _T) -> int | _T:
        """Remove `key` and return its value, or `default` if one is given; `KeyError` otherwise."""
    def popitem(self) -> tuple[int, int]:
        """Remove any entry and return its key and value; `KeyError` if the map is empty."""
    def setdefault(self, key: int, default: int, /) -> int:
        """Return the value of `key`, which is set to `default` if the key is missing."""
    def put_many(self, keys: ArrayLike, values: ArrayLike) -> int:
        """Set the values of keys given as int64 arrays of one length; return how many keys were new."""
    def get_many(self, keys: ArrayLike, default: int = 0) -> NDArray[np.int64]:
        """Return the values of an int64 array of keys, with `default` for missing keys."""
    def contains_many(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Return a bool array: whether each key of an int64 array is in the map."""
    def remove_many(self, keys: ArrayLike) -> int:
        """Remove the keys of an int64 array; return how many were in the map."""
    def to_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all keys and their values as two int64 arrays."""
    def clear(self) -> None:
        """Remove every entry and release the memory."""
    def reserve(self, additional: int, /) -> None:
        """Make room for `additional` more entries; `MemoryError`, and nothing changes, if memory does not suffice."""
    def shrink_to_fit(self) -> None:
        """Release memory that the entries do not need."""
    @property
    def capacity(self) -> int:
        """The entries that fit into the memory allocated now."""
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

    Its words are Pulsar's `ack_set` and the values of its long-array form. Bits below 0 are a `ValueError`. Setting a
    bit at or past the limit is a `LimitError`, and a `MemoryError` if memory does not suffice. A refused call changes
    nothing.

    Parameters
    ----------
    bits : iterable of int, optional
        The bits set at first.
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
        """Build a set of signed 64-bit words in the order of Java's `BitSet.valueOf(long[])`."""
    def to_words(self) -> NDArray[np.int64]:
        """Return the words as a signed int64 array, as Java's `BitSet.toLongArray`: no zero word at the end."""
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
        """Set the bits of an int64 array; return how many were clear. Nothing changes if one is refused."""
    def get_many(self, bits: ArrayLike) -> NDArray[np.bool_]:
        """Return a bool array: whether each bit of an int64 array is set."""
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

    Semantics are those of Apache Pulsar's `PendingAcksMap`. Ids are any int64, `remaining` is 0 to 2**31 − 1
    (0 is a value, not an absence), `sticky_key_hash` is 32 signed bits; anything else is a `ValueError`.
    Iteration is in order of position, over the entries as they are when it begins. Scalar methods are O(1),
    `len` too; dense windows of entries cost 0.5 to 9 bytes an entry, sparse ones up to 24.

    Handlers and callbacks run while nothing is locked and may call any method. All entries that a call removes are
    gone when the first handler or callback runs. If one raises, its entry and those after it are
    pending again, and the caller gets the exception.

    Parameters
    ----------
    entries : mapping or iterable of pairs, optional
        The initial entries: positions and `(remaining, sticky_key_hash)`. No handler is called.
    add_handler : callable, optional
        `add_handler(ledger_id, entry_id, sticky_key_hash)` is called before each add; a false result refuses it.
    remove_handler : RemoveHandler, optional
        `handle_removing(ledger_id, entry_id, sticky_key_hash, closing)` is called with each entry removed, between
        `start_batch()` and `end_batch()` if a call can remove more than one.

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
        """Build a map, without handlers, of four int64 arrays of one length."""
    def add(
        self, ledger_id: int, entry_id: int, remaining: int = 1, sticky_key_hash: int = 0
    ) -> bool:
        """Add or replace an entry; return whether it was allowed.

        False, and nothing changes, once the map is closed or if the add handler refuses.
        """
    def add_many(
        self,
        ledger_ids: ArrayLike,
        entry_ids: ArrayLike,
        remaining: ArrayLike,
        sticky_key_hashes: ArrayLike,
    ) -> int:
        """Add or replace entries given as int64 arrays of one length; return how many were allowed.

        Nothing changes if an argument is refused.
        """
    def contains(self, ledger_id: int, entry_id: int, /) -> bool:
        """Return whether an entry is pending."""
    def __contains__(self, position: object, /) -> bool: ...
    def contains_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> NDArray[np.bool_]:
        """Return a bool array: whether each position of two int64 arrays is pending."""
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
        """Return two int64 arrays: remaining counts, −1 if not pending, and sticky-key hashes, 0 if not."""
    def __getitem__(self, position: tuple[int, int], /) -> PendingAck: ...
    def update_remaining(self, ledger_id: int, entry_id: int, acked: int, /) -> bool:
        """Subtract `acked` from an entry's remaining count; return whether the count changed.

        False, and nothing changes, if the entry is not pending or the count would leave 0 to 2**31 − 1. At 0
        the entry stays until it is removed.
        """
    def lower_many(
        self, ledger_ids: ArrayLike, entry_ids: ArrayLike, remaining: ArrayLike
    ) -> NDArray[np.int64]:
        """Lower the remaining counts of entries to those of an int64 array, in order; return an int64 array.

        It has the difference of each count: 0 if the count is not greater, -1 if the entry is not pending.
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
        """Remove every entry up to and with a position; return how many there were. O(pages of 64 entries).

        `callback(ledger_id, entry_id, remaining, sticky_key_hash)` is called with each, in order.
        """
    def take_all_up_to(
        self, ledger_id: int, entry_id: int, /
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Remove every entry up to and with a position; return them, in order, as four int64 arrays.

        Returns ledger ids, entry ids, remaining counts and sticky-key hashes.
        """
    def for_each(self, callback: EntryCallback, /) -> None:
        """Call `callback(ledger_id, entry_id, remaining, sticky_key_hash)` with every entry, in order.

        The entries are those at the time of the call, whatever the callback changes.
        """
    def for_each_and_clear(self, callback: EntryCallback, /) -> None:
        """Remove every entry, calling `callback` as `for_each` does."""
    def for_each_and_close(self, callback: EntryCallback, /) -> None:
        """Refuse every later add, then remove every entry, calling `callback` as `for_each` does."""
    def clear(self) -> None:
        """Remove every entry; the remove handler is called with each."""
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
        """Return a map of the same entries, closed if this one is, without handlers."""
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object, /) -> Self: ...
    def __reduce__(self) -> tuple[object, ...]: ...

@final
class PositionRangeSet:
    """Acknowledged positions, kept as open-closed ranges ledger by ledger: Pulsar's individually deleted messages.

    `len` and iteration go by ranges `(ledger_id, lower_entry_exclusive, upper_entry_inclusive)`, as Pulsar prints
    them: ranges never span ledgers, and entries 0 to 5 are `(-1, 5]`. `in`, `cardinality` and `positions` go by
    positions. Each ledger is stored as one range, a window of bits or a tree of ranges, whichever is smallest, so
    neither a hole at every second entry nor entries 0 and 2**40 cost much.

    Parameters
    ----------
    ranges : iterable of (int, int, int)
        Ranges to begin with, in any order, overlapping or not.

    Notes
    -----
    Adds and look-ups take O(log l) for l ledgers, and O(log r) more in a ledger of r far ranges.

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
        """Read the notation of `stats-internal`, which `str` writes.

        Accepts also spaces between ranges and `‥` for `..`, as Guava prints them, and ranges in any order.
        Raises `CorruptStateError` with the offset of the byte that does not belong, and for a range across ledgers.

        >>> len(PositionRangeSet.parse("[(3:-1..3:5],(3:7..3:9]]"))
        2
        """
    def add(self, ledger_id: int, entry_id: int) -> bool:
        """Add a position; False if it was there. Raises `ValueError` for a negative id."""
    def add_range(
        self, ledger_id: int, lower_entry_exclusive: int, upper_entry_inclusive: int
    ) -> int:
        """Add the entries after `lower_entry_exclusive` up to `upper_entry_inclusive`; return how many are new.

        Equal bounds add nothing. Raises `ValueError` for a lower bound below -1 or above the upper.
        """
    def add_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Add the positions of two int64 arrays and return how many are new.

        Raises `ValueError` for a negative id or different lengths, and then adds nothing. Neighbours of one
        ledger share its look-up.

        >>> PositionRangeSet().add_many([3, 3, 3, 4], [0, 1, 1, 0])
        3
        """
    def add_ranges(
        self, ledger_ids: ArrayLike, lowers_exclusive: ArrayLike, uppers_inclusive: ArrayLike
    ) -> int:
        """Add the ranges of three int64 arrays, as `add_range`; return how many positions are new."""
    def add_words(self, ledger_id: int, words: ArrayLike) -> int:
        """Add the bits of one ledger, in the order of Java's `BitSet.toLongArray`; return how many are new.

        Entry 64 * i + b is bit b, from the lowest, of word i of the int64 array; a set bit is acknowledged.

        >>> acked = PositionRangeSet()
        >>> acked.add_words(3, [0b1011, -1])
        67
        >>> str(acked)
        '[(3:-1..3:1],(3:2..3:3],(3:63..3:127]]'
        """
    def remove(self, ledger_id: int, entry_id: int) -> bool:
        """Remove a position; False if it was not there."""
    def remove_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Remove the positions of two int64 arrays and return how many were there.

        >>> acked = PositionRangeSet([(3, -1, 9)])
        >>> acked.remove_many([3, 3, 4], [0, 0, 0])
        1
        """
    def remove_range(
        self, ledger_id: int, lower_entry_exclusive: int, upper_entry_inclusive: int
    ) -> int:
        """Remove the entries after `lower_entry_exclusive` up to `upper_entry_inclusive`; return how many there were.

        Raises `ValueError` as `add_range`.

        >>> acked = PositionRangeSet([(3, -1, 9)])
        >>> acked.remove_range(3, 4, 6)
        2
        >>> str(acked)
        '[(3:-1..3:4],(3:6..3:9]]'
        """
    def remove_up_to(self, ledger_id: int, entry_id: int) -> int:
        """Remove every position at or before this one and return how many there were.

        The remaining positions are not moved, so a mark-delete position may advance entry by entry.
        """
    def clear(self) -> None:
        """Remove everything."""
    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether a position is acknowledged; False for an invalid position."""
    def contains_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> NDArray[np.bool_]:
        """Return a bool array: whether each position of two int64 arrays is acknowledged.

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
        """Return the bits of one ledger as an int64 array in the order of Java's `BitSet.toLongArray`.

        Trailing zero words are dropped; an unknown ledger has none. Raises `LimitError` if an entry is at
        2**31 or above, past what a Java `BitSet` can hold.

        >>> PositionRangeSet([(3, -1, 1), (3, 2, 3)]).words_of(3)
        array([11])
        """
    def first_range(self) -> tuple[int, int, int] | None:
        """Return the first range; None for an empty set."""
    def range_containing(self, ledger_id: int, entry_id: int) -> tuple[int, int, int] | None:
        """Return the range that a position is in; None if it is not acknowledged.

        >>> PositionRangeSet([(3, -1, 5)]).range_containing(3, 2)
        (3, -1, 5)
        """
    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """Iterate over the ranges in order, as they are now; later changes have no effect."""
    def positions(self) -> Iterator[Position]:
        """Iterate over the positions in order, as they are now.

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
        """Return an independent copy. It costs as much as copying its memory."""
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
        """Add messages given as int64 arrays of one length; return how many were new.

        Nothing changes if one is refused.
        """
    def pop_due(
        self, now_ms: int, max: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Take up to `max` messages due at `now_ms`, the earliest first.

        Return three int64 arrays of one length: delivery times, ledger ids, entry ids. Raises `MemoryError`,
        and takes nothing, if memory does not suffice.
        """
    def contains(self, deliver_at_ms: int, ledger_id: int, entry_id: int, /) -> bool:
        """Return whether a message added with these three integers is in the index."""
    def __contains__(self, message: tuple[int, int, int], /) -> bool: ...
    def remove(self, deliver_at_ms: int, ledger_id: int, entry_id: int, /) -> bool:
        """Remove a message, given with the time of its addition; return whether it was in the index."""
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
        """Check the invariants; `AssertionError` names the one that is broken."""
    def __iter__(self) -> Iterator[tuple[int, int, int]]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __copy__(self) -> Self: ...
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
    (`LimitError`). A batch of up to 64 messages costs 12 to 24 bytes; empty and full words of larger batches cost
    nothing. Iteration is in order of position, over the sets as they are when it begins.

    The sets that changed since the last save are marked. A set is removed because its entry is acknowledged, so removed
    sets are not changes, except those that `clear` removes.

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
        """Build the sets of int64 arrays: ledger ids, entry ids, the start of each set's words and the end of all, words."""
    def to_arrays(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return int64 arrays: ledger ids, entry ids, the start of each set's words and the end of all, words."""
    @overload
    def get(self, position: _Pair, default: None = None, /) -> tuple[int, ...] | None:
        """Return the words of a position, or `default`."""
    @overload
    def get(self, position: _Pair, default: _T, /) -> tuple[int, ...] | _T:
        """Return the words of a position, or `default`."""
    def __getitem__(self, position: _Pair, /) -> tuple[int, ...]: ...
    def unacked_bits(self, ledger_id: int, entry_id: int, /) -> int | None:
        """Return the messages of an entry that are not acknowledged as bits of an integer; None without a set."""
    def contains(self, ledger_id: int, entry_id: int, /) -> bool:
        """Return whether an entry has a set."""
    def __contains__(self, position: object, /) -> bool: ...
    def set(self, ledger_id: int, entry_id: int, words: Iterable[int]) -> bool:
        """Set the words of an entry; return whether this changed them."""
    def intersect(self, ledger_id: int, entry_id: int, words: Iterable[int]) -> int:
        """Acknowledge the messages of an entry whose bit is clear. An entry without a set gets the words.

        Return the number of messages that are left, or -1 if nothing changed. With 0 left, the set is removed.
        """
    def intersect_many(
        self, ledger_ids: ArrayLike, entry_ids: ArrayLike, starts: ArrayLike, words: ArrayLike
    ) -> NDArray[np.int64]:
        """Do the same as `intersect` for each row of int64 arrays, in order; return the results.

        `starts` has the start of each row's words and the end of all. An entry without messages left is acknowledged,
        so later rows of it change nothing. Nothing changes if an argument is refused.
        """
    def replace_if_later(self, ledger_id: int, entry_id: int, words: Iterable[int]) -> bool:
        """Set the words of an entry if their first message has a higher batch index than that of its set, or if it has
        none; return whether this changed the set. Brokers before 5.0 treat cumulative acknowledgments like this.
        """
    def remove(self, ledger_id: int, entry_id: int, /) -> bool:
        """Remove the set of an entry; return whether it had one."""
    def remove_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Remove the sets of the positions of two int64 arrays; return how many there were."""
    def remove_up_to(self, ledger_id: int, entry_id: int, /) -> int:
        """Remove the sets of entries at or before a position; return how many there were."""
    def remove_range(
        self, ledger_id: int, lower_entry_exclusive: int, upper_entry_inclusive: int
    ) -> int:
        """Remove the sets of entries after `lower` and up to `upper`; return how many there were."""
    def remove_ranges(self, acked: PositionRangeSet, /) -> int:
        """Remove the sets of acknowledged entries; return how many there were. O(sets)."""
    def remove_empty(self) -> int:
        """Remove the sets without messages; return how many there were. O(sets)."""
    def update(self, sets: _Sets, /) -> None:
        """Set the words of many entries, of a mapping or an iterable of pairs."""
    def changed_from(self, older: AckSets, /) -> AckSets:
        """Return the sets that `older` does not have, or has with other words. O(sets)."""
    def clear(self) -> None:
        """Remove every set. The changes since the last save are then unknown."""
    def ledger_ids(self) -> list[int]:
        """Return the ids of the ledgers with sets, in order."""
    def longest(self) -> int:
        """Return the number of words of the longest set. O(sets)."""
    def begin_save(self) -> AckSets | None:
        """Begin a save. Return the sets that changed since the previous save; None if they are unknown or more than
        65,536. O(changes).
        """
    def end_save(self) -> None:
        """End a save that succeeded: the changes before it began are saved."""
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
        """Return the same sets. The copy has no saves, so its changes are unknown."""
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object, /) -> Self: ...
    def __reduce__(self) -> tuple[object, ...]: ...

@final
class TripleLongHeap(_DelayedIndex):
    """An exact min-heap of `(deliver_at_ms, ledger_id, entry_id)`, ordered by all three.

    Any three int64 are legal, and duplicates count. Adding and popping take O(1) amortised moves of a
    message plus one sort in cache: it is a ladder queue, not a binary heap, and 8 to 9 bytes a
    message after bulk adds. `contains` and `remove` are O(n). The order is that of Apache Pulsar's
    `TripleLongPriorityQueue`.

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
        """Build a heap of three int64 arrays of one length."""
    @property
    def capacity(self) -> int:
        """The messages that fit into the memory allocated now."""
    def peek(self) -> tuple[int, int, int]:
        """Return the earliest message; `IndexError` if there is none."""
    def pop(self) -> tuple[int, int, int]:
        """Remove and return the earliest message; `IndexError` if it is empty."""

_BucketMode = Literal["round_down", "round_up", "bucket_end"]

@final
class TimeBuckets(_DelayedIndex):
    """Delayed messages by time bucket: bucket → ledger → roaring set of entry ids.

    A time loses its lowest `bits` bits (0 to 62), so that messages of nearby times compress as one set.

    Parameters
    ----------
    bits : int
        Buckets are `2**bits` ms wide.
    mode : {"round_down", "round_up", "bucket_end"}
        The time at which all messages of a bucket are due. "round_down": at the multiple of `2**bits` at or
        before their time,
        up to `2**bits - 1` ms early, as apache/pulsar#23611 did. "round_up": at the multiple at or after, never
        early, as Pulsar 4.2.4 does with the strict cut-off. "bucket_end": at the last ms before the next
        multiple, never early, as 4.2.4 does with the lenient cut-off.

    Notes
    -----
    Ledger and entry ids are at least 0 (`ValueError`). Times are int64 milliseconds; returned times are those of
    the buckets. A message is new if no message of its bucket has its position.

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
        """Derive the width from a tick time as the broker does: floor(log2(tick)) bits."""
    @property
    def bits(self) -> int:
        """The number of low bits that are cut off from each delivery time."""
    @property
    def mode(self) -> _BucketMode:
        """"round_down", "round_up" or "bucket_end"."""
    @property
    def bucket_count(self) -> int:
        """The number of buckets that hold a message."""
    @property
    def serialized_size(self) -> int:
        """The length of `to_bytes()`, in O(n)."""
    def to_bytes(self) -> bytes:
        """Save: magic, version, sets and checksum; see `docs/formats.md`."""
    @staticmethod
    def from_bytes(data: bytes) -> TimeBuckets:
        """Restore what `to_bytes` saved.

        Raises `CorruptStateError` with the offset for invalid bytes or a newer version, and `LimitError` for more
        than 2^32 messages.
        """
    def to_roaring(self, deliver_at_ms: int, ledger_id: int) -> tuple[bytes, bool] | None:
        """Return `(data, wide)`: the entry ids of a ledger in a time's bucket as portable roaring, or None.

        `wide` marks the 64-bit form, taken if an id passes 32 bits. Any roaring library reads both.
        """
    def add_roaring(
        self, deliver_at_ms: int, ledger_id: int, data: bytes, *, wide: bool = False
    ) -> int:
        """Add the entry ids of a portable roaring bitmap; return how many were new.

        Raises `CorruptStateError` for bytes that are not such a bitmap.
        """

@final
class TimeWheel(_DelayedIndex):
    """Delayed messages in slots of time, each a compressed stream; exact with ticks of 1 ms.

    Regular traffic costs only its ledgers (10 million messages of a fixed delay: 4 kB), random
    times 2.7 bytes a message with ticks of a second and 4 with ticks of 1 ms, near the entropy of both.

    Parameters
    ----------
    tick_ms : int
        Times are rounded up to multiples of this, at least 1, saturating: never early, less than a tick late.

    Notes
    -----
    Ledger and entry ids are at least 0 (`ValueError`). A message is new if no message of its tick has its
    position. Positions may come in any order; in ascending order they compress and cost least.
    `contains` and `remove` decode at most 1,024 records.

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
        """The length of `to_bytes()`, in O(n)."""
    def to_bytes(self) -> bytes:
        """Save: magic, version, streams and checksum; see `docs/formats.md`."""
    @staticmethod
    def from_bytes(data: bytes) -> TimeWheel:
        """Restore what `to_bytes` saved.

        Raises `CorruptStateError` with the offset for invalid bytes or a newer version, and `LimitError` for more
        than 2^32 messages.
        """

_Pair = tuple[int, int]

@final
class PositionInfo:
    """A persisted cursor: the mark-delete position and everything acknowledged beyond it.

    An immutable value. `individually_deleted` and the mappings are returned as copies; `replace` makes a changed
    value.

    Parameters
    ----------
    ledger_id, entry_id : int
        The mark-delete position: everything up to here, inclusive, is acknowledged. The entry may be -1.
    individually_deleted : PositionRangeSet or iterable of (int, int, int)
        Whole entries acknowledged beyond it.
    batch_deleted : AckSets or mapping of Position to sequence of int
        Entries of which a part is acknowledged: signed 64-bit words of a Java `BitSet`, lowest bit first,
        bit set = not yet acknowledged.
    properties : mapping of str to int
        The properties that the client sent with its last cumulative ack.
    redelivery_counts : mapping of Position to int
        The number of redeliveries of an entry. Only the form `compact` holds it.
    idle_since : int, optional
        The time since which the cursor is idle, in ms since the epoch (Pulsar 5.0.1).
    spanning_ranges : iterable of (Position, Position)
        Ranges over a ledger's end, as brokers before 2.4 wrote them. Which entries of the lower ledgers
        they hold depends on the ledgers; their part in the upper ledger also is in
        `individually_deleted` after decoding.
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
        """Read a state in any form, recognised by its content.

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
        """Encode the state; raise an error if the form or a limit cannot hold all of it.

        Parameters
        ----------
        form : str, optional
            `pulsar-ranges`, `pulsar-long-array`, `pulsar-auto` (the smaller of both that `broker` reads, at most
            the 5 MiB of a bookie's frame) or `compact`. Without one: the form it was decoded from, else
            `pulsar-ranges`. An unchanged decoded state returns the bytes it came from.
        max_ranges, max_ledgers, max_bytes : int, optional
            Limits on ranges, on ledgers with ranges, and on encoded bytes.
        broker : str
            The version of the broker that will read `pulsar-auto`.

        Raises
        ------
        StateTooLargeError
            If a limit or the form would cut the state; its `report` lists the exact loss.

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

        A cut keeps the first ranges, which are nearest to the mark-delete position. Parameters as for `encode`.

        >>> data, report = PositionInfo(3, 5, [(3, 6, 8), (3, 9, 11)]).encode_with_report(max_ranges=1)
        >>> report.entries, list(report.individually_deleted)
        (2, [(3, 9, 11)])
        """
    def replace(self, **changes: Any) -> PositionInfo:
        """Return a changed copy; `changes` are arguments of the constructor.

        >>> PositionInfo(3, 5).replace(entry_id=6).position
        Position(ledger_id=3, entry_id=6)
        """
    @property
    def ledger_id(self) -> int:
        """The ledger of the mark-delete position."""
    @property
    def entry_id(self) -> int:
        """The entry of the mark-delete position, -1 before the first."""
    @property
    def position(self) -> Position:
        """The mark-delete position."""
    @property
    def individually_deleted(self) -> PositionRangeSet:
        """Whole entries acknowledged beyond it; a copy."""
    @property
    def batch_deleted(self) -> AckSets:
        """Entries of which a part is acknowledged, in order, with their words; a copy."""
    @property
    def properties(self) -> dict[str, int]:
        """The properties that the client sent with its last cumulative ack; a copy."""
    @property
    def redelivery_counts(self) -> dict[Position, int]:
        """The numbers of redeliveries of entries; a copy."""
    @property
    def idle_since(self) -> int | None:
        """The time since which the cursor is idle, in ms since the epoch, or None."""
    @property
    def spanning_ranges(self) -> tuple[tuple[Position, Position], ...]:
        """Ranges `(lower, upper)` over a ledger's end."""
    @property
    def unknown_fields(self) -> bytes:
        """Unknown Protocol Buffers fields."""
    @property
    def form(self) -> str | None:
        """The form it was decoded from, or None."""
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
        The BookKeeper ledger with the cursor's newer states, -1 if the state is in this record.
    position_info : PositionInfo, optional
        The state as far as this record holds it.
    last_active : int, optional
        When the cursor was last active, in ms since the epoch.
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
        """Read a value of the metadata store, with or without the header of compressed values.

        Raises `CorruptStateError` with the offset at which reading stopped (in the decompressed message, if the error
        is there), and `LimitError` if the message or the result would take more than `max_bytes`.
        """
    def encode(self, compression: str | None = None) -> bytes:
        """Write the value; `compression` is NONE, LZ4, ZLIB, ZSTD or SNAPPY, each with the header.

        By default, a decoded record is written as the same bytes, any other without a header.
        """
    @property
    def cursors_ledger_id(self) -> int:
        """The BookKeeper ledger with the cursor's newer states, or -1."""
    @property
    def position_info(self) -> PositionInfo | None:
        """The state as far as this record holds it, or None."""
    @property
    def last_active(self) -> int | None:
        """When the cursor was last active, in ms since the epoch, or None."""
    @property
    def cursor_properties(self) -> dict[str, str]:
        """Properties of the subscription; a copy."""
    @property
    def unknown_fields(self) -> bytes:
        """Unknown Protocol Buffers fields."""
    @property
    def compression(self) -> str | None:
        """The compression of the decoded bytes, or None without a header."""
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, tuple[bytes]]: ...

_Codes = tuple[NDArray[np.int32] | None, NDArray[np.int32]]

@final
class Names:
    """Numbers names in the order of their first use.

    Columns of texts have the layout of Arrow: bytes, and int32 offsets, one more than texts.

    Parameters
    ----------
    names : list of str
        The first names.

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
        """Return the number of a name, a new one if it was not known."""

    def number_many(self, offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the number of each text, an int32 array.

        Raises `ValueError` for offsets outside the bytes, and for bytes that are not UTF-8; the names before the
        error stay. O(bytes); holds the interpreter, because the texts are not copied.
        """

    def to_arrays(self, start: int = 0) -> tuple[NDArray[np.int32], bytes]:
        """Return the names from a number on as offsets, an int32 array, and bytes.

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
    """The effect of events on many subscriptions, in a form that merges in any order: the fold of replay.

    The caller numbers topics and subscriptions. Subscription 0 is the topic itself, whose entries all its
    subscriptions share. In columns, the least int64 means null. Events may come in any order, and twice. An invalid
    event becomes the flaw of its subscription; other subscriptions are not affected.

    Parameters
    ----------
    ordered : bool
        Keep the order of each subscription's acknowledgments, which a later seek needs.
    resets_known : bool
        The caller gives seeks and cleared backlogs by `seek` and `clear` before the events.
    batch_size_max : int
        Messages of the largest batch that is taken.

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
    FLAWS: ClassVar[list[str]]
    def __new__(
        cls, *, ordered: bool = True, resets_known: bool = False, batch_size_max: int = 1048576
    ) -> Self: ...
    def __len__(self) -> int: ...
    def pair_many(
        self, topics: NDArray[np.int32], subscriptions: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Return the number of each row's (topic, subscription), an int64 array; new ones for those that were not known.

        Raises `ValueError` for columns of different lengths; then none is new.
        """

    def pair(self, topic: int, subscription: int) -> int:
        """Return the number of a (topic, subscription), a new one if it was not known."""
    def names(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the topic and the subscription of each pair, two int64 arrays."""
    def file(self, name: str) -> int:
        """Return the number of a file, a new one if it was not known. Number 0 is the file without a name."""
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

        `ack_set` holds the messages of that entry that are not acknowledged. A seek before the known one is ignored.
        """
    def clear(self, pair: int, file: int, sequence: int, ledger_id: int, entry_id: int) -> None:
        """Apply a cleared backlog: everything up to `ledger_id:entry_id` is acknowledged."""
    def start(self, pair: int, info: PositionInfo, ledgers: Iterable[tuple[int, int]]) -> None:
        """Apply the state of a subscription before all events, and the known ledgers of its topic.

        A seek that is already known makes its acknowledgments void.
        """
    def set_settings(self, pair: int, file: int, sequence: int, detail: str) -> None:
        """Set the settings of a subscription, JSON text, if they are later than the known ones."""
    def settings(self) -> list[tuple[int, str]]:
        """Return the settings of the pairs that have any."""
    def set_ledgers(self, pair: int, ledger_ids: ArrayLike, entries: ArrayLike) -> None:
        """Set the ledgers of a pair's topic, which replace those that the events show: ascending ids, and entries."""
    def flaw(self, pair: int) -> FlawFound | None:
        """Return the flaw of a pair, or None: `file`, `sequence` (or None), `flaw`, a number of `ackwell.errors.Flaw`,
        and `message`, a sentence.
        """
    def note_flaw(self, pair: int, file: int, sequence: int, flaw: int) -> None:
        """Keep a flaw of a pair by its number, if it precedes the known one."""
    def is_deleted(self, pair: int) -> bool:
        """Return whether the subscription was deleted and not created again."""
    def last_published(self, pair: int) -> tuple[int, int] | None:
        """Return the last position that exists, by the events of the subscription and its topic, or None."""
    def first_flawed(self) -> int | None:
        """Return the pair with the first flaw of all, by (file, sequence); None if there is none."""
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
        """Apply rows of events; return the first row that is not an event, whose subscription then has a flaw, or None.

        Names (`topics`, `subscriptions`, `kinds` and files) are pairs of int32 arrays: a code for each row, or None if
        each row has code 0, and the number of each code. The numbers of kinds index `ACTIONS`. Every other column is
        an int64 array. O(rows); other threads run during the call.

        Parameters
        ----------
        batches : (batch indexes or None, batch sizes or None), optional
            The index of each row's message in its batch, and the number of messages in the batch.
        ack_sets : (starts, ends, words), optional
            The ack set of each row is `words[start:end]`, or missing if the start is null.
        order : (sequences or None, files or None), optional
            The sequence of each event in its file, and the file. Without files, each row is of file 0.

        Raises
        ------
        ValueError
            For columns of different lengths, and for codes or ack sets that are out of range. Then no row is applied.
        """
    def merge(self, pairs: ArrayLike, ledger_ids: ArrayLike, states: Sequence[bytes]) -> None:
        """Join states that `encode` returned: for each state its pair, and its ledger or null.

        Raises `CorruptStateError` for invalid bytes, and `NewerVersionError` for bytes of a newer release; the states
        before them are joined.
        """
    def commit_many(self, pairs: ArrayLike, transactions: NDArray[np.int32]) -> None:
        """Apply the commits of transactions: the pair and the number of each, int64 and int32 arrays.

        Raises `ValueError` for columns of different lengths and a pair that is not known; then none is applied.
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
        """Return the rows of acknowledgments in transactions that are not known to be committed, int64, in order.

        The columns are those of `feed`; `ledger_ids` gives the number of rows, and transaction 0 means none. With
        `takes_commits`, the commits among the rows are applied first. Raises `ValueError` as `feed`; then no commit
        is applied. O(rows); other threads run during the call.
        """
    def absorb(
        self,
        other: Self,
        topics: NDArray[np.int32],
        subscriptions: NDArray[np.int32],
        transactions: NDArray[np.int32],
    ) -> None:
        """Join all of `other`, and leave it empty. `topics`, `subscriptions` and `transactions` map the numbers of
        `other` to the numbers here, int32 arrays. O(size of `other`); other threads run during the call.

        Raises `ValueError` if a number of `other` is not in its mapping; then nothing is joined, and `other` is
        empty.
        """
    def encode(self, start: int = 0, max_bytes: int = 4194304) -> PartialRows:
        """Return the states of pairs from `start` on as rows, by name: the number of encoded pairs (`taken`), and for
        each row the pair, the ledger or null, and the state as int32 offsets and bytes. Stops after about
        `max_bytes`.
        """
    def cursor(
        self, pair: int, *, batch_index_acks: bool = True
    ) -> tuple[PositionInfo, Ledgers, list[tuple[int, int, int]]]:
        """Return a pair's state: its `PositionInfo`, its `Ledgers`, and `(ledger_id, entry_id, size)` of its batches.

        Raises `ProtocolError` for a flaw, for an acknowledgment of an entry that was never published, and for a batch
        index beyond its batch or in a batch of unknown size.
        """
    def cursors(
        self, pairs: ArrayLike, whole_acks: Sequence[int] | None = None, max_bytes: int = 4194304
    ) -> CursorColumns:
        """Return the cursors of pairs as columns by name, and the number of returned pairs (`taken`); stops after about
        `max_bytes`.

        Texts, bytes and lists have int32 offsets. `errors` holds (row, message) of each pair that has no cursor, and
        `deleted` the rows of deleted subscriptions. `whole_acks` are pairs whose batch index acknowledgments are
        ignored. `acked` counts the acknowledged messages of each ack set's batch; -n - 1 means at least n.
        """

@final
class TraceReader:
    """Reads JSON lines into columns of events, as `Partials.feed` takes them.

    Parameters
    ----------
    kinds : list of (str, bool)
        The kinds of events, and whether each may apply to a whole topic; codes are indexes of this list.
    """
    def __new__(cls, kinds: Sequence[tuple[str, bool]]) -> Self: ...
    def set_defaults(self, topic: str | None = None, subscription: str | None = None) -> None:
        """Begin another trace: set the topic and the subscription of lines that do not name them."""
    def names(self, starts: list[int]) -> list[list[str]]:
        """Return the topics, the subscriptions and the transactions that were read, from these numbers on."""
    def fields(self, text: str) -> dict[str, Any]:
        """Return all fields of one line under their full names, without nulls. The line need not be plain.

        Raises `ValueError` if the text is not a JSON object, or contains a field twice.
        """
    def read(
        self, data: bytes, start: int, end: int, line: int
    ) -> tuple[int, int, int | None, dict[str, NDArray[Any]]]:
        """Read lines of `data[start:end]`, the first of which has the number `line`, up to the first line that is not
        plain.

        Return the number of bytes and lines read, the end of the line that is not plain or None, and the columns by
        name. Other threads run during the call.
        """

def compress(data: bytes, compression: str) -> bytes:
    """Compress bytes as NONE, LZ4 (a block), ZLIB, ZSTD (a frame) or SNAPPY (a raw block).

    >>> from ackwell._native import compress, decompress
    >>> decompress(compress(bytes(1000), "ZSTD"), "ZSTD", 1000) == bytes(1000)
    True
    """
def crc32c(data: bytes, crc: int = 0) -> int:
    """Return the CRC-32C of bytes, going on from `crc`, the checksum of the bytes before them.

    O(bytes). Runs attached to the interpreter: a message takes less time than detaching.

    >>> from ackwell._native import crc32c
    >>> hex(crc32c(b"123456789")), crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
    ('0xe3069283', True)
    """
def decode_command_ack(data: bytes) -> AckFields:
    """Read the bytes of a `CommandAck` into columns.

    Raises `CorruptStateError` with the offset for bytes that are not a command, `LimitError` for a batch that is too
    large. O(bytes).

    >>> from ackwell._native import decode_command_ack
    >>> fields = decode_command_ack(bytes([8, 1, 16, 0, 26, 4, 8, 3, 16, 5]))
    >>> fields.consumer_id, fields.ledger_ids, fields.entry_ids
    (1, array([3]), array([5]))
    """
def decompress(data: bytes, compression: str, size: int, max_bytes: int = 67108864) -> bytes:
    """Decompress bytes to exactly `size` bytes.

    Raises `CorruptStateError` if the size differs, and `LimitError` if `size` is more than `max_bytes`. Takes at most
    twice the memory of the actual result.
    """
