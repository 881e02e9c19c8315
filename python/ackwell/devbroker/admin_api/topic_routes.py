"""Requests for one topic or partitioned topic."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.admin_api.namespace_routes import existing_namespace
from ackwell.devbroker.admin_api.requests import OK, HttpError, RawAnswer, message_id
from ackwell.devbroker.admin_api.topic_stats import internal_stats, managed_ledger_info, merged_stats, stats

if TYPE_CHECKING:
    from ackwell.devbroker.admin_api.requests import Request
    from ackwell.devbroker.topic import Topic
    from ackwell.protocol.topic_name import TopicName


def existing(request: Request, name: TopicName | None = None) -> Topic:
    """Return the topic `name`; without a name, return the topic in the path. 404 if it does not exist."""
    name = name or request.topic
    topic = request.state.topics.get(str(name))
    if topic is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"Topic {name} not found")
    return topic


def with_partitions(request: Request) -> list[Topic]:
    """Return the topic in the path as a list. For a partitioned topic, return all of its partitions."""
    name = request.topic
    partitions = request.state.partitioned.get(str(name))
    names = [name] if partitions is None else [name.of_partition(index) for index in range(partitions)]
    return [existing(request, each) for each in names]


def get_list(request: Request) -> Any:
    """List the topics of a namespace and domain. Each partition is listed as a separate topic."""
    domain = request.names["domain"]
    topics = request.state.topics_in(existing_namespace(request))
    return [str(name) for name in topics if name.domain == domain]


def get_partitioned_topic_list(request: Request) -> Any:
    """List the partitioned topics of a namespace and domain."""
    prefix = f"{request.names['domain']}://{existing_namespace(request)}/"
    return sorted(name for name in request.state.partitioned if name.startswith(prefix))


def create_non_partitioned_topic(request: Request) -> None:
    """Create a topic without partitions."""
    name = request.topic
    if str(name) in request.state.topics or str(name) in request.state.partitioned:
        raise HttpError(HTTPStatus.CONFLICT, "This topic already exists")
    request.state.check_namespace(name)
    properties = request.json()
    request.state.make_topic(name)
    _set_properties(request, properties)


def _set_properties(request: Request, properties: Any) -> None:
    if isinstance(properties, dict) and properties:
        stored = {str(key): str(value) for key, value in properties.items()}
        request.state.set_topic_policy(request.topic, "properties", stored)


def delete_topic(request: Request) -> None:
    """Delete a topic. Refused if the topic is in use, unless the query has `force`."""
    name = request.topic
    if str(name) in request.state.partitioned:
        raise HttpError(
            HTTPStatus.CONFLICT, f"{name} is a partitioned topic instead of non-partitioned topic"
        )
    _delete(request, existing(request))


def _delete(request: Request, topic: Topic) -> None:
    used = topic.producers.by_name or any(each.consumers for each in topic.subscriptions.values())
    if used and not request.flag("force"):
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, "Topic has active producers/subscriptions")
    request.state.delete_topic(topic.name)


def create_partitioned_topic(request: Request) -> None:
    """Create a partitioned topic."""
    name = request.topic
    if str(name) in request.state.partitioned or str(name) in request.state.topics:
        raise HttpError(HTTPStatus.CONFLICT, "This topic already exists")
    given = request.json()
    request.state.create_partitioned(name, _partitions(request))
    _set_properties(request, given.get("properties") if isinstance(given, dict) else None)


def update_partitioned_topic(request: Request) -> None:
    """Add partitions to a partitioned topic."""
    name = request.topic
    wanted = _partitions(request)
    before = request.state.partitioned.get(str(name))
    if before is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"Topic {name} is not a partitioned topic")
    if wanted < before:
        raise HttpError(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"{wanted} partitions; expected at least the present {before}"
        )
    request.state.create_partitioned(name, wanted)


def _partitions(request: Request) -> int:
    wanted = request.json()
    wanted = wanted.get("partitions") if isinstance(wanted, dict) else wanted
    if isinstance(wanted, str) and wanted.isdecimal() and len(wanted) <= 9:
        # The Rust client sends the number as text, which a Pulsar broker accepts.
        wanted = int(wanted)
    if not isinstance(wanted, int) or not 0 < wanted <= 10_000:
        raise HttpError(HTTPStatus.NOT_ACCEPTABLE, f"{wanted!r} partitions; expected 1 to 10,000")
    return wanted


def get_partitioned_metadata(request: Request) -> Any:
    """Return the number of partitions of a topic. 0 if the topic has none."""
    name = request.topic
    create_ = request.flag("checkAllowAutoCreation")
    found = request.state.partitions_of(name, create=create_)
    if not found and not create_:
        existing(request)
    properties = request.state.shared.topic_policies.get(str(name), {}).get("properties")
    described = {"partitions": found, "deleted": False}
    return described | ({"properties": properties} if found and properties else {})


def delete_partitioned_topic(request: Request) -> None:
    """Delete a partitioned topic and all of its partitions."""
    if str(request.topic) in request.state.topics:
        raise HttpError(HTTPStatus.CONFLICT, f"{request.topic} is not a partitioned topic")
    for topic in _partitions_of(request):
        _delete(request, topic)
    request.state.partitioned.pop(str(request.topic), None)


def create_missed_partitions(request: Request) -> None:
    """Create those partitions of a partitioned topic that do not exist yet."""
    name = request.topic
    partitions = request.state.partitioned.get(str(name))
    if partitions:
        request.state.create_partitioned(name, partitions)


def get_stats(request: Request) -> Any:
    """Return the statistics of a topic."""
    return _without_excluded(request, stats(existing(request)))


def _without_excluded(request: Request, described: dict[str, Any]) -> dict[str, Any]:
    if request.flag("excludePublishers"):
        described["publishers"] = []
    if request.flag("excludeConsumers"):
        for each in described["subscriptions"].values():
            each["consumers"] = []
    return described


def get_partitioned_stats(request: Request) -> Any:
    """Return the statistics of a partitioned topic, added up over all partitions.

    Unless the query parameter `perPartition` is false, also return the statistics of each partition.
    """
    topics = _partitions_of(request)
    described = {str(topic.name): _without_excluded(request, stats(topic)) for topic in topics}
    return merged_stats(list(described.values())) | {
        "metadata": {"partitions": len(described), "deleted": False},
        "partitions": described if request.flag("perPartition", default=True) else {},
    }


def get_partitioned_stats_internal(request: Request) -> Any:
    """Return the ledgers and cursors of each partition of a partitioned topic."""
    described = {str(topic.name): internal_stats(topic) for topic in _partitions_of(request)}
    return {"metadata": {"partitions": len(described), "deleted": False}, "partitions": described}


def _partitions_of(request: Request) -> list[Topic]:
    if str(request.topic) not in request.state.partitioned:
        raise HttpError(HTTPStatus.NOT_FOUND, f"Partitioned Topic {request.topic} not found")
    return with_partitions(request)


def get_internal_stats(request: Request) -> Any:
    """Return the ledgers and cursors of a topic."""
    return internal_stats(existing(request))


def unload_topic(request: Request) -> None:
    """Close a topic and load it again. The effect is that of a graceful restart."""
    for topic in with_partitions(request):
        request.state.unload(topic)


def terminate(request: Request) -> Any:
    """Terminate a topic, and return its last message. A terminated topic refuses new messages."""
    if str(request.topic) in request.state.partitioned:
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "Termination of a partitioned topic is not allowed")
    return _terminated(existing(request))


def terminate_partitioned_topic(request: Request) -> Any:
    """Terminate every partition of a topic, and return the last message of each partition."""
    return {str(topic.name.partition): _terminated(topic) for topic in _partitions_of(request)}


def _terminated(topic: Topic) -> dict[str, int]:
    ledger_id, entry_id = topic.terminate()
    return message_id(ledger_id, entry_id, topic.name.partition)


def trim_topic(request: Request) -> RawAnswer:
    """Delete the consumed ledgers of a topic, except the ledgers that the retention policy keeps."""
    for topic in with_partitions(request):
        topic.trim()
    return OK


def truncate_topic(request: Request) -> None:
    """Acknowledge all entries for every subscription of a topic, and delete the topic's ledgers."""
    for topic in with_partitions(request):
        for each in topic.subscriptions.values():
            each.clear_backlog()
        topic.content.log.roll()
        topic.content.log.trim_before(topic.content.log.end.ledger_id)


def get_managed_ledger_info(request: Request) -> Any:
    """Return the ledgers and cursors that the metadata store has for a topic, or for each partition."""
    described = {str(topic.name): managed_ledger_info(topic) for topic in with_partitions(request)}
    if str(request.topic) in request.state.partitioned:
        return {"version": 0, "partitions": described}
    return described[str(request.topic)]


def offload_status(request: Request) -> Any:
    """Return that no ledger was offloaded. The dev broker never offloads ledgers."""
    existing(request)
    return {"status": "NOT_RUN", "lastError": "", "firstUnoffloadedMessage": message_id(-1, -1, -1)}


def compact(request: Request) -> None:
    """Compact a topic. The answer is sent when the compaction is complete."""
    for topic in with_partitions(request):
        topic.content.compact()


def compaction_status(request: Request) -> Any:
    """Return whether a topic was compacted."""
    ran = any(topic.content.compacted for topic in with_partitions(request))
    return {"status": "SUCCESS" if ran else "NOT_RUN", "lastError": ""}
