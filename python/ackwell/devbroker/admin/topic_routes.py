"""Requests about a topic."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.admin.http import HttpError
from ackwell.devbroker.admin.routes import on_topic
from ackwell.devbroker.admin.stats import internal_stats, stats
from ackwell.devbroker.compaction import Compacted
from ackwell.protocol import messages
from ackwell.protocol.codes import SchemaType

if TYPE_CHECKING:
    from ackwell.devbroker.admin.http import Request
    from ackwell.devbroker.broker import AsyncBroker
    from ackwell.devbroker.names import TopicName
    from ackwell.devbroker.topic import Topic


def existing(broker: AsyncBroker, name: TopicName) -> Topic:
    """Return a topic that exists; 404 for any other."""
    topic = broker.state.topics.get(str(name))
    if topic is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"Topic {name} not found")
    return topic


def with_partitions(broker: AsyncBroker, name: TopicName) -> list[Topic]:
    """Return a topic, or all partitions of a partitioned one."""
    partitions = broker.state.partitioned.get(str(name))
    names = [name] if partitions is None else [name.of_partition(index) for index in range(partitions)]
    return [existing(broker, each) for each in names]


@on_topic("PUT")
def create(broker: AsyncBroker, _request: Request, name: TopicName, _: list[str]) -> None:
    """Make a topic without partitions."""
    if str(name) in broker.state.topics or str(name) in broker.state.partitioned:
        raise HttpError(HTTPStatus.CONFLICT, "This topic already exists")
    broker.state.topic(str(name), create=True)


@on_topic("DELETE")
def delete(broker: AsyncBroker, request: Request, name: TopicName, _: list[str]) -> None:
    """Delete a topic; refused while it is in use, unless forced."""
    topic = existing(broker, name)
    used = topic.producers.by_name or any(each.consumers for each in topic.subscriptions.values())
    if used and request.query.get("force") != "true":
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, "Topic has active producers/subscriptions")
    broker.state.delete_topic(name)


@on_topic("PUT", "partitions")
def create_partitioned(broker: AsyncBroker, request: Request, name: TopicName, _: list[str]) -> None:
    """Make a partitioned topic."""
    if str(name) in broker.state.partitioned or str(name) in broker.state.topics:
        raise HttpError(HTTPStatus.CONFLICT, "This topic already exists")
    broker.state.create_partitioned(name, _partitions(request))


@on_topic("POST", "partitions")
def add_partitions(broker: AsyncBroker, request: Request, name: TopicName, _: list[str]) -> None:
    """Give a partitioned topic more partitions."""
    wanted = _partitions(request)
    if wanted < broker.state.partitioned.get(str(name), wanted + 1):
        raise HttpError(HTTPStatus.CONFLICT, "a partitioned topic may only get more partitions")
    broker.state.create_partitioned(name, wanted)


def _partitions(request: Request) -> int:
    wanted = request.json()
    wanted = wanted.get("partitions") if isinstance(wanted, dict) else wanted
    if not isinstance(wanted, int) or not 0 < wanted <= 10_000:
        raise HttpError(HTTPStatus.NOT_ACCEPTABLE, f"{wanted!r} partitions; expected 1 to 10,000")
    return wanted


@on_topic("GET", "partitions")
def partitions(broker: AsyncBroker, request: Request, name: TopicName, _: list[str]) -> Any:
    """Say how many partitions a topic has."""
    create_ = request.query.get("checkAllowAutoCreation") == "true"
    return {"partitions": broker.state.partitions_of(name, create=create_)}


@on_topic("DELETE", "partitions")
def delete_partitioned(broker: AsyncBroker, request: Request, name: TopicName, _: list[str]) -> None:
    """Delete a partitioned topic with its partitions."""
    for topic in with_partitions(broker, name):
        delete(broker, request, topic.name, [])
    broker.state.partitioned.pop(str(name), None)


@on_topic("GET", "stats")
def topic_stats(broker: AsyncBroker, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Describe a topic."""
    return stats(existing(broker, name))


@on_topic("GET", "partitioned-stats")
def partitioned_stats(broker: AsyncBroker, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Describe each partition."""
    topics = with_partitions(broker, name)
    return {"metadata": {"partitions": len(topics)}, "partitions": {str(t.name): stats(t) for t in topics}}


@on_topic("GET", "internalStats")
def topic_internal_stats(broker: AsyncBroker, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Describe a topic's ledgers and cursors."""
    return internal_stats(existing(broker, name))


@on_topic("GET", "lastMessageId")
def last_message_id(broker: AsyncBroker, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Name the last message."""
    topic = existing(broker, name)
    ledger_id, entry_id = topic.last_message()
    return {"ledgerId": ledger_id, "entryId": entry_id, "partitionIndex": topic.partition}


@on_topic("PUT", "unload")
def unload(broker: AsyncBroker, _request: Request, name: TopicName, _: list[str]) -> None:
    """Close a topic and load it anew, as a graceful restart of its broker does."""
    for topic in with_partitions(broker, name):
        broker.unload(topic)


@on_topic("POST", "terminate")
def terminate(broker: AsyncBroker, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Let a topic take no more messages."""
    ledger_id, entry_id = existing(broker, name).terminate()
    return {"ledgerId": ledger_id, "entryId": entry_id, "partitionIndex": name.partition}


@on_topic("PUT", "compaction")
def compact(broker: AsyncBroker, _request: Request, name: TopicName, _: list[str]) -> None:
    """Compact a topic; it is done when this is answered."""
    for topic in with_partitions(broker, name):
        topic.compacted = Compacted(topic.log)


@on_topic("GET", "compaction")
def compaction(broker: AsyncBroker, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Say whether a topic was compacted."""
    ran = any(topic.compacted for topic in with_partitions(broker, name))
    return {"status": "SUCCESS" if ran else "NOT_RUN", "lastError": ""}


@on_topic("GET", "schema")
def schema(broker: AsyncBroker, _request: Request, name: TopicName, rest: list[str]) -> Any:
    """Give a topic's schema, the newest or one version."""
    wanted = int(rest[0]).to_bytes(8) if rest and rest[0].isdecimal() else None
    found = broker.state.schemas.get(str(name.partitioned), wanted)
    if found is None:
        raise HttpError(HTTPStatus.NOT_FOUND, "Schema not found")
    return {
        "version": int.from_bytes(found[1]),
        "type": SchemaType(found[0].type).name,
        "timestamp": 0,
        "data": found[0].schema_data.decode("utf-8", "replace"),
        "properties": {each.key: each.value for each in found[0].properties},
    }


@on_topic("POST", "schema")
def put_schema(broker: AsyncBroker, request: Request, name: TopicName, _: list[str]) -> Any:
    """Take a schema in."""
    given = request.json()
    if not isinstance(given, dict) or given.get("type") not in SchemaType.__members__:
        raise HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, "expected a schema with a type")
    made = messages.Schema(
        name=name.local, type=SchemaType[given["type"]], schema_data=str(given.get("schema", "")).encode()
    )
    version = broker.state.put_schema(name, made)
    return {"version": int.from_bytes(version or b"")}


@on_topic("DELETE", "schema")
def delete_schema(broker: AsyncBroker, _request: Request, name: TopicName, _: list[str]) -> None:
    """Delete a topic's schemas."""
    broker.state.schemas.delete(str(name.partitioned))
