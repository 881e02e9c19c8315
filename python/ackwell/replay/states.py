"""Replay of events to the state of each subscription.

The order of events matters only for seeks, cleared backlogs, transactions and the option `at`. Times come
from the events, never from a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ackwell.drawing import DrawableValue, Drawing
from ackwell.errors import EventError, ProtocolError
from ackwell.object_paths import require_paths
from ackwell.replay.cursor_rows import CursorRow
from ackwell.replay.event_columns import columns_of
from ackwell.replay.events import IN_TRANSACTION, Event
from ackwell.replay.files import fold_files, raise_first_flaw, read_events
from ackwell.replay.in_order import OrderedFold

if TYPE_CHECKING:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.restart import RestartLoss
    from ackwell.broker.stats import SubscriptionStats
    from ackwell.cursor import Cursor
    from ackwell.engine import Engine
    from ackwell.object_paths import AnyPath
    from ackwell.replay.fold import Fold
    from ackwell.replay.resets import Name


@dataclass(frozen=True, slots=True)
class SubscriptionState(DrawableValue):
    """The state of one subscription after its events."""

    topic: str
    subscription: str
    cursor: Cursor
    batch_sizes: Mapping[tuple[int, int], int] = field(repr=False)
    """The number of messages in each entry that is a batch."""
    settings: dict[str, Any]
    """The broker settings in the `meta` event; empty without such an event."""

    def restart_loss(self, settings: BrokerSettings | None = None) -> RestartLoss:
        """Return the acknowledgments that a graceful restart of the broker would lose.

        By default, the broker has the default settings of 4.2.
        """
        from ackwell.broker.batch_sizes import BatchSizes
        from ackwell.broker.restart import restart_loss

        return restart_loss(self.cursor.to_state(), settings, batch_sizes=BatchSizes(of=self.batch_sizes))

    def row(self) -> CursorRow:
        """Return the state as a row that `ackwell replay` prints."""
        cursor = self.cursor
        return CursorRow(
            self.topic,
            self.subscription,
            str(cursor.mark_delete_position),
            str(cursor.individually_deleted),
            len(cursor.individually_deleted),
            cursor.batch_deleted,
            cursor.backlog_entries,
            self.restart_loss().messages,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values. The keys are the names that Pulsar's tools print."""
        return {
            "topic": self.topic,
            "subscription": self.subscription,
            **self.cursor.to_state().to_json(),
            "backlogEntries": self.cursor.backlog_entries,
        }

    def drawing(self) -> Drawing:
        """Return the drawing for notebooks and terminals."""
        title = f"{self.subscription} of {self.topic}"
        of_cursor = self.cursor.drawing()
        return replace(of_cursor, title=title, numbers={"state": of_cursor.title, **of_cursor.numbers})


class Replay:
    """A replay of events of any subscriptions. Each call of `feed` passes the next event, in order.

    >>> from ackwell.replay.events import Event, Kind
    >>> replay = Replay()
    >>> for sequence, kind in enumerate((Kind.PUBLISH, Kind.ACK)):
    ...     replay.feed(Event("topic", "sub", sequence, kind, ledger_id=3, entry_id=0))
    >>> replay.states()[0].to_json()["markDeletePosition"]
    '3:0'
    """

    def __init__(self, *, engine: Engine | None = None) -> None:
        self._fold = OrderedFold(engine=engine)
        self._waiting: list[Event] = []
        self._fed = 0

    def feed(self, event: Event) -> None:
        """Fold one event. Amortised O(1)."""
        # The order of the calls is the order of the events, whatever their file and sequence are.
        self._waiting.append(event._replace(sequence=self._fed, file=None))
        self._fed += 1
        if len(self._waiting) >= _WAITING_MAX:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._fold.feed(columns_of(self._waiting))
            self._waiting = []
            self._fold.raise_flaw()

    @property
    def fold(self) -> Fold:
        """The fold of all events that were passed to `feed`."""
        self._flush()
        self._fold.end()
        return self._fold

    def state(self, topic: str, subscription: str) -> SubscriptionState:
        """Return the current state of a subscription. Raises `KeyError` if it has no events."""
        fold, name = self.fold, (topic, subscription)
        pairs = {known: pair for pair, known in enumerate(fold.names())}
        return state_of(fold, name, pairs[name])

    def states(self) -> list[SubscriptionState]:
        """Return the current state of every subscription, ordered by topic and subscription."""
        return states_of(self.fold)


_WAITING_MAX: Final = 4_096
"""The maximum number of events that are buffered before they are folded together."""


def state_of(fold: Fold, name: Name, pair: int) -> SubscriptionState:
    """Return the state of the subscription `name`. `pair` is the number of this subscription in the fold.

    Raises `ProtocolError` if the events of the subscription are invalid.
    """
    return _state(fold, name, pair, *fold.settings())


