"""Requests for single messages.

A request selects a message by its position, its publish time, or its number in the topic or subscription.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.admin_api.requests import HttpError, RawAnswer, message_id, number
from ackwell.devbroker.admin_api.topic_routes import existing
from ackwell.devbroker.admin_api.topic_stats import timestamp
from ackwell.errors import FrameError
from ackwell.protocol.constants import COMPRESSIONS
from ackwell.protocol.payload import read_payload, uncompressed
from ackwell.subscription import SubscriptionType

if TYPE_CHECKING:
    from ackwell.devbroker.admin_api.requests import Request
    from ackwell.devbroker.content import TopicContent
    from ackwell.position import Position


def get_last_message_id(request: Request) -> Any:
    """Return the position of the last message."""
    content = existing(request).content
    position = content.last_message()
    batch_size = content.batch_size(position)
    more = {"outstandingAcksInSameBatch": 0, "originalBatchSize": 0}
    if batch_size is None:
        return _message_id(content, position)
    return _message_id(content, position) | {"batchIndex": batch_size - 1} | more


def get_message_id_by_timestamp(request: Request) -> Any:
    """Return the id of the first message that was published at or after a time in ms.

    For the time 0, return the id -1:-1.
    """
    content = existing(request).content
    time_ms = number(request.names["timestamp"])
    return _message_id(content, content.log.first_published_at(time_ms) if time_ms else (-1, -1))


def get_message_id_by_index(request: Request) -> Any:
    """Refuse the request, because entries have no index, as in a broker without broker entry metadata."""
    existing(request)
    message = "GetMessageIDByIndex is not allowed when broker entry metadata is disabled"
    raise HttpError(HTTPStatus.PRECONDITION_FAILED, message)


def peek_nth_message(request: Request) -> RawAnswer:
    """Return the n-th unacknowledged entry of a subscription. The first one has the number 1."""
    topic, name = existing(request), request.names["subscription"]
    if name not in topic.subscriptions:
        # A Pulsar broker creates a missing subscription.
        topic.subscribe(name, SubscriptionType.EXCLUSIVE, topic.content.first_position, durable=True)
    source = topic.subscriptions[name]
    cursor, ledgers = source.cursor, source.content.log.ledgers
    position, wanted = cursor.mark_delete_position, max(number(request.names["messagePosition"]), 1)
    while wanted:
        position = ledgers.next_valid(*position)
        if not ledgers.contains(*position):
            break
        wanted -= not cursor.is_acked(*position)
    return _entry(source.content, position)


def get_message_by_id(request: Request) -> RawAnswer:
    """Return the entry at a position."""
    return _entry(
        existing(request).content, (number(request.names["ledgerId"]), number(request.names["entryId"]))
    )


def examine_message(request: Request) -> RawAnswer:
    """Return the n-th entry of a topic, counted from its first entry or backwards from its last entry."""
    content = existing(request).content
    count = max(number(request.query.get("messagePosition", "1")), 1)
    ledgers = content.log.ledgers
    if request.query.get("initialPosition", "latest") == "earliest":
        position = content.first_position
        for _step in range(count - 1):
            position = ledgers.next_valid(*position)
    else:
        position = content.log.last_position
        for _step in range(count - 1):
            position = ledgers.previous_valid(*position)
    return _entry(content, position)


def _message_id(content: TopicContent, position: tuple[int, int]) -> dict[str, int]:
    return message_id(*position, content.partition)


def _entry(content: TopicContent, position: Position | tuple[int, int]) -> RawAnswer:
    """Return the uncompressed messages of an entry as the body, and the entry's metadata as HTTP headers."""
    if position[1] < 0 or not content.log.ledgers.contains(*position):
        raise HttpError(HTTPStatus.NOT_FOUND, "Message not found")
    payload = read_payload(content.log.read(*position).data)
    metadata = payload.metadata
    headers = {
        "X-Pulsar-Message-ID": f"{position[0]}:{position[1]}",
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
    return RawAnswer(body, headers)


def _header(text: str) -> str:
    """Replace unprintable characters, such as line ends, so that a client's text fits into an HTTP header."""
    return "".join(each if each.isprintable() else "?" for each in text)
