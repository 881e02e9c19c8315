"""Actions with all choices made; the broker and our model get the same actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ackwell import Position

AckSet = tuple[int, ...]
Transaction = tuple[int, int]


class Publish(NamedTuple):
    """Entries in order: each a batch of a size or a plain message (None), with or without a key."""

    entries: tuple[tuple[int | None, str | None], ...]
    deliver_at_ms: int = 0
    chunked: bool = False
    """The entries are the chunks of one message."""


class Subscribe(NamedTuple):
    """A consumer subscribes."""

    consumer_id: int
    name: str
    priority: int


class Close(NamedTuple):
    """A consumer leaves."""

    consumer_id: int


class Flow(NamedTuple):
    """A consumer grants permits."""

    consumer_id: int
    permits: int


class Ack(NamedTuple):
    """Individual acknowledgments in one command: position, ack set (empty: the whole entry), batch size."""

    consumer_id: int
    message_ids: tuple[tuple[Position, AckSet, int], ...]
    transaction: Transaction | None = None
    properties: tuple[tuple[str, int], ...] = ()


class AckCumulative(NamedTuple):
    """Everything up to a position, with an ack set only part of that last entry."""

    consumer_id: int
    position: Position
    ack_set: AckSet = ()
    transaction: Transaction | None = None
    properties: tuple[tuple[str, int], ...] = ()


class EndTransaction(NamedTuple):
    """A transaction is committed or aborted."""

    transaction: Transaction
    commit: bool


class Redeliver(NamedTuple):
    """A consumer returns entries (the command of a client's nack), or all its entries (None)."""

    consumer_id: int
    positions: tuple[Position, ...] | None


class Nack(NamedTuple):
    """A client negatively acknowledges a message.

    It requests the redelivery after the back-off (`Redeliver`).
    """

    consumer_id: int
    position: Position


class Seek(NamedTuple):
    """The subscription seeks to a position, or with an ack set to a message of a batch."""

    consumer_id: int
    position: Position
    ack_set: AckSet = ()


class Skip(NamedTuple):
    """The admin API skips entries."""

    entries: int


class Clear(NamedTuple):
    """The admin API clears the backlog."""


class Expire(NamedTuple):
    """The admin API expires everything up to a position."""

    position: Position


class Unload(NamedTuple):
    """The topic is closed and loaded again."""

    forged: bool = False
    """Before, the cursor gets acknowledged entries of a ledger that does not exist. Metadata was lost."""


class Wait(NamedTuple):
    """Time passes until a moment."""

    until_ms: int


class ChangeType(NamedTuple):
    """The next consumers have another subscription type. No consumer is connected."""

    type: str


class Unsubscribe(NamedTuple):
    """Delete the subscription and create it again at the first entry; no consumer is connected."""


Action = (
    Publish
    | Subscribe
    | Close
    | Flow
    | Ack
    | AckCumulative
    | EndTransaction
    | Redeliver
    | Nack
    | Seek
    | Skip
    | Clear
    | Expire
    | Unload
    | Wait
    | ChangeType
    | Unsubscribe
)
