"""The persisted cursor: what Pulsar's `PositionInfo` and `ManagedCursorInfo` say, and their bytes.

`wire` knows Protocol Buffers, `messages` the messages inside both, `pulsar` and `managed_cursor_info` the
outer ones, `limits` what may be cut.
"""

from tests.reference.position_info.compression import compress, decompress
from tests.reference.position_info.info import PositionInfo
from tests.reference.position_info.managed_cursor_info import ManagedCursorInfo

__all__ = ["ManagedCursorInfo", "PositionInfo", "compress", "decompress"]
