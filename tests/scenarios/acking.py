"""Acknowledgments and the cursor positions after seeks, unloads, restarts and admin operations."""

from __future__ import annotations

import time
from typing import Any

import pulsar

from tests.scenarios.world import World, scenario


@scenario
def cumulative(world: World) -> None:
    for kind in ("Exclusive", "Failover"):
        topic = f"{world.topic}-{kind}"
        consumer = world.consumer(kind, topic=topic)
        world.send(world.producer(topic), 8)
        got = world.got(f"{kind} first", world.take(consumer, 8))
        consumer.acknowledge(got[6])
        consumer.acknowledge_cumulative(got[3])
        world.acks_arrive()
        consumer.close()
        consumer = world.consumer(kind, topic=topic)
        world.got(f"{kind} reopened", world.rest(consumer, 1500))
    shared = world.consumer("Shared", "shared")
    world.send(world.producer(), 2)
    got = world.take(shared, 2)
    world.attempt("shared", lambda: shared.acknowledge_cumulative(got[1]))
    keyed = world.consumer("KeyShared", "keyed")
    got = world.take(keyed, 2)
    world.attempt("key_shared", lambda: keyed.acknowledge_cumulative(got[1]))


@scenario
def cumulative_in_a_batch(world: World) -> None:
    for index_enabled in (False, True):
        topic = f"{world.topic}-{index_enabled}"
        consumer = world.consumer("Exclusive", topic=topic, batch_index_ack_enabled=index_enabled)
        producer = world.batching(topic)
        world.batch(producer, 5)
        world.batch(producer, 5, 5)
        got = world.take(consumer, 10)
        consumer.acknowledge_cumulative(got[6])
        world.acks_arrive()
        consumer.close()
        consumer = world.consumer("Exclusive", topic=topic, batch_index_ack_enabled=index_enabled)
        world.got(f"index {index_enabled}", world.rest(consumer, 800))


@scenario
def batch_index(world: World) -> None:
    consumer = world.consumer(batch_index_ack_enabled=True)
    producer = world.batching()
    world.batch(producer, 10)
    world.batch(producer, 10, 10)
    got = world.take(consumer, 20)
    for each in (*got[:3], got[7], *got[10:20]):
        consumer.acknowledge(each)
    world.cursor("cursor")
    world.figures("stats", "msgBacklog", "unackedMessages")
    consumer.close()
    consumer = world.consumer(batch_index_ack_enabled=True)
    got = world.set_of("reopened", world.rest(consumer, 800))
    for each in got:
        consumer.acknowledge(each)
    world.backlog("backlog", expected=0)
    world.cursor("cursor then")


@scenario
def batch_without_index(world: World) -> None:
    consumer = world.consumer()
    world.batch(world.batching(), 6)
    got = world.take(consumer, 6)
    for each in got[:5]:
        consumer.acknowledge(each)
    world.backlog("backlog")
    consumer.close()
    consumer = world.consumer()
    for each in world.got("reopened", world.rest(consumer, 800)):
        consumer.acknowledge(each)
    world.backlog("backlog then", expected=0)


@scenario
def acks_out_of_order(world: World) -> None:
    consumer = world.consumer()
    world.send(world.producer(), 20)
    got = world.take(consumer, 20)
    for index in (19, 3, 4, 0, 12, 10, 11, 5):
        consumer.acknowledge(got[index])
    world.cursor("cursor")
    world.figures("stats", "msgBacklog", "unackedMessages", "nonContiguousDeletedMessagesRanges")
    for each in got:
        consumer.acknowledge(each)
    world.backlog("backlog", expected=0)
    world.cursor("cursor then")


@scenario
def ack_twice_and_after_redelivery(world: World) -> None:
    consumer = world.consumer()
    world.send(world.producer(), 3)
    got = world.take(consumer, 3)
    consumer.acknowledge(got[0])
    consumer.acknowledge(got[0])
    consumer.redeliver_unacknowledged_messages()
    again = world.set_of("again", world.take(consumer, 2))
    consumer.acknowledge(got[1])
    world.acks_arrive()
    consumer.negative_acknowledge(again[0])
    consumer.negative_acknowledge(again[1])
    world.set_of("third", world.rest(consumer, 800))
    world.backlog("backlog")


@scenario
def ack_of_another_consumers_message(world: World) -> None:
    first = world.consumer(consumer_name="a")
    world.send(world.producer(), 4)
    got = world.take(first, 4)
    second = world.consumer(consumer_name="b")
    second.acknowledge(got[0].message_id())
    world.backlog("backlog")
    first.close()
    world.set_of("second", world.rest(second, 800))
    world.figures("stats", "unackedMessages", "msgBacklog")


