"""Everything that was delivered and is not acknowledged: who has it, and how much of it.

The one place that changes a consumer's pending entries and the counters over them. A counter moves by
the difference between the old and the new remaining count of an entry that is really there, never by
what a client claims to have acknowledged, so that it cannot drift or go below zero
(apache/pulsar#759, #96, #6510: negative counters that stop dispatch).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.errors import ProtocolError
from ackwell.subscription.ack_timeouts import AckTimeouts
from ackwell.subscription.consumer import Consumer
from ackwell.subscription.draining import DrainingHashes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ackwell.engine import Engine
    from ackwell.position import Position
    from ackwell.subscription.settings import SubscriptionSettings

    Int64s = NDArray[np.int64]


class Outstanding:
    """The consumers of a subscription with what is pending at each."""

    def __init__(self, engine: Engine, settings: SubscriptionSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._consumer_limit = settings.max_unacked_per_consumer
        self._limit = settings.max_unacked_per_subscription
        self.consumers: dict[str, Consumer] = {}
        self.unacked = 0
        """Messages pending at all consumers together."""
        self.blocked = False
        """The subscription reached its limit, and is not yet below half of it."""
        self.draining = DrainingHashes()

    def __getitem__(self, name: str) -> Consumer:
        consumer = self.consumers.get(name)
        if consumer is None:
            raise self.unknown(name)
        return consumer

    def unknown(self, name: str) -> ProtocolError:
        """Return the refusal of a name that nobody has."""
        return ProtocolError(f"no consumer {name!r}; it never joined, or has left")

    @property
    def entries(self) -> int:
        """Entries pending at all consumers together."""
        return sum(len(consumer.pending) for consumer in self.consumers.values())

    def join(self, name: str, priority: int) -> Consumer:
        """Take a consumer in, with no permits; `ProtocolError` for a name in use."""
        if name in self.consumers:
            raise ProtocolError(f"consumer {name!r} is already connected")
        settings, timeouts = self._settings, None
        if settings.ack_timeout_ms:
            timeouts = AckTimeouts(self._engine, settings.ack_timeout_ms, settings.ack_timeout_tick_ms)
        consumer = self.consumers[name] = Consumer(name, priority, self._engine.PendingAcks(), timeouts)
        return consumer

    def leave(self, name: str) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Let a consumer go; give what it had: ledger ids, entry ids, remaining, hashes."""
        consumer = self[name]
        pending = self.take_all(consumer)
        del self.consumers[name]
        return pending

    def deliver(
        self,
        consumer: Consumer,
        ledger_id: int,
        entry_id: int,
        remaining: int,
        sticky_key_hash: int,
        now_ms: int,
    ) -> None:
        """Hand one entry to a consumer; it is with nobody now."""
        consumer.pending.add(ledger_id, entry_id, remaining, sticky_key_hash)
        consumer.permits -= remaining
        self._grow(consumer, remaining)
        if consumer.timeouts is not None:
            consumer.timeouts.delivered(ledger_id, entry_id, now_ms)
        if self.draining.pending:
            self.draining.delivered(consumer.name, sticky_key_hash)

    def deliver_many(
        self,
        consumer: Consumer,
        ledger_ids: Int64s,
        entry_ids: Int64s,
        remaining: Int64s | int,
        sticky_key_hashes: Int64s | int,
        now_ms: int,
    ) -> None:
        """Hand many entries to a consumer; one number stands for all entries."""
        import numpy as np

        count = len(ledger_ids)
        total = remaining * count if isinstance(remaining, int) else int(remaining.sum())
        if isinstance(remaining, int):
            remaining = np.full(count, remaining, dtype=np.int64)
        if isinstance(sticky_key_hashes, int):
            sticky_key_hashes = np.full(count, sticky_key_hashes, dtype=np.int64)
        consumer.pending.add_many(ledger_ids, entry_ids, remaining, sticky_key_hashes)
        consumer.permits -= total
        self._grow(consumer, total)
        if consumer.timeouts is not None:
            consumer.timeouts.delivered_many(ledger_ids, entry_ids, now_ms)
        if self.draining.pending:
            for sticky_key_hash in sticky_key_hashes.tolist():
                self.draining.delivered(consumer.name, sticky_key_hash)

    def owner(self, ledger_id: int, entry_id: int, guess: Consumer | None = None) -> Consumer | None:
        """Find who has an entry: the one who speaks of it, or any other (O(consumers))."""
        if guess is not None and guess.pending.contains(ledger_id, entry_id):
            return guess
        for consumer in self.consumers.values():
            if consumer.pending.contains(ledger_id, entry_id):
                return consumer
        return None

    def settle(
        self, ledger_id: int, entry_id: int, guess: Consumer | None = None
    ) -> tuple[Consumer, int, int] | None:
        """Take an entry off whoever has it; give the consumer, the remaining count and the hash."""
        consumer = self.owner(ledger_id, entry_id, guess)
        value = None if consumer is None else consumer.pending.remove_and_get(ledger_id, entry_id)
        if consumer is None or value is None:
            return None
        remaining, sticky_key_hash = value
        self._shrink(consumer, remaining)
        if self.draining.pending:
            self.draining.settled(consumer.name, sticky_key_hash)
        return consumer, remaining, sticky_key_hash

    def acknowledged(self, ledger_id: int, entry_id: int, guess: Consumer | None) -> None:
        """Take an entry off whoever has it, in the fewest calls."""
        if guess is not None and not self.draining.pending:
            remaining = guess.pending.get_remaining(ledger_id, entry_id)
            if remaining is not None:
                guess.pending.remove(ledger_id, entry_id)
                self._shrink(guess, remaining)
                return
        self.settle(ledger_id, entry_id)

    def acknowledged_many(self, guess: Consumer | None, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """Take many entries off whoever has them, this consumer first."""
        import numpy as np

        if guess is not None and not self.draining.pending:
            remaining = guess.pending.get_many(ledger_ids, entry_ids)[0]
            pending = remaining >= 0
            removed = guess.pending.remove_many(ledger_ids, entry_ids)
            if removed < np.count_nonzero(pending):
                # A position that stands twice counts once.
                rows = np.stack([ledger_ids[pending], entry_ids[pending]], axis=1)
                first = np.unique(rows, axis=0, return_index=True)[1]
                self._shrink(guess, int(remaining[pending][first].sum()))
            else:
                self._shrink(guess, int(remaining.sum(where=pending)))
            if removed == len(ledger_ids) or len(self.consumers) == 1:
                return
            ledger_ids, entry_ids = ledger_ids[~pending], entry_ids[~pending]
        for ledger_id, entry_id in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
            self.settle(ledger_id, entry_id)

    def reduce(self, position: Position, remaining: int, guess: Consumer | None = None) -> None:
        """Lower what remains of an entry, wherever it is pending; at 0 it is with its consumer no more."""
        consumer = self.owner(*position, guess)
        if consumer is None:
            return
        value = consumer.pending.get(position)
        assert value is not None
        before, sticky_key_hash = value
        if remaining <= 0:
            self.settle(*position, consumer)
        elif remaining < before:
            consumer.pending.add(*position, remaining, sticky_key_hash)
            self._shrink(consumer, before - remaining)

    def take_all(self, consumer: Consumer) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Take everything off a consumer: ledger ids, entry ids, remaining, hashes, in position order."""
        pending = consumer.pending.to_arrays()
        consumer.pending.clear()
        self._shrink(consumer, consumer.unacked)
        if consumer.timeouts is not None:
            consumer.timeouts.clear()
        if self.draining.pending:
            self.draining.left(consumer.name)
        return pending

    def forget_up_to(self, position: Position) -> None:
        """Drop what is pending at or before a position: nobody owes it any more."""
        for consumer in self.consumers.values():
            gone = consumer.pending.take_all_up_to(*position)
            if len(gone[0]):
                self._shrink(consumer, int(gone[2].sum()))
                if self.draining.pending:
                    for sticky_key_hash in gone[3].tolist():
                        self.draining.settled(consumer.name, sticky_key_hash)

    def allowance(self, consumer: Consumer) -> int:
        """Return how many messages a consumer may be sent before its permits or a limit stop it.

        The entry that passes the mark is still sent whole, as the broker sends a batch.
        """
        if self.blocked or consumer.blocked:
            return 0
        allowance = min(consumer.permits, self.room())
        if self._consumer_limit:
            allowance = min(allowance, self._consumer_limit - consumer.unacked)
        return max(allowance, 0)

    def room(self) -> int:
        """Return how many messages all consumers together may be sent before the subscription's limit."""
        if self.blocked:
            return 0
        return self._limit - self.unacked if self._limit else 2**62

    @property
    def nbytes(self) -> int:
        """The heap bytes of all pending entries and their deadlines."""
        return sum(
            consumer.pending.nbytes + (consumer.timeouts.nbytes if consumer.timeouts is not None else 0)
            for consumer in self.consumers.values()
        )

    def validate(self) -> None:
        """Check the pending entries of every consumer, and that no two have the same."""
        seen: set[tuple[int, int]] = set()
        for consumer in self.consumers.values():
            consumer.pending.validate()
            assert consumer.unacked >= 0, f"{consumer.name}: {consumer.unacked} unacked"
            for position in consumer.pending:
                assert position not in seen, f"{position} is with two consumers"
                seen.add(position)

    def audit(self) -> list[str]:
        """Recompute every counter and flag from the entries; describe each that differs."""
        found = []
        total = 0
        for consumer in self.consumers.values():
            unacked = sum(remaining for remaining, _ in consumer.pending.values())
            total += unacked
            if consumer.unacked != unacked:
                found.append(f"{consumer.name}: unacked is {consumer.unacked}, its entries sum to {unacked}")
            if consumer.blocked != _blocked(consumer.blocked, unacked, self._consumer_limit, inclusive=True):
                found.append(f"{consumer.name}: blocked is {consumer.blocked} at {unacked} unacked")
        if self.unacked != total:
            found.append(f"unacked is {self.unacked}, the consumers' entries sum to {total}")
        if self.blocked != _blocked(self.blocked, total, self._limit, inclusive=False):
            found.append(f"blocked is {self.blocked} at {total} unacked")
        return found

    def _grow(self, consumer: Consumer, messages: int) -> None:
        consumer.unacked += messages
        self.unacked += messages
        if consumer.unacked >= self._consumer_limit > 0:
            consumer.blocked = True
        if self.unacked >= self._limit > 0:
            self.blocked = True

    def _shrink(self, consumer: Consumer, messages: int) -> None:
        # The flags are looked at on every way down, not on some of them (apache/pulsar#22657).
        consumer.unacked -= messages
        self.unacked -= messages
        if consumer.blocked and consumer.unacked * 2 <= self._consumer_limit:
            consumer.blocked = False
        if self.blocked and self.unacked * 2 < self._limit:
            self.blocked = False


def _blocked(now: bool, unacked: int, limit: int, *, inclusive: bool) -> bool:
    """Return what a flag must be: between half and all of the limit it may be either."""
    if limit == 0:
        return False
    free = unacked * 2 <= limit if inclusive else unacked * 2 < limit
    return False if free else True if unacked >= limit else now
