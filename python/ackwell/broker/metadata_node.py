"""Compute the sizes of two records in the metadata store: a cursor, and the ledger list of a topic.

A graceful close writes the record of a cursor. A load of a topic and the creation of a ledger write the
ledger list.

ZooKeeper refuses a node above `jute.maxbuffer`, 1 MiB by default, and cuts the connection. The broker repeats
the write without end, so a close does not return, producers receive no answer, and other topics of the broker
fail (apache/pulsar#24382). `bin/pulsar` sets 10 MiB for the broker and the ZooKeeper that it starts. Brokers
and ZooKeepers that are started in another way have their own limit, by default 1 MiB.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from ackwell._native import ManagedCursorInfo, PositionInfo, compress
from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.writes import closes_to_ledger
from ackwell.wire import bytes_field, int_field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.stats import LedgerSize, SubscriptionStats
    from ackwell.broker.writes import CursorLedger
    from ackwell.cursor.cursor_state import CursorState

NODE_BYTES: Final = (1 << 20) - 1
"""The default of `jute.maxbuffer`: 0xfffff bytes."""

_RANGE_BYTES_MAX: Final = 52
"""The maximum size of an encoded range: two positions of two 10-byte integers, with tags and lengths."""

_REQUEST_BYTES: Final = 256
"""The size of a request in addition to its record, for a path of up to 200 bytes. ZooKeeper limits the size
of the whole request, not only of the record."""

_ACK_SET_BYTES_MAX: Final = 30
"""The maximum size of an encoded ack set without its words: the position, with tags and lengths."""

_WORD_BYTES_MAX: Final = 11
"""The maximum size of an encoded word of an ack set: a tag and a 10-byte integer."""

_LEDGER_BYTES_MAX: Final = 46
"""The maximum size of an encoded ledger in the list: four integers of at most 10 bytes, with tags and a
length."""

_OFFLOAD_CONTEXT_BYTES: Final = 512
"""The estimated size of the context of an offloaded ledger. It only decides whether the exact size of the
list is computed."""

_COMPRESSION_HEADER_BYTES: Final = 16

_LEDGERS_AT_ONCE: Final = 1 << 14
"""The number of ledgers that are encoded together. It limits the memory."""


def closing_request_bytes(
    state: CursorState, settings: BrokerSettings, ledger: CursorLedger = "open"
) -> int | None:
    """Return the size, in bytes, of the request that writes the cursor's record at a close. O(ranges).

    Return None if the size is far below the limit.

    If a state has more ranges than the settings allow in the metadata store, and the cursor ledger is open,
    the close writes the state to the ledger. The record in the metadata store is then small.
    """
    ranges = state.individually_deleted
    parts = (state.batch_deleted or {}) if settings.acknowledgment_at_batch_index_level_enabled else {}
    if closes_to_ledger(state, settings, ledger):
        return None
    kept = dict(islice(parts.items(), max(settings.max_batch_deleted_index_to_persist, 0)))
    words = sum(map(len, kept.values()))
    if most_record_bytes(len(ranges), len(kept), words) < settings.metadata_node_bytes // 2:
        return None
    limit = settings.ranges_written
    ledger_ids, lowers, uppers = (each[:limit].tolist() for each in ranges.to_arrays())
    info = PositionInfo(*state.mark_delete_position, zip(ledger_ids, lowers, uppers, strict=True), kept)
    record = ManagedCursorInfo(-1, info, last_active=1 << 40).encode(settings.cursor_info_compression)
    return len(record) + _REQUEST_BYTES


def most_record_bytes(ranges: int, ack_sets: int, words: int) -> int:
    """Return the maximum size of a cursor's record in bytes; `words` counts the words of all ack sets."""
    return ranges * _RANGE_BYTES_MAX + ack_sets * _ACK_SET_BYTES_MAX + words * _WORD_BYTES_MAX


def ledger_list_bytes(stats: SubscriptionStats, settings: BrokerSettings) -> Bounds | None:
    """Return bounds of the size, in bytes, of the request that writes the ledger list at the next load.

    Return None if the size is far below the limit. O(ledgers). A load of the topic removes empty ledgers from
    the list and adds a new one. With `managedLedgerInfoCompressionType`, only the upper bound is known,
    because no answer shows the times of the ledgers. If ledgers are offloaded, the upper bound is unknown,
    because no answer shows the size of their offload contexts.
    """
    ledgers = len(stats.ledger_sizes)
    offloaded = sum(each.is_offloaded for each in stats.ledger_sizes)
    properties = b"".join(
        bytes_field(3, bytes_field(1, _utf8(name)) + bytes_field(2, _utf8(str(value))))
        for name, value in stats.topic_properties.items()
    )
    most = ledgers * _LEDGER_BYTES_MAX + offloaded * _OFFLOAD_CONTEXT_BYTES + len(properties)
    if not ledgers or most < settings.metadata_node_bytes // 2:
        return None
    compression = settings.ledger_info_compression
    size = _ledger_list_bytes(stats.ledger_sizes, properties, compression) + _REQUEST_BYTES
    return Bounds(size if compression == "NONE" else 0, None if offloaded else size)


@lru_cache(maxsize=2)
def _ledger_list_bytes(sizes: tuple[LedgerSize, ...], properties: bytes, compression: str) -> int:
    """Return the size of a `ManagedLedgerInfo`, in bytes. Random times replace the ledgers' unknown times.

    Every time between 2004 and 2109 takes 6 bytes, and random times compress less than real ones. The result
    is cached, because all subscriptions of a topic need the same one.
    """
    new = bytes_field(1, int_field(1, sizes[-1].ledger_id + 1) + int_field(4, 0))
    record = b"".join((*_encoded_ledgers(sizes), new, properties))
    if compression == "NONE":
        return len(record)
    return len(compress(record, compression)) + _COMPRESSION_HEADER_BYTES


def _encoded_ledgers(sizes: tuple[LedgerSize, ...]) -> Iterator[bytes]:
    """Yield the fields of the ledgers that are not empty, with random times. O(ledgers), in NumPy arrays."""
    import numpy as np

    kept = [(each.ledger_id, each.entries, each.size_bytes) for each in sizes if each.entries]
    random = np.random.default_rng(0)
    shifts = np.arange(0, 70, 7, dtype=np.uint64)
    for start in range(0, len(kept), _LEDGERS_AT_ONCE):
        known = np.array(kept[start : start + _LEDGERS_AT_ONCE], np.int64)
        times_ms = random.integers(1 << 40, 1 << 42, len(known))
        # A row has room for the longest ledger: its tag and length, then a tag and a varint for each value.
        rows = np.empty((len(known), _LEDGER_BYTES_MAX), np.uint8)
        is_used = np.ones(rows.shape, np.bool_)
        for number, column in enumerate((*known.T, times_ms), 1):
            at = 11 * number - 9
            left = column.astype(np.uint64)[:, None] >> shifts
            rows[:, at] = number << 3
            rows[:, at + 1 : at + 11] = np.where(left > 0x7F, left & 0x7F | 0x80, left)
            is_used[:, at + 2 : at + 11] = left[:, 1:] > 0
        rows[:, 0] = 1 << 3 | 2
        rows[:, 1] = is_used[:, 2:].sum(axis=1)
        yield rows[is_used].tobytes()


def _utf8(text: str) -> bytes:
    # The JSON of a dump may contain an unpaired surrogate.
    return text.encode("utf-8", "surrogatepass")
