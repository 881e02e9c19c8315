"""Handlers of PRODUCER, SEND and CLOSE_PRODUCER."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.cursor.ack_sets import BATCH_SIZE_MAX
from ackwell.devbroker import backlog_quotas
from ackwell.devbroker.clock import TIME_MAX_MS
from ackwell.devbroker.commands.enums import enum_of
from ackwell.devbroker.entry import LogEntry
from ackwell.devbroker.producers import Producer
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode, FrameError
from ackwell.protocol import messages
from ackwell.protocol.command_ack import TransactionId
from ackwell.protocol.constants import AccessMode, CommandType
from ackwell.protocol.fast_frames import receipt_frame
from ackwell.protocol.payload import read_payload
from ackwell.subscription import SubscriptionType
from ackwell.wire import signed64

if TYPE_CHECKING:
    from ackwell.devbroker.broker_state import BrokerState
    from ackwell.devbroker.client_connection import ClientConnection
    from ackwell.devbroker.clock import Clock
    from ackwell.devbroker.throttle import Throttle
    from ackwell.devbroker.topic import Topic


def open_producer(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Open a producer. If the topic does not admit it yet, the producer waits."""
    state = connection.state
    topic = state.topic(command.topic)
    connection.service.authorize(connection.role, topic.name, "produce")
    topic.check_open()
    state.shared.check_memory()
    backlog_quotas.check_producer(topic)
    known = connection.producers.get(command.producer_id)
    if known is not None:
        # The client sends the command again, because it did not receive the answer to the first one.
        if not known.ready:
            message = "Producer is already present on the connection"
            raise CommandRefusedError(ErrorCode.SERVICE_NOT_READY, message)
        known.request_id = command.request_id
        _answer(topic, known)
        return
    producer = Producer(
        connection=connection,
        producer_id=command.producer_id,
        name=command.producer_name or state.new_name(),
        topic=str(topic.name),
        access_mode=enum_of(AccessMode, command.producer_access_mode),
        epoch=command.epoch,
        request_id=command.request_id,
        user_named=command.user_provided_producer_name and bool(command.producer_name),
        topic_epoch=signed64(command.topic_epoch) if command.HasField("topic_epoch") else None,
        metadata={each.key: each.value for each in command.metadata},
        connected_ms=state.clock.now_ms(),
    )
    if command.HasField("schema"):
        producer.schema_version = state.put_schema(topic.name, command.schema)
    topic.producers.join(producer)
    connection.producers[producer.producer_id] = producer
    connection.closed_producers.discard(producer.producer_id)
    if command.initial_subscription_name and command.initial_subscription_name not in topic.subscriptions:
        # Clients send this name for a dead letter topic. The subscription keeps the messages until a consumer
        # subscribes.
        topic.subscribe(
            command.initial_subscription_name,
            SubscriptionType.EXCLUSIVE,
            topic.content.first_position,
            durable=True,
        )
    _answer(topic, producer)


def _answer(topic: Topic, producer: Producer) -> None:
    """Answer the PRODUCER command. The answer contains whether the producer may send or has to wait."""
    connection = producer.connection
    if producer.ready:
        connection.send_ready(producer, topic.producers.last_sequence_id(producer.name))
    else:
        waiting = messages.CommandProducerSuccess(
            request_id=producer.request_id, producer_name=producer.name, producer_ready=False
        )
        connection.send(CommandType.PRODUCER_SUCCESS, waiting)


def publish(connection: ClientConnection, command: Any, payload: bytes) -> None:
    """Append an entry to the log, and send its receipt."""
    producer = connection.producers.get(command.producer_id)
    if producer is None and command.producer_id in connection.closed_producers:
        return
    if producer is None or not producer.ready:
        raise FrameError(f"a message of producer {command.producer_id}, which is not open")
    try:
        position = _publish(connection.state, producer, command, payload)
    except CommandRefusedError as refusal:
        connection.send(
            CommandType.SEND_ERROR,
            messages.CommandSendError(
                producer_id=command.producer_id,
                sequence_id=command.sequence_id,
                error=refusal.code,
                message=str(refusal),
            ),
        )
        return
    connection.send_frame(
        receipt_frame(
            command.producer_id,
            command.sequence_id,
            *position,
            highest_sequence_id=command.highest_sequence_id,
        )
    )


