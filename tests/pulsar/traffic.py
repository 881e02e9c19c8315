"""Random traffic of real clients on one topic: the steps of an application, from a seed."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pulsar

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
TYPES = (
    pulsar.ConsumerType.Shared,
    pulsar.ConsumerType.Exclusive,
    pulsar.ConsumerType.Failover,
    pulsar.ConsumerType.KeyShared,
)
CUMULATIVE = (pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover)


class Subscription:
    """One subscription: its consumers with their messages and options."""

    def __init__(self, client: Any, topic: str, name: str, kind: Any, *, batch_index: bool) -> None:
        self.name, self.kind = name, kind
        self.consumers: list[Any] = []
        self.held: list[tuple[Any, Any]] = []
        """Messages that were received and not acknowledged, each with its consumer."""
        self._subscribe = partial(
            client.subscribe,
            topic,
            name,
            consumer_type=kind,
            batch_index_ack_enabled=batch_index,
            initial_position=pulsar.InitialPosition.Earliest,
            negative_ack_redelivery_delay_ms=100,
        )

    def open(self, **more: Any) -> None:
        self.consumers.append(self._subscribe(**more))

    def close(self, consumer: Any) -> None:
        self.consumers.remove(consumer)
        self.held = [each for each in self.held if each[0] is not consumer]
        consumer.close()

    def close_all(self) -> None:
        for consumer in list(self.consumers):
            self.close(consumer)


class Traffic:
    """A topic with some subscriptions; `step` does one thing at random.

    Without `parts`, a client acknowledges a batch only when all its messages are acknowledged.
    """

    def __init__(self, url: str, topic: str, seed: int, *, parts: bool = True) -> None:
        self.topic = topic
        self.chance = random.Random(seed)
        self.client = pulsar.Client(url, logger=QUIET)
        self._dead = pulsar.ConsumerDeadLetterPolicy(2, f"{topic}-dead", "watchers")
        self.producers = [
            self.client.create_producer(topic),
            self.client.create_producer(
                topic,
                batching_enabled=True,
                batching_max_publish_delay_ms=5,
                batching_max_messages=self.chance.randrange(2, 30),
                compression_type=self.chance.choice(
                    [pulsar.CompressionType.NONE, pulsar.CompressionType.LZ4, pulsar.CompressionType.ZSTD]
                ),
            ),
            self.client.create_producer(topic, chunking_enabled=True),
        ]
        self.subscriptions = [
            Subscription(
                self.client, topic, f"sub-{index}", kind, batch_index=self.chance.random() < 0.7 and parts
            )
            for index, kind in enumerate(self.chance.sample(TYPES, self.chance.randrange(2, 5)))
        ]
        self.did: list[str] = []
        for each in self.subscriptions:
            each.open()

    def close(self) -> None:
        self.client.close()

    def step(self) -> None:
        """Do one thing."""
        steps = {
            self.publish: 5,
            self.receive: 6,
            self.acknowledge: 6,
            self.acknowledge_up_to: 2,
            self.give_back: 2,
            self.come_or_go: 2,
            self.seek: 1,
            self.begin_anew: 0.3,
            self.read: 0.5,
            self.reconnect: 0.3,
        }
        (step,) = self.chance.choices(list(steps), list(steps.values()))
        self.did.append(step.__name__)
        step()

    def publish(self) -> None:
        producer = self.chance.choice(self.producers)
        for _ in range(self.chance.randrange(1, 40)):
            options: dict[str, Any] = {}
            if self.chance.random() < 0.7:
                options["partition_key"] = f"k{self.chance.randrange(9)}"
            if self.chance.random() < 0.1:
                options["deliver_after"] = timedelta(milliseconds=self.chance.randrange(1, 3000))
            producer.send_async(b"x" * self.chance.randrange(200), None, **options)
        producer.flush()
        if producer is self.producers[2] and self.chance.random() < 0.1:
            producer.send(b"x" * 6_000_000)

    def receive(self) -> None:
        source = self.chance.choice(self.subscriptions)
        for consumer in source.consumers:
            with suppress(pulsar.Timeout):
                for _ in range(self.chance.randrange(1, 60)):
                    source.held.append((consumer, consumer.receive(50)))

    def acknowledge(self) -> None:
        source = self.chance.choice(self.subscriptions)
        self.chance.shuffle(source.held)
        wanted = self.chance.randrange(len(source.held) + 1)
        mine, source.held = source.held[:wanted], source.held[wanted:]
        for consumer, message in mine:
            consumer.acknowledge(message)

    def acknowledge_up_to(self) -> None:
        source = self.chance.choice(self.subscriptions)
        if source.held and source.kind in CUMULATIVE:
            consumer, message = source.held.pop(self.chance.randrange(len(source.held)))
            consumer.acknowledge_cumulative(message)

    def give_back(self) -> None:
        source = self.chance.choice(self.subscriptions)
        if not source.consumers:
            return
        if self.chance.random() < 0.3:
            consumer = self.chance.choice(source.consumers)
            consumer.redeliver_unacknowledged_messages()
            source.held = [each for each in source.held if each[0] is not consumer]
            return
        for _ in range(min(len(source.held), self.chance.randrange(10))):
            consumer, message = source.held.pop()
            consumer.negative_acknowledge(message)

    def come_or_go(self) -> None:
        source = self.chance.choice(self.subscriptions)
        most = 1 if source.kind == pulsar.ConsumerType.Exclusive else 3
        if len(source.consumers) < most and self.chance.random() < 0.6:
            dead = source.kind == pulsar.ConsumerType.Shared and self.chance.random() < 0.3
            source.open(**({"dead_letter_policy": self._dead} if dead else {}))
        elif source.consumers:
            source.close(self.chance.choice(source.consumers))

    def seek(self) -> None:
        source = self.chance.choice(self.subscriptions)
        if len(source.consumers) != 1:
            return
        consumer = source.consumers[0]
        target = self.chance.randrange(4)
        if target == 0:
            consumer.seek(pulsar.MessageId.earliest)
        elif target == 1:
            consumer.seek(pulsar.MessageId.latest)
        elif source.held and target == 2:
            consumer.seek(self.chance.choice(source.held)[1].message_id())
        elif source.held:
            consumer.seek(self.chance.choice(source.held)[1].publish_timestamp())
        source.held.clear()

    def begin_anew(self) -> None:
        """Delete a subscription, and make it again."""
        source = self.chance.choice(self.subscriptions)
        while len(source.consumers) > 1:
            source.close(source.consumers[0])
        if source.consumers:
            source.held.clear()
            source.consumers.pop().unsubscribe()
        source.open()

    def read(self) -> None:
        """Look at the topic with a reader, whose subscription goes with it."""
        reader = self.client.create_reader(self.topic, pulsar.MessageId.earliest)
        with suppress(pulsar.Timeout):
            for _ in range(self.chance.randrange(50)):
                reader.read_next(50)
        reader.close()

    def reconnect(self) -> None:
        """Close every consumer of a subscription and open one again."""
        source = self.chance.choice(self.subscriptions)
        source.close_all()
        source.open()
