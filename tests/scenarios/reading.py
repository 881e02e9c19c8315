"""Topics, readers, producers, patterns, partitions, schemas and refusals."""

from __future__ import annotations

import time
from typing import Any

import pulsar

from tests.scenarios.world import World, scenario


def _read(reader: Any, quiet_ms: int = 600) -> list[str]:
    got = []
    try:
        while True:
            got.append(reader.read_next(quiet_ms).data().decode())
    except pulsar.Timeout:
        return got


@scenario
def readers(world: World) -> None:
    ids = world.send(world.producer(), 6)
    for name, start, inclusive in (
        ("earliest", pulsar.MessageId.earliest, False),
        ("latest", pulsar.MessageId.latest, False),
        ("latest inclusive", pulsar.MessageId.latest, True),
        ("from 2", ids[2], False),
        ("from 2 inclusive", ids[2], True),
        ("last", ids[5], False),
    ):
        reader = world.client.create_reader(world.topic, start, start_message_id_inclusive=inclusive)
        world.note(f"{name} available", reader.has_message_available())
        world.note(name, _read(reader))
        world.note(f"{name} available then", reader.has_message_available())
        reader.close()
    time.sleep(0.3)
    world.note("subscriptions", world.admin("GET", f"{world.path}/subscriptions")[1])
    reader = world.client.create_reader(world.topic, pulsar.MessageId.earliest)
    _read(reader)
    reader.seek(ids[3])
    world.note("seek", _read(reader))
    reader.seek(0)
    world.note("seek to a time", _read(reader))
    found = list(world.stats()["subscriptions"].values())
    world.note("stats", [[each["isDurable"], each["type"]] for each in found])


@scenario
def reader_in_a_batch(world: World) -> None:
    producer = world.batching()
    world.batch(producer, 6)
    world.batch(producer, 4, 6)
    reader = world.client.create_reader(world.topic, pulsar.MessageId.earliest)
    got = [reader.read_next(5000) for _ in range(10)]
    world.note("places", [world.place(each.message_id()) for each in got])
    for inclusive in (False, True):
        other = world.client.create_reader(
            world.topic, got[3].message_id(), start_message_id_inclusive=inclusive
        )
        world.note(f"from 3 {inclusive}", _read(other))


@scenario
def last_message_id(world: World) -> None:
    consumer = world.consumer("Exclusive")
    world.note("empty", world.place(consumer.get_last_message_id())[1:])
    world.send(world.producer(), 3)
    world.note("three", world.place(consumer.get_last_message_id())[1:])
    world.batch(world.batching(), 4)
    world.note("batch", world.place(consumer.get_last_message_id())[1:])
    status, found = world.admin("GET", f"{world.path}/lastMessageId")
    world.note("rest", [status, sorted(found), found["entryId"]])


@scenario
def pattern(world: World) -> None:
    for index in range(2):
        world.producer(f"{world.topic}-p{index}").send(b"m%d" % index)
    import re

    consumer = world.client.subscribe(
        re.compile(f"persistent://public/default/{world.local}-p.*"),
        "sub",
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        pattern_auto_discovery_period=1,
    )
    world.set_of("two", world.take(consumer, 2))
    world.producer(f"{world.topic}-p7").send(b"new")
    world.producer(f"{world.topic}-q7").send(b"not asked for")
    world.set_of("new", world.take(consumer, 1))
    world.set_of("rest", world.rest(consumer, 1500))
    topics = world.admin("GET", "namespaces/public/default/topics")[1]
    world.note("topics", sorted(each.rpartition("-")[2] for each in topics if world.local in each))


@scenario
def several_topics(world: World) -> None:
    topics = [f"{world.topic}-{index}" for index in range(3)]
    consumer = world.consumer(topic=topics)
    for index, topic in enumerate(topics):
        world.send(world.producer(topic), 2, 10 * index)
    got = world.set_of("got", world.take(consumer, 6))
    for each in got[:3]:
        consumer.acknowledge(each)
    for each in got[3:]:
        consumer.negative_acknowledge(each)
    world.note("again", len(world.take(consumer, 3)))
    consumer.unsubscribe()
    world.note(
        "subscriptions",
        [world.admin("GET", f"{world.path}-{index}/subscriptions")[1] for index in range(3)],
    )


