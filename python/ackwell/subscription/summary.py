"""A subscription in numbers, gathered from counters that are kept up to date."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from ackwell.drawing import Drawing, Drawn

if TYPE_CHECKING:
    from ackwell.position import Position
    from ackwell.subscription.consumer import ConsumerKey
    from ackwell.subscription.state import State
    from ackwell.subscription.undelivered import Undelivered


@dataclass(frozen=True, slots=True)
class ConsumerSummary:
    """One consumer: what it may get and what it has."""

    consumer: ConsumerKey
    """What identifies it."""
    name: str
    permits: int
    unacked: int
    """Messages, not entries."""
    pending_entries: int
    blocked: bool
    epoch: int


@dataclass(frozen=True, slots=True)
class Summary(Drawn):
    """One subscription at one time."""

    backlog_entries: int
    """Existing entries not wholly acknowledged, delivered or not."""
    unacked: int
    """Messages with consumers, of all consumers together."""
    delayed: int
    """Entries that wait for their time of delivery."""
    to_redeliver: int
    """Entries that were read and are to be delivered again."""
    backing_off: int
    """Entries negatively acknowledged, still with their consumer until their back-off is over."""
    dead_letters: int
    in_transactions: int
    """Entries that open transactions hold, wholly or in part."""
    blocked: bool
    stall: Undelivered | None
    """Why nothing new is read; `None` if nothing stops it."""
    oldest_hole: Position | None
    """The first existing entry that is not acknowledged: it keeps the mark-delete position where it is."""
    oldest_hole_age_ms: int
    """For how long it has been the first; as exact as the calls with a time were frequent."""
    consumers: tuple[ConsumerSummary, ...]
    nbytes: dict[str, int] = field(default_factory=dict)
    """Heap bytes of each structure."""

    def drawing(self) -> Drawing:
        """Return what a notebook and a terminal show."""
        numbers = {each.name.replace("_", " "): getattr(self, each.name) for each in fields(self)}
        rows = [
            {each.name.replace("_", " "): getattr(consumer, each.name) for each in fields(consumer)}
            for consumer in numbers.pop("consumers")
        ]
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