@scenario
def seek_by_id(world: World) -> None:
    for kind in ("Exclusive", "Shared"):
        topic = f"{world.topic}-{kind}"
        consumer = world.consumer(kind, topic=topic)
        ids = world.send(world.producer(topic), 10)
        for each in world.take(consumer, 10):
            consumer.acknowledge(each)
        world.acks_arrive()
        consumer.seek(ids[6])
        world.got(f"{kind} from 6", world.rest(consumer, 800))
        consumer.seek(pulsar.MessageId.earliest)
        world.got(f"{kind} earliest", world.rest(consumer, 800))
        consumer.seek(pulsar.MessageId.latest)
        world.got(f"{kind} latest", world.rest(consumer, 800))
        inclusive = world.consumer(kind, "inclusive", topic=topic, start_message_id_inclusive=True)
        inclusive.seek(ids[6])
        world.got(f"{kind} inclusive", world.rest(inclusive, 800))


@scenario
def seek_into_a_batch(world: World) -> None:
    for inclusive in (False, True):
        consumer = world.consumer(
            "Exclusive",
            f"sub-{inclusive}",
            start_message_id_inclusive=inclusive,
            batch_index_ack_enabled=True,
        )
        if not inclusive:
            producer = world.batching()
            world.batch(producer, 5)
            world.batch(producer, 5, 5)
        got = world.take(consumer, 10)
        consumer.seek(got[7].message_id())
        world.got(f"inclusive {inclusive}", world.rest(consumer, 800))
        world.backlog(f"backlog {inclusive}", name=f"sub-{inclusive}")


@scenario
def seek_by_time(world: World) -> None:
    consumer = world.consumer("Exclusive")
    producer = world.producer()
    world.send(producer, 3)
    time.sleep(0.05)
    middle = int(time.time() * 1000)
    time.sleep(0.05)
    world.send(producer, 3, 3)
    got = world.take(consumer, 6)
    for each in got:
        consumer.acknowledge(each)
    world.acks_arrive()
    consumer.seek(middle)
    world.got("middle", world.rest(consumer, 800))
    consumer.seek(got[1].publish_timestamp())
    world.got("exact", world.rest(consumer, 800)[-4:])
    consumer.seek(0)
    world.got("zero", world.rest(consumer, 800))
    consumer.seek(int(time.time() * 1000) + 100_000)
    world.got("future", world.rest(consumer, 800))
    producer.send(b"new")
    world.got("new", world.rest(consumer, 800))


@scenario
def seek_with_others_connected(world: World) -> None:
    first, second = (world.consumer(consumer_name=name) for name in ("a", "b"))
    ids = world.send(world.producer(), 8)
    for consumer in (first, second):
        for each in world.rest(consumer, 600):
            consumer.acknowledge(each)
    world.acks_arrive()
    world.attempt("seek", lambda: first.seek(ids[3]))
    got = world.rest(first, 1500) + world.rest(second, 1500)
    # The one sought itself is left out by the consumer that sought, and by no other.
    world.note("again", sorted({each.data().decode() for each in got} - {"m3"}))


@scenario
def seek_by_rest(world: World) -> None:
    consumer = world.consumer()
    producer = world.producer()
    ids = world.send(producer, 6)
    time.sleep(0.05)
    middle = int(time.time() * 1000)
    time.sleep(0.05)
    world.send(producer, 4, 6)
    for each in world.take(consumer, 10):
        consumer.acknowledge(each)
    world.backlog("backlog", expected=0)
    world.ask("time", "POST", f"subscription/sub/resetcursor/{middle}")
    world.set_of("after time", world.rest(consumer, 1000))
    for excluded in (False, True):
        body = {
            "ledgerId": ids[2].ledger_id(),
            "entryId": ids[2].entry_id(),
            "partitionIndex": -1,
            "excluded": excluded,
        }
        world.ask(f"id {excluded}", "POST", "subscription/sub/resetcursor", body)
        world.set_of(f"after id {excluded}", world.rest(consumer, 1000))
    world.ask("no such", "POST", "subscription/nobody/resetcursor/0")
    world.ask("no such id", "POST", "subscription/nobody/resetcursor", body)
    consumer.close()
    world.ask("earliest", "POST", "subscription/sub/resetcursor/0")
    world.backlog("backlog at last")
    world.cursor("cursor")


@scenario
def skip_clear_expire(world: World) -> None:
    consumer = world.consumer(receiver_queue_size=1)
    producer = world.producer()
    world.send(producer, 5)
    # `expireMessages/2` is for messages older than two seconds.
    time.sleep(3)
    world.send(producer, 5, 5)
    consumer.close()
    world.ask("skip 2", "POST", "subscription/sub/skip/2")
    world.backlog("after skip")
    world.ask("expire", "POST", "subscription/sub/expireMessages/2")
    world.backlog("after expire")
    world.cursor("cursor")
    consumer = world.consumer()
    got = world.set_of("rest", world.rest(consumer, 800))
    world.note("unacked", len(got))
    consumer.close()
    world.ask("skip all", "POST", "subscription/sub/skip_all")
    world.backlog("after skip all", expected=0)
    world.ask("skip of nobody", "POST", "subscription/nobody/skip/2")
    world.ask("clear of nobody", "POST", "subscription/nobody/skip_all")
    world.ask("expire of nobody", "POST", "subscription/nobody/expireMessages/2")
    world.send(producer, 3, 10)
    world.ask("skip more", "POST", "subscription/sub/skip/100")
    world.backlog("after skip more")


