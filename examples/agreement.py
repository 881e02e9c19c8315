"""Compare replayed states with the states that the broker reported.

The `snapshot` events of a trace name files with the broker's answer at that moment. After an unload or a
restart the broker may have forgotten acknowledgments. Its answer is then a part of the replayed state, and
the missing messages are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackwell.broker.batch_sizes import BatchSizes
from ackwell.broker.stats import SubscriptionStats, read_stats
from ackwell.cursor.ack_sets import from_words
from ackwell.cursor.rules import acknowledged
from ackwell.errors import EventError
from ackwell.replay.events import Event, Kind
from ackwell.replay.states import Replay, SubscriptionState

if TYPE_CHECKING:
    from ackwell._native import PositionRangeSet
    from ackwell.cursor.cursor_state import AckSetMapping
    from ackwell.position import Position


RESTARTS: Final = (Kind.UNLOAD, Kind.BROKER_RESTART)
"""The events after which a broker may know less than before."""


class Verdict(StrEnum):
    """How a broker's answer compares with the replayed state."""

    AGREES = "agrees"
    FORGOT = "the broker forgot"
    """The broker lost acknowledgments at an unload or restart."""
    DIFFERS = "differs"
    ABSENT = "no answer recorded"
    """The file that the snapshot names does not exist."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """One snapshot compared."""

    topic: str
    subscription: str
    snapshot: str
    """The file that the snapshot event names."""
    verdict: Verdict
    forgotten_messages: int = 0
    """Acknowledged messages that the broker no longer has."""


def agreements(
    events: Iterable[Event], state_at: Callable[[Event], SubscriptionState]
) -> Iterator[Agreement]:
    """Compare at every snapshot among events in order; `state_at` returns the state at a snapshot.

    Of the other events, only restarts are looked at: after one, the broker may have forgotten something.
    """
    restarted: set[str] = set()
    for event in events:
        if event.kind in RESTARTS:
            restarted.add(event.topic)
        elif event.kind is Kind.SNAPSHOT:
            yield compare(state_at(event), event, restarted=event.topic in restarted)


def replayed_agreements(events: Iterable[Event]) -> Iterator[Agreement]:
    """Replay events in order, and compare at every snapshot among them."""
    replay = Replay()

    def fed() -> Iterator[Event]:
        for event in events:
            replay.feed(event)
            yield event

    yield from agreements(fed(), lambda snapshot: replay.state(snapshot.topic, snapshot.subscription))


def compare(state: SubscriptionState, snapshot: Event, *, restarted: bool) -> Agreement:
    """Hold a replayed state against the answer that a `snapshot` event names."""
    if snapshot.detail is None:
        message = "this snapshot names no file"
        raise EventError(message, file=snapshot.file, line=snapshot.sequence)
    answer = _answer(Path(snapshot.file or "").parent / snapshot.detail, snapshot.subscription)
    if answer is None:
        verdict, forgotten = Verdict.ABSENT, 0
    else:
        verdict, forgotten = _compare(state, answer, restarted)
    return Agreement(state.topic, state.subscription, snapshot.detail, verdict, forgotten)


def _answer(path: Path, subscription: str) -> SubscriptionStats | None:
    """Read a recorded answer, also if it was compressed since; `None` if there is none."""
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.exists():
            return next((s for s in read_stats(candidate) if s.subscription == subscription), None)
    return None


def _compare(state: SubscriptionState, answer: SubscriptionStats, restarted: bool) -> tuple[Verdict, int]:
    cursor = state.cursor
    ours = cursor.acknowledged()
    theirs = acknowledged(cursor.ledgers, answer.mark_delete_position, answer.individually_deleted)
    our_sets = dict(cursor.batch_deleted)
    their_sets = {position: tuple(words) for position, words in (answer.batch_deleted or {}).items()}
    # At the end of a closed ledger the broker may write one place in two ways, so not the mark-delete
    # positions are compared but the entries they cover.
    if ours == theirs and our_sets == their_sets:
        return Verdict.AGREES, 0
    forgotten = _messages(state, ours, our_sets) - _messages(state, theirs, their_sets)
    part_of_ours = ours | theirs == ours and all(
        position in ours or not _owed(our_sets, position) & ~from_words(words)
        for position, words in their_sets.items()
    )
    return (Verdict.FORGOT if restarted and part_of_ours else Verdict.DIFFERS), forgotten


def _owed(ack_sets: AckSetMapping, position: Position) -> int:
    """Return the indexes that are not acknowledged; ones without end if none was acknowledged."""
    return from_words(ack_sets[position]) if position in ack_sets else -1


def _messages(state: SubscriptionState, acked: PositionRangeSet, ack_sets: AckSetMapping) -> int:
    """Count acknowledged messages: an entry is one, or as many as its batch holds."""
    sizes = BatchSizes(of=state.batch_sizes)
    return sizes.acked(acked.cardinality, ack_sets, within=acked).at_least
