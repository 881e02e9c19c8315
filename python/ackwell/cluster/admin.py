"""Request typed answers from a live broker: topics, statistics of subscriptions, version and settings."""

from __future__ import annotations

import copy
import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import quote, urlsplit

from ackwell.broker.dispatch import CONSUMER_LIMIT, PAUSES, SUBSCRIPTION_LIMIT, THROTTLED
from ackwell.broker.documents import json_document
from ackwell.broker.names import encoded_name
from ackwell.broker.overview import TopicOverview, overviews_of
from ackwell.broker.stats import SubscriptionStats, UnreadableSource, from_answer
from ackwell.cluster import scalable
from ackwell.cluster.endpoint import OwnerError
from ackwell.errors import StatsError
from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell.cluster.endpoint import Endpoint, Response

PARTITIONS_MAX: Final = 100_000
"""The maximum number of partitions that are read for one topic."""

OVERVIEW_SECONDS_MAX: Final = 10.0
"""The maximum time to connect to a broker and to receive its overview. If a broker needs more time, its
overview is missing."""

CHANGED_TOPIC_REQUESTS: Final = 3
"""The maximum number of times that both answers about a topic are requested, if its acknowledgments change
between the two answers."""

_MOVE_POLL_SECONDS: Final = 1.0
"""The pause between two attempts to request a topic whose owner is unreachable."""

REQUESTS_AT_ONCE: Final = 8
"""The maximum number of parallel requests: enough to hide the round-trip time, without a high load on the
admin API."""


