"""What changed in a cursor's state between two saves: small where the state is large.

A delta holds the new mark-delete position, the positions acknowledged since, the ack sets and redelivery
counts that changed, and the properties if they did. It is found by set difference and applied by union,
so it needs no bookkeeping in the cursor, and both cost what a pass over the bits costs, not the
number of acks. Nothing says "no longer acknowledged": what leaves the state is what the mark-delete position
or an ack of the whole entry covers. A change that no delta can say, such as a reset, is None: the
caller then saves the state as a whole.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from ackwell.errors import CorruptStateError, NewerVersionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ackwell._native import PositionInfo, PositionRangeSet
    from ackwell.engine import Engine
    from ackwell.position import Position

# The wire type of this byte would be 7, so no Protocol Buffers message begins with it.
MAGIC = b"\xd7"
VERSION = 1
# Magic, version, flags, and the id of the entry whose state the delta changes. Then come the changes, as
# a state in the compact form, and the CRC-32 of all before it.
HEADER = struct.Struct(">cBBQ")
CHECKSUM = struct.Struct(">I")
PROPERTIES_FLAG = 1

# What an entry loses when it is acknowledged as a whole.
BY_POSITION = ("batch_deleted", "redelivery_counts")
# What old or foreign brokers wrote; it changes too seldom to deserve a place in a delta.
NOT_IN_DELTAS = ("idle_since", "spanning_ranges", "unknown_fields")


class Delta(NamedTuple):
    """A change: `changes` holds only what is new; `properties`, whether its properties replace the old."""

    changes: PositionInfo
    properties: bool

    def encode(self, previous_id: int) -> bytes:
        """Return the delta as an entry, on the state that the entry `previous_id` completes."""
        flags = PROPERTIES_FLAG if self.properties else 0
        body = HEADER.pack(MAGIC, VERSION, flags, previous_id) + self.changes.encode("compact")
        return body + CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def decode(cls, data: bytes, engine: Engine) -> tuple[int, Delta]:
        """Read an entry: the id it builds on, and the change; `CorruptStateError` for anything else."""
        end = len(data) - CHECKSUM.size
        if data[:1] != MAGIC or end < HEADER.size:
            raise CorruptStateError("not a whole delta", 0)
        if CHECKSUM.unpack_from(data, end)[0] != zlib.crc32(data[:end]):
            raise CorruptStateError("the checksum of the delta does not match", end)
        _, version, flags, previous_id = HEADER.unpack_from(data)
        if version != VERSION:
            error = NewerVersionError if version > VERSION else CorruptStateError
            raise error(f"a delta of version {version}; the newest this release reads is {VERSION}", 1)
        changes = engine.PositionInfo.decode(data[HEADER.size : end])
        return previous_id, cls(changes, bool(flags & PROPERTIES_FLAG))


def difference(before: PositionInfo, after: PositionInfo) -> Delta | None:
    """Find what turns `before` into `after`, or None if no delta can say it.

    O(ranges) at the speed of copying them, plus O(ack sets and redelivery counts).
    """
    mark_delete = after.position
    acked, kept = after.individually_deleted, before.individually_deleted
    kept.remove_up_to(*mark_delete)
    first = acked.first_range()
    if (
        mark_delete < before.position
        or (kept - acked).cardinality
        or (first is not None and first[:2] < mark_delete)
        or any(getattr(before, name) != getattr(after, name) for name in NOT_IN_DELTAS)
    ):
        return None
    parts: dict[str, Mapping[Position, Any]] = {}
    for name in BY_POSITION:
        old, new = getattr(before, name), getattr(after, name)
        if _owed(new, mark_delete, acked) != new or _owed(old, mark_delete, acked).keys() - new.keys():
            return None
        parts[name] = {position: value for position, value in new.items() if old.get(position) != value}
    properties = before.properties != after.properties
    changes = after.replace(
        individually_deleted=acked - kept, properties=after.properties if properties else {}, **parts
    )
    return Delta(changes, properties)


def replay(before: PositionInfo, deltas: Iterable[Delta]) -> PositionInfo:
    """Return the state after all changes, in their order.

    What a change covers is covered for good, so it is dropped once, at the end.
    """
    position, acked, properties = before.position, before.individually_deleted, before.properties
    parts = {name: dict(getattr(before, name)) for name in BY_POSITION}
    for changes, replaces_properties in deltas:
        position = changes.position
        acked |= changes.individually_deleted
        properties = changes.properties if replaces_properties else properties
        for name, part in parts.items():
            part.update(getattr(changes, name))
    acked.remove_up_to(*position)
    return before.replace(
        ledger_id=position.ledger_id,
        entry_id=position.entry_id,
        individually_deleted=acked,
        properties=properties,
        **{name: _owed(part, position, acked) for name, part in parts.items()},
    )


def _owed(
    part: Mapping[Position, Any], mark_delete: Position, acked: PositionRangeSet
) -> dict[Position, Any]:
    """Leave out what stands at entries that are acknowledged as a whole."""
    return {
        position: value
        for position, value in part.items()
        if position > mark_delete and position not in acked
    }
