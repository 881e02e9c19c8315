"""A full ledger closes, and goes when every subscription has consumed it; a restart opens another."""

from __future__ import annotations

from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.devbroker.broker_conf import settings_of
from ackwell.protocol.constants import CommandType
from ackwell.replay.events import Kind
from tests.devbroker.raw import RawClient


def ledgers(broker: Broker) -> list[int]:
    (topic,) = broker._broker.state.topics.values()
    return broker.call(lambda: [len(each) for each in topic.content.log.entries.values()])


def test_a_consumed_ledger_is_trimmed_when_the_next_one_begins() -> None:
    with Broker(settings=DevBrokerSettings(entries_per_ledger=2)) as broker, RawClient(broker) as client:
        client.subscribe("t")
        client.produce("t")
        positions = [client.publish(number, b"x").message_id for number in range(2)]
        client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=positions)
        client.publish(2, b"x")
        assert ledgers(broker) == [1]
        assert Kind.TRIM in [event.kind for event in broker.events]
        broker.validate()


def test_an_old_ledger_is_closed_and_trimmed_once_it_is_consumed() -> None:
    settings = settings_of(["managedLedgerMaxLedgerRolloverTimeMinutes=10"])
    with Broker(settings=settings) as broker, RawClient(broker) as client:
        client.subscribe("t")
        client.produce("t")
        positions = [client.publish(0, b"x").message_id]
        broker.clock.advance(minutes=9)
        positions.append(client.publish(1, b"x").message_id)
        assert ledgers(broker) == [2]
        broker.clock.advance(minutes=6)
        client.publish(2, b"x")
        assert ledgers(broker) == [2, 1]
        client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=positions)
        client.publish(3, b"x")
        broker.clock.advance(minutes=5)
        assert ledgers(broker) == [2]
        broker.validate()


def test_a_restart_opens_a_ledger_and_trims_none() -> None:
    with Broker() as broker:
        with RawClient(broker) as client:
            client.produce("t")
            client.publish(0, b"kept, though nobody has subscribed")
        broker.restart()
        with RawClient(broker) as client:
            client.produce("t")
            client.publish(0, b"x")
            assert ledgers(broker) == [1, 1]
            client.subscribe("t")
            assert client.until(CommandType.MESSAGE).message_id.entryId == 0
