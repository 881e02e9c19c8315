"""The exceptions of ackwell. The type shows the cause: the caller, the data, the store or a limit."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackwell.loss import LossReport
    from ackwell.position import Position


class AckwellError(Exception):
    """The base class of all exceptions that ackwell defines."""


class ErrorCode(IntEnum):
    """The error codes of Pulsar's binary protocol (`ServerError`).

    >>> ErrorCode(5).name
    'CONSUMER_BUSY'
    """

    UNKNOWN_ERROR = 0
    METADATA_ERROR = 1
    PERSISTENCE_ERROR = 2
    AUTHENTICATION_ERROR = 3
    AUTHORIZATION_ERROR = 4
    CONSUMER_BUSY = 5
    SERVICE_NOT_READY = 6
    PRODUCER_BLOCKED_QUOTA_EXCEEDED_ERROR = 7
    PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION = 8
    CHECKSUM_ERROR = 9
    UNSUPPORTED_VERSION_ERROR = 10
    TOPIC_NOT_FOUND = 11
    SUBSCRIPTION_NOT_FOUND = 12
    CONSUMER_NOT_FOUND = 13
    TOO_MANY_REQUESTS = 14
    TOPIC_TERMINATED_ERROR = 15
    PRODUCER_BUSY = 16
    INVALID_TOPIC_NAME = 17
    INCOMPATIBLE_SCHEMA = 18
    CONSUMER_ASSIGN_ERROR = 19
    TRANSACTION_COORDINATOR_NOT_FOUND = 20
    INVALID_TXN_STATUS = 21
    NOT_ALLOWED_ERROR = 22
    TRANSACTION_CONFLICT = 23
    TRANSACTION_NOT_FOUND = 24
    PRODUCER_FENCED = 25


class ProtocolError(AckwellError):
    """A call violates the protocol, for example it acknowledges a position that was never published.

    `position` is the position in the error message; None if the message has no position or several positions.
    `subscription` is the pair (topic, subscription), or None. `code` is the error code that a broker sends to
    the client.
    """

    def __init__(
        self,
        message: str = "",
        position: Position | None = None,
        *,
        code: ErrorCode = ErrorCode.UNKNOWN_ERROR,
        subscription: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.position = position
        self.subscription = subscription
        self.code = code


class Flaw(IntEnum):
    """The reason why an event is invalid. Both engines use these numbers.

    >>> Flaw(1).name
    'UNKNOWN_KIND'
    """

    INCOMPLETE = 0
    UNKNOWN_KIND = 1
    NO_POSITION = 2
    NEGATIVE = 3
    BATCH_TOO_LARGE = 4
    SEEK_BETWEEN = 5
    CLEARED_BLINDLY = 6
    IN_TRANSACTION = 7


class EventError(ProtocolError):
    """An event that cannot be read or replayed.

    `file` and `line` are the location of the event. `line` counts from 1; in Parquet it is the row. `reason`
    is the message without the location. `flaw` is the kind of the error, or None if no `Flaw` describes it.
    """

    def __init__(
        self,
        message: str,
        position: Position | None = None,
        *,
        file: str | None = None,
        line: int | None = None,
        flaw: Flaw | None = None,
    ) -> None:
        where = "" if file is None else f"{file}: " if line is None else f"{file}, line {line}: "
        super().__init__(where + message, position)
        self.reason = message
        self.file = file
        self.line = line
        self.flaw = flaw


class SchemaError(AckwellError, ValueError):
    """A table has missing columns or wrong column types. The message lists all of them."""


class CorruptStateError(AckwellError):
    """Bytes that are not a valid state. `offset` is the place of the error, counted from the first byte."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"at byte {offset}: {reason}")
        self.reason = reason
        self.offset = offset


class FrameError(AckwellError):
    """Bytes that violate Pulsar's binary protocol. Later bytes cannot be read, so close the connection."""


class NewerVersionError(CorruptStateError):
    """An undamaged state in a version that this release cannot read, but a newer release can.

    Loading stops at this state. It does not fall back to an older state, because that would lose the
    acknowledgments that the newer release has saved.
    """


class StatsError(AckwellError):
    """Statistics of a broker that cannot be used. They come from an answer of the broker or from a file.

    `source` is the URL of the answer, or the file. `reason` is the message without the source.
    """

    def __init__(self, message: str, source: str) -> None:
        # The message may quote a hostile file with line breaks.
        message = " ".join(message.splitlines())
        super().__init__(f"{source}: {message}" if source else message)
        self.source = source
        self.reason = message


class StoreError(AckwellError):
    """A store failed. States that were saved before are still durable."""


class FencedError(StoreError):
    """A newer owner has taken the store, so this owner can no longer write to it."""


class NotLoadedError(StoreError):
    """A save would replace states in the store that were never loaded. Nothing was written.

    Load the state first and continue from it, or save with `replace=True`.
    """


class LimitError(AckwellError):
    """A call would exceed a limit that the caller or the data format sets. The call changed nothing."""


class StateTooLargeError(LimitError):
    """A saved state would exceed a size limit. `report` lists the acknowledgments that a save would lose."""

    def __init__(self, message: str, report: LossReport) -> None:
        super().__init__(message)
        self.report = report
