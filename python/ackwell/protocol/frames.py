"""Frames: split a stream of bytes into commands, and encode commands.

    total size, int32 · command size, int32 · the command · the payload, for SEND and MESSAGE

Both sizes are big-endian. The total size is the number of bytes after it. A `FrameReader` stores at most one
frame of the maximum size, and the bytes that were received together with the end of this frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from struct import Struct
from typing import Any, Final, NamedTuple

from ackwell.errors import FrameError
from ackwell.protocol import messages
from ackwell.protocol.constants import FRAME_PADDING_BYTES, MAX_MESSAGE_BYTES, CommandType
from ackwell.wire import varint

_TYPE_TAG: Final = 0x08
"""The tag of the field `type` in `BaseCommand`: field number 1, encoded as a varint."""

unpack_from: Final = Struct(">II").unpack_from
"""Reads the two sizes at the start of a frame."""

_BYTES: Final = 2
"""The wire type of a nested message in Protocol Buffers."""


class Frame(NamedTuple):
    """One frame, as offsets into the bytes that contain it.

    The parts are copied only when they are read, because a proxy reads only `raw`, and a decoder reads only
    `command` or `payload`.
    """

    data: bytes
    start: int
    behind_command: int
    end: int

    @property
    def raw(self) -> bytes:
        """All bytes of the frame, unchanged."""
        return self.data[self.start : self.end]

    @property
    def command(self) -> bytes:
        """The bytes of the command, encoded as a `BaseCommand`."""
        return self.data[self.start + 8 : self.behind_command]

    @property
    def payload(self) -> bytes:
        """The bytes of the payload, which follows the command. They are empty for most commands."""
        return self.data[self.behind_command : self.end]

    @property
    def command_type(self) -> int:
        """The type of the command; 0 if the type is not the first field of the command."""
        at = self.start + 8
        # The tag of the field comes first. The next byte is the type, which takes one byte for every known
        # type.
        if self.behind_command < at + 2 or self.data[at] != _TYPE_TAG or self.data[at + 1] > 0x7F:
            return 0
        return self.data[at + 1]


class FrameSizes(NamedTuple):
    """The size of a whole frame and the size of its command, in bytes."""

    frame_bytes: int
    command_bytes: int


class DecodedCommand(NamedTuple):
    """A decoded command: its type and its message."""

    type: int
    message: Any


class FrameReader:
    """Splits a stream of bytes into frames. Use one reader for each direction of a connection.

    >>> reader = FrameReader()
    >>> data = frame(encode(CommandType.PING, messages.CommandPing()))
    >>> list(reader.feed(data[:5])), [decode(each.command).type for each in reader.feed(data[5:])]
    ([], [18])
    """

    def __init__(self, max_frame_bytes: int = MAX_MESSAGE_BYTES + FRAME_PADDING_BYTES) -> None:
        self._max = max_frame_bytes
        self._rest = bytearray()
        self._discarded_bytes: int | None = None
        """The number of payload bytes that were discarded from the incomplete frame. None if the payload is
        not discarded."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Add received bytes, and yield the frames that they complete, in order.

        Raises `FrameError` for invalid sizes and for frames of more than `max_frame_bytes`. Close the
        connection after this error, because the start of the next frame is unknown.
        """
        rest = self._rest
        if self._discarded_bytes is not None:
            head, data = self._discard(data, self._discarded_bytes)
            if head is None:
                return
            yield head
        if rest:
            rest += data
            if len(rest) < 4 or len(rest) < 4 + self._size(rest, 0):
                return
            data = bytes(rest)
            rest.clear()
        at, end = 0, len(data)
        while end - at >= 4:
            size, command_bytes = unpack_from(data, at) if end - at >= 8 else (self._size(data, at), 0)
            if not 4 <= size <= self._max:
                self._size(data, at)
            if end - at < 4 + size:
                break
            start = at
            at += 4 + size
            if start + 8 + command_bytes > at:
                raise FrameError(f"a command of {command_bytes} bytes in a frame of {size}")
            yield Frame(data, start, start + 8 + command_bytes, at)
        rest += data[at:]

    def _size(self, data: bytes | bytearray, at: int) -> int:
        size = int.from_bytes(data[at : at + 4])
        if not 4 <= size <= self._max:
            raise FrameError(f"a frame of {size} bytes; expected 4 to {self._max}")
        return size

    @property
    def unfinished_bytes(self) -> int:
        """The number of bytes of the incomplete frame that have arrived and were not discarded."""
        return len(self._rest)

    @property
    def unfinished_sizes(self) -> FrameSizes | None:
        """The sizes of the incomplete frame and of its command; None if they have not arrived."""
        if len(self._rest) < 8:
            return None
        size, command_bytes = unpack_from(self._rest)
        return FrameSizes(4 + size, command_bytes)

    def discard_payload(self) -> None:
        """Discard the payload of the incomplete frame. Later, `feed` yields the frame with an empty payload.

        Call it only if `unfinished_sizes` is not None.
        """
        self._discarded_bytes = 0
        self._discard(b"", 0)

    def _discard(self, data: bytes, discarded_bytes: int) -> tuple[Frame | None, bytes]:
        """Add received bytes to the incomplete frame, whose payload is discarded.

        Return the frame and the bytes after it. If the frame is still incomplete, return None and no bytes.
        """
        rest = self._rest
        rest += data
        size, command_bytes = unpack_from(rest)
        kept, end = 8 + command_bytes, 4 + size - discarded_bytes
        if kept > 4 + size:
            raise FrameError(f"a command of {command_bytes} bytes in a frame of {size}")
        if len(rest) < end:
            self._discarded_bytes = discarded_bytes + max(len(rest) - kept, 0)
            del rest[kept:]
            return None, b""
        head, following = bytes(rest[:kept]), bytes(rest[end:])
        rest.clear()
        self._discarded_bytes = None
        return Frame(head, 0, kept, kept), following


def frame(command: bytes, payload: bytes = b"") -> bytes:
    """Return the bytes of a frame with a command and a payload."""
    return b"".join(
        ((4 + len(command) + len(payload)).to_bytes(4), len(command).to_bytes(4), command, payload)
    )


def encode(type: int, message: Any) -> bytes:  # noqa: A002  # the name of the field
    """Encode a command as a `BaseCommand`: its type, and its message in the field with the type's number."""
    body: bytes = message.SerializeToString()
    return b"".join((b"\x08", varint(type), varint(type << 3 | _BYTES), varint(len(body)), body))


