"""A subscription without any I/O: events in, decisions out, time as an argument.

**The round.** The caller owns the log, the connections and the clock:

1. `next_reads(limit, now_ms)` names the positions to read, those owed again first.
2. The caller reads them and calls `dispatch` (or `dispatch_many`) with what the messages say of
   themselves: batch size, sticky-key hash, time of delivery. The answer is who gets each.
3. `ack`, `nack`, `redeliver`, `flow`, `remove_consumer` as the consumers speak.
4. `save` makes the state durable, and only then gives the receipts of what was acknowledged.

**Where what is.** `Cursor`: what is acknowledged. `Outstanding`: what each consumer has, and the
counters. `ReplayQueue`: what was read and is owed again. `Redelivery`: counts, back-offs, dead letters.
`Transactions`: what open transactions hold. `Unread`: the read position. Every existing entry is in
exactly one of these places or, after a delay was asked for, in the delayed tracker; `validate` checks it.

**Threads.** A subscription belongs to one thread, or one event loop, at a time; nothing in it waits.
Callers with more threads put one lock around it. Batch calls let go of the interpreter inside, and
read the arrays they were given meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from ackwell import engine as engines
from ackwell.arrays import as_int64, same_length
from ackwell.cursor import Cursor
from ackwell.errors import ProtocolError
from ackwell.position import Position
from ackwell.subscription import saved
from ackwell.subscription.acknowledge import Acknowledgments
from ackwell.subscription.command import AckType, CommandAck, MessageId, TransactionId, ValidationError
from ackwell.subscription.dispatcher import Delivery, Dispatcher
from ackwell.subscription.durability import Durability, Journal, Receipt, Staged
from ackwell.subscription.offered import Offered
from ackwell.subscription.outstanding import Outstanding
from ackwell.subscription.policies import ByKey, OneActive, Policy, RoundRobin
from ackwell.subscription.redelivery import Redelivery
from ackwell.subscription.releases import Releases
from ackwell.subscription.replay_queue import ReplayQueue
from ackwell.subscription.selectors import ConsistentHashing, Selector
from ackwell.subscription.settings import SubscriptionSettings
from ackwell.subscription.sticky_key import HashRange, sticky_key_hash
from ackwell.subscription.summary import ConsumerSummary, Summary
from ackwell.subscription.transactions import Transactions
from ackwell.subscription.unread import Unread
from ackwell.wire import signed64

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from ackwell._native import Ledgers
    from ackwell.engine import Engine
    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.delayed_messages import DelayedMessages

    Int64s = NDArray[np.int64]


class SubscriptionType(StrEnum):
    """Pulsar's four types."""

    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "Key_Shared"


