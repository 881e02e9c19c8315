"""The summary of a subscription, from counters that are always up to date."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from ackwell.drawing import Drawing, Drawn
from ackwell.subscription.in_hand import in_hand_of

if TYPE_CHECKING:
    from ackwell.position import Position
    from ackwell.subscription.consumer import ConsumerKey
    from ackwell.subscription.state import State
    from ackwell.subscription.subscription_settings import LostCounts
    from ackwell.subscription.undelivered import Undelivered


@dataclass(frozen=True, slots=True)
class ConsumerSummary:
    """The permits and pending entries of one consumer."""

    consumer: ConsumerKey
    """The key of the consumer."""
    name: str
    permits: int
    unacked: int
    """The number of its unacknowledged messages (not entries)."""
    pending_entries: int
    in_hand: int
    """Entries that it works on, if it reports them."""
    blocked: bool
    epoch: int


@dataclass(frozen=True, slots=True)
class Summary(Drawn):
    """The numbers of one subscription at one time."""

    backlog_entries: int
    """Existing entries that are not wholly acknowledged, delivered or not."""
    unacked: int
    """Pending messages of all consumers."""
    delayed: int
    """Entries that wait for their delivery time."""
    to_redeliver: int
    """Entries that are queued for redelivery."""
    backing_off: int
    """Negatively acknowledged entries, which stay with their consumer until their back-off ends."""
    dead_letters: int
    suspects: int
    """Entries that were in hand when their consumer was lost. They are delivered alone."""
    lost_counts: LostCounts
    """The deliveries that count as a redelivery when their consumer is lost."""
    in_transactions: int
    """Entries that open transactions hold, whole or in part."""
    blocked: bool
    stall: Undelivered | None
    """Why no unread entry is read; `None` if reading may continue."""
    oldest_hole: Position | None
    """The first existing entry that is not acknowledged. It stops the mark-delete position."""
    oldest_hole_age_ms: int
    """The time since `oldest_hole` last changed, measured at the calls that pass a time."""
    consumers: tuple[ConsumerSummary, ...]
    nbytes: dict[str, int] = field(default_factory=dict)
    """Heap bytes of each structure."""

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


def summarize(state: State, stall: Undelivered | None, hole: Position | None, hole_age_ms: int) -> Summary:
    """Return the summary of a state. O(consumers)."""
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
