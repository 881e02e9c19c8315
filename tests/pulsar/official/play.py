"""The steps of the official client, and the comparison after each step."""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pulsar

from tests.pulsar.live.ours import Ours
from tests.pulsar.live.play import Playing, Restart
from tests.pulsar.live.theirs import SUBSCRIPTION
from tests.pulsar.official.tap import Tap
from tests.pulsar.official.wire import Wire

if TYPE_CHECKING:
    from tests.pulsar import kit
    from tests.pulsar.live import restarts
    from tests.pulsar.live.operations import Sequence

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
TYPES = {
    "Shared": pulsar.ConsumerType.Shared,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
    "Failover": pulsar.ConsumerType.Failover,
    "Exclusive": pulsar.ConsumerType.Exclusive,
}
STEPS = {
    "publish": 6,
    "open": 3,
    "close": 2,
    "receive": 7,
    "acknowledge": 7,
    "acknowledge_up_to": 3,
    "give_back": 3,
    "redeliver": 1,
    "seek": 1.5,
    "unload": 1,
}
CONSUMERS = 3
NACK_MS = 100
GROUPED_S = 0.25
"""The client gathers acknowledgments for 100 ms, and gives messages back a little after `NACK_MS`."""
RECONNECTED_S = 0.6


class Lenient(Ours):
    """Our model, which accepts deliveries that cross permits on their way."""

    def _can_take(self, consumer_id: int) -> bool:
        return True


