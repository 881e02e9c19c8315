"""Expiry: messages by their namespace's time to live, consumed ledgers by its retention."""

from __future__ import annotations

from typing import Any

import pytest

from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.devbroker.namespace_policies import Retention
from ackwell.protocol.constants import CommandType
from ackwell.replay.events import Kind
from tests.devbroker.raw import RawClient
from tests.devbroker.test_honest import NAMESPACE, status
from tests.devbroker.test_ledgers import ledgers


def publish(broker: Broker, client: RawClient, number: int, size: int = 1) -> Any:
    """Publish a message with the time of the broker's clock."""
    clock = broker._broker.clock
    now_ms = broker.call(lambda: clock.now_ms() - clock.moved_ms)
    return client.publish(number, bytes(size), publish_time=now_ms).message_id


def backlog(broker: Broker) -> int:
    return len(broker.backlog("t", "s"))


def test_a_message_older_than_its_time_to_live_counts_as_acknowledged() -> None:
    with Broker() as broker, RawClient(broker) as client:
        client.subscribe("t", permits=0)
        client.produce("t")
        assert status(broker, "POST", f"{NAMESPACE}/messageTTL", 60)[0] == 204
        broker.clock.freeze()
        publish(broker, client, 0)
        broker.clock.advance(seconds=239)
        publish(broker, client, 1)
        broker.clock.advance(seconds=2)
        publish(broker, client, 2)
        assert backlog(broker) == 3, "it is looked for every five minutes, as by a broker"
        broker.clock.advance(seconds=59)
        assert backlog(broker) == 1, "those of 300 and 61 seconds are too old, that of 59 is not"
        broker.clock.advance(minutes=5)
        assert backlog(broker) == 0
        publish(broker, client, 3)
        assert status(broker, "DELETE", f"{NAMESPACE}/messageTTL")[0] == 204
        broker.clock.advance(hours=1)
        assert backlog(broker) == 1
        assert [event.kind for event in broker.events].count(Kind.EXPIRE) == 2
        broker.validate()


def test_a_time_to_live_of_zero_expires_nothing() -> None:
    with Broker() as broker, RawClient(broker) as client:
        client.subscribe("t", permits=0)
        client.produce("t")
        publish(broker, client, 0)
        assert status(broker, "POST", f"{NAMESPACE}/messageTTL", 0)[0] == 204
        broker.clock.advance(days=30)
        assert backlog(broker) == 1


def publish_and_consume(
    broker: Broker, client: RawClient, messages: int, size: int = 1, pause_minutes: int = 0
) -> None:
    """Publish messages one by one, and acknowledge each before the next."""
    client.subscribe("t")
    client.produce("t")
    for number in range(messages):
        position = publish(broker, client, number, size)
        client.until(CommandType.MESSAGE)
        client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[position])
        broker.clock.advance(minutes=pause_minutes)
    client.send(CommandType.PING)
    client.until(CommandType.PONG)


@pytest.mark.parametrize(
    ("retention", "kept_before", "kept_after"),
    [
        (None, [1], [1]),
        ({"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}, [1], [1]),
        ({"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}, [2, 2, 1], [1]),
        ({"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}, [2, 2, 1], [2, 2, 1]),
        ({"retentionTimeInMinutes": -1, "retentionSizeInMB": 1}, [2, 1], [2, 1]),
        ({"retentionTimeInMinutes": 10, "retentionSizeInMB": 1}, [2, 1], [1]),
    ],
)
def test_consumed_ledgers_are_kept_by_the_retention(
    retention: dict[str, Any] | None, kept_before: list[int], kept_after: list[int]
) -> None:
    with Broker(settings=DevBrokerSettings(entries_per_ledger=2)) as broker, RawClient(broker) as client:
        if retention is not None:
            assert status(broker, "POST", f"{NAMESPACE}/retention", retention)[0] == 204
        # Without the first ledger the topic has 1.2 MB, without the first two 0.4.
        publish_and_consume(broker, client, 5, size=400_000)
        assert ledgers(broker) == kept_before
        broker.clock.advance(minutes=10)
        broker.clock.advance(minutes=6)
        assert ledgers(broker) == kept_after
        broker.validate()


def test_removing_a_retention_deletes_consumed_ledgers() -> None:
    with Broker(settings=DevBrokerSettings(entries_per_ledger=2)) as broker, RawClient(broker) as client:
        endless = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        assert status(broker, "POST", f"{NAMESPACE}/retention", endless)[0] == 204
        publish_and_consume(broker, client, 5)
        assert status(broker, "DELETE", f"{NAMESPACE}/retention")[0] == 204
        assert ledgers(broker) == [2, 2, 1]
        broker.clock.advance(minutes=5)
        assert ledgers(broker) == [1]


def test_the_policies_are_kept_when_the_process_is_not(tmp_path: Any) -> None:
    settings = DevBrokerSettings(entries_per_ledger=2)
    with Broker(settings=settings, path=tmp_path / "b") as broker, RawClient(broker) as client:
        ten_minutes = {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}
        assert status(broker, "POST", f"{NAMESPACE}/retention", ten_minutes)[0] == 204
        publish_and_consume(broker, client, 5)
    with Broker(settings=settings, path=tmp_path / "b") as broker:
        broker.clock.advance(minutes=5)
        assert ledgers(broker) == [2, 2, 1, 0]
        broker.clock.advance(minutes=6)
        assert ledgers(broker) == [0]


def test_a_ledger_that_was_read_is_as_old_as_its_last_entry(tmp_path: Any) -> None:
    settings = DevBrokerSettings(entries_per_ledger=2)
    with Broker(settings=settings, path=tmp_path / "b") as broker, RawClient(broker) as client:
        a_while = {"retentionTimeInMinutes": 15, "retentionSizeInMB": -1}
        assert status(broker, "POST", f"{NAMESPACE}/retention", a_while)[0] == 204
        publish_and_consume(broker, client, 3, pause_minutes=4)
    with Broker(settings=settings, path=tmp_path / "b") as broker:
        # The clock continues, so the first entries are 17 and 13 minutes old.
        broker.clock.advance(minutes=5)
        assert ledgers(broker) == [2, 1, 0], "the second entry came four minutes after the first"
        broker.clock.advance(minutes=10)
        assert ledgers(broker) == [0]


def test_a_ledger_goes_after_its_time_or_if_the_rest_has_the_size() -> None:
    both = Retention(time_ms=1_000, size_bytes=100)
    assert [both.deletes(*each) for each in ((1_000, 99), (1_001, 99), (1_000, 100))] == [False, True, True]
    assert not Retention(-1, -1).deletes(10**12, 10**12)
