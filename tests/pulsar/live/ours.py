"""Our side: an action as calls of `ackwell.Subscription`, which follows the broker's choice of consumer.

On Shared, the broker may deliver a message to any consumer that can receive it. The prediction therefore
adopts the broker's deliveries (`Subscription.delivered`), after a check that they were possible. When the
broker is idle, ackwell must not have a message to deliver.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import singledispatchmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import ackwell._native as native
from ackwell import Cursor, Position, ProtocolError
from ackwell.cursor.ack_sets import WHOLE, from_words, to_words
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.protocol.command_ack import AckType, CommandAck, MessageId
from ackwell.subscription import (
    RedeliveryBackoff,
    Subscription,
    SubscriptionSettings,
    SubscriptionType,
    TransactionId,
)
from ackwell.subscription.consumer import Consumer
from ackwell.subscription.selectors import ConsistentHashing
from ackwell.subscription.sticky_key import sticky_key_hash
from tests.pulsar.live import actions
from tests.pulsar.live.client import Delivered
from tests.pulsar.live.compare import ConsumerState, State

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from types import ModuleType

    from ackwell import Ledgers
    from ackwell.cursor.cursor_state import CursorState
    from ackwell.errors import ErrorCode
    from tests.pulsar.live.actions import Action
    from tests.pulsar.live.operations import Sequence

MANY = 100_000
NEVER_MS = 1 << 50
_SLOTS = ConsistentHashing().slots


class Entry(NamedTuple):
    """The metadata of a published entry."""

    batch_size: int
    hash: int
    deliver_at_ms: int = 0


def preset(
    version: str, values: Mapping[str, int], *, transactions: bool, wrong: str | None = None
) -> SubscriptionSettings:
    """Return the settings of a broker with these values; with one field `wrong` on purpose."""
    found = SubscriptionSettings.pulsar(
        version,
        transactions_keep_parts=transactions,
        # The return of negatively acknowledged messages is a separate operation.
        nack_backoff=RedeliveryBackoff(NEVER_MS, NEVER_MS),
        max_unacked_per_consumer=values["maxUnackedMessagesPerConsumer"],
        max_unacked_per_subscription=values["maxUnackedMessagesPerSubscription"],
    )
    cursor = replace(
        found.cursor, batch_index_acks=bool(values.get("acknowledgmentAtBatchIndexLevelEnabled", 1))
    )
    found = replace(found, cursor=cursor)
    if wrong is None:
        return found
    if hasattr(cursor, wrong):
        return replace(found, cursor=replace(cursor, **{wrong: not getattr(cursor, wrong)}))
    value: Any = getattr(found, wrong)
    changes: dict[str, Any] = {wrong: not value if isinstance(value, bool) else value // 2}
    return replace(found, **changes)


class Ours:
    """Our model of the broker's subscription, and the log that both read."""

    def __init__(
        self,
        sequence: Sequence,
        topic: str,
        version: str,
        *,
        wrong: str | None = None,
        engine: ModuleType = native,
    ) -> None:
        self.engine: Any = engine
        self.type = sequence.type
        self._version = version
        self._partition = sequence.partition
        self.counts_parts_in_transactions = not version.startswith("4.0")
        """Whether a returned batch lowers the count only by the messages that no transaction acknowledges."""
        self._topic = topic
        self._settings = preset(version, sequence.settings, transactions=sequence.transactions, wrong=wrong)
        self.cursor_settings = self._settings.cursor
        self.ledgers: Ledgers = engine.Ledgers()
        self.log: dict[Position, Entry] = {}
        self.now_ms = 0
        """The moment that was last waited for."""
        self.names: dict[int, str] = {}
        self.consumers: list[int] = []
        self.next_consumer_id = 0
        self.next_transaction = 0
        self.transactional = sequence.transactions
        self.has_chunks = False
        """Whether chunks were published, which a broker of Shared gives to consumers by their message."""
        self.in_part: set[actions.Transaction] = set()
        """The transactions that acknowledged a part of a batch."""
        self.given_back: set[Position] = set()
        """Messages that were returned by their ids and may wait."""
        self.sought: CursorState | None = None
        """The state that the broker wrote at the last seek."""

    @property
    def individual(self) -> bool:
        """Whether the subscription type tracks the pending entries of each consumer."""
        return self.type in ("Shared", "Key_Shared")

    @property
    def moves_are_clean(self) -> bool:
        """Whether the broker drops the pending entries that an administrator skips, clears or expires."""
        return not (self._version.startswith("4.0") and self.individual)

    @property
    def begins_again_cleanly(self) -> bool:
        """Whether the broker counts the backlog of a subscription that is deleted and made again."""
        counts_deleted = self._version.startswith("4.0") and len(self.ledgers) > 1
        return not (counts_deleted or self.transactional)

    def begin(self, dump: dict[str, Any]) -> None:
        """Start at the position of the broker's new subscription."""
        self.look(dump)
        self.recover(Cursor(self.ledgers, settings=self.cursor_settings, engine=self.engine))

    def start_again(self, dump: dict[str, Any]) -> None:
        """Become the new subscription of the topic, which begins at the first entry."""
        self.look(dump)
        mark_delete = self.engine.PositionInfo(*dump["cursor"]["markDelete"])
        cursor = Cursor.from_position_info(
            mark_delete, self.ledgers, settings=self.cursor_settings, engine=self.engine
        )
        self.recover(cursor)

    def recover(self, cursor: Cursor) -> None:
        """Continue with the cursor after a restart; no consumer is connected."""
        self.sought = None
        self.consumers = []
        self.subscription = Subscription(
            SubscriptionType(self.type),
            cursor=cursor,
            settings=self._settings,
            delayed=DelayedDeliveryTracker(),
            topic=None if self._partition is not None else self._topic,
            partition=self._partition,
            engine=self.engine,
        )

    def look(self, dump: dict[str, Any]) -> None:
        """Add new ledgers and remove trimmed ones."""
        known = dict(self.ledgers)
        ids = sorted(map(int, dump["cursor"]["ledgers"]))
        for ledger_id in ids:
            if ledger_id not in known and (not known or ledger_id > max(known)):
                self.ledgers.add(ledger_id)
        for ledger_id in ids[:-1]:
            if self.ledgers.state(ledger_id) == "open":
                self.ledgers.close(ledger_id)
        if ids and ids[0] > self.ledgers.trimmed_before:
            self.ledgers.trim_before(ids[0])

    def published(
        self,
        position: Position,
        size: int | None,
        key: str | None,
        producer: str,
        number: int,
        deliver_at_ms: int = 0,
    ) -> None:
        """Add an entry to the log."""
        if position.ledger_id not in dict(self.ledgers):
            for ledger_id, _ in list(self.ledgers):
                if self.ledgers.state(ledger_id) == "open":
                    self.ledgers.close(ledger_id)
            self.ledgers.add(position.ledger_id)
        self.ledgers.grow(position.ledger_id, position.entry_id + 1)
        # The type may change to Key_Shared when the entry is here.
        hashed = sticky_key_hash(key, _SLOTS, producer_name=producer, sequence_id=number)
        self.log[position] = Entry(size or 1, hashed, deliver_at_ms)

    # What sequences are chosen by

    @property
    def last(self) -> Position | None:
        return max(self.log, default=None)

    @property
    def active(self) -> int | None:
        active = self.subscription.active_consumer
        assert active is None or isinstance(active, int)
        return active

    @property
    def read_position(self) -> Position:
        return self.subscription.read_position

    @property
    def transactions(self) -> list[actions.Transaction]:
        return [(each.most_bits, each.least_bits) for each in self.subscription.transactions]

    def is_acked(self, position: Position) -> bool:
        """Return whether an entry is acknowledged."""
        return self.subscription.cursor.is_acked(*position)

    def held_by_transactions(self, position: Position) -> int:
        """Return which messages of an entry open transactions hold."""
        return self.subscription._state.transactions.held_bits(position)

    def is_part(self, position: Position, ack_set: actions.AckSet, batch_size: int) -> bool:
        """Return whether an acknowledgment names a part of a batch, or the rest of one."""
        return bool(ack_set) or self.subscription.ack_set(*position) is not None

    def is_acked_in_part_before(self, position: Position) -> bool:
        """Return whether a part of a batch was acknowledged cumulatively, before the type was changed."""
        unacked = self.subscription.cursor.unacked_bits(*position)
        size = self.log[position].batch_size if position in self.log else 1
        plain = self.subscription._state.transactions.plain.get(position, 0)
        return self.individual and unacked is not None and bool(~unacked & ~plain & (1 << size) - 1)

    def ends(self, position: Position, ack_set: actions.AckSet) -> bool:
        """Return whether an acknowledgment of a part leaves nothing of its batch."""
        unacked = self.subscription.cursor.unacked_bits(*position)
        return not from_words(ack_set) & (WHOLE if unacked is None else unacked)

    def held(self, consumer_id: int) -> list[Position]:
        """Return the entries that a consumer has got and not acknowledged."""
        if self.individual:
            return [*self.subscription.pending(consumer_id)]
        if self.active != consumer_id:
            return []
        cursor = self.subscription.cursor
        return [each for each in sorted(self.log) if each < self.read_position and not cursor.is_acked(*each)]

    # Actions

    def apply(self, action: Action) -> ErrorCode | None:
        """Play an action; return the error, if it is refused."""
        try:
            self._do(action)
        except ProtocolError as error:
            return error.code
        return None

    def would_refuse(self, action: actions.Ack) -> bool:
        """Return whether an acknowledgment is refused now, without making it."""
        before = self.subscription
        self.subscription = copy.deepcopy(before)
        try:
            return self.apply(action) is not None
        finally:
            self.subscription = before

    def answers_otherwise(self, action: Action) -> bool:
        """Return whether our model intentionally answers an action differently (see README)."""
        if isinstance(action, actions.AckCumulative):
            if self.individual:
                return True
            if not self.ledgers.contains(*action.position):
                # A new subscription to a topic whose entries are all trimmed begins before them.
                return True
            at_end = self._ends_closed_ledger(action.position)
            return self.cursor_settings.refuse_cumulative_behind and (bool(action.ack_set) or at_end)
        if isinstance(action, actions.EndTransaction):
            return self.cursor_settings.refuse_cumulative_behind and self._ends_behind(action)
        last = self.last
        return isinstance(action, actions.Ack) and any(
            last is None or each[0] > last for each in action.message_ids
        )

    def _ends_closed_ledger(self, position: Position) -> bool:
        """Return whether everything up to a position is acknowledged, and it is the last of its ledger."""
        return (
            self.subscription.cursor.mark_delete_position == position
            and self.ledgers.next_valid(*position).ledger_id != position.ledger_id
        )

    def _ends_behind(self, action: actions.EndTransaction) -> bool:
        """Return whether an action commits a cumulative acknowledgment before the mark-delete position."""
        transaction = self.subscription._state.transactions.open.get(TransactionId(*action.transaction))
        if not action.commit or transaction is None or transaction.cumulative is None:
            return False
        return transaction.cumulative.position <= self.subscription.cursor.mark_delete_position

    @singledispatchmethod
    def _do(self, action: Any) -> None:
        raise TypeError(f"no way to play {action!r}")

    @_do.register
    def _(self, action: actions.Publish) -> None:
        # The log stores entries at the broker's positions.
        self.has_chunks |= action.chunked

    @_do.register
    def _(self, action: actions.Subscribe) -> None:
        self.subscription.add_consumer(action.name, consumer_id=action.consumer_id, priority=action.priority)
        self.names[action.consumer_id] = action.name
        self.consumers.append(action.consumer_id)

    @_do.register
    def _(self, action: actions.Close) -> None:
        self.gone(action.consumer_id)

    @_do.register
    def _(self, action: actions.Flow) -> None:
        self.subscription.flow(action.consumer_id, action.permits)

    @_do.register
    def _(self, action: actions.Ack) -> None:
        ids = tuple(
            MessageId(*position, batch_size=size, ack_set=ack_set)
            for position, ack_set, size in action.message_ids
        )
        self._handle(action.consumer_id, AckType.INDIVIDUAL, ids, action)

    @_do.register
    def _(self, action: actions.AckCumulative) -> None:
        ids = (MessageId(*action.position, ack_set=action.ack_set),)
        self._handle(action.consumer_id, AckType.CUMULATIVE, ids, action)

    def _handle(
        self,
        consumer_id: int,
        kind: AckType,
        ids: tuple[MessageId, ...],
        action: actions.Ack | actions.AckCumulative,
    ) -> None:
        named = None if action.transaction is None else TransactionId(*action.transaction)
        command = CommandAck(consumer_id, kind, ids, properties=action.properties, transaction=named)
        self.subscription.handle(consumer_id, command)

    @_do.register
    def _(self, action: actions.EndTransaction) -> None:
        transaction = TransactionId(*action.transaction)
        (self.subscription.commit if action.commit else self.subscription.abort)(transaction)

    @_do.register
    def _(self, action: actions.Redeliver) -> None:
        # A broker returns all entries by their ids, too.
        all_held = self.held(action.consumer_id)
        self.given_back.update(all_held if action.positions is None else action.positions)
        self.subscription.redeliver(action.consumer_id, action.positions)

    @_do.register
    def _(self, action: actions.Nack) -> None:
        self.subscription.nack(action.consumer_id, *action.position, now_ms=self.now_ms)

    @_do.register
    def _(self, action: actions.Seek) -> None:
        before = self.subscription.cursor.to_state()
        self.subscription.seek(*action.position, action.ack_set)
        # A broker writes the new position first, and forgets the acknowledgments then.
        self.sought = replace(before, mark_delete_position=self.subscription.cursor.mark_delete_position)

    @_do.register
    def _(self, action: actions.Skip) -> None:
        self.subscription.skip(action.entries)

    @_do.register
    def _(self, action: actions.Clear) -> None:
        self.subscription.clear_backlog()

    @_do.register
    def _(self, action: actions.Expire) -> None:
        self.subscription.expire(*action.position)

    @_do.register
    def _(self, action: actions.Wait) -> None:
        self.now_ms = action.until_ms

    @_do.register
    def _(self, action: actions.ChangeType) -> None:
        self.subscription.change_type(SubscriptionType(action.type))
        self.type = action.type

    @_do.register
    def _(self, action: actions.Unsubscribe) -> None:
        pass  # The new one begins at the broker's position.

    @_do.register
    def _(self, action: actions.Unload) -> None:
        pass  # `restarts` predicts the cursor after the restart.

    def gone(self, consumer_id: int) -> None:
        """Remove a consumer if it is connected."""
        if consumer_id in self.consumers:
            self.consumers.remove(consumer_id)
            self.subscription.remove_consumer(consumer_id)

    # Deliveries

    def take(self, run: list[Delivered]) -> list[str]:
        """Adopt the broker's deliveries of one read; return the differences from the prediction.

        The broker sizes a read by the mean number of messages per entry, so a run may exceed permits and
        limits. It may not start without permits.
        """
        could = {each: self._can_take(each) for each in self.consumers}
        return [
            problem
            for delivered in run
            if delivered.consumer_id in could  # Others left while the broker was sending.
            for problem in self._take(delivered, could[delivered.consumer_id])
        ]

    def _take(self, delivered: Delivered, could: bool) -> list[str]:
        position, consumer_id = delivered.position, delivered.consumer_id
        entry = self.log.get(position)
        if entry is None:
            return [f"{position} was delivered and never published"]
        found = []
        if not could:
            found.append(f"{position} was delivered to {consumer_id}, which ours would give nothing")
        if not self._deliverable(position):
            found.append(
                f"{position} was delivered to {consumer_id}; for ours it is acknowledged or with somebody"
            )
        if self.active not in (None, consumer_id):
            found.append(f"{position} was delivered to {consumer_id}; for ours {self.active} is active")
        count = self.subscription.redelivery_count(*position)
        if count != delivered.redelivery_count:
            found.append(f"redelivery count of {position}: ours {count}, broker {delivered.redelivery_count}")
        unacked = (1 << entry.batch_size) - 1
        ack_set = self.subscription.ack_set(*position) or to_words(unacked)
        theirs = delivered.ack_set or to_words(unacked)
        if tuple(ack_set) != tuple(theirs):
            found.append(f"ack set of {position}: ours {ack_set}, broker {theirs}")
        self.subscription.delivered(
            consumer_id,
            *position,
            now_ms=self.now_ms,
            batch_size=entry.batch_size,
            sticky_key_hash=entry.hash,
        )
        return found

    def plain(self, delivered: list[Delivered]) -> list[Delivered]:
        """Return deliveries without the ack sets that contain every message of a batch.

        Such an ack set means the same as no ack set.
        """
        found = []
        for each in delivered:
            entry = self.log.get(each.position)
            whole = entry is not None and each.ack_set == tuple(to_words((1 << entry.batch_size) - 1))
            found.append(each._replace(ack_set=()) if whole else each)
        return found

    def predicted(self) -> tuple[list[Delivered], Subscription]:
        """Return the deliveries that our model makes now, in order, and the subscription after them."""
        before = self.subscription
        self.subscription = copy.deepcopy(before, {id(self.ledgers): self.ledgers})
        try:
            return self.plain(self._delivers()), self.subscription
        finally:
            self.subscription = before

    def _delivers(self) -> list[Delivered]:
        found: list[Delivered] = []
        last: list[Position] = []
        while True:
            reads = self.subscription.next_reads(MANY, self.now_ms)
            deliveries = self._dispatched(reads) if reads else []
            if not deliveries and reads == last:
                return found
            last = [] if deliveries else reads
            found += deliveries

    def _dispatched(self, reads: list[Position]) -> list[Delivered]:
        entries = [self.log[position] for position in reads]
        deliveries = self.subscription.dispatch_many(
            [position.ledger_id for position in reads],
            [position.entry_id for position in reads],
            self.now_ms,
            batch_sizes=[each.batch_size for each in entries],
            sticky_key_hashes=[each.hash for each in entries],
            deliver_at_ms=[each.deliver_at_ms for each in entries],
        )
        found = []
        for each in deliveries:
            none = [0] * len(each.entry_ids)
            counts = none if each.redelivery_counts is None else each.redelivery_counts.tolist()
            for row in zip(each.ledger_ids.tolist(), each.entry_ids.tolist(), counts, strict=True):
                position = Position(*row[:2])
                assert isinstance(each.consumer, int)
                found.append(Delivered(each.consumer, position, row[2], each.ack_sets.get(position, ())))
        return found

    def adopt(self, dump: dict[str, Any]) -> None:
        """Adopt the entries that the broker read and did not deliver, if it read them in another order."""
        if not self.individual:
            return
        state = self.subscription._state
        for each in dump["consumers"]:
            state.consumers[each["id"]].mean_batch_size = each["meanBatchSize"]
        queued = {Position(*pair) for pair in dump["dispatcher"].get("replay", ())}
        for position in queued:
            if position in self.log and self._waits(position):
                entry = self.log[position]
                key_hash = entry.hash if self.type == "Key_Shared" else None
                if entry.deliver_at_ms > self.now_ms:
                    # Entries of the queue with a later delivery time were not read.
                    state.replay.add_unseen(position, key_hash)
                else:
                    state.replay.add(*position, key_hash)
        read_from, read_to = state.unread.position, tuple(dump["cursor"]["readPosition"])
        for position, entry in self.log.items():
            read = read_from <= position < read_to or state.replay.contains(*position)
            read = read and position not in queued
            if state.delayed is not None and read and entry.deliver_at_ms > self.now_ms:
                state.replay.discard(*position)
                if self._waits(position):
                    state.delayed.add(entry.deliver_at_ms, *position, self.now_ms)
        state.unread.position = max(read_from, read_to)

    def _can_take(self, consumer_id: int) -> bool:
        consumers = self.subscription._state.consumers
        one = consumers[consumer_id]
        may_take = consumers.may_take_of_key(one) if self.type == "Key_Shared" else not one.blocked
        return one.permits > 0 and may_take

    def _deliverable(self, position: Position) -> bool:
        if not self.subscription._state.unread.needs_delivery(*position):
            return False
        if not self.individual:
            return position >= self.read_position
        return self.subscription.holder(*position) is None

    @property
    def blocked(self) -> set[int]:
        """The consumers that are blocked."""
        return {each for each in self.consumers if self.subscription._state.consumers[each].blocked}

    @property
    def full(self) -> set[int]:
        """The consumers that have reached their limit of unacknowledged messages."""
        consumers = self.subscription._state.consumers
        return {each for each in self.consumers if consumers.is_full(consumers[each])}

    @property
    def withheld(self) -> set[int]:
        """The consumers with permits that a broker withholds from them."""
        return {each for each in self.consumers if self.subscription._state.consumers[each].withheld}

    def may_wait(self, unseen: set[int]) -> bool:
        """Return whether a broker may delay the deliveries to these consumers until an event wakes it."""
        return self._looks_ahead() or not self.would_deliver(but_to=unseen | self.blocked)

    def _looks_ahead(self) -> bool:
        """Whether a broker of Key_Shared may look ahead instead of reading waiting entries, and read nothing.

        An entry that was returned by its id waits without its hash. If no consumer can receive it, the broker
        looks ahead, and if the subscription is blocked, it reads nothing.
        """
        state = self.subscription._state
        self.given_back = {each for each in self.given_back if self._waits(each)}
        return self.type == "Key_Shared" and state.consumers.blocked and bool(self.given_back)

    def _waits(self, position: Position) -> bool:
        return self.subscription._state.unread.needs_delivery(*position) and not self.subscription.holder(
            *position
        )

    def would_deliver(self, *, but_to: Collection[int] = ()) -> list[Position]:
        """Return the entries that our model would deliver now to consumers other than these."""
        dispatcher = self.subscription._dispatcher
        found, hashes = [], set()
        for position in self.subscription.next_reads(MANY, self.now_ms):
            new = self.read_position <= position
            key_hash = self.log[position].hash
            policy = self.subscription._state.policy
            # Those of its hash that are found go out before it.
            waits = (
                policy.in_key_order and key_hash not in hashes and dispatcher._key_waits(*position, key_hash)
            )
            chosen = None if waits else policy.choose(key_hash, new=new)
            if isinstance(chosen, Consumer) and chosen.key not in but_to:
                found.append(position)
                hashes.add(key_hash)
        return found

    def state(self) -> State:
        """Return the state in the form in which both sides are compared."""
        cursor, everybody = self.subscription.cursor, self.subscription._state.consumers
        consumers = {}
        for consumer_id in self.consumers:
            one = everybody[consumer_id]
            pending = sorted(self.subscription.pending(consumer_id).items())
            consumers[consumer_id] = ConsumerState(
                one.permits + one.withheld,
                one.unacked,
                one.blocked,
                tuple((position, value.remaining) for position, value in pending),
            )
        return State(
            next_unacknowledged=self.ledgers.next_valid(*cursor.mark_delete_position),
            ranges=tuple(cursor.individually_deleted),
            ack_sets=tuple(sorted(cursor.batch_deleted.items())),
            backlog_entries=cursor.backlog_entries,
            properties=dict(cursor.properties),
            consumers=consumers,
            active=self.active,
            unacked=everybody.unacked,
            blocked=everybody.blocked,
            delayed=len(self.subscription._state.delayed or ()) if self.consumers else 0,
        )
