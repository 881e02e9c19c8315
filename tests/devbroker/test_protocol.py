"""Answers of the dev broker that were compared with a Pulsar broker of 4.2.4, command by command."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ackwell.devbroker import Broker
from ackwell.devbroker.persistent_map import PersistentMap
from ackwell.errors import ErrorCode
from ackwell.protocol import messages
from ackwell.protocol.batches import write_batch
from ackwell.protocol.constants import AccessMode, CommandType, SchemaType
from ackwell.protocol.frames import frame
from ackwell.protocol.payload import write_payload
from ackwell.subscription.sticky_key import FROM_ZERO, sticky_key_hash
from tests.devbroker.offline import ORDERS, Offline, delivered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.devbroker.offline import Client

LATEST = {"ledgerId": 2**64 - 1, "entryId": 2**64 - 1}


@pytest.fixture
def broker() -> Iterator[Offline]:
    made = Offline()
    yield made
    made.close()


@pytest.fixture
def client(broker: Offline) -> Client:
    return broker.connect()


def types(commands: list[Any]) -> list[CommandType]:
    return [CommandType(each.type) for each in commands]


def test_a_producer_that_is_opened_again_is_answered_with_the_new_request_id(client: Client) -> None:
    for request_id in (2, 7):
        answer = client.one(
            CommandType.PRODUCER, topic="orders", producer_id=1, request_id=request_id, producer_name="p"
        )
        assert (answer.request_id, answer.producer_name, answer.producer_ready) == (request_id, "p", True)


def test_consumers_are_notified_once_that_a_terminated_topic_has_no_more_messages(
    broker: Offline, client: Client
) -> None:
    client.produce()
    client.publish()
    client.subscribe()
    broker.topics("POST", "orders/terminate")
    assert CommandType.REACHED_END_OF_TOPIC not in types(client.read())
    # The last acknowledgment is followed by the notification.
    assert types(client.ack((0, 0))) == [CommandType.REACHED_END_OF_TOPIC]
    assert client.ask(CommandType.FLOW, consumer_id=1, messagePermits=1) == []
    # A later consumer is notified at once.
    client.subscribe("late", 2, initialPosition=0)
    assert types(client.delivered) == [CommandType.REACHED_END_OF_TOPIC]
    assert client.delivered[0].message.consumer_id == 2


def test_a_reader_begins_at_a_time_before_now(broker: Offline, client: Client) -> None:
    client.produce()
    for number, age_s in enumerate((7_200, 7_200, 3_000, 0)):
        client.publish(sequence_id=number, publish_time=client.now_ms() - 1_000 * age_s)
    client.subscribe(
        "r", subType=0, durable=False, start_message_id=LATEST, start_message_rollback_duration_sec=3_600
    )
    assert delivered(client.delivered) == [(0, 2), (0, 3)]


def test_times_of_messages_follow_the_clock_of_the_broker(broker: Offline, client: Client) -> None:
    client.produce()
    client.publish()
    broker.run(lambda: broker.clock.advance(hours=2))
    between_ms = broker.clock.now_ms() - 1_000
    client.publish(sequence_id=1)
    client.subscribe()
    client.ask(CommandType.SEEK, consumer_id=1, request_id=3, message_publish_time=between_ms)
    client.subscribe()
    assert delivered(client.delivered) == [(0, 1)]


def test_the_schema_of_a_deleted_topic_is_deleted(broker: Offline, client: Client) -> None:
    schema = messages.Schema(name="s", type=SchemaType.STRING, schema_data=b"")
    client.produce(schema=schema)
    client.ask(CommandType.CLOSE_PRODUCER, producer_id=1, request_id=2)
    broker.topics("DELETE", "orders")
    answer = client.one(CommandType.GET_SCHEMA, request_id=3, topic="orders")
    assert answer.error_code == ErrorCode.TOPIC_NOT_FOUND
    other = messages.Schema(name="s", type=SchemaType.AVRO, schema_data=b'"int"')
    assert client.produce(producer_id=2, schema=other).producer_ready


def test_a_schema_of_partitions_is_deleted_with_the_last_of_them(broker: Offline, client: Client) -> None:
    broker.topics("PUT", "orders/partitions", 2)
    schema = messages.Schema(name="s", type=SchemaType.STRING, schema_data=b"")
    client.produce("orders-partition-0", schema=schema)
    client.ask(CommandType.CLOSE_PRODUCER, producer_id=1, request_id=2)
    broker.topics("DELETE", "orders-partition-0")
    asked: dict[str, Any] = {"request_id": 3, "topic": "orders"}
    assert client.one(CommandType.GET_SCHEMA, **asked).schema.type == SchemaType.STRING
    broker.topics("DELETE", "orders-partition-1")
    assert client.one(CommandType.GET_SCHEMA, **asked).error_code == ErrorCode.TOPIC_NOT_FOUND


@pytest.mark.parametrize(
    ("given", "first_bits"),
    [
        ({"batchIndex": 2}, 0b11100),
        ({"batchIndex": 2, "excluded": True}, 0b11000),
        ({"batchIndex": 0}, None),
        ({"batchIndex": 9}, None),
    ],
)
def test_a_cursor_is_reset_to_a_message_of_a_batch(
    broker: Offline, client: Client, given: dict[str, Any], first_bits: int | None
) -> None:
    client.produce()
    single = messages.SingleMessageMetadata(payload_size=1)
    client.publish(write_batch([(single, b"x")] * 5), num_messages=5, num_messages_in_batch=5)
    client.publish(sequence_id=1)
    client.subscribe()
    position = {"ledgerId": 0, "entryId": 0, "partitionIndex": -1}
    broker.topics("POST", "orders/subscription/s/resetcursor", position | given)
    assert types(client.read()) == [CommandType.CLOSE_CONSUMER]
    client.subscribe()
    (first, *_) = [each.message for each in client.delivered if each.type == CommandType.MESSAGE]
    assert (first.message_id.entryId, list(first.ack_set)) == (0, [first_bits] if first_bits else [])


def test_a_replicated_subscription_is_shown_as_such_and_kept(tmp_path: Path) -> None:
    broker = Offline(tmp_path / "b")
    broker.connect().subscribe(replicate_subscription_state=True)
    broker.connect().subscribe("other", 2)
    broker.state.close()
    broker = Offline(tmp_path / "b")
    shown = broker.topics("GET", "orders/stats")["subscriptions"]
    assert [shown[name]["isReplicated"] for name in ("s", "other")] == [True, False]
    client = broker.connect()
    client.subscribe()
    client.ask(CommandType.UNSUBSCRIBE, consumer_id=1, request_id=3)
    client.subscribe()
    assert not broker.topics("GET", "orders/stats")["subscriptions"]["s"]["isReplicated"]
    broker.state.close()
    broker.close()


def test_a_number_of_partitions_may_be_text(broker: Offline) -> None:
    assert broker.topics("PUT", "orders/partitions", "3") is None
    assert broker.topics("GET", "orders/partitions")["partitions"] == 3
    for wrong in ("x", "0", "-1", "9" * 30):
        assert broker.topics("PUT", "other/partitions", wrong)[0] == 406


def test_consumers_of_an_exclusive_subscription_are_not_told_who_is_active(client: Client) -> None:
    asked: dict[str, Any] = {
        "topic": "orders",
        "subscription": "s",
        "subType": 0,
        "consumer_id": 1,
        "request_id": 1,
    }
    assert types(client.ask(CommandType.SUBSCRIBE, **asked)) == [CommandType.SUCCESS]


def test_a_compacted_read_of_a_shared_subscription_is_refused(client: Client) -> None:
    for sub_type in (1, 3):
        answer = client.subscribe(subType=sub_type, read_compacted=True).message
        assert answer.error == ErrorCode.NOT_ALLOWED_ERROR
        assert "readCompacted only allowed" in answer.message


def test_a_coordinator_that_does_not_exist_opens_no_transaction(client: Client) -> None:
    answer = client.one(CommandType.NEW_TXN, request_id=2, txn_ttl_millis=60_000, tc_id=99)
    assert answer.error == ErrorCode.TRANSACTION_COORDINATOR_NOT_FOUND
    assert not answer.HasField("txnid_least_bits")


def test_a_partition_of_no_topic_is_refused(broker: Offline, client: Client) -> None:
    answers = client.produce("x-partition-0"), client.subscribe(topic="x-partition-0").message
    for answer in answers:
        assert answer.error == ErrorCode.NOT_ALLOWED_ERROR
        assert "Partition metadata not found" in answer.message
    assert not broker.state.topics


@pytest.mark.parametrize(
    "data",
    [b"nonsense", b'"unknown"', b"{}", b'{"type": "record", "name": "R"}', b'["int", 3]',
     b'{"type": "enum", "name": "E"}', b'{"type": "array"}',
     b'{"type": "record", "name": "R", "fields": [{"name": "f", "type": "S"}]}'],
)  # fmt: skip
def test_a_schema_that_is_not_one_is_refused(client: Client, data: bytes) -> None:
    for type_ in (SchemaType.AVRO, SchemaType.JSON):
        answer = client.produce(schema=messages.Schema(name="s", type=type_, schema_data=data))
        assert answer.error == ErrorCode.INCOMPATIBLE_SCHEMA
        assert f"Invalid schema definition data for {type_.name} schema" in answer.message


@pytest.mark.parametrize(
    "data",
    [b'"int"', b'{"type": "int", "logicalType": "date"}', b'["null", {"type": "map", "values": "long"}]',
     b'{"type": "fixed", "name": "F", "size": 4}', b'{"type": "enum", "name": "E", "symbols": ["A"]}',
     b'{"type": "record", "name": "R", "namespace": "n", "fields": [{"name": "f", "type": "n.R"}]}'],
)  # fmt: skip
def test_every_kind_of_avro_schema_is_accepted(client: Client, data: bytes) -> None:
    schema = messages.Schema(name="s", type=SchemaType.AVRO, schema_data=data)
    assert client.produce(schema=schema).schema_version == bytes(8)


def test_a_schema_of_bytes_has_a_version(client: Client) -> None:
    assert client.produce(
        schema=messages.Schema(name="Bytes", type=0, schema_data=b"")
    ).schema_version == bytes(8)


def test_a_schema_without_its_type_closes_the_connection(client: Client) -> None:
    command = b"".join((b"\x0a\x06orders", b"\x10\x01\x18\x02", b"\x3a\x03\x0a\x01s"))
    body = b"\x08\x05" + b"\x2a" + bytes([len(command)]) + command
    assert client.write(frame(body)) == []
    assert client.connection.close_reason == "a schema without its name, type or data"


def test_the_largest_epoch_is_minus_one_and_the_topic_stays_usable(client: Client) -> None:
    exclusive: dict[str, Any] = {"producer_access_mode": AccessMode.EXCLUSIVE}
    assert client.produce(topic_epoch=2**64 - 1, **exclusive).topic_epoch == 2**64 - 1
    for producer_id, epoch in ((2, 0), (3, 1)):
        client.ask(CommandType.CLOSE_PRODUCER, producer_id=producer_id - 1, request_id=2)
        assert client.produce(producer_id=producer_id, **exclusive).topic_epoch == epoch
    client.ask(CommandType.CLOSE_PRODUCER, producer_id=3, request_id=2)
    assert client.produce(producer_id=4, topic_epoch=2**63 - 1, **exclusive).producer_ready
    client.ask(CommandType.CLOSE_PRODUCER, producer_id=4, request_id=2)
    assert client.produce(producer_id=5, **exclusive).topic_epoch == 2**63


@pytest.mark.parametrize("action", [0, 1])
def test_a_transaction_may_be_named_by_the_send_command_alone(
    broker: Offline, client: Client, action: int
) -> None:
    client.produce()
    client.subscribe()
    begun = client.one(CommandType.NEW_TXN, request_id=2, txn_ttl_millis=60_000, tc_id=0)
    txn = {"txnid_most_bits": begun.txnid_most_bits, "txnid_least_bits": begun.txnid_least_bits}
    client.ask(CommandType.ADD_PARTITION_TO_TXN, request_id=3, partitions=["orders"], **txn)
    metadata = messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    sent = client.ask(CommandType.SEND, write_payload(metadata, b"x"), producer_id=1, sequence_id=0, **txn)
    assert types(sent) == [CommandType.SEND_RECEIPT]
    ended = client.ask(CommandType.END_TXN, request_id=4, txn_action=action, **txn)
    # A Pulsar broker finds aborted messages by their metadata, so it delivers this one after an abort, too.
    assert delivered(ended) == [(0, 0)]


def test_a_transaction_of_the_metadata_alone_is_ignored(client: Client) -> None:
    client.produce()
    client.subscribe()
    metadata = messages.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, txnid_most_bits=0, txnid_least_bits=9
    )
    sent = client.ask(CommandType.SEND, write_payload(metadata, b"x"), producer_id=1, sequence_id=0)
    assert delivered(sent) == [(0, 0)]


def test_a_broker_that_listens_everywhere_advertises_an_address_that_clients_can_use() -> None:
    with Broker(host="0.0.0.0") as broker:
        assert broker.url.startswith("pulsar://127.0.0.1:")
        assert broker.admin_url.startswith("http://127.0.0.1:")


def test_a_fact_is_popped_once() -> None:
    facts = PersistentMap[int](None, "kind")
    facts["a"] = 1
    assert (facts.pop("a"), facts.pop("a", 2)) == (1, 2)
    with pytest.raises(KeyError):
        facts.pop("a")


def shared_by_key(client: Client, subscription: str, consumer_id: int, **fields: Any) -> None:
    client.subscribe(subscription, consumer_id, subType=3, permits=0, **fields)


def received_by(client: Client, *consumer_ids: int) -> list[int]:
    """Return how many messages each consumer receives."""
    commands = [
        each
        for consumer_id in consumer_ids
        for each in client.ask(CommandType.FLOW, consumer_id=consumer_id, messagePermits=1_000)
    ]
    owners = [each.message.consumer_id for each in commands if each.type == CommandType.MESSAGE]
    return [owners.count(consumer_id) for consumer_id in consumer_ids]


def test_key_shared_consumers_can_split_the_hashes_in_half() -> None:
    """As a broker with `subscriptionKeySharedUseConsistentHashing=false`: names have no influence."""
    split = []
    for names in ("ab", "cd", "ef"):
        broker = Offline(key_shared_consistent_hashing=False)
        client = broker.connect()
        client.produce()
        for consumer_id, name in enumerate(names, 1):
            shared_by_key(client, "s", consumer_id, consumer_name=name)
        for number in range(99):
            client.publish(sequence_id=number, partition_key=f"key-shared-{number % 3}")
        split.append(received_by(client, 1, 2))
        broker.close()
    assert split == [split[0]] * 3
    assert min(split[0]) > 0
    assert sum(split[0]) == 99


def test_subscriptions_of_both_key_shared_modes_use_their_own_hashes(broker: Offline, client: Client) -> None:
    client.produce()
    halves = {"keySharedMode": 1, "hashRanges": [{"start": 0, "end": 32_767}]}, {
        "keySharedMode": 1, "hashRanges": [{"start": 32_768, "end": 65_535}],
    }  # fmt: skip
    shared_by_key(client, "auto", 1)
    for consumer_id, half in enumerate(halves, 2):
        shared_by_key(client, "sticky", consumer_id, keySharedMeta=half)
    for number in range(50):
        client.publish(sequence_id=number, partition_key=str(number))
    hashes = [sticky_key_hash(str(number), slots=FROM_ZERO) for number in range(50)]
    low = sum(each < 32_768 for each in hashes)
    assert received_by(client, 1) == [50]
    assert received_by(client, 2, 3) == [low, 50 - low]
    entries = broker.state.topics[ORDERS].content.log.entries[0]
    assert [entry.key_hash for entry in entries] == hashes


@pytest.mark.parametrize("frozen", [False, True])
def test_a_moved_clock_is_kept_by_the_file(tmp_path: Path, *, frozen: bool) -> None:
    with Broker(path=tmp_path / "b") as broker:
        broker.clock.advance(hours=5)
        if frozen:
            broker.clock.freeze()
            broker.clock.advance(minutes=1)
        before_ms = broker.clock.now_ms()
    with Broker(path=tmp_path / "b") as broker:
        passed_ms = broker.clock.now_ms() - before_ms
        assert passed_ms == 0 if frozen else 0 <= passed_ms < 60_000
        assert broker._broker.clock.moved_ms == 3_600_000 * 5 + 60_000 * frozen
        broker.clock.resume()
        broker.reset()
    with Broker(path=tmp_path / "b") as broker:
        assert abs(broker.clock.now_ms() - time.time() * 1_000) < 60_000
