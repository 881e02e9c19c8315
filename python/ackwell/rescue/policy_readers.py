"""Find the readers of topic policies. A hold is in force only on a broker that has read it.

The topic policies of a namespace are entries of its topic `__change_events`. Each broker that owns a bundle
of the namespace has a reader on this topic and caches the policies. When it loads a topic, it applies the
cached policies. After a crash of the broker that owns `__change_events`, the readers of the other brokers
reconnect with a growing delay, up to a minute. Until a reader has reconnected, its broker loads topics
without the holds that were set since the crash. The admin API does not show which policies such a broker has
read: the owner of a topic answers all requests for the policies of the topic. But the API shows which readers
are connected.

A broker without a bundle may have a reader too: a request for a policy of the namespace creates one, even if
another broker answers the request. The admin API does not show which of these brokers have a reader. If fewer
readers are connected than there are brokers, a missing reader may still reconnect, up to a minute after
`__change_events` was loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ackwell.broker.dates import clock_ms
from ackwell.cluster.admin import REQUESTS_AT_ONCE, topic_path
from ackwell.cluster.endpoint import NoAnswerError
from ackwell.errors import AckwellError, StatsError
from ackwell.protocol.topic_name import TopicName

if TYPE_CHECKING:
    from ackwell.cluster.admin import Admin

READ_SECONDS: Final = 90.0
"""How long to wait for the readers. The longest delay of their reconnection is a minute."""

_PAUSE_S: Final = 0.5
_ANSWER_SECONDS_MAX: Final = 10.0
"""The maximum time of one attempt of a request, so that a broker that hangs does not block the wait."""
_READER: Final = "__system_reader"
_RECEIVED_AGAIN: Final = 1
"""The backlog of a reader that has read everything and then reconnected.

