"""Predict the effect of a seek, reset, skip, expiry or clear on a subscription, and verify it afterwards.

The prediction applies the move to a copy of the state with the rules of `ackwell.subscription` for the
broker's version. Numbers of whole entries are exact. Numbers of messages are an interval if the source does
not show the sizes of batches, or the acknowledged messages inside a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.broker.restart import acked_within
from ackwell.cursor import Cursor
from ackwell.cursor.cursor_state import existing
from ackwell.cursor.rules import acknowledged, last_existing
from ackwell.diagnosis.doctor import count_to_json
from ackwell.errors import CorruptStateError, StatsError
from ackwell.integers import INT64_MAX
from ackwell.json_values import object_in
from ackwell.position import Position
from ackwell.protocol.constants import SubscriptionType
from ackwell.sources import SourceKind, wrong_kind
from ackwell.subscription import Subscription, SubscriptionSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackwell import Ledgers, PositionRangeSet
    from ackwell.broker.batch_sizes import Bounds
    from ackwell.broker.stats import SubscriptionStats

EARLIEST: Final = Position(-1, -1)
LATEST: Final = Position(INT64_MAX, INT64_MAX)


class MoveKind(StrEnum):
    """The operations that move a cursor."""

    SEEK = "seek"
    RESET_CURSOR = "reset-cursor"
    SKIP = "skip"
    EXPIRE = "expire"
    CLEAR_BACKLOG = "clear-backlog"


SEEKS: Final = (MoveKind.SEEK, MoveKind.RESET_CURSOR)


class Move(NamedTuple):
    """A move of a cursor: to a position, up to a position, or over a number of entries."""

    kind: MoveKind
    position: Position | None = None
    entries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEffect:
    """The effect of a move.

    `before` has the wholly acknowledged entries before the move, and `after` those after the move.
    """

    topic: str
    subscription: str
    move: Move
    before: PositionRangeSet
    after: PositionRangeSet
    mark_delete_position: Position
    ledgers: Mapping[int, int]
    """Maps each ledger of the topic to its number of entries. `check_prediction` uses it to recognise the
    topic."""
    returned: Bounds
    """The number of acknowledged messages that are delivered again."""
    vanished: Bounds
    """The number of unacknowledged messages that are never delivered."""
    note: str
    """A text about a position at which the topic has no entry, or about a search of the broker that ends
    early; otherwise empty."""

    @property
    def returned_entries(self) -> PositionRangeSet:
        """The entries that are no longer acknowledged after the move."""
        return self.before - self.after

    @property
    def vanished_entries(self) -> PositionRangeSet:
        """The entries that the move acknowledges."""
        return self.after - self.before

    def to_json(self) -> dict[str, Any]:
        """Return the effect as JSON values, for `check_prediction`."""
        position = self.move.position
        return {
            "topic": self.topic,
            "subscription": self.subscription,
            "move": str(self.move.kind),
            "to": None if position is None else str(position),
            "entries": self.move.entries,
            "markDeletePosition": str(self.mark_delete_position),
            "returned": {"entries": self.returned_entries.cardinality, **count_to_json(self.returned)},
            "vanished": {"entries": self.vanished_entries.cardinality, **count_to_json(self.vanished)},
            "returnedEntries": str(self.returned_entries),
            "vanishedEntries": str(self.vanished_entries),
            "ledgers": {str(ledger_id): entries for ledger_id, entries in self.ledgers.items()},
            "note": self.note,
        }


def what_if(stats: SubscriptionStats, move: Move, version: str = "4.2") -> MoveEffect:
    """Predict the effect of a move on a subscription of a broker of `version`; O(ranges + ledgers).

    Raises `ValueError` for a version without a preset, and `StatsError` if the source does not show which
    entries are acknowledged.
    """
    stats.required()
    settings = SubscriptionSettings.pulsar(version)
    ledgers = stats.ledgers.copy()
    cursor = Cursor.from_position_info(stats.to_position_info(), ledgers, settings=settings.cursor)
    model = Subscription(SubscriptionType.SHARED, cursor=cursor, settings=settings)
    before = acknowledged(ledgers, cursor.mark_delete_position, cursor.individually_deleted)
    last = None
    if move.kind is MoveKind.SKIP:
        model.skip(move.entries)
    elif move.kind is MoveKind.CLEAR_BACKLOG:
        model.clear_backlog()
    elif move.kind is MoveKind.EXPIRE:
        last = _last_to_expire(ledgers, _to(move))
        if last is not None:
            model.expire(*last)
    else:
        model.seek(*_next_to_read(ledgers, _to(move)))
    cursor = model.cursor
    after = acknowledged(ledgers, cursor.mark_delete_position, cursor.individually_deleted)
    returned, vanished = before - after, after - before
    sizes, hidden = stats.batch_sizes, acked_within(stats)
    # A seek drops the ack sets of entries that are unacknowledged after it, so their acknowledged messages
    # are delivered again. The other moves keep these ack sets. Each vanished entry has at least one
    # unacknowledged message.
    drops_ack_sets = move.kind in SEEKS and cursor.backlog_entries > returned.cardinality
    again = sizes.acked(returned.cardinality).plus_up_to(hidden if drops_ack_sets else 0)
    return MoveEffect(
        topic=stats.topic,
        subscription=stats.subscription,
        move=move,
        before=before,
        after=after,
        mark_delete_position=cursor.mark_delete_position,
        ledgers=dict(stats.ledgers),
        returned=again,
        vanished=sizes.unacked(vanished.cardinality),
        note="; ".join(filter(None, (_note(ledgers, move), _search_note(ledgers, last, after)))),
    )


def _last_to_expire(ledgers: Ledgers, to: Position) -> Position | None:
    """Return the last acknowledged entry of an expiry up to a position; None if the broker expires nothing.

    A broker expires nothing if the position is before the first entry. It refuses a position after the last
    entry.
    """
    last = ledgers.last_position
    return None if last is None or to > last else last_existing(ledgers, to)


def _next_to_read(ledgers: Ledgers, to: Position) -> Position:
    """Return the position from which a broker reads after a seek to the position `to`."""
    first = ledgers.first_position
    return EARLIEST if first is not None and ledgers.last_position is not None and to < first else to


def _note(ledgers: Ledgers, move: Move) -> str:
    """Return a text about the effect of the move if the topic has no entry at the position of the move.

    Return an empty text if the topic has this entry.
    """
    to, last = move.position, ledgers.last_position
    if to is None or last is None or (to.entry_id >= 0 and ledgers.contains(*to)):
        return ""
    if move.kind in SEEKS:
        if to in (EARLIEST, LATEST):
            return ""
        following = ledgers.next_valid(*to)
        place = f"the next entry, {following}" if ledgers.contains(*following) else "the end of the topic"
        return f"the topic has no entry {to}; the broker moves the subscription to {place}"
    name = {EARLIEST: "earliest", LATEST: "latest"}.get(to, str(to))
    if to > last:
        return f"{name} is after the last entry, {last}; the broker refuses the expiry and changes nothing"
    before = _last_to_expire(ledgers, to)
    if before is None:
        return f"the topic has no entry at or before {name}; the broker expires nothing"
    return f"the topic has no entry {to}; the broker expires the entries up to {before}"


def _search_note(ledgers: Ledgers, last: Position | None, after: PositionRangeSet) -> str:
    """Return a text if an expiry up to `last` does not acknowledge all entries up to `last`.

    The reason is that the broker's search for the last expired entry ends early. Otherwise, return an empty
    text. `after` is the set of acknowledged entries after the expiry.
    """
    left = 0 if last is None else (acknowledged(ledgers, last, type(after)()) - after).cardinality
    if not left:
        return ""
    return (
        f"of the entries up to {last}, {left:,} do not expire: the newest entries of the topic are "
        "acknowledged, so the broker's search ends early (`expires_by_search`)"
    )


def _is_same_topic(then: Mapping[int, int], now: Mapping[int, int]) -> bool:
    """Return whether the topic with the ledgers `now` can be the topic that earlier had the ledgers `then`.

    The id of a ledger is unique in a cluster. A broker may have deleted the first ledgers and empty ledgers.
    """
    kept = {ledger_id for ledger_id, entries in then.items() if entries and ledger_id >= min(now, default=0)}
    old = {ledger_id for ledger_id, entries in now.items() if entries and ledger_id <= max(then, default=-1)}
    return bool(not now or (kept <= now.keys() and old <= then.keys())) and all(
        now[ledger_id] >= then[ledger_id] for ledger_id in kept & now.keys()
    )


def _to(move: Move) -> Position:
    if move.position is None:
        raise ValueError(f"{move.kind} needs a position")
    return move.position


class MoveResult(StrEnum):
    """The result of `check_prediction`: whether the move took place."""

    YES = "it happened"
    NO = "it did not happen"
    """None of the entries that the move should have changed has changed."""
    PARTLY = "it happened in part"
    NOTHING_TO_SEE = "it was to change nothing"


def check_prediction(predicted: Mapping[str, Any], stats: SubscriptionStats) -> tuple[MoveResult, list[str]]:
    """Compare a prediction (`MoveEffect.to_json`) with the subscription after the move.

    Return the result, and sentences with the numbers of entries. Call this soon after the move. If consumers
    have already acknowledged all returned entries again, the result is wrongly `NO`, or `PARTLY` if the move
    also acknowledged entries. Raises `StatsError` if the prediction is malformed.
    """
    from ackwell import PositionRangeSet

    stats.required()
    try:
        of = predicted["topic"], predicted["subscription"]
        returned = PositionRangeSet.parse(predicted["returnedEntries"])
        vanished = PositionRangeSet.parse(predicted["vanishedEntries"])
        sizes = object_in(predicted["ledgers"])
        ledgers = {int(ledger_id): int(entries) for ledger_id, entries in sizes.items()}
    except (KeyError, TypeError, ValueError, CorruptStateError) as error:
        kind = SourceKind.PREDICTION
        raise StatsError(f"{wrong_kind(kind, kind)} ({error!r})", "the prediction") from None
    # If an answer does not name its topic, the source replaces the name of the topic.
    named = all("://" in str(topic) for topic in (of[0], stats.topic))
    if of[1] != stats.subscription or (named and of[0] != stats.topic):
        raise StatsError(
            f"it is of subscription {of[1]!r} of {of[0]}, not of {stats.subscription!r} of {stats.topic}",
            "the prediction",
        )
    if not _is_same_topic(ledgers, dict(stats.ledgers)):
        raise StatsError("the ledgers in it are those of another topic", "the prediction")
    now = acknowledged(stats.ledgers, stats.mark_delete_position, stats.individually_deleted)
    # A broker deletes ledgers of acknowledged entries, so only entries that still exist count.
    back = existing(returned - now, stats.ledgers).cardinality
    taken = vanished.cardinality - existing(vanished - now, stats.ledgers).cardinality
    details = []
    if len(returned):
        details.append(f"{back:,} of {returned.cardinality:,} entries are redelivered and not acknowledged")
    if len(vanished):
        details.append(f"{taken:,} of {vanished.cardinality:,} entries are acknowledged now")
    if not len(returned) and not len(vanished):
        return MoveResult.NOTHING_TO_SEE, details
    if taken == vanished.cardinality and (back or not len(returned)):
        return MoveResult.YES, details
    return (MoveResult.PARTLY if back or taken else MoveResult.NO), details
