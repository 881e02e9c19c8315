"""A case for each row of `docs/pulsar.md` in which a wrong rule gives another result.

In the actions an entry is the number of its publication, and the key "@1" is one that consumer 1 owns.
"""

from __future__ import annotations

from collections.abc import Generator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ackwell.subscription.policies import ByKeyPolicy
from tests.pulsar.live.actions import (
    Ack,
    AckCumulative,
    Action,
    Close,
    EndTransaction,
    Expire,
    Flow,
    Nack,
    Publish,
    Redeliver,
    Seek,
    Subscribe,
    Unload,
)
from tests.pulsar.live.choose import FAR_MS
from tests.pulsar.live.operations import Sequence
from tests.pulsar.live.play import DifferenceError, Played, Restart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackwell import Position

T1, T2 = (0, 1), (0, 2)
UNLIMITED = {
    "maxUnackedMessagesPerConsumer": 50_000,
    "maxUnackedMessagesPerSubscription": 200_000,
    "managedLedgerMaxEntriesPerLedger": 5_000,
    "managedLedgerMaxUnackedRangesToPersist": 10_000,
    "acknowledgmentAtBatchIndexLevelEnabled": True,
}
"""Every setting that a case changes. A running broker keeps the values of the case before."""


class Directed(NamedTuple):
    """A case: the settings' field that it decides, and its actions."""

    name: str
    field: str
    type: str
    actions: tuple[Any, ...]
    settings: Mapping[str, int] = MappingProxyType({})

    @property
    def sequence(self) -> Sequence:
        assert set(self.settings) <= set(UNLIMITED), "the next case would run under this one's settings"
        return Sequence(0, self.type, UNLIMITED | dict(self.settings), True, ())


def _publish(*sizes: int | None, key: str | None = None) -> Publish:
    return Publish(tuple((size, key) for size in sizes))


def _at(entries: Any) -> Any:
    """Replace positions of an action by numbers of entries."""
    return entries


def _ids(*entries: Any) -> Any:
    """Return ids of an acknowledgment: entries, or (entry, unacknowledged bits, batch size)."""
    return tuple(
        (each, (), 0) if isinstance(each, int) else (each[0], (each[1],), each[2]) for each in entries
    )


def _part(entry: int, bits: int, size: int = 10) -> Any:
    return _ids((entry, bits, size))


_ONE = Subscribe(1, "c1", 0)
_TWO = Subscribe(2, "c2", 0)
_OF_10 = {"maxUnackedMessagesPerConsumer": 10}
_END: Any = None