def split(command: bytes) -> tuple[int, bytes]:
    """Return the type of a command and the encoded bytes of its message, without using protobuf.

    The command must have the field order of `encode`, which all clients use. For any other order, the
    returned type is 0, and the caller has to use `decode`.
    """
    size = len(command)
    if size < 4 or command[0] != _TYPE_TAG:
        return 0, b""
    number = command[1]
    if number < 16:
        at = 3
        if command[2] != number << 3 | _BYTES:
            return 0, b""
    else:
        at = 4
        if number > 0x7F or command[2:4] != _two_byte_tag(number):
            return 0, b""
    length = command[at] if at < size else 0xFF
    at += 1
    if length > 0x7F:
        if at >= size or command[at] > 0x7F:
            return 0, b""
        length = length & 0x7F | command[at] << 7
        at += 1
    return (number, command[at:]) if at + length == size else (0, b"")


@cache
def _two_byte_tag(number: int) -> bytes:
    return varint(number << 3 | _BYTES)


def decode(command: bytes) -> DecodedCommand:
    """Decode a command; `FrameError` for invalid bytes.

    For an unknown type, which a newer client or broker may send, the result is `(type, None)`.
    """
    number, body = split(command)
    found = _commands().get(number)
    if found is not None:
        return DecodedCommand(number, messages.parse(found[1], body))
    base = messages.parse("BaseCommand", command)
    found = _commands().get(base.type)
    if found is None:
        return DecodedCommand(base.type, None)
    if not base.HasField(found[0]):
        raise FrameError(f"a command of type {base.type} without its {found[0]}")
    # `parse` raises the error that names the missing field of the message.
    return DecodedCommand(
        base.type, messages.parse(found[1], getattr(base, found[0]).SerializePartialToString())
    )


@cache
def _commands() -> dict[int, tuple[str, str]]:
    """Map each command type to the name of its field in `BaseCommand` and the name of its message."""
    rows = (row.split(":") for row in dict(messages.table())["BaseCommand"])
    named = {int(number): (name, kind) for number, name, kind in rows}
    return {each: named[each] for each in CommandType}