@scenario
def partitions(world: World) -> None:
    world.ask("made", "PUT", "partitions", 3)
    world.ask("made again", "PUT", "partitions", 3)
    world.note("metadata", world.admin("GET", f"{world.path}/partitions")[1].get("partitions"))
    world.note("client", [each.rpartition("-")[2] for each in world.client.get_topic_partitions(world.topic)])
    consumer = world.consumer()
    producer = world.producer()
    ids = [producer.send(b"m%d" % number, partition_key=f"k{number}") for number in range(12)]
    world.note("by key", [[each.partition(), each.entry_id()] for each in ids])
    got = world.set_of("got", world.take(consumer, 12))
    world.note("names", sorted({each.topic_name().rpartition("-")[2] for each in got}))
    for each in got:
        consumer.acknowledge(each)
    time.sleep(0.5)
    status, found = world.admin("GET", f"{world.path}/partitioned-stats")
    world.note("partitioned stats", [status, found["metadata"]["partitions"], found.get("msgInCounter")])
    world.note("sub", found.get("subscriptions", {}).get("sub", {}).get("msgBacklog"))
    for path in ("stats", "internalStats", "subscriptions", "lastMessageId"):
        world.note(path, world.admin("GET", f"{world.path}/{path}")[0])
    world.ask("more", "POST", "partitions", 5)
    world.ask("fewer", "POST", "partitions", 2)
    world.note("metadata then", world.admin("GET", f"{world.path}/partitions")[1].get("partitions"))
    world.note("sub of the new one", world.admin("GET", f"{world.path}-partition-4/subscriptions"))
    world.ask("skip all", "POST", "subscription/sub/skip_all")
    world.attempt("beyond", lambda: world.producer(f"{world.topic}-partition-9"))
    consumer.close()
    producer.close()
    world.ask("deleted as one without", "DELETE", "")
    world.ask("deleted", "DELETE", "partitions")
    world.note("gone", world.admin("GET", f"{world.path}/partitions")[0])


@scenario
def types_that_do_not_go_together(world: World) -> None:
    first = world.consumer("Exclusive", consumer_name="a")
    world.attempt("exclusive twice", lambda: world.consumer("Exclusive"))
    world.attempt("shared beside", lambda: world.consumer("Shared"))
    first.close()
    shared = world.consumer("Shared", consumer_name="a")
    second = world.consumer("Shared", consumer_name="a")
    world.attempt("failover beside", lambda: world.consumer("Failover"))
    world.attempt("unsubscribe", second.unsubscribe)
    shared.close()
    world.attempt("unsubscribe alone", second.unsubscribe)
    world.note("subscriptions", world.admin("GET", f"{world.path}/subscriptions"))
    failover = world.consumer("Failover", consumer_name="x")
    same = world.attempt("same name", lambda: world.consumer("Failover", consumer_name="x"))
    world.note("consumers", len(world.stats()["subscriptions"]["sub"]["consumers"]))
    failover.close()
    if same is not None:
        same.close()
    keyed = world.consumer("KeyShared")
    world.figures("type", "type")
    keyed.close()


@scenario
def initial_position(world: World) -> None:
    world.send(world.producer(), 3)
    latest = world.consumer("Exclusive", "l", initial_position=pulsar.InitialPosition.Latest)
    earliest = world.consumer("Exclusive", "e")
    world.producer().send(b"new")
    world.got("latest", world.rest(latest))
    world.got("earliest", world.rest(earliest))
    latest.close()
    again = world.consumer("Exclusive", "l", initial_position=pulsar.InitialPosition.Earliest)
    world.got("known", world.rest(again))


@scenario
def producers(world: World) -> None:
    access = pulsar.ProducerAccessMode
    first = world.producer(producer_name="p")
    world.attempt("same name", lambda: world.producer(producer_name="p"))
    world.attempt("exclusive beside", lambda: world.producer(access_mode=access.Exclusive))
    first.close()
    exclusive = world.producer(access_mode=access.Exclusive)
    world.attempt("shared beside", world.producer)
    world.attempt("exclusive twice", lambda: world.producer(access_mode=access.Exclusive))
    fencing = world.attempt("fencing", lambda: world.producer(access_mode=access.ExclusiveWithFencing))
    time.sleep(0.5)
    world.attempt("fenced", lambda: exclusive.send(b"x"))
    fencing.send(b"y")
    consumer = world.consumer()
    world.got("got", world.rest(consumer))