Such a reader receives its last entry again, and does not acknowledge this entry. It acknowledges a new entry
within 0.15 s. So a backlog of one that remains until the second request is the last entry.
"""
_NO_OWNER: Final = "HTTP 412: Can't find owner for topic"
"""The answer of a broker while a bundle moves: 4.2.4 sends it for 0.2 s to 1.3 s, and then the statistics."""
_RECONNECTED_MS: Final = 65_000
"""The maximum time in ms between a load of `__change_events` and the reconnection of its last reader."""


class UnreadPolicies(NamedTuple):
    """A namespace whose latest topic policies a broker may not have read."""

    namespace: str
    reason: str
    state: Literal["waiting", "unread", "unknown"]
    """`waiting` during the wait for a broker. `unread` if a broker has not read the policies at the end of
    the wait. `unknown` if the readers cannot be compared with the brokers."""

    @property
    def note(self) -> str:
        """The reason as a note, if the state is `waiting` or `unknown`."""
        return (
            self.reason if self.state == "unknown" else f"{self.reason}; waiting up to {READ_SECONDS:.0f} s"
        )

    @property
    def error(self) -> str:
        """The reason as an error message, if the state is `unread`."""
        return f"{self.reason}; run the same command again"


def wait_until_read(
    admin: Admin, topics: Iterable[str], seconds: float = READ_SECONDS
) -> Iterator[UnreadPolicies]:
    """Wait until every broker with bundles of the namespaces of `topics` has read their topic policies.

    Yield a namespace if a broker has not read its policies at the second check, about half a second after the
    first. The first check is too early for this, because a reader acknowledges the policies 0.1 s after it
    has read them. After `seconds`, yield each namespace whose policies a broker has still not read. Also
    yield each namespace that cannot be checked. A cluster with one broker is not checked, because after a
    restart its broker reads all policies before it loads a topic.
    """
    left = sorted({TopicName.parse(topic).in_namespace for topic in topics})
    if not left or len(admin.brokers()) == 1:
        return
    deadline_s = time.monotonic() + seconds
    lagging: dict[str, UnreadPolicies] = {}
    announced: set[str] = set()
    backlog_read = 0
    while True:
        earlier, lagging = lagging, {}
        for each in _unread(admin, left, deadline_s, backlog_read):
            if each.state == "waiting":
                lagging[each.namespace] = each
            elif each.namespace in earlier:
                # A broker lagged, and a failed request does not show that it has read the policies.
                lagging[each.namespace] = earlier[each.namespace]
            else:
                yield each
        if not lagging or time.monotonic() >= deadline_s:
            break
        for namespace, each in lagging.items():
            if namespace in earlier and namespace not in announced:
                announced.add(namespace)
                yield each
        # A broker that has read the policies keeps them, so only the others are requested again.
        left = list(lagging)
        backlog_read = _RECEIVED_AGAIN
        time.sleep(_PAUSE_S)
    for each in lagging.values():
        yield each._replace(state="unread")


def check_read(
    admin: Admin,
    topic: str,
    *,
    on_note: Callable[[str], None] = lambda _: None,
    seconds: float = READ_SECONDS,
) -> None:
    """Wait until every broker has read the topic policies of a topic; `AckwellError` if one has not.

    `on_note` is called with a sentence when the wait begins, or if the check is not possible.
    """
    for each in wait_until_read(admin, [topic], seconds):
        if each.state == "unread":
            raise AckwellError(each.error)
        on_note(each.note)


def _unread(
    admin: Admin, namespaces: list[str], deadline_s: float, backlog_read: int
) -> list[UnreadPolicies]:
    """Return each namespace whose topic policies some broker has not read, or that could not be checked.

    A reader has read the policies if its backlog is at most `backlog_read`. If a broker does not answer, no
    further request begins after `deadline_s`, a time of the monotonic clock.
    """
    renewed = admin.renewed()
    timeout_seconds = min(admin.endpoint.timeout_seconds, _ANSWER_SECONDS_MAX)
    renewed.endpoint = admin.endpoint.with_options(timeout_seconds=timeout_seconds)
    brokers = sorted(renewed.brokers())
    try:
        if not brokers:
            kind = NoAnswerError if admin.brokers() else StatsError
            raise kind("the brokers are not listed", admin.endpoint.address("brokers"))
        owned = {broker: renewed.owned_bundles(broker) for broker in brokers}
    except StatsError as error:
        return [_unchecked(namespace, error) for namespace in namespaces]
    failures: list[NoAnswerError] = []

    def check(namespace: str) -> UnreadPolicies | None:
        owners = [
            broker
            for broker, bundles in owned.items()
            if any(bundle.startswith(f"{namespace}/") for bundle in bundles)
        ]
        try:
            if failures and time.monotonic() >= deadline_s:
                raise failures[0]
            lag = _lag(renewed, namespace, brokers, owners, backlog_read)
        except StatsError as error:
            if isinstance(error, NoAnswerError) and _NO_OWNER not in error.reason:
                failures.append(error)
            return _unchecked(namespace, error)
        risk = "If a topic moves to such a broker, the broker delivers messages of held subscriptions"
        return UnreadPolicies(namespace, f"{lag}. {risk}", "waiting") if lag else None

    with ThreadPoolExecutor(min(len(namespaces), REQUESTS_AT_ONCE)) as pool:
        return [found for found in pool.map(check, namespaces) if found is not None]


def _ask(admin: Admin, path: str) -> tuple[Any, int | None]:
    """Request `path` from a broker. Raise `NoAnswerError` if the bundle of the topic has no owner yet."""
    try:
        return admin.ask_timed(path)
    except StatsError as error:
        if _NO_OWNER in error.reason:
            raise NoAnswerError(error.reason, error.source) from None
        raise


def _lag(admin: Admin, namespace: str, brokers: list[str], owners: list[str], backlog_read: int) -> str:
    """Return a text about the brokers that may not have read the topic policies of a namespace.

    Return an empty text if every broker has read the policies.
    """
    path = topic_path(f"persistent://{namespace}/__change_events")
    try:
        stats, now_ms = _ask(admin, f"{path}/stats")
    except NoAnswerError:
        raise
    except StatsError:
        stats, now_ms = _ask(admin, f"{path}/partitioned-stats")
    subscriptions: Any = stats.get("subscriptions") if isinstance(stats, dict) else None
    if not isinstance(subscriptions, dict):
        raise StatsError("expected the subscriptions of a topic", admin.endpoint.address(path))
    readers = [
        each
        for name, each in subscriptions.items()
        if name.startswith(_READER) and _has_read(each, backlog_read)
    ]
    if len(readers) < len(owners):
        return (
            f"{len(owners) - len(readers)} of the {len(owners)} brokers with bundles of {namespace} "
            f"({', '.join(owners)}) have not read the latest topic policies"
        )
    # The statistics of a partitioned topic have no times. If every broker has a reader, no times are needed.
    if len(readers) >= len(brokers):
        return ""
    try:
        since_ms = [_connected_since_ms(consumer) for each in readers for consumer in each["consumers"]]
    except (TypeError, KeyError, ValueError, OverflowError):
        reason = "expected the time since which a reader has been connected"
        raise StatsError(reason, admin.endpoint.address(path)) from None
    # `__change_events` was loaded before the first of the readers connected.
    if (now_ms or clock_ms()) - min(since_ms, default=inf) >= _RECONNECTED_MS:
        return ""
    return (
        f"{len(brokers) - len(readers)} of the {len(brokers)} brokers may have an old copy of the "
        f"topic policies of {namespace}"
    )


def _has_read(subscription: Any, backlog_read: int) -> bool:
    """Return whether a reader is connected and has a backlog of at most `backlog_read`."""
    if not isinstance(subscription, dict) or not subscription.get("consumers"):
        return False
    backlog = subscription.get("msgBacklog")
    return isinstance(backlog, int) and backlog <= backlog_read


def _connected_since_ms(consumer: Any) -> float:
    """Return the time of a consumer's connection."""
    return datetime.fromisoformat(consumer["connectedSince"]).timestamp() * 1000


def _unchecked(namespace: str, error: StatsError) -> UnreadPolicies:
    """Return the result for a namespace that could not be checked because of `error`.

    The state is `waiting` if a broker did not answer, and otherwise `unknown`.
    """
    reason = f"it is unknown whether each broker has read the topic policies of {namespace}: {error}"
    return UnreadPolicies(namespace, reason, "waiting" if isinstance(error, NoAnswerError) else "unknown")
