"""A restart loses and reports the acknowledgments that Pulsar loses; as ackwell it loses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackwell.devbroker import Broker
from ackwell.replay.events import Kind

pulsar = pytest.importorskip("pulsar")

Connect = Callable[[Broker], Any]

SINCE = (Kind.BROKER_RESTART, Kind.CONSUMER_OPEN)
"""The last event of these kinds shows whether a client has subscribed since the restart."""


def receive_all(consumer: Any) -> list[Any]:
    """Return the messages that are on their way to a consumer, or in its queue."""
    received = []
    while True:
        try:
            received.append(consumer.receive(100))
        except pulsar.Timeout:
            return received


def redelivered(broker: Broker, consumer: Any) -> set[bytes]:
    """Return the messages that a consumer receives after a restart, once its client has subscribed again."""
    deadline = time.monotonic() + 10
    while [each.kind for each in broker.events if each.kind in SINCE][-1] is Kind.BROKER_RESTART:
        assert time.monotonic() < deadline, "the client did not subscribe again"
        time.sleep(0.005)
    broker.settle()
    return {message.data() for message in receive_all(consumer)}


@pytest.fixture
def frozen() -> Iterator[Broker]:
    """A broker with a frozen clock, so that a cursor is written only once."""
    with Broker() as made:
        made.clock.freeze()
        yield made
        made.validate()


def acknowledge(broker: Broker, client: Any, *, messages: int, every: int) -> tuple[Any, set[bytes]]:
    """Publish and receive all, acknowledge one in `every`; return consumer and unacknowledged messages."""
    consumer = client.subscribe("orders", "billing", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer("orders")
    for number in range(messages):
        producer.send(b"%d" % number)
    received = receive_all(consumer)
    assert len(received) == messages
    # The first one alone, because a client groups acknowledgments, and a group is written at once.
    for part in (received[:1], received[1:]):
        for message in part:
            if int(message.data()) % every == 0:
                consumer.acknowledge(message)
        broker.settle()
    return consumer, {b"%d" % number for number in range(messages) if number % every}


def test_a_crash_as_pulsar_redelivers_unwritten_acknowledgments(frozen: Broker, connect: Connect) -> None:
    consumer, unacknowledged = acknowledge(frozen, connect(frozen), messages=20, every=2)
    frozen.crash()
    restarted = frozen.restart()
    (loss,) = restarted.losses.values()
    again = redelivered(frozen, consumer) - unacknowledged
    # The first acknowledgment is written, and the others wait for a second that does not pass.
    assert restarted.how == "crash"
    assert 9 == len(again) == loss.messages == restarted.messages
    assert loss.predicted.messages_before_flush.at_least <= 9
    assert loss.predicted.messages_before_flush.at_most is None or (
        loss.predicted.messages_before_flush.at_most >= 9
    )


def test_a_crash_as_ackwell_delivers_nothing_again_that_was_acknowledged(
    frozen: Broker, connect: Connect
) -> None:
    consumer, unacknowledged = acknowledge(frozen, connect(frozen), messages=20, every=2)
    frozen.crash()
    assert frozen.restart("ackwell").messages == 0
    assert redelivered(frozen, consumer) == unacknowledged


def test_a_graceful_restart_keeps_whole_entries_within_the_limits(broker: Broker, connect: Connect) -> None:
    client = connect(broker)
    consumer, unacknowledged = acknowledge(broker, client, messages=20, every=2)
    restarted = broker.restart("pulsar-4.2")
    assert (restarted.how, restarted.as_, restarted.messages) == ("graceful", "pulsar-4.2", 0)
    assert redelivered(broker, consumer) == unacknowledged


def test_a_client_lives_through_a_restart(broker: Broker, client: Any) -> None:
    consumer = client.subscribe("orders", "billing")
    producer = client.create_producer("orders")
    producer.send(b"before")
    broker.crash()
    broker.restart("ackwell")
    producer.send(b"after")
    assert {consumer.receive(5000).data(), consumer.receive(5000).data()} == {b"before", b"after"}


def test_a_restart_as_a_version_that_the_broker_does_not_behave_as_is_refused(broker: Broker) -> None:
    with pytest.raises(ValueError, match=r"restarts as 'pulsar-4\.2' or as 'ackwell'"):
        broker.restart("pulsar-3.0")
