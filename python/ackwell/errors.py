"""Every exception of ackwell, whichever engine raises it. The type says whose fault it is."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackwell.loss import LossReport
    from ackwell.position import Position


class AckwellError(Exception):
    """The base of every error that ackwell raises on purpose."""


class ErrorCode(IntEnum):
    """The codes of Pulsar's binary protocol (`ServerError`) with which a broker answers a refusal.

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
    """The caller broke the order of events, such as an ack of a position never published.

    `position` is the position that the message is about, None if it is about no single one. `subscription`
    is the topic and the subscription, if they are known. `code` is what a broker answers a client with.
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
    """What is wrong with an event of a subscription, by the numbers of both engines.

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

    `file` and `line` (a row of Parquet; from 1) say where it is; `reason` is the message without that. `flaw`
    says what is wrong with it, None if no `Flaw` says it.
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
    """A table lacks a column, or has it in another type; the message names every one."""


class CorruptStateError(AckwellError):
    """Bytes that cannot be a state; `reason` says why, `offset` counts from the start of the input."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"at byte {offset}: {reason}")
        self.reason = reason
        self.offset = offset


class FrameError(AckwellError):
    """Bytes that are not Pulsar's binary protocol. Nothing after them can be read: close the connection."""


class NewerVersionError(CorruptStateError):
    """A whole state, by its checksum, of a version that only a newer release reads.

    Loading stops here: an older state would lose what the newer release has saved.
    """


class StatsError(AckwellError):
    """The answer of a broker, or the file that should hold one, cannot be used.

    `source` names it, `reason` says what is wrong.
    """

    def __init__(self, message: str, source: str) -> None:
        # What a hostile file says of itself may have many lines.
        message = " ".join(message.splitlines())
        super().__init__(f"{source}: {message}" if source else message)
        self.source = source
        self.reason = message


class StoreError(AckwellError):
    """The place where state lives failed; what was acknowledged as durable before still is."""


class FencedError(StoreError):
    """A newer owner has taken the store, so this one can no longer write."""


class NotLoadedError(StoreError):
    """The store holds saves that were never loaded, and a save would replace them. Nothing was written.

    Load the state first and save on from it, or save with `replace=True`.
    """


class LimitError(AckwellError):
    """A structure would outgrow a limit the caller set; nothing was changed."""


class StateTooLargeError(LimitError):
    """Saving would cut the state at a limit; `report` lists exactly what would be lost."""

    def __init__(self, message: str, report: LossReport) -> None:
        super().__init__(message)
        self.report = report
