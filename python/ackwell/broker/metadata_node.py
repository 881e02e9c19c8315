"""The size of a cursor's record in the metadata store, which a graceful close writes.

ZooKeeper refuses a node above `jute.maxbuffer`, 1 MiB by default, and cuts the connection. The broker repeats
the write without end: the close does not return, and other topics of the broker fail (apache/pulsar#24382).
`bin/pulsar` sets 10 MiB for the broker and the ZooKeeper that it starts. Brokers and ZooKeepers that are
started in another way keep their limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell._native import ManagedCursorInfo, PositionInfo
from ackwell.broker.writes import closes_to_ledger

if TYPE_CHECKING:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.writes import CursorLedger
    from ackwell.cursor.cursor_state import CursorState

NODE_BYTES: Final = (1 << 20) - 1
"""The default of `jute.maxbuffer`: 0xfffff bytes."""

_RANGE_BYTES_MAX: Final = 52
"""The maximum size of an encoded range: two positions of two 10-byte integers, with tags and lengths."""

_REQUEST_BYTES: Final = 256
"""The size of a request without the record, for a path of up to 200 bytes. ZooKeeper limits the whole
request."""

_ACK_SET_BYTES_MAX: Final = 128
"""An estimate of the size of an encoded ack set. It only decides whether the exact size is computed."""


def closing_request_bytes(
    state: CursorState, settings: BrokerSettings, ledger: CursorLedger = "open"
) -> int | None:
    """Return the bytes of the request that a close sends; None if they are far below the limit. O(ranges).

    If a state has more ranges than the settings allow in the metadata store, and the cursor ledger is open,
    the close writes the state to the ledger. The record is then small.
    """
    ranges, parts = state.individually_deleted, state.batch_deleted or {}
    if closes_to_ledger(state, settings, ledger):
        return None
    if len(ranges) * _RANGE_BYTES_MAX + len(parts) * _ACK_SET_BYTES_MAX < settings.metadata_node_bytes // 2:
        return None
    limit = settings.ranges_written
    ledger_ids, lowers, uppers = (each[:limit].tolist() for each in ranges.to_arrays())
    kept = dict(list(parts.items())[: settings.max_batch_deleted_index_to_persist])
    info = PositionInfo(*state.mark_delete_position, zip(ledger_ids, lowers, uppers, strict=True), kept)
    record = ManagedCursorInfo(-1, info, last_active=1 << 40).encode(settings.cursor_info_compression)
    return len(record) + _REQUEST_BYTES