def _publish(state: BrokerState, producer: Producer, command: Any, data: bytes) -> tuple[int, int]:
    topic, shared = state.topics[producer.topic], state.shared
    if shared.faults.any and shared.faults.refuses_send(producer.topic, producer.name):
        raise CommandRefusedError(ErrorCode.SERVICE_NOT_READY, "injected fault: refuse_sends")
    if producer.connection.payload_discarded:
        raise shared.memory_refusal()
    if len(data) > state.settings.max_message_bytes + _CHECKSUM_BYTES:
        raise CommandRefusedError(ErrorCode.NOT_ALLOWED_ERROR, f"a message of {len(data):,} bytes")
    payload = read_payload(data)
    if not payload.checksum_holds:
        raise CommandRefusedError(ErrorCode.CHECKSUM_ERROR, "Checksum failed on the broker")
    deduplicates = topic.producers.deduplicates()
    if deduplicates and topic.producers.is_duplicate(producer.name, command.sequence_id):
        return -1, -1
    entry = _entry(command, payload.metadata, data, state.clock)
    is_open = entry.transaction is None or state.coordinator.is_open(entry.transaction)
    position = topic.publish(entry, is_open=is_open)
    if topic.publish_throttle is not None:
        _slow_down(producer.connection, topic.publish_throttle, entry)
    if shared.faults.any:
        shared.faults.published(producer.topic, producer.name)
    producer.messages_in += command.num_messages
    if deduplicates:
        highest = max(command.sequence_id, command.highest_sequence_id)
        topic.producers.last_sequence_ids[producer.name] = highest
    return position


def _slow_down(connection: ClientConnection, throttle: Throttle, entry: LogEntry) -> None:
    """Count a message for the publish rate.

    If the rate is exceeded, stop reading the commands of the client until the rate permits another message.
    """
    throttle.permits()
    throttle.use(entry.batch_size, len(entry.data))
    if 0 in throttle.permits():
        connection.pause_reading_until(throttle.ready_ms())


def _entry(command: Any, metadata: Any, data: bytes, clock: Clock) -> LogEntry:
    size = metadata.num_messages_in_batch
    if not 0 < size <= BATCH_SIZE_MAX:
        raise CommandRefusedError(
            ErrorCode.NOT_ALLOWED_ERROR, f"a batch of {size:,}; expected 1 to {BATCH_SIZE_MAX:,}"
        )
    # The client takes the publish time from the machine's time, so add the offset of the broker's clock.
    publish_ms, deliver_at_ms = min(metadata.publish_time + clock.moved_ms, TIME_MAX_MS), 0
    if metadata.deliver_at_time:
        # The client determines only the delay. The delay starts at the time of the broker's clock.
        delay_ms = metadata.deliver_at_time - metadata.publish_time
        deliver_at_ms = min(clock.now_ms() + delay_ms, TIME_MAX_MS) if delay_ms > 0 else 0
    transaction = None
    # Some clients give the transaction only in the command, and not in the message's metadata.
    if command.HasField("txnid_most_bits") and command.HasField("txnid_least_bits"):
        transaction = TransactionId.of(command)
    return LogEntry(
        data,
        size,
        publish_ms,
        deliver_at_ms,
        transaction,
    )


_CHECKSUM_BYTES = 64
"""The maximum size in bytes of those parts of an entry that are neither metadata nor payload."""


def close_producer(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Close a producer."""
    producer = connection.producers.pop(command.producer_id, None)
    if producer is not None:
        connection.leave(producer)
    connection.succeed(command.request_id)
