"""Find the readers of topic policies. A hold is in force only on a broker that has read it.

The topic policies of a namespace are entries of its topic `__change_events`. Each broker that owns a bundle
of the namespace has a reader on this topic and caches the policies. When it loads a topic, it applies the
cached policies. After a crash of the broker that owns `__change_events`, the readers of the other brokers
reconnect with a growing delay, up to a minute. Until then, these brokers load topics without the holds that
were set in between. The admin API shows a policy only on the broker that owns the topic, so it does not show
the lag of the next owner. It shows the readers that are connected.

A broker without a bundle may have a reader too: a request for a policy of the namespace creates one, even if
another broker answers the request. The admin API does not show which brokers have one. If fewer readers are
connected than there are brokers, a missing one may reconnect until a minute after `__change_events` was
loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ackwell.cluster.admin import topic_path
from ackwell.cluster.endpoint import OwnerError
from ackwell.errors import AckwellError, StatsError
from ackwell.protocol.topic_name import TopicName

if TYPE_CHECKING:
    from ackwell.cluster.admin import Admin

READ_SECONDS: Final = 90.0
"""How long to wait for the readers. The longest delay of their reconnection is a minute."""

_PAUSE_S: Final = 0.5
_READER: Final = "__system_reader"
_BACKLOG_READ: Final = 1
"""The backlog of a reader that has read everything.

After a reconnection, a reader receives its last entry again, and does not acknowledge it.
"""
_RECONNECTED_MS: Final = 65_000
"""How long after `__change_events` was loaded every reader has reconnected."""


class UnreadPolicies(NamedTuple):
    """A namespace whose latest topic policies a broker may not have read."""

    namespace: str
    reason: str
    state: Literal["waiting", "unread", "unknown"]
    """`unknown` if the readers cannot be compared with the brokers; `unread` at the end of the wait."""

    @property
    def note(self) -> str:
        """The reason as a note; the state is `waiting` or `unknown`."""
        return (
            self.reason if self.state == "unknown" else f"{self.reason}; waiting up to {READ_SECONDS:.0f} s"
        )

    @property
    def error(self) -> str:
        """The reason as an error; the state is `unread`."""
        return f"{self.reason}; run the same command again"


def wait_until_read(
    admin: Admin, topics: Iterable[str], seconds: float = READ_SECONDS
) -> Iterator[UnreadPolicies]:
    """Wait until every broker with bundles of the namespaces of `topics` has read their topic policies.

    Yield each namespace that the call waits for, and after `seconds` each one in which a broker still lags.
    Also yield each namespace that cannot be checked. A cluster with one broker is not checked, because
    after a restart its broker reads all policies before it loads a topic.

    A wait of less than a second is not announced, because a reader acknowledges 0.1 s after it has read.
    """
    namespaces = sorted({TopicName.parse(topic).in_namespace for topic in topics})
    if not namespaces or len(admin.brokers()) == 1:
        return
    deadline = time.monotonic() + seconds
    earlier: set[str] = set()
    announced: set[str] = set()
    while True:
        found = list(_unread(admin.renewed(), namespaces))
        lagging = {each.namespace for each in found if each.state == "waiting"}
        if not lagging or time.monotonic() >= deadline:
            break
        yield from (each for each in found if each.namespace in (lagging & earlier) - announced)
        announced |= lagging & earlier
        earlier = lagging
        time.sleep(_PAUSE_S)
    for each in found:
        yield each if each.state == "unknown" else each._replace(state="unread")


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


def _unread(admin: Admin, namespaces: list[str]) -> Iterator[UnreadPolicies]:
    """Yield the namespaces whose topic policies were not read by each broker, or could not be checked."""
    brokers = sorted(admin.brokers())
    try:
        if not brokers:
            raise StatsError("the brokers are not listed", admin.endpoint.address("brokers"))
        owned = {broker: admin.owned_bundles(broker) for broker in brokers}
    except StatsError as error:
        yield from (_unchecked(namespace, error) for namespace in namespaces)
        return
    for namespace in namespaces:
        owners = [
            broker
            for broker, bundles in owned.items()
            if any(bundle.startswith(f"{namespace}/") for bundle in bundles)
        ]
        try:
            readers = _readers(admin, namespace)
        except StatsError as error:
            yield _unchecked(namespace, error)
            continue
        if readers.number < len(owners):
            lag = (
                f"{len(owners) - readers.number} of the {len(owners)} brokers with bundles of {namespace} "
                f"({', '.join(owners)}) have not read the latest topic policies"
            )
        elif readers.number < len(brokers) and readers.connected_ms < _RECONNECTED_MS:
            lag = (
                f"{len(brokers) - readers.number} of the {len(brokers)} brokers may have an old copy of the "
                f"topic policies of {namespace}"
            )
        else:
            continue
        risk = "If a topic moves to such a broker, the broker delivers messages of held subscriptions"
        yield UnreadPolicies(namespace, f"{lag}. {risk}", "waiting")


class _Readers(NamedTuple):
    """The readers that have read the topic policies of a namespace."""

    number: int
    connected_ms: float
    """The time since the first of them connected; `__change_events` was loaded earlier."""


def _readers(admin: Admin, namespace: str) -> _Readers:
    """Return the readers that have read the topic policies of a namespace."""
    path = topic_path(f"persistent://{namespace}/__change_events")
    try:
        stats, now_ms = admin.ask_timed(f"{path}/stats")
    except OwnerError:
        raise
    except StatsError:
        stats, now_ms = admin.ask_timed(f"{path}/partitioned-stats")
    subscriptions: Any = stats.get("subscriptions") if isinstance(stats, dict) else None
    if not isinstance(subscriptions, dict):
        raise StatsError("expected the subscriptions of a topic", admin.endpoint.address(path))
    readers = [each for name, each in subscriptions.items() if name.startswith(_READER) and _has_read(each)]
    try:
        since_ms = [_connected_since_ms(consumer) for each in readers for consumer in each["consumers"]]
    except (TypeError, KeyError, ValueError, OverflowError):
        reason = "expected the time since which a reader has been connected"
        raise StatsError(reason, admin.endpoint.address(path)) from None
    return _Readers(len(readers), (now_ms or time.time() * 1000) - min(since_ms, default=inf))


def _has_read(subscription: Any) -> bool:
    """Return whether a reader is connected and has read every entry."""
    if not isinstance(subscription, dict) or not subscription.get("consumers"):
        return False
    backlog = subscription.get("msgBacklog")
    return isinstance(backlog, int) and backlog <= _BACKLOG_READ


def _connected_since_ms(consumer: Any) -> float:
    """Return the time of a consumer's connection."""
    return datetime.fromisoformat(consumer["connectedSince"]).timestamp() * 1000


def _unchecked(namespace: str, error: StatsError) -> UnreadPolicies:
    """Return the reason why a namespace could not be checked; a broker without an answer counts as a lag."""
    reason = f"it is unknown whether each broker has read the topic policies of {namespace}: {error}"
    return UnreadPolicies(namespace, reason, "waiting" if isinstance(error, OwnerError) else "unknown")
