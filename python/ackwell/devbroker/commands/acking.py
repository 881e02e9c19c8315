"""Handlers of ACK and REDELIVER_UNACKNOWLEDGED_MESSAGES."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import CorruptStateError, FrameError, LimitError, ProtocolError
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType
from ackwell.subscription import AckColumns
from ackwell.wire import signed64

if TYPE_CHECKING:
    from ackwell.devbroker.client_connection import ClientConnection
    from ackwell.devbroker.subscriptions import ConnectedConsumer

log = logging.getLogger("ackwell.devbroker")


def acknowledge(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Acknowledge messages, and answer if the client requested an answer.

    `command` is a protobuf message, or the bytes of an encoded command. The native core decodes the bytes in
    a third of the time that protobuf needs.
    """
    try:
        columns = AckColumns.decode(command if isinstance(command, bytes) else command.SerializeToString())
    except (CorruptStateError, LimitError) as error:
        raise FrameError(f"invalid CommandAck: {error}") from None
    consumer = connection.consumers.get(columns.consumer_id)
    faults = connection.shared.faults
    if consumer is None:
        return
    if faults.any:
        # A client may send several acknowledgments in one command. The fault loses each of them separately.
        kept = [each for each in columns.message_ids() if not faults.loses_ack(consumer)]
        if not kept:
            return
        columns = columns.with_message_ids(kept)
    refusal: ProtocolError | CommandRefusedError | None
    try:
        if columns.transaction is not None:
            connection.state.coordinator.check(columns.transaction)
        refusal = _apply(consumer, columns)
    except CommandRefusedError as error:
        refusal = error
    consumer.acked_ms = connection.state.clock.now_ms()
    consumer.subscription.wake()
    if columns.request_id is not None:
        connection.shared.call_when_durable(lambda: _answer(connection, columns, refusal))


def _apply(consumer: ConnectedConsumer, columns: AckColumns) -> ProtocolError | None:
    """Apply an acknowledgment. Return the error to send to the client, or None.

    Only an acknowledgment in a transaction can result in an error.
    """
    source = consumer.subscription
    # The connection sends the receipt to the client, so the subscription does not have to create one.
    columns = columns._replace(request_id=None)
    try:
        source.subscription.handle(consumer.key, columns)
    except ProtocolError as refusal:
        log.info("%s: ignored: %s", consumer.connection.address, refusal)
        if columns.transaction is not None:
            return refusal
        columns = source.subscription.accepted_part(columns)
        if len(columns.ledger_ids):
            source.subscription.handle(consumer.key, columns)
    if not len(columns.ledger_ids):
        return None
    source.acknowledged(whole=columns.transaction is None and columns.any_whole_entry)
    source.record_acks(consumer, columns)
    return None


def _answer(
    connection: ClientConnection, columns: AckColumns, error: ProtocolError | CommandRefusedError | None
) -> None:
    answer = messages.CommandAckResponse(consumer_id=columns.consumer_id, request_id=columns.request_id)
    if columns.transaction is not None:
        answer.txnid_most_bits, answer.txnid_least_bits = columns.transaction
    if error is not None:
        answer.error, answer.message = error.code, str(error)
    connection.send(CommandType.ACK_RESPONSE, answer)


def redeliver(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Redeliver some or all unacknowledged messages of a consumer."""
    consumer = connection.consumers.get(command.consumer_id)
    if consumer is None:
        return
    epoch = None
    if command.HasField("consumer_epoch"):
        epoch = consumer.epoch = max(consumer.epoch, signed64(command.consumer_epoch))
    ids = [(signed64(each.ledgerId), signed64(each.entryId)) for each in command.message_ids]
    positions = [position for position in ids if min(position) >= 0]
    if positions or not ids:
        consumer.subscription.redeliver(consumer, positions or None, epoch)
