"""The summary of a subscription. It uses counters that each operation updates, so it is cheap."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from ackwell.drawing import DrawableValue, Drawing
from ackwell.subscription.in_hand import in_hand_of

if TYPE_CHECKING:
    from ackwell.position import Position
    from ackwell.subscription.consumer import ConsumerKey
    from ackwell.subscription.outcome import NonDelivery
    from ackwell.subscription.state import State
    from ackwell.subscription.subscription_settings import LostCounts


@dataclass(frozen=True, slots=True)
class ConsumerSummary:
    """The permits and pending entries of one consumer."""

    consumer: ConsumerKey
    """The key of the consumer."""
    name: str
    permits: int
    unacked: int
    """The number of unacknowledged messages (not entries) of the consumer."""
    pending_entries: int
    in_hand: int
    """The number of entries that the consumer works on; 0 if it does not report them."""
    blocked: bool
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(DrawableValue):
    """The counters of one subscription at one time."""

    backlog_entries: int
    """The number of existing entries that are not acknowledged as a whole, whether delivered or not."""
    unacked: int
    """The number of messages that are pending at all consumers."""
    delayed: int
    """The number of entries that wait for their delivery time."""
    to_redeliver: int
    """The number of entries that are queued for redelivery."""
    backing_off: int
    """The number of negatively acknowledged entries in their back-off. They stay pending until it ends."""
    dead_letters: int
    suspects: int
    """The number of entries that were in hand when their consumer was lost. Each is delivered alone."""
    lost_counts: LostCounts
    """The setting `lost_counts`: the deliveries that count as a redelivery if their consumer is lost."""
    in_transactions: int
    """The number of entries that open transactions hold, as a whole or in part."""
    blocked: bool
    stall: NonDelivery | None
    """The reason why no unread entry is read; `None` if reading may continue."""
    oldest_hole: Position | None
    """The first existing entry that is not acknowledged. The mark-delete position cannot move past it."""
    oldest_hole_age_ms: int
    """The time for which `oldest_hole` has been the same, in ms. It is measured only at calls that pass a
    time."""
    consumers: tuple[ConsumerSummary, ...]
    nbytes: dict[str, int] = field(default_factory=dict)
    """The heap bytes of each structure, by name."""

    def drawing(self) -> Drawing:
        """Return the drawing for a notebook or a terminal."""
        numbers = {each.name.replace("_", " "): getattr(self, each.name) for each in fields(self)}
        rows = [
            {each.name.replace("_", " "): getattr(consumer, each.name) for each in fields(consumer)}
            for consumer in numbers.pop("consumers")
        ]
        numbers["lost counts"] = self.lost_counts.value
        numbers["stall"] = None if self.stall is None else self.stall.value
        numbers["nbytes"] = sum(self.nbytes.values())
        return Drawing(
            f"Subscription with {len(rows):,} consumer{'s' * (len(rows) != 1)}", numbers, rows=rows
        )


def summarize(state: State, stall: NonDelivery | None, hole: Position | None, hole_age_ms: int) -> Summary:
    """Return the summary of a state. `hole` is the first unacknowledged entry. O(consumers)."""
    delayed = state.delayed
    return Summary(
        backlog_entries=state.cursor.backlog_entries,
        unacked=state.consumers.unacked,
        delayed=0 if delayed is None else len(delayed),
        to_redeliver=len(state.replay),
        backing_off=len(state.backoffs),
        dead_letters=state.counts.dead.cardinality,
        suspects=state.counts.suspects.cardinality,
        lost_counts=state.settings.lost_counts,
        in_transactions=state.transactions.entries,
        blocked=state.consumers.blocked,
        stall=stall,
        oldest_hole=hole,
        oldest_hole_age_ms=hole_age_ms,
        consumers=tuple(
            ConsumerSummary(
                each.key,
                each.name,
                each.permits + each.withheld,
                each.unacked,
                len(each.pending),
                len(in_hand_of(state, each)),
                each.blocked,
                each.epoch,
            )
            for each in state.consumers
        ),
        nbytes={
            "individually_deleted": state.cursor.individually_deleted.nbytes,
            "pending_acks": state.consumers.nbytes,
            "replay_queue": state.replay.nbytes,
            "redelivery": state.counts.nbytes + state.backoffs.nbytes + state.retrying.nbytes,
            "delayed": 0 if delayed is None else delayed.nbytes,
        },
    )