class Subscription:
    """One subscription: consumers, dispatch, acknowledgments, redelivery, transactions.

    `type` is one of `SubscriptionType`. `ledgers` is shared with whoever publishes; a `cursor` brings its
    own. `selector` is how a Key_Shared subscription maps hashes to consumers, consistent hashing by
    default. `delayed` holds messages until their time; without it, and on Exclusive and Failover, where
    the broker does not delay either, they go out at once. `topic` and `partition` choose the active
    consumer of a Failover subscription. `chunk_entries(first, last)` names the entries of a message sent
    in chunks; by default all from first to last, which is right where producers do not interleave.

    >>> from ackwell import Ledgers
    >>> subscription = Subscription("Shared", Ledgers({3: 4}))
    >>> subscription.add_consumer("a")
    >>> subscription.flow("a", 3)
    >>> for position in subscription.next_reads(10, now_ms=0):
    ...     print(position, subscription.dispatch(*position, now_ms=0))
    3:0 a
    3:1 a
    3:2 a
    3:3 None
    >>> subscription.ack("a", 3, 1), subscription.cursor.mark_delete_position
    (True, Position(ledger_id=3, entry_id=-1))
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        type: SubscriptionType | str,  # noqa: A002  # the field's word
        ledgers: Ledgers | None = None,
        *,
        cursor: Cursor | None = None,
        settings: SubscriptionSettings | None = None,
        selector: Selector | None = None,
        delayed: DelayedMessages | None = None,
        topic: str | None = None,
        partition: int | None = None,
        chunk_entries: Callable[[Position, Position], Iterable[Position]] | None = None,
        engine: Engine | None = None,
    ) -> None:
        if cursor is None:
            if ledgers is None:
                raise TypeError("a subscription needs ledgers, or a cursor that has them")
            cursor = Cursor(ledgers, engine=engine)
        self.type = SubscriptionType(type)
        self.settings = settings or SubscriptionSettings()
        self.cursor = cursor
        engine = engine or engines.native()
        self._outstanding = Outstanding(engine, self.settings)
        self._replay = ReplayQueue(engine, by_key=self.type is SubscriptionType.KEY_SHARED)
        self._redelivery = Redelivery(engine, self.settings, self._replay)
        self._transactions = Transactions()
        self._unread = Unread(cursor, self._transactions)
        self._acks = Acknowledgments(
            cursor, self._outstanding, self._replay, self._redelivery, self._transactions, self._unread
        )
        self._policy: Policy = self._policy_of(selector or ConsistentHashing(), topic, partition)
        self._delayed = delayed if self._policy.individual else None
        self._dispatcher = Dispatcher(
            cursor,
            self.settings,
            self._policy,
            self._outstanding,
            self._replay,
            self._redelivery,
            self._transactions,
            self._unread,
            self._delayed,
        )
        self._releases = Releases(
            cursor,
            self._policy,
            self._outstanding,
            self._replay,
            self._redelivery,
            self._unread,
            self._delayed,
        )
        self._chunk_entries = chunk_entries or self._all_between
        self._durability = Durability(cursor)
        self._unknown_fields = b""
        self._oldest_hole: Position | None = None
        self._oldest_hole_since_ms = 0
        self.validation_errors: Counter[ValidationError] = Counter()
        """Messages that clients threw away, by the reason they gave."""

    # Consumers

    def add_consumer(self, name: str, *, priority: int = 0, hash_ranges: Sequence[HashRange] = ()) -> None:
        """Take a consumer in; it gets nothing before `flow`.

        `priority` 0 is served first. `hash_ranges` are what a consumer of `StickyRanges` brings. Raises
        `ProtocolError` for a name in use, a second consumer of an Exclusive subscription, a hash range
        that is taken.
        """
        consumer = self._outstanding.join(name, priority)
        try:
            start_over = self._policy.join(consumer, hash_ranges)
        except (ProtocolError, ValueError):
            del self._outstanding.consumers[name]
            raise
        if start_over:
            self._unread.rewind()

    def remove_consumer(self, name: str) -> int:
        """Let a consumer go; return how many entries of its go back to be delivered again.

        They keep their redelivery count: that its consumer left is no failure of a message. On Exclusive
        and Failover the next active consumer starts from the first unacknowledged message.
        """
        return self._releases.left(self._outstanding[name])

    def flow(self, name: str, permits: int) -> None:
        """Let a consumer get so many more messages."""
        if permits < 1:
            raise ValueError(f"{permits} permits; expected at least 1")
        self._outstanding[name].permits += permits

    @property
    def consumers(self) -> list[str]:
        """The connected consumers, in the order in which they joined."""
        return list(self._outstanding.consumers)

    @property
    def active_consumer(self) -> str | None:
        """The one consumer that gets messages, on Exclusive and Failover."""
        active = self._policy.active
        return active.name if active is not None else None

    def sticky_key_hash(self, key: str | bytes | None) -> int:
        """Return the hash that `dispatch` needs for a message with this key; 0 unless Key_Shared."""
        if isinstance(self._policy, ByKey):
            return sticky_key_hash(key, self._policy.selector.slots)
        return 0

    # Dispatch

    def next_reads(self, limit: int, now_ms: int) -> list[Position]:
        """Name the positions to read and `dispatch` next: those owed again first, in position order.

        Empty when nobody can get a message now. Time moves on first: delays and back-offs that are
        over, and acknowledgments that took too long.
        """
        ledger_ids, entry_ids = self.next_reads_many(limit, now_ms)
        return [Position(*pair) for pair in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True)]

    def next_reads_many(self, limit: int, now_ms: int) -> tuple[Int64s, Int64s]:
        """Do what `next_reads` does, as two int64 arrays: ledger ids and entry ids."""
        self.advance(now_ms)
        return self._dispatcher.next_reads(limit)

    def dispatch(
        self,
        ledger_id: int,
        entry_id: int,
        now_ms: int,
        *,
        batch_size: int = 1,
        sticky_key_hash: int = 0,
        deliver_at_ms: int = 0,
    ) -> str | None:
        """Decide who gets an entry that `next_reads` named; `None` for nobody now.

        It is then named again when its time has come, it is a dead letter (see `dead_letters`), or it
        is acknowledged. An entry that nobody asked for, or that is with a consumer already, is nobody's.
        Amortised O(1) on Shared, O(log points) on Key_Shared.
        """
        return self._dispatcher.dispatch(
            ledger_id, entry_id, now_ms, batch_size, sticky_key_hash, deliver_at_ms
        )

    def dispatch_many(
        self,
        ledger_ids: ArrayLike,
        entry_ids: ArrayLike,
        now_ms: int,
        *,
        batch_sizes: ArrayLike | None = None,
        sticky_key_hashes: ArrayLike | None = None,
        deliver_at_ms: ArrayLike | None = None,
    ) -> list[Delivery]:
        """Decide who gets which of many entries, int64 arrays of one length in the order of `next_reads`.

        The decisions are those of `dispatch`, one by one; entries that nobody gets now are in no
        delivery. Where nothing is out of the ordinary whole runs are decided at once.
        """
        offered = Offered.of(ledger_ids, entry_ids, batch_sizes, sticky_key_hashes, deliver_at_ms)
        return self._dispatcher.dispatch_many(offered, now_ms)

    @property
    def dead_letters(self) -> list[Position]:
        """The messages redelivered more than `max_redeliver_count` times.

        They go to nobody any more. Write them to where dead letters go, then acknowledge them (with
        `ack(None, …)`): until then they are unacknowledged, and a crash loses none.
        """
        return self._redelivery.dead_letters()

    def redelivery_count(self, ledger_id: int, entry_id: int) -> int:
        """Return how often an entry was redelivered; the next delivery carries it."""
        return self._redelivery.count(ledger_id, entry_id)

    def delivered(
        self,
        consumer: str,
        ledger_id: int,
        entry_id: int,
        now_ms: int,
        *,
        batch_size: int = 1,
        sticky_key_hash: int = 0,
    ) -> None:
        """Take note of a delivery that somebody else decided, as when a broker's events are replayed.

        Permits and limits count, and hold nothing back. Whoever had the entry has it no more; unread
        entries before it are owed as before.
        """
        self._dispatcher.delivered(
            self._outstanding[consumer], Position(ledger_id, entry_id), now_ms, batch_size, sticky_key_hash
        )

    # Acknowledgments

    def ack(self, consumer: str | None, ledger_id: int, entry_id: int, ack_set: Sequence[int] = ()) -> bool:
        """Acknowledge an entry, or with an `ack_set` part of a batch; tell whether that changed anything.

        The broker's rules: who acknowledges need not be who has the message (`None`: nobody who is
        connected); a second acknowledgment changes nothing; so does one of a ledger that is unknown or
        trimmed, or past the end of one that is closed; one ahead of the last position is refused
        (`ProtocolError`). `ack_set` holds 64-bit words, least significant bit first, bit set = not
        acknowledged. O(log ledgers) and O(consumers) where another has the message.
        """
        who = self._outstanding.consumers.get(consumer) if consumer is not None else None
        if who is None and consumer is not None:
            raise self._outstanding.unknown(consumer)
        if ack_set:
            return self._acks.batch(who, Position(ledger_id, entry_id), ack_set)
        return self._acks.individual(who, ledger_id, entry_id)

    def ack_many(self, consumer: str | None, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Acknowledge many whole entries, two int64 arrays; return how many were not before.

        As `ack`, but nothing at all changes when one of them is ahead of the last position.
        """
        who = None if consumer is None else self._outstanding[consumer]
        ledgers, entries = as_int64(ledger_ids), as_int64(entry_ids)
        same_length(ledgers, entries)
        return self._acks.many(who, ledgers, entries)

    def ack_cumulative(
        self, consumer: str | None, ledger_id: int, entry_id: int, ack_set: Sequence[int] = ()
    ) -> bool:
        """Acknowledge everything up to an entry, with an `ack_set` only part of that last one.

        Illegal on Shared and Key_Shared (`ProtocolError`).
        """
        if consumer is not None:
            self._outstanding[consumer]
        self._refuse_cumulative()
        return self._acks.cumulative(Position(ledger_id, entry_id), ack_set)

    def handle(self, consumer: str, command: CommandAck | bytes) -> int:
        """Apply a client's acknowledgment command; return how many entries it changed.

        All or nothing: bytes that are no command are a `CorruptStateError`, a command against the rules
        is a `ProtocolError`. A command with a request id is answered by a receipt of `confirm` or
        `save`, never before its effect is durable. Messages with a validation error are acknowledged
        and counted; properties go to the cursor; of a message in chunks all entries are meant.
        """
        if isinstance(command, bytes):
            command = CommandAck.decode(command)
        who = self._outstanding[consumer]
        if command.ack_type is AckType.CUMULATIVE:
            changed = self._handle_cumulative(command)
        else:
            changed = self._handle_individual(who, command)
        if command.validation_error is not None:
            self.validation_errors[command.validation_error] += len(command.message_ids)
        if command.request_id is not None:
            self._durability.owe(Receipt(consumer, command.request_id))
        return changed

    # Transactions

    def commit(self, transaction: TransactionId) -> int:
        """Acknowledge what a transaction holds; return how many entries changed.

        A transaction that is not open holds nothing: a commit repeated after a crash is harmless.
        """
        return self._acks.commit(transaction)

    def abort(self, transaction: TransactionId) -> int:
        """Let go of what a transaction holds; return how many entries go back to be delivered again."""
        content = self._acks.abort(transaction, redeliver=self._policy.individual)
        if not self._policy.individual and (content.entries or content.cumulative):
            self._unread.rewind()
        return len(content.entries)

    @property
    def transactions(self) -> list[TransactionId]:
        """The open transactions."""
        return list(self._transactions.open)

    # Redelivery

    def nack(self, consumer: str, ledger_id: int, entry_id: int, now_ms: int) -> bool:
        """Return a message back after its back-off; tell whether this consumer has it.

        It stays with the consumer until then. On Exclusive and Failover, where order rules, everything
        unacknowledged is read again then.
        """
        return self._releases.negative(self._outstanding[consumer], Position(ledger_id, entry_id), now_ms)

    def redeliver(self, consumer: str, positions: Iterable[tuple[int, int]] | None = None) -> int:
        """Take back what a consumer has, all of it or the listed entries, and deliver it again at once.

        Returns how many entries go back; each counts one redelivery more. Entries the consumer does
        not have are ignored. On Exclusive and Failover everything unacknowledged is read again
        (returns 0), for single messages would break the order.
        """
        return self._releases.requested(self._outstanding[consumer], positions)

    def advance(self, now_ms: int) -> int:
        """Let time pass; return how many entries are owed again since."""
        self._look(now_ms)
        return self._releases.advance(now_ms)

    def next_wakeup_ms(self) -> int | None:
        """Return when `advance` has something to do next; `None` for never."""
        return self._releases.next_due_ms()

    def seek(self, ledger_id: int, entry_id: int) -> None:
        """Make this position the next to be read: what lies before is acknowledged, the rest is not.

        Consumers stay connected and have nothing any more (a broker disconnects them). Open
        transactions keep what they hold.
        """
        self.cursor.reset(ledger_id, entry_id)
        for consumer in self._outstanding.consumers.values():
            self._outstanding.take_all(consumer)
        last = self.cursor.ledgers.last_position
        if last is not None:
            self._replay.remove_up_to(last)
            self._redelivery.forget_up_to(last)
        if self._delayed is not None:
            self._delayed.clear()
        self._unread.rewind()

    # Durability

    def stage(self) -> Staged:
        """Freeze what is to be made durable: the state now, and the receipts it is the reason for."""
        return self._durability.stage(
            saved.position_info(self.cursor, self._redelivery, self._transactions, self._unknown_fields)
        )

    def confirm(self, staged: Staged) -> list[Receipt]:
        """Take note that a staged state is durable; give the receipts that may be sent now."""
        return self._durability.confirm(staged)

    def save(self, journal: Journal) -> list[Receipt]:
        """Make the state durable, and give the receipts that may be sent now.

        When the store fails (`StoreError`), nothing was confirmed; the next save covers it.
        """
        staged = self.stage()
        journal.save(staged.info)
        return self.confirm(staged)

    @classmethod
    def load(
        cls,
        type: SubscriptionType | str,  # noqa: A002
        journal: Journal,
        ledgers: Ledgers,
        **options: Any,
    ) -> Self:
        """Take up a subscription where its last save left it, or start it where nothing was saved.

        Nobody is connected, and everything not acknowledged, nor held by an open transaction, is to be
        read. `options` are those of `Subscription`.
        """
        info = journal.load().position_info
        if info is None:
            return cls(type, ledgers, **options)
        cursor = Cursor.from_position_info(info, ledgers, engine=options.get("engine"))
        subscription = cls(type, cursor=cursor, **options)
        for position, count in info.redelivery_counts.items():
            subscription._redelivery.restore(Position(*position), count)
        saved.decode_transactions(info.unknown_fields, subscription._transactions)
        subscription._unknown_fields = saved.without_transactions(info.unknown_fields)
        return subscription

    @property
    def durable_mark_delete_position(self) -> Position:
        """How far a log may be trimmed: everything up to here is acknowledged, and durably so."""
        return self._durability.mark_delete

    # What it looks like

    def summary(self, now_ms: int) -> Summary:
        """Describe the subscription in numbers; no walk over messages, so once a second does no harm."""
        self._look(now_ms)
        hole = self._oldest_hole
        return Summary(
            backlog_entries=self.cursor.backlog_entries,
            unacked=self._outstanding.unacked,
            delayed=len(self._delayed) if self._delayed is not None else 0,
            to_redeliver=len(self._replay),
            backing_off=self._redelivery.waiting,
            dead_letters=self._redelivery.dead,
            in_transactions=self._transactions.entries,
            blocked=self._outstanding.blocked,
            oldest_hole=hole,
            oldest_hole_age_ms=now_ms - self._oldest_hole_since_ms if hole is not None else 0,
            consumers=tuple(
                ConsumerSummary(each.name, each.permits, each.unacked, len(each.pending), each.blocked)
                for each in self._outstanding.consumers.values()
            ),
            nbytes={
                "individually_deleted": self.cursor.individually_deleted.nbytes,
                "pending_acks": self._outstanding.nbytes,
                "replay_queue": self._replay.nbytes,
                "redelivery": self._redelivery.nbytes,
                "delayed": self._delayed.nbytes if self._delayed is not None else 0,
            },
        )

    def audit(self) -> list[str]:
        """Recompute every counter from what is there; describe each that differs. O(outstanding)."""
        found = self._outstanding.audit() + self._replay.audit()
        return found + self._policy.audit()

    def validate(self) -> None:
        """Check the invariants, counters included; `AssertionError` names what does not hold."""
        self.cursor.validate()
        self._outstanding.validate()
        self._replay.validate()
        self._redelivery.validate()
        self._transactions.validate()
        problems = self.audit()
        assert not problems, "; ".join(problems)

    def __repr__(self) -> str:
        return (
            f"<{self.type} subscription: {len(self._outstanding.consumers)} consumers, "
            f"{self._outstanding.unacked} unacked, {len(self._replay)} to redeliver, {self.cursor!r}>"
        )

    def _look(self, now_ms: int) -> None:
        """Notice since when the oldest unacknowledged entry has been the oldest."""
        hole = self._first_unacknowledged()
        if hole != self._oldest_hole:
            self._oldest_hole, self._oldest_hole_since_ms = hole, now_ms

    def _first_unacknowledged(self) -> Position | None:
        ledgers = self.cursor.ledgers
        if not len(ledgers):
            return None
        position = ledgers.next_valid(*self.cursor.mark_delete_position)
        return position if ledgers.contains(*position) else None

    def _policy_of(self, selector: Selector, topic: str | None, partition: int | None) -> Policy:
        if self.type is SubscriptionType.SHARED:
            return RoundRobin(self._outstanding, self.settings.round_robin_batch_size)
        if self.type is SubscriptionType.KEY_SHARED:
            return ByKey(self._outstanding, self._replay, selector)
        exclusive = self.type is SubscriptionType.EXCLUSIVE
        return OneActive(self._outstanding, exclusive=exclusive, partition=partition, topic=topic)

    def _refuse_cumulative(self) -> None:
        if self._policy.individual:
            raise ProtocolError(f"a cumulative acknowledgment is illegal on {self.type}")

    def _handle_cumulative(self, command: CommandAck) -> int:
        self._refuse_cumulative()
        if len(command.message_ids) != 1:
            raise ProtocolError(
                f"a cumulative acknowledgment of {len(command.message_ids)} messages; expected one"
            )
        (message,) = command.message_ids
        if command.transaction is None:
            return int(self._acks.cumulative(message.position, message.ack_set, _signed(command.properties)))
        self._acks.cumulative_in_transaction(command.transaction, message.position, message.ack_set)
        return 0

    def _handle_individual(self, who: Consumer, command: CommandAck) -> int:
        messages = [part for message in command.message_ids for part in self._parts(message)]
        if command.transaction is not None:
            return self._acks.in_transaction(who, command.transaction, messages)
        for message in messages:
            self._acks.exists(message.position)
        changed = sum(self._acks.batch(who, message.position, message.ack_set) for message in messages)
        self.cursor.add_properties(_signed(command.properties))
        return changed

    def _parts(self, message: MessageId) -> Iterable[MessageId]:
        if message.first_chunk is None:
            return (message,)
        entries = self._chunk_entries(message.first_chunk.position, message.position)
        return [MessageId(*position) for position in entries]

    def _all_between(self, first: Position, last: Position) -> Iterable[Position]:
        """Name every existing entry from the first chunk's to the last's."""
        if first > last:
            raise ProtocolError(f"a message in chunks from {first} back to {last}")
        ledgers, position = self.cursor.ledgers, first
        while position < last:
            if ledgers.contains(*position):
                yield position
            position = ledgers.next_valid(*position)
        yield last


def _signed(properties: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return a command's properties as the cursor has them: their values are unsigned on the wire."""
    return {name: signed64(value) for name, value in properties}
