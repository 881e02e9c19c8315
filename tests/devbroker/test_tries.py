"""The dev broker with ackwell's rule for lost consumers: their entries in hand count."""

from __future__ import annotations

import pytest

from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.protocol.constants import CommandType
from ackwell.replay.events import Kind
from tests.devbroker.raw import RawClient

OURS = {"lost_counts": "in hand", "idle_clears_counts": False}
DECLARED = [{"key": "ackwell.concurrency", "value": "1"}]


def publish(client: RawClient) -> None:
    client.produce("jobs")
    for number in range(3):
        client.publish(number, b"")


def receive(client: RawClient, messages: int) -> list[tuple[int, int]]:
    """Return the entry and the redelivery count of the next messages."""
    found = [client.until(CommandType.MESSAGE) for _ in range(messages)]
    return [(each.message_id.entryId, each.redelivery_count) for each in found]


def lose(running: Broker) -> None:
    """Deliver three messages to a client whose connection ends."""
    with RawClient(running) as client:
        publish(client)
        client.subscribe("jobs", metadata=DECLARED)
        assert receive(client, 3) == [(0, 0), (1, 0), (2, 0)]


def test_a_lost_connection_counts_the_message_in_hand_which_is_delivered_alone() -> None:
    with Broker(settings=DevBrokerSettings(limits=OURS)) as running:
        lose(running)
        with RawClient(running) as client:
            client.subscribe("jobs", metadata=DECLARED)
            suspect = client.until(CommandType.MESSAGE)
            assert (suspect.message_id.entryId, suspect.redelivery_count) == (0, 1)
            client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[suspect.message_id])
            assert receive(client, 2) == [(1, 0), (2, 0)]
        order = [(event.kind, event.entry_id) for event in running.events]
        last = [index for index, each in enumerate(order) if each[0] is Kind.DISPATCH][-3:]
        assert last[0] < order.index((Kind.ACK, 0)) < last[1]


def test_a_broker_counts_nothing() -> None:
    with Broker() as running:
        lose(running)
        with RawClient(running) as client:
            client.subscribe("jobs", metadata=DECLARED)
            assert receive(client, 3) == [(0, 0), (1, 0), (2, 0)]


def test_a_consumer_that_closes_counts_nothing() -> None:
    with Broker(settings=DevBrokerSettings(limits=OURS)) as running, RawClient(running) as client:
        publish(client)
        client.subscribe("jobs", metadata=DECLARED)
        receive(client, 3)
        client.ask(CommandType.CLOSE_CONSUMER, consumer_id=1, request_id=3)
        client.subscribe("jobs", consumer_id=2, metadata=DECLARED)
        assert receive(client, 3) == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize("value", ["", "0", "-1", "many", "1" * 5_000])
def test_a_property_that_is_no_number_is_refused(value: str) -> None:
    with Broker(settings=DevBrokerSettings(limits=OURS)) as running, RawClient(running) as client:
        publish(client)
        fields = {"topic": "jobs", "subscription": "s", "subType": 1, "consumer_id": 1, "request_id": 3}
        metadata = [{"key": "ackwell.concurrency", "value": value}]
        answer = client.ask(CommandType.SUBSCRIBE, metadata=metadata, **fields)
        assert "the property ackwell.concurrency is" in answer.message
