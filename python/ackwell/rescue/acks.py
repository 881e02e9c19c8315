"""Read the acknowledged parts of batches from files. The admin API does not show these parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ackwell.diagnosis.difference import read_state
from ackwell.errors import StatsError
from ackwell.object_paths import local_path
from ackwell.regular_files import file_kind
from ackwell.replay.states import replay_files
from ackwell.sources import SourceKind

if TYPE_CHECKING:
    from ackwell.cursor.cursor_state import CursorState


def read_acks(source: str | Path, topic: str, subscription: str) -> CursorState:
    """Read the state of a subscription, with its ack sets, from a file.

    The file contains persisted bytes, a memory dump or recorded events. Raises `StatsError` if it does not
    contain the state.
    """
    source = local_path(source)
    if not source.is_dir() and file_kind(source) is not SourceKind.EVENTS:
        return read_state(source, subscription=subscription)
    for found in replay_files([source]):
        if (found.topic, found.subscription) == (topic, subscription):
            return found.cursor.to_state()
    raise StatsError(f"no event of {subscription!r} of {topic}", str(source))
