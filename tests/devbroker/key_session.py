"""A session of the official client on Key_Shared: random nacks, consumers that open and close."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ackwell.replay.events import Event

pulsar = pytest.importorskip("pulsar")

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
KEYS = 40
CONSUMERS = 3


class Session:
    """One topic, a few consumers that fail most messages, and the key of each position."""

    def __init__(self, url: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.client = pulsar.Client(url, logger=QUIET)
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

    def run(self, nacks: int, nack: float = 0.98) -> None:
        """Nack a random share of the messages until the number of nacks is reached."""
        while self.nacks < nacks:
            if self.chance.random() < 0.02:
                self.leave()
            while len(self.consumers) < CONSUMERS:
                self.join()
            self.receive(nack)

    def drain(self) -> None:
        """Acknowledge until the backlog is empty; the time limit of the run ends an endless loop."""
        while len(self.acked) < len(self.keys):
            self.receive(nack=0.0)
        for consumer in self.consumers:
            # The client sends its acknowledgments before it closes.
            consumer.close()

    def keyed(self, events: Iterable[Event]) -> list[Event]:
        """Return the events with the keys of their messages."""
        return [
            event._replace(key=self.keys.get((event.ledger_id or 0, event.entry_id or 0))) for event in events
        ]

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
