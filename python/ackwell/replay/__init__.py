"""Replay of recorded events: from events to the cursor of each subscription.

`events` defines the schema of events, and `event_columns` holds events as arrays. `traces`, `parquet` and
`files` read events. `fold` and `columns` fold events into partials and cursors. A partial is the state of
one subscription after some of its events, and partials of the same subscription can be merged. `resets`
finds the events whose order matters. `states` replays files and returns one state for each subscription.
`local` replays files or tables and returns one table. `checking` reports the errors in files, and
`history_check` checks recorded deliveries. No module of this package needs Spark.

The package exports the names that most programs need, and loads each on first use:

>>> from ackwell.replay import Event, Kind, check_history, replay_files
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.extras import require
from ackwell.lazy_names import lazy_names

if TYPE_CHECKING:
    from ackwell.replay.checking import check_events as check_events
    from ackwell.replay.events import Event as Event
    from ackwell.replay.events import Kind as Kind
    from ackwell.replay.files import read_events as read_events
    from ackwell.replay.history_check import check_history as check_history
    from ackwell.replay.local import replay_events as replay_events
    from ackwell.replay.states import replay_files as replay_files

_HOMES = {
    "Event": ".events",
    "Kind": ".events",
    "check_events": ".checking",
    "check_history": ".history_check",
    "read_events": ".files",
    "replay_events": ".local",
    "replay_files": ".states",
}
"""Maps each public name to the module that defines it."""

__all__ = sorted(_HOMES)


def _check(name: str) -> None:
    if name == "replay_events":
        require("pyarrow", f"{__name__}.{name}")


__getattr__, __dir__ = lazy_names(__name__, _HOMES, _check)
