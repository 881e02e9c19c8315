"""Search for a history without a seek that gives `plan` the same input as one with a seek.

If there is one, a broker's answers cannot distinguish the two, and the plan is right for the other history.
The other history repeats the changes of the topic, without those of the subscription. A consumer acknowledges
some entries before the topic is unloaded, and the remaining entries afterwards.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ackwell.position import Position
from ackwell.rescue.planning import Plan, plan
from tests.rescue.histories import BEFORE, History

if TYPE_CHECKING:
    from ackwell.cursor.cursor_state import CursorState
    from ackwell.rescue.snapshot import Snapshot

TRIES = 200
END = Position(2**62, 0)


def to_the_snapshot(history: History) -> tuple[Snapshot, CursorState]:
    """Play the steps before the snapshot; return the snapshot and the state in memory."""
    history.run(BEFORE, history.chance.randint(4, 14))
    before, memory = history.snapshot(connected=True), history.memory()
    history.begin()
    return before, memory


def has_seekless_history(
    history: History, seed: int, before: Snapshot, now: Snapshot, made: Plan, shown: CursorState | None
) -> bool:
    wanted = seen(before), seen(now)
    for early, trims, unloads in tries(before, now):
        other = History(seed)
        then, memory = to_the_snapshot(other)
        live(other, history.steps, now, early, trims, unloads)
        after = other.snapshot()
        if seen(after) != wanted[1]:
            continue
        assert seen(then) == wanted[0]
        planned = plan(then, after, ack_sets=None if shown is None else memory)
        same: dict[str, Any] = {"ledgers": {}}
        assert json.dumps(planned.to_json() | same) == json.dumps(made.to_json() | same)
        assert not other.sought
        assert not len(planned.missing - other.truth)
        return True
    return False


def live(
    other: History,
    steps: list[tuple[str, Any]],
    now: Snapshot,
    early: set[Position],
    trims: str,
    unloads: str,
) -> None:
    """Repeat the changes of the topic without a seek, and try to end in the state `now`."""
    for position in sorted(early & set(other.unacked())):
        other.ack(position)
    for number, (name, at) in enumerate(steps, 1):
        if unloads == "for rolls" and number == len(steps):
            acknowledge(other, now, trims)
        other.chance.setstate(at)
        # Each of these begins a new ledger.
        if name in ("unload", "crash") or (unloads == "for rolls" and name == "roll"):
            for _ in range(2 if unloads == "twice" else 1):
                other.do("unload")
        elif name in ("publish", "roll", "wait") or (name == "trim" and trims == "as it was"):
            other.do(name)
    acknowledge(other, now, trims)


def acknowledge(other: History, now: Snapshot, trims: str) -> None:
    """Acknowledge the entries that are acknowledged in `now`, and trim if `trims` says so."""
    if trims == "early":
        # The trim keeps the first ledger of `now`, although the mark-delete position passes it later.
        first = min(dict(now.stats.ledgers))
        acknowledge_all(other, now, up_to=Position(first, 0))
        other.trim()
    acknowledge_all(other, now)
    write_mark_as_in(now, other)
    if trims == "last":
        other.trim()
        write_mark_as_in(now, other)


def write_mark_as_in(now: Snapshot, other: History) -> None:
    """Write the end of a ledger as the start of the next one if `now` does.

    Brokers that trim write it so; the dev broker does not. After a trim, the start of the first ledger is the
    only notation.
    """
    mark, old = now.stats.mark_delete_position, other.subscription.cursor.mark_delete_position
    ledgers = other.topic.content.log.ledgers
    if mark.entry_id == -1 and old < mark and ledgers.next_valid(*mark) == ledgers.next_valid(*old):
        other.subscription.seek(ledgers.next_valid(*mark))
        acknowledge_all(other, now)


def acknowledge_all(other: History, now: Snapshot, *, up_to: Position = END) -> None:
    for position in other.unacked():
        if position <= up_to and is_acked(position, now):
            other.ack(position)


def is_acked(position: Position, now: Snapshot) -> bool:
    return position <= now.stats.mark_delete_position or position in now.acked


def seen(snapshot: Snapshot) -> tuple[Any, ...]:
    """Return the values that `plan` reads.

    The id of an empty open ledger is left out, because it is the next number of the whole cluster.
    """
    stats = snapshot.stats
    shown, topic = snapshot.shown, snapshot.topic_shown
    names = ("isDurable", "isReplicated", "replicated", "keySharedMode", "allowOutOfOrderDelivery")
    flags = [shown.get(name) for name in names]
    return (
        *snapshot.name,
        stats.time_ms,
        stats.mark_delete_position,
        str(stats.individually_deleted),
        *(each for each in stats.ledger_sizes if each.entries),
        snapshot.type,
        snapshot.cluster,
        *flags,
        topic.get("ongoingTxnCount"),
        snapshot.broker,
    )


def tries(before: Snapshot, now: Snapshot) -> Iterator[tuple[set[Position], str, str]]:
    """Yield the entries to acknowledge before the first unload, and the kinds of trims and unloads."""
    chance = random.Random(1)
    existing = [
        Position(ledger_id, entry_id)
        for ledger_id, entries in before.stats.ledgers
        for entry_id in range(entries)
    ]
    there = [position for position in existing if is_acked(position, now)]
    # From 5.0.0 on, a ledger with more acknowledged entries than the limit is forgotten as a whole. The
    # restart may therefore have lost acknowledgments that followed the snapshot.
    lost = [position for position in existing if not is_acked(position, now)]
    ways = [there, [], there[::2], there[1::2], existing, lost]
    for number in range(TRIES):
        share, lost_share = chance.random(), chance.random() if number % 2 else 0
        ways.append(
            [each for each in there if chance.random() < share]
            + [each for each in lost if chance.random() < lost_share]
        )
    for way in ways:
        for trims in ("as it was", "last", "early", "never"):
            for unloads in ("as it was", "for rolls", "twice"):
                yield set(way), trims, unloads
