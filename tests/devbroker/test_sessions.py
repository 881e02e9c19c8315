"""Sessions of real clients at random, with dropped connections and crashes, checked after every step.

As ackwell, no message is redelivered whose acknowledgment has arrived. As Pulsar, the redelivered messages
are those that the restart reports, within the prediction of `restart_loss`. At the end a client receives
exactly the unacknowledged messages.
"""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from ackwell.cursor.ack_sets import from_words
from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.replay.events import Kind

pulsar = pytest.importorskip("pulsar")

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
TYPES = (
    pulsar.ConsumerType.Shared,
    pulsar.ConsumerType.Exclusive,
    pulsar.ConsumerType.Failover,
    pulsar.ConsumerType.KeyShared,
)
STEPS = 12


class Session:
    """One broker, one topic, one subscription, a client, and the known state of each message."""

    def __init__(self, seed: int, broker: Broker) -> None:
        self.chance = random.Random(seed)
        self.broker = broker
        self.kind = self.chance.choice(TYPES)
        self.client = pulsar.Client(broker.url, logger=QUIET)
        self.consumer = self.subscribe()
        self.producer = self.client.create_producer(
            "orders", batching_enabled=self.chance.random() < 0.5, batching_max_publish_delay_ms=1
        )
        self.published: list[bytes] = []
        self.held: list[Any] = []
        self.acked: set[bytes] = set()
        """Messages that the client acknowledged; the acknowledgment may not have arrived."""
        self.durable: set[bytes] = set()
        """Messages whose acknowledgment has arrived."""
        self.checked = 0
        self.positions: dict[bytes, tuple[int, int, int]] = {}

    def subscribe(self) -> Any:
        return self.client.subscribe(
            "orders",
            "billing",
            consumer_type=self.kind,
            initial_position=pulsar.InitialPosition.Earliest,
            batch_index_ack_enabled=True,
        )

    def step(self) -> None:
        steps = (self.publish, self.receive, self.acknowledge, self.take_back, self.drop, self.restart)
        weights = (4, 5, 5, 1, 1, 2)
        durable = set(self.durable)
        self.chance.choices(steps, weights)[0]()
        self.broker.validate()
        self.check_dispatched(durable & self.durable)

    def check_dispatched(self, durable: set[bytes]) -> None:
        """Check that no message was redelivered after its acknowledgment arrived.

        The client's deliveries cannot show this, because its queue may contain a copy.
        """
        again = {
            (event.ledger_id, event.entry_id, index)
            for event in self.broker.events[self.checked :]
            if event.kind is Kind.DISPATCH
            for index in range(event.batch_size or 1)
            if event.ack_set is None or from_words(event.ack_set) >> index & 1
        }
        self.checked = len(self.broker.events)
        came_back = {body for body in durable if self.positions[body] in again}
        assert not came_back, f"{came_back} were sent again, though their acknowledgments had arrived"

    def publish(self) -> None:
        for _ in range(self.chance.randrange(1, 30)):
            body = b"%d" % len(self.published)
            self.published.append(body)
            self.producer.send_async(body, None, partition_key=str(self.chance.randrange(5)))
        self.producer.flush()

    def receive(self) -> None:
        for message in drain(self.consumer, self.chance.randrange(1, 40)):
            self.see(message)
            self.held.append(message)

    def see(self, message: Any) -> None:
        """Store the position of a message."""
        body = message.data()
        identity = message.message_id()
        self.positions[body] = identity.ledger_id(), identity.entry_id(), max(identity.batch_index(), 0)

    def acknowledge(self) -> None:
        self.chance.shuffle(self.held)
        wanted = self.chance.randrange(len(self.held) + 1)
        mine, self.held = self.held[:wanted], self.held[wanted:]
        for message in mine:
            self.consumer.acknowledge(message)
            self.acked.add(message.data())
        if self.chance.random() < 0.7:
            self.broker.settle()
            self.durable |= self.acked & self.acknowledged()

    def take_back(self) -> None:
        self.broker.call(self._take_back)
        self.held.clear()

    def _take_back(self) -> None:
        for source in self.broker._broker.state.subscriptions():
            for consumer in list(source.consumers.values()):
                source.redeliver(consumer, None)
        self.broker._broker.state.shared.run_woken()

    def drop(self) -> None:
        self.broker.call(self._drop)
        self.held.clear()

    def _drop(self) -> None:
        for each in list(self.broker._broker.state.shared.connections):
            each.close("a test drops it")

    def restart(self) -> None:
        as_ = self.chance.choice(["pulsar-4.2", "ackwell"])
        self.durable |= self.acked & self.acknowledged()
        before = self.acknowledged()
        if self.chance.random() < 0.6:
            self.broker.crash()
        restarted = self.broker.restart(as_)
        after = self.acknowledged()
        lost = before - after
        (loss,) = restarted.losses.values()
        if as_ == "ackwell":
            assert (lost, restarted.messages) == (set(), 0)
        else:
            assert len(lost) <= restarted.messages
            predicted = loss.predicted.messages_before_flush
            assert predicted.at_most is None or restarted.messages <= predicted.at_most
            assert loss.predicted.messages.at_least <= restarted.messages
        self.acked -= lost
        self.durable -= lost
        self.held.clear()

    def acknowledged(self) -> set[bytes]:
        """Query which of the seen messages are acknowledged."""
        return self.broker.call(
            lambda: {body for body, position in self.positions.items() if self._is_acked(*position)}
        )

    def _is_acked(self, ledger_id: int, entry_id: int, index: int) -> bool:
        (source,) = self.broker._broker.state.subscriptions()
        if source.cursor.is_acked(ledger_id, entry_id):
            return True
        words = dict(source.cursor.batch_deleted).get((ledger_id, entry_id))  # type: ignore[call-overload]
        return words is not None and not from_words(words) >> index & 1

    def finish(self) -> None:
        """Check that another client receives exactly the unacknowledged messages."""
        self.client.close()
        unacked = set(self.published) - self.acknowledged()
        self.client = pulsar.Client(self.broker.url, logger=QUIET)
        consumer = self.subscribe()
        got = set()
        for message in drain(consumer, 10 * len(self.published) + 1, 400):
            self.see(message)
            got.add(message.data())
        self.client.close()
        self.broker.validate()
        assert got == unacked


