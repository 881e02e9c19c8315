"""The hold: stops the delivery of a subscription while its acknowledgments are restored.

The hold is a dispatch rate of one message an hour, set as a topic policy for one subscription. A forgotten
hold stalls the subscription. So the previous rate is written to a journal before the hold is set, and
`release` needs only this journal. All partitions of a topic share the policies of the partitioned topic, so a
hold stops the subscription in every partition.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackwell.broker import dispatch
from ackwell.broker.dates import clock_ms
from ackwell.cluster.admin import quoted, topic_path
from ackwell.errors import StatsError
from ackwell.object_paths import local_path
from ackwell.protocol.topic_name import TopicName
from ackwell.regular_files import write_file
from ackwell.rescue.checksums import read_with_sha256, with_sha256
from ackwell.rescue.refusals import RefusedError, refuse_other_cluster
from ackwell.sources import SourceKind

if TYPE_CHECKING:
    from ackwell.rescue.connection import Connection

HOLD: Final[dict[str, Any]] = {**dispatch.HOLD, "relativeToPublishRate": False}

_JOURNAL_VERSION: Final = 1
_SETTLE_S: Final = 0.1
_SETTLE_ATTEMPTS_MAX: Final = 300
_RELEASE_ATTEMPTS_MAX: Final = 60
_RELEASE_PAUSE_S: Final = 2.0


def hold(connection: Connection, topic: str, subscription: str, journal: str | Path) -> None:
    """Stop the delivery of a subscription. Return when the broker has applied the hold.

    The file `journal` is written before the hold is set. If the journal already exists, it is from an
    interrupted run and stays unchanged, because it has the rate from before that run. Raises `RefusedError`
    if the journal belongs to another subscription, or if the subscription is already held but has no journal.
    """
    journal = local_path(journal)
    topic = policy_topic(topic)
    path = _path(topic, subscription)
    before = check_holdable(connection, topic, subscription, journal)
    if not journal.exists():
        value = {
            "version": _JOURNAL_VERSION,
            "admin": connection.admin.endpoint.shown_url,
            "cluster": connection.admin.cluster,
            "topic": topic,
            "subscription": subscription,
            "before": before,
            "timeMs": clock_ms(),
        }
        write_file(journal, json.dumps(with_sha256(value)).encode(), new=True)
    if before != HOLD:
        # If the hold is already set, by another partition or an interrupted run, this is skipped.
        connection.change("hold", "POST", topic, subscription, f"{quoted(subscription)}/dispatchRate", HOLD)
    _wait_for(connection, f"{path}?applied=true", HOLD)


def check_holdable(connection: Connection, topic: str, subscription: str, journal: Path) -> Any:
    """Check that a subscription can be held with this journal. Return its current dispatch rate.

    Raises `RefusedError` if the check fails.
    """
    topic = policy_topic(topic)
    now = _rate(connection, _path(topic, subscription))
    if journal.exists():
        found = read_journal(journal, topic, subscription)
        refuse_other_cluster(f"{journal} is", found["cluster"], connection.admin.cluster)
        if now not in (HOLD, found["before"]):
            raise RefusedError("rate-changed", subscription=subscription, journal=journal)
    elif now == HOLD:
        raise RefusedError("held-already", topic=topic, subscription=subscription)
    return now


def release(connection: Connection, journal: str | Path, *, check: Callable[[], None] = lambda: None) -> str:
    """End a hold: restore the rate in the journal, and delete the journal. Return a description in words.

    `check` is called directly before the rate is restored. If `check` raises an error, the hold and the
    journal remain.

    Raises `RefusedError`, and keeps the journal, in two cases. In the first case, the journal is of another
    cluster. In the second case, the connection has another admin address than the journal, and the
    subscription is not held at the connection's address. This address may then be wrong.
    """
    journal = local_path(journal)
    found = read_journal(journal)
    refuse_other_cluster(f"{journal} is", found["cluster"], connection.admin.cluster)
    topic, subscription, before = found["topic"], found["subscription"], found["before"]
    path = _path(topic, subscription)
    now = _rate(connection, path)
    if now == HOLD:
        check()
        rate = f"{quoted(subscription)}/dispatchRate"
        if before is None:
            connection.change("release", "DELETE", topic, subscription, rate)
        else:
            connection.change("release", "POST", topic, subscription, rate, before)
        _wait_for(connection, path, before)
        done = "released"
    elif found["admin"] != connection.admin.endpoint.shown_url:
        raise RefusedError("not-held-here", topic=topic, subscription=subscription, admin=found["admin"])
    elif _rate(connection, f"{path}?applied=true") == HOLD:
        # The broker has just started, and may not have read all topic policies yet.
        raise StatsError(
            "the hold is in force, and no policy shows it", connection.admin.endpoint.address(path)
        )
    else:
        # The hold was never set, or another dispatch rate was set after the hold.
        done = "no longer held" if now == before else "no longer held: another rate was set since"
    # The journal may be missing, if another run released the hold at the same time.
    journal.unlink(missing_ok=True)
    return done


@contextmanager
def held(
    connection: Connection,
    topic: str,
    subscription: str,
    journal: str | Path,
    *,
    check: Callable[[], None] = lambda: None,
    keeps: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold a subscription during a `with` block. Release it at the end of the block, even after an error.

    `check` is called directly before the rate is restored. If `check` raises an error, the hold and its
    journal remain. If the broker does not answer, the release is retried for two minutes. If the release
    still fails, the hold and its journal remain, too. They also remain if `keeps` returns True at the end of
    the block.
    """
    journal = local_path(journal)
    if journal.exists():
        # Check that the journal is of this subscription. Otherwise `release` would end another hold.
        read_journal(journal, topic, subscription)
    try:
        hold(connection, topic, subscription, journal)
        yield
    finally:
        if journal.exists() and not keeps():
            for attempt in range(_RELEASE_ATTEMPTS_MAX):
                try:
                    release(connection, journal, check=check)
                    break
                except StatsError:
                    if attempt == _RELEASE_ATTEMPTS_MAX - 1:
                        raise
                    time.sleep(_RELEASE_PAUSE_S)


