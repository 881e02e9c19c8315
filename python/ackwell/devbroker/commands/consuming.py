"""Handlers of SUBSCRIBE, FLOW, UNSUBSCRIBE, SEEK and the other commands of consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.devbroker.commands.enums import enum_of
from ackwell.devbroker.namespace_policies import MAX_CONSUMERS
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.devbroker.subscriptions import ConnectedConsumer
from ackwell.errors import ErrorCode, FrameError
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType, InitialPosition, KeySharedMode, SubscriptionType
from ackwell.protocol.message_ids import message_id_of
from ackwell.subscription.arguments import INT32_MAX
from ackwell.subscription.consumer import NO_EPOCH
from ackwell.wire import signed64

if TYPE_CHECKING:
    from ackwell.devbroker.client_connection import ClientConnection
    from ackwell.devbroker.subscriptions import TopicSubscription
    from ackwell.devbroker.topic import Topic


def subscribe(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Open a consumer, and create its subscription if it does not exist."""
    if command.consumer_id in connection.consumers:
        connection.succeed(command.request_id)
        return
    state = connection.state
    topic = state.topic(command.topic, create=command.force_topic_creation)
    connection.service.authorize(connection.role, topic.name, "consume")
    type_ = enum_of(SubscriptionType.of, command.subType)
    if command.read_compacted and type_ in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED):
        raise CommandRefusedError(
            ErrorCode.NOT_ALLOWED_ERROR,
            "readCompacted only allowed on failover or exclusive subscriptions",
        )
    if command.HasField("schema"):
        # The schema is checked first, so that a refused consumer does not create a subscription.
        state.put_schema(topic.name, command.schema)
    subscription = topic.subscriptions.get(command.subscription) or _new_subscription(topic, command, type_)
    consumers = sum(len(each.consumers) for each in topic.subscriptions.values())
    state.shared.check_limit(topic.name, MAX_CONSUMERS, consumers, "consumers")
    name = command.consumer_name or state.new_name()
    meta = command.keySharedMeta
    consumer = ConnectedConsumer(
        connection=connection,
        consumer_id=command.consumer_id,
        name=name,
        key=state.new_consumer_key(),
        subscription=subscription,
        priority=command.priority_level,
        epoch=max(signed64(command.consumer_epoch), NO_EPOCH)
        if command.HasField("consumer_epoch")
        else NO_EPOCH,
        metadata={each.key: each.value for each in command.metadata},
        connected_ms=state.clock.now_ms(),
    )
    try:
        subscription.join(
            consumer,
            type_,
            sticky=command.HasField("keySharedMeta") and meta.keySharedMode == KeySharedMode.STICKY,
            hash_ranges=[(each.start, each.end) for each in meta.hashRanges],
        )
    except CommandRefusedError:
        if not subscription.durable and not subscription.consumers:
            subscription.delete()
        raise
    subscription.read_compacted = command.read_compacted
    if command.HasField("replicate_subscription_state"):
        subscription.is_replicated = command.replicate_subscription_state
    connection.consumers[consumer.consumer_id] = consumer
    connection.succeed(command.request_id)
    subscription.notify_active(consumer)


def _new_subscription(topic: Topic, command: Any, type_: SubscriptionType) -> TopicSubscription:
    durable = command.durable and topic.name.persistent
    if command.start_message_rollback_duration_sec:
        since_ms = topic.content.clock.now_ms() - 1_000 * command.start_message_rollback_duration_sec
        start: tuple[int, int] = topic.content.log.first_published_at(since_ms)
    elif command.HasField("start_message_id") and not command.durable:
        # The subscription starts at the start message even if it is excluded. The client then skips this
        # message.
        start = topic.content.position_of(command.start_message_id)
    elif command.initialPosition == InitialPosition.EARLIEST and topic.name.persistent:
        start = topic.content.first_position
    else:
        start = topic.content.end_position
    made = topic.subscribe(command.subscription, type_, start, durable=durable)
    made.properties = {each.key: each.value for each in command.subscription_properties}
    return made


