"""ACK and REDELIVER_UNACKNOWLEDGED_MESSAGES."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.devbroker.commands import handles
from ackwell.errors import AckwellError
from ackwell.protocol import messages
from ackwell.protocol.codes import CommandType, ServerError
from ackwell.replay.events import Kind
from ackwell.subscription import AckType, CommandAck, MessageId, TransactionId, ValidationError
from ackwell.wire import signed64

if TYPE_CHECKING:
    from ackwell.devbroker.connection import Connection
    from ackwell.devbroker.consumers import Consumer


@handles(CommandType.ACK)
def acknowledge(connection: Connection, command: Any, _: bytes) -> None:
    """Acknowledge messages, and answer where the client waits for it."""
    consumer = connection.consumers.get(command.consumer_id)
    faults = connection.state.faults
    if consumer is None or (faults.any and faults.loses_ack()):
        return
    error: AckwellError | None = None
    try:
        apply(consumer, command)
    except AckwellError as refusal:
        error = refusal
    consumer.subscription.wake()
    if command.HasField("request_id"):
        consumer.subscription.topic.broker.when_durable(
            consumer.subscription, lambda: _answer(connection, command, error)
        )


def apply(consumer: Consumer, command: Any) -> None:
    """Tell the subscription what was acknowledged, and take it down."""
    source = consumer.subscription
    subscription = source.subscription
    plain = not (
        command.HasField("txnid_most_bits")
        or command.HasField("validation_error")
        or command.properties
        or command.ack_type
    )
    kind = Kind.ACK_CUMULATIVE if command.ack_type else Kind.ACK
    transaction, whole = None, not plain
    if plain:
        for each in command.message_id:
            subscription.ack(consumer.key, signed64(each.ledgerId), signed64(each.entryId), each.ack_set)
            whole = whole or not each.ack_set
    else:
        subscription.handle(consumer.key, _command(command))
        if command.HasField("txnid_most_bits"):
            transaction = f"{command.txnid_most_bits}:{command.txnid_least_bits}"
    source.acknowledged(whole=whole)
    for each in command.message_id:
        source.record(
            kind,
            (signed64(each.ledgerId), signed64(each.entryId)),
            consumer=consumer.name,
            ack_set=tuple(each.ack_set) or None,
            transaction=transaction,
        )


def _command(command: Any) -> CommandAck:
    transaction = None
    if command.HasField("txnid_most_bits") and command.HasField("txnid_least_bits"):
        transaction = TransactionId(command.txnid_most_bits, command.txnid_least_bits)
    return CommandAck(
        consumer_id=command.consumer_id,
        ack_type=AckType(command.ack_type),
        message_ids=tuple(
            MessageId(
                signed64(each.ledgerId),
                signed64(each.entryId),
                ack_set=tuple(each.ack_set),
                batch_size=each.batch_size if each.HasField("batch_size") else None,
            )
            for each in command.message_id
        ),
        validation_error=(
            ValidationError(command.validation_error) if command.HasField("validation_error") else None
        ),
        properties=tuple((each.key, each.value) for each in command.properties),
        transaction=transaction,
    )


def _answer(connection: Connection, command: Any, error: AckwellError | None) -> None:
    answer = messages.CommandAckResponse(consumer_id=command.consumer_id, request_id=command.request_id)
    if command.HasField("txnid_most_bits"):
        answer.txnid_most_bits = command.txnid_most_bits
        answer.txnid_least_bits = command.txnid_least_bits
    if error is not None:
        in_transaction = command.HasField("txnid_most_bits")
        answer.error = ServerError.TRANSACTION_CONFLICT if in_transaction else ServerError.UNKNOWN_ERROR
        answer.message = str(error)
    connection.send(CommandType.ACK_RESPONSE, answer)


@handles(CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES)
def redeliver(connection: Connection, command: Any, _: bytes) -> None:
    """Take messages back and deliver them again."""
    consumer = connection.consumers.get(command.consumer_id)
    if consumer is None:
        return
    if command.HasField("consumer_epoch"):
        consumer.epoch = command.consumer_epoch
    places = [(signed64(each.ledgerId), signed64(each.entryId)) for each in command.message_ids]
    consumer.subscription.redeliver(consumer, places or None)
