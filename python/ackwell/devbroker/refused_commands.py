"""The exception that is sent to the client as the answer to its command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.errors import AckwellError

if TYPE_CHECKING:
    from ackwell.errors import ErrorCode


class CommandRefusedError(AckwellError):
    """The error that the broker sends as the answer to a command. The connection stays open."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
