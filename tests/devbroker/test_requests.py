"""Each request of the admin API: its answer, its refusals, and its effects."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from ackwell.broker.broker_settings import BrokerSettings, dynamic_settings
from ackwell.devbroker.admin_api.requests import HttpError, Request, number
from ackwell.devbroker.admin_api.route_table import RESOURCES, routes
from ackwell.devbroker.admin_api.server import dispatch
from ackwell.devbroker.admin_api.topic_routes import _partitions
from ackwell.devbroker.compatibility import STRATEGIES, can_read, compatible
from ackwell.devbroker.namespace_policies import POLICIES, NamespacePolicy
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.integers import INT64_MAX
from ackwell.protocol import messages
from ackwell.protocol.batches import write_batch
from ackwell.protocol.constants import CommandType, SchemaType
from tests.admin_answers.requests_made import AVRO, AVRO_2
from tests.devbroker.offline import BEGUN_MS, ORDERS, Client, Offline, delivered

PATH = "admin/v2/persistent/public/default/orders"
NONE = 2**64 - 1
TENANT = {"adminRoles": ["role"], "allowedClusters": ["standalone"]}
SPACE = "admin/v2/namespaces/public/default"


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
    assert broker.admin("GET", "admin/v2/persistent/public/none") == (404, "Namespace does not exist")
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
    assert broker.topics("GET", "a/partitions") == {"partitions": 2, "deleted": False}
    broker.topics("PUT", "a/subscription/s", "earliest")
    assert broker.topics("POST", "a/partitions", 1) == (
        422,
        "1 partitions; expected at least the present 2",
    )
    assert broker.topics("POST", "a/partitions", 2) is None
    assert broker.topics("POST", "a/partitions", 3) is None
    assert broker.topics("GET", "a/partitions") == {"partitions": 3, "deleted": False}
    # A new partition has the subscriptions of the others.
    assert broker.topics("GET", "a-partition-2/subscriptions") == ["s"]
    broker.topics("PUT", "b")
    assert broker.topics("POST", "b/partitions", 3)[0] == 404
    assert broker.topics("GET", "b/partitions") == {"partitions": 0, "deleted": False}
    assert broker.topics("GET", "none/partitions")[0] == 404
    assert broker.topics("GET", "none/partitions", checkAllowAutoCreation="true") == {
        "partitions": 0,
        "deleted": False,
    }
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


def test_the_greatest_number_of_partitions_is_ten_thousand(broker: Offline) -> None:
    for count in (1, 10_000):
        assert _partitions(Request(broker.broker, "PUT", "/", {}, str(count).encode())) == count


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
        "subscriptionProperties": {}, "drainingHashesCount": 0, "drainingHashesUnackedMessages": 0,
    }  # fmt: skip
    assert subscription["backlogSize"] == 8 * one
    (consumer,) = subscription["consumers"]
    assert {key: consumer[key] for key in consumer if "Rate" not in key and "Throughput" not in key} == {
        "consumerName": "c1", "bytesOutCounter": size, "msgOutCounter": 10, "availablePermits": 90,
        "unackedMessages": 6, "avgMessagesPerEntry": 1, "blockedConsumerOnUnackedMsgs": False,
        "address": "/10.0.0.1:5000", "connectedSince": "2023-11-14T22:13:20.000Z", "clientVersion": "test",
        "metadata": {}, "lastConsumedFlowTimestamp": BEGUN_MS, "lastConsumedTimestamp": BEGUN_MS,
        "lastAckedTimestamp": BEGUN_MS, "drainingHashesCount": 0, "drainingHashesUnackedMessages": 0,
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
        "lastLedgerCreatedTimestamp": "2023-11-14T22:13:20.000Z", "compactedLedger": {
            "ledgerId": -1, "entries": -1, "size": -1, "offloaded": False, "underReplicated": False,
        },
    }  # fmt: skip
    assert cursors == {
        "s": {
            "markDeletePosition": "0:1", "readPosition": "2:2", "waitingReadOp": True, "pendingReadOps": 0,
            "messagesConsumedCounter": 4, "cursorLedger": 0, "cursorLedgerLastEntry": 0,
            "individuallyDeletedMessages": "[(0:2..0:3],(1:-1..1:0]]", "state": "Open", "active": True,
            "lastLedgerSwitchTimestamp": "2023-11-14T22:13:20.000Z", "subscriptionHavePendingRead": True,
            "subscriptionHavePendingReplayRead": False,
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
    assert broker.topics("POST", "orders/terminate") == {
        "ledgerId": 2, "entryId": 1, "partitionIndex": -1, "batchIndex": -1, "batchSize": 0,
    }  # fmt: skip
    assert broker.topics("GET", "orders/internalStats")["state"] == "Terminated"
    assert broker.topics("POST", "none/terminate")[0] == 404
    broker.topics("PUT", "a/partitions", 1)
    assert broker.topics("POST", "a-partition-0/terminate")["partitionIndex"] == 0


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
    # The skipped entries use no permits, and they stay unacknowledged.
    stats = broker.topics("GET", "orders/stats")["subscriptions"]["compacted"]
    assert (stats["msgBacklog"], stats["consumers"][0]["availablePermits"]) == (6, 96)
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
    for wrong in (
        *({}, {"ledgerId": 1}, 5),
        *({"ledgerId": ledger_id, "entryId": 1} for ledger_id in ("1", 2**63, True)),
    ):
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
        answer = on_s(broker, "POST", f"expireMessages/{seconds}")
        # A broker refuses to expire a small backlog of consumers without an old entry.
        assert answer is None if seconds < 9 else answer[0] == 409
        assert mark(broker) == expected
    assert [str(event.kind) for event in broker.events()].count("expire") >= 3
    assert mark(broker, "t") == "0:-1"
    # All old entries expire, and the answer names the subscriptions that have none.
    assert broker.topics("POST", "orders/all_subscription/expireMessages/5")[0] == 409
    assert (mark(broker), mark(broker, "t")) == ("2:0", "0:3")
    assert broker.topics("POST", "orders/subscription/t/expireMessages/9") is None
    assert (mark(broker), mark(broker, "t")) == ("2:0", "0:3")


def test_messages_expire_on_every_partition_even_if_one_is_refused(broker: Offline) -> None:
    broker.topics("PUT", "a/partitions", 3)
    broker.topics("PUT", "a/subscription/s", "earliest")
    for partition in (0, 2):
        client = broker.connect()
        client.produce(topic=f"{ORDERS.rpartition('/')[0]}/a-partition-{partition}")
        client.publish(publish_time=BEGUN_MS)
    broker.run(lambda: broker.clock.advance(9_000))
    code, reason = broker.topics("POST", "a/subscription/s/expireMessages/5")
    assert (code, "a-partition-1" in reason) == (409, True)
    backlogs = [broker.topics("GET", f"a-partition-{each}/stats")["subscriptions"]["s"] for each in range(3)]
    assert [each["msgBacklog"] for each in backlogs] == [0, 0, 0]


def test_everything_up_to_a_message_expires(broker: Offline, client: Client) -> None:
    assert on_s(broker, "POST", "expireMessages", {"ledgerId": 0, "entryId": 1}) is None
    assert mark(broker) == "0:1"
    assert on_s(broker, "POST", "expireMessages", {"ledgerId": 0, "entryId": 2, "excluded": True}) is None
    assert mark(broker) == "0:3"
    assert on_s(broker, "POST", "expireMessages", {"ledgerId": 2, "entryId": 1}) is None
    assert mark(broker) == "2:1"


@pytest.mark.parametrize(
    ("to", "status", "expected"),
    [
        ({"ledgerId": 2, "entryId": 2}, 409, "0:-1"),
        ({"ledgerId": 2, "entryId": 1, "excluded": True}, 409, "0:-1"),
        ({"ledgerId": 2, "entryId": 1, "excluded": True, "batchIndex": 0}, 409, "0:-1"),
        ({"ledgerId": 99, "entryId": 0}, 409, "0:-1"),
        ("latest", 409, "0:-1"),
        ({"ledgerId": 0, "entryId": INT64_MAX}, 204, "0:3"),
        ({"ledgerId": 0, "entryId": INT64_MAX, "excluded": True}, 204, "0:3"),
        ({"ledgerId": 0, "entryId": 3, "excluded": True}, 204, "0:3"),
        ({"ledgerId": 1, "entryId": 5}, 204, "1:3"),
        ({"ledgerId": 2, "entryId": -1}, 204, "1:3"),
        ({"ledgerId": 0, "entryId": -1}, 204, "0:-1"),
        ({"ledgerId": -1, "entryId": 5}, 204, "0:-1"),
        ("earliest", 204, "0:-1"),
        ({"ledgerId": 0, "entryId": 1, "excluded": True, "batchIndex": "x"}, 400, "0:-1"),
    ],
)
def test_an_expiry_to_a_position_without_an_entry_is_that_of_a_broker(
    broker: Offline, client: Client, to: Any, status: int, expected: str
) -> None:
    """The results are those of Pulsar 4.2.4, except 400 for a batch index that is not an integer."""
    answer = on_s(broker, "POST", "expireMessages", to)
    assert (204 if answer is None else answer[0], mark(broker)) == (status, expected)


def test_an_expiry_to_a_position_is_for_one_partition(broker: Offline) -> None:
    broker.topics("PUT", "a/partitions", 2)
    broker.topics("PUT", "a/subscription/s", "earliest")
    to = {"ledgerId": 0, "entryId": 0}
    assert broker.topics("POST", "a/subscription/s/expireMessages", to)[0] == 405


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
        (0, 0), (0, 0), (0, 1), (1, 0), (2, 1), (2, 2),
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
    assert broker.admin("PUT", "admin/v2/namespaces/acme/a") == (404, "Tenant does not exist")
    assert broker.admin("GET", "admin/v2/tenants/acme") == (404, "Tenant does not exist")
    assert broker.admin("PUT", "admin/v2/tenants/acme", TENANT) is None
    assert broker.admin("PUT", "admin/v2/tenants/acme", TENANT) == (409, "Tenant already exists")
    assert broker.admin("GET", "admin/v2/tenants/acme") == TENANT
    changed = {"adminRoles": ["other"], "allowedClusters": ["standalone"]}
    assert broker.admin("POST", "admin/v2/tenants/acme", changed) is None
    assert broker.admin("GET", "admin/v2/tenants/acme") == changed
    assert broker.admin("GET", "admin/v2/tenants/public") == {"allowedClusters": ["standalone"]}
    assert broker.admin("POST", "admin/v2/tenants/none", TENANT)[0] == 404
    for wrong, why in (
        (None, "TenantInfo is null"),
        ({"allowedClusters": []}, "Clusters can not be empty"),
        ({"allowedClusters": ["nonsense"]}, "Clusters do not exist"),
    ):
        assert broker.admin("PUT", "admin/v2/tenants/wrong", wrong) == (412, why)
    assert broker.admin("GET", "admin/v2/namespaces/acme") == []
    for name in ("b", "a"):
        assert broker.admin("PUT", f"admin/v2/namespaces/acme/{name}") is None
    assert broker.admin("PUT", "admin/v2/namespaces/acme/a") == (409, "Namespace already exists")
    assert broker.admin("GET", "admin/v2/namespaces/acme") == ["acme/a", "acme/b"]
    assert broker.admin("GET", "admin/v2/namespaces/none") == (404, "Tenant does not exist")
    assert broker.admin("GET", "admin/v2/namespaces")[0] == 404
    broker.admin("PUT", "admin/v2/persistent/acme/a/t")
    assert broker.admin("DELETE", "admin/v2/namespaces/acme/a") == (
        409,
        "Cannot delete non empty namespace",
    )
    assert broker.admin("DELETE", "admin/v2/namespaces/acme/b", force="true")[0] == 405
    assert broker.admin("DELETE", "admin/v2/namespaces/acme/b") is None
    assert broker.admin("DELETE", "admin/v2/namespaces/acme/b") == (404, "Namespace does not exist")
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
    for name in ("pub", "acme"):
        assert broker.admin("PUT", f"admin/v2/tenants/{name}", TENANT) is None
    for name in ("a", "ab"):
        assert broker.admin("PUT", f"admin/v2/namespaces/acme/{name}") is None
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


SET_OTHERWISE = ("backlogQuota", "entryFilters", "resourcegroup")
"""A request sets one type of a quota, the path has a resource group, and every entry filter is refused."""

SET_WHOLE = [each for each in POLICIES if each.name not in SET_OTHERWISE]


@pytest.mark.parametrize("policy", SET_WHOLE, ids=lambda each: each.name or each.topic)
def test_every_policy_is_set_read_and_removed(broker: Offline, policy: NamespacePolicy) -> None:
    """Each policy of the table has the routes of the real broker, and its JSON form is that of 4.2.4."""
    broker.topics("PUT", "orders")
    example: dict[str, Any] = {
        "retention": {"retentionTimeInMinutes": 5, "retentionSizeInMB": 6},
        "persistence": {
            "bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 1, "bookkeeperAckQuorum": 1,
            "managedLedgerMaxMarkDeleteRate": 1.0,
        },
        "autoTopicCreation": {
            "allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3,
        },
        "offloadPolicies": {"managedLedgerOffloadDriver": "aws-s3"},
        "properties": {"a": "b"}, "scalableTopicAutoScalePolicy": {"x": 1},
        "isAllowAutoUpdateSchema": False,
    }  # fmt: skip
    form = policy.example
    value = example.get(policy.name)
    if value is None:
        of_type = {
            bool: True,
            int: 7,
            str: (*policy.choices, "x")[0],
            list: [*policy.choices[:2]],
            dict: form,
        }
        value = of_type[type(form)]
    known = {(each.path, each.method): each for each in routes()}
    for prefix, path, name in (
        ("namespaces/{tenant}/{namespace}", SPACE, policy.name),
        ("{domain}/{tenant}/{namespace}/{topic}", PATH, policy.topic),
    ):
        if not name:
            continue
        route = f"/admin/v2/{prefix}/{name}"
        unset = broker.admin("GET", f"{path}/{name}")
        assert policy.unset in (unset, None) or not policy.name or path == PATH
        setter = next(each for each in ("POST", "PUT") if (route, each) in known)
        assert broker.admin(setter, f"{path}/{name}", value) in (None, (b"", {}))
        found = broker.admin("GET", f"{path}/{name}")
        if isinstance(value, dict):
            assert found == {key: each for key, each in value.items() if each is not None}
        else:
            # A text that is not an enumeration is stored and returned as it is.
            assert found == (value if value != "x" else (b'"x"', {}))
        if (route, "DELETE") in known:
            assert known[route, "DELETE"].handler is not None
            assert broker.admin("DELETE", f"{path}/{name}") is None
            assert broker.admin("GET", f"{path}/{name}") == unset


def test_the_policies_of_a_namespace_have_the_fields_of_pulsar(broker: Offline) -> None:
    everything = broker.admin("GET", SPACE)
    assert set(everything) == {
        "auth_policies", "replication_clusters", "allowed_clusters", "bundles", "backlog_quota_map",
        "clusterDispatchRate", "topicDispatchRate", "subscriptionDispatchRate", "replicatorDispatchRate",
        "clusterSubscribeRate", "publishMaxMessageRate", "latency_stats_sample_rate", "deleted",
        "encryption_required", "subscription_auth_mode", "offload_threshold", "offload_threshold_in_seconds",
        "schema_compatibility_strategy", "is_allow_auto_update_schema", "schema_validation_enforced",
        "subscription_types_enabled", "properties", "migrated",
    }  # fmt: skip
    # Java's client and pulsar-admin send every field.
    made = "admin/v2/namespaces/public/other"
    given = everything | {
        "retention_policies": {"retentionTimeInMinutes": 5, "retentionSizeInMB": 6},
        "nope": 1,
    }
    assert broker.admin("PUT", made, given | {"message_ttl_in_seconds": 7, "persistence": None}) is None
    assert broker.admin("GET", f"{made}/retention") == given["retention_policies"]
    assert broker.admin("GET", f"{made}/messageTTL") == 7
    assert broker.admin("GET", made) == everything | {
        "retention_policies": given["retention_policies"], "message_ttl_in_seconds": 7,
    }  # fmt: skip
    for wrong, status in (
        ({"retention_policies": 1}, 412),
        ({"replication_clusters": ["x"]}, 403),
        ({"backlog_quota_map": {"destination_storage": {"limitSize": 1}}}, 412),
        ({"backlog_quota_map": [1]}, 412),
    ):
        assert broker.admin("PUT", "admin/v2/namespaces/public/third", wrong)[0] == status
    none = "admin/v2/namespaces/public/none"
    for method, path in (("GET", ""), ("POST", "/deduplication"), ("DELETE", "/deduplication")):
        assert broker.admin(method, none + path, True) == (404, "Namespace does not exist")


def test_a_policy_of_a_topic_has_priority_over_its_namespace(broker: Offline) -> None:
    broker.topics("PUT", "orders/partitions", 2)
    rule = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 6}
    broker.admin("POST", f"{SPACE}/retention", rule)
    assert broker.topics("GET", "orders/retention") is None
    assert broker.topics("GET", "orders/retention", applied="true") == rule
    broker.topics("POST", "orders/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    # The partitions have the policies of the partitioned topic.
    kept = broker.topics("GET", "orders-partition-1/retention", applied="true")
    assert kept == {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    assert broker.topics("DELETE", "orders/policies") is None
    assert broker.topics("GET", "orders/retention", applied="true") == rule
    broker.topics("POST", "orders/messageTTL", messageTTL="60")
    assert broker.topics("GET", "orders/messageTTL") == 60
    broker.topics("DELETE", "orders/partitions")
    assert dict(broker.state.shared.topic_policies) == {}


def test_limits_of_producers_consumers_and_subscriptions_are_enforced(broker: Offline) -> None:
    client = broker.connect()
    broker.admin("POST", f"{SPACE}/maxProducersPerTopic", 1)
    client.produce(producer_id=1)
    refused = client.ask(CommandType.PRODUCER, topic="orders", producer_id=2, request_id=9)
    assert "maxProducersPerTopic permits 1" in str(refused)
    broker.topics("POST", "orders/maxProducers", 2)
    assert "permits" not in str(client.ask(CommandType.PRODUCER, topic="orders", producer_id=2, request_id=9))
    broker.topics("POST", "orders/maxSubscriptionsPerTopic", 1)
    client.subscribe("s", 1)
    wanted: dict[str, Any] = {"topic": "orders", "subType": 1, "request_id": 8}
    refused = client.ask(CommandType.SUBSCRIBE, subscription="t", consumer_id=2, **wanted)
    assert "maxSubscriptionsPerTopic permits 1" in str(refused)
    broker.topics("POST", "orders/maxConsumersPerSubscription", 1)
    refused = client.ask(CommandType.SUBSCRIBE, subscription="s", consumer_id=2, **wanted)
    assert "maxConsumersPerSubscription permits 1" in str(refused)
    broker.topics("DELETE", "orders/maxConsumersPerSubscription")
    broker.topics("POST", "orders/maxConsumers", 1)
    refused = client.ask(CommandType.SUBSCRIBE, subscription="s", consumer_id=2, **wanted)
    assert "maxConsumersPerTopic permits 1" in str(refused)
    broker.topics("DELETE", "orders/maxConsumers")
    broker.topics("POST", "orders/subscriptionTypesEnabled", ["Exclusive"])
    refused = client.ask(CommandType.SUBSCRIBE, subscription="s", consumer_id=2, **wanted)
    assert "support Shared sub type" in str(refused)


def test_topics_are_created_by_the_policy_of_the_namespace(broker: Offline) -> None:
    broker.admin(
        "POST",
        f"{SPACE}/autoTopicCreation",
        {"allowAutoTopicCreation": False, "topicType": "partitioned", "defaultNumPartitions": 3},
    )
    assert broker.topics("GET", "a/partitions", checkAllowAutoCreation="true")["partitions"] == 0
    broker.admin(
        "POST",
        f"{SPACE}/autoTopicCreation",
        {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3},
    )
    assert broker.topics("GET", "a/partitions", checkAllowAutoCreation="true")["partitions"] == 3
    for kind, partitions, why in (
        ("nope", 1, "Unknown topic type"),
        ("partitioned", None, "cannot be null"),
        ("partitioned", 0, "less than 1"),
    ):
        value = {"allowAutoTopicCreation": True, "topicType": kind, "defaultNumPartitions": partitions}
        status, said = broker.admin("POST", f"{SPACE}/autoTopicCreation", value)
        assert (status, why in said) == (412, True)


def test_a_topic_beyond_its_compaction_threshold_is_compacted(broker: Offline, client: Client) -> None:
    broker.admin("PUT", f"{SPACE}/compactionThreshold", 10)
    broker.run(broker.state._check_ages)
    assert broker.topics("GET", "orders/compaction")["status"] == "SUCCESS"


def test_delayed_delivery_can_be_turned_off(broker: Offline) -> None:
    broker.admin("POST", f"{SPACE}/delayedDelivery", {"active": False, "tickTime": 1000})
    client = broker.connect()
    client.subscribe()
    client.produce()
    got = client.publish(sequence_id=0, deliver_at_time=BEGUN_MS + 5_000)
    assert delivered(got) == [(0, 0)]


@pytest.mark.parametrize(
    ("policy", "value", "status", "why"),
    [
        ("messageTTL", -1, 412, "messageTTL must be 0 or more"),
        ("messageTTL", "x", 400, "messageTTL: 'x'"),
        ("messageTTL", True, 400, "messageTTL: True"),
        ("messageTTL", 2**63, 400, "messageTTL: 9223372036854775808"),
        ("deduplication", "x", 400, "deduplication: 'x'"),
        ("maxUnackedMessagesPerConsumer", -1, 412, "must be 0 or more"),
        ("subscriptionTypesEnabled", ["Nope"], 400, "Key_Shared"),
        ("persistence", {"bookkeeperWriteQuorum": 2}, 400, "Ensemble (0) >= WriteQuorum (2)"),
        ("retention", 5, 400, "retention: 5"),
        ("retention", {"retentionTimeInMinutes": -2}, 412, "from -1 on"),
        ("retention", {"retentionSizeInMB": 2**31}, 412, "from -1 on"),
        ("retention", {"retentionTimeInMinutes": 10}, 400, "one limit is 0"),
        ("retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 1}, 400, "one limit is 0"),
        ("backlogQuota", {"limitSize": 1, "policy": "nope"}, 400, "the attribute policy"),
        ("backlogQuota", None, 400, "backlogQuota: None"),
    ],
)
def test_a_value_that_a_broker_refuses_changes_nothing(
    broker: Offline, policy: str, value: Any, status: int, why: str
) -> None:
    before = broker.admin("GET", SPACE)
    found, said = broker.admin("POST", f"{SPACE}/{policy}", value)
    assert (found, why in said) == (status, True), said
    assert broker.admin("GET", SPACE) == before


def test_quotas_properties_and_permissions_are_stored(broker: Offline) -> None:
    broker.topics("PUT", "orders")
    quota = {"limitSize": 1000, "policy": "producer_exception"}
    stored = quota | {"limit": 1000, "limitTime": 0}
    for path in (SPACE, PATH):
        broker.admin("POST", f"{path}/backlogQuota", quota)
        broker.admin("POST", f"{path}/backlogQuota", quota, backlogQuotaType="message_age")
        broker.admin("DELETE", f"{path}/backlogQuota", backlogQuotaType="message_age")
        assert broker.admin("GET", f"{path}/backlogQuotaMap") == {"destination_storage": stored}
        broker.admin("PUT", f"{path}/properties", {"a": "b"})
        assert broker.admin("GET", f"{path}/properties") == {"a": "b"}
        broker.admin("POST", f"{path}/permissions/role", ["produce", "consume"])
        assert broker.admin("GET", f"{path}/permissions") == {"role": ["consume", "produce"]}
    broker.topics("DELETE", "orders/properties", key="a")
    assert broker.topics("GET", "orders/properties") == {}
    broker.topics("DELETE", "orders/permissions/role")
    assert broker.topics("DELETE", "orders/permissions/role")[0] == 412
    broker.admin("PUT", f"{SPACE}/property/x/y")
    assert broker.admin("GET", f"{SPACE}/property/x") == (b"y", {})
    broker.admin("DELETE", f"{SPACE}/property/x")
    assert broker.admin("GET", f"{SPACE}/properties") == {"a": "b"}
    broker.admin("POST", f"{SPACE}/permissions/subscription/s", ["r", "q"])
    broker.admin("DELETE", f"{SPACE}/permissions/s/r")
    assert broker.admin("GET", f"{SPACE}/permissions/subscription") == {"s": ["q"]}
    broker.admin("DELETE", f"{SPACE}/permissions/role")
    assert broker.admin("GET", f"{SPACE}/permissions") == {}
    rate = {
        "dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": -1,
        "relativeToPublishRate": False, "ratePeriodInSecond": 1,
    }  # fmt: skip
    broker.topics("POST", "orders/s/dispatchRate", {"dispatchThrottlingRateInMsg": 5})
    assert broker.topics("GET", "orders/s/dispatchRate") == rate
    broker.topics("DELETE", "orders/s/dispatchRate")
    assert broker.topics("GET", "orders/s/dispatchRate") is None


def test_a_backlog_is_analyzed_trimmed_and_truncated(broker: Offline, client: Client) -> None:
    client.ack((0, 0), (0, 2))
    found = on_s(broker, "POST", "analyzeBacklog")
    assert (found["entries"], found["messages"], found["filterAcceptedEntries"]) == (8, 8, 8)
    assert (found["firstMessageId"], found["lastMessageId"], found["aborted"]) == ("0:1", "2:1", False)
    one = broker.state.topics[ORDERS].content.log.nbytes // 10
    assert broker.topics("PUT", "orders/backlogSize", {"ledgerId": 2, "entryId": 0}) == 2 * one
    assert broker.topics("PUT", "orders/backlogSize") == 10 * one
    stored = broker.topics("GET", "orders/internal-info")
    assert [each["ledgerId"] for each in stored["ledgers"]] == [0, 1, 2]
    assert stored["cursors"]["s"]["markDelete"] == {"ledgerId": 0, "entryId": 0}
    assert broker.topics("POST", "orders/trim") == (b"", {})
    assert broker.topics("DELETE", "orders/truncate") is None
    assert broker.topics("GET", "orders/internalStats")["numberOfEntries"] == 0
    assert broker.topics("GET", "orders/getMessageIdByIndex")[0] == 412
    assert on_s(broker, "GET", "replicatedSubscriptionStatus") == {ORDERS: False}
    on_s(broker, "POST", "replicatedSubscriptionStatus", True)
    assert on_s(broker, "GET", "replicatedSubscriptionStatus") == {ORDERS: True}


def test_partitions_are_terminated_together(broker: Offline) -> None:
    broker.topics("PUT", "a/partitions", "2")
    assert broker.topics("POST", "a/terminate")[0] == 405
    ended = broker.topics("POST", "a/terminate/partitions")
    assert {name: each["partitionIndex"] for name, each in ended.items()} == {"0": 0, "1": 1}
    assert broker.topics("POST", "a/createMissedPartitions") is None


def test_transactions_have_statistics(broker: Offline, client: Client) -> None:
    assert broker.admin("GET", "admin/v3/transactions/coordinators") == [
        {"id": 0, "brokerServiceUrl": "pulsar://here:6650"}
    ]
    opened = broker.state.begin_transaction(0, 0)
    (stats,) = broker.admin("GET", "admin/v3/transactions/coordinatorStats").values()
    assert (stats["state"], stats["ongoingTxnSize"]) == ("Ready", 1)
    assert broker.admin("GET", "admin/v3/transactions/coordinatorStats", coordinatorId="9")[0] == 404
    topic = "public/default/orders"
    assert broker.admin("GET", f"admin/v3/transactions/transactionBufferStats/{topic}")["ongoingTxnSize"] == 0
    assert broker.admin("GET", f"admin/v3/transactions/pendingAckStats/{topic}/s")["state"] == "None"
    assert broker.admin("GET", f"admin/v3/transactions/pendingAckStats/{topic}/none")[0] == 404
    abort = f"admin/v3/transactions/abortTransaction/{opened.most_bits}/{opened.least_bits}"
    assert broker.admin("POST", abort) is None
    assert broker.admin("POST", abort)[0] == 404


def test_an_open_transaction_is_described(broker: Offline, client: Client) -> None:
    """The shapes are those of `tests/admin_answers`; the client's short name of the topic is kept."""
    get = partial(broker.admin, "GET")
    opened = broker.run(lambda: broker.state.begin_transaction(0, 60_000))
    txn: dict[str, Any] = {"txnid_most_bits": opened.most_bits, "txnid_least_bits": opened.least_bits}
    client.ask(CommandType.ADD_PARTITION_TO_TXN, request_id=1, partitions=["orders"], **txn)
    of_txn = messages.Subscription(topic="orders", subscription="s")
    client.ask(CommandType.ADD_SUBSCRIPTION_TO_TXN, request_id=2, subscription=[of_txn], **txn)
    path, topic = f"{opened.most_bits}/{opened.least_bits}", "public/default/orders"
    described = get(f"admin/v3/transactions/transactionMetadata/{path}")
    assert described == {
        "txnId": f"({opened.most_bits},{opened.least_bits})",
        "status": "OPEN",
        "openTimestamp": BEGUN_MS,
        "timeoutAt": 60_000,
        "producedPartitions": {"orders": {"aborted": False}},
        "ackedPartitions": {"orders": {"s": {}}},
    }
    client.publish(b"y", 100, **txn)
    ledger_id, last = broker.state.topics[ORDERS].content.log.last_position
    client.ack((ledger_id, 2), **txn)
    begun = {"aborted": False, "startPosition": f"{ledger_id}:{last}"}
    described = get(f"admin/v3/transactions/transactionMetadata/{path}")
    assert described["producedPartitions"] == {"orders": begun}
    assert get(f"admin/v3/transactions/transactionInBufferStats/{topic}/{path}") == begun
    assert get(f"admin/v3/transactions/transactionInPendingAckStats/{topic}/s/{path}") == {}
    states = [
        get(f"admin/v3/transactions/positionStatsInPendingAck/{topic}/s/{ledger_id}/{entry}")["state"]
        for entry in (2, 3)
    ]
    assert states == ["PendingAck", "NotInPendingAck"]
    slow = get("admin/v3/transactions/slowTransactions/0")
    assert slow == {described["txnId"]: described}
    assert get("admin/v3/transactions/slowTransactions/1") == {}
    marks = get(f"admin/v3/transactions/transactionBufferStats/{topic}", lowWaterMarks="true")
    assert (marks["lowWaterMarks"], marks["ongoingTxnSize"]) == ({}, 1)
    # The timeout ends it.
    broker.run(lambda: broker.clock.advance(60_000))
    assert get(f"admin/v3/transactions/transactionMetadata/{path}")[0] == 404
    aborted = get(f"admin/v3/transactions/transactionInBufferStats/{topic}/{path}")
    assert aborted == {"aborted": True}


