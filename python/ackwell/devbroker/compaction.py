"""Compaction of a topic: finds the entries that a compacted read skips or changes.

A compacted read returns only the newest message of each key, in the order of the log. A message without
payload deletes its key, so no message of the key is returned. A message without a key is skipped. A batch is
skipped if all of its messages are skipped. If only some messages are skipped, the batch is rewritten, and the
skipped messages are marked with `compacted_out`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.errors import FrameError
from ackwell.protocol import messages
from ackwell.protocol.batches import read_batch, write_batch
from ackwell.protocol.payload import read_payload, uncompressed, write_payload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ackwell.devbroker.entry import LogEntry
    from ackwell.devbroker.log import Log
    from ackwell.position import Position

Newest = dict[str, tuple[int, int, int]]
"""Maps a message key to the ledger id, entry id and batch index of the newest message with this key."""


class CompactedLog:
    """The result of a compaction: which entries up to `horizon` are skipped, and which are rewritten."""

    def __init__(self, log: Log, horizon: Position) -> None:
        self.horizon = horizon
        self.rewritten: dict[tuple[int, int], bytes] = {}
        self._out: set[tuple[int, int]] = set()
        newest: Newest = {}
        deleted: set[str] = set()
        for position, entry in _entries(log, horizon):
            for index, key, empty in _keys(entry):
                if key is None:
                    continue
                newest[key] = (*position, index)
                deleted.discard(key)
                if empty:
                    deleted.add(key)
        for position, entry in _entries(log, horizon):
            self._look(position, entry, newest, deleted)

    def leaves_out(self, position: tuple[int, int]) -> bool:
        """Return whether a compacted read skips the entry as a whole."""
        return position in self._out

    def _look(self, position: tuple[int, int], entry: LogEntry, newest: Newest, deleted: set[str]) -> None:
        kept = [
            key is not None and (newest[key] == (*position, index) and key not in deleted)
            for index, key, _ in _keys(entry)
        ]
        if not any(kept):
            self._out.add(position)
        elif not all(kept):
            self.rewritten[position] = _without(entry.data, kept)


def _entries(log: Log, horizon: Position) -> Iterator[tuple[tuple[int, int], LogEntry]]:
    for ledger_id, entries in log.entries.items():
        for entry_id, entry in enumerate(entries):
            if (ledger_id, entry_id) <= horizon:
                yield (ledger_id, entry_id), entry


def _keys(entry: LogEntry) -> list[tuple[int, str | None, bool]]:
    """Return three values for each message of an entry.

    They are its batch index, its key, and whether its payload is empty. A message with an empty payload
    deletes its key.
    """
    try:
        payload = read_payload(entry.data)
        metadata = payload.metadata
        if metadata.HasField("num_messages_in_batch") and not metadata.encryption_keys:
            return [
                (index, single.partition_key if single.HasField("partition_key") else None, not data)
                for index, (single, data) in enumerate(read_batch(metadata, uncompressed(payload)))
            ]
    except FrameError:
        return [(0, None, False)]
    return [(0, metadata.partition_key if metadata.HasField("partition_key") else None, not payload.body)]


def _without(data: bytes, kept: list[bool]) -> bytes:
    """Return the bytes of an entry in which only the `kept` messages have their payload.

    The other messages are emptied and marked as compacted out.
    """
    payload = read_payload(data)
    singles: list[tuple[Any, bytes]] = []
    for (single, body), keep in zip(read_batch(payload.metadata, uncompressed(payload)), kept, strict=True):
        if keep:
            singles.append((single, body))
        else:
            singles.append((messages.SingleMessageMetadata(payload_size=0, compacted_out=True), b""))
    body = write_batch(singles)
    metadata = messages.MessageMetadata()
    metadata.CopyFrom(payload.metadata)
    metadata.compression = 0
    metadata.uncompressed_size = len(body)
    return write_payload(metadata, body)
