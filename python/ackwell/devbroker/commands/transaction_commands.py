"""Handlers of the commands for the transaction coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.devbroker.broker_state import COORDINATOR_COUNT, parse_topic_name
from ackwell.devbroker.commands.enums import enum_of
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode
from ackwell.protocol import messages
from ackwell.protocol.command_ack import TransactionId
from ackwell.protocol.constants import CommandType, TxnAction

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.devbroker.client_connection import ClientConnection


def _answer(
    connection: ClientConnection,
    command: Any,
    answer_type: CommandType,
    name: str,
    act: Callable[[], None],
) -> None:
    answer = messages.message(name)(
        request_id=command.request_id,
        txnid_most_bits=command.txnid_most_bits,
        txnid_least_bits=command.txnid_least_bits,
    )
    try:
        act()
    except CommandRefusedError as refusal:
        answer.error, answer.message = refusal.code, str(refusal)
    connection.send(answer_type, answer)


def connect(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Connect a client to the transaction coordinator."""
    answer = messages.CommandTcClientConnectResponse(request_id=command.request_id)
    connection.send(CommandType.TC_CLIENT_CONNECT_RESPONSE, answer)


def begin(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Open a transaction."""
    state = connection.state
    if command.tc_id not in range(COORDINATOR_COUNT):
        refused = messages.CommandNewTxnResponse(
            request_id=command.request_id,
            txnid_most_bits=command.tc_id,
            error=ErrorCode.TRANSACTION_COORDINATOR_NOT_FOUND,
            message=f"Transaction coordinator with id {command.tc_id} not found!",
        )
        connection.send(CommandType.NEW_TXN_RESPONSE, refused)
        return
    most, least = state.begin_transaction(command.tc_id, command.txn_ttl_millis)
    answer = messages.CommandNewTxnResponse(
        request_id=command.request_id, txnid_most_bits=most, txnid_least_bits=least
    )
    connection.send(CommandType.NEW_TXN_RESPONSE, answer)


def add_topics(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Add topics to a transaction. The client sends this command before it publishes to the topics."""
    txn = TransactionId.of(command)
    for name in command.partitions:
        parse_topic_name(name)
    topics = list(command.partitions)
    _answer(
        connection,
        command,
        CommandType.ADD_PARTITION_TO_TXN_RESPONSE,
        "CommandAddPartitionToTxnResponse",
        lambda: connection.state.coordinator.add(txn, "topics", topics),
    )


def add_subscriptions(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Add subscriptions to a transaction. The client sends this command before it acknowledges on them."""
    txn = TransactionId.of(command)
    for each in command.subscription:
        parse_topic_name(each.topic)
    names = [(each.topic, each.subscription) for each in command.subscription]
    _answer(
        connection,
        command,
        CommandType.ADD_SUBSCRIPTION_TO_TXN_RESPONSE,
        "CommandAddSubscriptionToTxnResponse",
        lambda: connection.state.coordinator.add(txn, "subscriptions", names),
    )


def end(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Commit or abort a transaction."""
    txn = TransactionId.of(command)
    state = connection.state
    _answer(
        connection,
        command,
        CommandType.END_TXN_RESPONSE,
        "CommandEndTxnResponse",
        lambda: state.end_transaction(txn, enum_of(TxnAction, command.txn_action)),
    )
