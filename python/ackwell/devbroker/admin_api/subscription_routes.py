"""Requests for one subscription of a topic."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ackwell.cursor.rules import last_existing
from ackwell.devbroker.admin_api.requests import HttpError, number
from ackwell.devbroker.admin_api.topic_routes import existing, with_partitions
from ackwell.integers import INT64_MAX, is_int64
from ackwell.position import Position
from ackwell.protocol.message_ids import message_id_of
from ackwell.subscription import SubscriptionType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackwell.devbroker.admin_api.requests import Request
    from ackwell.devbroker.content import TopicContent
    from ackwell.devbroker.subscriptions import TopicSubscription


def subscriptions(request: Request) -> Iterator[TopicSubscription]:
    """Yield the subscription in the path, for each partition of the topic.

    404 if a partition does not have the subscription.
    """
    name = request.names["subscription"]
    for each in with_partitions(request):
        if name not in each.subscriptions:
            raise HttpError(HTTPStatus.NOT_FOUND, f"Subscription {name} not found on {each.name}")
        yield each.subscriptions[name]


def get_subscriptions(request: Request) -> Any:
    """List the subscriptions of a topic."""
    return sorted({name for each in with_partitions(request) for name in each.subscriptions})


def create_subscription(request: Request) -> None:
    """Create a subscription that starts at a message id. Without a message id, it starts at the end."""
    name, given = request.names["subscription"], request.json()
    if str(request.topic) not in request.state.partitioned:
        request.state.topic(str(request.topic))
    properties = given.get("properties") if isinstance(given, dict) else None
    if isinstance(given, dict) and (given.get("ledgerId"), given.get("entryId")) == (INT64_MAX, INT64_MAX):
        given = "latest"
    for each in with_partitions(request):
        if name in each.subscriptions:
            raise HttpError(HTTPStatus.CONFLICT, "Subscription already exists for topic")
        position = _position(each.content, given)
        made = each.subscribe(name, SubscriptionType.EXCLUSIVE, position, durable=True)
        made.properties = {str(key): str(value) for key, value in (properties or {}).items()}
        made.is_replicated = request.flag("replicated")
        made.schedule_save()


def delete_subscription(request: Request) -> None:
    """Delete a subscription. Refused if the subscription has consumers, unless the query has `force`."""
    for each in list(subscriptions(request)):
        if each.consumers and not request.flag("force"):
            raise HttpError(HTTPStatus.PRECONDITION_FAILED, "Subscription has active connected consumers")
        for consumer in list(each.consumers.values()):
            consumer.connection.close_consumer(consumer)
        each.delete()


def reset_cursor(request: Request) -> None:
    """Seek a subscription to a time in milliseconds since 1970."""
    for each in subscriptions(request):
        each.seek(each.content.log.first_published_at(number(request.names["timestamp"])))


def reset_cursor_on_position(request: Request) -> None:
    """Seek a subscription to a message id. The id may refer to one message of a batch."""
    given = request.json()
    batch_index = _batch_index(given)
    for each in subscriptions(request):
        position, ack_set = _position(each.content, given), tuple[int, ...]()
        if batch_index >= 0:
            included = _position(each.content, given | {"excluded": False})
            excluded = bool(given.get("excluded") or given.get("isExcluded"))
            position, ack_set = each.content.within_batch(included, batch_index, excluded=excluded)
        each.seek(position, ack_set)


def skip_all_messages(request: Request) -> None:
    """Acknowledge all entries of a subscription."""
    for each in subscriptions(request):
        each.clear_backlog()


def skip_messages(request: Request) -> None:
    """Acknowledge the first n unacknowledged entries. The path contains n."""
    for each in subscriptions(request):
        each.skip(number(request.names["numMessages"]))


def expire_topic_messages(request: Request) -> None:
    """Acknowledge the entries older than a number of seconds, or all entries up to a message id.

    A message id after the last entry of the topic is refused. A message id before the first entry has no
    effect. If the body sets `excluded`, the entry after the message id is acknowledged, too, as in a Pulsar
    broker.
    """
    seconds, given = request.names.get("expireTimeInSeconds"), request.json()
    if seconds is not None:
        _expire(list(subscriptions(request)), number(seconds))
        return
    if str(request.topic) in request.state.partitioned:
        raise HttpError(
            HTTPStatus.METHOD_NOT_ALLOWED, "Expire message at position is not supported for partitioned-topic"
        )
    for each in subscriptions(request):
        last = _last_to_expire(each.content, given)
        if last is not None:
            each.expire(last)


def get_replicated_subscription_status(request: Request) -> Any:
    """Return, for each partition, whether the subscription is replicated."""
    return {each.content.full_name: each.is_replicated for each in subscriptions(request)}


def set_replicated_subscription_status(request: Request) -> None:
    """Mark a subscription as replicated or not replicated.

    The mark has no effect except in the statistics.
    """
    for each in subscriptions(request):
        each.is_replicated = bool(request.json())


def analyze_subscription_backlog(request: Request) -> Any:
    """Count the unacknowledged entries and messages of a subscription."""
    (source,) = subscriptions(request)
    cursor, log = source.cursor, source.content.log
    entries = messages = markers = 0
    found: list[Position] = []
    position = log.ledgers.next_valid(*cursor.mark_delete_position)
    while log.ledgers.contains(*position):
        if not cursor.is_acked(*position):
            entry = log.read(*position)
            found = [*found[:1], position]
            entries += 1
            messages += entry.batch_size
            markers += entry.marker
        position = log.ledgers.next_valid(*position)
    counts = {
        f"filter{what}{kind}": count if what == "Accepted" else 0
        for what in ("Rejected", "Accepted", "Rescheduled")
        for kind, count in (("Entries", entries), ("Messages", messages))
    }
    ends = {"firstMessageId": str(found[0]), "lastMessageId": str(found[-1])} if found else {}
    whole = {"entries": entries, "messages": messages, "markerMessages": markers, "aborted": False}
    return whole | counts | ends


def get_backlog_size_by_message_id(request: Request) -> Any:
    """Return the total size in bytes of all entries from a message id to the end of the topic."""
    content = existing(request).content
    ledger_id, entry_id = _position(content, request.json() or "earliest")
    return sum(
        len(entry.data)
        for each, entries in content.log.entries.items()
        for index, entry in enumerate(entries)
        if (each, index) >= (ledger_id, entry_id)
    )


def get_subscription_properties(request: Request) -> Any:
    """Return the properties of a subscription. Its first consumer or an operator sets them."""
    found = list(subscriptions(request))
    return found[0].properties


def update_subscription_properties(request: Request) -> None:
    """Replace the properties of a subscription."""
    given = {str(name): str(value) for name, value in request.object().items()}
    for each in subscriptions(request):
        each.properties = dict(given)
        each.schedule_save()


def expire_messages_for_all_subscriptions(request: Request) -> None:
    """Acknowledge all entries that are older than a number of seconds, for every subscription."""
    found = [each for topic in with_partitions(request) for each in topic.subscriptions.values()]
    _expire(found, number(request.names["expireTimeInSeconds"]))


EXPIRY_BACKLOG: Final = 1_000
"""The number of entries below which a Pulsar broker refuses to expire a backlog. The refusal also requires
that consumers are connected and that no entry is old enough."""


def _expire(subscriptions: list[TopicSubscription], seconds: int) -> None:
    """Acknowledge all entries that are older than `seconds`.

    409 if a subscription has a small backlog (see `EXPIRY_BACKLOG`) and none of its entries is old enough, as
    in a Pulsar broker.
    """
    refused = []
    for each in subscriptions:
        backlog = each.cursor.backlog_entries
        is_quiet = backlog < (EXPIRY_BACKLOG if each.consumers else 1)
        if not each.expire_older_than(seconds) and is_quiet:
            refused.append(f"{each.name} of {each.content.full_name}")
    if refused:
        raise HttpError(HTTPStatus.CONFLICT, f"{', '.join(refused)}: no message is older than {seconds} s")


def _last_to_expire(content: TopicContent, given: Any) -> Position | None:
    """Return the last entry at or before a message id.

    409 if the message id is after the topic's last entry.
    """
    position, ledgers = Position(*_ids(given)), content.log.ledgers
    if isinstance(given, dict) and given.get("excluded"):
        index = _batch_index(given)
        size = content.batch_size(position) if index >= 0 and ledgers.contains(*position) else None
        if size is None or index + 1 >= size:
            position = Position(position.ledger_id, min(position.entry_id + 1, INT64_MAX))
    if position > content.log.last_position:
        last = content.log.last_position
        reason = f"{position} is after the last entry {last} of {content.full_name}: no message expires"
        raise HttpError(HTTPStatus.CONFLICT, reason)
    return last_existing(ledgers, position)


def _position(content: TopicContent, given: Any) -> tuple[int, int]:
    position: tuple[int, int] = content.position_of(message_id_of(_ids(given)))
    if isinstance(given, dict) and given.get("excluded"):
        return content.log.ledgers.next_valid(*position)
    return position


def _batch_index(given: Any) -> int:
    """Return the batch index of a message id in JSON form. -1 if the id refers to a whole entry."""
    found = given.get("batchIndex", -1) if isinstance(given, dict) else -1
    if not isinstance(found, int):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{given!r} is not a message id")
    return found


def _ids(given: Any) -> tuple[int, int]:
    """Return the ledger id and the entry id of a message id in JSON form. 400 if it is not a message id."""
    if given is None or given == "latest":
        return INT64_MAX, INT64_MAX
    if given == "earliest":
        return -1, -1
    ids: list[Any] = (
        [given.get(name) for name in ("ledgerId", "entryId")] if isinstance(given, dict) else [None]
    )
    if not all(map(is_int64, ids)):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{given!r} is not a message id")
    return ids[0], ids[1]
