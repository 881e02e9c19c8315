"""Record the traffic of a client's suite, and compare the replay with the broker's stats-internal."""

from __future__ import annotations

import json
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ackwell.broker.stats import SubscriptionStats, UnreadableSource, from_answer
from ackwell.cursor.rules import acknowledged
from ackwell.protocol.topic_name import TopicName
from ackwell.replay.states import SubscriptionState, replay_files
from tests.recording.process import recording


@contextmanager
def recorded(broker_url: str, admin_url: str, *options: str) -> Iterator[str]:
    """Yield the address of `ackwell record` for a suite; then print how many cursors the replay agrees on."""
    with tempfile.TemporaryDirectory() as folder:
        with recording(broker_url, Path(folder), *options) as url:
            yield url
        errors: dict[tuple[str, str], str] = {}
        states = replay_files([folder], errors=errors)
        results = [compared(admin_url, each) for each in states]
    print(*(each for each in results if each not in ("same", "absent")), sep="\n")
    print(*(f"not replayed: {name}: {error}" for name, error in errors.items()), sep="\n")
    same, absent = results.count("same"), results.count("absent")
    print(f"{same} of {len(results)} recorded cursors are those of the broker; it does not describe {absent}")


def compared(admin_url: str, ours: SubscriptionState) -> str:
    """Compare a replayed cursor with the broker's; return `same`, `absent` or the difference.

    A cursor is absent if its topic was deleted, is not persistent, or needs a role.
    """
    answer = internal_stats(admin_url, ours.topic)
    if answer is None:
        return "absent"
    theirs = next((each for each in from_answer(answer, ours.topic, "broker") if named(each, ours)), None)
    if not isinstance(theirs, SubscriptionStats):
        return f"{ours.topic}, {ours.subscription}: the broker has no such cursor"
    known = acknowledged(ours.cursor.ledgers, theirs.mark_delete_position, theirs.individually_deleted)
    if known == ours.cursor.acknowledged():
        return "same"
    return f"{ours.topic}, {ours.subscription}: {theirs.mark_delete_position} {ours.to_json()}"


def named(theirs: SubscriptionStats | UnreadableSource, ours: SubscriptionState) -> bool:
    """Return whether the statistics are those of a subscription."""
    return isinstance(theirs, SubscriptionStats) and theirs.subscription == ours.subscription


def internal_stats(admin_url: str, topic: str) -> dict[str, Any] | None:
    """Return the ledgers and cursors of a persistent topic; None if the broker does not describe it."""
    name = TopicName.parse(topic)
    path = f"{name.domain}/{name.in_namespace}/{quote(name.local, safe='')}/internalStats"
    try:
        with urllib.request.urlopen(f"{admin_url}/admin/v2/{path}", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found if name.persistent else None
    except urllib.error.HTTPError:
        return None
