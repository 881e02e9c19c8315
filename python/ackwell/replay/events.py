"""The event schema, shared by traces in JSON lines, Parquet files and Spark rows.

An event records that something happened to one subscription, or to a topic and so to all its subscriptions: a
message was published, dispatched or acknowledged. An event of a topic has the empty string as subscription.
`Event` lists the fields and `Kind` the kinds. A Parquet file or a DataFrame has a column for each field. A
JSON line is an object with a key for each field, under ackwell's names or the short names of recorded traces
(`t`, `ev`, `c`, `l`, `e`, `bi`, `rc`, `sub`).

**Order** is `(file, sequence)`: files by name, events by line number if the source has no sequence.
**Duplicates are harmless**: an acknowledgment is a set operation and a publish only makes a ledger longer, so
a second copy of an event changes nothing.

A line that is not an event raises `EventError` with its file and line. Only blank lines are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple, Never, TypedDict

from ackwell.cursor.ack_sets import WORDS_MAX, check_batch_index, check_batch_size
from ackwell.errors import EventError, LimitError
from ackwell.integers import INT64_MAX, INT64_MIN

SCHEMA_VERSION: Final = 1
"""Incremented when a field or a kind changes its meaning, not for new optional fields."""


ENTRY_ID_MAX: Final = INT64_MAX - 1
"""The greatest entry id. The number of entries of a ledger is one more, and is then also an int64."""


class Kind(StrEnum):
    """The kind of an event."""

    @classmethod
    def _missing_(cls, value: object) -> Never:
        raise ValueError(f"unknown event kind {value!r}; known are {', '.join(cls)}")

    META = "meta"
    """The head of a trace. `detail` is the broker's settings as JSON."""
    PUBLISH = "publish"
    """An entry was added: one event for the topic. Older traces have one for each message or subscription."""
    PUBLISH_FAILED = "publish_failed"
    """The broker refused the message. The event has no position and no effect."""
    DISPATCH = "dispatch"
    """The broker sent an entry to a consumer. The ack set, if any, shows which messages of the entry were
    acknowledged before."""
    RECEIVE = "receive"
    """A consumer passed a message to its application."""
    ACK = "ack"
    ACK_CUMULATIVE = "ack_cumulative"
    NACK = "nack"
    REDELIVER_UNACKED = "redeliver_unacked"
    """A consumer asked for the redelivery of all its unacknowledged messages."""
    CONSUMER_OPEN = "consumer_open"
    """`detail` is the subscription's type: Exclusive, Shared, Failover or Key_Shared."""
    CONSUMER_CLOSE = "consumer_close"
    CLIENT_CLOSED = "client_closed"
    """All consumers disconnected."""
    SEEK = "seek"
    """The cursor was set to a position, by a seek or when the subscription was created (`detail` is `made`).

    The position is the next to be read. With an ack set, the messages of that entry whose bit is clear are
    acknowledged.
    """
    CLEAR_BACKLOG = "clear_backlog"
    """All entries published so far are acknowledged."""
    SKIP = "skip"
    """An operator skipped messages: all entries up to the position are acknowledged."""
    EXPIRE = "expire"
    """Messages expired: all entries up to the position are acknowledged."""
    TRIM = "trim"
    """The topic's ledgers before the given position were deleted."""
    UNSUBSCRIBE = "unsubscribe"
    """The subscription and its cursor were deleted."""
    COMMIT = "commit"
    """A transaction was committed: its acknowledgments on this subscription take effect.

    For a topic: the messages published in the transaction can be delivered from now on.
    """
    ABORT = "abort"
    """A transaction was aborted: its acknowledgments are void, and its messages are skipped."""
    UNLOAD = "unload"
    BROKER_RESTART = "broker_restart"
    """`detail` is `graceful` or `crash`."""
    SNAPSHOT = "snapshot"
    """The broker was asked for its state. `detail` is the file with the answer."""
    RESULT = "result"
    """A remark of the recorder. It has no effect."""
    GAP = "gap"
    """The recorder missed something. `detail` describes it."""


class Event(NamedTuple):
    """One event. `Kind` describes the kinds.

    Times are int64 milliseconds since the epoch, ids int64, `ack_set` signed 64-bit words (bit set =
    not acknowledged, least significant bit first). `None` means that the source has no value.
    """

    topic: str
    subscription: str
    sequence: int
    """The order of the event in its file; the line number, from 1, if the source has no sequence."""
    kind: Kind
    time_ms: int | None = None
    consumer: str | None = None
    ledger_id: int | None = None
    entry_id: int | None = None
    batch_index: int | None = None
    batch_size: int | None = None
    ack_set: tuple[int, ...] | None = None
    key: str | None = None
    sticky_key_hash: int | None = None
    deliver_at_ms: int | None = None
    redelivery_count: int | None = None
    transaction: str | None = None
    """The id of the transaction of this publish or acknowledgment, in its printed form."""
    detail: str | None = None
    file: str | None = None
    """The file of the event. Messages name the line by `file` and `sequence`."""


