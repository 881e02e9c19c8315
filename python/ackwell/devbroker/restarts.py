"""What a restart leaves of a subscription, as Pulsar does it and as ackwell does it, and the loss as a value.

As Pulsar: a graceful restart closes the cursor, a crash finds what was written last, both cut to the limits
of the version; redelivery counts and delays in memory are gone. As ackwell: everything that was
acknowledged stays.
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
    from ackwell.broker.settings import BrokerSettings
    from ackwell.broker.writes import CursorLedger
    from ackwell.devbroker.subscriptions import TopicSubscription


@dataclass(frozen=True, slots=True)
class SubscriptionLoss:
    """What a restart forgot of one subscription."""

    entries: PositionRangeSet
    """The wholly acknowledged entries that are delivered again, wholly or in part."""
    messages: int
    """The acknowledged messages that are delivered again."""
    predicted: RestartLoss
    """What `ackwell.broker.restart_loss` says of it, from the state before the restart."""


@dataclass(frozen=True, slots=True)
class RestartReport:
    """One restart: how it was, as whom, and what it forgot, by topic and subscription."""

    how: Restart
    as_: str
    losses: Mapping[tuple[str, str], SubscriptionLoss] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        """The acknowledged messages that are delivered again, of all subscriptions."""
        return sum(each.messages for each in self.losses.values())


@dataclass(frozen=True, slots=True)
class SurvivingState:
    """A subscription after a restart: its state, and where its cursor has its ledger."""

    info: PositionInfo
    ledger: CursorLedger
    loss: SubscriptionLoss


RestartBehaviour = Literal["pulsar", "ackwell"]


def surviving_state(
    source: TopicSubscription, how: Restart, as_: RestartBehaviour, settings: BrokerSettings
) -> SurvivingState:
    """Return what is left of a subscription."""
    now = MemoryState.held(source.cursor.to_state())
    staged = source.subscription.stage().info
    predicted = _predicted(source, now, how, settings)
    if as_ == "ackwell":
        loss = SubscriptionLoss(type(now.individually_deleted)(), 0, predicted)
        return SurvivingState(staged, source.cursor_writes.ledger, loss)
    before = now if how == "graceful" else source.cursor_writes.written
    ledger: CursorLedger = source.cursor_writes.ledger
    if how == "crash" and ledger != "open":
        # Nothing was written since the cursor was loaded, and what was loaded is what is found again.
        ranges, partial, place = before.individually_deleted, dict(before.batch_deleted), ledger
    else:
        kept = read_back(before, settings, how, ledger)
        ranges = kept.ranges
        partial = {p: before.batch_deleted[p] for p in sorted({*kept.partial, *kept.perhaps})}
        place = "read-only" if kept.place == "cursor ledger" else "none"
    info = PositionInfo(
        *before.mark_delete_position,
        individually_deleted=ranges,
        batch_deleted=partial,
        unknown_fields=staged.unknown_fields,
    )
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
    """Compare the acknowledged messages before and after."""
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