class PlayedByClient(Playing):
    """A sequence of steps of the official client."""

    poll_s = 0.03

    def __init__(self, broker: kit.Broker, sequence: Sequence) -> None:
        super().__init__(broker, sequence, Lenient)
        self._broker = broker
        self._chance = random.Random(sequence.seed)
        self._steps = self._chance.randint(25, 45)
        self._batch_index = self._chance.random() < 0.6

    def run(self) -> Generator[None, Restart, None]:
        """Run the sequence; yield before each restart of the broker, and receive the kind of restart."""
        self.theirs.connect()
        self.ours.begin(self.theirs.state())
        restart = self._chance.randrange(self._steps) if self._chance.random() < 0.5 else None
        self._begin()
        try:
            for number in range(self._steps):
                if number == restart:
                    prediction = self._leave(number)
                    self.theirs.disconnect()
                    kind = yield
                    self.theirs.connect()
                    self._reloaded(number, kind, prediction)
                self._step(number)
        finally:
            self._end()
        self.theirs.disconnect()

    def _begin(self) -> None:
        self._tap = Tap(self._broker.ports.binary)
        self._wire = Wire(self.ours)
        self._client = pulsar.Client(self._tap.url, logger=QUIET)
        self._producers: list[Any] = []
        self._consumers: list[Any] = []
        self._held: list[tuple[Any, Any]] = []

    def _end(self) -> None:
        with suppress(Exception):
            self._client.close()
        self._tap.close()

    def _leave(self, number: int) -> restarts.Prediction:
        """Close the client and wait until it has left, so that nothing is on its way."""
        self._client.close()
        self._settle(number, "close")
        self._tap.close()
        return self._prediction()

    def _reloaded(self, number: int, kind: Restart, prediction: restarts.Prediction) -> None:
        self._reload(number, kind, prediction)
        self._begin()
        self._settle(number, kind)

    def _step(self, number: int) -> None:
        name = "open" if number == 0 else self._chance.choices([*STEPS], [*STEPS.values()])[0]
        self.history.append(f"{number} {name}")
        if name == "unload":
            prediction = self._leave(number)
            self._broker.configure(**self.sequence.settings)
            self._broker.admin("PUT", f"persistent/{self.theirs.topic.removeprefix('persistent://')}/unload")
            self.theirs.client.open_producer()
            self._reloaded(number, "graceful", prediction)
            return
        getattr(self, f"_{name}")()
        self._settle(number, name)

    # Steps

    def _publish(self) -> None:
        keyed = self.sequence.type == "Key_Shared"
        if not self._producers:
            topic = self.theirs.topic
            batching = pulsar.BatchingType.KeyBased if keyed else pulsar.BatchingType.Default
            self._producers = [
                self._client.create_producer(topic),
                self._client.create_producer(
                    topic,
                    batching_enabled=True,
                    batching_max_publish_delay_ms=10,
                    batching_max_messages=self._chance.choice((3, 10, 70)),
                    batching_type=batching,
                ),
            ]
        producer = self._chance.choice(self._producers)
        for _ in range(self._chance.randint(1, 25)):
            key = self._chance.choice("abcdefgh")
            producer.send_async(b"m", None, **({"partition_key": key} if keyed else {}))
        producer.flush()

    def _open(self) -> None:
        most = 1 if self.sequence.type == "Exclusive" else CONSUMERS
        if len(self._consumers) < most:
            self._consumers.append(
                self._client.subscribe(
                    self.theirs.topic,
                    SUBSCRIPTION,
                    consumer_type=TYPES[self.sequence.type],
                    receiver_queue_size=self._chance.choice((2, 5, 20, 1000)),
                    batch_index_ack_enabled=self._batch_index,
                    negative_ack_redelivery_delay_ms=NACK_MS,
                    initial_position=pulsar.InitialPosition.Earliest,
                )
            )

    def _close(self) -> None:
        if self._consumers:
            consumer = self._consumers.pop(self._chance.randrange(len(self._consumers)))
            self._held = [each for each in self._held if each[0] is not consumer]
            consumer.close()

    def _receive(self) -> None:
        for consumer in self._consumers:
            with suppress(pulsar.Timeout):
                for _ in range(self._chance.randint(1, 30)):
                    self._held.append((consumer, consumer.receive(60)))

    def _acknowledge(self) -> None:
        self._chance.shuffle(self._held)
        chosen = self._held[: self._chance.randint(0, len(self._held))]
        if self._batch_index:
            # Of several ids of one batch in a command the broker counts each as if it were the only one.
            ids = [message.message_id() for _, message in chosen]
            entries = {(each.ledger_id(), each.entry_id()): row for row, each in enumerate(ids)}
            chosen = [chosen[row] for row in entries.values()]
        for each in chosen:
            self._held.remove(each)
            consumer, message = each
            consumer.acknowledge(message)
        time.sleep(GROUPED_S)

    def _acknowledge_up_to(self) -> None:
        if self._held and not self.ours.individual:
            consumer, message = self._held.pop(self._chance.randrange(len(self._held)))
            consumer.acknowledge_cumulative(message)
            time.sleep(GROUPED_S)

    def _give_back(self) -> None:
        self._chance.shuffle(self._held)
        for _ in range(min(len(self._held), self._chance.randint(1, 8))):
            consumer, message = self._held.pop()
            consumer.negative_acknowledge(message)
        time.sleep(GROUPED_S)

    def _redeliver(self) -> None:
        if self._consumers:
            consumer = self._chance.choice(self._consumers)
            self._held = [each for each in self._held if each[0] is not consumer]
            consumer.redeliver_unacknowledged_messages()

    def _seek(self) -> None:
        if len(self._consumers) != 1:
            return
        (consumer,) = self._consumers
        ids = [pulsar.MessageId.earliest, pulsar.MessageId.latest]
        ids += [message.message_id() for _, message in self._held[:4]]
        consumer.seek(self._chance.choice(ids))
        self._held.clear()
        time.sleep(RECONNECTED_S)

    def _listen(self) -> None:
        self.theirs.taken()

    def _follow(self) -> tuple[bool, list[str]]:
        taken = self._tap.taken()
        return bool(taken), self._wire.follow(taken)

    def _settle(self, step: int, what: object) -> None:
        # Each step has the whole patience, also after one at whose end the broker rested.
        self._rests = False
        super()._settle(step, what)