def _state(
    fold: Fold, name: Name, pair: int, settings: dict[int, dict[str, Any]], wrong: dict[int, str]
) -> SubscriptionState:
    if pair in wrong:
        raise EventError(f"{name[0]}, {name[1]}: {wrong[pair]}")
    known = settings.get(pair, {})
    return SubscriptionState(*name, *fold.cursor(pair, known), known)


def states_of(fold: Fold, errors: dict[Name, str] | None = None) -> list[SubscriptionState]:
    """Return the state of every subscription that is not deleted, ordered by topic and subscription.

    The error of a subscription with invalid events is added to `errors`. Without `errors`, the first such
    error is raised.
    """
    fold.raise_flaw(all_flaws=errors is None)
    settings, wrong = fold.settings()
    states = []
    for name, pair in sorted((name, pair) for pair, name in enumerate(fold.names())):
        if not name[1] or fold.partials.is_deleted(pair):
            continue
        try:
            states.append(_state(fold, name, pair, settings, wrong))
        except ProtocolError as error:
            if errors is None:
                raise
            errors[name] = str(error)
    return states


def replay_files(
    sources: Iterable[str | AnyPath],
    *,
    at: int | None = None,
    on_file: Callable[[AnyPath], None] = lambda _: None,
    start_from: Iterable[SubscriptionState | SubscriptionStats] = (),
    errors: dict[Name, str] | None = None,
    threads: int | None = 1,
) -> list[SubscriptionState]:
    """Return the state of every subscription after all events of files, or after the first `at` events.

    `at` counts the events of all files in the order of replay. `on_file` is called with each file before the
    file is read. `start_from` has the states of subscriptions before the first event. If `errors` is given,
    the error of a subscription with invalid events is added to it. `threads` is the number of threads, which
    share the files and row groups; None means one for each core. The result does not depend on the number of
    threads.

    Raises `EventError` with file and line for a line that is not an event, and for an acknowledgment of an
    entry that was never published.
    """
    require_paths(sources)
    # The files are read again to find the line of an error, and an iterator has its items only once.
    sources = list(sources)
    with located_errors(sources, at, errors):
        fold = fold_files(sources, at=at, on_file=on_file, begin=starting_from(start_from), threads=threads)
        return states_of(fold, errors)


@contextmanager
def located_errors(
    sources: Sequence[str | AnyPath], at: int | None, errors: dict[Name, str] | None
) -> Iterator[None]:
    """Add the file and line of the event to errors that the `with` block raises.

    If `at` is given, only the first `at` events are searched for an invalid row.
    """
    try:
        yield
    except EventError:
        if errors is None:
            raise_first_flaw(sources, at)
        raise
    except ProtocolError as error:
        raise_at_acknowledgment(error, sources)
        raise


def starting_from(states: Iterable[SubscriptionState | SubscriptionStats]) -> Callable[[Fold], None]:
    """Return a function that sets the initial states of a fold to `states`."""

    def begin(fold: Fold) -> None:
        for state in states:
            start(fold, state)

    return begin


def start(fold: Fold, state: SubscriptionState | SubscriptionStats) -> None:
    """Set the initial state of a subscription in a fold. `state` may come from a replay or from a broker."""
    name = state.topic, state.subscription
    if isinstance(state, SubscriptionState):
        fold.start(name, state.cursor.to_position_info(), state.cursor.ledgers)
        return
    fold.start(name, state.required().to_position_info(), state.ledgers)


def raise_at_acknowledgment(error: ProtocolError, sources: Sequence[str | AnyPath]) -> None:
    """Search for the first event that acknowledges the position in `error`.

    Raise `EventError` with the file and line of this event. If the search finds no event, return.
    """
    if error.position is None:
        return
    for event in read_events(sources):
        name, position = (event.topic, event.subscription), (event.ledger_id, event.entry_id)
        if event.kind in IN_TRANSACTION and name == error.subscription and position == error.position:
            raise EventError(
                f"acknowledgment of {error.position}, which no event published; "
                "is a file with earlier events missing?",
                error.position,
                file=event.file,
                line=event.sequence,
            ) from None


def state_of_row(row: Mapping[str, Any]) -> SubscriptionState:
    """Return the state in a row of the table `CURSORS`. Its `settings` are empty, as the table has none."""
    from ackwell import Cursor, Ledgers, PositionInfo
    from ackwell.replay.losses import unpack_sizes

    name = row["topic"], row["subscription"]
    if row["error"] is not None:
        raise ProtocolError(f"{', '.join(name)}: {row['error']}")
    cursor = Cursor.from_position_info(
        PositionInfo.decode(bytes(row["compact"])), Ledgers(sorted(dict(row["ledgers"]).items()))
    )
    return SubscriptionState(*name, cursor, dict(unpack_sizes(row["batch_sizes"]).of), {})
