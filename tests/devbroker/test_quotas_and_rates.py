"""Backlog quotas, and rates of messages by the broker's clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ackwell.devbroker.cursor_writes import RateLimit
from ackwell.devbroker.throttle import Throttle
from ackwell.errors import ErrorCode
from ackwell.integers import INT64_MAX
from ackwell.protocol.constants import CommandType
from tests.devbroker.offline import BEGUN_MS, ORDERS, Client, Offline

SPACE = "admin/v2/namespaces/public/default"
CHECK_MS = 60_000


@pytest.fixture
def broker() -> Iterator[Offline]:
    made = Offline()
    # The periodic checks begin at the frozen time.
    made.run(made.state.reset)
    yield made
    made.close()


def backlog(broker: Offline) -> int:
    return int(broker.topics("GET", "orders/stats")["subscriptions"]["s"]["msgBacklog"])


def with_backlog(broker: Offline, entries: int = 10, **settings: Any) -> Client:
    """Return a client with a producer, and a subscription with a backlog of 1,000 bytes per entry."""
    client = broker.connect()
    client.subscribe(permits=0)
    client.produce()
    for number in range(entries):
        client.publish(b"x" * 960, number)
    assert 950 <= broker.topics("GET", "orders/stats")["storageSize"] / entries <= 1_050
    return client


def set_quota(broker: Offline, kind: str = "destination_storage", **quota: Any) -> None:
    assert broker.admin("POST", f"{SPACE}/backlogQuota", quota, backlogQuotaType=kind) is None


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        ("producer_request_hold", ErrorCode.PRODUCER_BLOCKED_QUOTA_EXCEEDED_ERROR),
        ("producer_exception", ErrorCode.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION),
    ],
)
def test_a_full_backlog_closes_producers_and_refuses_new_ones(
    broker: Offline, policy: str, error: ErrorCode
) -> None:
    client = with_backlog(broker)
    set_quota(broker, limitSize="8000", policy=policy)
    # An open producer may send until the next check.
    assert client.publish(b"x", 20)[0].type == CommandType.SEND_RECEIPT
    broker.run(lambda: broker.clock.advance(CHECK_MS))
    assert [each.type for each in client.read()] == [CommandType.CLOSE_PRODUCER]
    assert client.produce(producer_id=2).error == error
    broker.topics("POST", "orders/subscription/s/skip/5")
    assert client.produce(producer_id=2).producer_ready


def test_a_quota_of_a_topic_has_priority_and_no_quota_has_no_effect(broker: Offline) -> None:
    client = with_backlog(broker)
    set_quota(broker, limitSize=1, policy="producer_exception")
    broker.topics("POST", "orders/backlogQuota", {"limitSize": -1, "policy": "producer_exception"})
    broker.admin("GET", "admin/v2/brokers/backlog-quota-check")
    assert client.read() == []
    broker.topics("DELETE", "orders/backlogQuota")
    broker.admin("GET", "admin/v2/brokers/backlog-quota-check")
    assert [each.type for each in client.read()] == [CommandType.CLOSE_PRODUCER]


def test_an_eviction_reduces_the_backlog_of_the_slowest_subscription_below_nine_tenths(
    broker: Offline,
) -> None:
    client = with_backlog(broker, 100)
    client.subscribe("other", consumer_id=2, permits=0)
    broker.topics("POST", "orders/subscription/other/skip/95")
    set_quota(broker, limitSize=20_000, policy="consumer_backlog_eviction")
    broker.admin("GET", "admin/v2/brokers/backlog-quota-check")
    assert 17 <= backlog(broker) <= 19
    described = broker.topics("GET", "orders/stats")["subscriptions"]
    assert described["other"]["msgBacklog"] == 5
    assert client.publish(b"x", 200)[0].type == CommandType.SEND_RECEIPT


def test_an_age_counts_from_the_end_of_a_ledger(broker: Offline) -> None:
    client = with_backlog(broker)
    set_quota(broker, "message_age", limitTime=3_600, policy="consumer_backlog_eviction")
    broker.run(lambda: broker.clock.advance(hours=2))
    assert backlog(broker) == 10
    broker.state.topics[ORDERS].content.log.roll()
    client.publish(b"x", 50)
    broker.run(lambda: broker.clock.advance(hours=0.5))
    assert backlog(broker) == 11
    broker.run(lambda: broker.clock.advance(hours=1))
    assert backlog(broker) == 1


@pytest.mark.parametrize(
    "value", [{"limitSize": "x"}, {"limitTime": True}, {"limitSize": 1.5}, {"limit": []}]
)
def test_a_quota_with_a_limit_that_is_not_a_number_is_refused(broker: Offline, value: Any) -> None:
    body = value | {"policy": "producer_exception"}
    assert broker.admin("POST", f"{SPACE}/backlogQuota", body)[0] == 400


def test_a_quota_of_the_policies_of_a_new_namespace_is_enforced(broker: Offline) -> None:
    """Older clients name the size `limit` there, too."""
    quota = {"limit": 1, "policy": "producer_exception"}
    policies = {"backlog_quota_map": {"destination_storage": quota}}
    assert broker.admin("PUT", "admin/v2/namespaces/public/live", policies) is None
    client, topic = broker.connect(), "persistent://public/live/orders"
    client.subscribe(topic=topic, permits=0)
    client.produce(topic)
    client.publish(b"x")
    broker.admin("GET", "admin/v2/brokers/backlog-quota-check")
    assert [each.type for each in client.read()] == [CommandType.CLOSE_PRODUCER]


# Rates


def numbers(client: Client) -> list[int]:
    return [each.message.message_id.entryId for each in client.read() if each.type == CommandType.MESSAGE]


@pytest.mark.parametrize(
    "path", ["orders/dispatchRate", "orders/subscriptionDispatchRate", "orders/s/dispatchRate"]
)
def test_messages_are_dispatched_at_a_rate_by_the_clock(broker: Offline, path: str) -> None:
    client = with_backlog(broker)
    broker.topics("POST", path, {"dispatchThrottlingRateInMsg": 4, "ratePeriodInSecond": 2})
    given = client.ask(CommandType.FLOW, consumer_id=1, messagePermits=100)
    assert len(given) == 4
    broker.run(lambda: broker.clock.advance(999))
    assert numbers(client) == [4]
    broker.topics("DELETE", path)
    assert numbers(client) == [5, 6, 7, 8, 9]


def test_a_rate_of_one_subscription_that_is_not_a_rate_is_refused(broker: Offline) -> None:
    with_backlog(broker)
    status, why = broker.topics("POST", "orders/s/dispatchRate", 5)
    assert (status, "subscriptionDispatchRate: 5" in why) == (400, True)


def test_a_dispatch_rate_permits_one_period_at_once_and_then_grows(broker: Offline) -> None:
    client = with_backlog(broker)
    broker.admin("POST", f"{SPACE}/dispatchRate", {"dispatchThrottlingRateInMsg": 4})
    client.write(b"")
    given = client.ask(CommandType.FLOW, consumer_id=1, messagePermits=100)
    assert [each.message.message_id.entryId for each in given] == [0, 1, 2, 3]
    broker.run(lambda: broker.clock.advance(500))
    assert numbers(client) == [4, 5]
    broker.run(lambda: broker.clock.advance(10_000))
    assert numbers(client) == [6, 7, 8, 9]
    broker.admin("DELETE", f"{SPACE}/dispatchRate")
    for number in range(20, 30):
        client.publish(b"x", number)
    assert backlog(broker) == 20


def test_a_byte_rate_sends_an_entry_that_is_larger_than_the_permits(broker: Offline) -> None:
    client = with_backlog(broker)
    broker.admin("POST", f"{SPACE}/subscriptionDispatchRate", {"dispatchThrottlingRateInByte": 500})
    given = client.ask(CommandType.FLOW, consumer_id=1, messagePermits=100)
    assert len(given) == 1
    broker.run(lambda: broker.clock.advance(900))
    assert numbers(client) == []
    broker.run(lambda: broker.clock.advance(200))
    assert numbers(client) == [1]


def test_a_client_above_the_publish_rate_is_not_read_until_it_may_send_again(broker: Offline) -> None:
    client = broker.connect()
    client.produce()
    broker.admin("POST", f"{SPACE}/publishRate", {"publishThrottlingRateInMsg": 3})
    for number in range(3):
        assert not client.wire.paused
        client.publish(b"x", number)
    assert client.wire.paused
    broker.run(lambda: broker.clock.advance(300))
    assert client.wire.paused
    broker.run(lambda: broker.clock.advance(100))
    assert not client.wire.paused
    client.publish(b"x", 5)
    client.publish(b"x", 6)
    assert client.wire.paused
    # Output that the client does not read is another reason to pause.
    broker.run(client.connection.pause_writing)
    broker.run(lambda: broker.clock.advance(10_000))
    assert client.wire.paused
    broker.run(client.connection.resume_writing)
    assert not client.wire.paused


def test_a_throttle_grows_to_one_period_and_may_be_in_debt(broker: Offline) -> None:
    assert Throttle.of(broker.clock, None) is None
    assert Throttle.of(broker.clock, {"publishThrottlingRateInMsg": 0}) is None
    throttle = Throttle(broker.clock, (10, -1), 2_000)
    assert throttle.permits() == (10, INT64_MAX)
    throttle.use(15, 1_000_000)
    assert throttle.permits() == (0, INT64_MAX)
    assert throttle.ready_ms() == BEGUN_MS + 1_200
    broker.run(lambda: broker.clock.advance(1_200))
    assert throttle.permits() == (1, INT64_MAX)
    broker.run(lambda: broker.clock.advance(60_000))
    assert throttle.permits() == (10, INT64_MAX)


@pytest.mark.parametrize(("rate", "writes"), [(0.0, 100), (0.1, 1), (1.0, 10), (5.0, 50)])
def test_a_cursor_is_written_at_the_rate_of_the_persistence_policy(rate: float, writes: int) -> None:
    limit = RateLimit(0, rate)
    assert sum(limit.allows(now_ms) for now_ms in range(0, 10_000, 100)) == writes


def test_a_persistence_policy_sets_the_rate_of_cursor_writes(broker: Offline) -> None:
    client = with_backlog(broker)
    quorums = {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 1, "bookkeeperAckQuorum": 1}
    broker.topics("POST", "orders/persistence", quorums | {"managedLedgerMaxMarkDeleteRate": 0})
    client.ask(CommandType.FLOW, consumer_id=1, messagePermits=100)
    writes = broker.state.topics[ORDERS].subscriptions["s"].cursor_writes
    for entry in range(5):
        client.ack((0, entry))
        assert writes.written.mark_delete_position == (0, entry)
