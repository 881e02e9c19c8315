"""Convert ack sets (the unacknowledged messages of a batch) between two forms: words and bits.

A batch is one entry that holds many messages. Pulsar writes the messages of a batch that are *not yet*
acknowledged as an **ack set**: 64-bit words, least significant bit first; a set bit marks a message that is
not acknowledged (Java's `BitSet.toLongArray`). ackwell computes with **bits**: one integer, in which bit `i`
belongs to batch index `i`. A negative integer has infinitely many set bits; it is used for a batch of unknown
size.

Every conversion takes time linear in the number of words, and every size is checked against
`BATCH_SIZE_MAX` before memory is allocated for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from operator import index
from typing import TYPE_CHECKING, Final

from ackwell.errors import LimitError
from ackwell.integers import INT64_MIN, UINT64_MAX

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH_SIZE_MAX: Final = 1 << 20
"""The maximum number of messages in a batch.

A message in a batch takes at least 6 bytes: 4 for the length of its metadata and 2 for the only required
field of the metadata (`payload_size`). A Pulsar message has at most 5 MiB (`maxMessageSize`), so a batch has
at most 873,813 messages. This limit is the next power of two. Its ack set takes 128 KiB.
"""

WORDS_MAX: Final = BATCH_SIZE_MAX // 64
"""The maximum number of words in an ack set."""

WHOLE: Final = -1
"""The bits of an entry of any batch size, of which all messages are unacknowledged."""


def from_words(words: Iterable[int]) -> int:
    """Return the bits of an ack set given as 64-bit words, signed or unsigned.

    Raises `LimitError` for more than `WORDS_MAX` words, `TypeError` for a word that is not an integer, and
    `ValueError` for a word outside 64 bits. O(words).

    >>> from_words([1, -1]) == (2**64 - 1 << 64) + 1
    True
    """
    unsigned = []
    for word in map(index, islice(words, WORDS_MAX + 1)):
        if not INT64_MIN <= word <= UINT64_MAX:
            raise ValueError(f"{word} in an ack set; expected a 64-bit word")
        unsigned.append(word & UINT64_MAX)
    if len(unsigned) <= 1:
        return unsigned[0] if unsigned else 0
    check_word_count(len(unsigned))
    return int.from_bytes(struct.pack(f"<{len(unsigned)}Q", *unsigned), "little")


def check_word_count(count: int) -> None:
    """Raise `LimitError` for an ack set of more than `WORDS_MAX` words."""
    if count > WORDS_MAX:
        raise LimitError(
            f"an ack set of more than {WORDS_MAX:,} words; a batch holds at most {BATCH_SIZE_MAX:,} messages"
        )


def to_words(bits: int) -> tuple[int, ...]:
    """Return bits as signed 64-bit words without trailing zero words, like `BitSet.toLongArray`.

    Raises `ValueError` for negative bits. O(words).

    >>> to_words((1 << 63) + (1 << 64))
    (-9223372036854775808, 1)
    """
    if bits < 0:
        raise ValueError("negative bits have no ack set; the batch size is not known")
    return _split(bits, -(-bits.bit_length() // 64))


def words_of_rows(starts: NDArray[np.int64], words: NDArray[np.int64]) -> Iterator[list[int]]:
    """Yield the words of each row, from two arrays that contain the words of all rows.

    `words` contains the words of all rows, one row after the other. `starts` contains the index of each row's
    first word; its last item is the total number of words.
    """
    return (words[start:end].tolist() for start, end in pairwise(starts.tolist()))


def from_signed_words(words: Sequence[int]) -> int:
    """Convert words of `to_signed_words` back to bits. The bits may be negative. O(words)."""
    packed = struct.pack(f"<{len(words)}q", *words)
    return int.from_bytes(packed, "little", signed=True)


def to_signed_words(bits: int) -> tuple[int, ...]:
    """Return bits as signed words in two's complement: the highest bit of the last word is the sign.

    >>> to_signed_words(~0b10), from_signed_words((-3,)) == ~0b10
    ((-3,), True)
    """
    return _split(bits, bits.bit_length() // 64 + 1)


def _split(bits: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}q", bits.to_bytes(8 * count, "little", signed=bits < 0))


def check_batch_size(batch_size: int) -> int:
    """Return the checked batch size. Raises `ValueError` below 1, `LimitError` above `BATCH_SIZE_MAX`."""
    if batch_size < 1:
        raise ValueError(f"batch size {batch_size}; expected at least 1")
    if batch_size > BATCH_SIZE_MAX:
        raise LimitError(f"batch size {batch_size}; a batch holds at most {BATCH_SIZE_MAX:,} messages")
    return batch_size


def check_batch_index(batch_index: int) -> int:
    """Return the checked batch index. Raises `ValueError` below 0, `LimitError` from `BATCH_SIZE_MAX` on."""
    if batch_index < 0:
        raise ValueError(f"batch index {batch_index}; expected at least 0")
    if batch_index >= BATCH_SIZE_MAX:
        raise LimitError(f"batch index {batch_index}; a batch holds at most {BATCH_SIZE_MAX:,} messages")
    return batch_index


def all_messages(batch_size: int) -> int:
    """Return bits in which all messages of a batch are set.

    >>> bin(all_messages(5))
    '0b11111'
    """
    return (1 << check_batch_size(batch_size)) - 1


def complement(bits: int, batch_size: int) -> int:
    """Invert the bits of a batch: a bit of the result is set if it is not set in `bits`.

    >>> bin(complement(0b00110, 5))
    '0b11001'
    """
    return all_messages(batch_size) & ~bits


def mask_without(batch_index: int) -> int:
    """Return bits in which all messages except one are set, for a batch of unknown size.

    >>> bin(mask_without(1) & all_messages(5))
    '0b11101'
    """
    return ~(1 << check_batch_index(batch_index))


def mask_after(batch_index: int) -> int:
    """Return bits in which all messages after an index are set, for a batch of unknown size.

    >>> bin(mask_after(1) & all_messages(5))
    '0b11100'
    """
    return -1 << (check_batch_index(batch_index) + 1)


def mask_to_size(bits: int, batch_size: int) -> int:
    """Return `bits` without the bits at and above `batch_size`."""
    return bits & all_messages(batch_size)


def first_unacked(bits: int) -> int:
    """Return the batch index of the lowest set bit; -1 if no bit is set.

    >>> first_unacked(0b11000), first_unacked(0)
    (3, -1)
    """
    return (bits & -bits).bit_length() - 1


def last_unacked(bits: int) -> int:
    """Return the batch index of the highest set bit; -1 if no bit is set. `bits` must not be negative."""
    return bits.bit_length() - 1
