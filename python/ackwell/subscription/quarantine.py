"""Quarantine: deliver a suspect alone. If its consumer crashes, no other entry can be the cause.

A suspect is an entry that a consumer had in hand when the consumer was lost (`in_hand`). It is delivered to a
consumer without pending entries. That consumer gets no other entry until it has acknowledged or returned the
suspect. Entries in their back-off do not count as pending here, because their consumer no longer works on
them.

While a suspect waits, at least one consumer gets no further entries, so that it can take the suspect later.
On Key_Shared this is the owner of the suspect's hash, on Exclusive and Failover the active consumer. On
Shared, if no consumer has a suspect, it is the consumer with the fewest pending entries. The quarantine
withholds the permits of these consumers, so that no policy chooses them. If there are no suspects, dispatch
costs the same as without this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.subscription.in_hand import outstanding
from ackwell.subscription.outcome import NonDelivery

if TYPE_CHECKING:
    from ackwell.position import Position
    from ackwell.subscription.consumer import Consumer, ConsumerKey
    from ackwell.subscription.state import State


class Quarantine:
    """Chooses the consumer of each suspect, and withholds the permits of these consumers."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._suspect_of: dict[ConsumerKey, Position] = {}
        """Key of a consumer → the suspect that was delivered to it."""

    def arrange(self) -> list[Position]:
        """Withhold the permits of each consumer that has a suspect or must be free for a suspect.

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

    def choose(self, position: Position, sticky_key_hash: int) -> Consumer | NonDelivery:
        """Choose the consumer of a suspect and withhold the permits of the consumer.

        Return the consumer, or the reason if no consumer can take the suspect now.
        """
        state = self._state
        if state.policy.read is not None:
            # The read has already fixed how many entries each consumer gets.
            return NonDelivery.QUARANTINE
        if state.consumers.room(new=False) <= 0:
            return NonDelivery.SUBSCRIPTION_BLOCKED
        taken = self._with_suspects()
        for consumer in state.policy.candidates(sticky_key_hash):
            if consumer.key not in taken and self._is_free(consumer, sticky_key_hash):
                self._suspect_of[consumer.key] = position
                state.consumers.withhold(consumer)
                state.policy.begin_round()
                return consumer
        return NonDelivery.QUARANTINE

    def _with_suspects(self) -> set[ConsumerKey]:
        """Return the keys of the consumers that have a suspect."""
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
        """Find the queued suspects to deliver now, and the consumers that must be free for a suspect.

        Return these suspects. Add the keys of these consumers to `kept`.
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
            candidates = [each for each in state.policy.candidates(hashed) if each.key not in kept]
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
        """Add the key of the active consumer to `kept` if the consumer must be free for a suspect.

        This is so if the consumer has unfinished entries and the next unread entry is a suspect. Return an
        empty list, because no suspect is queued.
        """
        state = self._state
        active = state.policy.active
        if active is not None and not kept and outstanding(state, 1):
            ledger_ids, entry_ids = state.unread.first(1)
            if len(ledger_ids) and state.counts.is_suspect(int(ledger_ids[0]), int(entry_ids[0])):
                kept.add(active.key)
        return []

    def _is_free(self, consumer: Consumer, sticky_key_hash: int) -> bool:
        """Return whether a consumer has permits and no pending entries.

        Entries in their back-off do not count. Return False, too, if the hash drains and another consumer has
        pending entries of the hash.
        """
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
