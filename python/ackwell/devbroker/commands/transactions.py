"""The commands of a transaction coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.devbroker.commands.enums import enum_of
from ackwell.devbroker.refusals import RefusedError
from ackwell.devbroker.state import parsed
from ackwell.protocol import messages
from ackwell.protocol.codes import CommandType, TxnAction
from ackwell.protocol.command_ack import TransactionId

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.devbroker.connection import Connection


def _answer(
    connection: Connection,
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
    except RefusedError as refusal:
        answer.error, answer.message = refusal.code, str(refusal)
    connection.send(answer_type, answer)


def connect(connection: Connection, command: Any, _: bytes) -> None:
    """Let a client use the coordinator."""
    answer = messages.CommandTcClientConnectResponse(request_id=command.request_id)
    connection.send(CommandType.TC_CLIENT_CONNECT_RESPONSE, answer)


def begin(connection: Connection, command: Any, _: bytes) -> None:
    """Open a transaction."""
    state = connection.state
    most, least = state.begin_transaction(command.tc_id, command.txn_ttl_millis)
    answer = messages.CommandNewTxnResponse(
        request_id=command.request_id, txnid_most_bits=most, txnid_least_bits=least
    )
    connection.send(CommandType.NEW_TXN_RESPONSE, answer)


def add_topics(connection: Connection, command: Any, _: bytes) -> None:
    """Let topics take part, before anything is published to them."""
    txn = TransactionId.of(command)
    topics = [str(parsed(name)) for name in command.partitions]
    _answer(
        connection,
        command,
        CommandType.ADD_PARTITION_TO_TXN_RESPONSE,
        "CommandAddPartitionToTxnResponse",
        lambda: connection.state.coordinator.add(txn, "topics", topics),
    )


def add_subscriptions(connection: Connection, command: Any, _: bytes) -> None:
    """Let subscriptions take part, before anything is acknowledged on them."""
    txn = TransactionId.of(command)
    names = [(str(parsed(each.topic)), each.subscription) for each in command.subscription]
    _answer(
        connection,
        command,
        CommandType.ADD_SUBSCRIPTION_TO_TXN_RESPONSE,
        "CommandAddSubscriptionToTxnResponse",
        lambda: connection.state.coordinator.add(txn, "subscriptions", names),
    )


def end(connection: Connection, command: Any, _: bytes) -> None:
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
