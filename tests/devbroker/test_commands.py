"""Each command of a client: its answer, its refusals, and its effects."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from ackwell.devbroker.auth import Service
from ackwell.devbroker.keys import key_bytes
from ackwell.errors import ErrorCode
from ackwell.protocol import messages
from ackwell.protocol.constants import AccessMode, CommandType, LookupType, SchemaType, TxnAction
from ackwell.protocol.frames import DecodedCommand, frame
from ackwell.protocol.payload import read_payload, write_payload
from tests.devbroker.offline import BEGUN_MS, ORDERS, Client, Offline, delivered


@pytest.fixture
def broker() -> Iterator[Offline]:
    made = Offline(entries_per_ledger=4)
    yield made
    made.close()


@pytest.fixture
def client(broker: Offline) -> Client:
    return broker.connect()


def refused(answer: Any, code: ErrorCode, why: str) -> None:
    """Assert that an answer is a refusal with a code and a reason."""
    assert answer.error == code
    assert why in answer.message


# Sessions


@pytest.mark.parametrize(("theirs", "ours"), [(21, 21), (22, 21), (20, 20), (0, 0)])
def test_a_client_is_greeted_in_the_older_of_both_versions(broker: Offline, theirs: int, ours: int) -> None:
    client = broker.connect(greet=False)
    answer = client.one(CommandType.CONNECT, client_version="python 3", protocol_version=theirs)
    assert answer.protocol_version == ours
    assert answer.server_version == "ackwell dev broker (Pulsar 4.2)"
    assert answer.max_message_size == 5 * 1024 * 1024
    assert answer.feature_flags.supports_topic_watchers
    assert answer.feature_flags.supports_get_partitioned_metadata_without_auto_creation
    assert not answer.feature_flags.supports_auth_refresh
    assert (client.connection.client_version, client.connection.connected) == ("python 3", True)
    assert client.connection.address == "/10.0.0.1:5000"
    assert client.wire.high_water == 16 << 20


def test_a_client_that_may_not_connect_gets_the_reason_and_is_disconnected(broker: Offline) -> None:
    def authenticate(method: str, data: bytes) -> str | None:
        if (method, data) != ("token", b"secret"):
            raise PermissionError(f"{method} {data!r} is not enough")
        return "admin"

    broker.service.authenticate_by = authenticate
    wrong = broker.connect(greet=False)
    answer = wrong.one(CommandType.CONNECT, client_version="t", auth_method_name="token", auth_data=b"no")
    refused(answer, ErrorCode.AUTHENTICATION_ERROR, "token b'no' is not enough")
    assert answer.request_id == 2**64 - 1
    assert (wrong.wire.closed, wrong.connection.connected) == (True, False)
    right = broker.connect(auth_method_name="token", auth_data=b"secret")
    assert (right.connection.role, right.wire.closed) == ("admin", False)


def test_a_sign_of_life_is_answered_and_not_counted_as_a_command(client: Client) -> None:
    before = client.connection.commands
    (answer,) = client.ask(CommandType.PING)
    assert answer.type == CommandType.PONG
    client.broker.run(client.connection.ping)
    assert [each.type for each in client.read()] == [CommandType.PING]
    assert client.connection.pongs == 0
    assert client.ask(CommandType.PONG) == []
    assert (client.connection.pongs, client.connection.commands) == (1, before)
    client.ask(CommandType.FLOW, consumer_id=1, messagePermits=1)
    assert client.connection.commands == before + 1


def test_a_command_before_the_greeting_closes_the_connection(broker: Offline) -> None:
    client = broker.connect(greet=False)
    assert client.ask(CommandType.PING) == []
    assert client.wire.closed
    assert client.connection.close_reason == "command 18 before CONNECT"


def test_an_unsupported_command_is_refused_if_it_has_a_request_id(client: Client) -> None:
    answer = client.one(CommandType.END_TXN_ON_PARTITION, request_id=4)
    refused(answer, ErrorCode.NOT_ALLOWED_ERROR, "does not support command 58")
    assert answer.request_id == 4
    assert client.ask(CommandType.REACHED_END_OF_TOPIC, consumer_id=1) == []
    assert not client.wire.closed


def test_connections_beyond_the_limit_are_closed_as_they_come() -> None:
    broker = Offline(max_connections=2)
    first, second = broker.connect(), broker.connect()
    third = broker.connect(greet=False)
    assert (first.wire.closed, second.wire.closed, third.wire.closed) == (False, False, True)
    assert third.connection.close_reason == "more than 2 connections (max_connections)"
    first.hang_up()
    assert not broker.connect().wire.closed
    broker.close()


def test_an_unfinished_frame_counts_as_memory_until_it_is_whole_or_its_client_gone() -> None:
    broker = Offline(max_memory_bytes=1_000)
    client, other = broker.connect(), broker.connect()
    shared = broker.state.shared
    client.write((4_000).to_bytes(4) + bytes(600))
    assert shared.unfinished_bytes == 604
    other.write((4_000).to_bytes(4) + bytes(392))
    assert (shared.unfinished_bytes, other.wire.closed) == (1_000, False)
    # The payload of the message that does not fit is discarded.
    other.write(b"x")
    assert (shared.unfinished_bytes, other.wire.closed) == (612, False)
    client.hang_up()
    assert shared.unfinished_bytes == 8
    other.hang_up()
    assert shared.unfinished_bytes == 0


def test_a_large_command_without_a_payload_is_closed_while_the_memory_is_full() -> None:
    broker = Offline(max_memory_bytes=1_000)
    client = broker.connect()
    client.write((4_000_000).to_bytes(4) + (3_000_000).to_bytes(4) + bytes(1_000))
    assert client.wire.closed
    assert (
        client.connection.close_reason == "a command of 3,000,000 bytes while the dev broker's memory is full"
    )
    assert broker.state.shared.unfinished_bytes == 0
    broker.close()


# Lookups


def test_a_topic_is_looked_up_here(broker: Offline, client: Client) -> None:
    answer = client.one(CommandType.LOOKUP, topic="orders", request_id=3)
    assert (answer.request_id, answer.response, answer.authoritative) == (3, LookupType.CONNECT, True)
    assert answer.brokerServiceUrl == "pulsar://here:6650"
    assert not answer.HasField("brokerServiceUrlTls")
    broker.service.tls_url = "pulsar+ssl://here:6651"
    assert (
        client.one(CommandType.LOOKUP, topic="t", request_id=3).brokerServiceUrlTls
        == "pulsar+ssl://here:6651"
    )
    # A lookup does not create a topic.
    assert broker.state.topics == {}


@pytest.mark.parametrize(
    ("fields", "code", "why"),
    [
        ({"topic": "persistent://a"}, ErrorCode.INVALID_TOPIC_NAME, "invalid topic name: 'persistent://a'"),
        ({"topic": "persistent://a/b/c"}, ErrorCode.TOPIC_NOT_FOUND, "Namespace a/b not found"),
        (
            {"topic": "orders", "advertised_listener_name": "inside"},
            ErrorCode.SERVICE_NOT_READY,
            "no advertised listener is called 'inside'",
        ),
    ],
)
def test_a_failed_lookup_has_a_reason(
    client: Client, fields: dict[str, Any], code: ErrorCode, why: str
) -> None:
    answer = client.one(CommandType.LOOKUP, request_id=3, **fields)
    assert (answer.response, answer.request_id) == (LookupType.FAILED, 3)
    refused(answer, code, why)


def test_a_lookup_of_a_topic_that_may_not_be_made_fails() -> None:
    broker = Offline(auto_create_topics=False)
    client = broker.connect()
    answer = client.one(CommandType.LOOKUP, topic="orders", request_id=3)
    refused(answer, ErrorCode.TOPIC_NOT_FOUND, f"Topic {ORDERS} does not exist")
    refused(client.produce(), ErrorCode.TOPIC_NOT_FOUND, f"Topic {ORDERS} does not exist")
    refused(client.subscribe().message, ErrorCode.TOPIC_NOT_FOUND, f"Topic {ORDERS} does not exist")
    assert partition_metadata(client, metadata_auto_creation_enabled=True).partitions == 0
    # An operator creates it.
    assert broker.topics("PUT", "orders") is None
    assert client.one(CommandType.LOOKUP, topic="orders", request_id=3).response == LookupType.CONNECT
    broker.close()


def test_a_role_without_access_to_a_namespace_is_refused_everywhere(broker: Offline) -> None:
    broker.service.authenticate_by = lambda method, data: data.decode() or None
    broker.service.authorize_by = lambda role, namespace: (role, namespace) == ("writer", "public/default")
    client = broker.connect(auth_data=b"reader")
    for kind, fields in (
        (CommandType.LOOKUP, {}),
        (CommandType.PARTITIONED_METADATA, {}),
        (CommandType.PRODUCER, {"producer_id": 1}),
        (CommandType.SUBSCRIBE, {"subscription": "s", "subType": 1, "consumer_id": 1}),
    ):
        answer = client.one(kind, topic="orders", request_id=3, **fields)
        refused(answer, ErrorCode.AUTHORIZATION_ERROR, f"reader may not use {ORDERS}")
    nobody = broker.connect()
    refused(
        nobody.one(CommandType.LOOKUP, topic="orders", request_id=3),
        ErrorCode.AUTHORIZATION_ERROR,
        "an anonymous client may not use",
    )
    writer = broker.connect(auth_data=b"writer")
    assert writer.produce().producer_ready


def partition_metadata(client: Client, topic: str = "orders", **fields: Any) -> Any:
    (answer,) = client.ask(CommandType.PARTITIONED_METADATA, topic=topic, request_id=5, **fields)
    assert (answer.type, answer.message.request_id) == (CommandType.PARTITIONED_METADATA_RESPONSE, 5)
    return answer.message


def test_partitions_are_those_that_were_made(broker: Offline, client: Client) -> None:
    assert partition_metadata(client).partitions == 0
    refused(
        partition_metadata(client, metadata_auto_creation_enabled=False),
        ErrorCode.TOPIC_NOT_FOUND,
        f"Topic {ORDERS} does not exist",
    )
    broker.topics("PUT", "orders/partitions", 3)
    for create in (True, False):
        answer = partition_metadata(client, metadata_auto_creation_enabled=create)
        assert (answer.partitions, answer.response) == (3, 0)
    client.produce("plain")
    answer = partition_metadata(client, "plain", metadata_auto_creation_enabled=False)
    assert (answer.partitions, answer.response, answer.HasField("error")) == (0, 0, False)
    wrong = partition_metadata(client, "persistent://a/b/c")
    assert wrong.response == 1
    refused(wrong, ErrorCode.TOPIC_NOT_FOUND, "Namespace a/b not found")


def test_topics_made_on_use_have_the_partitions_of_the_setting() -> None:
    broker = Offline(auto_create_partitions=2)
    client = broker.connect()
    refused(
        partition_metadata(client, metadata_auto_creation_enabled=False),
        ErrorCode.TOPIC_NOT_FOUND,
        "not exist",
    )
    assert partition_metadata(client).partitions == 2
    assert sorted(broker.state.topics) == [f"{ORDERS}-partition-0", f"{ORDERS}-partition-1"]
    assert partition_metadata(client, "orders-partition-0").partitions == 0
    refused(client.produce(), ErrorCode.NOT_ALLOWED_ERROR, f"{ORDERS} is a partitioned topic")
    refused(
        client.produce("orders-partition-2"), ErrorCode.TOPIC_NOT_FOUND, "orders-partition-2 does not exist"
    )
    assert client.produce("orders-partition-1").producer_ready
    broker.close()


# Producers


def test_a_producer_gets_its_name_and_may_send(client: Client) -> None:
    first = client.produce()
    assert (first.request_id, first.producer_name, first.last_sequence_id) == (1, "standalone-0-0", -1)
    assert first.producer_ready
    assert not first.HasField("topic_epoch")
    assert first.schema_version == b""
    assert client.produce(producer_id=2, producer_name="mine").producer_name == "mine"
    # A repeated command gets the same answer and does not add a producer.
    again = client.produce(producer_id=2, producer_name="other")
    assert (again.producer_name, again.producer_ready) == ("mine", True)
    producers = client.broker.state.topics[ORDERS].producers
    assert sorted(producers.by_name) == ["mine", "standalone-0-0"]


def test_a_name_is_given_once_but_to_a_client_that_came_back(broker: Offline, client: Client) -> None:
    client.produce(producer_name="p", user_provided_producer_name=True)
    other = broker.connect()
    taken = "Producer with name 'p' is already connected to topic"
    refused(other.produce(producer_name="p", epoch=1), ErrorCode.PRODUCER_BUSY, taken)
    refused(
        client.produce(producer_id=2, producer_name="p", user_provided_producer_name=False),
        ErrorCode.PRODUCER_BUSY,
        taken,
    )
    client.ask(CommandType.CLOSE_PRODUCER, producer_id=1, request_id=2)
    # A generated name moves to a client with a newer epoch.
    client.produce(producer_name="p", user_provided_producer_name=False, epoch=3)
    for epoch in (0, 3):
        refused(
            other.produce(producer_name="p", user_provided_producer_name=False, epoch=epoch),
            ErrorCode.PRODUCER_BUSY,
            taken,
        )
    assert other.produce(producer_name="p", user_provided_producer_name=False, epoch=4).producer_ready
    assert client.connection.producers == {}


def exclusive(client: Client, mode: AccessMode, producer_id: int = 1, **fields: Any) -> Any:
    return client.produce(producer_id=producer_id, producer_access_mode=mode, **fields)


def test_an_exclusive_producer_is_alone(broker: Offline, client: Client) -> None:
    first = exclusive(client, AccessMode.EXCLUSIVE)
    assert (first.producer_ready, first.topic_epoch) == (True, 0)
    refused(exclusive(client, AccessMode.SHARED, 2), ErrorCode.PRODUCER_BUSY, "existing exclusive producer")
    refused(exclusive(client, AccessMode.EXCLUSIVE, 2), ErrorCode.PRODUCER_FENCED, "existing producers")
    client.ask(CommandType.CLOSE_PRODUCER, producer_id=1, request_id=2)
    assert exclusive(client, AccessMode.SHARED, 3).producer_ready
    refused(exclusive(client, AccessMode.EXCLUSIVE, 4), ErrorCode.PRODUCER_FENCED, "existing producers")
    client.ask(CommandType.CLOSE_PRODUCER, producer_id=3, request_id=2)
    assert exclusive(client, AccessMode.EXCLUSIVE, 5).topic_epoch == 1


def test_producers_that_wait_have_their_turn_one_after_another(broker: Offline, client: Client) -> None:
    exclusive(client, AccessMode.WAIT_FOR_EXCLUSIVE, 1, producer_name="a")
    for number, name in ((2, "b"), (3, "c")):
        waiting = exclusive(client, AccessMode.WAIT_FOR_EXCLUSIVE, number, producer_name=name)
        assert (waiting.producer_ready, waiting.producer_name) == (False, name)
    # A repeated command of a waiting producer is refused, and the producer keeps its place.
    again = client.one(CommandType.PRODUCER, topic="orders", producer_id=2, request_id=21)
    refused(again, ErrorCode.SERVICE_NOT_READY, "already present")
    refused(exclusive(client, AccessMode.SHARED, 4), ErrorCode.PRODUCER_BUSY, "existing exclusive")
    ready, closed = client.ask(CommandType.CLOSE_PRODUCER, producer_id=1, request_id=9)
    assert (ready.message.producer_name, ready.message.producer_ready, ready.message.topic_epoch) == (
        "b",
        True,
        1,
    )
    assert closed.message.request_id == 9
    # A waiting producer that closes is skipped.
    assert len(client.ask(CommandType.CLOSE_PRODUCER, producer_id=3, request_id=9)) == 1
    assert len(client.ask(CommandType.CLOSE_PRODUCER, producer_id=2, request_id=9)) == 1
    assert broker.state.topics[ORDERS].producers.by_name == {}


def test_a_fencing_producer_closes_all_others_and_those_of_older_epochs_stay_out(
    broker: Offline, client: Client
) -> None:
    first = exclusive(client, AccessMode.EXCLUSIVE, 1, producer_name="a")
    exclusive(client, AccessMode.WAIT_FOR_EXCLUSIVE, 2, producer_name="b")
    other = broker.connect()
    fencing = exclusive(other, AccessMode.EXCLUSIVE_WITH_FENCING, producer_name="c")
    assert (fencing.producer_ready, fencing.topic_epoch) == (True, first.topic_epoch + 1)
    broker.run(client.connection.flush)
    waiting, closed = client.read()
    refused(waiting.message, ErrorCode.PRODUCER_FENCED, "Fenced out by producer c")
    assert (closed.type, closed.message.producer_id) == (CommandType.CLOSE_PRODUCER, 1)
    # Messages that it sent before it learned of the close are ignored, and its epoch has ended.
    assert client.publish(producer_id=1) == []
    assert not client.wire.closed
    refused(
        exclusive(client, AccessMode.EXCLUSIVE, 3, topic_epoch=0), ErrorCode.PRODUCER_FENCED, "newer epoch"
    )
    other.ask(CommandType.CLOSE_PRODUCER, producer_id=1, request_id=2)
    assert exclusive(client, AccessMode.EXCLUSIVE, 3, topic_epoch=1).topic_epoch == 1


def test_a_message_of_a_producer_that_is_not_open_closes_the_connection(client: Client) -> None:
    assert client.publish() == []
    assert client.wire.closed
    assert client.connection.close_reason == "a message of producer 1, which is not open"


def receipts(commands: list[DecodedCommand]) -> list[tuple[int, int, int]]:
    return [
        (each.message.sequence_id, each.message.message_id.ledgerId, each.message.message_id.entryId)
        for each in commands
        if each.type == CommandType.SEND_RECEIPT
    ]


def test_every_message_gets_a_position_and_ledgers_have_their_size(broker: Offline, client: Client) -> None:
    client.produce()
    given = [receipts(client.publish(sequence_id=number))[0] for number in range(9)]
    assert given == [(number, number // 4, number % 4) for number in range(9)]
    topic = broker.state.topics[ORDERS]
    assert (topic.messages_in, topic.entries_added) == (9, 9)
    assert broker.state.shared.memory_bytes == topic.content.log.held_bytes > 0


def test_a_batch_counts_its_messages(broker: Offline, client: Client) -> None:
    client.produce()
    client.publish(num_messages_in_batch=5, num_messages=5)
    topic = broker.state.topics[ORDERS]
    assert (topic.messages_in, topic.entries_added) == (5, 1)
    (producer,) = topic.producers.by_name.values()
    assert producer.messages_in == 5
    (event,) = [event for event in broker.events() if event.kind == "publish"]
    assert (event.batch_size, event.ledger_id, event.entry_id, event.time_ms) == (5, 0, 0, BEGUN_MS)


def test_a_message_whose_bytes_changed_on_the_way_is_refused(client: Client) -> None:
    client.produce()
    data = bytearray(
        write_payload(messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"x")
    )
    data[-1] ^= 1
    answer = client.one(CommandType.SEND, bytes(data), producer_id=1, sequence_id=8)
    refused(answer, ErrorCode.CHECKSUM_ERROR, "Checksum failed on the broker")
    assert (answer.producer_id, answer.sequence_id) == (1, 8)


def test_a_message_may_be_as_large_as_the_setting_and_no_larger() -> None:
    broker = Offline(max_message_bytes=1_000)
    client = broker.connect()
    client.produce()
    head = len(
        write_payload(messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=BEGUN_MS), b"")
    )
    assert receipts(client.publish(bytes(1_064 - head)))
    (answer,) = client.publish(bytes(1_065 - head))
    refused(answer.message, ErrorCode.NOT_ALLOWED_ERROR, "a message of 1,065 bytes")
    broker.close()


def test_memory_that_is_full_refuses_messages_until_some_were_consumed() -> None:
    broker = Offline(max_memory_bytes=1_000, entries_per_ledger=1)
    client = broker.connect()
    client.subscribe()
    client.produce()
    for sequence_id in range(2):
        assert receipts(client.publish(bytes(400), sequence_id))
    (answer,) = [each for each in client.publish(bytes(400), 2) if each.type == CommandType.SEND_ERROR]
    refused(answer.message, ErrorCode.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION, "max_memory_bytes is 1,000")
    refused(
        client.produce(producer_id=2),
        ErrorCode.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION,
        "bytes of messages",
    )
    client.ack((0, 0))
    assert client.produce(producer_id=2).producer_ready
    assert receipts(client.publish(bytes(400), 3))
    broker.close()


def test_duplicates_are_dropped_if_the_broker_or_the_namespace_deduplicates() -> None:
    broker = Offline(deduplication=True)
    client = broker.connect()
    assert client.produce(producer_name="p").last_sequence_id == -1
    assert receipts(client.publish(sequence_id=4)) == [(4, 0, 0)]
    none = 2**64 - 1
    assert receipts(client.publish(sequence_id=4)) == [(4, none, none)]
    assert receipts(client.publish(sequence_id=3)) == [(3, none, none)]
    assert receipts(client.publish(sequence_id=5)) == [(5, 0, 1)]
    # The sequence id of a batch is that of its last message.
    body = write_payload(messages.MessageMetadata(producer_name="p", sequence_id=6, publish_time=1), b"x")
    client.ask(CommandType.SEND, body, producer_id=1, sequence_id=6, highest_sequence_id=9)
    assert receipts(client.publish(sequence_id=9)) == [(9, none, none)]
    assert client.produce(producer_name="p").last_sequence_id == 9
    broker.state.set_policy("public/default", "deduplicationEnabled", False)
    assert receipts(client.publish(sequence_id=1)) == [(1, 0, 3)]
    assert client.produce(producer_name="p").last_sequence_id == -1
    broker.close()


def test_duplicates_are_recognized_after_a_topic_was_loaded_again() -> None:
    broker = Offline(deduplication=True)
    client = broker.connect()
    client.produce(producer_name="p")
    client.publish(sequence_id=4)
    assert broker.topics("PUT", "orders/unload") is None
    client.read()
    assert client.produce(producer_id=2, producer_name="p").last_sequence_id == 4
    none = 2**64 - 1
    assert receipts(client.publish(sequence_id=4, producer_id=2)) == [(4, none, none)]
    broker.close()


def test_no_duplicates_are_dropped_unless_asked_for(broker: Offline, client: Client) -> None:
    client.produce()
    assert receipts(client.publish(sequence_id=4) + client.publish(sequence_id=4)) == [(4, 0, 0), (4, 0, 1)]
    broker.state.set_policy("public/default", "deduplicationEnabled", True)
    client.publish(sequence_id=5)
    assert receipts(client.publish(sequence_id=5)) == [(5, 2**64 - 1, 2**64 - 1)]


def test_a_terminated_topic_takes_no_message_and_no_producer(broker: Offline, client: Client) -> None:
    client.produce()
    client.publish()
    client.subscribe(permits=0)
    ended = broker.topics("POST", "orders/terminate")
    assert (ended["ledgerId"], ended["entryId"], ended["partitionIndex"]) == (0, 0, -1)
    broker.run(client.connection.flush)
    assert CommandType.CLOSE_PRODUCER in [each.type for each in client.read()]
    refused(client.produce(producer_id=2), ErrorCode.TOPIC_TERMINATED_ERROR, f"{ORDERS} was terminated")


def test_the_subscription_that_a_producer_asks_for_begins_at_the_first_message(
    broker: Offline, client: Client
) -> None:
    client.produce()
    client.publish()
    client.produce(producer_id=2, initial_subscription_name="dead")
    made = broker.state.topics[ORDERS].subscriptions["dead"]
    assert (made.durable, made.cursor.backlog_entries, str(made.type)) == (True, 1, "Exclusive")
    client.produce(producer_id=3, initial_subscription_name="dead")
    assert broker.state.topics[ORDERS].subscriptions["dead"] is made


# Consumers


def test_a_subscription_begins_at_the_end_or_at_the_beginning(broker: Offline, client: Client) -> None:
    client.produce()
    for number in range(3):
        client.publish(sequence_id=number)
    client.subscribe("latest", 1, initialPosition=0)
    assert delivered(client.delivered) == []
    client.subscribe("earliest", 2, initialPosition=1)
    assert delivered(client.delivered) == [(0, 0), (0, 1), (0, 2)]
    assert broker.state.topics[ORDERS].subscriptions["latest"].cursor.backlog_entries == 0
    # An existing subscription keeps its position.
    client.ack((0, 0), consumer_id=2)
    client.ask(CommandType.CLOSE_CONSUMER, consumer_id=2, request_id=3)
    client.subscribe("earliest", 3, initialPosition=0)
    assert delivered(client.delivered) == [(0, 1), (0, 2)]


def test_a_reader_begins_at_its_message_and_leaves_nothing(broker: Offline, client: Client) -> None:
    client.produce()
    for number in range(3):
        client.publish(sequence_id=number)
    start = {"ledgerId": 0, "entryId": 1}
    client.subscribe("reader", durable=False, start_message_id=start)
    assert delivered(client.delivered) == [(0, 1), (0, 2)]
    topic = broker.state.topics[ORDERS]
    assert not topic.subscriptions["reader"].durable
    client.ask(CommandType.CLOSE_CONSUMER, consumer_id=1, request_id=3)
    assert topic.subscriptions == {}
    # A durable one begins at its initial position.
    client.subscribe("durable", 2, start_message_id=start, initialPosition=0)
    assert delivered(client.delivered) == []


def test_a_subscription_keeps_the_properties_of_its_first_consumer(broker: Offline, client: Client) -> None:
    client.subscribe(
        subscription_properties=[{"key": "team", "value": "a"}], metadata=[{"key": "pod", "value": "p1"}],
        priority_level=3,
    )  # fmt: skip
    client.subscribe(consumer_id=2, subscription_properties=[{"key": "team", "value": "b"}])
    made = broker.state.topics[ORDERS].subscriptions["s"]
    assert made.properties == {"team": "a"}
    first, second = made.consumers.values()
    assert (first.metadata, first.priority, first.name, first.connected_ms) == (
        {"pod": "p1"},
        3,
        "c1",
        BEGUN_MS,
    )
    assert (second.metadata, second.priority, second.name) == ({}, 0, "c2")
    assert first.key != second.key
    # A consumer id in use is a repeated command.
    assert client.subscribe(consumer_id=2, permits=0).type == CommandType.SUCCESS
    assert len(made.consumers) == 2


def test_a_consumer_without_a_name_gets_one(broker: Offline, client: Client) -> None:
    client.subscribe(consumer_name="")
    client.subscribe(consumer_id=2, consumer_name="")
    names = [each.name for each in broker.state.topics[ORDERS].subscriptions["s"].consumers.values()]
    assert names == ["standalone-0-0", "standalone-0-1"]


@pytest.mark.parametrize(("first", "second"), [(1, 0), (0, 1), (2, 3), (3, 1)])
def test_consumers_of_two_types_do_not_go_together(client: Client, first: int, second: int) -> None:
    client.subscribe(subType=first)
    answer = client.subscribe(consumer_id=2, subType=second)
    names = ["Exclusive", "Shared", "Failover", "Key_Shared"]
    refused(
        answer.message,
        ErrorCode.CONSUMER_BUSY,
        f"different type: {names[first]} has consumers, {names[second]} was requested",
    )
    assert 2 not in client.connection.consumers
    # Once the first is gone, the second decides.
    client.ask(CommandType.CLOSE_CONSUMER, consumer_id=1, request_id=3)
    assert client.subscribe(consumer_id=2, subType=second).type == CommandType.SUCCESS


def test_a_second_exclusive_consumer_is_refused(client: Client) -> None:
    client.subscribe(subType=0)
    refused(client.subscribe(consumer_id=2, subType=0).message, ErrorCode.CONSUMER_BUSY, "")


def test_key_shared_consumers_agree_on_who_chooses_the_hash_ranges(client: Client) -> None:
    def sticky(*ranges: tuple[int, int]) -> dict[str, Any]:
        meta = {"keySharedMode": 1, "hashRanges": [{"start": low, "end": high} for low, high in ranges]}
        return {"subType": 3, "keySharedMeta": meta}

    assert client.subscribe(**sticky((0, 32767))).type == CommandType.SUCCESS
    refused(
        client.subscribe(consumer_id=2, subType=3).message,
        ErrorCode.CONSUMER_BUSY,
        "different key-shared mode",
    )
    overlapping = client.subscribe(consumer_id=2, **sticky((32767, 40000))).message
    refused(overlapping, ErrorCode.CONSUMER_ASSIGN_ERROR, "")
    assert client.subscribe(consumer_id=3, **sticky((32768, 65535))).type == CommandType.SUCCESS


def test_an_unknown_subscription_type_closes_the_connection(client: Client) -> None:
    client.ask(
        CommandType.SUBSCRIBE, topic="orders", subscription="s", subType=4, consumer_id=1, request_id=1
    )
    assert client.connection.close_reason == "4 is not a subscription type; expected 0 to 3"


def test_permits_decide_how_many_messages_come(broker: Offline, client: Client) -> None:
    client.produce()
    client.subscribe(permits=2)
    got = delivered([each for number in range(4) for each in client.publish(sequence_id=number)])
    assert got == [(0, 0), (0, 1)]
    assert client.ask(CommandType.FLOW, consumer_id=1, messagePermits=0) == []
    assert client.ask(CommandType.FLOW, consumer_id=9, messagePermits=5) == []
    assert delivered(client.ask(CommandType.FLOW, consumer_id=1, messagePermits=1)) == [(0, 2)]
    assert broker.state.topics[ORDERS].subscriptions["s"].subscription.permits == 0
    client.ask(CommandType.FLOW, consumer_id=1, messagePermits=2**31 - 1)
    assert not client.wire.closed
    client.ask(CommandType.FLOW, consumer_id=1, messagePermits=2**31)
    assert client.connection.close_reason == "2147483648 permits; expected at most 2147483647"


def test_commands_of_an_unknown_consumer_are_refused(client: Client) -> None:
    for kind in (
        CommandType.UNSUBSCRIBE,
        CommandType.SEEK,
        CommandType.GET_LAST_MESSAGE_ID,
        CommandType.CONSUMER_STATS,
    ):
        answer = client.one(kind, consumer_id=5, request_id=6)
        refused(answer, ErrorCode.METADATA_ERROR, "Consumer not found")
        assert answer.request_id == 6
    assert client.one(CommandType.CLOSE_CONSUMER, consumer_id=5, request_id=6).request_id == 6


def test_a_subscription_is_deleted_by_its_only_consumer(broker: Offline, client: Client) -> None:
    client.subscribe()
    other = broker.connect()
    other.subscribe(consumer_id=4)
    refused(
        client.one(CommandType.UNSUBSCRIBE, consumer_id=1, request_id=6),
        ErrorCode.METADATA_ERROR,
        "Unconnected or shared consumer attempting to unsubscribe",
    )
    topic = broker.state.topics[ORDERS]
    assert len(topic.subscriptions["s"].consumers) == 2
    assert client.one(CommandType.UNSUBSCRIBE, consumer_id=1, request_id=6, force=True).request_id == 6
    broker.run(other.connection.flush)
    assert [each.type for each in other.read()] == [CommandType.CLOSE_CONSUMER]
    assert (topic.subscriptions, client.connection.consumers, other.connection.consumers) == ({}, {}, {})
    client.subscribe()
    assert len(client.ask(CommandType.UNSUBSCRIBE, consumer_id=1, request_id=6)) == 1
    assert topic.subscriptions == {}


def test_a_seek_closes_the_consumers_and_moves_the_cursor(broker: Offline, client: Client) -> None:
    client.produce()
    for number in range(4):
        client.publish(sequence_id=number, publish_time=1_000 + number)

    def after(**where: Any) -> list[tuple[int, int]]:
        client.subscribe()
        closed, done = client.ask(CommandType.SEEK, consumer_id=1, request_id=6, **where)
        assert (closed.type, closed.message.consumer_id) == (CommandType.CLOSE_CONSUMER, 1)
        assert (done.type, done.message.request_id) == (CommandType.SUCCESS, 6)
        client.subscribe()
        got = delivered(client.delivered)
        client.ask(CommandType.CLOSE_CONSUMER, consumer_id=1, request_id=3)
        return got

    everything = [(0, number) for number in range(4)]
    assert after(message_id={"ledgerId": 0, "entryId": 2}) == everything[2:]
    assert after(message_publish_time=1_001) == everything[1:]
    assert after(message_publish_time=1_004) == []
    assert after(message_publish_time=1) == everything
    latest = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}
    assert after(message_id=latest) == []
    earliest = {"ledgerId": 2**64 - 1, "entryId": 2**64 - 1}
    assert after(message_id=earliest) == everything
    client.subscribe()
    answer = client.one(CommandType.SEEK, consumer_id=1, request_id=6)
    refused(answer, ErrorCode.METADATA_ERROR, "Message id and message publish time were not present")


@pytest.mark.parametrize(("written", "lost"), [((0, 0), 0), ((0, 0, 0b100), 1)])
def test_a_crash_that_undoes_a_seek_loses_only_later_acknowledgments(
    broker: Offline, client: Client, written: tuple[int, ...], lost: int
) -> None:
    client.produce()
    client.subscribe()
    for _ in range(2):
        client.publish(num_messages_in_batch=3)
    client.ack(written)
    client.ack((0, 1))
    # The clock does not pass, so the broker writes neither the seek nor the acknowledgment after it.
    client.ask(CommandType.SEEK, consumer_id=1, request_id=6, message_id={"ledgerId": 0, "entryId": 0})
    client.subscribe()
    client.ack((0, 0, 0b011))
    cursor = broker.state.topics[ORDERS].subscriptions["s"].cursor
    assert dict(cursor.batch_deleted) == {(0, 0): (0b011,)}
    assert broker.state.reload("crash", "pulsar").messages == lost
    assert broker.state.topics[ORDERS].subscriptions["s"].cursor.is_acked(0, 0) == (lost == 0)


@pytest.mark.parametrize(
    ("batch", "written", "later", "lost"),
    [
        (3, (0, 0, 0b110), (0, 0), 2),
        (3, (0, 0, 0b110 | 1 << 40), (0, 0, 0b100), 1),
        (1, (0, 1), (0, 0, 0b1), 0),
    ],
)
def test_a_crash_loses_the_messages_that_were_acknowledged_since_the_last_write(
    broker: Offline, client: Client, batch: int, written: tuple[int, ...], later: tuple[int, ...], lost: int
) -> None:
    client.produce()
    client.subscribe()
    for _ in range(2):
        client.publish(num_messages_in_batch=batch)
    client.ack(written)
    # The range of the second entry is written at once, together with the ack set of the first entry.
    client.ack((0, 1))
    client.ack(later)
    assert broker.state.reload("crash", "pulsar").messages == lost


def test_the_last_message_is_named_with_the_consumer_s_position(broker: Offline, client: Client) -> None:
    client.subscribe()
    empty = client.one(CommandType.GET_LAST_MESSAGE_ID, consumer_id=1, request_id=6)
    assert empty.last_message_id.entryId == 2**64 - 1
    client.produce()
    client.publish()
    client.publish(num_messages_in_batch=3)
    client.ack((0, 0))
    answer = client.one(CommandType.GET_LAST_MESSAGE_ID, consumer_id=1, request_id=6)
    last, mark = answer.last_message_id, answer.consumer_mark_delete_position
    assert (last.ledgerId, last.entryId, last.batch_index, last.partition) == (0, 1, 2, -1)
    assert (mark.ledgerId, mark.entryId, answer.request_id) == (0, 0, 6)


def test_a_consumer_s_statistics_are_its_own(broker: Offline, client: Client) -> None:
    client.produce()
    client.publish()
    client.subscribe(permits=5)
    answer = client.one(CommandType.CONSUMER_STATS, consumer_id=1, request_id=6)
    assert (answer.request_id, answer.consumerName, answer.type) == (6, "c1", "Shared")
    assert (answer.availablePermits, answer.unackedMessages, answer.msgBacklog) == (4, 1, 1)
    assert (answer.address, answer.connectedSince) == ("/10.0.0.1:5000", str(BEGUN_MS))
    assert not answer.blockedConsumerOnUnackedMsgs
    assert answer.msgRateOut == answer.msgThroughputOut == answer.messageAckRate == 0


def test_a_delivery_has_its_redelivery_count_and_its_ack_set(broker: Offline, client: Client) -> None:
    client.produce()
    client.publish(b"one", num_messages_in_batch=3)
    client.subscribe()
    (first,) = client.delivered
    assert (first.message.redelivery_count, list(first.message.ack_set)) == (0, [])
    assert read_payload(client.payloads[0]).body == b"one"
    client.ack((0, 0, 0b110))
    (again,) = client.ask(
        CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES,
        consumer_id=1,
        message_ids=[{"ledgerId": 0, "entryId": 0}],
    )
    assert (again.message.redelivery_count, list(again.message.ack_set)) == (1, [0b110])
    assert not again.message.HasField("consumer_epoch")
    source = broker.state.topics[ORDERS].subscriptions["s"]
    assert (source.messages_out, source.bytes_out) == (5, 2 * len(client.payloads[0]))
    (consumer,) = source.consumers.values()
    assert (consumer.messages_out, consumer.redelivered, source.subscription.permits) == (5, 2, 95)
    assert consumer.messages_per_entry == 3


def test_all_unacknowledged_entries_of_a_consumer_are_redelivered(broker: Offline, client: Client) -> None:
    client.produce()
    client.subscribe(subType=0)
    for number in range(3):
        client.publish(sequence_id=number)
    client.ack((0, 1))
    again = CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES
    assert delivered(client.ask(again, consumer_id=1)) == [(0, 0), (0, 2)]
    assert delivered(client.ask(again, consumer_id=2)) == []
    # Ids that are not entries request nothing, not everything.
    assert client.ask(again, consumer_id=1, message_ids=[{"ledgerId": 0, "entryId": 2**64 - 1}]) == []
    assert [event.kind for event in broker.events() if event.kind in ("nack", "redeliver_unacked")] == [
        "redeliver_unacked"
    ]


def test_the_epoch_of_a_consumer_comes_back_with_its_messages(broker: Offline, client: Client) -> None:
    client.produce()
    client.publish()
    client.subscribe(subType=0, consumer_epoch=3)
    (first,) = [each for each in client.delivered if each.type == CommandType.MESSAGE]
    assert first.message.consumer_epoch == 3
    again = CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES
    for epoch, now in ((5, 5), (4, 5)):
        found = [each for each in client.ask(again, consumer_id=1, consumer_epoch=epoch) if each.message]
        assert {each.message.consumer_epoch for each in found if each.type == CommandType.MESSAGE} <= {now}
        (consumer,) = client.connection.consumers.values()
        assert consumer.epoch == now


def test_the_key_of_a_message_is_its_ordering_key_its_own_or_that_of_its_producer(
    broker: Offline, client: Client
) -> None:
    client.subscribe(subType=3)
    client.produce()
    keys: list[dict[str, Any]] = [
        {"ordering_key": b"order", "partition_key": "key"},
        {"partition_key": "key"},
        {"partition_key": base64.b64encode(b"bytes").decode(), "partition_key_b64_encoded": True},
        {},
    ]
    for number, metadata in enumerate(keys):
        client.publish(sequence_id=number, **metadata)
    entries = broker.state.topics[ORDERS].content.log.entries[0]
    found = [key_bytes(read_payload(entry.data).metadata) for entry in entries]
    assert found[:3] == [b"order", b"key", b"bytes"]
    assert found[3].startswith(b"p-")
    source = broker.state.topics[ORDERS].subscriptions["s"]
    assert [entry.key_hash for entry in entries] == [
        source.subscription.sticky_key_hash(key) for key in found
    ]


# Acknowledgments


def test_an_acknowledgment_is_answered_if_the_client_requests_it(broker: Offline, client: Client) -> None:
    client.produce()
    client.subscribe()
    client.publish()
    client.publish(sequence_id=1)
    assert client.ack((0, 0)) == []
    (answer,) = client.ack((0, 1), request_id=4)
    assert answer.type == CommandType.ACK_RESPONSE
    assert (answer.message.consumer_id, answer.message.request_id) == (1, 4)
    assert not answer.message.HasField("error")
    assert not answer.message.HasField("txnid_most_bits")
    cursor = broker.state.topics[ORDERS].subscriptions["s"].cursor
    assert cursor.backlog_entries == 0
    # Like a Pulsar broker, it ignores an invalid acknowledgment and answers with success.
    (answer,) = client.ack((7, 7), (0, 2**64 - 1), request_id=5)
    assert not answer.message.HasField("error")
    assert client.ack((0, 0), consumer_id=3, request_id=5) == []
    acks = [(event.ledger_id, event.entry_id) for event in broker.events() if event.kind == "ack"]
    assert acks == [(0, 0), (0, 1)]


def test_the_ids_of_an_acknowledgment_count_up_to_the_first_wrong_one(
    broker: Offline, client: Client
) -> None:
    client.produce()
    client.subscribe()
    for number in range(3):
        client.publish(sequence_id=number)
    client.ack((0, 1), (9, 9), (0, 2))
    assert str(broker.state.topics[ORDERS].subscriptions["s"].cursor.individually_deleted) == "[(0:0..0:1]]"


def test_bytes_that_are_no_acknowledgment_close_the_connection(client: Client) -> None:
    client.write(frame(b"\x08\x0a\x52\x02\xff\xff"))
    assert client.connection.close_reason.startswith("invalid CommandAck: ")


def transaction(client: Client, ttl_ms: int = 0) -> dict[str, Any]:
    answer = client.one(CommandType.NEW_TXN, request_id=2, txn_ttl_millis=ttl_ms, tc_id=0)
    assert answer.request_id == 2
    return {"txnid_most_bits": answer.txnid_most_bits, "txnid_least_bits": answer.txnid_least_bits}


def test_transactions_have_ids_that_never_come_again(client: Client) -> None:
    found = [transaction(client) for _ in range(3)]
    assert found == [{"txnid_most_bits": 0, "txnid_least_bits": number} for number in range(3)]
    answer = client.one(CommandType.TC_CLIENT_CONNECT_REQUEST, tc_id=0, request_id=8)
    assert (answer.request_id, answer.HasField("error")) == (8, False)


def end(
    client: Client, txn: dict[str, Any], action: TxnAction = TxnAction.COMMIT
) -> tuple[Any, list[DecodedCommand]]:
    commands = client.ask(CommandType.END_TXN, request_id=9, txn_action=action, **txn)
    (answer,) = [each.message for each in commands if each.type == CommandType.END_TXN_RESPONSE]
    assert answer.request_id == 9
    assert (answer.txnid_most_bits, answer.txnid_least_bits) == tuple(txn.values())
    return answer, commands


@pytest.mark.parametrize("action", [TxnAction.COMMIT, TxnAction.ABORT])
def test_messages_of_a_transaction_wait_for_its_end(
    broker: Offline, client: Client, action: TxnAction
) -> None:
    client.produce()
    client.subscribe()
    txn = transaction(client)
    add = client.one(CommandType.ADD_PARTITION_TO_TXN, request_id=3, partitions=["orders"], **txn)
    assert (add.request_id, add.HasField("error")) == (3, False)
    assert delivered(client.publish(**txn)) == []
    # Later messages are not delivered either.
    assert delivered(client.publish(sequence_id=1)) == []
    _, commands = end(client, txn, action)
    assert delivered(commands) == ([(0, 0), (0, 1)] if action is TxnAction.COMMIT else [(0, 1)])
    stats = broker.topics("GET", "orders/stats")
    assert (stats["ongoingTxnCount"], stats["committedTxnCount"], stats["abortedTxnCount"]) == (
        0,
        int(action is TxnAction.COMMIT),
        int(action is TxnAction.ABORT),
    )
    kinds = [event.kind for event in broker.events() if event.kind in ("commit", "abort")]
    assert kinds == [["commit", "abort"][action]]


@pytest.mark.parametrize("action", [TxnAction.COMMIT, TxnAction.ABORT])
def test_acknowledgments_in_a_transaction_take_effect_at_its_end(
    broker: Offline, client: Client, action: TxnAction
) -> None:
    client.produce()
    client.subscribe()
    client.publish()
    txn = transaction(client)
    client.one(
        CommandType.ADD_SUBSCRIPTION_TO_TXN,
        request_id=3,
        subscription=[{"topic": "orders", "subscription": "s"}],
        **txn,
    )
    (answer,) = client.ack((0, 0), request_id=4, **txn)
    assert (answer.message.txnid_most_bits, answer.message.txnid_least_bits) == tuple(txn.values())
    cursor = broker.state.topics[ORDERS].subscriptions["s"].cursor
    assert cursor.backlog_entries == 1
    end(client, txn, action)
    assert cursor.backlog_entries == int(action is TxnAction.ABORT)


def test_a_transaction_that_is_not_open_is_refused(broker: Offline, client: Client) -> None:
    client.produce()
    client.subscribe()
    client.publish()
    none: dict[str, Any] = {"txnid_most_bits": 0, "txnid_least_bits": 77}
    for kind, fields in (
        (CommandType.ADD_PARTITION_TO_TXN, {"partitions": ["orders"]}),
        (CommandType.ADD_SUBSCRIPTION_TO_TXN, {"subscription": [{"topic": "orders", "subscription": "s"}]}),
        (CommandType.END_TXN, {"txn_action": TxnAction.COMMIT}),
    ):
        answer = client.one(kind, request_id=3, **none, **fields)
        refused(answer, ErrorCode.TRANSACTION_NOT_FOUND, "transaction 0:77 is not open")
        assert answer.request_id == 3
    (answer,) = client.ack((0, 0), request_id=4, **none)
    refused(answer.message, ErrorCode.TRANSACTION_NOT_FOUND, "0:77")
    # A message that is published in it is never delivered and blocks nothing.
    assert delivered(client.publish(sequence_id=1, **none)) == []
    assert delivered(client.publish(sequence_id=2)) == [(0, 2)]
    client.ask(CommandType.END_TXN, request_id=3, txn_action=2, **transaction(client))
    assert client.wire.closed


def test_a_transaction_is_aborted_when_its_time_is_over(broker: Offline, client: Client) -> None:
    client.produce()
    client.subscribe()
    short, long = transaction(client, 1_000), transaction(client)
    for number, txn in enumerate((short, long)):
        client.one(CommandType.ADD_PARTITION_TO_TXN, request_id=3, partitions=["orders"], **txn)
        client.publish(sequence_id=number, **txn)
    broker.run(lambda: broker.clock.advance(999))
    assert len(broker.state.coordinator.open) == 2
    broker.run(lambda: broker.clock.advance(1))
    assert list(broker.state.coordinator.open) == ["0:1"]
    broker.run(lambda: broker.clock.advance(10**9))
    assert list(broker.state.coordinator.open) == ["0:1"]
    answer, _ = end(client, short)
    refused(answer, ErrorCode.TRANSACTION_NOT_FOUND, "0:0")


# Delays


def test_a_delayed_message_comes_at_its_time_and_not_before(broker: Offline, client: Client) -> None:
    client.produce()
    client.subscribe()
    now = broker.clock.now_ms()
    assert delivered(client.publish(deliver_at_time=now + 5_000)) == []
    assert delivered(client.publish(sequence_id=1)) == [(0, 1)]
    # The delay starts at the broker's clock; the client's clock may be slow.
    assert (
        delivered(client.publish(sequence_id=2, publish_time=now - 7_000, deliver_at_time=now - 4_000)) == []
    )
    broker.run(lambda: broker.clock.advance(2_999))
    assert delivered(client.read()) == []
    for ms, position in ((1_001, (0, 2)), (2_000, (0, 0))):
        broker.run(lambda ms=ms: broker.clock.advance(ms))  # type: ignore[misc]
        assert delivered(client.read()) == [position]


def test_the_tick_of_delays_is_a_policy_and_delays_no_message() -> None:
    broker = Offline(delayed_delivery_tick_ms=4_000)
    client = broker.connect()
    client.produce()
    client.subscribe()
    assert broker.topics("GET", "orders/delayedDelivery", applied="true")["tickTime"] == 4_000
    client.publish(deliver_at_time=broker.clock.now_ms() + 4_001)
    for ms, positions in ((4_000, []), (1, [(0, 0)])):
        broker.run(lambda ms=ms: broker.clock.advance(ms))  # type: ignore[misc]
        assert delivered(client.read()) == positions
    broker.close()


# Lists of topics


def listed(client: Client, **fields: Any) -> Any:
    asked: dict[str, Any] = {"namespace": "public/default", "mode": 0} | fields
    return client.one(CommandType.GET_TOPICS_OF_NAMESPACE, request_id=4, **asked)


def test_the_topics_of_a_namespace_are_listed_by_kind_and_pattern(broker: Offline, client: Client) -> None:
    for number, topic in enumerate(("b", "a", "non-persistent://public/default/c", "orders")):
        client.produce(topic, producer_id=number)
    names = {
        mode: [name.rpartition("/")[2] for name in listed(client, mode=mode).topics] for mode in range(3)
    }
    assert names == {0: ["a", "b", "orders"], 1: ["c"], 2: ["c", "a", "b", "orders"]}
    answer = listed(client)
    assert (answer.request_id, answer.filtered, answer.changed) == (4, False, True)
    matching = listed(client, topics_pattern="persistent://public/default/(a|o.*)")
    assert [name[-1] for name in matching.topics] == ["a", "s"]
    assert matching.filtered
    known = listed(client, topics_hash=answer.topics_hash)
    assert (list(known.topics), known.changed, known.topics_hash) == ([], False, answer.topics_hash)
    other = listed(client, topics_hash="other")
    assert (len(other.topics), other.changed) == (3, True)
    refused(listed(client, topics_pattern="("), ErrorCode.INVALID_TOPIC_NAME, "Invalid topics pattern: '('")
    assert list(listed(client, namespace="public/other").topics) == []


def test_a_watcher_is_notified_of_created_and_deleted_topics(broker: Offline, client: Client) -> None:
    client.produce("a1")
    watch: dict[str, Any] = {
        "request_id": 4,
        "watcher_id": 6,
        "namespace": "public/default",
        "topics_pattern": "persistent://public/default/a.*",
    }
    answer = client.one(CommandType.WATCH_TOPIC_LIST, **watch)
    assert (answer.request_id, answer.watcher_id) == (4, 6)
    assert list(answer.topic) == ["persistent://public/default/a1"]
    known = client.one(CommandType.WATCH_TOPIC_LIST, **watch, topics_hash=answer.topics_hash)
    assert (list(known.topic), known.topics_hash) == ([], answer.topics_hash)
    other = broker.connect()
    other.produce("b")
    broker.run(client.connection.flush)
    assert client.read() == []
    other.produce("a2", 2)
    broker.run(client.connection.flush)
    (update,) = client.read()
    assert (update.type, update.message.watcher_id) == (CommandType.WATCH_TOPIC_UPDATE, 6)
    assert list(update.message.new_topics) == ["persistent://public/default/a2"]
    assert list(update.message.deleted_topics) == []
    assert update.message.topics_hash not in ("", answer.topics_hash)
    other.hang_up()
    broker.topics("DELETE", "a2")
    broker.run(client.connection.flush)
    (update,) = client.read()
    assert list(update.message.deleted_topics) == ["persistent://public/default/a2"]
    assert (list(update.message.new_topics), update.message.topics_hash) == ([], answer.topics_hash)
    assert client.one(CommandType.WATCH_TOPIC_LIST_CLOSE, request_id=5, watcher_id=6).request_id == 5
    broker.topics("PUT", "a3")
    broker.run(client.connection.flush)
    assert client.read() == []
    client.one(CommandType.WATCH_TOPIC_LIST, **watch)
    client.hang_up()
    assert broker.state.watchers == {}


# Schemas


def schema(data: str = '"string"', type_: SchemaType = SchemaType.AVRO) -> dict[str, Any]:
    return {"name": "orders", "type": type_, "schema_data": data.encode()}


def test_a_schema_has_a_version_that_it_keeps(broker: Offline, client: Client) -> None:
    def put(**given: Any) -> Any:
        return client.one(
            CommandType.GET_OR_CREATE_SCHEMA, request_id=3, topic="orders", schema=schema(**given)
        )

    assert (put().schema_version, put().request_id) == (bytes(8), 3)
    assert put(data='["string", "int"]').error_code == ErrorCode.INCOMPATIBLE_SCHEMA
    assert put(data='"bytes"').schema_version == (1).to_bytes(8)
    assert put().schema_version == bytes(8)
    wrong = put(type_=SchemaType.JSON)
    assert (wrong.error_code, wrong.schema_version) == (ErrorCode.INCOMPATIBLE_SCHEMA, b"")
    assert wrong.error_message == "Incompatible schema: exists schema type AVRO, new schema type JSON"
    newest = client.one(CommandType.GET_SCHEMA, request_id=4, topic="orders-partition-3")
    assert (newest.request_id, newest.schema_version) == (4, (1).to_bytes(8))
    assert newest.schema.schema_data == b'"bytes"'
    first = client.one(CommandType.GET_SCHEMA, request_id=4, topic="orders", schema_version=bytes(8))
    assert first.schema.schema_data == b'"string"'
    for fields in ({"topic": "orders", "schema_version": (2).to_bytes(8)}, {"topic": "other"}):
        none = client.one(CommandType.GET_SCHEMA, request_id=4, **fields)
        assert (none.error_code, none.error_message) == (
            ErrorCode.TOPIC_NOT_FOUND,
            "Topic not found or no-schema",
        )
    nothing = put(type_=SchemaType.AUTO_CONSUME)
    assert (nothing.schema_version, nothing.HasField("error_code")) == (b"", False)


def test_producers_and_consumers_bring_schemas_that_must_fit(broker: Offline, client: Client) -> None:
    assert client.produce(schema=schema()).schema_version == bytes(8)
    refused(
        client.produce(producer_id=2, schema=schema('"int"')),
        ErrorCode.INCOMPATIBLE_SCHEMA,
        "the AVRO schema does not fit the topic's newest one",
    )
    answer = client.subscribe("other", schema=schema('"int"'))
    refused(answer.message, ErrorCode.INCOMPATIBLE_SCHEMA, "AVRO")
    # A refused consumer leaves nothing.
    assert broker.state.topics[ORDERS].subscriptions == {}
    assert sorted(client.connection.producers) == [1]
    broker.state.set_policy("public/default", "schema_compatibility_strategy", "ALWAYS_COMPATIBLE")
    assert client.produce(producer_id=2, schema=schema('"int"')).schema_version == (1).to_bytes(8)


# Faults and ends


def test_a_client_that_does_not_read_gets_nothing_until_it_does(broker: Offline, client: Client) -> None:
    client.subscribe()
    other = broker.connect()
    other.produce()
    broker.run(client.connection.pause_writing)
    assert client.wire.paused
    other.publish()
    broker.run(client.connection.flush)
    assert client.read() == []
    broker.run(client.connection.resume_writing)
    assert not client.wire.paused
    assert delivered(client.read()) == [(0, 0)]


def test_entries_of_a_disconnected_client_are_redelivered(broker: Offline, client: Client) -> None:
    client.produce()
    client.publish()
    client.subscribe()
    other = broker.connect()
    other.subscribe(consumer_id=2)
    assert delivered(other.delivered) == []
    client.hang_up()
    assert delivered(other.read()) == [(0, 0)]
    topic = broker.state.topics[ORDERS]
    assert (topic.producers.by_name, len(topic.subscriptions["s"].consumers)) == ({}, 1)
    assert client.connection not in broker.state.shared.connections


def test_a_bug_in_a_handler_breaks_one_connection_alone(
    broker: Offline, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    other = broker.connect()
    client.connection._handlers = {int(CommandType.PING): lambda *_: 1 // 0}  # type: ignore[dict-item]
    client.ask(CommandType.PING)
    assert (client.wire.closed, other.wire.closed) == (True, False)
    assert "ZeroDivisionError" in client.connection.close_reason
    assert "an error in the dev broker" in caplog.text
    assert other.ask(CommandType.PING)[0].type == CommandType.PONG


def test_the_active_consumer_is_notified() -> None:
    broker = Offline(failover_delay_ms=500)
    client, other = broker.connect(), broker.connect()

    def told(each: Client) -> list[tuple[int, bool]]:
        broker.run(each.connection.flush)
        changes = [one for one in each.read() if one.type == CommandType.ACTIVE_CONSUMER_CHANGE]
        return [(one.message.consumer_id, one.message.is_active) for one in changes]

    subscribe: dict[str, Any] = {"topic": "orders", "subscription": "s", "subType": 2, "request_id": 7}
    client.ask(CommandType.SUBSCRIBE, consumer_id=1, consumer_name="c", **subscribe)
    broker.run(lambda: broker.clock.advance(499))
    assert told(client) == []
    broker.run(lambda: broker.clock.advance(1))
    assert told(client) == [(1, True)]
    answers = other.ask(CommandType.SUBSCRIBE, consumer_id=2, consumer_name="b", **subscribe)
    assert [(one.message.consumer_id, one.message.is_active) for one in answers[1:]] == [(2, False)]
    client.hang_up()
    assert told(other) == []
    broker.run(lambda: broker.clock.advance(500))
    assert told(other) == [(2, True)]
    broker.close()


def test_a_service_without_rules_lets_everybody_in() -> None:
    service = Service("pulsar://a:1")
    assert service.authenticate("any", b"") is None
    assert (service.tls_url, service.admin_url) == (None, "")
