"""The persisted cursor: the content and the bytes of Pulsar's `PositionInfo` and `ManagedCursorInfo`.

`ackwell.wire` reads Protocol Buffers, `messages` the nested messages, `pulsar` and `managed_cursor_info` the
outer ones; `limits` applies the limits of an encoding.
"""

from tests.reference.position_info.compression import compress, decompress
from tests.reference.position_info.info import PositionInfo
from tests.reference.position_info.managed_cursor_info import ManagedCursorInfo

__all__ = ["ManagedCursorInfo", "PositionInfo", "compress", "decompress"]