@scenario
def what_a_message_carries(world: World) -> None:
    consumer = world.consumer("Exclusive")
    producer = world.producer(producer_name="me", initial_sequence_id=41)
    for options in (
        {"properties": {"a": "1", "b": ""}, "partition_key": "k"},
        {"event_timestamp": 1234567},
        {"ordering_key": "o", "sequence_id": 99},
        {},
    ):
        producer.send(b"x", **options)
    for each in world.take(consumer, 4):
        world.note(
            "message",
            [
                sorted(each.properties().items()),
                each.partition_key(),
                each.ordering_key(),
                each.event_timestamp(),
                each.producer_name(),
                each.topic_name().rpartition("/")[2] == world.local,
                world.place(each.message_id()),
            ],
        )
    world.note("last sequence id", producer.last_sequence_id())
    for compression in ("LZ4", "ZLib", "ZSTD", "SNAPPY"):
        one = world.producer(compression_type=getattr(pulsar.CompressionType, compression))
        one.send(b"z" * 1000)
        world.note(compression, len(world.take(consumer, 1)[0].data()))


@scenario
def too_big(world: World) -> None:
    producer = world.producer()
    world.attempt("too big", lambda: producer.send(b"x" * 5_300_000))
    world.attempt("just right", lambda: producer.send(b"x" * 5_000_000))


@scenario
def deduplication(world: World) -> None:
    world.note("policy", world.admin("POST", "namespaces/public/default/deduplication", True)[0])
    try:
        producer = world.producer(producer_name="p")
        consumer = world.consumer("Exclusive")
        for number in (0, 1, 1, 0, 2):
            producer.send(b"m%d" % number, sequence_id=number)
        world.got("got", world.rest(consumer))
        world.note("last", producer.last_sequence_id())
        producer.close()
        producer = world.producer(producer_name="p")
        world.note("last then", producer.last_sequence_id())
        world.note("status", world.stats()["deduplicationStatus"])
    finally:
        world.admin("DELETE", "namespaces/public/default/deduplication")


@scenario
def non_persistent(world: World) -> None:
    topic = world.topic.replace("persistent://", "non-persistent://")
    producer = world.producer(topic)
    producer.send(b"lost")
    consumer = world.consumer("Shared", topic=topic)
    world.send(producer, 3)
    got = world.got("got", world.take(consumer, 3))
    consumer.acknowledge(got[0])
    consumer.negative_acknowledge(got[1])
    world.got("again", world.rest(consumer, 800))
    consumer.close()
    world.send(producer, 2)
    consumer = world.consumer("Shared", topic=topic)
    world.got("then", world.rest(consumer, 800))


@scenario
def compaction(world: World) -> None:
    producer = world.producer()
    for number in range(6):
        producer.send(b"v%d" % number, partition_key=f"k{number % 2}")
    producer.send(b"", partition_key="k0")
    producer.send(b"no key")
    world.ask("compact", "PUT", "compaction")
    world.until(lambda: world.admin("GET", f"{world.path}/compaction")[1].get("status") == "SUCCESS")
    consumer = world.consumer("Exclusive", "compacted", is_read_compacted=True)
    world.got("compacted", world.rest(consumer, 1000))
    whole = world.consumer("Exclusive", "whole")
    world.got("whole", world.rest(whole, 800))
    reader = world.client.create_reader(world.topic, pulsar.MessageId.earliest, is_read_compacted=True)
    world.note("reader", _read(reader))
    view = world.client.create_table_view(world.topic)
    world.note("view", sorted((key, value.decode()) for key, value in _items(view)))


def _items(view: Any) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    view.for_each(lambda key, value: found.append((key, value)))
    return found


