"""ACK and REDELIVER_UNACKNOWLEDGED_MESSAGES."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from ackwell.devbroker.commands import handles
from ackwell.errors import ProtocolError
from ackwell.protocol import messages
from ackwell.protocol.codes import CommandType
from ackwell.replay.events import Kind
from ackwell.subscription import AckType, CommandAck, MessageId, TransactionId, ValidationError
from ackwell.wire import signed64

if TYPE_CHECKING:
    from ackwell.devbroker.connection import Connection
    from ackwell.devbroker.consumers import Consumer


log = logging.getLogger("ackwell.devbroker")

INT64_MAX: Final = 2**63 - 1
"""Ids beyond are those of earliest and latest, which are no messages."""


@handles(CommandType.ACK)
def acknowledge(connection: Connection, command: Any, _: bytes) -> None:
    """Acknowledge messages, and answer where the client waits for it."""
    consumer = connection.consumers.get(command.consumer_id)
    faults = connection.state.faults
    if consumer is None or (faults.any and faults.loses_ack()):
        return
    error: ProtocolError | None = None
    try:
        _apply(consumer, command)
    except ProtocolError as refusal:
        # Outside of transactions a broker ignores what is against the rules, and answers with success.
        error = refusal if command.HasField("txnid_most_bits") else None
        log.info("%s: ignored: %s", connection.address, refusal)
    consumer.subscription.wake()
    if command.HasField("request_id"):
        consumer.subscription.topic.broker.when_durable(
            consumer.subscription, lambda: _answer(connection, command, error)
        )


def _apply(consumer: Consumer, command: Any) -> None:
    """Tell the subscription what was acknowledged, and take it down."""
    source = consumer.subscription
    plain = not (
        command.ack_type
        or command.HasField("txnid_most_bits")
        or command.HasField("validation_error")
        or command.properties
    )
    if plain:
        whole = _acknowledge_each(consumer, command.message_id)
    else:
        source.subscription.handle(consumer.key, _command(command))
        whole = not command.HasField("txnid_most_bits")
    source.acknowledged(whole=whole)
    transaction = None
    if command.HasField("txnid_most_bits"):
        transaction = f"{command.txnid_most_bits}:{command.txnid_least_bits}"
    kind = Kind.ACK_CUMULATIVE if command.ack_type else Kind.ACK
    for each in command.message_id:
        place = signed64(each.ledgerId), signed64(each.entryId)
        if place[0] >= 0 and place[1] >= 0:
            source.record(
                kind,
                place,
                consumer=consumer.name,
                ack_set=tuple(each.ack_set) or None,
                transaction=transaction,
            )


def _acknowledge_each(consumer: Consumer, message_ids: Any) -> bool:
    """Acknowledge messages one by one; return whether a whole entry was among them."""
    subscription, whole = consumer.subscription.subscription, False
    for each in message_ids:
        if each.ledgerId > INT64_MAX or each.entryId > INT64_MAX:
            continue
        try:
            subscription.ack(consumer.key, each.ledgerId, each.entryId, each.ack_set)
        except ProtocolError as refusal:
            log.info("%s: ignored: %s", consumer.connection.address, refusal)
        whole = whole or not each.ack_set
    return whole


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


def _answer(connection: Connection, command: Any, error: ProtocolError | None) -> None:
    answer = messages.CommandAckResponse(consumer_id=command.consumer_id, request_id=command.request_id)
    if command.HasField("txnid_most_bits"):
        answer.txnid_most_bits = command.txnid_most_bits
        answer.txnid_least_bits = command.txnid_least_bits
    if error is not None:
        answer.error, answer.message = error.code, str(error)
    connection.send(CommandType.ACK_RESPONSE, answer)


@handles(CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES)
def redeliver(connection: Connection, command: Any, _: bytes) -> None:
    """Take messages back and deliver them again."""
    consumer = connection.consumers.get(command.consumer_id)
    if consumer is None:
        return
    epoch = None
    if command.HasField("consumer_epoch"):
        epoch = consumer.epoch = max(consumer.epoch, command.consumer_epoch)
    ids = [(signed64(each.ledgerId), signed64(each.entryId)) for each in command.message_ids]
    places = [place for place in ids if place[0] >= 0 and place[1] >= 0]
    if places or not ids:
        consumer.subscription.redeliver(consumer, places or None, epoch)
