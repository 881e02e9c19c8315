"""A subscription without I/O: events in, decisions out, time as an argument.

**The round.** The caller owns the log, the connections and the clock:

1. `next_reads(limit, now_ms)` returns the positions to read, queued ones first.
2. The caller reads them and calls `dispatch` (or `dispatch_many`) with the batch size, sticky-key hash and
   delivery time of each message. The answer is the consumer of each.
3. The caller calls `ack`, `nack`, `redeliver`, `flow` and `remove_consumer` as the clients request.
4. `save` makes the state durable, and then returns the receipts of the acknowledgments.

**Parts.** `State` documents its parts and the places in which an entry can be. `validate` checks that each
entry is in exactly one place. `Dispatcher`, `Acknowledgments`, `Redelivery` and `CursorMoves` change the
state.

**Errors.** Every method checks its arguments before it changes anything, so a call that raises has no effect.
A `ProtocolError` has the error code of the broker's answer.

**Threads.** Use a subscription from one thread, or one event loop, at a time, or protect it by a lock. No
call blocks. While a batch call reads its arrays, other threads can run Python code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ackwell.arrays import as_int64
from ackwell.cursor import Cursor
from ackwell.cursor.ack_sets import BATCH_SIZE_MAX
from ackwell.engine import native_engine
from ackwell.errors import ErrorCode, ProtocolError
from ackwell.position import Position
from ackwell.protocol.command_ack import AckColumns, AckType, CommandAck, TransactionId, ValidationError
from ackwell.protocol.constants import SubscriptionType, SubscriptionTypeName
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
from ackwell.subscription.in_hand import in_hand_of
from ackwell.subscription.outcome import NonDelivery, Outcome
from ackwell.subscription.places import check_places
from ackwell.subscription.redelivery import Redelivery
from ackwell.subscription.state import new_state
from ackwell.subscription.sticky_key import HashRange, sticky_key_hash
from ackwell.subscription.structures import Structures
from ackwell.subscription.subscription_settings import SubscriptionSettings
from ackwell.subscription.summary import Summary, summarize

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ackwell._native import Ledgers
    from ackwell.arrays import Int64s
    from ackwell.engine import Engine
    from ackwell.pending_ack import PendingAck
    from ackwell.saving.recovery import Recovery
    from ackwell.store import Store
    from ackwell.subscription.arguments import Place
    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.delayed_messages import DelayedMessages
    from ackwell.subscription.selectors import Selector


class Subscription:
    """One subscription: consumers, dispatch, acknowledgments, redelivery, transactions.

    Only one thread may use it at a time. Methods accept a position as one value, `ack("a", position)`, or as
    two ids, `ack("a", 3, 1)`.

    Parameters
    ----------
    type : SubscriptionType or its name
        One of Pulsar's four types.
    ledgers : Ledgers, optional
        The ledgers of the topic. The code that publishes shares this object. If a `cursor` is given, the
        ledgers of the cursor are used.
    cursor : Cursor, optional
        The cursor to start from, with its acknowledged positions. Its own settings apply, and
        `settings.cursor` is ignored.
    settings : SubscriptionSettings, optional
        Limits and delays. With `SubscriptionSettings.pulsar(version)` the subscription behaves like a broker.
    selector : Selector, optional
        The object that maps hashes to consumers on Key_Shared; consistent hashing by default.
    delayed : DelayedMessages, optional
        The tracker that holds messages until their delivery time. Without it, a `deliver_at_ms` is refused.
        Exclusive and Failover do not delay messages, as in the broker.
    topic, partition : str, int, optional
        The topic and the number of its partition. They determine the active consumer of Failover.
    chunk_entries : callable, optional
        `chunk_entries(first, last)` returns the entries of a message sent in chunks. Without it,
        acknowledging such a message acknowledges only the entry of its last chunk, as in the broker, because
        entries of other producers can be between the chunks.
    durable : bool
        False for the cursor of a reader: `save` then writes nothing and returns the receipts.
    engine : Engine, optional
        The module with the data structures to use; the native module by default.

    Examples
    --------
    >>> from ackwell import Ledgers
    >>> subscription = Subscription("Shared", Ledgers({3: 4}))
    >>> _ = subscription.add_consumer("a")
    >>> subscription.flow("a", 3)
    >>> for position in subscription.next_reads(10, now_ms=0):
    ...     print(position, subscription.dispatch(position, now_ms=0))
    3:0 Outcome(consumer='a', reason=None)
    3:1 Outcome(consumer='a', reason=None)
    3:2 Outcome(consumer='a', reason=None)
    3:3 Outcome(consumer=None, reason=<NonDelivery.NO_PERMITS: 'no consumer that may get it has permits'>)
    >>> subscription.ack("a", 3, 1), subscription.cursor.mark_delete_position
    (True, Position(ledger_id=3, entry_id=-1))
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        type: SubscriptionType | SubscriptionTypeName,  # noqa: A002  # the field's word
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
        """The subscription type. `change_type` changes it."""
        return self._state.kind

    @property
    def settings(self) -> SubscriptionSettings:
        """The limits and delays of the subscription."""
        return self._state.settings

    def limit_unacked(self, per_consumer: int, per_subscription: int) -> None:
        """Change the limits of unacknowledged messages, per consumer and per subscription; 0 means unlimited.

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
        """The cursor of the subscription: its acknowledged positions."""
        return self._state.cursor

    @property
    def delayed(self) -> DelayedMessages | None:
        """The tracker of delayed messages. None if there is none, and always on Exclusive and Failover."""
        return self._state.delayed

    @property
    def validation_errors(self) -> Counter[ValidationError]:
        """The number of discarded messages that clients reported, by validation error."""
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
        concurrency: int | None = None,
    ) -> list[ActiveChange]:
        """Add a consumer. It gets no messages before it has permits (see `flow`).

        Other calls identify the consumer by its `consumer_id`, or by its name if it has no `consumer_id`.
        Consumers with different ids can have the same name. Consumers with `priority` 0 are served first.
        `hash_ranges` are the slots of the consumer if the selector is `StickyRanges`. `concurrency` is the
        number N of entries that the consumer works on at the same time; its N oldest unacknowledged
        deliveries are then in hand (see `in_hand`). Returns the notifications to send to the consumers of a
        Failover subscription.

        Raises `ProtocolError` with the code `CONSUMER_BUSY` if the consumer is already connected, or if an
        Exclusive subscription already has a consumer. The code is `CONSUMER_ASSIGN_ERROR` if another consumer
        has a slot of the hash ranges.

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
        if concurrency is not None:
            concurrency = arguments.integer("concurrency", concurrency, 1)
        state, before = self._state, self._state.policy.active
        consumer = state.consumers.join(key, name, priority, epoch, concurrency)
        try:
            start_over = state.policy.join(consumer, ranges)
        except Exception:
            state.consumers.drop(consumer)
            raise
        if start_over:
            state.change_active()
        return self._active_changes(before, consumer)

    def remove_consumer(self, consumer: ConsumerKey) -> Removal:
        """Remove a consumer; return the number of its entries to redeliver, and the notifications to send.

        The redelivery counts of the entries that it had in hand increase by one (see `in_hand`). Each of
        these entries is then delivered alone. The counts of its other entries do not change. If a consumer
        leaves in an orderly way, first return its entries by `redeliver(consumer, counted=False)`. On
        Exclusive and Failover, the next active consumer starts at the first unacknowledged message. The
        receipts of the removed consumer are dropped.
        """
        who, before = self._state.consumers[consumer], self._state.policy.active
        entries = self._redelivery.remove_consumer(who)
        self._durability.forget(consumer)
        return Removal(entries, self._active_changes(before))

    def flow(self, consumer: ConsumerKey, permits: int) -> None:
        """Add permits to a consumer. It may get as many further messages as it has permits."""
        permits = arguments.integer("permits", permits, 0, INT32_MAX)
        self._state.consumers.grant(self._state.consumers[consumer], permits)

    @property
    def permits(self) -> int:
        """The sum of the permits of all consumers. Negative permits count as 0. O(consumers).

        >>> from ackwell import Ledgers, Subscription
        >>> jobs = Subscription("Shared", Ledgers({3: 10}))
        >>> jobs.add_consumer("a")
        []
        >>> jobs.flow("a", 5)
        >>> jobs.dispatch(3, 0, now_ms=0).consumer, jobs.permits
        ('a', 4)
        """
        return sum(max(each.permits, 0) for each in self._state.consumers)

    def change_type(
        self,
        type: SubscriptionType | SubscriptionTypeName,  # noqa: A002
        *,
        selector: Selector | None = None,
    ) -> None:
        """Change the subscription type. A broker does this when the first consumer has another type.

        Raises `ProtocolError` (`CONSUMER_BUSY`) while a consumer is connected. All unacknowledged messages
        become unread. The redelivery counts do not change. (With `idle_clears_counts`, they were cleared when
        the last consumer left.)
        """
        self._moves.change_type(SubscriptionType(type), selector)

    @property
    def consumers(self) -> list[ConsumerKey]:
        """The key of each connected consumer, in the order in which they joined."""
        return self._state.consumers.keys()

    @property
    def active_consumer(self) -> ConsumerKey | None:
        """The consumer that gets all messages of Exclusive or Failover; `None` on other types."""
        active = self._state.policy.active
        return active.key if active is not None else None

    @property
    def draining_hashes(self) -> dict[ConsumerKey, dict[int, int]]:
        """The draining hashes of each former owner, with its number of pending entries of each hash.

        The new owner of a hash gets no message of the hash until these entries are acknowledged or returned.
        The dictionary is empty on all types except Key_Shared. O(draining hashes).
        """
        return self._state.consumers.draining.by_consumer()

    def sticky_key_hash(
        self, key: str | bytes | None, *, producer_name: str | None = None, sequence_id: int | None = None
    ) -> int:
        """Return the sticky-key hash of a message, to pass to `dispatch`; 0 on all types except Key_Shared.

        If `key` is None, the producer name and the sequence id are hashed, as in the broker.
        """
        policy = self._state.policy
        hashed = sticky_key_hash(key, policy.slots, producer_name=producer_name, sequence_id=sequence_id)
        return hashed if policy.by_key else 0

    # Dispatch

    def next_reads(self, limit: int, now_ms: int) -> list[Position]:
        """Return at most `limit` positions to read and `dispatch` next.

        Queued positions come first, then unread ones; both are in position order. The list is empty if no
        consumer can get a message now (see `stall`). This method first calls `advance`, which queues the
        messages whose delay, back-off or ack timeout has ended.
        """
        ledger_ids, entry_ids = self.next_reads_many(limit, now_ms)
        return [Position(*pair) for pair in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True)]

    def next_reads_many(self, limit: int, now_ms: int) -> tuple[Int64s, Int64s]:
        """Return the positions of `next_reads` as two int64 arrays: ledger ids and entry ids."""
        limit = arguments.integer("limit", limit)
        self.advance(now_ms)
        return self._dispatcher.next_reads(limit)

    @property
    def stall(self) -> NonDelivery | None:
        """The reason why `next_reads` returns no unread entries now; `None` if reading may continue."""
        return self._dispatcher.stall()

    def dispatch(
        self,
        position: Place,
        entry_id: int | None = None,
        *,
        now_ms: int,
        batch_size: int = 1,
        sticky_key_hash: int | None = None,
        deliver_at_ms: int = 0,
    ) -> Outcome:
        """Deliver an entry of `next_reads`; return the chosen consumer, or the reason why none gets it.

        Key_Shared needs the `sticky_key_hash`, which the method of the same name returns. A `deliver_at_ms`
        needs a tracker of delayed messages. If the hash or the tracker is missing, `ValueError` is raised. An
        undelivered entry is in the result of a later `next_reads`, unless it is acknowledged or a dead letter
        (see `dead_letters`). `redelivery_count` and `ack_set` return the metadata to send with the entry.
        Amortised O(1) on Shared, O(log points) on Key_Shared.
        """
        if entry_id is None:
            position, entry_id = arguments.ids(position)
        if sticky_key_hash is None:
            sticky_key_hash = self._no_hash()
        try:
            # Check all six arguments at once: their bitwise or is an int from 0 to the limit only if each
            # argument is such an int.
            bits = position | entry_id | now_ms | batch_size | sticky_key_hash | deliver_at_ms  # type: ignore[operator]
            usual = bits.__class__ is int and 0 <= bits <= TIME_MAX_MS
        except TypeError:
            usual = False
        if not (usual and 0 < batch_size <= BATCH_SIZE_MAX and sticky_key_hash <= INT32_MAX):
            position, entry_id = arguments.position(position, entry_id)
            now_ms = arguments.time_ms("now_ms", now_ms)
            batch_size = arguments.batch_size(batch_size)
            sticky_key_hash = arguments.check_hash(sticky_key_hash)
            deliver_at_ms = arguments.time_ms("deliver_at_ms", deliver_at_ms)
        if deliver_at_ms and self._state.tracker is None:
            self._refuse_delay()
        found = self._dispatcher.dispatch(
            position,  # type: ignore[arg-type]
            entry_id,
            now_ms,
            batch_size,
            sticky_key_hash,
            deliver_at_ms,
        )
        return Outcome(None, found) if isinstance(found, NonDelivery) else Outcome(found)

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
        """Deliver many entries, given as int64 arrays of equal length in the order of `next_reads`.

        The decisions are those of `dispatch` for each entry. The result has only the entries that a consumer
        gets now. If no new entry can be a special case, such as a delayed entry, the consumers of many new
        entries can be chosen at once, which is faster. If the tracker of delayed messages is full, the
        remaining entries are not dispatched; pass them again later.
        """
        now_ms = arguments.time_ms("now_ms", now_ms)
        entries = Entries.of(ledger_ids, entry_ids, batch_sizes, sticky_key_hashes, deliver_at_ms)
        if entries.hashes is None and entries.entries:
            self._no_hash()
        if entries.deliver_at_ms is not None and self._state.tracker is None and entries.deliver_at_ms.any():
            self._refuse_delay()
        return self._dispatcher.dispatch_many(entries, now_ms)

    @property
    def dead_letters(self) -> list[Position]:
        """The messages that were redelivered more than `max_redeliver_count` times.

        The setting `lost_counts` determines whether a delivery to a lost consumer counts. Dead letters are
        not delivered again. Write them to the dead letter topic, and then acknowledge them with `ack(None,
        …)`. Until then they are unacknowledged, so a crash does not lose them.
        """
        return list(self._state.counts.dead.positions())

    def started(self, consumer: ConsumerKey, position: Place, entry_id: int | None = None) -> bool:
        """Report that a consumer has started to work on an entry; return whether the consumer has the entry.

        The entry is in hand until the consumer acknowledges or returns it. Raises `ProtocolError` for a
        consumer with a `concurrency`, because the concurrency determines its entries in hand. O(1).

        >>> from ackwell import Ledgers, Subscription
        >>> jobs = Subscription("Shared", Ledgers({3: 10}))
        >>> _ = jobs.add_consumer("a")
        >>> jobs.flow("a", 2)
        >>> [jobs.dispatch(3, entry_id, now_ms=0).consumer for entry_id in (0, 1)], jobs.started("a", 3, 0)
        (['a', 'a'], True)
        >>> jobs.remove_consumer("a").entries, jobs.redelivery_count(3, 0), jobs.redelivery_count(3, 1)
        (2, 1, 0)
        """
        who, position = self._state.consumers[consumer], arguments.position(position, entry_id)
        return self._redelivery.start(who, position)

    def in_hand(self, consumer: ConsumerKey) -> list[Position]:
        """Return the entries that a consumer has in hand; an empty list if it does not report them.

        With `LostCounts.IN_HAND`, the redelivery counts of these entries increase by one if the consumer is
        lost. If the process dies, `load` does the same for the entries that were in hand at the last save.
        O(entries in hand).

        >>> from ackwell import Ledgers, Subscription
        >>> jobs = Subscription("Shared", Ledgers({3: 10}))
        >>> _ = jobs.add_consumer("a", concurrency=1)
        >>> jobs.flow("a", 2)
        >>> [jobs.dispatch(3, entry_id, now_ms=0).consumer for entry_id in (0, 1)], jobs.in_hand("a")
        (['a', 'a'], [Position(ledger_id=3, entry_id=0)])
        """
        return in_hand_of(self._state, self._state.consumers[consumer])

    @property
    def suspects(self) -> list[Position]:
        """The entries that a consumer had in hand when it was lost. Each of them is delivered alone."""
        return list(self._state.counts.suspects.positions())

    def redelivery_count(self, position: Place, entry_id: int | None = None) -> int:
        """Return the redelivery count that the next delivery of an entry has."""
        return self._state.counts.count(*arguments.position(position, entry_id))

    def ack_set(self, position: Place, entry_id: int | None = None) -> tuple[int, ...] | None:
        """Return the ack set that the next delivery of a batch has, as words: bit set = not acknowledged.

        Returns `None` if no message of the entry is acknowledged or held by a transaction.
        """
        return self._dispatcher.ack_set(arguments.position(position, entry_id))

    def delivered(
        self,
        consumer: ConsumerKey,
        position: Place,
        entry_id: int | None = None,
        *,
        now_ms: int,
        batch_size: int = 1,
        sticky_key_hash: int = 0,
    ) -> None:
        """Record a delivery that another program decided, for example a broker whose events are replayed.

        The delivery takes permits and counts toward the limits, but no limit prevents it. If the entry is
        pending at another consumer, it is removed there. Unread entries before the delivered entry are
        queued.
        """
        who, position = self._state.consumers[consumer], arguments.position(position, entry_id)
        now_ms = arguments.time_ms("now_ms", now_ms)
        size, key_hash = arguments.batch_size(batch_size), arguments.check_hash(sticky_key_hash)
        self._dispatcher.record_delivery(who, position, now_ms, size, key_hash)

    @property
    def read_position(self) -> Position:
        """The first position that was not read. There may be no entry at this position."""
        return Position(*self._state.unread.position)

    def holder(self, position: Place, entry_id: int | None = None) -> ConsumerKey | None:
        """Return the consumer at which an entry is pending, on Shared and Key_Shared. O(consumers).

        Return None if the entry is not pending.
        """
        owner = self._state.consumers.owner(*arguments.position(position, entry_id))
        return None if owner is None else owner.key

    def pending(self, consumer: ConsumerKey) -> dict[Position, PendingAck]:
        """Return the pending entries of a consumer, on Shared and Key_Shared. O(entries).

        The value of an entry has its sticky-key hash and its number of unacknowledged messages. If
        `partial_ack_lowers_pending` is off, this number is the batch size.
        """
        return self._state.consumers.pending(self._state.consumers[consumer])

    # Acknowledgments

    def ack(
        self,
        consumer: ConsumerKey | None,
        position: Place,
        entry_id: int | None = None,
        ack_set: Sequence[int] = (),
    ) -> bool:
        """Acknowledge an entry, or with an `ack_set` part of a batch; return whether this changed anything.

        The rules are those of the broker. The message may be pending at a consumer other than the given one.
        Pass `None` to acknowledge it without a consumer. Nothing changes if the message is already
        acknowledged, if its ledger is unknown or trimmed, or if its entry id is past the end of a closed
        ledger. A position after the topic's last entry raises `ProtocolError`; a broker answers success and
        ignores the acknowledgment. `ack_set` has 64-bit words, least significant bit first; a set bit means
        not acknowledged. O(log ledgers), and O(consumers) if the message is pending at another consumer.
        """
        who = None if consumer is None else self._state.consumers.by_key[consumer]
        if entry_id is None:
            position, entry_id = arguments.ids(position)
        if position.__class__ is int and entry_id.__class__ is int and position >= 0 and entry_id >= 0:
            ledger_id = position
        else:
            ledger_id, entry_id = arguments.position(position, entry_id)
        if ack_set:
            return self._acks.ack_part(who, ledger_id, entry_id, arguments.ack_set_words(ack_set))
        return self._acks.ack(who, ledger_id, entry_id)

    def ack_many(
        self,
        consumer: ConsumerKey | None,
        ledger_ids: ArrayLike,
        entry_ids: ArrayLike,
        ack_sets: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> int:
        """Acknowledge many entries, given as two int64 arrays; return the number of entries that changed.

        The rules are those of `ack`, with one difference: if any entry is after the topic's last entry,
        nothing changes.

        `ack_sets` acknowledges parts of batches. It is a pair of arrays. The first array has the index of
        each row's first word, followed by the number of all words. The second array has the words of all
        rows. A row without words acknowledges a whole entry. Whole entries are acknowledged first, as by
        `handle`, unless a consumer is blocked.
        """
        who = self._consumer(consumer)
        if ack_sets is None:
            return self._acks.ack_many(who, as_int64(ledger_ids), as_int64(entry_ids))
        ledgers, entries = arguments.position_columns(ledger_ids, entry_ids)
        command = AckColumns.of_parts(ledgers, entries, *arguments.word_columns(len(ledgers), *ack_sets))
        return handle.apply_individual(self._acks, who, command, None)

    def ack_cumulative(
        self,
        consumer: ConsumerKey | None,
        position: Place,
        entry_id: int | None = None,
        ack_set: Sequence[int] = (),
    ) -> bool:
        """Acknowledge all messages up to an entry, or with an `ack_set` up to a part of that entry.

        Returns whether this changed anything.

        Raises `ProtocolError` on Shared and Key_Shared; a broker answers success and ignores the
        acknowledgment.
        """
        self._consumer(consumer)
        position, words = arguments.position(position, entry_id), arguments.ack_set_words(ack_set)
        self._refuse_cumulative()
        return self._acks.ack_cumulative(position, words)

    def handle(self, consumer: ConsumerKey, command: CommandAck | AckColumns | bytes) -> int:
        """Apply a client's acknowledgment command; return the number of entries that it changed.

        The command is applied as a whole or not at all. Bytes that are not a command raise
        `CorruptStateError`. A command against the rules raises `ProtocolError`; a broker applies the part
        that `accepted_part` returns. If a command has a request id, `confirm` or `save` returns its receipt
        once the acknowledgment is durable. Messages with a validation error are acknowledged and counted. The
        properties of a command are saved with the cursor.
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
        """Return the part of a command that a broker applies if `handle` refuses the command.

        The broker handles the message ids in order. It stops at the first id that is after the topic's last
        entry, and ignores this id and all later ones. The result has the ids that it handled. For a
        cumulative command, the result is empty. If the command is not in a transaction, the broker still
        answers success.
        """
        if not isinstance(command, AckColumns):
            raise TypeError(f"command is {command!r}; expected AckColumns")
        return handle.accepted_part(self._acks, command)

    # Transactions

    def commit(self, transaction: TransactionId) -> int:
        """Acknowledge the messages that a transaction holds; return the number of entries that changed.

        A transaction that is not open holds no messages. So a commit can be repeated after a crash without
        harm.
        """
        return self._acks.commit(arguments.transaction(transaction))

    def abort(self, transaction: TransactionId) -> int:
        """Release the messages that a transaction holds; return the number of entries with such messages.

        The released messages are redelivered.
        """
        return self._acks.abort(arguments.transaction(transaction))

    @property
    def transactions(self) -> list[TransactionId]:
        """The open transactions."""
        return list(self._state.transactions.open)

    def is_in_transaction(self, position: Place, entry_id: int | None = None) -> bool:
        """Return whether an open transaction has acknowledged an entry or any of its messages."""
        return bool(self._state.transactions.held_bits(arguments.position(position, entry_id)))

    def cumulative_ack(self, transaction: TransactionId) -> Position | None:
        """Return the position of the cumulative acknowledgment in an open transaction, or None."""
        content = self._state.transactions.open.get(arguments.transaction(transaction))
        held = None if content is None else content.cumulative
        return None if held is None else held.position

    # Redelivery

    def nack(
        self, consumer: ConsumerKey, position: Place, entry_id: int | None = None, *, now_ms: int
    ) -> bool:
        """Redeliver a message after its back-off; return whether this consumer has the message.

        The message is pending until its back-off ends. On Exclusive and Failover all unacknowledged messages
        are then read again, which preserves the order. On Key_Shared, later messages of the same hash that
        are not yet delivered wait for the message. `nack_in_order` also redelivers later messages that are
        already delivered.
        """
        who, position = self._state.consumers[consumer], arguments.position(position, entry_id)
        return self._redelivery.nack(who, position, arguments.time_ms("now_ms", now_ms))

    def nack_in_order(
        self, consumer: ConsumerKey, position: Place, entry_id: int | None = None, *, now_ms: int
    ) -> list[Position]:
        """Redeliver a message as `nack` does, and return the consumer's later messages with the same hash.

        These later messages are redelivered after it. The consumer must not process them, because they are no
        longer pending. Their redelivery counts do not change. The list is empty if the type is not
        Key_Shared, or if the message is not pending at this consumer. O(entries).

        >>> from ackwell import Ledgers, Subscription
        >>> jobs = Subscription("Key_Shared", Ledgers({3: 3}))
        >>> _ = jobs.add_consumer("a")
        >>> jobs.flow("a", 10)
        >>> for position, key in zip(jobs.next_reads(3, now_ms=0), ("ann", "bob", "ann"), strict=True):
        ...     _ = jobs.dispatch(position, now_ms=0, sticky_key_hash=jobs.sticky_key_hash(key))
        >>> jobs.nack_in_order("a", 3, 0, now_ms=0), jobs.next_reads(3, now_ms=0)
        ([Position(ledger_id=3, entry_id=2)], [])
        >>> [str(position) for position in jobs.next_reads(3, now_ms=60_000)]
        ['3:0', '3:2']
        """
        if not self.nack(consumer, position, entry_id, now_ms=now_ms):
            return []
        later = self.later_of_key(consumer, position, entry_id)
        self.redeliver(consumer, later, counted=False)
        return later

    def later_of_key(
        self, consumer: ConsumerKey, position: Place, entry_id: int | None = None
    ) -> list[Position]:
        """Return those entries of a consumer that are after the given entry and have its hash. O(entries).

        A subscription cannot recall delivered messages. `nack_in_order` redelivers these entries together
        with the given entry. The list is empty on all types except Key_Shared.
        """
        who = self._state.consumers[consumer]
        return self._redelivery.later_of_key(who, arguments.position(position, entry_id))

    def redeliver(
        self,
        consumer: ConsumerKey,
        positions: Iterable[tuple[int, int]] | None = None,
        *,
        counted: bool = True,
        epoch: int | None = None,
    ) -> int:
        """Redeliver a consumer's entries at once; return their number.

        `positions` selects entries; None means all. Entries that the consumer does not have are ignored. Each
        redelivery count increases by one. Pass `counted=False` if the consumer did not process the messages.
        On Exclusive and Failover all unacknowledged messages are read again, because a redelivery of single
        messages would break the order; the result is then 0. If `epoch` is greater than the consumer's epoch,
        it becomes the consumer's epoch. The client of the consumer drops deliveries of older epochs.
        """
        who = self._state.consumers[consumer]
        listed = None if positions is None else arguments.position_list(positions)
        if epoch is not None:
            who.epoch = max(who.epoch, arguments.integer("epoch", epoch, NO_EPOCH))
        return self._redelivery.redeliver(who, listed, counted=counted)

    def extend(
        self, consumer: ConsumerKey, positions: Iterable[tuple[int, int]] | None = None, *, now_ms: int
    ) -> int:
        """Restart the ack timeouts of a consumer's entries; return the number of these entries.

        `positions` selects entries; None means all. Call it for a consumer that needs more time than
        `ack_timeout_ms`. Without an ack timeout the result is 0. Entries that the consumer does not have are
        ignored. Back-offs do not change. O(1) for each entry.

        >>> from ackwell import Ledgers, Subscription, SubscriptionSettings
        >>> settings = SubscriptionSettings(ack_timeout_ms=10_000)
        >>> subscription = Subscription("Shared", Ledgers({3: 4}), settings=settings)
        >>> _ = subscription.add_consumer("a")
        >>> subscription.flow("a", 1)
        >>> subscription.dispatch(3, 0, now_ms=0).consumer, subscription.next_wakeup_ms()
        ('a', 10000)
        >>> subscription.extend("a", [(3, 0)], now_ms=9_000), subscription.next_wakeup_ms()
        (1, 19000)
        """
        who = self._state.consumers[consumer]
        listed = None if positions is None else arguments.position_list(positions)
        return self._redelivery.extend(who, listed, arguments.time_ms("now_ms", now_ms))

    def advance(self, now_ms: int) -> int:
        """Advance the time to `now_ms`; return the number of entries that this queues for redelivery."""
        now_ms = arguments.time_ms("now_ms", now_ms)
        self._update_oldest_hole(now_ms)
        return self._redelivery.advance(now_ms)

    def next_wakeup_ms(self) -> int | None:
        """Return the next time at which `advance` has work, or `None`. Amortised O(log waiting entries)."""
        return self._redelivery.next_due_ms()

    # Moves by an administrator

    def seek(self, position: Place, entry_id: int | None = None, ack_set: Sequence[int] = ()) -> None:
        """Move the cursor: entries before the given one become acknowledged, all others unacknowledged.

        `(-1, -1)` means the first entry that exists, `(2**63 - 1, 2**63 - 1)` the end of the topic. An
        `ack_set` selects the messages of the given batch that become unacknowledged: those whose bit is set.
        Consumers stay connected and lose their pending entries (a broker disconnects them). Open transactions
        keep the messages that they hold.
        """
        self._moves.seek(arguments.position(position, entry_id, -1, -1), arguments.ack_set_words(ack_set))

    def skip(self, entries: int) -> int:
        """Acknowledge the first `entries` unacknowledged entries, on any type; return how many changed."""
        return self._moves.skip(arguments.integer("entries", entries, 0))

    def clear_backlog(self) -> int:
        """Acknowledge every existing entry, on any type; return the number of entries that changed."""
        return self._moves.clear_backlog()

    def expire(self, position: Place, entry_id: int | None = None) -> int:
        """Acknowledge all messages up to an entry, on any type; return the number of entries that changed.

        The caller determines which messages have exceeded their time to live. With `expires_by_search`, only
        entries up to the one that a broker's search finds are acknowledged. This entry may be before the
        given entry (see `expiry`).
        """
        return self._moves.expire(arguments.position(position, entry_id))

    # Durability

    def stage(self) -> StagedState:
        """Return the state to save, with the number of receipts that it makes durable."""
        return self._durability.stage(self.cursor.to_position_info())

    def confirm(self, staged: StagedState) -> list[Receipt]:
        """Record that a staged state is durable, and return the receipts to send to clients."""
        return self._durability.confirm(staged)

    def save(self, store: Store, *, replace: bool = False) -> list[Receipt]:
        """Save the state in a store, and return the receipts to send to clients.

        The errors are those of `Cursor.save`. After an error no receipt is returned. The next successful save
        returns the missing receipts.
        """
        receipts = self._durability.waiting_now()
        position = self.cursor.mark_delete_position
        if self._durable:
            self.cursor.save(store, replace=replace)
        return self._durability.record_save(position, receipts)

    @classmethod
    def load(
        cls,
        type: SubscriptionType | SubscriptionTypeName,  # noqa: A002
        store: Store,
        ledgers: Ledgers,
        *,
        take_older: bool = False,
        **options: Any,
    ) -> Self:
        """Return a subscription with the newest state in a store, or a new one if the store has no state.

        No consumer is connected. All messages that are neither acknowledged nor held by an open transaction
        are unread. The redelivery counts of entries that were in hand at the save increase by one. `options`
        are those of `Subscription`. `take_older` and the errors are those of `Cursor.load`. The property
        `recovery` describes how the state was found.
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
        """The state that `load` found in the store, and how it was found; `None` without a load."""
        return self.cursor.recovery

    @property
    def durable_mark_delete_position(self) -> Position:
        """The mark-delete position of the last durable state. The log may be trimmed up to this position."""
        return self._durability.mark_delete

    # Inspection

    def summary(self, now_ms: int) -> Summary:
        """Return the counters of the subscription at `now_ms`. O(consumers), cheap enough for each second."""
        now_ms = arguments.time_ms("now_ms", now_ms)
        self._update_oldest_hole(now_ms)
        age_ms = 0 if self._oldest_hole is None else now_ms - self._oldest_hole_since_ms
        return summarize(self._state, self.stall, self._oldest_hole, age_ms)

    def audit(self) -> list[str]:
        """Recompute every counter from the entries; return a text for each wrong one. O(pending entries)."""
        state = self._state
        return state.consumers.audit() + state.policy.audit() + state.audit_retrying()

    def validate(self) -> None:
        """Check the invariants; raise `AssertionError` with the broken one. O(entries).

        The structures and the counters are checked. Each existing entry must be in exactly one place:
        acknowledged, held by an open transaction, pending at a consumer, queued for redelivery, delayed, a
        dead letter, or unread.
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
        """Return a deep copy. It shares no object with the original."""
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
        """Record the first unacknowledged entry.

        If this changes the recorded entry, also record `now_ms` as the time of the change.
        """
        hole = self._first_unacknowledged()
        if hole != self._oldest_hole:
            self._oldest_hole, self._oldest_hole_since_ms = hole, now_ms

    def _first_unacknowledged(self) -> Position | None:
        ledgers = self.cursor.ledgers
        if not len(ledgers):
            return None
        position = ledgers.next_valid(*self.cursor.mark_delete_position)
        return position if ledgers.contains(*position) else None

    def _no_hash(self) -> int:
        """Return 0, the hash of a call without one; raise `ValueError` on Key_Shared, which needs a hash."""
        if self._state.policy.by_key:
            raise ValueError(
                "Key_Shared chooses the consumer by the hash of the key: "
                "pass sticky_key_hash=subscription.sticky_key_hash(key)"
            )
        return 0

    def _refuse_delay(self) -> NoReturn:
        raise ValueError(
            "deliver_at_ms needs a tracker: create the subscription with delayed=DelayedDeliveryTracker()"
        )

    def _refuse_cumulative(self) -> None:
        if self._state.policy.individual:
            raise ProtocolError(
                f"a cumulative acknowledgment is illegal on {self.type}", code=ErrorCode.NOT_ALLOWED_ERROR
            )