CASES = (
    Directed(
        "permits of batches on Exclusive",
        "reads_by_permits",
        "Exclusive",
        (_publish(*[10] * 30), _ONE, Flow(1, 5), Flow(1, 10), Flow(1, 100)),
    ),
    Directed(
        "permits of batches on Failover, which come while it waits",
        "reads_by_permits",
        "Failover",
        (_ONE, Flow(1, 12), _publish(10, 3, 10), Flow(1, 30), _publish(10, 10, 10, 10), Flow(1, 20)),
    ),
    Directed(
        "permits of batches on Key_Shared",
        "reads_by_permits",
        "Key_Shared",
        (_ONE, _publish(*[10] * 8, key="@1"), Flow(1, 5), Flow(1, 40), Flow(1, 20)),
    ),
    Directed(
        "a share of batches of many sizes on Shared",
        "reads_by_permits",
        "Shared",
        (_ONE, _TWO, _publish(1, 1, 30, 1, 1, 1, 20, 1, 1, 3), Flow(1, 7), Flow(2, 5)),
    ),
    Directed(
        "what is left of a read goes beyond the subscription's limit",
        "reads_by_permits",
        "Shared",
        (_publish(*[None] * 30), _ONE, Flow(1, 100), _TWO, Ack(1, _ids(0, 1, 2, 3, 4)), Flow(2, 3)),
        {"maxUnackedMessagesPerConsumer": 10, "maxUnackedMessagesPerSubscription": 10},
    ),
    Directed(
        "what a transaction holds takes its place in a read",
        "reads_by_permits",
        "Exclusive",
        (
            _publish(*[10] * 12),
            _ONE,
            Flow(1, 100),
            Ack(1, _ids(0, 2), T1),
            Redeliver(1, None),
            Flow(1, 26),
            Flow(1, 100),
        ),
    ),
    Directed(
        "what waited when the last consumer left is read like anything else",
        "idle_reads_again",
        "Shared",
        (_publish(*[10] * 8), _ONE, Flow(1, 100), Close(1), _TWO, Flow(2, 3), Flow(2, 100)),
        {"maxUnackedMessagesPerSubscription": 20},
    ),
    Directed(
        "a delay is noted of what somebody could have got",
        "reads_by_permits",
        "Shared",
        (
            _publish(*[None] * 2),
            Publish(((None, None),) * 4, FAR_MS),
            _publish(*[None] * 4),
            _ONE,
            Flow(1, 3),
            Flow(1, 2),
            Flow(1, 9),
        ),
    ),
    Directed(
        "a read of more permits than a broker reads at once",
        "read_batch_size",
        "Exclusive",
        (_publish(*[2] * 300), _ONE, Flow(1, 270)),
    ),
    Directed(
        "consumers of Shared in turn",
        "round_robin_batch_size",
        "Shared",
        (_ONE, _TWO, Flow(1, 1), Flow(2, 200), _publish(*[None] * 70), Flow(1, 100), Redeliver(2, _END)),
    ),
    Directed(
        "acknowledged entries keep their places in the queue of Key_Shared",
        "reads_by_permits",
        "Key_Shared",
        (
            _ONE,
            _publish(*[10] * 6, key="@1"),
            Flow(1, 6),
            Redeliver(1, _at((0, 1, 2, 3, 4, 5))),
            Ack(1, _ids(1, 2, 3, 4)),
            Flow(1, 57),
        ),
    ),
    Directed(
        "a consumer of Shared leaves after its turn",
        "round_robin_batch_size",
        "Shared",
        (
            _ONE,
            _TWO,
            Subscribe(3, "c3", 0),
            Flow(2, 1),
            _publish(None),
            Flow(1, 1),
            _publish(None),
            Ack(1, _ids(1)),
            Close(1),
            Flow(2, 50),
            Flow(3, 50),
            *[_publish(None)] * 4,
        ),
    ),
    Directed(
        "a consumer of a better priority joins Shared",
        "round_robin_batch_size",
        "Shared",
        (
            Subscribe(1, "c1", 1),
            Subscribe(2, "c2", 1),
            Flow(1, 50),
            Flow(2, 50),
            _publish(None),
            Subscribe(3, "c3", 0),
            *[_publish(None)] * 3,
        ),
    ),
    Directed(
        "a read goes beyond the subscription's limit",
        "subscription_limit_at_read",
        "Shared",
        (_publish(*[None] * 30), _ONE, Flow(1, 100), Redeliver(1, _at((0, 1, 2)))),
        {"maxUnackedMessagesPerSubscription": 10},
    ),
    Directed(
        "a consumer over its limit gives one entry back",
        "redelivery_unblocks",
        "Shared",
        (_publish(*[None] * 9, 30), _ONE, Flow(1, 100), Redeliver(1, _at((0,))), Redeliver(1, _at((1, 2)))),
        _OF_10,
    ),
    Directed(
        "a full consumer asks for an entry that it does not have",
        "empty_redelivery_unblocks",
        "Shared",
        (_publish(*[None] * 14), _ONE, Flow(1, 100), Redeliver(1, _at((13,)))),
        _OF_10,
    ),
    Directed(
        "a part of a batch at the limit of its consumer",
        "partial_ack_unblocks",
        "Shared",
        (_publish(10, 10, 10), _ONE, Flow(1, 100), Ack(1, _part(0, 0b1111))),
        _OF_10,
    ),
    Directed(
        "a part of a batch in a transaction at the limit of its consumer",
        "transaction_part_unblocks",
        "Shared",
        (_publish(10, 10, 10), _ONE, Flow(1, 100), Ack(1, _part(0, 0b1111), T1), EndTransaction(T1, True)),
        _OF_10,
    ),
    Directed(
        "a blocked consumer of Key_Shared below its limit",
        "key_shared_ignores_blocked",
        "Key_Shared",
        (_ONE, _TWO, _publish(*[None] * 8, key="@1"), Flow(1, 100), Ack(1, _ids(0, 1)), Flow(2, 1)),
        {"maxUnackedMessagesPerConsumer": 6},
    ),
    Directed(
        "returned entries of another consumer take places in the next read",
        "redelivery_drops_hash",
        "Key_Shared",
        (
            _ONE,
            _TWO,
            _publish(None, None, key="@1"),
            _publish(30, None, key="@2"),
            Close(2),
            Flow(1, 4),
            Redeliver(1, None),
            Subscribe(3, "c2", 0),
            Flow(3, 3),
        ),
    ),
    Directed(
        "a message in its client's back-off is overtaken",
        "waiting_holds_key",
        "Key_Shared",
        (
            _ONE,
            _publish(*[None] * 3, key="@1"),
            Flow(1, 1),
            Nack(1, _at(0)),
            Flow(1, 5),
            Redeliver(1, _at((0,))),
        ),
    ),
    Directed(
        "the redelivery count after a part of a batch",
        "partial_ack_resets_count",
        "Shared",
        (
            _publish(4),
            _ONE,
            Flow(1, 100),
            *[Redeliver(1, _END)] * 2,
            Ack(1, _part(0, 14, 4)),
            Redeliver(1, _END),
        ),
    ),
    Directed(
        "redelivery counts when the last consumer leaves",
        "idle_clears_counts",
        "Shared",
        (_publish(None, None), _ONE, Flow(1, 9), Redeliver(1, _END), Close(1), _TWO, Flow(2, 9)),
    ),
    Directed(
        "the pending count of an entry acknowledged in part",
        "partial_ack_lowers_pending",
        "Shared",
        (_publish(10), _ONE, Flow(1, 100), Ack(1, _part(0, 0b1111))),
    ),
    Directed(
        "the abort of a cumulative acknowledgment",
        "cumulative_abort_rewinds",
        "Exclusive",
        (
            _publish(*[None] * 3),
            _ONE,
            Flow(1, 9),
            AckCumulative(1, _at(1), (), T1),
            EndTransaction(T1, False),
        ),
    ),
    Directed(
        "the end of a transaction with both kinds of acknowledgment",
        "cumulative_hides_individual",
        "Exclusive",
        (
            _publish(*[None] * 6),
            _ONE,
            Flow(1, 9),
            Ack(1, _ids(4), T1),
            AckCumulative(1, _at(1), (), T1),
            EndTransaction(T1, True),
            Redeliver(1, _END),
        ),
    ),
    Directed(
        "a whole entry in a transaction after a part of it",
        "plain_acks_conflict",
        "Exclusive",
        (_publish(4, 4), _ONE, Flow(1, 9), Ack(1, _part(0, 14, 4)), Ack(1, _at(((0, (), 4),)), T1)),
    ),
    Directed(
        "a whole entry in a transaction after a part that one has committed",
        "plain_acks_conflict",
        "Failover",
        (
            _publish(10, 10),
            _ONE,
            Flow(1, 30),
            Ack(1, _part(1, 895), T1),
            EndTransaction(T1, True),
            Ack(1, _at(((1, (), 10),)), T2),
        ),
    ),
    Directed(
        "expiry beside acknowledged newest entries",
        "expires_by_search",
        "Failover",
        (_publish(*[None] * 8), _ONE, Flow(1, 9), Ack(1, _ids(7)), Expire(_at(1))),
    ),
    Directed(
        "a cumulative acknowledgment inside a batch that is partly acknowledged",
        "replace_ack_sets",
        "Exclusive",
        (
            _publish(10, 10),
            _ONE,
            Flow(1, 30),
            Ack(1, _part(0, 0b0111111111)),
            AckCumulative(1, _at(0), (0b1111110000,)),
        ),
    ),
    Directed(
        "a cumulative acknowledgment with an ack set without a bit",
        "replace_ack_sets",
        "Exclusive",
        (_publish(3, 3), _ONE, Flow(1, 30), AckCumulative(1, _at(0), (0,))),
    ),
    Directed(
        "the properties of an individual acknowledgment",
        "merge_individual_properties",
        "Exclusive",
        (_publish(None, None, None), _ONE, Flow(1, 9), Ack(1, _ids(1), None, (("individual", 1),))),
    ),
    Directed(
        "acknowledged positions that no ledger holds",
        "keep_missing_positions",
        "Exclusive",
        (_publish(None, None, None), _ONE, Flow(1, 9), Ack(1, _ids(1)), Unload(forged=True)),
    ),
    Directed(
        "a seek into a batch without an unacknowledged message",
        "seek_keeps_empty_ack_set",
        "Exclusive",
        (_ONE, _publish(3, 3, 3), Flow(1, 10), Seek(1, _at(1), (0,))),
    ),
    Directed(
        "a cumulative acknowledgment behind the mark-delete position",
        "refuse_cumulative_behind",
        "Exclusive",
        (_publish(*[None] * 4), _ONE, Flow(1, 9), AckCumulative(1, _at(2)), AckCumulative(1, _at(1))),
    ),
    Directed(
        "a part of a batch where a broker keeps whole entries alone",
        "batch_index_acks",
        "Shared",
        (_publish(10, 10), _ONE, Flow(1, 100), Ack(1, _part(0, 0b1111)), Redeliver(1, _END)),
        {"acknowledgmentAtBatchIndexLevelEnabled": False},
    ),
    Directed(
        "a part in a transaction where a broker keeps whole entries alone",
        "transactions_keep_parts",
        "Exclusive",
        (
            _publish(10, 10),
            _ONE,
            Flow(1, 100),
            Ack(1, _part(0, 0b1111), T1),
            Redeliver(1, _END),
            EndTransaction(T1, True),
            Redeliver(1, _END),
        ),
        {"acknowledgmentAtBatchIndexLevelEnabled": False},
    ),
    Directed(
        "a part in a transaction, and a cumulative acknowledgment of another part of the batch",
        "transactions_keep_parts",
        "Exclusive",
        (
            _publish(10, 10),
            _ONE,
            Flow(1, 100),
            Ack(1, _part(0, 0b1111111101), T1),
            EndTransaction(T1, True),
            AckCumulative(1, _at(0), (0b1111111110,)),
            Redeliver(1, _END),
        ),
    ),
)


