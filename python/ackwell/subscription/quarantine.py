"""Quarantine: a suspect is delivered alone, so that another crash is not counted for other entries.

A suspect is an entry that a consumer had in hand when the consumer was lost (`in_hand`). It goes to a
consumer without pending entries. That consumer gets no other entry until it has acknowledged or returned the
suspect. Entries in their back-off do not count as pending here, because their consumer no longer works on
them.

At least one consumer makes room for a suspect, so that the suspect does not wait for ever. On Key_Shared this
is the owner of the hash, on Exclusive and Failover the active consumer. On Shared, if no consumer has a
suspect, it is the consumer with the fewest entries. The permits of these consumers are withheld, so that no
policy chooses them. While there are no suspects, this adds no cost to dispatch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.subscription.in_hand import outstanding
from ackwell.subscription.undelivered import Undelivered

if TYPE_CHECKING:
    from ackwell.position import Position
    from ackwell.subscription.consumer import Consumer, ConsumerKey
    from ackwell.subscription.state import State


class Quarantine:
    """Chooses the consumers of suspects, and withholds the permits of these consumers."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._suspect_of: dict[ConsumerKey, Position] = {}
        """Consumer → the suspect that was delivered to it."""

    def arrange(self) -> list[Position]:
        """Withhold the permits of consumers that have or await a suspect.

        Returns the queued suspects to deliver now. O(1) without suspects, else O(suspects · consumers).
        """
        state = self._state
        if not (state.counts.suspecting or state.consumers.quarantined):
            return []
        kept = self._with_suspects()
        found = self._for_queued(kept) if state.policy.individual else self._for_active(kept)
        for consumer in state.consumers:
            if consumer.key in kept:
                state.consumers.withhold(consumer)
            elif consumer.quarantined:
                state.consumers.release(consumer)
        return found

    def choose(self, position: Position, sticky_key_hash: int) -> Consumer | Undelivered:
        """Choose the consumer of a suspect and withhold its permits.

        Return the consumer, or the reason if no consumer is free.
        """
        state = self._state
        if state.policy.read is not None:
            # The read has fixed the share of each consumer.
            return Undelivered.QUARANTINE
        if state.consumers.room(new=False) <= 0:
            return Undelivered.SUBSCRIPTION_BLOCKED
        taken = self._with_suspects()
        for consumer in self._candidates(sticky_key_hash):
            if consumer.key not in taken and self._is_free(consumer, sticky_key_hash):
                self._suspect_of[consumer.key] = position
                state.consumers.withhold(consumer)
                state.policy.begin_round()
                return consumer
        return Undelivered.QUARANTINE

    def _with_suspects(self) -> set[ConsumerKey]:
        """Return the consumers that have a suspect."""
        state, found = self._state, {}
        for key, position in self._suspect_of.items():
            consumer = state.consumers.by_key.get(key)
            if consumer is not None and state.counts.is_suspect(*position) and self._has(consumer, position):
                found[key] = position
        self._suspect_of = found
        return set(found)

    def _has(self, consumer: Consumer, position: Position) -> bool:
        if self._state.policy.individual:
            return consumer.pending.contains(*position)
        return consumer is self._state.policy.active and position in outstanding(self._state, 1)

    def _for_queued(self, kept: set[ConsumerKey]) -> list[Position]:
        """Add to `kept` the consumers that make room for a queued suspect.

        Return the suspects to deliver now.
        """
        state = self._state
        by_key = state.policy.by_key
        found = []
        left = False
        for position in state.counts.suspects.positions():
            if not state.replay.contains(*position):
                continue
            sticky_key_hash = state.replay.hash_of(position)
            if state.counts.exceeds(*position) or (by_key and sticky_key_hash is None):
                found.append(position)
                continue
            hashed = sticky_key_hash or 0
            if state.policy.in_key_order and state.key_waits(*position, hashed):
                continue
            candidates = [each for each in self._candidates(hashed) if each.key not in kept]
            free = next((each for each in candidates if self._is_free(each, hashed)), None)
            if free is not None:
                kept.add(free.key)
                found.append(position)
            elif by_key:
                kept.update(each.key for each in candidates)
            else:
                left = True
        if left and not kept:
            fewest = min(
                (each for each in state.consumers if _requests(each)),
                key=lambda each: (not each.quarantined, len(each.pending)),
                default=None,
            )
            if fewest is not None:
                kept.add(fewest.key)
        return found

    def _for_active(self, kept: set[ConsumerKey]) -> list[Position]:
        """Add the active consumer to `kept` if it has entries and the next unread entry is a suspect."""
        state = self._state
        active = state.policy.active
        if active is not None and not kept and outstanding(state, 1):
            ledger_ids, entry_ids = state.unread.first(1)
            if len(ledger_ids) and state.counts.is_suspect(int(ledger_ids[0]), int(entry_ids[0])):
                kept.add(active.key)
        return []

    def _candidates(self, sticky_key_hash: int) -> list[Consumer]:
        """Return the consumers that may get an entry, in order of preference."""
        policy, consumers = self._state.policy, self._state.consumers
        if policy.by_key:
            key = policy.selector.select(sticky_key_hash)  # type: ignore[attr-defined]
            return [] if key is None else [consumers[key]]
        if not policy.individual:
            return [] if policy.active is None else [policy.active]
        return sorted(consumers, key=lambda each: each.priority)

    def _is_free(self, consumer: Consumer, sticky_key_hash: int) -> bool:
        """Return whether a consumer has permits and no pending entries, except entries in their back-off."""
        state = self._state
        if not _requests(consumer):
            return False
        if not state.policy.individual:
            return not outstanding(state, 1)
        draining = state.consumers.draining
        if draining.pending and draining.blocks(consumer.key, sticky_key_hash):
            return False
        return all(position in state.backoffs.due_ms for position in consumer.pending)


def _requests(consumer: Consumer) -> bool:
    return consumer.permits + consumer.withheld > 0
