"""The admin REST API, as tests and the doctor use it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.stats import SubscriptionStats
from ackwell.cli import program
from ackwell.cluster.admin import Admin
from ackwell.cluster.endpoint import Endpoint
from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.diagnosis.delivery import delivery_of
from ackwell.protocol.constants import CommandType
from tests.devbroker.raw import RawClient

TOPIC = "persistent://public/default/orders"
PATH = "persistent/public/default/orders"


def call(broker: Broker, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{broker.admin_url}/admin/v2/{path}", data, method=method)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=5) as response:
        answer = response.read()
    return json.loads(answer) if answer else None


def status(broker: Broker, method: str, path: str, body: Any = None) -> int:
    with pytest.raises(urllib.error.HTTPError) as error:
        call(broker, method, path, body)
    return error.value.code


@pytest.fixture
def backlog(broker: Broker) -> Any:
    """A topic with ten messages that were delivered to a consumer."""
    with RawClient(broker) as client:
        client.subscribe("orders", consumer_name="worker")
        client.produce("orders")
        for number in range(10):
            client.publish(number, b"x")
        yield client


def positions(broker: Broker, subscription: str = "s") -> tuple[str, int]:
    cursor = call(broker, "GET", f"{PATH}/internalStats")["cursors"][subscription]
    stats = call(broker, "GET", f"{PATH}/stats")["subscriptions"][subscription]
    return cursor["markDeletePosition"], stats["msgBacklog"]


def test_answers_have_the_date_of_the_brokers_clock(broker: Broker) -> None:
    broker.clock.freeze()
    broker.clock.advance(hours=24)
    for path in ("clusters", "no/such/route"):
        try:
            answer = urllib.request.urlopen(f"{broker.admin_url}/admin/v2/{path}", timeout=5)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            date = parsedate_to_datetime(answer.headers["Date"])
        assert date.timestamp() == broker.clock.now_ms() // 1000


def test_topics_partitions_and_subscriptions_are_made_listed_and_deleted(broker: Broker) -> None:
    call(broker, "PUT", PATH)
    assert status(broker, "PUT", PATH) == 409
    call(broker, "PUT", "persistent/public/default/parts/partitions", 3)
    call(broker, "POST", "persistent/public/default/parts/partitions", 4)
    assert call(broker, "GET", "persistent/public/default/parts/partitions")["partitions"] == 4
    assert len(call(broker, "GET", "persistent/public/default")) == 5
    call(broker, "PUT", f"{PATH}/subscription/s", "earliest")
    assert call(broker, "GET", f"{PATH}/subscriptions") == ["s"]
    call(broker, "DELETE", f"{PATH}/subscription/s")
    call(broker, "DELETE", PATH)
    call(broker, "DELETE", "persistent/public/default/parts/partitions")
    assert call(broker, "GET", "persistent/public/default") == []
    assert status(broker, "GET", f"{PATH}/stats") == 404


def test_skip_seek_expire_and_clear_move_the_cursor(broker: Broker, backlog: RawClient) -> None:
    first, *_ = positions(broker)[0].split(":")
    call(broker, "POST", f"{PATH}/subscription/s/skip/3")
    assert positions(broker) == (f"{first}:2", 7)
    call(broker, "POST", f"{PATH}/subscription/s/resetcursor", {"ledgerId": int(first), "entryId": 1})
    assert positions(broker) == (f"{first}:0", 9)
    broker.clock.advance(hours=2)
    call(broker, "POST", f"{PATH}/subscription/s/expireMessages/3600")
    assert positions(broker) == (f"{first}:9", 0)
    call(broker, "POST", f"{PATH}/subscription/s/resetcursor/0")
    assert positions(broker)[1] == 10
    call(broker, "POST", f"{PATH}/subscription/s/skip_all")
    assert positions(broker) == (f"{first}:9", 0)
    broker.validate()


def test_policies_schemas_and_compaction_are_answered(broker: Broker, backlog: RawClient) -> None:
    call(broker, "POST", "namespaces/public/default/deduplication", True)
    assert call(broker, "GET", "namespaces/public/default")["deduplicationEnabled"] is True
    assert status(broker, "GET", "schemas/public/default/orders/schema") == 404
    call(broker, "POST", "schemas/public/default/orders/schema", {"type": "STRING", "schema": ""})
    assert call(broker, "GET", "schemas/public/default/orders/schema")["type"] == "STRING"
    assert call(broker, "GET", f"{PATH}/compaction")["status"] == "NOT_RUN"
    call(broker, "PUT", f"{PATH}/compaction")
    assert call(broker, "GET", f"{PATH}/compaction")["status"] == "SUCCESS"
    assert call(broker, "GET", f"{PATH}/lastMessageId")["entryId"] == 9
    call(broker, "POST", f"{PATH}/terminate")
    assert backlog.until(CommandType.CLOSE_PRODUCER).producer_id == 1
    backlog.send(CommandType.SEND, producer_id=1, sequence_id=10)  # sent before the client knew
    refused = backlog.ask(CommandType.PRODUCER, topic="orders", producer_id=1, request_id=9)
    assert refused.error == 15


def test_a_topic_that_is_unloaded_is_read_on(broker: Broker, backlog: RawClient) -> None:
    before = positions(broker)
    call(broker, "PUT", f"{PATH}/unload")
    assert positions(broker) == before
    assert len(call(broker, "GET", f"{PATH}/internalStats")["ledgers"]) == 2


def test_the_doctor_reads_the_broker_as_it_reads_any(
    broker: Broker, backlog: RawClient, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = Admin(Endpoint(url=broker.admin_url)).read()
    assert isinstance(found, SubscriptionStats)
    assert (found.topic, found.subscription, found.backlog_entries) == (TOPIC, "s", 10)
    arguments = ["doctor", "--admin", broker.admin_url]
    program(["doctor"])(arguments, standalone_mode=False)
    assert "orders" in capsys.readouterr().out


@pytest.mark.parametrize("version", ["4.0", "4.2", "5.0"])
def test_messages_that_wait_for_the_earlier_consumer_of_their_key_are_not_a_stall(version: str) -> None:
    """A consumer holds messages of 20 keys. Another one joins and gets no later message of its keys."""
    settings = DevBrokerSettings(version=version)
    with Broker(settings=settings) as broker, RawClient(broker) as client:
        client.subscribe("orders", consumer_name="a", subType=3)
        client.produce("orders")
        for number in range(20):
            client.publish(number, b"x", partition_key=f"k{number}")
        client.subscribe("orders", consumer_id=2, consumer_name="b", subType=3)
        for number in range(20, 40):
            client.publish(number, b"x", partition_key=f"k{number - 20}")
        shown = call(broker, "GET", f"{PATH}/stats")["subscriptions"]["s"]
        waiting = shown["msgInReplay"]
        assert 0 < waiting < 20
        names = ("drainingHashesCount", "drainingHashesUnackedMessages")
        assert {each["consumerName"]: [each[name] for name in names] for each in shown["consumers"]} == {
            "a": [waiting, waiting],
            "b": [0, 0],
        }
        assert [shown[name] for name in names] == [waiting, waiting]
        # On 5.0, each namespace also yields the refusal to list its scalable topics.
        read = Admin(Endpoint(url=broker.admin_url)).read()
        (now,) = (each for each in read if isinstance(each, SubscriptionStats) and each.topic == TOPIC)
        found = delivery_of(now, BrokerSettings.of(version), now, version=version)
        assert (found.code.code, found.consumer) == ("key-waits", "a")
        client.send(CommandType.CLOSE_CONSUMER, consumer_id=1, request_id=9)
        client.until(CommandType.SUCCESS)
        shown = call(broker, "GET", f"{PATH}/stats")["subscriptions"]["s"]
        assert [shown[name] for name in names] == [0, 0]


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "nonsense", None, 404),
        ("PUT", "persistent/public/default/parts/partitions", "many", 406),
        ("PUT", "persistent/public/default/parts/partitions", 10**9, 406),
        ("POST", f"{PATH}/subscription/s/skip/-1", None, 400),
        ("GET", "persistent/no/where/orders/stats", None, 404),
    ],
)
def test_impossible_arguments_are_refused(
    broker: Broker, method: str, path: str, body: Any, code: int
) -> None:
    call(broker, "PUT", PATH)
    call(broker, "PUT", f"{PATH}/subscription/s", "earliest")
    assert status(broker, method, path, body) == code
