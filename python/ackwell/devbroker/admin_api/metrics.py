"""`/metrics`: the statistics of topics and subscriptions in the text format of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.devbroker.admin_api.requests import RawAnswer
from ackwell.devbroker.admin_api.topic_stats import stats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackwell.devbroker.admin_api.requests import Request

_TOPIC = {
    "pulsar_in_messages_total": "msgInCounter",
    "pulsar_in_bytes_total": "bytesInCounter",
    "pulsar_storage_size": "storageSize",
    "pulsar_storage_logical_size": "storageSize",
    "pulsar_storage_backlog_size": "backlogSize",
}
_SUBSCRIPTION = {
    "pulsar_subscription_back_log": "msgBacklog",
    "pulsar_subscription_back_log_no_delayed": "msgBacklogNoDelayed",
    "pulsar_subscription_delayed": "msgDelayed",
    "pulsar_subscription_in_replay": "msgInReplay",
    "pulsar_subscription_unacked_messages": "unackedMessages",
    "pulsar_subscription_blocked_on_unacked_messages": "blockedSubscriptionOnUnackedMsgs",
    "pulsar_out_messages_total": "msgOutCounter",
    "pulsar_out_bytes_total": "bytesOutCounter",
}


def metrics(request: Request) -> RawAnswer:
    """Return the statistics of all topics. The metrics have the names that a Pulsar broker uses."""
    families: dict[str, list[str]] = {}
    for name, labels, value in _samples(request):
        families.setdefault(name, []).append(f"{name}{{{labels}}} {value}")
    lines = (
        line for name, rows in sorted(families.items()) for line in (f"# TYPE {name} {_type(name)}", *rows)
    )
    return RawAnswer(
        "".join(f"{line}\n" for line in lines).encode(), {"Content-Type": "text/plain; charset=utf-8"}
    )


def _samples(request: Request) -> Iterator[tuple[str, str, float]]:
    yield "pulsar_active_connections", 'cluster="standalone"', len(request.state.shared.connections)
    for name, topic in request.state.topics.items():
        described = stats(topic)
        labels = f'cluster="standalone",namespace="{topic.name.in_namespace}",topic="{_escaped(name)}"'
        yield "pulsar_producers_count", labels, len(topic.producers.by_name)
        yield "pulsar_subscriptions_count", labels, len(topic.subscriptions)
        consumers = sum(len(each.consumers) for each in topic.subscriptions.values())
        yield "pulsar_consumers_count", labels, consumers
        backlog = sum(each["msgBacklog"] for each in described["subscriptions"].values())
        yield "pulsar_msg_backlog", labels, backlog
        for metric, field in _TOPIC.items():
            yield metric, labels, described[field]
        for subscription, found in described["subscriptions"].items():
            for metric, field in _SUBSCRIPTION.items():
                yield metric, f'{labels},subscription="{_escaped(subscription)}"', int(found[field])


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _type(name: str) -> str:
    return "counter" if name.endswith("_total") else "gauge"
