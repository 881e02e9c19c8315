"""Each request of the admin API: its answer, its refusals, and its effects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from ackwell.broker.broker_settings import BrokerSettings
from ackwell.devbroker.admin.requests import number
from ackwell.devbroker.compatibility import STRATEGIES, can_read, compatible
from ackwell.devbroker.policies import POLICIES
from ackwell.protocol import messages
from ackwell.protocol.batches import write_batch
from ackwell.protocol.constants import CommandType, SchemaType
from tests.devbroker.offline import BEGUN_MS, ORDERS, Client, Offline, delivered

PATH = "admin/v2/persistent/public/default/orders"
NONE = 2**64 - 1


@pytest.fixture
def broker() -> Iterator[Offline]:
    made = Offline(entries_per_ledger=4)
    yield made
    made.close()


@pytest.fixture
def client(broker: Offline) -> Client:
    """Ten messages in ledgers of four, published a second apart, all delivered to one consumer."""
    made = broker.connect()
    made.subscribe()
    made.produce(producer_name="p1", metadata=[{"key": "pod", "value": "a"}])
    for entry in range(10):
        made.publish(sequence_id=entry, publish_time=BEGUN_MS + 1_000 * entry)
    return made


def mark(broker: Offline, name: str = "s") -> str:
    found = broker.state.topics[ORDERS].subscriptions[name].cursor.mark_delete_position
    return str(found)


def on_s(broker: Offline, method: str, path: str, body: Any = None, **query: str) -> Any:
    return broker.topics(method, f"orders/subscription/s/{path}", body, **query)


# Topics


def test_topics_are_made_once_and_listed(broker: Offline) -> None:
    assert broker.topics("PUT", "b") is None
    assert broker.topics("PUT", "b") == (409, "This topic already exists")
    assert broker.admin("PUT", "admin/v2/non-persistent/public/default/n") is None
    broker.topics("PUT", "a/partitions", 2)
    assert broker.topics("PUT", "a") == (409, "This topic already exists")
    assert broker.topics("PUT", "b/partitions", 2) == (409, "This topic already exists")
    assert broker.topics("PUT", "a/partitions", 2) == (409, "This topic already exists")
    persistent = [f"persistent://public/default/{name}" for name in ("a-partition-0", "a-partition-1", "b")]
    assert broker.admin("GET", "admin/v2/persistent/public/default") == persistent
    others = ["non-persistent://public/default/n"]
    assert broker.admin("GET", "admin/v2/non-persistent/public/default") == others
    assert broker.admin("GET", "admin/v2/persistent/public/default/partitioned") == [
        "persistent://public/default/a"
    ]
    assert broker.admin("GET", "admin/v2/non-persistent/public/default/partitioned") == []
    namespace = "admin/v2/namespaces/public/default/topics"
    assert broker.admin("GET", namespace) == persistent
    assert broker.admin("GET", namespace, mode="NON_PERSISTENT") == others
    assert sorted(broker.admin("GET", namespace, mode="ALL")) == sorted(persistent + others)
    assert broker.admin("GET", "admin/v2/persistent/public/none") == (404, "Namespace public/none not found")
    assert broker.admin("PUT", "admin/v2/persistent/public/none/t")[0] == "TOPIC_NOT_FOUND"


def test_a_topic_that_is_in_use_is_deleted_by_force_alone(broker: Offline, client: Client) -> None:
    used = (412, "Topic has active producers/subscriptions")
    assert broker.topics("DELETE", "orders") == used
    client.ask(CommandType.CLOSE_PRODUCER, producer_id=1, request_id=3)
    assert broker.topics("DELETE", "orders") == used
    assert broker.topics("DELETE", "orders", force="false") == used
    client.ask(CommandType.CLOSE_CONSUMER, consumer_id=1, request_id=3)
    client.produce()
    assert broker.topics("DELETE", "orders") == used
    assert broker.topics("DELETE", "orders", force="true") is None
    assert CommandType.CLOSE_PRODUCER in [each.type for each in client.read()]
    assert (broker.state.topics, list(broker.state.topic_names)) == ({}, [])
    assert broker.state.shared.memory_bytes == 0
    assert broker.topics("DELETE", "orders") == (404, f"Topic {ORDERS} not found")


def test_partitions_are_made_and_only_ever_more(broker: Offline) -> None:
    for wanted in (0, -1, 10_001, "x", None, 2.0):
        assert broker.topics("PUT", "a/partitions", wanted) == (
            406,
            f"{wanted!r} partitions; expected 1 to 10,000",
        )
    assert broker.topics("PUT", "a/partitions", {"partitions": 2}) is None
    assert broker.topics("GET", "a/partitions") == {"partitions": 2}
    broker.topics("PUT", "a/subscription/s", "earliest")
    assert broker.topics("POST", "a/partitions", 1) == (
        422,
        "1 partitions; expected at least the present 2",
    )
    assert broker.topics("POST", "a/partitions", 2) is None
    assert broker.topics("POST", "a/partitions", 3) is None
    assert broker.topics("GET", "a/partitions") == {"partitions": 3}
    # A new partition has the subscriptions of the others.
    assert broker.topics("GET", "a-partition-2/subscriptions") == ["s"]
    broker.topics("PUT", "b")
    assert broker.topics("POST", "b/partitions", 3)[0] == 404
    assert broker.topics("GET", "b/partitions") == {"partitions": 0}
    assert broker.topics("GET", "none/partitions")[0] == 404
    assert broker.topics("GET", "none/partitions", checkAllowAutoCreation="true") == {"partitions": 0}
    assert broker.topics("DELETE", "a") == (
        409,
        "persistent://public/default/a is a partitioned topic instead of non-partitioned topic",
    )
    assert broker.topics("DELETE", "a/partitions") is None
    assert broker.admin("GET", "admin/v2/persistent/public/default") == ["persistent://public/default/b"]
    assert broker.topics("GET", "a/partitioned-stats") == (
        404,
        "Partitioned Topic persistent://public/default/a not found",
    )


def test_the_greatest_number_of_partitions_is_ten_thousand() -> None:
    from ackwell.devbroker.admin.requests import Request
    from ackwell.devbroker.admin.topic_routes import _partitions

    for count in (1, 10_000):
        assert _partitions(Request("PUT", [], {}, str(count).encode())) == count


def test_statistics_are_those_of_the_topic(broker: Offline, client: Client) -> None:
    client.ack((0, 0), (0, 1), (0, 3), (1, 0))
    found = broker.topics("GET", "orders/stats")
    size = broker.state.topics[ORDERS].content.log.nbytes
    one = size // 10
    assert {name: found[name] for name in ("msgInCounter", "bytesInCounter", "storageSize")} == {
        "msgInCounter": 10, "bytesInCounter": size, "storageSize": size,
    }  # fmt: skip
    assert (found["msgOutCounter"], found["bytesOutCounter"]) == (10, size)
    assert found["deduplicationStatus"] == "Disabled"
    (publisher,) = found["publishers"]
    assert {name: publisher[name] for name in ("accessMode", "producerId", "producerName", "metadata")} == {
        "accessMode": "Shared", "producerId": 1, "producerName": "p1", "metadata": {"pod": "a"},
    }  # fmt: skip
    assert (publisher["address"], publisher["clientVersion"]) == ("/10.0.0.1:5000", "test")
    assert publisher["connectedSince"] == "2023-11-14T22:13:20.000Z"
    ((name, subscription),) = found["subscriptions"].items()
    assert name == "s"
    assert {key: value for key, value in subscription.items() if key != "consumers"} | {"backlogSize": 0} == {
        "msgRateOut": 0.0, "msgThroughputOut": 0.0, "msgRateRedeliver": 0.0, "messageAckRate": 0.0,
        "chunkedMessageRate": 0.0, "bytesOutCounter": size, "msgOutCounter": 10, "msgBacklog": 6,
        "backlogSize": 0, "msgBacklogNoDelayed": 6, "blockedSubscriptionOnUnackedMsgs": False,
        "msgDelayed": 0, "msgInReplay": 0, "unackedMessages": 6, "type": "Shared", "isDurable": True,
        "durable": True, "isReplicated": False, "replicated": False, "allowOutOfOrderDelivery": False,
        "consumersAfterMarkDeletePosition": {}, "nonContiguousDeletedMessagesRanges": 2,
        "subscriptionProperties": {},
    }  # fmt: skip
    assert subscription["backlogSize"] == 8 * one
    (consumer,) = subscription["consumers"]
    assert {key: consumer[key] for key in consumer if "Rate" not in key and "Throughput" not in key} == {
        "consumerName": "c1", "bytesOutCounter": size, "msgOutCounter": 10, "availablePermits": 90,
        "unackedMessages": 6, "avgMessagesPerEntry": 1, "blockedConsumerOnUnackedMsgs": False,
        "address": "/10.0.0.1:5000", "connectedSince": "2023-11-14T22:13:20.000Z", "clientVersion": "test",
        "metadata": {},
    }  # fmt: skip


def test_internal_statistics_are_ledgers_and_cursors(broker: Offline, client: Client) -> None:
    client.ack((0, 0), (0, 1), (0, 3), (1, 0))
    found = broker.topics("GET", "orders/internalStats")
    one = broker.state.topics[ORDERS].content.log.nbytes // 10
    cursors = found.pop("cursors")
    assert found == {
        "entriesAddedCounter": 10, "numberOfEntries": 10, "totalSize": 10 * one, "currentLedgerEntries": 2,
        "currentLedgerSize": 2 * one, "waitingCursorsCount": 1, "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": "2:1", "state": "LedgerOpened", "properties": {}, "schemaLedgers": [],
        "ledgers": [
            {"ledgerId": 0, "entries": 4, "size": 4 * one, "offloaded": False, "underReplicated": False},
            {"ledgerId": 1, "entries": 4, "size": 4 * one, "offloaded": False, "underReplicated": False},
            {"ledgerId": 2, "entries": 0, "size": 0, "offloaded": False, "underReplicated": False},
        ],
        "compactedLedger": {"ledgerId": -1, "entries": -1, "size": -1, "offloaded": False},
    }  # fmt: skip
    assert cursors == {
        "s": {
            "markDeletePosition": "0:1", "readPosition": "2:2", "waitingReadOp": True, "pendingReadOps": 0,
            "messagesConsumedCounter": 4, "cursorLedger": 0, "cursorLedgerLastEntry": 0,
            "individuallyDeletedMessages": "[(0:2..0:3],(1:-1..1:0]]", "state": "Open", "active": True,
            "numberOfEntriesSinceFirstNotAckedMessage": 9, "totalNonContiguousDeletedMessagesRange": 2,
            "properties": {},
        }
    } or cursors["s"]["individuallyDeletedMessages"] == "[(0:2..1:0]]"  # fmt: skip


def test_an_empty_topic_has_statistics_too(broker: Offline) -> None:
    broker.topics("PUT", "orders")
    broker.topics("PUT", "orders/subscription/s")
    found = broker.topics("GET", "orders/internalStats")
    assert (found["lastConfirmedEntry"], found["totalSize"], found["waitingCursorsCount"]) == ("0:-1", 0, 0)
    cursor = found["cursors"]["s"]
    assert (cursor["cursorLedger"], cursor["cursorLedgerLastEntry"], cursor["state"]) == (-1, -1, "NoLedger")
    assert (cursor["active"], cursor["waitingReadOp"]) == (False, False)
    assert cursor["numberOfEntriesSinceFirstNotAckedMessage"] == 1
    stats = broker.topics("GET", "orders/stats")["subscriptions"]["s"]
    assert (stats["type"], stats["backlogSize"], stats["msgBacklog"]) == ("None", 0, 0)
    for path in ("stats", "internalStats", "lastMessageId", "subscriptions"):
        assert broker.topics("GET", f"none/{path}") == (
            404,
            "Topic persistent://public/default/none not found",
        )


def test_statistics_of_partitions_are_added_up(broker: Offline) -> None:
    broker.topics("PUT", "a/partitions", 2)
    client = broker.connect()
    for partition in range(2):
        topic = f"a-partition-{partition}"
        client.subscribe("s", partition, topic=topic)
        client.produce(topic, partition)
        for entry in range(2 + partition):
            client.publish(sequence_id=entry, producer_id=partition)
    found = broker.topics("GET", "a/partitioned-stats")
    assert found["metadata"] == {"partitions": 2, "deleted": False}
    assert sorted(found["partitions"]) == [
        f"persistent://public/default/a-partition-{index}" for index in (0, 1)
    ]
    assert (found["msgInCounter"], len(found["publishers"])) == (5, 2)
    summed = found["subscriptions"]["s"]
    assert (summed["msgBacklog"], summed["unackedMessages"], summed["type"]) == (5, 5, "Shared")
    assert (summed["isDurable"], len(summed["consumers"])) == (True, 2)
    internal = broker.topics("GET", "a/partitioned-internalStats")
    assert internal["metadata"] == {"partitions": 2, "deleted": False}
    entries = [each["numberOfEntries"] for each in internal["partitions"].values()]
    assert entries == [2, 3]


def test_the_type_of_key_shared_and_the_active_consumer_are_named(broker: Offline) -> None:
    client = broker.connect()
    client.subscribe("auto", 1, subType=3)
    sticky = {"keySharedMode": 1, "hashRanges": [{"start": 0, "end": 65535}]}
    client.subscribe("sticky", 2, subType=3, keySharedMeta=sticky)
    client.subscribe("failover", 3, subType=2)
    client.subscribe("exclusive", 4, subType=0)
    found = broker.topics("GET", "orders/stats")["subscriptions"]
    modes = {name: each.get("keySharedMode") for name, each in found.items()}
    assert modes == {"auto": "AUTO_SPLIT", "sticky": "STICKY", "failover": None, "exclusive": None}
    assert {name: each.get("activeConsumerName") for name, each in found.items()} == {
        "auto": None, "sticky": None, "failover": "c3", "exclusive": None,
    }  # fmt: skip
    client.ask(CommandType.CLOSE_CONSUMER, consumer_id=3, request_id=1)
    assert broker.topics("GET", "orders/stats")["subscriptions"]["failover"]["activeConsumerName"] == ""


def test_a_topic_ends_with_its_last_message(broker: Offline, client: Client) -> None:
    assert broker.topics("POST", "orders/terminate") == {"ledgerId": 2, "entryId": 1, "partitionIndex": -1}
    assert broker.topics("GET", "orders/internalStats")["state"] == "Terminated"
    assert broker.topics("POST", "none/terminate")[0] == 404
    broker.topics("PUT", "a/partitions", 1)
    assert broker.topics("POST", "a-partition-0/terminate")["partitionIndex"] == 0


def test_unsupported_topic_details_are_empty(broker: Offline, client: Client) -> None:
    for path in ("properties", "permissions"):
        assert broker.topics("GET", f"orders/{path}") == {}
        assert broker.topics("GET", f"none/{path}")[0] == 404
    assert broker.topics("GET", "orders/retention") == (
        501,
        "the dev broker does not implement GET …/retention",
    )
    assert broker.topics("POST", "orders/stats")[0] == 501
    assert broker.topics("GET", "orders/stats/more")[0] == 501
    assert broker.admin("GET", "metrics") == (404, "the dev broker has no /metrics")
    assert broker.admin("GET", "admin/v2/persistent/public/default/%20/x")[0] == 501


def test_an_unload_keeps_the_topic(broker: Offline, client: Client) -> None:
    client.ack((0, 0))
    assert broker.topics("PUT", "orders/unload") is None
    closed = {each.type for each in client.read()}
    assert closed == {CommandType.CLOSE_PRODUCER, CommandType.CLOSE_CONSUMER}
    stats = broker.topics("GET", "orders/stats")["subscriptions"]["s"]
    assert (stats["msgBacklog"], stats["consumers"], stats["type"]) == (9, [], "None")
    kinds = [str(event.kind) for event in broker.events()]
    assert kinds.count("unload") == 1
    # The next message is in a new ledger.
    client.produce(producer_id=5)
    (receipt,) = client.publish(producer_id=5)
    assert (receipt.message.message_id.ledgerId, receipt.message.message_id.entryId) == (3, 0)
    assert broker.admin("PUT", "admin/v2/namespaces/public/default/unload") is None
    assert CommandType.CLOSE_PRODUCER in {each.type for each in client.read()}
    assert broker.admin("PUT", "admin/v2/namespaces/public/none/unload")[0] == 404


def test_a_compacted_read_gets_the_newest_of_each_key(broker: Offline) -> None:
    client = broker.connect()
    broker.topics("PUT", "orders/subscription/keeps")
    client.produce()
    for entry, key in enumerate("abaca"):
        client.publish(sequence_id=entry, partition_key=key)
    assert broker.topics("GET", "orders/compaction") == {"status": "NOT_RUN", "lastError": ""}
    assert broker.topics("PUT", "orders/compaction") is None
    assert broker.topics("GET", "orders/compaction") == {"status": "SUCCESS", "lastError": ""}
    client.publish(sequence_id=9, partition_key="b")
    client.subscribe("compacted", 1, subType=0, read_compacted=True)
    assert delivered(client.delivered) == [(0, 1), (0, 3), (1, 0), (1, 1)]
    client.subscribe("whole", 2, subType=0)
    assert len(delivered(client.delivered)) == 6
    assert broker.topics("PUT", "none/compaction")[0] == 404
    # Each consumer determines whether it reads the compacted view.
    client.ask(CommandType.CLOSE_CONSUMER, consumer_id=1, request_id=3)
    broker.topics("POST", "orders/subscription/compacted/resetcursor", "earliest")
    client.subscribe("compacted", 3, subType=0)
    assert delivered(client.delivered) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]


def test_a_key_that_was_deleted_and_came_again_is_there(broker: Offline) -> None:
    client = broker.connect()
    broker.topics("PUT", "orders/subscription/keeps")
    client.produce()
    bodies = [("a", b"1"), ("b", b"1"), ("a", b""), ("a", b"2"), ("b", b"")]
    for sequence_id, (key, body) in enumerate(bodies):
        client.publish(body, sequence_id=sequence_id, partition_key=key)
    broker.topics("PUT", "orders/compaction")
    client.subscribe(subType=0, read_compacted=True)
    assert delivered(client.delivered) == [(0, 3)]


def test_a_partitioned_topic_is_compacted_if_a_partition_is(broker: Offline) -> None:
    broker.topics("PUT", "orders/partitions", 2)
    assert broker.topics("GET", "orders/compaction")["status"] == "NOT_RUN"
    broker.topics("PUT", "orders-partition-1/compaction")
    shown = [
        broker.topics("GET", f"orders{of}/compaction")["status"]
        for of in ("", "-partition-0", "-partition-1")
    ]
    assert shown == ["SUCCESS", "NOT_RUN", "SUCCESS"]


# Subscriptions


def test_a_subscription_is_created_at_the_requested_position(broker: Offline, client: Client) -> None:
    for name, body, backlog in (
        ("end", None, 0),
        ("latest", "latest", 0),
        ("earliest", "earliest", 10),
        ("at", {"ledgerId": 1, "entryId": 1}, 5),
        ("behind", {"ledgerId": 1, "entryId": 1, "excluded": True}, 4),
        ("before", {"ledgerId": -1, "entryId": -1}, 10),
        ("after", {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}, 0),
    ):
        assert broker.topics("PUT", f"orders/subscription/{name}", body) is None
        made = broker.state.topics[ORDERS].subscriptions[name]
        assert (name, made.cursor.backlog_entries) == (name, backlog)
        assert (made.durable, str(made.type)) == (True, "Exclusive")
    assert broker.topics("PUT", "orders/subscription/end") == (
        409,
        "Subscription already exists for topic",
    )
    for wrong in ({}, {"ledgerId": 1}, {"ledgerId": "1", "entryId": 1}, 5, {"ledgerId": 2**63, "entryId": 1}):
        assert broker.topics("PUT", "orders/subscription/wrong", wrong) == (
            400,
            f"{wrong!r} is not a message id",
        )
    assert sorted(broker.topics("GET", "orders/subscriptions")) == sorted(
        ["s", "end", "latest", "earliest", "at", "behind", "before", "after"]
    )
    # Created on use, like a topic that a client requests.
    assert broker.topics("PUT", "new/subscription/a") is None
    broker.topics("PUT", "parts/partitions", 2)
    broker.topics("PUT", "parts/subscription/b", "earliest")
    broker.topics("PUT", "parts-partition-1/subscription/a", "earliest")
    assert broker.topics("GET", "parts/subscriptions") == ["a", "b"]
    assert broker.topics("POST", "parts/subscription/a/skip_all") == (
        404,
        "Subscription a not found on persistent://public/default/parts-partition-0",
    )


def test_a_subscription_in_use_is_deleted_by_force_alone(broker: Offline, client: Client) -> None:
    used = (412, "Subscription has active connected consumers")
    assert broker.topics("DELETE", "orders/subscription/s") == used
    assert broker.topics("DELETE", "orders/subscription/s", force="no") == used
    assert broker.topics("DELETE", "orders/subscription/s", force="true") is None
    assert [each.type for each in client.read()] == [CommandType.CLOSE_CONSUMER]
    assert broker.topics("GET", "orders/subscriptions") == []
    assert broker.topics("DELETE", "orders/subscription/s") == (404, f"Subscription s not found on {ORDERS}")
    broker.topics("PUT", "orders/subscription/idle")
    assert broker.topics("DELETE", "orders/subscription/idle") is None


def test_a_cursor_is_put_at_a_message_or_at_a_time(broker: Offline, client: Client) -> None:
    broker.topics("PUT", "orders/subscription/keeps", "earliest")
    for body, expected in (
        ({"ledgerId": 1, "entryId": 1}, "1:0"),
        ({"ledgerId": 1, "entryId": 1, "excluded": True}, "1:1"),
        ("earliest", "0:-1"),
        ("latest", "2:1"),
    ):
        assert on_s(broker, "POST", "resetcursor", body) is None
        assert mark(broker) == expected
    for seconds, expected in ((0, "0:-1"), (1, "0:0"), (5, "1:0"), (9, "2:0"), (10, "2:1")):
        assert on_s(broker, "POST", f"resetcursor/{BEGUN_MS + 1_000 * seconds}") is None
        assert mark(broker) == expected
    for wrong in ("-1", "1.5", "x", "1" * 19):
        assert on_s(broker, "POST", f"resetcursor/{wrong}") == (400, f"{wrong!r} is not a number")
    assert on_s(broker, "POST", "resetcursor", {"a": 1})[0] == 400
    kinds = {event.kind for event in broker.events() if event.subscription == "s"}
    assert "seek" in kinds


def test_entries_are_skipped_and_cleared(broker: Offline, client: Client) -> None:
    client.ack((0, 1))
    broker.events()
    assert on_s(broker, "POST", "skip/2") is None
    assert mark(broker) == "0:2"
    assert on_s(broker, "POST", "skip/0") is None
    assert mark(broker) == "0:2"
    assert on_s(broker, "POST", "skip/x")[0] == 400
    assert on_s(broker, "POST", "skip_all") is None
    assert mark(broker) == "2:1"
    kinds = [(event.kind, event.ledger_id, event.entry_id) for event in broker.events()]
    assert ("skip", 0, 2) in kinds
    assert ("clear_backlog", 2, 1) in kinds


def test_entries_older_than_the_given_seconds_expire(broker: Offline, client: Client) -> None:
    broker.topics("PUT", "orders/subscription/t", "earliest")
    broker.run(lambda: broker.clock.advance(9_000))
    broker.events()
    # The last was published now, the first nine seconds ago.
    for seconds, expected in ((9, "0:-1"), (8, "0:0"), (5, "0:3"), (0, "2:0")):
        assert on_s(broker, "POST", f"expireMessages/{seconds}") is None
        assert mark(broker) == expected
    assert [str(event.kind) for event in broker.events()].count("expire") >= 3
    assert mark(broker, "t") == "0:-1"
    assert broker.topics("POST", "orders/all_subscription/expireMessages/5") is None
    assert (mark(broker), mark(broker, "t")) == ("2:0", "0:3")


def test_everything_up_to_a_message_expires(broker: Offline, client: Client) -> None:
    assert on_s(broker, "POST", "expireMessages", {"ledgerId": 0, "entryId": 1}) is None
    assert mark(broker) == "0:1"
    assert on_s(broker, "POST", "expireMessages", {"ledgerId": 0, "entryId": 2, "excluded": True}) is None
    assert mark(broker) == "0:3"
    assert on_s(broker, "POST", "expireMessages", "latest") is None
    assert mark(broker) == "2:1"


def test_properties_of_a_subscription_are_replaced(broker: Offline, client: Client) -> None:
    assert on_s(broker, "GET", "properties") == {}
    assert on_s(broker, "PUT", "properties", {"a": 1, "b": "x"}) is None
    assert on_s(broker, "GET", "properties") == {"a": "1", "b": "x"}
    on_s(broker, "PUT", "properties", {"c": "y"})
    assert broker.topics("GET", "orders/stats")["subscriptions"]["s"]["subscriptionProperties"] == {"c": "y"}
    on_s(broker, "PUT", "properties")
    assert on_s(broker, "GET", "properties") == {}


# Messages


def test_the_last_message_has_an_id(broker: Offline, client: Client) -> None:
    whole = {"ledgerId": 2, "entryId": 1, "partitionIndex": -1, "batchIndex": -1, "batchSize": 0}
    assert broker.topics("GET", "orders/lastMessageId") == whole
    client.publish(num_messages_in_batch=3)
    assert broker.topics("GET", "orders/lastMessageId") == whole | {
        "entryId": 2, "batchIndex": 2, "outstandingAcksInSameBatch": 0, "originalBatchSize": 0,
    }  # fmt: skip
    broker.topics("PUT", "empty")
    found = broker.topics("GET", "empty/lastMessageId")
    assert (found["ledgerId"], found["entryId"]) == (-1, -1)


def test_the_first_message_of_a_time_has_an_id(broker: Offline, client: Client) -> None:
    def at(seconds: int) -> tuple[int, int]:
        found = broker.topics("GET", f"orders/messageid/{BEGUN_MS + 1_000 * seconds}")
        return found["ledgerId"], found["entryId"]

    assert [at(seconds) for seconds in (-1, 0, 1, 4, 9, 10)] == [
        (-1, -1), (-1, -1), (0, 1), (1, 0), (2, 1), (2, 2),
    ]  # fmt: skip


def test_messages_are_found_by_place_and_by_id(broker: Offline, client: Client) -> None:
    client.ack((0, 1))

    def found(path: str, **query: str) -> Any:
        answer = broker.topics("GET", f"orders/{path}", **query)
        return answer if answer[0] == 404 else answer[1]["X-Pulsar-Message-ID"]

    missing = (404, "Message not found")
    peeked = [found(f"subscription/s/position/{place}") for place in (0, 1, 2, 3, 9, 10)]
    assert peeked == ["0:0", "0:0", "0:2", "0:3", "2:1", missing]
    by_id = [found(f"ledger/{ledger}/entry/{entry}") for ledger, entry in ((0, 0), (2, 1), (2, 2), (7, 0))]
    assert by_id == ["0:0", "2:1", missing, missing]
    examined = [
        found("examinemessage", initialPosition="earliest", messagePosition=place) for place in "0159"
    ]
    assert examined == ["0:0", "0:0", "1:0", "2:0"]
    latest = [found("examinemessage", messagePosition=place) for place in "0159"]
    assert latest == ["2:1", "2:1", "1:1", "0:1"]
    assert found("examinemessage") == "2:1"
    assert found("examinemessage", initialPosition="earliest", messagePosition="11") == missing
    assert broker.topics("GET", "orders/examinemessage", messagePosition="x")[0] == 400


def test_a_message_has_its_metadata_as_headers(broker: Offline) -> None:
    client = broker.connect()
    client.produce()
    client.publish(
        b"body", sequence_id=7, producer_name="näme\r\nX: y", partition_key="k\n", event_time=BEGUN_MS + 5,
        properties=[{"key": "a", "value": "b"}],
    )  # fmt: skip
    body, headers = broker.topics("GET", "orders/ledger/0/entry/0")
    assert body == b"body"
    assert headers == {
        "X-Pulsar-Message-ID": "0:0", "X-Pulsar-PROPERTY": json.dumps({"a": "b"}),
        "X-Pulsar-publish-time": "2023-11-14T22:13:20.000Z", "X-Pulsar-Is-Encrypted": "false",
        "X-Pulsar-producer-name": "näme??X: y", "X-Pulsar-sequence-id": "7",
        "X-Pulsar-event-time": "2023-11-14T22:13:20.005Z", "X-Pulsar-partition-key": "k?",
    }  # fmt: skip
    single = messages.SingleMessageMetadata(payload_size=0)
    batch = write_batch([(single, b"a"), (single, b"b")])
    client.publish(batch, num_messages_in_batch=2)
    body, headers = broker.topics("GET", "orders/ledger/0/entry/1")
    assert body == batch
    assert headers["X-Pulsar-num-batch-message"] == "2"
    assert headers["X-Pulsar-batch-size"] == str(len(batch))
    assert not {"X-Pulsar-partition-key", "X-Pulsar-event-time", "X-Pulsar-compression"} & headers.keys()
    import zlib

    client.publish(zlib.compress(b"body" * 9), compression=2, uncompressed_size=36)
    body, headers = broker.topics("GET", "orders/ledger/0/entry/2")
    assert body == b"body" * 9
    assert (headers["X-Pulsar-compression"], headers["X-Pulsar-uncompressed-size"]) == ("ZLIB", "36")
    keys = [{"key": "k", "value": b"v"}]
    client.publish(b"sealed", compression=2, uncompressed_size=36, encryption_keys=keys)
    body, headers = broker.topics("GET", "orders/ledger/0/entry/3")
    assert (body, headers["X-Pulsar-Is-Encrypted"]) == (b"sealed", "true")
    client.publish(b"broken", compression=2, uncompressed_size=36)
    assert broker.topics("GET", "orders/ledger/1/entry/0")[0] == 500


# Namespaces, tenants and the rest


def test_namespaces_are_made_in_tenants_and_deleted_when_empty(broker: Offline) -> None:
    assert broker.admin("GET", "admin/v2/tenants") == ["public", "pulsar"]
    assert broker.admin("PUT", "admin/v2/namespaces/acme/a") == (404, "Tenant acme not found")
    assert broker.admin("GET", "admin/v2/tenants/acme") == (404, "Tenant acme not found")
    assert broker.admin("PUT", "admin/v2/tenants/acme") is None
    assert broker.admin("PUT", "admin/v2/tenants/acme") == (409, "Tenant already exists")
    assert broker.admin("GET", "admin/v2/tenants/acme") == {
        "adminRoles": [], "allowedClusters": ["standalone"],
    }  # fmt: skip
    assert broker.admin("GET", "admin/v2/namespaces/acme") == []
    for name in ("b", "a"):
        assert broker.admin("PUT", f"admin/v2/namespaces/acme/{name}") is None
    assert broker.admin("PUT", "admin/v2/namespaces/acme/a") == (409, "Namespace already exists")
    assert broker.admin("GET", "admin/v2/namespaces/acme") == ["acme/a", "acme/b"]
    assert broker.admin("GET", "admin/v2/namespaces/none") == (404, "Tenant none not found")
    assert broker.admin("GET", "admin/v2/namespaces") == (404, "expected a tenant")
    broker.admin("PUT", "admin/v2/persistent/acme/a/t")
    assert broker.admin("DELETE", "admin/v2/namespaces/acme/a") == (
        409,
        "Cannot delete non empty namespace",
    )
    assert broker.admin("DELETE", "admin/v2/namespaces/acme/b", force="true")[0] == 405
    assert broker.admin("DELETE", "admin/v2/namespaces/acme/b") is None
    assert broker.admin("DELETE", "admin/v2/namespaces/acme/b") == (404, "Namespace acme/b not found")
    assert broker.admin("DELETE", "admin/v2/tenants/acme") == (
        409,
        "The tenant still has active namespaces",
    )
    broker.admin("DELETE", "admin/v2/persistent/acme/a/t")
    broker.admin("DELETE", "admin/v2/namespaces/acme/a")
    assert broker.admin("DELETE", "admin/v2/tenants/acme") is None
    assert broker.admin("GET", "admin/v2/tenants") == ["public", "pulsar"]


def test_delayed_entries_count_in_the_backlog_and_not_in_msg_backlog_no_delayed(broker: Offline) -> None:
    client = broker.connect()
    client.subscribe()
    client.produce()
    for sequence_id, delay_ms in enumerate((0, 5_000, 9_000)):
        client.publish(sequence_id=sequence_id, deliver_at_time=BEGUN_MS + delay_ms)
    found = broker.topics("GET", "orders/stats")["subscriptions"]["s"]
    assert [found[name] for name in ("msgBacklog", "msgDelayed", "msgBacklogNoDelayed")] == [3, 2, 1]


def test_a_name_that_begins_like_another_is_another(broker: Offline) -> None:
    for path in ("tenants/pub", "tenants/acme", "namespaces/acme/a", "namespaces/acme/ab"):
        assert broker.admin("PUT", f"admin/v2/{path}") is None
    assert broker.admin("DELETE", "admin/v2/tenants/pub") is None
    assert broker.admin("GET", "admin/v2/namespaces/acme/a/topics") == []
    broker.admin("PUT", "admin/v2/persistent/acme/ab/t")
    client = broker.connect()
    client.subscribe(topic="persistent://acme/ab/t")
    client.produce(topic="persistent://acme/ab/t")
    client.publish(sequence_id=0)
    client.read()
    assert broker.admin("PUT", "admin/v2/namespaces/acme/a/unload") is None
    assert broker.admin("POST", "admin/v2/namespaces/acme/a/clearBacklog") is None
    assert client.read() == []
    stats = broker.admin("GET", "admin/v2/persistent/acme/ab/t/stats")["subscriptions"]["s"]
    assert (stats["msgBacklog"], len(stats["consumers"])) == (1, 1)
    assert broker.admin("DELETE", "admin/v2/namespaces/acme/a") is None


def test_policies_are_set_read_and_removed(broker: Offline) -> None:
    space = "admin/v2/namespaces/public/default"
    assert broker.admin("GET", space) == {}
    assert "deduplication" in POLICIES
    assert broker.admin("GET", f"{space}/deduplication") is None
    for method, value in (("POST", True), ("PUT", False)):
        assert broker.admin(method, f"{space}/deduplication", value) is None
        assert broker.admin("GET", f"{space}/deduplication") is value
    assert broker.admin("GET", space) == {"deduplication": False}
    assert broker.admin("DELETE", f"{space}/deduplication") is None
    assert broker.admin("GET", space) == {}
    status, why = broker.admin("POST", f"{space}/backlogQuota", {})
    assert (status, why) == (
        501,
        f"the dev broker does not implement the policy 'backlogQuota'; it implements {', '.join(POLICIES)}",
    )
    made = "admin/v2/namespaces/public/other"
    assert (
        broker.admin("PUT", made, {"bundles": {}, "replication_clusters": [], "deduplication": True}) is None
    )
    assert broker.admin("GET", f"{made}/deduplication") is True
    assert broker.admin("PUT", "admin/v2/namespaces/public/third", {"persistence": 1})[0] == 501
    assert broker.admin("PUT", "admin/v2/namespaces/public/third", {"retention": 1})[0] == 412
    none = "admin/v2/namespaces/public/none"
    for method, path in (
        ("GET", ""),
        ("GET", "/x"),
        ("POST", "/deduplication"),
        ("DELETE", "/deduplication"),
    ):
        assert broker.admin(method, none + path) == (404, "Namespace public/none not found")


@pytest.mark.parametrize(
    ("policy", "value", "why"),
    [
        ("messageTTL", -1, "message TTL: -1"),
        ("messageTTL", "60", "message TTL: '60'"),
        ("messageTTL", True, "message TTL: True"),
        ("messageTTL", None, "message TTL: None"),
        ("retention", 5, "retention policy: 5"),
        ("retention", {"retentionTimeInMinutes": -2}, "from -1 on"),
        ("retention", {"retentionSizeInMB": 2**31}, "from -1 on"),
        ("retention", {"retentionTimeInMinutes": 10}, "one limit is 0"),
        ("retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 1}, "one limit is 0"),
    ],
)
def test_a_value_that_a_broker_refuses_changes_nothing(
    broker: Offline, policy: str, value: Any, why: str
) -> None:
    space = "admin/v2/namespaces/public/default"
    status, said = broker.admin("POST", f"{space}/{policy}", value)
    assert status == 412
    assert why in said
    assert broker.admin("GET", space) == {}


def test_the_backlog_of_a_namespace_is_cleared_of_all_subscriptions_or_of_one_name(
    broker: Offline, client: Client
) -> None:
    for name in ("t", "u"):
        broker.topics("PUT", f"orders/subscription/{name}", "earliest")
    space = "admin/v2/namespaces/public/default"
    assert broker.admin("POST", f"{space}/clearBacklog/t") is None
    assert [mark(broker, name) for name in "stu"] == ["0:-1", "2:1", "0:-1"]
    broker.admin("PUT", "admin/v2/namespaces/public/other")
    assert broker.admin("POST", "admin/v2/namespaces/public/other/clearBacklog") is None
    assert mark(broker, "u") == "0:-1"
    assert broker.admin("POST", f"{space}/clearBacklog") is None
    assert [mark(broker, name) for name in "stu"] == ["2:1", "2:1", "2:1"]
    assert broker.admin("POST", "admin/v2/namespaces/public/none/clearBacklog")[0] == 404


def test_a_limit_of_unacknowledged_messages_counts_from_now_on(broker: Offline) -> None:
    client = broker.connect()
    client.subscribe()
    client.produce()
    space = "admin/v2/namespaces/public/default"
    broker.admin("POST", f"{space}/maxUnackedMessagesPerConsumer", 2)
    got = [each for entry in range(4) for each in client.publish(sequence_id=entry)]
    assert delivered(got) == [(0, 0), (0, 1)]
    stats = broker.topics("GET", "orders/stats")["subscriptions"]["s"]["consumers"][0]
    assert stats["blockedConsumerOnUnackedMsgs"]
    broker.admin("DELETE", f"{space}/maxUnackedMessagesPerConsumer")
    # As in a Pulsar broker, a blocked consumer stays blocked until the next acknowledgment.
    assert delivered(client.read() + client.ack((0, 0))) == [(0, 2), (0, 3)]


def test_a_lookup_over_http_names_every_address(broker: Offline) -> None:
    path = "lookup/v2/topic/persistent/public/default/a/b"
    urls = {
        "brokerUrl": "pulsar://here:6650",
        "nativeUrl": "pulsar://here:6650",
        "httpUrl": "http://here:8080",
    }
    assert broker.admin("GET", path) == urls
    broker.service.tls_url = "pulsar+ssl://here:6651"
    assert broker.admin("GET", path) == urls | {"brokerUrlTls": "pulsar+ssl://here:6651"}
    assert broker.admin("GET", path, listenerName="inside")[0] == "SERVICE_NOT_READY"
    assert broker.admin("GET", "lookup/v2/topic/persistent/public/none/a")[0] == "TOPIC_NOT_FOUND"


def test_a_broker_reports_its_version_and_its_restart_settings(broker: Offline) -> None:
    """The doctor reads both; without them it uses defaults."""
    settings = broker.broker.settings
    assert broker.admin("GET", "admin/v2/brokers/version") == settings.version
    said = broker.admin("GET", "admin/v2/brokers/configuration/runtime")
    assert broker.admin("GET", "admin/v2/brokers/configuration/values") == {}
    assert BrokerSettings.of(settings.version).with_known(said) == settings.broker
    assert "managedLedgerMaxUnackedRangesToPersist" in said


def test_a_cluster_is_one_and_well(broker: Offline) -> None:
    assert broker.admin("GET", "admin/v2/clusters") == ["standalone"]
    assert broker.admin("GET", "admin/v2/brokers/health") == "ok"
    assert broker.admin("GET", "admin/v2/brokers/ready") == "ok"
    assert broker.admin("GET", "admin/v2/brokers/standalone") == ["standalone"]
    assert broker.admin("PUT", "admin/v2/clusters/x") == (
        501,
        "the dev broker does not implement PUT of a cluster or broker",
    )


def test_requests_are_authenticated(broker: Offline) -> None:
    from ackwell.devbroker.admin.requests import Backend, HttpError, Request
    from ackwell.devbroker.admin.routes import route

    asked: list[tuple[str, bytes]] = []
    broker.service.authenticate_by = lambda method, data: asked.append((method, data))

    def ask(**headers: str) -> None:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request("GET", ["admin", "v2", "clusters"], {}, headers=given)
        route(Backend(broker.state, broker.service, broker.broker), request)

    ask()
    ask(authorization="Bearer abc")
    ask(authorization="basic dTpw")
    ask(authorization="Bearer abc", x_pulsar_auth_method_name="sasl")
    ask(x_pulsar_auth_method_name="tls")
    assert asked == [("", b""), ("token", b"abc"), ("basic", b"u:p"), ("sasl", b"abc"), ("tls", b"")]
    with pytest.raises(HttpError, match="not base64") as error:
        ask(authorization="basic x")
    assert error.value.status == 401


def test_a_body_that_is_not_json_is_refused() -> None:
    from ackwell.devbroker.admin.requests import HttpError, Request

    assert Request("GET", [], {}, b" \n").json() is None
    assert Request("GET", [], {}, b"[1]").json() == [1]
    with pytest.raises(HttpError, match="the body is not JSON") as error:
        Request("GET", [], {}, b"{").json()
    assert error.value.status == 400
    assert number("9" * 18) == 10**18 - 1


# Schemas


def test_schemas_are_put_read_and_deleted(broker: Offline) -> None:
    path = "admin/v2/schemas/public/default/orders/schema"
    missing = (404, "Schema not found")
    assert broker.admin("GET", path) == missing
    assert broker.admin("DELETE", path) == missing
    wrongs: list[Any] = [None, [], {"type": "NO"}, {"schema": "x"}]
    for wrong in wrongs:
        assert broker.admin("POST", path, wrong) == (422, "expected a schema with a type")
    for version, text in enumerate(('"string"', '"bytes"')):
        assert broker.admin("POST", path, {"type": "AVRO", "schema": text}) == {"version": version}
    newest = {"version": 1, "type": "AVRO", "timestamp": 0, "data": '"bytes"', "properties": {}}
    assert broker.admin("GET", path) == newest
    assert broker.admin("GET", f"{path}/0") == newest | {"version": 0, "data": '"string"'}
    assert broker.admin("GET", f"{path}/2") == missing
    assert broker.admin("POST", path, {"type": "JSON", "schema": "{}"})[0] == "INCOMPATIBLE_SCHEMA"
    assert broker.admin("DELETE", path) == {"version": 1}
    assert broker.admin("GET", path) == missing
    assert broker.admin("POST", path, {"type": "STRING"}) == {"version": 0}
    assert broker.admin("GET", path)["type"] == SchemaType.STRING.name


RECORD: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
MORE = RECORD | {"fields": [*RECORD["fields"], {"name": "b", "type": "int"}]}
DEFAULTED = RECORD | {"fields": [*RECORD["fields"], {"name": "b", "type": "int", "default": 0}]}


def fits(new: Any, before: list[Any], strategy: str) -> bool:
    return compatible(json.dumps(new).encode(), [json.dumps(each).encode() for each in before], strategy)


@pytest.mark.parametrize(
    ("new", "before", "allowed"),
    [
        # A field without a default can be removed but not added.
        (MORE, [RECORD], "FORWARD FORWARD_TRANSITIVE"),
        (RECORD, [MORE], "BACKWARD BACKWARD_TRANSITIVE"),
        (DEFAULTED, [RECORD], "BACKWARD BACKWARD_TRANSITIVE FORWARD FORWARD_TRANSITIVE FULL FULL_TRANSITIVE"),
        # Only the newest version counts, except with a transitive strategy.
        (
            DEFAULTED,
            [MORE, RECORD],
            "BACKWARD BACKWARD_TRANSITIVE FORWARD FORWARD_TRANSITIVE FULL FULL_TRANSITIVE",
        ),
        (MORE, [RECORD, DEFAULTED], "BACKWARD FORWARD FORWARD_TRANSITIVE FULL"),
        ("int", ["string"], ""),
    ],
)
def test_a_new_schema_is_checked_by_the_strategy(new: Any, before: list[Any], allowed: str) -> None:
    found = {name for name in STRATEGIES if fits(new, before, name)}
    assert found == {*allowed.split(), "ALWAYS_COMPATIBLE"}
    assert all(fits(new, [], name) for name in STRATEGIES)


def test_a_schema_that_is_not_json_is_incompatible() -> None:
    assert not compatible(b"{", [b'"int"'], "FULL")
    assert not compatible(b'"int"', [b"{"], "BACKWARD")
    assert compatible(b"{", [b"{"], "ALWAYS_COMPATIBLE")


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


ARRAY = {"type": "array", "items": "int"}
MAP = {"type": "map", "values": "int"}


def recursive(kind: str) -> dict[str, Any]:
    """Return a recursive record."""
    inside: dict[str, Any] = {
        "union": ["null", "N"], "array": {"type": "array", "items": "N"},
        "map": {"type": "map", "values": "N"}, "plain": "N",
    }  # fmt: skip
    return {"type": "record", "name": "N", "fields": [{"name": "next", "type": inside[kind]}]}


FIXED = {"type": "fixed", "name": "F", "size": 4}
NODE = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}


@pytest.mark.parametrize(
    ("reader", "writer", "both"),
    [
        # Whether each schema can read the other.
        *[(reader, writer, (True, False)) for writer, readers in {
            "int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",),
        }.items() for reader in readers],
        ("string", "bytes", (True, True)),
        ("int", "int", (True, True)),
        ("boolean", "int", (False, False)),
        ({"type": "int"}, "int", (True, True)),
        ({"type": {"type": "int"}}, "int", (True, True)),
        (["null", "int"], "int", (True, False)),
        (["int", "string"], ["string"], (True, False)),
        ("int", [], (True, False)),
        (enum("a", "b"), enum("a"), (True, False)),
        (enum("a", default="a"), enum("a", "b"), (True, True)),
        (ARRAY | {"items": "long"}, ARRAY, (True, False)),
        (MAP | {"values": "long"}, MAP, (True, False)),
        (ARRAY, MAP, (False, False)),
        (FIXED, FIXED, (True, True)),
        (FIXED, FIXED | {"size": 5}, (False, False)),
        (NODE, NODE, (True, True)),
        *[(recursive(kind), recursive(kind), (True, True)) for kind in ("union", "array", "map", "plain")],
        (RECORD | {"fields": []}, RECORD, (True, False)),
        (RECORD | {"fields": [{"name": "a", "type": "long"}]}, RECORD, (True, False)),
        (DEFAULTED, RECORD, (True, True)),
        # A type is referenced by name after its definition.
        (
            RECORD | {"fields": [{"name": "e", "type": enum("a")}, {"name": "f", "type": "E"}]},
            RECORD | {"fields": [{"name": "e", "type": enum("a")}, {"name": "f", "type": "E"}]},
            (True, True),
        ),
        (
            RECORD | {"fields": [{"name": "e", "type": enum("a")}, {"name": "f", "type": "E"}]},
            RECORD | {"fields": [{"name": "e", "type": enum("a")}, {"name": "f", "type": "int"}]},
            (False, False),
        ),
        (
            {"type": "array", "items": [RECORD, "null"]},
            {"type": "array", "items": [MORE, "null"]},
            (True, False),
        ),
    ],
)  # fmt: skip
def test_data_of_one_schema_is_read_with_another(reader: Any, writer: Any, both: tuple[bool, bool]) -> None:
    assert (can_read(reader, writer), can_read(writer, reader)) == both


def test_only_avro_and_json_are_compared(broker: Offline) -> None:
    path = "admin/v2/schemas/public/default/orders/schema"
    for version, text in enumerate("ab"):
        assert broker.admin("POST", path, {"type": "PROTOBUF", "schema": text}) == {"version": version}