class PlayedCase(Played):
    """A directed case on a broker."""

    case: Directed

    def run(self) -> Generator[None, Restart, None]:
        """Play it all."""
        self._begin()
        self._entries: list[Position] = []
        for number, action in enumerate(self.case.actions):
            for one in self._resolved(action):
                self.history.append(f"{number} {one}")
                try:
                    self.play(number, one)
                except DifferenceError:
                    raise
                except Exception as error:
                    raise DifferenceError(number, one, [repr(error)]) from error
                self._entries += [position for position, _ in self.steps[-1].published]
        self.theirs.disconnect()
        yield from ()

    def _resolved(self, action: Any) -> list[Action]:
        if isinstance(action, Publish):
            return [Publish(((size, self._key(key)),), action.deliver_at_ms) for size, key in action.entries]
        fields = action._asdict()
        if "position" in fields:
            fields["position"] = self._entries[fields["position"]]
        if fields.get("positions") is not None:
            fields["positions"] = tuple(self._entries[each] for each in fields["positions"])
        if "message_ids" in fields:
            fields["message_ids"] = tuple(
                (self._entries[each[0]], *each[1:]) for each in fields["message_ids"]
            )
        resolved: Action = type(action)(**fields)
        return [resolved]

    def _key(self, key: str | None) -> str | None:
        if key is None or not key.startswith("@"):
            return key
        subscription = self.ours.subscription
        policy = subscription._state.policy
        assert isinstance(policy, ByKeyPolicy)
        return next(
            text
            for text in map(str, range(1_000))
            if policy.selector.select(subscription.sticky_key_hash(text)) == int(key[1:])
        )
