"""The model of a subscription in dictionaries and sets, with which tests compare it.

The messages of an entry are bits of an integer. A `Model` gets each operation and computes the expected
state; it makes no decisions. `State` is the part of it that a save keeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ackwell.cursor.ack_sets import WHOLE, to_words
from ackwell.subscription import NonDelivery
from ackwell.subscription.saved import decode_transactions

if TYPE_CHECKING:
    from ackwell.position import Position
    from ackwell.subscription import Subscription, TransactionId
    from ackwell.subscription.consumer import ConsumerKey
    from ackwell.subscription.subscription_settings import RedeliveryBackoff


@dataclass(frozen=True, slots=True)
class Message:
    """The messages of an entry in the log."""

    bits: int
    """A bit for each of its messages."""
    sticky_key_hash: int
    deliver_at_ms: int


class State(NamedTuple):
    """The saved state, as a load finds it. It omits entries without acknowledgment, held message or count."""

    acked: dict[Position, int]
    counts: dict[Position, int]
    held: dict[TransactionId, dict[Position, int]]
    suspects: frozenset[Position] = frozenset()


def observed(subscription: Subscription, log: dict[Position, Message]) -> State:
    """Return the state of a subscription, asked entry by entry."""
    cursor = subscription.cursor
    acked, counts = {}, {}
    for position, message in log.items():
        unacked = cursor.unacked_bits(*position)
        bits = (
            message.bits
            if cursor.is_acked(*position)
            else message.bits & ~(message.bits if unacked is None else unacked)
        )
        if bits:
            acked[position] = bits
        count = subscription.redelivery_count(*position)
        if count:
            counts[position] = count
    held = {}
    if subscription.transactions:
        open_ones = decode_transactions(subscription.stage().info.unknown_fields).open
        for transaction, content in open_ones.items():
            held[transaction] = {
                position: log[position].bits if each.acked_bits == WHOLE else each.acked_bits
                for position, each in content.entries.items()
            }
    return State(acked, counts, held, frozenset(subscription.suspects))


@dataclass
class Model:
    """One owner's subscription."""

    log: dict[Position, Message]
    individual: bool
    """Whether it is known which consumer has what: on Shared and Key_Shared."""
    backoff: RedeliveryBackoff
    max_redeliver_count: int | None
    acked: dict[Position, int] = field(default_factory=dict)
    counts: dict[Position, int] = field(default_factory=dict)
    held: dict[TransactionId, dict[Position, int]] = field(default_factory=dict)
    holder: dict[Position, ConsumerKey] = field(default_factory=dict)
    queue: set[Position] = field(default_factory=set)
    returned: set[Position] = field(default_factory=set)
    """The entries that were returned and wait for redelivery."""
    delayed: dict[Position, int] = field(default_factory=dict)
    due: dict[Position, int] = field(default_factory=dict)
    """When the back-off of an entry is over."""
    dead: set[Position] = field(default_factory=set)
    read: set[Position] = field(default_factory=set)
    permits: dict[ConsumerKey, int] = field(default_factory=dict)
    concurrency: dict[ConsumerKey, int] = field(default_factory=dict)
    """How many entries each consumer that reports works on at once."""
    suspects: set[Position] = field(default_factory=set)
    """The entries that were in hand when their consumer was lost."""

    # What follows from the state

    def state(self) -> State:
        """Return the state that a load finds.

        Entries in hand have one try more, and no acknowledged entry is held.
        """
        in_hand = self.all_in_hand()
        counts = {p: self.counts.get(p, 0) + (p in in_hand) for p in (*self.counts, *in_hand)}
        held = {
            transaction: {p: bits for p, bits in entries.items() if not self.is_acked(p)}
            for transaction, entries in self.held.items()
        }
        return State(dict(self.acked), counts, held, frozenset(self.suspects | in_hand))

    def restore(self, state: State) -> None:
        """Restore a saved state: no consumer is connected, and every entry is unread."""
        self.acked, self.counts = dict(state.acked), dict(state.counts)
        self.suspects = set(state.suspects)
        self.held = {transaction: dict(entries) for transaction, entries in state.held.items()}

    def is_acked(self, position: Position) -> bool:
        """Return whether the whole entry is acknowledged."""
        return self.acked.get(position, 0) == self.log[position].bits

    def held_bits(self, position: Position) -> int:
        """Return the messages of an entry that transactions hold."""
        bits = 0
        for entries in self.held.values():
            bits |= entries.get(position, 0)
        return bits

    def owed(self, position: Position) -> int:
        """Return the messages that are neither acknowledged nor held."""
        bits = self.log[position].bits & ~self.acked.get(position, 0)
        return bits & ~self.held_bits(position) if self.held else bits

    def held_by(self, consumer: ConsumerKey) -> list[Position]:
        """Return the entries of a consumer in the order of delivery, without those in their back-off."""
        return [p for p, holder in self.holder.items() if holder == consumer and p not in self.due]

    def in_hand(self, consumer: ConsumerKey) -> list[Position]:
        """Return the entries that a consumer has in hand: the oldest ones."""
        return self.held_by(consumer)[: self.concurrency.get(consumer, 0)]

    def all_in_hand(self) -> frozenset[Position]:
        """Return the entries that any consumer has in hand."""
        return frozenset(p for name in self.concurrency for p in self.in_hand(name))

    def ack_sets(self) -> dict[Position, tuple[int, ...]]:
        """Return the words that a cursor keeps of the entries which are acknowledged in part."""
        return {
            position: to_words(self.log[position].bits & ~bits)
            for position, bits in self.acked.items()
            if bits and not self.is_acked(position)
        }

    def next_unread(self) -> Position | None:
        """Return the first entry that was not read and is not wholly acknowledged."""
        return next((p for p in self.log if p not in self.read and self.owed(p)), None)

    # What happens

    def answered(
        self, position: Position, answer: object, now_ms: int, *, read_position: Position | None = None
    ) -> None:
        """Apply the answer of `dispatch` for an entry, and the position at which reading continues."""
        if isinstance(answer, str):
            self.delivered(position, answer, now_ms)
        elif answer is NonDelivery.DEAD_LETTER:
            self.died(position)
        elif answer is NonDelivery.DELAYED:
            self.waits(position, now_ms)
        else:
            assert answer is not NonDelivery.ACKNOWLEDGED, f"{position} was read, and is {answer}"
            # On Key_Shared it is passed over, so that other keys go on; a suspect on Shared as well.
            if position not in self.read and read_position is not None and read_position > position:
                self.kept_back(position)

    def passed(self, position: Position) -> None:
        """Note that the read position moved past an entry."""
        if position not in self.read:
            self.read.update(p for p in self.log if p <= position)

    def delivered(self, position: Position, consumer: ConsumerKey, now_ms: int) -> None:
        """Check that a delivery is a legal one, and note it."""
        owed = self.owed(position)
        assert owed, f"{position} was delivered, and nothing of it is owed"
        if self.individual:
            assert position not in self.holder, f"{position} was delivered twice without cause"
            again = position in self.queue
            assert again or position == self.next_unread(), f"{position} was delivered out of order"
            at_ms = self.log[position].deliver_at_ms
            assert at_ms <= now_ms, f"{position} was delivered {at_ms - now_ms} ms before its time"
            assert not self.is_dead(position), f"{position} was delivered, and is a dead letter"
            others = self.held_by(consumer)
            alone = not others or (position not in self.suspects and self.suspects.isdisjoint(others))
            assert alone, (
                f"{position} was delivered to {consumer}, which has {others}; suspects: {self.suspects}"
            )
            self._in_order_of_its_key(position)
            self.queue.discard(position)
            self.returned.discard(position)
            self.passed(position)
            self.holder[position] = consumer
        self.permits[consumer] -= owed.bit_count()

    def _in_order_of_its_key(self, position: Position) -> None:
        """Check that no earlier message of its hash waits for redelivery; a hash of 0 means none."""
        sticky_key_hash = self.log[position].sticky_key_hash
        if sticky_key_hash and (self.returned or self.due):
            for earlier in (*self.returned, *self.due):
                overtaken = earlier < position and self.log[earlier].sticky_key_hash == sticky_key_hash
                assert not overtaken, f"{position} was delivered, and {earlier} of its key waits"

    def is_dead(self, position: Position) -> bool:
        """Return whether an entry was redelivered too often."""
        limit = self.max_redeliver_count
        return limit is not None and self.counts.get(position, 0) > limit

    def died(self, position: Position) -> None:
        """Record that the subscription reported an entry as a dead letter."""
        assert self.is_dead(position), f"{position} was not redelivered too often"
        for places in (self.queue, self.returned, self.suspects):
            places.discard(position)
        self.passed(position)
        self.dead.add(position)

    def waits(self, position: Position, now_ms: int) -> None:
        """Record that the subscription reported an entry as delayed."""
        at_ms = self.log[position].deliver_at_ms
        assert at_ms > now_ms, f"{position} waits, and its time was {now_ms - at_ms} ms ago"
        again = position in self.queue
        assert again or position not in self.read, f"{position} waits for its time once more"
        self.queue.discard(position)
        # It was never delivered, so this is not a redelivery, and it blocks no other message.
        self.returned.discard(position)
        self.passed(position)
        self.delayed[position] = at_ms

    def kept_back(self, position: Position) -> None:
        """Note that an unread entry was passed over for its key, and waits in the queue."""
        self.passed(position)
        self.queue.add(position)

    def advance(self, now_ms: int) -> None:
        """Let time pass."""
        for position in [p for p, at_ms in self.delayed.items() if at_ms <= now_ms]:
            del self.delayed[position]
            if self.owed(position):
                self.queue.add(position)
        for position in [p for p, due_ms in self.due.items() if due_ms <= now_ms]:
            self.give_back(position, counted=True)

    def acknowledge(self, position: Position, bits: int) -> None:
        """Acknowledge messages of an entry."""
        self.acked[position] = self.acked.get(position, 0) | bits & self.log[position].bits
        self._settle(position)

    def acknowledge_before(self, position: Position) -> None:
        """Acknowledge every entry before this one."""
        for each, message in self.log.items():
            if each < position:
                self.acknowledge(each, message.bits)

    def may_hold(self, position: Position, bits: int) -> bool:
        """Return whether a transaction may hold these messages: none of them twice."""
        acked, whole = self.acked.get(position, 0), self.log[position].bits
        taken = acked == whole if bits == whole else bits & acked
        return not taken and not bits & self.held_bits(position)

    def hold(self, transaction: TransactionId, position: Position, bits: int) -> None:
        """Hold messages in a transaction."""
        entries = self.held.setdefault(transaction, {})
        entries[position] = entries.get(position, 0) | bits
        self._settle(position)

    def commit(self, transaction: TransactionId) -> None:
        """Acknowledge the messages that a transaction holds."""
        for position, bits in self.held.pop(transaction, {}).items():
            self.acknowledge(position, bits)

    def abort(self, transaction: TransactionId) -> None:
        """Release the messages that a transaction holds; queue the entries that were read."""
        for position in self.held.pop(transaction, {}):
            if not self.individual or position in self.delayed or position not in self.read:
                continue
            if self.owed(position):
                self.give_back(position, counted=True)

    def nack(self, consumer: ConsumerKey, position: Position, now_ms: int) -> bool:
        """Start the back-off of an entry; return whether this consumer has it."""
        has = self.holder.get(position) == consumer
        if has:
            self.suspects.discard(position)
            self.due[position] = now_ms + self.backoff.delay_ms(self.counts.get(position, 0))
        return has

    def give_back(self, position: Position, *, counted: bool) -> None:
        """Take an entry from the consumer that has it, to be delivered again."""
        self.holder.pop(position, None)
        self.due.pop(position, None)
        self.dead.discard(position)
        self.queue.add(position)
        self.returned.add(position)
        if counted:
            self.counts[position] = self.counts.get(position, 0) + 1

    def redeliver(self, consumer: ConsumerKey, positions: list[Position] | None) -> int:
        """Return a consumer's entries, all or the listed ones, to the queue."""
        mine = [p for p in self.log if self.holder.get(p) == consumer]
        if positions is not None:
            mine = [p for p in mine if p in positions]
        for position in mine:
            self.suspects.discard(position)
            self.give_back(position, counted=True)
        return len(mine)

    def leave(self, consumer: ConsumerKey) -> int:
        """Remove a consumer; queue its entries. Those in hand count one try and become suspects."""
        for position in self.in_hand(consumer):
            self.counts[position] = self.counts.get(position, 0) + 1
            self.suspects.add(position)
        self.concurrency.pop(consumer, None)
        mine = [p for p, holder in self.holder.items() if holder == consumer]
        for position in mine:
            self.give_back(position, counted=False)
        del self.permits[consumer]
        return len(mine)

    def seek(self, position: Position) -> None:
        """Acknowledge exactly the entries before a position."""
        for places in (self.acked, self.counts, self.holder, self.due, self.delayed):
            places.clear()
        for positions in (self.queue, self.returned, self.dead, self.read, self.suspects):
            positions.clear()
        self.acked.update({p: m.bits for p, m in self.log.items() if p < position})

    def _settle(self, position: Position) -> None:
        """Forget an entry that is wholly acknowledged."""
        if not self.owed(position):
            self.holder.pop(position, None)
            self.due.pop(position, None)
            self.queue.discard(position)
            self.returned.discard(position)
        if self.is_acked(position):
            self.counts.pop(position, None)
            self.dead.discard(position)
            self.suspects.discard(position)

    # What must be alike

    def check(self, subscription: Subscription, now_ms: int) -> None:
        """Compare every counter and every place with the subscription's, which checks itself first."""
        subscription.validate()
        summary = subscription.summary(now_ms)
        held = set().union(*self.held.values())
        alike: dict[str, tuple[object, object]] = {
            "backlog": (summary.backlog_entries, sum(not self.is_acked(p) for p in self.log)),
            "the first of it": (
                summary.oldest_hole,
                next((p for p in self.log if not self.is_acked(p)), None),
            ),
            "ack sets": (dict(subscription.cursor.batch_deleted), self.ack_sets()),
            "entries in transactions": (summary.in_transactions, len(held)),
            "permits": ({each.consumer: each.permits for each in summary.consumers}, self.permits),
        }
        if self.individual:
            owed = {p: self.owed(p).bit_count() for p in self.holder}
            alike |= {
                "unacked": (summary.unacked, sum(owed.values())),
                "entries to redeliver": (summary.to_redeliver, len(self.queue)),
                "delayed": (summary.delayed, len(self.delayed)),
                "backing off": (summary.backing_off, len(self.due)),
                "suspects": (set(subscription.suspects), self.suspects),
                "in hand": (
                    {each.consumer: each.in_hand for each in summary.consumers if each.in_hand},
                    {name: len(mine) for name in self.permits if (mine := self.in_hand(name))},
                ),
                "dead letters": (set(subscription.dead_letters), self.dead),
                "counts": ({p: n for p in self.log if (n := subscription.redelivery_count(*p))}, self.counts),
                "pending": (
                    {
                        name: {p: remaining for p, (remaining, _) in subscription.pending(name).items()}
                        for name in self.permits
                    },
                    {
                        name: {p: owed[p] for p, holder in self.holder.items() if holder == name}
                        for name in self.permits
                    },
                ),
            }
        for what, (theirs, ours) in alike.items():
            assert theirs == ours, f"{what}: the subscription says {theirs}, {ours} is right"
