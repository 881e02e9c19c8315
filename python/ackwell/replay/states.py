"""Events to state: what the cursor of each subscription holds once its events have happened.

The events are folded into one `Partial` a subscription, so their order matters only where order means
something (a seek, a cleared backlog, `at`). Nothing here reads a clock; time comes with the events.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ackwell.cursor_settings import CursorSettings
from ackwell.errors import EventError, ProtocolError
from ackwell.replay.events import Event, Kind, read_events
from ackwell.replay.partial import Partial

if TYPE_CHECKING:
    from pathlib import Path

    from ackwell.broker.restart import BrokerSettings, RestartLoss
    from ackwell.cursor import Cursor
    from ackwell.engine import Engine
    from ackwell.position import Position


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """One subscription after its events."""

    topic: str
    subscription: str
    cursor: Cursor
    batch_sizes: Mapping[tuple[int, int], int]
    """Messages in each entry that holds a batch."""
    settings: dict[str, Any]
    """The broker settings that the events name (from their `meta` event)."""

    def restart_loss(self, settings: BrokerSettings | None = None) -> RestartLoss:
        """Return what a graceful restart of a broker would forget of this state; default: 4.2's settings."""
        from ackwell.broker.restart import BatchSizes, restart_loss

        return restart_loss(
            self.cursor.mark_delete_position,
            self.cursor.individually_deleted,
            self.cursor.batch_deleted,
            ledgers=self.cursor.ledgers,
            settings=settings,
            batch_sizes=BatchSizes(of=self.batch_sizes),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the state under the names that Pulsar's own tools print."""
        return {"topic": self.topic, "subscription": self.subscription, **cursor_json(self.cursor)}


def cursor_json(cursor: Cursor) -> dict[str, Any]:
    """Return a cursor under the names that Pulsar's own tools print."""
    return {
        "markDeletePosition": str(cursor.mark_delete_position),
        "individuallyDeletedMessages": str(cursor.individually_deleted),
        "batchDeletedIndexes": {
            str(position): list(words) for position, words in cursor.batch_deleted.items()
        },
        "backlogEntries": cursor.backlog_entries,
    }


class Replay:
    """Folds events, of any subscriptions in any mix, into state.

    >>> from ackwell.replay.events import Event, Kind
    >>> replay = Replay()
    >>> for sequence, kind in enumerate((Kind.PUBLISH, Kind.ACK)):
    ...     replay.feed(Event("topic", "sub", sequence, kind, ledger_id=3, entry_id=0))
    >>> replay.states()[0].to_json()["markDeletePosition"]
    '3:0'
    """

    def __init__(self, *, engine: Engine | None = None) -> None:
        self._engine = engine
        self._partials: dict[tuple[str, str], Partial] = {}
        self._settings: dict[tuple[str, str], dict[str, Any]] = {}

    def feed(self, event: Event) -> None:
        """Take one event in."""
        name = event.topic, event.subscription
        partial = self._partials.get(name)
        if partial is None:
            partial = self._partials[name] = Partial(self._engine)
        if event.kind is Kind.META and event.detail is not None:
            self._settings[name] = settings_of(event)
        partial.feed(event)

    def state(self, topic: str, subscription: str) -> SubscriptionState:
        """Return one subscription's state so far; `KeyError` if no event spoke of it."""
        name = topic, subscription
        settings = self._settings.get(name, {})
        cursor = self._partials[name].cursor(settings=cursor_settings(settings))
        return SubscriptionState(topic, subscription, cursor, self._partials[name].batch_sizes, settings)

    def states(self) -> list[SubscriptionState]:
        """Return every subscription's state so far, ordered by topic and subscription."""
        return [self.state(*name) for name in sorted(self._partials)]

    def never_published(self) -> dict[tuple[str, str], Position]:
        """Find, by topic and subscription, an acknowledged position that was never published."""
        found = (
            (name, partial.never_published(partial.ledgers())) for name, partial in self._partials.items()
        )
        return {name: position for name, position in found if position is not None}


def replay_files(
    sources: Sequence[str | Path],
    *,
    at: int | None = None,
    engine: Engine | None = None,
    on_file: Callable[[Path], None] = lambda _: None,
) -> list[SubscriptionState]:
    """Replay event files: the state of every subscription at the end, or after the first `at` events.

    `at` counts the events of all files in the order of replay (of one trace: its lines); `on_file` is
    told each file before it is read. Raises `EventError` with file and line for anything that is no
    event, and for an acknowledgment of what was never published.
    """
    fold = Replay(engine=engine)
    for event in first(read_events(sources, on_file=on_file), at):
        fold.feed(event)
    try:
        return fold.states()
    except ProtocolError:
        raise_where(first(read_events(sources), at), fold.never_published())
        raise


def first(events: Iterable[Event], at: int | None) -> Iterator[Event]:
    """Return the first `at` events, or all."""
    return itertools.islice(events, at)


def raise_where(events: Iterable[Event], never_published: dict[tuple[str, str], Position]) -> None:
    """Raise `EventError` for the first event that acknowledges one of these positions."""
    for event in events:
        position = never_published.get((event.topic, event.subscription))
        if (
            position is not None
            and event.kind in (Kind.ACK, Kind.ACK_CUMULATIVE)
            and (event.ledger_id, event.entry_id) == position
        ):
            raise EventError(
                f"acknowledgment of {position}, which no event published; "
                "is a file with earlier events missing?",
                file=event.file,
                line=event.sequence,
            )


def settings_of(event: Event) -> dict[str, Any]:
    """Return the broker settings that a `meta` event names."""
    try:
        settings = json.loads(event.detail or "{}")
    except ValueError as error:
        message = f"the settings are not JSON: {error}"
        raise EventError(message, file=event.file, line=event.sequence) from None
    return settings if isinstance(settings, dict) else {}


def cursor_settings(settings: dict[str, Any]) -> CursorSettings:
    """Return the cursor's part of these broker settings; batch index acks are on by default, as in 4.2."""
    value = str(settings.get("acknowledgmentAtBatchIndexLevelEnabled", True)).lower()
    return CursorSettings(batch_index_acks=value != "false")
