"""The hold: a subscription delivers nothing while its acknowledgments are put back.

The hold is a dispatch rate of one message an hour, as a policy of the topic for the one subscription. A hold
that is forgotten stalls the subscription, so what was set before is written to a journal first, and `release`
needs nothing but that journal.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackwell.broker import dispatch
from ackwell.broker.admin import topic_path
from ackwell.broker.whole_files import write_whole
from ackwell.errors import StatsError
from ackwell.rescue.connection import quoted
from ackwell.rescue.refusals import RefusedError

if TYPE_CHECKING:
    from ackwell.rescue.connection import Connection

HOLD: Final[dict[str, Any]] = {**dispatch.HOLD, "relativeToPublishRate": False}

_JOURNAL_VERSION: Final = 1
_SETTLE_S: Final = 0.1
_SETTLES: Final = 300
_RELEASES: Final = 60
_RELEASE_PAUSE_S: Final = 2.0


def hold(connection: Connection, topic: str, subscription: str, journal: Path) -> None:
    """Stop the delivery of a subscription; return when the broker says that it holds.

    `journal` is written first. If it is there already, it is that of a run which died: it keeps what was set
    before that run. Raises `RefusedError` if it is another subscription's, or if a hold without a journal is
    set.
    """
    path = _path(topic, subscription)
    before = connection.admin.ask(path)
    if journal.exists():
        read_journal(journal, topic, subscription)
    elif before == HOLD:
        raise RefusedError("held-already", topic=topic, subscription=subscription)
    else:
        value = {
            "version": _JOURNAL_VERSION,
            "admin": connection.admin.endpoint.shown_url,
            "topic": topic,
            "subscription": subscription,
            "before": before,
            "timeMs": int(time.time() * 1000),
        }
        write_whole(journal, json.dumps(value).encode())
    connection.change("hold", "POST", topic, subscription, f"{quoted(subscription)}/dispatchRate", HOLD)
    _wait_for(connection, f"{path}?applied=true", HOLD)


def release(connection: Connection, journal: Path) -> str:
    """Set what a journal says was set before the hold, and delete the journal; return what was done."""
    found = read_journal(journal)
    topic, subscription, before = found["topic"], found["subscription"], found["before"]
    path = _path(topic, subscription)
    now = connection.admin.ask(path)
    if now == HOLD:
        rate = f"{quoted(subscription)}/dispatchRate"
        if before is None:
            connection.change("release", "DELETE", topic, subscription, rate)
        else:
            connection.change("release", "POST", topic, subscription, rate, before)
        _wait_for(connection, path, before)
        done = "released"
    else:
        # It was never set, or somebody has set another one since.
        done = "not held any more" if now == before else "not held any more: another rate was set since"
    journal.unlink()
    return done


@contextmanager
def held(connection: Connection, topic: str, subscription: str, journal: Path) -> Iterator[None]:
    """Hold a subscription for the length of a `with` block, and release it whatever happens.

    A broker that does not answer is asked again for two minutes; after that the journal is still there.
    """
    if journal.exists():
        # That of another subscription must not be released here.
        read_journal(journal, topic, subscription)
    try:
        hold(connection, topic, subscription, journal)
        yield
    finally:
        if journal.exists():
            for attempt in range(_RELEASES):
                try:
                    release(connection, journal)
                    break
                except StatsError:
                    if attempt == _RELEASES - 1:
                        raise
                    time.sleep(_RELEASE_PAUSE_S)


def read_journal(journal: Path, topic: str | None = None, subscription: str | None = None) -> dict[str, Any]:
    """Read a journal; `StatsError` for what is not one, `RefusedError` for that of another subscription."""
    try:
        found: dict[str, Any] = json.loads(journal.read_text(encoding="utf-8"))
        version, name = found["version"], (found["topic"], found["subscription"])
        _ = found["before"]
    except (ValueError, KeyError, TypeError):
        raise StatsError("not a journal of a hold", str(journal)) from None
    if version != _JOURNAL_VERSION:
        raise StatsError(
            f"a journal of version {version}; this ackwell reads {_JOURNAL_VERSION}", str(journal)
        )
    if topic is not None and name != (topic, subscription):
        raise RefusedError("other-journal", journal=journal, topic=name[0], subscription=name[1])
    return found


def _path(topic: str, subscription: str) -> str:
    return f"{topic_path(topic)}/{quoted(subscription)}/dispatchRate"


def _wait_for(connection: Connection, path: str, wanted: Any) -> None:
    """Wait until the broker has read the policy that it was given."""
    for _ in range(_SETTLES):
        if connection.admin.ask(path) == wanted:
            return
        time.sleep(_SETTLE_S)
    raise StatsError(
        f"the policy was accepted and is not {wanted} after 30 s", connection.admin.endpoint.address(path)
    )
