"""The event schema, shared by traces in JSON lines, Parquet files and Spark rows.

An event records, for example, that a message was published, dispatched or acknowledged. It concerns one
subscription, or a topic with all its subscriptions. In the second case, its field `subscription` is empty.
`Event` lists the fields and `Kind` the kinds. A Parquet file or a DataFrame has a column for each field. A
JSON line is an object with a key for each field. The keys are ackwell's names, or the short names of recorded
traces (`t`, `ev`, `c`, `l`, `e`, `bi`, `rc`, `sub`).

**Order**: events are ordered by `(file, sequence)`. Files are ordered by name. If a source has no sequence,
the line number is the sequence.

**Duplicates are harmless**: a second copy of an event changes nothing, because an acknowledgment adds to a
set, and a publish can only make a ledger longer.

A line that is not an event raises `EventError` with its file and line. Only blank lines are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple, Never, TypedDict

from ackwell._native import Partials
from ackwell.cursor.ack_sets import WORDS_MAX, check_batch_index, check_batch_size
from ackwell.errors import EventError, LimitError
from ackwell.integers import INT64_MAX, is_int64

SCHEMA_VERSION: Final = 1
"""The version of the schema. A changed meaning of a field or kind increments it; a new optional field does
not."""

_REASON_CHARACTERS_MAX: Final = 1_000
"""The maximum length of the reason of an error. A longer reason is shortened in its middle."""

ENTRY_ID_MAX: Final = INT64_MAX - 1
"""The greatest valid entry id. The number of entries of a ledger is one more, and must fit into an int64."""


class Kind(StrEnum):
    """The kind of an event."""

    @classmethod
    def _missing_(cls, value: object) -> Never:
        raise ValueError(f"unknown event kind {value!r}; known are {', '.join(cls)}")

    META = "meta"
    """The head of a trace. `detail` is the broker's settings as JSON."""
    PUBLISH = "publish"
    """An entry was added to the topic. Older traces have one such event for each message or subscription."""
    PUBLISH_FAILED = "publish_failed"
    """The broker refused the message. The event has no position and no effect."""
    DISPATCH = "dispatch"
    """The broker sent an entry to a consumer. The ack set, if there is one, shows which messages of the entry
    were already acknowledged."""
    RECEIVE = "receive"
    """A consumer passed a message to its application."""
    ACK = "ack"
    ACK_CUMULATIVE = "ack_cumulative"
    NACK = "nack"
    REDELIVER_UNACKED = "redeliver_unacked"
    """A consumer asked for the redelivery of all its unacknowledged messages."""
    CONSUMER_OPEN = "consumer_open"
    """A consumer connected. `detail` is the type of the subscription: Exclusive, Shared, Failover or
    Key_Shared."""
    CONSUMER_CLOSE = "consumer_close"
    CLIENT_CLOSED = "client_closed"
    """All consumers disconnected."""
    SEEK = "seek"
    """The cursor was moved by a seek, or set when the subscription was created (`detail` is then `made`).

    The event's position is the next position to read. If the event has an ack set, those messages of the
    entry at this position whose bit is 0 are acknowledged.
    """
    CLEAR_BACKLOG = "clear_backlog"
    """All entries published so far are acknowledged."""
    SKIP = "skip"
    """An operator skipped messages. All entries up to and including the position are acknowledged."""
    EXPIRE = "expire"
    """Messages expired. All entries up to and including the position are acknowledged."""
    TRIM = "trim"
    """The topic's ledgers before the ledger of the position were deleted."""
    UNSUBSCRIBE = "unsubscribe"
    """The subscription and its cursor were deleted."""
    COMMIT = "commit"
    """A transaction was committed.

    In an event of a subscription, the transaction's acknowledgments on this subscription take effect. In an
    event of a topic, the messages that were published in the transaction can be delivered from now on.
    """
    ABORT = "abort"
    """A transaction was aborted. Its acknowledgments are void, and its messages are never delivered."""
    UNLOAD = "unload"
    BROKER_RESTART = "broker_restart"
    """The broker restarted. `detail` is `graceful` or `crash`."""
    SNAPSHOT = "snapshot"
    """The broker was asked for its state. `detail` is the file with the answer."""
    RESULT = "result"
    """A remark of the recorder. It has no effect."""
    GAP = "gap"
    """The recorder missed something. `detail` describes it."""


class Event(NamedTuple):
    """One event. `Kind` describes the kinds.

    Times are int64 milliseconds since the epoch. Ids are int64. `ack_set` has signed 64-bit words, the least
    significant bit first; a message whose bit is 1 is not acknowledged. `None` means that the source has no
    value.
    """

    topic: str
    subscription: str
    sequence: int
    """The number that orders the event in its file. If the source has none, the line number, from 1."""
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
    """The id of the transaction to which the publish or acknowledgment belongs, as text: `most:least`."""
    detail: str | None = None
    file: str | None = None
    """The file of the event. Error messages locate the event by `file` and `sequence`."""