def _consumer(connection: ClientConnection, command: Any) -> ConnectedConsumer:
    consumer = connection.consumers.get(command.consumer_id)
    if consumer is None:
        raise CommandRefusedError(ErrorCode.METADATA_ERROR, "Consumer not found")
    return consumer


def flow(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Add permits to a consumer."""
    consumer = connection.consumers.get(command.consumer_id)
    if consumer is None or not command.messagePermits:
        return
    if command.messagePermits > INT32_MAX:
        raise FrameError(f"{command.messagePermits} permits; expected at most {INT32_MAX}")
    consumer.subscription.subscription.flow(consumer.key, command.messagePermits)
    consumer.flow_ms = connection.state.clock.now_ms()
    consumer.subscription.wake()


def unsubscribe(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Delete a subscription. Refused if other consumers use it."""
    consumer = _consumer(connection, command)
    subscription = consumer.subscription
    if len(subscription.consumers) > 1 and not command.force:
        raise CommandRefusedError(
            ErrorCode.METADATA_ERROR, "Unconnected or shared consumer attempting to unsubscribe"
        )
    for each in list(subscription.consumers.values()):
        if each is consumer:
            connection.consumers.pop(consumer.consumer_id)
            subscription.leave(consumer)
        else:
            each.connection.close_consumer(each)
    subscription.delete()
    connection.succeed(command.request_id)


def close_consumer(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Close a consumer."""
    consumer = connection.consumers.pop(command.consumer_id, None)
    if consumer is not None:
        consumer.subscription.leave(consumer, lost=False)
    connection.succeed(command.request_id)


def seek(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Seek a subscription to a message or to a time."""
    consumer = _consumer(connection, command)
    subscription, content = consumer.subscription, consumer.subscription.content
    if command.HasField("message_id"):
        position, ack_set = content.position_of(command.message_id), list(command.message_id.ack_set)
    elif command.HasField("message_publish_time"):
        position, ack_set = content.log.first_published_at(command.message_publish_time), []
    else:
        raise CommandRefusedError(
            ErrorCode.METADATA_ERROR, "Message id and message publish time were not present"
        )
    # The consumers are closed before the answer is sent. The client drops the messages that arrive before the
    # answer.
    subscription.seek(position, ack_set)
    connection.succeed(command.request_id)


def last_message_id(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Answer with the id of the topic's last message, and the mark-delete position of the subscription."""
    consumer = _consumer(connection, command)
    content = consumer.subscription.content
    last = content.last_message(compacted=consumer.subscription.read_compacted)
    answer = messages.CommandGetLastMessageIdResponse(
        request_id=command.request_id,
        last_message_id=message_id_of(last, partition=content.partition),
        consumer_mark_delete_position=message_id_of(consumer.subscription.cursor.mark_delete_position),
    )
    batch_size = content.batch_size(last)
    if batch_size is not None:
        answer.last_message_id.batch_index = batch_size - 1
    connection.send(CommandType.GET_LAST_MESSAGE_ID_RESPONSE, answer)


def consumer_stats(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Answer with the statistics of a consumer."""
    consumer = _consumer(connection, command)
    source = consumer.subscription
    mine = next(
        each
        for each in source.subscription.summary(source.content.clock.now_ms()).consumers
        if each.consumer == consumer.key
    )
    connection.send(
        CommandType.CONSUMER_STATS_RESPONSE,
        messages.CommandConsumerStatsResponse(
            request_id=command.request_id,
            consumerName=consumer.name,
            availablePermits=max(mine.permits, 0),
            unackedMessages=mine.unacked,
            blockedConsumerOnUnackedMsgs=mine.blocked,
            address=connection.address,
            connectedSince=str(consumer.connected_ms),
            type=str(source.type),
            msgBacklog=source.cursor.backlog_entries,
            msgRateOut=0.0,
            msgThroughputOut=0.0,
            msgRateRedeliver=0.0,
            msgRateExpired=0.0,
            messageAckRate=0.0,
        ),
    )
