"""The exception that becomes a protocol error in the answer to a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.errors import AckwellError

if TYPE_CHECKING:
    from ackwell.errors import ErrorCode


class CommandRefusedError(AckwellError):
    """The command is answered with an error; the connection stays open."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