class EventFields(TypedDict, total=False):
    """The fields that a recorder passes by name. See the `Event` field of the same name."""

    batch_size: int | None
    ack_set: tuple[int, ...] | None
    key: str | None
    deliver_at_ms: int | None
    redelivery_count: int | None
    transaction: str | None
    detail: str | None


_STRINGS: Final = ("topic", "subscription", "consumer", "key", "transaction", "detail")
_COUNTS: Final = (
    "sequence",
    "ledger_id",
    "entry_id",
    "batch_index",
    "batch_size",
    "redelivery_count",
)
_INTEGERS: Final = (*_COUNTS, "time_ms", "deliver_at_ms", "sticky_key_hash")


class Action(IntEnum):
    """The effect of an event on a cursor. The values equal those of the native `Partials.ACTIONS`."""

    NOTHING = 0
    PLACED = 1
    """No effect, but the event must have a position."""
    EXISTS = 2
    """The entry exists."""
    ACK = 3
    """The entry, or some of its messages, are acknowledged."""
    UP_TO = 4
    """All entries up to this one, or up to some of its messages, are acknowledged."""
    CLEAR = 5
    """The same as `UP_TO` if the event has a position. Otherwise, all entries published so far are
    acknowledged."""
    SEEK = 6
    """The position is the next to be read. Earlier acknowledgments are void."""
    TRIM = 7
    """The topic's ledgers before the position's ledger are deleted."""
    DELETE = 8
    """The subscription is deleted."""
    IN_TRANSACTION = 9
    """An acknowledgment in a transaction whose outcome is unknown."""
    UNKNOWN = 10
    MISSING = 11
    VOID = 12
    """An acknowledgment without effect, because its transaction was not committed."""
    NAMED = 13
    """No effect, but the event must name a subscription."""
    DELIVERED = 14
    """The entry exists, because the subscription received it."""
    COMMIT = 15
    """The acknowledgments of the transaction take effect."""


class Effect(NamedTuple):
    """The effect of a kind of event, and the fields that the kind needs."""

    action: Action = Action.NOTHING
    transaction: bool = False
    """Whether an event of this kind needs a transaction."""
    resets: bool = False
    """Whether the order of such an event matters to a cursor. The event must then be known before other
    events are folded."""
    consumers: bool = False
    """Whether such an event changes consumers. Its order then matters to pending acknowledgments."""

    @property
    def of_topic(self) -> bool:
        """Whether an event of this kind can concern a topic as a whole, without a subscription."""
        return self.action in (Action.NOTHING, Action.EXISTS, Action.TRIM, Action.COMMIT)

    @property
    def position(self) -> bool:
        """Whether an event of this kind needs a ledger id and an entry id."""
        return self.action not in (
            Action.NOTHING,
            Action.NAMED,
            Action.CLEAR,
            Action.DELETE,
            Action.COMMIT,
        )

    @property
    def exists(self) -> bool:
        """Whether an event of this kind proves that its entry exists."""
        return self.action in (Action.EXISTS, Action.DELIVERED)


EFFECTS: Final[dict[Kind, Effect]] = {
    Kind.META: Effect(Action.NAMED),
    Kind.PUBLISH: Effect(Action.EXISTS),
    Kind.PUBLISH_FAILED: Effect(),
    Kind.DISPATCH: Effect(Action.DELIVERED, consumers=True),
    Kind.RECEIVE: Effect(Action.DELIVERED, consumers=True),
    Kind.ACK: Effect(Action.ACK, consumers=True),
    Kind.ACK_CUMULATIVE: Effect(Action.UP_TO, consumers=True),
    Kind.NACK: Effect(Action.PLACED, consumers=True),
    Kind.REDELIVER_UNACKED: Effect(Action.NAMED, consumers=True),
    Kind.CONSUMER_OPEN: Effect(Action.NAMED, consumers=True),
    Kind.CONSUMER_CLOSE: Effect(Action.NAMED, consumers=True),
    Kind.CLIENT_CLOSED: Effect(Action.NAMED, consumers=True),
    Kind.SEEK: Effect(Action.SEEK, resets=True, consumers=True),
    Kind.CLEAR_BACKLOG: Effect(Action.CLEAR, resets=True, consumers=True),
    Kind.SKIP: Effect(Action.UP_TO, consumers=True),
    Kind.EXPIRE: Effect(Action.UP_TO, consumers=True),
    Kind.TRIM: Effect(Action.TRIM, consumers=True),
    Kind.UNSUBSCRIBE: Effect(Action.DELETE, consumers=True),
    Kind.COMMIT: Effect(Action.COMMIT, transaction=True, resets=True, consumers=True),
    Kind.ABORT: Effect(transaction=True, consumers=True),
    Kind.UNLOAD: Effect(consumers=True),
    Kind.BROKER_RESTART: Effect(consumers=True),
    Kind.SNAPSHOT: Effect(Action.NAMED),
    Kind.RESULT: Effect(),
    Kind.GAP: Effect(),
}
"""The effect of each kind. Every engine follows this table."""

