"""Operations for tests: list messages, list a backlog, redeliver, inject faults, reset."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ackwell.devbroker import AsyncBroker, Broker
from ackwell.replay.events import Kind
from ackwell.replay.states import replay_files

pulsar = pytest.importorskip("pulsar")

SHARED = {"consumer_type": pulsar.ConsumerType.Shared}


def bodies(messages: list[Any]) -> list[bytes]:
    return [each.data for each in messages]


def received(consumer: Any, most: int = 100) -> list[tuple[bytes, int]]:
    got = []
    try:
        for _ in range(most):
            message = consumer.receive(400)
            got.append((message.data(), message.redelivery_count()))
    except pulsar.Timeout:
        pass
    return got


def filled(client: Any, count: int, topic: str = "orders", **options: Any) -> None:
    producer = client.create_producer(topic, **options)
    for number in range(count):
        producer.send_async(b"%d" % number, None, partition_key=f"k{number}", properties={"n": str(number)})
    producer.flush()


def test_the_messages_of_a_topic_are_those_that_were_sent(broker: Broker, client: Any) -> None:
    filled(client, 3, producer_name="shop")
    first, *_, last = broker.messages("orders")
    assert (first.data, first.key, first.properties) == (b"0", "k0", {"n": "0"})
    assert (first.producer, first.batch_index, last.position.entry_id) == ("shop", -1, 2)
    with pytest.raises(KeyError, match="topic 'persistent://public/default/nothing' does not exist"):
        broker.messages("nothing")


def test_a_backlog_is_the_unacknowledged_messages_also_of_batches(broker: Broker, client: Any) -> None:
    consumer = client.subscribe("orders", "billing", batch_index_ack_enabled=True, **SHARED)
    filled(client, 5, batching_enabled=True, batching_max_publish_delay_ms=1000, batching_max_messages=5)
    consumer.receive(5000)
    consumer.acknowledge(consumer.receive(5000))
    broker.settle()
    assert bodies(broker.messages("orders")) == [b"0", b"1", b"2", b"3", b"4"]
    assert bodies(broker.backlog("orders", "billing")) == [b"0", b"2", b"3", b"4"]
    with pytest.raises(KeyError, match="has no subscription 'shipping'"):
        broker.backlog("orders", "shipping")


def test_a_topic_with_partitions_is_one_topic_to_a_test(broker: Broker, client: Any) -> None:
    broker.create_topic("orders", partitions=3)
    broker.create_namespace("shop/live")
    assert len(client.get_topic_partitions("orders")) == 3
    filled(client, 6)
    filled(client, 1, "persistent://shop/live/orders")
    assert sorted(bodies(broker.messages("orders"))) == [b"%d" % each for each in range(6)]
    with pytest.raises(ValueError, match="invalid topic name"):
        broker.create_namespace("live")


@pytest.mark.parametrize("give", [lambda m: m, lambda m: m.message_id(), lambda m: [m]])
def test_one_message_is_taken_back_and_no_other(broker: Broker, client: Any, give: Any) -> None:
    consumer = client.subscribe("orders", "billing", consumer_name="worker", **SHARED)
    filled(client, 4)
    first = consumer.receive(5000)
    assert broker.take_back("worker", give(first)) == 1
    assert received(consumer) == [(b"1", 0), (b"2", 0), (b"3", 0), (b"0", 1)]


def test_unread_messages_in_a_client_s_queue_do_not_arrive_twice(broker: Broker, client: Any) -> None:
    consumer = client.subscribe("orders", "billing", consumer_name="worker", **SHARED)
    filled(client, 4)
    consumer.receive(5000)
    broker.settle()
    assert broker.take_back("worker") == 4
    assert sorted(received(consumer)) == [(b"%d" % each, 1) for each in range(4)]


def test_on_exclusive_everything_is_redelivered_once_and_in_order(broker: Broker, client: Any) -> None:
    consumer = client.subscribe("orders", "billing", consumer_name="worker")
    filled(client, 4)
    first = consumer.receive(5000)
    broker.settle()
    broker.take_back("worker", first)
    assert [data for data, _ in received(consumer)] == [b"0", b"1", b"2", b"3"]


def test_a_reset_broker_is_as_new_and_at_the_same_address(broker: Broker, connect: Any) -> None:
    url = broker.url
    filled(connect(broker), 3)
    broker.create_namespace("shop/live")
    broker.faults.refuse_sends()
    broker.clock.advance(hours=5)
    broker.clock.freeze()
    broker.reset()
    assert (broker.url, broker.events) == (url, [])
    with pytest.raises(KeyError):
        broker.messages("orders")
    filled(connect(broker), 1)
    (message,) = broker.messages("orders")
    assert (message.data, message.position, message.producer) == (b"0", (0, 0), "standalone-0-0")
    assert broker.events[0].sequence == 1
    assert not broker.faults.any


def test_a_reset_starts_a_crashed_broker_again(broker: Broker, connect: Any) -> None:
    url = broker.url
    broker.crash()
    broker.reset()
    filled(connect(broker), 1)
    assert (broker.url, bodies(broker.messages("orders"))) == (url, [b"0"])


def test_the_next_acks_of_one_subscription_are_lost(broker: Broker, client: Any) -> None:
    consumers = [client.subscribe("orders", name, **SHARED) for name in ("billing", "shipping")]
    broker.faults.lose_acks(next=1, topic="orders", subscription="billing")
    filled(client, 1)
    for each in consumers:
        each.acknowledge(each.receive(5000))
    broker.settle()
    left = [len(broker.backlog("orders", name)) for name in ("billing", "shipping")]
    assert left == [1, 0]


def test_a_broker_crashes_after_a_message_which_is_stored(broker: Broker, client: Any) -> None:
    consumer = client.subscribe("orders", "billing", **SHARED)
    broker.faults.crash_after(2, topic="orders")
    producer = client.create_producer("orders")
    producer.send(b"0")
    producer.send_async(b"1", lambda *_: None)
    while not broker._broker.crashed:
        pass
    assert bodies(broker.messages("orders")) == [b"0", b"1"]
    broker.restart()
    producer.flush()
    # The producer had no receipt, so it sent the message again.
    assert [data for data, _ in received(consumer)][-2:] == [b"1", b"1"]


def test_events_can_be_read_after_the_broker_stopped_and_saved_as_a_recording(
    tmp_path: Path, connect: Any
) -> None:
    with Broker() as broker:
        client = connect(broker)
        client.subscribe("orders", "billing", **SHARED)
        filled(client, 2)
        client.close()
    assert [event.kind for event in broker.events].count(Kind.PUBLISH) == 2
    broker.save_events(tmp_path / "recording" / "new", payloads=True)
    (state,) = replay_files([tmp_path])
    assert state.cursor.backlog_entries == 2


def call(broker: Broker, method: str, path: str, **body: Any) -> Any:
    url = f"{broker.admin_url}/dev/{path}"
    data = json.dumps(body).encode() if method == "POST" else None
    with urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=10) as answer:
        return json.loads(answer.read() or b"null")


def test_time_faults_and_restarts_can_be_had_over_http(broker: Broker, client: Any) -> None:
    consumer = client.subscribe("orders", "billing", consumer_name="worker", **SHARED)
    call(broker, "POST", "clock/freeze")
    before = call(broker, "GET", "clock")
    call(broker, "POST", "clock/advance", hours=2)
    assert call(broker, "GET", "clock") == {"now_ms": before["now_ms"] + 7_200_000, "frozen": True}
    filled(client, 2)
    call(broker, "POST", "faults/lose_acks", next=1, subscription="billing")
    consumer.acknowledge(consumer.receive(5000))
    call(broker, "POST", "settle")
    assert len(call(broker, "GET", "backlog?topic=orders&subscription=billing")) == 2
    call(broker, "DELETE", "faults")
    call(broker, "POST", "crash")
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(f"{broker.admin_url}/admin/v2/clusters", timeout=10)
    assert call(broker, "POST", "restart", as_="ackwell") == {"how": "crash", "as": "ackwell", "messages": 0}
    assert len(call(broker, "GET", "messages?topic=orders")) == 2
    assert {each["kind"] for each in call(broker, "GET", "events")} >= {"publish", "broker_restart"}
    call(broker, "POST", "reset")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        call(broker, "GET", "messages?topic=orders")
    for path, body in (
        ("clock/advance", {"ms": -1}),
        ("clock/advance", {"years": 1}),
        ("restart", {"as_": "x"}),
    ):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            call(broker, "POST", path, **body)


def test_an_async_broker_has_the_same_clock() -> None:
    async def run() -> int:
        async with AsyncBroker(admin_port=None) as broker:
            before = broker.clock.now_ms()
            broker.clock.freeze()
            broker.clock.advance(hours=1)
            return broker.clock.now_ms() - before

    assert asyncio.run(run()) >= 3_600_000
