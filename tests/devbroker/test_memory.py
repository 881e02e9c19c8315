"""The memory limit: consumed messages give their memory back, and a full broker answers with an error."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.errors import ErrorCode
from ackwell.protocol.constants import CommandType
from tests.devbroker.raw import RawClient
from tests.recording.test_tls import certificate  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from pathlib import Path

    from tests.recording.test_tls import Certificate

pulsar = pytest.importorskip("pulsar")

SIZES = {10_000: 4 << 20, 100_000: 16 << 20, 1_000_000: 24 << 20, 5_000_000: 40 << 20}
"""Sizes of messages, each with a memory limit."""


ACKS_SENT_S = 0.12
"""The client groups acknowledgments for 100 ms."""


def exchange(client: Any, size: int, count: int, unacked_max: int) -> int:
    """Send and acknowledge messages one after the other; return the number of acknowledged messages."""
    consumer = client.subscribe("t", "s")
    producer = client.create_producer("t", send_timeout_millis=5_000)
    for number in range(count):
        if number % unacked_max == 0:
            time.sleep(ACKS_SENT_S)
        producer.send(b"x" * size)
        consumer.acknowledge(consumer.receive(5_000))
    return count


@pytest.mark.slow
@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("size", SIZES)
def test_acknowledged_messages_far_beyond_the_limit_are_never_refused(
    tmp_path: Path,
    size: int,
    *,
    is_tls: bool,
    certificate: Certificate,  # noqa: F811  # the fixture
) -> None:
    limit = SIZES[size]
    tls = certificate.server if is_tls else None
    with Broker(settings=DevBrokerSettings(max_memory_bytes=limit), tls=tls) as broker:
        client = pulsar.Client(
            broker.tls_url if is_tls else broker.url,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, str(tmp_path / "log")),
            tls_allow_insecure_connection=True,
        )
        done: list[int] = []
        count, unacked_max = 3 * limit // size, limit // 2 // size
        thread = threading.Thread(
            target=lambda: done.append(exchange(client, size, count, unacked_max)), daemon=True
        )
        thread.start()
        thread.join(30)
        assert done == [count]
        assert broker.call(lambda: broker._broker.state.shared.memory_bytes) <= limit
        client.close()


def test_a_full_broker_answers_large_messages_with_an_error_and_keeps_their_connections() -> None:
    limit = 8 << 20
    with Broker(settings=DevBrokerSettings(max_memory_bytes=limit)) as broker:
        state = broker._broker.state.shared
        with RawClient(broker) as client:
            client.subscribe("t", permits=0)
            client.produce("t")
            answers = [client.publish(number, bytes(3_000_000)) for number in range(5)]
            assert [hasattr(each, "error") for each in answers] == [False] * 2 + [True] * 3
            assert {each.error for each in answers[2:]} == {
                ErrorCode.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION
            }
            assert "max_memory_bytes is 8,388,608" in answers[-1].message
            assert broker.call(lambda: state.unfinished_bytes) == 0
            # Messages that fit are still stored, and acknowledgments on the same connection free the memory.
            assert not hasattr(client.publish(5, b"small"), "error")
            acked = [each.message_id for each in answers[:2]]
            client.send(CommandType.FLOW, consumer_id=1, messagePermits=10)
            client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=acked)
            assert not hasattr(client.publish(6, bytes(3_000_000)), "error")
        broker.validate()


def test_a_backlog_of_large_messages_is_not_queued_for_a_client_that_does_not_read() -> None:
    settings = DevBrokerSettings(max_pending_write_bytes=2 << 20)
    with Broker(settings=settings) as broker, RawClient(broker) as client, RawClient(broker) as reader:
        client.produce("t")
        for number in range(20):
            client.publish(number, bytes(2_000_000))
        reader.subscribe("t", permits=100)
        connections = broker._broker.state.shared.connections
        queued = [
            len(b"".join(each._out)) + each._transport.get_write_buffer_size()
            for each in connections
            if each._transport is not None
        ]
        assert sum(queued) < 10 << 20
        for _ in range(20):
            assert reader.until(CommandType.MESSAGE).message_id.entryId >= 0
