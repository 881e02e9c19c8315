"""ACK and REDELIVER_UNACKNOWLEDGED_MESSAGES."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.commands import handles
from ackwell.errors import CorruptStateError, FrameError, LimitError, ProtocolError
from ackwell.protocol import messages
from ackwell.protocol.codes import CommandType
from ackwell.replay.events import Kind
from ackwell.subscription import AckColumns, AckType
from ackwell.wire import signed64

if TYPE_CHECKING:
    from ackwell.devbroker.connection import Connection
    from ackwell.devbroker.subscriptions import Subscriber

log = logging.getLogger("ackwell.devbroker")


@handles(CommandType.ACK)
def acknowledge(connection: Connection, command: Any, _: bytes) -> None:
    """Acknowledge messages, and answer where the client waits for it.

    `command` is bytes, which the core reads in a third of the time, or a message.
    """
    try:
        columns = AckColumns.decode(command if isinstance(command, bytes) else command.SerializeToString())
    except (CorruptStateError, LimitError) as error:
        raise FrameError(f"no CommandAck: {error}") from None
    consumer = connection.consumers.get(columns.consumer_id)
    faults = connection.state.faults
    if consumer is None or (faults.any and faults.loses_ack()):
        return
    error_: ProtocolError | None = None
    if columns.transaction is None and columns.ack_type is AckType.INDIVIDUAL:
        _individual(consumer, columns)
    else:
        error_ = _other(consumer, columns)
    consumer.subscription.wake()
    if columns.request_id is not None:
        connection.state.when_durable(lambda: _answer(connection, columns, error_))


def _individual(consumer: Subscriber, columns: AckColumns) -> None:
    """Acknowledge messages one by one; what is against the rules is ignored, as a broker ignores it."""
    source = consumer.subscription
    ledger_ids, entry_ids = columns.ledger_ids.tolist(), columns.entry_ids.tolist()
    if columns.ack_set_starts is None and len(ledger_ids) > 1 and min(ledger_ids) >= 0 <= min(entry_ids):
        try:
            source.subscription.ack_many(consumer.key, columns.ledger_ids, columns.entry_ids)
        except ProtocolError:
            pass  # One of them is ahead of the last entry; the others count.
        else:
            source.acknowledged(whole=True)
            source.record_run(Kind.ACK, consumer, ledger_ids, entry_ids)
            return
    whole = False
    for row, place in enumerate(zip(ledger_ids, entry_ids, strict=True)):
        ack_set = columns.ack_set(row)
        if min(place) >= 0 and _acknowledge(consumer, place, ack_set):
            whole = whole or not ack_set
    source.acknowledged(whole=whole)


def _acknowledge(consumer: Subscriber, place: tuple[int, int], ack_set: tuple[int, ...]) -> bool:
    source = consumer.subscription
    try:
        source.subscription.ack(consumer.key, *place, ack_set)
    except ProtocolError as refusal:
        log.info("%s: ignored: %s", consumer.connection.address, refusal)
        return False
    source.record(Kind.ACK, place, consumer=consumer.name, ack_set=ack_set or None)
    return True


def _other(consumer: Subscriber, columns: AckColumns) -> ProtocolError | None:
    """Acknowledge everything up to a message, or in a transaction; return what is answered with an error."""
    source, transaction = consumer.subscription, columns.transaction
    try:
        # Its answer is ours to give, so the subscription need not know of the request.
        source.subscription.handle(consumer.key, replace(columns.command(), request_id=None))
    except ProtocolError as refusal:
        log.info("%s: ignored: %s", consumer.connection.address, refusal)
        # Outside of transactions a broker answers with success.
        return refusal if transaction is not None else None
    source.acknowledged(whole=transaction is None)
    kind = Kind.ACK_CUMULATIVE if columns.ack_type is AckType.CUMULATIVE else Kind.ACK
    name = None if transaction is None else f"{transaction.most_bits}:{transaction.least_bits}"
    places = zip(columns.ledger_ids.tolist(), columns.entry_ids.tolist(), strict=True)
    for row, place in enumerate(places):
        if min(place) >= 0:
            ack_set = columns.ack_set(row) or None
            source.record(kind, place, consumer=consumer.name, ack_set=ack_set, transaction=name)
    return None


def _answer(connection: Connection, columns: AckColumns, error: ProtocolError | None) -> None:
    answer = messages.CommandAckResponse(consumer_id=columns.consumer_id, request_id=columns.request_id)
    if columns.transaction is not None:
        answer.txnid_most_bits, answer.txnid_least_bits = columns.transaction
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
        epoch = consumer.epoch = max(consumer.epoch, signed64(command.consumer_epoch))
    ids = [(signed64(each.ledgerId), signed64(each.entryId)) for each in command.message_ids]
    places = [place for place in ids if min(place) >= 0]
    if places or not ids:
        consumer.subscription.redeliver(consumer, places or None, epoch)
