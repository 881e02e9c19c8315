"""Requests for a topic."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.admin.requests import HttpError
from ackwell.devbroker.admin.topic_stats import internal_stats, merged_stats, stats
from ackwell.protocol import messages
from ackwell.protocol.constants import SchemaType

if TYPE_CHECKING:
    from ackwell.devbroker.admin.requests import Backend, Request
    from ackwell.devbroker.topic import Topic
    from ackwell.protocol.topic_name import TopicName


def existing(backend: Backend, name: TopicName) -> Topic:
    """Return a topic; 404 if it does not exist."""
    topic = backend.state.topics.get(str(name))
    if topic is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"Topic {name} not found")
    return topic


def with_partitions(backend: Backend, name: TopicName) -> list[Topic]:
    """Return a topic, or all partitions of a partitioned topic."""
    partitions = backend.state.partitioned.get(str(name))
    names = [name] if partitions is None else [name.of_partition(index) for index in range(partitions)]
    return [existing(backend, each) for each in names]


def create(backend: Backend, _request: Request, name: TopicName, _: list[str]) -> None:
    """Create a topic without partitions."""
    if str(name) in backend.state.topics or str(name) in backend.state.partitioned:
        raise HttpError(HTTPStatus.CONFLICT, "This topic already exists")
    backend.state.check_namespace(name)
    backend.state.make_topic(name)


def delete(backend: Backend, request: Request, name: TopicName, _: list[str]) -> None:
    """Delete a topic; refused if it is in use, unless forced."""
    if str(name) in backend.state.partitioned:
        raise HttpError(
            HTTPStatus.CONFLICT, f"{name} is a partitioned topic instead of non-partitioned topic"
        )
    topic = existing(backend, name)
    used = topic.producers.by_name or any(each.consumers for each in topic.subscriptions.values())
    if used and request.query.get("force") != "true":
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, "Topic has active producers/subscriptions")
    backend.state.delete_topic(name)


def create_partitioned(backend: Backend, request: Request, name: TopicName, _: list[str]) -> None:
    """Create a partitioned topic."""
    if str(name) in backend.state.partitioned or str(name) in backend.state.topics:
        raise HttpError(HTTPStatus.CONFLICT, "This topic already exists")
    backend.state.create_partitioned(name, _partitions(request))


def add_partitions(backend: Backend, request: Request, name: TopicName, _: list[str]) -> None:
    """Add partitions to a partitioned topic."""
    wanted = _partitions(request)
    before = backend.state.partitioned.get(str(name))
    if before is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"Topic {name} is not a partitioned topic")
    if wanted < before:
        raise HttpError(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"{wanted} partitions; expected at least the present {before}"
        )
    backend.state.create_partitioned(name, wanted)


def _partitions(request: Request) -> int:
    wanted = request.json()
    wanted = wanted.get("partitions") if isinstance(wanted, dict) else wanted
    if isinstance(wanted, str) and wanted.isdecimal() and len(wanted) <= 9:
        # The Rust client sends the number as text, which a Pulsar broker accepts.
        wanted = int(wanted)
    if not isinstance(wanted, int) or not 0 < wanted <= 10_000:
        raise HttpError(HTTPStatus.NOT_ACCEPTABLE, f"{wanted!r} partitions; expected 1 to 10,000")
    return wanted


def partitions(backend: Backend, request: Request, name: TopicName, _: list[str]) -> Any:
    """Return the number of partitions of a topic."""
    create_ = request.query.get("checkAllowAutoCreation") == "true"
    found = backend.state.partitions_of(name, create=create_)
    if not found and not create_:
        existing(backend, name)
    return {"partitions": found}


def delete_partitioned(backend: Backend, request: Request, name: TopicName, _: list[str]) -> None:
    """Delete a partitioned topic with its partitions."""
    for topic in with_partitions(backend, name):
        delete(backend, request, topic.name, [])
    backend.state.partitioned.pop(str(name), None)


def topic_stats(backend: Backend, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Describe a topic."""
    return stats(existing(backend, name))


def partitioned_stats(backend: Backend, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Describe each partition, and all of them together."""
    described = {str(topic.name): stats(topic) for topic in _partitions_of(backend, name)}
    return merged_stats(list(described.values())) | {
        "metadata": {"partitions": len(described), "deleted": False},
        "partitions": described,
    }


def partitioned_internal_stats(backend: Backend, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Describe the ledgers and cursors of each partition."""
    described = {str(topic.name): internal_stats(topic) for topic in _partitions_of(backend, name)}
    return {"metadata": {"partitions": len(described), "deleted": False}, "partitions": described}


def _partitions_of(backend: Backend, name: TopicName) -> list[Topic]:
    if str(name) not in backend.state.partitioned:
        raise HttpError(HTTPStatus.NOT_FOUND, f"Partitioned Topic {name} not found")
    return with_partitions(backend, name)


def topic_internal_stats(backend: Backend, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Describe a topic's ledgers and cursors."""
    return internal_stats(existing(backend, name))


def nothing(backend: Backend, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Return an empty object, for features that the dev broker lacks."""
    with_partitions(backend, name)
    return {}


def unload(backend: Backend, _request: Request, name: TopicName, _: list[str]) -> None:
    """Close a topic and load it again, as a graceful restart does."""
    for topic in with_partitions(backend, name):
        backend.state.unload(topic)


def terminate(backend: Backend, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Terminate a topic, so that it refuses new messages."""
    ledger_id, entry_id = existing(backend, name).terminate()
    return {"ledgerId": ledger_id, "entryId": entry_id, "partitionIndex": name.partition}


def compact(backend: Backend, _request: Request, name: TopicName, _: list[str]) -> None:
    """Compact a topic, and answer when it is done."""
    for topic in with_partitions(backend, name):
        topic.content.compact()


def compaction(backend: Backend, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Return whether a topic was compacted."""
    ran = any(topic.content.compacted for topic in with_partitions(backend, name))
    return {"status": "SUCCESS" if ran else "NOT_RUN", "lastError": ""}


def schema(backend: Backend, _request: Request, name: TopicName, rest: list[str]) -> Any:
    """Return a topic's schema, by default the newest version."""
    wanted = int(rest[0]).to_bytes(8) if rest and rest[0].isdecimal() else None
    found = backend.state.schemas.get(str(name.partitioned), wanted)
    if found is None:
        raise HttpError(HTTPStatus.NOT_FOUND, "Schema not found")
    return {
        "version": int.from_bytes(found[1]),
        "type": SchemaType(found[0].type).name,
        "timestamp": 0,
        "data": found[0].schema_data.decode("utf-8", "replace"),
        "properties": {each.key: each.value for each in found[0].properties},
    }


def put_schema(backend: Backend, request: Request, name: TopicName, _: list[str]) -> Any:
    """Add a schema."""
    given = request.json()
    if not isinstance(given, dict) or given.get("type") not in SchemaType.__members__:
        raise HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, "expected a schema with a type")
    made = messages.Schema(
        name=name.local, type=SchemaType[given["type"]], schema_data=str(given.get("schema", "")).encode()
    )
    version = backend.state.put_schema(name, made)
    return {"version": int.from_bytes(version or b"")}


def delete_schema(backend: Backend, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Delete a topic's schemas, and return the newest version."""
    found = backend.state.schemas.get(str(name.partitioned), None)
    if found is None:
        raise HttpError(HTTPStatus.NOT_FOUND, "Schema not found")
    backend.state.schemas.delete(str(name.partitioned))
    return {"version": int.from_bytes(found[1])}
