"""The wrong implementations of order per key that PIP-493 (apache/pulsar#26418) lists.

Each changes one subscription. The eighth is a defect of a client that keeps messages which it should return;
it is the argument `client_holds` of `explore`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.subscription.positions_by_hash import PositionsByHash

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.position import Position
    from ackwell.subscription import Subscription


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace a bound method by `make(method)`."""
    setattr(owner, name, make(getattr(owner, name)))


class _AllButTheEarliest(PositionsByHash):
    """Blocks messages that are earlier than the earliest one as well as later ones."""

    def has_earlier(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> bool:
        waiting = self._sorted.get(sticky_key_hash)
        return waiting is not None and waiting[0] != ledger_id << 63 | entry_id


class _Counter(PositionsByHash):
    """Counts the waiting messages of a hash and stores the first, but not the set of them."""

    def __init__(self, structures: Any) -> None:
        super().__init__(structures)
        self.counts: dict[int, int] = {}
        self.first: dict[int, int] = {}
        self.known: dict[tuple[int, int], int] = {}

    def __contains__(self, position: Position) -> bool:
        return bool(self.counts.get(self.known.get(position, -1)))

    def add(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> None:
        packed = ledger_id << 63 | entry_id
        self.known[ledger_id, entry_id] = sticky_key_hash
        self.counts[sticky_key_hash] = self.counts.get(sticky_key_hash, 0) + 1
        self.first[sticky_key_hash] = min(self.first.get(sticky_key_hash, packed), packed)
        self.active = True

    def discard(self, ledger_id: int, entry_id: int) -> None:
        sticky_key_hash = self.known.get((ledger_id, entry_id), -1)
        if self.counts.get(sticky_key_hash):
            self.counts[sticky_key_hash] -= 1
            if not self.counts[sticky_key_hash]:
                del self.first[sticky_key_hash]
        self.active = any(self.counts.values())

    def has_earlier(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> bool:
        packed = ledger_id << 63 | entry_id
        return bool(self.counts.get(sticky_key_hash)) and self.first[sticky_key_hash] < packed


def _keep_in(subscription: Subscription, kind: type[PositionsByHash]) -> None:
    state = subscription._state
    state.retrying = kind(state.structures)
    state.block_held_hashes()


def withhold_all_but_the_earliest(subscription: Subscription) -> None:
    _keep_in(subscription, _AllButTheEarliest)


def a_counter_where_a_set_is_needed(subscription: Subscription) -> None:
    _keep_in(subscription, _Counter)


def two_gates_instead_of_three(subscription: Subscription) -> None:
    """Check queued messages when they are chosen, but not when they are dispatched."""
    state = subscription._state
    _replace(
        subscription._dispatcher,
        "_key_waits",
        lambda asked: (
            lambda ledger_id, entry_id, sticky_key_hash: (
                (ledger_id, entry_id) >= state.unread.position and asked(ledger_id, entry_id, sticky_key_hash)
            )
        ),
    )


def a_gate_on_normal_reads_only(subscription: Subscription) -> None:
    """Do not check queued messages at all."""
    state = subscription._state
    two_gates_instead_of_three(subscription)
    hidden = PositionsByHash(state.structures)

    def unasked(chosen: Any) -> Any:
        def choose(limit: int) -> Any:
            retrying, state.retrying = state.retrying, hidden
            try:
                return chosen(limit)
            finally:
                state.retrying = retrying

        return choose

    _replace(subscription._dispatcher, "_to_replay", unasked)


def release_at_a_transactional_ack_before_its_commit(subscription: Subscription) -> None:
    def released(position: Position) -> None:
        subscription._state.retrying.discard(*position)

    _replace(subscription._acks, "_keep_waiting", lambda _: released)


def release_when_an_entry_leaves_the_pending_map(subscription: Subscription) -> None:
    """Release the key at a request for redelivery, as at an acknowledgment."""
    retrying = subscription._state.retrying
    release_at_a_transactional_ack_before_its_commit(subscription)

    _replace(subscription._redelivery, "_release", lambda release: _then(release, retrying))


def _then(release: Any, retrying: PositionsByHash) -> Any:
    def released(position: Position, *consumer: Any, **values: Any) -> Any:
        done = release(position, *consumer, **values)
        retrying.discard(*position)
        return done

    return released


def forgetting_when_one_consumer_leaves(subscription: Subscription) -> None:
    retrying = subscription._state.retrying

    def leaves(leave: Any) -> Any:
        def left(consumer: Any) -> Any:
            found = leave(consumer)
            retrying.clear()
            return found

        return left

    _replace(subscription._redelivery, "remove_consumer", leaves)


DEFECTS = {
    defect.__name__.replace("_", " "): defect
    for defect in (
        withhold_all_but_the_earliest,
        two_gates_instead_of_three,
        a_gate_on_normal_reads_only,
        release_when_an_entry_leaves_the_pending_map,
        release_at_a_transactional_ack_before_its_commit,
        a_counter_where_a_set_is_needed,
        forgetting_when_one_consumer_leaves,
    )
}
