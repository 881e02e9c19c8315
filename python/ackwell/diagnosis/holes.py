"""Find the unacknowledged entries that block a subscription.

The mark-delete position is just before the oldest unacknowledged entry. The broker can delete neither the
ledger of this entry nor any later ledger, even if all other entries are acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from ackwell.broker.dates import date_of
from ackwell.cursor.cursor_state import existing
from ackwell.errors import StatsError
from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell.broker.dispatch import ConsumerStats
    from ackwell.broker.stats import SubscriptionStats
    from ackwell.cluster.admin import Admin, PeekedEntry


@dataclass(frozen=True, slots=True)
class Hole:
    """A run of existing entries of one ledger. None of these entries is wholly acknowledged."""

    first: Position
    last: Position

    @property
    def entries(self) -> int:
        """The number of entries in the hole."""
        return self.last.entry_id - self.first.entry_id + 1

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}..{self.last.entry_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockage:
    """The oldest hole of a subscription, its effects, and the consumer to which its entries were sent."""

    topic: str
    subscription: str
    hole: Hole
    acked_after: int
    """The number of entries after the hole that are wholly acknowledged."""
    pinned_bytes: int
    """The total size of the ledgers that cannot be deleted: the ledger with the hole, and all later
    ledgers."""
    next_mark_delete: Position
    """The mark-delete position that follows when the hole is acknowledged."""
    freed_bytes: int
    """The total size of the ledgers that can be deleted when the hole is acknowledged."""
    freed_ledgers: int
    blocked_ms: int | None
    """The time since the mark-delete position last moved, if the broker reports it."""
    message_age_seconds: int | None
    """The age of the oldest message in the backlog, if the broker reports it."""
    holder: ConsumerStats | None
    """The consumer to which the entries of the hole were sent; None if the source does not show it."""
    on_hold: bool
    """Whether `ackwell rescue` holds back messages. A failed run may have left this hold."""

    def to_json(self) -> dict[str, Any]:
        """Return the blockage as JSON values."""
        return {
            "topic": self.topic,
            "subscription": self.subscription,
            "oldestUnacked": str(self.hole.first),
            "ledger": self.hole.first.ledger_id,
            "entry": self.hole.first.entry_id,
            "entries": self.hole.entries,
            "ackedEntriesBehind": self.acked_after,
            "pinnedBytes": self.pinned_bytes,
            "nextMarkDeletePosition": str(self.next_mark_delete),
            "freedLedgers": self.freed_ledgers,
            "freedBytes": self.freed_bytes,
            "blockedMs": self.blocked_ms,
            "oldestMessageAgeSeconds": self.message_age_seconds,
            "heldBy": None if self.holder is None else self.holder.name,
            "onHold": self.on_hold,
        }


def holes(stats: SubscriptionStats) -> Iterator[Hole]:
    """Yield the holes of a subscription in order; O(ranges + ledgers), lazily.

    >>> from ackwell.broker.stats import parse_stats
    >>> answer = b'''{"ledgers": [{"ledgerId": 3, "entries": 9}], "lastConfirmedEntry": "3:8", "cursors":
    ...   {"sub": {"markDeletePosition": "3:1", "individuallyDeletedMessages": "[(3:2..3:5]]"}}}'''
    >>> [str(hole) for hole in holes(next(parse_stats(answer, "an answer")))]
    ['3:2', '3:6..8']
    """
    acked = stats.individually_deleted.ranges()
    upcoming = next(acked, None)
    mark_delete = stats.mark_delete_position
    for ledger_id, entries in stats.ledgers:
        if ledger_id < mark_delete.ledger_id:
            continue
        start = mark_delete.entry_id + 1 if ledger_id == mark_delete.ledger_id else 0
        while upcoming is not None and upcoming[0] <= ledger_id:
            of_ledger, lower, upper = upcoming
            if of_ledger == ledger_id:
                if start <= min(lower, entries - 1):
                    yield Hole(Position(ledger_id, start), Position(ledger_id, min(lower, entries - 1)))
                start = max(start, upper + 1)
            upcoming = next(acked, None)
        if start < entries:
            yield Hole(Position(ledger_id, start), Position(ledger_id, entries - 1))


def unacked_entries(stats: SubscriptionStats) -> Iterator[Position]:
    """Yield the entries that are not wholly acknowledged, in order, lazily."""
    for hole in holes(stats):
        for entry_id in range(hole.first.entry_id, hole.last.entry_id + 1):
            yield Position(hole.first.ledger_id, entry_id)


def blockage(stats: SubscriptionStats) -> Blockage | None:
    """Return the oldest hole and its effect; None if all entries are acknowledged.

    Raises `StatsError` if the source does not show which entries are acknowledged.
    """
    found = holes(stats.required())
    hole = next(found, None)
    if hole is None:
        return None
    then = next(found, None)
    after = then.first if then is not None else None
    last = stats.ledgers.last_position
    next_mark_delete = (
        stats.ledgers.previous_valid(*after) if after is not None else (last or stats.mark_delete_position)
    )
    # A ledger can be deleted when the mark-delete position is at or after the ledger's last entry.
    pinned = [each for each in stats.ledger_sizes if each.ledger_id >= hole.first.ledger_id]
    freed = [each for each in pinned[:-1] if (each.ledger_id, each.entries - 1) <= next_mark_delete]
    return Blockage(
        topic=stats.topic,
        subscription=stats.subscription,
        hole=hole,
        acked_after=existing(stats.individually_deleted, stats.ledgers).cardinality,
        pinned_bytes=sum(each.size_bytes for each in pinned),
        next_mark_delete=next_mark_delete,
        freed_bytes=sum(each.size_bytes for each in freed),
        freed_ledgers=len(freed),
        blocked_ms=stats.blocked_ms,
        message_age_seconds=None if stats.dispatch is None else stats.dispatch.oldest_age_seconds,
        holder=holder_of(stats, hole.first),
        on_hold=stats.dispatch is not None and stats.dispatch.held,
    )


def oldest_unacked(stats: SubscriptionStats) -> Position | None:
    """Return the oldest unacknowledged entry; None if all entries are acknowledged."""
    if not stats.backlog_entries:
        return None
    return stats.ledgers.next_valid(*stats.mark_delete_position)


def holder_of(stats: SubscriptionStats, unacked: Position) -> ConsumerStats | None:
    """Return the consumer to which an unacknowledged entry was sent; None if it is unknown.

    The result is the active consumer. Without an active consumer, it is the only consumer with unacknowledged
    messages.
    """
    dispatch, read = stats.dispatch, stats.read_position
    if dispatch is None or read is None or unacked >= read:
        return None
    if dispatch.active is not None:
        return next((each for each in dispatch.consumers if each.name == dispatch.active), None)
    return dispatch.holders[0] if len(dispatch.holders) == 1 and not dispatch.in_replay else None


class EntryListing:
    """The oldest unacknowledged entries of a subscription. `peek` requests their metadata from a broker."""

    def __init__(self, stats: SubscriptionStats, most: int) -> None:
        self._topic = stats.topic
        self._time_ms = stats.time_ms
        self._entries: dict[Position, PeekedEntry | str | None] = dict.fromkeys(
            islice(unacked_entries(stats), most)
        )

    def peek(self, admin: Admin, most: int) -> int:
        """Request the metadata of the first `most` entries; return the number of requests."""
        positions = list(islice(self._entries, max(most, 0)))
        for position in positions:
            try:
                self._entries[position] = admin.peek(self._topic, position)
            except StatsError as error:
                # Keep the error instead of the metadata, and continue with the other entries.
                self._entries[position] = error.reason
        return len(positions)

    def lines(self) -> Iterator[str]:
        """Yield one line of text for each entry."""
        for position, found in self._entries.items():
            if not isinstance(found, tuple):
                yield f"{position}" if found is None else f"{position}  {found}"
                continue
            messages = f"{found.messages:,} message{'' if found.messages == 1 else 's'}"
            published = "" if found.published_ms is None else f", published {_date(found.published_ms)}"
            if self._time_ms is not None and found.published_ms is not None:
                published += f", {max(self._time_ms - found.published_ms, 0) / 60_000:,.1f} min ago"
            due = "" if found.due_ms is None else f", due {_date(found.due_ms)}"
            yield f"{position}  {messages}{published}{due}"

    def to_json(self) -> list[dict[str, Any]]:
        """Return the entries as JSON values."""
        shown = []
        for position, found in self._entries.items():
            entry: dict[str, Any] = {"position": str(position)}
            if isinstance(found, str):
                entry["error"] = found
            elif found is not None:
                entry |= {
                    "publishedMs": found.published_ms,
                    "dueMs": found.due_ms,
                    "messages": found.messages,
                }
            shown.append(entry)
        return shown


def _date(time_ms: int) -> str:
    return date_of(time_ms).isoformat(timespec="milliseconds")