def read_journal(journal: Path, topic: str | None = None, subscription: str | None = None) -> dict[str, Any]:
    """Read a journal and return its values.

    Raises `StatsError` for a file that is not a journal. Raises `RefusedError` if `topic` or `subscription`
    is given and differs from the one in the journal.
    """
    found = read_with_sha256(journal, SourceKind.JOURNAL, _JOURNAL_VERSION, key="before")
    name = found["topic"], found["subscription"]
    wanted = None if topic is None else policy_topic(topic)
    if wanted not in (None, name[0]) or subscription not in (None, name[1]):
        raise RefusedError("other-journal", journal=journal, topic=name[0], subscription=name[1])
    return found


def policy_topic(topic: str) -> str:
    """Return the topic whose policies apply to `topic`: for a partition its partitioned topic, else `topic`.

    >>> policy_topic("persistent://shop/eu/orders-partition-3")
    'persistent://shop/eu/orders'
    """
    return str(TopicName.parse(topic).partitioned)


def _path(topic: str, subscription: str) -> str:
    return f"{topic_path(topic)}/{quoted(subscription)}/dispatchRate"


def _rate(connection: Connection, path: str) -> Any:
    """Request a dispatch rate and return it; None if no rate is set.

    Raises `StatsError` if the answer is not a rate.
    """
    found = connection.admin.ask(path)
    if found is not None and not (isinstance(found, dict) and dispatch.HOLD.keys() & found.keys()):
        raise StatsError("expected a dispatch rate", connection.admin.endpoint.address(path))
    return found


def _wait_for(connection: Connection, path: str, wanted: Any) -> None:
    """Request the dispatch rate again and again, until the broker returns the rate `wanted`."""
    for _ in range(_SETTLE_ATTEMPTS_MAX):
        if _rate(connection, path) == wanted:
            return
        time.sleep(_SETTLE_S)
    raise StatsError(
        f"the policy was accepted and is not {wanted} after 30 s", connection.admin.endpoint.address(path)
    )