class EventFields(TypedDict, total=False):
    """The event fields that a recorder passes by name. `Event` describes them."""

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
    """The effect of an event on a cursor. The integers are the same as in the native `Partials.ACTIONS`."""

    NOTHING = 0
    PLACED = 1
    """The event has no effect, but it must have a position."""
    EXISTS = 2
    """The entry exists."""
    ACK = 3
    """The entry at the position is acknowledged: all its messages, or those that the event names."""
    UP_TO = 4
    """All entries before the position are acknowledged, and the entry at the position wholly or in part."""
    CLEAR = 5
    """The same effect as `UP_TO` if the event has a position. Otherwise, all entries published before the
    event are acknowledged."""
    SEEK = 6
    """The position becomes the next position to read. Acknowledgments before the event are void."""
    TRIM = 7
    """The topic's ledgers before the position's ledger are deleted."""
    DELETE = 8
    """The subscription is deleted."""
    IN_TRANSACTION = 9
    """An acknowledgment in a transaction of which neither a commit nor an abort is known."""
    UNKNOWN = 10
    MISSING = 11
    VOID = 12
    """An acknowledgment without effect, because its transaction was not committed."""
    NAMED = 13
    """The event has no effect, but it must name a subscription."""
    DELIVERED = 14
    """The entry exists, because the subscription received it."""
    COMMIT = 15
    """The acknowledgments of the transaction take effect."""


_NEED_SUBSCRIPTION, _NEED_POSITION, _PROVE_ENTRY, _ACKNOWLEDGE = map(frozenset, Partials.ACTIONS_BY_PROPERTY)


class Effect(NamedTuple):
    """The effect of events of one kind, and the fields that these events need."""

    action: Action = Action.NOTHING
    transaction: bool = False
    """Whether an event of this kind needs a transaction."""
    resets: bool = False
    """Whether events of this kind are resets: a cursor depends on their order. A fold must then know them
    before it folds other events."""
    consumers: bool = False
    """Whether events of this kind change the consumers. The pending acknowledgments then depend on the order
    of these events."""

    @property
    def of_topic(self) -> bool:
        """Whether an event of this kind may concern a whole topic. Its field `subscription` is then empty."""
        return self.action not in _NEED_SUBSCRIPTION

    @property
    def position(self) -> bool:
        """Whether an event of this kind needs a ledger id and an entry id."""
        return self.action in _NEED_POSITION

    @property
    def exists(self) -> bool:
        """Whether an event of this kind proves that its entry exists."""
        return self.action in _PROVE_ENTRY


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

IN_TRANSACTION: Final = frozenset(kind for kind, effect in EFFECTS.items() if effect.action in _ACKNOWLEDGE)
"""The kinds of acknowledgments. In a transaction, such an event takes effect when the transaction commits."""


def event_from_fields(
    fields: Mapping[str, Any], *, file: str | None = None, line: int | None = None
) -> Event:
    """Build an event from a map of its fields. The keys are ackwell's names; unknown keys are ignored.

    Raises `EventError` for an unknown kind, a missing field, a field of a wrong type, a negative id, an
    integer outside int64, or a batch larger than `ackwell.cursor.ack_sets.BATCH_SIZE_MAX`. The error names
    `file` and `line`.

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
        raise EventError(shortened_reason(str(error)), file=file, line=line) from None
    values.setdefault("sequence", line or 0)
    return Event(**values | {"kind": kind, "file": file})


def shortened_reason(text: str) -> str:
    """Return an error message without its middle if it is long, because it may contain a value of many MB.

    >>> len(shortened_reason("kind is " + 1_000_000 * "a")), shortened_reason("no kind")
    (1003, 'no kind')
    """
    if len(text) <= _REASON_CHARACTERS_MAX:
        return text
    half = _REASON_CHARACTERS_MAX // 2
    return f"{text[:half]}...{text[-half:]}"


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
    """Raise an error if a batch index or size exceeds the largest possible batch.

    Otherwise an invalid event could allocate a huge ack set.
    """
    check_batch_index(values.get("batch_index", 0))
    check_batch_size(values.get("batch_size", 0) or 1)
    words = values.get("ack_set")
    if words is None:
        return
    if not isinstance(words, list | tuple):
        raise ValueError(f"ack_set is {words!r}; expected a list of signed 64-bit words")
    if len(words) > WORDS_MAX:
        raise ValueError(f"ack_set has {len(words):,} words; at most {WORDS_MAX:,} are possible")
    wrong = [word for word in words if not is_int64(word)]
    if wrong:
        raise ValueError(f"ack_set contains {wrong[0]!r}; expected signed 64-bit words")
    values["ack_set"] = tuple(words)


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