IN_TRANSACTION: Final = frozenset(
    kind for kind, effect in EFFECTS.items() if effect.action in (Action.ACK, Action.UP_TO)
)
"""The kinds of events that take effect at the commit, if the event is in a transaction."""


def event_from_fields(
    fields: Mapping[str, Any], *, file: str | None = None, line: int | None = None
) -> Event:
    """Build an event from its fields under ackwell's names. Unknown fields are ignored.

    Raises `EventError`, naming `file` and `line`, for an unknown kind, a missing or mistyped field, a
    negative id, an integer outside int64, or a batch larger than `ackwell.cursor.ack_sets.BATCH_SIZE_MAX`.

    >>> fields = {"topic": "t", "subscription": "s", "sequence": 1, "kind": "ack"}
    >>> event_from_fields(fields | {"ledger_id": 3, "entry_id": 5}).entry_id
    5
    """
    try:
        kind = Kind(fields.get("kind"))  # type: ignore[arg-type] # any value of the line
        values = {name: fields[name] for name in Event._fields if fields.get(name) is not None}
        for check in (_check_strings, _check_integers, _check_batch):
            check(values)
        _check_complete(kind, values)
    except (ValueError, LimitError) as error:
        raise EventError(str(error), file=file, line=line) from None
    values.setdefault("sequence", line or 0)
    return Event(**values | {"kind": kind, "file": file})


def _check_strings(values: dict[str, Any]) -> None:
    for name in _STRINGS:
        if not isinstance(values.get(name, ""), str):
            raise ValueError(f"{name} is {values[name]!r}; expected a string")
        try:
            values.get(name, "").encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} is {values[name]!r}, half a surrogate pair; expected text") from None


def _check_integers(values: dict[str, Any]) -> None:
    for name in _INTEGERS:
        value = values.get(name, 0)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}; expected an integer")
        if abs(value) > INT64_MAX:
            raise ValueError(f"{name} is {value}, outside int64")
        if value < 0 and name in _COUNTS:
            raise ValueError(f"{name} is {value}; it is at least 0")
    if values.get("entry_id", 0) > ENTRY_ID_MAX:
        raise ValueError(f"entry_id is {values['entry_id']}; it is at most {ENTRY_ID_MAX}")


def _check_batch(values: dict[str, Any]) -> None:
    """Raise an error for a batch larger than any message can be, before memory is allocated for it."""
    check_batch_index(values.get("batch_index", 0))
    check_batch_size(values.get("batch_size", 0) or 1)
    words = values.get("ack_set")
    if words is None:
        return
    if not isinstance(words, list | tuple):
        raise ValueError(f"ack_set is {words!r}; expected a list of signed 64-bit words")
    if len(words) > WORDS_MAX:
        raise ValueError(f"ack_set has {len(words):,} words; at most {WORDS_MAX:,} are possible")
    wrong = [word for word in words if not _is_word(word)]
    if wrong:
        raise ValueError(f"ack_set contains {wrong[0]!r}; expected signed 64-bit words")
    values["ack_set"] = tuple(words)


def _is_word(value: object) -> bool:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return is_integer and INT64_MIN <= value <= INT64_MAX  # type: ignore[operator]


def _check_complete(kind: Kind, values: dict[str, Any]) -> None:
    effect = EFFECTS[kind]
    if effect.of_topic:
        values.setdefault("subscription", "")
    for name in ("topic", "subscription"):
        if name not in values:
            raise ValueError(f"this {kind} has no {name}, and no meta line before it names one")
    if not values["subscription"] and not effect.of_topic:
        raise ValueError(f"this {kind} names no subscription, and cannot concern a topic as a whole")
    if effect.position and not {"ledger_id", "entry_id"} <= values.keys():
        raise ValueError(f"this {kind} has no position; it needs a ledger id and an entry id")
    if effect.transaction and "transaction" not in values:
        raise ValueError(f"this {kind} names no transaction")
