"""Messages and acknowledgments in a transaction take effect at its commit, never after an abort."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ackwell.errors import ErrorCode
from ackwell.protocol.constants import CommandType, TxnAction
from tests.devbroker.raw import RawClient

if TYPE_CHECKING:
    from ackwell.devbroker import Broker

TOPIC = "t"
"""The short name of the topic, as the Java client sends it."""


def begin(client: RawClient, ttl_ms: int = 60_000) -> dict[str, Any]:
    client.send(CommandType.NEW_TXN, request_id=10, txn_ttl_millis=ttl_ms, tc_id=0)
    answer = client.until(CommandType.NEW_TXN_RESPONSE)
    return {
        "txnid_most_bits": answer.txnid_most_bits,
        "txnid_least_bits": answer.txnid_least_bits,
    }


def join(client: RawClient, txn: dict[str, Any], topic: str = TOPIC) -> None:
    client.send(CommandType.ADD_PARTITION_TO_TXN, request_id=11, partitions=[topic], **txn)
    client.until(CommandType.ADD_PARTITION_TO_TXN_RESPONSE)
    subscription = [{"topic": topic, "subscription": "s"}]
    client.send(CommandType.ADD_SUBSCRIPTION_TO_TXN, request_id=12, subscription=subscription, **txn)
    client.until(CommandType.ADD_SUBSCRIPTION_TO_TXN_RESPONSE)


def end(client: RawClient, txn: dict[str, Any], action: TxnAction) -> Any:
    client.send(CommandType.END_TXN, request_id=13, txn_action=action, **txn)
    return client.until(CommandType.END_TXN_RESPONSE)


def delivered(client: RawClient) -> list[int]:
    """Return the entries that were delivered up to now."""
    client.send(CommandType.PING)
    found = []
    while (command := client.receive()).type != CommandType.PONG:
        if command.type == CommandType.MESSAGE:
            found.append(command.message.message_id.entryId)
    return found


@pytest.mark.parametrize(("action", "wanted"), [(TxnAction.COMMIT, [0, 1]), (TxnAction.ABORT, [1])])
def test_messages_of_a_transaction_are_delivered_when_it_is_committed(
    broker: Broker, action: TxnAction, wanted: list[int]
) -> None:
    with RawClient(broker) as client:
        client.subscribe("t")
        client.produce("t")
        txn = begin(client)
        join(client, txn)
        client.publish(0, b"in", **txn)
        client.publish(1, b"behind it")
        assert delivered(client) == []
        client.send(CommandType.END_TXN, request_id=13, txn_action=action, **txn)
        assert delivered(client) == wanted
        broker.validate()


@pytest.mark.parametrize(("action", "again"), [(TxnAction.COMMIT, []), (TxnAction.ABORT, [0])])
def test_acknowledgments_in_a_transaction_count_when_it_is_committed(
    broker: Broker, action: TxnAction, again: list[int]
) -> None:
    with RawClient(broker) as client:
        client.subscribe("t", permits=10)
        client.produce("t")
        position = client.publish(0, b"x").message_id
        delivered(client)
        txn = begin(client)
        join(client, txn)
        client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[position], request_id=20, **txn)
        assert not client.until(CommandType.ACK_RESPONSE).HasField("error")
        client.send(CommandType.END_TXN, request_id=13, txn_action=action, **txn)
        assert delivered(client) == again
        broker.validate()


def test_a_transaction_that_takes_too_long_is_aborted(broker: Broker) -> None:
    with RawClient(broker) as client:
        client.subscribe("t")
        client.produce("t")
        txn = begin(client, ttl_ms=5_000)
        join(client, txn)
        client.publish(0, b"in", **txn)
        client.publish(1, b"behind it")
        broker.clock.advance(seconds=6)
        assert delivered(client) == [1]
        assert end(client, txn, TxnAction.COMMIT).HasField("error")


@pytest.mark.parametrize("began", [True, False])
def test_a_message_of_a_transaction_that_is_not_open_is_not_delivered_and_holds_nothing_back(
    broker: Broker, began: bool
) -> None:
    with RawClient(broker) as client:
        client.subscribe("t")
        client.produce("t")
        txn = {"txnid_most_bits": 0, "txnid_least_bits": 99}
        if began:
            txn = begin(client, ttl_ms=5_000)
            join(client, txn)
            broker.clock.advance(seconds=6)
        assert client.publish(0, b"late", **txn).message_id.entryId == 0
        client.publish(1, b"behind it")
        assert delivered(client) == [1]
        broker.restart("ackwell")
    with RawClient(broker) as client:
        client.subscribe("t")
        assert delivered(client) == [1]
        broker.validate()


def test_an_acknowledgment_in_a_transaction_that_expired_is_refused(broker: Broker) -> None:
    with RawClient(broker) as client:
        client.subscribe("t")
        client.produce("t")
        position = client.publish(0, b"x").message_id
        txn = begin(client, ttl_ms=5_000)
        join(client, txn)
        broker.clock.advance(seconds=6)
        client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[position], request_id=20, **txn)
        assert client.until(CommandType.ACK_RESPONSE).error == ErrorCode.TRANSACTION_NOT_FOUND
        broker.validate()
