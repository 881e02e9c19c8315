"""Sessions of the official client on Key_Shared: random nacks, consumers that come and go, no overtaking."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from time import monotonic
from typing import Any

import pytest

from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.replay.events import Kind
from ackwell.replay.history import check_history

pulsar = pytest.importorskip("pulsar")

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
KEYS = 40
CONSUMERS = 3


class Session:
    """One topic, a few consumers that fail most messages, and the key of each position."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.chance = random.Random(seed)
        self.broker = broker
        self.client = pulsar.Client(broker.url, logger=QUIET)
        self.keys: dict[tuple[int, int], str] = {}
        self.acked: set[tuple[int, int]] = set()
        self.consumers: list[Any] = []
        self.joined = self.nacks = 0

    def publish(self, messages: int) -> None:
        producer = self.client.create_producer("orders", batching_enabled=False, block_if_queue_full=True)

        def sent(result: Any, message_id: Any, key: str) -> None:
            assert result == pulsar.Result.Ok
            self.keys[message_id.ledger_id(), message_id.entry_id()] = key

        for _ in range(messages):
            key = f"key-{self.chance.randrange(KEYS)}"
            producer.send_async(b"", partial(sent, key=key), partition_key=key)
        producer.flush()
        producer.close()

    def join(self) -> None:
        self.joined += 1
        self.consumers.append(
            self.client.subscribe(
                "orders",
                "billing",
                consumer_type=pulsar.ConsumerType.KeyShared,
                consumer_name=f"consumer-{self.joined}",
                initial_position=pulsar.InitialPosition.Earliest,
                negative_ack_redelivery_delay_ms=100,
                receiver_queue_size=self.chance.choice((1, 10, 1_000)),
            )
        )

    def leave(self) -> None:
        self.consumers.pop(self.chance.randrange(len(self.consumers))).close()

    def run(self, nacks: int) -> None:
        """Fail messages until there were so many nacks, then acknowledge all that comes."""
        while self.nacks < nacks:
            if self.chance.random() < 0.02:
                self.leave()
            while len(self.consumers) < CONSUMERS:
                self.join()
            self.receive(nack=0.98)

    def drain(self) -> None:
        """Acknowledge until nothing is left; the time limit of the run ends one that never does."""
        while len(self.acked) < len(self.keys):
            self.receive(nack=0.0)
        for consumer in self.consumers:
            # Its acknowledgments are sent before it closes.
            consumer.close()
        self.broker.settle()

    def receive(self, nack: float) -> None:
        for consumer in self.consumers:
            end_s = monotonic() + 1
            while monotonic() < end_s:
                try:
                    message = consumer.receive(timeout_millis=10)
                except pulsar.Timeout:
                    break
                if self.chance.random() < nack:
                    consumer.negative_acknowledge(message)
                    self.nacks += 1
                else:
                    consumer.acknowledge(message)
                    given = message.message_id()
                    self.acked.add((given.ledger_id(), given.entry_id()))


def keyed(session: Session) -> list[Any]:
    return [
        event._replace(key=session.keys.get((event.ledger_id or 0, event.entry_id or 0)))
        for event in session.broker.events
    ]


@pytest.mark.parametrize(
    ("messages", "nacks"),
    [(300, 1_500), pytest.param(4_000, 105_000, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "as a broker"])
def test_no_message_of_a_key_overtakes_one_that_was_given_back(
    ours: bool, messages: int, nacks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = DevBrokerSettings(limits={"waiting_holds_key": ours}, max_events=10_000_000)
    with Broker(settings=settings) as broker:
        session = Session(broker, messages)
        session.publish(messages)
        session.run(nacks)
        session.drain()
        events = keyed(session)
        session.client.close()
    kinds = Counter(event.kind for event in events)
    seen = kinds[Kind.NACK]
    with capsys.disabled():
        print(f"\n{seen:,} nacks, {kinds[Kind.DISPATCH]:,} deliveries ", end="")
    # One whose consumer leaves before its back-off ends is given back by that.
    assert seen >= nacks * 0.95
    assert check_history(events, at_rest=True) == []
    # The same history with one delivery before its turn is not let pass.
    back = next(index for index, event in enumerate(events) if event.kind is Kind.NACK)
    key = events[back].key
    later = max(position for position, each in session.keys.items() if each == key)
    wrong = events[back]._replace(kind=Kind.DISPATCH, ledger_id=later[0], entry_id=later[1])
    assert check_history([*events[: back + 1], wrong])