class TopicAnswer(NamedTuple):
    """The answers of the admin API about one topic at one moment."""

    topic: str
    source: str
    time_ms: int | None
    """The time of the answer by the broker's clock."""
    internal: Mapping[str, Any]
    """The answer of `stats-internal`."""
    stats: Mapping[str, Any]
    """The answer of `stats`."""
    policies: Mapping[str, Mapping[str, Any]]
    """Maps each subscription to its effective policies that may hold messages back, such as
    `dispatchRate`."""
    backlogs: Mapping[str, Mapping[str, Any]] = {}
    """Maps each subscription to its answer of `analyze-backlog`; empty if it was not requested."""
    owner: str | None = None
    """The admin address of the broker that owns the topic, `host:port`."""
    info: Mapping[str, Any] = {}
    """The answer of `info-internal`, which is requested if a cursor has no open ledger; otherwise empty."""

    def to_json(self) -> dict[str, Any]:
        """Return the dump that `ackwell.broker.stats` reads."""
        return {
            "topic": self.topic,
            "t": self.time_ms,
            "source": self.source,
            "internalStats": self.internal,
            "stats": self.stats,
            "policies": self.policies,
            "info": self.info,
            "backlogs": self.backlogs,
            "owner": self.owner,
        }

    def subscriptions(self) -> list[SubscriptionStats | UnreadableSource]:
        """Return every subscription of the topic; an `UnreadableSource` replaces an unreadable one."""
        return list(from_answer(self.to_json(), self.topic, self.source))


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """The version and settings that one broker reports.

    A value that the broker does not report is None; `assumed` then contains the reason.
    """

    version: str | None
    settings: Mapping[str, str] | None
    """The effective settings under the broker's names: its configuration, with the dynamic settings
    applied."""
    assumed: tuple[str, ...]
    """The reasons why defaults are used instead of the broker's version or settings."""

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        return {"version": self.version, "settings": self.settings, "assumed": list(self.assumed)}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the facts in a dump; raises `KeyError` or `TypeError` if they are malformed."""
        version, settings, assumed = (values[name] for name in ("version", "settings", "assumed"))
        texts = chain(*settings.items()) if isinstance(settings, dict) else [settings]
        if not all(isinstance(each, str | None) for each in (version, *texts)):
            raise TypeError("expected a version and settings that are texts")
        return cls(version=version, settings=settings, assumed=tuple(assumed))


class PeekedEntry(NamedTuple):
    """The metadata that a broker reports for one entry."""

    published_ms: int | None
    due_ms: int | None
    """The time from which a delayed entry may be delivered."""
    messages: int


class Admin:
    """The admin API of one cluster."""

    count_backlogs: bool = False
    """Whether to request `analyze-backlog`, with which the broker counts the messages of each backlog."""
    wait_seconds: float = 0.0
    """The maximum time to wait until the topics of an unreachable broker move to another broker."""

    def __init__(self, endpoint: Endpoint, *, requests_at_once: int = REQUESTS_AT_ONCE) -> None:
        if requests_at_once < 1:
            raise ValueError(f"{requests_at_once} requests at once; expected at least 1")
        self.endpoint = endpoint
        self._requests_at_once = requests_at_once
        self._clusters: Callable[[], dict[str, str]] = cache(self._listed_brokers)
        self._facts: dict[str, BrokerFacts] = {}

    def renewed(self) -> Admin:
        """Return a copy with the same options. The copy has no cached list of brokers and no cached facts."""
        other = Admin(self.endpoint, requests_at_once=self._requests_at_once)
        other.count_backlogs, other.wait_seconds = self.count_backlogs, self.wait_seconds
        return other

    def topics(self, wanted: Sequence[str] = ()) -> Iterator[str | UnreadableSource]:
        """Yield the names of the wanted persistent topics in order. By default, yield all persistent topics.

        Each item of `wanted` is a tenant, `tenant/namespace`, `persistent://tenant/namespace`, a topic, or
        the base name of a partitioned topic. An item that cannot be listed yields an `UnreadableSource`.
        """
        if not wanted:
            tenants = self._names("tenants")
            if isinstance(tenants, UnreadableSource):
                yield tenants
                return
            wanted = tenants
        for name in wanted:
            local = name.rpartition("://")[2]
            if local.count("/") >= 2:
                yield from self._named(name)
            elif "/" in local:
                yield from self._all_in(local)
            else:
                namespaces = self._names(f"namespaces/{_quote(local)}")
                for namespace in [namespaces] if isinstance(namespaces, UnreadableSource) else namespaces:
                    if isinstance(namespace, UnreadableSource):
                        yield namespace
                    else:
                        yield from self._all_in(namespace)

    def answers(
        self,
        wanted: Sequence[str] = (),
        *,
        wants: Callable[[str], bool] = lambda _: True,
        owners: Mapping[str, TopicOverview] | None = None,
    ) -> Iterator[TopicAnswer | UnreadableSource]:
        """Yield the statistics of the wanted topics, in their order. Several requests run at the same time.

        A topic is skipped if `wants(topic)` is false. A topic in `owners` is requested directly from its
        owner. If an owner cannot be reached, the method waits up to `wait_seconds` until the owner's topics
        move to another broker. The answers of moved topics are yielded after all others. If topics do not
        move, the method yields one `UnreadableSource` for their owner.
        """
        waiting_for: dict[str, tuple[OwnerError, list[str]]] = {}
        names = self.topics(wanted)
        chosen = (name for name in names if isinstance(name, UnreadableSource) or wants(name))
        for found in self._in_order(chosen, _DirectRequests(self, owners or {})):
            if isinstance(found, _UnreachedTopic):
                waiting_for.setdefault(found.error.owner, (found.error, []))[1].append(found.topic)
            else:
                yield found
        yield from self._moved(waiting_for)
        for error, topics in waiting_for.values():
            yield _unreachable(error, len(topics))

    def _moved(
        self, waiting_for: dict[str, tuple[OwnerError, list[str]]]
    ) -> Iterator[TopicAnswer | UnreadableSource]:
        """Yield the answers of topics that move to another broker within `wait_seconds`.

        Remove these topics from `waiting_for`, which maps the unreachable owners to their topics.
        """
        end = time.monotonic() + self.wait_seconds
        while waiting_for and time.monotonic() < end:
            time.sleep(min(_MOVE_POLL_SECONDS, self.wait_seconds))
            for owner, (error, topics) in list(waiting_for.items()):
                # A request for one of the topics is enough. It succeeds when the session of the unreachable
                # broker has ended.
                if isinstance(self._answer(topics[0]), _UnreachedTopic):
                    continue
                del waiting_for[owner]
                for found in self._in_order(iter(topics)):
                    if isinstance(found, _UnreachedTopic):
                        waiting_for.setdefault(owner, (error, []))[1].append(found.topic)
                    else:
                        yield found

    def _in_order(
        self, topics: Iterator[str | UnreadableSource], direct: _DirectRequests | None = None
    ) -> Iterator[TopicAnswer | UnreadableSource | _UnreachedTopic]:
        answer = self._answer if direct is None else direct.answer
        with ThreadPoolExecutor(self._requests_at_once) as pool:
            # The number of waiting requests is limited, so that the answers of a whole cluster do not fill
            # the memory.
            waiting: deque[Future[TopicAnswer | UnreadableSource | _UnreachedTopic]] = deque()
            for topic in topics:
                waiting.append(pool.submit(answer, topic))
                if len(waiting) > 2 * self._requests_at_once:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def overviews(self) -> dict[str, TopicOverview]:
        """Return the overview of each loaded topic, by name. This takes one request to each broker.

        If a broker cannot be reached or refuses the request, its topics are missing. A broker refuses it if
        the user is not a superuser.
        """
        listed = sorted(self.brokers())
        with ThreadPoolExecutor(min(len(listed), self._requests_at_once) or 1) as pool:
            found = pool.map(self._overview, listed if len(listed) > 1 else [""])
            return {each.topic: each for topics in found for each in topics}

    def _overview(self, owner: str) -> list[TopicOverview]:
        endpoint = self.endpoint.at(owner) if owner else self.endpoint
        seconds = min(endpoint.timeout_seconds, OVERVIEW_SECONDS_MAX)
        path = "broker-stats/topics"
        try:
            answer = endpoint.with_options(timeout_seconds=seconds).get(path, self._cluster_hosts, retries=0)
            source = endpoint.address(path)
            return list(overviews_of(self._parse(answer, source), owner, source, answer.time_ms))
        except StatsError:
            return []

    def survey(self, wanted: Sequence[str] = ()) -> Iterator[SubscriptionStats | UnreadableSource]:
        """Yield every subscription of the wanted topics like `read`, but with fewer requests.

        The statistics of a topic are requested only if the topic needs a closer look
        (`ackwell.broker.overview`), is not in an overview, or is named in `wanted`. The subscriptions of the
        other topics are read from the overviews.
        """
        named = {local for name in wanted if (local := name.rpartition("://")[2]).count("/") >= 2}
        overviews = {} if wanted and len(named) == len(wanted) else self.overviews()
        brief: list[TopicOverview] = []

        def wants(topic: str) -> bool:
            found, local = overviews.get(topic), topic.partition("://")[2]
            if found is None or {local, local.rpartition("-partition-")[0]} & named:
                return True
            if found.needs_closer_look:
                return True
            brief.append(found)
            return False

        yield from self.read(wanted, wants=wants, owners=overviews)
        for each in brief:
            yield from each.stats()

    def read(
        self,
        wanted: Sequence[str] = (),
        *,
        wants: Callable[[str], bool] = lambda _: True,
        owners: Mapping[str, TopicOverview] | None = None,
    ) -> Iterator[SubscriptionStats | UnreadableSource]:
        """Yield every subscription of the wanted topics, and an `UnreadableSource` for each unreadable topic.

        See `answers` for `wants` and `owners`.
        """
        for answer in self.answers(wanted, wants=wants, owners=owners):
            if isinstance(answer, UnreadableSource):
                yield answer
                continue
            try:
                yield from answer.subscriptions()
            except StatsError as error:
                yield UnreadableSource(answer.source, answer.topic, error.reason)

    def position_at(self, topic: str, time_ms: int) -> Position:
        """Return the position of the topic's first message that was published at `time_ms` or later.

        Raises `StatsError` if the request fails.
        """
        path = f"{topic_path(topic)}/messageid/{time_ms}"
        found = self._json(path)
        try:
            return Position(int(found["ledgerId"]), int(found["entryId"]))
        except (KeyError, TypeError, ValueError):
            raise StatsError("expected a message id", self.endpoint.address(path)) from None

    def peek(self, topic: str, position: Position) -> PeekedEntry:
        """Return the metadata of one entry. The broker reads the whole entry and sends it.

        Raises `StatsError` if the request fails.
        """
        path = f"{topic_path(topic)}/ledger/{position.ledger_id}/entry/{position.entry_id}"
        headers = self._get(path).headers
        try:
            return PeekedEntry(
                _time_ms(headers.get("X-Pulsar-publish-time")),
                _time_ms(headers.get("X-Pulsar-deliver-at-time")),
                int(headers.get("X-Pulsar-num-batch-message", 1)),
            )
        except ValueError as error:
            reason = f"expected the headers of an entry: {error}"
            raise StatsError(reason, self.endpoint.address(path)) from None

    def facts(self, owner: str | None = None) -> BrokerFacts:
        """Return the version and settings of the broker at the address `owner`, by default the queried one.

        The facts of each owner are requested once and then cached. If an owner reports neither its version
        nor its settings, return the facts of the queried broker. Their field `assumed` contains the reason.
        """
        if owner is None or owner == self.endpoint.asked_host:
            if "" not in self._facts:
                self._facts[""] = self._read_facts()
            return self._facts[""]
        if owner not in self._facts:
            found = Admin(self.endpoint.at(owner))._read_facts()  # noqa: SLF001 - the same class
            if found.version is None and found.settings is None:
                asked = self.facts()
                notes = (*asked.assumed, *(f"{owner}: {each}" for each in found.assumed))
                found = replace(asked, assumed=notes)
            self._facts[owner] = found
        return self._facts[owner]

    def brokers(self) -> frozenset[str]:
        """Return the admin addresses `host:port` of the brokers; empty if their list cannot be read."""
        return frozenset(self._clusters())

    def owned_bundles(self, broker: str) -> list[str]:
        """Return the bundles that a listed broker owns, as `tenant/namespace/range`. Raises `StatsError`.

        Only a superuser may request the bundles.
        """
        path = f"brokers/{_quote(self._clusters()[broker])}/{quoted(broker)}/ownedNamespaces"
        owned = self._json(path)
        if not isinstance(owned, dict):
            raise StatsError("expected a JSON object of bundles", self.endpoint.address(path))
        return list(owned)

    def _read_facts(self) -> BrokerFacts:
        """Request the broker's version and settings. If one is missing, the field `assumed` shows why."""
        assumed: list[str] = []
        version = settings = None
        try:
            body = self._get("brokers/version").body
            version = _version(body.decode(errors="replace"), self.endpoint.address("brokers/version"))
        except StatsError as error:
            assumed.append(f"the broker's version: {error.reason}")
        try:
            settings = self._mapping("brokers/configuration/runtime")
            settings |= self._mapping("brokers/configuration/values")
        except StatsError as error:
            assumed.append(f"the broker's settings: {error.reason}")
        return BrokerFacts(version=version, settings=settings, assumed=tuple(assumed))

    @cached_property
    def cluster(self) -> str | None:
        """The name of the cluster; None if the broker does not report it."""
        names = self._names("clusters")
        if isinstance(names, UnreadableSource):
            return None
        return ", ".join(name for name in names if name != "global") or None

    def trusts(self, host: str) -> bool:
        """Return whether the credentials may be sent to a host; see `Endpoint.trusts`."""
        return self.endpoint.trusts(host, self._cluster_hosts)

    def ask(self, path: str) -> Any:
        """Send a GET request. Return the JSON answer, or None if it is empty. Raises `StatsError`."""
        return self.ask_timed(path)[0]

    def ask_timed(self, path: str) -> tuple[Any, int | None]:
        """Return the answer as `ask` does, and the time in its `Date` header.

        The time is in milliseconds since 1970. It is None if the answer has no valid `Date` header.
        """
        answer = self._get(path)
        document = self._parse(answer, self.endpoint.address(path)) if answer.body.strip() else None
        return document, answer.time_ms

    def change(self, method: str, path: str, body: Any = None) -> None:
        """Send a request that changes something; see `Endpoint.change`."""
        data = None if body is None else json.dumps(body).encode()
        self.endpoint.change(method, path, data, self._cluster_hosts)

    def _mapping(self, path: str) -> dict[str, str]:
        values = self._json(path)
        if not isinstance(values, dict):
            raise StatsError("expected a JSON object of settings", self.endpoint.address(path))
        return {str(name): str(value) for name, value in values.items() if value is not None}

    def _partitions(self, name: str) -> Iterator[str | UnreadableSource]:
        """Yield the topic `name` itself, or each of its partitions if it is a partitioned topic."""
        topic = f"persistent://{name}"
        try:
            metadata = self._json(f"{topic_path(topic)}/partitions")
            count = metadata["partitions"] if isinstance(metadata, dict) else 0
        except (StatsError, KeyError):
            # Yield the topic, so that the request for its statistics reports the error.
            count = 0
        if type(count) is int and count > PARTITIONS_MAX:
            reason = f"the broker says that it has {count:,} partitions; at most {PARTITIONS_MAX:,} are read"
            yield UnreadableSource(self.endpoint.address(f"{topic_path(topic)}/partitions"), topic, reason)
        elif type(count) is int and count > 0:
            yield from (f"{topic}-partition-{number}" for number in range(count))
        else:
            yield topic

    def _all_of(self, path: str) -> Iterator[str | UnreadableSource]:
        names = self._names(path)
        if isinstance(names, UnreadableSource):
            yield names
            return
        for name in names:
            try:
                topic_path(name)
            except ValueError:
                reason = "the broker lists it, and it is not a name of a topic"
                yield UnreadableSource(self.endpoint.address(path), name, reason)
            else:
                yield name

    def _named(self, name: str) -> Iterator[str | UnreadableSource]:
        """Yield the topic with this name, or its partitions.

        If the name has no domain, also yield the scalable topic with this name, if it exists.
        """
        domain, scheme, local = name.rpartition("://")
        if domain in scalable.DOMAINS:
            yield self._scalable(name)
        elif scheme and domain != "persistent":
            yield UnreadableSource(name, name, f"a {domain} topic keeps no acknowledgments")
        else:
            yield from self._partitions(local)
            if not scheme and self._is_scalable(local):
                yield self._scalable(f"topic://{local}")

    def _all_in(self, namespace: str) -> Iterator[str | UnreadableSource]:
        """Yield the topics of a namespace."""
        yield from self._all_of(f"persistent/{_quote(namespace)}")
        if not scalable.may_exist(self.facts().version):
            return
        found = self._names(f"scalable/{_quote(namespace)}")
        if not isinstance(found, UnreadableSource):
            yield from map(self._scalable, found)
        elif self.facts().version is not None:
            yield found

    def _scalable(self, name: str) -> UnreadableSource:
        """Return the `UnreadableSource` of a scalable topic. Its reason contains the topic's statistics."""
        path = f"scalable/{_quote(name.partition('://')[2])}/stats"
        return scalable.not_judged(name, lambda: self._json(path))

    def _is_scalable(self, local: str) -> bool:
        """Return whether a scalable topic exists; `local` is its name without the domain."""
        if not scalable.may_exist(self.facts().version):
            return False
        found = self._names(f"scalable/{_quote(local.rpartition('/')[0])}")
        return not isinstance(found, UnreadableSource) and f"topic://{local}" in found

    def _names(self, path: str) -> list[str] | UnreadableSource:
        try:
            names = self._json(path)
        except StatsError as error:
            return UnreadableSource(error.source, None, error.reason)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            message = "expected a list of names; is this an admin address?"
            return UnreadableSource(self.endpoint.address(path), None, message)
        return names

    def _answer(self, topic: str | UnreadableSource) -> TopicAnswer | UnreadableSource | _UnreachedTopic:
        if isinstance(topic, UnreadableSource):
            return topic
        path = topic_path(topic)
        source = self.endpoint.address(path)
        try:
            answer, internal, stats = self._statistics(path, source)
        except OwnerError as error:
            return _UnreachedTopic(topic, error)
        except StatsError as error:
            return UnreadableSource(error.source, topic, error.reason)
        policies, backlogs = self._policies(path, internal, stats), self._backlogs(path, stats)
        owner, info = self._owner(topic, answer), self._info(path, internal)
        return TopicAnswer(
            topic, source, answer.time_ms, internal, stats, policies, backlogs, owner=owner, info=info
        )

    def _info(self, path: str, internal: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer of `info-internal` if any cursor has no open ledger, otherwise an empty answer.

        `info-internal` contains the persisted state of such a cursor. The newest state may be in memory only.
        """
        cursors = internal.get("cursors")
        shown = cursors.values() if isinstance(cursors, dict) else ()
        if all(isinstance(each, dict) and each.get("state") == "Open" for each in shown):
            return {}
        with suppress(StatsError):
            found = self._json(f"{path}/internal-info")
            if isinstance(found, dict):
                return found
        return {}

    def _statistics(self, path: str, source: str) -> tuple[Response, dict[str, Any], dict[str, Any]]:
        """Request `stats-internal` and `stats`. Repeat both if acknowledgments changed between the answers.

        Return the HTTP answer of `stats-internal`, the JSON object in this answer, and the JSON object of
        `stats`.
        """
        for _ in range(CHANGED_TOPIC_REQUESTS):
            answer = self._get(f"{path}/internalStats")
            internal, stats = self._parse(answer, source), self._json(f"{path}/stats")
            for part in (internal, stats):
                if not isinstance(part, dict):
                    raise StatsError(f"expected a JSON object, got {type(part).__name__}", source)
            if not _changed_between(internal, stats):
                break
        return answer, internal, stats

    def _owner(self, topic: str, answer: Response) -> str:
        """Return the admin address of the broker that owns a topic.

        If the queried broker is not the owner, it redirects to the owner, and `answer` contains the owner's
        address. A Pulsar proxy does not redirect, so the owner is looked up.
        """
        if answer.redirected or len(self._clusters()) < 2 or answer.host in self._clusters():
            return answer.host
        with suppress(StatsError):
            found = self._json(f"/lookup/v2/topic/{topic_path(topic)}")
            secure = self.endpoint.url.startswith("https")
            name = "httpUrlTls" if secure else "httpUrl"
            if isinstance(found, dict) and isinstance(found.get(name), str):
                return urlsplit(found[name]).netloc or answer.host
        return answer.host

    def _backlogs(self, path: str, stats: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for name, shown in (stats.get("subscriptions") or {}).items() if self.count_backlogs else ():
            if isinstance(shown, dict) and shown.get("msgBacklog"):
                # A broker before 2.11 cannot count a backlog. The number of messages then remains an
                # interval.
                with suppress(StatsError):
                    below = f"{path}/subscription/{quoted(name)}/analyzeBacklog"
                    answer = self.endpoint.change("POST", below, None, self._cluster_hosts)
                    found[name] = self._parse(answer, self.endpoint.address(below))
        return found

    def _policies(
        self, path: str, internal: Mapping[str, Any], stats: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Return the effective policies that may hold back messages, by subscription and policy name.

        A policy is requested only if the statistics suggest that it has an effect. If topic policies are
        disabled on the broker, the result contains no policies.
        """
        found: dict[str, dict[str, Any]] = {}
        for name, shown in (stats.get("subscriptions") or {}).items():
            if not isinstance(shown, dict):
                continue
            paths = {"dispatchRate": f"{quoted(name)}/dispatchRate"} if _may_be_throttled(shown) else {}
            paths |= {policy: policy for policy in _suggested(shown, _cursor_of(internal, name))}
            for policy, below in paths.items():
                with suppress(StatsError):
                    value = self._json(f"{path}/{below}?applied=true")
                    if policy == PAUSES:
                        value = value or self._pauses_namespace(path)
                    found.setdefault(name, {})[policy] = value
        return found

    def _pauses_namespace(self, path: str) -> Any:
        """Return the `PAUSES` policy of the namespace.

        A broker leaves it out if a client requests the applied policy of a topic (seen on 4.2.4).
        """
        _, tenant, namespace, _ = path.split("/", 3)
        return self._json(f"namespaces/{tenant}/{namespace}/{PAUSES}")

    def _json(self, path: str) -> Any:
        return self._parse(self._get(path), self.endpoint.address(path))

    def _parse(self, answer: Response, source: str) -> Any:
        return json_document(answer.body, source)

    def _get(self, path: str) -> Response:
        return self.endpoint.get(path, self._cluster_hosts)

    def _cluster_hosts(self) -> frozenset[str]:
        """Return the host names of the cluster's brokers, without ports."""
        hosts = (urlsplit(f"//{broker}").hostname for broker in self._clusters())
        return frozenset(host for host in hosts if host)

    def _listed_brokers(self) -> dict[str, str]:
        """Request the list of brokers. Return a map from the `host:port` of each broker to its cluster."""
        listed: dict[str, str] = {}
        redirected: dict[str, str] = {}
        clusters = self._names("clusters")
        for cluster in () if isinstance(clusters, UnreadableSource) else clusters:
            # Redirects are not followed here, because this list decides which hosts are trusted.
            try:
                answer = self.endpoint.get(f"brokers/{_quote(cluster)}", frozenset)
                brokers = self._parse(answer, self.endpoint.address("brokers"))
            except StatsError:
                continue
            if isinstance(brokers, list):
                # A broker redirects a request for another cluster to that cluster. If it redirects every
                # request, the address is one that redirects to the brokers, for example to their TLS port.
                found = redirected if answer.redirected else listed
                found |= {broker: cluster for broker in brokers if broker and isinstance(broker, str)}
        return listed or redirected


class _DirectRequests:
    """Send each request directly to the owner of its topic, so that no broker has to redirect.

    If a request to an owner fails, the same request and all later requests for topics of this owner go to the
    queried broker. The queried broker then redirects.
    """

    def __init__(self, admin: Admin, overviews: Mapping[str, TopicOverview]) -> None:
        self._admin = admin
        self._overviews = overviews
        self._owners: dict[str, Admin] = {}
        for owner in {each.owner for each in overviews.values()} - {"", admin.endpoint.asked_host}:
            self._owners[owner] = copy.copy(admin)
            self._owners[owner].endpoint = admin.endpoint.at(owner)

    def answer(self, topic: str | UnreadableSource) -> TopicAnswer | UnreadableSource | _UnreachedTopic:
        """Return the answers about a topic, from its owner if possible, else from the queried broker."""
        overview = None if isinstance(topic, UnreadableSource) else self._overviews.get(topic)
        owner = None if overview is None else self._owners.get(overview.owner)
        if owner is not None:
            found = owner._answer(topic)  # noqa: SLF001 - one module
            if isinstance(found, TopicAnswer):
                return found
            assert overview is not None
            self._owners.pop(overview.owner, None)
        return self._admin._answer(topic)  # noqa: SLF001 - one module


def _may_be_throttled(shown: Mapping[str, Any]) -> bool:
    """Return whether a dispatch rate may delay messages.

    A broker of 4.0 does not count the delays. For such a broker, the result is True if the subscription has a
    backlog and a consumer.
    """
    if any(counter in shown for counter in THROTTLED):
        return any(map(shown.get, THROTTLED))
    return bool(shown.get("msgBacklog") and shown.get("consumers"))


def _suggested(shown: Mapping[str, Any], cursor: Mapping[str, Any]) -> Iterator[str]:
    """Yield the policies that may affect a subscription, according to its statistics."""
    consumers = shown.get("consumers")
    each = [one for one in consumers if isinstance(one, dict)] if isinstance(consumers, list) else []
    if any(one.get("blockedConsumerOnUnackedMsgs") for one in each):
        yield CONSUMER_LIMIT
    if shown.get("blockedSubscriptionOnUnackedMsgs"):
        yield SUBSCRIPTION_LIMIT
    reads = cursor.get("waitingReadOp") or cursor.get("pendingReadOps")
    if each and shown.get("msgBacklog") and not reads:
        yield PAUSES


def _changed_between(internal: Mapping[str, Any], stats: Mapping[str, Any]) -> bool:
    """Return whether the two answers show different numbers of acknowledged ranges for any subscription."""
    shown = stats.get("subscriptions")
    if not isinstance(shown, dict):
        return False
    for name, of in shown.items():
        counted = _cursor_of(internal, name).get("totalNonContiguousDeletedMessagesRange")
        if counted is not None and isinstance(of, dict):
            later = of.get("nonContiguousDeletedMessagesRanges")
            if later is not None and later != counted:
                return True
    return False


def _cursor_of(internal: Mapping[str, Any], subscription: str) -> Mapping[str, Any]:
    cursors = internal.get("cursors")
    cursor = cursors.get(encoded_name(subscription)) if isinstance(cursors, dict) else None
    return cursor if isinstance(cursor, dict) else {}


class _UnreachedTopic(NamedTuple):
    """A topic whose owner cannot be reached."""

    topic: str
    error: OwnerError


def _unreachable(error: OwnerError, topics: int) -> UnreadableSource:
    """Return the `UnreadableSource` for a broker that cannot be reached. Its reason contains a remedy."""
    owns = f"the broker owns {topics:,} of the topics"
    if error.unresolved:
        reason = (
            f"{owns}, and its name does not resolve on this machine. Give the address of a Pulsar proxy with "
            f"--admin, or a reachable address with --reach {error.owner}=HOST:PORT"
        )
    else:
        reason = (
            f"{owns}, and does not answer. If it is down, they move to other brokers when its session ends, "
            "by default after 30 s: wait with --wait 60. If it is up, give a reachable address with "
            f"--reach {error.owner}=HOST:PORT"
        )
    return UnreadableSource(f"broker {error.owner}", None, reason)


def topic_path(topic: str) -> str:
    """Return the path of a topic in the admin API. Raises `ValueError` if it is not a topic name."""
    domain, _, name = topic.partition("://")
    tenant, namespace, local = name.split("/", 2)
    return f"{domain}/{_quote(tenant)}/{_quote(namespace)}/{quoted(local)}"


def _quote(name: str) -> str:
    """Percent-encode each part of a name between slashes. A part such as `..` then cannot change the path."""
    return "/".join(map(quoted, name.split("/")))


def quoted(name: str) -> str:
    """Percent-encode a name, so that it is one part of a URL path.

    A name that is not valid Unicode is encoded, too. A broker answers that such a name does not exist.
    """
    if name in (".", ".."):
        # A server would resolve the name `.` or `..` to another path.
        return name.replace(".", "%2E")
    return quote(name, safe="", errors="surrogatepass")


def _time_ms(text: str | None) -> int | None:
    """Parse an ISO 8601 time to milliseconds since 1970; raises `ValueError` for any other text."""
    return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)


def _version(body: str, source: str) -> str:
    version = body.strip().strip('"')
    if not re.fullmatch(r"\d+\.\d+[\w.+-]{0,60}", version):
        raise StatsError(f"expected a version, got {version[:64]!r}", source)
    return version
