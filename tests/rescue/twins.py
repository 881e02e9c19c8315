"""The twin of a history with a seek: without one, and it shows `plan` the same to the byte.

If there is a twin, nothing that a broker shows can tell the two apart, and what is planned is right for the
twin. The twin does what the history did to the topic, and not what it did to the subscription. Instead a
consumer acknowledges some entries before the topic is unloaded, and afterwards the others of the history.
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


def to_the_snapshot(history: History) -> tuple[Snapshot, CursorState]:
    """Play the part of a history that comes before its snapshot."""
    history.run(BEFORE, history.chance.randint(4, 14))
    before, memory = history.snapshot(connected=True), history.memory()
    history.begin()
    return before, memory


def has_twin(
    history: History, seed: int, before: Snapshot, now: Snapshot, made: Plan, shown: CursorState | None
) -> bool:
    wanted = seen(before), seen(now)
    for early, trims, unloads in tries(before, now):
        twin = History(seed)
        then, memory = to_the_snapshot(twin)
        live(twin, history.steps, now, early, trims, unloads)
        after = twin.snapshot()
        if seen(after) != wanted[1]:
            continue
        assert seen(then) == wanted[0]
        planned = plan(then, after, ack_sets=None if shown is None else memory)
        same: dict[str, Any] = {"ledgers": {}}
        assert json.dumps(planned.to_json() | same) == json.dumps(made.to_json() | same)
        assert not twin.sought
        assert not len(planned.missing - twin.truth)
        return True
    return False


def live(
    twin: History, steps: list[tuple[str, Any]], now: Snapshot, early: set[Position], trims: str, unloads: str
) -> None:
    """Do to the topic what was done to the other, without a seek, and end in the same state, if it can be."""
    for position in sorted(early & set(twin.unacked())):
        twin.ack(position)
    for number, (name, at) in enumerate(steps, 1):
        if unloads == "for rolls" and number == len(steps):
            acknowledge(twin, now, trims)
        twin.chance.setstate(at)
        # A ledger begins with each.
        if name in ("unload", "crash") or (unloads == "for rolls" and name == "roll"):
            for _ in range(2 if unloads == "twice" else 1):
                twin.do("unload")
        elif name in ("publish", "roll", "wait") or (name == "trim" and trims == "as it was"):
            twin.do(name)
    acknowledge(twin, now, trims)


def acknowledge(twin: History, now: Snapshot, trims: str) -> None:
    """Acknowledge what the history has, and trim, if that is last."""
    acknowledge_all(twin, now)
    mark, old = now.stats.mark_delete_position, twin.subscription.cursor.mark_delete_position
    ledgers = twin.topic.content.log.ledgers
    if mark.entry_id == -1 and old < mark and ledgers.next_valid(*mark) == ledgers.next_valid(*old):
        # Brokers that trim write the end of a ledger as the beginning of the next; the dev broker does not.
        twin.subscription.seek(ledgers.next_valid(*mark))
        acknowledge_all(twin, now)
    if trims == "last":
        twin.trim()


def acknowledge_all(twin: History, now: Snapshot) -> None:
    for position in twin.unacked():
        if is_acked(position, now):
            twin.ack(position)


def is_acked(position: Position, now: Snapshot) -> bool:
    return position <= now.stats.mark_delete_position or position in now.acked


def seen(snapshot: Snapshot) -> tuple[Any, ...]:
    """Return all that `plan` looks at.

    But for the id of the open ledger while it is empty: it is the next number of the whole cluster.
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
    """Yield what may have been acknowledged before the first unload, and what else may have been different.

    That is when the topic was trimmed, and when it was unloaded.
    """
    chance = random.Random(1)
    there = [
        Position(ledger_id, entry_id)
        for ledger_id, entries in before.stats.ledgers
        for entry_id in range(entries)
        if is_acked(Position(ledger_id, entry_id), now)
    ]
    ways = [there, [], there[::2], there[1::2]]
    for _ in range(TRIES):
        share = chance.random()
        ways.append([each for each in there if chance.random() < share])
    for way in ways:
        for trims in ("as it was", "last", "never"):
            for unloads in ("as it was", "for rolls", "twice"):
                yield set(way), trims, unloads