def test_a_cumulative_acknowledgment_in_a_transaction_has_its_position(broker: Offline) -> None:
    client = broker.connect()
    client.produce()
    client.publish(b"x")
    client.subscribe(subType=0)
    opened = broker.run(lambda: broker.state.begin_transaction(0, 0))
    client.ack((0, 0), ack_type=1, txnid_most_bits=opened.most_bits, txnid_least_bits=opened.least_bits)
    path = f"public/default/orders/s/{opened.most_bits}/{opened.least_bits}"
    found = broker.admin("GET", f"admin/v3/transactions/transactionInPendingAckStats/{path}")
    assert found == {"cumulativeAckPosition": "0:0"}


def test_schema_versions_have_a_place(broker: Offline) -> None:
    path = "admin/v2/schemas/public/default/orders"
    assert broker.admin("GET", f"{path}/metadata")[0] == 404
    for text in (AVRO, AVRO_2):
        broker.admin("POST", f"{path}/schema", {"type": "AVRO", "schema": text})
    found = broker.admin("GET", f"{path}/metadata")
    assert [each["version"] for each in found["index"]] == [0, 1]
    assert found["info"] == found["index"][1]


def test_metrics_are_the_text_of_prometheus(broker: Offline, client: Client) -> None:
    text = broker.run(lambda: dispatch(Request(broker.broker, "GET", "/metrics", {}))).body.decode()
    labels = f'cluster="standalone",namespace="public/default",topic="{ORDERS}"'
    assert f"pulsar_in_messages_total{{{labels}}} 10\n" in text
    assert f'pulsar_subscription_back_log{{{labels},subscription="s"}} 10\n' in text
    assert "# TYPE pulsar_in_messages_total counter" in text
    lines = [line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(lines) == len(set(lines)) > 10


def test_topics_are_created_with_properties(broker: Offline) -> None:
    broker.topics("PUT", "orders", {"a": 1})
    broker.topics("PUT", "parts/partitions", {"partitions": 2, "properties": {"b": "c"}})
    assert broker.topics("GET", "orders/properties") == {"a": "1"}
    assert broker.topics("GET", "parts/partitions")["properties"] == {"b": "c"}


def test_a_peek_creates_a_missing_subscription_at_the_first_message(broker: Offline, client: Client) -> None:
    _, headers = broker.topics("GET", "orders/subscription/new/position/2")
    assert headers["X-Pulsar-Message-ID"] == "0:1"
    assert broker.topics("GET", "orders/subscriptions") == ["new", "s"]


def test_the_times_of_partitions_are_merged(broker: Offline) -> None:
    broker.topics("PUT", "parts/partitions", 2)
    broker.run(lambda: broker.clock.advance(1_000))
    client = broker.connect()
    client.produce("parts-partition-1")
    client.publish()
    found = broker.topics("GET", "parts/partitioned-stats")
    assert found["topicCreationTimeStamp"] == BEGUN_MS
    assert found["lastPublishTimeStamp"] == BEGUN_MS + 1_000


def test_a_missing_tenant_is_named_if_permissions_are_checked() -> None:
    broker = Offline(super_users=("admin",))
    for name, missing in (("public/none", "Namespace"), ("none/default", "Tenant")):
        answer = broker.admin("GET", f"admin/v2/namespaces/{name}/messageTTL")
        assert answer == (404, f"{missing} does not exist")
    broker.close()


def test_requests_of_a_bundle_change_only_its_topics(broker: Offline, client: Client) -> None:
    found = broker.admin("GET", "lookup/v2/topic/persistent/public/default/orders/bundle")[0].decode()
    (other, *_) = {"0x00000000_0x40000000", "0x40000000_0x80000000"} - {found}
    assert broker.admin("POST", f"{SPACE}/{other}/clearBacklog/s") is None
    assert broker.admin("DELETE", f"{SPACE}/{other}") is None
    assert broker.admin("DELETE", f"{SPACE}/{found}")[0] == 409
    assert broker.topics("GET", "orders/stats")["subscriptions"]["s"]["msgBacklog"] == 10
    broker.admin("POST", f"{SPACE}/{found}/clearBacklog")
    assert broker.topics("GET", "orders/stats")["subscriptions"]["s"]["msgBacklog"] == 0
    assert broker.admin("PUT", f"{SPACE}/0x0_0x1/unload")[0] == 412
    assert broker.admin("POST", f"{SPACE}/{found}/unsubscribe/s")[0] == 412


@pytest.mark.parametrize(
    ("version", "conf", "left"),
    [
        ("4.0", (), 3),
        ("4.0", ("acknowledgmentAtBatchIndexLevelEnabled=true",), 1),
        ("4.2", (), 1),
        ("4.2", ("acknowledgmentAtBatchIndexLevelEnabled=false",), 3),
    ],
)
def test_a_broker_without_batch_index_acks_ignores_the_acknowledgment_of_a_part(
    version: str, conf: tuple[str, ...], left: int
) -> None:
    """A live 4.0.7 with its default redelivered all messages of the batches, without a restart."""
    broker = Offline(version=version, broker_conf=conf)
    client = broker.connect()
    client.produce()
    rows = [(messages.SingleMessageMetadata(payload_size=1), b"x")] * 3
    client.publish(write_batch(rows), num_messages=3, num_messages_in_batch=3)
    client.subscribe()
    client.ack((0, 0, 0b001))
    described = broker.topics("GET", "orders/stats")["subscriptions"]["s"]
    assert (described["msgBacklog"], described["unackedMessages"]) == (1, left)
    (lost,) = broker.run(lambda: broker.state.reload("crash", "pulsar")).losses.values()
    assert lost.messages == 3 - left
    broker.close()


# The routes


def test_every_route_is_implemented_or_refused_by_name(broker: Offline) -> None:
    """No request of the table and no other request is answered with 2xx unless it has a function."""
    refused = 0
    for each in routes():
        if each.handler is None:
            path = re.sub(r"{(\w+)}", lambda name: {"domain": "persistent"}.get(name[1], "0"), each.path)
            status, said = broker.admin(each.method, path.removeprefix("/"))
            assert (status, each.operation in said) == (501, True), (each, said)
            refused += 1
    assert refused > 100
    for method, path, status in (
        ("GET", "admin/v2/clusters/nonsense", 404),
        ("GET", "admin/v2/brokers/standalone/nonsense/x/y", 404),
        ("GET", "admin/v2/brokers/configuration/nonsense", 405),
        ("GET", "nonsense", 404),
        ("GET", "admin/v2/bundles/x", 404),
        ("POST", "admin/v2/persistent/public/default/orders/stats", 405),
        ("GET", "admin/v2/persistent/public/default/orders/stats/more", 404),
    ):
        assert broker.admin(method, path)[0] == status, path


def test_every_function_of_the_admin_api_has_a_route() -> None:
    bound = {getattr(each.handler, "__name__", "") for each in routes()}
    modules = {module for each in RESOURCES.values() for module in each}
    public = {
        name
        for module in modules
        for name, found in vars(module).items()
        if inspect.isfunction(found)
        and found.__module__ == module.__name__
        and not name.startswith("_")
        and list(inspect.signature(found).parameters) == ["request"]
    }
    helpers = {"existing_bundle", "existing_namespace", "existing_tenant", "with_partitions", "subscriptions"}
    aliases = {"is_ready", *(name for name in public if name.startswith("clear_namespace_"))}
    aliases |= {"unsubscribe_namespace_bundle", "unload_namespace_bundle"}
    assert public - bound - helpers - aliases == set()


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
    path = "lookup/v2/topic/persistent/public/default/a%2Fb"
    urls = {
        "brokerUrl": "pulsar://here:6650",
        "nativeUrl": "pulsar://here:6650",
        "httpUrl": "http://here:8080",
        "brokerUrlSsl": "",
    }
    assert broker.admin("GET", path) == urls
    broker.service.tls_url = "pulsar+ssl://here:6651"
    secure = {"brokerUrlTls": "pulsar+ssl://here:6651", "brokerUrlSsl": "pulsar+ssl://here:6651"}
    assert broker.admin("GET", path) == urls | secure
    assert re.fullmatch(rb"0x[0-9a-f]{8}_0x[0-9a-f]{8}", broker.admin("GET", f"{path}/bundle")[0])
    assert broker.admin("GET", path, listenerName="inside")[0] == "SERVICE_NOT_READY"
    assert broker.admin("GET", "lookup/v2/topic/persistent/public/none/a")[0] == "TOPIC_NOT_FOUND"


def test_a_broker_reports_its_version_and_its_restart_settings(broker: Offline) -> None:
    """The doctor reads both; without them it uses defaults."""
    settings = broker.broker.settings
    assert broker.admin("GET", "admin/v2/brokers/version")[0] == b"4.2.4"
    said = broker.admin("GET", "admin/v2/brokers/configuration/runtime")
    values = "admin/v2/brokers/configuration/values"
    assert broker.admin("GET", values) == {}
    (name, *others) = broker.admin("GET", "admin/v2/brokers/configuration")
    assert len(others) > 100
    broker.admin("POST", f"admin/v2/brokers/configuration/{name}/5")
    assert broker.admin("GET", values) == {name: "5"}
    broker.admin("DELETE", f"admin/v2/brokers/configuration/{name}")
    assert broker.admin("GET", values) == {}
    assert broker.admin("POST", "admin/v2/brokers/configuration/none/5")[0] == 412
    assert BrokerSettings.of(settings.version).with_known(said) == settings.broker
    assert "managedLedgerMaxUnackedRangesToPersist" in said


@pytest.mark.parametrize("version", ["4.0", "5.0"])
def test_the_dynamic_settings_are_those_of_the_version(version: str) -> None:
    broker = Offline(version=version)
    found = broker.admin("GET", "admin/v2/brokers/configuration")
    assert sorted(found) == sorted(dynamic_settings(broker.broker.settings.release))
    assert ("managedLedgerBatchReadEnabled" in found) is (version == "5.0")
    broker.close()


def test_a_cluster_is_one_and_well(broker: Offline) -> None:
    assert broker.admin("GET", "admin/v2/clusters") == ["standalone"]
    assert broker.admin("GET", "admin/v2/brokers/health")[0] == b"ok"
    assert broker.admin("GET", "admin/v2/brokers/ready")[0] == b"ok"
    assert broker.admin("GET", "admin/v2/brokers/standalone") == ["here:8080"]
    leader = {"serviceUrl": "http://here:8080", "brokerId": "here:8080"}
    assert broker.admin("GET", "admin/v2/brokers/leaderBroker") == leader
    described = broker.admin("GET", "admin/v2/clusters/standalone")
    assert (described["serviceUrl"], described["brokerServiceUrl"]) == (
        "http://here:8080",
        "pulsar://here:6650",
    )
    assert broker.admin("GET", "admin/v2/brokers/standalone/other/ownedNamespaces")[0] == 404
    owned = broker.admin("GET", "admin/v2/brokers/standalone/here:8080/ownedNamespaces")
    assert "public/default/0x00000000_0x40000000" in owned
    assert broker.admin("DELETE", "admin/v2/clusters/standalone")[0] == 405
    assert broker.admin("GET", "admin/v2/clusters/standalone/migrate")[0] == 501


ODD_BODIES = (
    b"", b"null", b"[]", b"{}", b'"x"', b"5", b"-1", b"1e400", b"true", b"[1]", b"[null]", b"[{}]", b"\xff",
    b'{"a": {}}', b'{"brokers": 5}', b'{"brokers": [{}]}', b'{"properties": [1]}', b'{"ledgerId": "x"}',
    b'[{"topic": 5, "role": []}]',
    b'[{"topic": "orders", "role": "w", "actions": [5, "a"]}]',
)  # fmt: skip


def test_no_body_causes_an_internal_error(broker: Offline) -> None:
    names = dict.fromkeys(re.findall(r"{(\w+)}", " ".join(each.path for each in routes())), "5") | {
        "tenant": "public", "namespace": "default", "domain": "persistent", "topic": "orders",
        "subscription": "s", "cluster": "standalone", "bundle": "0x00000000_0x40000000",
    }  # fmt: skip
    changing = [each for each in routes() if each.handler is not None and each.method in ("POST", "PUT")]
    for route, body in product(changing, ODD_BODIES):
        broker.topics("PUT", "orders/subscription/s")
        with suppress(HttpError, CommandRefusedError):
            answer = dispatch(Request(broker.broker, route.method, route.path.format(**names), {}, body))
            assert isinstance(answer, bytes | tuple) or json.dumps(answer)


def test_requests_are_authenticated(broker: Offline) -> None:
    asked: list[tuple[str, bytes]] = []
    broker.service.authenticate_by = lambda method, data: asked.append((method, data))

    def ask(**headers: str) -> None:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        dispatch(Request(broker.broker, "GET", "/admin/v2/clusters", {}, headers=given))

    ask()
    ask(authorization="Bearer abc")
    ask(authorization="basic dTpw")
    ask(authorization="Bearer abc", x_pulsar_auth_method_name="sasl")
    ask(x_pulsar_auth_method_name="tls")
    assert asked == [("", b""), ("token", b"abc"), ("basic", b"u:p"), ("sasl", b"abc"), ("tls", b"")]
    with pytest.raises(HttpError, match="not base64") as error:
        ask(authorization="basic x")
    assert error.value.status == 401


def test_a_body_that_is_not_json_is_refused(broker: Offline) -> None:
    assert Request(broker.broker, "GET", "/", {}, b" \n").json() is None
    assert Request(broker.broker, "GET", "/", {}, b"[1]").json() == [1]
    with pytest.raises(HttpError, match="the body is not JSON") as error:
        Request(broker.broker, "GET", "/", {}, b"{").json()
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
        added = broker.admin(
            "POST", path, {"type": "AVRO", "schema": text, "properties": {"p": str(version)}}
        )
        assert added == {"version": {"version": version}}
    newest = {
        "version": 1,
        "type": "AVRO",
        "timestamp": BEGUN_MS,
        "data": '"bytes"',
        "properties": {"p": "1"},
    }
    assert broker.admin("GET", path) == newest
    assert broker.admin("GET", f"{path}/0") == newest | {
        "version": 0, "data": '"string"', "properties": {"p": "0"},
    }  # fmt: skip
    assert broker.admin("GET", f"{path}/2") == missing
    assert broker.admin("POST", path, {"type": "JSON", "schema": '"int"'})[0] == "INCOMPATIBLE_SCHEMA"
    assert broker.admin("DELETE", path) == {"version": 2}
    assert broker.admin("GET", path) == missing
    assert broker.admin("POST", path, {"type": "STRING"}) == {"version": {"version": 0}}
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
        added = broker.admin("POST", path, {"type": "PROTOBUF", "schema": text})
        assert added == {"version": {"version": version}}
