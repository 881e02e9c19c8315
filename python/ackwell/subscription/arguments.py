"""Checks of arguments.

Every public method of a subscription checks all its arguments before it changes anything, so a call that
raises has no effect. A wrong type raises `TypeError`, a value outside its domain `ValueError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING, Final, TypeAlias

from ackwell.arrays import as_int64, same_length
from ackwell.cursor.ack_sets import check_batch_size, check_word_count, from_words
from ackwell.integers import INT64_MAX, INT64_MIN, UINT64_MAX
from ackwell.position import Position
from ackwell.protocol.command_ack import TransactionId

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from ackwell.subscription.sticky_key import HashRange

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
TIME_MAX_MS: Final = 2**62
"""The latest valid time, in ms. A valid delay added to this time does not exceed int64."""


def integer(name: str, value: int, minimum: int = INT64_MIN, maximum: int = INT64_MAX) -> int:
    """Check that an argument is an integer from `minimum` to `maximum`, and return it.

    >>> integer("permits", 3, 0)
    3
    """
    if isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; expected an integer")
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; expected an integer") from None
    if not minimum <= number <= maximum:
        raise ValueError(f"{name} is {number}; expected {minimum} to {maximum}")
    return number


Place: TypeAlias = int | tuple[int, int]
"""A position, or only its ledger id if the call passes the entry id as the next argument."""


def position(
    place: Place, entry_id: int | None = None, ledger_id_min: int = 0, entry_id_min: int = 0
) -> Position:
    """Check a position, given as one value or as two ids, and return it.

    Each id has a minimum, which is 0 by default.

    >>> position((3, 1)) == position(3, 1)
    True
    """
    ledger_id, entry_id = ids(place) if entry_id is None else (place, entry_id)
    if isinstance(ledger_id, tuple):
        raise TypeError(f"expected a position or two ids, got {place!r} and {entry_id!r}")
    return Position(
        integer("ledger_id", ledger_id, ledger_id_min), integer("entry_id", entry_id, entry_id_min)
    )


def ids(place: Place) -> tuple[int, int]:
    """Return the two ids of a position, without a check of the ids; `TypeError` for a single integer."""
    if isinstance(place, tuple) and len(place) == 2:
        return place
    raise TypeError(f"expected a position or two ids, got {place!r}")


def time_ms(name: str, value: int) -> int:
    """Check and return a time in milliseconds."""
    return integer(name, value, -TIME_MAX_MS, TIME_MAX_MS)


def batch_size(value: int) -> int:
    """Check and return a batch size; raise `LimitError` if no broker accepts a batch of this size."""
    return check_batch_size(integer("batch_size", value))


def transaction(value: TransactionId) -> TransactionId:
    """Check and return a transaction id, which consists of two unsigned 64-bit integers."""
    most_bits, least_bits = value
    return TransactionId(
        integer("most_bits", most_bits, 0, UINT64_MAX), integer("least_bits", least_bits, 0, UINT64_MAX)
    )


def position_columns(
    ledger_ids: ArrayLike, entry_ids: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Check two columns of ids and return them as int64 arrays.

    Raises `ValueError` if the lengths differ or an id is negative.
    """
    ledgers, entries = as_int64(ledger_ids), as_int64(entry_ids)
    same_length(ledgers, entries)
    if len(ledgers) and (ledgers.min() < 0 or entries.min() < 0):
        raise ValueError("a ledger or entry id is negative")
    return ledgers, entries


def position_list(pairs: Iterable[tuple[int, int]]) -> list[Position]:
    """Check pairs of ids and return them as positions."""
    found = []
    for pair in pairs:
        ledger_id, entry_id = pair
        found.append(position(ledger_id, entry_id))
    return found


def ack_set_words(ack_set: Sequence[int]) -> tuple[int, ...]:
    """Check and return the words of an ack set; raise `LimitError` for more words than a batch can have."""
    if isinstance(ack_set, (str, bytes)):
        raise TypeError(f"ack_set is {ack_set!r}; expected 64-bit words")
    found = tuple(ack_set)
    from_words(found)
    return found


def word_columns(
    rows: int, starts: ArrayLike, words: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Check the ack sets of many rows, and return them as two int64 arrays.

    The first array has the index of each row's first word, then the number of all words. The second array has
    the words. Raises `LimitError` if a row has too many words.
    """
    firsts, all_words = as_int64(starts), as_int64(words)
    counts = firsts[1:] - firsts[:-1]
    if len(firsts) != rows + 1 or firsts[0] != 0 or firsts[-1] != len(all_words) or (counts < 0).any():
        raise ValueError("ack_sets: expected the start of each row's words and the number of all words")
    check_word_count(int(counts.max(initial=0)))
    return firsts, all_words


def check_hash(sticky_key_hash: int) -> int:
    """Check and return a sticky-key hash, which is a signed 32-bit integer."""
    return integer("sticky_key_hash", sticky_key_hash, INT32_MIN, INT32_MAX)


def hash_ranges(ranges: Sequence[HashRange]) -> list[HashRange]:
    """Check hash ranges, and return them as pairs of integers."""
    found = []
    for pair in ranges:
        first, last = pair
        found.append((integer("a hash range's first slot", first), integer("its last slot", last)))
    return found
