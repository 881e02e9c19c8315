"""Compute the sizes of two records in the metadata store: a cursor, and the ledger list of a topic.

A graceful close writes the record of a cursor. A load of a topic and the creation of a ledger write the
ledger list.

ZooKeeper refuses a node above `jute.maxbuffer`, 1 MiB by default, and cuts the connection. The broker repeats
the write without end, so a close does not return, producers receive no answer, and other topics of the broker
fail (apache/pulsar#24382). `bin/pulsar` sets 10 MiB for the broker and the ZooKeeper that it starts. Brokers
and ZooKeepers that are started in another way have their own limit, by default 1 MiB.
"""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from ackwell._native import ManagedCursorInfo, PositionInfo, compress
from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.writes import closes_to_ledger
from ackwell.wire import bytes_field, int_field

if TYPE_CHECKING:
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


def closing_request_bytes(
    state: CursorState, settings: BrokerSettings, ledger: CursorLedger = "open"
) -> int | None:
    """Return the size of the request of a close, in bytes; None if it is far below the limit. O(ranges).

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
    """Return bounds of the size in bytes of the request that the next load of the topic sends. O(ledgers).

    Return None if the size is far below the limit. A load removes empty ledgers from the list and adds a new
    one. With `managedLedgerInfoCompressionType`, only the upper bound is known, because no answer shows the
    times of the ledgers. If ledgers are offloaded, the upper bound is unknown, because no answer shows the
    size of their offload contexts.
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
    times_ms = random.Random(0)
    fields = []
    for each in sizes:
        if each.entries:
            values = each.ledger_id, each.entries, each.size_bytes, times_ms.randrange(1 << 40, 1 << 42)
            content = b"".join(int_field(number, value) for number, value in enumerate(values, 1))
            fields.append(bytes_field(1, content))
    fields.append(bytes_field(1, int_field(1, sizes[-1].ledger_id + 1) + int_field(4, 0)))
    record = b"".join(fields) + properties
    if compression == "NONE":
        return len(record)
    return len(compress(record, compression)) + _COMPRESSION_HEADER_BYTES


def _utf8(text: str) -> bytes:
    # The JSON of a dump may contain an unpaired surrogate.
    return text.encode("utf-8", "surrogatepass")