@scenario
def terminated(world: World) -> None:
    producer = world.producer()
    consumer = world.consumer("Exclusive")
    world.send(producer, 3)
    answer = world.ask("terminate", "POST", "terminate")
    world.note("last", [answer["entryId"], answer["partitionIndex"]])
    world.attempt("publish", lambda: producer.send(b"x"))
    world.attempt("new producer", world.producer)
    world.got("got", world.rest(consumer))
    world.attempt("new consumer", lambda: world.consumer("Shared", "new"))
    world.ask("again", "POST", "terminate")


@scenario
def unsubscribe_and_delete(world: World) -> None:
    consumer = world.consumer()
    producer = world.producer()
    world.send(producer, 2)
    world.ask("delete in use", "DELETE", "subscription/sub")
    world.ask("delete topic in use", "DELETE", "")
    consumer.close()
    world.ask("delete", "DELETE", "subscription/sub")
    world.ask("delete again", "DELETE", "subscription/sub")
    world.note("subscriptions", world.admin("GET", f"{world.path}/subscriptions"))
    consumer = world.consumer()
    world.got("anew", world.rest(consumer))
    consumer.unsubscribe()
    world.attempt("after", lambda: consumer.receive(100))
    producer.close()
    world.ask("delete topic", "DELETE", "")
    world.ask("delete topic again", "DELETE", "")
    for path in ("stats", "internalStats", "subscriptions", "lastMessageId", "partitioned-stats"):
        world.ask(path, "GET", path)
    world.ask("unload", "PUT", "unload")
    world.ask("terminate", "POST", "terminate")
    world.ask("compact", "PUT", "compaction")
    world.ask("skip", "POST", "subscription/sub/skip/1")
    world.ask("partitions", "GET", "partitions")


@scenario
def subscriptions_by_rest(world: World) -> None:
    world.ask("topic", "PUT", "")
    world.ask("topic again", "PUT", "")
    ids = world.send(world.producer(), 4)
    world.ask("latest", "PUT", "subscription/latest", "latest")
    world.ask("earliest", "PUT", "subscription/earliest", "earliest")
    body = {"ledgerId": ids[1].ledger_id(), "entryId": ids[1].entry_id()}
    world.ask("at an id", "PUT", "subscription/id", body)
    world.ask("without", "PUT", "subscription/without")
    world.ask("twice", "PUT", "subscription/latest", "latest")
    names = world.ask("names", "GET", "subscriptions")
    world.note("are", sorted(names))
    for name in sorted(names):
        world.backlog(name, name=name)
    consumer = world.consumer("Shared", "id")
    world.got("from the id", world.rest(consumer))
    world.ask("forced", "DELETE", "subscription/id?force=true")
    world.note("are then", sorted(world.ask("names then", "GET", "subscriptions")))


