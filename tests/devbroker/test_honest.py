"""The dev broker refuses unsupported features by name, and a refusal has no side effects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.errors import ErrorCode
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType, SchemaType
from ackwell.protocol.payload import write_payload
from ackwell.replay.events import Kind
from tests.devbroker.raw import RawClient
from tests.devbroker.test_transactions import delivered

NAMESPACE = "namespaces/public/default"
TOPIC = "persistent/public/default/t"


def status(broker: Broker, method: str, path: str, body: Any = None) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(f"{broker.admin_url}/admin/v2/{path}", data, method=method)) as answer:
            return answer.status, ""
    except HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize(
    ("policy", "value", "enforced"),
    [
        ("dispatchRate", {"dispatchThrottlingRateInMsg": 5}, True),
        ("replicatorDispatchRate", {"dispatchThrottlingRateInMsg": 5}, False),
        ("encryptionRequired", True, False),
        ("maxProducersPerTopic", 5, True),
        ("messageTTL", 5, True),
    ],
)
def test_a_policy_that_is_only_stored_says_so_in_a_header(
    broker: Broker, policy: str, value: object, enforced: bool
) -> None:
    for method, data in (("POST", json.dumps(value).encode()), ("GET", None)):
        request = Request(f"{broker.admin_url}/admin/v2/{NAMESPACE}/{policy}", data, method=method)
        with urlopen(request) as answer:
            assert answer.headers["X-Ackwell-Policy"] == (None if enforced else "stored only")


@pytest.mark.parametrize(
    ("super_users", "path", "header"),
    [
        (None, "permissions/role", "stored only"),
        (("admin",), "permissions/role", None),
        (("admin",), "permissions/subscription/s", "stored only"),
    ],
)
def test_a_permission_is_only_stored_if_none_is_checked(
    super_users: tuple[str, ...] | None, path: str, header: str | None
) -> None:
    with Broker(settings=DevBrokerSettings(super_users=super_users)) as broker:
        url = f"{broker.admin_url}/admin/v2/{NAMESPACE}/{path}"
        with urlopen(Request(url, b'["role"]', method="POST")) as answer:
            assert answer.headers["X-Ackwell-Policy"] == header


def test_a_policy_that_no_broker_has_is_refused(broker: Broker) -> None:
    for method in ("PUT", "POST"):
        assert status(broker, method, f"{NAMESPACE}/nonsense", 5)[0] == 405


def test_the_backlog_of_a_namespace_is_cleared_and_its_topics_are_unloaded(broker: Broker) -> None:
    with RawClient(broker) as client:
        client.subscribe("t", permits=0)
        client.produce("t")
        client.publish(0, b"x")
        assert status(broker, "POST", f"{NAMESPACE}/clearBacklog/other")[0] == 204
        (source,) = broker._broker.state.subscriptions()
        assert source.cursor.backlog_entries == 1
        assert status(broker, "POST", f"{NAMESPACE}/clearBacklog")[0] == 204
        assert source.cursor.backlog_entries == 0
        assert status(broker, "PUT", f"{NAMESPACE}/unload")[0] == 204
        client.until(CommandType.CLOSE_CONSUMER)
        broker.validate()


def test_a_consumer_that_is_refused_for_its_schema_leaves_no_subscription(broker: Broker) -> None:
    with RawClient(broker) as client:
        for number, kind in enumerate((SchemaType.STRING, SchemaType.INT32)):
            answer = client.ask(
                CommandType.SUBSCRIBE,
                topic="t",
                subscription=f"s{number}",
                subType=1,
                consumer_id=number,
                request_id=number,
                schema=messages.Schema(name="t", type=kind, schema_data=b""),
            )
        assert answer.error == ErrorCode.INCOMPATIBLE_SCHEMA
    assert [each.name for each in broker._broker.state.subscriptions()] == ["s0"]


def test_a_message_is_not_delivered_before_its_time(broker: Broker) -> None:
    broker.clock.freeze()
    with RawClient(broker) as client:
        client.subscribe("t")
        client.produce("t")
        client.publish(0, b"x", deliver_at_time=60_001)
        broker.clock.advance(59_900)
        assert delivered(client) == []
        broker.clock.advance(1_100)
        assert delivered(client) == [0]


def test_a_delay_of_failover_ends_with_the_type(broker: Broker) -> None:
    broker.clock.freeze()
    with RawClient(broker) as client:
        client.produce("t")
        client.subscribe("t", subType=2)
        client.send(CommandType.CLOSE_CONSUMER, consumer_id=1, request_id=3)
        client.subscribe("t", 2, subType=1)
        client.publish(0, b"x")
        assert delivered(client) == [0]


@pytest.mark.parametrize("version", ["9.9", "4.1.x", "four"])
def test_a_version_without_presets_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match=version):
        DevBrokerSettings(version=version)


@pytest.mark.parametrize("ms", [-1, 10**19])
def test_time_goes_neither_back_nor_beyond_the_calendar(broker: Broker, ms: int) -> None:
    with pytest.raises(ValueError, match=f"advance by {ms} ms"):
        broker.clock.advance(ms)


def test_settle_raises_timeout_error(broker: Broker) -> None:
    with RawClient(broker), pytest.raises(TimeoutError, match=r"still sending commands after 0\.01 s"):
        broker.settle(0.01)


def test_a_message_id_beyond_64_bits_is_refused(broker: Broker) -> None:
    with RawClient(broker) as client:
        client.subscribe("t")
    wanted = {"ledgerId": 2**70, "entryId": 0}
    assert status(broker, "POST", f"{TOPIC}/subscription/s/resetcursor", wanted)[0] == 400


@pytest.mark.slow
def test_acknowledged_messages_take_no_memory() -> None:
    with Broker(settings=DevBrokerSettings(max_memory_bytes=50_000)) as broker, RawClient(broker) as client:
        client.subscribe("t", permits=1000)
        client.produce("t")
        for number in range(30):
            position = client.publish(number, b"x" * 10_000).message_id
            client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[position])
        assert broker._broker.state.shared.memory_bytes <= 50_000
        broker.validate()


def test_a_refused_message_is_not_a_duplicate() -> None:
    settings = DevBrokerSettings(max_memory_bytes=5_000, deduplication=True)
    with Broker(settings=settings) as broker, RawClient(broker) as client:
        client.subscribe("t", permits=0)
        client.produce("t")
        for number in range(6):
            answer = client.publish(number, b"x" * 1_000)
        assert answer.error == ErrorCode.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION
        assert "max_memory_bytes" in answer.message
        again = client.publish(5, b"x" * 1_000)
        assert again.error == ErrorCode.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {"publish_time": 2**64 - 1},
        {"publish_time": 2**63, "deliver_at_time": 5},
        {"publish_time": 1, "deliver_at_time": 2**63 - 1},
        {"publish_time": 1, "deliver_at_time": -(2**63)},
        {"publish_time": 1, "event_time": 2**64 - 1},
        {"publish_time": 1, "num_messages_in_batch": -5},
        {"publish_time": 1, "num_messages_in_batch": 2**31 - 1},
    ],
)
def test_no_number_in_a_message_stops_its_topic(tmp_path: Path, kept: bool, fields: dict[str, int]) -> None:
    with Broker(path=tmp_path / "broker.db" if kept else None) as broker, RawClient(broker) as client:
        client.subscribe("t")
        client.produce("t")
        about = messages.MessageMetadata(producer_name="p", sequence_id=2**64 - 1, **fields)
        numbers = {"sequence_id": 2**64 - 1, "highest_sequence_id": 2**64 - 1, "num_messages": 1}
        client.send(CommandType.SEND, write_payload(about, b"x"), producer_id=1, **numbers)
        answers = {CommandType.SEND_RECEIPT, CommandType.SEND_ERROR}
        assert client.receive().type in answers
        for path in ("examinemessage?initialPosition=earliest", "internalStats", "stats", "lastMessageId"):
            assert status(broker, "GET", f"{TOPIC}/{path}")[0] != 500
        client.publish(1, b"the next")
        broker.validate()
    kinds = [event.kind for event in broker.events]
    assert kinds.count(Kind.DISPATCH) in (1, 2)