@scenario
def skip_while_connected(world: World) -> None:
    consumer = world.consumer()
    world.send(world.producer(), 8)
    got = world.take(consumer, 8)
    consumer.acknowledge(got[1])
    world.acks_arrive()
    world.ask("skip", "POST", "subscription/sub/skip/3")
    world.cursor("cursor")
    consumer.redeliver_unacknowledged_messages()
    world.set_of("again", world.rest(consumer, 1000))
    world.ask("clear", "POST", "subscription/sub/skip_all")
    world.backlog("backlog", expected=0)
    consumer.redeliver_unacknowledged_messages()
    world.set_of("nothing", world.rest(consumer, 1000))
    world.figures("stats", "unackedMessages", "msgBacklog")


@scenario
def expire_by_position(world: World) -> None:
    consumer = world.consumer()
    ids = world.send(world.producer(), 8)
    consumer.close()
    body = {"ledgerId": ids[3].ledger_id(), "entryId": ids[3].entry_id(), "excluded": False}
    world.ask("expire", "POST", "subscription/sub/expireMessages", body)
    world.backlog("backlog")
    consumer = world.consumer()
    world.set_of("rest", world.rest(consumer, 800))
    consumer.close()
    body["excluded"] = True
    body["entryId"] += 2
    world.ask("expire before", "POST", "subscription/sub/expireMessages", body)
    world.backlog("backlog then")
    world.ask("expire all", "POST", "all_subscription/expireMessages/1")


@scenario
def unload(world: World) -> None:
    consumer = world.consumer(batch_index_ack_enabled=True)
    producer = world.producer()
    world.send(producer, 6)
    batching = world.batching()
    world.batch(batching, 4, 6)
    got = world.take(consumer, 10)
    for each in (got[0], got[2], got[7]):
        consumer.acknowledge(each)
    consumer.negative_acknowledge(got[3])
    world.set_of("nacked", world.take(consumer, 1))
    world.acks_arrive()
    world.ask("unload", "PUT", "unload")
    again = world.set_of("again", world.rest(consumer, 2500))
    world.send(producer, 2, 20)
    again += world.set_of("new", world.rest(consumer, 1500))
    for each in again:
        consumer.acknowledge(each)
    world.backlog("backlog", expected=0)


@scenario
def restart_in_good_order(world: World) -> None:
    _restarted(world, "graceful")


@scenario
def crash(world: World) -> None:
    _restarted(world, "crash")


def _restarted(world: World, how: str) -> None:
    consumer = world.consumer(batch_index_ack_enabled=True)
    producer = world.producer()
    world.send(producer, 6)
    world.batch(world.batching(), 4, 6)
    got = world.take(consumer, 10)
    # One that is written at once, and after a second one that is written with it.
    consumer.acknowledge(got[0])
    time.sleep(2)
    consumer.acknowledge(got[2])
    time.sleep(0.5)
    consumer.acknowledge(got[4])
    consumer.acknowledge(got[7])
    time.sleep(0.5)
    world.restart(how)
    again = world.set_of("again", world.rest(consumer, 8000))
    world.attempt("publish", lambda: producer.send(b"new"))
    again += world.set_of("new", world.rest(consumer, 3000))
    for each in again:
        consumer.acknowledge(each)
    world.backlog("backlog", expected=0)


@scenario
def chunks(world: World) -> None:
    consumer = world.consumer("Exclusive")
    producer = world.producer(chunking_enabled=True)
    for number in range(2):
        producer.send(bytes([65 + number]) * 12_000_000)
    producer.send(b"small")
    got: list[Any] = world.take(consumer, 3)
    world.note("got", [[each.data()[:1].decode(), len(each.data())] for each in got])
    world.backlog("backlog")
    for each in got:
        consumer.acknowledge(each)
    world.backlog("backlog then", expected=0)
    consumer.seek(got[1].message_id())
    world.note("seek", [len(each.data()) for each in world.rest(consumer, 1500)])
    consumer.seek(pulsar.MessageId.earliest)
    world.note("earliest", [len(each.data()) for each in world.rest(consumer, 1500)])


@scenario
def chunks_redelivered(world: World) -> None:
    consumer = world.consumer()
    producer = world.producer(chunking_enabled=True)
    producer.send(b"A" * 11_000_000)
    (got,) = world.take(consumer, 1)
    consumer.negative_acknowledge(got)
    again = world.take(consumer, 1)
    world.note("again", [[len(each.data()), each.redelivery_count()] for each in again])
    for each in again:
        consumer.acknowledge(each)
    world.backlog("backlog")
