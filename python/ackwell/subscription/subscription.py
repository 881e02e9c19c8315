"""A subscription without any I/O: events in, decisions out, time as an argument.

**The round.** The caller owns the log, the connections and the clock:

1. `next_reads(limit, now_ms)` names the positions to read, those to deliver again first.
2. The caller reads them and calls `dispatch` (or `dispatch_many`) with what the messages say about
   themselves: batch size, sticky-key hash, time of delivery. The answer is who gets each.
3. `ack`, `nack`, `redeliver`, `flow`, `remove_consumer`, as the clients ask for it.
4. `save` makes the state durable, and only then returns the receipts of what was acknowledged.

**Where what is.** `State` lists the parts and where each entry can be; `validate` checks that it is in one
place only. `Dispatcher`, `Acknowledgments`, `Redelivery` and `CursorMoves` are what happens to it.

**Refusals.** Every method checks its arguments before it changes anything: a call that raises has no
effect. A `ProtocolError` carries the code with which a broker answers.

**Threads.** A subscription belongs to one thread, or one event loop, at a time; nothing in it waits.
Callers with more threads put one lock around it. Batch calls release the interpreter inside, and read the
arrays that they were given meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from ackwell.arrays import as_int64
from ackwell.cursor import Cursor
from ackwell.cursor.ack_sets import BATCH_SIZE_MAX, from_words
from ackwell.engine import native_engine
from ackwell.errors import ErrorCode, ProtocolError
from ackwell.position import Position
from ackwell.protocol.command_ack import AckColumns, AckType, CommandAck, TransactionId, ValidationError
from ackwell.protocol.constants import SubscriptionType
from ackwell.saving.journal import Journal
from ackwell.subscription import arguments, handle, saved
from ackwell.subscription.acknowledge import Acknowledgments
from ackwell.subscription.active_changes import ActiveChange, Removal, active_changes
from ackwell.subscription.arguments import INT32_MAX, TIME_MAX_MS
from ackwell.subscription.consumer import NO_EPOCH, ConsumerKey
from ackwell.subscription.cursor_moves import CursorMoves
from ackwell.subscription.dispatcher import Delivery, Dispatcher
from ackwell.subscription.durability import Durability, Receipt, StagedState
from ackwell.subscription.entries import Entries
from ackwell.subscription.places import check_places
from ackwell.subscription.policies import ByKey
from ackwell.subscription.redelivery import Redelivery
from ackwell.subscription.settings import SubscriptionSettings
from ackwell.subscription.state import new_state
from ackwell.subscription.sticky_key import FROM_ONE, HashRange, sticky_key_hash
from ackwell.subscription.structures import Structures
from ackwell.subscription.summary import Summary, summarize

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ackwell._native import Ledgers
    from ackwell.arrays import Int64s
    from ackwell.engine import Engine
    from ackwell.pending_ack import PendingAck
    from ackwell.saving.recovery import Recovery
    from ackwell.store import Store
    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.delayed_messages import DelayedMessages
    from ackwell.subscription.selectors import Selector
    from ackwell.subscription.undelivered import Undelivered


class Subscription:
    """One subscription: consumers, dispatch, acknowledgments, redelivery, transactions.

    For one thread at a time.

    Parameters
    ----------
    type : SubscriptionType or str
        One of Pulsar's four types.
    ledgers : Ledgers, optional
        The ledgers of the topic, shared with the code that publishes; a `cursor` brings its own.
    cursor : Cursor, optional
        What is acknowledged already; its own settings count, not `settings.cursor`.
    settings : SubscriptionSettings, optional
        Limits and delays; `SubscriptionSettings.pulsar(version)` behaves as a broker does.
    selector : Selector, optional
        How a Key_Shared subscription maps hashes to consumers; consistent hashing by default.
    delayed : DelayedMessages, optional
        Holds messages until their time. Without it, and on Exclusive and Failover, where the broker does
        not delay either, they go out at once.
    topic, partition : str, int, optional
        Choose the active consumer of a Failover subscription.
    chunk_entries : callable, optional
        `chunk_entries(first, last)` returns the entries of a message sent in chunks. Without it an
        acknowledgment that names a first chunk acknowledges only the entry that it names, as in the
        broker: entries of other producers can be between them.
    durable : bool
        False for a reader's cursor: `save` writes nothing and returns the receipts at once.
    engine : Engine, optional
        The structures to use; the native ones by default.

    Examples
    --------
    >>> from ackwell import Ledgers
    >>> subscription = Subscription("Shared", Ledgers({3: 4}))
    >>> _ = subscription.add_consumer("a")
    >>> subscription.flow("a", 3)
    >>> for position in subscription.next_reads(10, now_ms=0):
    ...     print(position, subscription.dispatch(*position, now_ms=0))
    3:0 a
    3:1 a
    3:2 a
    3:3 Undelivered.NO_PERMITS
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
        durable: bool = True,
        engine: Engine | None = None,
    ) -> None:
        type = SubscriptionType(type)  # noqa: A001
        settings = settings or SubscriptionSettings()
        if cursor is None:
            if ledgers is None:
                raise TypeError("a subscription needs ledgers, or a cursor that has them")
            cursor = Cursor(ledgers, settings=settings.cursor, engine=engine)
        if partition is not None:
            partition = arguments.integer("partition", partition, 0)
        self._state = state = new_state(
            type,
            cursor,
            settings,
            selector,
            delayed,
            topic,
            partition,
            Structures.of(engine or native_engine()),
        )
        self._unknown_fields = saved.restore_carried(state)
        self._dispatcher = Dispatcher(state)
        self._acks = Acknowledgments(state)
        self._redelivery = Redelivery(state)
        self._moves = CursorMoves(state)
        self._chunk_entries = chunk_entries
        self._durable = durable
        self._durability = Durability(cursor)
        self._oldest_hole: Position | None = None
        self._oldest_hole_since_ms = 0
        self._validation_errors: Counter[ValidationError] = Counter()

    @property
    def type(self) -> SubscriptionType:
        """The type; `change_type` changes it."""
        return self._state.kind

    @property
    def settings(self) -> SubscriptionSettings:
        """The limits and delays."""
        return self._state.settings

    def limit_unacked(self, per_consumer: int, per_subscription: int) -> None:
        """Set how many messages may be unacknowledged, from now on; 0 for any number.

        >>> from ackwell import Ledgers, Subscription
        >>> subscription = Subscription("Shared", Ledgers({3: 8}))
        >>> subscription.limit_unacked(2, 0)
        >>> subscription.settings.max_unacked_per_consumer
        2
        """
        self._state.set_limits(
            replace(
                self._state.settings,
                max_unacked_per_consumer=arguments.integer("per_consumer", per_consumer, 0),
                max_unacked_per_subscription=arguments.integer("per_subscription", per_subscription, 0),
            )
        )

    @property
    def cursor(self) -> Cursor:
        """What is acknowledged."""
        return self._state.cursor

    @property
    def delayed(self) -> DelayedMessages | None:
        """The tracker of delayed messages that it was given."""
        return self._state.delayed

    @property
    def validation_errors(self) -> Counter[ValidationError]:
        """Messages that clients threw away, by the reason they gave."""
        return self._validation_errors

    # Consumers

    def add_consumer(
        self,
        name: str,
        *,
        consumer_id: int | None = None,
        priority: int = 0,
        hash_ranges: Sequence[HashRange] = (),
        epoch: int = NO_EPOCH,
    ) -> list[ActiveChange]:
        """Add a consumer; it gets nothing before `flow`.

        In every other call it is identified by its `consumer_id`, or, added without one, by its name. Any
        number of consumers can have one name and different ids. `priority` 0 is served first.
        `hash_ranges` are what a consumer of `StickyRanges` brings. Returns what a Failover subscription
        has to tell which consumer.

        Raises `ProtocolError` for a consumer that is connected already and for a second one of an
        Exclusive subscription (`CONSUMER_BUSY`), and for a hash range that is taken
        (`CONSUMER_ASSIGN_ERROR`).

        >>> from ackwell import Ledgers
        >>> failover = Subscription("Failover", Ledgers({3: 4}))
        >>> failover.add_consumer("b"), failover.add_consumer("a")
        ([ActiveChange(consumer='b', active=True)], [ActiveChange(consumer='b', active=False), \
ActiveChange(consumer='a', active=True)])
        """
        if not isinstance(name, str):
            raise TypeError(f"name is {name!r}; expected text")
        key: ConsumerKey = name if consumer_id is None else arguments.integer("consumer_id", consumer_id, 0)
        priority = arguments.integer("priority", priority)
        epoch = arguments.integer("epoch", epoch, NO_EPOCH)
        ranges = arguments.hash_ranges(hash_ranges)
        state, before = self._state, self._state.policy.active
        consumer = state.consumers.join(key, name, priority, epoch)
        try:
            start_over = state.policy.join(consumer, ranges)
        except Exception:
            state.consumers.drop(consumer)
            raise
        if start_over:
            state.unread.rewind()
        return self._active_changes(before, consumer)

    def remove_consumer(self, consumer: ConsumerKey) -> Removal:
        """Remove a consumer; return how many of its entries go back, and the notifications to send.

        The entries keep their redelivery count: that its consumer left is not a failure of a message. On
        Exclusive and Failover the next active consumer starts from the first unacknowledged message.
        Receipts for this consumer are dropped.
        """
        who, before = self._state.consumers[consumer], self._state.policy.active
        entries = self._redelivery.remove_consumer(who)
        self._durability.forget(consumer)
        return Removal(entries, self._active_changes(before))

    def flow(self, consumer: ConsumerKey, permits: int) -> None:
        """Let a consumer get so many more messages; 0 grants none."""
        permits = arguments.integer("permits", permits, 0, INT32_MAX)
        self._state.consumers.grant(self._state.consumers[consumer], permits)

    @property
    def permits(self) -> int:
        """How many messages the consumers together asked for and did not get. O(consumers).

        >>> from ackwell import Ledgers, Subscription
        >>> jobs = Subscription("Shared", Ledgers({3: 10}))
        >>> jobs.add_consumer("a")
        []
        >>> jobs.flow("a", 5)
        >>> jobs.dispatch(3, 0, now_ms=0), jobs.permits
        ('a', 4)
        """
        return sum(max(each.permits, 0) for each in self._state.consumers)

    def change_type(self, type: SubscriptionType | str, *, selector: Selector | None = None) -> None:  # noqa: A002
        """Become a subscription of another type, as the broker does when the first consumer has another.

        Raises `ProtocolError` (`CONSUMER_BUSY`) while a consumer is connected. Everything
        unacknowledged is read again; redelivery counts stay, unless `idle_clears_counts` is set.
        """
        self._moves.change_type(SubscriptionType(type), selector)

    @property
    def consumers(self) -> list[ConsumerKey]:
        """What identifies each connected consumer, in the order in which they joined."""
        return self._state.consumers.keys()

    @property
    def active_consumer(self) -> ConsumerKey | None:
        """The one consumer that gets messages, on Exclusive and Failover."""
        active = self._state.policy.active
        return active.key if active is not None else None

    def sticky_key_hash(
        self, key: str | bytes | None, *, producer_name: str | None = None, sequence_id: int | None = None
    ) -> int:
        """Return the hash that `dispatch` needs for a message; 0 unless Key_Shared.

        A message without a key is hashed by its producer and sequence id, as in the broker.
        """
        policy = self._state.policy
        slots = policy.selector.slots if isinstance(policy, ByKey) else FROM_ONE
        hashed = sticky_key_hash(key, slots, producer_name=producer_name, sequence_id=sequence_id)
        return hashed if isinstance(policy, ByKey) else 0

    # Dispatch

    def next_reads(self, limit: int, now_ms: int) -> list[Position]:
        """Return the positions to read and `dispatch` next: those to deliver again first, in position order.

        Empty when nobody can get a message now (see `stall`). Time moves on first: delays and back-offs
        that are over, and acknowledgments that took too long.
        """
        ledger_ids, entry_ids = self.next_reads_many(limit, now_ms)
        return [Position(*pair) for pair in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True)]

    def next_reads_many(self, limit: int, now_ms: int) -> tuple[Int64s, Int64s]:
        """Do what `next_reads` does; return two int64 arrays, ledger ids and entry ids."""
        limit = arguments.integer("limit", limit)
        self.advance(now_ms)
        return self._dispatcher.next_reads(limit)

    @property
    def stall(self) -> Undelivered | None:
        """Why `next_reads` names no unread entry; `None` if nothing stops it."""
        return self._dispatcher.stall()

    def dispatch(
        self,
        ledger_id: int,
        entry_id: int,
        now_ms: int,
        *,
        batch_size: int = 1,
        sticky_key_hash: int = 0,
        deliver_at_ms: int = 0,
    ) -> ConsumerKey | Undelivered:
        """Decide who gets an entry that `next_reads` named; an `Undelivered` says why nobody does now.

        The entry is then named again when its time has come, unless it is a dead letter (see
        `dead_letters`) or acknowledged. `redelivery_count` and `ack_set` return what its delivery carries.
        Amortised O(1) on Shared, O(log points) on Key_Shared.
        """
        try:
            # One pass over all six: it is an int below the limit if all of them are.
            bits = ledger_id | entry_id | now_ms | batch_size | sticky_key_hash | deliver_at_ms
            usual = bits.__class__ is int and 0 <= bits <= TIME_MAX_MS
        except TypeError:
            usual = False
        if not (usual and 0 < batch_size <= BATCH_SIZE_MAX and sticky_key_hash <= INT32_MAX):
            ledger_id, entry_id = arguments.position(ledger_id, entry_id)
            now_ms = arguments.time_ms("now_ms", now_ms)
            batch_size = arguments.batch_size(batch_size)
            sticky_key_hash = arguments.check_hash(sticky_key_hash)
            deliver_at_ms = arguments.time_ms("deliver_at_ms", deliver_at_ms)
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
        delivery. Where nothing is out of the ordinary whole runs are decided at once. Where the tracker
        of delayed messages is full the entries from there on are left for the next call.
        """
        now_ms = arguments.time_ms("now_ms", now_ms)
        entries = Entries.of(ledger_ids, entry_ids, batch_sizes, sticky_key_hashes, deliver_at_ms)
        return self._dispatcher.dispatch_many(entries, now_ms)

    @property
    def dead_letters(self) -> list[Position]:
        """The messages redelivered more than `max_redeliver_count` times.

        They go to nobody any more. Write them to where dead letters go, then acknowledge them (with
        `ack(None, …)`): until then they are unacknowledged, and a crash loses none.
        """
        return list(self._state.counts.dead.positions())

    def redelivery_count(self, ledger_id: int, entry_id: int) -> int:
        """Return how often an entry was redelivered; the next delivery carries it."""
        return self._state.counts.count(*arguments.position(ledger_id, entry_id))

    def ack_set(self, ledger_id: int, entry_id: int) -> tuple[int, ...] | None:
        """Return the unacknowledged messages of a batch as words, which its delivery carries.

        `None` for an entry of which no part is acknowledged or held by a transaction.
        """
        return self._dispatcher.ack_set(arguments.position(ledger_id, entry_id))

    def delivered(
        self,
        consumer: ConsumerKey,
        ledger_id: int,
        entry_id: int,
        now_ms: int,
        *,
        batch_size: int = 1,
        sticky_key_hash: int = 0,
    ) -> None:
        """Apply a delivery that somebody else decided, as when a broker's events are replayed.

        Permits and limits count, and hold nothing back. The entry leaves the consumer that had it;
        unread entries before it are to be delivered as before.
        """
        who, position = self._state.consumers[consumer], arguments.position(ledger_id, entry_id)
        now_ms = arguments.time_ms("now_ms", now_ms)
        size, key_hash = arguments.batch_size(batch_size), arguments.check_hash(sticky_key_hash)
        self._dispatcher.record_delivery(who, position, now_ms, size, key_hash)

    @property
    def read_position(self) -> Position:
        """The first position that was not read yet; it need not exist."""
        return Position(*self._state.unread.position)

    def holder(self, ledger_id: int, entry_id: int) -> ConsumerKey | None:
        """Return the consumer that has an entry, on Shared and Key_Shared. O(consumers)."""
        owner = self._state.consumers.owner(*arguments.position(ledger_id, entry_id))
        return None if owner is None else owner.key

    def pending(self, consumer: ConsumerKey) -> dict[Position, PendingAck]:
        """Return what a consumer has and did not acknowledge, on Shared and Key_Shared. O(entries).

        Each entry with its unacknowledged messages, or with its batch size if
        `partial_ack_lowers_pending` is off, and its sticky-key hash.
        """
        return self._state.consumers.pending(self._state.consumers[consumer])

    # Acknowledgments

    def ack(
        self, consumer: ConsumerKey | None, ledger_id: int, entry_id: int, ack_set: Sequence[int] = ()
    ) -> bool:
        """Acknowledge an entry, or with an `ack_set` part of a batch; return whether that changed anything.

        The broker's rules: the consumer that acknowledges need not be the one that has the message
        (`None`: nobody who is connected); a second acknowledgment changes nothing; neither does one of a
        ledger that is unknown or trimmed, or past the end of one that is closed. One ahead of the last
        position is refused (`ProtocolError`), where a broker answers success and ignores it. `ack_set`
        holds 64-bit words, least significant bit first, bit set = not acknowledged. O(log ledgers), and
        O(consumers) if another has the message.
        """
        who = None if consumer is None else self._state.consumers.by_key[consumer]
        if ledger_id.__class__ is not int or entry_id.__class__ is not int or ledger_id < 0 or entry_id < 0:
            ledger_id, entry_id = arguments.position(ledger_id, entry_id)
        if ack_set:
            return self._acks.ack_batch(
                who, Position(ledger_id, entry_id), from_words(arguments.ack_set_words(ack_set))
            )
        return self._acks.ack(who, ledger_id, entry_id)

    def ack_many(self, consumer: ConsumerKey | None, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Acknowledge many whole entries, two int64 arrays; return how many were not before.

        As `ack`, but nothing at all changes when one of them is ahead of the last position.
        """
        who = self._consumer(consumer)
        return self._acks.ack_many(who, as_int64(ledger_ids), as_int64(entry_ids))

    def ack_cumulative(
        self, consumer: ConsumerKey | None, ledger_id: int, entry_id: int, ack_set: Sequence[int] = ()
    ) -> bool:
        """Acknowledge everything up to an entry, with an `ack_set` only part of that last one.

        Illegal on Shared and Key_Shared (`ProtocolError`), where a broker answers success and ignores it.
        """
        self._consumer(consumer)
        position, words = arguments.position(ledger_id, entry_id), arguments.ack_set_words(ack_set)
        self._refuse_cumulative()
        return self._acks.ack_cumulative(position, words)

    def handle(self, consumer: ConsumerKey, command: CommandAck | AckColumns | bytes) -> int:
        """Apply a client's acknowledgment command; return how many entries it changed.

        The command is applied as a whole or not at all. Bytes that are not a command raise
        `CorruptStateError`. A command against the rules raises `ProtocolError`; a broker applies the part
        that `accepted_part` returns. `confirm` or `save` returns the receipt of a command with a request id
        once its effect is durable. Messages with a validation error are acknowledged and counted; properties
        are saved with the cursor.
        """
        who = self._state.consumers[consumer]
        if isinstance(command, bytes):
            columns = AckColumns.decode(command)
        elif isinstance(command, AckColumns):
            columns = command
        else:
            handle.check(command)
            columns = AckColumns.of(command)
        if columns.ack_type is AckType.CUMULATIVE:
            self._refuse_cumulative()
            changed = handle.apply_cumulative(self._acks, columns)
        else:
            changed = handle.apply_individual(self._acks, who, columns, self._chunk_entries)
            if columns.transaction is None and columns.properties:
                self.cursor.add_properties(handle.signed(columns.properties))
        if columns.validation_error is not None:
            self._validation_errors[columns.validation_error] += len(columns.ledger_ids)
        if columns.request_id is not None:
            self._durability.add(Receipt(consumer, columns.request_id))
        return changed

    def accepted_part(self, command: AckColumns) -> AckColumns:
        """Return what a broker applies of a command that `handle` refuses: the rest is ignored.

        The ids before the first that is ahead of the last position; of a cumulative command none. The client
        of a command without a transaction gets a success all the same.
        """
        if not isinstance(command, AckColumns):
            raise TypeError(f"command is {command!r}; expected AckColumns")
        return handle.accepted_part(self._acks, command)

    # Transactions

    def commit(self, transaction: TransactionId) -> int:
        """Acknowledge what a transaction holds; return how many entries changed.

        A transaction that is not open holds nothing: a commit repeated after a crash is harmless.
        """
        return self._acks.commit(arguments.transaction(transaction))

    def abort(self, transaction: TransactionId) -> int:
        """Release what a transaction holds; return how many entries go back to be delivered again."""
        return self._acks.abort(arguments.transaction(transaction))

    @property
    def transactions(self) -> list[TransactionId]:
        """The open transactions."""
        return list(self._state.transactions.open)

    # Redelivery

    def nack(self, consumer: ConsumerKey, ledger_id: int, entry_id: int, now_ms: int) -> bool:
        """Take a message back after its back-off; return whether this consumer has it.

        It stays with the consumer until then. On Exclusive and Failover, where order rules, everything
        unacknowledged is read again then. On Key_Shared later messages of its hash wait for it, those that
        are not delivered yet; `later_of_key` names the others.
        """
        who, position = self._state.consumers[consumer], arguments.position(ledger_id, entry_id)
        return self._redelivery.nack(who, position, arguments.time_ms("now_ms", now_ms))

    def later_of_key(self, consumer: ConsumerKey, ledger_id: int, entry_id: int) -> list[Position]:
        """Return what a consumer has of the hash of one of its entries, and later than that. O(entries).

        A subscription cannot call back what a consumer has. A caller that wants order per key gives these
        back unprocessed; they wait behind the first one. Empty unless Key_Shared.

        >>> from ackwell import Ledgers, Subscription
        >>> subscription = Subscription("Key_Shared", Ledgers({3: 4}))
        >>> _ = subscription.add_consumer("a")
        >>> subscription.flow("a", 10)
        >>> for position, key in zip(subscription.next_reads(4, now_ms=0), (7, 8, 7, 7), strict=True):
        ...     _ = subscription.dispatch(*position, now_ms=0, sticky_key_hash=key)
        >>> subscription.nack("a", 3, 0, now_ms=0)
        True
        >>> later = subscription.later_of_key("a", 3, 0)
        >>> subscription.redeliver("a", later, counted=False), subscription.next_reads(4, now_ms=0)
        (2, [])
        """
        who = self._state.consumers[consumer]
        return self._redelivery.later_of_key(who, arguments.position(ledger_id, entry_id))

    def redeliver(
        self,
        consumer: ConsumerKey,
        positions: Iterable[tuple[int, int]] | None = None,
        *,
        counted: bool = True,
        epoch: int | None = None,
    ) -> int:
        """Take back what a consumer has, all of it or the listed entries, and deliver it again at once.

        Returns how many entries go back; each counts one redelivery more, unless `counted` is false because
        the consumer did not process it. Entries the consumer does not have are ignored. On Exclusive and
        Failover everything unacknowledged is read again (returns 0), for single messages would break the
        order. A greater `epoch` becomes the consumer's: its client drops the deliveries of an older one
        that are still on their way.
        """
        who = self._state.consumers[consumer]
        listed = None if positions is None else arguments.position_list(positions)
        if epoch is not None:
            who.epoch = max(who.epoch, arguments.integer("epoch", epoch, NO_EPOCH))
        return self._redelivery.redeliver(who, listed, counted=counted)

    def extend(
        self, consumer: ConsumerKey, positions: Iterable[tuple[int, int]] | None = None, *, now_ms: int
    ) -> int:
        """Start the ack timeout anew of what a consumer has, of all of it or of the listed entries.

        For a consumer that needs longer than `ack_timeout_ms`. Returns of how many entries; 0 if there is
        no timeout. Entries that the consumer does not have are ignored. A back-off is not changed.
        O(1) an entry.

        >>> from ackwell import Ledgers, Subscription, SubscriptionSettings
        >>> settings = SubscriptionSettings(ack_timeout_ms=10_000)
        >>> subscription = Subscription("Shared", Ledgers({3: 4}), settings=settings)
        >>> _ = subscription.add_consumer("a")
        >>> subscription.flow("a", 1)
        >>> subscription.dispatch(3, 0, now_ms=0), subscription.next_wakeup_ms()
        ('a', 10000)
        >>> subscription.extend("a", [(3, 0)], now_ms=9_000), subscription.next_wakeup_ms()
        (1, 19000)
        """
        who = self._state.consumers[consumer]
        listed = None if positions is None else arguments.position_list(positions)
        return self._redelivery.extend(who, listed, arguments.time_ms("now_ms", now_ms))

    def advance(self, now_ms: int) -> int:
        """Let time pass; return how many entries are to be delivered again since."""
        now_ms = arguments.time_ms("now_ms", now_ms)
        self._update_oldest_hole(now_ms)
        return self._redelivery.advance(now_ms)

    def next_wakeup_ms(self) -> int | None:
        """Return when `advance` has something to do next; `None` for never. Amortised O(log waiting)."""
        return self._redelivery.next_due_ms()

    # Moves by an administrator

    def seek(self, ledger_id: int, entry_id: int, ack_set: Sequence[int] = ()) -> None:
        """Make this position the next to be read: what is before it is acknowledged, the rest is not.

        `(-1, -1)` is the first entry that exists, `(2**63 - 1, 2**63 - 1)` the end. With an `ack_set`, of
        the batch at the position only the messages whose bit is set are to be read. Consumers stay
        connected and have nothing any more (a broker disconnects them). Open transactions keep what they
        hold.
        """
        self._moves.seek(arguments.position(ledger_id, entry_id, -1, -1), arguments.ack_set_words(ack_set))

    def skip(self, entries: int) -> int:
        """Acknowledge the first so many unacknowledged entries, on any type; return how many there were."""
        return self._moves.skip(arguments.integer("entries", entries, 0))

    def clear_backlog(self) -> int:
        """Acknowledge everything that exists, on any type; return how many entries were not before."""
        return self._moves.clear_backlog()

    def expire(self, ledger_id: int, entry_id: int) -> int:
        """Acknowledge everything up to an entry, on any type; return how many entries were not before.

        For messages past their time to live; which they are is the caller's to say. Under `expires_by_search`
        a broker's search may end before that entry.
        """
        return self._moves.expire(arguments.position(ledger_id, entry_id))

    # Durability

    def stage(self) -> StagedState:
        """Return the state to be made durable, and the receipts that it is the reason for."""
        return self._durability.stage(self.cursor.to_position_info())

    def confirm(self, staged: StagedState) -> list[Receipt]:
        """Note that a staged state is durable, and return the receipts that may be sent now."""
        return self._durability.confirm(staged)

    def save(self, store: Store, *, replace: bool = False) -> list[Receipt]:
        """Save the state in a store, and return the receipts that may be sent now.

        Errors are those of `Cursor.save`. After one of them nothing is confirmed, and the next save
        confirms it.
        """
        receipts = self._durability.waiting_now()
        position = self.cursor.mark_delete_position
        if self._durable:
            self.cursor.save(store, replace=replace)
        return self._durability.saved(position, receipts)

    @classmethod
    def load(
        cls,
        type: SubscriptionType | str,  # noqa: A002
        store: Store,
        ledgers: Ledgers,
        *,
        take_older: bool = False,
        **options: Any,
    ) -> Self:
        """Return the subscription of the newest state in a store; a new one if none was saved.

        Nobody is connected, and everything that is neither acknowledged nor held by an open transaction is
        unread. `options` are those of `Subscription`. Errors and `take_older` are those of `Cursor.load`;
        `recovery` says how the state was found.
        """
        settings: SubscriptionSettings = options.get("settings") or SubscriptionSettings()
        engine = options.get("engine")
        journal = Journal(store, engine=engine)

        def build(found: Recovery) -> Any:
            found = replace(found, loaded_as=SubscriptionType(type))
            cursor = Cursor.recovered(found, journal, ledgers, settings=settings.cursor, engine=engine)
            return cls(type, cursor=cursor, **options)

        subscription: Self = journal.load_as(build, take_older=take_older)
        return subscription

    @property
    def recovery(self) -> Recovery | None:
        """What `load` found in the store, and how; None for a subscription that was not loaded."""
        return self.cursor.recovery

    @property
    def durable_mark_delete_position(self) -> Position:
        """How far a log may be trimmed: everything up to here is acknowledged in a durable state."""
        return self._durability.mark_delete

    # What it looks like

    def summary(self, now_ms: int) -> Summary:
        """Describe the subscription in numbers. O(consumers): once a second does no harm."""
        now_ms = arguments.time_ms("now_ms", now_ms)
        self._update_oldest_hole(now_ms)
        age_ms = 0 if self._oldest_hole is None else now_ms - self._oldest_hole_since_ms
        return summarize(self._state, self.stall, self._oldest_hole, age_ms)

    def audit(self) -> list[str]:
        """Recompute every counter from what is there; describe each that differs. O(outstanding)."""
        state = self._state
        return state.consumers.audit() + state.policy.audit() + state.audit_retrying()

    def validate(self) -> None:
        """Check the invariants; `AssertionError` names what does not hold. O(entries).

        The structures, the counters, and that each existing entry is in exactly one place: acknowledged,
        held by an open transaction, pending at a consumer, queued to be delivered again, delayed, a dead
        letter, or unread.
        """
        self._state.validate()
        check_places(self._state)
        problems = self.audit()
        assert not problems, "; ".join(problems)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Subscription):
            return NotImplemented
        return self._comparable() == other._comparable()

    def __copy__(self) -> Self:
        """Return a subscription of its own, as `copy.deepcopy` does: the two share nothing."""
        return deepcopy(self)

    def __repr__(self) -> str:
        state = self._state
        return (
            f"<{self.type} subscription: {len(state.consumers)} consumers, "
            f"{state.consumers.unacked} unacked, {len(state.replay)} to redeliver, {self.cursor!r}>"
        )

    def _comparable(self) -> tuple[object, ...]:
        return (
            self._state,
            self._durability,
            self._unknown_fields,
            self._validation_errors,
            (self._durable, self._chunk_entries),
        )

    def _consumer(self, consumer: ConsumerKey | None) -> Consumer | None:
        return None if consumer is None else self._state.consumers[consumer]

    def _active_changes(self, before: Consumer | None, joined: Consumer | None = None) -> list[ActiveChange]:
        if self.type is not SubscriptionType.FAILOVER:
            return []
        return active_changes(self._state.consumers, before, self._state.policy.active, joined)

    def _update_oldest_hole(self, now_ms: int) -> None:
        """Note since when the oldest unacknowledged entry has been the oldest."""
        hole = self._first_unacknowledged()
        if hole != self._oldest_hole:
            self._oldest_hole, self._oldest_hole_since_ms = hole, now_ms

    def _first_unacknowledged(self) -> Position | None:
        ledgers = self.cursor.ledgers
        if not len(ledgers):
            return None
        position = ledgers.next_valid(*self.cursor.mark_delete_position)
        return position if ledgers.contains(*position) else None

    def _refuse_cumulative(self) -> None:
        if self._state.policy.individual:
            raise ProtocolError(
                f"a cumulative acknowledgment is illegal on {self.type}", code=ErrorCode.NOT_ALLOWED_ERROR
            )
