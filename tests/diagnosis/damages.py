"""Damage a dump of a healthy broker: one field, or two, as a paste, a tool or a defect does it."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

Place: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""

GONE: Final = object()
"""The value of a field that is dropped."""


def places_of(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the place of every value inside a document."""
    items: Iterator[tuple[str | int, Any]] = iter(())
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    for key, inner in items:
        yield (*place, key)
        yield from places_of(inner, (*place, key))


def read_places(document: Any) -> list[Place]:
    """Return the places of the fields that commands read, also inside arrays."""
    return [place for place in places_of(document) if place[-1] in READ or isinstance(place[-1], int)]


def value_at(document: Any, place: Place) -> Any:
    """Return the value at a place; `GONE` if there is none."""
    for key in place:
        if isinstance(document, dict):
            document = document.get(key, GONE)
        elif isinstance(document, list) and isinstance(key, int) and key < len(document):
            document = document[key]
        else:
            return GONE
    return document


def put(document: Any, place: Place, value: Any) -> None:
    """Replace or remove the value at a place, if the place exists."""
    parent = value_at(document, place[:-1])
    if value_at(document, place) is GONE:
        return
    if value is GONE:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value


def _retyped(value: Any, _: random.Random) -> Any:
    if isinstance(value, dict | list):
        return str(value)
    return (
        [value] if isinstance(value, bool) or value is None else (int if isinstance(value, str) else str)(0)
    )


def _zero(value: Any, _: random.Random) -> Any:
    return type(value)() if value is not None else None


def _cut(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        return dict(list(value.items())[: chance.randrange(len(value) + 1)])
    if isinstance(value, str | list):
        return value[: chance.randrange(len(value) + 1)]
    return value if isinstance(value, bool | float) or value is None else value // 10


def _wrong(value: Any, chance: random.Random) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + chance.choice((-7, -1, 1, 3, 1_000))
    if not isinstance(value, str):
        return value
    digits = [at for at, letter in enumerate(value) if letter.isdigit()]
    if not digits:
        return value + "x"
    at = chance.choice(digits)
    return value[:at] + str((int(value[at]) + chance.randint(1, 9)) % 10) + value[at + 1 :]


READ: Final = frozenset(
    """
    ledgers ledgerId entries size numberOfEntries currentLedgerEntries currentLedgerSize
    entriesAddedCounter lastConfirmedEntry pendingAddEntriesCount cursors markDeletePosition
    readPosition individuallyDeletedMessages messagesConsumedCounter cursorLedger
    cursorLedgerLastEntry state waitingReadOp pendingReadOps
    numberOfEntriesSinceFirstNotAckedMessage totalNonContiguousDeletedMessagesRange
    subscriptionHavePendingRead subscriptionHavePendingReplayRead properties internalStats stats
    subscriptions replication ongoingTxnCount committedTxnCount abortedTxnCount msgInCounter
    msgOutCounter msgRateIn msgRateOut messageAckRate msgBacklog msgDelayed msgInReplay
    unackedMessages type lastAckedTimestamp lastConsumedTimestamp lastMarkDeleteAdvancedTimestamp
    consumers isDurable durable nonContiguousDeletedMessagesRanges avgMessagesPerEntry
    availablePermits blockedSubscriptionOnUnackedMsgs connectedSince consumerName t policies
    backlogs messages markerMessages aborted lastMessageId
    """.split()  # noqa: SIM905 - names in columns
)
"""The names of the fields that commands read."""

KINDS: Final[dict[str, Callable[[Any, random.Random], Any]]] = {
    "drop": lambda value, chance: GONE,
    "null": lambda value, chance: None,
    "retype": _retyped,
    "zero": _zero,
    "cut": _cut,
    "wrong": _wrong,
}
"""How one value is damaged; `damaged` also swaps two values, and takes a value of an older dump."""


def damaged(
    document: Any, places: Sequence[Place], chance: random.Random, older: Any = None
) -> tuple[Any, list[tuple[str, Place]]]:
    """Return a copy with damaged values at some places, and the damages that changed something."""
    made = copy.deepcopy(document)
    done = []
    for place in places:
        value = value_at(made, place)
        if value is GONE:
            continue
        kind = chance.choice([*KINDS, "swap", "older"])
        if kind == "swap":
            other = (*place[:-1], chance.choice(list(_keys(value_at(made, place[:-1])))))
            put(made, place, value_at(made, other))
            put(made, other, value)
        elif kind == "older":
            then = value_at(older, place)
            put(made, place, value if then is GONE else copy.deepcopy(then))
        else:
            put(made, place, KINDS[kind](value, chance))
        done.append((kind, place))
    return made, done if made != document else []


def _keys(parent: Any) -> Iterator[str | int]:
    return iter(parent) if isinstance(parent, dict) else iter(range(len(parent)))
