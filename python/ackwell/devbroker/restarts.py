"""Computes the state of a subscription after a restart, and which acknowledgments the restart lost.

The restart follows Pulsar's or ackwell's rules. By Pulsar's rules, a graceful restart writes the cursor when
it closes the topic. After a crash, the last written state remains. In both cases, the number of
acknowledgments that survive is limited, as in the emulated version. Redelivery counts and delays are only in
memory, so they are lost. By ackwell's rules, every acknowledgment survives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ackwell import PositionInfo
from ackwell.broker.batch_sizes import BatchSizes
from ackwell.broker.restart import RestartLoss, restart_loss
from ackwell.broker.writes import MemoryState, Restart, read_back
from ackwell.cursor.ack_sets import all_messages, from_words, to_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackwell import PositionRangeSet
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.writes import CursorLedger
    from ackwell.cursor.cursor_state import AckSetMapping
    from ackwell.devbroker.subscriptions import TopicSubscription
    from ackwell.position import Position


@dataclass(frozen=True, slots=True)
class SubscriptionLoss:
    """The acknowledgments of one subscription that a restart lost."""

    entries: PositionRangeSet
    """The entries that were acknowledged as a whole and of which at least one message is redelivered."""
    messages: int
    """The number of acknowledged messages that are redelivered."""
    predicted: RestartLoss
    """The loss that `ackwell.broker.restart_loss` predicted from the state before the restart."""


@dataclass(frozen=True, slots=True)
class RestartReport:
    """The result of one restart.

    `how` is `graceful` or `crash`. `as_` is the broker whose rules determined the surviving state. `losses`
    maps topic and subscription to the lost acknowledgments.
    """

    how: Restart
    as_: str
    losses: Mapping[tuple[str, str], SubscriptionLoss] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        """The number of acknowledged messages that are redelivered, for all subscriptions."""
        return sum(each.messages for each in self.losses.values())


@dataclass(frozen=True, slots=True)
class SurvivingState:
    """One subscription after a restart: its surviving state, the state of its cursor ledger, and its loss."""

    info: PositionInfo
    ledger: CursorLedger
    loss: SubscriptionLoss


RestartBehaviour = Literal["pulsar", "ackwell"]


def surviving_state(
    source: TopicSubscription, how: Restart, as_: RestartBehaviour, settings: BrokerSettings
) -> SurvivingState:
    """Return the part of a subscription's state that survives a restart, and the lost acknowledgments."""
    now = MemoryState.from_state(source.cursor.to_state())
    staged = source.subscription.stage().info
    sizes = BatchSizes(of=source.content.batch_sizes())
    predicted = _predicted(source, now, how, settings, sizes)
    if as_ == "ackwell":
        loss = SubscriptionLoss(type(now.individually_deleted)(), 0, predicted)
        return SurvivingState(staged, source.cursor_writes.ledger, loss)
    before = now if how == "graceful" else source.cursor_writes.written
    ledger: CursorLedger = source.cursor_writes.ledger
    persisted = read_back(before, settings, how, ledger)
    found = {*persisted.ack_sets, *persisted.uncertain_ack_sets}
    info = PositionInfo(
        *before.mark_delete_position,
        individually_deleted=persisted.ranges,
        batch_deleted={p: before.batch_deleted[p] for p in sorted(found)},
        unknown_fields=staged.unknown_fields,
    )
    place: CursorLedger = "read-only" if persisted.place == "cursor ledger" else "none"
    return SurvivingState(info, place, _loss(source, info, sizes, predicted))


def _predicted(
    source: TopicSubscription, now: MemoryState, how: Restart, settings: BrokerSettings, sizes: BatchSizes
) -> RestartLoss:
    return restart_loss(
        now,
        settings,
        how,
        cursor_ledger=source.cursor_writes.ledger,
        batch_sizes=sizes,
        persisted_mark_delete=source.cursor_writes.written.mark_delete_position if how == "crash" else None,
    )


def _loss(
    source: TopicSubscription, info: PositionInfo, sizes: BatchSizes, predicted: RestartLoss
) -> SubscriptionLoss:
    """Return the acknowledgments of `source` that the surviving state `info` lacks."""
    from ackwell.cursor import Cursor

    after = Cursor.from_position_info(info, source.cursor.ledgers, settings=source.cursor.settings)
    entries = source.cursor.acknowledged() - after.acknowledged()
    partial = {
        p: from_words(words) for p, words in source.cursor.batch_deleted.items() if not after.is_acked(*p)
    }
    # The messages of these entries and batches that are still acknowledged.
    kept = {
        p: from_words(words) | partial.get(p, 0)
        for p, words in after.batch_deleted.items()
        if p in entries or p in partial
    }
    acked = sizes.acked(entries.cardinality, _in_batches(partial, sizes), within=entries).at_least
    still_acked = sizes.acked(0, _in_batches(kept, sizes)).at_least
    return SubscriptionLoss(entries, acked - still_acked, predicted)


def _in_batches(unacked: Mapping[Position, int], sizes: BatchSizes) -> AckSetMapping:
    """Return the ack sets of the batches that have at least one acknowledged message.

    A client may have sent bits for messages beyond the end of a batch. These bits are removed.
    """
    everything = {p: all_messages(sizes.of.get(p, 1)) for p in unacked}
    return {p: to_words(bits & everything[p]) for p, bits in unacked.items() if everything[p] & ~bits}
