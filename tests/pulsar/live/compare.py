"""The state of a subscription, in the broker or in our model, and the differences between two states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ackwell import Ledgers, Position

Pending = tuple[Position, int]
"""An entry, and how many of its messages remain unacknowledged."""

Range = tuple[int, int, int]
"""A ledger, and the entries in it between which a range goes: the lower one is not in it."""


class ConsumerState(NamedTuple):
    """The permits of a consumer and its messages."""

    permits: int
    unacked: int
    blocked: bool
    pending: tuple[Pending, ...]


class State(NamedTuple):
    """The part of a subscription's state that must be equal on both sides."""

    next_unacknowledged: Position
    """The mark-delete position by the entries it covers: the position after it."""
    ranges: tuple[Range, ...]
    ack_sets: tuple[tuple[Position, tuple[int, ...]], ...]
    backlog_entries: int
    properties: dict[str, int]
    consumers: dict[int, ConsumerState]
    active: int | None
    unacked: int
    blocked: bool
    delayed: int
    """Delayed messages; 0 without consumers, because a broker drops them when the next one connects."""


def differences(ours: State, theirs: State) -> list[str]:
    """Name each part that differs."""
    found = []
    for name in State._fields:
        mine, broker = getattr(ours, name), getattr(theirs, name)
        if name == "consumers":
            found += [
                f"consumer {each}: ours {mine.get(each)}, broker {broker.get(each)}"
                for each in sorted(mine.keys() | broker.keys())
                if mine.get(each) != broker.get(each)
            ]
        elif mine != broker:
            found.append(f"{name}: ours {mine}, broker {broker}")
    return found


def joined(
    mark_delete: Position, ranges: Iterable[Range], ledgers: Ledgers
) -> tuple[Position, tuple[Range, ...]]:
    """Return a mark-delete position with the ranges that begin at it, and those after it.

    A crash after a seek may leave a broker with both, until the next acknowledgment; see the README.
    """
    after = tuple(ranges)
    while after and ledgers.next_valid(*mark_delete) == (after[0][0], after[0][1] + 1):
        mark_delete, after = Position(after[0][0], after[0][2]), after[1:]
    return mark_delete, after


def of_broker(dump: dict[str, Any], ledgers: Ledgers, *, individual: bool) -> State:
    """Read the state from a dump of the broker's memory."""
    cursor, dispatcher = dump["cursor"], dump["dispatcher"]
    mark_delete = Position(*cursor["markDelete"])
    ranges = sorted((ledger_id, lower, upper) for _, lower, ledger_id, upper in cursor["ranges"])
    beyond = [each for each in ranges if (each[0], each[2]) > mark_delete]
    # Acknowledgments of trimmed entries have no effect, but the broker subtracts them from the backlog.
    trimmed = [each for each in beyond if each[0] < ledgers.trimmed_before]
    mark_delete, after = joined(mark_delete, beyond[len(trimmed) :], ledgers)
    consumers = {}
    for each in dump["consumers"]:
        # Batches that ack sets have acknowledged completely are omitted. The broker leaves them pending.
        pending = sorted(
            (Position(*row[:2]), row[2]) for row in each["pending"] if not _is_acked(cursor, *row[:2])
        )
        consumers[each["id"]] = ConsumerState(
            each["permits"] + each["permitsWhileBlocked"], each["unacked"], each["blocked"], tuple(pending)
        )
    return State(
        next_unacknowledged=ledgers.next_valid(*mark_delete),
        ranges=after,
        ack_sets=tuple(
            sorted(
                (position, tuple(words))
                for text, words in cursor["batchDeletedIndexes"].items()
                # One of a trimmed entry means nothing.
                if (position := Position.parse(text)) > mark_delete and ledgers.contains(*position)
            )
        ),
        backlog_entries=cursor["backlogEntries"] + sum(upper - lower for _, lower, upper in trimmed),
        properties=cursor["properties"],
        consumers=consumers,
        active=dispatcher.get("active"),
        unacked=dispatcher.get("unacked", 0) if individual else 0,
        blocked=dispatcher.get("blocked", False),
        delayed=dispatcher.get("delayed", 0) if individual and consumers else 0,
    )


def _is_acked(cursor: dict[str, Any], ledger_id: int, entry_id: int) -> bool:
    """Return whether an entry is acknowledged in the broker's cursor."""
    position = [ledger_id, entry_id]
    return position <= cursor["markDelete"] or any(
        [lower_ledger_id, lower] < position <= [upper_ledger_id, upper]
        for lower_ledger_id, lower, upper_ledger_id, upper in cursor["ranges"]
    )