def drain(consumer: Any, most: int, timeout_ms: int = 60) -> list[Any]:
    received = []
    for _ in range(most):
        try:
            received.append(consumer.receive(timeout_ms))
        except pulsar.Timeout:
            break
    return received


def play(seed: int) -> None:
    # With a frozen clock, Failover would wait forever.
    settings = DevBrokerSettings(entries_per_ledger=20, failover_delay_ms=0)
    with Broker(settings=settings) as broker:
        if seed % 3 == 0:
            broker.clock.freeze()
        session = Session(seed, broker)
        for _ in range(STEPS):
            session.step()
        session.finish()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_random_session_loses_exactly_the_reported_acknowledgments(seed: int) -> None:
    play(seed)


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(6, 130))
def test_many_random_sessions_lose_exactly_the_reported_acknowledgments(seed: int) -> None:
    play(seed)


def test_settle_does_not_wait_for_acknowledgments_that_are_not_on_their_way(
    broker: Broker, client: Any
) -> None:
    consumer = client.subscribe("t", "s")
    client.create_producer("t").send(b"x")
    message = consumer.receive(5_000)
    durations_s = []
    for ack_grouping_ms in (0, 100):
        begun = time.perf_counter()
        broker.settle(ack_grouping_ms=ack_grouping_ms)
        durations_s.append(time.perf_counter() - begun)
    assert durations_s[0] < 0.1 <= durations_s[1]
    consumer.acknowledge(message)
    broker.settle()
    assert broker.backlog("t", "s") == []
