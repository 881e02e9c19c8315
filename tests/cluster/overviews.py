"""A cluster of fake brokers: each has an overview of its topics, and redirects requests for others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from ackwell.devbroker.admin_api.topic_stats import internal_stats, stats
from tests.cluster.fake_admin import broker
from tests.rescue.histories import BEFORE, History

NAMESPACE = "shop/eu"
Request = tuple[str, str, str | None]


def topic_name(number: int) -> str:
    return f"persistent://{NAMESPACE}/t{number}"


def random_answers(count: int) -> dict[str, dict[str, Any]]:
    """Return the answers about topics with random histories; every third topic has no backlog."""
    found = {}
    for seed in range(count):
        history = History(seed, limit=4)
        history.run(BEFORE, history.chance.randint(2, 12))
        if seed % 3 == 0:
            history.clear()
        loaded_anew = seed % 6 == 0
        if loaded_anew:
            history.unload()
        answer = {"internalStats": internal_stats(history.topic), "stats": stats(history.topic)}
        # The consumers of a history receive no messages.
        answer["stats"]["msgOutCounter"] = 0 if loaded_anew else 1
        found[topic_name(seed)] = answer
    return found


def overview_of(answers: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the overview that a broker of 4.2.4 shows of topics."""
    topics = {}
    for topic, answer in answers.items():
        subscriptions = {}
        for name, shown in answer["stats"]["subscriptions"].items():
            cursor = answer["internalStats"]["cursors"][name]
            subscriptions[name] = {
                "consumers": [],
                "msgBacklog": shown["msgBacklog"],
                "msgRateOut": 0.0,
                "messageAckRate": 0.0,
                "totalNonContiguousDeletedMessagesRange": cursor["totalNonContiguousDeletedMessagesRange"],
                "type": shown["type"],
            }
        topics[topic] = {"subscriptions": subscriptions, "msgOutCount": answer["stats"]["msgOutCounter"]}
    return {NAMESPACE: {"0x00000000_0xffffffff": {"persistent": topics, "non-persistent": {}}}}


@contextmanager
def cluster(answers: Mapping[str, dict[str, Any]], brokers: int = 2) -> Iterator[list[Broker]]:
    """Run brokers that own the topics in turn."""
    with ExitStack() as stack:
        tables: list[dict[str, Any]] = [{} for _ in range(brokers)]
        urls, asked = zip(*(stack.enter_context(broker(table)) for table in tables), strict=True)
        shares = [{name: answers[name] for name in list(answers)[own::brokers]} for own in range(brokers)]
        for own, table in enumerate(tables):
            table |= {
                "/admin/v2/clusters": ["standalone"],
                "/admin/v2/brokers/standalone": [url.removeprefix("http://") for url in urls],
                "/admin/v2/brokers/version": b"4.2.4",
                "/admin/v2/brokers/configuration/runtime": {"managedLedgerMaxUnackedRangesToPersist": "4"},
                "/admin/v2/brokers/configuration/values": {},
                "/admin/v2/tenants": ["shop"],
                "/admin/v2/namespaces/shop": [NAMESPACE],
                f"/admin/v2/persistent/{NAMESPACE}": list(answers),
                "/admin/v2/broker-stats/topics": overview_of(shares[own]),
            }
            for owner, share in enumerate(shares):
                for topic, answer in share.items():
                    base = f"/admin/v2/{topic.replace('://', '/')}"
                    for path, part in (("internalStats", "internalStats"), ("stats", "stats")):
                        below = f"{base}/{path}"
                        table[below] = answer[part] if owner == own else f"{urls[owner]}{below}"
        yield [Broker(*each) for each in zip(urls, asked, tables, shares, strict=True)]


class Broker:
    """One broker of the cluster."""

    def __init__(
        self, url: str, asked: list[Request], table: dict[str, Any], share: Mapping[str, Any]
    ) -> None:
        self.url = url
        self._asked = asked
        self.table = table
        """The answers by path, which a test may change."""
        self.topics = list(share)

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    def requested_topics(self) -> list[str]:
        """Return the topics whose `internalStats` were requested here, also if the broker redirected."""
        paths = (path for _, path, _ in self._asked if path.endswith("/internalStats"))
        return [f"persistent://{'/'.join(path.split('/')[4:7])}" for path in paths]
