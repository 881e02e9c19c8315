"""The state of a subscription after a restart, by Pulsar's or ackwell's rules, and the lost acknowledgments.

By Pulsar's rules, a graceful restart writes the cursor at the close, and a crash leaves the last written
state. Both keep only the acknowledgments within the limits of the version. Redelivery counts and delays in
memory are lost. By ackwell's rules, every acknowledgment survives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ackwell import PositionInfo
from ackwell.broker.batch_sizes import BatchSizes
from ackwell.broker.restart import RestartLoss, restart_loss
from ackwell.broker.writes import MemoryState, Restart, read_back
from ackwell.cursor.ack_sets import from_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackwell import PositionRangeSet
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.writes import CursorLedger
    from ackwell.devbroker.subscriptions import TopicSubscription


@dataclass(frozen=True, slots=True)
class SubscriptionLoss:
    """The acknowledgments of one subscription that a restart lost."""

    entries: PositionRangeSet
    """The fully acknowledged entries of which some or all messages are delivered again."""
    messages: int
    """The acknowledged messages that are delivered again."""
    predicted: RestartLoss
    """The loss that `ackwell.broker.restart_loss` predicts from the state before the restart."""


@dataclass(frozen=True, slots=True)
class RestartReport:
    """The result of one restart: its kind, the emulated broker, and the losses by topic and subscription."""

    how: Restart
    as_: str
    losses: Mapping[tuple[str, str], SubscriptionLoss] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        """The number of acknowledged messages of all subscriptions that are redelivered."""
        return sum(each.messages for each in self.losses.values())


@dataclass(frozen=True, slots=True)
class SurvivingState:
    """A subscription after a restart: its cursor state and the state of its cursor ledger."""

    info: PositionInfo
    ledger: CursorLedger
    loss: SubscriptionLoss


RestartBehaviour = Literal["pulsar", "ackwell"]


def surviving_state(
    source: TopicSubscription, how: Restart, as_: RestartBehaviour, settings: BrokerSettings
) -> SurvivingState:
    """Return the state and the loss of a subscription after a restart."""
    now = MemoryState.held(source.cursor.to_state())
    staged = source.subscription.stage().info
    predicted = _predicted(source, now, how, settings)
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
    return SurvivingState(info, place, _loss(source, info, predicted))


def _predicted(
    source: TopicSubscription, now: MemoryState, how: Restart, settings: BrokerSettings
) -> RestartLoss:
    return restart_loss(
        now,
        settings,
        how,
        cursor_ledger=source.cursor_writes.ledger,
        batch_sizes=BatchSizes(of=source.content.batch_sizes()),
        persisted_mark_delete=source.cursor_writes.written.mark_delete_position if how == "crash" else None,
    )


def _loss(source: TopicSubscription, info: PositionInfo, predicted: RestartLoss) -> SubscriptionLoss:
    """Return the acknowledgments that the surviving state `info` does not contain."""
    from ackwell.cursor import Cursor

    after = Cursor.from_position_info(info, source.cursor.ledgers, settings=source.cursor.settings)
    entries = source.cursor.acknowledged() - after.acknowledged()
    sizes = source.content.batch_sizes()
    messages = sum(
        _unacked_bits(after.unacked_bits(*position), sizes.get(position, 1)).bit_count()
        for position in entries.positions()
    )
    for position, words in source.cursor.batch_deleted.items():
        size = sizes.get(position, 1)
        known = _unacked_bits(after.unacked_bits(*position), size)
        messages += (known & ~_unacked_bits(from_words(words), size)).bit_count()
    return SubscriptionLoss(entries, messages, predicted)


def _unacked_bits(bits: int | None, size: int) -> int:
    everything = (1 << size) - 1
    return everything if bits is None else bits & everything
