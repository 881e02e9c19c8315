"""Each injected fault has its effect, and a seed repeats it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackwell.devbroker.faults import Faults
from ackwell.errors import ErrorCode
from ackwell.protocol.constants import CommandType
from ackwell.replay.events import Kind
from tests.devbroker.raw import RawClient

if TYPE_CHECKING:
    from ackwell.devbroker import Broker


def kinds(broker: Broker, kind: Kind) -> int:
    return [event.kind for event in broker.events].count(kind)


def test_sends_are_refused(broker: Broker) -> None:
    broker.faults.refuse_sends(1)
    with RawClient(broker) as client:
        client.produce("t")
        assert client.publish(0, b"x").error == ErrorCode.SERVICE_NOT_READY
        broker.faults.clear()
        assert client.publish(0, b"x").message_id.entryId == 0


def test_acknowledgments_are_lost(broker: Broker) -> None:
    broker.faults.lose_acks(1)
    with RawClient(broker) as client:
        client.subscribe("t")
        client.produce("t")
        position = client.publish(0, b"x").message_id
        client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[position])
        client.send(CommandType.PING)
        client.until(CommandType.PONG)
    assert kinds(broker, Kind.ACK) == 0


def test_one_of_several_grouped_acknowledgments_is_lost(broker: Broker) -> None:
    broker.faults.lose_acks(next=1)
    with RawClient(broker) as client:
        client.subscribe("t")
        client.produce("t")
        ids = [client.publish(number, b"x").message_id for number in range(3)]
        client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=ids, request_id=5)
        client.until(CommandType.ACK_RESPONSE)
    assert [each.position.entry_id for each in broker.backlog("t", "s")] == [0]
    assert kinds(broker, Kind.ACK) == 2


def test_a_fault_without_an_occasion_is_listed(broker: Broker) -> None:
    broker.faults.lose_acks(topic="typo", subscription="s")
    broker.faults.refuse_sends(0.5, topic="t")
    broker.faults.drop_connections(0)
    wrong = "lose_acks for persistent://public/default/typo s"
    assert broker.faults.unused == [wrong, "refuse_sends for persistent://public/default/t"]
    with RawClient(broker) as client:
        client.produce("t")
        client.publish(0, b"x")
    assert broker.faults.unused == [wrong]
    broker.faults.clear()
    assert broker.faults.unused == []


def test_messages_are_sent_twice(broker: Broker) -> None:
    broker.faults.duplicate_messages(1)
    with RawClient(broker) as client:
        client.subscribe("t")
        client.produce("t")
        client.publish(0, b"x")
        first, second = client.until(CommandType.MESSAGE), client.until(CommandType.MESSAGE)
        assert first == second


def test_connections_are_dropped(broker: Broker) -> None:
    with RawClient(broker) as client:
        broker.faults.drop_connections(1)
        client.send(CommandType.PING)
        with pytest.raises(ConnectionError):
            client.receive()


def test_frames_are_delayed_in_their_order(broker: Broker) -> None:
    with RawClient(broker) as client:
        broker.faults.delay_frames(1, 30)
        client.produce("t")
        assert [client.publish(number, b"x").message_id.entryId for number in range(3)] == [0, 1, 2]


def test_a_slow_consumer_gets_its_messages_one_after_another(broker: Broker) -> None:
    broker.faults.slow_consumer("snail", 50)
    with RawClient(broker) as client:
        client.subscribe("t", consumer_name="snail")
        client.produce("t")
        for number in range(3):
            client.publish(number, b"x")
        got = [client.until(CommandType.MESSAGE).message_id.entryId for _ in range(3)]
        assert got == [0, 1, 2]


def test_a_seed_makes_the_same_faults_again() -> None:
    def row(seed: int) -> list[bool]:
        faults = Faults()
        faults.seed(seed)
        faults.refuse_sends(0.5)
        return [faults.refuses_send("t", "p") for _ in range(50)]

    assert row(7) == row(7)
    assert row(7) != row(8)
    assert 10 < sum(row(7)) < 40


@pytest.mark.parametrize("probability", [-0.1, 1.1])
def test_a_probability_outside_0_to_1_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="expected 0 to 1"):
        Faults().lose_acks(probability)