@scenario
def topics_by_rest(world: World) -> None:
    world.note("no namespace", world.admin("GET", "persistent/public/nowhere")[0])
    world.note("no tenant", world.admin("GET", "namespaces/nobody")[0])
    world.ask("unknown stats", "GET", "stats")
    world.ask("unknown partitions", "GET", "partitions")
    world.attempt("client of no namespace", lambda: world.producer("persistent://public/nowhere/t"))
    world.attempt("client of no tenant", lambda: world.consumer(topic="persistent://nobody/nowhere/t"))
    world.attempt("a name that is none", lambda: world.producer("persistent://a/b"))
    space = f"public/space-{world.local}"
    world.note("space", world.admin("PUT", f"namespaces/{space}", {})[0])
    world.note("space again", world.admin("PUT", f"namespaces/{space}", {})[0])
    world.producer(f"persistent://{space}/t").send(b"x")
    world.note("topics", len(world.admin("GET", f"persistent/{space}")[1]))
    world.note("delete in use", world.admin("DELETE", f"namespaces/{space}")[0])
    for name, value in (
        ("messageTTL", 100),
        ("retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10}),
        ("deduplication", True),
        ("maxConsumersPerSubscription", 2),
    ):
        world.note(f"set {name}", world.admin("POST", f"namespaces/{space}/{name}", value)[0])
        world.note(f"get {name}", world.admin("GET", f"namespaces/{space}/{name}"))
        world.note(f"delete {name}", world.admin("DELETE", f"namespaces/{space}/{name}")[0])
    world.note("clusters", world.admin("GET", "clusters"))
    world.note("tenants", "public" in world.admin("GET", "tenants")[1])


@scenario
def figures_of_stats(world: World) -> None:
    consumer = world.consumer(consumer_name="a", properties={"x": "y"})
    world.batch(world.batching(producer_name="p"), 10)
    world.send(world.producer(producer_name="q"), 2)
    got = world.take(consumer, 12)
    for each in got[:10]:
        consumer.acknowledge(each)
    world.acks_arrive()
    found = world.stats()
    world.note("topic", {n: found[n] for n in ("msgInCounter", "msgOutCounter", "deduplicationStatus")})
    world.note(
        "publishers",
        [[p["producerName"], p["accessMode"], p["metadata"]] for p in sorted(found["publishers"], key=str)],
    )
    sub = found["subscriptions"]["sub"]
    subscription_names = (
        "blockedSubscriptionOnUnackedMsgs",
        "isDurable",
        "isReplicated",
        "msgBacklog",
        "msgBacklogNoDelayed",
        "msgDelayed",
        "msgOutCounter",
        "type",
        "unackedMessages",
        "nonContiguousDeletedMessagesRanges",
        "activeConsumerName",
        "allowOutOfOrderDelivery",
        "keySharedMode",
    )
    world.note("subscription", {name: sub.get(name) for name in subscription_names})
    consumer_names = (
        "availablePermits",
        "blockedConsumerOnUnackedMsgs",
        "consumerName",
        "metadata",
        "msgOutCounter",
        "unackedMessages",
    )
    world.note("consumer", {name: sub["consumers"][0].get(name) for name in consumer_names})
    internal = world.admin("GET", f"{world.path}/internalStats")[1]
    ledger_names = (
        "entriesAddedCounter",
        "numberOfEntries",
        "currentLedgerEntries",
        "state",
        "waitingCursorsCount",
    )
    world.note("internal", {name: internal.get(name) for name in ledger_names})
    world.cursor("cursor")


@scenario
def schemas(world: World) -> None:
    from pulsar.schema import Integer, JsonSchema, Record, String, StringSchema

    class One(Record):  # type: ignore[misc]
        a = String()

    class Two(Record):  # type: ignore[misc]
        a = String()
        b = Integer()

    class Other(Record):  # type: ignore[misc]
        a = Integer(required=True)

    producer = world.producer(schema=JsonSchema(One))
    producer.send(One(a="x"))
    consumer = world.consumer("Exclusive", schema=JsonSchema(One))
    (got,) = world.take(consumer, 1)
    world.note("value", got.value().a)
    status, found = world.admin("GET", f"schemas/public/default/{world.local}/schema")
    world.note("schema", [status, found.get("type"), found.get("version")])
    world.attempt("evolved", lambda: world.producer(schema=JsonSchema(Two)))
    world.note(
        "versions", world.admin("GET", f"schemas/public/default/{world.local}/schema")[1].get("version")
    )
    world.attempt("other", lambda: world.producer(schema=JsonSchema(Other)))
    world.attempt("string", lambda: world.producer(schema=StringSchema()))
    world.attempt("bytes", world.producer)
    world.note("deleted", world.admin("DELETE", f"schemas/public/default/{world.local}/schema")[0])
    world.note("none", world.admin("GET", f"schemas/public/default/{world.local}/schema")[0])


@scenario
def peek_and_lookup(world: World) -> None:
    consumer = world.consumer()
    ids = world.send(world.producer(), 3)
    consumer.close()
    for position in (1, 3, 9):
        world.note(f"peek {position}", _raw(world, f"{world.path}/subscription/sub/position/{position}"))
    world.note("by id", _raw(world, f"{world.path}/ledger/{ids[1].ledger_id()}/entry/{ids[1].entry_id()}"))
    world.note(
        "examine", _raw(world, f"{world.path}/examinemessage?initialPosition=latest&messagePosition=1")
    )
    world.note("message id", world.admin("GET", f"{world.path}/messageid/0")[1].get("entryId"))


def _raw(world: World, path: str) -> Any:
    status, text = world.admin("GET", path)
    return [status, text if status == 200 else None]
