"""Dispatch to consumers, and redelivery."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from datetime import timedelta
from typing import Any

import pulsar

from tests.scenarios.world import World, scenario


@scenario
def nack(world: World) -> None:
    consumer, producer = world.consumer(consumer_name="a"), world.producer()
    world.send(producer, 5)
    got = world.got("first", world.take(consumer, 5))
    for each in got[1:3]:
        consumer.negative_acknowledge(each)
    for each in (got[0], *got[3:]):
        consumer.acknowledge(each)
    again = world.set_of("again", world.take(consumer, 2))
    for each in again:
        consumer.negative_acknowledge(each)
    for each in world.set_of("third", world.take(consumer, 2)):
        consumer.acknowledge(each)
    world.set_of("rest", world.rest(consumer))
    world.backlog("backlog", expected=0)
    world.figures("stats", "unackedMessages", "msgInReplay", "msgOutCounter", "type")
    world.cursor("cursor")


@scenario
def nack_in_a_batch(world: World) -> None:
    consumer = world.consumer()
    producer = world.batching()
    world.batch(producer, 6)
    got = world.got("first", world.take(consumer, 6))
    consumer.acknowledge(got[0])
    consumer.acknowledge(got[4])
    consumer.negative_acknowledge(got[2])
    again = world.set_of("again", world.rest(consumer, 1000))
    for each in again:
        consumer.acknowledge(each)
    world.backlog("backlog")


@scenario
def nack_in_a_batch_with_batch_index(world: World) -> None:
    consumer = world.consumer(batch_index_ack_enabled=True)
    producer = world.batching()
    world.batch(producer, 6)
    got = world.got("first", world.take(consumer, 6))
    consumer.acknowledge(got[0])
    consumer.acknowledge(got[4])
    world.acks_arrive()
    consumer.negative_acknowledge(got[2])
    again = world.set_of("again", world.rest(consumer, 1000))
    world.figures("stats", "unackedMessages", "msgBacklog")
    for each in again:
        consumer.acknowledge(each)
    world.backlog("backlog")


@scenario
def nack_on_exclusive(world: World) -> None:
    consumer = world.consumer("Exclusive")
    world.send(world.producer(), 5)
    got = world.got("first", world.take(consumer, 5))
    consumer.acknowledge(got[0])
    consumer.acknowledge(got[3])
    world.acks_arrive()
    consumer.negative_acknowledge(got[1])
    again = world.got("again", world.rest(consumer, 1000))
    for each in again:
        consumer.acknowledge(each)
    world.backlog("backlog", expected=0)


@scenario
def dead_letter(world: World) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(2, f"{world.topic}-DLQ", "init")
    consumer = world.consumer(dead_letter_policy=policy)
    producer = world.producer()
    for number in range(3):
        producer.send(b"m%d" % number, partition_key=f"k{number}", properties={"p": str(number)})
    deliveries = []
    while True:
        got = world.rest(consumer, 1500)
        if not got:
            break
        for each in got:
            deliveries.append([each.data().decode(), each.redelivery_count()])
            if each.data() == b"m1":
                consumer.acknowledge(each)
            else:
                consumer.negative_acknowledge(each)
    world.note("deliveries", sorted(deliveries))
    dead = world.consumer("Exclusive", "init", topic=f"{world.topic}-DLQ")
    for each in world.set_of("dead", world.take(dead, 2)):
        known = dict(each.properties())
        known.pop("ORIGIN_MESSAGE_ID", None)
        known["REAL_TOPIC"] = str(known.get("REAL_TOPIC", "").startswith(world.topic))
        world.note(f"properties {each.data()!r}", [each.partition_key(), sorted(known.items())])
    world.backlog("backlog")
    path = f"{world.path}-DLQ"
    world.note("subscriptions", world.admin("GET", f"{path}/subscriptions"))


@scenario
def dead_letter_of_batches_without_a_subscription(world: World) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(1, f"{world.topic}-dead")
    consumer = world.consumer(dead_letter_policy=policy)
    world.batch(world.batching(), 4)
    for _ in range(3):
        for each in world.rest(consumer, 1000):
            consumer.negative_acknowledge(each)
    world.set_of("rest", world.rest(consumer, 1000))
    dead = world.consumer("Exclusive", "late", topic=f"{world.topic}-dead")
    world.set_of("dead", world.rest(dead, 1000))
    world.backlog("backlog")


@scenario
def redeliver_all(world: World) -> None:
    for kind in ("Shared", "Exclusive", "Failover", "KeyShared"):
        topic = f"{world.topic}-{kind}"
        consumer = world.consumer(kind, topic=topic)
        world.send(world.producer(topic), 6, partition_key="k")
        got = world.got(f"{kind} first", world.take(consumer, 6))
        consumer.acknowledge(got[2])
        world.acks_arrive()
        consumer.redeliver_unacknowledged_messages()
        world.set_of(f"{kind} again", world.rest(consumer, 1500))
        consumer.redeliver_unacknowledged_messages()
        world.set_of(f"{kind} third", world.rest(consumer, 1500))
        consumer.close()
        consumer = world.consumer(kind, topic=topic)
        world.set_of(f"{kind} reopened", world.rest(consumer, 1500))


@scenario
def delay(world: World) -> None:
    shared, exclusive = world.consumer(), world.consumer("Exclusive", "exclusive")
    producer = world.producer()
    began = time.monotonic()
    producer.send(b"late", deliver_after=timedelta(seconds=4))
    producer.send(b"later", deliver_after=timedelta(seconds=6))
    producer.send(b"now")
    producer.send(b"at", deliver_at=int(time.time() * 1000) + 2000)
    producer.send(b"past", deliver_at=int(time.time() * 1000) - 2000)
    world.got("exclusive", world.take(exclusive, 5))
    world.got("at once", world.take(shared, 2))
    world.figures("delayed", "msgDelayed", "msgBacklog", "msgBacklogNoDelayed", "unackedMessages")
    late = world.got("in time", world.take(shared, 3))
    world.note("not early", time.monotonic() - began > 3)
    for each in late:
        shared.acknowledge(each)
    world.backlog("backlog", expected=2)
    world.figures("delayed after", "msgDelayed", "unackedMessages")


@scenario
def delay_with_batches_and_keys(world: World) -> None:
    consumer = world.consumer("KeyShared")
    producer = world.batching()
    world.batch(producer, 3)
    producer.send_async(b"late", None, deliver_after=timedelta(seconds=2), partition_key="k")
    producer.send_async(b"now", None, partition_key="k")
    producer.flush()
    world.set_of("at once", world.rest(consumer, 500))
    world.got("late", world.take(consumer, 1))


@scenario
def a_delayed_message_outlives_its_consumer(world: World) -> None:
    consumer = world.consumer()
    producer = world.producer()
    producer.send(b"late", deliver_after=timedelta(seconds=3))
    world.got("nothing yet", world.rest(consumer, 300))
    consumer.close()
    consumer = world.consumer()
    world.got("late", world.take(consumer, 1))


def _shares(consumers: dict[str, Any], count: int) -> dict[str, list[str]]:
    """Receive messages at all consumers; return the keys that each got."""
    found: dict[str, set[str]] = defaultdict(set)
    received = 0
    deadline = time.monotonic() + 15
    while received < count and time.monotonic() < deadline:
        for name, consumer in consumers.items():
            try:
                message = consumer.receive(20)
            except pulsar.Timeout:
                continue
            received += 1
            found[name].add(message.partition_key())
            consumer.acknowledge(message)
    return {name: sorted(keys) for name, keys in sorted(found.items())}


@scenario
def key_shared(world: World) -> None:
    consumers = {name: world.consumer("KeyShared", consumer_name=name) for name in ("a", "b")}
    producer = world.producer()
    for number in range(60):
        producer.send(b"m%d" % number, partition_key=f"key-{number % 20}")
    world.note("two", _shares(consumers, 60))
    time.sleep(0.5)
    consumers["c"] = world.consumer("KeyShared", consumer_name="c")
    for number in range(60):
        producer.send(b"m%d" % number, partition_key=f"key-{number % 20}")
    world.note("three", _shares(consumers, 60))
    time.sleep(0.5)
    consumers.pop("a").close()
    for number in range(60):
        producer.send(b"m%d" % number, partition_key=f"key-{number % 20}")
    world.note("without a", _shares(consumers, 60))
    world.backlog("backlog", expected=0)


@scenario
def key_shared_keeps_the_order_of_a_key(world: World) -> None:
    first = world.consumer("KeyShared", consumer_name="a")
    producer = world.producer()
    keys = [f"key-{number}" for number in range(8)]
    for number in range(40):
        producer.send(b"%d" % number, partition_key=keys[number % 8])
    got = world.take(first, 40)
    second = world.consumer("KeyShared", consumer_name="b")
    for number in range(40, 80):
        producer.send(b"%d" % number, partition_key=keys[number % 8])
    early = world.rest(second, 1000)
    world.note("before the acks", sorted(each.data().decode() for each in early))
    for each in got:
        first.acknowledge(each)
    more = world.rest(second, 1500)
    mine = world.rest(first, 1000)
    world.note("second", sorted(each.data().decode() for each in (*early, *more)))
    world.note("first", sorted(each.data().decode() for each in mine))


@scenario
def key_shared_sticky(world: World) -> None:
    def sticky(*ranges: tuple[int, int]) -> Any:
        return pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, False, list(ranges))

    low = world.consumer("KeyShared", consumer_name="low", key_shared_policy=sticky((0, 30_000)))
    high = world.consumer("KeyShared", consumer_name="high", key_shared_policy=sticky((30_001, 65_535)))
    world.attempt("overlapping", lambda: world.consumer("KeyShared", key_shared_policy=sticky((0, 10))))
    world.attempt("auto split", lambda: world.consumer("KeyShared"))
    producer = world.producer()
    for number in range(40):
        producer.send(b"m%d" % number, partition_key=f"key-{number % 20}")
    world.note("shares", _shares({"low": low, "high": high}, 40))
    high.close()
    for number in range(20):
        producer.send(b"m%d" % number, partition_key=f"key-{number}")
    world.note("low alone", _shares({"low": low}, 20))


@scenario
def key_shared_ordering_key_and_batches(world: World) -> None:
    consumers = {name: world.consumer("KeyShared", consumer_name=name) for name in ("a", "b", "c")}
    producer = world.producer(
        batching_enabled=True,
        batching_type=pulsar.BatchingType.KeyBased,
        batching_max_publish_delay_ms=50,
    )
    for number in range(60):
        producer.send_async(
            b"m%d" % number,
            None,
            partition_key=f"key-{number % 15}",
            **({"ordering_key": f"order-{number % 5}"} if number % 3 == 0 else {}),
        )
    producer.flush()
    world.note("shares", _shares(consumers, 60))


@scenario
def failover(world: World) -> None:
    consumers = {name: world.consumer("Failover", consumer_name=name) for name in ("b", "a", "c")}
    time.sleep(1.5)
    producer = world.producer()
    world.send(producer, 4)
    got = {}
    for name, consumer in consumers.items():
        got[name] = world.got(f"{name} gets", world.rest(consumer, 1500))
    world.note("active", world.stats()["subscriptions"]["sub"]["activeConsumerName"])
    active = max(got, key=lambda name: len(got[name]))
    consumers[active].acknowledge(got[active][0])
    time.sleep(0.3)
    consumers.pop(active).close()
    time.sleep(1.2)
    world.note("active then", world.stats()["subscriptions"]["sub"]["activeConsumerName"])
    for name, consumer in consumers.items():
        world.got(f"{name} gets then", world.rest(consumer, 1500))


@scenario
def failover_waits_when_its_consumer_changes(world: World) -> None:
    producer = world.producer()
    world.send(producer, 3)
    began = time.monotonic()
    consumer = world.consumer("Failover", consumer_name="a")
    world.got("first", world.take(consumer, 3))
    took = time.monotonic() - began
    world.note("after a second", took > 0.8)
    began = time.monotonic()
    producer.send(b"more")
    world.got("more", world.take(consumer, 1))
    world.note("more at once", time.monotonic() - began < 0.8)
    second = world.consumer("Failover", consumer_name="b")
    began = time.monotonic()
    consumer.close()
    world.got("second", world.take(second, 4))
    world.note("second after a second", time.monotonic() - began > 0.8)


@scenario
def failover_of_partitions(world: World) -> None:
    world.ask("made", "PUT", "partitions", 4)
    consumers = {name: world.consumer("Failover", consumer_name=name) for name in ("a", "b")}
    time.sleep(1.5)
    producer = world.producer()
    for number in range(20):
        producer.send(b"m%d" % number, partition_key=f"k{number}")
    for name, consumer in consumers.items():
        got = world.rest(consumer, 1500)
        world.note(f"{name} gets", sorted((m.message_id().partition(), m.data().decode()) for m in got))
    consumers["a"].close()
    got = world.rest(consumers["b"], 2500)
    world.note("b gets more", sorted((m.message_id().partition(), m.data().decode()) for m in got))
    world.note(
        "active",
        [
            world.stats(f"{world.path}-partition-{index}")["subscriptions"]["sub"]["activeConsumerName"]
            for index in range(4)
        ],
    )


@scenario
def shared_in_turn(world: World) -> None:
    consumers = [world.consumer(consumer_name=name, receiver_queue_size=5) for name in ("a", "b", "c")]
    producer = world.producer()
    world.send(producer, 9)
    got = [world.rest(each, 500) for each in consumers]
    world.note("everybody has some", [len(each) > 0 for each in got])
    world.note("all", sorted(m.data().decode() for each in got for m in each))
    consumers[0].close()
    again = world.rest(consumers[1], 500) + world.rest(consumers[2], 500)
    world.note("of a", sorted(each.data() for each in again) == sorted(each.data() for each in got[0]))


@scenario
def zero_queue(world: World) -> None:
    consumer = world.consumer(receiver_queue_size=0)
    other = world.consumer(receiver_queue_size=1)
    world.send(world.producer(), 6)
    # Such a consumer has no receive with a time limit.
    world.note("zero", len([consumer.receive(), consumer.receive()]))
    world.note("other gets", len(world.rest(other, 700)) > 0)


@scenario
def listener(world: World) -> None:
    got: list[str] = []
    done = threading.Event()

    def heard(consumer: Any, message: Any) -> None:
        got.append(message.data().decode())
        consumer.acknowledge(message)
        if len(got) == 10:
            done.set()

    world.consumer("Exclusive", message_listener=heard)
    world.send(world.producer(), 10)
    done.wait(10)
    world.note("heard", got)
    world.backlog("backlog", expected=0)


@scenario
def batch_receive(world: World) -> None:
    policy = pulsar.ConsumerBatchReceivePolicy(7, 1 << 20, 500)
    consumer = world.consumer("Exclusive", batch_receive_policy=policy)
    world.send(world.producer(), 10)
    for index in range(2):
        world.note(f"batch {index}", [m.data().decode() for m in consumer.batch_receive()])


@scenario
def ack_timeout(world: World) -> None:
    consumer = world.consumer(unacked_messages_timeout_ms=10_000)
    world.send(world.producer(), 3)
    got = world.take(consumer, 3)
    consumer.acknowledge(got[1])
    again = world.set_of("again", [consumer.receive(30_000), consumer.receive(5_000)])
    for each in again:
        consumer.acknowledge(each)
    world.backlog("backlog", expected=0)


@scenario
def unacked_limit(world: World) -> None:
    world.note("policy", world.admin("POST", "namespaces/public/default/maxUnackedMessagesPerConsumer", 5)[0])
    try:
        consumer = world.consumer(consumer_name="a")
        world.send(world.producer(), 12)
        got = world.set_of("until blocked", world.rest(consumer, 800))
        found = world.stats()["subscriptions"]["sub"]["consumers"][0]
        world.note("blocked", [found["blockedConsumerOnUnackedMsgs"], found["unackedMessages"]])
        for each in got:
            consumer.acknowledge(each)
        more = world.set_of("then", world.rest(consumer, 800))
        for each in more:
            consumer.acknowledge(each)
    finally:
        world.admin("DELETE", "namespaces/public/default/maxUnackedMessagesPerConsumer")
