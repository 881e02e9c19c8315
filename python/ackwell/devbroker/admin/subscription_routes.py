"""Requests for a subscription."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.admin.requests import HttpError, number
from ackwell.devbroker.admin.topic_routes import with_partitions
from ackwell.integers import INT64_MAX, INT64_MIN
from ackwell.position import Position
from ackwell.protocol.message_ids import message_id_of
from ackwell.subscription import SubscriptionType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackwell.devbroker.admin.requests import Backend, Request
    from ackwell.devbroker.content import TopicContent
    from ackwell.devbroker.subscriptions import TopicSubscription
    from ackwell.protocol.topic_name import TopicName


def subscriptions(backend: Backend, topic: TopicName, name: str) -> Iterator[TopicSubscription]:
    """Find a subscription on every partition; 404 if a partition lacks it."""
    for each in with_partitions(backend, topic):
        if name not in each.subscriptions:
            raise HttpError(HTTPStatus.NOT_FOUND, f"Subscription {name} not found on {each.name}")
        yield each.subscriptions[name]


def names(backend: Backend, _request: Request, topic: TopicName, _: list[str]) -> Any:
    """List the subscriptions."""
    return sorted({name for each in with_partitions(backend, topic) for name in each.subscriptions})


def create(backend: Backend, request: Request, topic: TopicName, rest: list[str]) -> None:
    """Create a subscription at a message id, by default at the end."""
    if str(topic) not in backend.state.partitioned:
        backend.state.topic(str(topic))
    for each in with_partitions(backend, topic):
        if rest[1] in each.subscriptions:
            raise HttpError(HTTPStatus.CONFLICT, "Subscription already exists for topic")
        each.subscribe(
            rest[1], SubscriptionType.EXCLUSIVE, _position(each.content, request.json()), durable=True
        )


def delete(backend: Backend, request: Request, topic: TopicName, rest: list[str]) -> None:
    """Delete a subscription; refused if it has consumers, unless forced."""
    for each in list(subscriptions(backend, topic, rest[1])):
        if each.consumers and request.query.get("force") != "true":
            raise HttpError(HTTPStatus.PRECONDITION_FAILED, "Subscription has active connected consumers")
        for consumer in list(each.consumers.values()):
            consumer.connection.close_consumer(consumer)
        each.delete()


def seek_to_time(backend: Backend, _request: Request, topic: TopicName, rest: list[str]) -> None:
    """Seek a subscription to a time, milliseconds since the epoch."""
    for each in subscriptions(backend, topic, rest[1]):
        each.seek(each.content.log.first_published_at(number(rest[3])))


def seek(backend: Backend, request: Request, topic: TopicName, rest: list[str]) -> None:
    """Seek a subscription to a message id, which may be a message of a batch."""
    given = request.json()
    batch_index = given.get("batchIndex", -1) if isinstance(given, dict) else -1
    if not isinstance(batch_index, int):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{given!r} is not a message id")
    for each in subscriptions(backend, topic, rest[1]):
        position, ack_set = _position(each.content, given), tuple[int, ...]()
        if batch_index >= 0:
            included = _position(each.content, given | {"excluded": False})
            excluded = bool(given.get("excluded") or given.get("isExcluded"))
            position, ack_set = each.content.within_batch(included, batch_index, excluded=excluded)
        each.seek(position, ack_set)


def clear(backend: Backend, _request: Request, topic: TopicName, rest: list[str]) -> None:
    """Acknowledge all entries."""
    for each in subscriptions(backend, topic, rest[1]):
        each.clear_backlog()


def skip(backend: Backend, _request: Request, topic: TopicName, rest: list[str]) -> None:
    """Acknowledge the next unacknowledged entries."""
    for each in subscriptions(backend, topic, rest[1]):
        each.skip(number(rest[3]))


def expire(backend: Backend, _request: Request, topic: TopicName, rest: list[str]) -> None:
    """Acknowledge the entries older than a number of seconds."""
    for each in subscriptions(backend, topic, rest[1]):
        each.expire_older_than(number(rest[3]))


def expire_up_to(backend: Backend, request: Request, topic: TopicName, rest: list[str]) -> None:
    """Acknowledge all entries up to a message id; if it is excluded, up to the next one, as Pulsar does."""
    given = request.json()
    for each in subscriptions(backend, topic, rest[1]):
        position = _position(each.content, given)
        ledgers = each.content.log.ledgers
        last = Position(*position) if ledgers.contains(*position) else ledgers.previous_valid(*position)
        if last.entry_id >= 0:
            each.expire(last)


def properties(backend: Backend, _request: Request, topic: TopicName, rest: list[str]) -> Any:
    """Return the properties, as set by the first consumer or by an operator."""
    found = list(subscriptions(backend, topic, rest[1]))
    return found[0].properties


def set_properties(backend: Backend, request: Request, topic: TopicName, rest: list[str]) -> None:
    """Set the properties of a subscription."""
    given = {str(name): str(value) for name, value in (request.json() or {}).items()}
    for each in subscriptions(backend, topic, rest[1]):
        each.properties = dict(given)
        each.changed()


def expire_all(backend: Backend, _request: Request, topic: TopicName, rest: list[str]) -> None:
    """Acknowledge the entries older than a number of seconds, for every subscription."""
    for each in with_partitions(backend, topic):
        for subscription in each.subscriptions.values():
            subscription.expire_older_than(number(rest[2]))


def _position(content: TopicContent, given: Any) -> tuple[int, int]:
    if given is None or given == "latest":
        return content.end_position
    if given == "earliest":
        return content.first_position
    ids: list[Any] = (
        [given.get(name) for name in ("ledgerId", "entryId")] if isinstance(given, dict) else [None]
    )
    if not all(isinstance(each, int) and INT64_MIN <= each <= INT64_MAX for each in ids):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{given!r} is not a message id")
    position: tuple[int, int] = content.position_of(message_id_of((ids[0], ids[1])))
    if given.get("excluded"):
        return content.log.ledgers.next_valid(*position)
    return position
