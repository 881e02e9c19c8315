"""Requests about single messages: the last one, the n-th, the one at a place."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.admin.requests import HttpError, Raw, number
from ackwell.devbroker.admin.routes import on_topic
from ackwell.devbroker.admin.stats import timestamp
from ackwell.devbroker.admin.subscription_routes import subscriptions
from ackwell.devbroker.admin.topic_routes import existing
from ackwell.errors import FrameError
from ackwell.protocol.codes import COMPRESSIONS
from ackwell.protocol.payload import read_payload, uncompressed

if TYPE_CHECKING:
    from ackwell.devbroker.admin.requests import Backend, Request
    from ackwell.devbroker.content import TopicContent
    from ackwell.position import Position
    from ackwell.protocol.topic_name import TopicName


@on_topic("GET", "lastMessageId")
def last(backend: Backend, _request: Request, name: TopicName, _: list[str]) -> Any:
    """Return the position of the last message."""
    topic = existing(backend, name)
    place = topic.last_message()
    batch_size = topic.batch_size(place)
    more = {"outstandingAcksInSameBatch": 0, "originalBatchSize": 0}
    if batch_size is None:
        return _message_id(topic, place)
    return _message_id(topic, place) | {"batchIndex": batch_size - 1} | more


@on_topic("GET", "messageid", "*")
def at_time(backend: Backend, _request: Request, name: TopicName, rest: list[str]) -> Any:
    """Return the first message published at or after a time in ms; -1:-1 where that is the very first."""
    topic = existing(backend, name)
    place = topic.log.first_published_at(number(rest[1]))
    return _message_id(topic, place if place > topic.first_place else (-1, -1))


@on_topic("GET", "subscription", "*", "position", "*")
def peek(backend: Backend, _request: Request, name: TopicName, rest: list[str]) -> Raw:
    """Return the n-th entry that a subscription has not acknowledged, from 1 on."""
    (source,) = subscriptions(backend, name, rest[1])
    cursor, ledgers = source.cursor, source.topic.log.ledgers
    place, wanted = cursor.mark_delete_position, max(number(rest[3]), 1)
    while wanted:
        place = ledgers.next_valid(*place)
        if not ledgers.contains(*place):
            break
        wanted -= not cursor.is_acked(*place)
    return _entry(source.topic, place)


@on_topic("GET", "ledger", "*", "entry", "*")
def by_id(backend: Backend, _request: Request, name: TopicName, rest: list[str]) -> Raw:
    """Return the entry at a place."""
    return _entry(existing(backend, name), (number(rest[1]), number(rest[3])))


@on_topic("GET", "examinemessage")
def examine(backend: Backend, request: Request, name: TopicName, _: list[str]) -> Raw:
    """Return the n-th entry of a topic, from its first or from its last."""
    topic = existing(backend, name)
    count = max(number(request.query.get("messagePosition", "1")), 1)
    ledgers = topic.log.ledgers
    if request.query.get("initialPosition", "latest") == "earliest":
        place = topic.first_place
        for _step in range(count - 1):
            place = ledgers.next_valid(*place)
    else:
        place = topic.log.last_position
        for _step in range(count - 1):
            place = ledgers.previous_valid(*place)
    return _entry(topic, place)


def _message_id(topic: TopicContent, place: tuple[int, int]) -> dict[str, int]:
    ledger_id, entry_id = place
    return {
        "ledgerId": ledger_id,
        "entryId": entry_id,
        "partitionIndex": topic.partition,
        "batchIndex": -1,
        "batchSize": 0,
    }


def _entry(topic: TopicContent, place: Position | tuple[int, int]) -> Raw:
    """Return an entry's messages, uncompressed, and what its metadata says as headers."""
    if place[1] < 0 or not topic.log.ledgers.contains(*place):
        raise HttpError(HTTPStatus.NOT_FOUND, "Message not found")
    payload = read_payload(topic.log.read(*place).data)
    metadata = payload.metadata
    headers = {
        "X-Pulsar-Message-ID": f"{place[0]}:{place[1]}",
        "X-Pulsar-PROPERTY": json.dumps({each.key: each.value for each in metadata.properties}),
        "X-Pulsar-publish-time": timestamp(metadata.publish_time),
        "X-Pulsar-Is-Encrypted": "true" if metadata.encryption_keys else "false",
        "X-Pulsar-producer-name": _header(metadata.producer_name),
        "X-Pulsar-sequence-id": str(metadata.sequence_id),
    }
    if metadata.event_time:
        headers["X-Pulsar-event-time"] = timestamp(metadata.event_time)
    if metadata.HasField("partition_key"):
        headers["X-Pulsar-partition-key"] = _header(metadata.partition_key)
    if metadata.HasField("num_messages_in_batch"):
        headers["X-Pulsar-num-batch-message"] = str(metadata.num_messages_in_batch)
        headers["X-Pulsar-batch-size"] = str(len(payload.body))
    if metadata.compression:
        headers["X-Pulsar-compression"] = COMPRESSIONS[metadata.compression].upper()
        headers["X-Pulsar-uncompressed-size"] = str(metadata.uncompressed_size)
    try:
        body = payload.body if metadata.encryption_keys else uncompressed(payload)
    except FrameError as error:
        raise HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from None
    return Raw(body, headers)


def _header(text: str) -> str:
    """Return a client's text without the line ends that would end the header."""
    return "".join(each if each.isprintable() else "?" for each in text)
